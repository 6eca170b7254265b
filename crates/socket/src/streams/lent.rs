//! Connections that are lent to the kernel while others want the CPUs of the threads that wait for them, for the reasons that sockets are
//! (`service/lent.rs`), and where the kernel passes more messages of several at once (`wait/auto/several.rs`). One that is lent was released, and is adopted again when the thread that lent it finds another way faster.

use crate::direct;
use crate::epoll::SetId;
use crate::host::Host;
use crate::reason::Reason;
use crate::socket::Lent;
use crate::sockets::Sockets;
use crate::status::Counter;
use crate::wait::now_ns;

/// More connections than this one thread does not lend: each is released, and adopted again, in some ten microseconds.
const CONNECTIONS_AT_ONCE: usize = 64;

impl<H: Host> Sockets<H> {
    /// Lends the connections that these fds name, or that are in the sets that they name, to the kernel. Whether there are any.
    pub(crate) fn lend_streams(&mut self, fds: &[i32], reason: Reason) -> bool {
        if !self.streams.are_carried() {
            return false;
        }
        let lent = self.streams_of(fds);
        if lent.is_empty() || lent.len() > CONNECTIONS_AT_ONCE {
            return false;
        }
        self.drive_streams();
        for fd in lent {
            if self.release_where_routed(fd, reason) {
                let now_ns = now_ns();
                let mut lent = Lent::by_this_thread(now_ns);
                direct::allow(fd, lent.allow_more(now_ns));
                self.streams.lent.insert(fd, lent);
                self.page.count(Counter::SocketsLent, 1);
            }
        }
        true
    }

    fn streams_of(&self, fds: &[i32]) -> Vec<i32> {
        let sets: Vec<SetId> = fds.iter().filter_map(|fd| self.sets.find(*fd)).collect();
        let is_in_one = |id| !sets.is_empty() && self.sets.sets_of(id).any(|set| sets.contains(&set));
        let carried = self.streams.by_id.iter();
        carried.filter(|(id, fd)| fds.contains(fd) || is_in_one(**id)).map(|(_, fd)| *fd).collect()
    }

    /// All calls that were allowed on a connection were made. Whether it is lent, and stays so for some calls more.
    pub(super) fn stays_lent(&mut self, fd: i32) -> bool {
        let Some(lent) = self.streams.lent.get_mut(&fd) else { return false };
        let now_ns = now_ns();
        let stays = lent.stays(fd, now_ns);
        if stays {
            direct::allow(fd, lent.allow_more(now_ns));
        } else {
            self.streams.lent.remove(&fd);
        }
        stays
    }
}
