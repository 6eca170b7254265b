//! POSIX socket behaviour over the stack.
//!
//! * [`config`]: what the user chose: which sockets are accelerated, how they wait, on which
//!   interfaces; read from a file and from the environment by the same code.
//! * [`epoll`]: the program's epoll sets as far as accelerated sockets are in them.
//! * [`poll`]: poll(2) and select(2) over accelerated sockets and the kernel's descriptors.
//! * [`SocketId`]: the number by which all of them know an accelerated socket.

#![forbid(unsafe_code)]

pub mod config;
pub mod epoll;
mod id;
pub mod poll;

pub use id::SocketId;
