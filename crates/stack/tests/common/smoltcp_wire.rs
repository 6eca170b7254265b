//! smoltcp's end of a cable in memory.

use std::collections::VecDeque;

use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

/// Frames for smoltcp, and what it sends.
pub struct Wire {
    pub towards: VecDeque<Vec<u8>>,
    pub from: Vec<Vec<u8>>,
    frame_bytes_most: usize,
}

impl Wire {
    /// Without frames; they are as long as this at most, with the Ethernet header.
    pub fn of_frames(frame_bytes_most: usize) -> Wire {
        Wire { towards: VecDeque::new(), from: Vec::new(), frame_bytes_most }
    }
}

pub struct Received(Vec<u8>);

pub struct Sending<'w>(&'w mut Vec<Vec<u8>>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len_bytes: usize, write: F) -> R {
        let mut frame = vec![0; len_bytes];
        let result = write(&mut frame);
        self.0.push(frame);
        result
    }
}

impl Device for Wire {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sending<'_>)> {
        self.towards.pop_front().map(|frame| (Received(frame), Sending(&mut self.from)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sending<'_>> {
        Some(Sending(&mut self.from))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.frame_bytes_most;
        capabilities
    }
}
