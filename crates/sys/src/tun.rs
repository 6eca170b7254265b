//! An interface whose wire is a descriptor: what is written to it the kernel receives, and has delivered when the call returns. What passes
//! another interface waits in a queue of the CPU's, for as long as that has other packets.
//!
//! Source: `drivers/net/tun.c` (`tun_get_user`, `tun_rx_batched`), `Documentation/networking/tuntap.rst`.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

/// See the module. The interface goes with it.
#[derive(Debug)]
pub struct Tun(File);

impl Tun {
    /// Makes an interface for IP packets in the calling thread's network namespace. It is down.
    ///
    /// # Errors
    /// `ENOENT`: the kernel has none of these; `EPERM` without CAP_NET_ADMIN; `EBUSY`: there is an interface of this name;
    /// `EINVAL` for a name that is too long.
    pub fn open(name: &str) -> io::Result<Tun> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
        // SAFETY: a structure of numbers, for which zero is a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if name.len() >= request.ifr_name.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        request.ifr_name.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from as libc::c_char);
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the ioctl reads and writes one `struct ifreq`, which is a live local of that layout.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
        if result == 0 { Ok(Tun(file)) } else { Err(io::Error::last_os_error()) }
    }

    /// Has the kernel receive an IP packet: a socket that it is for has it afterwards.
    ///
    /// # Errors
    /// `EIO`: the interface is down; `EINVAL`: this is no packet.
    pub fn receive(&self, packet: &[u8]) -> io::Result<()> {
        (&self.0).write_all(packet)
    }

    /// The next packet that the kernel has sent, as far as there is room. `None`: there is none.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn sent(&self, room: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.0).read(room) {
            Ok(len_bytes) => Ok(Some(len_bytes)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}
