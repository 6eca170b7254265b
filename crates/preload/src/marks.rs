//! What each number is to the library, and which engine serves it.
//!
//! A mark is read before a gate is entered, and again behind it: who moves a socket to another engine changes its marks
//! while it keeps both gates.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use nearwire_socket::SocketId;

/// Numbers that can be marked; a descriptor beyond them is the kernel's.
const NUMBERS: usize = 1 << 16;
const SOCKET: u8 = 1;
const EPOLL: u8 = 2;
const KINDS: u8 = SOCKET | EPOLL;
/// The engine's number stands above the kinds.
const ENGINE_SHIFT: u32 = 4;

/// Zero pages until they are written.
static MARKS: [AtomicU8; NUMBERS] = [const { AtomicU8::new(0) }; NUMBERS];
/// Numbers that each engine serves.
static COUNTS: [AtomicU32; 1 << (u8::BITS - ENGINE_SHIFT)] =
    [const { AtomicU32::new(0) }; 1 << (u8::BITS - ENGINE_SHIFT)];
/// The engine of each socket, for calls that hold one whatever becomes of its number.
static ENGINES: [AtomicU8; NUMBERS] = [const { AtomicU8::new(0) }; NUMBERS];

#[inline]
fn mark_of(number: i32) -> Option<&'static AtomicU8> {
    MARKS.get(usize::try_from(number).ok()?)
}

#[inline]
fn mark(number: i32) -> u8 {
    mark_of(number).map_or(0, |mark| mark.load(Relaxed))
}

fn set(number: i32, value: u8) {
    if let Some(mark) = mark_of(number) {
        let before = mark.swap(value, Relaxed);
        if value & KINDS != 0 {
            COUNTS[usize::from(value >> ENGINE_SHIFT)].fetch_add(1, Relaxed);
        }
        if before & KINDS != 0 {
            COUNTS[usize::from(before >> ENGINE_SHIFT)].fetch_sub(1, Relaxed);
        }
    }
}

/// How many numbers an engine serves.
pub fn count_of(engine: usize) -> u32 {
    COUNTS.get(engine).map_or(0, |count| count.load(Relaxed))
}

/// Whether a number is a UDP socket that the library follows.
#[inline]
pub fn is_socket(number: i32) -> bool {
    mark(number) & SOCKET != 0
}

/// Whether a number is an epoll descriptor that the library follows.
#[inline]
pub fn is_epoll(number: i32) -> bool {
    mark(number) & EPOLL != 0
}

/// Whether a number is anything that the library follows.
#[inline]
pub fn is_followed(number: i32) -> bool {
    mark(number) & KINDS != 0
}

/// Whether a number could be followed at all.
pub fn can_follow(number: i32) -> bool {
    mark_of(number).is_some()
}

/// The engine that serves a number.
#[inline]
pub fn engine_of(number: i32) -> usize {
    (mark(number) >> ENGINE_SHIFT).into()
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

/// A number is a UDP socket from now on.
pub fn follow_socket(number: i32) {
    set(number, SOCKET);
}

/// A number is an epoll descriptor from now on.
pub fn follow_epoll(number: i32) {
    set(number, EPOLL);
}

/// `new` is what `old` is.
pub fn follow_copy(old: i32, new: i32) {
    set(new, mark(old));
}

/// A number is closed.
pub fn unfollow(number: i32) {
    set(number, 0);
}

/// Nothing is followed.
pub fn unfollow_all() {
    (0..NUMBERS as i32).filter(|number| mark(*number) != 0).for_each(unfollow);
}

/// Another engine serves a number. The caller keeps the gates of both.
pub fn move_number(number: i32, engine: usize) {
    set(number, mark(number) & KINDS | (engine as u8) << ENGINE_SHIFT);
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
        let (number, copy) = (60_001, 60_002);
        follow_epoll(number);
        assert_eq!((is_epoll(number), is_socket(number), engine_of(number)), (true, false, 0));
        move_number(number, 5);
        follow_copy(number, copy);
        assert_eq!(count_of(5), 2);
        assert_eq!((is_epoll(copy), is_followed(copy), engine_of(copy)), (true, true, 5));
        unfollow(number);
        assert_eq!((is_followed(number), engine_of(number)), (false, 0));
        unfollow(copy);
        assert_eq!(count_of(5), 0);
    }

    #[test]
    fn numbers_beyond_the_table_are_not_followed() {
        assert!(!can_follow(-1) && !can_follow(1 << 16) && can_follow((1 << 16) - 1));
        assert!(!is_followed(-1) && !is_followed(i32::MAX));
    }
}
