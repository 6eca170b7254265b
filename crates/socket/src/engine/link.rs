//! Links as an engine sees them: which could have a port, why one has none, and when to try again.

use std::time::Duration;

use nearwire_stack::LinkKind;

use crate::now::Now;
use crate::reason::Reason;

/// What others may undo without a word (an interface given back, a limit raised) is tried again after this time.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How often the time between two attempts to have a lost port back doubles: to about a minute. An attempt keeps the program
/// waiting, for half a second where another program has AF_XDP sockets on the queues.
const RETRY_DOUBLINGS: u32 = 6;

/// A link that could have a port.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) ifindex: u32,
    pub(super) is_up: bool,
    pub(super) mtu_bytes: u32,
    pub(super) kind: LinkKind,
    /// Why it got no port when it was tried, or lost the one it had.
    pub(super) refused: Option<Refused>,
    /// It had a port and lost it.
    pub(super) lost: Option<Lost>,
}

/// When a port was lost, or another was last tried for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    /// Of the monotonic clock.
    pub(super) since_ns: u64,
    /// Since the link came up; also those that gave a port, which may fail soon.
    pub(super) attempts: u32,
}

impl Lost {
    pub(super) const fn at(now: Now, attempts: u32) -> Lost {
        Lost { since_ns: now.monotonic_ns(), attempts }
    }

    fn is_due(self, now: Now) -> bool {
        now.since(self.since_ns) > RETRY_AFTER * (1 << self.attempts.saturating_sub(1).min(RETRY_DOUBLINGS))
    }
}

/// An interface that could not be had.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) name: String,
    pub(super) reason: Reason,
    /// The error in words.
    pub(super) text: String,
    /// Of the monotonic clock.
    since_ns: u64,
}

impl Refused {
    pub(super) fn new(now: Now, name: &str, reason: Reason, text: String) -> Refused {
        Refused { name: name.to_owned(), reason, text, since_ns: now.monotonic_ns() }
    }
}

impl Link {
    /// What is in the way of a port.
    pub(super) fn obstacle(&self) -> Option<Reason> {
        match self.kind {
            LinkKind::Ethernet if !self.is_up => Some(Reason::InterfaceDown),
            LinkKind::Ethernet => self.refused.as_ref().map(|refused| refused.reason),
            LinkKind::Loopback => Some(Reason::Loopback),
            LinkKind::Vlan { .. } | LinkKind::Other => Some(Reason::NotEthernet),
        }
    }

    /// What is in the way of trying to open one.
    pub(super) fn forbids(&self, now: Now) -> Option<Reason> {
        self.obstacle().filter(|reason| !is_passing(*reason) || !self.is_retry_due(now))
    }

    /// It lost its port, nothing known is in the way of another, and nobody will tell when it can be had.
    pub(super) fn wants_port_back(&self, now: Now) -> bool {
        self.lost.is_some_and(|lost| lost.is_due(now)) && self.forbids(now).is_none()
    }

    fn is_retry_due(&self, now: Now) -> bool {
        self.refused.as_ref().is_none_or(|refused| now.since(refused.since_ns) > RETRY_AFTER)
    }
}

/// Nobody tells when it is over, and an attempt costs a fraction of a millisecond and disturbs nobody.
const fn is_passing(reason: Reason) -> bool {
    use Reason::{AgentGone, AgentRefused, DescriptorLimit, EngineFailed, InterfaceBusy, MemoryLimit};
    matches!(reason, AgentGone | AgentRefused | InterfaceBusy | MemoryLimit | DescriptorLimit | EngineFailed)
}
