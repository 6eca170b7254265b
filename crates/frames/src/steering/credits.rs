//! How many buffers a share's ring has room for: counted by the program, told by the reader. A frame takes one, or several where it
//! is longer than a buffer.
//!
//! A frame that is redirected to a socket without a buffer or a slot left for it is dropped by the kernel. With credits the program
//! does not redirect it: the kernel gets it (`XDP_PASS`), and queues it at the socket that it is for, as long as that one's SO_RCVBUF
//! has room. To keep the order, the program gives the kernel all later frames of the place too, until the reader has *settled*:
//! read what was in the ring before, and taken over what the kernel got.
//!
//! A segment of TCP without room is dropped, and its sender sends it again: nobody settles, and what comes next is redirected if there is room. Settling
//! also finds buffers that were lost on their way; where only TCP overflows, [`Credit::find_lost`] does.
//!
//! Each place of the map of sockets (queue and share) has three cache lines, by who writes them:
//!
//! ```text
//!   byte   0   redirected   buffers given to the socket so far                 the program, each frame
//!   byte  64   passed       frames given to the kernel for want of room        the program, such a frame
//!   byte  72   errors       ICMP errors given to the kernel; in place 0        the program, such a packet
//!   byte  80   dropped      segments of TCP dropped for want of room           the program, such a frame
//!   byte  88   too long     segments of TCP that no ring can hold              the program, such a frame
//!   byte 128   until        what `redirected` may grow to                      the reader, now and then
//!   byte 136   settled      what `passed` was when the reader had settled      the reader
//!   byte 144   longest      the interface's MTU                                the reader, seldom
//! ```
//!
//! The program redirects while `passed == settled` and `redirected` with the frame's buffers does not exceed `until`. A frame that is
//! passed between the reader's last look at `passed` and its store to `settled` leaves the two different: nothing is redirected past it.
//!
//! A *bundle* is many datagrams that a sender on the same host left to the device to cut (`UDP_SEGMENT`). Over veth in generic mode they
//! come uncut: as one packet, longer than the MTU. The kernel cuts them when it has them, so it gets them as if there were no room, and their
//! order with others is kept too. They are counted as the fewest datagrams that they can be. A bundle within the MTU is not seen. A bundle of TCP is
//! one long segment, and is redirected in as many buffers as it takes. Where the port has one buffer for a frame (before Linux 6.6) it is dropped
//! and counted as too long, and its connection has to be given to the kernel.
//!
//! `errors` says nothing of room. An error message reaches a socket by the kernel, which tells nobody in user space without a system call.
//! By this word a reader that finds a frame knows whether it has to ask first.
//!
//! In calm traffic the program's lines stay in its CPU's cache and the reader's line is written once in many frames.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nearwire_sys::bpf::{Map, MapKind};
use nearwire_sys::shared_words::SharedWords;

/// Bytes of a place.
pub(super) const PLACE_BYTES: u32 = 192;
// Within a place.
pub(super) const REDIRECTED: i16 = 0;
pub(super) const PASSED: i16 = 64;
pub(super) const ERRORS: i16 = 72;
pub(super) const DROPPED: i16 = 80;
pub(super) const TOO_LONG: i16 = 88;
pub(super) const UNTIL: i16 = 128;
pub(super) const SETTLED: i16 = 136;
pub(super) const LONGEST: i16 = 144;

const PLACE_WORDS: usize = PLACE_BYTES as usize / 8;
/// The reader raises `until` once for so many parts of its room: each store takes the cache line from the CPU that delivers.
const RAISES_PER_ROOM: u64 = 4;
/// Looks of the reader in which buffers that are on their way arrive: a look is 20 us or more after the one before.
const LOOKS_UNTIL_LOST: u32 = 64;

/// How the program counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counting {
    /// One CPU at a time has a queue's frames: plain stores.
    OneCpu,
    /// Several may, as in generic mode: atomic additions.
    SeveralCpus,
}

/// What the program looks at.
#[derive(Debug)]
pub(super) struct CreditMap {
    pub(super) map: Map,
    pub(super) counting: Counting,
}

impl CreditMap {
    pub(super) fn create(places: u32, counting: Counting) -> io::Result<CreditMap> {
        let map = Map::create(MapKind::SharedArray, "nw_credits", 4, PLACE_BYTES, places)?;
        Ok(CreditMap { map, counting })
    }

    /// Whether packets may come that are bundles: in generic mode, which several CPUs go with. Drivers' own programs see them cut.
    pub(super) fn has_bundles(&self) -> bool {
        self.counting == Counting::SeveralCpus
    }

    /// The same memory for readers. A child of fork(2) has no part of it, and must not drop it.
    pub(super) fn words(&self) -> io::Result<CreditWords> {
        let words = SharedWords::of_array(&self.map)?;
        words.dont_fork()?;
        Ok(CreditWords(Arc::new(words)))
    }
}

/// The words of all places.
#[derive(Debug, Clone)]
pub(crate) struct CreditWords(Arc<SharedWords>);

impl CreditWords {
    /// Those that another process made.
    pub(crate) fn of(words: SharedWords) -> CreditWords {
        CreditWords(Arc::new(words))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Error messages of ICMP and ICMPv6 that the program gave to the kernel.
    #[inline]
    pub(crate) fn errors(&self) -> u64 {
        self.0[ERRORS as usize / 8].load(Ordering::Acquire)
    }
}

/// What one reader knows and reports about its place.
#[derive(Debug)]
pub(crate) struct Credit {
    words: CreditWords,
    /// Index of the place's first word.
    at: usize,
    /// Buffers that may be with the socket and the reader.
    room: u64,
    /// Buffers given back, counted from what `redirected` was at first.
    returned: u64,
    /// What `until` was set to.
    until: u64,
    /// What `settled` was set to.
    settled: u64,
    /// What `passed` was when the reader began to settle.
    seen: u64,
    /// The program redirects whatever `passed` is.
    is_forced: bool,
    /// What `dropped` and `too long` were at first, by readers before this one.
    before: (u64, u64),
    /// What `dropped` was when it was last looked at.
    seen_dropped: u64,
    /// Looks that are left until buffers count as lost, and the fewest that were on their way at any of them.
    lost: (u32, u64),
}

impl Credit {
    /// For a reader whose rings are empty. `None`: the map has no such place.
    pub(crate) fn open(words: &CreditWords, place: u32, room: u32) -> Option<Credit> {
        let at = place as usize * PLACE_WORDS;
        if at + PLACE_WORDS > words.0.len() {
            return None;
        }
        let words = words.clone();
        let mut credit = Credit {
            words,
            at,
            room: room.into(),
            returned: 0,
            until: 0,
            settled: 0,
            seen: 0,
            is_forced: false,
            before: (0, 0),
            seen_dropped: 0,
            lost: (0, 0),
        };
        credit.before = (credit.load(DROPPED), credit.load(TOO_LONG));
        credit.returned = credit.load(REDIRECTED);
        credit.seen = credit.passed();
        credit.set_longest(u64::MAX);
        credit.show_until();
        credit.show_settled();
        Some(credit)
    }

    /// Longer packets are bundles, where several CPUs count.
    pub(crate) fn set_longest(&self, mtu_bytes: u64) {
        self.store(LONGEST, mtu_bytes);
    }

    /// What was set.
    pub(crate) fn longest(&self) -> u64 {
        self.load(LONGEST)
    }

    /// Another reader's, of the same map.
    pub(crate) fn words(&self) -> &CreditWords {
        &self.words
    }

    #[inline]
    fn load(&self, offset_bytes: i16) -> u64 {
        self.words.0[self.at + offset_bytes as usize / 8].load(Ordering::Acquire)
    }

    fn store(&self, offset_bytes: i16, value: u64) {
        self.words.0[self.at + offset_bytes as usize / 8].store(value, Ordering::Release);
    }

    fn show_until(&mut self) {
        self.until = self.returned.wrapping_add(self.room);
        self.store(UNTIL, self.until);
    }

    fn show_settled(&mut self) {
        self.settled = self.seen;
        self.store(SETTLED, self.settled);
    }

    /// So many buffers are in the fill ring again.
    #[inline]
    pub(crate) fn give_back(&mut self, frames: u32) {
        self.returned = self.returned.wrapping_add(frames.into());
        let until = self.returned.wrapping_add(self.room);
        if until.wrapping_sub(self.until).cast_signed() >= (self.room / RAISES_PER_ROOM).max(1).cast_signed() {
            self.show_until();
        }
    }

    /// So many buffers that other readers took will be given back by this one.
    pub(crate) fn take_over(&mut self, frames: u32) {
        self.returned = self.returned.wrapping_sub(frames.into());
    }

    /// Frames that the kernel got for want of room, as long as the map is there.
    #[inline]
    pub(crate) fn passed(&self) -> u64 {
        self.load(PASSED)
    }

    /// Segments of TCP that were dropped for want of room, since there is this reader.
    #[inline]
    pub(crate) fn dropped(&self) -> u64 {
        self.load(DROPPED).wrapping_sub(self.before.0)
    }

    /// The same as no ring can hold them.
    #[inline]
    pub(crate) fn too_long(&self) -> u64 {
        self.load(TOO_LONG).wrapping_sub(self.before.1)
    }

    /// The reader looks, and has `outstanding_frames` buffers. If segments were dropped of late, buffers that were redirected and have not come for
    /// many looks were lost on their way, where the kernel found no place for them: there is room for as many again.
    pub(crate) fn find_lost(&mut self, outstanding_frames: u32) {
        let dropped = self.dropped();
        let (looks, fewest) = &mut self.lost;
        if *looks == 0 {
            if dropped == self.seen_dropped {
                return;
            }
            (self.seen_dropped, *looks, *fewest) = (dropped, LOOKS_UNTIL_LOST, u64::MAX);
        }
        let held = self.returned.wrapping_add(outstanding_frames.into());
        let redirected = self.words.0[self.at + REDIRECTED as usize / 8].load(Ordering::Acquire);
        // Below zero while more was taken over than the program has counted.
        *fewest = (*fewest).min(redirected.wrapping_sub(held).cast_signed().max(0).cast_unsigned());
        *looks -= 1;
        if *looks == 0 && !self.is_forced && *fewest > 0 {
            self.returned = self.returned.wrapping_add(*fewest);
            self.show_until();
        }
    }

    /// The kernel gets the place's frames.
    #[inline]
    pub(crate) fn is_overflowing(&self) -> bool {
        self.passed() != self.settled
    }

    /// Of a reader that reads nothing since [`Credit::force`]: its ring is full, and what the kernel gets since is newer than what is in it.
    pub(crate) fn is_full_again(&self) -> bool {
        if self.is_forced { self.load(REDIRECTED) >= self.until } else { self.is_overflowing() }
    }

    /// The reader begins to settle; how many frames the kernel got since it last did.
    pub(crate) fn begin_settling(&mut self) -> u64 {
        self.seen = self.passed();
        self.seen.wrapping_sub(self.settled)
    }

    /// Frames that the kernel got since [`Credit::begin_settling`].
    pub(crate) fn passed_since(&self) -> u64 {
        self.passed().wrapping_sub(self.seen)
    }

    /// Has frames redirected again before the reader has settled. It leaves them in the ring, which it has read empty, until
    /// [`Credit::end_force`].
    pub(crate) fn force(&mut self, outstanding_frames: u32) {
        self.is_forced = true;
        self.returned = self.load(REDIRECTED).wrapping_sub(outstanding_frames.into());
        self.show_until();
        self.store(SETTLED, u64::MAX);
    }

    /// The reader has settled since, and since [`Credit::begin_settling`]. Where the ring is full again by now, what comes is the kernel's
    /// as before (`true`), and the next [`Credit::begin_settling`] reports one frame more than the kernel got: one that the reader
    /// has.
    pub(crate) fn end_force(&mut self, outstanding_frames: u32) -> bool {
        if !std::mem::take(&mut self.is_forced) {
            return false;
        }
        if self.load(REDIRECTED) < self.until {
            self.settle(outstanding_frames);
            return false;
        }
        self.seen = self.seen.wrapping_sub(1);
        self.show_settled();
        true
    }

    /// The reader has settled since [`Credit::begin_settling`]; `outstanding_frames`: buffers that are neither with the kernel nor
    /// given back. Nothing is redirected meanwhile, so what else is missing was dropped on its way, and is found here.
    pub(crate) fn settle(&mut self, outstanding_frames: u32) {
        self.returned = self.load(REDIRECTED).wrapping_sub(outstanding_frames.into());
        self.show_until();
        self.show_settled();
    }
}
