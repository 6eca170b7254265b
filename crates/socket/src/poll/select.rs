//! select(2): three bit sets become a list for poll(2), the answer becomes bit sets.
//!
//! A bit beyond the process's descriptor table is ignored by the kernel and is `EBADF` here, like any other
//! descriptor that is not open: the caller leaves such bits out by a smaller `nfds`.

use libc::{c_ulong, pollfd};
use rustix::io::Errno;

use crate::epoll::Events;

/// Bits in a word of an `fd_set`.
pub const WORD_BITS: usize = c_ulong::BITS as usize;

/// What makes a descriptor ready to read.
pub const POLLIN_SET: Events =
    Events::RDNORM.union(Events::RDBAND).union(Events::IN).union(Events::HUP).union(Events::ERR);
/// What makes a descriptor ready to write. A hang-up does not.
pub const POLLOUT_SET: Events = Events::SENDABLE.union(Events::ERR);
/// What is an exceptional condition.
pub const POLLEX_SET: Events = Events::PRI;

/// The sets of a call, each as words of native byte order (`fds_bits`); a null pointer is `None`. A set has at
/// least `nfds` bits; what lies beyond its slice is taken as zero.
#[derive(Debug, Default)]
pub struct FdSets<'a> {
    /// Asked for reading.
    pub read: Option<&'a mut [c_ulong]>,
    /// Asked for writing.
    pub write: Option<&'a mut [c_ulong]>,
    /// Asked for exceptional conditions.
    pub except: Option<&'a mut [c_ulong]>,
}

impl FdSets<'_> {
    /// The descriptors below `nfds` that are in any set, in ascending order.
    pub fn fds(&self, nfds: usize) -> impl Iterator<Item = i32> {
        let sets = [&self.read, &self.write, &self.except].map(|set| set.as_deref().unwrap_or(&[]));
        (0..nfds.div_ceil(WORD_BITS)).flat_map(move |at| {
            let any = sets.iter().fold(0, |any, set| any | set.get(at).copied().unwrap_or(0));
            let mut any = any & below(nfds, at);
            std::iter::from_fn(move || {
                let bit = (any != 0).then(|| any.trailing_zeros() as usize)?;
                any &= any - 1;
                Some((at * WORD_BITS + bit) as i32)
            })
        })
    }

    /// Puts the descriptors below `nfds` that are in any set into `list`, in ascending order.
    pub fn poll_list(&self, nfds: usize, list: &mut Vec<pollfd>) {
        list.clear();
        let sets = [(&self.read, POLLIN_SET), (&self.write, POLLOUT_SET), (&self.except, POLLEX_SET)];
        list.extend(self.fds(nfds).map(|fd| {
            let (at, bit) = (fd as usize / WORD_BITS, 1 << (fd as usize % WORD_BITS));
            let word = |set: &Option<&mut [c_ulong]>| set.as_deref().and_then(|set| set.get(at)).copied().unwrap_or(0);
            let asked = sets.iter().filter(|(set, _)| word(set) & bit != 0);
            let events = asked.fold(Events::empty(), |all, (_, events)| all | *events);
            pollfd { fd, events: events.bits() as i16, revents: 0 }
        }));
    }

    /// Writes an answered list of [`FdSets::poll_list`] into the sets; the number of bits set, which is
    /// what select(2) returns. All words that hold bits below `nfds` are written whole.
    ///
    /// # Errors
    ///
    /// `EBADF` where a descriptor is not open; the sets are as before then.
    pub fn answer(&mut self, nfds: usize, list: &[pollfd]) -> Result<usize, Errno> {
        if list.iter().any(|entry| holds(entry.revents, Events::NVAL)) {
            return Err(Errno::BADF);
        }
        // Which sets a descriptor was in is told by an event that only one set asks for.
        let sets = [
            (&mut self.read, Events::IN, POLLIN_SET),
            (&mut self.write, Events::OUT, POLLOUT_SET),
            (&mut self.except, Events::PRI, POLLEX_SET),
        ];
        let mut bits = 0;
        for (set, mark, ready) in sets {
            let Some(set) = set else { continue };
            let words = nfds.div_ceil(WORD_BITS).min(set.len());
            set[..words].fill(0);
            for entry in list {
                if holds(entry.events, mark) && holds(entry.revents, ready) {
                    let fd = entry.fd as usize;
                    set[fd / WORD_BITS] |= 1 << (fd % WORD_BITS);
                    bits += 1;
                }
            }
        }
        Ok(bits)
    }
}

/// The bits of word `at` that stand for descriptors below `nfds`.
fn below(nfds: usize, at: usize) -> c_ulong {
    match nfds - at * WORD_BITS {
        rest if rest >= WORD_BITS => c_ulong::MAX,
        rest => (1 << rest) - 1,
    }
}

fn holds(bits: i16, events: Events) -> bool {
    bits & events.bits() as i16 != 0
}
