//! Traffic patterns over any [`crate::endpoint::Endpoint`].

pub mod echo;
pub mod ping_pong;
mod sequence;
