//! Ways of connections through the host. The stack has those of the main table, by an interface that has the connection's address and a port of ours;
//! the kernel has all. A connection without a way here is not adopted, and one that loses its own is the kernel's, as the kernel does what is missing: it asks for
//! hardware addresses, and follows rules, several next hops, and routes to interfaces that are not ours.

use std::net::SocketAddr;

use nearwire_frames::FlowSocket;
use nearwire_frames::steering::ExactFlow;
use nearwire_stack::NeedsKernel;
use nearwire_sys::tcp_repair;

use super::CONNECTION_TOKEN;
use super::hearing::Hearing;
use super::not_adopted::{CALLS_UNTIL_TRIED_AGAIN, NotAdopted};
use crate::config::Adopt;
use crate::direct;
use crate::engine::Engine;
use crate::epoll::Events;
use crate::host::Host;
use crate::reason::Reason;
use crate::service::reach::is_local;
use crate::sockets::{EngineState, Sockets};

/// Calls that the kernel gets before it is asked again whether a frame came.
const CALLS_BETWEEN: u16 = 1;
/// More than this is not on its way at once when a flow is opened, but for bulk, which loses little by the kernel.
const SLIPPED_MOST_BYTES: usize = 16 << 10;
/// So long connections wait for an agent where this process may not have the kernel take them: one that a supervisor runs again is there by then.
const AGENT_AWAITED_NS: u64 = 5_000_000_000;
/// So many connections that heard nothing by their port are enough.
pub(super) const UNHEARD_MOST: u32 = 3;

/// By which interface the stack could send for a connection.
pub(super) fn interface_between<H: Host>(
    engine: &Engine<H>,
    local: SocketAddr,
    remote: SocketAddr,
) -> Result<u32, NotAdopted> {
    let way = engine.stack_ref().interface_between(local, remote);
    // There may be one soon.
    way.map_err(|reason| if reason.is_unroutable() { NotAdopted::YET } else { Reason::Route.into() })
}

impl<H: Host> Sockets<H> {
    /// A port or an interface is gone, or came. The kernel takes a connection only where it has a route to its far end: until then it stays, and
    /// has no way.
    pub(crate) fn release_all_streams(&mut self) {
        self.streams.waits_for_route = false;
        for fd in self.streams.fds() {
            self.streams.waits_for_route |= !self.release_where_routed(fd, Reason::WayGone);
        }
    }

    /// At each look.
    #[inline]
    pub(crate) fn release_those_that_wait(&mut self) {
        if self.streams.waits_for_route {
            self.release_all_streams();
        }
    }

    /// The agent is gone that has connections taken for this process, which may not. Not for ever: then they end.
    fn waits_for_agent(&mut self) -> bool {
        if self.host.may_release() {
            self.streams.without_agent_since_ns = None;
            return false;
        }
        let now_ns = self.time().exact_ns();
        let since_ns = *self.streams.without_agent_since_ns.get_or_insert(now_ns);
        now_ns.saturating_sub(since_ns) < AGENT_AWAITED_NS
    }

    /// Gives a connection to the kernel until some calls more were made; `false`: the kernel would not take it now, without a route for it or its own
    /// address, or nobody can have it taken, or the kernel has it.
    pub(crate) fn release_where_routed(&mut self, fd: i32, reason: Reason) -> bool {
        let Some((id, local)) = self.streams.get(fd).map(|stream| (stream.carried.id(), stream.flow.local)) else {
            return false;
        };
        let is_taken = |engine: &Engine<H>| {
            is_local(engine, local) && !engine.stack_ref().tcp_interface(id).is_err_and(NeedsKernel::is_unroutable)
        };
        if !self.engine_ref().is_some_and(is_taken) || self.waits_for_agent() {
            return false;
        }
        self.release_now(fd, reason);
        let is_eager = self.config.adopt == Adopt::Eager;
        direct::allow(fd, if is_eager { 0 } else { CALLS_UNTIL_TRIED_AGAIN });
        true
    }

    /// A connection has something to send, and no way here.
    pub(super) fn release_stuck(&mut self, fd: i32, reason: NeedsKernel) {
        let why = match reason {
            NeedsKernel::NeighbourUnresolved => Reason::NeighbourUnknown,
            _ => Reason::Route,
        };
        if !self.release_where_routed(fd, why) {
            self.streams.waits_for_route |= self.is_carried(fd);
        }
    }

    /// The watch reported a shadow. Whether it was that of a connection. What was on its way when its flow was opened is merged, once; where more comes to the
    /// shadow and nothing to the port, all comes another way, and the shadow has no room for it.
    pub(crate) fn stream_has_slipped(&mut self, token: u32) -> bool {
        if token & CONNECTION_TOKEN == 0 {
            return false;
        }
        let fd = (token & !CONNECTION_TOKEN).cast_signed();
        let now_ns = self.time().exact_ns();
        let Sockets { streams, engine, .. } = self;
        let mut comes_another_way = false;
        if let (Some(stream), EngineState::Open(engine)) = (streams.get_mut(fd), engine) {
            let before = stream.carried.id();
            let has_heard = engine.stack_ref().tcp_has_heard(before);
            // What cannot be merged the release does.
            let merged = stream.carried.merge_slipped(stream.shadow, engine.stack(), now_ns);
            let merged_bytes = merged.unwrap_or(0);
            stream.slips = if has_heard { 0 } else { stream.slips } + u32::from(merged_bytes > 0);
            comes_another_way = stream.slips > 1 || (!has_heard && merged_bytes > SLIPPED_MOST_BYTES);
            let (after, id) = (stream.carried.id(), stream.id);
            streams.by_connection.remove(&before);
            streams.by_connection.insert(after, fd);
            self.sets.raise(id, Events::ARRIVED);
        }
        self.sleepers.wake_all();
        if comes_another_way {
            self.release_unheard(fd);
        }
        true
    }

    /// A connection has heard nothing since it was adopted, though the far end should have answered: what comes may come by an interface that the flow is not
    /// opened on. Its sender waits for a timeout then, so after some of them no more are tried.
    pub(super) fn release_unheard(&mut self, fd: i32) {
        if self.release_where_routed(fd, Reason::NotHeard) {
            self.streams.unheard += 1;
            self.allow_more_calls(fd);
        }
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
                self.streams.hearing.insert(fd, Hearing::of(flow, received_segments));
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
