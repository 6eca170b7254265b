//! Changes of a namespace's network that cables do not make.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use nearwire_sys::netlink::message::{Messages, Request};
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// `NLM_F_REQUEST`, `NLM_F_ACK`, `NLM_F_CREATE`.
const REQUEST_FLAGS: u16 = 0x001 | 0x004 | 0x400;
const RTM_NEWLINK: u16 = 16;
const RTM_NEWROUTE: u16 = 24;
const IFLA_MTU: u16 = 4;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;

/// Sends a request that changes something in the calling thread's namespace.
fn change(request: Request) {
    let socket: OwnedFd = nearwire_sys::netlink::open(None).unwrap();
    send(&socket, &request.into_bytes(), SendFlags::empty()).unwrap();
    let mut answer = [0; 4096];
    let (len_bytes, _) = recv(&socket, &mut answer[..], RecvFlags::empty()).unwrap();
    Messages::new(&answer[..len_bytes]).next().unwrap().verdict().unwrap();
}

/// Sets the MTU of an interface.
pub fn set_mtu(ifindex: u32, mtu_bytes: u32) {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    change(Request::new(RTM_NEWLINK, REQUEST_FLAGS, 1, &header).attribute(IFLA_MTU, &mtu_bytes.to_ne_bytes()));
}

fn bytes_of(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// A route of the main table; without a gateway it is unreachable.
pub fn add_route(destination: &str, bits: u8, through: Option<(u32, IpAddr)>) {
    const MAIN: u8 = 254;
    const BOOT: u8 = 3;
    let destination: IpAddr = destination.parse().unwrap();
    let family = if destination.is_ipv4() { 2 } else { 10 };
    let kind = if through.is_some() { 1 } else { 7 };
    let header = [family, bits, 0, 0, MAIN, BOOT, 0, kind, 0, 0, 0, 0];
    let request = Request::new(RTM_NEWROUTE, REQUEST_FLAGS, 1, &header).attribute(RTA_DST, &bytes_of(destination));
    change(match through {
        Some((ifindex, gateway)) => {
            request.attribute(RTA_OIF, &ifindex.to_ne_bytes()).attribute(RTA_GATEWAY, &bytes_of(gateway))
        }
        None => request,
    });
}

/// Switches the kernel's forwarding in the calling thread's namespace.
pub fn set_forwarding(on: bool) {
    for path in ["ipv4/conf/all/forwarding", "ipv6/conf/all/forwarding"] {
        std::fs::write(format!("/proc/sys/net/{path}"), if on { "1" } else { "0" }).unwrap();
    }
}
