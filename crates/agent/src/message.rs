//! What programs and the agent say to each other: one packet of a `SOCK_SEQPACKET` socket each.
//!
//! The layout is fixed and little-endian. A message begins with its kind (`u16`) and the number of the request (`u16`; 0 in events);
//! its fields follow without padding, a list or text behind its length (`u16`), an option behind a byte that is 0 or 1. A packet that
//! ends early, has bytes left over, or holds a value that a field cannot have is refused whole. Both directions of each
//! message come from one definition (`layout!`), so that they cannot differ.
//!
//! Descriptors travel beside a message (`SCM_RIGHTS`), at most [`DESCRIPTORS_MOST`].

mod layout;

use std::net::{IpAddr, SocketAddr};

use self::layout::{Field, Reader, layout};
pub use self::layout::{Malformed, Text};

/// The version of everything in this file. [`Request::Hello`] stays readable in all versions.
pub const VERSION: u16 = 13;
/// The longest message.
pub const MESSAGE_MOST_BYTES: usize = 32 * 1024;
/// The longest datagram that [`Request::GiveBack`] has room for.
pub const GIVE_BACK_MOST_BYTES: usize = MESSAGE_MOST_BYTES - 128;
/// As many descriptors as the kernel passes with one message (`SCM_MAX_FD`).
pub const DESCRIPTORS_MOST: usize = 253;
/// The longest description of a share.
pub const DESCRIPTION_MOST_BYTES: usize = 16 * 1024;

/// The name of a program, for people.
pub type ProgramName = Text<64>;
/// The name of an interface.
pub type InterfaceName = Text<15>;
/// What went wrong, for people.
pub type Words = Text<512>;

layout! {
    /// What a program asks.
    pub enum Request {
        /// The first message of a program. Who it is says the kernel (`SO_PEERCRED`), not this.
        1 => Hello {
            /// [`VERSION`] of the program.
            version: u16,
            /// Its name.
            name: ProgramName,
        },
        /// A share of the port on an interface. Answer: [`Answer::ShareOpened`] with the share's descriptors.
        2 => OpenShare {
            /// The interface, by name.
            interface: InterfaceName,
            /// Packet memory that the program wants, in bytes. The agent may give more or less, within the user's limit.
            memory_bytes: u64,
        },
        /// The program uses a share no more. Its flows end with it.
        3 => CloseShare {
            /// Which.
            share: u32,
        },
        /// A flow of a bound socket, whose descriptor, beside this message, is the right to it.
        4 => OpenFlow {
            /// The share that is to have its frames.
            share: u32,
            /// The local address, which must be one that the socket is bound to: of a socket that is bound to every address, one of this
            /// host's or a group. Without: all that the socket gets. Of a connected socket with SO_REUSEPORT, and without an address of
            /// any connected one, it is what comes from its peer.
            address: Option<IpAddr>,
        },
        /// Ends a flow: the kernel has its frames.
        5 => CloseFlow {
            /// Which.
            flow: u32,
        },
        /// Ends all flows of a share.
        6 => Forget {
            /// Which.
            share: u32,
        },
        /// The programs of the agent: all for root and the agent's user, the asker's user's for others.
        7 => Status {
            /// The first that is wanted: 0, then [`Answer::Programs`]' `next`.
            from: u32,
        },
        /// Gives a flow to another share of the program on the same interface: each frame goes to the one or the other.
        8 => MoveFlow {
            /// Which.
            flow: u32,
            /// To whom.
            share: u32,
        },
        /// Has the kernel get the frames of all flows of a share until [`Request::Resume`].
        9 => Pause {
            /// Which.
            share: u32,
        },
        /// Ends [`Request::Pause`].
        10 => Resume {
            /// Which.
            share: u32,
        },
        /// Ends all flows of a socket, whoever has them: the asker, who has the socket too, reads it by the kernel. Its descriptor is
        /// beside this message.
        11 => Release {},
        /// The agent stays at least as long as the asking process lives, also when that executes another program.
        12 => Attend {},
        /// Has frames of a share's port carry their times of arrival by the host's clock, of all programs: it costs each frame 20 to 50 ns.
        13 => WantTimes {
            /// Which.
            share: u32,
        },
        /// Says of a bound socket that its flow is opened when a call first uses it: until then those that are open at its address stay.
        /// Its descriptor is beside this message.
        14 => Announce {
            /// `false`: it is read by the kernel, whatever others announce. Flows that other programs have of it end.
            is_to_be_used: bool,
        },
        /// Says of a socket without a flow that it was connected, or is not any more. Where it is connected, bound flows at its port leave
        /// what its peer sends to the kernel. Its descriptor is beside this message.
        15 => ShowConnection {},
        /// Before [`Request::Hello`]: the pass that `nearwire run` gave the program. A process with it may use the agent, whatever user it is.
        16 => ShowPass {
            /// [`Answer::Pass`] of this agent.
            pass: u64,
        },
        /// Asks for the pass, which root and the agent's user get.
        17 => WantPass {},
        /// Sends a datagram that the program took from a share once more, to the socket it was for: another process reads it there. The
        /// socket's descriptor is beside this message.
        18 => GiveBack {
            /// Who sent it.
            source: SocketAddr,
            /// The address of this host that it was sent to, at the socket's port.
            address: IpAddr,
            /// IPv4's time to live or IPv6's hop limit.
            ttl: u8,
            /// IPv4's type of service or IPv6's traffic class.
            tos: u8,
            /// What was sent.
            payload: Vec<u8>,
        },
        /// The flow of an established TCP connection: its frames come to a share, for the program to carry its data. The connected socket, whose
        /// descriptor is beside this message, is the right to it. If it is closed while the flow is open, the far end is told that the
        /// connection is no more.
        19 => OpenConnection {
            /// The share that is to have its frames.
            share: u32,
        },
        /// Ends the flow of a connection: the kernel has its frames, and ends it in its time.
        20 => CloseConnection {
            /// Which.
            connection: u32,
        },
        /// Freezes a connection whose flow the program has (`TCP_REPAIR`), for a program that has no CAP_NET_ADMIN. Its descriptor is beside this message.
        21 => Freeze {},
        /// Thaws one that was frozen. Its descriptor is beside this message.
        22 => Thaw {
            /// Its far end is not asked what it has.
            is_silent: bool,
        },
        /// Sends a segment that the program took from a share to the connection it was for, which the kernel has again. Its descriptor is beside
        /// this message.
        23 => GiveSegment {
            /// IPv4's time to live or IPv6's hop limit.
            ttl: u8,
            /// IPv4's type of service or IPv6's traffic class.
            tos: u8,
            /// Header, options and payload.
            segment: Vec<u8>,
        },
        /// Gives a connection whose flow the program has a buffer beyond the host's limits, up to 32 MiB. Its descriptor is beside this message.
        24 => SetBuffer {
            /// The one of what is sent, else of what is received.
            is_send: bool,
            /// Half of its size, as with `SO_SNDBUF`.
            bytes: u32,
        },
        /// The program carries the data of an established TCP connection by a port of its own. The connected socket, whose descriptor is beside
        /// this message, is the right to it. If it is closed before [`Request::CloseConnection`], or the program ends, the far end is told that the
        /// connection is no more.
        25 => GuardConnection {},
        /// Asks whether frames of an established TCP connection come by the port of a share, while the kernel has them. The agent listens from the first time on that
        /// this is asked, until [`Request::OpenConnection`] or [`Request::CloseConnection`]. The connected socket, whose descriptor is beside this message, is the
        /// right to it.
        26 => HearConnection {
            /// The share.
            share: u32,
        },
        /// Binds a socket whose connection the program has to the address of that connection again, for a program that may not bind there any more.
        /// Its descriptor is beside this message.
        27 => BindConnection {
            /// The connection's address at this end, in the form of the socket's family.
            local: SocketAddr,
        },
        /// Connects such a socket to the far end of that connection, for a program that may not connect.
        28 => ConnectConnection {
            /// The far end's address, in the form of the socket's family.
            peer: SocketAddr,
        },
    }
}

layout! {
    /// What the agent answers and tells.
    pub enum Answer {
        /// To [`Request::Hello`].
        0x101 => Welcome {
            /// [`VERSION`] of the agent.
            version: u16,
        },
        /// To [`Request::OpenShare`]; the descriptors are beside it.
        0x102 => ShareOpened {
            /// Its number, for later requests.
            share: u32,
            /// Packet memory that it added to what the user has, in bytes.
            memory_bytes: u64,
            /// What the port is made of besides descriptors, for the port's code in the program.
            description: Vec<u8>,
            /// How long the link may still be away, because its driver set itself up anew when the port was opened. What is sent before it is back is lost, so
            /// the program waits for it.
            carrier_within_ms: u32,
        },
        /// To [`Request::OpenFlow`].
        0x103 => FlowOpened {
            /// Its number, for later requests.
            flow: u32,
            /// The addresses that the agent read from the socket.
            addresses: Addresses,
        },
        /// To [`Request::OpenConnection`] and [`Request::GuardConnection`].
        0x108 => ConnectionOpened {
            /// Its number, for [`Request::CloseConnection`].
            connection: u32,
        },
        /// To [`Request::HearConnection`].
        0x109 => ConnectionHeard {
            /// Its number, for [`Request::CloseConnection`].
            connection: u32,
            /// A frame of it came since the agent listens. `None`: it does not listen yet, as the port awakes.
            is_heard: Option<bool>,
        },
        /// To requests that nothing is to be told of but that they are done.
        0x104 => Done {},
        /// To [`Request::Status`].
        0x105 => Programs {
            /// Some of them.
            programs: Vec<ProgramStatus>,
            /// Where the others begin.
            next: Option<u32>,
        },
        /// To [`Request::WantPass`].
        0x107 => Pass {
            /// For [`Request::ShowPass`]; no other agent has it.
            pass: u64,
        },
        /// Instead of any other answer.
        0x106 => Refused {
            /// Why.
            cause: Cause,
        },
        /// Event: a share is not served any more, with all its flows; the kernel has their frames.
        0x201 => ShareRevoked {
            /// Which.
            share: u32,
            /// Why.
            cause: Cause,
        },
        /// Event: a flow is the kernel's.
        0x202 => FlowRevoked {
            /// Which.
            flow: u32,
            /// Why.
            cause: Cause,
        },
        /// Event: the other programs that used a socket are gone, and its flow may be opened again.
        0x203 => SocketAlone {
            /// The share that was to have its flow.
            share: u32,
            /// The socket (`SO_COOKIE`).
            cookie: u64,
        },
    }
}

impl Answer {
    /// Whether nobody asked for it.
    #[must_use]
    pub const fn is_event(&self) -> bool {
        matches!(self, Answer::ShareRevoked { .. } | Answer::FlowRevoked { .. } | Answer::SocketAlone { .. })
    }
}

layout! {
    /// What a limit counts.
    #[derive(Copy, Eq)]
    pub enum Limited {
        /// Programs of a user.
        1 => Programs {},
        /// Shares of a user.
        2 => Shares {},
        /// Flows of a user.
        3 => Flows {},
        /// Packet memory of a user, in bytes.
        4 => MemoryBytes {},
        /// Programs of all users.
        5 => AllPrograms {},
    }
}

layout! {
    /// Why the agent does not do something.
    #[derive(thiserror::Error)]
    pub enum Cause {
        /// The message is none of this version.
        #[error("the message is malformed: {words}")]
        1 => Malformed {
            /// What is wrong with it.
            words: Words,
        },
        /// Program and agent were installed at different times.
        #[error("the agent speaks version {agent} of the protocol, the program does not; end all programs, and the agent ends")]
        2 => WrongVersion {
            /// The agent's.
            agent: u16,
        },
        /// Something else came before [`Request::Hello`], or it came twice.
        #[error("the program has not said hello, or said it twice")]
        3 => NotGreeted {},
        /// The file of rights does not name the user or a group of his.
        #[error("user {uid} may not use the agent; root can allow it in the agent's file")]
        4 => UserNotAllowed {
            /// The user.
            uid: u32,
        },
        /// The rule of the user does not name the interface.
        #[error("user {uid} may not use interface {interface}; root can allow it in the agent's file")]
        5 => InterfaceNotAllowed {
            /// The user.
            uid: u32,
            /// The interface.
            interface: InterfaceName,
        },
        /// The file of rights cannot be used, so that only root and the agent's user are served.
        #[error("the agent's file of rights cannot be used: {words}")]
        6 => RightsUnknown {
            /// What is wrong with it.
            words: Words,
        },
        /// A limit is reached.
        #[error("the agent's limit is reached: {most} {what}")]
        7 => LimitReached {
            /// What it counts.
            what: Limited,
            /// The limit.
            most: u64,
        },
        /// The program has no such share.
        #[error("the program has no share {share}")]
        8 => NoSuchShare {
            /// What was asked.
            share: u32,
        },
        /// The program has no such flow.
        #[error("the program has no flow {flow}")]
        9 => NoSuchFlow {
            /// What was asked.
            flow: u32,
        },
        /// A request came with too many or too few descriptors.
        #[error("{found} descriptors came with a request that takes {wanted}")]
        10 => WrongDescriptors {
            /// How many came.
            found: u32,
            /// How many it takes.
            wanted: u32,
        },
        /// The descriptor is of no socket.
        #[error("the descriptor is of no socket")]
        11 => NotASocket {},
        /// The request is about sockets of another kind.
        #[error("the socket is of another kind than the request: domain {domain}, type {kind}, protocol {protocol}")]
        12 => WrongSocket {
            /// `SO_DOMAIN`.
            domain: u32,
            /// `SO_TYPE`.
            kind: u32,
            /// `SO_PROTOCOL`.
            protocol: u32,
        },
        /// The socket's namespace is not the agent's.
        #[error("the socket belongs to another network namespace")]
        13 => OtherNamespace {},
        /// The socket has no port.
        #[error("the socket is not bound")]
        14 => NotBound {},
        /// `SO_BINDTODEVICE` names another interface than the share's.
        #[error("the socket is bound to interface {ifindex}, which is not the share's")]
        16 => OtherInterface {
            /// Index of that interface.
            ifindex: u32,
        },
        /// Two programs use one socket: the kernel has its frames.
        #[error("process {pid} uses the same socket: it is the kernel's")]
        17 => SocketShared {
            /// The other program.
            pid: u32,
        },
        /// Two sockets have one address and are no group: the kernel has its frames.
        #[error("a socket of process {pid} is bound to the same address: it is the kernel's")]
        18 => AddressShared {
            /// The other program.
            pid: u32,
        },
        /// The program has this flow already.
        #[error("the socket's flow is open already, as flow {flow}")]
        19 => FlowOpenAlready {
            /// Which.
            flow: u32,
        },
        /// Programs of different users do not share packet memory or the rings of a queue.
        #[error("interface {interface} is used by programs of user {uid}")]
        20 => InterfaceOfOtherUser {
            /// The interface.
            interface: InterfaceName,
            /// Who has it.
            uid: u32,
        },
        /// The interface is gone, or was taken down.
        #[error("interface {interface} is gone")]
        21 => InterfaceGone {
            /// The interface.
            interface: InterfaceName,
        },
        /// The port could not be opened or changed.
        #[error("{words}")]
        22 => Port {
            /// What the port's code said.
            words: Words,
        },
        /// The kernel refused what the agent asked of a descriptor.
        #[error("the kernel refused to tell of the socket: error {errno}")]
        23 => SocketUnreadable {
            /// Its error number.
            errno: u32,
        },
        /// A flow of an address that the socket has no right to.
        #[error("the socket is not bound to {address}, or this host does not have that address")]
        24 => OtherAddress {
            /// The address.
            address: IpAddr,
        },
        /// A socket that no program of the agent has a flow of is bound to the same address, so that the kernel has the frames of all that are.
        #[error("a socket that is not accelerated is bound to the same address: it is the kernel's")]
        25 => Stranger {},
        /// The program has no such connection.
        #[error("the program has no connection {connection}")]
        27 => NoSuchConnection {
            /// What was asked.
            connection: u32,
        },
        /// The kernel changes the packets of a connection on their way, or would take them for others'.
        #[error("the kernel has to see the packets of the connection: {words}")]
        28 => PacketsChanged {
            /// Why.
            words: Words,
        },
        /// The agent could not bind the connection's socket again when it is given back.
        #[error("the agent has no CAP_NET_BIND_SERVICE, without which a connection of port {port} could not be given back")]
        29 => PortReserved {
            /// This end's.
            port: u16,
        },
        /// [`Request::GiveBack`] of what is not for the socket alone, or the kernel refuses it.
        #[error("the datagram was not given to the kernel: it is not for that socket alone, or the kernel refuses it")]
        26 => NotGivenBack {},
    }
}

impl std::fmt::Display for Limited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Limited::Programs {} => "programs of a user",
            Limited::Shares {} => "shares of a user",
            Limited::Flows {} => "flows of a user",
            Limited::MemoryBytes {} => "bytes of packet memory of a user",
            Limited::AllPrograms {} => "programs",
        })
    }
}

layout! {
    /// The ends of a flow.
    #[derive(Copy, Eq, Hash)]
    pub struct Addresses {
        /// Where its frames are sent to. The unspecified address means every one of its family.
        local: SocketAddr,
        /// Where they come from, in an exact flow.
        remote: Option<SocketAddr>,
        /// Whether IPv4 is meant too, where `local` is the unspecified address of IPv6.
        both_families: bool,
    }
}

layout! {
    /// A program of the agent.
    pub struct ProgramStatus {
        /// Its process, by the kernel's word; 0 where the agent cannot see it.
        pid: u32,
        /// Its user, by the kernel's word.
        uid: u32,
        /// Its name, by its own.
        name: ProgramName,
        /// Packet memory that its shares added, in bytes.
        memory_bytes: u64,
        /// Its shares.
        shares: Vec<ShareStatus>,
    }
}

layout! {
    /// A share of a program.
    pub struct ShareStatus {
        /// Its number.
        share: u32,
        /// The interface.
        interface: InterfaceName,
        /// How many flows it has.
        flows: u32,
    }
}

/// Writes a message. `number` is the request's.
fn write<T: Field>(message: &T, number: u16) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64);
    // The number's place is behind the kind, which the message writes first.
    message.put(&mut bytes);
    bytes.splice(2..2, number.to_le_bytes());
    bytes
}

/// Reads a message and its number.
fn read<T: Field>(bytes: &[u8]) -> Result<(T, u16), Malformed> {
    if bytes.len() > MESSAGE_MOST_BYTES {
        return Err(Malformed::TooLong { len_bytes: bytes.len() });
    }
    let (Some(kind), Some(number)) = (bytes.first_chunk::<2>(), bytes.get(2..4)) else {
        return Err(Malformed::Cut { at: bytes.len() });
    };
    let number = u16::from_le_bytes([number[0], number[1]]);
    let mut reader = Reader::new(kind, &bytes[4..]);
    let message = T::take(&mut reader)?;
    reader.end()?;
    Ok((message, number))
}

impl Cause {
    /// It is one socket that two programs use, so that what waits at it is the other one's too.
    #[must_use]
    pub const fn is_socket_shared(&self) -> bool {
        matches!(self, Cause::SocketShared { .. })
    }
}

impl Request {
    /// As bytes of a packet.
    #[must_use]
    pub fn to_bytes(&self, number: u16) -> Vec<u8> {
        write(self, number)
    }

    /// From bytes that anybody may have sent: the request and its number.
    ///
    /// # Errors
    /// They are no request of this version.
    pub fn from_bytes(bytes: &[u8]) -> Result<(Request, u16), Malformed> {
        read(bytes)
    }

    /// Whether its descriptor is to be of a TCP connection.
    #[must_use]
    pub const fn is_of_connection(&self) -> bool {
        matches!(
            self,
            Request::OpenConnection { .. }
                | Request::GuardConnection {}
                | Request::HearConnection { .. }
                | Request::Freeze {}
                | Request::Thaw { .. }
                | Request::GiveSegment { .. }
                | Request::SetBuffer { .. }
                | Request::BindConnection { .. }
                | Request::ConnectConnection { .. }
        )
    }

    /// How many descriptors travel beside it.
    #[must_use]
    pub const fn descriptors(&self) -> usize {
        matches!(
            self,
            Request::OpenFlow { .. }
                | Request::Release {}
                | Request::Announce { .. }
                | Request::ShowConnection {}
                | Request::GiveBack { .. }
                | Request::OpenConnection { .. }
                | Request::GuardConnection {}
                | Request::HearConnection { .. }
                | Request::Freeze {}
                | Request::Thaw { .. }
                | Request::GiveSegment { .. }
                | Request::SetBuffer { .. }
                | Request::BindConnection { .. }
                | Request::ConnectConnection { .. }
        ) as usize
    }
}

impl Answer {
    /// As bytes of a packet.
    #[must_use]
    pub fn to_bytes(&self, number: u16) -> Vec<u8> {
        write(self, number)
    }

    /// From bytes that anybody may have sent: the answer and the number of its request.
    ///
    /// # Errors
    /// They are no answer of this version.
    pub fn from_bytes(bytes: &[u8]) -> Result<(Answer, u16), Malformed> {
        read(bytes)
    }
}

#[cfg(test)]
mod tests;
