//! One test: descriptors and the table belong to the process.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{FdFlags, fcntl_getfd};

use super::*;

fn open() -> OwnedFd {
    eventfd(0, EventfdFlags::empty()).unwrap()
}

fn is_open(fd: RawFd) -> bool {
    // SAFETY: only asked whether it is open.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

fn covers_all_but(numbers: &[u32]) {
    let spared: Vec<_> = gaps(0, u32::MAX).collect();
    assert_eq!((spared[0].0, spared.last().unwrap().1), (0, u32::MAX));
    assert!(spared.iter().all(|(first, last)| first <= last && numbers.iter().all(|n| n < first || n > last)));
    let covered: u64 = spared.iter().map(|(first, last)| u64::from(last - first) + 1).sum();
    assert_eq!(covered, (1 << 32) - numbers.len() as u64);
}

#[test]
fn descriptor_protected_is_high_and_spared_until_it_is_released() {
    let low = open();
    let low_number = low.as_raw_fd();
    let high = protect(low);
    let number = high.as_raw_fd();
    assert!(number >= window_start() && is_internal(number) && !is_internal(low_number) && !is_internal(-1));
    assert_eq!(fcntl_getfd(&high).unwrap(), FdFlags::CLOEXEC);
    assert!(!is_internal(RawFd::MAX));

    let neighbour = copy(&high).unwrap();
    let second = neighbour.as_raw_fd();
    let numbers = [number, second].map(RawFd::cast_unsigned);
    covers_all_but(&numbers);
    let (lower, upper) = (numbers[0].min(numbers[1]), numbers[0].max(numbers[1]));
    assert_eq!(gaps(lower, lower).count(), 0);
    assert_eq!(gaps(upper, upper + 5).collect::<Vec<_>>(), [(upper + 1, upper + 5)]);
    assert_eq!(gaps(5, 4).count(), 0);

    for fd in [high, neighbour] {
        release(fd.as_raw_fd());
        drop(fd);
    }
    assert!(!is_internal(number) && !is_internal(second) && !is_open(second));
}
