//! What AF_XDP of this kernel has, whatever the driver: found out once by sockets on the loopback interface. The version would not say it, as
//! distributions take single changes over.
//!
//! Where it cannot be found out (no right to, somebody else has the loopback interface's queue), the kernel is taken for one that has everything:
//! whoever needs it is refused then.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

use super::config::XdpMode;
use super::socket::{Halves, ShareSocket, SocketSpec, may_be_for_multi_buffer};
use crate::interface::InterfaceFacts;

const RING_SLOTS: u32 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KernelParts {
    bound_rings: bool,
    multi_buffer: bool,
}

/// Whether the kernel maps the rings of a socket that is bound, as Linux 6.4 does ("xsk: allow remap of fill and/or completion rings", `xsk_mmap` in
/// net/xdp/xsk.c). Without, no process can use a port that another one has opened.
#[must_use]
pub fn maps_bound_rings() -> bool {
    parts().bound_rings
}

/// Whether a frame may lie in several buffers (`XDP_USE_SG`), as since Linux 6.6. In zero-copy mode the driver must have it too.
pub(super) fn has_multi_buffer() -> bool {
    parts().multi_buffer
}

fn parts() -> KernelParts {
    static PARTS: OnceLock<KernelParts> = OnceLock::new();
    *PARTS.get_or_init(|| found_out().unwrap_or(KernelParts { bound_rings: true, multi_buffer: true }))
}

fn found_out() -> Option<KernelParts> {
    let facts = InterfaceFacts::read("lo").ok()?;
    let spec = SocketSpec {
        facts: &facts,
        queue: 0,
        mode: XdpMode::Generic,
        frame_size_bytes: 2048,
        fill_frames: RING_SLOTS,
        rx_ring_slots: RING_SLOTS,
        tx_frames: 0,
        prepared_frames: 0,
        share_areas: 0,
        share_tx_frames: 0,
        huge_pages: false,
        keeps_memory_fd: false,
        multi_buffer: true,
    };
    let (halves, multi_buffer) = match spec.try_open() {
        Err(error) if may_be_for_multi_buffer(&error) => {
            (SocketSpec { multi_buffer: false, ..spec }.try_open().ok()?, false)
        }
        opened => (opened.ok()?, true),
    };
    let Halves { receiver, .. } = &halves;
    let bound_rings = match map_again(receiver.as_ref()?.socket()) {
        Err(error) => error.kind() != io::ErrorKind::ResourceBusy,
        Ok(_) => true,
    };
    Some(KernelParts { bound_rings, multi_buffer })
}

fn map_again(socket: BorrowedFd<'_>) -> io::Result<ShareSocket> {
    ShareSocket::map(socket.try_clone_to_owned()?, RING_SLOTS, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_have_what_their_versions_say() {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let mut numbers = release.split(['.', '-']).map_while(|word| word.parse::<u32>().ok());
        let version = (numbers.next().unwrap(), numbers.next().unwrap());
        let parts = found_out().expect("sockets on the loopback interface");
        // Distributions may have more than their versions say; the kernels that tests run on do not.
        assert_eq!(parts.bound_rings, version >= (6, 4), "rings of a bound socket on {release}");
        assert_eq!(parts.multi_buffer, version >= (6, 6), "frames of several buffers on {release}");
    }
}
