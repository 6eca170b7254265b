//! The agent: the one privileged process of a network namespace. It opens ports, owns their steering tables, and hands shares of
//! them to programs that have no capability. It is never on a frame's path.
#![forbid(unsafe_code)]

pub mod adoption;
pub mod bound;
pub mod client;
pub mod closed;
pub mod connection;
mod ended;
pub mod give_back;
mod holders;
pub mod life;
pub mod message;
pub mod packet_path;
pub mod ports;
pub mod rights;
pub mod server;
pub mod service;
pub mod shadow;
