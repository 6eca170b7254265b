//! What a process has of its machine: by its channel to the simulation, a connection to the agent and a share of its port for each engine.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nearwire_agent::message::{Answer, Cause, InterfaceName, Request};
use nearwire_frames::interface::{AttachedProgram, InterfaceFacts};
use nearwire_frames::steering::FlowFilter;
use nearwire_frames::{
    EnginePort, FlowSocket, Port, PortAbout, PortError, PortFilters, PortStatistics, PreparedFrame, RevokedFlow,
};
use nearwire_socket::kernel_tables::{PathErrors, TablesError};
use nearwire_socket::{AgentPid, Clocks, Host, PortWanted};
use nearwire_stack::Update;
use nearwire_sys::descriptor::Descriptor;

use crate::channel::{Channel, Packet};
use crate::company::kernel::Kernel;
use crate::machine::{Machine, Surroundings, TICKS_PER_NS};
use crate::shared::{FRAME_MOST_BYTES, Ring, Shared};

/// What a process asks the simulation within a command; the first word.
pub mod asks {
    /// Answer: whether there is an agent, the program's number there and the agent's; beside it what is readable at news.
    pub const CONNECT: u64 = 1;
    /// With the program's number, the bytes of a request and perhaps a socket. Answer: whether the agent is there, and the slot of a new share; the
    /// bytes of the agent's answer.
    pub const REQUEST: u64 = 2;
    /// With the program's number. Answer: whether the agent is there; for each event its length, and their bytes.
    pub const NEWS: u64 = 3;
    /// Answer: whether a program is on the interface, and its number.
    pub const PROGRAM: u64 = 4;
    /// With a time, nanoseconds: others go on.
    pub const PAUSE: u64 = 5;
    /// With the program's number: the connection ends.
    pub const LEAVE: u64 = 6;
    /// The answer to a command.
    pub const DONE: u64 = 7;
    /// Instead of it: the text of a panic.
    pub const PANIC: u64 = 8;
}

/// The channel that a process has, which is another one in its children.
pub type Way = Arc<Mutex<Arc<Channel>>>;

/// A connection to an agent.
#[derive(Debug)]
pub struct Connected {
    channel: Way,
    pub program: u32,
    agent: u32,
    is_gone: AtomicBool,
    told: OwnedFd,
    news: Mutex<VecDeque<Answer>>,
}

fn exchange(channel: &Mutex<Arc<Channel>>, packet: &Packet) -> Packet {
    let channel = Arc::clone(&channel.lock().unwrap());
    assert!(channel.send(packet), "the simulation is over");
    channel.receive().unwrap().expect("the simulation goes on")
}

impl Connected {
    /// The answer, and the slot of a share that was opened. `None`: the agent is gone.
    fn ask(&self, request: &Request, socket: Option<BorrowedFd<'_>>) -> Option<(Answer, usize)> {
        if self.is_gone.load(Relaxed) {
            return None;
        }
        let mut packet = Packet::with(&[asks::REQUEST, self.program.into()], request.to_bytes(1));
        packet.fds.extend(socket.map(|socket| socket.try_clone_to_owned().unwrap()));
        let answered = exchange(&self.channel, &packet);
        if answered.words[0] == 0 {
            self.is_gone.store(true, Relaxed);
            return None;
        }
        let (answer, _) = Answer::from_bytes(&answered.bytes).unwrap();
        Some((answer, answered.words[1] as usize))
    }

    fn take_news(&self, wanted: impl Fn(&Answer) -> bool) -> Option<Vec<Answer>> {
        if self.is_gone.load(Relaxed) {
            return None;
        }
        if rustix::io::read(&self.told, &mut [0; 8]).is_ok() {
            let told = exchange(&self.channel, &Packet::of(&[asks::NEWS, self.program.into()]));
            self.is_gone.store(told.words[0] == 0, Relaxed);
            let mut rest = &told.bytes[..];
            for len_bytes in &told.words[1..] {
                let (event, others) = rest.split_at(*len_bytes as usize);
                self.news.lock().unwrap().push_back(Answer::from_bytes(event).unwrap().0);
                rest = others;
            }
            if self.is_gone.load(Relaxed) {
                return None;
            }
        }
        let mut news = self.news.lock().unwrap();
        let (taken, left): (Vec<_>, Vec<_>) = std::mem::take(&mut *news).into_iter().partition(|told| wanted(told));
        news.extend(left);
        Some(taken)
    }
}

/// What processes begin with.
#[derive(Clone, Debug)]
pub struct Bed {
    pub shared: Rc<Shared>,
    pub kernel: Rc<Kernel>,
    pub surroundings: Surroundings,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Remote {
    pub channel: Way,
    shared: Rc<Shared>,
    kernel: Rc<Kernel>,
    surroundings: Surroundings,
    /// The tables of each engine.
    tables: Rc<RefCell<Vec<Machine>>>,
    is_up: Rc<Cell<bool>>,
    connected: Rc<RefCell<Option<Arc<Connected>>>>,
    /// Its memory is gone: nothing of it says anything any more.
    is_over: Rc<Cell<bool>>,
}

const MACHINES: usize = 3;
/// A microsecond.
const TICKS_PER_LOOK: u64 = 1000 * TICKS_PER_NS;
/// The one that processes are on.
pub const NUMBER: usize = 1;

impl Remote {
    pub fn new(channel: &Way, bed: &Bed) -> Remote {
        let Bed { shared, kernel, surroundings } = bed;
        Remote {
            kernel: Rc::clone(kernel),
            channel: Arc::clone(channel),
            shared: Rc::clone(shared),
            surroundings: surroundings.clone(),
            tables: Rc::default(),
            is_up: Rc::new(Cell::new(true)),
            connected: Rc::default(),
            is_over: Rc::default(),
        }
    }

    fn machine(&self) -> Machine {
        let machine = Machine::new(NUMBER, MACHINES, &self.surroundings);
        if !self.is_up.get() {
            machine.set_up(false);
        }
        machine
    }

    /// The interface goes down, or comes up.
    pub fn set_up(&self, is_up: bool) {
        self.is_up.set(is_up);
        self.tables.borrow().iter().for_each(|tables| tables.set_up(is_up));
    }

    /// The process's memory ends without a word to anybody.
    pub fn end(&self) {
        self.is_over.set(true);
    }

    /// Its number at the agent.
    pub fn program(&self) -> u32 {
        self.connected.borrow().as_ref().map_or(0, |connected| connected.program)
    }

    fn connect(&self) -> Option<Arc<Connected>> {
        let mut connected = self.connected.borrow_mut();
        if connected.as_ref().is_none_or(|connected| connected.is_gone.load(Relaxed)) {
            *connected = Some(Arc::new(connect(&self.channel)?));
        }
        connected.clone()
    }
}

fn connect(channel: &Way) -> Option<Connected> {
    let mut answered = exchange(channel, &Packet::of(&[asks::CONNECT]));
    let told = answered.fds.pop()?;
    let (program, agent) = (answered.words[0] as u32, answered.words[1] as u32);
    let channel = Arc::clone(channel);
    let (is_gone, news) = (AtomicBool::new(false), Mutex::default());
    Some(Connected { channel, program, agent, is_gone, told, news })
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

fn open_share(
    connected: &Arc<Connected>,
    shared: &Rc<Shared>,
    is_over: &Rc<Cell<bool>>,
) -> Result<RemotePort, PortError> {
    let request = Request::OpenShare { interface: InterfaceName::cut("sim0"), memory_bytes: 0 };
    let filters = |share| Filters { connected: Arc::clone(connected), share };
    match connected.ask(&request, None) {
        Some((Answer::ShareOpened { share, .. }, slot)) => Ok(RemotePort {
            shared: Rc::clone(shared),
            slot,
            filters: filters(share),
            flows: BTreeMap::new(),
            revoked: Vec::new(),
            alone: Vec::new(),
            is_over: Rc::clone(is_over),
            is_parents: false,
        }),
        Some((Answer::Refused { cause }, _)) => Err(refused(&cause)),
        Some(other) => panic!("{other:?}"),
        None => Err(gone()),
    }
}

impl Host for Remote {
    type Port = RemotePort;
    type Tables = Machine;

    fn open_tables(&self) -> Result<(Machine, Vec<Update>), TablesError> {
        let machine = self.machine();
        self.tables.borrow_mut().push(machine.clone());
        machine.open_tables()
    }

    fn open_path_errors(&self) -> PathErrors {
        PathErrors::none()
    }

    fn interface_name(&self, _: u32) -> io::Result<String> {
        Ok("sim0".to_owned())
    }

    fn interface_facts(&self, name: &str) -> Result<InterfaceFacts, PortError> {
        let answered = exchange(&self.channel, &Packet::of(&[asks::PROGRAM]));
        let program_id = (answered.words[0] != 0).then_some(answered.words[1] as u32);
        let program = program_id.map(|program_id| AttachedProgram { program_id, mode: "generic" });
        Ok(InterfaceFacts { program, ..self.machine().interface_facts(name)? })
    }

    fn hides_tags(&self, _: &str, _: bool) -> bool {
        false
    }

    fn stamps_received(&self, _: &str) -> bool {
        false
    }

    fn open_port(&self, _: &InterfaceFacts, _: PortWanted) -> Result<RemotePort, PortError> {
        open_share(&self.connect().ok_or_else(gone)?, &self.shared, &self.is_over)
    }

    fn is_served_by_agent(&self, _: PortWanted) -> bool {
        self.connect().is_some()
    }

    fn known_agent(&self) -> Option<AgentPid> {
        self.connected.borrow().as_ref().map(|connected| connected.agent)
    }

    fn agent(&self) -> Option<Descriptor> {
        let connected = self.connected.borrow();
        let present = connected.as_ref().filter(|connected| !connected.is_gone.load(Relaxed))?;
        Descriptor::new(present.told.as_raw_fd())
    }

    fn announce(&self, socket: FlowSocket, is_to_be_used: bool) {
        let present = self.connected.borrow().clone();
        let Some(connected) = (if is_to_be_used { present } else { self.connect() }) else { return };
        // Refused, it is a stranger to the agent until it is used.
        let _ = connected.ask(&Request::Announce { is_to_be_used }, Some(socket.as_fd()));
    }

    fn forked(&mut self) {
        // All engines have the same.
        self.tables.borrow_mut().clear();
        *self.connected.borrow_mut() = None;
    }

    fn pause(&self, time: Duration) {
        exchange(&self.channel, &Packet::of(&[asks::PAUSE, time.as_nanos() as u64]));
    }

    fn await_readable(&self, shadow: Descriptor, within: Duration) {
        let is_readable = || {
            let mut polled = [rustix::event::PollFd::from_borrowed_fd(shadow.as_fd(), rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut polled, Some(&rustix::event::Timespec::default())) != Ok(0)
        };
        if !is_readable() {
            self.pause(within);
        }
    }

    fn secret(&self) -> u64 {
        NUMBER as u64
    }

    fn ticks(&self) -> u64 {
        // What was given back is there within the call, as over the loopback device.
        self.kernel.settle();
        // Who waits for time to pass sees it pass.
        self.shared.add_ticks(TICKS_PER_LOOK)
    }

    fn clocks(&self) -> Clocks {
        let now_ns = self.shared.ticks() / TICKS_PER_NS;
        Clocks { monotonic_ns: now_ns, time_of_day_ns: now_ns }
    }
}

/// The flows of a share, as a whole.
#[derive(Debug)]
struct Filters {
    connected: Arc<Connected>,
    share: u32,
}

impl Filters {
    fn ask(&self, request: &Request, socket: Option<BorrowedFd<'_>>) -> Result<Answer, PortError> {
        match self.connected.ask(request, socket) {
            None => Err(gone()),
            Some((Answer::Refused { cause }, _)) => Err(refused(&cause)),
            Some((answer, _)) => Ok(answer),
        }
    }
}

impl PortFilters for Filters {
    fn pause(&self) -> Result<(), PortError> {
        self.ask(&Request::Pause { share: self.share }, None).map(drop)
    }

    fn resume(&self) -> Result<(), PortError> {
        self.ask(&Request::Resume { share: self.share }, None).map(drop)
    }

    fn withdraw(&self, _: FlowFilter, socket: Descriptor) {
        let _ = self.ask(&Request::Release {}, Some(socket.as_fd()));
    }

    fn restore(&self, _: FlowFilter) {}
}

/// The same in the child of a fork.
#[derive(Debug)]
struct FiltersOfParent(Way);

impl PortFilters for FiltersOfParent {
    fn pause(&self) -> Result<(), PortError> {
        Ok(())
    }

    fn resume(&self) -> Result<(), PortError> {
        Ok(())
    }

    fn withdraw(&self, _: FlowFilter, socket: Descriptor) {
        let Some(connected) = connect(&self.0) else { return };
        let _ = connected.ask(&Request::Release {}, Some(socket.as_fd()));
        exchange(&self.0, &Packet::of(&[asks::LEAVE, connected.program.into()]));
    }

    fn restore(&self, _: FlowFilter) {}
}

/// A share of the agent's port.
#[derive(Debug)]
pub struct RemotePort {
    shared: Rc<Shared>,
    slot: usize,
    filters: Filters,
    /// The agent's number of the flow of a socket, by the socket's inode.
    flows: BTreeMap<(FlowFilter, u64), (u32, FlowSocket)>,
    revoked: Vec<RevokedFlow>,
    alone: Vec<u64>,
    is_over: Rc<Cell<bool>>,
    is_parents: bool,
}

impl RemotePort {
    fn concerns(&self, told: &Answer) -> bool {
        match told {
            Answer::ShareRevoked { share, .. } | Answer::SocketAlone { share, .. } => *share == self.filters.share,
            Answer::FlowRevoked { flow, .. } => self.flows.values().any(|(own, _)| own == flow),
            _ => false,
        }
    }
}

impl Drop for RemotePort {
    fn drop(&mut self) {
        if !self.is_over.get() && !self.is_parents {
            // The agent may be gone.
            let _ = self.filters.ask(&Request::CloseShare { share: self.filters.share }, None);
        }
    }
}

impl Port for RemotePort {
    fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, PortError> {
        let mut room = [0; FRAME_MOST_BYTES];
        let len_bytes = self.shared.pop(Ring::In(self.slot), &mut room);
        Ok(len_bytes.map(|len_bytes| read(&room[..len_bytes])))
    }

    fn queue(&mut self, frame: &[u8]) -> Result<bool, PortError> {
        Ok(self.shared.push(Ring::Out(self.slot), frame))
    }

    fn queue_with(&mut self, len_bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        let mut frame = vec![0; len_bytes];
        write(&mut frame);
        self.queue(&frame)
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn prepare(&mut self, _: &[u8]) -> Result<PreparedFrame, PortError> {
        unimplemented!("engines prepare none")
    }

    fn send_prepared(&mut self, _: PreparedFrame, _: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        unimplemented!("engines prepare none")
    }

    fn statistics(&self) -> PortStatistics {
        PortStatistics::default()
    }

    fn describe(&self) -> String {
        format!("share {} in memory", self.filters.share)
    }
}

impl EnginePort for RemotePort {
    type Kick = Infallible;

    fn submit_on(&mut self, _: usize) -> Option<Infallible> {
        None
    }

    fn kicked(&mut self, kicked: Infallible) -> Result<(), PortError> {
        match kicked {}
    }

    fn add_flow(&mut self, flow: FlowFilter, socket: FlowSocket, _: bool) -> Result<(), PortError> {
        let request = Request::OpenFlow { share: self.filters.share, address: Some(flow.address) };
        match self.filters.ask(&request, Some(socket.as_fd()))? {
            Answer::FlowOpened { flow: number, .. } => self.flows.insert((flow, socket.inode), (number, socket)),
            other => panic!("{other:?}"),
        };
        Ok(())
    }

    fn remove_flow(&mut self, flow: FlowFilter, socket: FlowSocket, _: bool) -> Result<(), PortError> {
        let Some((flow, _)) = self.flows.remove(&(flow, socket.inode)) else { return Ok(()) };
        self.filters.ask(&Request::CloseFlow { flow }, None).map(drop)
    }

    fn hand_flow(
        &mut self,
        other: &mut RemotePort,
        flow: FlowFilter,
        socket: FlowSocket,
        _: (bool, bool),
    ) -> Result<(), PortError> {
        let Some((number, _)) = self.flows.remove(&(flow, socket.inode)) else { return Ok(()) };
        self.filters.ask(&Request::MoveFlow { flow: number, share: other.filters.share }, None)?;
        other.flows.insert((flow, socket.inode), (number, socket));
        Ok(())
    }

    fn has_revoked(&self) -> bool {
        !self.revoked.is_empty() || !self.alone.is_empty()
    }

    fn take_revoked(&mut self) -> Vec<RevokedFlow> {
        std::mem::take(&mut self.revoked)
    }

    fn take_alone(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.alone)
    }

    fn show_connection(&mut self, socket: FlowSocket) {
        // Refused, the agent finds it when it asks the kernel next.
        let _ = self.filters.ask(&Request::ShowConnection {}, Some(socket.as_fd()));
    }

    fn filters(&mut self) -> Option<&mut dyn PortFilters> {
        Some(&mut self.filters)
    }

    fn into_filters_of_parent(mut self) -> Option<Box<dyn PortFilters>> {
        self.is_parents = true;
        Some(Box::new(FiltersOfParent(Arc::clone(&self.filters.connected.channel))))
    }

    fn check(&mut self) -> Result<(), PortError> {
        for told in self.filters.connected.take_news(|told| self.concerns(told)).ok_or_else(gone)? {
            match told {
                Answer::ShareRevoked { cause, .. } => return Err(refused(&cause)),
                Answer::FlowRevoked { flow, cause } => {
                    let is_socket_shared = cause.is_socket_shared();
                    let ended = self.flows.extract_if(.., |_, (own, _)| *own == flow);
                    self.revoked.extend(ended.map(|(_, (_, socket))| RevokedFlow { socket, is_socket_shared }));
                }
                Answer::SocketAlone { cookie, .. } => self.alone.push(cookie),
                _ => {}
            }
        }
        Ok(())
    }

    fn is_told(&self) -> bool {
        let connected = &self.filters.connected;
        connected.is_gone.load(Relaxed) || connected.news.lock().unwrap().iter().any(|told| self.concerns(told))
    }

    fn holder(&self) -> Option<BorrowedFd<'_>> {
        Some(self.filters.connected.told.as_fd())
    }

    fn detach(&mut self) {}

    fn about(&self) -> PortAbout<'_> {
        let program_id = Some(self.filters.connected.agent);
        PortAbout { interface: "sim0", mode: "in memory", rx_queues: 1, program_id }
    }

    fn has_frames(&self) -> bool {
        self.shared.has_frames(Ring::In(self.slot))
    }

    fn share(&mut self) -> Result<RemotePort, PortError> {
        open_share(&self.filters.connected, &self.shared, &self.is_over)
    }

    fn unshare(&mut self, _: RemotePort) -> Result<(), PortError> {
        // Dropped, it goes back to the agent.
        Ok(())
    }
}
