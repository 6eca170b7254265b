//! VLAN interfaces above drivers of real devices, in emulated hosts on the distribution's kernels: what sockets get, and by which
//! interface, with the kernel and with the library. Needs QEMU and a C compiler (or says SKIP).
#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

mod common;

use std::path::{Path, PathBuf};

use common::{compiled, library, missing_compiler};
use nearwire_lab::emulated_host::{
    HostHardware, HostNic, HostSystem, NicKind, SOONER, StockKernel, is_everything_wanted,
};
use nearwire_lab::{EmulatedHost, emulated_or_skip};

const IP: &str = "/usr/sbin/ip";
const ETHTOOL: &str = "/usr/sbin/ethtool";
/// Joined on the VLAN interface.
const GROUP: &str = "239.77.1.2";

/// How long calls of the library look for frames before they sleep.
const SPINS: [&str; 3] = ["50us", "0", "forever"];

/// Two ends that hear each other.
#[derive(Clone, Copy)]
struct Pair {
    near: &'static str,
    far: &'static str,
    /// Distinguishes its addresses.
    number: u32,
}

const VIRTIO_NET: Pair = Pair { near: "nic0", far: "nic1", number: 0 };
const E1000E: Pair = Pair { near: "nic2", far: "nic3", number: 2 };
const VMXNET3: Pair = Pair { near: "nic4", far: "nic5", number: 4 };
const VETH: Pair = Pair { near: "pair0", far: "pair1", number: 6 };

/// Who has datagrams.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Library,
    Kernel,
}

impl Pair {
    /// The near end's, of the interface itself and of the VLAN.
    fn addresses(self) -> [String; 2] {
        let number = self.number;
        [format!("10.{number}.0.1"), format!("10.{}.0.1", 100 + number)]
    }

    /// A namespace for each end, with addresses and a VLAN of id 5.
    fn dress(self) -> String {
        let [parent, vlan] = self.addresses().map(|address| address.trim_end_matches('1').to_owned());
        let dress = |interface: &str, last: u32| {
            format!(
                "/bin/ip netns add {interface}; /bin/ip link set {interface} netns {interface}; in{last}() {{ /bin/ip -n {interface} \"$@\"; }}; \
                 in{last} link set lo up; in{last} addr add {parent}{last}/24 dev {interface}; in{last} link set {interface} up; \
                 in{last} link add link {interface} name v{last} type vlan id 5; in{last} addr add {vlan}{last}/24 dev v{last}; \
                 in{last} link set v{last} up; "
            )
        };
        dress(self.near, 1) + &dress(self.far, 2)
    }

    /// Runs both ends, the near one with these variables. Prints what the near one said, then what the far one did.
    fn run(self, variables: &str, far: &str) -> String {
        let Pair { near, far: far_end, .. } = self;
        let [parent, vlan] = self.addresses();
        let more = format!("{parent} {vlan} {GROUP}");
        format!(
            "/bin/ip netns exec {near} env {variables} vlans near {near} v1 {more} >/tmp/near 2>/tmp/counted & \
             /bin/ip netns exec {far_end} vlans {far} {far_end} v2 {more} >/tmp/far 2>&1; \
             wait; cat /tmp/near /tmp/far; echo counted; cat /tmp/counted"
        )
    }
}

fn accelerated(mode: &str, spin: &str) -> String {
    format!(
        "LD_PRELOAD=/bin/libnearwire_preload.so NEARWIRE_KERNEL_FIRST=0 NEARWIRE_SPIN={spin} NEARWIRE_STATS=1 NEARWIRE_MODE={mode}"
    )
}

/// The programs in a host with this kernel, if this machine can emulate one.
fn booted_or_skip(kernel: StockKernel) -> Option<EmulatedHost> {
    if missing_compiler() {
        return None;
    }
    let program = compiled("vlans");
    let named = program.with_file_name("vlans");
    // Tests of several kernels make it at the same time, and it is the same.
    std::fs::copy(&program, with_fd(&named)).unwrap();
    std::fs::rename(with_fd(&named), &named).unwrap();
    let library = library();
    let programs = [named.to_str().unwrap(), library.to_str().unwrap(), IP, ETHTOOL];
    let system = HostSystem::of_target(env!("CARGO_TARGET_TMPDIR"), &programs).with_kernel(kernel);
    let pair = |kind, segment| [(); 2].map(|()| HostNic { segment, ..HostNic::new(kind) });
    let nics = [pair(NicKind::VirtioNet, 0), pair(NicKind::E1000e, 1), pair(NicKind::Vmxnet3, 2)].concat();
    emulated_or_skip(EmulatedHost::boot(&HostHardware { nics, ..HostHardware::default() }, &system, SOONER))
}

fn with_fd(path: &Path) -> PathBuf {
    let thread = format!("{:?}", std::thread::current().id());
    path.with_extension(thread.replace(['(', ')'], "-") + &std::process::id().to_string())
}

#[track_caller]
fn runs(host: &mut EmulatedHost, command: &str) -> String {
    let output = host.run(command).unwrap();
    assert_eq!(output.status, 0, "{command}:\n{}\n{}\n{}", output.text(), output.errors(), host.console());
    output.text()
}

/// What both ends said, and how many frames the library received.
fn parted(said: &str) -> (String, u64) {
    let (told, counted) = said.split_once("\ncounted").unwrap_or_else(|| panic!("cut short: {said}"));
    let frames = counted.lines().find(|line| line.trim_end().ends_with("frames received"));
    let frames = frames.and_then(|line| line.split_whitespace().find_map(|word| word.parse().ok())).unwrap_or(0);
    (told.to_owned(), frames)
}

/// The sockets get the same as with the kernel, which is what they are for, by whom they are to get it.
#[track_caller]
fn gets_the_same_as_with_the_kernel(host: &mut EmulatedHost, pair: Pair, mode: &str, by: By) {
    let (kernels, _) = parted(&runs(host, &pair.run("A=b", "far")));
    let [_, vlan] = pair.addresses();
    assert!(kernels.contains("50 of 50 answered") && kernels.contains("\nended"), "{}: {kernels}", pair.near);
    for wanted in [format!("v9 to {vlan} on v1"), format!("v9 to {GROUP} on v1")] {
        assert!(kernels.contains(&wanted), "{}: {kernels}", pair.near);
    }
    for spin in SPINS {
        let said = runs(host, &pair.run(&accelerated(mode, spin), "far"));
        let (ours, frames) = parted(&said);
        assert_eq!(ours, kernels, "{} {mode}, spin {spin}", pair.near);
        assert_eq!(frames > 0, by == By::Library, "{} {mode}, spin {spin}: {said}", pair.near);
    }
}

/// Frames of a VLAN for which the host has no interface reach nobody, with the kernel and with the library.
#[track_caller]
fn drops_frames_of_unknown_vlans(host: &mut EmulatedHost, pair: Pair, mode: &str, spins: &[&str]) {
    let Pair { near, far, .. } = pair;
    let [address, _] = pair.addresses();
    runs(
        host,
        &format!(
            "/bin/ip -n {near} link del v1 2>/dev/null; mac=$(/bin/ip netns exec {near} cat /sys/class/net/{near}/address); \
             /bin/ip -n {far} neigh replace {address} lladdr $mac dev v2 && /bin/ip -n {far} route replace {address}/32 dev v2 table 5 && \
             {{ /bin/ip -n {far} rule add oif v2 table 5 2>/dev/null || true; }}"
        ),
    );
    for variables in spins.iter().map(|spin| accelerated(mode, spin)).chain(["A=b".to_owned()]) {
        let said = runs(host, &pair.run(&variables, "tagged"));
        if !said.contains("\nended") || said.contains("tagged") {
            let device = format!("/bin/ip -n {near} -d link show {near}; /bin/ip netns exec {near} ethtool -k {near}");
            panic!("{near} {mode} {variables}: {said}\n{}", runs(host, &device));
        }
    }
}

fn vlans_on(kernel: StockKernel) {
    let Some(mut host) = booted_or_skip(kernel) else { return };
    let host = &mut host;
    runs(host, "modprobe -a veth 8021q && /bin/ip link add pair0 type veth peer name pair1");
    for pair in [VIRTIO_NET, E1000E, VMXNET3, VETH] {
        runs(host, &pair.dress());
    }
    // Frames come with their tags.
    gets_the_same_as_with_the_kernel(host, VIRTIO_NET, "native", By::Library);
    gets_the_same_as_with_the_kernel(host, VIRTIO_NET, "generic", By::Library);
    // The tags are beside the frames, where no program of ours sees them.
    gets_the_same_as_with_the_kernel(host, E1000E, "generic", By::Kernel);
    gets_the_same_as_with_the_kernel(host, VETH, "native", By::Kernel);
    // Its driver runs programs natively since Linux 6.6.
    let of_vmxnet3 = if kernel == StockKernel::Linux6_1 { "generic" } else { "native" };
    for (pair, mode) in [(E1000E, "generic"), (VMXNET3, of_vmxnet3)] {
        let near = pair.near;
        runs(host, &format!("/bin/ip netns exec {near} ethtool -K {near} rxvlan off"));
        gets_the_same_as_with_the_kernel(host, pair, mode, By::Library);
        runs(host, &format!("/bin/ip netns exec {near} ethtool -K {near} rxvlan on"));
    }
    let mut turns = SPINS.into_iter().cycle().skip(kernel as usize);
    let mut spins = || if is_everything_wanted() { SPINS.to_vec() } else { turns.by_ref().take(2).collect() };
    // One leaves tags in, the other filters VLANs. That e1000e filters is said (`rx-vlan-filter`), and not so.
    for (pair, mode) in [(VIRTIO_NET, "native"), (VIRTIO_NET, "generic"), (VMXNET3, of_vmxnet3)] {
        drops_frames_of_unknown_vlans(host, pair, mode, &spins());
    }
    // Its driver tells programs in it which tag is beside the frame, since Linux 6.8.
    if kernel != StockKernel::Linux6_1 {
        drops_frames_of_unknown_vlans(host, VETH, "native", &spins());
    }
}

#[test]
fn vlan_sockets_on_drivers_of_linux_6_1_get_what_is_theirs() {
    vlans_on(StockKernel::Linux6_1);
}

#[test]
fn vlan_sockets_on_drivers_of_linux_6_12_get_what_is_theirs() {
    vlans_on(StockKernel::Linux6_12);
}

#[test]
#[ignore = "minutes: make test-kernels"]
fn vlan_sockets_on_drivers_of_the_newest_linux_get_what_is_theirs() {
    vlans_on(StockKernel::Newest);
}
