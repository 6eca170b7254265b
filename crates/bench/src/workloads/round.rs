//! What a round is to do, and what it came to.

use nearwire_sys::usage::ThreadUsage;
use serde::{Deserialize, Serialize};

/// One message that was answered. Times are clock ticks.
///
/// A closed loop intends to send a message when it sends it; an open loop intends by its schedule, and what it sends late counts as
/// latency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    /// When the message was to be sent.
    pub intended_ticks: u64,
    /// From there to the send; saturates at `u32::MAX` (over one second).
    pub sent_after_ticks: u32,
    /// From when it was intended to the answer; saturates likewise.
    pub received_after_ticks: u32,
}

impl Sample {
    /// From three stamps.
    #[inline]
    #[must_use]
    pub fn new(intended_ticks: u64, sent_ticks: u64, received_ticks: u64) -> Sample {
        let after = |ticks: u64| u32::try_from(ticks.saturating_sub(intended_ticks)).unwrap_or(u32::MAX);
        Sample { intended_ticks, sent_after_ticks: after(sent_ticks), received_after_ticks: after(received_ticks) }
    }
}

/// Where samples go: allocated, touched and locked before the first round, so that recording one is a store.
#[derive(Debug)]
pub struct SampleBuffer {
    samples: Vec<Sample>,
}

impl SampleBuffer {
    /// Room for `capacity` samples; every page is touched now.
    #[must_use]
    pub fn new(capacity: usize) -> SampleBuffer {
        let mut samples = vec![Sample { intended_ticks: 1, sent_after_ticks: 1, received_after_ticks: 1 }; capacity];
        samples.clear();
        SampleBuffer { samples }
    }

    /// The samples of the last round, in the order in which answers came.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Forgets them.
    pub(super) fn clear(&mut self) {
        self.samples.clear();
    }

    /// Keeps one. Callers see to it that there is room.
    #[inline]
    pub(super) fn push(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    pub(super) fn is_full(&self) -> bool {
        self.samples.len() == self.samples.capacity()
    }
}

/// When a round begins to count and when it ends.
#[derive(Debug, Clone, Copy)]
pub struct RoundPlan {
    /// Messages before the first that counts, as long as they take no longer than the round may.
    pub warm_up_messages: u64,
    /// Least time spent on them.
    pub warm_up_ns: u64,
    /// End after this many counted messages, lost ones included.
    pub messages: Option<u64>,
    /// End after this much time.
    pub time_ns: Option<u64>,
    /// An answer later than this is lost.
    pub timeout_ns: u64,
    /// CPU the initiator is pinned to, to notice when it was elsewhere.
    pub cpu: Option<u32>,
}

/// What a round came to beside its samples.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RoundOutcome {
    /// Messages sent before counting began.
    pub warm_up_messages: u64,
    /// Time spent on them.
    pub warm_up_ns: u64,
    /// Stamp of the round's beginning.
    pub started_ticks: u64,
    /// Time measured.
    pub duration_ns: u64,
    /// Messages that counted and were sent.
    pub sent: u64,
    /// Messages that could not be sent: there was no room at this end, or, by a schedule, none by the end of the round.
    pub unsent: u64,
    /// Most messages that were out at a time.
    pub outstanding_most: u64,
    /// Answers that did not come in time.
    pub lost: u64,
    /// Answers that came again.
    pub duplicated: u64,
    /// Answers to messages that had been counted as lost, or that came behind the answer to a later message.
    pub reordered: u64,
    /// Answers of the wrong length, content or number.
    pub corrupted: u64,
    /// Stamps taken on another CPU than the pinned one.
    pub migrated: u64,
    /// What the thread used for the counted messages.
    pub usage: ThreadUsage,
}

/// What the far end did in a round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Responded {
    /// Messages that it received: of the right length, and where it counts them, each once.
    pub messages: u64,
    /// Messages that it could not send back.
    pub unsent: u64,
    /// Messages that came again, where it counts them.
    pub duplicated: u64,
    /// Messages that came behind a later one, where it counts them.
    pub reordered: u64,
    /// Messages of the wrong length or content.
    pub corrupted: u64,
    /// From the first message to the last, where it counts them.
    pub received_in_ns: u64,
    /// CPU time since the first message.
    pub cpu_ns: u64,
    /// Voluntary context switches since then.
    pub voluntary_switches: u64,
    /// Involuntary ones.
    pub involuntary_switches: u64,
    /// Where forwarding is stamped: from a frame being seen to its hand-over to the kernel, nanoseconds, for the round's first
    /// [`FORWARD_SAMPLES`](super::echo::FORWARD_SAMPLES) frames. The wait for the frame is not part of it.
    pub forward_ns: Option<Vec<u32>>,
}

impl Responded {
    /// With what the thread used since `before`.
    #[must_use]
    pub(super) fn with_usage_since(self, before: &ThreadUsage) -> Responded {
        let usage = ThreadUsage::now().since(before);
        let ThreadUsage { cpu_ns, voluntary_switches, involuntary_switches, .. } = usage;
        Responded { cpu_ns, voluntary_switches, involuntary_switches, ..self }
    }
}
