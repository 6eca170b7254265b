//! Sockets of the near end of a cable, driven as the preload library drives them, and a plain far end.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nearwire_lab::{Cable, CableEnd, Namespace, VirtualCable, VirtualCableOptions, made_or_skip};
use nearwire_socket::config::{Config, Mode};
use nearwire_socket::{Family, Reason, Receive, Send, ShadowSaid, Sockets, ThisHost};
use nearwire_stack::Message;

/// Who had a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Port,
    Kernel,
}

/// Longer than any datagram takes on a busy machine.
pub const SOON: Duration = Duration::from_secs(3);

pub struct Near {
    pub cable: VirtualCable,
    pub sockets: Sockets,
}

/// Tells sockets the time, as whoever makes a call does first.
pub fn enter(sockets: &mut Sockets) -> &mut Sockets {
    sockets.enter();
    sockets
}

impl Near {
    /// The sockets, at the beginning of a call.
    pub fn sockets(&mut self) -> &mut Sockets {
        enter(&mut self.sockets)
    }

    /// `None` where this process may not lay a cable; `NEARWIRE_REQUIRE` makes that a failure.
    pub fn or_skip(mode: Mode) -> Option<Near> {
        Near::on_queues(mode, VirtualCableOptions::default().queues)
    }

    /// The same, with so many queues on each end.
    pub fn on_queues(mode: Mode, queues: u32) -> Option<Near> {
        let cable = made_or_skip(VirtualCable::lay(VirtualCableOptions { queues, ..VirtualCableOptions::default() }))?;
        let config = Config { mode, kernel_first: 0, ..Config::default() };
        Some(Near { cable, sockets: Sockets::new(ThisHost::default(), config, "test") })
    }

    pub fn near(&self) -> &CableEnd {
        self.cable.near()
    }

    pub fn far(&self) -> &CableEnd {
        self.cable.far()
    }

    /// Opens a socket, binds it and asks what there is to read, as a program does.
    pub fn open(&mut self, local: &str) -> UdpSocket {
        let socket = self.open_unused(local);
        self.sockets().used(&[socket.as_raw_fd()]);
        socket
    }

    /// Opens a socket and binds it, and does no more.
    pub fn open_unused(&mut self, local: &str) -> UdpSocket {
        let local: SocketAddr = local.parse().unwrap();
        let socket = self.near().namespace.clone().enter(|| UdpSocket::bind(local)).unwrap().unwrap();
        socket.set_nonblocking(true).unwrap();
        self.follow(&socket, local.port());
        socket
    }

    /// Tells of a socket that the kernel has bound already, and of its first use.
    pub fn adopt(&mut self, socket: &UdpSocket, wanted_port: u16) {
        self.follow(socket, wanted_port);
        self.sockets().used(&[socket.as_raw_fd()]);
    }

    fn follow(&mut self, socket: &UdpSocket, wanted_port: u16) {
        let family = if socket.local_addr().unwrap().is_ipv4() { Family::V4 } else { Family::V6 };
        let namespace = self.near().namespace.clone();
        let sockets = enter(&mut self.sockets);
        namespace
            .enter(|| {
                sockets.opened(socket.as_raw_fd(), family, true);
                let local = socket.local_addr().unwrap().ip();
                sockets.bound(socket.as_raw_fd(), (local, wanted_port).into());
            })
            .unwrap();
    }

    pub fn close(&mut self, socket: UdpSocket) {
        self.sockets().closing(socket.as_raw_fd());
    }

    /// A socket of the kernel at the far end, which gives up soon.
    pub fn peer(&self) -> UdpSocket {
        let bind = || UdpSocket::bind((IpAddr::from(self.far().ipv4), 0));
        let peer = self.far().namespace.enter(bind).unwrap().unwrap();
        peer.set_read_timeout(Some(SOON)).unwrap();
        peer
    }

    pub fn reason(&self, socket: &UdpSocket) -> Option<Reason> {
        self.sockets.reason(socket.as_raw_fd())
    }

    /// Looks at the watch in the namespace that the sockets are of.
    pub fn look(&mut self) {
        let namespace = self.near().namespace.clone();
        namespace.enter(|| enter(&mut self.sockets).look()).unwrap();
    }

    /// One attempt to receive, the kernel's part of it included.
    pub fn try_receive(&mut self, socket: &UdpSocket) -> Option<(By, Vec<u8>)> {
        let number = socket.as_raw_fd();
        let mut buffer = [0; 2048];
        match self.sockets().receive(number, false, |delivery| delivery.datagram.payload.to_vec()) {
            Receive::Done(payload) => Some((By::Port, payload)),
            Receive::Kernel | Receive::Undecided { .. } => {
                socket.recv(&mut buffer).ok().map(|length| (By::Kernel, buffer[..length].to_vec()))
            }
            Receive::Shadow(news) => {
                let received = socket.recv(&mut buffer);
                let said = if received.is_err() { ShadowSaid::Nothing } else { ShadowSaid::Read };
                self.sockets().shadow_answered(number, news, said);
                received.ok().map(|length| (By::Kernel, buffer[..length].to_vec()))
            }
            Receive::Empty { .. } => None,
            Receive::Failed(error) => panic!("errno {error}"),
            Receive::Refused => panic!("nothing is strict here"),
        }
    }

    /// The next datagram.
    #[track_caller]
    pub fn receive(&mut self, socket: &UdpSocket) -> (By, Vec<u8>) {
        let deadline = Instant::now() + SOON;
        loop {
            if let Some(received) = self.try_receive(socket) {
                return received;
            }
            assert!(Instant::now() < deadline, "nothing came; {:?}", self.reason(socket));
            self.look();
        }
    }

    /// The next datagram, without entering the namespace.
    #[track_caller]
    pub fn receive_here(&mut self, socket: &UdpSocket) -> Vec<u8> {
        let deadline = Instant::now() + SOON;
        loop {
            if let Some((_, payload)) = self.try_receive(socket) {
                return payload;
            }
            assert!(Instant::now() < deadline, "nothing came");
            enter(&mut self.sockets).look();
        }
    }

    /// Sends, by the kernel where the library says so.
    pub fn send(&mut self, socket: &UdpSocket, to: SocketAddr, payload: &[u8]) -> io::Result<By> {
        match self.sockets().send(socket.as_raw_fd(), &Message::to(payload, to), false) {
            Send::Done => Ok(By::Port),
            Send::Failed(error) => Err(io::Error::from_raw_os_error(error)),
            Send::Refused => panic!("nothing is strict here"),
            Send::Kernel => socket.send_to(payload, to).map(|_| By::Kernel),
        }
    }

    /// A datagram from the far end to a port of ours: who had it. What is between the two is waited for.
    #[track_caller]
    pub fn delivered(&mut self, peer: &UdpSocket, socket: &UdpSocket) -> By {
        let to = SocketAddr::new(self.near().ipv4.into(), socket.local_addr().unwrap().port());
        peer.send_to(b"in", to).unwrap();
        let (by, payload) = self.receive(socket);
        assert_eq!(payload, b"in");
        by
    }

    /// A datagram to the far end: who sent it. It has to arrive.
    #[track_caller]
    pub fn sent(&mut self, socket: &UdpSocket, peer: &UdpSocket) -> By {
        let by = self.send(socket, peer.local_addr().unwrap(), b"out").unwrap();
        let mut buffer = [0; 16];
        let length = peer.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"out");
        by
    }

    /// Both directions go past the kernel, at the latest when news have come.
    #[track_caller]
    pub fn is_past_the_kernel_soon(&mut self, peer: &UdpSocket, socket: &UdpSocket) {
        let deadline = Instant::now() + SOON;
        loop {
            self.look();
            let both = (self.sent(socket, peer), self.delivered(peer, socket));
            if both == (By::Port, By::Port) {
                return;
            }
            assert!(Instant::now() < deadline, "{both:?}, {:?}", self.reason(socket));
        }
    }

    /// Looks until a reason is what it should be.
    #[track_caller]
    pub fn has_reason_soon(&mut self, socket: &UdpSocket, wanted: Option<Reason>) {
        let deadline = Instant::now() + SOON;
        while self.reason(socket) != wanted {
            assert!(Instant::now() < deadline, "{:?} instead of {wanted:?}", self.reason(socket));
            self.look();
        }
    }

    /// Runs `ip` at the near end.
    #[track_caller]
    pub fn ip(&self, arguments: &str) -> String {
        ip(&self.near().namespace, arguments)
    }

    /// Takes the near end up. The kernel lets the far end send a moment later, and drops what is sent before.
    #[track_caller]
    pub fn up(&self) {
        self.ip("link set nw0 up");
        let deadline = Instant::now() + SOON;
        while !ip(&self.far().namespace, "link show nw1").contains("state UP") {
            assert!(Instant::now() < deadline, "the far end stays down");
        }
        std::thread::sleep(Duration::from_millis(5));
    }

    /// Runs lines of `ip` at the near end; those that fail are passed over.
    pub fn ip_lines(&self, lines: &str) {
        let spawn = || Command::new("ip").args(["-force", "-batch", "-"]).stdin(Stdio::piped()).spawn();
        let mut batch = self.near().namespace.enter(spawn).unwrap().unwrap();
        batch.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        batch.wait().unwrap();
    }

    pub fn flows(&mut self) -> usize {
        self.sockets.engine().map_or(0, |engine| engine.flow_count())
    }

    /// The program that `ip` shows at the near end.
    pub fn program_id(&self) -> Option<u32> {
        program_id(&self.near().namespace, &self.near().interface)
    }
}

/// Runs `ip` in a namespace and returns what it prints.
#[track_caller]
pub fn ip(namespace: &Namespace, arguments: &str) -> String {
    let run = || Command::new("ip").args(arguments.split_ascii_whitespace()).output().expect("ip runs");
    let output = namespace.enter(run).unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The XDP program that `ip` shows at an interface.
pub fn program_id(namespace: &Namespace, interface: &str) -> Option<u32> {
    let shown = ip(namespace, &format!("link show {interface}"));
    let mut words = shown.split_ascii_whitespace().skip_while(|word| !word.starts_with("prog/xdp"));
    words.nth(2)?.parse().ok()
}
