//! TCP connections whose data our stack carries, between adoption from the kernel and release to it.
//!
//! ```text
//!  the kernel's  --adopt-->  carried: shadow parked (`nearwire_agent::adoption`), data in `nearwire_stack`  --release-->  the kernel's
//! ```
//! The caller has an exact flow in place that keeps the connection's frames from the kernel, from before [`Carried::adopt`] until after
//! [`Carried::release`]. A frame that passed the steering table before the flow stood there comes to the shadow, which acknowledges it:
//! [`Carried::merge_slipped`] gives its bytes to the stack.

pub mod carrier;

use std::os::fd::AsFd;

use nearwire_agent::adoption::{self, AdoptionError, Connection, Privileged, Privileges, Set};
use nearwire_stack::{
    AdoptError, ConnectionId, ExportError, Stack, TcpFacts, TcpOptions, TcpRoundTrip, TcpTimestamp, TcpWindow,
};
use nearwire_sys::tcp_repair::{Repair, Window};
use thiserror::Error;

/// A connection that a stack carries.
#[derive(Debug)]
pub struct Carried {
    id: ConnectionId,
    options: TcpOptions,
    /// As it came from the kernel, without its bytes; what the stack does not know of it is given back as it was.
    taken: Connection,
    /// What the shadow receives next: what it was parked with, and what slipped to it since.
    shadow_sequence: u32,
}

/// Why a connection could not change its owner.
#[derive(Debug, Error)]
pub enum CarryError {
    /// The kernel did not give it, or take it back.
    #[error(transparent)]
    Kernel(#[from] AdoptionError),
    /// The stack did not take it: it is the kernel's again.
    #[error(transparent)]
    Adopt(#[from] AdoptError),
    /// The stack cannot give it: it is carried still.
    #[error(transparent)]
    Export(#[from] ExportError),
}

impl Carried {
    /// Takes a connection from the kernel and has the stack carry it. `now_ns`: the time of the stack's TCP clock.
    ///
    /// # Errors
    /// See [`CarryError`]; the connection is the kernel's, as far as the kernel let it be.
    pub fn adopt(
        shadow: impl AsFd,
        stack: &mut Stack,
        options: TcpOptions,
        now_ns: u64,
    ) -> Result<Carried, CarryError> {
        Carried::adopt_by(&shadow, stack, options, now_ns, &|asked: Privileged| asked.set(&shadow))
    }

    /// The same, where somebody else has the capability that changing its owner needs: `privileges` has it done.
    ///
    /// # Errors
    /// As [`Carried::adopt`].
    pub fn adopt_by(
        shadow: impl AsFd,
        stack: &mut Stack,
        options: TcpOptions,
        now_ns: u64,
        privileges: &Privileges<'_>,
    ) -> Result<Carried, CarryError> {
        let mut taken = adoption::adopt_by(&shadow, privileges)?;
        let facts = facts_of(&taken);
        match stack.tcp_adopt(&facts, options, now_ns) {
            Ok(id) => {
                (taken.sent, taken.unsent, taken.unread) = (Vec::new(), Vec::new(), Vec::new());
                let shadow_sequence = taken.next_sequence;
                Ok(Carried { id, options, taken, shadow_sequence })
            }
            Err(error) => {
                adoption::release_by(&shadow, &taken, Repair::Thaw, privileges)?;
                Err(error.into())
            }
        }
    }

    /// Its number in the stack.
    #[must_use]
    pub const fn id(&self) -> ConnectionId {
        self.id
    }

    /// Options as the program has set them, of which its shadow shows other values.
    #[must_use]
    pub const fn set(&self) -> Set {
        self.taken.set
    }

    /// Gives the stack what came to the parked shadow since this was last called; how many bytes. The far end does not send them again.
    ///
    /// # Errors
    /// See [`CarryError`].
    pub fn merge_slipped(&mut self, shadow: impl AsFd, stack: &mut Stack, now_ns: u64) -> Result<usize, CarryError> {
        let more = self.slipped(shadow)?;
        if more.is_empty() {
            return Ok(0);
        }
        let mut facts = stack.tcp_export(self.id, now_ns)?;
        self.merge(&mut facts, &more);
        self.id = stack.tcp_adopt(&facts, self.options, now_ns)?;
        Ok(more.len())
    }

    /// Gives the connection to the kernel, which goes on with it at once.
    ///
    /// # Errors
    /// See [`CarryError`]. With [`CarryError::Export`] the stack carries it still, and [`Carried`] comes back; else it is neither's, and the
    /// far end is to be told so.
    pub fn release(
        self,
        shadow: impl AsFd,
        stack: &mut Stack,
        now_ns: u64,
    ) -> Result<(), (CarryError, Option<Box<Carried>>)> {
        self.release_by(&shadow, stack, now_ns, Repair::Thaw, &|asked: Privileged| asked.set(&shadow))
    }

    /// The same; see [`Carried::adopt_by`], and for `how` [`adoption::release_by`].
    ///
    /// # Errors
    /// As [`Carried::release`].
    pub fn release_by(
        mut self,
        shadow: impl AsFd,
        stack: &mut Stack,
        now_ns: u64,
        how: Repair,
        privileges: &Privileges<'_>,
    ) -> Result<(), (CarryError, Option<Box<Carried>>)> {
        adoption::shut_off(&shadow, &self.taken).map_err(|error| (error.into(), None))?;
        let more = self.slipped(&shadow).map_err(|error| (error, None))?;
        let mut facts = match stack.tcp_export(self.id, now_ns) {
            Ok(facts) => facts,
            Err(error) => {
                adoption::let_in(&shadow, &self.taken).map_err(|error| (error.into(), None))?;
                return Err((error.into(), Some(Box::new(self))));
            }
        };
        self.merge(&mut facts, &more);
        let connection = connection_of(&self.taken, facts);
        adoption::release_by(&shadow, &connection, how, privileges).map_err(|error| (error.into(), None))
    }

    /// What came to the shadow since it was last asked.
    fn slipped(&self, shadow: impl AsFd) -> Result<Vec<u8>, CarryError> {
        let mut all = adoption::slipped(shadow)?;
        let known = self.shadow_sequence.wrapping_sub(self.taken.next_sequence) as usize;
        Ok(all.split_off(known.min(all.len())))
    }

    /// Adds what came to the shadow, as far as the stack does not have it: the far end may have sent it again.
    fn merge(&mut self, facts: &mut TcpFacts, slipped: &[u8]) {
        let known = facts.next_sequence.wrapping_sub(self.shadow_sequence) as usize;
        if let Some(more) = slipped.get(known..) {
            facts.unread.extend(more);
            facts.next_sequence = facts.next_sequence.wrapping_add(more.len() as u32);
        }
        self.shadow_sequence = self.shadow_sequence.wrapping_add(slipped.len() as u32);
    }
}

fn facts_of(connection: &Connection) -> TcpFacts {
    let Window { snd_wl1, snd_wnd, max_window, rcv_wnd, rcv_wup } = connection.window;
    TcpFacts {
        local: connection.local,
        peer: connection.peer,
        unacknowledged_sequence: connection.unacknowledged_sequence,
        sent: connection.sent.clone(),
        unsent: connection.unsent.clone(),
        is_write_shut: false,
        next_sequence: connection.next_sequence,
        unread: connection.unread.clone(),
        window: TcpWindow {
            send_sequence: snd_wl1,
            send_bytes: snd_wnd,
            send_most_bytes: max_window,
            receive_bytes: rcv_wnd,
            receive_sequence: rcv_wup,
        },
        maximum_segment_bytes: connection.maximum_segment_bytes,
        window_scale: connection.window_scale,
        has_selective_acknowledgement: connection.has_selective_acknowledgement,
        timestamp: connection.timestamp.map(|timestamp| TcpTimestamp {
            value: timestamp.value,
            is_in_microseconds: timestamp.is_in_microseconds,
            recent: None,
        }),
        // One that has it stays the kernel's.
        has_congestion_notification: false,
        round_trip: connection.round_trip.map(|round_trip| TcpRoundTrip {
            smoothed_ns: round_trip.smoothed.as_nanos() as u64,
            variation_ns: round_trip.variation.as_nanos() as u64,
        }),
    }
}

/// What the kernel is given: the numbers, windows and bytes of `facts`, all else as it was taken.
fn connection_of(taken: &Connection, facts: TcpFacts) -> Connection {
    let mut connection = taken.clone();
    connection.unacknowledged_sequence = facts.unacknowledged_sequence;
    (connection.sent, connection.unsent, connection.unread) = (facts.sent, facts.unsent, facts.unread);
    connection.next_sequence = facts.next_sequence;
    connection.window = Window {
        snd_wl1: facts.window.send_sequence,
        snd_wnd: facts.window.send_bytes,
        max_window: facts.window.send_most_bytes,
        rcv_wnd: facts.window.receive_bytes,
        rcv_wup: facts.window.receive_sequence,
    };
    if let (Some(to), Some(from)) = (&mut connection.timestamp, facts.timestamp) {
        (to.value, to.is_in_microseconds) = (from.value, from.is_in_microseconds);
    }
    connection
}
