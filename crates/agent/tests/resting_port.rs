//! A port in generic mode that no flow uses has no program attached, and has it again when a flow comes. On a real kernel over a veth
//! pair; needs root (or says SKIP).
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod bed;

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use nearwire_agent::client::{Client, ClientError, OpenedShare};
use nearwire_agent::message::{Answer, Cause};
use nearwire_frames::Port;
use nearwire_frames::ports::xdp::{XdpMode, XdpPort};
use nearwire_frames::xdp::{AttachMode, XdpAttachment, attach_pass};

use bed::{AgentBed, PATIENCE, await_events};

/// Longer than a port stays awake without flows.
const LONG: Duration = Duration::from_millis(2500);

/// A program with a share.
struct Bed {
    agent: AgentBed,
    client: Client,
    share: OpenedShare,
}

impl Bed {
    /// Without a flow.
    fn new() -> Option<Bed> {
        let agent = AgentBed::lay_or_skip("")?;
        let near = agent.near();
        let mut client = near.namespace.enter(|| Client::connect("test").unwrap()).unwrap();
        let share = client.open_share(&near.interface, 0).unwrap();
        Some(Bed { agent, client, share })
    }

    /// Another program takes the place of the agent's.
    fn attach_other(&self) -> XdpAttachment {
        let near = self.agent.near();
        near.namespace.enter(|| attach_pass(&near.interface, AttachMode::Generic).unwrap()).unwrap()
    }

    /// A connection to the far end, whose listener accepts nothing.
    fn stream(&self) -> (TcpStream, TcpListener) {
        let (near, far) = (self.agent.near(), self.agent.far());
        let listener = far.namespace.enter(|| TcpListener::bind("0.0.0.0:0").unwrap()).unwrap();
        let to = (far.ipv4, listener.local_addr().unwrap().port());
        (near.namespace.enter(|| TcpStream::connect(to).unwrap()).unwrap(), listener)
    }

    fn shadow(&self) -> UdpSocket {
        let shadow = self.agent.near().namespace.enter(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        shadow.set_nonblocking(true).unwrap();
        shadow
    }

    fn open_flow(&mut self, shadow: &UdpSocket) -> u32 {
        self.client.open_flow(self.share.share, None, shadow).unwrap().0
    }

    fn end(self) {
        drop((self.client, self.share));
        self.agent.end();
    }
}

#[test]
fn port_without_flows_rests_until_one_comes() {
    let Some(mut bed) = Bed::new() else { return };
    let descriptors = std::mem::take(&mut bed.share.descriptors);
    let mut port = XdpPort::from_handed(&bed.share.description, descriptors).unwrap();
    assert_eq!(port.config().mode, XdpMode::Generic, "veth is fastest in it");
    let far = bed.agent.far().namespace.enter(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
    for round in 0..2u32 {
        bed.agent.await_program(false);
        let shadow = bed.shadow();
        let to = (bed.agent.near().ipv4, shadow.local_addr().unwrap().port());
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
        assert!(bed.agent.has_program(), "a port with a flow does not rest");
        bed.client.close_flow(flow).unwrap();
    }
    bed.agent.await_program(false);
    drop(port);
    bed.end();
}

#[test]
fn connection_is_opened_when_its_port_is_awake() {
    let Some(mut bed) = Bed::new() else { return };
    let (stream, _listener) = bed.stream();
    for _ in 0..2 {
        bed.agent.await_program(false);
        let connection = bed.client.open_connection(bed.share.share, &stream).unwrap();
        assert!(bed.agent.has_program(), "no segment may come to a socket that is frozen");
        std::thread::sleep(LONG);
        assert!(bed.agent.has_program(), "a port with a connection does not rest");
        bed.client.close_connection(connection).unwrap();
    }
    bed.agent.await_program(false);
    bed.end();
}

#[test]
fn interface_that_got_another_program_while_its_port_rested_revokes_the_shares() {
    let Some(mut bed) = Bed::new() else { return };
    bed.agent.await_program(false);
    let other = bed.attach_other();
    let shadow = bed.shadow();
    bed.open_flow(&shadow);
    let events = await_events(&mut bed.client);
    let [Answer::ShareRevoked { share, cause }] = &events[..] else { panic!("{events:?}") };
    let id = other.program_id().to_string();
    assert!(*share == bed.share.share && cause.to_string().contains(&id), "{cause}");
    let (stream, _listener) = bed.stream();
    let refused = bed.client.open_connection(*share, &stream).unwrap_err();
    assert!(matches!(refused, ClientError::Refused(Cause::NoSuchShare { .. })), "{refused}");
    drop(other);
    bed.end();
}

#[test]
fn connection_whose_port_cannot_be_woken_is_refused() {
    let Some(mut bed) = Bed::new() else { return };
    bed.agent.await_program(false);
    let other = bed.attach_other();
    let (stream, _listener) = bed.stream();
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
    bed.agent.await_program(false);
    bed.agent.set_link("down");
    await_events(&mut bed.client);
    bed.agent.set_link("up");
    let interface = bed.agent.near().interface.clone();
    bed.share = bed.client.open_share(&interface, 0).unwrap();
    let shadow = bed.shadow();
    bed.open_flow(&shadow);
    assert!(bed.agent.has_program());
    bed.end();
}
