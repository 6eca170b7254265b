//! The process that all others descend from: it has nothing that they should not have, and takes in those whose parents end.

use nearwire_sys::fork::fork;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, waitpid};

use crate::channel::{Channel, Packet};
use crate::host::Bed;
use crate::program;

/// Beside it a channel. Answer: the process that serves it.
const START: u64 = 1;
/// A process that was killed or has ended is taken in.
const REAP: u64 = 2;

/// The way to it.
#[derive(Debug)]
pub struct Zygote(Channel);

impl Zygote {
    /// In a process with one thread.
    pub fn start(bed: &Bed) -> Zygote {
        let (ours, its) = Channel::pair();
        if fork().unwrap().is_some() {
            return Zygote(ours);
        }
        drop(ours);
        set_child_subreaper(Some(rustix::process::getpid())).unwrap();
        serve(&its, bed);
        std::process::exit(0);
    }

    /// A process with so many engines at most.
    pub fn start_process(&self, engines: u32) -> (Pid, Channel) {
        let (ours, its) = Channel::pair();
        assert!(self.0.send(&Packet::of(&[START, engines.into()]).beside(its.into_fd())));
        let answer = self.0.receive().unwrap().unwrap();
        (Pid::from_raw(answer.words[0] as i32).unwrap(), ours)
    }

    /// Waits for the end of a process, whose parent has ended.
    pub fn reap(&self, pid: Pid) {
        assert!(self.0.send(&Packet::of(&[REAP, pid.as_raw_nonzero().get() as u64])));
        self.0.receive().unwrap().unwrap();
    }
}

pub fn kill(pid: Pid) {
    // Gone already, where it ended by itself.
    let _ = kill_process(pid, Signal::KILL);
}

fn serve(channel: &Channel, bed: &Bed) {
    loop {
        let mut packet = match channel.receive() {
            Err(rustix::io::Errno::AGAIN) => continue,
            Ok(Some(packet)) => packet,
            _ => return,
        };
        let number = match packet.words[0] {
            START => match fork().unwrap() {
                Some(child) => child.as_raw_nonzero().get() as u64,
                None => {
                    let own = Channel::of(packet.fds.pop().unwrap());
                    program::serve(own, bed, packet.words[1] as u32);
                    std::process::exit(0);
                }
            },
            REAP => {
                // Another one's child, if that lives still.
                let _ = waitpid(Pid::from_raw(packet.words[1] as i32), WaitOptions::empty());
                0
            }
            other => panic!("request {other}"),
        };
        packet.fds.clear();
        assert!(channel.send(&Packet::of(&[number])));
    }
}
