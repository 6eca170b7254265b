//! Why a port could not be opened or used: one variant a cause, each with what was tried, on what, what the kernel
//! said and what to do.

use std::io;

use crate::ports::memif::MemifError;
use crate::steering::FilterError;
use crate::xdp::AttachMode;

/// Why a port could not be opened or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// No such interface in the network namespace of the calling thread.
    #[error("open {interface}: no such interface in this network namespace; `ip link` lists them")]
    NoSuchInterface {
        /// The name asked for.
        interface: String,
    },
    /// The interface is administratively down.
    #[error("open {interface}: the interface is down; bring it up with `ip link set {interface} up`")]
    InterfaceDown {
        /// The interface.
        interface: String,
    },
    /// The interface has no such queue.
    #[error(
        "open {interface} queue {queue}: it has {available_queues} queue(s), numbered from 0; take a lower one or add \
         queues (`ethtool -L {interface}`, for veth numrxqueues and numtxqueues of `ip link add`)"
    )]
    QueueOutOfRange {
        /// The interface.
        interface: String,
        /// The queue asked for.
        queue: u32,
        /// How many the interface has.
        available_queues: u32,
    },
    /// The interface already carries an XDP program, which stays.
    #[error(
        "attach an XDP program to {interface}: program id {program_id} is attached in {mode} mode and stays; detach it \
         with whatever attached it, or `ip link set {interface} xdp off`"
    )]
    ProgramPresent {
        /// The interface.
        interface: String,
        /// The kernel's id of the program found; 0 when it came between the look and the attempt.
        program_id: u32,
        /// The mode it is attached in, in the kernel's words.
        mode: &'static str,
    },
    /// Another AF_XDP socket is bound to the queue.
    #[error("bind {interface} queue {queue} in {mode}: EBUSY; another AF_XDP socket has the queue; take another queue")]
    QueueBusy {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u32,
        /// The mode asked for.
        mode: &'static str,
    },
    /// The driver cannot do what the mode needs.
    #[error("bind {interface} queue {queue} in {mode}: {source}; driver {driver} has no {mode}; use {instead}")]
    ModeUnsupported {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u32,
        /// The mode asked for.
        mode: &'static str,
        /// The interface's driver.
        driver: String,
        /// What to use.
        instead: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The driver refused a native program.
    #[error(
        "attach an XDP program to {interface} in {mode} mode: {source}; driver {driver} refuses it at MTU {mtu_bytes} (many take \
             programs only while a frame fits one page, about 3500 bytes; others for want of queues, or not at all); use \
             generic mode, or a smaller MTU"
    )]
    AttachRefused {
        /// The interface.
        interface: String,
        /// The mode asked for.
        mode: AttachMode,
        /// The interface's driver.
        driver: String,
        /// The interface's MTU.
        mtu_bytes: u32,
        /// What the kernel said.
        source: io::Error,
    },
    /// Packet memory could not be locked.
    #[error(
        "register {wanted_bytes} bytes of packet memory for {interface}: {source}; the limit RLIMIT_MEMLOCK is \
             {limit_bytes} bytes for processes without CAP_IPC_LOCK; raise it (`ulimit -l`) or use fewer frames"
    )]
    MemoryLimit {
        /// The interface.
        interface: String,
        /// What was to be registered.
        wanted_bytes: u64,
        /// The limit in force.
        limit_bytes: u64,
        /// What the kernel said.
        source: io::Error,
    },
    /// A capability is missing.
    #[error("{tried} on {interface}: {source}; needs {capability}; run as root or grant it")]
    Privilege {
        /// What was tried.
        tried: &'static str,
        /// The interface.
        interface: String,
        /// What is needed.
        capability: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel did not take our XDP program.
    #[error("steer frames of {interface}: {source}")]
    ProgramRejected {
        /// The interface.
        interface: String,
        /// What the kernel and its verifier said.
        source: Box<nearwire_sys::bpf::LoadError>,
    },
    /// The configuration contradicts itself.
    #[error("configure the port on {interface}: {setting} is {found}; wanted: {wanted}")]
    Config {
        /// The interface.
        interface: String,
        /// Which setting.
        setting: &'static str,
        /// Its value.
        found: u64,
        /// What it may be.
        wanted: &'static str,
    },
    /// A frame that does not fit.
    #[error(
        "send a frame of {found_bytes} bytes on {interface}: the port carries {least_bytes} to {most_bytes} bytes without \
             FCS; send a frame within that; a larger MTU carries more, by AF_XDP before Linux 6.6 up to one buffer of 3840 bytes"
    )]
    FrameLength {
        /// The interface.
        interface: String,
        /// Length asked for.
        found_bytes: usize,
        /// Shortest the port carries.
        least_bytes: usize,
        /// Longest the port carries.
        most_bytes: usize,
    },
    /// All slots for resident frames are taken.
    #[error("prepare a frame on {interface}: all {slots} resident slots are in use; open the port with more")]
    NoPreparedSlot {
        /// The interface.
        interface: String,
        /// How many there are.
        slots: u32,
    },
    /// A [`crate::port::PreparedFrame`] of another port.
    #[error("send prepared frame {slot} on {interface}: this port has {slots} prepared; use the port that made it")]
    UnknownPreparedFrame {
        /// The interface.
        interface: String,
        /// The slot named.
        slot: u32,
        /// How many this port has prepared.
        slots: u32,
    },
    /// There are as many shares as can be.
    #[error(
        "share the queues of {interface}: {most} ports share them, which is as many as it was opened for; open it with more `shares`, or take a share back"
    )]
    NoShareLeft {
        /// The interface.
        interface: String,
        /// How many there can be, with the first.
        most: u32,
    },
    /// A filter that cannot be added or removed.
    #[error("steer frames of {interface}: {source}")]
    Filter {
        /// The interface.
        interface: String,
        /// Why not.
        source: FilterError,
    },
    /// A call that the one before it, or what the port is, does not allow.
    #[error("{call} on {interface}: {found}; {instead}")]
    OutOfTurn {
        /// What was called.
        call: &'static str,
        /// The interface.
        interface: String,
        /// What is in the way.
        found: &'static str,
        /// What to call first.
        instead: &'static str,
    },
    /// The interface went away, or went down, while the port was in use.
    #[error("use {interface}: {source}; the interface went down or was removed while in use; open the port again")]
    InterfaceGone {
        /// The interface.
        interface: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The program that hands frames over is on the interface no more.
    #[error(
        "receive on {interface}: XDP program {program_id}, which hands frames to this port, was detached or replaced by \
             somebody else; end whoever did (`bpftool net` shows programs), and open the port again"
    )]
    ProgramDetached {
        /// The interface.
        interface: String,
        /// The kernel's id of the program that was attached.
        program_id: u32,
    },
    /// The process that has the port (`nearwire agent`) gives no share of it.
    #[error("get a share of {interface} from the agent: {words}")]
    ShareRefused {
        /// The interface.
        interface: String,
        /// Why, in the agent's words.
        words: String,
    },
    /// Other sockets are bound to the flow too, or another program has the same socket.
    #[error("get a flow of {interface} from the agent: {words}")]
    FlowShared {
        /// The interface.
        interface: String,
        /// Who, in the agent's words.
        words: String,
        /// It is the socket.
        is_socket_shared: bool,
    },
    /// The kernel changes a connection's packets on their way, or has to see them.
    #[error("take a TCP connection on {interface}: {words}")]
    PacketsChanged {
        /// The interface.
        interface: String,
        /// Why, in the agent's words.
        words: String,
    },
    /// Connections of TCP are taken where an agent outlives the program.
    #[error(
        "take a TCP connection on {interface}: no agent has the port, which would end the connection when the program dies"
    )]
    NoConnections {
        /// The interface.
        interface: String,
    },
    /// The process that has the port of which this one is a share ended, or does not answer.
    #[error("use a share of {interface}: the agent that has the port ended or does not answer")]
    HolderGone {
        /// The interface.
        interface: String,
    },
    /// Attaching the program reset the device, and its link did not come back.
    #[error(
        "open {interface}: the link was there, went down when the XDP program was attached in {mode}, and did not come back \
             within {waited_ms} ms; look at the cable and the other end, or use generic mode, which resets nothing"
    )]
    NoCarrier {
        /// The interface.
        interface: String,
        /// The mode asked for.
        mode: &'static str,
        /// How long it was waited for.
        waited_ms: u64,
    },
    /// A memif connection could not be made, or the peer broke its protocol.
    #[error("use memif at {socket}: {source}")]
    Memif {
        /// Where the two ends meet.
        socket: String,
        /// Why not.
        source: MemifError,
    },
    /// The other end of an in-memory pair was dropped, or that of a memif connection closed.
    #[error(
        "use a port of a pair: its other end was closed, or its process ended; keep both ends for as long as one is used"
    )]
    PeerGone,
    /// Any other refusal of the kernel.
    #[error("{tried} on {interface}: {source}")]
    Kernel {
        /// What was tried.
        tried: &'static str,
        /// The interface.
        interface: String,
        /// What the kernel said.
        source: io::Error,
    },
}

impl PortError {
    /// A refused step of opening a port: names the capability when that is what was missing.
    pub(crate) fn refused(tried: &'static str, interface: &str, source: impl Into<io::Error>) -> PortError {
        let (interface, source) = (interface.to_owned(), source.into());
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                let capability = "CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF and CAP_PERFMON";
                PortError::Privilege { tried, interface, capability, source }
            }
            Some(libc::ENODEV | libc::ENXIO) => PortError::NoSuchInterface { interface },
            Some(libc::ENETDOWN) => PortError::InterfaceDown { interface },
            _ => PortError::Kernel { tried, interface, source },
        }
    }
}
