//! What a program of the simulation has of its machine: a share of the agent's port, as `HostPort` has one of a real agent's.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

use nearwire_agent::message::{Answer, Cause, InterfaceName, Request};
use nearwire_frames::interface::{AttachedProgram, InterfaceFacts};
use nearwire_frames::ports::memory::MemoryPort;
use nearwire_frames::steering::FlowFilter;
use nearwire_frames::{
    EnginePort, FlowSocket, Port, PortAbout, PortError, PortFilters, PortStatistics, PreparedFrame, RevokedFlow,
};
use nearwire_socket::kernel_tables::{PathErrors, TablesError};
use nearwire_socket::{Clocks, Host, PortWanted};
use nearwire_stack::Update;

use super::house::{Connected, House};
use crate::machine::Machine;

/// See the module.
#[derive(Clone, Debug)]
pub struct Member {
    pub machine: Machine,
    pub house: Rc<House>,
    connected: Rc<RefCell<Option<Connected>>>,
    /// It was killed: nothing of it says anything any more.
    is_dead: Rc<Cell<bool>>,
}

impl Member {
    pub fn new(machine: Machine, house: &Rc<House>) -> Member {
        Member { machine, house: Rc::clone(house), connected: Rc::default(), is_dead: Rc::default() }
    }

    /// The program is killed; what the agent is to see the end of.
    pub fn die(&self) -> Option<Connected> {
        self.is_dead.set(true);
        self.connected.borrow().clone()
    }

    /// Its number at the agent.
    pub fn program(&self) -> Option<u32> {
        self.connected.borrow().as_ref().map(|connected| connected.program)
    }

    /// Whether the agent that it is connected to is there still; it may not have noticed.
    pub fn is_at_agent(&self) -> bool {
        self.connected.borrow().as_ref().is_some_and(Connected::is_alive)
    }

    /// The connection to the agent that there is, if it is not the one that this program had.
    fn connect(&self) -> Option<Connected> {
        let mut connected = self.connected.borrow_mut();
        if !connected.as_ref().is_some_and(Connected::is_alive) {
            *connected = Some(self.house.connect()?);
        }
        connected.clone()
    }
}

fn gone() -> PortError {
    PortError::HolderGone { interface: "sim0".to_owned() }
}

fn refused(cause: &Cause) -> PortError {
    let (interface, words) = ("sim0".to_owned(), cause.to_string());
    match cause {
        Cause::SocketShared { .. } | Cause::AddressShared { .. } | Cause::Stranger { .. } => {
            let is_socket_shared = cause.is_socket_shared();
            PortError::FlowShared { interface, words, is_socket_shared }
        }
        _ => PortError::ShareRefused { interface, words },
    }
}

impl Host for Member {
    type Port = SharePort;
    type Tables = Machine;

    fn open_tables(&self) -> Result<(Machine, Vec<Update>), TablesError> {
        self.machine.open_tables()
    }

    fn open_path_errors(&self) -> PathErrors {
        self.machine.open_path_errors()
    }

    fn interface_name(&self, ifindex: u32) -> io::Result<String> {
        self.machine.interface_name(ifindex)
    }

    fn interface_facts(&self, name: &str) -> Result<InterfaceFacts, PortError> {
        let program = self.house.program_on_interface();
        let program = program.map(|program_id| AttachedProgram { program_id, mode: "generic" });
        Ok(InterfaceFacts { program, ..self.machine.interface_facts(name)? })
    }

    fn hides_tags(&self, _: &str, _: bool) -> bool {
        false
    }

    fn stamps_received(&self, _: &str) -> bool {
        false
    }

    fn open_port(&self, _: &InterfaceFacts, _: PortWanted) -> Result<SharePort, PortError> {
        let connected = self.connect().ok_or_else(gone)?;
        let request = Request::OpenShare { interface: InterfaceName::cut("sim0"), memory_bytes: 0 };
        match self.house.ask(&connected, request, None) {
            Some(Answer::ShareOpened { share, .. }) => Ok(SharePort {
                port: self.house.take_port(share),
                house: Rc::clone(&self.house),
                connected,
                share,
                flows: BTreeMap::new(),
                revoked: Vec::new(),
                is_dead: Rc::clone(&self.is_dead),
            }),
            Some(Answer::Refused { cause }) => Err(refused(&cause)),
            Some(other) => panic!("{other:?}"),
            None => Err(gone()),
        }
    }

    fn is_served_by_agent(&self, _: PortWanted) -> bool {
        self.connect().is_some()
    }

    fn announce(&self, socket: FlowSocket, is_to_be_used: bool) {
        let Some(connected) = self.connected.borrow().clone() else { return };
        let socket = socket.as_fd().try_clone_to_owned().unwrap();
        // Refused, it is a stranger to the agent until it is used.
        let _ = self.house.ask(&connected, Request::Announce { is_to_be_used }, Some(socket));
    }

    fn secret(&self) -> u64 {
        self.machine.secret()
    }

    fn ticks(&self) -> u64 {
        // What was given back is there within the call, as over the loopback device.
        self.house.settle();
        self.machine.ticks()
    }

    fn clocks(&self) -> Clocks {
        self.machine.clocks()
    }
}

/// A share of the agent's port.
#[derive(Debug)]
pub struct SharePort {
    port: MemoryPort,
    house: Rc<House>,
    connected: Connected,
    share: u32,
    /// The agent's number of the flow of a socket, by the socket's inode.
    flows: BTreeMap<(FlowFilter, u64), (u32, FlowSocket)>,
    revoked: Vec<RevokedFlow>,
    is_dead: Rc<Cell<bool>>,
}

impl SharePort {
    fn ask(&self, request: Request, socket: Option<FlowSocket>) -> Result<Answer, PortError> {
        let socket = socket.map(|socket| socket.as_fd().try_clone_to_owned().unwrap());
        match self.house.ask(&self.connected, request, socket) {
            None => Err(gone()),
            Some(Answer::Refused { cause }) => Err(refused(&cause)),
            Some(answer) => Ok(answer),
        }
    }
}

impl Drop for SharePort {
    fn drop(&mut self) {
        if !self.is_dead.get() {
            // The agent may be gone.
            let _ = self.ask(Request::CloseShare { share: self.share }, None);
        }
    }
}

impl Port for SharePort {
    fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, PortError> {
        match self.port.receive(read) {
            // The share was closed: nothing comes any more.
            Err(PortError::PeerGone) => Ok(None),
            received => received,
        }
    }

    fn queue(&mut self, frame: &[u8]) -> Result<bool, PortError> {
        self.port.queue(frame)
    }

    fn queue_with(&mut self, len_bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        self.port.queue_with(len_bytes, write)
    }

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
        format!("share {} in memory", self.share)
    }
}

impl EnginePort for SharePort {
    type Kick = Infallible;

    fn submit_on(&mut self, _: usize) -> Option<Infallible> {
        // Refused, the port says so when it is next used.
        let _ = self.flush();
        None
    }

    fn kicked(&mut self, kicked: Infallible) -> Result<(), PortError> {
        match kicked {}
    }

    fn add_flow(&mut self, flow: FlowFilter, socket: FlowSocket, _: bool) -> Result<(), PortError> {
        let (share, address) = (self.share, Some(flow.address));
        let request = Request::OpenFlow { share, address };
        match self.ask(request, Some(socket))? {
            Answer::FlowOpened { flow: number, .. } => self.flows.insert((flow, socket.inode), (number, socket)),
            other => panic!("{other:?}"),
        };
        Ok(())
    }

    fn remove_flow(&mut self, flow: FlowFilter, socket: FlowSocket, _: bool) -> Result<(), PortError> {
        let Some((flow, _)) = self.flows.remove(&(flow, socket.inode)) else { return Ok(()) };
        self.ask(Request::CloseFlow { flow }, None).map(drop)
    }

    fn hand_flow(
        &mut self,
        _: &mut SharePort,
        flow: FlowFilter,
        socket: FlowSocket,
        (is_last, _): (bool, bool),
    ) -> Result<(), PortError> {
        // A program has one engine.
        self.remove_flow(flow, socket, is_last)
    }

    fn has_revoked(&self) -> bool {
        !self.revoked.is_empty()
    }

    fn take_revoked(&mut self) -> Vec<RevokedFlow> {
        std::mem::take(&mut self.revoked)
    }

    fn show_connection(&mut self, socket: FlowSocket) {
        // Refused, the agent finds it when it asks the kernel next.
        let _ = self.ask(Request::ShowConnection {}, Some(socket));
    }

    fn filters(&mut self) -> Option<&mut dyn PortFilters> {
        None
    }

    fn into_filters_of_parent(self) -> Option<Box<dyn PortFilters>> {
        None
    }

    fn check(&mut self) -> Result<(), PortError> {
        let own: Vec<u32> = self.flows.values().map(|(flow, _)| *flow).collect();
        let is_own = |told: &Answer| match told {
            Answer::ShareRevoked { share, .. } => *share == self.share,
            Answer::FlowRevoked { flow, .. } => own.contains(flow),
            _ => false,
        };
        for told in self.connected.mailbox.take(is_own).ok_or_else(gone)? {
            match told {
                Answer::ShareRevoked { cause, .. } => return Err(refused(&cause)),
                Answer::FlowRevoked { flow, cause } => {
                    let is_socket_shared = cause.is_socket_shared();
                    let ended = self.flows.extract_if(.., |_, (own, _)| *own == flow);
                    self.revoked.extend(ended.map(|(_, (_, socket))| RevokedFlow { socket, is_socket_shared }));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn holder(&self) -> Option<BorrowedFd<'_>> {
        Some(self.connected.mailbox.told.as_fd())
    }

    fn detach(&mut self) {}

    fn about(&self) -> PortAbout<'_> {
        PortAbout { interface: "sim0", mode: "in memory", rx_queues: 1, program_id: Some(self.connected.generation) }
    }

    fn share(&mut self) -> Result<SharePort, PortError> {
        Err(PortError::NoShareLeft { interface: "sim0".to_owned(), most: 1 })
    }

    fn unshare(&mut self, _: SharePort) -> Result<(), PortError> {
        Ok(())
    }
}
