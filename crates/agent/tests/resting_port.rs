//! A port in generic mode that no flow uses has no program attached, and has it again when a flow comes. On a real kernel over a veth
//! pair; needs root (or says SKIP).
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nearwire_agent::client::{Client, ClientError, OpenedShare};
use nearwire_agent::life::{Ended, serve};
use nearwire_agent::message::{Answer, Cause};
use nearwire_agent::ports::xdp::XdpPorts;
use nearwire_agent::server::Stay;
use nearwire_frames::Port;
use nearwire_frames::interface::InterfaceFacts;
use nearwire_frames::ports::xdp::{XdpMode, XdpPort};
use nearwire_frames::xdp::{AttachMode, attach_pass};
use nearwire_lab::{Cable, CableEnd, VirtualCable, VirtualCableOptions};

const PATIENCE: Duration = Duration::from_secs(20);
/// Longer than a port stays awake without flows.
const LONG: Duration = Duration::from_millis(2500);

struct Bed {
    cable: VirtualCable,
    client: Client,
    share: OpenedShare,
    _rights: tempfile::NamedTempFile,
    agent: JoinHandle<Ended>,
}

impl Bed {
    /// A program with a share, and no flow.
    fn new() -> Option<Bed> {
        let cable = match VirtualCable::lay(VirtualCableOptions { queues: 1, ..VirtualCableOptions::default() }) {
            Ok(cable) => cable,
            Err(error) => {
                assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "{error}");
                println!("SKIP {error}");
                return None;
            }
        };
        let rights = tempfile::NamedTempFile::new().unwrap();
        let path = rights.path().to_owned();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let start = || {
            std::thread::spawn(move || {
                let stay = Stay::Linger(Duration::from_secs(1));
                serve(XdpPorts::new().unwrap(), &path, stay, || ready.send(()).unwrap()).unwrap()
            })
        };
        let near = cable.pair().near.clone();
        let agent = near.namespace.enter(start).unwrap();
        is_ready.recv().unwrap();
        let mut client = near.namespace.enter(|| Client::connect("test").unwrap()).unwrap();
        let share = client.open_share(&near.interface, 0).unwrap();
        Some(Bed { cable, client, share, _rights: rights, agent })
    }

    fn near(&self) -> &CableEnd {
        &self.cable.pair().near
    }

    fn far(&self) -> &CableEnd {
        &self.cable.pair().far
    }

    /// Waits until the interface has a program, or has none.
    fn await_program(&self, is_there: bool) {
        let near = self.near();
        let has_program = || InterfaceFacts::read(&near.interface).unwrap().program.is_some();
        let until = Instant::now() + PATIENCE;
        while near.namespace.enter(has_program).unwrap() != is_there {
            assert!(Instant::now() < until, "a program is there: {is_there}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn has_program(&self) -> bool {
        let near = self.near();
        near.namespace.enter(|| InterfaceFacts::read(&near.interface).unwrap().program.is_some()).unwrap()
    }

    fn shadow(&self) -> UdpSocket {
        let shadow = self.near().namespace.enter(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        shadow.set_nonblocking(true).unwrap();
        shadow
    }

    fn open_flow(&mut self, shadow: &UdpSocket) -> u32 {
        self.client.open_flow(self.share.share, None, shadow).unwrap().0
    }

    fn end(self) {
        drop(self.client);
        assert_eq!(self.agent.join().unwrap(), Ended::Done);
    }
}

#[test]
fn port_without_flows_rests_until_one_comes() {
    let Some(mut bed) = Bed::new() else { return };
    let descriptors = std::mem::take(&mut bed.share.descriptors);
    let mut port = XdpPort::from_handed(&bed.share.description, descriptors).unwrap();
    assert_eq!(port.config().mode, XdpMode::Generic, "veth is fastest in it");
    let far = bed.far().namespace.enter(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
    for round in 0..2u32 {
        bed.await_program(false);
        let shadow = bed.shadow();
        let to = (bed.near().ipv4, shadow.local_addr().unwrap().port());
        let flow = bed.open_flow(&shadow);
        // What comes before the program is there is the kernel's, and nothing is lost.
        let (mut by_kernel, mut by_port) = (0, 0);
        let until = Instant::now() + PATIENCE;
        for sent in 1.. {
            far.send_to(&round.to_be_bytes(), to).unwrap();
            while by_kernel + by_port < sent {
                by_kernel += u32::from(shadow.recv(&mut [0; 64]).is_ok());
                by_port += u32::from(port.receive(|_| ()).unwrap().is_some());
                assert!(Instant::now() < until, "{by_kernel} by the kernel, {by_port} by the port, of {sent}");
            }
            if by_port == 100 {
                break;
            }
        }
        assert!(shadow.recv(&mut [0; 64]).is_err());
        std::thread::sleep(LONG);
        assert!(bed.has_program(), "a port with a flow does not rest");
        bed.client.close_flow(flow).unwrap();
    }
    bed.await_program(false);
    drop(port);
    bed.end();
}

#[test]
fn connection_is_opened_when_its_port_is_awake() {
    let Some(mut bed) = Bed::new() else { return };
    let far_address = bed.far().ipv4;
    let listener = bed.far().namespace.enter(|| TcpListener::bind("0.0.0.0:0").unwrap()).unwrap();
    let to = (far_address, listener.local_addr().unwrap().port());
    let stream = bed.near().namespace.enter(|| TcpStream::connect(to).unwrap()).unwrap();
    for _ in 0..2 {
        bed.await_program(false);
        let connection = bed.client.open_connection(bed.share.share, &stream).unwrap();
        assert!(bed.has_program(), "no segment may come to a socket that is frozen");
        std::thread::sleep(LONG);
        assert!(bed.has_program(), "a port with a connection does not rest");
        bed.client.close_connection(connection).unwrap();
    }
    bed.await_program(false);
    bed.end();
}

#[test]
fn interface_that_got_another_program_while_its_port_rested_revokes_the_shares() {
    let Some(mut bed) = Bed::new() else { return };
    bed.await_program(false);
    let interface = bed.near().interface.clone();
    let other = bed.near().namespace.enter(|| attach_pass(&interface, AttachMode::Generic).unwrap()).unwrap();
    let shadow = bed.shadow();
    bed.open_flow(&shadow);
    let until = Instant::now() + PATIENCE;
    let events = loop {
        let events = bed.client.take_events().unwrap();
        assert!(Instant::now() < until, "the program hears of it");
        if !events.is_empty() {
            break events;
        }
    };
    let [Answer::ShareRevoked { share, cause }] = &events[..] else { panic!("{events:?}") };
    let id = other.program_id().to_string();
    assert!(*share == bed.share.share && cause.to_string().contains(&id), "{cause}");
    let listener = bed.far().namespace.enter(|| TcpListener::bind("0.0.0.0:0").unwrap()).unwrap();
    let to = (bed.far().ipv4, listener.local_addr().unwrap().port());
    let stream = bed.near().namespace.enter(|| TcpStream::connect(to).unwrap()).unwrap();
    let refused = bed.client.open_connection(*share, &stream).unwrap_err();
    assert!(matches!(refused, ClientError::Refused(Cause::NoSuchShare { .. })), "{refused}");
    drop(other);
    bed.end();
}

#[test]
fn connection_whose_port_cannot_be_woken_is_refused() {
    let Some(mut bed) = Bed::new() else { return };
    bed.await_program(false);
    let interface = bed.near().interface.clone();
    let other = bed.near().namespace.enter(|| attach_pass(&interface, AttachMode::Generic).unwrap()).unwrap();
    let listener = bed.far().namespace.enter(|| TcpListener::bind("0.0.0.0:0").unwrap()).unwrap();
    let to = (bed.far().ipv4, listener.local_addr().unwrap().port());
    let stream = bed.near().namespace.enter(|| TcpStream::connect(to).unwrap()).unwrap();
    let refused = bed.client.open_connection(bed.share.share, &stream).unwrap_err();
    assert!(refused.to_string().contains(&other.program_id().to_string()), "{refused}");
    drop(other);
    bed.end();
}

/// The link of a port that rests goes down and up.
#[test]
fn port_that_rests_is_closed_when_its_link_goes_down() {
    let Some(mut bed) = Bed::new() else { return };
    // They are sockets of the queue.
    bed.share.descriptors.clear();
    bed.await_program(false);
    let near = bed.near().clone();
    let down = || Command::new("ip").args(["link", "set", &near.interface, "down"]).status().unwrap();
    assert!(near.namespace.enter(down).unwrap().success());
    let until = Instant::now() + PATIENCE;
    while bed.client.take_events().unwrap().is_empty() {
        assert!(Instant::now() < until, "the program hears of it");
    }
    let up = || Command::new("ip").args(["link", "set", &near.interface, "up"]).status().unwrap();
    assert!(near.namespace.enter(up).unwrap().success());
    bed.share = bed.client.open_share(&near.interface, 0).unwrap();
    let shadow = bed.shadow();
    bed.open_flow(&shadow);
    assert!(bed.has_program());
    bed.end();
}
