//! Frames that lie in several buffers, put together.
//!
//! The kernel takes buffers as they come, and leaves headroom in each, so a frame longer than a buffer is nowhere in one piece: it is copied
//! into one, and its buffers go back at once. Whoever reads frames has a slice of each, as of all others.
//!
//! Why not larger buffers: the kernel takes buffers of more than a page only in memory of reserved huge pages
//! (`vm.nr_hugepages`), which most hosts do not have, and not before the version that has frames in several buffers; and drivers refuse a
//! program that cannot do with fragments at such an MTU all the same.

/// One that is lent, and one that is received meanwhile.
const FRAMES: usize = 2;

/// Frames of one receiver.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    frames: [Vec<u8>; FRAMES],
    is_taken: [bool; FRAMES],
}

impl Assembly {
    /// With memory for frames of so many bytes. A longer one, of an MTU that grew meanwhile, allocates.
    pub(super) fn with_capacity(frame_bytes: usize) -> Assembly {
        Assembly { frames: std::array::from_fn(|_| Vec::with_capacity(frame_bytes)), is_taken: [false; FRAMES] }
    }

    /// Bytes that there is memory for, each frame.
    pub(super) fn capacity_bytes(&self) -> usize {
        self.frames[0].capacity()
    }

    /// Begins a frame; the place of it.
    pub(super) fn begin(&mut self) -> usize {
        let place = self.is_taken.iter().position(|is_taken| !is_taken);
        debug_assert!(place.is_some(), "one frame is lent and one read at most");
        let place = place.unwrap_or(0);
        self.is_taken[place] = true;
        self.frames[place].clear();
        place
    }

    pub(super) fn append(&mut self, place: usize, bytes: &[u8]) {
        self.frames[place].extend_from_slice(bytes);
    }

    pub(super) fn frame(&self, place: usize) -> &[u8] {
        &self.frames[place]
    }

    pub(super) fn give_back(&mut self, place: usize) {
        self.is_taken[place] = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_that_is_lent_stays_while_another_is_put_together() {
        let mut assembly = Assembly::with_capacity(8);
        let lent = assembly.begin();
        assembly.append(lent, b"first ");
        assembly.append(lent, b"frame");
        for _ in 0..3 {
            let other = assembly.begin();
            assembly.append(other, b"other");
            assert_eq!((assembly.frame(lent), assembly.frame(other)), (&b"first frame"[..], &b"other"[..]));
            assembly.give_back(other);
        }
        assembly.give_back(lent);
        let next = assembly.begin();
        assert_eq!(assembly.frame(next), b"");
    }
}
