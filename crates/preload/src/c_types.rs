//! C structures <-> Rust types.
pub mod address;
pub mod ancillary;
pub mod segments;
