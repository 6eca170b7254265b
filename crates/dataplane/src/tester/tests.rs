use nearwire_frames::port::{Port, PortStatistics, PreparedFrame};
use nearwire_frames::ports::memory::{MemoryPort, memory_pair};

use super::*;
use crate::traffic::{Family, Flows, Sizes};

const GENERATOR: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const SINK: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

/// The sink's port: whenever it is looked at, the device has its turn.
struct BehindDevice<D> {
    entry: MemoryPort,
    device: D,
    exit: MemoryPort,
    sink: MemoryPort,
}

impl<D: FnMut(&[u8]) -> usize> Port for BehindDevice<D> {
    fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, PortError> {
        while let Some(frame) = self.entry.receive(<[u8]>::to_vec)? {
            for _ in 0..(self.device)(&frame) {
                self.exit.send(&frame)?;
            }
        }
        self.sink.receive(read)
    }

    fn queue(&mut self, frame: &[u8]) -> Result<bool, PortError> {
        self.sink.queue(frame)
    }

    fn queue_with(&mut self, len_bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        self.sink.queue_with(len_bytes, write)
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.sink.flush()
    }

    fn prepare(&mut self, frame: &[u8]) -> Result<PreparedFrame, PortError> {
        self.sink.prepare(frame)
    }

    fn send_prepared(&mut self, frame: PreparedFrame, patch: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        self.sink.send_prepared(frame, patch)
    }

    fn statistics(&self) -> PortStatistics {
        self.sink.statistics()
    }

    fn describe(&self) -> String {
        self.sink.describe()
    }
}

/// Runs a trial through a device that has each frame and says how often it forwards it.
fn through(plan: TrialPlan, device: impl FnMut(&[u8]) -> usize + Send) -> Result<Trial, TesterError> {
    let ((sending, entry), (exit, sink)) = (memory_pair(1024), memory_pair(1 << 15));
    let traffic = Traffic {
        family: Family::V4,
        sizes: "imix".parse::<Sizes>().unwrap(),
        flows: Flows::new(300).unwrap(),
        vlan: None,
        token: 7,
    };
    let hops = Hops { source: GENERATOR, destination: SINK };
    let receiving = BehindDevice { entry, device, exit, sink };
    Tester::new(sending, receiving, &traffic, hops, SINK, Clock::calibrate()).unwrap().trial(plan)
}

const PLAN: TrialPlan = TrialPlan::steady(20_000.0, 100_000_000, 5_000_000);

#[test]
fn device_that_forwards_all_has_no_loss_and_every_latency() {
    let trial = through(PLAN, |_| 1).unwrap();
    assert_eq!(trial.sent_frames + trial.unsent_frames, 2000);
    assert_eq!(trial.lost_frames(), 0);
    assert_eq!(trial.latency.count(), trial.received_frames);
    assert_eq!((trial.corrupted_frames, trial.duplicated_frames, trial.reordered_frames), (0, 0, 0));
}

#[test]
fn device_that_drops_every_tenth_frame_loses_a_tenth() {
    let mut frames = 0;
    let trial = through(PLAN, |_| {
        frames += 1;
        usize::from(frames % 10 != 0)
    })
    .unwrap();
    assert_eq!(trial.lost_frames(), trial.sent_frames / 10);
}

#[test]
fn device_that_doubles_frames_is_found_out() {
    let trial = through(PLAN, |_| 2).unwrap();
    assert_eq!((trial.lost_frames(), trial.duplicated_frames), (0, trial.sent_frames));
}

#[test]
fn loop_behind_the_device_stops_the_test() {
    let error = through(PLAN, |_| 8).unwrap_err();
    assert!(
        matches!(error, TesterError::Loop { received_frames, duplicated_frames }
        if duplicated_frames == 7 * received_frames),
        "{error}"
    );
}

#[test]
fn infinite_rate_sends_as_fast_as_it_goes() {
    let trial = through(TrialPlan::steady(f64::INFINITY, 50_000_000, 5_000_000), |_| 1).unwrap();
    assert!(trial.sent_frames > 1000, "{}", trial.sent_frames);
    assert_eq!(trial.unsent_frames, 0);
}

#[test]
fn burst_is_of_as_many_frames_as_asked_for() {
    let trial = through(TrialPlan::burst(777, 500_000_000, 5_000_000), |_| 1).unwrap();
    assert_eq!((trial.sent_frames, trial.unsent_frames, trial.received_frames), (777, 0, 777));
    assert!(trial.duration_ns < 500_000_000);
}

#[test]
fn second_trial_counts_its_own_frames() {
    let ((sending, _entry), (mut exit, receiving)) = (memory_pair(1 << 14), memory_pair(64));
    let traffic =
        Traffic { family: Family::V6, sizes: Sizes::new(vec![80]).unwrap(), flows: Flows::ONE, vlan: None, token: 7 };
    let hops = Hops { source: GENERATOR, destination: SINK };
    let mut tester = Tester::new(sending, receiving, &traffic, hops, SINK, Clock::calibrate()).unwrap();
    let plan = TrialPlan::steady(1000.0, 10_000_000, 5_000_000);
    let first = tester.trial(plan).unwrap();
    assert_eq!(first.lost_frames(), first.sent_frames);
    // A frame of the first trial that comes when the second has begun.
    let maker = FrameMaker::new(&traffic, hops).unwrap();
    let mut frame = vec![0; 80];
    maker.write(tester.next_number - 1, 0, &mut frame);
    let mut sink = Sink::new(tester.next_number);
    exit.send(&frame).unwrap();
    let clock = Clock::calibrate();
    assert_eq!(sink.turn(&mut tester.receiving, &tester.maker, clock, |_| false).unwrap(), 1);
    let trial = sink.finish(Trial::default());
    assert_eq!((trial.received_frames, trial.stale_frames), (0, 1));
}
