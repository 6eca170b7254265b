//! Turns at kicking the sockets of a queue, on kernels that report wrong buffers where two are kicked at once.
//!
//! Linux 6.6 to 6.16 reserves the place of a buffer in the completion ring (`xsk_cq_reserve_addr_locked`) before it reads the frame, and each
//! frame that is sent publishes the next place, whosever it is. Two senders of a queue that reserve in one order and send in the other
//! have a buffer reported that the device still reads, where its driver takes pages and not copies (virtio_net); and a frame that the
//! device refuses (`NETDEV_TX_BUSY`) gives up the place that was reserved last, another's, whose buffer is never reported then. "xsk: Fix
//! immature cq descriptor production" (6.17, and stable 6.16.8) has the kernel write a place when its frame is sent.
//!
//! So senders of a queue take turns there. A turn is a word in the control area. Nobody keeps it for long: who has waited for
//! [`PATIENCE`] takes it from a holder that was stopped or killed, or that a signal handler interrupted; the two may then kick at once, as
//! without turns.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longer than the kernel takes for 32 frames.
const PATIENCE: Duration = Duration::from_millis(1);
/// Looks before the CPU is left to others, of which one may be the holder.
const SPINS: u32 = 200;

/// Whether this kernel reports buffers in the order in which senders began.
pub(super) fn are_needed() -> bool {
    let release = rustix::system::uname();
    is_affected(&release.release().to_string_lossy())
}

fn is_affected(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    ((6, 6)..(6, 17)).contains(&version)
}

/// See the module. Until it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'q> {
    word: &'q AtomicU32,
    mark: u32,
}

impl<'q> Turn<'q> {
    /// Waits for the turn; `word` is 0 when nobody has it.
    #[inline]
    pub(super) fn take(word: &'q AtomicU32) -> Turn<'q> {
        // Others' marks are other stacks' addresses, most likely; a mark that two have is one turn of both.
        let mark = (std::ptr::from_ref(&word).addr() >> 4) as u32 | 1;
        if word.compare_exchange(0, mark, Ordering::Acquire, Ordering::Relaxed).is_err() {
            wait(word, mark);
        }
        Turn { word, mark }
    }
}

impl Drop for Turn<'_> {
    #[inline]
    fn drop(&mut self) {
        // It may have been taken away.
        let _ = self.word.compare_exchange(self.mark, 0, Ordering::Release, Ordering::Relaxed);
    }
}

#[cold]
fn wait(word: &AtomicU32, mark: u32) {
    let (mut begun, mut holder, mut looks) = (Instant::now(), word.load(Ordering::Relaxed), 0_u32);
    loop {
        let found = word.load(Ordering::Relaxed);
        if found != holder {
            (begun, holder) = (Instant::now(), found);
        }
        let may_take = found == 0 || begun.elapsed() > PATIENCE;
        if may_take && word.compare_exchange(found, mark, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return;
        }
        looks += 1;
        if looks < SPINS {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_kernels_that_report_wrong_buffers_are_told_from_others() {
        let affected = ["6.6.0", "6.8.0-45-generic", "6.12.117+deb12-amd64", "6.16.7", "6.6"];
        assert!(affected.iter().all(|release| is_affected(release)));
        let others = ["6.1.0-56-amd64", "6.5.13", "6.17.0", "6.18.0", "7.0.1", "5.15.0-91-generic", "", "linux"];
        assert!(others.iter().all(|release| !is_affected(release)));
    }

    #[test]
    fn turn_of_a_holder_that_is_gone_is_taken_after_a_while_and_not_given_back_by_it() {
        let word = AtomicU32::new(0);
        let first = Turn::take(&word);
        let begun = Instant::now();
        let second = std::thread::scope(|scope| scope.spawn(|| Turn::take(&word)).join()).ok();
        assert!(begun.elapsed() >= PATIENCE);
        drop(first);
        assert_ne!(word.load(Ordering::Relaxed), 0, "the second has it");
        drop(second);
        assert_eq!(word.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn turns_of_several_threads_are_one_after_the_other() {
        let (word, inside) = (AtomicU32::new(0), AtomicU32::new(0));
        let work = || {
            for _ in 0..2000 {
                let _turn = Turn::take(&word);
                assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "two have the turn");
                inside.fetch_sub(1, Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
    }
}
