//! Tables of the older iptables, which are no part of nftables. Source: `net/ipv4/netfilter/ip_tables.c`,
//! `include/uapi/linux/netfilter_ipv4/ip_tables.h`, `include/uapi/linux/netfilter_ipv6/ip6_tables.h`.

use std::io;
use std::os::fd::OwnedFd;

use nearwire_sys::descriptor::place;
use nearwire_sys::netlink::message::{u16_of, u32_of};
use nearwire_sys::socket::option_bytes;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::PacketFilter;

/// `IPT_SO_GET_INFO` and `IPT_SO_GET_ENTRIES`, and those of `IP6T_`.
const GET_INFO: i32 = 64;
const GET_ENTRIES: i32 = 65;
const NAME_BYTES: usize = 32;
/// `struct ipt_getinfo`: name, a bit for each hook, where the rules of each begin, where its policy is, how many, bytes.
const HOOKS_AT: usize = 32;
const ENTRIES_AT: usize = 36;
const POLICIES_AT: usize = 56;
const SIZE_AT: usize = 80;
const INFO_BYTES: usize = 84;
/// `struct ipt_get_entries`: name, size, and entries that are aligned to 8 bytes.
const FIRST_ENTRY_AT: usize = 40;
/// `struct xt_standard_target`: the verdict behind the head of a target.
const VERDICT_AT: usize = 32;
/// A verdict is a negative number: this is `-NF_DROP - 1`.
const DROP: i32 = -1;
/// A larger table is not read for its policies.
const TABLE_BYTES_MAX: usize = 64 << 20;

/// Hooks by number (`enum nf_inet_hooks`) that packets of this host pass.
const CHAINS: [(usize, &str); 4] = [(0, "PREROUTING"), (1, "INPUT"), (3, "OUTPUT"), (4, "POSTROUTING")];

/// One of the two.
struct Tool {
    name: &'static str,
    family: AddressFamily,
    level: i32,
    /// The tables that are loaded: to ask for another would load it.
    names: &'static str,
    /// `target_offset` of an entry.
    target_at: usize,
}

const TOOLS: [Tool; 2] = [
    Tool {
        name: "iptables",
        family: AddressFamily::INET,
        level: libc::IPPROTO_IP,
        names: "/proc/thread-self/net/ip_tables_names",
        target_at: 88,
    },
    Tool {
        name: "ip6tables",
        family: AddressFamily::INET6,
        level: libc::IPPROTO_IPV6,
        names: "/proc/thread-self/net/ip6_tables_names",
        target_at: 140,
    },
];

pub(super) fn read() -> io::Result<Vec<PacketFilter>> {
    let mut found = Vec::new();
    for tool in &TOOLS {
        let names = match std::fs::read_to_string(tool.names) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
            // Missing: the kernel does not have it.
            Err(_) => continue,
        };
        if names.is_empty() {
            continue;
        }
        let socket = socket_with(tool.family, SocketType::RAW, SocketFlags::CLOEXEC, rustix::net::ipproto::RAW.into());
        let socket = place(socket.map_err(|errno: Errno| io::Error::from(errno))?);
        for table in names.lines() {
            found.extend(tool.chains(&socket, table)?);
        }
    }
    Ok(found)
}

impl Tool {
    /// The chains of a table that could do something.
    fn chains(&self, socket: &OwnedFd, table: &str) -> io::Result<Vec<PacketFilter>> {
        let mut info = named(table, INFO_BYTES);
        option_bytes(socket, self.level, GET_INFO, &mut info)?;
        let word = |at: usize| info.get(at..).and_then(u32_of).unwrap_or(0);
        let size_bytes = word(SIZE_AT) as usize;
        let mut entries = named(table, FIRST_ENTRY_AT + size_bytes.min(TABLE_BYTES_MAX));
        entries[NAME_BYTES..NAME_BYTES + 4].copy_from_slice(&word(SIZE_AT).to_ne_bytes());
        // Changed meanwhile, its policies are not known; that it has rules is.
        let are_read = option_bytes(socket, self.level, GET_ENTRIES, &mut entries).is_ok();
        let valid = CHAINS.iter().filter(|(hook, _)| word(HOOKS_AT) >> hook & 1 == 1);
        let found = valid.filter_map(|(hook, chain)| {
            let [first, policy] = [ENTRIES_AT, POLICIES_AT].map(|at| word(at + 4 * hook));
            let drops = are_read && self.verdict(&entries, policy as usize) == Some(DROP);
            (first != policy || drops).then(|| PacketFilter::Iptables {
                tool: self.name,
                table: table.to_owned(),
                chain,
                drops,
            })
        });
        Ok(found.collect())
    }

    /// That of the entry at an offset.
    fn verdict(&self, entries: &[u8], at: usize) -> Option<i32> {
        let entry = entries.get(FIRST_ENTRY_AT.checked_add(at)?..)?;
        let target = usize::from(u16_of(entry.get(self.target_at..)?)?);
        u32_of(entry.get(target + VERDICT_AT..)?).map(u32::cast_signed)
    }
}

/// A buffer that begins with the name of a table.
fn named(table: &str, len_bytes: usize) -> Vec<u8> {
    let mut bytes = vec![0; len_bytes];
    let name = table.as_bytes();
    let length = name.len().min(NAME_BYTES - 1);
    bytes[..length].copy_from_slice(&name[..length]);
    bytes
}
