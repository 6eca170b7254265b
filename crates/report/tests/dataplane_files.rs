//! Records of dataplane experiments on disk: what is written reads back, and what is not ours is refused with advice.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;

use common::dataplane::dataplane_record;
use nearwire_report::{ReadError, WriteError, read_dataplane_record, read_record, write_json, write_record};

fn refused(text: &str) -> ReadError {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dataplane.json");
    fs::write(&path, text).unwrap();
    let error = read_dataplane_record(&path).unwrap_err();
    assert!(error.to_string().contains("dataplane.json"), "{error}");
    error
}

#[test]
fn written_record_reads_back_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dataplane.json");
    let record = dataplane_record();
    write_record(&path, &record).unwrap();
    assert_eq!(read_dataplane_record(&path).unwrap(), record);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
}

#[test]
fn records_of_other_kinds_are_foreign_to_each_other() {
    let error = refused(&write_json(&common::forward_record()).unwrap());
    assert!(matches!(error, ReadError::Foreign { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("wanted \"nearwire-dataplane\"") && text.contains("nearwire dataplane --json"), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dataplane.json");
    write_record(&path, &dataplane_record()).unwrap();
    let text = read_record(&path).unwrap_err().to_string();
    assert!(text.contains("schema is \"nearwire-dataplane\"") && text.contains("bench --json"), "{text}");
    for text in ["{}", "[1, 2]", "7", "null"] {
        assert!(matches!(refused(text), ReadError::Foreign { .. }), "{text}");
    }
}

#[test]
fn cut_file_is_called_cut() {
    let whole = write_json(&dataplane_record()).unwrap();
    assert!(matches!(refused(&whole[..whole.len() / 2]), ReadError::NotJson { .. }));
    assert!(matches!(refused(""), ReadError::NotJson { .. }));
}

#[test]
fn newer_version_names_the_program_to_use() {
    let text = r#"{"schema": "nearwire-dataplane", "schema_version": 2, "nearwire_version": "4.2.0", "devices": 1}"#;
    let error = refused(text);
    assert!(matches!(error, ReadError::Newer { found: 2, newest: 1, .. }), "{error}");
    assert!(error.to_string().contains("4.2.0"), "{error}");
}

#[test]
fn damaged_record_names_the_field() {
    let text = write_json(&dataplane_record()).unwrap().replace("\"sent_frames\":", "\"sent\":");
    let error = refused(&text);
    assert!(matches!(error, ReadError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("sent_frames"), "{error}");
}

#[test]
fn count_whose_sums_would_overflow_is_called_damaged() {
    let mut record = dataplane_record();
    record.cells[0].reset_ns = Some(u64::MAX);
    let error = refused(&serde_json::to_string(&record).unwrap()).to_string();
    assert!(error.contains("18446744073709551615"), "{error}");
    let mut record = dataplane_record();
    record.cells[0].drops.insert("full queue".to_owned(), u64::MAX);
    assert!(matches!(refused(&serde_json::to_string(&record).unwrap()), ReadError::Damaged { .. }));
}

#[test]
fn failed_write_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dataplane.json");
    fs::write(&path, "old").unwrap();
    let mut record = dataplane_record();
    record.cells[0].mean_bytes = f64::NAN;
    let error = write_record(&path, &record).unwrap_err();
    assert!(matches!(error, WriteError::Unreadable { .. }), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
}
