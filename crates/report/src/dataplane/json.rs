//! Records of dataplane experiments on disk. Writing is that of all records: [`write_record`](crate::write_record).

use std::path::Path;

use super::record::{DataplaneRecord, SCHEMA, SCHEMA_VERSION};
use crate::json::{Document, ReadError, read_document};

impl Document for DataplaneRecord {
    const SCHEMA: &'static str = SCHEMA;
    const SCHEMA_VERSION: u64 = SCHEMA_VERSION;
    const WRITTEN_BY: &'static str = "nearwire dataplane --json";
}

/// Reads the record of a dataplane experiment.
///
/// # Errors
/// When the file cannot be read, is not JSON, is not such a record, is from a newer version, or is damaged.
pub fn read_dataplane_record(path: impl AsRef<Path>) -> Result<DataplaneRecord, ReadError> {
    read_document(path)
}
