//! The symbols of the C library that programs find here first.

pub mod cancellation;
pub mod descriptors;
pub mod epoll;
pub mod poll;
pub mod process;
pub mod signals;
pub mod sockets;
pub mod syscall;
pub mod threads;
pub mod transfer;
