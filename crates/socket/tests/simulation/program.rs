//! A program of the simulation: sockets as the preload library has them, driven by the calls that a program makes.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nearwire_socket::config::Config;
use nearwire_socket::epoll::Events;
use nearwire_socket::{Family, Message, Receive, Send, ShadowSaid, Sockets};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};

use crate::machine::{Machine, address};

/// Longest payload of a datagram in one frame.
pub const PAYLOAD_MOST_BYTES: usize = 1472;

/// A datagram that a program got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got {
    pub payload: Vec<u8>,
    pub source: SocketAddr,
    /// Lost before it for want of room.
    pub dropped_before: u32,
}

/// An open socket.
#[derive(Debug)]
pub struct Open {
    shadow: UdpSocket,
    pub local: SocketAddr,
}

pub struct Program {
    pub machine: Machine,
    sockets: Sockets<Machine>,
    pub number: usize,
}

impl Program {
    pub fn new(number: usize, machine: Machine) -> Program {
        let sockets = Sockets::new(machine.clone(), Config { kernel_first: 0, ..Config::default() }, "simulation");
        Program { machine, sockets, number }
    }

    /// The sockets, at the beginning of a call.
    fn enter(&mut self) -> &mut Sockets<Machine> {
        self.sockets.enter();
        &mut self.sockets
    }

    /// socket(2), SO_RCVBUF where given, bind(2) to a port of the kernel's choice that `suits`.
    pub fn open(&mut self, buffer_bytes: Option<usize>, suits: impl Fn(u16) -> bool) -> Open {
        let shadow = loop {
            let shadow = self.bound_shadow();
            if suits(shadow.local_addr().unwrap().port()) {
                break shadow;
            }
        };
        if let Some(bytes) = buffer_bytes {
            sockopt::set_socket_recv_buffer_size(&shadow, bytes).unwrap();
        }
        let (number, local) = (shadow.as_raw_fd(), shadow.local_addr().unwrap());
        let sockets = self.enter();
        sockets.opened(number, Family::V4, true);
        sockets.bound(number, local);
        sockets.used(&[number]);
        if self.machine.is_up() {
            assert_eq!(self.sockets.reason(number), None, "it is accelerated");
        }
        Open { shadow, local }
    }

    /// On an address that this host does not have: the kernel brings it nothing.
    fn bound_shadow(&self) -> UdpSocket {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let shadow: OwnedFd = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None).unwrap();
        sockopt::set_ip_freebind(shadow.as_fd(), true).unwrap();
        bind(&shadow, &SocketAddr::from((address(self.number), 0))).unwrap();
        shadow.into()
    }

    pub fn close(&mut self, open: &Open) {
        let number = open.shadow.as_raw_fd();
        self.enter().closing(number);
    }

    /// sendto(2), or one of several of sendmmsg(2). `false`: the kernel is to send it.
    pub fn send(&mut self, open: &Open, to: SocketAddr, payload: &[u8], more: bool) -> bool {
        let number = open.shadow.as_raw_fd();
        match self.enter().send(number, &Message::to(payload, to), more) {
            Send::Done => true,
            Send::Kernel => false,
            other => panic!("{other:?}"),
        }
    }

    /// The end of sendmmsg(2).
    pub fn flush(&mut self) {
        self.enter().flush();
    }

    /// recv(2) with MSG_DONTWAIT, and MSG_PEEK where it `stays`.
    pub fn receive(&mut self, open: &Open, stays: bool) -> Option<Got> {
        let number = open.shadow.as_raw_fd();
        loop {
            let received = self.enter().receive(number, stays, |delivery| Got {
                payload: delivery.datagram.payload.to_vec(),
                source: delivery.datagram.source,
                dropped_before: delivery.datagram.dropped_before,
            });
            match received {
                Receive::Done(got) => return Some(got),
                Receive::Empty { .. } => return None,
                Receive::Shadow(news) => {
                    assert!(open.shadow.recv(&mut [0; 1]).is_err(), "the kernel has nothing for it");
                    self.sockets.shadow_answered(number, news, ShadowSaid::Nothing);
                }
                other => panic!("{other:?}, {:?}", self.sockets.reason(number)),
            }
        }
    }

    /// poll(2): whether there is something to read.
    pub fn is_readable(&mut self, open: &Open) -> bool {
        let number = open.shadow.as_raw_fd();
        self.enter().readiness(number).expect("it is accelerated").contains(Events::IN)
    }

    /// FIONREAD.
    pub fn next_bytes(&mut self, open: &Open) -> Option<usize> {
        let number = open.shadow.as_raw_fd();
        self.enter().next_datagram_bytes(number)
    }

    /// Any call of the program that looks at what there is.
    pub fn look(&mut self) {
        self.enter().take_in();
    }
}
