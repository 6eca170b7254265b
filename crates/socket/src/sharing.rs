//! Ports that sockets of other processes have too.
//!
//! SO_REUSEADDR, SO_REUSEPORT and SO_BINDTODEVICE let several sockets have a port. The kernel gives a copy of a group's
//! datagram to each, and divides the others among them; an accelerated socket would take all. So one that may share is
//! accelerated only where no socket of another process has its port. The kernel does not tell when one comes, so its table
//! is read again: when a call is about to sleep, and by calls that spin at growing intervals, since processes that share a
//! port mostly start together.
//!
//! The same holds within the process: a socket that the kernel serves would get nothing beside accelerated ones, and a BPF program
//! that chooses among the sockets of a port (SO_ATTACH_REUSEPORT_CBPF) sees no datagram. So the sockets of a port are all
//! accelerated, or all with the kernel; which of them the kernel serves is known to all engines ([`OwnInodes`]).

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::id::SocketId;
use crate::reason::Reason;
use crate::shadow::{self, Kept};
use crate::sockets::Sockets;
use crate::udp_socket::Service;

/// The kernel's tables of UDP sockets in the calling thread's network namespace (`udp4_format_sock`).
const TABLES: [&str; 2] = ["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"];
/// For so long what was read is good enough for another socket: a program opens many at once.
const FRESH: Duration = Duration::from_millis(20);
/// Places of values in a line of them.
const LOCAL_ADDRESS: usize = 1;
const INODE: usize = 9;
/// Between two readings: at first, by calls that sleep, and at most. One takes about 100 us.
const FIRST_INTERVAL: Duration = Duration::from_millis(100);
const SLEEPING_INTERVAL: Duration = Duration::from_millis(500);
const LAST_INTERVAL: Duration = Duration::from_secs(10);

/// Accelerated sockets whose ports others may come to have, and when the table is read for them.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    sockets: Vec<SocketId>,
    /// Where sockets of others were bound then.
    foreign: Vec<SocketAddr>,
    read_last: Option<Instant>,
    interval: Duration,
    /// What [`OwnInodes::changes`] was when they were last asked about.
    followed_changes: u32,
    /// Sockets are being given to the kernel, one after the other.
    is_following: bool,
}

impl Sockets {
    /// Whether a socket may be accelerated as far as others on its port are concerned.
    pub(crate) fn ask_sharing(&mut self, id: SocketId) -> Result<(), Reason> {
        let Some(socket) = self.get(id) else { return Ok(()) };
        let may_share = socket
            .kept()
            .is_some_and(|kept| kept.options.reuse_address || kept.options.reuse_port || kept.options.device.is_some());
        let inode = socket.own_inode;
        let Ok(local) = shadow::local_address(socket.shadow) else { return Ok(()) };
        if !may_share || local.port() == 0 {
            return Ok(());
        }
        if self.sharing.read_last.is_none_or(|read_last| read_last.elapsed() > FRESH) {
            self.read_foreign();
        }
        let is_beside_kernel = self.own_inodes.is_beside_kernel(inode, local);
        if is_beside_kernel || self.sharing.has_another(local) {
            return Err(Reason::SharedPort);
        }
        if !self.sharing.sockets.contains(&id) {
            self.sharing.sockets.push(id);
        }
        self.sharing.interval = FIRST_INTERVAL;
        Ok(())
    }

    /// Reads the table again when that is due, and gives sockets that share their port by now to the kernel.
    #[inline]
    pub(crate) fn follow_sharing(&mut self, sleeps: bool) {
        if !self.sharing.sockets.is_empty() {
            if self.sharing.followed_changes != self.own_inodes.changes() {
                self.give_up_shared();
            }
            self.reread_sharing(sleeps);
        }
    }

    /// The kernel serves a socket from now on: so it does all others that it shares its port with.
    #[cold]
    pub(crate) fn follow_kernel_service(&mut self, id: SocketId) {
        let Some(socket) = self.get(id) else { return };
        let Service::Kernel(why) = &socket.service else { return };
        // What such a socket gets passes no interface.
        if matches!(why.reason, Reason::Loopback | Reason::PeerOnThisHost) {
            return;
        }
        let Ok(local) = shadow::local_address(socket.shadow) else { return };
        let options = Kept::read(socket.shadow, socket.family).options;
        let may_share = options.reuse_address || options.reuse_port || options.device.is_some();
        if may_share && local.port() != 0 && !local.ip().is_loopback() {
            self.own_inodes.served_by_kernel(socket.own_inode, local);
            self.give_up_shared();
        }
    }

    /// Gives accelerated sockets to the kernel that share their port with one that it serves.
    fn give_up_shared(&mut self) {
        // Each that is given up calls this again, and is seen to by the loop below.
        if std::mem::replace(&mut self.sharing.is_following, true) {
            return;
        }
        while self.sharing.followed_changes != self.own_inodes.changes() {
            self.sharing.followed_changes = self.own_inodes.changes();
            self.ask_all_sharing();
        }
        self.sharing.is_following = false;
    }

    fn ask_all_sharing(&mut self) {
        for id in std::mem::take(&mut self.sharing.sockets) {
            if self.get(id).is_some_and(crate::udp_socket::UdpSocket::is_accelerated)
                && let Err(reason) = self.ask_sharing(id)
            {
                self.hand_over(id, reason);
            }
        }
    }

    #[cold]
    fn reread_sharing(&mut self, sleeps: bool) {
        let interval = if sleeps { self.sharing.interval.min(SLEEPING_INTERVAL) } else { self.sharing.interval };
        if self.sharing.read_last.is_some_and(|read_last| read_last.elapsed() < interval) {
            return;
        }
        let next_interval = (self.sharing.interval * 2).min(LAST_INTERVAL);
        self.read_foreign();
        self.ask_all_sharing();
        self.sharing.interval = next_interval;
    }

    /// Reads which sockets there are that are not followed in this process.
    fn read_foreign(&mut self) {
        let own = self.own_inodes.all();
        self.sharing.foreign = all_but(&own);
        self.sharing.read_last = Some(Instant::now());
    }
}

/// The inodes of all sockets that the engines of this process follow, and where those are bound that the kernel serves and that
/// may share their port.
#[derive(Debug, Default)]
pub(crate) struct OwnInodes {
    sockets: Mutex<HashMap<u64, Option<SocketAddr>>>,
    changes: AtomicU32,
}

impl OwnInodes {
    pub(crate) fn add(&self, inode: u64) {
        self.lock().insert(inode, None);
    }

    pub(crate) fn remove(&self, inode: u64) {
        self.lock().remove(&inode);
    }

    fn all(&self) -> HashSet<u64> {
        self.lock().keys().copied().collect()
    }

    fn served_by_kernel(&self, inode: u64, local: SocketAddr) {
        if self.lock().insert(inode, Some(local)) != Some(Some(local)) {
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Whether the kernel serves another one that could get what is for this one.
    fn is_beside_kernel(&self, inode: u64, local: SocketAddr) -> bool {
        let takes = |other: &SocketAddr| other.port() == local.port() && overlap(other.ip(), local.ip());
        self.lock().iter().any(|(of, other)| *of != inode && other.as_ref().is_some_and(takes))
    }

    /// Counts how often the kernel came to serve one.
    #[inline]
    fn changes(&self) -> u32 {
        self.changes.load(Ordering::Acquire)
    }

    /// What a panic left is a table still.
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Option<SocketAddr>>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Whether a socket of another process could get what is for one that is bound here.
    fn has_another(&self, local: SocketAddr) -> bool {
        self.foreign.iter().any(|other| other.port() == local.port() && overlap(other.ip(), local.ip()))
    }
}

/// Where sockets other than `own` are bound.
fn all_but(own: &HashSet<u64>) -> Vec<SocketAddr> {
    let texts = TABLES.iter().filter_map(|table| std::fs::read_to_string(table).ok());
    let mut others = Vec::new();
    for text in texts {
        let entries = text.lines().skip(1).filter_map(entry);
        others.extend(entries.filter(|(_, inode)| !own.contains(inode)).map(|(local, _)| local));
    }
    others
}

/// The local address and the inode of a line.
fn entry(line: &str) -> Option<(SocketAddr, u64)> {
    let mut values = line.split_ascii_whitespace();
    let (address, port) = values.nth(LOCAL_ADDRESS)?.split_once(':')?;
    let inode = values.nth(INODE - LOCAL_ADDRESS - 1)?.parse().ok()?;
    // Each word of an address is printed as the number that this machine takes it for.
    let word = |at: usize| Some(u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip = if address.len() == 8 {
        IpAddr::from(Ipv4Addr::from(word(0)?))
    } else {
        let mut octets = [0; 16];
        for (at, part) in octets.chunks_exact_mut(4).enumerate() {
            part.copy_from_slice(&word(at * 8)?);
        }
        IpAddr::from(Ipv6Addr::from(octets))
    };
    Some((SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?), inode))
}

/// Whether a datagram could be for sockets at both: equal, or any address. `::` takes IPv4 too, unless it was told not to,
/// which the table does not say.
fn overlap(one: IpAddr, other: IpAddr) -> bool {
    let (one, other) = (one.to_canonical(), other.to_canonical());
    one == other || one.is_unspecified() || other.is_unspecified()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_tables_read_have_address_port_and_inode() {
        let v4 =
            "  102: 0201A8C0:14E9 00000000:0000 07 00000000:00000000 00:00000000 00000000  101        0 23517 2 0 0";
        let v6 = "  102: 000080FE00000000FF565CA3B4A1F2FE:0222 00000000000000000000000000000000:0000 07 \
                  00000000:00000000 00:00000000 00000000  0 0 77 2 0000000000000000 0";
        if cfg!(target_endian = "little") {
            assert_eq!(entry(v4), Some(("192.168.1.2:5353".parse().unwrap(), 23517)));
            assert_eq!(entry(v6), Some(("[fe80::a35c:56ff:fef2:a1b4]:546".parse().unwrap(), 77)));
        }
        assert_eq!(entry("  sl  local_address rem_address   st"), None);
    }

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
    fn sockets_bound_here_are_found_unless_they_are_own() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let inode = rustix::fs::fstat(&socket).unwrap().st_ino;
        assert!(all_but(&HashSet::new()).contains(&socket.local_addr().unwrap()));
        assert!(all_but(&HashSet::from([inode])).iter().all(|other| other.port() != port));
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
