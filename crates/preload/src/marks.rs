//! What each fd is to the library, and which engine serves it.
//!
//! A mark is read before a gate is entered, and again behind it: who moves a socket to another engine changes its marks
//! while it keeps both gates.

use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, Ordering::Relaxed};

use nearwire_socket::SocketId;

/// Numbers that can be marked; a descriptor beyond them is the kernel's.
const NUMBERS: usize = 1 << 16;
const SOCKET: u8 = 1;
const EPOLL: u8 = 2;
const KINDS: u8 = SOCKET | EPOLL;
/// No thread has received from it or waited for it, and the first engine has it.
const UNCLAIMED: u8 = 4;
/// No thread has even sent by it.
const UNUSED: u8 = 8;
/// The engine's number stands above the kinds, in three bits.
const ENGINE_SHIFT: u32 = 4;
const ENGINE_BITS: u8 = 7;
/// A TCP socket, whose connection may be adopted. It is nothing else.
const STREAM: u8 = 0x80;
/// Of one: a listener accepted it.
const SERVER: u8 = 4;
/// Of one: the kernel has it for good.
const LEFT: u8 = 8;
/// Of one: what it accepts is the kernel's too.
const LEAVES_ACCEPTED: u8 = 0x10;

/// Zero pages until they are written.
static MARKS: [AtomicU8; NUMBERS] = [const { AtomicU8::new(0) }; NUMBERS];
/// Numbers that each engine serves and that were used.
static COUNTS: [AtomicU32; ENGINE_BITS as usize + 1] = [const { AtomicU32::new(0) }; ENGINE_BITS as usize + 1];
/// One more than the highest number that was ever that of a TCP socket here.
static STREAMS_END: AtomicI32 = AtomicI32::new(0);
/// The engine of each socket, for calls that hold one whatever becomes of its fd.
static ENGINES: [AtomicU8; NUMBERS] = [const { AtomicU8::new(0) }; NUMBERS];

#[inline]
fn mark_of(fd: i32) -> Option<&'static AtomicU8> {
    MARKS.get(usize::try_from(fd).ok()?)
}

#[inline]
fn mark(fd: i32) -> u8 {
    mark_of(fd).map_or(0, |mark| mark.load(Relaxed))
}

fn set(fd: i32, value: u8) {
    if let Some(mark) = mark_of(fd) {
        let before = mark.swap(value, Relaxed);
        let is_counted = |value: u8| value & KINDS != 0 && value & UNUSED == 0;
        if is_counted(value) {
            COUNTS[engine_in(value)].fetch_add(1, Relaxed);
        }
        if is_counted(before) {
            COUNTS[engine_in(before)].fetch_sub(1, Relaxed);
        }
    }
}

/// How many fds an engine serves that a thread has used.
pub fn count_of(engine: usize) -> u32 {
    COUNTS.get(engine).map_or(0, |count| count.load(Relaxed))
}

/// Whether an fd is a UDP socket that the library follows.
#[inline]
pub fn is_socket(fd: i32) -> bool {
    mark(fd) & SOCKET != 0
}

/// Whether an fd is an epoll descriptor that the library follows.
#[inline]
pub fn is_epoll(fd: i32) -> bool {
    mark(fd) & EPOLL != 0
}

/// Whether an fd is anything that the library follows.
#[inline]
pub fn is_followed(fd: i32) -> bool {
    mark(fd) & KINDS != 0
}

/// Whether an fd is anything that the library follows, or a TCP socket whose connection is adopted or may be.
#[inline]
pub fn is_followed_or_stream(fd: i32) -> bool {
    is_followed(fd) || is_stream(fd)
}

/// Whether calls that send and receive by an fd are the library's to look at: a UDP socket that it follows, or such a TCP socket.
#[inline]
pub fn is_socket_or_stream(fd: i32) -> bool {
    is_socket(fd) || is_stream(fd)
}

/// Whether the library has noted anything of an fd, which it forgets when that is closed.
#[inline]
pub fn is_noted(fd: i32) -> bool {
    is_followed(fd) || is_any_stream(fd)
}

/// Whether an fd could be followed at all.
pub fn can_follow(fd: i32) -> bool {
    mark_of(fd).is_some()
}

/// The engine that serves an fd.
#[inline]
pub fn engine_of(fd: i32) -> usize {
    engine_in(mark(fd))
}

#[inline]
const fn engine_in(mark: u8) -> usize {
    (mark >> ENGINE_SHIFT & ENGINE_BITS) as usize
}

/// The engine that serves a socket.
#[inline]
pub fn engine_of_socket(id: SocketId) -> usize {
    ENGINES.get(id.index()).map_or(0, |engine| engine.load(Relaxed)).into()
}

/// Whether a socket can be served by any engine but the first.
pub fn can_move(id: SocketId) -> bool {
    id.index() < NUMBERS
}

/// An fd is a UDP socket from now on.
pub fn follow_socket(fd: i32) {
    set(fd, SOCKET | UNCLAIMED | UNUSED);
}

/// An fd is an epoll descriptor from now on.
pub fn follow_epoll(fd: i32) {
    set(fd, EPOLL | UNCLAIMED | UNUSED);
}

/// Whether an fd is a TCP socket whose connection is adopted, or may be.
#[inline]
pub fn is_stream(fd: i32) -> bool {
    mark(fd) & (STREAM | LEFT) == STREAM
}

/// Whether an fd is a TCP socket that was noted as such, also where the kernel has it for good.
pub fn is_any_stream(fd: i32) -> bool {
    mark(fd) & STREAM != 0
}

/// The kernel has it for good.
pub fn leave_stream(fd: i32) {
    if is_stream(fd) {
        set(fd, mark(fd) | LEFT);
    }
}

/// The kernel has it for good, and what it accepts, as that has its options.
pub fn leave_stream_and_accepted(fd: i32) {
    if is_any_stream(fd) {
        set(fd, mark(fd) | LEFT | LEAVES_ACCEPTED);
    }
}

/// Whether an fd is a TCP socket, and connections that it accepts may be adopted.
pub fn gives_streams(fd: i32) -> bool {
    mark(fd) & (STREAM | LEAVES_ACCEPTED) == STREAM
}

/// Whether a listener accepted it.
pub fn is_server(fd: i32) -> bool {
    mark(fd) & (STREAM | SERVER) == STREAM | SERVER
}

/// An fd is a TCP socket from now on.
pub fn follow_stream(fd: i32, is_server: bool) {
    set(fd, if is_server { STREAM | SERVER } else { STREAM });
    STREAMS_END.fetch_max(fd + 1, Relaxed);
}

/// All fds that are.
pub fn streams() -> impl Iterator<Item = i32> {
    (0..STREAMS_END.load(Relaxed)).filter(|fd| is_stream(*fd))
}

/// `new` is what `old` is.
pub fn follow_copy(old: i32, new: i32) {
    set(new, mark(old));
}

/// An fd is closed.
pub fn unfollow(fd: i32) {
    set(fd, 0);
}

/// Nothing is followed.
pub fn unfollow_all() {
    (0..NUMBERS as i32).filter(|fd| mark(*fd) != 0).for_each(unfollow);
}

/// Whether no thread has received from what an fd names or waited for it.
#[inline]
pub fn is_unclaimed(fd: i32) -> bool {
    mark(fd) & UNCLAIMED != 0
}

/// Whether no thread has used what an fd names.
#[inline]
pub fn is_unused(fd: i32) -> bool {
    mark(fd) & UNUSED != 0
}

/// A thread has received from what an fd names, or waited for it. The caller keeps the gate of its engine, as for all of these.
pub fn claim(fd: i32) {
    set(fd, mark(fd) & !(UNCLAIMED | UNUSED));
}

/// A thread has used it, and it may still move when one waits.
pub fn note_used(fd: i32) {
    set(fd, mark(fd) & !UNUSED);
}

/// The first engine has it, as if nobody had used it.
pub fn begin_again(fd: i32) {
    set(fd, mark(fd) & KINDS | UNCLAIMED | UNUSED);
}

/// Another engine serves an fd, for good. The caller keeps the gates of both.
pub fn move_fd(fd: i32, engine: usize) {
    set(fd, mark(fd) & KINDS | (engine as u8) << ENGINE_SHIFT);
}

/// Another engine serves a socket. The caller keeps the gates of both.
pub fn move_socket(id: SocketId, engine: usize) {
    if let Some(place) = ENGINES.get(id.index()) {
        place.store(engine as u8, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_moved_keeps_its_kind_and_its_copies_are_where_it_is() {
        let (fd, copy) = (60_001, 60_002);
        follow_epoll(fd);
        assert_eq!((is_epoll(fd), is_socket(fd), engine_of(fd)), (true, false, 0));
        assert!(is_unclaimed(fd) && is_unused(fd));
        move_fd(fd, 5);
        assert!(!is_unclaimed(fd) && !is_unused(fd));
        follow_copy(fd, copy);
        assert_eq!(count_of(5), 2);
        assert_eq!((is_epoll(copy), is_followed(copy), engine_of(copy)), (true, true, 5));
        unfollow(fd);
        assert_eq!((is_followed(fd), engine_of(fd)), (false, 0));
        unfollow(copy);
        assert_eq!(count_of(5), 0);
    }

    #[test]
    fn numbers_are_counted_when_they_are_used_and_until_they_are_closed() {
        let fd = 60_003;
        let before = count_of(0);
        follow_socket(fd);
        assert_eq!(count_of(0), before, "nobody has used it");
        note_used(fd);
        assert!(is_unclaimed(fd) && count_of(0) == before + 1);
        claim(fd);
        assert!(!is_unclaimed(fd) && count_of(0) == before + 1);
        begin_again(fd);
        assert!(is_unclaimed(fd) && is_unused(fd) && count_of(0) == before);
        claim(fd);
        unfollow(fd);
        assert_eq!(count_of(0), before);
    }

    #[test]
    fn numbers_beyond_the_table_are_not_followed() {
        assert!(!can_follow(-1) && !can_follow(1 << 16) && can_follow((1 << 16) - 1));
        assert!(!is_followed(-1) && !is_followed(i32::MAX));
    }
}
