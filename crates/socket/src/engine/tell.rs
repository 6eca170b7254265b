//! What the engine reports about itself.

use nearwire_frames::EnginePort;
use nearwire_frames::port::Port;
use nearwire_stack::Dropped;

use super::Engine;
use crate::host::Host;
use crate::status::{Counter, InterfaceAbout, Writer};

/// What was reported of the stack's statistics: an engine that is opened again begins to count at 0, the page goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    frames: u64,
    /// Frames that no socket had got.
    lost_frames: u64,
    not_ours_frames: u64,
    dropped_frames: u64,
}

impl<H: Host> Engine<H> {
    /// Counters go to another page from now on.
    pub(crate) fn set_page(&mut self, page: Writer) {
        self.change_page(page);
        self.interfaces.changed = true;
    }

    /// Whether something became of an interface since this was last asked.
    pub(crate) fn take_interfaces_changed(&mut self) -> bool {
        std::mem::take(&mut self.interfaces.changed)
    }

    /// Reports frames that came, and those that no socket got, as the stack counts them. Whether there are new ones: sockets may have lost some.
    pub(crate) fn tell_frames(&mut self) -> bool {
        let now = self.frames_told();
        let before = std::mem::replace(&mut self.told, now);
        for (counter, now, before) in [
            // A look at a ring takes one frame or none.
            (Counter::FramesReceived, now.frames, before.frames),
            (Counter::PollsFull, now.frames, before.frames),
            (Counter::FramesNotOurs, now.not_ours_frames, before.not_ours_frames),
            (Counter::FramesDropped, now.dropped_frames, before.dropped_frames),
        ] {
            self.page.count(counter, now - before);
        }
        now.lost_frames != before.lost_frames
    }

    fn frames_told(&self) -> Told {
        let statistics = self.stack.statistics();
        let lost_frames = statistics.frames - statistics.delivered_frames;
        if lost_frames == self.told.lost_frames {
            return Told { frames: statistics.frames, ..self.told };
        }
        let unwanted_frames = statistics.dropped(Dropped::NoPorts) + statistics.dropped(Dropped::IgnoredMulti);
        Told {
            frames: statistics.frames,
            lost_frames,
            not_ours_frames: statistics.not_ours_frames() + unwanted_frames,
            dropped_frames: statistics.dropped_frames() - unwanted_frames,
        }
    }

    /// Describes the interfaces that have a port, and those that were tried and have none.
    pub(crate) fn tell_interfaces(&self, page: &Writer) {
        let mut count = 0;
        for attached in &self.interfaces.attached {
            let port = attached.port.about();
            let about = InterfaceAbout {
                name: &attached.name,
                ifindex: attached.ifindex,
                reason: None,
                queues: port.rx_queues,
                mode: port.mode,
                text: &attached.description,
            };
            page.set_interface(count, &about);
            count += 1;
        }
        for (ifindex, refused) in self.interfaces.refused() {
            let about = InterfaceAbout {
                name: &refused.name,
                ifindex,
                reason: Some(refused.reason),
                queues: 0,
                mode: "",
                text: &refused.text,
            };
            page.set_interface(count, &about);
            count += 1;
        }
        page.set_interface_count(count);
    }

    /// Frames that the kernel had for the ports and dropped.
    pub(crate) fn tell_port_drops(&mut self) {
        for attached in &mut self.interfaces.attached {
            let dropped_frames = attached.port.statistics().receive_dropped_frames + attached.port.dropped_segments();
            let more = dropped_frames.saturating_sub(attached.told_dropped_frames);
            attached.told_dropped_frames = dropped_frames;
            self.page.count(Counter::FramesDropped, more);
        }
    }
}
