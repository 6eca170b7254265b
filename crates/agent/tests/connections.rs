//! What the agent does to sockets of connections for programs that may not, and for which. On a real kernel over a veth pair; needs root (or says SKIP).
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

#[allow(dead_code, reason = "other tests use more of it")]
mod bed;

use std::net::{SocketAddr, TcpListener, TcpStream};

use nearwire_agent::adoption::Privileged;
use nearwire_agent::client::{Client, ClientError};
use nearwire_agent::message::Cause;

use bed::AgentBed;

/// Else a program without rights would have any port.
#[test]
fn socket_is_bound_and_connected_to_the_addresses_of_its_connection_only() {
    let Some(agent) = AgentBed::lay_or_skip("") else { return };
    let (near, far) = (agent.near(), agent.far());
    let mut client = near.namespace.enter(|| Client::connect("test").unwrap()).unwrap();
    let share = client.open_share(&near.interface, 0).unwrap();
    let listener = far.namespace.enter(|| TcpListener::bind("0.0.0.0:0").unwrap()).unwrap();
    let to = (far.ipv4, listener.local_addr().unwrap().port());
    let [stream, other] = [(); 2].map(|()| near.namespace.enter(|| TcpStream::connect(to).unwrap()).unwrap());
    let connection = client.open_connection(share.share, &stream).unwrap();
    let (local, peer) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
    let is_refused =
        |asked: Result<(), ClientError>| matches!(asked, Err(ClientError::Refused(Cause::OtherAddress { .. })));
    let at = |port| SocketAddr::new(local.ip(), port);
    for asked in [
        Privileged::Bind { local: at(80) },
        Privileged::Bind { local: SocketAddr::new(peer.ip(), local.port()) },
        Privileged::Connect { peer: local },
    ] {
        assert!(is_refused(client.set_privileged(&stream, asked)), "{asked:?}");
    }
    let is_bound_still = Privileged::Bind { local };
    client.set_privileged(&stream, is_bound_still).unwrap();
    assert!(is_refused(client.set_privileged(&other, is_bound_still)), "it has no flow");
    client.close_connection(connection).unwrap();
    assert!(is_refused(client.set_privileged(&stream, is_bound_still)), "it has none any more");
    drop((client, share));
    agent.end();
}
