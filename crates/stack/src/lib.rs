//! IPv4, IPv6, UDP and TCP without I/O: frames and time go in, frames and readiness come out.
//!
//! No sockets, no clock, no system calls, and no allocation once endpoints are open and have sent, but where more datagrams
//! wait to be read than ever before. The stack lives
//! beside the kernel's, not in its place: the kernel keeps ARP, neighbour discovery, ICMP, IGMP, fragments, routes and
//! all ports that are not ours, and what it knows comes in as [`Update`]s.
//!
//! # The journey of a frame
//!
//! In, [`Stack::receive`] (`receive.rs`):
//!
//! ```text
//!  port lends a frame
//!    -> Ethernet   for this station? which VLAN interface?             else NotOurs
//!    -> IPv4/IPv6  well-formed, whole, to an address of this host?     else Dropped or NotOurs
//!    -> UDP        length and checksum good?                           else Dropped
//!    -> endpoint   udp/demux.rs: one lookup, by the rules of Linux     else Dropped(NoPorts)
//!    -> reader     lent in place; or copied to the endpoint's queue    else Dropped(RcvbufErrors)
//!  Verdict: exactly one for each frame, all counted
//! ```
//!
//! Out, [`Stack::udp_send`] (`send.rs`):
//!
//! ```text
//!  endpoint, message
//!    -> flow       remembered next hop of this generation?             else resolved (tables/resolve.rs)
//!    -> size       fits the MTU?                                       else NeedsKernel(LargerThanMtu, PathUnknown)
//!    -> frame      template.rs: headers copied, five words, checksum, payload; into memory that a port lends
//!  NeedsKernel: the datagram goes through the endpoint's shadow socket in the kernel, which sends it or says what is wrong
//! ```
//!
//! TCP carries the data of connections that the kernel made ([`Stack::tcp_adopt`]) and that it gets back ([`Stack::tcp_export`]):
//!
//! ```text
//!  in       a frame of an adopted four-tuple is taken in by its connection: Verdict::Segment; every other one is the kernel's
//!  out      Stack::tcp_transmit, of one connection after a write; Stack::poll_transmit, of all after frames and at deadlines
//!  time     Stack::next_deadline says when; Stack::tcp_time tells it before frames are received
//! ```
//! The map of its files stands in `tcp.rs`.
//!
//! # Example
//!
//! ```
//! use nearwire_stack::{
//!     Arrival, Family, InterfaceAddress, Link, LinkKind, Message, Neighbour, NeighbourState, Offers, ReceiveChecksum,
//!     Route, Stack, StackConfig, Take, UdpOptions, Update, Verdict,
//! };
//! # fn host(ours: [u8; 4], mac: u8, theirs: [u8; 4], their_mac: u8) -> Stack {
//! let mut stack = Stack::new(StackConfig::new(0x5eed));
//! // What a netlink listener says.
//! # let link = Link { ifindex: 2, mac: nearwire_wire::MacAddress([2, 0, 0, 0, 0, mac]), mtu_bytes: 1500, is_up: true,
//! #     kind: LinkKind::Ethernet };
//! # let address = InterfaceAddress { ifindex: 2, address: ours.into(), prefix_len: 24, broadcast: None,
//! #     is_secondary: false, is_deprecated: false, is_temporary: false, is_tentative: false };
//! # let neighbour = Neighbour { ifindex: 2, address: theirs.into(),
//! #     mac: nearwire_wire::MacAddress([2, 0, 0, 0, 0, their_mac]), state: NeighbourState::Reachable };
//! stack.update(Update::NewLink(link));
//! stack.update(Update::NewAddress(address));
//! stack.update(Update::NewRoute { route: Route::on_link([10, 0, 0, 0].into(), 24, 2), replaces: false });
//! stack.update(Update::NewNeighbour(neighbour));
//! # stack.attach_port(2, Offers::default());
//! # stack
//! # }
//! # let mut stack = host([10, 0, 0, 1], 1, [10, 0, 0, 2], 2);
//! # let mut far = host([10, 0, 0, 2], 2, [10, 0, 0, 1], 1);
//! # let far_port = far.attach_port(2, Offers::default());
//! let endpoint = stack.udp_open(Family::V4, UdpOptions::default());
//! stack.udp_bind(endpoint, "0.0.0.0:4000".parse()?)?;
//! let mut frame = [0; 1514];
//! let outgoing = stack.udp_send(endpoint, &Message::to(b"hello", "10.0.0.2:4001".parse()?)).expect("neighbour is known");
//! let len_bytes = outgoing.write(&mut frame);
//!
//! let listener = far.udp_open(Family::V4, UdpOptions::default());
//! far.udp_bind(listener, "10.0.0.2:4001".parse()?)?;
//! let arrival =
//!     Arrival { port: far_port, frame: &frame[..len_bytes], received_ns: 0, device_ns: 0, checksum: ReceiveChecksum::Verify };
//! let verdict = far.receive(&arrival, |_, datagram| {
//!     assert_eq!(datagram.payload, b"hello");
//!     Take::Consumed
//! });
//! assert_eq!(verdict, Verdict::Delivered { endpoint: listener, copies: 1 });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Not supported: the kernel serves it
//!
//! Fragments, **IPv6 extension headers**, source routes; **multipath and policy routing**, VRF, tunnels, bonds; sending to this host,
//! broadcast, and to groups joined here with IP_MULTICAST_LOOP; **UDP-Lite, UDP_SEGMENT, UDP_GRO, UDP_CORK**; BPF programs
//! that choose sockets; IPv6 flow labels (always 0). ICMP errors reach a program by its shadow socket.
//! Of TCP: **making and ending connections**, urgent data; what else is left out stands in `tcp.rs`.
//!
//! # Requirements
//!
//! A line `//= RFC 768 fields MUST: ...` stands where a requirement is met, in our words; `//= test RFC 768 fields` above
//! the test that shows it. `tests/requirements.rs` fails where a test is missing.

#![forbid(unsafe_code)]

mod address;
mod flow;
mod hash;
mod reasons;
mod receive;
mod send;
mod stack;
mod statistics;
mod tables;
mod tcp;
mod template;
mod udp;
mod warm;

pub use address::Family;
pub use reasons::{Dropped, NeedsKernel, NotOurs};
pub use receive::{Arrival, ReceiveChecksum, Take, Verdict};
pub use send::{FrameChecksum, Message, OutgoingFrame};
pub use stack::{Stack, StackConfig};
pub use statistics::{IpCounters, Statistics, UdpCounters};
pub use tables::{
    InterfaceAddress, Link, LinkKind, Neighbour, NeighbourState, Offers, Path, PortId, Route, RouteKind, RouteTable,
    Update,
};
pub use tcp::{
    AdoptError, BULK_CALL_BYTES, BULK_RECEIVED_BYTES, BULK_SENT_BYTES, CongestionControl, ConnectionId, ExportError,
    Keepalive, OutgoingSegment, PreparedMessage, TcpCallError, TcpCounters, TcpError, TcpFacts, TcpInfo, TcpOptions,
    TcpReadiness, TcpRoundTrip, TcpTimestamp, TcpWindow,
};
pub use udp::{
    BindError, ConnectError, Datagram, EndpointId, FamilyOptions, MembershipError, MovedEndpoint, MulticastInterface,
    OVERHEAD_BYTES, PathMtuDiscovery, RECEIVE_BUFFER_DEFAULT_BYTES, SourceFilter, UdpOptions,
};
