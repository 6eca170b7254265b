//! What the kernel answers about an interface, as a recording in the tree has it.

use toml::{Table, Value};

use super::description::{KernelKeys, NicKeys};
use super::tree::Tree;
use super::{HostTreeError, over};

/// What every driver of these hosts is asked and some have no answer to.
const QUESTIONS: [&str; 24] = [
    "driver",
    "link",
    "link-settings",
    "rings",
    "rings-netlink",
    "channels",
    "coalesce",
    "coalesce-netlink",
    "features",
    "pause",
    "private-flags",
    "flow-rules",
    "dcb",
    "ena",
    "eee",
    "fec",
    "wake-on-lan",
    "timestamping",
    "rss-hash",
    "rss-table",
    "module",
    "module-netlink",
    "napi",
    "netdev",
];

/// Places of a table by which a hash chooses queues.
const RSS_PLACES: u32 = 128;

/// Writes the recording of each interface that has answers. What its description leaves out its
/// driver does not have.
pub(super) fn files(nics: &[NicKeys], kernel: &KernelKeys, tree: &mut Tree) -> Result<(), HostTreeError> {
    for nic in nics {
        let own = match &nic.answers_of {
            Some(name) => match nics.iter().find(|other| other.name == *name) {
                Some(other) => other.answers.as_ref(),
                None => {
                    let reason = format!("{}: answers_of names {name}, which is none of the interfaces", nic.name);
                    return Err(HostTreeError::Contradiction { reason });
                }
            },
            None => nic.answers.as_ref(),
        };
        let Some(own) = own else { continue };
        let mut answers = over(of_keys(nic, kernel), own.clone());
        if answers.contains_key("rss-hash") {
            // As drivers fill it.
            let queues = (0..RSS_PLACES).map(|place| Value::from(place % nic.rx_queues.max(1)));
            let table = Table::from_iter([of("queues", queues.collect::<Vec<_>>())]);
            answers.entry("rss-table").or_insert(Value::Table(table));
        }
        for question in QUESTIONS {
            if !answers.contains_key(question) {
                answers.insert(question.to_owned(), Value::Table(Table::from_iter([of("unsupported", true)])));
            }
        }
        // A table of plain values can always be written.
        let text = serde_json::to_string_pretty(&answers).unwrap_or_default();
        tree.text(&format!("/nearwire/interfaces/{}.json", nic.name), text);
    }
    Ok(())
}

/// What follows from the other keys of the description.
fn of_keys(nic: &NicKeys, kernel: &KernelKeys) -> Table {
    let bus_info = nic.pci.last().map_or("", String::as_str);
    let driver = [
        of("driver", nic.driver.as_str()),
        // Drivers of the kernel have its version.
        of("version", kernel.release.as_str()),
        of("bus-info", bus_info),
    ];
    let link = [
        of("mtu", i64::from(nic.mtu_bytes)),
        of("tx-queue-length", 1000),
        of("rx-queues", i64::from(nic.rx_queues)),
        of("tx-queues", i64::from(nic.tx_queues)),
        of("qdisc", if nic.tx_queues > 1 { "mq" } else { "fq_codel" }),
    ];
    let settings = [of("speed-mbps", i64::from(nic.speed_mbps)), of("duplex", "full")];
    let table =
        |name: &str, fields: Vec<(String, Value)>| (name.to_owned(), Value::Table(fields.into_iter().collect()));
    Table::from_iter([
        table("driver", driver.into()),
        table("link", link.into()),
        table("link-settings", settings.into()),
    ])
}

fn of(key: &str, value: impl Into<Value>) -> (String, Value) {
    (key.to_owned(), value.into())
}
