//! The frames of an accelerated process, for `nearwire capture --pid`: AF_PACKET sees none of them.
//!
//! ```text
//!  the command   writes a Request into the process's status page, through /proc/PID/mem
//!  the process   sees it when it next looks around, makes a ring of memory, and answers with the ring's descriptor;
//!                from then on its engine puts a copy of each frame into the ring (Recorder)
//!  the command   opens the descriptor through /proc/PID/fd, locks it (flock(2)), takes what memory the ring still lacks,
//!                and reads (RingReader)
//! ```
//!
//! The process never waits for the command. It writes where the last number that it read of the command lets it, and a number
//! that cannot be is as good as none: frames that have no room are counted and left out. The lock says whether the command lives:
//! the kernel releases it with the last breath of its holder, so a ring that nobody reads is let go, and another command can
//! begin. The ring's length is sealed, and its pages are taken before they are touched, so no touch is SIGBUS.
//!
//! A user who can write the request can write all memory of the process, so the ring gives nobody additional rights.

mod layout;
mod reader;
mod recorder;
mod request;

pub use layout::{NAME, words_for};
pub use reader::{CapturedFrame, CapturedInterface, RingError, RingReader};
pub use recorder::Recorder;
pub use request::{Answer, Request};

#[cfg(test)]
mod tests;
