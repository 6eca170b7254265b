//! Programs on a segment, what they do, and the account of every datagram.

use std::cell::Cell;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::rc::Rc;

use crate::machine::{Machine, Surroundings, TICKS_PER_NS};
use crate::program::{Got, Open, PAYLOAD_MOST_BYTES, Program};
use crate::random::Random;
use crate::segment::{Faults, Segment};
use crate::trace::Trace;

/// Datagrams of one sendmmsg(2).
const BATCH_MOST: u64 = 16;
/// Each program looks at what there is after this time at the end, so that it hears of everything.
const ROUND_NS: u64 = 1_000_000;

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub programs: usize,
    /// Of each program.
    pub sockets: usize,
    pub steps: u32,
    pub faults: Faults,
    /// More: readers are slower than senders.
    pub sends_per_read: u32,
    /// One step in so many closes a socket and opens another; 0: none.
    pub closes_one_in: u32,
    /// One step in so many takes a link down or up; 0: none.
    pub flaps_one_in: u32,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            programs: 2,
            sockets: 1,
            steps: 0,
            faults: Faults::NONE,
            sends_per_read: 1,
            closes_one_in: 0,
            flaps_one_in: 0,
        }
    }
}

/// A datagram, by its number.
#[derive(Debug)]
struct Sent {
    from: SocketAddr,
    /// Which socket it is for, of all that there ever were.
    to: usize,
    len_bytes: usize,
    delivered: u32,
}

/// A socket of a program, open or closed by now.
struct Life {
    program: usize,
    open: Option<Open>,
    /// What MSG_PEEK showed, which the next receive gets.
    peeked: Option<Got>,
}

pub struct World {
    plan: Plan,
    random: Random,
    surroundings: Surroundings,
    programs: Vec<Program>,
    lives: Vec<Life>,
    sent: Vec<Sent>,
    ports: HashSet<SocketAddr>,
    delivered: u64,
}

fn payload(number: usize, len_bytes: usize) -> Vec<u8> {
    let fill = (8..len_bytes).map(|at| (number * 31 + at * 7) as u8);
    (number as u64).to_be_bytes().into_iter().chain(fill).collect()
}

impl World {
    pub fn new(plan: Plan, seed: u64) -> World {
        let mut random = Random::new(seed);
        let segment = Segment::new(plan.faults, Random::new(random.next()), plan.programs);
        // A machine has run for a while.
        let surroundings = Surroundings { segment, ticks: Rc::new(Cell::new(1 << 40)), trace: Rc::new(Trace::Dropped) };
        let programs = (0..plan.programs).map(|number| {
            let machine = Machine::new(number, plan.programs, &surroundings);
            Program::new(number, machine)
        });
        let programs = programs.collect();
        let (lives, sent, ports) = (Vec::new(), Vec::new(), HashSet::new());
        let mut world = World { plan, random, surroundings, programs, lives, sent, ports, delivered: 0 };
        for program in 0..plan.programs {
            (0..plan.sockets).for_each(|_| world.open(program));
        }
        world
    }

    /// Runs the plan, and holds what every socket got against what was sent. How many datagrams were.
    pub fn run(mut self) -> usize {
        for _ in 0..self.plan.steps {
            self.step();
        }
        self.end();
        self.sent.len()
    }

    fn pass(&mut self, time_ns: u64) {
        let ticks = self.surroundings.ticks.get() + time_ns * TICKS_PER_NS;
        self.surroundings.ticks.set(ticks);
        self.surroundings.segment.borrow_mut().pass(ticks / TICKS_PER_NS);
    }

    fn step(&mut self) {
        let time_ns = self.random.below(3_000);
        self.pass(time_ns);
        if self.random.one_in(self.plan.flaps_one_in) {
            let program = self.random.below(self.plan.programs as u64) as usize;
            let machine = &self.programs[program].machine;
            machine.set_up(!machine.is_up());
        }
        let life = self.any_life();
        if self.random.one_in(self.plan.closes_one_in) {
            let program = self.lives[life].program;
            self.close(life);
            return self.open(program);
        }
        match self.random.below(u64::from(self.plan.sends_per_read) + 1) {
            0 => self.read(life),
            _ => self.write(life),
        }
    }

    fn any_life(&mut self) -> usize {
        loop {
            let life = self.random.below(self.lives.len() as u64) as usize;
            if self.lives[life].open.is_some() {
                return life;
            }
        }
    }

    fn open(&mut self, program: usize) {
        let buffer_bytes = self.random.one_in(2).then_some(4096);
        let ports = &self.ports;
        let used = |port: u16| ports.iter().any(|address| address.port() == port);
        let open = self.programs[program].open(buffer_bytes, |port| !used(port));
        self.ports.insert(open.local);
        self.lives.push(Life { program, open: Some(open), peeked: None });
    }

    fn close(&mut self, life: usize) {
        let Life { program, open, peeked } = &mut self.lives[life];
        *peeked = None;
        if let Some(open) = open.take() {
            self.programs[*program].close(&open);
        }
    }

    fn write(&mut self, from: usize) {
        let batch = if self.random.one_in(8) { 1 + self.random.below(BATCH_MOST) } else { 1 };
        for at in 0..batch {
            let to = self.any_life();
            if self.lives[to].program != self.lives[from].program {
                let most = if self.random.one_in(10) { PAYLOAD_MOST_BYTES } else { 128 };
                let len_bytes = 8 + self.random.below(most as u64 - 7) as usize;
                self.send(from, to, len_bytes, at + 1 < batch);
            }
        }
        self.programs[self.lives[from].program].flush();
    }

    fn send(&mut self, from: usize, to: usize, len_bytes: usize, more: bool) {
        let number = self.sent.len();
        let (program, open) = (self.lives[from].program, self.lives[from].open.as_ref().unwrap());
        let remote = self.lives[to].open.as_ref().unwrap().local;
        let is_sent = self.programs[program].send(open, remote, &payload(number, len_bytes), more);
        assert!(is_sent || self.plan.flaps_one_in > 0, "links are up, so the kernel need not send");
        self.sent.push(Sent { from: open.local, to, len_bytes, delivered: 0 });
    }

    /// Reads what there is, sometimes after asking what that will be.
    fn read(&mut self, life: usize) {
        let program = self.lives[life].program;
        match self.random.below(6) {
            0 => self.programs[program].look(),
            1 => self.peek(life),
            2 => {
                let open = self.lives[life].open.as_ref().unwrap();
                let is_readable = self.programs[program].is_readable(open);
                let got = self.receive(life);
                assert!(got.is_some() || !is_readable, "poll told of a datagram");
            }
            3 => {
                let open = self.lives[life].open.as_ref().unwrap();
                let bytes = self.programs[program].next_bytes(open);
                let got = self.receive(life);
                assert!(bytes.is_none() || got.map(|got| got.payload.len()) == bytes, "as FIONREAD told");
            }
            _ => while self.receive(life).is_some() {},
        }
    }

    fn peek(&mut self, life: usize) {
        let Life { program, open, peeked } = &mut self.lives[life];
        let got = self.programs[*program].receive(open.as_ref().unwrap(), true);
        let stays = |before: &Got| got.as_ref().is_some_and(|got| got.payload == before.payload);
        assert!(peeked.as_ref().is_none_or(stays), "it stays the next");
        *peeked = got;
    }

    fn receive(&mut self, life: usize) -> Option<Got> {
        let Life { program, open, peeked } = &mut self.lives[life];
        let got = self.programs[*program].receive(open.as_ref().unwrap(), false);
        if let Some(peeked) = peeked.take() {
            assert_eq!(got.as_ref().map(|got| &got.payload), Some(&peeked.payload), "what was peeked at");
        }
        self.account(life, got.as_ref()?);
        got
    }

    fn account(&mut self, life: usize, got: &Got) {
        let number = u64::from_be_bytes(*got.payload.first_chunk().expect("every datagram has a number"));
        let sent = self.sent.get_mut(number as usize).expect("it was sent");
        assert_eq!(sent.to, life, "datagram {number} is another socket's");
        assert_eq!(sent.from, got.source, "datagram {number}");
        assert_eq!(got.payload, payload(number as usize, sent.len_bytes), "byte for byte");
        sent.delivered += 1;
        self.delivered += 1;
        let brought = self.surroundings.segment.borrow().brought.get(&number).copied().unwrap_or(0);
        assert!(sent.delivered <= brought, "datagram {number} was delivered {} times of {brought}", sent.delivered);
    }

    /// Lets everything arrive and be read, and asks each socket what it lost.
    fn end(&mut self) {
        self.surroundings.segment.borrow_mut().faults = Faults::NONE;
        for program in &self.programs {
            if !program.machine.is_up() {
                program.machine.set_up(true);
            }
        }
        self.read_all();
        for life in 0..self.lives.len() {
            if self.lives[life].open.is_some() {
                self.ask_what_was_lost(life);
            }
        }
    }

    fn read_all(&mut self) {
        for _ in 0..3 {
            self.pass(ROUND_NS);
            self.programs.iter_mut().for_each(Program::look);
            for life in 0..self.lives.len() {
                while self.lives[life].open.is_some() && self.receive(life).is_some() {}
            }
        }
        assert!(self.surroundings.segment.borrow().is_idle());
    }

    /// One more datagram says how many the socket dropped; all others that were brought to it were delivered.
    fn ask_what_was_lost(&mut self, life: usize) {
        let others = (0..self.lives.len()).filter(|other| self.lives[*other].open.is_some());
        let from = others.into_iter().find(|other| self.lives[*other].program != self.lives[life].program).unwrap();
        let number = self.sent.len();
        self.send(from, life, 64, false);
        self.programs[self.lives[from].program].flush();
        // Out of the sender's port, and into the receiver's.
        self.pass(ROUND_NS);
        self.pass(ROUND_NS);
        let got = self.receive(life).expect("nothing is lost now");
        assert_eq!(self.sent[number].delivered, 1);
        let segment = self.surroundings.segment.borrow();
        let brought = |number: usize| segment.brought.get(&(number as u64)).copied().unwrap_or(0);
        let to_it = || self.sent.iter().enumerate().filter(|(_, sent)| sent.to == life);
        let missing: u32 = to_it().map(|(number, sent)| brought(number) - sent.delivered).sum();
        assert_eq!(missing, got.dropped_before, "socket {life} lost what it had no room for, and counted it");
    }
}
