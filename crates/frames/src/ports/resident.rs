//! Resident frames of ports whose memory keeps none: copies, each queued anew when it is sent.

use crate::PortError;
use crate::port::PreparedFrame;

/// Resident frames that such a port keeps.
const SLOTS: u32 = 64;

/// The copies, by slot.
#[derive(Debug, Default)]
pub(super) struct ResidentFrames {
    frames: Vec<Vec<u8>>,
}

impl ResidentFrames {
    /// Keeps a copy of a frame whose length was checked. `interface` names the port in an error.
    pub(super) fn add(&mut self, frame: &[u8], interface: impl FnOnce() -> String) -> Result<PreparedFrame, PortError> {
        let slot = self.frames.len() as u32;
        if slot == SLOTS {
            return Err(PortError::NoPreparedSlot { interface: interface(), slots: SLOTS });
        }
        self.frames.push(frame.to_vec());
        Ok(PreparedFrame { slot, len_bytes: frame.len() as u32 })
    }

    /// Changes a frame in place and takes it out, so that the port can queue it, until [`ResidentFrames::put_back`].
    #[inline]
    pub(super) fn take(
        &mut self,
        frame: PreparedFrame,
        patch: impl FnOnce(&mut [u8]),
        interface: impl FnOnce() -> String,
    ) -> Result<Vec<u8>, PortError> {
        let slots = self.frames.len() as u32;
        let Some(resident) = self.frames.get_mut(frame.slot as usize) else {
            return Err(PortError::UnknownPreparedFrame { interface: interface(), slot: frame.slot, slots });
        };
        patch(resident);
        Ok(std::mem::take(resident))
    }

    /// Keeps a frame again that [`ResidentFrames::take`] gave.
    #[inline]
    pub(super) fn put_back(&mut self, frame: PreparedFrame, resident: Vec<u8>) {
        self.frames[frame.slot as usize] = resident;
    }
}
