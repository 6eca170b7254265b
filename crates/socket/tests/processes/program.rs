//! A process of the simulation: sockets and an epoll set, used by commands that come over its channel.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use nearwire_socket::epoll::{Events, Interest};
use nearwire_socket::{AskKernel, Asked, Control, Family, Message, Operation, Receive, Send, ShadowSaid, Sockets};
use nearwire_sys::fork::fork;
use rustix::event::epoll;
use rustix::net::sockopt::{set_txtime, socket_cookie};
use rustix::net::{AddressFamily, SocketFlags, SocketType, TxTimeFlags, bind, socket_with};
use rustix::process::{Pid, WaitOptions, getpid, waitpid};
use rustix::time::ClockId;

use crate::channel::{Channel, Packet};
use crate::host::{Bed, NUMBER, Remote, Way, asks};
use crate::library::Library;
use crate::machine::address;

pub const PAYLOAD_MOST_BYTES: usize = 64;
const EVENTS_MOST: usize = 8;

/// Commands; the first word of a packet. The second is the thread that calls, the third the number of a socket.
pub mod does {
    /// With port, whether it is of every address, how it is watched, whether the next program has it. Answer: its cookie.
    pub const OPEN: u64 = 1;
    /// With a port of the peer.
    pub const CONNECT: u64 = 2;
    /// An option that only the kernel has.
    pub const KEEP_WITH_KERNEL: u64 = 3;
    pub const CLOSE: u64 = 4;
    /// With a port of the peer, and the payload. Answer: whether it left by a share.
    pub const SEND: u64 = 5;
    /// Answer: for each datagram its source's port and its length, and their bytes.
    pub const RECEIVE: u64 = 6;
    /// epoll_wait(2) that does not wait. Answer: the numbers of sockets.
    pub const WAIT: u64 = 7;
    pub const LOOK: u64 = 8;
    /// Answer: the program's number at the agent, and the numbers of its accelerated sockets.
    pub const STATUS: u64 = 9;
    /// What the timer thread does.
    pub const TIMER: u64 = 10;
    /// With the child's channel, by which the child gives its process when it was told to go on.
    pub const FORK: u64 = 11;
    pub const EXEC: u64 = 12;
    pub const SET_UP: u64 = 13;
    /// The third word is not of a socket, but of a set.
    pub const LEND: u64 = 14;
    pub const EXIT: u64 = 15;
    /// With a child's process, that was killed.
    pub const REAP: u64 = 16;
}

pub const WATCHED_LEVEL: u64 = 1;
pub const WATCHED_EDGE: u64 = 2;

/// A socket.
struct Open {
    number: u64,
    shadow: UdpSocket,
    survives_exec: bool,
}

/// See the module.
pub struct Program {
    way: Way,
    bed: Bed,
    engines: u32,
    library: Library,
    sockets: Vec<Open>,
    set: OwnedFd,
}

/// Serves a channel until it ends.
pub fn serve(channel: Channel, bed: &Bed, engines: u32) {
    let way: Way = Arc::new(Mutex::new(Arc::new(channel)));
    let mut program = Program::start(&way, bed, engines);
    loop {
        let channel = Arc::clone(&way.lock().unwrap());
        // The simulation may take its time.
        let packet = match channel.receive() {
            Err(rustix::io::Errno::AGAIN) => continue,
            Ok(Some(packet)) => packet,
            _ => return,
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| program.act(packet)));
        let answer = match outcome {
            Ok(answer) => answer,
            Err(_) => Packet::with(&[asks::PANIC], crate::last_panic().into_bytes()),
        };
        // The child of a fork has another.
        let channel = Arc::clone(&way.lock().unwrap());
        if !channel.send(&answer) {
            return;
        }
    }
}

fn done(words: &[u64]) -> Packet {
    Packet::of(&[&[asks::DONE], words].concat())
}

impl Program {
    fn start(way: &Way, bed: &Bed, engines: u32) -> Program {
        let (mut library, set) = Program::begin(way, bed, engines);
        library.follow(set.as_raw_fd(), true);
        Program { way: Arc::clone(way), bed: bed.clone(), engines, library, sockets: Vec::new(), set }
    }

    fn begin(way: &Way, bed: &Bed, engines: u32) -> (Library, OwnedFd) {
        let mut library = Library::new(Remote::new(way, bed), engines);
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        library.with(0, |sockets| sockets.epoll_opened(set.as_raw_fd()));
        (library, set)
    }

    fn act(&mut self, packet: Packet) -> Packet {
        let Packet { words, bytes, mut fds } = packet;
        self.library.thread = words[1];
        let number = words[2];
        match words[0] {
            does::OPEN => return self.open(number, &words[3..]),
            does::CONNECT => self.connect(number, words[3]),
            does::KEEP_WITH_KERNEL => self.keep_with_kernel(number),
            does::CLOSE => self.close(number),
            does::SEND => return done(&[self.send(number, words[3], &bytes).into()]),
            does::RECEIVE => return self.receive_all(number),
            does::WAIT => return done(&self.wait()),
            does::LOOK => self.library.with_each(Sockets::look),
            does::STATUS => return self.status(),
            does::TIMER => self.library.look_as_timer(),
            does::FORK => return self.fork(fds.pop().unwrap()),
            does::EXEC => self.exec(),
            does::SET_UP => self.library.host.set_up(number != 0),
            does::LEND => self.lend(number),
            does::EXIT => {
                self.library.with_each(Sockets::leave_to_others);
                std::process::exit(0);
            }
            does::REAP => {
                waitpid(Pid::from_raw(number as i32), WaitOptions::empty()).unwrap();
            }
            other => panic!("command {other}"),
        }
        done(&[])
    }

    fn at(&self, number: u64) -> usize {
        self.sockets.iter().position(|open| open.number == number).expect("the process has it")
    }

    fn fd(&self, number: u64) -> i32 {
        self.sockets[self.at(number)].shadow.as_raw_fd()
    }

    fn open(&mut self, number: u64, words: &[u64]) -> Packet {
        let [port, is_any, watched, survives_exec] = *words else { panic!("{words:?}") };
        let cloexec = if survives_exec != 0 { SocketFlags::empty() } else { SocketFlags::CLOEXEC };
        let flags = cloexec | SocketFlags::NONBLOCK;
        let shadow: UdpSocket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None).unwrap().into();
        let fd = shadow.as_raw_fd();
        self.library.closing(fd);
        self.library.with(0, |sockets| sockets.opened(fd, Family::V4, true));
        self.library.follow(fd, false);
        let ip = if is_any != 0 { [0; 4].into() } else { address(NUMBER) };
        let local = SocketAddr::from((ip, port as u16));
        bind(&shadow, &local).unwrap();
        self.library.with_fd(fd, |sockets| sockets.bound(fd, local));
        let cookie = socket_cookie(&shadow).unwrap();
        self.sockets.push(Open { number, shadow, survives_exec: survives_exec != 0 });
        if watched != 0 {
            self.register(number, watched);
        }
        done(&[cookie])
    }

    fn register(&mut self, number: u64, watched: u64) {
        let (set, fd) = (self.set.as_raw_fd(), self.fd(number));
        let edge = if watched == WATCHED_EDGE { Events::ET } else { Events::empty() };
        let interest = Interest { fd, events: Events::IN | edge, data: number };
        let engine = self.library.unite([set, fd]);
        match self.library.with(engine, |sockets| sockets.epoll_control(set, Operation::Add, interest)) {
            Control::Kernel => {
                let flags = epoll::EventFlags::from_bits_retain(interest.events.bits());
                let shadow = &self.sockets[self.at(number)].shadow;
                epoll::add(&self.set, shadow, epoll::EventData::new_u64(number), flags).unwrap();
                let engine = self.library.unite([set, fd]);
                self.library.with(engine, |sockets| sockets.epoll_noted(set, Operation::Add, interest));
            }
            Control::Done => {}
            Control::Failed(errno) => panic!("{errno}"),
        }
    }

    fn connect(&mut self, number: u64, port: u64) {
        let fd = self.fd(number);
        if self.library.is_followed(fd) {
            self.library.with_fd(fd, |sockets| sockets.connecting(fd));
        }
        self.sockets[self.at(number)].shadow.connect((address(NUMBER + 1), port as u16)).unwrap();
        if self.library.is_followed(fd) {
            self.library.with_fd(fd, |sockets| sockets.connected(fd));
        }
    }

    fn keep_with_kernel(&mut self, number: u64) {
        let fd = self.fd(number);
        let shadow = &self.sockets[self.at(number)].shadow;
        set_txtime(shadow, ClockId::Monotonic, TxTimeFlags::empty()).unwrap();
        if self.library.is_followed(fd) {
            self.library.with_fd(fd, |sockets| sockets.option_changed(fd, None));
        }
    }

    fn close(&mut self, number: u64) {
        self.library.closing(self.fd(number));
        let at = self.at(number);
        drop(self.sockets.remove(at));
    }

    fn lend(&mut self, number: u64) {
        let fd = self.fd(number);
        if self.library.is_followed(fd) {
            self.library.with_fd(fd, |sockets| sockets.lend(&[fd]));
        }
    }

    /// Whether a share sent it; else the kernel has to.
    fn send(&mut self, number: u64, port: u64, payload: &[u8]) -> bool {
        let fd = self.fd(number);
        if !self.library.is_followed(fd) {
            return false;
        }
        self.library.about_to_send(fd);
        let to = SocketAddr::from((address(NUMBER + 1), port as u16));
        let sent = self.library.with_fd(fd, |sockets| {
            let sent = sockets.send(fd, &Message::to(payload, to), false);
            sockets.flush();
            sent
        });
        match sent {
            Send::Done => true,
            Send::Kernel | Send::Failed(_) => false,
            Send::Refused => panic!("it is not strict"),
        }
    }

    fn receive_all(&mut self, number: u64) -> Packet {
        let (mut words, mut bytes) = (vec![asks::DONE], Vec::new());
        while let Some((payload, source)) = self.receive(number) {
            words.extend([u64::from(source.port()), payload.len() as u64]);
            bytes.extend(payload);
        }
        Packet::with(&words, bytes)
    }

    fn receive(&mut self, number: u64) -> Option<(Vec<u8>, SocketAddr)> {
        let fd = self.fd(number);
        self.library.about_to_wait(fd);
        loop {
            let by_kernel = |program: &Program| by_kernel(&program.sockets[program.at(number)].shadow);
            if !self.library.is_followed(fd) {
                match by_kernel(self) {
                    Ok(got) => return got,
                    Err(()) => continue,
                }
            }
            let received = self.library.with_fd(fd, |sockets| {
                sockets.receive(fd, false, |delivery| (delivery.datagram.payload.to_vec(), delivery.datagram.source))
            });
            match received {
                Receive::Done(got) => return Some(got),
                Receive::Empty { .. } => return None,
                Receive::Failed(_) => {}
                Receive::Refused => panic!("it is not strict"),
                Receive::Kernel | Receive::Undecided { .. } => {
                    if let Ok(got) = by_kernel(self) {
                        return got;
                    }
                }
                Receive::Shadow(news) => {
                    let got = by_kernel(self);
                    let said = if got == Ok(None) { ShadowSaid::Nothing } else { ShadowSaid::Read };
                    self.library.with_fd(fd, |sockets| sockets.shadow_answered(fd, news, said));
                    if let Ok(Some(got)) = got {
                        return Some(got);
                    }
                }
            }
        }
    }

    fn wait(&mut self) -> Vec<u64> {
        let set = self.set.as_raw_fd();
        let kernels = |set: BorrowedFd<'_>, most: usize| {
            let mut events = Vec::with_capacity(most);
            let now = rustix::event::Timespec::default();
            epoll::wait(set, rustix::buffer::spare_capacity(&mut events), Some(&now)).unwrap();
            events.iter().map(|event| event.data.u64()).collect::<Vec<u64>>()
        };
        self.library.about_to_wait(set);
        let mut found = Vec::new();
        let collect = |program: &mut Program, asked, found: &mut Vec<u64>| {
            let most = EVENTS_MOST - found.len();
            program
                .library
                .with_fd(set, |sockets| sockets.epoll_collect(set, most, asked, |delivery| found.push(delivery.data)))
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

    fn status(&self) -> Packet {
        let accelerated = self.sockets.iter().filter(|open| self.library.is_accelerated(open.shadow.as_raw_fd()));
        let numbers = accelerated.map(|open| open.number);
        done(&[u64::from(self.library.host.program())].into_iter().chain(numbers).collect::<Vec<u64>>())
    }

    fn fork(&mut self, childs: OwnedFd) -> Packet {
        self.library.hold_for_fork();
        if fork().unwrap().is_some() {
            self.library.let_go();
            return done(&[]);
        }
        let channel = Channel::of(childs);
        // Both would go on at the same time.
        let _ = channel.receive();
        *self.way.lock().unwrap() = Arc::new(channel);
        self.library.become_child();
        done(&[getpid().as_raw_nonzero().get() as u64])
    }

    /// The next program has the sockets that survive, and knows none of them.
    fn exec(&mut self) {
        self.library.with_each(Sockets::prepare_exec);
        self.library.host.end();
        self.sockets.retain(|open| open.survives_exec);
        let (library, set) = Program::begin(&self.way, &self.bed, self.engines);
        (self.library, self.set) = (library, set);
        self.library.follow(self.set.as_raw_fd(), true);
    }
}

/// `Err`: an error report.
fn by_kernel(shadow: &UdpSocket) -> Result<Option<(Vec<u8>, SocketAddr)>, ()> {
    let mut bytes = [0; PAYLOAD_MOST_BYTES];
    match shadow.recv_from(&mut bytes) {
        Ok((len_bytes, source)) => Ok(Some((bytes[..len_bytes].to_vec(), source))),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
        Err(_) => Err(()),
    }
}
