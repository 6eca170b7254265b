//! What the programs of several machines do, and the account of every datagram: who had its flow when it arrived, and who got it.
//!
//! The model knows sockets, and the kernel's rules for them: of those bound to a datagram's destination, one that is connected to its source;
//! else those that are not connected, of which several share the port. One of them gets it, once.

use std::cell::Cell;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::RwLockReadGuard;

use super::account::{Arrival, Sent};
use super::house::{By, House};
use super::kernel::{Kernel, frame, without_new_processes};
use super::worker::{Open, PAYLOAD_MOST_BYTES, Watched, Worker};
use crate::machine::{Surroundings, TICKS_PER_NS, address};
use crate::random::Random;
use crate::segment::{Faults, Segment};
use crate::trace::Trace;

/// What a socket may have unread: as much as the kernel keeps in any case.
const UNREAD_MOST: u32 = 40;
const SOCKETS_MOST: usize = 4;
/// Steps for which a link is down, about.
const DOWN_STEPS: u32 = 100;
/// Everybody looks at what there is after this time at the end.
const ROUND_NS: u64 = 1_000_000;
/// After so long the agent has asked the kernel who is bound beside accelerated sockets, and has given up the port ("docs/agent.md").
const STRANGER_KNOWN_NS: u64 = 5_000_000_000;

/// The same for one that is connected.
const CONNECTED_KNOWN_NS: u64 = 400_000_000;
/// One in so many sockets that are connected goes to the kernel.
const KERNEL_ONE_IN: u32 = 4;

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub machines: usize,
    /// Of each machine, with the library.
    pub programs: usize,
    /// Of each machine, without.
    pub plain: usize,
    pub steps: u32,
    pub faults: Faults,
    /// One step in so many; 0: none.
    pub opens_one_in: u32,
    pub kills_one_in: u32,
    pub agent_ends_one_in: u32,
    pub flaps_one_in: u32,
    pub waits_one_in: u32,
    pub lends_one_in: u32,
}

impl Plan {
    pub const DEFAULT: Plan = Plan {
        machines: 2,
        programs: 3,
        plain: 0,
        steps: 20_000,
        faults: Faults::NONE,
        opens_one_in: 60,
        kills_one_in: 0,
        agent_ends_one_in: 0,
        flaps_one_in: 0,
        waits_one_in: 0,
        lends_one_in: 0,
    };
}

/// A socket, open or closed by now.
struct Life {
    machine: usize,
    program: usize,
    local: SocketAddr,
    remote: Option<SocketAddr>,
    /// How often it was connected.
    connects: u32,
    shares: bool,
    open: Option<Open>,
    /// Since when it is what it is, nanoseconds.
    since_ns: u64,
    unread: u32,
}

/// A program that is dead, and of which the agent does not know yet.
struct Dying {
    machine: usize,
    cookies: Vec<u64>,
    connected: Option<super::house::Connected>,
    is_end_first: bool,
}

struct Machine {
    house: Rc<House>,
    workers: Vec<Worker>,
    is_up: bool,
}

/// What came of a run.
#[derive(Debug, Default, Clone, Copy)]
pub struct Outcome {
    pub sent: u64,
    pub delivered: u64,
    /// Of those that arrived, for a share.
    pub steered: u64,
    pub arrived: u64,
    /// Times that a socket was lent to the kernel.
    pub lent: u64,
}

pub struct World {
    plan: Plan,
    random: Random,
    surroundings: Surroundings,
    machines: Vec<Machine>,
    lives: Vec<Life>,
    sent: Vec<Sent>,
    dying: Vec<Dying>,
    /// Sockets that share a port of a machine, as the kernel has and numbers them.
    groups: Vec<Vec<usize>>,
    ports: HashSet<u16>,
    outcome: Outcome,
    _alone: RwLockReadGuard<'static, ()>,
}

fn payload(number: u64, len_bytes: usize) -> Vec<u8> {
    let fill = (8..len_bytes).map(|at| (number as usize * 31 + at * 7) as u8);
    number.to_be_bytes().into_iter().chain(fill).collect()
}

impl World {
    /// In the namespace of the kernel.
    pub fn new(plan: Plan, seed: u64, kernel: &Rc<Kernel>, trace: Rc<Trace>) -> World {
        let alone = without_new_processes();
        let mut random = Random::new(seed);
        let segment = Segment::new(plan.faults, Random::new(random.next()), plan.machines + 1);
        let surroundings = Surroundings { segment, ticks: Rc::new(Cell::new(1 << 40)), trace };
        // Closed at once: the sockets to come may want its port.
        let namespace = nearwire_sys::socket::netns_cookie(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        // Number 0 is the address of the network.
        let machines = (1..=plan.machines).map(|number| {
            let house = House::new(number, &surroundings, kernel, namespace);
            let worker = |at| Worker::start(&house, plan.machines + 1, &surroundings, at < plan.programs);
            let workers = (0..plan.programs + plan.plain).map(worker).collect();
            Machine { house, workers, is_up: true }
        });
        let machines = machines.collect();
        let mut world = World {
            plan,
            random,
            surroundings,
            machines,
            lives: Vec::new(),
            sent: Vec::new(),
            dying: Vec::new(),
            groups: Vec::new(),
            ports: HashSet::new(),
            outcome: Outcome::default(),
            _alone: alone,
        };
        for machine in 0..plan.machines {
            for program in 0..plan.programs + plan.plain {
                world.open(machine, program);
            }
        }
        world
    }

    pub fn run(mut self) -> Outcome {
        for _ in 0..self.plan.steps {
            self.step();
        }
        self.end();
        self.outcome
    }

    fn now_ns(&self) -> u64 {
        self.surroundings.ticks.get() / TICKS_PER_NS
    }

    fn note(&self, what: impl FnOnce() -> String) {
        let now_ns = self.now_ns();
        self.surroundings.trace.note(|| format!("{now_ns}: {}", what()));
    }

    fn below(&mut self, limit: usize) -> usize {
        self.random.below(limit as u64) as usize
    }

    /// Time passes, and frames with it.
    fn pass(&mut self, time_ns: u64) {
        let now_ns = self.now_ns() + time_ns;
        self.surroundings.ticks.set(now_ns * TICKS_PER_NS);
        self.pass_frames();
        for machine in &self.machines {
            machine.house.pass_time();
        }
    }

    fn pass_frames(&mut self) {
        for machine in &self.machines {
            machine.house.pass_frames();
        }
        self.surroundings.segment.borrow_mut().pass(self.surroundings.ticks.get() / TICKS_PER_NS);
        for machine in &self.machines {
            machine.house.pass_frames();
        }
        self.note_arrivals();
    }

    /// Who is to have what has arrived, by what is open now.
    fn note_arrivals(&mut self) {
        for machine in 0..self.machines.len() {
            for arrived in self.machines[machine].house.take_arrived() {
                self.note_arrival(machine, arrived.number, arrived.by);
            }
        }
    }

    fn note_arrival(&mut self, machine: usize, number: u64, by: By) {
        let Sent { from, to, .. } = self.sent[number as usize];
        let now_ns = self.now_ns();
        self.note(|| format!("datagram {number} from {from} to {to} goes to {by:?}"));
        let is_bound = |life: &Life| {
            life.open.is_some()
                && life.machine == machine
                && life.local.port() == to.port()
                && (life.local.ip() == to.ip() || life.local.ip().is_unspecified())
        };
        let bound: Vec<usize> = (0..self.lives.len()).filter(|life| is_bound(&self.lives[*life])).collect();
        let with = |remote: Option<SocketAddr>| {
            bound.iter().copied().filter(|life| self.lives[*life].remote == remote).collect::<Vec<_>>()
        };
        let connected = with(Some(from));
        let is_again = connected.iter().any(|life| self.lives[*life].connects > 1);
        // Since 6.13 the kernel may not find one of a group that was connected again (`udp_lib_hash4`), and prefer one that came later.
        let is_missed = by == By::Kernel && is_again;
        let candidates = match connected {
            connected if connected.is_empty() => with(None),
            connected if is_missed => [connected, with(None)].concat(),
            connected => connected,
        };
        let worker = |life: usize| &self.machines[machine].workers[self.lives[life].program];
        let is_young = |life: &usize| {
            let Life { remote, since_ns, .. } = &self.lives[*life];
            match remote {
                Some(remote) => *remote == from && now_ns < since_ns + CONNECTED_KNOWN_NS,
                None => now_ns < since_ns + STRANGER_KNOWN_NS,
            }
        };
        // A program that has not noticed the end of its agent is as unknown to the next one as one without the library.
        let is_served = |life: usize| {
            let open = self.lives[life].open.as_ref();
            worker(life).is_at_agent() && open.is_some_and(|open| worker(life).is_accelerated(open))
        };
        let is_excused = bound.iter().any(|life| !is_served(*life) && is_young(life));
        let owners = match by {
            By::Kernel => None,
            By::Program(program) => {
                let is_its = |life: &usize| worker(*life).program() == Some(program);
                let owners: Vec<usize> = candidates.iter().copied().filter(is_its).collect();
                let is_alive = self.machines[machine].workers.iter().any(|worker| worker.program() == Some(program));
                assert!(
                    !owners.is_empty() || candidates.is_empty() || !is_alive || is_excused,
                    "datagram {number} from {from} to {to} goes to program {program}, which has none of {candidates:?}: {:#?}",
                    bound.iter().map(|life| self.told(*life)).collect::<Vec<_>>()
                );
                self.outcome.steered += 1;
                Some(owners)
            }
        };
        self.outcome.arrived += 1;
        for life in &candidates {
            self.lives[*life].unread += 1;
        }
        self.sent[number as usize].arrivals.push(Arrival { candidates, owners, is_excused });
    }

    /// A socket that is open, for people.
    fn told(&self, number: usize) -> String {
        let life = &self.lives[number];
        let worker = &self.machines[life.machine].workers[life.program];
        let accelerated = life.open.as_ref().is_some_and(|open| worker.is_accelerated(open));
        let Life { local, remote, since_ns, .. } = life;
        let (age_us, program) = ((self.now_ns() - since_ns) / 1000, worker.program());
        format!(
            "socket {number} at {local}, peer {remote:?}, for {age_us} us, of program {program:?}, accelerated: {accelerated}"
        )
    }

    fn step(&mut self) {
        let time_ns = self.random.below(3_000);
        self.pass(time_ns);
        if self.random.one_in(8) {
            self.agents_hear();
        }
        if self.random.one_in(self.plan.waits_one_in) {
            self.wait_long();
        }
        let machine = self.below(self.plan.machines);
        // It does not stay down for long.
        let flaps_one_in = if self.machines[machine].is_up { self.plan.flaps_one_in } else { DOWN_STEPS };
        if self.random.one_in(flaps_one_in) {
            self.flap(machine);
        }
        if self.random.one_in(self.plan.agent_ends_one_in) {
            let (machine, questions) = (self.below(self.plan.machines), self.below(4) as u32);
            self.note(|| format!("agent of machine {machine} ends"));
            self.machines[machine].house.end_agent(questions);
        }
        if self.plan.agent_ends_one_in > 0 && self.random.one_in(self.plan.agent_ends_one_in / 4) {
            let machine = self.below(self.plan.machines);
            self.machines[machine].house.start_agent();
        }
        let (machine, program) = (self.below(self.plan.machines), self.below(self.plan.programs + self.plan.plain));
        if self.random.one_in(self.plan.kills_one_in) {
            return self.kill(machine, program);
        }
        if self.random.one_in(self.plan.lends_one_in) {
            return self.lend_one(machine, program);
        }
        if self.random.one_in(self.plan.opens_one_in) {
            return match self.random.below(3) {
                0 => self.close_one(machine, program),
                1 => self.connect_one(machine, program),
                _ => self.open(machine, program),
            };
        }
        if self.random.one_in(2) { self.read(machine, program) } else { self.write(machine, program) }
    }

    /// Seconds, in which programs call now and then.
    fn wait_long(&mut self) {
        let rounds = 1 + self.random.below(60);
        for _ in 0..rounds {
            self.pass(100_000_000);
            self.agents_hear();
            for machine in &mut self.machines {
                machine.workers.iter_mut().for_each(Worker::look);
            }
            self.note_arrivals();
        }
    }

    fn flap(&mut self, machine: usize) {
        self.note(|| format!("link of machine {machine} changes"));
        let of = &mut self.machines[machine];
        of.is_up = !of.is_up;
        of.house.set_up(of.is_up);
        of.workers.iter().for_each(|worker| worker.set_up(of.is_up));
    }

    fn lend_one(&mut self, machine: usize, program: usize) {
        let Some(life) = self.any_own(machine, program) else { return };
        let is_lent = self.machines[machine].workers[program].lend(self.lives[life].open.as_ref().unwrap());
        self.note(|| format!("socket {life} is lent to the kernel: {is_lent}"));
        self.outcome.lent += u64::from(is_lent);
        self.note_arrivals();
    }

    fn own(&self, machine: usize, program: usize) -> Vec<usize> {
        let is_own = |life: &Life| life.open.is_some() && (life.machine, life.program) == (machine, program);
        (0..self.lives.len()).filter(|life| is_own(&self.lives[*life])).collect()
    }

    fn any_own(&mut self, machine: usize, program: usize) -> Option<usize> {
        let own = self.own(machine, program);
        (!own.is_empty()).then(|| own[self.below(own.len())])
    }

    fn any_open(&mut self) -> Option<usize> {
        let open: Vec<usize> = (0..self.lives.len()).filter(|life| self.lives[*life].open.is_some()).collect();
        (!open.is_empty()).then(|| open[self.below(open.len())])
    }

    /// A further socket: at a port of its own, or at one that others share on its machine.
    fn open(&mut self, machine: usize, program: usize) {
        if self.own(machine, program).len() >= SOCKETS_MOST {
            return;
        }
        let shares = self.random.one_in(2);
        let is_group =
            |life: &Life| life.open.is_some() && life.machine == machine && life.shares && life.remote.is_none();
        let group: Vec<SocketAddr> = self.lives.iter().filter(|life| is_group(life)).map(|life| life.local).collect();
        let local = if shares && !group.is_empty() && self.random.one_in(2) {
            group[self.below(group.len())]
        } else {
            self.free_port(machine)
        };
        let watched = match self.random.below(3) {
            0 => Watched::No,
            1 => Watched::Level,
            _ => Watched::Edge,
        };
        let data = self.lives.len() as u64;
        self.note(|| {
            format!(
                "socket {data} of program {program} of machine {machine} is to be bound to {local}, shares: {shares}"
            )
        });
        let open = self.machines[machine].workers[program].open(local, shares, watched, data);
        let since_ns = self.now_ns();
        let local = open.local;
        self.lives.push(Life {
            machine,
            program,
            local,
            remote: None,
            connects: 0,
            shares,
            open: Some(open),
            since_ns,
            unread: 0,
        });
        if shares {
            self.join_group(self.lives.len() - 1);
        }
        // What came since it was bound may be for it.
        self.note_arrivals();
    }

    /// One that no socket of any machine ever had: of the machine's address, or of every one.
    fn free_port(&mut self, machine: usize) -> SocketAddr {
        let ip = if self.random.one_in(4) { [0; 4].into() } else { address(self.machines[machine].house.number) };
        loop {
            let port = 1024 + self.random.below(60_000) as u16;
            // In the order of the seed, whatever the kernel would choose.
            if self.ports.insert(port) {
                return SocketAddr::from((ip, port));
            }
        }
    }

    fn connect_one(&mut self, machine: usize, program: usize) {
        let Some(life) = self.any_own(machine, program) else { return };
        let Some(peer) = self.any_open().filter(|peer| self.lives[*peer].machine != machine) else { return };
        // Of every address, the kernel of the simulation would choose the peer's for it.
        if self.lives[life].local.ip().is_unspecified() {
            return;
        }
        let remote = self.address_of(peer);
        self.pass_frames();
        self.note(|| format!("socket {life} is to be connected to {remote}"));
        let worker = &mut self.machines[machine].workers[program];
        worker.connect(self.lives[life].open.as_ref().unwrap(), remote);
        (self.lives[life].remote, self.lives[life].since_ns) = (Some(remote), self.now_ns());
        self.lives[life].connects += 1;
        if self.random.one_in(KERNEL_ONE_IN) {
            self.note(|| format!("socket {life} goes to the kernel"));
            self.machines[machine].workers[program].keep_with_kernel(self.lives[life].open.as_ref().unwrap());
        }
        if self.lives[life].open.as_ref().is_some_and(|open| !open.choose_in_group(&[])) {
            self.leave_group(life);
        } else if let Some(group) = self.groups.iter().position(|group| group.contains(&life)) {
            self.have_kernel_choose(group);
        }
        self.note_arrivals();
    }

    /// A socket was bound to a port that others may share. It joins the group of the newest that is there (`udp_reuseport_add_sock`), which
    /// begins one if it had left its own.
    fn join_group(&mut self, life: usize) {
        let (machine, local) = (self.lives[life].machine, self.lives[life].local);
        let is_beside =
            |other: &Life| other.open.is_some() && other.shares && (other.machine, other.local) == (machine, local);
        let beside = (0..life).rev().find(|other| is_beside(&self.lives[*other]));
        let group = beside.and_then(|other| self.groups.iter().position(|group| group.contains(&other)));
        let at = group.unwrap_or_else(|| {
            self.groups.push(beside.into_iter().collect());
            self.groups.len() - 1
        });
        self.groups[at].push(life);
        self.have_kernel_choose(at);
    }

    /// A socket is closed, or was connected: since Linux 6.13 it is of no group then.
    fn leave_group(&mut self, life: usize) {
        let Some(at) = self.groups.iter().position(|group| group.contains(&life)) else { return };
        let group = &mut self.groups[at];
        group.iter().position(|other| *other == life).map(|number| group.swap_remove(number));
        if group.is_empty() {
            self.groups.swap_remove(at);
        } else {
            self.have_kernel_choose(at);
        }
    }

    /// Has the kernel's choice in a group be the seed's: of those that are not connected.
    fn have_kernel_choose(&self, group: usize) {
        let group = &self.groups[group];
        let is_unconnected = |(_, life): &(u32, &usize)| self.lives[**life].remote.is_none();
        let choices: Vec<u32> = (0..).zip(group).filter(is_unconnected).map(|(number, _)| number).collect();
        // Those of a program that was killed are closed one after the other.
        if let Some(open) = self.lives[group[0]].open.as_ref() {
            assert!(open.choose_in_group(&choices), "it is of the group");
        }
    }

    /// By which others reach a socket.
    fn address_of(&self, life: usize) -> SocketAddr {
        let Life { machine, local, .. } = self.lives[life];
        SocketAddr::from((address(self.machines[machine].house.number), local.port()))
    }

    fn close_one(&mut self, machine: usize, program: usize) {
        let Some(life) = self.any_own(machine, program) else { return };
        self.note(|| format!("socket {life} is closed"));
        let open = self.lives[life].open.take().unwrap();
        let cookie = open.cookie;
        self.machines[machine].workers[program].close(open);
        self.leave_group(life);
        self.machines[machine].house.closed(&[cookie]);
        self.note_arrivals();
    }

    /// A program is killed, and another one started. The agent hears of it later.
    fn kill(&mut self, machine: usize, program: usize) {
        self.note(|| format!("program {program} of machine {machine} is killed"));
        let mut cookies = Vec::new();
        let mut shadows = Vec::new();
        let lives = self.own(machine, program);
        for life in lives.iter().copied() {
            let open = self.lives[life].open.take().unwrap();
            cookies.push(open.cookie);
            shadows.push(open);
        }
        let has_library = !self.machines[machine].workers[program].is_plain();
        let house = Rc::clone(&self.machines[machine].house);
        let started = Worker::start(&house, self.plan.machines + 1, &self.surroundings, has_library);
        let killed = std::mem::replace(&mut self.machines[machine].workers[program], started);
        if !self.machines[machine].is_up {
            self.machines[machine].workers[program].set_up(false);
        }
        let connected = killed.die();
        drop(shadows);
        lives.into_iter().for_each(|life| self.leave_group(life));
        let is_end_first = self.random.one_in(2);
        self.dying.push(Dying { machine, cookies, connected, is_end_first });
        for _ in 0..self.random.below(3) {
            self.open(machine, program);
        }
    }

    /// Agents hear of programs that were killed.
    fn agents_hear(&mut self) {
        for Dying { machine, cookies, connected, is_end_first } in std::mem::take(&mut self.dying) {
            let house = &self.machines[machine].house;
            if is_end_first && let Some(connected) = &connected {
                house.gone(connected);
            }
            house.closed(&cookies);
            if !is_end_first && let Some(connected) = &connected {
                house.gone(connected);
            }
        }
    }

    fn write(&mut self, machine: usize, program: usize) {
        let Some(from) = self.any_own(machine, program) else { return };
        let to = match self.lives[from].remote {
            Some(remote) => remote,
            None => match self.any_open().filter(|to| self.lives[*to].machine != machine) {
                Some(to) => self.address_of(to),
                None => return,
            },
        };
        let is_to = |life: &Life| life.open.is_some() && life.local.port() == to.port();
        if self.lives.iter().any(|life| is_to(life) && life.unread >= UNREAD_MOST) {
            return;
        }
        for _ in 0..1 + self.random.below(4) {
            self.send(from, to);
        }
    }

    fn send(&mut self, from: usize, to: SocketAddr) {
        let (number, len_bytes) = (self.sent.len() as u64, 8 + self.below(PAYLOAD_MOST_BYTES - 8));
        let Life { machine, program, .. } = self.lives[from];
        let source = self.address_of(from);
        let payload = payload(number, len_bytes);
        self.sent.push(Sent { from: source, to, len_bytes, arrivals: Vec::new(), delivered: Vec::new() });
        self.outcome.sent += 1;
        let open = self.lives[from].open.as_ref().unwrap();
        match self.machines[machine].workers[program].send(open, to, &payload) {
            Some(true) | None => {}
            Some(false) => {
                let number = |address: SocketAddr| match address {
                    SocketAddr::V4(address) => usize::from(address.ip().octets()[3]),
                    SocketAddr::V6(_) => unreachable!("all are of IPv4"),
                };
                let frame = frame((number(source), source.port()), (number(to), to.port()), &payload);
                self.machines[machine].house.send(&frame);
            }
        }
        self.note_arrivals();
        for machine in &self.machines {
            machine.house.pass_frames();
        }
        self.note_arrivals();
    }

    /// A program takes what its epoll set tells of, and now and then what its other sockets have.
    fn read(&mut self, machine: usize, program: usize) {
        let found = self.machines[machine].workers[program].wait();
        self.note(|| format!("program {program} of machine {machine} is told of {found:?}"));
        self.note_arrivals();
        for data in found {
            // Of a socket that was closed, the kernel's half of a set says nothing.
            self.drain(data as usize);
        }
        for life in self.own(machine, program) {
            if self.lives[life].open.as_ref().is_some_and(|open| open.watched == Watched::No) && self.random.one_in(2) {
                self.drain(life);
            }
        }
    }

    fn drain(&mut self, life: usize) {
        let Life { machine, program, .. } = self.lives[life];
        loop {
            let Some(open) = self.lives[life].open.as_ref() else { return };
            let got = self.machines[machine].workers[program].receive(open);
            self.note_arrivals();
            let Some((payload, source)) = got else { break };
            self.account(life, &payload, source);
        }
        self.lives[life].unread = 0;
    }

    fn account(&mut self, life: usize, got: &[u8], source: SocketAddr) {
        let number = u64::from_be_bytes(*got.first_chunk().expect("every datagram has a number"));
        self.note(|| format!("socket {life} receives datagram {number}"));
        let sent = self.sent.get_mut(number as usize).expect("it was sent");
        assert_eq!(sent.from, source, "datagram {number}");
        assert_eq!(got, payload(number, sent.len_bytes), "byte for byte");
        assert_eq!(sent.to.port(), self.lives[life].local.port(), "datagram {number}");
        sent.delivered.push(life);
        let sent = &self.sent[number as usize];
        assert!(sent.is_everybodys_own(), "datagram {number} came to socket {life}: {sent:?}, {}", self.told(life));
        self.outcome.delivered += 1;
    }

    /// Everything arrives and is read: by epoll where a socket is in a set.
    fn end(&mut self) {
        self.surroundings.segment.borrow_mut().faults = Faults::NONE;
        for machine in 0..self.machines.len() {
            if !self.machines[machine].is_up {
                self.flap(machine);
            }
        }
        self.agents_hear();
        for _ in 0..6 {
            self.pass(ROUND_NS);
            for machine in 0..self.machines.len() {
                for program in 0..self.machines[machine].workers.len() {
                    self.machines[machine].workers[program].look();
                    self.note_arrivals();
                    loop {
                        let found = self.machines[machine].workers[program].wait();
                        self.note_arrivals();
                        if found.is_empty() {
                            break;
                        }
                        found.iter().for_each(|data| self.drain(*data as usize));
                    }
                    for life in self.own(machine, program) {
                        if self.lives[life].open.as_ref().is_some_and(|open| open.watched == Watched::No) {
                            self.drain(life);
                        }
                    }
                }
            }
        }
        assert!(self.surroundings.segment.borrow().is_idle());
        self.account_for_all();
        self.end_all();
    }

    /// What arrived was delivered.
    fn account_for_all(&mut self) {
        let is_closed = |life: usize| self.lives[life].open.is_none();
        let lost: Vec<_> = (0..).zip(&self.sent).filter(|(_, sent)| !sent.is_complete(is_closed)).collect();
        let told = |(number, sent): &(u32, &Sent)| {
            let lives = sent.arrivals.iter().flat_map(|arrival| &arrival.candidates).map(|life| self.told(*life));
            format!("{number}: {sent:?}: {:#?}", lives.collect::<Vec<_>>())
        };
        assert!(lost.is_empty(), "{} are lost: {:#?}", lost.len(), lost.iter().take(3).map(told).collect::<Vec<_>>());
    }

    /// All programs end: nothing is left at the agents.
    fn end_all(&mut self) {
        for machine in 0..self.machines.len() {
            for program in 0..self.machines[machine].workers.len() {
                self.kill_for_good(machine, program);
            }
            self.machines[machine].workers.clear();
        }
        self.agents_hear();
        for machine in &self.machines {
            machine.house.assert_nothing_left();
        }
    }

    fn kill_for_good(&mut self, machine: usize, program: usize) {
        let lives = self.own(machine, program);
        let cookies = lives.iter().map(|life| self.lives[*life].open.take().unwrap().cookie).collect();
        let house = Rc::clone(&self.machines[machine].house);
        let nobody = Worker::start(&house, 1, &self.surroundings, false);
        let killed = std::mem::replace(&mut self.machines[machine].workers[program], nobody);
        self.dying.push(Dying { machine, cookies, connected: killed.die(), is_end_first: true });
    }
}
