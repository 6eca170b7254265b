//! Raw-frame calls of an AF_XDP port.

use std::io;
use std::time::Duration;

use super::{Receiver, XdpPort, gone};
use crate::PortError;
use crate::port::{Port, PreparedFrame};
use crate::ports::limits;
use crate::raw::{LentFrame, RawPort, TimeSource, wait_readable};
use crate::steering::{Filter, FilterError, SteeringTable};

impl XdpPort {
    fn steering(&mut self) -> Result<&mut SteeringTable, PortError> {
        let interface = &self.config.interface;
        self.steering
            .as_mut()
            .ok_or_else(|| PortError::Filter { interface: interface.clone(), source: FilterError::FixedRule })
    }
}

impl RawPort for XdpPort {
    fn begin_send(&mut self, len_bytes: usize) -> Result<Option<&mut [u8]>, PortError> {
        if self.sender.has_begun() {
            return Err(limits::send_begun(self.config.sending_interface()));
        }
        self.limits.check_length(len_bytes)?;
        Ok(self.sender.begin(len_bytes as u32))
    }

    fn end_send(&mut self, len_bytes: usize) -> Result<bool, PortError> {
        if !self.sender.has_begun() {
            return Err(limits::no_send_begun("end a send", self.config.sending_interface()));
        }
        let begun = u32::try_from(len_bytes).ok().and_then(|len_bytes| self.sender.begun_bytes(len_bytes));
        let Some(frame) = begun else { return Err(self.limits.longer_than_begun(len_bytes)) };
        self.limits.check(frame)?;
        self.sender.end(len_bytes as u32);
        self.flush().map(|()| true)
    }

    fn abort_send(&mut self) -> Result<(), PortError> {
        if self.sender.abort() {
            return Ok(());
        }
        Err(limits::no_send_begun("abort a send", self.config.sending_interface()))
    }

    fn warm_send(&mut self, frame: &[u8]) -> Result<(), PortError> {
        self.limits.check(frame)?;
        self.sender.warm(frame).map_err(|source| gone(self.config.sending_interface(), source))
    }

    fn replace_prepared(&mut self, old: PreparedFrame, frame: &[u8]) -> Result<Option<PreparedFrame>, PortError> {
        self.limits.check(frame)?;
        if old.slot >= self.sender.prepared_frames() {
            return Err(PortError::UnknownPreparedFrame {
                interface: self.config.sending_interface().to_owned(),
                slot: old.slot,
                slots: self.sender.prepared_frames(),
            });
        }
        let replaced = self.sender.replace_prepared(old.slot, frame);
        Ok(replaced.map(|()| PreparedFrame { slot: old.slot, len_bytes: frame.len() as u32 }))
    }

    fn prepared_most(&self) -> u32 {
        self.sender.prepared_slots()
    }

    fn lend(&mut self) -> Result<Option<LentFrame<'_>>, PortError> {
        if self.lent.is_some() {
            return Err(limits::frame_lent(&self.config.interface));
        }
        for _ in 0..self.receivers.len() {
            let turn = self.next;
            self.next = if turn + 1 == self.receivers.len() { 0 } else { turn + 1 };
            let taken = self.receivers[turn].take();
            self.lent = taken.map(|taken| (turn, self.times.of(taken.record()), taken));
            if self.lent.is_some() {
                self.last = turn;
                break;
            }
        }
        if self.lent.is_none() {
            self.empty()?;
            return Ok(None);
        }
        self.received_frames += 1;
        Ok(self.lent())
    }

    fn lent(&self) -> Option<LentFrame<'_>> {
        let (turn, times, taken) = self.lent.as_ref()?;
        let (bytes, queue) = (self.receivers[*turn].bytes(taken), self.config.rx_queues[*turn]);
        Some(LentFrame { bytes, queue, stamp: times.best(), outgoing: false })
    }

    fn give_back(&mut self) -> Result<(), PortError> {
        let Some((turn, _, taken)) = self.lent.take() else {
            return Err(limits::no_frame_lent(&self.config.interface));
        };
        self.receivers[turn].give_back(taken);
        Ok(())
    }

    fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
        wait_readable(self.receivers.iter().map(Receiver::socket), timeout)
    }

    fn frame_most_bytes(&self) -> usize {
        self.limits.most_bytes()
    }

    fn time_source(&self) -> TimeSource {
        self.times.source()
    }

    fn add_filter(&mut self, filter: Filter) -> Result<(), PortError> {
        self.steering()?.add(filter)
    }

    fn remove_filter(&mut self, filter: Filter) -> Result<(), PortError> {
        self.steering()?.remove(filter)
    }
}

#[cfg(test)]
impl XdpPort {
    pub(crate) fn socket_of_queue(&self, queue: u32) -> Option<std::os::fd::BorrowedFd<'_>> {
        let at = self.config.rx_queues.iter().position(|&rx_queue| rx_queue == queue)?;
        self.receivers.get(at).map(Receiver::socket)
    }
}
