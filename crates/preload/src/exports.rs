//! The symbols of the C library that programs find here first.

#[cfg(not(test))]
pub mod cancellation;
#[cfg(not(test))]
pub mod descriptors;
#[cfg(not(test))]
pub mod epoll;
#[cfg(not(test))]
pub mod poll;
#[cfg(not(test))]
pub mod process;
#[cfg(not(test))]
pub mod signals;
#[cfg(not(test))]
pub mod sockets;
#[cfg(not(test))]
pub mod syscall;
#[cfg(not(test))]
pub mod threads;
#[cfg(not(test))]
pub mod transfer;
