//! Connections that nobody has any more: the far end is to hear of it no later than from a kernel whose program has died.
//!
//! Only a segment with the number that the far end expects resets it (RFC 5961 section 3), and whoever knew that number is gone. So the far
//! end is asked: a segment that cannot be of the connection is answered by an acknowledgement (RFC 9293 section 3.10.7.4), which comes to
//! the kernel, and a kernel that has no such connection answers it by a reset with just that number (section 3.10.7.1).

use nearwire_frames::steering::ExactFlow;
use nearwire_wire::tcp::{self, Flags, TcpHeader};

use crate::give_back::{Ip, write_segment};

const HOP_LIMIT: u8 = 64;

/// The packet that the far end of a connection has to answer; `None` where its addresses are of two families. A SYN within a connection is
/// answered whatever its number (RFC 5961 section 4).
pub(crate) fn question_of(flow: ExactFlow) -> Option<Vec<u8>> {
    let header = TcpHeader {
        source_port: flow.local_port,
        destination_port: flow.remote_port,
        sequence: 0,
        acknowledgement: 0,
        flags: Flags::SYN,
        window: 0,
        checksum: [0; 2],
        urgent: 0,
    };
    let (mut segment, mut packet) = ([0; tcp::HEADER_BYTES_MIN], Vec::new());
    header.write(&[], &mut segment).ok()?;
    let ip = Ip { source: flow.local, destination: flow.remote, ttl: HOP_LIMIT, tos: 0, protocol: tcp::PROTOCOL };
    write_segment(&mut packet, ip, &segment)?;
    Some(packet)
}
