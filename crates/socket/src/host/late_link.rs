//! A link that is away when the agent has opened a port, as with a driver that set its device up anew.

use std::net::{IpAddr, UdpSocket};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use nearwire_agent::client::Client;
use nearwire_agent::life::{Ended, serve};
use nearwire_agent::message::{Addresses, Cause};
use nearwire_agent::ports::xdp::XdpPorts;
use nearwire_agent::ports::{Finished, FlowOwner, Opened, Ports, Wanted};
use nearwire_agent::server::Stay;
use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::{EnginePort, Port, PortError};
use nearwire_lab::{Cable, CableEnd, VirtualCable, VirtualCableOptions, made_or_skip};

use super::{Host, PortWanted, ThisHost};
use crate::config::Config;

/// Ports of which each says that its link may be away for so long. No driver here takes its link down.
struct LinkMayBeAway(XdpPorts, u32);

impl Ports for LinkMayBeAway {
    fn open_share(&mut self, wanted: &Wanted) -> Result<Option<Opened>, Cause> {
        self.0.open_share(wanted)
    }

    fn close_share(&mut self, share: u32) {
        self.0.close_share(share);
    }

    fn open_flow(&mut self, ifindex: u32, flow: &Addresses, owner: FlowOwner) -> Result<(), Cause> {
        self.0.open_flow(ifindex, flow, owner)
    }

    fn move_flow(&mut self, ifindex: u32, flow: &Addresses, from: FlowOwner, to: FlowOwner) -> Result<(), Cause> {
        self.0.move_flow(ifindex, flow, from, to)
    }

    fn close_flow(&mut self, ifindex: u32, flow: &Addresses, owner: FlowOwner) {
        self.0.close_flow(ifindex, flow, owner);
    }

    fn want_times(&mut self, share: u32) -> Result<bool, Cause> {
        self.0.want_times(share)
    }

    fn has_address(&self, address: IpAddr, ifindex: u32) -> bool {
        self.0.has_address(address, ifindex)
    }

    fn news(&self) -> Option<BorrowedFd<'_>> {
        self.0.news()
    }

    fn finishes(&self) -> Option<BorrowedFd<'_>> {
        self.0.finishes()
    }

    fn take_finished(&mut self) -> Vec<Finished> {
        let away = |finished| match finished {
            Finished::Share(share, Ok(opened)) => {
                Finished::Share(share, Ok(Opened { carrier_within_ms: self.1, ..opened }))
            }
            finished => finished,
        };
        self.0.take_finished().into_iter().map(away).collect()
    }

    fn take_lost(&mut self) -> Vec<(u32, Cause)> {
        self.0.take_lost()
    }
}

fn cable() -> Option<VirtualCable> {
    made_or_skip(VirtualCable::lay(VirtualCableOptions { queues: 1, ..VirtualCableOptions::default() }))
}

fn set_link(end: &CableEnd, state: &str) {
    let set = || Command::new("ip").args(["link", "set", &end.interface, state]).status();
    assert!(end.namespace.enter(set).unwrap().unwrap().success());
}

/// Runs `test` at the near end, where an agent is whose links may be away for so long.
fn with_agent(cable: &VirtualCable, within_ms: u32, test: impl FnOnce(&CableEnd, &CableEnd)) {
    let pair = cable.pair();
    let (ready, is_ready) = channel();
    let start = || {
        std::thread::spawn(move || {
            let ports = LinkMayBeAway(XdpPorts::new().unwrap(), within_ms);
            let stay = Stay::Linger(Duration::from_millis(500));
            serve(ports, Path::new("/none"), stay, || ready.send(()).unwrap()).unwrap()
        })
    };
    let agent = pair.near.namespace.enter(start).unwrap();
    is_ready.recv().unwrap();
    pair.near.namespace.enter(|| test(&pair.near, &pair.far)).unwrap();
    assert_eq!(agent.join().unwrap(), Ended::Done);
}

#[test]
fn carrier_that_comes_late_is_waited_for_by_the_program_and_keeps_nobody_else_waiting() {
    let Some(cable) = cable() else { return };
    with_agent(&cable, 9000, |near, far| {
        let (host, wanted) = (ThisHost::default(), PortWanted::of(&Config::default()));
        let facts = InterfaceFacts::read(&near.interface).unwrap();
        let first = host.open_port(&facts, wanted).unwrap();
        set_link(far, "down");
        let begun = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The program has its second share, and waits: it and others go on with the agent meanwhile.
                std::thread::sleep(Duration::from_millis(500));
                let asked = Instant::now();
                let others = Client::connect("another").and_then(|mut client| client.status());
                assert_eq!(others.unwrap()[0].shares.len(), 2);
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                assert!(host.is_served_by_agent(wanted));
                host.announce(flow_socket(&socket), true);
                assert!(asked.elapsed() < Duration::from_secs(1), "answered after {:?}", asked.elapsed());
                set_link(far, "up");
            });
            let second = host.open_port(&facts, wanted).unwrap();
            assert!(begun.elapsed() >= Duration::from_millis(500), "it waited for {:?}", begun.elapsed());
            assert!(second.describe().ends_with(", by the agent"), "{}", second.describe());
            for mut port in [first, second] {
                port.check().expect("nothing is lost");
            }
        });
    });
}

fn flow_socket(socket: &UdpSocket) -> nearwire_frames::FlowSocket {
    use std::os::fd::AsRawFd;
    let descriptor = nearwire_sys::descriptor::Descriptor::new(socket.as_raw_fd()).unwrap();
    nearwire_frames::FlowSocket { descriptor, inode: 1 }
}

#[test]
fn carrier_that_does_not_come_is_no_port_and_takes_no_other_share() {
    let Some(cable) = cable() else { return };
    with_agent(&cable, 300, |near, far| {
        let (host, wanted) = (ThisHost::default(), PortWanted::of(&Config::default()));
        let facts = InterfaceFacts::read(&near.interface).unwrap();
        let mut first = host.open_port(&facts, wanted).unwrap();
        set_link(far, "down");
        let refused = host.open_port(&facts, wanted).map(|port| port.describe());
        assert!(matches!(refused, Err(PortError::NoCarrier { waited_ms: 300, .. })), "{refused:?}");
        first.check().expect("it is still the agent's");
        let shares = Client::connect("another").and_then(|mut client| client.status()).unwrap();
        assert_eq!(shares[0].shares.len(), 1, "{shares:?}");
    });
}

#[test]
fn mode_that_the_agent_does_not_have_is_opened_by_the_program_when_the_agents_port_is_closed() {
    let Some(cable) = cable() else { return };
    with_agent(&cable, 0, |near, _| {
        let config = Config { mode: crate::config::Mode::Native, ..Config::default() };
        let facts = InterfaceFacts::read(&near.interface).unwrap();
        let port = ThisHost::default().open_port(&facts, PortWanted::of(&config)).unwrap();
        let described = port.describe();
        assert!(described.starts_with("AF_XDP native copy"), "{described}");
        assert!(described.contains(", not by the agent: get a share of "), "{described}");
    });
}
