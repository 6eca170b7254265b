//! Ping-pong of measuring frames in memory, with faults at the initiator's end.

use std::sync::atomic::{AtomicBool, Ordering};

use nearwire_frames::fault::FaultCounts;
use nearwire_frames::port::PortStatistics;
use nearwire_frames::ports::memory::{MemoryPort, memory_pair};
use nearwire_sys::tsc::Clock;

use super::*;
use crate::workloads::echo;
use crate::workloads::{PingPong, RoundOutcome, RoundPlan, SampleBuffer, Workload};

const OWN: [MacAddress; 2] = [MacAddress([2, 0, 0, 0, 0, 1]), MacAddress([2, 0, 0, 0, 0, 2])];

fn setup(tx: TxMode, rx: RxMode, fault: &str) -> Setup {
    Setup {
        path: "frame/xdp".parse().unwrap(),
        tx,
        rx,
        fault: Some(fault.parse().unwrap()),
        ..super::super::tests::setup()
    }
}

fn endpoint<P: OpenPort>(port: P, setup: &Setup, role: Role) -> FrameEndpoint<P> {
    let [own, peer] = if role == Role::Initiator { OWN } else { [OWN[1], OWN[0]] };
    let path = FramePath { port, promiscuous: None, own, setup: setup.clone(), role };
    path.connect(&EndAddress { port: None, mac: Some(peer) }).unwrap()
}

impl OpenPort for MemoryPort {
    fn open_port(_: &Setup, _: &LocalEnd) -> Result<MemoryPort, PathError> {
        Err(PathError::NoInterface)
    }
}

/// Exchanges messages over a port with the setup's faults, and gives what ping-pong counted, its samples, and what the port did.
fn exchange(setup: &Setup, messages: u64) -> (RoundOutcome, u64, FaultCounts) {
    let now_ns: fn() -> u64 = monotonic_raw_ns;
    let faulty = |near| FaultPort::new(near, setup.fault.unwrap(), setup.fault_seed, now_ns);
    let (outcome, samples, port) = exchange_over(setup, messages, faulty);
    (outcome, samples, port.receive_counts())
}

/// The same over what is made of the initiator's end, which comes back.
fn exchange_over<P: OpenPort>(
    setup: &Setup,
    messages: u64,
    around: impl FnOnce(MemoryPort) -> P,
) -> (RoundOutcome, u64, P) {
    let (near, far) = memory_pair(64);
    let clock = Clock::calibrate();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut far = endpoint(far, setup, Role::Responder);
        let stop = &done;
        let echo = scope.spawn(move || echo::run(&mut far, clock, false, || stop.load(Ordering::Relaxed)).unwrap());
        let mut near = endpoint(around(near), setup, Role::Initiator);
        let plan = RoundPlan {
            warm_up_messages: 0,
            warm_up_ns: 0,
            messages: Some(messages),
            time_ns: None,
            timeout_ns: setup.timeout_ns,
            cpu: None,
        };
        let mut samples = SampleBuffer::new(messages as usize);
        let outcome = PingPong {}.initiate(&mut near, clock, &plan, &mut samples).unwrap();
        done.store(true, Ordering::Relaxed);
        echo.join().unwrap();
        (outcome, samples.samples().len() as u64, near.port)
    })
}

/// A port of one buffer, which is free again when it was asked for often after each send, as where a device tells late of what it sent. Once it
/// has sent `last` frames it stays without.
struct LatePort {
    port: MemoryPort,
    refuses: u64,
    sent: u64,
    refused: u64,
    last: u64,
}

/// More attempts than are made before the clock is looked at.
const LATE_ATTEMPTS: u64 = 3 * SEND_ATTEMPTS as u64;

impl LatePort {
    fn new(port: MemoryPort, last: u64) -> LatePort {
        LatePort { port, refuses: 0, sent: 0, refused: 0, last }
    }

    fn when_free(&mut self, send: impl FnOnce(&mut MemoryPort) -> Result<bool, PortError>) -> Result<bool, PortError> {
        if self.sent == self.last || self.refuses > 0 {
            self.refuses = self.refuses.saturating_sub(1);
            self.refused += 1;
            return Ok(false);
        }
        self.sent += 1;
        self.refuses = LATE_ATTEMPTS;
        send(&mut self.port)
    }
}

impl OpenPort for LatePort {
    fn open_port(_: &Setup, _: &LocalEnd) -> Result<LatePort, PathError> {
        Err(PathError::NoInterface)
    }
}

impl Port for LatePort {
    fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, PortError> {
        self.port.receive(read)
    }

    fn queue(&mut self, frame: &[u8]) -> Result<bool, PortError> {
        self.when_free(|port| port.queue(frame))
    }

    fn queue_with(&mut self, len_bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        self.when_free(|port| port.queue_with(len_bytes, write))
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.port.flush()
    }

    fn prepare(&mut self, frame: &[u8]) -> Result<PreparedFrame, PortError> {
        self.port.prepare(frame)
    }

    fn send_prepared(&mut self, frame: PreparedFrame, patch: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        self.when_free(|port| port.send_prepared(frame, patch))
    }

    fn statistics(&self) -> PortStatistics {
        self.port.statistics()
    }

    fn describe(&self) -> String {
        self.port.describe()
    }
}

#[test]
fn buffers_that_are_free_late_lose_no_message() {
    for tx in [TxMode::Frame, TxMode::Prepared] {
        let setup = Setup { timeout_ns: 10_000_000_000, ..setup(tx, RxMode::InPlace, "loss=0%") };
        let (outcome, samples, late) = exchange_over(&setup, 30, |near| LatePort::new(near, u64::MAX));
        assert_eq!((samples, outcome.sent, outcome.lost), (30, 30, 0), "{tx:?}: {outcome:?}");
        assert!(late.refused > u64::from(SEND_ATTEMPTS), "{tx:?}: {} refused", late.refused);
    }
}

#[test]
fn buffer_that_is_never_free_costs_the_messages_and_not_the_round() {
    let setup = Setup { timeout_ns: 20_000_000, ..setup(TxMode::Frame, RxMode::InPlace, "loss=0%") };
    let (outcome, samples, late) = exchange_over(&setup, 6, |near| LatePort::new(near, 3));
    assert_eq!((samples + outcome.lost, outcome.sent, late.sent), (3, 3, 3), "{outcome:?}");
    assert_eq!(outcome.unsent, 3, "a ring that is full here is no loss on the wire: {outcome:?}");
}

#[test]
fn loss_reordering_and_duplication_are_counted_to_the_frame() {
    for (tx, rx) in [(TxMode::Frame, RxMode::Frame), (TxMode::Prepared, RxMode::InPlace)] {
        let (outcome, samples, faults) = exchange(&setup(tx, rx, "loss=10%,reorder=5%,duplicate=5%"), 1000);
        assert_eq!((outcome.sent, samples + outcome.lost), (1000, 1000));
        // A frame held back comes within the timeout, so only lost frames are lost messages. An end that was not
        // scheduled for the timeout's length may add some.
        assert!(outcome.lost >= faults.lost_frames && faults.lost_frames > 50, "{outcome:?} {faults:?}");
        assert!(outcome.lost - faults.lost_frames == outcome.reordered, "{outcome:?} {faults:?}");
        // The copy of the last answer may come after the round.
        assert!(
            faults.duplicated_frames - outcome.duplicated <= 1 && outcome.duplicated > 20,
            "{outcome:?} {faults:?}"
        );
        assert_eq!(outcome.corrupted, 0);
    }
}

#[test]
fn corrupt_frames_are_never_samples() {
    let (outcome, samples, faults) = exchange(&setup(TxMode::Frame, RxMode::InPlace, "corrupt=20%"), 500);
    assert_eq!(samples + outcome.lost, 500);
    assert!(faults.corrupted_frames > 50);
    // A bit of the addresses or of the number flipped may leave a frame that is somebody else's, or another number.
    // An answer that an end was not scheduled for in time comes late, and is counted as reordered.
    let on_time = outcome.lost - outcome.reordered;
    assert!(on_time <= faults.corrupted_frames && outcome.lost > 30, "{outcome:?} {faults:?}");
    assert!(outcome.corrupted > 10, "{outcome:?} {faults:?}");
}

#[test]
fn everything_lost_ends_soon() {
    let (outcome, samples, _) = exchange(&setup(TxMode::Frame, RxMode::Frame, "loss=100%"), 1_000_000);
    assert_eq!((samples, outcome.sent), (0, outcome.lost));
    assert!(outcome.sent < 100);
}

#[test]
fn tagged_frame_whose_tag_the_nic_took_out_is_a_message() {
    let header = MeasuringHeader {
        destination: OWN[1],
        source: OWN[0],
        tags: tags(Some(5)),
        kind: Kind::Request,
        token: ExperimentToken(7),
        sequence: 0,
    };
    let mut sent = vec![0; 64];
    measuring::write(&mut sent, &header).unwrap();
    let expected = Expected::answer_to(&sent, header).unwrap();
    let answer = MeasuringHeader { destination: OWN[0], source: OWN[1], kind: Kind::Reply, sequence: 9, ..header };
    measuring::write(&mut sent, &answer).unwrap();
    assert!(matches!(expected.judge(&sent, 64), Some(Arrival::Message(9))));
    sent.drain(TAG_AT..TAG_AT + TAG_BYTES);
    assert!(matches!(expected.judge(&sent, 60), Some(Arrival::Message(9))));
    sent[40] ^= 1;
    assert!(!matches!(expected.judge(&sent, 60), Some(Arrival::Message(_))));
}
