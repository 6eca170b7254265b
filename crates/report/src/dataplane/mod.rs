//! Dataplane experiments: what a device under test carries, at which latency and loss.

mod json;
pub mod record;

pub use json::read_dataplane_record;
pub use record::DataplaneRecord;
