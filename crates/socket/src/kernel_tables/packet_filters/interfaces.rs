//! Filters of traffic control and BPF programs at interfaces. Source: rtnetlink(7), `include/uapi/linux/rtnetlink.h`
//! (`struct tcmsg`), `include/uapi/linux/pkt_sched.h`.

use std::io;

use nearwire_sys::bpf::query::{InterfaceHook, programs_of_interface};
use nearwire_sys::descriptor::place;
use nearwire_sys::netlink::message::u32_of;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};

use super::PacketFilter;
use super::netlink::dump;

const IFINFOMSG_BYTES: usize = 16;
/// `struct tcmsg`: family, then index, handle, parent and info.
const TCMSG_BYTES: usize = 20;
const INDEX_AT: usize = 4;
const PARENT_AT: usize = 12;
const FLAGS_AT: usize = 8;
/// `TC_H_CLSACT`, which is `TC_H_INGRESS` too: what both kinds of disciplines hang on.
const TC_H_CLSACT: u32 = 0xffff_fff1;
const TCA_KIND: u16 = 1;
/// Parents and their names.
type Ways = &'static [(u32, &'static str)];
const CLSACT: (&[u8], Ways) = (b"clsact\0", &[(0xffff_fff2, "ingress"), (0xffff_fff3, "egress")]);
const INGRESS: (&[u8], Ways) = (b"ingress\0", &[(0xffff_0000, "ingress")]);
const HOOKS: [(InterfaceHook, &str); 2] = [(InterfaceHook::Ingress, "ingress"), (InterfaceHook::Egress, "egress")];

pub(super) fn read() -> io::Result<Vec<PacketFilter>> {
    let mut with_discipline = Vec::new();
    dump(None, libc::RTM_GETQDISC, &[0; TCMSG_BYTES], |message| {
        let word = |at: usize| message.payload.get(at..).and_then(u32_of);
        let name = message.attributes(TCMSG_BYTES).value(TCA_KIND);
        let ways = [CLSACT, INGRESS].into_iter().find(|(kind, _)| Some(*kind) == name).map(|(_, ways)| ways);
        if word(PARENT_AT) == Some(TC_H_CLSACT) {
            with_discipline.extend(word(INDEX_AT).zip(ways));
        }
    })?;
    let mut found = Vec::new();
    for (ifindex, ways) in with_discipline {
        for &(parent, way) in ways {
            if has_filters(ifindex, parent)? {
                found.push(PacketFilter::TrafficControl { interface: name_of(ifindex), way });
            }
        }
    }
    for ifindex in links()? {
        for (hook, way) in HOOKS {
            match programs_of_interface(ifindex, hook) {
                Ok(programs @ 1..) => found.push(PacketFilter::Tcx { interface: name_of(ifindex), way, programs }),
                Err(error) if error.raw_os_error() == Some(libc::EPERM) => return Err(error),
                // The kernel has none, or the interface went.
                Ok(0) | Err(_) => {}
            }
        }
    }
    Ok(found)
}

fn has_filters(ifindex: u32, parent: u32) -> io::Result<bool> {
    let mut header = [0; TCMSG_BYTES];
    header[INDEX_AT..INDEX_AT + 4].copy_from_slice(&ifindex.to_ne_bytes());
    header[PARENT_AT..PARENT_AT + 4].copy_from_slice(&parent.to_ne_bytes());
    let mut any = false;
    dump(None, libc::RTM_GETTFILTER, &header, |_| any = true)?;
    Ok(any)
}

/// All but the loopback interface.
fn links() -> io::Result<Vec<u32>> {
    let mut found = Vec::new();
    dump(None, libc::RTM_GETLINK, &[0; IFINFOMSG_BYTES], |message| {
        let word = |at: usize| message.payload.get(at..).and_then(u32_of);
        if word(FLAGS_AT).is_some_and(|flags| flags & libc::IFF_LOOPBACK as u32 == 0) {
            found.extend(word(INDEX_AT));
        }
    })?;
    Ok(found)
}

fn name_of(ifindex: u32) -> String {
    let name = || {
        let any = place(socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?);
        Some(netdevice::index_to_name_inlined(any, ifindex).ok()?.as_str().to_owned())
    };
    name().unwrap_or_else(|| format!("interface {ifindex}"))
}
