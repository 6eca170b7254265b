//! A datagram that waits to be read, in the model and in the stack.

use std::net::{IpAddr, SocketAddr};

use nearwire_stack::Datagram;

/// A datagram that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) payload: Vec<u8>,
    pub(super) source: SocketAddr,
    pub(super) destination: IpAddr,
    pub(super) ifindex: u32,
}

impl Waiting {
    pub(super) fn of(datagram: &Datagram<'_>) -> Waiting {
        Waiting {
            payload: datagram.payload.to_vec(),
            // Without the scope of link-local addresses.
            source: SocketAddr::new(datagram.source.ip(), datagram.source.port()),
            destination: datagram.destination,
            ifindex: datagram.ifindex,
        }
    }
}
