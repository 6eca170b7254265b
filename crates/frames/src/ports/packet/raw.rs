//! Raw-frame calls of an AF_PACKET port.

use std::io;
use std::time::Duration;

use super::{PacketPort, send_one};
use crate::PortError;
use crate::port::{Port, PreparedFrame};
use crate::ports::limits;
use crate::raw::{LentFrame, RawPort, TimeSource, wait_readable};
use crate::steering::{Filter, FilterError, FilterSet};

impl PacketPort {
    fn filters(&mut self) -> Result<&mut FilterSet, PortError> {
        let interface = &self.interface;
        self.filters
            .as_mut()
            .ok_or_else(|| PortError::Filter { interface: interface.clone(), source: FilterError::FixedRule })
    }

    /// Keeps the next frame that the filters take, and gives back those before it. `true`: one is lent.
    fn keep_next(&mut self) -> bool {
        for _ in 0..self.ring.slots() {
            if !self.ring.lend() {
                return false;
            }
            let frame = self.ring.lent().map_or(&[][..], |frame| frame.bytes);
            if self.filters.as_ref().is_none_or(|filters| filters.takes(frame)) {
                return true;
            }
            self.ring.give_back();
        }
        false
    }
}

impl RawPort for PacketPort {
    fn begin_send(&mut self, len_bytes: usize) -> Result<Option<&mut [u8]>, PortError> {
        if self.begun_bytes.is_some() {
            return Err(limits::send_begun(&self.sending_interface));
        }
        self.limits.check_length(len_bytes)?;
        self.begun_bytes = Some(len_bytes);
        Ok(Some(&mut self.staging.bytes[..len_bytes]))
    }

    fn end_send(&mut self, len_bytes: usize) -> Result<bool, PortError> {
        let Some(begun_bytes) = self.begun_bytes else {
            return Err(limits::no_send_begun("end a send", &self.sending_interface));
        };
        if len_bytes > begun_bytes {
            return Err(self.limits.longer_than_begun(len_bytes));
        }
        self.limits.check(&self.staging.bytes[..len_bytes])?;
        if self.queued_frames > 0 {
            self.flush()?;
            if self.queued_frames > 0 {
                return Ok(false);
            }
        }
        let frame = &self.staging.bytes[..len_bytes];
        let sent = send_one(&self.sending, frame, &self.sending_interface, &mut self.statistics)?;
        if sent {
            self.begun_bytes = None;
        }
        Ok(sent)
    }

    fn abort_send(&mut self) -> Result<(), PortError> {
        match self.begun_bytes.take() {
            Some(_) => Ok(()),
            None => Err(limits::no_send_begun("abort a send", &self.sending_interface)),
        }
    }

    /// Up to the system call, and not that: a packet socket has no send that sends nothing.
    fn warm_send(&mut self, frame: &[u8]) -> Result<(), PortError> {
        self.limits.check(frame)?;
        if let Some(buffer) = self.queued.get_mut(self.queued_frames) {
            buffer.set(frame);
        }
        Ok(())
    }

    fn replace_prepared(&mut self, old: PreparedFrame, frame: &[u8]) -> Result<Option<PreparedFrame>, PortError> {
        self.limits.check(frame)?;
        let slots = self.prepared.len() as u32;
        let Some(resident) = self.prepared.get_mut(old.slot as usize) else {
            let interface = self.sending_interface.clone();
            return Err(PortError::UnknownPreparedFrame { interface, slot: old.slot, slots });
        };
        *resident = super::Buffer::new(frame.len());
        resident.set(frame);
        Ok(Some(PreparedFrame { slot: old.slot, len_bytes: frame.len() as u32 }))
    }

    fn prepared_most(&self) -> u32 {
        self.prepared_most
    }

    fn lend(&mut self) -> Result<Option<LentFrame<'_>>, PortError> {
        if self.ring.has_lent() {
            return Err(limits::frame_lent(&self.interface));
        }
        if !self.keep_next() {
            self.empty()?;
            return Ok(None);
        }
        self.statistics.received_frames += 1;
        Ok(self.ring.lent())
    }

    fn lent(&self) -> Option<LentFrame<'_>> {
        self.ring.lent()
    }

    fn give_back(&mut self) -> Result<(), PortError> {
        if self.ring.give_back() { Ok(()) } else { Err(limits::no_frame_lent(&self.interface)) }
    }

    fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
        wait_readable(std::iter::once(self.ring.socket()), timeout)
    }

    fn frame_most_bytes(&self) -> usize {
        self.limits.most_bytes()
    }

    fn time_source(&self) -> TimeSource {
        TimeSource::Kernel
    }

    fn add_filter(&mut self, filter: Filter) -> Result<(), PortError> {
        let added = self.filters()?.add(filter);
        added.map_err(|source| PortError::Filter { interface: self.interface.clone(), source })
    }

    fn remove_filter(&mut self, filter: Filter) -> Result<(), PortError> {
        let removed = self.filters()?.remove(filter);
        removed.map_err(|source| PortError::Filter { interface: self.interface.clone(), source })
    }
}
