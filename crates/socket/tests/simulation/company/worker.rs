//! A program with sockets and an epoll set: as the preload library has them, by the calls that a program makes. Or a program that the
//! library is not in.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use nearwire_socket::config::Config;
use nearwire_socket::epoll::{Events, Interest};
use nearwire_socket::{AskKernel, Asked, Control, Family, Message, Operation, Receive, Send, ShadowSaid, Sockets};
use rustix::event::epoll;
use rustix::net::sockopt::{set_socket_reuseport, set_txtime, socket_cookie};
use rustix::net::{AddressFamily, SocketFlags, SocketType, TxTimeFlags, bind, socket_with};
use rustix::time::ClockId;

use super::house::{Connected, House};
use super::member::Member;
use crate::machine::{Machine, Surroundings};

/// Longest payload.
pub const PAYLOAD_MOST_BYTES: usize = 256;
const EVENTS_MOST: usize = 4;

/// How a socket is registered in its program's epoll set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    No,
    Level,
    Edge,
}

/// A socket of a program.
#[derive(Debug)]
pub struct Open {
    shadow: UdpSocket,
    pub local: SocketAddr,
    pub cookie: u64,
    pub watched: Watched,
}

impl Open {
    /// Has the kernel choose among the sockets of its group as [`nearwire_sys::reuseport`] says; whether it is of one.
    pub fn choose_in_group(&self, choices: &[u32]) -> bool {
        nearwire_sys::reuseport::choose_in_group(&self.shadow, choices).is_ok()
    }
}

struct Library {
    member: Member,
    sockets: Sockets<Member>,
}

/// See the module.
pub struct Worker {
    library: Option<Library>,
    set: OwnedFd,
}

impl Worker {
    /// With the library, or without.
    pub fn start(house: &Rc<House>, machines: usize, surroundings: &Surroundings, has_library: bool) -> Worker {
        let library = has_library.then(|| {
            let machine = Machine::new(house.number, machines, surroundings);
            let member = Member::new(machine, house);
            let sockets = Sockets::new(member.clone(), Config { kernel_first: 0, ..Config::default() }, "simulation");
            Library { member, sockets }
        });
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let mut worker = Worker { library, set };
        let number = worker.set.as_raw_fd();
        if let Some(sockets) = worker.enter() {
            sockets.epoll_opened(number);
        }
        worker
    }

    pub fn is_plain(&self) -> bool {
        self.library.is_none()
    }

    /// Its number at the agent.
    pub fn program(&self) -> Option<u32> {
        self.library.as_ref()?.member.program()
    }

    /// The interface goes down, or comes up.
    pub fn set_up(&self, is_up: bool) {
        if let Some(library) = &self.library {
            library.member.machine.set_up(is_up);
        }
    }

    /// The sockets, at the beginning of a call.
    fn enter(&mut self) -> Option<&mut Sockets<Member>> {
        let sockets = &mut self.library.as_mut()?.sockets;
        sockets.enter();
        Some(sockets)
    }

    /// It is killed: the agent is to see the end of what this gives.
    pub fn die(self) -> Option<Connected> {
        self.library.and_then(|library| library.member.die())
    }

    /// socket(2), SO_REUSEPORT where it `shares` its port, bind(2), and epoll_ctl(2).
    pub fn open(&mut self, local: SocketAddr, shares: bool, watched: Watched, data: u64) -> Open {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let shadow: UdpSocket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None).unwrap().into();
        let number = shadow.as_raw_fd();
        if let Some(sockets) = self.enter() {
            sockets.opened(number, Family::V4, true);
        }
        if shares {
            set_socket_reuseport(&shadow, true).unwrap();
            if let Some(sockets) = self.enter() {
                sockets.option_changed(number, None);
            }
        }
        bind(&shadow, &local).unwrap();
        let local = shadow.local_addr().unwrap();
        if let Some(sockets) = self.enter() {
            sockets.bound(number, local);
        }
        let cookie = socket_cookie(&shadow).unwrap();
        let open = Open { shadow, local, cookie, watched };
        if watched != Watched::No {
            self.register(&open, data);
        }
        open
    }

    fn register(&mut self, open: &Open, data: u64) {
        let (set, number) = (self.set.as_raw_fd(), open.shadow.as_raw_fd());
        let is_edge = open.watched == Watched::Edge;
        let events = Events::IN | if is_edge { Events::ET } else { Events::empty() };
        let interest = Interest { fd: number, events, data };
        let done = self.enter().map_or(Control::Kernel, |sockets| sockets.epoll_control(set, Operation::Add, interest));
        match done {
            Control::Kernel => {
                let flags = epoll::EventFlags::from_bits_retain(events.bits());
                epoll::add(&self.set, &open.shadow, epoll::EventData::new_u64(data), flags).unwrap();
                if let Some(sockets) = self.enter() {
                    sockets.epoll_noted(set, Operation::Add, interest);
                }
            }
            Control::Done => {}
            Control::Failed(errno) => panic!("{errno}"),
        }
    }

    /// connect(2).
    pub fn connect(&mut self, open: &Open, remote: SocketAddr) {
        let number = open.shadow.as_raw_fd();
        if let Some(sockets) = self.enter() {
            sockets.connecting(number);
        }
        open.shadow.connect(remote).unwrap();
        if let Some(sockets) = self.enter() {
            sockets.connected(number);
        }
    }

    /// setsockopt(2) of an option that the stack does not have.
    pub fn keep_with_kernel(&mut self, open: &Open) {
        set_txtime(&open.shadow, ClockId::Monotonic, TxTimeFlags::empty()).unwrap();
        let number = open.shadow.as_raw_fd();
        if let Some(sockets) = self.enter() {
            sockets.option_changed(number, None);
        }
    }

    /// close(2).
    pub fn close(&mut self, open: Open) {
        let number = open.shadow.as_raw_fd();
        if let Some(sockets) = self.enter() {
            sockets.closing(number);
        }
        drop(open);
    }

    /// sendto(2). `false`: the kernel is to send it. `None`: it fails.
    pub fn send(&mut self, open: &Open, to: SocketAddr, payload: &[u8]) -> Option<bool> {
        let number = open.shadow.as_raw_fd();
        let Some(sockets) = self.enter() else { return Some(false) };
        sockets.used(&[number]);
        let sent = sockets.send(number, &Message::to(payload, to), false);
        sockets.flush();
        match sent {
            Send::Done => Some(true),
            Send::Kernel => Some(false),
            Send::Failed(_) => None,
            Send::Refused => panic!("it is not strict"),
        }
    }

    /// recvfrom(2) with MSG_DONTWAIT.
    pub fn receive(&mut self, open: &Open) -> Option<(Vec<u8>, SocketAddr)> {
        let number = open.shadow.as_raw_fd();
        if let Some(sockets) = self.enter() {
            sockets.used(&[number]);
        }
        loop {
            let Some(sockets) = self.enter() else { return by_kernel(open).unwrap_or(None) };
            let received = sockets
                .receive(number, false, |delivery| (delivery.datagram.payload.to_vec(), delivery.datagram.source));
            match received {
                Receive::Done(got) => return Some(got),
                Receive::Empty { .. } => return None,
                Receive::Failed(_) => {}
                Receive::Refused => panic!("it is not strict"),
                Receive::Kernel | Receive::Undecided { .. } => {
                    if let Ok(got) = by_kernel(open) {
                        return got;
                    }
                }
                Receive::Shadow(news) => {
                    let got = by_kernel(open);
                    let said = if got == Ok(None) { ShadowSaid::Nothing } else { ShadowSaid::Read };
                    sockets.shadow_answered(number, news, said);
                    if let Ok(Some(got)) = got {
                        return Some(got);
                    }
                }
            }
        }
    }

    /// epoll_wait(2) that does not wait: the data of what is ready.
    pub fn wait(&mut self) -> Vec<u64> {
        let set = self.set.as_raw_fd();
        let mut found = Vec::new();
        let kernels = |set: BorrowedFd<'_>, most: usize| {
            let mut events = Vec::with_capacity(most);
            let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            epoll::wait(set, rustix::buffer::spare_capacity(&mut events), Some(&now)).unwrap();
            events.iter().map(|event| event.data.u64()).collect::<Vec<u64>>()
        };
        if let Some(sockets) = self.enter() {
            sockets.used(&[set]);
        }
        let collect = |worker: &mut Worker, asked, found: &mut Vec<u64>| {
            let most = EVENTS_MOST - found.len();
            worker.enter()?.epoll_collect(set, most, asked, |delivery| found.push(delivery.data))
        };
        match collect(self, Asked::NotYet, &mut found).map(|collected| collected.ask_kernel) {
            Some(AskKernel::No) => {}
            Some(AskKernel::Too) | None => found.extend(kernels(self.set.as_fd(), EVENTS_MOST - found.len())),
            Some(AskKernel::First) => {
                found = kernels(self.set.as_fd(), EVENTS_MOST);
                if found.len() < EVENTS_MOST {
                    collect(self, Asked::JustNow, &mut found);
                }
            }
        }
        found
    }

    /// Whether a socket is accelerated.
    pub fn is_accelerated(&self, open: &Open) -> bool {
        let number = open.shadow.as_raw_fd();
        self.library.as_ref().is_some_and(|library| library.sockets.is_accelerated(number))
    }

    /// Whether the program's agent is there still.
    pub fn is_at_agent(&self) -> bool {
        self.library.as_ref().is_some_and(|library| library.member.is_at_agent())
    }

    /// A wait for it finds that the kernel's way is faster. Whether the kernel has it from now on; the next call takes it back.
    pub fn lend(&mut self, open: &Open) -> bool {
        let number = open.shadow.as_raw_fd();
        let is_accelerated = self.is_accelerated(open);
        if let Some(sockets) = self.enter() {
            sockets.lend(&[number]);
        }
        is_accelerated && !self.is_accelerated(open)
    }

    /// Any call that looks at what there is.
    pub fn look(&mut self) {
        if let Some(sockets) = self.enter() {
            sockets.take_in();
        }
    }
}

/// `Err`: an error report.
fn by_kernel(open: &Open) -> Result<Option<(Vec<u8>, SocketAddr)>, ()> {
    let mut bytes = [0; PAYLOAD_MOST_BYTES];
    match open.shadow.recv_from(&mut bytes) {
        Ok((len_bytes, source)) => Ok(Some((bytes[..len_bytes].to_vec(), source))),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
        Err(_) => Err(()),
    }
}
