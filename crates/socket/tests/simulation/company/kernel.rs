//! The kernel of the machines: real sockets in a network namespace that has the addresses of all machines, and a raw socket that brings them
//! what no share has. So it is the kernel itself that decides which socket gets such a datagram.

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::process::Command;

use nearwire_lab::Namespace;
use rustix::net::{AddressFamily, Protocol, SendFlags, SocketFlags, SocketType, sendto, socket_with};

use crate::machine::address;

const ETHERNET_BYTES: usize = 14;
const IP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
const HEADERS_BYTES: usize = ETHERNET_BYTES + IP_BYTES + UDP_BYTES;
/// `IPPROTO_RAW`: what is sent begins with the IP header.
const RAW: u32 = 255;

/// The namespace, with every machine's address on its loopback interface. `None` where the test has to be skipped.
pub fn lay() -> Option<Namespace> {
    let made = Namespace::new();
    let Ok(namespace) = made else {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "{made:?}");
        println!("SKIP {made:?}");
        return None;
    };
    let network = format!("{}/24", address(0));
    for arguments in ["link set lo up".to_owned(), format!("route add local {network} dev lo")] {
        let ip = || Command::new("ip").args(arguments.split(' ')).status();
        assert!(namespace.enter(ip).unwrap().unwrap().success(), "ip {arguments}");
    }
    Some(namespace)
}

/// The way into the kernel's sockets.
#[derive(Debug)]
pub struct Kernel(OwnedFd);

impl Kernel {
    pub fn new() -> Kernel {
        let protocol = Protocol::from_raw(RAW.try_into().unwrap());
        Kernel(socket_with(AddressFamily::INET, SocketType::RAW, SocketFlags::CLOEXEC, Some(protocol)).unwrap())
    }

    /// Has the sockets get what is in a frame.
    pub fn bring(&self, frame: &[u8]) {
        let packet = &frame[ETHERNET_BYTES..];
        let len_bytes = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
        let to = Ipv4Addr::from_octets(*packet[16..].first_chunk().unwrap());
        sendto(&self.0, &packet[..len_bytes], SendFlags::empty(), &std::net::SocketAddrV4::new(to, 0)).unwrap();
    }
}

/// The number of the datagram in a frame.
pub fn number_of(frame: &[u8]) -> u64 {
    u64::from_be_bytes(*frame[HEADERS_BYTES..].first_chunk().expect("every datagram has a number"))
}

/// The frame that the kernel of a machine sends.
pub fn frame(from: (usize, u16), to: (usize, u16), payload: &[u8]) -> Vec<u8> {
    let mac = |machine: usize| [2, 0, 0, 0, 0, machine as u8];
    let mut frame = [mac(to.0), mac(from.0)].concat();
    frame.extend([8, 0, 0x45, 0]);
    frame.extend(((IP_BYTES + UDP_BYTES + payload.len()) as u16).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame.extend(address(from.0).octets());
    frame.extend(address(to.0).octets());
    let words = frame[ETHERNET_BYTES..].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[ETHERNET_BYTES + 10..ETHERNET_BYTES + 12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    for word in [from.1, to.1, (UDP_BYTES + payload.len()) as u16, 0] {
        frame.extend(word.to_be_bytes());
    }
    frame.extend(payload);
    frame
}
