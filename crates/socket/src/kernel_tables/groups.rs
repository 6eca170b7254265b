//! Which groups are joined on which interface, by anyone.
//!
//! Since Linux 6.14 the kernel reports each (RTM_NEWMULTICAST, RTM_DELMULTICAST). All that are joined are read from
//! `/proc/net/igmp` and `/proc/net/igmp6` (`net/ipv4/igmp.c`, `net/ipv6/mcast.c`), and so is every change before
//! Linux 6.14, when a link or an address changes.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use nearwire_stack::Update;
use nearwire_sys::descriptor::place;
use nearwire_sys::kernel_files;
use nearwire_sys::netlink::message::{Message, address_of, u32_of};
use rustix::io::Errno;

use super::TablesError;
use super::error::Malformed;

const HEADER_BYTES: usize = 8;
/// The thread's: each thread may be in a namespace of its own. An open file stays with the namespace.
const IGMP: &str = "/proc/thread-self/net/igmp";
const IGMP6: &str = "/proc/thread-self/net/igmp6";

type Group = (u32, IpAddr);

/// The groups that were said.
#[derive(Debug)]
pub(super) struct Groups {
    known: HashSet<Group>,
    /// As they are on a reread; kept for its memory.
    found: HashSet<Group>,
    text: Vec<u8>,
    igmp: OwnedFd,
    /// `None`: no IPv6 in this kernel.
    igmp6: Option<OwnedFd>,
}

impl Groups {
    pub(super) fn open() -> Result<Self, TablesError> {
        let open = |path: &'static str| match kernel_files::open(path) {
            Ok(file) => Ok(Some(place(file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound && path == IGMP6 => Ok(None),
            Err(source) => Err(TablesError::Groups { path, source }),
        };
        let missing = || TablesError::Groups { path: IGMP, source: io::ErrorKind::NotFound.into() };
        Ok(Self {
            known: HashSet::new(),
            found: HashSet::new(),
            text: Vec::new(),
            igmp: open(IGMP)?.ok_or_else(missing)?,
            igmp6: open(IGMP6)?,
        })
    }

    /// Nothing was said: the next reread says all.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// The link is gone, and the kernel does not say it of each group.
    pub(super) fn forget_link(&mut self, ifindex: u32) {
        self.known.retain(|(at, _)| *at != ifindex);
    }

    /// Takes in an RTM_NEWMULTICAST or RTM_DELMULTICAST.
    pub(super) fn event(&mut self, message: &Message<'_>, is_gone: bool) -> Result<Update, Malformed> {
        let ifindex = message.payload.get(4..HEADER_BYTES).and_then(u32_of).ok_or(Malformed)?;
        let mut attributes = message.attributes(HEADER_BYTES);
        let group = attributes.find(|(kind, _)| *kind == libc::IFA_MULTICAST).and_then(|(_, value)| address_of(value));
        let group = group.ok_or(Malformed)?;
        if is_gone {
            self.known.remove(&(ifindex, group));
            return Ok(Update::DelGroup { ifindex, group });
        }
        self.known.insert((ifindex, group));
        Ok(Update::NewGroup { ifindex, group })
    }

    /// Reads what is joined, and applies the difference to what was read before.
    pub(super) fn reread(&mut self, apply: &mut impl FnMut(Update)) -> Result<(), TablesError> {
        self.found.clear();
        read(&self.igmp, IGMP, &mut self.text)?;
        igmp(&self.text, &mut |group| {
            self.found.insert(group);
        });
        if let Some(igmp6_file) = &self.igmp6 {
            read(igmp6_file, IGMP6, &mut self.text)?;
            igmp6(&self.text, &mut |group| {
                self.found.insert(group);
            });
        }
        self.known.difference(&self.found).for_each(|(ifindex, group)| {
            apply(Update::DelGroup { ifindex: *ifindex, group: *group });
        });
        self.found.difference(&self.known).for_each(|(ifindex, group)| {
            apply(Update::NewGroup { ifindex: *ifindex, group: *group });
        });
        std::mem::swap(&mut self.known, &mut self.found);
        Ok(())
    }
}

/// The whole file from its start.
fn read(file: &OwnedFd, path: &'static str, text: &mut Vec<u8>) -> Result<(), TablesError> {
    const STEP_BYTES: usize = 4096;
    let mut len_bytes = 0;
    loop {
        text.resize(len_bytes + STEP_BYTES, 0);
        match rustix::io::pread(file, &mut text[len_bytes..], len_bytes as u64) {
            Ok(0) => break,
            Ok(read_bytes) => len_bytes += read_bytes,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(TablesError::Groups { path, source: errno.into() }),
        }
    }
    text.truncate(len_bytes);
    Ok(())
}

/// A line for each interface, `2 eth0 : 1 V3`, and below it a line for each group, `010000E0 1 0:00000000 0`: the four
/// bytes as one number of this machine.
fn igmp(text: &[u8], take: &mut impl FnMut(Group)) {
    let mut ifindex = None;
    for line in str::from_utf8(text).unwrap_or_default().lines() {
        let first = line.split_ascii_whitespace().next().unwrap_or_default();
        if !line.starts_with(char::is_whitespace) {
            ifindex = first.parse().ok();
        } else if let (Some(ifindex), Ok(group)) = (ifindex, u32::from_str_radix(first, 16)) {
            take((ifindex, Ipv4Addr::from_octets(group.to_ne_bytes()).into()));
        }
    }
}

/// A line for each group: `2 eth0 ff020000000000000000000000000001 1 0000000C 0`.
fn igmp6(text: &[u8], take: &mut impl FnMut(Group)) {
    for line in str::from_utf8(text).unwrap_or_default().lines() {
        let mut words = line.split_ascii_whitespace();
        let ifindex = words.next().and_then(|word| word.parse().ok());
        let group = words.nth(1).filter(|word| word.len() == 32).and_then(|word| u128::from_str_radix(word, 16).ok());
        if let (Some(ifindex), Some(group)) = (ifindex, group) {
            take((ifindex, Ipv6Addr::from_bits(group).into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearwire_sys::netlink::message::{Messages, Request};

    #[test]
    #[cfg(target_endian = "little")]
    fn list_of_ipv4_groups_is_read_with_its_interfaces() {
        let text = b"Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n\
            1\tlo        :     1      V3\n\t\t\t\t010000E0     1 0:00000000\t\t0\n\
            10\tnw0       :     2      V3\n\t\t\t\t070201EF     1 0:00000000\t\t0\n\t\t\t\t010000E0     1 0:00000000\t\t0\n";
        let mut found = Vec::new();
        igmp(text, &mut |group| found.push(group));
        let all = IpAddr::from([224, 0, 0, 1]);
        assert_eq!(found, [(1, all), (10, [239, 1, 2, 7].into()), (10, all)]);
    }

    #[test]
    fn list_of_ipv6_groups_is_read() {
        let text = b"1    lo              ff020000000000000000000000000001     1 0000000C 0\nnonsense\n";
        let mut found = Vec::new();
        igmp6(text, &mut |group| found.push(group));
        assert_eq!(found, [(1, "ff02::1".parse().unwrap())]);
    }

    #[test]
    fn event_says_interface_and_group() {
        let bytes = Request::new(56, 0, 0, &[2, 32, 0x80, 0, 10, 0, 0, 0])
            .attribute(libc::IFA_MULTICAST, &[239, 1, 2, 7])
            .into_bytes();
        let message = Messages::new(&bytes).next().unwrap();
        let mut groups = Groups::open().unwrap();
        let wanted = Update::NewGroup { ifindex: 10, group: [239, 1, 2, 7].into() };
        assert_eq!(groups.event(&message, false), Ok(wanted));
        assert!(matches!(groups.event(&message, true), Ok(Update::DelGroup { ifindex: 10, .. })));
    }
}
