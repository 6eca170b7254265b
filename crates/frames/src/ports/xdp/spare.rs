//! Buffers that calm traffic does without.
//!
//! The kernel takes buffers in the order of the fill ring, so all that are in it pass through the caches one after the other: 8 MiB of
//! them where there are 4096. Where a reader has kept up for long, all but some are taken out; they go back when more frames
//! wait than it should ever come to, and when the kernel got frames for want of room, which loses none.
//!
//! Half round trips of 64 bytes (sockperf over veth, both ends accelerated, pinned, seven interleaved rounds, medians of p50 / p99 in us),
//! with as many buffers posted from the start: 4096 1.562 / 1.857, 256 1.512 / 1.782, 64 1.517 / 1.677; rates differ by less than they
//! vary. Of this module in another series, when the caches were quieter: 1.502 / 1.662 beside 1.492 / 1.677 without it, which is no gain.
//! 64 are as many as a driver may deliver at once.

/// Buffers in the fill ring while traffic is calm.
const FEW: u32 = 256;
/// With fewer than so many in all nothing is gained.
const FRAMES_LEAST: u32 = 4 * FEW;
/// So many frames of which few waited at a time, and traffic is calm. A burst that comes then finds few buffers, and costs the kernel's
/// price for the rest, once: 131 072 frames pay for that.
const CALM_FRAMES: u32 = 1 << 17;
/// So many waiting frames are not few.
const WAITING_MOST: u32 = FEW / 2;

/// What is to be done after frames were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing.
    Stay,
    /// From now on there is room for [`Spare::few`] frames, and buffers are kept as [`Spare::keeps`] says.
    TakeOut,
    /// All are to be posted.
    PostAll,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Spare {
    buffers: Vec<u64>,
    /// How many are taken out; 0: none ever are.
    most: usize,
    calm_frames: u32,
    is_taking: bool,
}

impl Spare {
    /// For a ring of so many buffers.
    pub(super) fn new(frames: u32) -> Spare {
        let most = if frames < FRAMES_LEAST { 0 } else { (frames - FEW) as usize };
        Spare { buffers: Vec::with_capacity(most), most, ..Spare::default() }
    }

    /// Buffers that stay in the ring.
    pub(super) const fn few() -> u32 {
        FEW
    }

    /// Takes a buffer out that has been read, unless it is to go back to the ring.
    #[inline]
    pub(super) fn keeps(&mut self, buffer: u64) -> bool {
        self.is_taking && self.keep(buffer)
    }

    #[cold]
    fn keep(&mut self, buffer: u64) -> bool {
        self.buffers.push(buffer);
        self.is_taking = self.buffers.len() < self.most;
        true
    }

    /// So many frames were read in a row, and so many more were seen to wait.
    #[inline]
    pub(super) fn read(&mut self, frames: u32, waiting: u32) -> Step {
        if waiting < WAITING_MOST && self.buffers.len() == self.most {
            return Step::Stay;
        }
        self.follow(frames, waiting)
    }

    #[inline(never)]
    fn follow(&mut self, frames: u32, waiting: u32) -> Step {
        if waiting >= WAITING_MOST {
            self.calm_frames = 0;
            return if self.buffers.is_empty() && !self.is_taking { Step::Stay } else { Step::PostAll };
        }
        self.calm_frames = self.calm_frames.saturating_add(frames);
        if self.is_taking || self.calm_frames < CALM_FRAMES {
            return Step::Stay;
        }
        self.is_taking = true;
        Step::TakeOut
    }

    /// Whether there may be fewer buffers in the ring than all.
    pub(super) fn is_used(&self) -> bool {
        self.is_taking || !self.buffers.is_empty()
    }

    /// The buffers that were taken out, to be posted: traffic is not calm.
    pub(super) fn post(&mut self) -> impl Iterator<Item = u64> {
        (self.calm_frames, self.is_taking) = (0, false);
        self.buffers.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: u32 = 4096;

    /// Reads calm frames until something is to be done.
    fn calm(spare: &mut Spare) -> u32 {
        (1..=CALM_FRAMES).find(|_| spare.read(1, 3) == Step::TakeOut).expect("calm at last")
    }

    #[test]
    fn long_calm_takes_all_but_few_buffers_out() {
        let mut spare = Spare::new(FRAMES);
        assert!(!spare.keeps(0) && !spare.is_used());
        assert_eq!(calm(&mut spare), CALM_FRAMES);
        let taken = (0..2 * u64::from(FRAMES)).filter(|buffer| spare.keeps(*buffer)).count();
        assert_eq!(taken, (FRAMES - FEW) as usize);
        assert_eq!(spare.read(1, 3), Step::Stay);
    }

    #[test]
    fn many_that_wait_have_all_posted_and_calm_begins_anew() {
        let mut spare = Spare::new(FRAMES);
        calm(&mut spare);
        assert!(spare.keeps(2048));
        assert_eq!(spare.read(16, WAITING_MOST), Step::PostAll);
        assert_eq!(spare.post().collect::<Vec<_>>(), [2048]);
        assert!(!spare.keeps(0) && !spare.is_used());
        assert_eq!(spare.read(16, WAITING_MOST), Step::Stay);
        assert_eq!(calm(&mut spare), CALM_FRAMES);
    }

    #[test]
    fn few_buffers_in_all_stay_in_the_ring() {
        let mut spare = Spare::new(FRAMES_LEAST - 1);
        assert!((0..2 * CALM_FRAMES).all(|_| spare.read(1, 0) == Step::Stay));
        assert!(!spare.keeps(0));
    }
}
