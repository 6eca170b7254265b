//! Ports that sockets of other processes have too.
//!
//! SO_REUSEADDR, SO_REUSEPORT and SO_BINDTODEVICE let several sockets have a port. The kernel gives a copy of a group's
//! datagram to each, and divides the others among them; an accelerated socket would take all. So one that may share is
//! accelerated only where no socket of another process has its port. The kernel does not tell when one comes, so its table
//! is read again: when a call is about to sleep, and by calls that spin at growing intervals, since processes that share a
//! port mostly start together.
//!
//! The kernel takes 25 us to report one port, and with ten thousand sockets on the host 650 us, or 5 ms to report all. So it is
//! asked again while nobody is kept out of the sockets: [`Sockets::take_sharing_question`], [`SharingQuestion::ask`],
//! [`Sockets::sharing_answered`]. Only a socket that is about to be accelerated waits for its answer inside.
//!
//! The same holds within the process: a socket that the kernel serves would get nothing beside accelerated ones, and a BPF program
//! that chooses among the sockets of a port (SO_ATTACH_REUSEPORT_CBPF) sees no datagram. So the sockets of a port are all
//! accelerated, or all with the kernel; which of them the kernel serves is known to all engines ([`OwnInodes`]).

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

mod ask;

use nearwire_agent::bound;

use crate::host::{Home, at_home};
use crate::id::SocketId;
use crate::now::Now;
use crate::reason::Reason;

/// For so long what was read is good enough for another socket: a program opens many at once.
const FRESH: Duration = Duration::from_millis(20);
/// Of so many ports in a row each is asked for; then all of them at once: an answer about one takes about 1 ms where there are ten
/// thousand sockets, as the kernel looks at each.
const SINGLE_QUESTIONS: u32 = 4;
/// Between two readings: at first, by calls that sleep, and at most. One of one port takes some 30 us where there are few sockets.
const FIRST_INTERVAL: Duration = Duration::from_millis(100);
const SLEEPING_INTERVAL: Duration = Duration::from_millis(500);
const LAST_INTERVAL: Duration = Duration::from_secs(10);

/// Accelerated sockets whose ports others may come to have, and when the table is read for them.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    sockets: Vec<SocketId>,
    /// Where sockets of others were bound then.
    foreign: Vec<SocketAddr>,
    /// What was asked for.
    asked: Asked,
    /// Questions about single ports in a row.
    singles: u32,
    /// Of the monotonic clock, as all times here.
    read_last_ns: Option<u64>,
    interval: Duration,
    /// What [`OwnInodes::changes`] was when they were last asked about.
    followed_changes: u32,
    /// Sockets are being given to the kernel, one after the other.
    is_following: bool,
    /// When the kernel was asked last by a thread that kept nobody out.
    asked_last_ns: Option<u64>,
}

/// Sockets that the kernel is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Asked {
    All,
    OfPorts(Vec<u16>),
}

impl Asked {
    /// Where sockets of a network namespace are bound, and their inodes.
    fn bound(&self, home: Option<&Home>) -> Result<Vec<(SocketAddr, u64)>, Reason> {
        let ask = || match self {
            Asked::All => bound_to(None),
            Asked::OfPorts(ports) => {
                ports.iter().map(|port| bound_to(Some(*port))).collect::<io::Result<Vec<_>>>().map(|each| each.concat())
            }
        };
        at_home(home, ask)?.map_err(|_| Reason::PortsUnknown)
    }
}

impl Default for Asked {
    fn default() -> Asked {
        Asked::OfPorts(Vec::new())
    }
}

/// A question for the kernel: who has the ports of accelerated sockets by now.
#[derive(Debug)]
pub struct SharingQuestion {
    asked: Asked,
    asking: Asking,
    home: Option<Arc<Home>>,
}

/// What the kernel said to a [`SharingQuestion`].
#[derive(Debug)]
pub struct SharingAnswer {
    question: SharingQuestion,
    bound: Result<Vec<(SocketAddr, u64)>, Reason>,
}

impl SharingQuestion {
    /// Asks, in the network namespace of the engine.
    #[must_use]
    pub fn ask(self) -> SharingAnswer {
        let bound = self.asked.bound(self.home.as_deref());
        SharingAnswer { question: self, bound }
    }
}

/// The inodes of all sockets that the engines of this process follow, and where those are bound that the kernel serves and that
/// may share their port.
#[derive(Debug, Default)]
pub(crate) struct OwnInodes {
    known: Mutex<Known>,
    changes: AtomicU32,
}

#[derive(Debug, Default)]
struct Known {
    sockets: HashMap<u64, Option<SocketAddr>>,
    /// Threads that ask the kernel.
    asking: u32,
    /// Of this process until a moment ago: an answer to one of these threads may have them.
    gone: HashSet<u64>,
}

impl OwnInodes {
    pub(crate) fn add(&self, inode: u64) {
        self.lock().sockets.insert(inode, None);
    }

    pub(crate) fn remove(&self, inode: u64) {
        let mut known = self.lock();
        known.sockets.remove(&inode);
        if known.asking != 0 {
            known.gone.insert(inode);
        }
    }

    /// In the child of a fork: who asked is the parent's.
    pub(crate) fn forked(&self) {
        let mut known = self.lock();
        (known.asking, known.gone) = (0, HashSet::new());
    }

    fn all(&self) -> HashSet<u64> {
        self.lock().sockets.keys().copied().collect()
    }

    fn served_by_kernel(&self, inode: u64, local: SocketAddr) {
        if self.lock().sockets.insert(inode, Some(local)) != Some(Some(local)) {
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Whether the kernel serves another one that could get what is for this one.
    fn is_beside_kernel(&self, inode: u64, local: SocketAddr) -> bool {
        let takes = |other: &SocketAddr| other.port() == local.port() && overlap(other.ip(), local.ip());
        self.lock().sockets.iter().any(|(of, other)| *of != inode && other.as_ref().is_some_and(takes))
    }

    /// Counts how often the kernel came to serve one.
    #[inline]
    fn changes(&self) -> u32 {
        self.changes.load(Ordering::Acquire)
    }

    /// What a panic left is a table still.
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// While it is there, inodes of this process that go are remembered: the kernel is asked while sockets are closed.
#[derive(Debug)]
struct Asking(Arc<OwnInodes>);

impl Asking {
    fn begin(inodes: &Arc<OwnInodes>) -> Asking {
        inodes.lock().asking += 1;
        Asking(Arc::clone(inodes))
    }

    /// All that were of this process at some time since it began.
    fn own_meanwhile(&self) -> HashSet<u64> {
        let known = self.0.lock();
        known.sockets.keys().chain(&known.gone).copied().collect()
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let mut known = self.0.lock();
        known.asking = known.asking.saturating_sub(1);
        if known.asking == 0 {
            known.gone.clear();
        }
    }
}

impl Sharing {
    /// A socket goes to another engine; whether it was among these.
    pub(crate) fn leave(&mut self, id: SocketId) -> bool {
        let before = self.sockets.len();
        self.sockets.retain(|known| *known != id);
        self.sockets.len() < before
    }

    /// A socket came from another engine.
    pub(crate) fn enter(&mut self, id: SocketId) {
        self.sockets.push(id);
        self.interval = FIRST_INTERVAL;
    }

    /// Whether what was read says who is at a port, and is good enough.
    fn knows(&self, now: Now, port: u16) -> bool {
        let was_asked = match &self.asked {
            Asked::All => true,
            Asked::OfPorts(ports) => ports.contains(&port),
        };
        was_asked && self.read_last_ns.is_some_and(|read_last_ns| now.since(read_last_ns) <= FRESH)
    }

    /// Whether a socket of another process could get what is for one that is bound here.
    fn has_another(&self, local: SocketAddr) -> bool {
        self.foreign.iter().any(|other| other.port() == local.port() && overlap(other.ip(), local.ip()))
    }
}

/// Where the UDP sockets of the calling thread's network namespace are bound, of a port or of any, and their inodes.
fn bound_to(port: Option<u16>) -> io::Result<Vec<(SocketAddr, u64)>> {
    Ok(bound::bound_to(port)?.into_iter().map(|socket| (socket.local, socket.inode)).collect())
}

/// Where sockets other than `own` are bound, of those found.
fn but(own: &HashSet<u64>, found: Vec<(SocketAddr, u64)>) -> Vec<SocketAddr> {
    found.into_iter().filter(|(_, inode)| !own.contains(inode)).map(|(local, _)| local).collect()
}

/// Whether a datagram could be for sockets at both: equal, or any address. `::` takes IPv4 too, unless it was told not to,
/// which the table does not say.
pub(crate) fn overlap(one: IpAddr, other: IpAddr) -> bool {
    let (one, other) = (one.to_canonical(), other.to_canonical());
    one == other || one.is_unspecified() || other.is_unspecified()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_beside_one_that_the_kernel_serves_is_told_so_until_that_is_closed() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let own = OwnInodes::default();
        own.add(1);
        own.add(2);
        own.served_by_kernel(1, at("0.0.0.0:7"));
        own.served_by_kernel(1, at("0.0.0.0:7"));
        assert_eq!(own.changes(), 1);
        assert!(own.is_beside_kernel(2, at("10.0.0.1:7")) && !own.is_beside_kernel(2, at("10.0.0.1:8")));
        assert!(!own.is_beside_kernel(1, at("0.0.0.0:7")), "itself");
        own.remove(1);
        assert!(!own.is_beside_kernel(2, at("10.0.0.1:7")));
    }

    #[test]
    fn socket_closed_while_the_kernel_is_asked_is_not_taken_for_one_of_another_process() {
        let own = Arc::new(OwnInodes::default());
        own.add(1);
        let first = Asking::begin(&own);
        own.add(2);
        own.remove(2);
        own.remove(1);
        let second = Asking::begin(&own);
        drop(first);
        assert_eq!(second.own_meanwhile(), HashSet::from([1, 2]));
        drop(second);
        assert_eq!(Asking::begin(&own).own_meanwhile(), HashSet::new(), "inodes are given out again");
    }

    #[test]
    fn sockets_bound_here_are_found_unless_they_are_own() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let inode = rustix::fs::fstat(&socket).unwrap().st_ino;
        let local = socket.local_addr().unwrap();
        assert!(but(&HashSet::new(), bound_to(None).unwrap()).contains(&local));
        assert_eq!(but(&HashSet::new(), bound_to(Some(port)).unwrap()), [local]);
        assert!(but(&HashSet::from([inode]), bound_to(None).unwrap()).iter().all(|other| other.port() != port));
        assert_eq!(but(&HashSet::from([inode]), bound_to(Some(port)).unwrap()), []);
    }

    #[test]
    fn addresses_compared_overlap_where_a_datagram_could_be_for_both() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(overlap(ip("0.0.0.0"), ip("239.1.2.3")));
        assert!(overlap(ip("::"), ip("10.0.0.1")));
        assert!(overlap(ip("::ffff:10.0.0.1"), ip("10.0.0.1")));
        assert!(!overlap(ip("10.0.0.2"), ip("10.0.0.1")));
    }
}
