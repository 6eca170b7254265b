//! libnearwire: frames and TCP connections past the kernel, for C and C++ programs. What each function does stands in `include/nearwire.h`; here is
//! how.
//!
//! * [`abi`]: the structures, as the header lays them out, and how they are copied in and out;
//! * [`fault`]: what went wrong, as an errno value and a text;
//! * [`handle`]: what a `nearwire_port *` points to, and the rule that one call at a time is in it;
//! * [`carrying`]: the TCP connections of a port;
//! * the exported functions, by chapters of the header: [`open`], [`transmit`], [`receive`], [`steer`], [`tcp`], [`facts`], [`text`].
//!
//! Invariant: no panic crosses into C. Every exported function runs its body within [`handle`]'s guard, which catches
//! panics; the library is built with `panic = "unwind"`.
//!
//! # What every exported function asks of its caller
//!
//! A C compiler cannot check it, so each `# Safety` section refers to this list: a port is NULL or came from
//! `nearwire_open` and was not closed; a pointer to a structure is NULL or points to as many bytes as its `size` says,
//! aligned for the structure; a pointer with a length is NULL or points to that many bytes, which nobody writes meanwhile
//! (reads, where the library writes); a name is NULL or ends in NUL.

pub mod abi;
mod carrying;
pub mod facts;
mod fault;
mod handle;
pub mod open;
pub mod receive;
pub mod steer;
pub mod tcp;
pub mod text;
pub mod transmit;
