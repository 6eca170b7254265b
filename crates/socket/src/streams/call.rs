//! What a call on a connection came to.

use std::time::Duration;

/// What became of an attempt to send or receive by a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamCall<R> {
    /// What came of it.
    Done(R),
    /// The kernel has the connection.
    Kernel,
    /// There is nothing to read, or no room.
    WouldBlock {
        /// O_NONBLOCK is set.
        is_nonblocking: bool,
        /// SO_RCVTIMEO or SO_SNDTIMEO.
        timeout: Option<Duration>,
    },
    /// The call fails with this error.
    Failed(i32),
}
