//! What an endpoint remembers of the last destination it sent to: the next hop and the filled headers, or why the kernel
//! has to send. Good as long as the generation of the tables is the one it was made in.

use crate::address::Address;
use crate::reasons::NeedsKernel;
use crate::tables::NextHop;
use crate::template::Template;

/// Where a datagram goes and what is fixed about its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) destination: Address,
    pub(crate) port: u16,
    /// The interface that a link-local address names.
    pub(crate) scope: Option<u32>,
    /// IP_PKTINFO: source address and interface.
    pub(crate) source: Option<Address>,
    pub(crate) ifindex: Option<u32>,
}

/// A next hop with filled headers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) template: Template,
    pub(crate) hop: NextHop,
    pub(crate) is_group: bool,
}

/// See the [module](self).
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Flow {
    /// 0: nothing is remembered.
    generation: u64,
    outcome: Result<Box<Ready>, NeedsKernel>,
    /// What is remembered is the connection's.
    is_of_connection: bool,
    /// The scope given to connect().
    connection_scope: Option<u32>,
    target: Option<Target>,
}

impl Default for Flow {
    fn default() -> Flow {
        Flow {
            generation: 0,
            is_of_connection: false,
            target: None,
            outcome: Err(NeedsKernel::NoDestination),
            connection_scope: None,
        }
    }
}

impl Flow {
    pub(crate) fn forget(&mut self) {
        self.generation = 0;
    }

    pub(crate) fn set_connection(&mut self, scope: Option<u32>) {
        self.connection_scope = scope;
    }

    pub(crate) const fn connection_scope(&self) -> Option<u32> {
        self.connection_scope
    }

    /// Whether the connection's way is remembered: one comparison and a flag.
    #[inline]
    pub(crate) const fn holds_connection(&self, generation: u64) -> bool {
        self.generation == generation && self.is_of_connection
    }

    #[inline]
    pub(crate) fn holds(&self, generation: u64, target: &Target) -> bool {
        self.generation == generation && self.target.as_ref() == Some(target)
    }

    pub(crate) fn remember(
        &mut self,
        generation: u64,
        target: Target,
        is_of_connection: bool,
        outcome: Result<Ready, NeedsKernel>,
    ) {
        self.generation = generation;
        self.target = Some(target);
        self.is_of_connection = is_of_connection;
        match (&mut self.outcome, outcome) {
            (Ok(place), Ok(ready)) => **place = ready,
            (place, outcome) => *place = outcome.map(Box::new),
        }
    }

    /// The way that was sent last, while it is good.
    pub(crate) fn current(&self, generation: u64) -> Option<(&Ready, &Target)> {
        let ready = self.outcome.as_deref().ok().filter(|_| self.generation == generation)?;
        Some((ready, self.target.as_ref()?))
    }

    /// The kernel was asked about the path, and knows of no smaller MTU.
    pub(crate) fn path_is_free(&mut self) {
        if let Ok(ready) = &mut self.outcome {
            ready.hop.sure_bytes = ready.hop.mtu_bytes;
        }
    }

    #[inline]
    pub(crate) fn outcome(&self) -> Result<&Ready, NeedsKernel> {
        match &self.outcome {
            Ok(ready) => Ok(ready),
            Err(reason) => Err(*reason),
        }
    }
}
