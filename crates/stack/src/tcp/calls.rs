//! What a program, or whoever serves its sockets, does with connections.

use thiserror::Error;

use super::connection::{Connection, TcpError};
use super::facts::{AdoptError, ExportError, TcpFacts};
use super::info::{TcpCounters, TcpInfo, TcpReadiness};
use super::options::TcpOptions;
use super::sender::Fin;
use super::{ConnectionId, Tcp, Tuple, ports};
use crate::Stack;
use crate::reasons::NeedsKernel;
use crate::tables::Query;

/// Why a call did nothing.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum TcpCallError {
    /// There is no connection of this number.
    #[error("the connection is not here")]
    NoConnection,
    /// Nothing to read, or no room to write: EAGAIN.
    #[error("the connection has nothing to read, or no room to write")]
    WouldBlock,
    /// This end has said that it writes no more: EPIPE.
    #[error("this end of the connection is shut for writing")]
    Shut,
    /// The connection has ended before its time.
    #[error("{0}")]
    Ended(#[from] TcpError),
}

impl Stack {
    /// Takes over an established connection. Its frames, which a caller sends here from now on, are those of the four-tuple.
    ///
    /// # Errors
    /// The facts are of no connection that could be, or of one that is here.
    pub fn tcp_adopt(
        &mut self,
        facts: &TcpFacts,
        options: TcpOptions,
        now_ns: u64,
    ) -> Result<ConnectionId, AdoptError> {
        let now_ns = self.tcp.passed(now_ns);
        let connection = Connection::adopt(facts, options, self.tcp.connections.next_version(), now_ns)?;
        let tuple = key(&connection);
        if self.tcp.demux.contains_key(&tuple) {
            return Err(AdoptError::AlreadyHere { local: facts.local, peer: facts.peer });
        }
        let id = self.tcp.connections.insert(Box::new(connection));
        self.tcp.demux.insert(tuple, id.index);
        self.tcp.counters.adopted += 1;
        self.tcp.touched(id.index);
        Ok(id)
    }

    /// Tells what time it is: for the frames that are received next, and for reads.
    #[inline]
    pub fn tcp_time(&mut self, now_ns: u64) {
        self.tcp.passed(now_ns);
    }

    /// Gives a connection up for another owner: it is no longer here.
    ///
    /// # Errors
    /// No other owner could go on with it: the reason. It stays.
    pub fn tcp_export(&mut self, id: ConnectionId, now_ns: u64) -> Result<TcpFacts, ExportError> {
        let now_ns = self.tcp.passed(now_ns);
        let connection = self.tcp.connections.get(id).ok_or(ExportError::NoConnection)?;
        let facts = connection.export(now_ns)?;
        self.tcp.remove(id);
        self.tcp.counters.exported += 1;
        Ok(facts)
    }

    /// Forgets a connection, in whatever state. Nothing is sent.
    pub fn tcp_remove(&mut self, id: ConnectionId) {
        self.tcp.remove(id);
    }

    /// The connection of a four-tuple: this end and the far end.
    #[must_use]
    pub fn tcp_find(&self, local: std::net::SocketAddr, peer: std::net::SocketAddr) -> Option<ConnectionId> {
        let tuple = (local.ip().into(), peer.ip().into(), ports(local.port(), peer.port()));
        let index = *self.tcp.demux.get(&tuple)?;
        Some(ConnectionId { index, version: self.tcp.connections.at(index)?.version })
    }

    /// Options of a connection. What they hold back goes.
    pub fn tcp_configure(&mut self, id: ConnectionId, now_ns: u64, change: impl FnOnce(&mut TcpOptions)) {
        self.tcp.passed(now_ns);
        let Some(connection) = self.tcp.connections.get_mut(id) else { return };
        change(&mut connection.options);
        connection.receiver.set_limit(connection.options.receive_buffer_bytes);
        connection.sender.round_trip.set_floor(connection.options.retransmit_floor_ns);
        self.tcp.touched(id.index);
    }

    /// TCP_QUICKACK.
    pub fn tcp_set_quick_acknowledgement(&mut self, id: ConnectionId, is_quick: bool) {
        let Some(connection) = self.tcp.connections.get_mut(id) else { return };
        connection.receiver.set_quick(is_quick);
        self.tcp.touched(id.index);
    }

    /// Takes bytes to send, as many as there is room for. [`Stack::tcp_transmit`] sends what may be sent at once. `more`: further bytes
    /// follow (MSG_MORE), so a piece of a segment is not sent.
    ///
    /// # Errors
    /// Nothing was taken: the reason.
    #[inline]
    pub fn tcp_write(&mut self, id: ConnectionId, now_ns: u64, data: &[u8], more: bool) -> Result<usize, TcpCallError> {
        let now_ns = self.tcp.passed(now_ns);
        let connection = self.tcp.connections.get_mut(id).ok_or(TcpCallError::NoConnection)?;
        if let Some(error) = connection.error {
            return Err(error.into());
        }
        if !connection.may_write() {
            return Err(TcpCallError::Shut);
        }
        connection.sender.restart_after_idle(now_ns);
        let is_first = connection.sender.buffer.len_bytes() == 0;
        let taken = connection.sender.buffer.push(data, connection.written_most_bytes());
        connection.is_write_blocked |= taken < data.len();
        if taken == 0 && !data.is_empty() {
            return Err(TcpCallError::WouldBlock);
        }
        connection.has_more = more;
        connection.bulk.wrote(taken as u32, is_first, self.tcp.writers.wrote(id.index, now_ns));
        let is_bulk = connection.is_bulk();
        self.tcp.touched(id.index);
        if is_bulk {
            self.tcp.announce(id.index);
        }
        Ok(taken)
    }

    /// Lends the bytes that wait, in one piece or two; `read` says how many of them it has read. `Ok(None)`: the far end has sent all.
    ///
    /// # Errors
    /// There is nothing to read: the reason.
    #[inline]
    pub fn tcp_read_with(
        &mut self,
        id: ConnectionId,
        read: impl FnOnce(&[u8], &[u8]) -> usize,
    ) -> Result<Option<usize>, TcpCallError> {
        let connection = self.tcp.connections.get_mut(id).ok_or(TcpCallError::NoConnection)?;
        let (one, two) = connection.readable()?;
        if one.is_empty() {
            return Ok(None);
        }
        let count = read(one, two).min(one.len() + two.len());
        connection.receiver.buffer.consume(count as u32);
        if count > 0 {
            connection.bulk.read(count as u32, self.tcp.now_ns);
        }
        let is_bulk = connection.is_bulk();
        if connection.error.is_none() {
            connection.receiver.has_read();
            if connection.receiver.is_due {
                self.tcp.touched(id.index);
            }
        }
        if is_bulk {
            self.tcp.announce(id.index);
        }
        Ok(Some(count))
    }

    /// Copies bytes that wait to `into`; 0: the far end has sent all.
    ///
    /// # Errors
    /// As [`Self::tcp_read_with`].
    #[inline]
    pub fn tcp_read(&mut self, id: ConnectionId, into: &mut [u8]) -> Result<usize, TcpCallError> {
        let count = self.tcp_read_with(id, |one, two| copy(one, two, into))?;
        Ok(count.unwrap_or(0))
    }

    /// As [`Self::tcp_read`]; the bytes stay (MSG_PEEK).
    ///
    /// # Errors
    /// As [`Self::tcp_read_with`].
    pub fn tcp_peek(&self, id: ConnectionId, into: &mut [u8]) -> Result<usize, TcpCallError> {
        let connection = self.tcp.connections.get(id).ok_or(TcpCallError::NoConnection)?;
        let (one, two) = connection.readable()?;
        Ok(copy(one, two, into))
    }

    /// This end writes no more (SHUT_WR): a FIN follows what was written.
    ///
    /// # Errors
    /// The connection is not here, or has ended.
    pub fn tcp_shutdown(&mut self, id: ConnectionId, now_ns: u64) -> Result<(), TcpCallError> {
        self.tcp.passed(now_ns);
        let connection = self.tcp.connections.get_mut(id).ok_or(TcpCallError::NoConnection)?;
        if let Some(error) = connection.error {
            return Err(error.into());
        }
        if connection.sender.fin == Fin::No {
            connection.sender.fin = Fin::Wanted;
        }
        self.tcp.touched(id.index);
        Ok(())
    }

    /// Resets the connection: what waits is dropped, and the far end is told. It is to be removed when [`Stack::tcp_transmit`] has nothing
    /// more to send of it.
    pub fn tcp_abort(&mut self, id: ConnectionId, now_ns: u64) {
        self.tcp.passed(now_ns);
        let Some(connection) = self.tcp.connections.get_mut(id) else { return };
        if connection.error.is_none() {
            //= RFC 9293 3.10.5 MUST: an abort drops what waits, sends a reset, and sends nothing more
            connection.is_reset_due = true;
            connection.end(TcpError::Aborted);
            self.tcp.touched(id.index);
        }
    }

    /// A connection with news since it was last named here: data, the end of the stream, an error, room to write after a write that
    /// found none, urgent data, or no way. They may be gone meanwhile: [`Self::tcp_readiness`] says what is so.
    pub fn take_ready(&mut self) -> Option<ConnectionId> {
        loop {
            let index = self.tcp.announced.pop()?;
            let Some(connection) = self.tcp.connections.at_mut(index).filter(|connection| connection.is_announced)
            else {
                continue;
            };
            connection.is_announced = false;
            return Some(ConnectionId { index, version: connection.version });
        }
    }

    /// What can be done without waiting.
    #[must_use]
    pub fn tcp_readiness(&self, id: ConnectionId) -> Option<TcpReadiness> {
        self.tcp.connections.get(id).map(Connection::readiness)
    }

    /// The interface by which it sends, whether the next hop is known or not.
    ///
    /// # Errors
    /// There is none: the reason. [`NeedsKernel::NoEndpoint`] without such a connection.
    pub fn tcp_interface(&self, id: ConnectionId) -> Result<u32, NeedsKernel> {
        let connection = self.tcp.connections.get(id).ok_or(NeedsKernel::NoEndpoint)?;
        let (tuple, ifindex) = (connection.tuple, connection.scope);
        let query = Query { destination: tuple.destination, source: Some(tuple.source), ifindex };
        self.tables.way(query).map(|way| way.ifindex)
    }

    /// Whether a segment came for it since it was adopted.
    #[must_use]
    pub fn tcp_has_heard(&self, id: ConnectionId) -> bool {
        self.tcp.connections.get(id).is_some_and(|connection| connection.has_heard)
    }

    /// How many bytes can be read now.
    #[inline]
    #[must_use]
    pub fn tcp_readable_bytes(&self, id: ConnectionId) -> usize {
        self.tcp.connections.get(id).map_or(0, |connection| connection.receiver.buffer.readable_bytes() as usize)
    }

    /// Figures of a connection.
    #[must_use]
    pub fn tcp_info(&self, id: ConnectionId) -> Option<TcpInfo> {
        self.tcp.connections.get(id).map(Connection::info)
    }

    /// Both ends have sent all and heard that the other has it. What remains is to keep the four-tuple for a while (TIME_WAIT).
    #[must_use]
    pub fn tcp_is_finished(&self, id: ConnectionId) -> bool {
        self.tcp.connections.get(id).is_some_and(Connection::is_finished)
    }

    /// Counters over all connections.
    #[must_use]
    pub const fn tcp_counters(&self) -> &TcpCounters {
        &self.tcp.counters
    }

    /// How many connections are here.
    #[must_use]
    pub fn tcp_connections(&self) -> usize {
        self.tcp.connections.len()
    }
}

impl Tcp {
    fn remove(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(id) {
            self.demux.remove(&key(&connection));
            self.wheel.remove(id.index);
        }
    }
}

impl Connection {
    /// What waits; nothing: the far end has sent all.
    fn readable(&self) -> Result<(&[u8], &[u8]), TcpCallError> {
        let (one, two) = self.receiver.buffer.readable();
        // What came before a reset can be read (`tcp_recvmsg_locked`).
        match self.error {
            _ if !one.is_empty() => Ok((one, two)),
            Some(error) => Err(error.into()),
            None if self.receiver.has_ended => Ok((one, two)),
            None => Err(TcpCallError::WouldBlock),
        }
    }
}

fn key(connection: &Connection) -> Tuple {
    let tuple = &connection.tuple;
    (tuple.source, tuple.destination, ports(tuple.source_port, tuple.destination_port))
}

fn copy(one: &[u8], two: &[u8], into: &mut [u8]) -> usize {
    let first = one.len().min(into.len());
    let (into_one, rest) = into.split_at_mut(first);
    into_one.copy_from_slice(&one[..first]);
    let second = two.len().min(rest.len());
    rest[..second].copy_from_slice(&two[..second]);
    first + second
}
