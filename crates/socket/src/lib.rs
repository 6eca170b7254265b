//! POSIX socket behaviour over the stack.
//!
//! * [`config`]: what the user chose: which sockets are accelerated, how they wait, on which
//!   interfaces; read from a file and from the environment by the same code.
//! * [`program`]: whether a program can be preloaded, by looking at its ELF file.
//! * [`preconditions`]: what the host and the process must have.
//! * [`reason`]: why a socket is not accelerated, in words.
//! * [`status`]: what a process tells about its sockets, for `nearwire status`.

#![forbid(unsafe_code)]

pub mod config;
pub mod preconditions;
pub mod program;
pub mod reason;
pub mod status;
