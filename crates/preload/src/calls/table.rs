//! What becomes of each C function, flag and option: `docs/calls.md` is made of these tables, and a test holds them against
//! the symbols of the built library.

use std::fmt::Write;

use libc::c_int;

/// What the library does of a call on a UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// The library does it, and asks the kernel where it cannot.
    Accelerated,
    /// The kernel does it, and the library follows what came of it.
    Followed,
    /// The kernel does it on the socket behind; the library has no part in it.
    Kernel,
}

impl Served {
    const fn words(self) -> &'static str {
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
    (Followed, &["bind"], "a port of the program's choice decides who serves the socket"),
    (Followed, &["connect"], "decides it for a client; connected and disconnected as often as the program likes"),
    (Followed, &["shutdown"], "the kernel serves the socket from then on"),
    (Followed, &["close", "close_range", "closefrom"], "the library's own descriptors are left open"),
    (Followed, &["dup", "dup2", "dup3"], "all numbers of a socket stand for it"),
    (Followed, &["setsockopt"], "what the kernel accepted is read back; options are listed below"),
    (Followed, &["fcntl", "fcntl64"], "`F_SETFL`, `F_DUPFD` and `F_DUPFD_CLOEXEC`"),
    (Accelerated, &["ioctl"], "`FIONREAD`; `FIONBIO` is followed, others are the kernel's"),
    (Accelerated, &["send", "sendto", "sendmsg", "sendmmsg", "write", "writev"], "flags are listed below"),
    (
        Accelerated,
        &["recv", "recvfrom", "recvmsg", "recvmmsg", "read", "readv", "preadv2", "preadv64v2"],
        "flags are listed below",
    ),
    (
        Accelerated,
        &["__recv_chk", "__recvfrom_chk", "__read_chk"],
        "the same, of programs built with `_FORTIFY_SOURCE`",
    ),
    (
        Accelerated,
        &["poll", "ppoll", "select", "pselect", "__poll_chk", "__ppoll_chk"],
        "with any other descriptors beside",
    ),
    (Followed, &["epoll_create", "epoll_create1"], "sets of sets too"),
    (Accelerated, &["epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2"], "with any other descriptors in the set"),
    (
        Followed,
        &["sigaction", "__sigaction", "signal", "bsd_signal", "ssignal", "sysv_signal", "__sysv_signal"],
        "so that a call that spins ends with `EINTR` where it would in the kernel, and handlers run between calls",
    ),
    (Followed, &["siginterrupt", "sigset"], "as above"),
    (
        Followed,
        &["pthread_create"],
        "what the first UDP socket needs of the kernel is asked for before there are threads",
    ),
    (Followed, &["pthread_cancel"], "a thread in a call of the library is cancelled when it has left that"),
    (Kernel, &["pthread_testcancel", "pthread_setcancelstate"], "the C library's, as always"),
    (Kernel, &["getsockname", "getpeername", "sockatmark", "isfdtype"], "the socket behind has the answer"),
    (
        Followed,
        &["getsockopt"],
        "the socket behind has the answer; `SO_ERROR` also of calls that could not tell theirs",
    ),
    (
        Followed,
        &["fdopen"],
        "the kernel serves the socket from then on: the C library reads and writes behind our back",
    ),
    (Followed, &["splice"], "out of a socket: the kernel serves it from then on; into one: sent by the kernel"),
    (Kernel, &["listen", "accept", "accept4", "socketpair", "pipe", "pipe2"], "not for UDP sockets"),
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
    (Followed, &["chroot"], "the configuration is read before"),
    (Followed, &["_exit", "_Exit"], "what `send_coalescing` holds back is sent first"),
    (Followed, &["posix_spawn_file_actions_adddup2"], "a socket given to the new program is the kernel's from then on"),
    (
        Kernel,
        &["posix_spawn", "posix_spawnp"],
        "other sockets that stay open in the new program are read there by the kernel",
    ),
    (Kernel, &["sendfile", "sendfile64", "tee", "vmsplice"], "what goes into a socket is sent by the kernel"),
    (Accelerated, &["syscall"], "the calls of this list by number; all others pass"),
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

/// Options that cannot be read back, and make a socket the kernel's when they are set.
pub const ENDING_OPTIONS: &[SocketOption] = &[
    (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, "SO_ATTACH_FILTER"),
    (libc::SOL_SOCKET, libc::SO_ATTACH_BPF, "SO_ATTACH_BPF"),
    (libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, "SO_ATTACH_REUSEPORT_CBPF"),
    (libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_EBPF, "SO_ATTACH_REUSEPORT_EBPF"),
    (libc::IPPROTO_IP, libc::IP_OPTIONS, "IP_OPTIONS"),
    (libc::IPPROTO_IP, libc::IP_XFRM_POLICY, "IP_XFRM_POLICY"),
    (libc::IPPROTO_IP, libc::IP_IPSEC_POLICY, "IP_IPSEC_POLICY"),
    (libc::IPPROTO_IP, IP_MSFILTER, "IP_MSFILTER"),
    (libc::IPPROTO_IP, MCAST_MSFILTER, "MCAST_MSFILTER"),
    (libc::IPPROTO_IPV6, MCAST_MSFILTER, "MCAST_MSFILTER (IPv6)"),
    (libc::IPPROTO_IPV6, libc::IPV6_ADDRFORM, "IPV6_ADDRFORM"),
    (libc::IPPROTO_IPV6, libc::IPV6_RTHDR, "IPV6_RTHDR"),
    (libc::IPPROTO_IPV6, libc::IPV6_HOPOPTS, "IPV6_HOPOPTS"),
    (libc::IPPROTO_IPV6, libc::IPV6_DSTOPTS, "IPV6_DSTOPTS"),
    (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, "IPV6_PKTINFO"),
];

/// Whether setting an option makes a socket the kernel's, whatever the value.
#[must_use]
pub fn is_ending(level: c_int, option: c_int) -> bool {
    ENDING_OPTIONS.iter().any(|(of, number, _)| (*of, *number) == (level, option))
}

const HEAD: &str = "# Calls of a program that runs past the kernel

What becomes of each function of the C library when a program runs under `nearwire run`. This file is generated from
`crates/preload/src/calls/table.rs`; `NEARWIRE_WRITE_DOCS=1 cargo test -p nearwire-preload --test calls` writes it again.

*Accelerated* calls are answered by the library, and by the kernel where the library cannot. *Followed* calls are made as
always, on the kernel's socket that stands behind every accelerated one, and the library follows what came of them; the errors are
the kernel's. *Kernel* calls are not intercepted and need not be. All of it concerns UDP sockets over IPv4 and IPv6 alone;
nothing else of the program is touched.

*Not supported*: system calls that do not pass the C library (Go programs, instructions of the program's own) find the
kernel's socket, and not the datagrams that came past the kernel.

| function | | remark |
|---|---|---|
";

/// The document.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from(HEAD);
    for (served, names, remark) in CALLS {
        for name in *names {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "| `{name}` | {} | {remark} |", served.words());
        }
    }
    let tables = [
        ("sending", SEND_FLAGS, "With any other flag the kernel does the call."),
        ("receiving", RECEIVE_FLAGS_OF_KERNEL, "With one of these the kernel does the call; all others are served."),
    ];
    for (title, flags, remark) in tables {
        let _ = write!(text, "\n## Flags of {title}\n\n{remark}\n\n| flag | |\n|---|---|\n");
        for (_, name, remark) in flags {
            let _ = writeln!(text, "| `{name}` | {remark} |");
        }
    }
    text.push_str(
        "\n## Options\n\nEvery option is set on the kernel's socket and read back from there, so its checks are the kernel's. An \
         accelerated socket on\nwhich one of these is set becomes the kernel's, whatever the value:\n\n",
    );
    for (_, _, name) in ENDING_OPTIONS {
        let _ = writeln!(text, "- `{name}`");
    }
    text.push_str("\nand with one of these as long as its value is not 0:\n\n");
    for name in nearwire_socket::shadow::only_kernel_names() {
        let _ = writeln!(text, "- `{name}`");
    }
    text.push_str(
        "- `SO_TIMESTAMPING` with reports of what was sent, with `SOF_TIMESTAMPING_OPT_PKTINFO` or\n  \
         `SOF_TIMESTAMPING_BIND_PHC` of the device's time, or with the device's time where the device has it and its port has\n  \
         not ([run.md](run.md#times-of-arrival))\n",
    );
    text
}
