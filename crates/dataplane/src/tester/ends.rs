//! What a tester needs of its two ends: a port, or a socket of a host.

use std::io;
use std::net::UdpSocket;

use nearwire_frames::PortError;
use nearwire_frames::port::Port;

/// Sends the frames of a generator.
pub trait Sends {
    /// Queues a frame that `write` makes. `false`: there is no room now.
    ///
    /// # Errors
    /// The end failed for good.
    fn put(&mut self, len_bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<bool, PortError>;

    /// Has what was put leave.
    ///
    /// # Errors
    /// As [`Sends::put`].
    fn leave(&mut self) -> Result<(), PortError>;

    /// One line for people.
    fn in_words(&self) -> String;
}

/// Receives frames for a sink.
pub trait Receives {
    /// Lends the next frame.
    ///
    /// # Errors
    /// The end failed for good.
    fn take<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, PortError>;

    /// Sends something, by which bridges on the way learn where the sink is: `frame`, or what this end can send.
    ///
    /// # Errors
    /// As [`Receives::take`].
    fn show_itself(&mut self, frame: &[u8]) -> Result<(), PortError>;

    /// Whether it receives the content of datagrams, without headers.
    fn has_content_only(&self) -> bool;

    /// One line for people.
    fn in_words(&self) -> String;
}

impl<P: Port> Sends for P {
    #[inline]
    fn put(&mut self, len_bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        Port::queue_with(self, len_bytes, write)
    }

    #[inline]
    fn leave(&mut self) -> Result<(), PortError> {
        Port::flush(self)
    }

    fn in_words(&self) -> String {
        Port::describe(self)
    }
}

impl<P: Port> Receives for P {
    #[inline]
    fn take<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, PortError> {
        Port::receive(self, read)
    }

    fn show_itself(&mut self, frame: &[u8]) -> Result<(), PortError> {
        self.send(frame).map(|_| ())
    }

    fn has_content_only(&self) -> bool {
        false
    }

    fn in_words(&self) -> String {
        Port::describe(self)
    }
}

/// Longest frame, bytes without FCS.
const FRAME_MOST_BYTES: usize = 9022;

/// A UDP socket of a host's kernel. As a program on a host it makes one system call a datagram.
///
/// It sends the content of frames without their headers, as the kernel makes its own, and receives such content.
#[derive(Debug)]
pub struct HostSocket {
    socket: UdpSocket,
    /// Bytes in front of the content of a frame.
    headers_bytes: usize,
    buffer: Box<[u8]>,
}

impl HostSocket {
    /// Of a socket that is bound and connected.
    ///
    /// # Errors
    /// The socket cannot be made non-blocking.
    pub fn new(socket: UdpSocket, headers_bytes: usize) -> io::Result<HostSocket> {
        socket.set_nonblocking(true)?;
        Ok(HostSocket { socket, headers_bytes, buffer: vec![0; FRAME_MOST_BYTES].into_boxed_slice() })
    }
}

impl Sends for HostSocket {
    #[inline]
    fn put(&mut self, len_bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<bool, PortError> {
        let too_long = || failure("send", io::ErrorKind::InvalidInput.into());
        let frame = self.buffer.get_mut(..len_bytes).ok_or_else(too_long)?;
        write(frame);
        let content = frame.get(self.headers_bytes..).ok_or_else(too_long)?;
        Ok(when_there_is(self.socket.send(content), "send")?.is_some())
    }

    fn leave(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn in_words(&self) -> String {
        DESCRIPTION.to_owned()
    }
}

impl Receives for HostSocket {
    #[inline]
    fn take<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, PortError> {
        let received = when_there_is(self.socket.recv(&mut self.buffer), "receive")?;
        Ok(received.map(|bytes| read(&self.buffer[..bytes])))
    }

    fn show_itself(&mut self, _: &[u8]) -> Result<(), PortError> {
        when_there_is(self.socket.send(&[]), "send").map(|_| ())
    }

    fn has_content_only(&self) -> bool {
        true
    }

    fn in_words(&self) -> String {
        DESCRIPTION.to_owned()
    }
}

const DESCRIPTION: &str = "UDP socket of the kernel, one call a datagram";

/// `None`: there is nothing now, or no room; or the kernel tells what became of an earlier datagram.
#[inline]
fn when_there_is(outcome: io::Result<usize>, tried: &'static str) -> Result<Option<usize>, PortError> {
    use io::ErrorKind::{ConnectionRefused, Interrupted, WouldBlock};
    match outcome {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), WouldBlock | Interrupted | ConnectionRefused) => Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => Ok(None),
        Err(source) => Err(failure(tried, source)),
    }
}

fn failure(tried: &'static str, source: io::Error) -> PortError {
    PortError::Kernel { tried, interface: "a UDP socket".to_owned(), source }
}
