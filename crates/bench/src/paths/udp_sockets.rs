//! `udp/sockets`: UDP as a program under `nearwire run` has it; beside `udp/bypass` and `frame/xdp` it shows what the
//! sockets cost that the library makes of frames.
//!
//! Every call passes through `nearwire_socket::Sockets`, as in a preloaded program: the number is looked up, options and
//! the shadow's state are asked, the kernel's half is looked at now and then, the payload is copied to the program's
//! buffer. Left out is only what a C function adds: its entry, the gate around the sockets, the C structures of addresses.
//! Less than 20 ns; `make targets` has the whole of it, with sockperf as the program.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use nearwire_frames::port::Port;
use nearwire_report::record::Warning;
use nearwire_socket::config::{Config, Spin};
use nearwire_socket::{Family, Message, News, Receive, Send, ShadowSaid, Sockets, ThisHost};
use rustix::io::Errno;

use super::socket::POLLS_PER_CLOCK_READ;
use super::udp_bypass::read_message;
use super::{EndAddress, LocalEnd, Path, PathError, Setup};
use crate::endpoint::{Arrival, Deadline, Endpoint, EndpointError, Remark};

/// A socket that is bound, and the kernel's until it is connected.
pub struct UdpSocketsPath {
    shadow: UdpSocket,
    address: SocketAddr,
    peer: IpAddr,
    interface: String,
    size_bytes: usize,
}

impl Path for UdpSocketsPath {
    type Endpoint = UdpSocketsEndpoint;

    fn open(setup: &Setup, local: &LocalEnd) -> Result<UdpSocketsPath, PathError> {
        let (own, peer) = local.addresses(setup.ip_version)?;
        let bound = SocketAddr::new(own, 0);
        let shadow = UdpSocket::bind(bound).map_err(PathError::io(format!("bind {} to {bound}", setup.path)))?;
        shadow.set_nonblocking(true).map_err(PathError::io("set O_NONBLOCK"))?;
        let address = shadow.local_addr().map_err(PathError::io("read the socket's own address"))?;
        let interface = local.interface()?.name.clone();
        Ok(UdpSocketsPath { shadow, address, peer, interface, size_bytes: setup.size_bytes as usize })
    }

    fn address(&self) -> EndAddress {
        EndAddress { port: Some(self.address.port()), mac: None }
    }

    fn connect(self, peer: &EndAddress) -> Result<UdpSocketsEndpoint, PathError> {
        let port = peer.port.ok_or(PathError::NoPeerAddress { missing: "port" })?;
        let address = SocketAddr::new(self.peer, port);
        self.shadow.connect(address).map_err(PathError::io(format!("connect udp/sockets to {address}")))?;
        let config = Config { spin: Spin::Forever, interfaces: vec![self.interface], ..Config::default() };
        let mut sockets = Sockets::new(ThisHost::default(), config, "nearwire");
        sockets.enter();
        let number = self.shadow.as_raw_fd();
        sockets.opened(number, if address.is_ipv4() { Family::V4 } else { Family::V6 }, true);
        sockets.connected(number);
        sockets.used(&[number]);
        if let Some(reason) = sockets.reason(number) {
            return Err(PathError::NotAccelerated { reason });
        }
        Ok(UdpSocketsEndpoint {
            sockets,
            number,
            message: vec![0x5a; self.size_bytes],
            // One byte more than a message, so that a longer datagram is seen to be longer.
            buffer: vec![0; self.size_bytes + 1],
            by_kernel: 0,
            shadow: self.shadow,
        })
    }
}

/// A connected socket.
pub struct UdpSocketsEndpoint {
    // Before the shadow, which its engine watches.
    sockets: Sockets,
    number: i32,
    message: Vec<u8>,
    buffer: Vec<u8>,
    /// Messages that the shadow sent or received.
    by_kernel: u64,
    shadow: UdpSocket,
}

impl UdpSocketsEndpoint {
    fn number_bytes(&self) -> usize {
        self.message.len().min(8)
    }

    #[inline]
    fn look(&mut self) -> Result<Option<Arrival>, EndpointError> {
        let UdpSocketsEndpoint { sockets, buffer, .. } = self;
        sockets.enter();
        let received = sockets.receive(self.number, false, |delivery| {
            let payload = delivery.datagram.payload;
            let copied_bytes = payload.len().min(buffer.len());
            buffer[..copied_bytes].copy_from_slice(&payload[..copied_bytes]);
            copied_bytes
        });
        match received {
            Receive::Done(copied_bytes) => Ok(Some(read_message(&self.buffer[..copied_bytes], self.message.len()))),
            Receive::Empty { .. } => Ok(None),
            // Refused only where sockets are strict, which these are not.
            Receive::Shadow(news) => self.ask_shadow(Some(news)),
            Receive::Kernel | Receive::Undecided { .. } | Receive::Refused => self.ask_shadow(None),
            // Of a datagram that came when the other end had closed its socket.
            Receive::Failed(ECONNREFUSED) => Ok(None),
            Receive::Failed(error) => Err(EndpointError::io("receive")(std::io::Error::from_raw_os_error(error))),
        }
    }

    #[cold]
    fn ask_shadow(&mut self, news: Option<News>) -> Result<Option<Arrival>, EndpointError> {
        let answer = self.shadow.recv(&mut self.buffer);
        let is_empty = answer
            .as_ref()
            .is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused));
        if let Some(news) = news {
            let said = if is_empty { ShadowSaid::Nothing } else { ShadowSaid::Read };
            self.sockets.shadow_answered(self.number, news, said);
        }
        if is_empty {
            return Ok(None);
        }
        let received_bytes = answer.map_err(EndpointError::io("receive from the shadow"))?;
        self.by_kernel += 1;
        Ok(Some(read_message(&self.buffer[..received_bytes], self.message.len())))
    }
}

impl Endpoint for UdpSocketsEndpoint {
    #[inline]
    fn send(&mut self, sequence: u64) -> Result<bool, EndpointError> {
        let n = self.number_bytes();
        self.message[..n].copy_from_slice(&sequence.to_le_bytes()[..n]);
        self.sockets.enter();
        if self.sockets.send(self.number, &Message::new(&self.message), false) != Send::Done {
            self.by_kernel += 1;
            match self.shadow.send(&self.message) {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Ok(false),
                sent => _ = sent.map_err(EndpointError::io("send by the shadow"))?,
            }
        }
        Ok(true)
    }

    #[inline]
    fn receive(&mut self, deadline: &Deadline) -> Result<Option<Arrival>, EndpointError> {
        let mut polls = 0_u32;
        loop {
            if let Some(arrival) = self.look()? {
                return Ok(Some(arrival));
            }
            polls += 1;
            if polls.is_multiple_of(POLLS_PER_CLOCK_READ) && deadline.passed() {
                return Ok(None);
            }
        }
    }

    #[inline]
    fn try_send(&mut self, sequence: u64) -> Result<bool, EndpointError> {
        match self.send(sequence) {
            // The shadow, which sends until the neighbour is known, does not block.
            Err(EndpointError::Io { source, .. }) if source.kind() == ErrorKind::WouldBlock => Ok(false),
            other => other,
        }
    }

    #[inline]
    fn try_receive(&mut self) -> Result<Option<Arrival>, EndpointError> {
        self.look()
    }

    fn sequence_bits(&self) -> u32 {
        self.number_bytes() as u32 * 8
    }

    fn remarks(&self) -> Vec<Remark> {
        let ports = self.sockets.engine_ref().into_iter().flat_map(|engine| engine.attached());
        let doubt = (self.by_kernel > FIRST_BY_KERNEL).then(|| {
            Remark::Doubt(Warning {
                code: "by-kernel".to_owned(),
                text: format!("the kernel carried {} messages of a round", self.by_kernel),
                advice: "see that the neighbour is known and nothing else uses the interface".to_owned(),
            })
        });
        ports.map(|attached| Remark::Note(attached.port.describe())).chain(doubt).collect()
    }
}

const ECONNREFUSED: i32 = Errno::CONNREFUSED.raw_os_error();

/// Until the neighbour is known the kernel sends, and asks for it.
const FIRST_BY_KERNEL: u64 = 2;
