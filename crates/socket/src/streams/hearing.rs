//! Whether what the far end of a connection sends comes by a port of ours, which only its frames can show: routes need not be the same in both directions.
//!
//! `auto` adopts no connection before a frame of it was seen at a port, while the kernel gets all of them. The kernel's count of segments says whether one
//! could have been seen. A connection whose segments come another way is the kernel's: adopted, it would wait in vain, and the kernel, which has no such connection
//! while it changes its owner, would answer such a segment by a reset.

use std::time::Duration;

use nearwire_frames::FlowSocket;
use nearwire_frames::steering::ExactFlow;
use nearwire_sys::tcp_repair;

use super::change::NotAdopted;
use crate::host::Host;
use crate::reason::Reason;
use crate::sockets::Sockets;

/// Calls that the kernel gets before it is asked again whether a frame came.
const CALLS_BETWEEN: u16 = 1;
/// Segments that had passed the port when it began to listen are with the kernel by then.
const IN_FLIGHT_AT_MOST: Duration = Duration::from_millis(5);
/// So often segments came, and none by a port.
const MISSED_MOST: u32 = 3;

/// A connection that is listened for.
#[derive(Debug)]
pub(super) struct Hearing {
    flow: ExactFlow,
    /// From when on ports listen, as far as is known.
    since_ns: Option<u64>,
    /// How many had come when this was last asked.
    received_segments: u32,
    missed: u32,
}

impl Hearing {
    /// It was not heard, though a segment came. Whether it is to be given up.
    fn missed(&mut self, now_ns: u64) -> bool {
        let listened_ns = now_ns.saturating_sub(*self.since_ns.get_or_insert(now_ns));
        self.missed += u32::from(listened_ns > IN_FLIGHT_AT_MOST.as_nanos() as u64);
        self.missed >= MISSED_MOST
    }
}

impl<H: Host> Sockets<H> {
    /// Asks whether a frame came by a port; the first time on it is listened for. `Ok`: one came.
    pub(super) fn hears(&mut self, fd: i32, flow: ExactFlow, socket: FlowSocket) -> Result<(), NotAdopted> {
        const YET: NotAdopted = NotAdopted::Yet { calls: CALLS_BETWEEN };
        let received_segments = tcp_repair::facts(socket).map_err(|_| Reason::NotBound)?.received_segments;
        match self.streams.hearing.get_mut(&fd).filter(|hearing| hearing.flow == flow) {
            Some(hearing) => {
                if std::mem::replace(&mut hearing.received_segments, received_segments) == received_segments {
                    return Err(YET);
                }
            }
            None => {
                self.stop_hearing(fd);
                let hearing = Hearing { flow, since_ns: None, received_segments, missed: 0 };
                self.streams.hearing.insert(fd, hearing);
            }
        }
        let heard = self.engine().ok_or(Reason::EngineFailed).and_then(|engine| engine.hears_connection(flow, socket));
        let now_ns = self.time().exact_ns();
        let is_missed = match (heard, self.streams.hearing.get_mut(&fd)) {
            (Ok(Some(true)), _) => {
                self.streams.hearing.remove(&fd);
                return Ok(());
            }
            (Ok(Some(false)), Some(hearing)) => hearing.missed(now_ns),
            // A port that rested is awake some ms later.
            (Ok(_), _) => false,
            (Err(reason), _) => {
                self.streams.hearing.remove(&fd);
                return Err(reason.into());
            }
        };
        if is_missed {
            self.stop_hearing(fd);
            return Err(Reason::ComesElsewhere.into());
        }
        Err(YET)
    }

    /// It is not to be adopted any more. To listen has cost two questions to the agent: the next ones are listened for after more calls.
    pub(super) fn stop_hearing(&mut self, fd: i32) {
        let Some(hearing) = self.streams.hearing.remove(&fd) else { return };
        self.was_not_worth_it();
        if let Some(engine) = self.engine() {
            engine.close_connection(hearing.flow);
        }
    }
}
