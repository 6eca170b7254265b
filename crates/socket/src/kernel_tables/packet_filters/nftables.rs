//! Base chains of nftables. Source: `include/uapi/linux/netfilter/nf_tables.h`, `net/netfilter/nf_tables_api.c`
//! (`nf_tables_fill_chain_info`).

use std::io;

use nearwire_sys::netlink::is_module_absent;
use nearwire_sys::netlink::message::{Attributes, Message};

use super::PacketFilter;
use super::netlink::dump;

const NFNL_SUBSYS_NFTABLES: u16 = 10;
const NFT_MSG_GETCHAIN: u16 = 4;
/// `struct nfgenmsg`: family, version, and a number of 16 bits.
const HEADER_BYTES: usize = 4;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_POLICY: u16 = 5;
const NFTA_CHAIN_USE: u16 = 6;
const NFTA_HOOK_HOOKNUM: u16 = 1;
const NF_DROP: u32 = 0;

/// Families whose chains see IP packets of this host (`NFPROTO_*`), and their hooks by number; not those of packets that are
/// passed on.
const FAMILIES: [(u8, &str, &[Option<&str>]); 4] = [
    (1, "inet", &IP_HOOKS),
    (2, "ip", &IP_HOOKS),
    (10, "ip6", &IP_HOOKS),
    (5, "netdev", &[Some("ingress"), Some("egress")]),
];
const IP_HOOKS: [Option<&str>; 6] =
    [Some("prerouting"), Some("input"), None, Some("output"), Some("postrouting"), Some("ingress")];

pub(super) fn read() -> io::Result<Vec<PacketFilter>> {
    let mut found = Vec::new();
    if is_module_absent("nf_tables") {
        return Ok(found);
    }
    let kind = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETCHAIN;
    dump(Some(rustix::net::netlink::NETFILTER), kind, &[0; HEADER_BYTES], |message| found.extend(chain(message)))?;
    Ok(found)
}

/// A base chain that could do something.
fn chain(message: &Message<'_>) -> Option<PacketFilter> {
    let family = *message.payload.first()?;
    let (_, family, hooks) = FAMILIES.iter().find(|(number, ..)| *number == family)?;
    let value = |wanted: u16| message.attributes(HEADER_BYTES).value(wanted);
    let hook = Attributes(value(NFTA_CHAIN_HOOK)?).value(NFTA_HOOK_HOOKNUM)?;
    let hook = hooks.get(number(hook)? as usize).copied().flatten()?;
    // Nothing jumps to a base chain, so all that uses it is its rules.
    let rules = value(NFTA_CHAIN_USE).and_then(number).unwrap_or(0);
    let drops = value(NFTA_CHAIN_POLICY).and_then(number) == Some(NF_DROP);
    let table = format!("{family} {}", text(value(NFTA_CHAIN_TABLE)?));
    (rules > 0 || drops).then(|| PacketFilter::Nftables {
        table,
        chain: value(NFTA_CHAIN_NAME).map(text).unwrap_or_default(),
        hook,
        rules,
        drops,
    })
}

/// Numbers are in network byte order.
fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

fn text(bytes: &[u8]) -> String {
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearwire_sys::netlink::message::{Messages, Request};

    fn chain_of(family: u8, hook: u32, rules: u32, policy: u32) -> Option<PacketFilter> {
        let hook = Request::new(0, 0, 0, &[]).attribute(NFTA_HOOK_HOOKNUM, &hook.to_be_bytes()).into_bytes();
        let bytes = Request::new(0xa03, 0, 0, &[family, 0, 0, 0])
            .attribute(NFTA_CHAIN_TABLE, b"t\0")
            .attribute(NFTA_CHAIN_NAME, b"c\0")
            .attribute(NFTA_CHAIN_HOOK, &hook[16..])
            .attribute(NFTA_CHAIN_POLICY, &policy.to_be_bytes())
            .attribute(NFTA_CHAIN_USE, &rules.to_be_bytes())
            .into_bytes();
        chain(&Messages::new(&bytes).next()?)
    }

    #[test]
    fn chains_count_where_they_have_rules_or_drop_at_hooks_of_this_hosts_packets() {
        const ACCEPT: u32 = 1;
        assert_eq!(chain_of(1, 1, 0, ACCEPT), None);
        assert_eq!(chain_of(1, 2, 3, ACCEPT), None, "packets that are passed on");
        assert_eq!(chain_of(7, 1, 3, ACCEPT), None, "a bridge's");
        let with = |table: &str, hook, rules, drops| {
            Some(PacketFilter::Nftables { table: table.into(), chain: "c".into(), hook, rules, drops })
        };
        assert_eq!(chain_of(1, 1, 3, ACCEPT), with("inet t", "input", 3, false));
        assert_eq!(chain_of(2, 3, 0, NF_DROP), with("ip t", "output", 0, true));
        assert_eq!(chain_of(5, 0, 1, ACCEPT), with("netdev t", "ingress", 1, false));
        let words = chain_of(1, 1, 1, NF_DROP).map(|filter| filter.to_string());
        assert_eq!(words.as_deref(), Some("nftables: chain c of table inet t at input: 1 rule, policy drop"));
    }
}
