//! The kinds of port, and everything in this crate that is `unsafe`.
//!
//! [`xdp`] is AF_XDP, [`packet`] is AF_PACKET, [`memory`] is a pair of ends without a kernel, [`memif`] is shared memory with
//! another process, [`ring`] is the index logic that AF_XDP and memory share.

mod limits;
pub mod memif;
pub mod memory;
pub mod packet;
mod resident;
pub mod ring;
pub mod xdp;
