//! TCP connections that are adopted from the kernel, and released to it on the same open file (`TCP_REPAIR`).
//!
//! ```text
//! adopt     freeze the shadow, read what it knows, and leave it parked: connected, frozen, with empty queues
//! release   disconnect the shadow, which stays bound; connect it again, with numbers, options, windows and bytes; thaw it
//! end       disconnect the shadow, thaw it, and shut it: the caller has given the connection up
//! ```
//! The kernel sends nothing of a frozen connection that is disconnected, so the far end sees neither. Between the two the caller carries
//! the connection's data, and its frames must not come to the kernel, which has no such connection for a moment and would reset it: an
//! exact flow stands in the steering table before a connection is adopted, until after it is released.
//!
//! A frame that passed the steering table before the flow stood there may come to the shadow still. While the shadow is read and disconnected it
//! takes no packet ([`shut_off`]): the far end sends it again, where bytes that the shadow had acknowledged by then would be nobody's
//! ([`AdoptionError::Slipped`]). What comes to a parked shadow is acknowledged by it with numbers that the far end has seen; its bytes
//! are in the shadow, for [`slipped`] to read.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use nearwire_sys::socket::set_least_hops;
use nearwire_sys::tcp_repair::{self, ESTABLISHED, Negotiated, Queue, Repair, RoundTrip, SYN_SENT, Window};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_keepalive, set_socket_reuseaddr, socket_error, socket_keepalive, socket_reuseaddr,
};
use rustix::net::{RecvFlags, Shutdown, connect_unspec, getpeername, getsockname, recv, shutdown};
use thiserror::Error;

mod room;

use room::Room;
pub use room::{Buffer, Privileged};

/// Times that an unsteady state is read again: frames for it come for microseconds only.
const READ_AGAIN_MOST: u32 = 1000;
/// Hops that a packet is to have left: hosts send with 64 or 128, so none comes in but that of a neighbour that sends with as many as there are.
const HOPS_OF_NONE: u8 = u8::MAX;
/// Any number does.
const HOPS_OF_ALL: u8 = 0;

/// An established connection: what one owner gives to the next. Sequence numbers are those of RFC 9293 section 3.3.1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// This end.
    pub local: SocketAddr,
    /// The far end.
    pub peer: SocketAddr,
    /// SND.UNA: the number of the first byte of `sent`.
    pub unacknowledged_sequence: u32,
    /// Sent and not acknowledged.
    pub sent: Vec<u8>,
    /// Written and not sent.
    pub unsent: Vec<u8>,
    /// RCV.NXT.
    pub next_sequence: u32,
    /// Received and not read; the last byte is the one before `next_sequence`.
    pub unread: Vec<u8>,
    /// Both windows.
    pub window: Window,
    /// The largest segment that the far end takes, bytes.
    pub maximum_segment_bytes: u16,
    /// Shifts of windows that come and that leave (RFC 7323 section 2); `None`: none is scaled.
    pub window_scale: Option<(u8, u8)>,
    /// Both ends take selective acknowledgements (RFC 2018).
    pub has_selective_acknowledgement: bool,
    /// This end's clock, where both ends have timestamps (RFC 7323 section 3).
    pub timestamp: Option<Timestamp>,
    /// Round trips as the kernel measured them. It measures anew when it has the connection again.
    pub round_trip: Option<RoundTrip>,
    /// Of its options.
    pub set: Set,
}

/// Options as the program set them, of which a parked shadow shows other values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Set {
    /// `SO_REUSEADDR`, which the kernel changes when a connection is frozen, and again when it is thawed.
    pub reuse_address: bool,
    /// `SO_KEEPALIVE`: a parked shadow hears nothing of the far end, and would send probes, and reset the connection in the end.
    pub keepalive: bool,
}

/// The clock of a connection's timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamp {
    /// What it showed when it was read.
    pub value: u32,
    /// It counts microseconds, else milliseconds.
    pub is_in_microseconds: bool,
}

/// Why a connection could not be adopted or released.
#[derive(Debug, Error)]
pub enum AdoptionError {
    /// It is not established: not connected yet, or one end has closed it.
    #[error("the connection is in state {state} of include/net/tcp_states.h, wanted ESTABLISHED ({ESTABLISHED})")]
    NotEstablished {
        /// The kernel's number.
        state: u8,
    },
    /// Both ends take part in explicit congestion notification (RFC 3168). A connection that is given back has it no more: there is no option
    /// of `TCP_REPAIR_OPTIONS` for it.
    #[error(
        "the connection of {local} with {peer} has congestion notification (ECN), which the kernel would not take back"
    )]
    CongestionNotification {
        /// This end.
        local: SocketAddr,
        /// The far end.
        peer: SocketAddr,
    },
    /// A byte of urgent data waits, which is the kernel's to give (`MSG_OOB`).
    #[error("the connection of {local} with {peer} has urgent data that nobody has read")]
    Urgent {
        /// This end.
        local: SocketAddr,
        /// The far end.
        peer: SocketAddr,
    },
    /// Frames kept coming to the kernel: no flow keeps them from it.
    #[error(
        "the kernel still received on {local} from {peer} after {READ_AGAIN_MOST} readings; a flow must keep its frames from the kernel first"
    )]
    Unsteady {
        /// This end.
        local: SocketAddr,
        /// The far end.
        peer: SocketAddr,
    },
    /// The kernel acknowledged bytes that nobody has.
    #[error("the kernel had received {bytes} bytes more on {local} from {peer} when it gave the connection up")]
    Slipped {
        /// This end.
        local: SocketAddr,
        /// The far end.
        peer: SocketAddr,
        /// How many.
        bytes: u32,
    },
    /// It could not be parked, and the kernel would not have it back.
    #[error(
        "the connection of {local} with {peer} has ended: the kernel would neither park it nor take it back: {source}"
    )]
    Lost {
        /// This end.
        local: SocketAddr,
        /// The far end.
        peer: SocketAddr,
        /// Why it could not be parked.
        source: Box<AdoptionError>,
    },
    /// The kernel refused something.
    #[error("{what} failed: {source}")]
    System {
        /// What was asked of it.
        what: &'static str,
        /// Its answer.
        source: io::Error,
    },
}

/// Does to a shadow what needs a capability.
pub type Privileges<'a> = dyn Fn(Privileged) -> io::Result<()> + 'a;

/// Names what failed.
trait Asked<T> {
    fn asked(self, what: &'static str) -> Result<T, AdoptionError>;
}

impl<T, E: Into<io::Error>> Asked<T> for Result<T, E> {
    fn asked(self, what: &'static str) -> Result<T, AdoptionError> {
        self.map_err(|source| AdoptionError::System { what, source: source.into() })
    }
}

/// Takes a connection from the kernel. Its shadow stays, parked, and a flow must keep the connection's frames from the kernel.
///
/// # Errors
/// See [`AdoptionError`]; the connection is the kernel's still, except by [`AdoptionError::Lost`].
pub fn adopt(shadow: impl AsFd) -> Result<Connection, AdoptionError> {
    adopt_by(&shadow, &|asked: Privileged| asked.set(&shadow))
}

/// The same, where somebody else has the capability that freezing a connection needs: `privileges` has it done.
///
/// # Errors
/// As [`adopt`].
pub fn adopt_by(shadow: impl AsFd, privileges: &Privileges<'_>) -> Result<Connection, AdoptionError> {
    let shadow = shadow.as_fd();
    let connection = freeze(shadow, privileges)?;
    set_socket_keepalive(shadow, false).asked("SO_KEEPALIVE")?;
    let parked = Connection {
        unacknowledged_sequence: connection.unacknowledged_sequence.wrapping_add(connection.sent.len() as u32),
        sent: Vec::new(),
        unsent: Vec::new(),
        unread: Vec::new(),
        // What comes to it beyond a hole is not to be acknowledged: it is forgotten when the connection is released.
        has_selective_acknowledgement: false,
        ..connection.clone()
    };
    match put_back(shadow, &parked, privileges).and_then(Room::give_up) {
        Ok(()) => Ok(connection),
        Err(error) => Err(unpark(shadow, &connection, error, privileges)),
    }
}

/// Gives a connection back that cannot be parked: the kernel goes on with it, or it has ended.
#[cold]
fn unpark(
    shadow: BorrowedFd<'_>,
    connection: &Connection,
    error: AdoptionError,
    privileges: &Privileges<'_>,
) -> AdoptionError {
    if release_by(shadow, connection, Repair::Thaw, privileges).is_ok() {
        return error;
    }
    // Frozen, its calls would fail by EPERM for ever. Refused, nothing better is left.
    let _ = end_by(shadow, connection.set, privileges);
    AdoptionError::Lost { local: connection.local, peer: connection.peer, source: Box::new(error) }
}

/// From now on no packet comes to a parked shadow, until the connection is released, or [`let_in`]. What [`slipped`] gives is all then.
///
/// # Errors
/// setsockopt(2) failed.
pub fn shut_off(shadow: impl AsFd, connection: &Connection) -> Result<(), AdoptionError> {
    take_from(shadow.as_fd(), connection.local, HOPS_OF_NONE)
}

/// Packets come to it again.
///
/// # Errors
/// setsockopt(2) failed.
pub fn let_in(shadow: impl AsFd, connection: &Connection) -> Result<(), AdoptionError> {
    take_from(shadow.as_fd(), connection.local, HOPS_OF_ALL)
}

/// By how far packets may have come (RFC 5082), which the kernel asks before it takes one in (`tcp_v4_rcv`, `tcp_v6_rcv`). A program that has set that itself
/// is not to have its connection adopted. 0.2 us, where a filter of packets takes 6.
fn take_from(shadow: BorrowedFd<'_>, local: SocketAddr, least_hops: u8) -> Result<(), AdoptionError> {
    set_least_hops(shadow, local.ip(), least_hops).asked("IP_MINTTL")
}

/// What came to a parked shadow.
///
/// # Errors
/// recv(2) failed.
pub fn slipped(shadow: impl AsFd) -> Result<Vec<u8>, AdoptionError> {
    let shadow = shadow.as_fd();
    let bytes = rustix::io::ioctl_fionread(shadow).asked("FIONREAD")?;
    peek(shadow, Queue::Receive, bytes as u32)
}

/// Gives a connection that was adopted to the kernel, which goes on with it at once. What [`slipped`] gave is part of it by then.
///
/// # Errors
/// See [`AdoptionError`]. The shadow is no connection any more, and the far end is to be told so.
pub fn release(shadow: impl AsFd, connection: &Connection) -> Result<(), AdoptionError> {
    release_by(&shadow, connection, Repair::Thaw, &|asked: Privileged| asked.set(&shadow))
}

/// The same; see [`adopt_by`]. `how`: [`Repair::ThawSilently`] where the kernel sends or gets something of the connection right after. A window probe takes the
/// path to the far end, some us, and until it is sent the connection is without `SO_REUSEADDR`: a server that is killed meanwhile leaves one that keeps the next
/// server from its port for a minute.
///
/// # Errors
/// As [`release`].
pub fn release_by(
    shadow: impl AsFd,
    connection: &Connection,
    how: Repair,
    privileges: &Privileges<'_>,
) -> Result<(), AdoptionError> {
    let shadow = shadow.as_fd();
    let mut room = put_back(shadow, connection, privileges)?;
    // A probe tells the far end the window; its answer tells what it has.
    thaw(shadow, privileges, how, connection.set)?;
    room.write(Buffer::Send, &connection.unsent)?;
    room.give_up()
}

/// Thaws a shadow, and sets again what that resets.
fn thaw(shadow: BorrowedFd<'_>, privileges: &Privileges<'_>, how: Repair, set: Set) -> Result<(), AdoptionError> {
    privileges(Privileged::Repair(how)).asked("TCP_REPAIR")?;
    set_socket_reuseaddr(shadow, set.reuse_address).asked("SO_REUSEADDR")?;
    match set.keepalive {
        true => set_socket_keepalive(shadow, true).asked("SO_KEEPALIVE"),
        false => Ok(()),
    }
}

/// Makes a parked shadow what the kernel's socket is after its connection has ended: not connected, and shut both ways (`tcp_done` of
/// net/ipv4/tcp.c). A read finds the end, a write fails by EPIPE. Nothing is sent. `set`: as the connection was adopted with.
///
/// # Errors
/// See [`AdoptionError`]. The shadow is no connection any more.
pub fn end_by(shadow: impl AsFd, set: Set, privileges: &Privileges<'_>) -> Result<(), AdoptionError> {
    let shadow = shadow.as_fd();
    disconnect(shadow)?;
    thaw(shadow, privileges, Repair::ThawSilently, set)?;
    // Of one that could not be released: a program may connect its socket anew.
    let local = getsockname(shadow).and_then(SocketAddr::try_from).asked("getsockname")?;
    take_from(shadow, local, HOPS_OF_ALL)?;
    match shutdown(shadow, Shutdown::Both) {
        // It says so, and shuts it (`inet_shutdown`).
        Ok(()) | Err(Errno::NOTCONN) => Ok(()),
        Err(errno) => Err(errno).asked("shutdown"),
    }
}

/// Freezes a connection and reads what the kernel knows of it.
fn freeze(shadow: BorrowedFd<'_>, privileges: &Privileges<'_>) -> Result<Connection, AdoptionError> {
    let set = Set {
        reuse_address: socket_reuseaddr(shadow).asked("SO_REUSEADDR")?,
        keepalive: socket_keepalive(shadow).asked("SO_KEEPALIVE")?,
    };
    let local = getsockname(shadow).and_then(SocketAddr::try_from).asked("getsockname")?;
    privileges(Privileged::Repair(Repair::Freeze)).asked("TCP_REPAIR")?;
    let shut = take_from(shadow, local, HOPS_OF_NONE);
    let read = shut.and_then(|()| read(shadow, local)).map(|connection| Connection { set, ..connection });
    if read.is_err() {
        // It has not changed, and goes on.
        take_from(shadow, local, HOPS_OF_ALL)?;
        thaw(shadow, privileges, Repair::ThawSilently, set)?;
    }
    read
}

fn read(shadow: BorrowedFd<'_>, local: SocketAddr) -> Result<Connection, AdoptionError> {
    let facts = tcp_repair::facts(shadow).asked("TCP_INFO")?;
    if facts.state != ESTABLISHED {
        return Err(AdoptionError::NotEstablished { state: facts.state });
    }
    let peer =
        getpeername(shadow).and_then(|peer| SocketAddr::try_from(peer.ok_or(Errno::NOTCONN)?)).asked("getpeername")?;
    if facts.has_congestion_notification {
        return Err(AdoptionError::CongestionNotification { local, peer });
    }
    if has_urgent(shadow)? {
        return Err(AdoptionError::Urgent { local, peer });
    }
    let timestamp = match facts.has_timestamps {
        true => Some(Timestamp {
            // The lowest bit says whether it counts microseconds: what was sent may have been one more, and is not to be before what is sent next.
            value: tcp_repair::timestamp(shadow).asked("TCP_TIMESTAMP")? | 1,
            is_in_microseconds: facts.has_microseconds,
        }),
        false => None,
    };
    let maximum_segment_bytes = tcp_repair::maximum_segment_bytes(shadow).asked("TCP_MAXSEG")?;
    for _ in 0..READ_AGAIN_MOST {
        let before = numbers(shadow)?;
        let unread = peek(shadow, Queue::Receive, before.unread_bytes)?;
        let mut sent = peek(shadow, Queue::Send, before.unacknowledged_bytes)?;
        let window = tcp_repair::window(shadow).asked("TCP_REPAIR_WINDOW")?;
        if numbers(shadow)? != before {
            continue;
        }
        let unsent = sent.split_off(sent.len().saturating_sub(before.unsent_bytes as usize));
        return Ok(Connection {
            local,
            peer,
            unacknowledged_sequence: before.written_sequence.wrapping_sub(before.unacknowledged_bytes),
            sent,
            unsent,
            next_sequence: before.next_sequence,
            unread,
            window,
            maximum_segment_bytes,
            window_scale: facts.window_scale,
            has_selective_acknowledgement: facts.has_selective_acknowledgement,
            timestamp,
            round_trip: facts.round_trip,
            set: Set::default(),
        });
    }
    Err(AdoptionError::Unsteady { local, peer })
}

/// Whether a connection is as [`adopt`] takes it now: established, and without urgent data. Nothing is changed for the answer.
#[must_use]
pub fn is_adoptable(shadow: impl AsFd) -> bool {
    let shadow = shadow.as_fd();
    tcp_repair::facts(shadow).is_ok_and(|facts| facts.state == ESTABLISHED) && has_urgent(shadow).is_ok_and(|has| !has)
}

/// Whether one end of a connection has closed it, or both have.
#[must_use]
pub fn has_ended(shadow: impl AsFd) -> bool {
    tcp_repair::facts(shadow).is_ok_and(|facts| !matches!(facts.state, ESTABLISHED | SYN_SENT))
}

fn has_urgent(shadow: BorrowedFd<'_>) -> Result<bool, AdoptionError> {
    let mut asked = [PollFd::new(&shadow, PollFlags::PRI)];
    poll(&mut asked, Some(&Timespec::default())).asked("poll")?;
    Ok(asked[0].revents().contains(PollFlags::PRI))
}

/// What changes when a frame comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Numbers {
    next_sequence: u32,
    unread_bytes: u32,
    written_sequence: u32,
    unacknowledged_bytes: u32,
    unsent_bytes: u32,
}

fn numbers(shadow: BorrowedFd<'_>) -> Result<Numbers, AdoptionError> {
    let sequence_of = |queue| {
        tcp_repair::set_repair_queue(shadow, queue).asked("TCP_REPAIR_QUEUE")?;
        tcp_repair::queue_sequence(shadow).asked("TCP_QUEUE_SEQ")
    };
    Ok(Numbers {
        next_sequence: sequence_of(Queue::Receive)?,
        unread_bytes: rustix::io::ioctl_fionread(shadow).asked("FIONREAD")? as u32,
        written_sequence: sequence_of(Queue::Send)?,
        unacknowledged_bytes: tcp_repair::unacknowledged_bytes(shadow).asked("SIOCOUTQ")?,
        unsent_bytes: tcp_repair::unsent_bytes(shadow).asked("SIOCOUTQNSD")?,
    })
}

/// So many bytes of a queue, the last ones: of a segment that is acknowledged in part the kernel keeps all (`tcp_clean_rtx_queue`), and shows all
/// (`tcp_peek_sndq`).
fn peek(shadow: BorrowedFd<'_>, queue: Queue, bytes: u32) -> Result<Vec<u8>, AdoptionError> {
    tcp_repair::set_repair_queue(shadow, queue).asked("TCP_REPAIR_QUEUE")?;
    let bytes = bytes as usize;
    if bytes == 0 {
        return Ok(Vec::new());
    }
    let mut room_bytes = bytes;
    loop {
        let mut peeked = vec![0; room_bytes];
        // It tells how much there is, also where that is more than there is room for.
        let (_, found_bytes) =
            recv(shadow, &mut peeked[..], RecvFlags::PEEK | RecvFlags::DONTWAIT).asked("recv with MSG_PEEK")?;
        if found_bytes <= room_bytes {
            peeked.truncate(found_bytes);
            peeked.drain(..found_bytes.saturating_sub(bytes));
            return Ok(peeked);
        }
        room_bytes = found_bytes;
    }
}

/// Ends a frozen connection, of which nothing is sent.
fn disconnect(shadow: BorrowedFd<'_>) -> Result<(), AdoptionError> {
    connect_unspec(shadow).asked("connect to AF_UNSPEC")?;
    // It says that the connection was given up, which programs are not to hear.
    let _ = socket_error(shadow);
    Ok(())
}

/// Makes the shadow a frozen connection again, with numbers, options, windows and queues.
///
/// The buffers have room for more until [`Room::give_up`].
fn put_back<'a>(
    shadow: BorrowedFd<'a>,
    connection: &Connection,
    privileges: &'a Privileges<'a>,
) -> Result<Room<'a>, AdoptionError> {
    let Connection { local, peer, .. } = *connection;
    disconnect(shadow)?;
    tcp_repair::set_repair_queue(shadow, Queue::Receive).asked("TCP_REPAIR_QUEUE")?;
    let last = tcp_repair::queue_sequence(shadow).asked("TCP_QUEUE_SEQ")?;
    let bytes = last.wrapping_sub(connection.next_sequence);
    if bytes.cast_signed() > 0 {
        return Err(AdoptionError::Slipped { local, peer, bytes });
    }
    privileges(Privileged::Bind { local }).asked("bind")?;
    let first_unread = connection.next_sequence.wrapping_sub(connection.unread.len() as u32);
    tcp_repair::set_queue_sequence(shadow, first_unread).asked("TCP_QUEUE_SEQ")?;
    tcp_repair::set_repair_queue(shadow, Queue::Send).asked("TCP_REPAIR_QUEUE")?;
    tcp_repair::set_queue_sequence(shadow, connection.unacknowledged_sequence).asked("TCP_QUEUE_SEQ")?;
    // What `TCP_REPAIR_OPTIONS` says of the far end comes too late for the size of the segments that leave: it is computed within
    // connect(2) (`tcp_connect_init`), of 536 bytes where nothing is said, and for good.
    tcp_repair::limit_segment(shadow, connection.maximum_segment_bytes).asked("TCP_MAXSEG")?;
    privileges(Privileged::Connect { peer }).asked("connect")?;
    tcp_repair::limit_segment(shadow, 0).asked("TCP_MAXSEG")?;
    set_options(shadow, connection)?;
    let mut room = Room::of(shadow, privileges);
    for (queue, buffer, bytes) in
        [(Queue::Receive, Buffer::Receive, &connection.unread), (Queue::Send, Buffer::Send, &connection.sent)]
    {
        tcp_repair::set_repair_queue(shadow, queue).asked("TCP_REPAIR_QUEUE")?;
        room.write(buffer, bytes)?;
    }
    tcp_repair::set_window(shadow, &connection.window).asked("TCP_REPAIR_WINDOW")?;
    let_in(shadow, connection)?;
    Ok(room)
}

fn set_options(shadow: BorrowedFd<'_>, connection: &Connection) -> Result<(), AdoptionError> {
    let scale = connection.window_scale.map(|(send, receive)| Negotiated::WindowScale { send, receive });
    let acknowledgement = connection.has_selective_acknowledgement.then_some(Negotiated::SelectiveAcknowledgement);
    let timestamps = connection.timestamp.map(|_| Negotiated::Timestamps);
    let segment = Negotiated::MaximumSegment { bytes: connection.maximum_segment_bytes };
    let all: Vec<Negotiated> = [Some(segment), scale, acknowledgement, timestamps].into_iter().flatten().collect();
    tcp_repair::set_negotiated(shadow, &all).asked("TCP_REPAIR_OPTIONS")?;
    match connection.timestamp {
        Some(timestamp) => tcp_repair::set_timestamp(shadow, timestamp.not_before()).asked("TCP_TIMESTAMP"),
        None => Ok(()),
    }
}

impl Timestamp {
    /// A value that the far end does not take for an older one (RFC 7323 section 5, PAWS). The lowest bit of what the kernel shows, and is
    /// given, says whether it counts microseconds, so what was sent may have been one more.
    const fn not_before(self) -> u32 {
        let later = self.value.wrapping_add(2);
        if self.is_in_microseconds { later | 1 } else { later & !1 }
    }
}
