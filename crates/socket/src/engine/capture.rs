//! Frames for `nearwire capture --pid`, see [`crate::capture`].

use std::time::Duration;

use nearwire_frames::EnginePort;
use nearwire_frames::capture::Direction;

use super::{Attached, Engine};
use crate::capture::{Answer, Recorder, Request};
use crate::host::Host;
use crate::now::Now;
use crate::status::Writer;

/// A recorder that asked for a ring and did not open it within this time is gone.
const OPENED_WITHIN: Duration = Duration::from_secs(1);

/// A capture that is going on.
pub(super) struct Capture {
    recorder: Recorder,
    number: u32,
    /// Of the monotonic clock.
    since_ns: u64,
}

impl Capture {
    #[inline]
    pub(super) fn record(&mut self, now: Now, ifindex: u32, direction: Direction, frame: &[u8]) {
        self.recorder.record(ifindex, direction, now.clocks.time_of_day_ns, frame);
    }

    pub(super) fn describe(&mut self, attached: &[Attached<impl EnginePort>]) {
        for one in attached {
            self.recorder.describe(one.ifindex, &one.name, &one.description);
        }
    }

    fn has_reader(&self, now: Now) -> bool {
        let may_come = !self.recorder.was_opened() && now.since(self.since_ns) < OPENED_WITHIN;
        may_come || self.recorder.has_reader()
    }

    /// See [`Recorder::leave_to_parent`].
    pub(super) fn leave_to_parent(self) {
        self.recorder.leave_to_parent();
    }
}

impl<H: Host> Engine<H> {
    /// Begins a capture where one is asked for in the page.
    #[inline]
    pub(super) fn follow_capture_request(&mut self, now: Now) {
        if self.is_capture_requested() {
            self.answer_capture_request(now);
        }
    }

    #[inline]
    pub(super) fn is_capture_requested(&self) -> bool {
        self.page.capture_request() != self.capture_asked
    }

    #[cold]
    fn answer_capture_request(&mut self, now: Now) {
        let asked = [self.page.capture_request(), self.page.capture_complement()];
        // Half of a request is whole at the next look, and none needs no answer.
        let request = Request::of_words(asked);
        if request.is_none() && asked != [0; 2] {
            return;
        }
        self.capture_asked = asked[0];
        if self.is_branch {
            // The first engine answers, when it has all frames.
            self.is_capture_wanted = asked != [0; 2];
            return;
        }
        self.follow_capture();
        self.check_capture(now);
        let Some(request) = request else { return };
        let answer = match self.capture {
            Some(_) => Answer::Busy { number: request.number },
            None => self.begin_capture(now, request),
        };
        self.page.set_capture_answer(answer.word());
    }

    /// Whether frames are captured: one engine has all of them then.
    pub(crate) fn is_captured(&self) -> bool {
        self.capture.is_some()
    }

    /// Whether somebody asks for that, and this is not the engine that has all of them. Told once.
    pub(crate) fn take_capture_wanted(&mut self) -> bool {
        std::mem::take(&mut self.is_capture_wanted)
    }

    /// Lets the ring go when its reader has what it wanted.
    #[inline]
    pub(super) fn follow_capture(&mut self) {
        if self.capture.as_ref().is_some_and(|capture| capture.recorder.is_closed()) {
            self.end_capture();
        }
    }

    fn begin_capture(&mut self, now: Now, request: Request) -> Answer {
        let number = request.number;
        let recorder = match Recorder::create(request.ring_log2_bytes, request.snap_bytes) {
            Ok(recorder) => recorder,
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(0).unsigned_abs();
                return Answer::Refused { number, errno };
            }
        };
        let fd = recorder.descriptor();
        let mut capture = Capture { recorder, number, since_ns: now.monotonic_ns() };
        capture.describe(&self.interfaces.attached);
        self.capture = Some(capture);
        Answer::Ready { number, fd }
    }

    /// Lets a ring go whose reader is gone.
    pub(super) fn check_capture(&mut self, now: Now) {
        if self.capture.as_ref().is_some_and(|capture| !capture.has_reader(now)) {
            self.end_capture();
        }
    }

    fn end_capture(&mut self) {
        if let Some(Capture { number, .. }) = self.capture.take() {
            self.page.set_capture_answer(Answer::Ended { number }.word());
        }
    }

    /// What was asked in the page of before is not asked in this one.
    pub(super) fn change_page(&mut self, page: Writer) {
        self.end_capture();
        self.page = page;
        self.capture_asked = 0;
    }
}
