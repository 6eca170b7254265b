//! The status page: what a process tells about its sockets, in a shared mapping that `nearwire status` reads through
//! `/proc/PID/mem`.
//!
//! ```text
//!  header      who wrote it, configuration, engine, interfaces   described parts have two sequence words:
//!  counters    a block for each engine: what it counts,          the writer sets the last, the fields, the first;
//!              calls handed to the kernel                        the reader, who reads forward, wants them equal
//!  sockets     4096 slots
//! ```
//!
//! Between header and counters are three words about captures (`capture.rs`), two of which the capturing command writes.
//!
//! Counters are single words and are never wrong. One thread at a time writes a block (that in the engine's gate), one a slot
//! (that which has the socket), and one the rest (that in the gate of the first engine). [`Writer`] stores words and does
//! nothing else: no allocation, no lock, no system call. [`Reader`] takes a copy of the bytes from anybody, sums the blocks,
//! and makes plain structures of it.

mod layout;
mod reader;
mod slot;
mod text;
mod writer;

pub use layout::{
    CAPTURE_AT_BYTES, Counter, ENGINE_TEXT_BYTES, ENGINES, EngineState, INTERFACES, NAME, PAGE_BYTES, SLOTS,
    SocketCounter, SocketState, Waiting,
};
pub use reader::{ConnectionStatus, InterfaceStatus, PageError, Reader, SocketStatus, Status};
pub(crate) use slot::Slot;
pub use text::Process;
pub(crate) use writer::store_text;
pub use writer::{Engine, Identity, InterfaceAbout, SocketWriter, Writer};

#[cfg(test)]
mod tests;
