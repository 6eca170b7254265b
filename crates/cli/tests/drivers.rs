//! The command on drivers of real devices, in an emulated host: pairs of NICs that QEMU joins.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use nearwire_lab::EmulatedHost;
use nearwire_lab::emulated_host::{HostHardware, HostNic, NicKind};

use common::emulated::booted_or_skip;

fn hardware() -> HostHardware {
    let pair = |kind, queues, segment| [(); 2].map(|()| HostNic { queues, segment, ..HostNic::new(kind) });
    let nics = [pair(NicKind::VirtioNet, 2, 0), pair(NicKind::E1000e, 1, 1), pair(NicKind::Vmxnet3, 1, 2)];
    HostHardware { nics: nics.concat(), ..HostHardware::default() }
}

#[test]
fn explore() {
    let Some(mut host) = booted_or_skip(&hardware(), "") else { return };
    println!("booted in {:?}", host.boot_time());
    let script = std::fs::read_to_string("/tmp/nw/drv.sh").unwrap();
    for line in script.lines().filter(|line| !line.trim().is_empty()) {
        let start = std::time::Instant::now();
        let output = host.run(line).unwrap();
        println!("# {line}  [{} in {:?}]\n{}\n{}", output.status, start.elapsed(), output.text(), output.errors());
    }
    println!("{}", host.console());
}
