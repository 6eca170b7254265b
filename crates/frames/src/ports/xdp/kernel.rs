//! What AF_XDP of this kernel has, whatever the driver: found out once by a socket on the loopback interface. The version would not say it, as
//! distributions take single changes over.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

use super::config::XdpMode;
use super::socket::{Halves, ShareSocket, SocketSpec};
use crate::interface::InterfaceFacts;

const RING_SLOTS: u32 = 4;

/// Whether the kernel maps the rings of a socket that is bound, as Linux 6.4 does ("xsk: allow remap of fill and/or completion rings", `xsk_mmap` in
/// net/xdp/xsk.c). Without, no process can use a port that another one has opened. `true` where it cannot be found out: whoever maps them is refused
/// then.
///
/// The first call starts a thread, which closes the socket: to close one that was bound takes 6 to 14 ms.
#[must_use]
pub fn maps_bound_rings() -> bool {
    static MAPS: OnceLock<bool> = OnceLock::new();
    *MAPS.get_or_init(|| found_out().unwrap_or(true))
}

/// `None`: no right to, or somebody else has the loopback interface's queue.
fn found_out() -> Option<bool> {
    let facts = InterfaceFacts::read("lo").ok()?;
    let spec = SocketSpec::of_trial(&facts, XdpMode::Generic, RING_SLOTS, RING_SLOTS);
    let Halves { receiver, .. } = spec.open().ok()?;
    let receiver = receiver?;
    let maps = match map_again(receiver.socket()) {
        Err(error) => error.kind() != io::ErrorKind::ResourceBusy,
        Ok(_) => true,
    };
    std::thread::spawn(move || drop(receiver));
    Some(maps)
}

fn map_again(socket: BorrowedFd<'_>) -> io::Result<ShareSocket> {
    ShareSocket::map(socket.try_clone_to_owned()?, RING_SLOTS, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_map_bound_rings_as_their_versions_say() {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let mut numbers = release.split(['.', '-']).map_while(|word| word.parse::<u32>().ok());
        let version = (numbers.next().unwrap(), numbers.next().unwrap());
        // Distributions may have more than their versions say; the kernels that tests run on do not.
        assert_eq!(found_out(), Some(version >= (6, 4)), "{release}");
    }
}
