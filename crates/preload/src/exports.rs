//! The symbols of the C library that programs find here first.

#[cfg(not(test))]
pub mod signals;
