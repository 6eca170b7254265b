//! Dataplane experiments: what a device under test carries, at which latency and loss.

pub mod record;
