//! The programs of a machine, what happens to them, and the account of every datagram.

mod account;
mod calls;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use nearwire_frames::Port;
use nearwire_frames::ports::memory::MemoryPort;
use rustix::process::Pid;

use crate::channel::{Channel, Packet};
use crate::company::house::{Connected, House};
use crate::company::kernel::{Kernel, frame};
use crate::host::{Bed, NUMBER};
use crate::machine::{Surroundings, TICKS_PER_NS};
use crate::program::{PAYLOAD_MOST_BYTES, WATCHED_EDGE, WATCHED_LEVEL, does};
use crate::random::Random;
use crate::segment::{Faults, Segment};
use crate::shared::{SLOTS, Shared};
use crate::step::{Kind, Step};
use crate::trace::Trace;
use crate::zygote::{self, Zygote};
use account::Sent;

/// The other host, which is nothing but its datagrams.
const OTHER: usize = NUMBER + 1;
const FAULTS: Faults = Faults { lost_one_in: 60, doubled_one_in: 40, late_one_in: 12 };
const PROGRAMS_MOST: usize = 5;
const SOCKETS_MOST: usize = 4;
/// What a socket may have unread: as much as the kernel and a share's ring keep in any case.
const UNREAD_MOST: u64 = 30;
const THREADS: u64 = 3;
const FIRST_PORT: u16 = 5000;
const ROUND_NS: u64 = 1_000_000;
/// One socket in so many is one that the next program has after exec(2).
const SURVIVES_ONE_IN: u64 = 2;

/// What came of sequences.
#[derive(Debug, Default, Clone, Copy)]
pub struct Outcome {
    pub sequences: u64,
    pub steps: u64,
    pub arrived: u64,
    /// Of those, for a share.
    pub steered: u64,
    pub delivered: u64,
    /// By a child, or another program that has the socket besides the one that bound it.
    pub by_others: u64,
    pub forks: u64,
    pub execs: u64,
    pub kills: u64,
    pub kills_within: u64,
    pub agents: u64,
    pub claims_looked_at: u64,
}

/// A program.
struct Process {
    pid: Pid,
    channel: Channel,
    parent: Option<usize>,
    is_alive: bool,
    was_killed: bool,
    /// To agents, as far as those have not seen the end of them.
    connections: Vec<Connected>,
    sockets: BTreeSet<u64>,
    /// Which of them it has inherited by exec(2): the library follows them no more.
    unfollowed: BTreeSet<u64>,
}

/// A socket.
struct Socket {
    port: u16,
    cookie: u64,
    /// The port of its peer.
    peer: Option<u16>,
    /// All that it ever had.
    peers: BTreeSet<u16>,
    /// A program was killed while it connected it: nobody knows whether it did. Or another has its flow, and there was no agent to hear of it: until
    /// the kernel has taken the agent's program down, frames of others come to that one.
    is_peer_unknown: bool,
    survives_exec: bool,
    opener: usize,
    /// Programs that ever had its flow.
    owners: BTreeSet<usize>,
    unread: u64,
    is_closed: bool,
}

/// What an agent does not know yet.
struct Unheard {
    connections: Vec<Connected>,
    cookies: Vec<u64>,
}

/// A share's ring in common memory.
struct Relay {
    near: MemoryPort,
    program: u32,
    share: u32,
}

/// See the module.
pub struct World<'a> {
    kernel: &'a Kernel,
    shared: &'a Shared,
    zygote: &'a Zygote,
    surroundings: Surroundings,
    house: Rc<House>,
    other: MemoryPort,
    relays: Vec<Option<Relay>>,
    processes: Vec<Process>,
    sockets: BTreeMap<u64, Socket>,
    sent: Vec<Sent>,
    /// Numbers of datagrams that left by shares, and how often the wire had them.
    left: BTreeMap<u64, u64>,
    unheard: Vec<Unheard>,
    is_up: bool,
    /// Those that a call goes on in.
    calling: Vec<usize>,
    /// After so many questions of the one that is called it is killed.
    kill_within: Option<u64>,
    /// The program that is called ends.
    exits: bool,
    seed: u64,
    sum: Outcome,
}

impl<'a> World<'a> {
    pub fn new(bed: &'a Bed, zygote: &'a Zygote, seed: u64, trace: &Rc<Trace>) -> World<'a> {
        let Bed { kernel, shared, .. } = bed;
        let mut random = Random::new(seed ^ 0x5eed);
        let segment = Segment::new(FAULTS, Random::new(random.next()), OTHER + 1);
        shared.set_ticks(1 << 40);
        let ticks = Rc::new(Cell::new(shared.ticks()));
        let surroundings = Surroundings { segment, ticks, trace: Rc::clone(trace) };
        let namespace = nearwire_sys::socket::netns_cookie(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        let house = House::new(NUMBER, &surroundings, kernel, namespace);
        let other = surroundings.segment.borrow_mut().connect(OTHER);
        World {
            kernel,
            shared,
            zygote,
            surroundings,
            house,
            other,
            relays: (0..SLOTS).map(|_| None).collect(),
            processes: Vec::new(),
            sockets: BTreeMap::new(),
            sent: Vec::new(),
            left: BTreeMap::new(),
            unheard: Vec::new(),
            is_up: true,
            calling: Vec::new(),
            kill_within: None,
            exits: false,
            seed,
            sum: Outcome::default(),
        }
    }

    /// Runs a sequence; why it failed.
    pub fn run(mut self, steps: &[Step], sum: &mut Outcome) -> Result<(), String> {
        let ran = catch_unwind(AssertUnwindSafe(|| {
            self.start_process();
            self.open(0, 0, 1);
            self.start_process();
            for (at, step) in steps.iter().enumerate() {
                self.note(|| format!("step {at}: {step:?}"));
                self.step(step);
            }
            self.end();
        }));
        for process in self.processes.iter().filter(|process| process.is_alive) {
            zygote::kill(process.pid);
        }
        // Children of others are taken in when those are.
        for process in &self.processes {
            self.zygote.reap(process.pid);
        }
        self.sum.sequences = 1;
        self.sum.steps = steps.len() as u64;
        sum.add(&self.sum);
        ran.map_err(|_| crate::last_panic())
    }

    fn now_ns(&self) -> u64 {
        self.shared.ticks() / TICKS_PER_NS
    }

    fn note(&self, what: impl FnOnce() -> String) {
        let now_ns = self.now_ns();
        self.surroundings.trace.note(|| format!("{now_ns}: {}", what()));
    }

    /// Time passes, and frames with it.
    fn pass(&mut self, time_ns: u64) {
        self.shared.add_ticks(time_ns * TICKS_PER_NS);
        self.pass_frames();
        self.house.pass_time();
    }

    fn step(&mut self, step: &Step) {
        self.pass(step.gap_ns);
        let Some(program) = self.any_alive(step.program) else {
            // They have all ended.
            self.start_process();
            return;
        };
        let thread = 1 + step.more % THREADS;
        let own: Vec<u64> = self.processes[program].sockets.iter().copied().collect();
        let socket = (!own.is_empty()).then(|| own[step.socket as usize % own.len()]);
        match (step.kind, socket) {
            (Kind::Arrive, _) => self.send_in(step),
            (Kind::Receive, Some(socket)) => self.receive(program, thread, socket),
            (Kind::Wait, _) => self.wait(program, thread),
            (Kind::Send, Some(socket)) => self.send_out(program, thread, socket),
            (Kind::Look, _) => self.look(program),
            (Kind::Open, _) => self.open(program, step.socket, step.more),
            (Kind::Close, Some(socket)) => self.close(program, socket),
            (Kind::Connect, Some(socket)) => self.connect(program, socket, step.more),
            (Kind::KeepWithKernel, Some(socket)) => {
                self.call(program, &[does::KEEP_WITH_KERNEL, thread, socket]);
            }
            (Kind::Lend, Some(socket)) => {
                self.call(program, &[does::LEND, thread, socket]);
            }
            (Kind::Start, _) if self.alive().len() < PROGRAMS_MOST => self.start_process(),
            (Kind::Fork, _) if self.alive().len() < PROGRAMS_MOST => self.fork(program, thread),
            (Kind::Exec, _) => self.exec(program),
            (Kind::Exit, _) => self.exit(program),
            (Kind::Kill, _) => self.kill(program),
            (Kind::KillWithin, _) => self.kill_within = Some(step.more % 4),
            (Kind::Timers, _) => self.timers(),
            (Kind::AgentHears, _) => self.agent_hears(),
            (Kind::AgentEnds, _) => {
                self.house.end_agent((step.more % 4) as u32);
                self.sum.agents += 1;
            }
            (Kind::AgentStarts, _) => self.house.start_agent(),
            (Kind::LinkChanges, _) => self.flap(),
            (Kind::TimePasses, _) => self.pass(step.more % 300_000_000),
            _ => {}
        }
        if step.kind != Kind::KillWithin {
            self.kill_within = None;
        }
        self.pass_frames();
        self.check_owners();
    }

    fn alive(&self) -> Vec<usize> {
        (0..self.processes.len()).filter(|process| self.processes[*process].is_alive).collect()
    }

    fn any_alive(&self, number: u64) -> Option<usize> {
        let alive = self.alive();
        (!alive.is_empty()).then(|| alive[number as usize % alive.len()])
    }

    fn start_process(&mut self) {
        let (pid, channel) = self.zygote.start_process(1 + (self.seed % 3) as u32);
        self.add_process(pid, channel, None);
        if !self.is_up {
            self.call(self.processes.len() - 1, &[does::SET_UP, 1, 0]);
        }
    }

    fn add_process(&mut self, pid: Pid, channel: Channel, parent: Option<usize>) {
        self.processes.push(Process {
            pid,
            channel,
            parent,
            is_alive: true,
            was_killed: false,
            connections: Vec::new(),
            sockets: BTreeSet::new(),
            unfollowed: BTreeSet::new(),
        });
    }

    fn open(&mut self, program: usize, socket: u64, more: u64) {
        if self.processes[program].sockets.len() >= SOCKETS_MOST {
            return;
        }
        let number = self.sockets.len() as u64;
        let port = FIRST_PORT + number as u16;
        let watched = [0, WATCHED_LEVEL, WATCHED_EDGE][more as usize % 3];
        let (is_any, survives_exec) =
            (u64::from(socket.is_multiple_of(4)), u64::from((socket / 4).is_multiple_of(SURVIVES_ONE_IN)));
        let survives = survives_exec != 0;
        let mut socket = Socket {
            port,
            cookie: 0,
            peer: None,
            peers: BTreeSet::new(),
            is_peer_unknown: false,
            survives_exec: survives,
            opener: program,
            owners: BTreeSet::new(),
            unread: 0,
            is_closed: false,
        };
        let thread = 1 + more / 3 % THREADS;
        let words = [does::OPEN, thread, number, port.into(), is_any, watched, survives_exec];
        let answer = self.call(program, &words);
        self.note(|| {
            format!(
                "program {program} opens socket {number}, any {is_any}, watched {watched}, survives {survives_exec}"
            )
        });
        socket.is_closed = answer.is_none();
        socket.cookie = answer.map_or(0, |answer| answer.words[0]);
        if !socket.is_closed {
            self.processes[program].sockets.insert(number);
        }
        self.sockets.insert(number, socket);
    }

    fn close(&mut self, program: usize, socket: u64) {
        // Gone from the model before: what the call gives up arrives elsewhere.
        if self.call(program, &[does::CLOSE, 1, socket]).is_some() {
            self.leave_sockets(program, &[socket]);
        }
    }

    /// A program has these no more.
    fn leave_sockets(&mut self, program: usize, sockets: &[u64]) {
        let mut cookies = Vec::new();
        for number in sockets {
            self.processes[program].sockets.remove(number);
            self.processes[program].unfollowed.remove(number);
            if self.holders(*number).is_empty() {
                let socket = self.sockets.get_mut(number).unwrap();
                socket.is_closed = true;
                cookies.push(socket.cookie);
            }
        }
        if !cookies.is_empty() {
            self.unheard.push(Unheard { connections: Vec::new(), cookies });
        }
    }

    fn holders(&self, socket: u64) -> Vec<usize> {
        self.alive().into_iter().filter(|process| self.processes[*process].sockets.contains(&socket)).collect()
    }

    fn connect(&mut self, program: usize, number: u64, more: u64) {
        self.pass_frames();
        let peer = 7000 + (more % 3) as u16;
        let before = self.sockets[&number].peer;
        let is_untold = !self.house.has_agent() && self.holders(number).len() > 1;
        // While the call goes on it may be either.
        let socket = self.sockets.get_mut(&number).unwrap();
        socket.peer = Some(peer);
        socket.peers.insert(peer);
        let was_unknown = std::mem::replace(&mut socket.is_peer_unknown, true);
        self.note(|| format!("program {program} connects socket {number} to {peer}, before {before:?}"));
        let is_done = self.call(program, &[does::CONNECT, 1, number, peer.into()]).is_some();
        self.sockets.get_mut(&number).unwrap().is_peer_unknown = was_unknown || !is_done || is_untold;
    }

    fn fork(&mut self, program: usize, thread: u64) {
        let (ours, its) = Channel::pair();
        let packet = Packet::of(&[does::FORK, thread, 0]).beside(its.into_fd());
        self.sum.forks += 1;
        self.call_with(program, packet);
        // Killed before it forked, nobody has the other end.
        if !ours.send(&Packet::of(&[0])) {
            return;
        }
        let (sockets, unfollowed) =
            (self.processes[program].sockets.clone(), self.processes[program].unfollowed.clone());
        self.add_process(self.processes[program].pid, ours, Some(program));
        let child = self.processes.len() - 1;
        self.processes[child].sockets = sockets;
        self.processes[child].unfollowed = unfollowed;
        let answer = self.finish(child).expect("it is not killed");
        self.processes[child].pid = Pid::from_raw(answer.words[0] as i32).unwrap();
        self.note(|| format!("program {program} has child {child}"));
    }

    fn exec(&mut self, program: usize) {
        self.sum.execs += 1;
        if self.call(program, &[does::EXEC, 1, 0]).is_none() {
            return;
        }
        let connections = std::mem::take(&mut self.processes[program].connections);
        // Of the new program it has none yet.
        self.end_relays(&connections);
        self.unheard.push(Unheard { connections, cookies: Vec::new() });
        let is_lost = |number: &u64| !self.sockets[number].survives_exec;
        let lost: Vec<u64> = self.processes[program].sockets.iter().copied().filter(is_lost).collect();
        self.leave_sockets(program, &lost);
        self.processes[program].unfollowed = self.processes[program].sockets.clone();
        self.note(|| format!("program {program} has executed another"));
    }

    fn exit(&mut self, program: usize) {
        // It gives no answer.
        self.exits = true;
        let _ = self.call(program, &[does::EXIT, 1, 0]);
        self.exits = false;
        self.note(|| format!("program {program} has ended"));
    }

    fn kill(&mut self, program: usize) {
        self.note(|| format!("program {program} is killed"));
        zygote::kill(self.processes[program].pid);
        self.processes[program].was_killed = true;
        self.sum.kills += 1;
        self.is_dead(program);
    }

    /// A program has ended, or is about to.
    fn is_dead(&mut self, program: usize) {
        self.processes[program].is_alive = false;
        let pid = self.processes[program].pid;
        let parent = self.processes[program].parent.filter(|parent| self.processes[*parent].is_alive);
        match parent {
            // It is in the midst of a call: its child is taken in later.
            Some(parent) if self.calling.contains(&parent) => self.await_end(pid),
            Some(parent) => {
                let kill_within = self.kill_within.take();
                self.call(parent, &[does::REAP, 1, pid.as_raw_nonzero().get() as u64]);
                self.kill_within = kill_within;
            }
            None => self.zygote.reap(pid),
        }
        let connections = std::mem::take(&mut self.processes[program].connections);
        self.end_relays(&connections);
        self.unheard.push(Unheard { connections, cookies: Vec::new() });
        let sockets: Vec<u64> = self.processes[program].sockets.iter().copied().collect();
        self.leave_sockets(program, &sockets);
    }

    /// Agents hear of what has ended.
    fn agent_hears(&mut self) {
        for (at, Unheard { connections, cookies }) in std::mem::take(&mut self.unheard).into_iter().enumerate() {
            let is_end_first = (self.seed as usize + at).is_multiple_of(2);
            if is_end_first {
                connections.iter().for_each(|connected| self.house.gone(connected));
            }
            self.house.closed(&cookies);
            if !is_end_first {
                connections.iter().for_each(|connected| self.house.gone(connected));
            }
        }
        self.note_arrivals();
    }

    fn flap(&mut self) {
        // A link takes longer than the kernel, which takes down what an agent leaves.
        self.await_no_program();
        self.is_up = !self.is_up;
        self.house.set_up(self.is_up);
        let is_up = u64::from(self.is_up);
        for process in self.alive() {
            self.call(process, &[does::SET_UP, 1, is_up]);
        }
        self.note(|| format!("the link is up: {is_up}"));
    }

    /// What timer threads do.
    fn timers(&mut self) {
        for process in self.alive() {
            if !self.calling.contains(&process) && self.processes[process].is_alive {
                let kill_within = self.kill_within.take();
                self.call(process, &[does::TIMER, 1, 0]);
                self.kill_within = kill_within;
            }
        }
    }

    fn look(&mut self, program: usize) {
        self.call(program, &[does::LOOK, 1, 0]);
        self.check_beliefs(program);
    }

    /// Datagrams come for a socket.
    fn send_in(&mut self, step: &Step) {
        let is_open = |socket: &(&u64, &Socket)| !socket.1.is_closed && socket.1.unread < UNREAD_MOST;
        let open: Vec<u64> = self.sockets.iter().filter(is_open).map(|(number, _)| *number).collect();
        if open.is_empty() {
            return;
        }
        let number = open[step.socket as usize % open.len()];
        let from = match self.sockets[&number].peer {
            Some(peer) if !step.program.is_multiple_of(4) => peer,
            _ => 7000 + (step.program % 3) as u16,
        };
        let port = self.sockets[&number].port;
        for at in 0..1 + step.more % 4 {
            let datagram = self.sent.len() as u64;
            let len_bytes = 8 + (step.more / 4 + at * 7) as usize % (PAYLOAD_MOST_BYTES - 8);
            self.sent.push(Sent { from, to: number, len_bytes, arrivals: Vec::new(), delivered: 0 });
            let payload = account::payload(datagram, len_bytes);
            assert!(self.other.send(&frame((OTHER, from), (NUMBER, port), &payload)).unwrap());
        }
        self.pass(2_000);
        self.pass(3_000);
    }

    fn wait(&mut self, program: usize, thread: u64) {
        let Some(told) = self.call(program, &[does::WAIT, thread, 0]) else { return };
        self.note(|| format!("program {program} is told of {:?}", told.words));
        for number in told.words {
            // Of a socket that was closed here, and that others have, the kernel's half of a set may tell.
            if self.processes[program].sockets.contains(&number) {
                self.receive(program, thread, number);
            }
        }
    }

    fn receive(&mut self, program: usize, thread: u64, socket: u64) {
        let got = self.call(program, &[does::RECEIVE, thread, socket]);
        self.account(program, socket, got);
    }

    fn send_out(&mut self, program: usize, thread: u64, socket: u64) {
        let number = self.sent.len() as u64 + (1 << 32);
        // Its number is used once.
        self.sent.push(Sent::out(socket));
        let payload = account::payload(number, 16);
        let to = self.sockets[&socket].peer.unwrap_or(7000);
        let packet = Packet::with(&[does::SEND, thread, socket, to.into()], payload);
        let answer = self.call_with(program, packet);
        let is_left = answer.is_some_and(|answer| answer.words[0] != 0);
        self.note(|| format!("program {program} sends by socket {socket}, by a share: {is_left}"));
        self.pass(3_000);
        let times = self.left.get(&number).copied().unwrap_or(0);
        assert!(times <= 1 || is_left, "datagram {number} left {times} times, and the kernel is to send it");
    }

    /// Everything arrives and is read: each socket by one program, while all others compute.
    fn end(&mut self) {
        self.kill_within = None;
        self.surroundings.segment.borrow_mut().faults = Faults::NONE;
        if !self.is_up {
            self.flap();
        }
        self.agent_hears();
        for _ in 0..4 {
            self.pass(ROUND_NS);
            self.timers();
            for number in self.sockets.keys().copied().collect::<Vec<u64>>() {
                let holders = self.holders(number);
                if holders.is_empty() {
                    continue;
                }
                let reader = holders[(self.seed / 3 + number) as usize % holders.len()];
                self.receive(reader, 1, number);
            }
        }
        self.account_for_all();
        self.end_all();
    }

    /// All programs end: nothing is left at the agent.
    fn end_all(&mut self) {
        for process in self.alive() {
            self.kill(process);
        }
        self.agent_hears();
        self.await_no_program();
        self.house.assert_nothing_left();
    }

    fn await_no_program(&mut self) {
        self.surroundings.ticks.set(self.shared.ticks());
        while !self.house.has_agent() && self.house.program_on_interface().is_some() {}
        self.shared.set_ticks(self.surroundings.ticks.get());
        self.note_arrivals();
    }
}

impl Outcome {
    fn add(&mut self, other: &Outcome) {
        self.sequences += other.sequences;
        self.steps += other.steps;
        self.arrived += other.arrived;
        self.steered += other.steered;
        self.delivered += other.delivered;
        self.by_others += other.by_others;
        self.forks += other.forks;
        self.execs += other.execs;
        self.kills += other.kills;
        self.kills_within += other.kills_within;
        self.agents += other.agents;
        self.claims_looked_at += other.claims_looked_at;
    }
}
