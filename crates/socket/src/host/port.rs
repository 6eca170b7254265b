//! The port that an engine has on this machine: one that it opened, or a share that the agent gave.
//!
//! They are the same but for who sets the filters. Those of an own port stand in its steering table; flows of a share are opened by the
//! agent, socket by socket, as having the socket is the right to them. A share has one TX queue and no times of the device.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use nearwire_agent::client::Client;
use nearwire_agent::message::Answer;
use nearwire_frames::ports::xdp::{FrameTimes, Kick, Kicked, TimesWanted, XdpPort, await_carrier};
use nearwire_frames::raw::TimeSource;
use nearwire_frames::steering::{ExactFlow, Filter, FlowFilter, Owner};
use nearwire_frames::{
    EnginePort, FlowSocket, Port, PortAbout, PortError, PortFilters, PortStatistics, PreparedFrame, RawPort,
    RevokedFlow,
};
use nearwire_sys::descriptor::Descriptor;

use super::agent::{Connected, NotDone};

/// See the module.
#[derive(Debug)]
pub struct HostPort {
    // Closed before the agent is told that it is.
    port: XdpPort,
    share: Option<Share>,
    /// Of one that this process opened beside an agent.
    guard: Option<Guard>,
    /// Why the agent, which there is, gave none.
    no_share: Option<Box<PortError>>,
}

impl HostPort {
    /// One that this process opened.
    pub(super) const fn own(port: XdpPort) -> HostPort {
        HostPort { port, share: None, guard: None, no_share: None }
    }

    /// The same beside an agent that gave no share: why, which the port says of itself. The agent guards its connections.
    pub(super) fn own_for_want_of_share(
        port: XdpPort,
        no_share: PortError,
        connected: Option<Arc<Connected>>,
    ) -> HostPort {
        let guard = connected.map(Guard::by);
        HostPort { port, share: None, guard, no_share: Some(Box::new(no_share)) }
    }

    /// A share of the agent's port on an interface.
    ///
    /// # Errors
    /// The agent is gone or refused; the kernel refused to map what it gave (before Linux 6.4); the link did not come back.
    pub(super) fn of_agent(connected: &Arc<Connected>, interface: &str) -> Result<HostPort, PortError> {
        let opened = connected.open_share(interface).map_err(|not_done| not_done.into_error(interface))?;
        let filters = ShareFilters { connected: Arc::clone(connected), number: opened.share };
        let (flows, revoked, alone) = (HashMap::new(), Vec::new(), Vec::new());
        let connections = HashMap::new();
        let share = Share { filters, interface: interface.to_owned(), flows, connections, revoked, alone };
        let port = XdpPort::from_handed(&opened.description, opened.descriptors)?;
        // The agent has attached a program, and the driver may have set its device up anew: what is sent before the link is back is lost. Here
        // it keeps only this engine waiting.
        if !opened.carrier_within.is_zero() {
            await_carrier(interface, port.config().mode, opened.carrier_within)?;
        }
        Ok(HostPort { port, share: Some(share), guard: None, no_share: None })
    }

    /// The AF_XDP port, or share of one.
    #[must_use]
    pub const fn as_xdp(&self) -> &XdpPort {
        &self.port
    }

    #[cfg(test)]
    pub(crate) fn own_table(&mut self) -> Option<&mut nearwire_frames::steering::SteeringTable> {
        self.port.steering_table()
    }
}

/// The agent, which outlives this process, and what it knows of connections whose frames come to a port that this process opened: it tells
/// their far ends when this process is gone. In the child of a fork it is the parent's, and is forgotten.
#[derive(Debug)]
struct Guard {
    connected: Arc<Connected>,
    /// Its numbers of them.
    connections: HashMap<ExactFlow, u32>,
    /// Those that are only listened for, of which it knows nothing.
    hearing: HashSet<ExactFlow>,
}

impl Guard {
    fn by(connected: Arc<Connected>) -> Guard {
        Guard { connected, connections: HashMap::new(), hearing: HashSet::new() }
    }

    fn hears_connection(&mut self, port: &mut XdpPort, flow: ExactFlow) -> Result<Option<bool>, PortError> {
        let interface = port.config().interface.clone();
        let table = port.steering_table().ok_or(PortError::NoConnections { interface })?;
        if self.hearing.insert(flow) {
            let added = table.add_for(Filter::Exact(flow), Owner::Unheard);
            return added.map(|()| Some(false)).inspect_err(|_| {
                self.hearing.remove(&flow);
            });
        }
        table.has_heard(flow).map(Some)
    }

    fn stop_hearing(&mut self, port: &mut XdpPort, flow: ExactFlow) {
        if self.hearing.remove(&flow)
            && let Some(table) = port.steering_table()
        {
            // Refused, there is none.
            let _ = table.remove_for(Filter::Exact(flow), Owner::Unheard);
        }
    }

    fn open_connection(&mut self, port: &mut XdpPort, flow: ExactFlow, socket: FlowSocket) -> Result<(), PortError> {
        self.stop_hearing(port, flow);
        let interface = &port.config().interface;
        let guarded = self.connected.ask(|client| client.guard_connection(socket));
        let number = guarded.map_err(|not_done| not_done.into_error(interface))?;
        self.connections.insert(flow, number);
        RawPort::add_filter(port, Filter::Exact(flow)).inspect_err(|_| self.forget(flow))
    }

    fn close_connection(&mut self, port: &mut XdpPort, flow: ExactFlow) {
        self.stop_hearing(port, flow);
        if self.connections.contains_key(&flow) {
            // Refused, there is none.
            let _ = RawPort::remove_filter(port, Filter::Exact(flow));
            self.forget(flow);
        }
    }

    fn forget(&mut self, flow: ExactFlow) {
        if let Some(number) = self.connections.remove(&flow) {
            // Refused, it is gone.
            let _ = self.connected.ask(|client| client.close_connection(number));
        }
    }

    /// Whether the agent is there still. It has nothing to say of the port.
    fn is_there(&self) -> bool {
        self.connected.take_news(|_| false).is_ok()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        for number in std::mem::take(&mut self.connections).into_values() {
            // Gone, it knows.
            let _ = self.connected.ask(|client| client.close_connection(number));
        }
    }
}

/// What a port has of the agent. The agent gets it back when it is dropped.
#[derive(Debug)]
struct Share {
    filters: ShareFilters,
    interface: String,
    /// The agent's number of the flow of a socket, by the socket's inode.
    flows: HashMap<(FlowFilter, u64), (u32, FlowSocket)>,
    /// The agent's numbers of connections.
    connections: HashMap<ExactFlow, u32>,
    /// Flows that the agent took.
    revoked: Vec<RevokedFlow>,
    /// Sockets that no other program uses any more.
    alone: Vec<u64>,
}

impl Share {
    fn ask<R>(
        &self,
        ask: impl FnOnce(&mut Client) -> Result<R, nearwire_agent::client::ClientError>,
    ) -> Result<R, PortError> {
        self.filters.connected.ask(ask).map_err(|not_done| not_done.into_error(&self.interface))
    }

    fn add_flow(&mut self, flow: FlowFilter, socket: FlowSocket) -> Result<(), PortError> {
        let number = self.filters.number;
        let opened = self.ask(|client| client.open_flow(number, Some(flow.address), socket))?;
        self.flows.insert((flow, socket.inode), (opened.0, socket));
        Ok(())
    }

    fn remove_flow(&mut self, flow: FlowFilter, socket: FlowSocket) -> Result<(), PortError> {
        let Some((number, _)) = self.flows.remove(&(flow, socket.inode)) else { return Ok(()) };
        self.ask(|client| client.close_flow(number))
    }

    fn hand_flow(&mut self, other: &mut Share, flow: FlowFilter, socket: FlowSocket) -> Result<(), PortError> {
        let Some((number, _)) = self.flows.remove(&(flow, socket.inode)) else { return Ok(()) };
        let to = other.filters.number;
        self.ask(|client| client.move_flow(number, to))?;
        other.flows.insert((flow, socket.inode), (number, socket));
        Ok(())
    }

    fn hears_connection(&mut self, flow: ExactFlow, socket: FlowSocket) -> Result<Option<bool>, PortError> {
        let number = self.filters.number;
        let (heard, is_heard) = self.ask(|client| client.hear_connection(number, socket))?;
        self.connections.insert(flow, heard);
        Ok(is_heard)
    }

    fn open_connection(&mut self, flow: ExactFlow, socket: FlowSocket) -> Result<(), PortError> {
        let number = self.filters.number;
        let opened = self.ask(|client| client.open_connection(number, socket))?;
        self.connections.insert(flow, opened);
        Ok(())
    }

    fn close_connection(&mut self, flow: ExactFlow) {
        if let Some(number) = self.connections.remove(&flow) {
            // Refused, as the agent is gone, the kernel has its frames as well.
            let _ = self.ask(|client| client.close_connection(number));
        }
    }

    fn concerns(&self, told: &Answer) -> bool {
        match told {
            Answer::ShareRevoked { share, .. } | Answer::SocketAlone { share, .. } => *share == self.filters.number,
            Answer::FlowRevoked { flow, .. } => self.flows.values().any(|(own, _)| own == flow),
            _ => false,
        }
    }

    /// Takes what the agent reported about this share and its flows.
    fn follow(&mut self) -> Result<(), PortError> {
        let told = self.filters.connected.take_news(|told| self.concerns(told));
        for told in told.map_err(|not_done| not_done.into_error(&self.interface))? {
            match told {
                Answer::ShareRevoked { cause, .. } => {
                    return Err(PortError::ShareRefused {
                        interface: self.interface.clone(),
                        words: cause.to_string(),
                    });
                }
                Answer::FlowRevoked { flow, cause } => {
                    let is_socket_shared = cause.is_socket_shared();
                    let taken = self.flows.extract_if(|_, (own, _)| *own == flow);
                    self.revoked.extend(taken.map(|(_, (_, socket))| RevokedFlow { socket, is_socket_shared }));
                }
                Answer::SocketAlone { cookie, .. } => self.alone.push(cookie),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let number = self.filters.number;
        // Refused, or gone: the agent has it already.
        let _ = self.filters.connected.ask(|client| client.close_share(number));
    }
}

/// The flows of a share, as a whole.
#[derive(Debug)]
struct ShareFilters {
    connected: Arc<Connected>,
    number: u32,
}

impl ShareFilters {
    fn ask(
        &self,
        ask: impl FnOnce(&mut Client) -> Result<(), nearwire_agent::client::ClientError>,
    ) -> Result<(), NotDone> {
        self.connected.ask(ask)
    }
}

impl PortFilters for ShareFilters {
    fn pause(&self) -> Result<(), PortError> {
        self.ask(|client| client.pause(self.number)).map_err(|not_done| not_done.into_error(""))
    }

    fn resume(&self) -> Result<(), PortError> {
        self.ask(|client| client.resume(self.number)).map_err(|not_done| not_done.into_error(""))
    }

    fn withdraw(&self, _: FlowFilter, socket: Descriptor) {
        // Refused, as the agent is gone, it is withdrawn as well.
        let _ = self.ask(|client| client.release(socket));
    }

    fn restore(&self, _: FlowFilter) {
        // Other sockets of the flow have kept theirs.
    }
}

/// The same in the child of a fork, which has the sockets but not the parent's connection.
#[derive(Debug)]
struct FiltersOfParent {
    /// The one that the parent showed.
    pass: Option<u64>,
}

impl PortFilters for FiltersOfParent {
    fn pause(&self) -> Result<(), PortError> {
        Ok(())
    }

    fn resume(&self) -> Result<(), PortError> {
        Ok(())
    }

    fn withdraw(&self, _: FlowFilter, socket: Descriptor) {
        // Without an agent the kernel has its frames.
        let client = Client::connect_with_pass("child of fork", self.pass);
        let _ = client.and_then(|mut client| client.release(socket));
    }

    fn restore(&self, _: FlowFilter) {}
}

impl Port for HostPort {
    #[inline(always)]
    fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, PortError> {
        self.port.receive(read)
    }

    #[inline(always)]
    fn queue(&mut self, frame: &[u8]) -> Result<bool, PortError> {
        self.port.queue(frame)
    }

    #[inline(always)]
    fn queue_with(&mut self, len_bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        self.port.queue_with(len_bytes, write)
    }

    #[inline(always)]
    fn flush(&mut self) -> Result<(), PortError> {
        self.port.flush()
    }

    fn prepare(&mut self, frame: &[u8]) -> Result<PreparedFrame, PortError> {
        self.port.prepare(frame)
    }

    fn send_prepared(&mut self, frame: PreparedFrame, patch: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        self.port.send_prepared(frame, patch)
    }

    fn statistics(&self) -> PortStatistics {
        self.port.statistics()
    }

    fn describe(&self) -> String {
        let port = self.port.describe();
        match (&self.share, &self.no_share) {
            (Some(_), _) => port + ", by the agent",
            (None, Some(why)) => format!("{port}, not by the agent: {why}"),
            (None, None) => port,
        }
    }
}

impl EnginePort for HostPort {
    type Kick = Kick;

    #[inline(always)]
    fn receive_timed<R>(&mut self, read: impl FnOnce(&[u8], FrameTimes) -> R) -> Result<Option<R>, PortError> {
        EnginePort::receive_timed(&mut self.port, read)
    }

    fn want_times(&mut self, wanted: TimesWanted) {
        if let Some(share) = &self.share {
            // Refused, frames come without, and are of the time at which they are read.
            let _ = share.ask(|client| client.want_times(share.filters.number));
        }
        EnginePort::want_times(&mut self.port, wanted);
    }

    fn time_source(&self) -> TimeSource {
        EnginePort::time_source(&self.port)
    }

    #[inline(always)]
    fn tx_queues(&self) -> usize {
        self.port.tx_queues()
    }

    #[inline(always)]
    fn queue_on(
        &mut self,
        tx_queue: usize,
        len_bytes: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<bool, PortError> {
        EnginePort::queue_on(&mut self.port, tx_queue, len_bytes, write)
    }

    #[inline(always)]
    fn flush_on(&mut self, tx_queue: usize) -> Result<(), PortError> {
        EnginePort::flush_on(&mut self.port, tx_queue)
    }

    #[inline(always)]
    fn submit_on(&mut self, tx_queue: usize) -> Option<Kick> {
        EnginePort::submit_on(&mut self.port, tx_queue)
    }

    fn kicked(&mut self, kicked: Kicked) -> Result<(), PortError> {
        EnginePort::kicked(&mut self.port, kicked)
    }

    fn receive_sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        EnginePort::receive_sockets(&self.port)
    }

    fn add_flow(&mut self, flow: FlowFilter, socket: FlowSocket, is_first: bool) -> Result<(), PortError> {
        match &mut self.share {
            Some(share) => share.add_flow(flow, socket),
            None => self.port.add_flow(flow, socket, is_first),
        }
    }

    fn remove_flow(&mut self, flow: FlowFilter, socket: FlowSocket, is_last: bool) -> Result<(), PortError> {
        match &mut self.share {
            Some(share) => share.remove_flow(flow, socket),
            None => self.port.remove_flow(flow, socket, is_last),
        }
    }

    fn hand_flow(
        &mut self,
        other: &mut HostPort,
        flow: FlowFilter,
        socket: FlowSocket,
        is_last_and_first: (bool, bool),
    ) -> Result<(), PortError> {
        match (&mut self.share, &mut other.share) {
            (Some(share), Some(other)) => share.hand_flow(other, flow, socket),
            _ => self.port.hand_flow(&mut other.port, flow, socket, is_last_and_first),
        }
    }

    fn hears_connection(&mut self, flow: ExactFlow, socket: FlowSocket) -> Result<Option<bool>, PortError> {
        match &mut self.share {
            Some(share) => share.hears_connection(flow, socket),
            None => match &mut self.guard {
                Some(guard) => guard.hears_connection(&mut self.port, flow),
                None => self.port.hears_connection(flow, socket),
            },
        }
    }

    fn open_connection(&mut self, flow: ExactFlow, socket: FlowSocket) -> Result<(), PortError> {
        match &mut self.share {
            Some(share) => share.open_connection(flow, socket),
            None => match &mut self.guard {
                Some(guard) => guard.open_connection(&mut self.port, flow, socket),
                None => self.port.open_connection(flow, socket),
            },
        }
    }

    fn close_connection(&mut self, flow: ExactFlow) {
        if let Some(share) = &mut self.share {
            share.close_connection(flow);
        }
        if let Some(guard) = &mut self.guard {
            guard.close_connection(&mut self.port, flow);
        }
    }

    fn has_revoked(&self) -> bool {
        self.share.as_ref().is_some_and(|share| !share.revoked.is_empty() || !share.alone.is_empty())
    }

    fn take_revoked(&mut self) -> Vec<RevokedFlow> {
        self.share.as_mut().map(|share| std::mem::take(&mut share.revoked)).unwrap_or_default()
    }

    fn take_alone(&mut self) -> Vec<u64> {
        self.share.as_mut().map(|share| std::mem::take(&mut share.alone)).unwrap_or_default()
    }

    fn show_connection(&mut self, socket: FlowSocket) {
        if let Some(share) = &self.share {
            // Refused, the agent finds it when it asks the kernel next.
            let _ = share.ask(|client| client.show_connection(socket));
        }
    }

    fn filters(&mut self) -> Option<&mut dyn PortFilters> {
        match &mut self.share {
            Some(share) => Some(&mut share.filters),
            None => EnginePort::filters(&mut self.port),
        }
    }

    fn into_filters_of_parent(self) -> Option<Box<dyn PortFilters>> {
        let HostPort { port, share, guard, no_share: _ } = self;
        // The agent would take what this process says of its connections for the parent's word, and the parent its answers.
        std::mem::forget(guard);
        let of_port = EnginePort::into_filters_of_parent(port);
        let Some(share) = share else { return of_port };
        let pass = share.filters.connected.pass();
        // The parent has it still.
        std::mem::forget(share);
        Some(Box::new(FiltersOfParent { pass }))
    }

    fn follow_mtu(&self, mtu_bytes: u32) {
        EnginePort::follow_mtu(&self.port, mtu_bytes);
    }

    fn check(&mut self) -> Result<(), PortError> {
        match &mut self.share {
            Some(share) => return share.follow(),
            None => self.port.check()?,
        }
        let Some(guard) = self.guard.take_if(|guard| !guard.is_there()) else { return Ok(()) };
        // Nobody would tell their far ends any more.
        let interface = || self.port.config().interface.clone();
        if guard.connections.is_empty() { Ok(()) } else { Err(PortError::HolderGone { interface: interface() }) }
    }

    fn is_told(&self) -> bool {
        let is_told = |share: &Share| {
            let connected = &share.filters.connected;
            connected.is_gone() || connected.has_news(|told| share.concerns(told))
        };
        self.share.as_ref().is_some_and(is_told)
    }

    fn holder(&self) -> Option<BorrowedFd<'_>> {
        self.share.as_ref().map(|share| share.filters.connected.as_fd())
    }

    fn guard(&self) -> Option<BorrowedFd<'_>> {
        self.holder().or_else(|| self.guard.as_ref().map(|guard| guard.connected.as_fd()))
    }

    fn detach(&mut self) {
        EnginePort::detach(&mut self.port);
    }

    fn about(&self) -> PortAbout<'_> {
        self.port.about()
    }

    #[inline(always)]
    fn is_overflowing(&self) -> bool {
        EnginePort::is_overflowing(&self.port)
    }

    #[inline]
    fn has_frames(&self) -> bool {
        EnginePort::has_frames(&self.port)
    }

    fn begin_settling(&mut self) -> u64 {
        EnginePort::begin_settling(&mut self.port)
    }

    fn overflowed_since(&self) -> u64 {
        EnginePort::overflowed_since(&self.port)
    }

    fn settle_overflow(&mut self) {
        EnginePort::settle_overflow(&mut self.port);
    }

    fn dropped_segments(&self) -> u64 {
        EnginePort::dropped_segments(&self.port)
    }

    fn too_long_segments(&self) -> u64 {
        EnginePort::too_long_segments(&self.port)
    }

    fn find_lost(&mut self) {
        EnginePort::find_lost(&mut self.port);
    }

    fn force_room(&mut self) {
        EnginePort::force_room(&mut self.port);
    }

    fn is_full_again(&self) -> bool {
        EnginePort::is_full_again(&self.port)
    }

    fn end_force(&mut self) -> u64 {
        EnginePort::end_force(&mut self.port)
    }

    #[inline(always)]
    fn errors_passed(&self) -> u64 {
        EnginePort::errors_passed(&self.port)
    }

    fn share(&mut self) -> Result<HostPort, PortError> {
        match &self.share {
            Some(share) => HostPort::of_agent(&share.filters.connected, &share.interface),
            None => {
                let port = EnginePort::share(&mut self.port)?;
                let guard = self.guard.as_ref().map(|guard| Guard::by(Arc::clone(&guard.connected)));
                Ok(HostPort { port, share: None, guard, no_share: None })
            }
        }
    }

    fn unshare(&mut self, share: HostPort) -> Result<(), PortError> {
        match share {
            HostPort { port, share: None, .. } => EnginePort::unshare(&mut self.port, port),
            // Dropped, it goes back to the agent.
            HostPort { share: Some(_), .. } => Ok(()),
        }
    }
}
