//! The MTU of paths: the kernel learns it of routers, and is asked for it when a send needs to know.
//!
//! Once for each destination that a long datagram goes to, and again when a router reported it, or when the kernel forgets.

use std::net::IpAddr;
use std::time::Duration;

use nearwire_stack::{Path, Update};

use super::Engine;
use super::allowance::Allowance;
use crate::host::{Host, Tables};
use crate::kernel_tables::{PathError, PathErrors};
use crate::now::Now;

/// A router's message comes here a moment before the kernel takes it in. For so long the kernel is asked again.
const KERNEL_FOLLOWS_WITHIN: Duration = Duration::from_millis(10);
/// Messages that are followed at a time, and taken in one look. With more, all paths are asked for anew.
const MESSAGES_MOST: usize = 64;
/// Questions for routers' messages: so many at once, and then one in each millisecond. A question takes 2 to 5 us of whatever call
/// happens to look, and messages may come by the thousand.
const QUESTIONS_AT_ONCE: u32 = 16;
const QUESTION_EVERY: Duration = Duration::from_millis(1);
/// Where routers' messages cannot be heard, an answer is good for this long.
const UNHEARD_GOOD_FOR: Duration = Duration::from_millis(100);
/// Where the kernel gave no answer, it sends what is long for this long.
const REFUSED_GOOD_FOR: Duration = Duration::from_secs(1);
/// No packet of more than this is for us to send then.
const NOTHING_BYTES: u32 = 1;

/// See the module.
#[derive(Debug)]
pub(super) struct Paths {
    pub(super) errors: PathErrors,
    followed: Vec<Followed>,
    /// In nanoseconds of the monotonic clock.
    questions: Allowance,
    /// When answers end.
    ends: Vec<(u64, u32, IpAddr)>,
    next_end_ns: Option<u64>,
}

/// What the kernel may not have taken in yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Followed {
    error: PathError,
    /// It came at this time of the monotonic clock.
    since_ns: u64,
    /// The kernel was asked since.
    is_asked: bool,
}

impl Paths {
    pub(super) const fn new(errors: PathErrors) -> Paths {
        let questions = Allowance::new(QUESTIONS_AT_ONCE, QUESTION_EVERY.as_nanos() as u64);
        Paths { errors, followed: Vec::new(), questions, ends: Vec::new(), next_end_ns: None }
    }

    /// A router's message is followed from now on. `false`: there are too many.
    fn follow(&mut self, error: PathError, now_ns: u64) -> bool {
        let new = Followed { error, since_ns: now_ns, is_asked: false };
        let known = self.followed.iter_mut().find(|known| known.error.destination == error.destination);
        if let Some(known) = known {
            // In its place: one that is repeated would never come first.
            *known = new;
            return true;
        }
        let has_room = self.followed.len() < MESSAGES_MOST;
        if !has_room {
            self.followed.clear();
        }
        self.followed.push(new);
        has_room
    }

    /// Of what is followed, what the kernel is to be asked for now; the longest unasked first. Each is asked for once at least, and
    /// then until it is over.
    fn take_questions(&mut self, now_ns: u64) -> Vec<PathError> {
        let is_over =
            |known: &Followed| now_ns.saturating_sub(known.since_ns) >= KERNEL_FOLLOWS_WITHIN.as_nanos() as u64;
        self.followed.retain(|known| !(known.is_asked && is_over(known)));
        let asked: Vec<_> = (0..self.followed.len()).take_while(|_| self.questions.take(now_ns)).collect();
        let (count, mut errors) = (asked.len(), Vec::with_capacity(asked.len()));
        for known in &mut self.followed[..count] {
            known.is_asked = true;
            errors.push(known.error);
        }
        self.followed.rotate_left(count);
        errors
    }

    /// What the kernel has taken in.
    fn is_known(&mut self, error: PathError) {
        self.followed.retain(|known| known.error != error);
    }

    /// Whether there is something to do even if no router said anything.
    #[inline]
    pub(super) fn has_something(&self) -> bool {
        self.next_end_ns.is_some() || !self.followed.is_empty()
    }

    fn end_at(&mut self, end_ns: u64, ifindex: u32, destination: IpAddr) {
        self.ends.retain(|(_, of, to)| (*of, *to) != (ifindex, destination));
        self.ends.push((end_ns, ifindex, destination));
        self.next_end_ns = self.ends.iter().map(|(end_ns, ..)| *end_ns).min();
    }

    fn take_ended(&mut self, now_ns: u64) -> Vec<(u64, u32, IpAddr)> {
        if self.next_end_ns.is_none_or(|end_ns| end_ns > now_ns) {
            return Vec::new();
        }
        let ended = self.ends.extract_if(.., |(end_ns, ..)| *end_ns <= now_ns).collect();
        self.next_end_ns = self.ends.iter().map(|(end_ns, ..)| *end_ns).min();
        ended
    }
}

impl<H: Host> Engine<H> {
    /// A send needs to know of a path: `true`, it can go on.
    #[cold]
    pub(super) fn answer_path_question(&mut self, now: Now) -> bool {
        let Some((ifindex, destination)) = self.stack.take_path_question() else { return false };
        self.ask_for_path(now, ifindex, destination);
        true
    }

    /// Asks the kernel, tells the stack, and says what it is.
    fn ask_for_path(&mut self, now: Now, ifindex: u32, destination: IpAddr) -> Path {
        let refused = (Path { mtu_bytes: Some(NOTHING_BYTES), is_mtu_locked: false }, Some(REFUSED_GOOD_FOR));
        let (path, good_for) = self.tables.path(ifindex, destination).unwrap_or(refused);
        let unheard = (!self.paths.errors.hears_of(destination)).then_some(UNHEARD_GOOD_FOR);
        if let Some(good_for) = [good_for, unheard].into_iter().flatten().min() {
            let end_ns = now.monotonic_ns().saturating_add(good_for.as_nanos() as u64);
            self.paths.end_at(end_ns, ifindex, destination);
        }
        self.stack.update(Update::Path { ifindex, destination, path: Some(path) });
        path
    }

    /// Follows what routers said, and forgets what is no longer true.
    pub(super) fn follow_paths(&mut self, now: Now) {
        for _ in 0..MESSAGES_MOST {
            let Some(error) = self.paths.errors.next() else { break };
            if self.is_new(error) && !self.paths.follow(error, now.monotonic_ns()) {
                self.stack.forget_paths();
            }
        }
        for error in self.paths.take_questions(now.monotonic_ns()) {
            if self.follow_path_error(now, error) {
                self.paths.is_known(error);
            }
        }
        for (_, ifindex, destination) in self.paths.take_ended(now.monotonic_ns()) {
            self.stack.update(Update::Path { ifindex, destination, path: None });
        }
    }

    /// Whether a router's report concerns a path that a socket here sends by, and is not known yet.
    fn is_new(&self, error: PathError) -> bool {
        let is_longer = |path: Path| path.mtu_bytes.is_none_or(|mtu_bytes| mtu_bytes > error.mtu_bytes);
        let mut known = self.stack.paths_to(error.destination).peekable();
        match known.peek() {
            Some(_) => known.any(|(_, path)| is_longer(path) && !path.is_mtu_locked),
            // Less than what is sent without a question.
            None => error.mtu_bytes < Path::sure_bytes(error.destination),
        }
    }

    /// Whether the kernel has taken it in, or nobody here sends there.
    fn follow_path_error(&mut self, now: Now, error: PathError) -> bool {
        let mut interfaces: Vec<u32> = self.stack.paths_to(error.destination).map(|(ifindex, _)| ifindex).collect();
        if interfaces.is_empty() && error.mtu_bytes < Path::sure_bytes(error.destination) {
            interfaces.extend(self.stack.interface_for(error.destination, None).ok());
        }
        interfaces.into_iter().fold(true, |is_known, ifindex| {
            let path = self.ask_for_path(now, ifindex, error.destination);
            is_known & path.mtu_bytes.is_some_and(|mtu_bytes| path.is_mtu_locked || mtu_bytes <= error.mtu_bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(host: u8, mtu_bytes: u32) -> PathError {
        PathError { destination: [10, 0, 0, host].into(), mtu_bytes }
    }

    #[test]
    fn routers_messages_by_the_thousand_the_kernel_is_asked_once_in_a_millisecond_and_of_each() {
        const MICROSECOND_NS: u64 = 1000;
        let mut paths = Paths::new(PathErrors::none());
        let (mut asked, mut last) = (0, [0; 32]);
        for moment in 1..=10_000 {
            // Each of 32 routers says something every 3.2 ms, for a second.
            let (now_ns, host) = (moment * 100 * MICROSECOND_NS, (moment % 32) as u8);
            assert!(paths.follow(error(host, 1400), now_ns));
            for PathError { destination, .. } in paths.take_questions(now_ns) {
                let IpAddr::V4(destination) = destination else { panic!() };
                asked += 1;
                last[usize::from(destination.octets()[3])] = moment;
            }
        }
        assert!((990..=1000 + QUESTIONS_AT_ONCE).contains(&asked), "{asked} questions in a second");
        assert!(last.iter().all(|moment| *moment > 9_500), "each of them, again and again: {last:?}");
    }

    #[test]
    fn message_that_came_alone_is_asked_of_until_the_kernel_knows_it_or_its_time_is_over() {
        let milliseconds = |count: u64| count * 1_000_000;
        let mut paths = Paths::new(PathErrors::none());
        paths.follow(error(1, 1400), milliseconds(5));
        paths.follow(error(2, 1300), milliseconds(5));
        assert_eq!(paths.take_questions(milliseconds(5)), [error(1, 1400), error(2, 1300)]);
        paths.is_known(error(1, 1400));
        assert_eq!(paths.take_questions(milliseconds(14)), [error(2, 1300)]);
        assert_eq!(paths.take_questions(milliseconds(15)), []);
        paths.follow(error(3, 1300), milliseconds(20));
        assert_eq!(paths.take_questions(milliseconds(90)), [error(3, 1300)], "late, but once");
        assert!(paths.take_questions(milliseconds(91)).is_empty() && !paths.has_something());
    }

    #[test]
    fn more_messages_than_are_followed_all_paths_are_asked_for_anew() {
        let mut paths = Paths::new(PathErrors::none());
        let outcomes: Vec<bool> = (0..=MESSAGES_MOST as u8).map(|host| paths.follow(error(host, 1400), 0)).collect();
        assert_eq!(outcomes.iter().position(|has_room| !has_room), Some(MESSAGES_MOST));
    }
}
