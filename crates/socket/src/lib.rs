//! POSIX socket behaviour over the stack.
//!
//! * [`config`]: what the user chose: which sockets are accelerated, how they wait, on which
//!   interfaces; read from a file and from the environment by the same code.
//! * [`kernel_tables`]: what the kernel knows of links, addresses, routes, neighbours and groups,
//!   kept current for the stack.

#![forbid(unsafe_code)]

pub mod config;
pub mod kernel_tables;
