//! Who may have a datagram, and who has had it.

use nearwire_frames::Port;

use super::{OTHER, World};
use crate::channel::Packet;
use crate::company::house::By;
use crate::company::kernel::{frame, number_of};
use crate::host::NUMBER;

/// Once that a datagram came for a socket that was to get it.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// The program whose share had it; the kernel otherwise.
    by: Option<usize>,
    /// That program was dead already.
    was_dead: bool,
}

/// A datagram.
#[derive(Debug)]
pub struct Sent {
    /// The port it was sent from.
    pub from: u16,
    /// The socket.
    pub to: u64,
    pub len_bytes: usize,
    pub arrivals: Vec<Arrival>,
    pub delivered: usize,
}

impl Sent {
    /// One of a program's, which arrives at no socket.
    pub fn out(of: u64) -> Sent {
        Sent { from: 0, to: of, len_bytes: 0, arrivals: Vec::new(), delivered: 0 }
    }
}

pub fn payload(number: u64, len_bytes: usize) -> Vec<u8> {
    let fill = (8..len_bytes).map(|at| (number as usize * 31 + at * 7) as u8);
    number.to_be_bytes().into_iter().chain(fill).collect()
}

impl World<'_> {
    /// Programs' datagrams that the other host has got.
    pub(super) fn note_departures(&mut self) {
        while let Some(number) = self.other.receive(number_of).unwrap() {
            *self.left.entry(number).or_default() += 1;
        }
    }

    pub(super) fn note_arrivals(&mut self) {
        for arrived in self.house.take_arrived() {
            self.note_arrival(arrived.number, arrived.by);
        }
    }

    fn process_of(&self, program: u32) -> Option<usize> {
        let has =
            |process: usize| self.processes[process].connections.iter().any(|connected| connected.program == program);
        (0..self.processes.len()).find(|process| has(*process))
    }

    fn note_arrival(&mut self, number: u64, by: By) {
        let (from, to) = (self.sent[number as usize].from, self.sent[number as usize].to);
        self.note(|| format!("datagram {number} from {from} to socket {to} goes to {by:?}"));
        let socket = &self.sockets[&to];
        self.sum.arrived += 1;
        if socket.is_closed || (socket.peer.is_some_and(|peer| peer != from) && !socket.is_peer_unknown) {
            return;
        }
        let arrival = match by {
            By::Kernel => Arrival { by: None, was_dead: false },
            By::Program(program) => {
                self.sum.steered += 1;
                let process = self.process_of(program);
                Arrival { by: process, was_dead: process.is_none() }
            }
        };
        self.sockets.get_mut(&to).unwrap().unread += 1;
        self.sent[number as usize].arrivals.push(arrival);
    }

    /// A program has received something from a socket.
    pub(super) fn account(&mut self, program: usize, socket: u64, got: Option<Packet>) {
        let Some(Packet { words, bytes, .. }) = got else { return };
        let mut rest = &bytes[..];
        for received in words.chunks(2) {
            let (datagram, others) = rest.split_at(received[1] as usize);
            rest = others;
            let number = u64::from_be_bytes(*datagram.first_chunk().expect("every datagram has a number"));
            self.note(|| format!("program {program} receives datagram {number} by socket {socket}"));
            let sent = self.sent.get_mut(number as usize).expect("it was sent");
            assert_eq!(sent.to, socket, "datagram {number} came to another socket");
            assert_eq!(u64::from(sent.from), received[0], "datagram {number}");
            assert_eq!(datagram, payload(number, sent.len_bytes), "byte for byte");
            sent.delivered += 1;
            let (delivered, arrived) = (sent.delivered, sent.arrivals.len());
            assert!(delivered <= arrived, "datagram {number} came {delivered} times of {arrived} to socket {socket}");
            self.sum.delivered += 1;
            self.sum.by_others += u64::from(self.sockets[&socket].opener != program);
            let unread = &mut self.sockets.get_mut(&socket).unwrap().unread;
            *unread = unread.saturating_sub(1);
        }
    }

    /// What came was received, unless nobody had the socket any more, or a program that had taken it in was killed: it may have taken from
    /// the shadow what came before it had the flow. What comes before a socket is connected, from another than its peer, cannot be given back to
    /// the shadow.
    pub(super) fn account_for_all(&mut self) {
        for (number, sent) in self.sent.iter().enumerate() {
            let socket = &self.sockets[&sent.to];
            let is_killed = |process: usize| self.processes[process].was_killed;
            let is_excused = |arrival: &&Arrival| {
                let was_taken_in = arrival.by.is_some_and(is_killed) || socket.owners.iter().copied().any(is_killed);
                arrival.was_dead || was_taken_in || socket.peers.iter().any(|peer| *peer != sent.from)
            };
            let excused = sent.arrivals.iter().filter(is_excused).count();
            let is_lost = sent.delivered + excused < sent.arrivals.len() && !socket.is_closed;
            let holders = self.holders(sent.to);
            assert!(!is_lost, "datagram {number} is lost: {sent:?}, {holders:?} have the socket");
        }
    }

    /// The owner of each flow has its socket.
    pub(super) fn check_owners(&mut self) {
        // What an agent leaves behind is its programs' until the kernel has taken it down.
        if !self.house.has_agent() {
            return;
        }
        for (number, socket) in &self.sockets {
            let By::Program(program) = self.owner_of(*number) else { continue };
            // The agent has not seen its end yet.
            let is_unheard = self.unheard.iter().any(|unheard| {
                unheard.cookies.contains(&socket.cookie)
                    || unheard.connections.iter().any(|connected| connected.program == program)
            });
            let owner = self.process_of(program);
            let has_it = owner.is_some_and(|owner| self.holders(*number).contains(&owner));
            assert!(has_it || is_unheard, "the flow of socket {number} is program {owner:?}'s, which has it not");
        }
    }

    fn owner_of(&self, number: u64) -> By {
        let socket = &self.sockets[&number];
        self.house.owner_of(&frame((OTHER, socket.peer.unwrap_or(7000)), (NUMBER, socket.port), &[0; 8]))
    }

    /// A program that has just looked serves what the table says, or knows that the kernel does.
    pub(super) fn check_beliefs(&mut self, process: usize) {
        if !self.processes[process].is_alive {
            return;
        }
        let Some((program, accelerated)) = self.status(process) else { return };
        if !self.is_up || !self.unheard.is_empty() || self.house_of(process, program).is_none() {
            return;
        }
        for number in self.processes[process].sockets.clone() {
            let owner = self.owner_of(number);
            let is_its = owner == By::Program(program);
            let believes = accelerated.contains(&number);
            // One that it has not used yet may be another's.
            let may_be_others = owner == By::Kernel || !self.sockets[&number].owners.contains(&process);
            let fits = if believes { is_its || may_be_others } else { !is_its };
            assert!(fits, "program {process} serves socket {number}: {believes}, and the table has {owner:?}");
        }
    }

    /// Its connection, to an agent that is there.
    fn house_of(&self, process: usize, program: u32) -> Option<()> {
        let connections = &self.processes[process].connections;
        let is_it = |connected: &&crate::company::house::Connected| connected.program == program;
        connections.iter().find(is_it).filter(|connected| connected.is_alive()).map(|_| ())
    }
}
