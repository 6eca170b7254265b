//! What the kernel says of the memory of a socket (`SO_MEMINFO`, net/core/sock.c; indexes of include/uapi/linux/sock_diag.h).

use std::os::fd::AsFd;

use super::option_bytes;
use libc::{SO_MEMINFO, SOL_SOCKET};

/// One of the numbers.
#[derive(Clone, Copy, Debug)]
pub enum Memory {
    /// Bytes of what waits to be read, with what the kernel needs for it.
    ReceivedBytes = 0,
    /// Bytes of what no driver has sent yet, likewise.
    UnsentBytes = 2,
    /// Of TCP: bytes that were written and are not acknowledged, likewise.
    WrittenBytes = 5,
    /// Datagrams that were dropped since the socket was opened, for want of room among others; modulo 2^32.
    DroppedDatagrams = 8,
}

/// What the kernel needs at least for a datagram that waits: a buffer of 512 bytes and `struct sk_buff` (SKB_TRUESIZE, include/linux/skbuff.h).
pub const KERNEL_BYTES_OF_A_DATAGRAM: u32 = 768;

const WORD_BYTES: usize = size_of::<u32>();

impl Memory {
    /// The number; zero of a socket that cannot be asked.
    #[must_use]
    pub fn of(self, socket: impl AsFd) -> u32 {
        let mut words = [0; (Memory::DroppedDatagrams as usize + 1) * WORD_BYTES];
        let read_bytes = option_bytes(socket, SOL_SOCKET, SO_MEMINFO, &mut words).unwrap_or(0);
        let (words, _) = words[..read_bytes.min(words.len())].as_chunks();
        words.get(self as usize).copied().map_or(0, u32::from_ne_bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::{KERNEL_BYTES_OF_A_DATAGRAM, Memory};

    #[test]
    fn memory_of_a_socket_grows_by_what_waits() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let to = socket.local_addr().expect("its address");
        assert_eq!(Memory::ReceivedBytes.of(&socket), 0);
        socket.send_to(&[0; 100], to).expect("sent");
        let waiting_bytes = Memory::ReceivedBytes.of(&socket);
        assert!(waiting_bytes >= KERNEL_BYTES_OF_A_DATAGRAM, "{waiting_bytes} bytes");
        assert_eq!(Memory::DroppedDatagrams.of(&socket), 0);
    }
}
