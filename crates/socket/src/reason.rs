//! Why a socket is not accelerated, and why a call was handed to the kernel: one word and one sentence each. The numbers
//! stand in the status page.

use std::fmt;

use nearwire_frames::PortError;

/// An enum whose variants have words for people; the position is the number in the status page.
macro_rules! worded {
    ($(#[$about:meta])* $name:ident { $($(#[doc = $doc:literal])+ $variant:ident => $words:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl $name {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// Words for people.
            #[must_use]
            pub const fn words(self) -> &'static str {
                match self {
                    $($name::$variant => $words,)+
                }
            }

            /// The name of the variant, for programs.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => stringify!($variant),)+
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.words())
            }
        }
    };
}
pub(crate) use worded;

worded! {
    /// Why a socket, or all of a process, is served by the kernel.
    Reason {
        /// Not known yet what it will be; a later call decides.
        NotBound => "it is neither bound nor connected yet",
        /// What comes waits in the kernel until then.
        NotUsed => "no call has sent by it, received from it or waited for it yet",
        /// A rule of the configuration; the detail is its number.
        RuleSaysKernel => "a rule keeps it with the kernel",
        /// TCP, Unix, netlink, raw ...
        NotUdp => "it is no UDP socket over IPv4 or IPv6",
        /// 127.0.0.0/8 or ::1.
        Loopback => "its address is a loopback address, whose packets pass no interface",
        /// Connected to an address of this host.
        PeerOnThisHost => "its peer is on this host, and such packets pass no interface",
        /// The configuration is wrong.
        ConfigurationWrong => "the configuration has a mistake",
        /// No Ethernet interface that is up, allowed and free.
        NoInterface => "no interface can be used",
        /// Its traffic leaves by an interface that is not one of ours.
        OtherInterface => "its traffic passes an interface that is not accelerated",
        /// Administratively down.
        InterfaceDown => "the interface is down",
        /// Tunnels, point-to-point links.
        NotEthernet => "the interface is no Ethernet interface",
        /// Another XDP program, or AF_XDP sockets of another process.
        InterfaceBusy => "another process has the interface: an XDP program or AF_XDP sockets are there already",
        /// The driver has not what the configuration wants.
        DriverCannot => "the interface's driver cannot run XDP programs, which mode = \"native\" asks for",
        /// CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF, CAP_PERFMON.
        NoCapability => "the process has not the capabilities that AF_XDP needs",
        /// The kernel was built without, or a sandbox forbids it.
        XdpRefused => "the kernel refuses XDP programs or AF_XDP sockets",
        /// RLIMIT_MEMLOCK.
        MemoryLimit => "the limit of locked memory (RLIMIT_MEMLOCK) is too low for packet memory",
        /// RLIMIT_NOFILE.
        DescriptorLimit => "the process may open no more descriptors (RLIMIT_NOFILE)",
        /// More than the tables hold.
        TooManySockets => "more sockets are accelerated already than the tables hold",
        /// The route: multipath, policy, encapsulation, none.
        Route => "its route is one that only the kernel follows",
        /// A bond, a bridge's port, a VRF ...
        StackedInterface => "the interface is part of another (bond, bridge, VRF), which only the kernel serves",
        /// setns(2), unshare(2).
        OtherNamespace => "it, or a thread that uses it, is in another network namespace than the engine",
        /// The process is a child of an accelerated one.
        AfterFork => "it was inherited by fork, and the child is served by the kernel",
        /// The child reads it.
        ReadByChild => "a child of the process reads it, so the kernel serves both",
        /// exec(3) keeps descriptors and nothing else.
        HandedOverByExec => "it was kept open over exec, and the new program finds a socket of the kernel",
        /// SCM_RIGHTS, pidfd_getfd(2).
        PassedToProcess => "it was passed to another process",
        /// An option the stack has not; the detail is level and name.
        UnsupportedOption => "the program set an option that the stack does not have",
        /// SO_ATTACH_FILTER, SO_ATTACH_BPF.
        AttachedFilter => "the program attached a BPF filter to it",
        /// UDP_ENCAP, encap sockets of the kernel.
        Encapsulation => "the program uses it for encapsulation",
        /// IP_TRANSPARENT, IP_FREEBIND addresses.
        ForeignAddress => "its local address is not one of this host's",
        /// Sockets of several processes share the port.
        SharedPort => "its port is shared with sockets (SO_REUSEPORT, SO_REUSEADDR) that are not accelerated",
        /// CONFIG_INET_UDP_DIAG, or no memory or fd is left.
        PortsUnknown => "others may have its port too (SO_REUSEPORT, SO_REUSEADDR), and the kernel does not say whether (udp_diag)",
        /// What the process shares descriptors with.
        UnseenSystemCalls => "the program uses it by system calls that the library does not see (splice)",
        /// A bug or an error that nobody expected.
        EngineFailed => "the engine failed and gave its sockets back to the kernel",
        /// The stack took the address for impossible, or taken.
        AddressRefused => "the stack cannot be bound to its address as the kernel is",
        /// shutdown(2).
        ShutDown => "the program shut it down",
        /// `bpftool link detach`.
        ProgramDetached => "somebody detached the XDP program; taking the interface down and up attaches it again",
        /// Its requests go to the kernel, past the library.
        IoUring => "the program uses io_uring, whose requests bypass the library",
        /// rx-vlan-offload, or a veth whose far end leaves the tag beside the frame.
        HiddenVlanTags => "the interface carries VLANs and takes their tags out of frames, so only the kernel can tell them apart \
                           (`ethtool -K INTERFACE rxvlan off` leaves them in, except on veth)",
        /// Rights, limits, another user's programs, an old kernel.
        AgentRefused => "the agent, which has the interface, does not serve the program there",
        /// Killed, or it hangs.
        AgentGone => "the agent that had the interface has ended; the next nearwire run starts another",
        /// Inherited, or passed on, and used by both.
        SharedSocket => "another process uses the same socket, so the kernel serves both",
        /// A client's: `kernel_first`.
        FewDatagrams => "it has not sent and received enough datagrams yet to be worth a flow (kernel_first)",
        /// `spin = "auto"` found the kernel's own way faster.
        CpusWanted => "others want the CPUs of the threads that wait for it, and the kernel's way passes more messages there",
        /// TCP needs one that outlives the program.
        NoAgent => "no agent has the interface, which would end its connection when the program dies",
        /// Of a connection: it is not established, has urgent data, or a thread is in a call on it.
        NotYetAdopted => "its connection could not be adopted yet, and is tried again after some calls",
        /// An option, or the like.
        KernelCall => "the program did what only the kernel does with a connection; it is adopted again after some calls",
        /// A call after which the kernel has the connection until its end (docs/calls.md).
        KernelCallForGood => "the program did what a connection is left to the kernel for",
        /// A sender on this host, or the kernel before an XDP program in generic mode, has segments longer than the port holds (before Linux 6.6).
        FramesByKernel => "segments came that are longer than the port can hold; it is adopted again after some calls",
        /// The port or the interface.
        WayGone => "the interface or its port went away; it is adopted again after some calls",
        /// No entry, or one that is not complete, in the table of neighbours.
        NeighbourUnknown => "the kernel asks for the hardware address of its next hop; it is adopted again after some calls",
        /// Routes that are not the same in both directions: of this connection, or of several before it.
        ComesElsewhere => "what the far end sends does not come by a port of ours, but by another interface",
        /// Another interface, or another host in between.
        NotHeard => "nothing came for it by its interface's port after it was adopted; it is adopted again after some calls",
        /// FIN, RST or urgent data came.
        FarEndEnds => "the far end ends its connection, or sends urgent data, which the kernel deals with",
        /// ETIMEDOUT: the kernel's socket is an ended one.
        FarEndSilent => "the far end did not answer, and its connection was given up",
        /// Long segments were sent twice for nothing.
        PathInDoubt => "the far end did not acknowledge long segments, which a router may not let pass; it is adopted again after some calls",
        /// `auto` only.
        Bulk => "it moves much at once, which the kernel does faster; it is adopted again after some calls that move less",
        /// `auto` only.
        OtherThread => "several threads of the program use connections, and would wait for each other",
        /// `spin = "auto"`.
        SeveralAtOnce => "the kernel passes more messages of the connections that its thread waits for at once",
        /// NAT, or connection tracking that cannot be told, or policies of IPsec.
        PacketsChanged => "the kernel changes its packets, or has to see them (NAT, connection tracking, IPsec, BPF)",
    }
}

impl Reason {
    /// Why a port could not be had.
    #[must_use]
    pub fn of_port(error: &PortError) -> Reason {
        match error {
            PortError::NoSuchInterface { .. } => Reason::NoInterface,
            PortError::InterfaceDown { .. } | PortError::InterfaceGone { .. } | PortError::NoCarrier { .. } => {
                Reason::InterfaceDown
            }
            PortError::ProgramPresent { .. } | PortError::QueueBusy { .. } => Reason::InterfaceBusy,
            PortError::ModeUnsupported { .. } | PortError::AttachRefused { .. } => Reason::DriverCannot,
            PortError::MemoryLimit { .. } => Reason::MemoryLimit,
            PortError::Privilege { .. } => Reason::NoCapability,
            PortError::Filter { .. } => Reason::TooManySockets,
            PortError::ShareRefused { .. } => Reason::AgentRefused,
            PortError::FlowShared { is_socket_shared: true, .. } => Reason::SharedSocket,
            PortError::FlowShared { .. } => Reason::SharedPort,
            PortError::HolderGone { .. } => Reason::AgentGone,
            PortError::NoConnections { .. } => Reason::NoAgent,
            PortError::PacketsChanged { .. } => Reason::PacketsChanged,
            PortError::Kernel { source, .. } if is_descriptor_limit(source) => Reason::DescriptorLimit,
            PortError::ProgramRejected { source, .. } if is_descriptor_limit(&source.source) => Reason::DescriptorLimit,
            _ => Reason::XdpRefused,
        }
    }

    /// Why an open port can no more.
    #[must_use]
    pub fn of_failure(error: &PortError) -> Reason {
        match error {
            PortError::InterfaceGone { .. } => Reason::InterfaceDown,
            PortError::ProgramDetached { .. } => Reason::ProgramDetached,
            PortError::HolderGone { .. } => Reason::AgentGone,
            PortError::ShareRefused { .. } => Reason::AgentRefused,
            _ => Reason::EngineFailed,
        }
    }

    /// Why the engine did not get what it needs of the kernel.
    #[must_use]
    pub fn of_error(error: &std::io::Error) -> Reason {
        if is_descriptor_limit(error) { Reason::DescriptorLimit } else { Reason::EngineFailed }
    }

    /// Whether it is a failure that `strict` tells the program of. None is where nobody could have accelerated the socket
    /// (its packets pass no interface), where the configuration did not want it, and where the program gave it to somebody
    /// else or ended it.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        !matches!(
            self,
            Self::NotBound
                | Self::RuleSaysKernel
                | Self::NotUdp
                | Self::Loopback
                | Self::PeerOnThisHost
                | Self::AfterFork
                | Self::ReadByChild
                | Self::SharedSocket
                | Self::NotUsed
                | Self::FewDatagrams
                | Self::CpusWanted
                | Self::Bulk
                | Self::OtherThread
                | Self::SeveralAtOnce
                | Self::HandedOverByExec
                | Self::PassedToProcess
                | Self::ShutDown
        )
    }

    /// The sentence with what the detail adds: the number of a rule of the user's, the level and name of an option
    /// ([`option_detail`]).
    #[must_use]
    pub fn sentence(self, detail: u64) -> String {
        match self {
            Self::RuleSaysKernel if detail > 0 => format!("rule {detail} keeps it with the kernel"),
            Self::RuleSaysKernel => {
                "a client's DNS stays with the kernel, unless a rule wants it accelerated".to_owned()
            }
            Self::UnsupportedOption if detail > 0 => {
                format!("{self} (level {}, option {})", detail >> 32, detail & u64::from(u32::MAX))
            }
            _ => self.words().to_owned(),
        }
    }
}

fn is_descriptor_limit(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// A reason with its detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Why {
    /// The reason.
    pub reason: Reason,
    /// What belongs to it, 0 for nothing; see [`Reason::sentence`].
    pub detail: u64,
}

impl From<Reason> for Why {
    fn from(reason: Reason) -> Why {
        Why { reason, detail: 0 }
    }
}

impl Why {
    /// A rule of the configuration, by its number; 0: the one about DNS, which is always there.
    #[must_use]
    pub const fn rule(number: usize) -> Why {
        Why { reason: Reason::RuleSaysKernel, detail: number as u64 }
    }

    /// An option that the stack has not.
    #[must_use]
    pub const fn option(level: i32, name: i32) -> Why {
        Why { reason: Reason::UnsupportedOption, detail: option_detail(level, name) }
    }
}

/// The detail of [`Reason::UnsupportedOption`].
#[must_use]
pub const fn option_detail(level: i32, name: i32) -> u64 {
    ((level as u32 as u64) << 32) | name as u32 as u64
}

worded! {
    /// Why a call on an accelerated socket was handed to the kernel, beside the stack's own
    /// [`nearwire_stack::NeedsKernel`].
    HandedCall {
        /// The shadow has something: an ICMP error, a datagram from before, one from this host.
        ShadowReady => "the shadow socket had a datagram or an error",
        /// MSG_ERRQUEUE.
        ErrorQueue => "the program read the error queue",
        /// A flag that the stack has not.
        UnsupportedFlag => "a flag of the call is one that the stack does not have",
        /// A control message that the stack has not.
        UnsupportedControlMessage => "a control message is one that the stack does not have",
        /// The gate is held by this very thread.
        SignalHandler => "a signal handler called while its thread was inside the library",
        /// An option that is the kernel's.
        SocketOption => "the call sets or reads an option of the kernel's",
        /// A bad address, length or address family: the kernel says what is wrong.
        BadArgument => "the kernel says what is wrong with the call's arguments",
        /// A send before the neighbour, the route or the port was there.
        NotReady => "the engine was not ready yet",
    }
}

/// Why a call was handed to the kernel, whoever decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handed {
    /// The stack did.
    ByStack(nearwire_stack::NeedsKernel),
    /// The library did.
    ByLibrary(HandedCall),
}

/// The first number that is the library's; those below are the stack's, which may get more.
const OF_LIBRARY: usize = 40;

const _: () = assert!(nearwire_stack::NeedsKernel::ALL.len() <= OF_LIBRARY);

impl Handed {
    /// All numbers are below.
    pub const END: usize = OF_LIBRARY + HandedCall::ALL.len();

    /// The number in the status page.
    #[must_use]
    pub const fn number(self) -> usize {
        match self {
            Self::ByStack(reason) => reason as usize,
            Self::ByLibrary(call) => OF_LIBRARY + call as usize,
        }
    }

    /// The reason of a number.
    #[must_use]
    pub fn of_number(number: usize) -> Option<Handed> {
        match number.checked_sub(OF_LIBRARY) {
            None => nearwire_stack::NeedsKernel::ALL.get(number).copied().map(Self::ByStack),
            Some(number) => HandedCall::ALL.get(number).copied().map(Self::ByLibrary),
        }
    }
}

impl fmt::Display for Handed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByStack(reason) => reason.fmt(f),
            Self::ByLibrary(call) => call.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_listed_stand_at_their_number_with_words_of_their_own() {
        for (at, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, at);
        }
        let mut texts: Vec<_> = Reason::ALL.iter().map(|reason| reason.words()).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), Reason::ALL.len());
        let handed: Vec<_> = (0..Handed::END).filter_map(Handed::of_number).collect();
        assert_eq!(handed.len(), nearwire_stack::NeedsKernel::ALL.len() + HandedCall::ALL.len());
        assert!(handed.iter().all(|handed| Handed::of_number(handed.number()) == Some(*handed)));
        assert_eq!(Handed::of_number(Handed::END), None);
    }

    #[test]
    fn detail_given_is_told() {
        assert_eq!(Reason::RuleSaysKernel.sentence(3), "rule 3 keeps it with the kernel");
        let sentence = Reason::UnsupportedOption.sentence(option_detail(17, 103));
        assert!(sentence.ends_with("(level 17, option 103)"), "{sentence}");
        assert_eq!(Reason::Loopback.sentence(9), Reason::Loopback.words());
    }
}
