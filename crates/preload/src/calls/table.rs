//! What becomes of each C function, flag and option. `tests/calls.rs` makes `docs/calls.md` of these tables, and compares them with
//! the symbols of the built library.

use libc::c_int;

/// Who handles a call on a UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// The library does it, and asks the kernel where it cannot.
    Accelerated,
    /// The kernel does it, and the library follows what came of it.
    Followed,
    /// The kernel does it on the kernel socket; the library has no part in it.
    Kernel,
}

impl Served {
    /// The word in the document.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Accelerated => "accelerated",
            Self::Followed => "followed",
            Self::Kernel => "kernel",
        }
    }

    /// Whether the library has a symbol of its own for such a call.
    #[must_use]
    pub const fn is_exported(self) -> bool {
        matches!(self, Self::Accelerated | Self::Followed)
    }
}

/// Functions of one kind: names, and a remark.
pub type Calls = (Served, &'static [&'static str], &'static str);

use Served::{Accelerated, Followed, Kernel};

/// All functions that concern UDP sockets.
pub const CALLS: &[Calls] = &[
    (Followed, &["socket"], "UDP over IPv4 and IPv6; all other sockets are the kernel's"),
    (
        Followed,
        &["bind"],
        "if the program chooses a port, this decides who serves the socket, or its first use does (`kernel_first`)",
    ),
    (Followed, &["connect"], "decides it for a client; may be connected and disconnected any number of times"),
    (Followed, &["shutdown"], "the kernel serves the socket from then on"),
    (Followed, &["close", "close_range", "closefrom"], "fds of the library are left open"),
    (Followed, &["dup", "dup2", "dup3"], "all fds of a socket name it"),
    (Followed, &["setsockopt"], "what the kernel accepted is read back; options are listed below"),
    (Followed, &["fcntl", "fcntl64"], "`F_SETFL`, `F_DUPFD` and `F_DUPFD_CLOEXEC`"),
    (Accelerated, &["ioctl"], "`FIONREAD`; `FIONBIO` is followed, others are the kernel's"),
    (
        Accelerated,
        &["send", "sendto", "sendmsg", "sendmmsg", "write", "writev", "pwritev2", "pwritev64v2"],
        "flags are listed below",
    ),
    (
        Accelerated,
        &["recv", "recvfrom", "recvmsg", "recvmmsg", "read", "readv", "preadv2", "preadv64v2"],
        "flags are listed below",
    ),
    (
        Accelerated,
        &["__recv_chk", "__recvfrom_chk", "__read_chk"],
        "the same, for programs built with `_FORTIFY_SOURCE`",
    ),
    (Accelerated, &["poll", "ppoll", "select", "pselect", "__poll_chk", "__ppoll_chk"], "with any other fds beside"),
    (Followed, &["epoll_create", "epoll_create1"], "sets of sets too"),
    (Accelerated, &["epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2"], "with any other fds in the set"),
    (
        Followed,
        &["sigaction", "__sigaction", "signal", "bsd_signal", "ssignal", "sysv_signal", "__sysv_signal"],
        "so that a call that spins ends with `EINTR` where it would in the kernel, and handlers run between calls",
    ),
    (Followed, &["siginterrupt", "sigset"], "as above"),
    (
        Followed,
        &["pthread_create"],
        "what the first UDP socket needs from the kernel is requested before there are threads",
    ),
    (Followed, &["pthread_cancel"], "a thread in a call of the library is cancelled when the call is over"),
    (Kernel, &["pthread_testcancel", "pthread_setcancelstate"], "the C library's, as always"),
    (Kernel, &["getsockname", "getpeername", "sockatmark", "isfdtype"], "answered by the kernel socket"),
    (
        Followed,
        &["getsockopt"],
        "answered by the kernel socket; `SO_ERROR` also has errors that earlier calls could not report",
    ),
    (
        Followed,
        &["fdopen"],
        "the kernel serves the socket from then on: the C library reads and writes by calls that are not seen",
    ),
    (Followed, &["splice"], "out of a socket: the kernel serves it from then on; into one: sent by the kernel"),
    (Kernel, &["socketpair", "pipe", "pipe2"], "not for UDP sockets"),
    (Followed, &["listen", "accept", "accept4"], "for TCP connections alone, unless `adopt` is `never`"),
    (
        Kernel,
        &["fork"],
        "followed by `pthread_atfork`: the child sends by the kernel, and a socket that it reads is the kernel's",
    ),
    (Followed, &["daemon"], "as fork; the process that goes on accelerates its sockets anew"),
    (
        Followed,
        &["execl", "execle", "execlp", "execv", "execve", "execvp", "execvpe", "fexecve"],
        "sockets without `FD_CLOEXEC` are the kernel's from then on",
    ),
    (Followed, &["prctl"], "a program with a seccomp filter gets no thread of the library any more"),
    (Followed, &["chroot"], "the configuration is read first"),
    (Followed, &["_exit", "_Exit"], "datagrams that `send_coalescing` holds are sent first"),
    (Followed, &["posix_spawn_file_actions_adddup2"], "a socket given to the new program is the kernel's from then on"),
    (
        Kernel,
        &["posix_spawn", "posix_spawnp"],
        "other sockets that stay open in the new program are read there by the kernel",
    ),
    (Followed, &["sendfile", "sendfile64"], "data for a socket is sent by the kernel"),
    (Kernel, &["tee", "vmsplice"], "not for sockets"),
    (Accelerated, &["syscall"], "the calls of this list by number; all others are passed on"),
];

/// What becomes of an adopted TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// The stack carries it.
    Carried,
    /// The kernel has it, until some calls more have sent or received.
    Released,
    /// The kernel has it for good.
    Left,
}

impl Connection {
    /// The words in the document.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Carried => "carried",
            Self::Released => "released, and adopted again later",
            Self::Left => "the kernel's for good",
        }
    }
}

/// What is done with an adopted TCP connection, or happens to it, and what becomes of it.
pub const CONNECTIONS: &[(&str, Connection)] = &[
    (
        "`send`, `sendto`, `write`, `writev`, `pwritev2` at no place, `sendmsg` without control messages, with no flags but `MSG_DONTWAIT`, `MSG_NOSIGNAL`, `MSG_MORE` and `MSG_EOR`",
        Connection::Carried,
    ),
    (
        "`recv`, `recvfrom`, `read`, `readv`, `preadv2` at no place, `recvmsg`, with no flags but `MSG_DONTWAIT`, `MSG_PEEK`, `MSG_NOSIGNAL`, `MSG_CMSG_CLOEXEC`, `MSG_TRUNC` and `MSG_WAITALL` (not with `MSG_PEEK`)",
        Connection::Carried,
    ),
    ("`poll`, `select`, `epoll_ctl`, `epoll_wait` and their kin", Connection::Carried),
    (
        "`fcntl` with `F_GETFL`, `F_SETFL`, `F_GETFD` or `F_SETFD`; `getsockname`, `getpeername`; `ioctl` with `FIONBIO`, `FIONREAD`, `SIOCOUTQ`, `SIOCOUTQNSD`, `FIOCLEX` or `FIONCLEX`",
        Connection::Carried,
    ),
    (
        "`getsockopt` of a level other than `IPPROTO_TCP`, and of that with `TCP_INFO` (what the stack knows, in place of what the kernel does), `TCP_MAXSEG`, `TCP_NODELAY`, `TCP_CORK`, `TCP_QUICKACK`, `TCP_CONGESTION`, `TCP_NOTSENT_LOWAT`, `TCP_USER_TIMEOUT`, and what is about keepalives",
        Connection::Carried,
    ),
    (
        "`setsockopt` with `SO_RCVTIMEO`, `SO_SNDTIMEO`, `SO_RCVLOWAT`, `SO_LINGER`, `SO_PRIORITY`, `SO_SNDBUF`, `SO_RCVBUF`, `TCP_NODELAY`, `TCP_CORK`, `TCP_QUICKACK`, `TCP_KEEPIDLE`, `TCP_KEEPINTVL`, `TCP_KEEPCNT`, `TCP_NOTSENT_LOWAT`, `TCP_USER_TIMEOUT`, `IP_TOS`, `IP_TTL`, `IPV6_TCLASS` or `IPV6_UNICAST_HOPS`",
        Connection::Carried,
    ),
    ("`sendfile` of up to 64 KiB of a regular file", Connection::Carried),
    (
        "`setsockopt` with an option that says nothing of an established connection (`TCP_SYNCNT`, `SO_REUSEPORT`, `SO_BUSY_POLL` and the like), or `TCP_CONGESTION` with `cubic` or `reno`; any other `getsockopt` of level `IPPROTO_TCP`; `connect`; a longer `sendfile`",
        Connection::Released,
    ),
    (
        "one of these is set: `TCP_ULP`, `TCP_INQ`, `SO_OOBINLINE`, `SO_ZEROCOPY`, `SO_TIMESTAMP` and its kin, `SO_MARK`, `SO_MAX_PACING_RATE`, `SO_BINDTODEVICE`, `SO_ATTACH_FILTER`, `SO_ATTACH_BPF`, `IP_MINTTL`, `IPV6_MINHOPCOUNT`, `IP_TRANSPARENT`, `IP_MTU_DISCOVER` other than `IP_PMTUDISC_WANT`, `IP_OPTIONS`, headers of IPv6",
        Connection::Left,
    ),
    (
        "any other `setsockopt`, such as `TCP_MD5SIG`, `TCP_WINDOW_CLAMP`, or `TCP_CONGESTION` with another name; of a listener, what it accepts",
        Connection::Left,
    ),
    ("the interface goes down, its port is lost, or the agent ends", Connection::Released),
    (
        "its way changes to one that only the kernel follows, or its next hop's hardware address is missing",
        Connection::Released,
    ),
    ("nothing of it comes to its interface's port", Connection::Released),
    (
        "its addresses are translated (NAT, BPF programs), a policy of IPsec is for it, or it cannot be kept from connection tracking that firewalls go by",
        Connection::Left,
    ),
    (
        "segments longer than any path takes are not acknowledged, also when they are sent again: a router may not let them pass, which the kernel finds out",
        Connection::Released,
    ),
    (
        "before Linux 6.6, a segment comes that is longer than a buffer of the port, as a sender on this machine left it to a device to cut, or the kernel joined it",
        Connection::Released,
    ),
    ("it moves much at once, as long as that is so (`auto` only: see [Bulk](run.md#tcp))", Connection::Released),
    ("the far end sends a FIN, a reset, or urgent data", Connection::Left),
    (
        "the far end does not answer for so long that the connection is given up, and a call has said so",
        Connection::Left,
    ),
    ("`shutdown`, `close`, and the end of the process", Connection::Left),
    ("any other `ioctl`; `epoll_ctl` of a set that another process made", Connection::Left),
    ("`fork`, as long as the child uses its copy for nothing but `close`", Connection::Carried),
    (
        "`fork`, and the child uses its copy while the parent has not closed its own; `daemon`; a second `fork` while a child lives, in the children",
        Connection::Left,
    ),
    (
        "`dup` and its kin, `fcntl` with any other command, `exec` that keeps it open, `posix_spawn` with the fd, `SCM_RIGHTS`",
        Connection::Left,
    ),
    (
        "`sendfile` of anything else, `splice`, `fdopen`, `sendmmsg`, `recvmmsg`, any other flag, control messages, a receive of no bytes",
        Connection::Left,
    ),
    ("io_uring", Connection::Left),
];

/// A flag, its C name, and what it does here.
pub type Flag = (c_int, &'static str, &'static str);

/// Flags of send(2) that change nothing here; with any other the kernel is asked.
pub const SEND_FLAGS: &[Flag] = &[
    (libc::MSG_DONTWAIT, "MSG_DONTWAIT", "a datagram never waits for room"),
    (libc::MSG_NOSIGNAL, "MSG_NOSIGNAL", "there is no SIGPIPE"),
    (libc::MSG_CONFIRM, "MSG_CONFIRM", "neighbours are confirmed anyway"),
];

/// Flags of recv(2) with which the kernel answers, at once. Of all others only MSG_PEEK, MSG_TRUNC and MSG_DONTWAIT mean
/// something to a datagram socket; also those that no one has defined are let pass, as by the kernel.
pub const RECEIVE_FLAGS_OF_KERNEL: &[Flag] = &[
    (libc::MSG_ERRQUEUE, "MSG_ERRQUEUE", "errors are the shadow's"),
    (c_int::MIN, "MSG_CMSG_COMPAT", "recvmsg(2) refuses it"),
];

/// All flags of a table together.
#[must_use]
pub const fn together(flags: &[Flag]) -> c_int {
    let (mut all, mut at) = (0, 0);
    while at < flags.len() {
        all |= flags[at].0;
        at += 1;
    }
    all
}

/// An option: level, number, C name.
pub type SocketOption = (c_int, c_int, &'static str);

const MCAST_MSFILTER: c_int = 48;
const IP_MSFILTER: c_int = 41;
/// Of linux/in6.h.
const IPV6_2292PKTOPTIONS: c_int = 6;
const IPV6_FLOWLABEL_MGR: c_int = 32;
const IPV6_RTHDRDSTOPTS: c_int = 55;
const IPV6_AUTOFLOWLABEL: c_int = 70;
const IPV6_ADDR_PREFERENCES: c_int = 72;
/// Of asm-generic/socket.h: what they tell has another type than by the options that all 64-bit programs have used so far.
const SO_TIMESTAMP_NEW: c_int = 63;
const SO_TIMESTAMPNS_NEW: c_int = 64;
const SO_TIMESTAMPING_NEW: c_int = 65;

/// Options that cannot be read back, and make a socket the kernel's when they are set, as all do that `kept::is_known` does not name: for the
/// document.
pub const ENDING_OPTIONS: &[SocketOption] = &[
    (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, "SO_ATTACH_FILTER"),
    (libc::SOL_SOCKET, libc::SO_ATTACH_BPF, "SO_ATTACH_BPF"),
    (libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, "SO_ATTACH_REUSEPORT_CBPF"),
    (libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_EBPF, "SO_ATTACH_REUSEPORT_EBPF"),
    (libc::SOL_SOCKET, SO_TIMESTAMP_NEW, "SO_TIMESTAMP_NEW"),
    (libc::SOL_SOCKET, SO_TIMESTAMPNS_NEW, "SO_TIMESTAMPNS_NEW"),
    (libc::SOL_SOCKET, SO_TIMESTAMPING_NEW, "SO_TIMESTAMPING_NEW"),
    (libc::IPPROTO_IP, libc::IP_OPTIONS, "IP_OPTIONS"),
    (libc::IPPROTO_IP, libc::IP_XFRM_POLICY, "IP_XFRM_POLICY"),
    (libc::IPPROTO_IP, libc::IP_IPSEC_POLICY, "IP_IPSEC_POLICY"),
    (libc::IPPROTO_IP, IP_MSFILTER, "IP_MSFILTER"),
    (libc::IPPROTO_IP, MCAST_MSFILTER, "MCAST_MSFILTER"),
    (libc::IPPROTO_IPV6, MCAST_MSFILTER, "MCAST_MSFILTER (IPv6)"),
    (libc::IPPROTO_IPV6, libc::IPV6_ADDRFORM, "IPV6_ADDRFORM"),
    (libc::IPPROTO_IPV6, IPV6_FLOWLABEL_MGR, "IPV6_FLOWLABEL_MGR"),
    (libc::IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, "IPV6_AUTOFLOWLABEL"),
    (libc::IPPROTO_IPV6, IPV6_ADDR_PREFERENCES, "IPV6_ADDR_PREFERENCES"),
    (libc::IPPROTO_IPV6, IPV6_RTHDRDSTOPTS, "IPV6_RTHDRDSTOPTS"),
    (libc::IPPROTO_IPV6, IPV6_2292PKTOPTIONS, "IPV6_2292PKTOPTIONS"),
    (libc::IPPROTO_IPV6, libc::IPV6_RTHDR, "IPV6_RTHDR"),
    (libc::IPPROTO_IPV6, libc::IPV6_HOPOPTS, "IPV6_HOPOPTS"),
    (libc::IPPROTO_IPV6, libc::IPV6_DSTOPTS, "IPV6_DSTOPTS"),
    (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, "IPV6_PKTINFO"),
];

/// Whether an option attaches a program that sees each datagram.
#[must_use]
pub const fn is_filter(level: c_int, option: c_int) -> bool {
    level == libc::SOL_SOCKET
        && matches!(
            option,
            libc::SO_ATTACH_FILTER
                | libc::SO_ATTACH_BPF
                | libc::SO_ATTACH_REUSEPORT_CBPF
                | libc::SO_ATTACH_REUSEPORT_EBPF
        )
}
