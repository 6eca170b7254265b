//! The sockets of a share in the map that the XDP program redirects by.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use nearwire_sys::bpf::Map;

/// A share's sockets in the map; out of it when dropped. A process that has copies of their descriptors, such as a child of
/// fork(2) until it executes, keeps them open, and frames that they still received would occupy buffers that all share.
#[derive(Debug)]
pub(super) struct Entries {
    sockets: Arc<Map>,
    places: Vec<u32>,
}

impl Entries {
    pub(super) fn new(sockets: Arc<Map>) -> Entries {
        Entries { sockets, places: Vec::new() }
    }

    pub(super) fn enter(&mut self, place: u32, socket: &OwnedFd) -> io::Result<()> {
        self.sockets.set_socket(place, socket)?;
        self.places.push(place);
        Ok(())
    }

    /// In the child of a fork: the map is its parent's, whose sockets stay in it.
    pub(super) fn leave_to_parent(mut self) {
        self.places.clear();
    }

    /// Takes them out of the map.
    pub(super) fn leave(&mut self) {
        for place in self.places.drain(..) {
            // Missing, where the socket is closed.
            let _ = self.sockets.delete(&place.to_ne_bytes());
        }
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        self.leave();
    }
}
