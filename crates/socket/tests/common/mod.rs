//! A virtual cable, the kernel's tables of its near end, and a stack that is fed by them.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nearwire_lab::{Cable, CableEnd, Namespace, VirtualCable, VirtualCableOptions, made_or_skip};
use nearwire_socket::kernel_tables::{KernelTables, News};
use nearwire_stack::{EndpointId, Family, Message, NeedsKernel, Offers, Stack, StackConfig, UdpOptions, Update};

/// Ends of the first and second pair within the near namespace.
pub const NEAR: &str = "nw0";
pub const SECOND: &str = "nw2";

/// A stack with a port on both near ends and an unbound sender of each family.
pub struct Sender {
    pub stack: Stack,
    endpoints: [EndpointId; 2],
}

impl Sender {
    pub fn new(ifindices: &[u32], updates: Vec<Update>) -> Sender {
        let mut stack = Stack::new(StackConfig::new(1));
        for ifindex in ifindices {
            stack.attach_port(*ifindex, Offers::default());
        }
        let any = [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()];
        // A dual-stack endpoint has its port in both families.
        let endpoints = [(Family::V4, any[0], 4000), (Family::V6, any[1], 4001)].map(|(family, any, port)| {
            let id = stack.udp_open(family, UdpOptions::default());
            stack.udp_bind(id, SocketAddr::new(any, port)).unwrap();
            id
        });
        stack.resync(updates);
        Sender { stack, endpoints }
    }

    /// The frame that a datagram of `len_bytes` to port 9 would be.
    pub fn send(&mut self, to: IpAddr, scope: u32, len_bytes: usize) -> Result<Vec<u8>, NeedsKernel> {
        let (id, to) = match to {
            IpAddr::V4(_) => (self.endpoints[0], SocketAddr::new(to, 9)),
            IpAddr::V6(to) => (self.endpoints[1], SocketAddrV6::new(to, 9, 0, scope).into()),
        };
        let payload = vec![7; len_bytes];
        let outgoing = self.stack.udp_send(id, &Message::to(&payload, to))?;
        let mut frame = vec![0; outgoing.len_bytes()];
        outgoing.write(&mut frame);
        Ok(frame)
    }
}

pub struct Bed {
    pub cable: VirtualCable,
    pub tables: KernelTables,
    pub sender: Sender,
}

/// A bed, or none where this process may not make one. `NEARWIRE_REQUIRE` makes that a failure.
pub fn bed_or_skip() -> Option<Bed> {
    made_or_skip(VirtualCable::lay(VirtualCableOptions { pairs: 2, ..VirtualCableOptions::default() })).map(Bed::on)
}

impl Bed {
    fn on(cable: VirtualCable) -> Bed {
        let (tables, updates) = cable.near().namespace.enter(KernelTables::open).unwrap().unwrap();
        let sender = Sender::new(&ports(&cable), updates);
        Bed { cable, tables, sender }
    }

    pub fn near(&self) -> &CableEnd {
        self.cable.near()
    }

    pub fn far(&self) -> &CableEnd {
        self.cable.far()
    }

    /// Runs `ip` at the near end, and takes in the news.
    pub fn ip(&mut self, arguments: &str) -> News {
        ip(&self.near().namespace, arguments);
        self.catch_up()
    }

    /// Runs lines of `ip` at the near end and returns what it prints; those that fail are passed over.
    pub fn ip_batch(&self, lines: &str) -> String {
        let spawn = || {
            let mut command = Command::new("ip");
            command
                .args(["-oneline", "-force", "-batch", "-"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null());
            command.spawn().expect("ip runs")
        };
        let mut child = self.near().namespace.enter(spawn).unwrap();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    }

    /// Takes in the news as a program would.
    pub fn catch_up(&mut self) -> News {
        let news = self.tables.read(|update| self.sender.stack.update(update)).unwrap();
        if news == News::Lost {
            self.sender.stack.resync(self.tables.snapshot().unwrap());
        }
        news
    }

    pub fn send(&mut self, to: &str) -> Result<Vec<u8>, NeedsKernel> {
        self.sender.send(to.parse().unwrap(), 0, 10)
    }

    /// Last byte of the hardware address that a datagram goes to.
    pub fn goes_to(&mut self, to: &str) -> Result<u8, NeedsKernel> {
        self.send(to).map(|frame| frame[5])
    }

    /// A sender that knows what a fresh listener says.
    pub fn fresh(&self) -> Sender {
        let (_, updates) = self.near().namespace.enter(KernelTables::open).unwrap().unwrap();
        Sender::new(&ports(&self.cable), updates)
    }

    /// Takes in news until `condition` holds; panics with `what` after five seconds.
    pub fn eventually(&mut self, what: &str, mut condition: impl FnMut(&mut Bed) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            self.catch_up();
            if condition(self) {
                return;
            }
            assert!(Instant::now() < deadline, "not within 5 s: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A socket of the kernel at the near end.
    pub fn kernel_socket(&self, any: IpAddr) -> UdpSocket {
        self.near().namespace.enter(|| UdpSocket::bind((any, 0))).unwrap().unwrap()
    }
}

fn ports(cable: &VirtualCable) -> Vec<u32> {
    vec![cable.near().ifindex, cable.second_pair().expect("two pairs").near.ifindex]
}

/// Runs `ip` in a namespace and returns what it prints.
pub fn ip(namespace: &Namespace, arguments: &str) -> String {
    let run = || Command::new("ip").args(arguments.split_ascii_whitespace()).output().expect("ip runs");
    let output = namespace.enter(run).unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
