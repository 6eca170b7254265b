//! POSIX socket behaviour over the stack.
//!
//! * [`config`]: what the user chose: which sockets are accelerated, how they wait, on which
//!   interfaces; read from a file and from the environment by the same code.

#![forbid(unsafe_code)]

pub mod config;
