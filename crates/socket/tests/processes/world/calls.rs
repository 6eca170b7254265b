//! Commands to programs, and what those ask meanwhile.

use std::os::fd::AsFd;

use nearwire_agent::message::{Answer, Request};
use nearwire_frames::Port;
use rustix::process::Pid;

use super::{Relay, World};
use crate::channel::Packet;
use crate::company::house::Connected;
use crate::host::asks;
use crate::program::does;
use crate::shared::{FRAME_MOST_BYTES, Ring};
use crate::zygote;

/// Within one command. All others go on in each, so what does not come in so many does not come.
const PAUSES_MOST: u32 = 2000;

impl World<'_> {
    /// Has a program do something. `None`: it was killed within.
    pub(super) fn call(&mut self, process: usize, words: &[u64]) -> Option<Packet> {
        self.call_with(process, Packet::of(words))
    }

    pub(super) fn call_with(&mut self, process: usize, packet: Packet) -> Option<Packet> {
        self.pump();
        if !self.processes[process].channel.send(&packet) {
            panic!("program {process} is gone before command {:?}", packet.words);
        }
        // Its end of a child's channel is the child's.
        drop(packet);
        self.finish(process)
    }

    /// The answer of a program to a command.
    pub(super) fn finish(&mut self, process: usize) -> Option<Packet> {
        self.calling.push(process);
        let answer = self.serve(process);
        self.calling.pop();
        self.pump();
        self.kernel.settle();
        self.note_arrivals();
        answer
    }

    fn serve(&mut self, process: usize) -> Option<Packet> {
        let mut pauses = 0;
        loop {
            let received = self.processes[process].channel.receive();
            let Some(mut packet) = received.expect("it does not hang") else {
                assert!(self.exits, "program {process} has crashed");
                self.is_dead(process);
                return None;
            };
            let kind = packet.words.remove(0);
            match kind {
                asks::DONE => return Some(packet),
                asks::PANIC => panic!("program {process} panics: {}", String::from_utf8_lossy(&packet.bytes)),
                _ => {}
            }
            if self.calling.len() == 1 && self.is_killed_now() {
                self.sum.kills_within += 1;
                self.note(|| format!("program {process} is killed within a call, before question {kind}"));
                zygote::kill(self.processes[process].pid);
                self.processes[process].was_killed = true;
                self.is_dead(process);
                return None;
            }
            pauses += u32::from(kind == asks::PAUSE);
            assert!(pauses < PAUSES_MOST, "program {process} waits for what does not come");
            self.pump();
            let answer = self.answer(process, kind, packet);
            self.pump();
            self.kernel.settle();
            self.note_arrivals();
            assert!(self.processes[process].channel.send(&answer), "it waits for the answer");
        }
    }

    fn is_killed_now(&mut self) -> bool {
        match self.kill_within {
            Some(0) => {
                self.kill_within = None;
                true
            }
            Some(more) => {
                self.kill_within = Some(more - 1);
                false
            }
            None => false,
        }
    }

    fn answer(&mut self, process: usize, kind: u64, mut packet: Packet) -> Packet {
        match kind {
            asks::CONNECT => {
                match self.house.connect_of(self.processes[process].pid.as_raw_nonzero().get().cast_unsigned()) {
                    None => Packet::of(&[0, 0]),
                    Some(connected) => {
                        let told = connected.mailbox.told.as_fd().try_clone_to_owned().unwrap();
                        let words = [connected.program.into(), connected.generation.into()];
                        self.note(|| format!("program {process} is number {} at the agent", connected.program));
                        self.processes[process].connections.push(connected);
                        Packet::of(&words).beside(told)
                    }
                }
            }
            asks::REQUEST => {
                let (request, _) = Request::from_bytes(&packet.bytes).unwrap();
                self.ask_agent(process, packet.words[0] as u32, request, packet.fds.pop())
            }
            asks::NEWS => self.news(process, packet.words[0] as u32),
            asks::PROGRAM => {
                self.surroundings.ticks.set(self.shared.ticks());
                let program = self.house.program_on_interface();
                self.shared.set_ticks(self.surroundings.ticks.get());
                Packet::of(&[program.is_some().into(), program.unwrap_or(0).into()])
            }
            asks::PAUSE => {
                self.pass(packet.words[0]);
                self.sum.claims_looked_at += 1;
                self.timers();
                Packet::of(&[])
            }
            asks::LEAVE => {
                let connections = &mut self.processes[process].connections;
                let at = connections.iter().position(|connected| u64::from(connected.program) == packet.words[0]);
                let connected = connections.remove(at.unwrap());
                self.house.gone(&connected);
                Packet::of(&[])
            }
            other => panic!("question {other}"),
        }
    }

    fn connection(&self, process: usize, program: u32) -> Option<Connected> {
        let connections = &self.processes[process].connections;
        connections.iter().find(|connected| connected.program == program).cloned()
    }

    fn ask_agent(
        &mut self,
        process: usize,
        program: u32,
        request: Request,
        socket: Option<std::os::fd::OwnedFd>,
    ) -> Packet {
        let connected = self.connection(process, program);
        let closed = if let Request::CloseShare { share } = &request { Some(*share) } else { None };
        self.surroundings.ticks.set(self.shared.ticks());
        let answer = connected.and_then(|connected| self.house.ask(&connected, request, socket));
        if let Some(Answer::FlowOpened { addresses, .. }) = &answer {
            let port = addresses.local.port();
            let of_port = self.sockets.values_mut().find(|socket| socket.port == port);
            of_port.into_iter().for_each(|socket| _ = socket.owners.insert(process));
        }
        let slot = match &answer {
            Some(Answer::ShareOpened { share, .. }) => self.begin_relay(program, *share),
            _ => 0,
        };
        if let Some(share) = closed {
            self.end_relays_where(|relay| relay.share == share && relay.program == program);
        }
        match answer {
            Some(answer) => Packet::with(&[1, slot as u64], answer.to_bytes(1)),
            None => Packet::of(&[0, 0]),
        }
    }

    fn news(&mut self, process: usize, program: u32) -> Packet {
        let told = self.connection(process, program).and_then(|connected| connected.mailbox.take(|_| true));
        let Some(told) = told else { return Packet::of(&[0]) };
        let events: Vec<Vec<u8>> = told.iter().map(|event| event.to_bytes(0)).collect();
        let lengths = events.iter().map(|event| event.len() as u64);
        Packet::with(&[1].into_iter().chain(lengths).collect::<Vec<u64>>(), events.concat())
    }

    fn begin_relay(&mut self, program: u32, share: u32) -> usize {
        let slot = self.relays.iter().position(Option::is_none).expect("there are enough");
        self.shared.clear(Ring::In(slot));
        self.shared.clear(Ring::Out(slot));
        self.relays[slot] = Some(Relay { near: self.house.take_port(share), program, share });
        slot
    }

    /// The rings of a program that has ended.
    pub(super) fn end_relays(&mut self, connections: &[Connected]) {
        let programs: Vec<u32> = connections.iter().map(|connected| connected.program).collect();
        self.end_relays_where(|relay| programs.contains(&relay.program));
    }

    fn end_relays_where(&mut self, is_over: impl Fn(&Relay) -> bool) {
        self.pump();
        self.house.pass_frames();
        for relay in &mut self.relays {
            relay.take_if(|relay| is_over(relay));
        }
    }

    /// Frames go on between the card and the rings in common memory.
    pub(super) fn pump(&mut self) {
        let mut room = [0; FRAME_MOST_BYTES];
        for (slot, relay) in self.relays.iter_mut().enumerate() {
            let Some(relay) = relay else { continue };
            while self.shared.has_room(Ring::In(slot))
                && let Ok(Some(())) = relay.near.receive(|frame| assert!(self.shared.push(Ring::In(slot), frame)))
            {
            }
            while let Some(len_bytes) = self.shared.pop(Ring::Out(slot), &mut room) {
                // Refused, its share was closed: nobody sends it.
                let _ = relay.near.send(&room[..len_bytes]);
            }
        }
    }

    pub(super) fn pass_frames(&mut self) {
        self.surroundings.ticks.set(self.shared.ticks());
        self.pump();
        self.house.pass_frames();
        self.surroundings.segment.borrow_mut().pass(self.now_ns());
        self.house.pass_frames();
        self.pump();
        self.note_departures();
        self.note_arrivals();
    }

    /// Waits until a process is no more than its number.
    pub(super) fn await_end(&self, pid: Pid) {
        let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
        let has_ended = || std::fs::read_to_string(&path).is_ok_and(|stat| stat.contains(") Z "));
        while std::path::Path::new(&path).exists() && !has_ended() {
            std::thread::yield_now();
        }
    }

    /// Which sockets a program serves past the kernel, and its number at the agent.
    pub(super) fn status(&mut self, process: usize) -> Option<(u32, Vec<u64>)> {
        let answer = self.call(process, &[does::STATUS, 1, 0])?;
        Some((answer.words[0] as u32, answer.words[1..].to_vec()))
    }
}
