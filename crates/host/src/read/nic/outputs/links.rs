//! What `ip -d link` prints: a numbered line for each interface, and its details in the lines below.

use serde_json::{Map, Value};

/// One interface.
struct Link<'t> {
    name: &'t str,
    /// What it is stacked on; of a virtual cable the other end.
    below: Option<&'t str>,
    flags: Vec<&'t str>,
    /// The words behind the flags: names and values in turn.
    words: Vec<&'t str>,
    details: Vec<&'t str>,
}

/// Words that begin lines of details and are no kind of interface.
const NO_KINDS: [&str; 7] = ["vf", "altname", "alias", "inet", "inet6", "valid_lft", "parentbus"];
/// Interfaces of this kind are next to each other, not one above the other.
const CABLE: &str = "veth";

/// The fields of the link's description, and those that files in its directory in sysfs have.
pub(super) fn link(text: &str, name: &str) -> Option<Map<String, Value>> {
    let links = links(text);
    let link = links.iter().find(|link| link.name == name)?;
    let mut fields = Map::new();
    for (key, word) in [("mtu", "mtu"), ("tx-queue-length", "qlen")] {
        fields.extend(number(link.value(word)).map(|number| (key.to_owned(), number)));
    }
    for (key, word) in [("rx-queues", "numrxqueues"), ("tx-queues", "numtxqueues")] {
        fields.extend(number(link.detail(word)).map(|number| (key.to_owned(), number)));
    }
    let mut add = |key: &str, value: Option<&str>| {
        fields.extend(value.map(|value| (key.to_owned(), Value::from(value.to_ascii_lowercase()))));
    };
    add("qdisc", link.value("qdisc"));
    add("kind", link.kind());
    add("operstate", link.value("state"));
    let has = |flag: &str| link.flags.contains(&flag);
    // The kernel refuses to read the file while the interface is down.
    add("carrier", has("UP").then(|| if has("LOWER_UP") { "1" } else { "0" }));
    Some(fields)
}

/// The interfaces above and below this one.
pub(super) fn neighbours(text: &str, name: &str) -> Option<(Vec<String>, Vec<String>)> {
    let links = links(text);
    let link = links.iter().find(|link| link.name == name)?;
    let owned = |name: &str| name.to_owned();
    let on_it = links.iter().filter(|other| other.lower() == Some(name)).map(|other| owned(other.name));
    let parts = links.iter().filter(|other| other.value("master") == Some(name)).map(|other| owned(other.name));
    let above = link.value("master").map(owned).into_iter().chain(on_it).collect();
    let below = link.lower().map(owned).into_iter().chain(parts).collect();
    Some((above, below))
}

fn number(text: Option<&str>) -> Option<Value> {
    text?.parse::<u32>().ok().map(Value::from)
}

fn links(text: &str) -> Vec<Link<'_>> {
    let mut links: Vec<Link<'_>> = Vec::new();
    for line in text.lines() {
        if line.starts_with([' ', '\t']) {
            if let Some(link) = links.last_mut() {
                link.details.push(line.trim());
            }
        } else {
            links.extend(head(line));
        }
    }
    links
}

/// `3: eth0.5@eth0: <BROADCAST,UP,LOWER_UP> mtu 1500 qdisc noqueue master br0 state UP ...`
fn head(line: &str) -> Option<Link<'_>> {
    let (number, rest) = line.split_once(": ")?;
    number.parse::<u32>().ok()?;
    let (name, rest) = rest.split_once(": <")?;
    let (flags, rest) = rest.split_once('>')?;
    let (name, below) = name.split_once('@').map_or((name, None), |(name, below)| (name, Some(below)));
    let words = rest.split_whitespace().collect();
    Some(Link { name, below, flags: flags.split(',').collect(), words, details: Vec::new() })
}

impl<'t> Link<'t> {
    fn value(&self, word: &str) -> Option<&'t str> {
        self.words.chunks_exact(2).find(|pair| pair[0] == word).map(|pair| pair[1])
    }

    fn detail(&self, word: &str) -> Option<&'t str> {
        let mut words = self.details.iter().flat_map(|line| line.split_whitespace());
        words.find(|found| *found == word)?;
        words.next()
    }

    /// A virtual interface has a line that begins with its kind.
    fn kind(&self) -> Option<&'t str> {
        let is_kind = |word: &&str| {
            let is_word = word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
            is_word && !word.ends_with("_slave") && !NO_KINDS.contains(word)
        };
        let own = self.details.iter().take_while(|line| !line.starts_with("RX:"));
        own.filter_map(|line| line.split_whitespace().next()).find(is_kind)
    }

    fn lower(&self) -> Option<&'t str> {
        // `@NONE`, or `@if7` where it is in another network namespace, which sysfs does not show either.
        let is_elsewhere = |name: &str| name.strip_prefix("if").is_some_and(|number| number.parse::<u32>().is_ok());
        self.below.filter(|name| self.kind() != Some(CABLE) && *name != "NONE" && !is_elsewhere(name))
    }
}
