//! `udp/bypass` beside the kernel's stack: what is not the path's stays the kernel's.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{NEARWIRE, may_run};
use nearwire_bench::bed::TestBed;
use nearwire_bench::experiment::{CellSpec, Experiment};
use nearwire_bench::round::{self, RoundResult};
use nearwire_bench::workloads::{RoundPlan, SampleBuffer};
use nearwire_lab::{Cable, Namespace, VirtualCable, VirtualCableOptions};
use nearwire_sys::affinity::{allowed_cpus, pin_current_thread};
use nearwire_sys::tsc::Clock;

const ROUND_NS: u64 = 400_000_000;

fn run_bypass(bed: &mut TestBed) -> RoundResult {
    let path = "udp/bypass".parse().unwrap();
    let cell = CellSpec { path, tx: None, rx: None, size_bytes: 64, ip_version: Some(4), rate_per_second: None };
    let setup = Experiment::default().setup(&cell, bed, 1, 0, None);
    let plan = RoundPlan {
        warm_up_messages: 0,
        warm_up_ns: 0,
        messages: None,
        time_ns: Some(ROUND_NS),
        timeout_ns: setup.timeout_ns,
        cpu: None,
    };
    round::run(bed, Clock::calibrate(), &setup, &plan, &mut SampleBuffer::new(1 << 16)).unwrap()
}

/// Sends to a closed port over the kernel's stack and waits for the ICMP error of the far one: an exchange of the two
/// kernels that needs no program, as ping does. `true`: it came.
fn kernels_exchange(near: &Namespace, far: IpAddr) -> bool {
    let any: SocketAddr = if far.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().unwrap();
    let socket = near.enter(|| UdpSocket::bind(any)).unwrap().unwrap();
    socket.connect((far, 9)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    socket.send(b"discard").unwrap();
    socket.recv(&mut [0; 16]).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

#[test]
fn kernels_answer_each_other_while_the_path_runs() {
    if !may_run() {
        return;
    }
    let cable = VirtualCable::lay(VirtualCableOptions::default()).unwrap();
    let near = cable.near().namespace.clone();
    let cpus = allowed_cpus();
    let mut bed = TestBed::on_cable(Box::new(cable), Path::new(NEARWIRE), cpus.last().copied()).unwrap();
    let far = bed.local.peer_addresses.clone();
    let done = AtomicBool::new(false);
    let (result, answered, asked) = std::thread::scope(|scope| {
        let kernels = scope.spawn(|| {
            let (mut answered, mut asked) = (0, 0);
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(50));
                for far in &far {
                    asked += 1;
                    answered += u32::from(kernels_exchange(&near, *far));
                }
            }
            (answered, asked)
        });
        // Two ends that spin on one CPU would wait for each other; the kernels' thread goes where there is room.
        pin_current_thread(cpus[0]).unwrap();
        let result = run_bypass(&mut bed);
        done.store(true, Ordering::Relaxed);
        let (answered, asked) = kernels.join().unwrap();
        (result, answered, asked)
    });
    assert!(result.outcome.sent > 10 * result.outcome.lost.max(10), "{:?}", result.outcome);
    // The kernel limits how many ICMP errors it sends, but not to none.
    assert!(asked >= 4 && answered >= asked / 2, "{answered} of {asked}");
    assert_eq!(result.outcome.corrupted, 0);
}
