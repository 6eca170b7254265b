//! XDP programs: an assembler, the programs of this crate, and their attachment to interfaces.

pub mod assembler;
mod attachment;
#[cfg(test)]
mod kinds;
pub mod programs;
pub mod redirect;
pub(crate) mod stamps;
pub(crate) mod tags;

pub use tags::tells_hidden_tags;

pub use attachment::{AttachMode, XdpAttachment, attach_pass};
pub(crate) use attachment::{refuse_if_present, rejected};
