//! Routing rules: whether they are just the kernel's own, which the stack follows.
//!
//! Source: `include/uapi/linux/fib_rules.h`; the defaults are made by `fib_default_rules_init` of
//! `net/ipv4/fib_rules.c` and `fib6_rules_net_init_one` of `net/ipv6/fib6_rules.c`.

use nearwire_sys::netlink::message::{Message, u32_of};

const HEADER_BYTES: usize = 12;
const FRA_PRIORITY: u16 = 6;
const FRA_SUPPRESS_IFGROUP: u16 = 13;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_PROTOCOL: u16 = 21;
const FR_ACT_TO_TBL: u8 = 1;
/// -1: no suppression.
const NONE: u32 = u32::MAX;

/// (priority, table) of the rules of each family.
const IPV4: [(u32, u32); 3] = [(0, 255), (32_766, 254), (32_767, 253)];
const IPV6: [(u32, u32); 2] = [(0, 255), (32_766, 254)];

/// The rules of one family.
#[derive(Debug, Default)]
pub(super) struct Rules {
    plain: Vec<(u32, u32)>,
    has_other: bool,
}

impl Rules {
    /// Takes in an RTM_NEWRULE.
    pub(super) fn add(&mut self, message: &Message<'_>) {
        match plain(message) {
            Some(rule) => self.plain.push(rule),
            None => self.has_other = true,
        }
    }

    /// No rules at all: the kernel does without them, or without the family.
    pub(super) fn are_the_kernels_own(mut self, family: i32) -> bool {
        self.plain.sort_unstable();
        let own: &[_] = if family == libc::AF_INET { &IPV4 } else { &IPV6 };
        !self.has_other && (self.plain.is_empty() || self.plain == own)
    }
}

/// Priority and table of a rule that says no more than `from all lookup TABLE`.
fn plain(message: &Message<'_>) -> Option<(u32, u32)> {
    let header = message.payload.first_chunk::<HEADER_BYTES>()?;
    let [_, destination_len, source_len, tos, table, _, _, action, flags @ ..] = header;
    let is_plain = [*destination_len, *source_len, *tos] == [0; 3] && *flags == [0; 4] && *action == FR_ACT_TO_TBL;
    if !is_plain {
        return None;
    }
    let (mut priority, mut table) = (0, u32::from(*table));
    for (kind, value) in message.attributes(HEADER_BYTES) {
        match kind {
            FRA_PRIORITY => priority = u32_of(value)?,
            FRA_TABLE => table = u32_of(value)?,
            FRA_SUPPRESS_IFGROUP | FRA_SUPPRESS_PREFIXLEN if u32_of(value) == Some(NONE) => {}
            FRA_PROTOCOL => {}
            _ => return None,
        }
    }
    Some((priority, table))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearwire_sys::netlink::message::{Messages, Request};

    fn rule(rules: &mut Rules, priority: u32, table: u8, extra: Option<u16>) {
        let mut request = Request::new(libc::RTM_NEWRULE, 2, 1, &[2, 0, 0, 0, table, 0, 0, 1, 0, 0, 0, 0])
            .attribute(FRA_TABLE, &u32::from(table).to_ne_bytes())
            .attribute(FRA_SUPPRESS_PREFIXLEN, &[255; 4])
            .attribute(FRA_PROTOCOL, &[2]);
        if priority != 0 {
            request = request.attribute(FRA_PRIORITY, &priority.to_ne_bytes());
        }
        if let Some(kind) = extra {
            request = request.attribute(kind, &[1, 0, 0, 0]);
        }
        Messages::new(&request.into_bytes()).for_each(|message| rules.add(&message));
    }

    fn defaults() -> Rules {
        let mut rules = Rules::default();
        IPV4.iter().for_each(|(priority, table)| rule(&mut rules, *priority, *table as u8, None));
        rules
    }

    #[test]
    fn default_rules_are_the_kernels_own() {
        assert!(defaults().are_the_kernels_own(libc::AF_INET));
        assert!(!defaults().are_the_kernels_own(libc::AF_INET6), "IPv6 has no default table");
        assert!(Rules::default().are_the_kernels_own(libc::AF_INET6));
    }

    #[test]
    fn rule_added_removed_or_moved_is_policy() {
        const FRA_FWMARK: u16 = 10;
        let mut added = defaults();
        rule(&mut added, 100, 254, None);
        assert!(!added.are_the_kernels_own(libc::AF_INET));
        let mut marked = defaults();
        rule(&mut marked, 100, 254, Some(FRA_FWMARK));
        assert!(!marked.are_the_kernels_own(libc::AF_INET));
        let mut moved = Rules::default();
        [(100, 255), (32_766, 254), (32_767, 253)].iter().for_each(|(at, table)| rule(&mut moved, *at, *table, None));
        assert!(!moved.are_the_kernels_own(libc::AF_INET));
    }
}
