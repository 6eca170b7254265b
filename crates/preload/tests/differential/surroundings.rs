//! What lies around a cable.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nearwire_lab::{CableEnd, Namespace};

/// Interfaces of an emulated host.
pub const NICS: [&str; 2] = ["nic0", "nic1"];
/// The same as ends of a cable.
pub const NIC_ENDS: [&str; 2] = ["nw0", "nw1"];

/// The longest packet that the leg behind the router carries, bytes.
const NARROW_BYTES: u32 = 1400;
/// More than the kernel takes on the busiest machine.
const IPV6_WITHIN: Duration = Duration::from_secs(10);

/// A host behind the far end, which becomes a router with a narrow leg to it. The host has all addresses of 10.78.0.0/16
/// and fd78::/64: what the near end's kernel learns of a path is for one destination, so each script has its own.
pub struct Beyond {
    pub namespace: Namespace,
}

impl Beyond {
    pub const INTERFACE: &str = "nwb1";

    pub fn lay(near: &CableEnd, far: &CableEnd) -> Self {
        let namespace = Namespace::new().unwrap();
        let inside = format!("/proc/{}/fd/{}", std::process::id(), namespace.fd().as_raw_fd());
        ip(
            &far.namespace,
            &format!("link add nwb0 mtu {NARROW_BYTES} type veth peer name nwb1 mtu {NARROW_BYTES} netns {inside}"),
        );
        let router = [
            "addr add 10.79.0.1/24 dev nwb0",
            "addr add fd79::1/64 dev nwb0 nodad",
            // What is forwarded has its neighbour asked for from a link-local address, and a cable's end makes none.
            "addr add fe80::1/64 dev nwb0 nodad",
            "link set nwb0 up",
            "route add 10.78.0.0/16 via 10.79.0.2",
        ];
        router.iter().for_each(|line| ip(&far.namespace, line));
        let host = [
            "link set lo up".to_owned(),
            "addr add 10.79.0.2/24 dev nwb1".to_owned(),
            "addr add fd79::2/64 dev nwb1 nodad".to_owned(),
            "link set nwb1 up".to_owned(),
            "route add local 10.78.0.0/16 dev lo".to_owned(),
            "-6 route add local fd78::/64 dev lo".to_owned(),
            format!("route add {}/32 via 10.79.0.1", near.ipv4),
            format!("-6 route add {}/128 via fd79::1", near.ipv6),
        ];
        host.iter().for_each(|line| ip(&namespace, line));
        ip(&far.namespace, "-6 route add fd78::/64 via fd79::2");
        for (family, key) in [("ipv4", "conf/all/forwarding"), ("ipv6", "conf/all/forwarding")] {
            let path = format!("/proc/sys/net/{family}/{key}");
            far.namespace.enter(|| std::fs::write(&path, "1")).unwrap().unwrap();
        }
        ip(&near.namespace, &format!("route add 10.78.0.0/16 via {}", far.ipv4));
        ip(&near.namespace, &format!("-6 route add fd78::/64 via {}", far.ipv6));
        await_ipv6(near, &namespace);
        Self { namespace }
    }
}

/// The kernel uses IPv6 on an interface when a worker has seen that it is up: on a busy machine later than the first script sends.
fn await_ipv6(near: &CableEnd, beyond: &Namespace) {
    let open = |namespace: &Namespace| namespace.enter(|| UdpSocket::bind("[::]:9")).unwrap().unwrap();
    let (here, there) = (open(&near.namespace), open(beyond));
    there.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let deadline = Instant::now() + IPV6_WITHIN;
    while there.recv(&mut [0]).is_err() {
        assert!(Instant::now() < deadline, "the host behind the router is not reached by IPv6");
        // Refused while there is no way.
        let _ = here.send_to(b"x", "[fd78::1]:9");
    }
}

/// Another namespace, in which this host has the addresses of both ends of the cable.
pub struct Elsewhere {
    namespace: Namespace,
}

impl Elsewhere {
    pub fn lay(near: &CableEnd, far: &CableEnd) -> Self {
        let namespace = Namespace::new().unwrap();
        ip(&namespace, "link set lo up");
        for end in [near, far] {
            ip(&namespace, &format!("addr add {}/24 dev lo", end.ipv4));
            ip(&namespace, &format!("addr add {}/64 dev lo nodad", end.ipv6));
        }
        Self { namespace }
    }

    /// Where programs find it while this process lives.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.namespace.fd().as_raw_fd())
    }
}

/// Whether this kernel has frames that lie in several buffers (`XDP_USE_SG`), which came with Linux 6.6: of longer ones an
/// older kernel keeps all that comes by their interface.
pub fn has_long_frames() -> bool {
    is_kernel_since((6, 6))
}

/// Whether programs can have shares of an agent's ports: an older kernel maps no rings of a bound socket, and each program
/// opens a port of its own.
pub fn has_shares() -> bool {
    is_kernel_since((6, 4))
}

fn is_kernel_since(version: (u32, u32)) -> bool {
    let uname = rustix::system::uname();
    let mut numbers = uname.release().to_str().unwrap().split(['.', '-']).map(|word| word.parse::<u32>().unwrap_or(0));
    let mut number = || numbers.next().unwrap_or(0);
    (number(), number()) >= version
}

/// A VLAN interface at each end, gone when dropped: one that stays would keep the next from being made.
pub struct Vlan([Namespace; 2]);

impl Vlan {
    const ENDS: [&str; 2] = ["nwv0", "nwv1"];

    pub fn lay(near: &CableEnd, far: &CableEnd) -> Self {
        for ((end, name), last) in [near, far].into_iter().zip(Self::ENDS).zip(1..) {
            ip(&end.namespace, &format!("link add link {} name {name} type vlan id 7", end.interface));
            ip(&end.namespace, &format!("addr add 10.80.0.{last}/24 dev {name}"));
            ip(&end.namespace, &format!("link set {name} up"));
        }
        Self([near.namespace.clone(), far.namespace.clone()])
    }
}

impl Drop for Vlan {
    fn drop(&mut self) {
        for (namespace, name) in self.0.iter().zip(Self::ENDS) {
            ip(namespace, &format!("link del {name}"));
        }
    }
}

/// Gives the two interfaces of an emulated host that lead to each other the names of a cable's ends.
pub fn name_nics() {
    for (nic, end) in NICS.into_iter().zip(NIC_ENDS) {
        if Path::new("/sys/class/net").join(nic).exists() {
            let here = Namespace::current().unwrap();
            for change in [format!("{nic} down"), format!("{nic} name {end}"), format!("{end} up")] {
                ip(&here, &format!("link set {change}"));
            }
        }
    }
}

/// Whether the device of an interface in this namespace takes the tags of VLANs out of frames.
pub fn takes_tags_off(interface: &str) -> bool {
    let driver = std::fs::read_link(format!("/sys/class/net/{interface}/device/driver"));
    driver.is_ok_and(|driver| driver.ends_with("e1000e"))
}

/// What the kernel learned of paths is forgotten.
pub fn forget_paths(near: &Namespace) {
    ip(near, "route flush cache");
    ip(near, "-6 route flush cache");
}

fn ip(namespace: &Namespace, arguments: &str) {
    let run = || Command::new("ip").args(arguments.split_ascii_whitespace()).output();
    let output = namespace.enter(run).unwrap().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}
