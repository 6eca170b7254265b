//! Records on disk: what is written reads back, and what is not ours is refused with advice.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs::{self, File};

use nearwire_report::{ReadError, WriteError, ensure_writable, read_record, write_json, write_record, write_record_to};

fn refused(text: &str) -> ReadError {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.json");
    fs::write(&path, text).unwrap();
    let error = read_record(&path).unwrap_err();
    assert!(error.to_string().contains("record.json"), "{error}");
    error
}

#[test]
fn written_record_reads_back_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.json");
    let record = common::sample_record();
    write_record(&path, &record).unwrap();
    assert_eq!(read_record(&path).unwrap(), record);
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["record.json"], "no draft is left");
}

#[test]
fn missing_file_says_what_to_name() {
    let error = read_record("/nonexistent/record.json").unwrap_err().to_string();
    assert!(error.contains("bench --json"), "{error}");
}

#[test]
fn foreign_json_is_refused() {
    for text in ["{}", "[1, 2]", "7", "null", r#"{"schema": "lshw"}"#] {
        let error = refused(text);
        assert!(matches!(error, ReadError::Foreign { .. }), "{text}: {error}");
    }
}

#[test]
fn cut_file_is_called_cut() {
    let whole = write_json(&common::forward_record()).unwrap();
    let error = refused(&whole[..whole.len() / 2]);
    assert!(matches!(error, ReadError::NotJson { .. }), "{error}");
    assert!(matches!(refused(""), ReadError::NotJson { .. }));
    assert!(matches!(refused("size,p50\n64,1\n"), ReadError::NotJson { .. }));
}

#[test]
fn newer_version_names_the_program_to_use() {
    let mut record = common::forward_record();
    record.schema_version = 9;
    record.nearwire_version = "4.2.0".to_owned();
    let error = refused(&serde_json::to_string(&record).unwrap());
    assert!(matches!(error, ReadError::Newer { found: 9, .. }), "{error}");
    assert!(error.to_string().contains("4.2.0"), "{error}");
}

#[test]
fn newer_version_with_other_fields_is_newer_and_not_damaged() {
    let text = r#"{"schema": "nearwire-record", "schema_version": 3, "measurements": {}}"#;
    assert!(matches!(refused(text), ReadError::Newer { .. }));
}

/// Version 1 had half round trips only, in a field of that name, and no rates.
#[test]
fn record_of_version_1_is_read() {
    let record = common::forward_record();
    let mut old = serde_json::to_value(&record).unwrap();
    old["schema_version"] = 1.into();
    let experiment = old["experiment"].as_object_mut().unwrap();
    assert!(experiment.remove("latency").is_some() && experiment.remove("arrivals").is_some());
    for run in old["runs"].as_array_mut().unwrap() {
        let run = run.as_object_mut().unwrap();
        let latency = run.remove("latency_ns").unwrap();
        run.insert("half_rtt_ns".to_owned(), latency);
        assert!(["rate_per_second", "metrics", "invalid"].iter().all(|name| run.remove(*name).is_some()));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.json");
    std::fs::write(&path, old.to_string()).unwrap();
    let read = read_record(&path).unwrap();
    assert_eq!((read.runs, read.experiment), (record.runs, record.experiment));
}

#[test]
fn damaged_record_names_the_field() {
    let text = write_json(&common::forward_record()).unwrap().replace("\"samples\":", "\"sample\":");
    let error = refused(&text);
    assert!(matches!(error, ReadError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("samples"), "{error}");
}

#[test]
fn file_that_is_not_text_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.json");
    fs::write(&path, [0xff, 0xfe, 0x00, 0x80]).unwrap();
    assert!(matches!(read_record(&path).unwrap_err(), ReadError::NotJson { .. }));
}

#[test]
fn full_disk_is_told_by_name() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let error = write_record_to(full, &common::forward_record()).unwrap_err();
    assert!(matches!(error, WriteError::DiskFull { .. }), "{error}");
    let error = write_record("/dev/full", &common::forward_record()).unwrap_err();
    assert!(error.to_string().contains("/dev/full: no space left"), "{error}");
}

#[test]
fn failed_write_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.json");
    fs::write(&path, "old").unwrap();
    let mut record = common::forward_record();
    record.clock.drift_ppm = f64::NAN;
    let error = write_record(&path, &record).unwrap_err();
    assert!(matches!(error, WriteError::Unreadable { .. }), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
}

#[test]
fn missing_folder_is_found_before_measuring() {
    assert!(ensure_writable("/nonexistent/record.json").is_err());
    let folder = tempfile::tempdir().unwrap();
    assert!(ensure_writable(folder.path()).is_err(), "a folder is no file");
    ensure_writable(folder.path().join("record.json")).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "no trace is left");
    ensure_writable("/dev/null").unwrap();
}

#[test]
fn link_to_a_record_stays_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("file.json"), folder.path().join("link.json"));
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    write_record(&link, &common::forward_record()).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(read_record(&file).is_ok());
}

#[test]
fn count_whose_sums_would_overflow_is_called_damaged() {
    let mut record = common::forward_record();
    record.runs[0].samples = u64::MAX;
    let error = refused(&serde_json::to_string(&record).unwrap());
    assert!(matches!(error, ReadError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("18446744073709551615"), "{error}");
}
