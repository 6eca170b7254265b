//! What an interface is and can do, as far as ports care: index, MTU, queues, driver, the XDP program it carries.
//!
//! Read through netlink and ethtool, which answer for the network namespace of the calling thread; `/sys/class/net`
//! shows the namespace of whoever mounted it.
//!
//! Source: rtnetlink(7), `include/uapi/linux/if_link.h`.

use std::io;

use nearwire_sys::netlink::message::{Attributes, Messages, Request, u32_of};
use nearwire_sys::{ethtool, netlink};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::PortError;

const IFINFOMSG_BYTES: usize = 16;
/// Enough for the attributes of one link, statistics and per-family parts included (about 1.5 KiB).
const ANSWER_BYTES: usize = 32 * 1024;

/// Longest frame in a page of 4096 bytes with `XDP_PACKET_HEADROOM` (256) before and `struct skb_shared_info` (320) behind it.
const PAGE_FRAME_BYTES: usize = 4096 - 256 - 320;
const IFF_LOWER_UP: u32 = 1 << 16;
/// Places of counters in `struct rtnl_link_stats64`.
const STATS64_RX_DROPPED: usize = 6;
const STATS64_RX_MISSED: usize = 15;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;
const IFLA_XDP_SKB_PROG_ID: u16 = 6;

/// An XDP program found on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttachedProgram {
    /// The kernel's id, as `ip link` and `bpftool prog` show it.
    pub program_id: u32,
    /// In the kernel's words: native, generic, offloaded or several.
    pub mode: &'static str,
}

/// What an interface is and can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceFacts {
    /// Its name.
    pub name: String,
    /// Its index in this namespace.
    pub ifindex: u32,
    /// Its MAC address; zero for interfaces that have none.
    pub mac: [u8; 6],
    /// Largest payload of an Ethernet frame.
    pub mtu_bytes: u32,
    /// Administratively up.
    pub up: bool,
    /// The link is there: a cable with somebody at its other end.
    pub carrier: bool,
    /// Frames the device or the kernel could not keep since the device was set up.
    pub receive_dropped_frames: u64,
    /// The kind of a virtual interface (`veth`), the driver of another.
    pub driver: String,
    /// Receive queues in use now (not those allocated: veth allocates one a CPU and uses one unless told otherwise).
    pub rx_queues: u32,
    /// Transmit queues in use now.
    pub tx_queues: u32,
    /// Descriptors of each receive ring of the device; 0 for a driver that has no ring, or does not report it.
    pub rx_ring_frames: u32,
    /// The XDP program attached, if any.
    pub program: Option<AttachedProgram>,
}

impl InterfaceFacts {
    /// Reads the facts of `name` in the calling thread's network namespace.
    ///
    /// # Errors
    /// No such interface, or netlink did not answer.
    pub fn read(name: &str) -> Result<InterfaceFacts, PortError> {
        let no_such = || PortError::NoSuchInterface { interface: name.to_owned() };
        if name.is_empty() || name.len() > ethtool::INTERFACE_NAME_BYTES_MAX || name.contains('\0') {
            return Err(no_such());
        }
        let answer = ask(name).map_err(|source| PortError::refused("read the link", name, source))?;
        let mut facts = parse(name, &answer).ok_or_else(no_such)?;
        facts.complete_from_driver();
        Ok(facts)
    }

    /// Whether the link of `name` is there now; `None` when there is no such interface. A small part of what [`Self::read`] asks.
    pub(crate) fn has_carrier(name: &str) -> Option<bool> {
        let answer = ask(name).ok()?;
        parse(name, &answer).map(|facts| facts.carrier)
    }

    /// The interface is one of a veth pair.
    #[must_use]
    pub fn is_veth(&self) -> bool {
        self.driver == "veth"
    }

    /// Queues an AF_XDP socket may be bound to: the kernel takes any below the larger of the two counts.
    #[must_use]
    pub fn bindable_queues(&self) -> u32 {
        self.rx_queues.max(self.tx_queues)
    }

    /// Longest frame without FCS: MTU, Ethernet header and one VLAN tag.
    #[must_use]
    pub fn frame_most_bytes(&self) -> usize {
        self.mtu_bytes as usize + 14 + 4
    }

    /// Drivers that give XDP a page for each frame take a program at this MTU only if it can do with frames in several buffers. Whoever
    /// attaches one says so then; at smaller MTUs it would cost the kernel time for nothing.
    #[must_use]
    pub fn is_jumbo(&self) -> bool {
        self.frame_most_bytes() > PAGE_FRAME_BYTES
    }

    /// Netlink knows how many queues are allocated; the driver knows how many are in use, and its own name.
    fn complete_from_driver(&mut self) {
        let Ok(interface) = ethtool::Interface::open(&self.name) else { return };
        if let Ok(channels) = interface.channels() {
            let in_use = |of_direction: u32| (of_direction + channels.combined).max(1);
            (self.rx_queues, self.tx_queues) = (in_use(channels.rx), in_use(channels.tx));
        }
        self.rx_ring_frames = interface.rings().map_or(0, |rings| rings.rx);
        if self.driver.is_empty() {
            self.driver = interface.driver_info().map_or_else(|_| "unknown".to_owned(), |info| info.driver);
        }
    }
}

/// Sends `RTM_GETLINK` for `name` and returns the answer.
fn ask(name: &str) -> io::Result<Vec<u8>> {
    let socket = netlink::open(None)?;
    let request = Request::new(libc::RTM_GETLINK, libc::NLM_F_REQUEST as u16, 0, &[0; IFINFOMSG_BYTES]);
    let request = request.attribute(libc::IFLA_IFNAME, format!("{name}\0").as_bytes()).into_bytes();
    send(&socket, &request, SendFlags::empty())?;
    let mut answer = vec![0; ANSWER_BYTES];
    let (received, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    answer.truncate(received);
    Ok(answer)
}

fn parse(name: &str, answer: &[u8]) -> Option<InterfaceFacts> {
    let message = Messages::new(answer).next().filter(|message| message.kind == libc::RTM_NEWLINK)?;
    let word = |at: usize| message.payload.get(at..).and_then(u32_of);
    let flags = word(8)?;
    let mut facts = InterfaceFacts {
        name: name.to_owned(),
        ifindex: word(4)?,
        mac: [0; 6],
        mtu_bytes: 0,
        up: flags & libc::IFF_UP as u32 != 0,
        carrier: flags & IFF_LOWER_UP != 0,
        receive_dropped_frames: 0,
        driver: String::new(),
        rx_queues: 1,
        tx_queues: 1,
        rx_ring_frames: 0,
        program: None,
    };
    for (kind, value) in message.attributes(IFINFOMSG_BYTES) {
        match kind {
            libc::IFLA_ADDRESS => facts.mac = value.try_into().unwrap_or_default(),
            libc::IFLA_MTU => facts.mtu_bytes = u32_of(value)?,
            libc::IFLA_NUM_RX_QUEUES => facts.rx_queues = u32_of(value)?,
            libc::IFLA_NUM_TX_QUEUES => facts.tx_queues = u32_of(value)?,
            libc::IFLA_LINKINFO => facts.driver = info_kind(value),
            libc::IFLA_STATS64 => facts.receive_dropped_frames = receive_drops(value),
            libc::IFLA_XDP => facts.program = attached_program(value),
            _ => {}
        }
    }
    Some(facts)
}

fn info_kind(link_info: &[u8]) -> String {
    let kind = Attributes(link_info).value(IFLA_INFO_KIND).unwrap_or_default();
    String::from_utf8_lossy(kind).trim_end_matches('\0').to_owned()
}

/// From `struct rtnl_link_stats64`: what the host dropped, and what the device missed.
fn receive_drops(statistics: &[u8]) -> u64 {
    let counter = |number: usize| {
        statistics.get(8 * number..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    };
    counter(STATS64_RX_DROPPED).saturating_add(counter(STATS64_RX_MISSED))
}

fn attached_program(xdp: &[u8]) -> Option<AttachedProgram> {
    let mode = Attributes(xdp).value(IFLA_XDP_ATTACHED)?.first().copied()?;
    let mode = match mode {
        0 => return None,
        1 => "native",
        2 => "generic",
        3 => "offloaded",
        _ => "several",
    };
    // With programs in several modes there is no overall id, but one for each mode.
    let program_id = Attributes(xdp)
        .filter(|(kind, _)| (IFLA_XDP_PROG_ID..=IFLA_XDP_SKB_PROG_ID + 1).contains(kind))
        .find_map(|(_, value)| u32_of(value).filter(|&id| id != 0))
        .unwrap_or(0);
    Some(AttachedProgram { program_id, mode })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn loopback_read_has_its_index_and_no_program() {
        let facts = InterfaceFacts::read("lo").unwrap();
        assert_eq!(facts.name, "lo");
        assert_ne!(facts.ifindex, 0);
        assert!(facts.mtu_bytes >= 1280);
        assert_eq!(facts.program, None);
    }

    #[test]
    fn missing_or_impossible_name_read_says_no_such_interface() {
        for name in ["nw-none", "", "a-name-longer-than-15-bytes", "nul\0"] {
            let error = InterfaceFacts::read(name).unwrap_err();
            assert!(matches!(error, PortError::NoSuchInterface { .. }), "{name:?}: {error}");
        }
    }

    #[test]
    fn program_attribute_read_gives_id_and_mode() {
        let xdp = [5, 0, 2, 0, 2, 0, 0, 0, 8, 0, 4, 0, 42, 0, 0, 0];
        assert_eq!(attached_program(&xdp), Some(AttachedProgram { program_id: 42, mode: "generic" }));
        assert_eq!(attached_program(&[5, 0, 2, 0, 0, 0, 0, 0]), None);
    }

    proptest! {
        #[test]
        fn any_answer_parsed_never_panics(answer in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse("x", &answer);
        }
    }
}
