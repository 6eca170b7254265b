//! Why a socket is served by the kernel, in words.

use std::fmt;

use nearwire_frames::PortError;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident => $words:literal,)+) => {
        /// Why a socket is not accelerated.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Reason {
            /// All of them, by number.
            pub const ALL: &'static [Reason] = &[$(Reason::$variant,)+];

            /// A sentence part for people.
            #[must_use]
            pub const fn words(self) -> &'static str {
                match self {
                    $(Reason::$variant => $words,)+
                }
            }
        }
    };
}

reasons! {
    /// A rule of the configuration.
    Rule => "a rule of the configuration leaves it to the kernel",
    /// Not bound, not connected, nothing sent.
    NotBound => "it has no address yet",
    /// A loopback address, or one of this host.
    Loopback => "its address is this host's own, which no wire leads to",
    /// There is no Ethernet interface that is up.
    NoInterface => "there is no Ethernet interface for it",
    /// Not an Ethernet interface.
    NotEthernet => "its interface is not Ethernet (bridges, bonds, tunnels stay with the kernel)",
    /// Down.
    InterfaceDown => "its interface is down",
    /// `interfaces` of the configuration.
    InterfaceNotAllowed => "its interface is not among those of the configuration",
    /// Somebody else has the queue or an XDP program.
    InterfaceBusy => "its interface has an XDP program or AF_XDP socket of somebody else",
    /// CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF.
    NoCapability => "the process has not the capabilities CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF",
    /// RLIMIT_MEMLOCK.
    MemoryLimit => "the limit of locked memory (ulimit -l) is too low",
    /// The driver does not do XDP.
    NoXdp => "the interface's driver refuses XDP",
    /// Netlink or epoll refused.
    NoTables => "the kernel did not tell its routes and neighbours",
    /// The tables of filters are full.
    NoFilter => "there are more sockets than the XDP program has room for",
    /// The stack said no to what the kernel accepted.
    Address => "its address cannot be served past the kernel",
    /// An option that only the kernel knows.
    Option => "an option is set on it that only the kernel knows",
    /// shutdown(2).
    ShutDown => "it was shut down",
    /// Shared with a forked process.
    Forked => "a forked process reads it",
    /// Shared with another program by exec or SCM_RIGHTS.
    Passed => "it was passed to another program",
    /// The program used a call that only the kernel serves.
    Call => "the program used a call on it that only the kernel serves",
}

impl Reason {
    /// Why a port could not be had.
    #[must_use]
    pub fn of_port(error: &PortError) -> Reason {
        match error {
            PortError::NoSuchInterface { .. } => Reason::NoInterface,
            PortError::InterfaceDown { .. } | PortError::InterfaceGone { .. } => Reason::InterfaceDown,
            PortError::ProgramPresent { .. } | PortError::QueueBusy { .. } => Reason::InterfaceBusy,
            PortError::MemoryLimit { .. } => Reason::MemoryLimit,
            PortError::Privilege { .. } => Reason::NoCapability,
            PortError::Filter { .. } => Reason::NoFilter,
            _ => Reason::NoXdp,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}
