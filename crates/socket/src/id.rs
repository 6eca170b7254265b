//! The number of an accelerated socket.

/// An accelerated socket within this process.
///
/// Numbers are small and dense: they index tables, and the number of a closed socket is given to a
/// later one. It is no descriptor: several descriptors (`dup`) may stand for one socket.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SocketId(u32);

impl SocketId {
    /// The socket number `index`.
    #[must_use]
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// Its place in a table of sockets.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
