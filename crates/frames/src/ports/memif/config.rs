//! How a memif port is opened.

use std::time::Duration;

use super::control::MemifSocket;
use super::error::MemifError;
use super::message::{SECRET_BYTES, padded};
use super::ring::SIZE_LOG2_MOST;
use crate::PortError;

/// Which end of a connection a port is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemifRole {
    /// Listens, and maps the client's memory. DPDK: `role=server`, VPP: `master`.
    Server,
    /// Connects, and makes the memory. DPDK: `role=client`, VPP: `slave`.
    Client,
}

/// How a memif port is opened.
#[derive(Debug, Clone)]
pub struct MemifConfig {
    /// Where the two ends meet.
    pub socket: MemifSocket,
    /// Which end this one is.
    pub role: MemifRole,
    /// Number of the interface; the same at both ends.
    pub id: u32,
    /// Slots of each ring, log2, 1 to 14: a client's, who uses less if the server wants that.
    pub ring_size_log2: u8,
    /// What a buffer holds, 64 to 65535 bytes: a client's. Longer frames take several.
    pub buffer_bytes: u32,
    /// What a client has to know, at most 23 bytes; `None`: nothing.
    pub secret: Option<Vec<u8>>,
    /// How long it is waited for the peer, and for the connection to be made.
    pub connect_within: Duration,
    /// Frames are lent as copies in memory of this process, and written there before they are copied to the peer: for peers that may
    /// change bytes while they are read.
    pub copies_frames: bool,
    /// As a server, maps also memory that the client can take away, of unsealed files and hugetlbfs (DPDK with `zero-copy=yes`): a client
    /// that does so ends this process by SIGBUS.
    pub trusts_unsealed_memory: bool,
}

impl MemifConfig {
    /// Interface 0 on a socket, with rings of 1024 slots and buffers of 2048 bytes (as DPDK has), no secret; waits 10 s.
    #[must_use]
    pub fn new(socket: MemifSocket, role: MemifRole) -> MemifConfig {
        MemifConfig {
            socket,
            role,
            id: 0,
            ring_size_log2: 10,
            buffer_bytes: 2048,
            secret: None,
            connect_within: Duration::from_secs(10),
            copies_frames: false,
            trusts_unsealed_memory: false,
        }
    }

    /// As it is sent: padded with zeroes, which are no secret.
    pub(super) fn secret_field(&self) -> [u8; SECRET_BYTES] {
        self.secret.as_deref().map_or([0; SECRET_BYTES], padded)
    }

    /// # Errors
    /// Which setting is impossible.
    pub(super) fn check(&self) -> Result<(), PortError> {
        let secret_bytes = self.secret.as_ref().map_or(1, Vec::len);
        let checks = [
            ("ring_size_log2", u64::from(self.ring_size_log2), 1..=u64::from(SIZE_LOG2_MOST), "1 to 14"),
            ("buffer_bytes", u64::from(self.buffer_bytes), 64..=65_535, "64 to 65535"),
            ("length of secret", secret_bytes as u64, 1..=SECRET_BYTES as u64 - 1, "1 to 23 bytes"),
        ];
        match checks.into_iter().find(|(_, found, range, _)| !range.contains(found)) {
            Some((setting, found, _, wanted)) => {
                Err(PortError::Config { interface: super::name(&self.socket), setting, found, wanted })
            }
            None => Ok(()),
        }
    }

    /// The port's error for one of a connection.
    #[cold]
    pub(super) fn failed(&self, source: MemifError) -> PortError {
        PortError::Memif { socket: self.socket.to_string(), source }
    }
}
