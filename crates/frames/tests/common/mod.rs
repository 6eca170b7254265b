//! A veth pair between two anonymous namespaces for tests and examples, and the rule for skipping.

#![allow(dead_code, reason = "each test program uses its part")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use nearwire_sys::netns;

/// Two namespaces with a veth pair of two queues: `nw0` in `near`, `nw1` in `far`, both up. Gone when dropped, and when
/// the process ends: nothing names the namespaces.
pub struct Cable {
    pub near: OwnedFd,
    pub far: OwnedFd,
}

/// e1000e has it after two seconds.
const CARRIER_WITHIN: Duration = Duration::from_secs(10);

pub const NEAR: &str = "nw0";
pub const FAR: &str = "nw1";

impl Cable {
    pub fn lay() -> io::Result<Cable> {
        Cable::lay_with_queues(2)
    }

    pub fn lay_with_queues(queues: u32) -> io::Result<Cable> {
        let (near, far) = (netns::new_network_namespace()?, netns::new_network_namespace()?);
        let far_path = format!("/proc/{}/fd/{}", std::process::id(), far.as_raw_fd());
        let both = format!("numtxqueues {queues} numrxqueues {queues}");
        netns::enter(&near, || {
            // Different indices: a veth whose peer has the same number gets its carrier up to a second late.
            ip(&format!("link add {NEAR} index 10 {both} type veth peer name {FAR} index 11 {both} netns {far_path}"))?;
            ip(&format!("link set {NEAR} up"))
        })??;
        netns::enter(&far, || ip(&format!("link set {FAR} up")))??;
        Ok(Cable { near, far })
    }

    /// Two NICs of an emulated host, which hear each other: the one with this number and the next. `None` where there are none.
    pub fn of_nics(number: u32) -> Option<Cable> {
        let [near, far] = [number, number + 1].map(|number| format!("nic{number}"));
        if !std::path::Path::new("/sys/class/net").join(&far).exists() {
            return None;
        }
        let put = |nic: &str, name: &str| -> io::Result<OwnedFd> {
            let namespace = netns::new_network_namespace()?;
            let path = format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd());
            ip(&format!("link set {nic} down"))?;
            ip(&format!("link set {nic} name {name} netns {path}"))?;
            netns::enter(&namespace, || ip(&format!("link set {name} up")))??;
            Ok(namespace)
        };
        let ends = put(&near, NEAR).and_then(|near| Ok(Cable { near, far: put(&far, FAR)? }));
        let cable = ends.expect("NICs of an emulated host move into namespaces");
        let until = Instant::now() + CARRIER_WITHIN;
        let is_up = |name: &str| ip_output(&format!("link show {name}")).contains("LOWER_UP");
        while !(cable.near(|| is_up(NEAR)) && cable.far(|| is_up(FAR))) {
            assert!(Instant::now() < until, "no carrier");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(cable)
    }

    pub fn near<R>(&self, work: impl FnOnce() -> R) -> R {
        netns::enter(&self.near, work).expect("the namespace can be entered")
    }

    pub fn far<R>(&self, work: impl FnOnce() -> R) -> R {
        netns::enter(&self.far, work).expect("the namespace can be entered")
    }
}

/// Runs `ip` in the namespace of the calling thread.
pub fn ip(arguments: &str) -> io::Result<()> {
    let output = Command::new("ip").args(arguments.split_ascii_whitespace()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("ip {arguments}: {}", said.trim())))
}

/// What `ip` prints.
pub fn ip_output(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split_ascii_whitespace()).output().expect("ip runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A cable, or none where this process may not make one. `NEARWIRE_REQUIRE` makes that a failure.
pub fn cable_or_skip() -> Option<Cable> {
    cable_of_queues_or_skip(2)
}

/// The same, with as many queues.
pub fn cable_of_queues_or_skip(queues: u32) -> Option<Cable> {
    match Cable::lay_with_queues(queues).and_then(|cable| may_use_bpf().map(|()| cable)) {
        Ok(cable) => Some(cable),
        Err(error) if std::env::var_os("NEARWIRE_REQUIRE").is_none() => {
            println!("SKIP no veth cable or no bpf(2) here: {error}");
            None
        }
        Err(error) => panic!("NEARWIRE_REQUIRE is set, and no veth cable or no bpf(2) here: {error}"),
    }
}

pub fn may_use_bpf() -> io::Result<()> {
    nearwire_sys::bpf::Map::xskmap("probe", 1).map(drop)
}
