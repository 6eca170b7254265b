//! A machine on which several programs have shares of one interface: its network card, the program in the kernel that steers, and the
//! agent. The agent is the service of `nearwire-agent`, asked by calls in place of messages.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use nearwire_agent::message::{Addresses, Answer, Cause, ProgramName, Request, VERSION};
use nearwire_agent::ports::{Finished, FlowOwner, Opened, Ports, Wanted};
use nearwire_agent::rights::Allowance;
use nearwire_agent::service::{Caller, Judge, ProgramId, Service};
use nearwire_frames::Port;
use nearwire_frames::ports::memory::{MemoryPort, memory_pair};
use nearwire_frames::steering::{FilterSet, Owner};
use rustix::event::{EventfdFlags, eventfd};

use super::kernel::{Kernel, number_of};
use crate::machine::{IFINDEX, Surroundings, TICKS_PER_NS};

/// Frames that a share's ring holds.
const RING_FRAMES: usize = 128;
/// Between two questions for the program of an agent that is gone.
const QUESTION_NS: u64 = 300_000;

/// Who was to get a datagram when it arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// A share of this program.
    Program(ProgramId),
    Kernel,
}

/// A datagram that the card has brought.
#[derive(Debug)]
pub struct Arrived {
    pub number: u64,
    pub by: By,
}

/// What a card has of a share.
#[derive(Debug)]
struct ShareEnd {
    far: MemoryPort,
    program: ProgramId,
}

/// The card and what steers.
#[derive(Debug)]
struct Card {
    wire: MemoryPort,
    table: FilterSet,
    shares: BTreeMap<u32, ShareEnd>,
    /// Shares of agents that ended: what their programs send leaves still.
    former: Vec<MemoryPort>,
    /// Near ends that their programs have not taken yet.
    made: BTreeMap<u32, MemoryPort>,
    /// Which program asks the agent now.
    asker: ProgramId,
    is_up: bool,
    /// Shares whose interface went down, and nobody told.
    lost: Vec<u32>,
    arrived: Vec<Arrived>,
}

/// The ports of the agent.
#[derive(Debug)]
pub struct CardPorts(Rc<RefCell<Card>>);

/// Everybody may have everything.
#[derive(Debug)]
pub struct Everybody;

impl Judge for Everybody {
    fn allowance(&self, _: &Caller) -> Result<Allowance, Cause> {
        Ok(Allowance { interfaces: Vec::new(), memory_bytes: u64::MAX, shares: 4096, flows: 65_536, programs: 4096 })
    }
}

impl Ports for CardPorts {
    fn open_share(&mut self, wanted: &Wanted) -> Result<Option<Opened>, Cause> {
        let mut card = self.0.borrow_mut();
        let (near, far) = memory_pair(RING_FRAMES);
        let program = card.asker;
        card.made.insert(wanted.share, near);
        card.shares.insert(wanted.share, ShareEnd { far, program });
        let (description, descriptors) = (Vec::new(), Vec::new());
        Ok(Some(Opened { description, descriptors, memory_bytes: 1, ifindex: IFINDEX, carrier_within_ms: 0 }))
    }

    fn close_share(&mut self, share: u32) {
        let mut card = self.0.borrow_mut();
        let owner = Owner::Share(share);
        let own: Vec<_> = card.table.iter().copied().collect();
        // The agent has ended its flows before.
        assert!(own.iter().all(|filter| card.table.clone().remove_for(*filter, owner).is_err()), "share {share}");
        card.made.remove(&share);
        let end = card.shares.remove(&share).expect("it is open");
        card.former.push(end.far);
    }

    fn open_flow(&mut self, _: u32, flow: &Addresses, owner: FlowOwner) -> Result<(), Cause> {
        let mut card = self.0.borrow_mut();
        for filter in flow.filters() {
            card.table.add_for(filter, owner_of(owner)).expect("the agent asks for it once");
        }
        Ok(())
    }

    fn move_flow(&mut self, _: u32, flow: &Addresses, from: FlowOwner, to: FlowOwner) -> Result<(), Cause> {
        let mut card = self.0.borrow_mut();
        for filter in flow.filters() {
            let moved = card.table.move_for(filter, owner_of(from), owner_of(to));
            moved.expect("the one has it");
        }
        Ok(())
    }

    fn close_flow(&mut self, _: u32, flow: &Addresses, owner: FlowOwner) {
        let mut card = self.0.borrow_mut();
        for filter in flow.filters() {
            card.table.remove_for(filter, owner_of(owner)).expect("it is there");
        }
    }

    fn want_times(&mut self, _: u32) -> Result<bool, Cause> {
        Ok(true)
    }

    fn has_address(&self, _: std::net::IpAddr, _: u32) -> bool {
        // Peers are on other machines.
        false
    }

    fn news(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn finishes(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn take_finished(&mut self) -> Vec<Finished> {
        Vec::new()
    }

    fn take_lost(&mut self) -> Vec<(u32, Cause)> {
        let interface = nearwire_agent::message::InterfaceName::cut("sim0");
        let lost = std::mem::take(&mut self.0.borrow_mut().lost);
        lost.into_iter().map(|share| (share, Cause::InterfaceGone { interface: interface.clone() })).collect()
    }
}

fn owner_of(owner: FlowOwner) -> Owner {
    match owner {
        FlowOwner::Share(share) => Owner::Share(share),
        FlowOwner::Kernel => Owner::Kernel,
    }
}

/// What the agent told a program by itself.
#[derive(Debug)]
pub struct Mailbox {
    events: RefCell<Vec<Answer>>,
    is_gone: Cell<bool>,
    /// Readable when there are events, or the agent is gone.
    pub told: OwnedFd,
}

impl Mailbox {
    fn new() -> Rc<Mailbox> {
        let told = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        Rc::new(Mailbox { events: RefCell::default(), is_gone: Cell::new(false), told })
    }

    fn ring(&self) {
        rustix::io::write(&self.told, &1_u64.to_ne_bytes()).unwrap();
    }

    /// Takes those that `wanted` says; `None`: the agent is gone.
    pub fn take(&self, wanted: impl Fn(&Answer) -> bool) -> Option<Vec<Answer>> {
        if self.is_gone.get() {
            return None;
        }
        let _ = rustix::io::read(&self.told, &mut [0; 8]);
        let (taken, left) = self.events.take().into_iter().partition(wanted);
        *self.events.borrow_mut() = left;
        Some(taken)
    }
}

/// A program's connection to an agent.
#[derive(Debug, Clone)]
pub struct Connected {
    pub program: ProgramId,
    /// Which agent it is to.
    pub generation: u32,
    pub mailbox: Rc<Mailbox>,
}

impl Connected {
    /// Whether the agent is there still.
    pub fn is_alive(&self) -> bool {
        !self.mailbox.is_gone.get()
    }
}

type Agent = Service<CardPorts, Everybody>;

/// See the module.
#[derive(Debug)]
pub struct House {
    pub number: usize,
    surroundings: Surroundings,
    kernel: Rc<Kernel>,
    card: Rc<RefCell<Card>>,
    agent: RefCell<Option<Agent>>,
    /// Which agent it is, of those that there were. The program in the kernel has this number.
    generation: Cell<u32>,
    has_program: Cell<bool>,
    /// Questions until the program of an agent that is gone is off the interface.
    questions_left: Cell<Option<u32>>,
    mailboxes: RefCell<BTreeMap<ProgramId, Rc<Mailbox>>>,
    next: Cell<ProgramId>,
    namespace: u64,
    /// Virtual time began then.
    base: Instant,
}

impl House {
    pub fn new(number: usize, surroundings: &Surroundings, kernel: &Rc<Kernel>, namespace: u64) -> Rc<House> {
        let card = Card {
            wire: surroundings.segment.borrow_mut().connect(number),
            table: FilterSet::new(),
            shares: BTreeMap::new(),
            former: Vec::new(),
            made: BTreeMap::new(),
            asker: 0,
            is_up: true,
            lost: Vec::new(),
            arrived: Vec::new(),
        };
        let house = Rc::new(House {
            number,
            surroundings: surroundings.clone(),
            kernel: Rc::clone(kernel),
            card: Rc::new(RefCell::new(card)),
            agent: RefCell::default(),
            generation: Cell::new(0),
            has_program: Cell::new(false),
            questions_left: Cell::new(None),
            mailboxes: RefCell::default(),
            next: Cell::new(1),
            namespace,
            base: Instant::now(),
        });
        house.start_agent();
        house
    }

    fn now(&self) -> Instant {
        self.base + Duration::from_nanos(self.surroundings.ticks.get() / TICKS_PER_NS)
    }

    pub fn has_agent(&self) -> bool {
        self.agent.borrow().is_some()
    }

    /// One that finds the interface without a program.
    pub fn start_agent(&self) {
        if self.has_agent() || self.has_program.get() {
            return;
        }
        let ports = CardPorts(Rc::clone(&self.card));
        self.generation.set(self.generation.get() + 1);
        *self.agent.borrow_mut() = Some(Service::new(ports, Everybody, self.namespace, 0, self.now()));
        self.has_program.set(true);
    }

    /// The agent is killed. Its connections end first, and its program after so many questions for it.
    pub fn end_agent(&self, questions: u32) {
        if self.agent.borrow_mut().take().is_none() {
            return;
        }
        self.questions_left.set(Some(questions));
        for (_, mailbox) in std::mem::take(&mut *self.mailboxes.borrow_mut()) {
            mailbox.is_gone.set(true);
            mailbox.ring();
        }
        if questions == 0 {
            self.detach();
        }
    }

    /// The kernel has all frames.
    fn detach(&self) {
        self.questions_left.set(None);
        self.has_program.set(false);
        let mut card = self.card.borrow_mut();
        card.table = FilterSet::new();
        card.lost.clear();
        card.made.clear();
        let shares = std::mem::take(&mut card.shares);
        card.former.extend(shares.into_values().map(|end| end.far));
    }

    /// The number of the program on the interface. Somebody waits for its end: time passes, and frames arrive.
    pub fn program_on_interface(&self) -> Option<u32> {
        if let Some(left) = self.questions_left.get() {
            let now_ns = self.surroundings.ticks.get() / TICKS_PER_NS + QUESTION_NS;
            self.surroundings.ticks.set(now_ns * TICKS_PER_NS);
            self.surroundings.segment.borrow_mut().pass(now_ns);
            self.pass_frames();
            self.questions_left.set(Some(left.saturating_sub(1)));
            if left <= 1 {
                self.detach();
            }
        }
        self.has_program.get().then(|| self.generation.get())
    }

    /// What is due at the agent.
    pub fn pass_time(&self) {
        self.act(|agent, now| agent.pass_time(now));
    }

    fn act(&self, act: impl FnOnce(&mut Agent, Instant) -> Vec<(ProgramId, Answer)>) {
        let told = self.agent.borrow_mut().as_mut().map(|agent| act(agent, self.now()));
        self.tell(told.unwrap_or_default());
    }

    fn tell(&self, events: Vec<(ProgramId, Answer)>) {
        let mailboxes = self.mailboxes.borrow();
        for (program, event) in events {
            self.surroundings.trace.note(|| format!("program {program} is told {event:?}"));
            if let Some(mailbox) = mailboxes.get(&program) {
                mailbox.events.borrow_mut().push(event);
                mailbox.ring();
            }
        }
    }

    /// A program connects. `None`: there is no agent.
    pub fn connect(&self) -> Option<Connected> {
        self.connect_of(self.next.get())
    }

    /// The same of a process.
    pub fn connect_of(&self, pid: u32) -> Option<Connected> {
        let mut agent = self.agent.borrow_mut();
        let agent = agent.as_mut()?;
        let program = self.next.get();
        self.next.set(program + 1);
        let caller = Caller { pid, uid: 0, groups: Vec::new(), has_pass: false };
        agent.pass_time(self.now());
        agent.hello(program, caller, VERSION, ProgramName::cut("simulation")).unwrap();
        let mailbox = Mailbox::new();
        self.mailboxes.borrow_mut().insert(program, Rc::clone(&mailbox));
        Some(Connected { program, generation: self.generation.get(), mailbox })
    }

    /// Asks the agent something. `None`: it is gone.
    pub fn ask(&self, of: &Connected, request: Request, socket: Option<OwnedFd>) -> Option<Answer> {
        if !of.is_alive() {
            return None;
        }
        let mut agent = self.agent.borrow_mut();
        let agent = agent.as_mut().filter(|_| of.generation == self.generation.get())?;
        self.card.borrow_mut().asker = of.program;
        let told = agent.pass_time(self.now());
        self.tell(told);
        let asked = request.clone();
        let outcome = agent.handle(of.program, 1, request, socket).expect("the card does everything at once");
        let now_ns = self.surroundings.ticks.get() / TICKS_PER_NS;
        self.surroundings.trace.note(|| {
            let (number, program, answer) = (self.number, of.program, &outcome.answer);
            format!("{now_ns}: program {program} of machine {number} asks {asked:?}: {answer:?}")
        });
        self.tell(outcome.events);
        Some(outcome.answer)
    }

    pub fn take_port(&self, share: u32) -> MemoryPort {
        self.card.borrow_mut().made.remove(&share).expect("it was opened")
    }

    /// The agent hears of sockets that were closed.
    pub fn closed(&self, cookies: &[u64]) {
        self.act(|agent, _| {
            agent.closed(cookies);
            Vec::new()
        });
    }

    /// The agent sees the end of a connection.
    pub fn gone(&self, of: &Connected) {
        if of.is_alive() {
            self.mailboxes.borrow_mut().remove(&of.program);
            self.act(|agent, _| {
                agent.gone(of.program);
                Vec::new()
            });
        }
    }

    /// The interface goes down, or comes up.
    pub fn set_up(&self, is_up: bool) {
        {
            let mut card = self.card.borrow_mut();
            card.is_up = is_up;
            if !is_up {
                card.lost = card.shares.keys().copied().collect();
            }
        }
        self.act(|agent, _| agent.take_lost());
    }

    /// The kernel sends a frame.
    pub fn send(&self, frame: &[u8]) {
        let mut card = self.card.borrow_mut();
        if card.is_up {
            assert!(card.wire.send(frame).unwrap(), "the segment takes all there is, often");
        }
    }

    /// Brings what programs gave back to their shadows.
    pub fn settle(&self) {
        self.kernel.settle();
    }

    /// Brings what has come to whoever is to have it, and takes what shares send.
    pub fn pass_frames(&self) {
        self.kernel.settle();
        let mut card = self.card.borrow_mut();
        let Card { wire, table, shares, former, is_up, arrived, .. } = &mut *card;
        let mut leave = |end: &mut MemoryPort| {
            loop {
                match end.receive(<[u8]>::to_vec) {
                    Ok(Some(frame)) => assert!(!*is_up || wire.send(&frame).unwrap()),
                    Ok(None) => return true,
                    Err(_) => return false,
                }
            }
        };
        for share in shares.values_mut() {
            let _ = leave(&mut share.far);
        }
        former.retain_mut(leave);
        while let Some(frame) = wire.receive(<[u8]>::to_vec).unwrap() {
            if !*is_up {
                continue;
            }
            let share = match table.verdict(&frame) {
                Owner::Share(share) => shares.get_mut(&share),
                Owner::Kernel | Owner::Nobody | Owner::Unheard => None,
            };
            let number = number_of(&frame);
            // No room: the kernel's. A dead program's is lost.
            let by = share.map_or(By::Kernel, |share| {
                let is_full = matches!(share.far.send(&frame), Ok(false));
                if is_full { By::Kernel } else { By::Program(share.program) }
            });
            if by == By::Kernel {
                self.kernel.bring(&frame);
            }
            arrived.push(Arrived { number, by });
        }
    }

    /// Who would get a frame.
    #[allow(dead_code, reason = "the simulation of processes asks")]
    pub fn owner_of(&self, frame: &[u8]) -> By {
        let card = self.card.borrow();
        match card.table.verdict(frame) {
            Owner::Share(share) => card.shares.get(&share).map_or(By::Kernel, |share| By::Program(share.program)),
            Owner::Kernel | Owner::Nobody | Owner::Unheard => By::Kernel,
        }
    }

    pub fn take_arrived(&self) -> Vec<Arrived> {
        std::mem::take(&mut self.card.borrow_mut().arrived)
    }

    /// What the agent of a machine has when its programs are gone: nothing.
    pub fn assert_nothing_left(&self) {
        let card = self.card.borrow();
        assert!(card.shares.is_empty() && card.table.iter().next().is_none(), "{card:?}");
        assert!(self.agent.borrow().as_ref().is_none_or(|agent| agent.programs() == 0));
    }
}
