//! The account of a datagram: which sockets may have each copy that arrived, and which sockets got one.

use std::net::SocketAddr;

/// Once that a datagram arrived.
#[derive(Debug)]
pub struct Arrival {
    /// The sockets one of which is to get it.
    pub candidates: Vec<usize>,
    /// Of a program with a share: its sockets among these.
    pub owners: Option<Vec<usize>>,
    /// Some other socket of its port may get it, or none: the agent does not know yet of one that is not accelerated.
    pub is_excused: bool,
}

impl Arrival {
    fn fits(&self, life: usize) -> bool {
        self.is_excused || self.candidates.contains(&life)
    }

    /// Whether nobody need have got it: it had nobody to go to, or a socket that it may have waited at was closed.
    fn may_be_lost(&self, is_closed: impl Fn(usize) -> bool) -> bool {
        match &self.owners {
            // Steered to a program that was dead.
            Some(owners) if owners.is_empty() => true,
            owners => {
                let responsible = owners.as_ref().unwrap_or(&self.candidates);
                self.is_excused || responsible.is_empty() || responsible.iter().any(|life| is_closed(*life))
            }
        }
    }
}

/// A datagram.
#[derive(Debug)]
pub struct Sent {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub len_bytes: usize,
    pub arrivals: Vec<Arrival>,
    /// The sockets that got it, all of the port that it was sent to.
    pub delivered: Vec<usize>,
}

impl Sent {
    /// Whether each socket that got it may have.
    pub fn is_everybodys_own(&self) -> bool {
        matches(&self.arrivals.iter().collect::<Vec<_>>(), &self.delivered, &|_| true)
    }

    /// Whether all sockets that were to get it did.
    pub fn is_complete(&self, is_closed: impl Fn(usize) -> bool) -> bool {
        matches(&self.arrivals.iter().collect::<Vec<_>>(), &self.delivered, &|arrival| arrival.may_be_lost(&is_closed))
    }
}

/// Whether each delivery can be of another arrival, so that of all others `may_be_left` is true. The wire brings a datagram twice at most.
fn matches(arrivals: &[&Arrival], delivered: &[usize], may_be_left: &impl Fn(&Arrival) -> bool) -> bool {
    let Some((life, others)) = delivered.split_first() else { return arrivals.iter().all(|left| may_be_left(left)) };
    (0..arrivals.len()).filter(|at| arrivals[*at].fits(*life)).any(|at| {
        let left: Vec<_> =
            arrivals.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, left)| *left).collect();
        matches(&left, others, may_be_left)
    })
}
