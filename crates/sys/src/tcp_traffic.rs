//! What a TCP connection of the kernel's has moved: of `struct tcp_info`.

use std::io;
use std::os::fd::AsFd;

use crate::socket::option_bytes;
use crate::tcp_repair::unacknowledged_bytes;

/// Since the connection was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes that were written: acknowledged, or in the send queue.
    pub sent_bytes: u64,
    /// Bytes that came.
    pub received_bytes: u64,
    /// Segments with data that came.
    pub received_segments: u32,
    /// Segments with data that were sent.
    pub sent_segments: u32,
}

/// Asks the kernel.
///
/// # Errors
/// A system call failed, or the kernel does not tell (before Linux 4.6).
pub fn traffic(socket: impl AsFd) -> io::Result<Traffic> {
    // Where the fields of `struct tcp_info` lie (include/uapi/linux/tcp.h), which grows at its end.
    const BYTES_ACKED: usize = 120;
    const BYTES_RECEIVED: usize = 128;
    const DATA_SEGS_IN: usize = 152;
    const DATA_SEGS_OUT: usize = 156;
    let mut bytes = [0; DATA_SEGS_OUT + 4];
    if option_bytes(&socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)? < bytes.len() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let double = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
    let word = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u32::from_ne_bytes(*word));
    Ok(Traffic {
        sent_bytes: double(BYTES_ACKED) + u64::from(unacknowledged_bytes(&socket)?),
        received_bytes: double(BYTES_RECEIVED),
        received_segments: word(DATA_SEGS_IN),
        sent_segments: word(DATA_SEGS_OUT),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn bytes_and_segments_of_both_directions_are_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(&[1; 5000]).unwrap();
        far.read_exact(&mut [0; 5000]).unwrap();
        far.write_all(&[2; 70]).unwrap();
        near.read_exact(&mut [0; 70]).unwrap();
        let told = traffic(&near).unwrap();
        // The SYN counts as a byte that was acknowledged.
        assert!((5000..=5001).contains(&told.sent_bytes), "{told:?}");
        assert_eq!((told.received_bytes, told.received_segments), (70, 1));
        assert!(told.sent_segments > 0, "{told:?}");
    }
}
