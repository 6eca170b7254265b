//! Bytes of connections: one attempt that never waits, and what is done between calls.

use nearwire_stack::{TcpCallError, TcpError};

use super::call::StreamCall;
use super::change::Next;
use super::to_release::ToRelease;
use crate::direct;
use crate::engine::Engine;
use crate::epoll::Events;
use crate::host::Host;
use crate::reason::Reason;
use crate::sockets::{EngineState, Sockets};
use crate::status::Counter;

impl<H: Host> Sockets<H> {
    /// Receives: `read` is lent what waits, in one piece or two, and says how many of these bytes are read, and what the call gives. All that has
    /// come is part of it, up to `wanted_bytes`. `may_wait`: the call would rather wait for what SO_RCVLOWAT says than have less.
    #[inline]
    pub fn receive_stream<R>(
        &mut self,
        fd: i32,
        wanted_bytes: usize,
        may_wait: bool,
        mut read: impl FnMut(&[u8], &[u8]) -> (usize, R),
    ) -> StreamCall<R> {
        if self.stream_ready_bytes(fd) < wanted_bytes {
            self.drive_streams();
            if may_wait && self.waits_for_more(fd, wanted_bytes) {
                return self.nothing_to_read(fd);
            }
        }
        self.read_stream(fd, &mut read)
    }

    #[inline]
    fn stream_ready_bytes(&self, fd: i32) -> usize {
        let connection = self.streams.get(fd).map(|stream| stream.carried.id());
        connection.zip(self.engine_ref()).map_or(0, |(id, engine)| engine.stack_ref().tcp_readable_bytes(id))
    }

    /// Whether a receive that blocks waits on: there is neither what it wants, nor what SO_RCVLOWAT says, nor the end.
    fn waits_for_more(&self, fd: i32, wanted_bytes: usize) -> bool {
        let Some((stream, engine)) = self.streams.get(fd).zip(self.engine_ref()) else { return false };
        let (id, stack) = (stream.carried.id(), engine.stack_ref());
        !stream.options.is_nonblocking
            && stack.tcp_readable_bytes(id) < wanted_bytes
            && stack.tcp_readiness(id).is_some_and(|readiness| !readiness.readable)
    }

    fn nothing_to_read<R>(&self, fd: i32) -> StreamCall<R> {
        let Some(stream) = self.streams.get(fd) else { return StreamCall::Kernel };
        let options = &stream.options;
        StreamCall::WouldBlock { is_nonblocking: options.is_nonblocking, timeout: options.receive_timeout }
    }

    #[inline]
    fn read_stream<R>(&mut self, fd: i32, read: &mut impl FnMut(&[u8], &[u8]) -> (usize, R)) -> StreamCall<R> {
        let Some(stream) = self.streams.get(fd) else { return StreamCall::Kernel };
        let (id, slot) = (stream.carried.id(), stream.id.index());
        let Some(engine) = self.engine() else { return StreamCall::Kernel };
        let mut given = None;
        let outcome = engine.stack().tcp_read_with(id, |one, two| {
            let (count, result) = read(one, two);
            given = Some((count, result));
            count
        });
        match (outcome, given) {
            (Ok(_), Some((count, result))) => {
                self.page.count(Counter::CallsServed, 1);
                // Not what stays.
                if let Some(slot) = self.page.socket(slot).filter(|_| count > 0) {
                    slot.count_received(count);
                }
                crate::wait::count_message_by_one_of(self.streams.by_id.len());
                // What was read may have opened the window.
                if self.engine_ref().is_some_and(|engine| engine.stack_ref().tcp_is_unsettled()) {
                    let now_ns = self.time().exact_ns();
                    self.transmit_streams(now_ns);
                }
                StreamCall::Done(result)
            }
            (Err(TcpCallError::Ended(error)), _) => self.ended(fd, error).unwrap_or(StreamCall::Kernel),
            // Its end is the kernel's to tell.
            _ => self.nothing_to_read(fd),
        }
    }

    /// Sends as many of these bytes as there is room for. `more`: others follow at once.
    #[inline]
    pub fn send_stream(&mut self, fd: i32, data: &[u8], more: bool) -> StreamCall<usize> {
        match self.write_stream(fd, data, more) {
            StreamCall::WouldBlock { .. } => {}
            call => return call,
        }
        self.drive_streams();
        self.write_stream(fd, data, more)
    }

    #[inline]
    fn write_stream(&mut self, fd: i32, data: &[u8], more: bool) -> StreamCall<usize> {
        let Some(stream) = self.streams.get(fd) else { return StreamCall::Kernel };
        let (id, options, slot) = (stream.carried.id(), stream.options, stream.id.index());
        let now_ns = self.time().exact_ns();
        let Some(engine) = self.engine() else { return StreamCall::Kernel };
        match engine.stack().tcp_write(id, now_ns, data, more) {
            Ok(count) => {
                self.page.count(Counter::CallsServed, 1);
                if let Some(slot) = self.page.socket(slot) {
                    slot.count_sent(count);
                }
                self.transmit_streams(now_ns);
                StreamCall::Done(count)
            }
            Err(TcpCallError::Ended(error)) => {
                // The kernel fails by EPIPE, but what waits could not be read from it.
                self.ended(fd, error).unwrap_or(match self.is_carried(fd) {
                    true => StreamCall::Failed(libc::EPIPE),
                    false => StreamCall::Kernel,
                })
            }
            Err(_) => StreamCall::WouldBlock { is_nonblocking: options.is_nonblocking, timeout: options.send_timeout },
        }
    }

    /// A call finds that its connection was given up. The first one says so. `None`: one did, and the kernel's socket is an ended one
    /// too now, unless something can be read still.
    #[cold]
    fn ended<R>(&mut self, fd: i32, error: TcpError) -> Option<StreamCall<R>> {
        let stream = self.streams.get_mut(fd)?;
        let connection = stream.carried.id();
        if stream.is_to_tell_error() {
            return Some(StreamCall::Failed(errno_of(error)));
        }
        let can_read = |engine: &mut Engine<H>| engine.stack().tcp_peek(connection, &mut [0]).is_ok();
        if !self.engine().is_some_and(can_read) {
            self.release_now(fd, Reason::FarEndSilent);
            direct::allow_for_good(fd);
        }
        None
    }

    /// Takes the error of a connection that was given up: what SO_ERROR does. `None`: the kernel knows.
    #[cold]
    pub(crate) fn take_stream_error(&mut self, fd: i32) -> Option<i32> {
        let connection = self.streams.get(fd)?.carried.id();
        let error = self.engine_ref()?.stack_ref().tcp_readiness(connection)?.error?;
        self.streams.get_mut(fd)?.is_to_tell_error().then_some(errno_of(error))
    }

    /// A call that has sent a part did not say how it failed: the next one does.
    #[cold]
    pub fn keep_stream_error(&mut self, fd: i32) {
        if let Some(stream) = self.streams.get_mut(fd) {
            stream.has_told_error = false;
        }
    }

    /// O_NONBLOCK changed.
    pub fn set_stream_nonblocking(&mut self, fd: i32, is_nonblocking: bool) {
        if let Some(stream) = self.streams.get_mut(fd) {
            stream.options.is_nonblocking = is_nonblocking;
        }
    }

    /// Takes in what came for connections, sends what is due, and releases those that end. `false`: there are none, and nothing was done.
    #[inline]
    pub fn drive_streams(&mut self) -> bool {
        if !self.streams.are_carried() {
            return false;
        }
        let now_ns = self.time().exact_ns();
        if let Some(engine) = self.engine() {
            engine.stack().tcp_time(now_ns);
        }
        self.take_in_frames();
        self.follow_streams_at(now_ns);
        if self.engine().is_some_and(Engine::take_too_long) {
            self.release_too_long();
        }
        self.look_if_due();
        true
    }

    /// After frames were taken in: what is due of connections leaves, and threads hear of them.
    #[inline]
    pub(crate) fn follow_streams(&mut self) {
        let now_ns = self.time().exact_ns();
        self.follow_streams_at(now_ns);
    }

    /// The same by a time that was just read.
    #[inline]
    fn follow_streams_at(&mut self, now_ns: u64) {
        self.engine().into_iter().for_each(Engine::give_late_segments);
        if !self.streams.are_carried() {
            return;
        }
        if self.are_streams_idle(now_ns) {
            self.streams.due.driven_still(now_ns);
            return;
        }
        self.transmit_streams(now_ns);
        self.raise_streams();
        self.release_ended();
        while let Some((connection, why)) = self.streams.to_release.pop() {
            let Some(fd) = self.streams.fd_of(connection) else { continue };
            match why {
                // The kernel hears what a router says of long segments, and keeps it for the destination.
                ToRelease::PathInDoubt => drop(self.release_where_routed(fd, Reason::PathInDoubt)),
                ToRelease::Stuck(reason) => self.release_stuck(fd, reason),
                ToRelease::Unheard => self.release_unheard(fd),
                ToRelease::Bulk => self.release_for_bulk(fd),
            }
        }
    }

    /// Whether there is nothing to do: so it is in nearly every turn of a thread that spins.
    #[inline]
    fn are_streams_idle(&self, now_ns: u64) -> bool {
        let is_idle = |engine: &Engine<H>| engine.stack_ref().tcp_is_idle(now_ns) && !engine.has_endings();
        self.streams.to_release.is_empty() && self.engine_ref().is_some_and(is_idle)
    }

    /// Tells sets and threads what happened to connections. Also before a connection is released: the kernel's sets do not report what its
    /// sets have reported, and have to report what came after that.
    #[inline]
    pub(super) fn raise_streams(&mut self) {
        while let Some(connection) = self.engine().and_then(|engine| engine.stack().take_ready()) {
            let readiness = self.engine_ref().and_then(|engine| engine.stack_ref().tcp_readiness(connection));
            let id = self.streams.fd_of(connection).and_then(|fd| self.carried(fd));
            if let (Some(readiness), Some(id)) = (readiness, id) {
                let mut happened = Events::empty();
                happened.set(Events::ARRIVED, readiness.readable);
                happened.set(Events::SENDABLE, readiness.writable);
                happened.set(Events::ERR, readiness.error.is_some());
                self.sets.raise(id, happened);
                self.streams.to_release.extend(ToRelease::of(&readiness).map(|why| (connection, why)));
            }
            self.sleepers.wake_all();
        }
    }

    #[inline]
    fn transmit_streams(&mut self, now_ns: u64) {
        let now = self.now;
        if let EngineState::Open(engine) = &mut self.engine {
            engine.transmit(now, now_ns);
            self.streams.due.driven(now_ns, engine.stack_ref().next_deadline());
        }
    }

    /// Has the kernel end connections that the far end is ending.
    fn release_ended(&mut self) {
        let endings = self.engine().map(Engine::take_endings).unwrap_or_default();
        if endings.is_empty() || std::mem::replace(&mut self.streams.is_releasing, true) {
            return;
        }
        for ending in endings {
            // What came behind it comes again.
            let Some(fd) = self.streams.fd_of(ending.connection) else { continue };
            self.learn_from_life(fd);
            self.release_to(fd, Reason::FarEndEnds, Next::Ending(&ending));
            direct::allow_for_good(fd);
        }
        self.streams.is_releasing = false;
    }
}

const fn errno_of(error: TcpError) -> i32 {
    match error {
        TcpError::Reset => libc::ECONNRESET,
        TcpError::ResetAfterFin => libc::EPIPE,
        TcpError::TimedOut => libc::ETIMEDOUT,
        TcpError::Aborted => libc::ECONNABORTED,
    }
}
