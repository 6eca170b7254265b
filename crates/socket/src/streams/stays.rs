//! Connections that stay the kernel's for some calls more, by `auto`: they move bulk, or several threads use connections.

use std::net::IpAddr;

use nearwire_sys::descriptor::Descriptor;
use nearwire_sys::tcp_traffic::{Traffic, traffic};
use rustix::thread::gettid;

use super::bulk::{CALLS_GROW_BY, COMES_BACK_BELOW, Moved, is_bulk};
use super::one_thread::{CALLS_OF_ANOTHER, CALLS_OF_SEVERAL, Told};
use crate::config::Adopt;
use crate::direct;
use crate::engine::Engine;
use crate::host::{Host, Offloads};
use crate::kept::peer_address;
use crate::reason::Reason;
use crate::sockets::Sockets;
use crate::status::Counter;

impl<H: Host> Sockets<H> {
    /// What the kernel's path to a far end does; all, before there is a port.
    fn offloads_towards(&self, remote: Option<IpAddr>) -> Offloads {
        let known = |(remote, engine): (_, &Engine<H>)| engine.offloads_towards(remote);
        remote.zip(self.engine_ref()).and_then(known).unwrap_or(Offloads { cuts: true, joins: true })
    }

    /// Whether the stack is to tell of bulk.
    pub(super) fn minds_bulk(&self) -> bool {
        self.config.adopt == Adopt::Auto
    }

    /// The stack says that a connection moves bulk.
    #[cold]
    pub(super) fn release_for_bulk(&mut self, fd: i32) {
        let Some(shadow) = Descriptor::new(fd) else { return };
        if !self.release_where_routed(fd, Reason::Bulk) {
            return;
        }
        let moved = self.streams.bulk.entry(fd).or_insert(Moved::BEGINNING);
        moved.is_told = true;
        // Disconnected for a moment, the kernel's socket counts anew.
        moved.since = Some((traffic(shadow).unwrap_or_default(), moved.calls));
        direct::allow(fd, moved.calls);
        moved.calls = moved.calls.saturating_mul(CALLS_GROW_BY);
    }

    /// All calls that were allowed on a connection of the kernel's were made, `first_calls` where it was never adopted. Whether it moves bulk, and
    /// stays for some calls more.
    pub(super) fn stays_for_bulk(&mut self, fd: i32, first_calls: u16) -> bool {
        if !self.minds_bulk() {
            return false;
        }
        let known = self.streams.bulk.get(&fd).copied();
        let (before, calls, share) = match known {
            Some(Moved { since: Some((before, calls)), .. }) => (before, calls, COMES_BACK_BELOW),
            // It was released for something else.
            Some(Moved { since: None, .. }) => return false,
            None => (Traffic::default(), first_calls, 1),
        };
        let Some((shadow, now)) = Descriptor::new(fd).and_then(|shadow| Some((shadow, traffic(shadow).ok()?))) else {
            return false;
        };
        let mut offloads = self.offloads_towards(peer_address(shadow).map(|remote| remote.ip().to_canonical()));
        offloads.joins |= known.is_some_and(|known| known.is_told);
        let stays = is_bulk(&before, &now, calls, share, offloads);
        if stays {
            let moved = self.streams.bulk.entry(fd).or_insert(Moved::BEGINNING);
            let calls = if known.is_some() { calls } else { Moved::BEGINNING.calls };
            moved.since = Some((now, calls));
            direct::allow(fd, calls);
            self.tell_attempt(fd);
            self.tell_kept(fd, Some(Reason::Bulk.into()));
        } else if let Some(moved) = self.streams.bulk.get_mut(&fd) {
            moved.since = None;
        }
        stays
    }

    /// Whether a connection stays with the kernel for some calls, as other threads use connections too.
    pub(super) fn stays_with_its_thread(&mut self, fd: i32) -> bool {
        if self.config.adopt != Adopt::Auto {
            return false;
        }
        let calls_served = self.streams.are_carried().then(|| self.page.counted(Counter::CallsServed));
        let now_ns = self.time().exact_ns();
        let calls = match self.streams.one_thread.ask(fd, gettid(), calls_served, now_ns) {
            Told::Adopt => return false,
            Told::Another => CALLS_OF_ANOTHER,
            Told::Several => {
                self.release_all_for_several();
                CALLS_OF_SEVERAL
            }
        };
        self.tell_attempt(fd);
        self.tell_kept(fd, Some(Reason::OtherThread.into()));
        direct::allow(fd, calls);
        true
    }

    fn release_all_for_several(&mut self) {
        self.drive_streams();
        for carried in self.streams.fds() {
            if self.release_where_routed(carried, Reason::OtherThread) {
                direct::allow(carried, CALLS_OF_SEVERAL);
            }
        }
    }
}
