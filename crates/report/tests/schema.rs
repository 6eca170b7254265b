//! The checked-in schema describes what the program writes, in both directions.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;

use common::schema::Schema;
use nearwire_report::dataplane::record::Method;
use nearwire_report::record::Reading;
use serde_json::Value;

fn schema() -> Schema {
    Schema::of(include_str!("../schema/record-v2.schema.json"))
}

fn dataplane_schema() -> Schema {
    Schema::of(include_str!("../schema/dataplane-v1.schema.json"))
}

fn full_record() -> Value {
    let mut record = common::forward_record();
    record.experiment.fault = Some("loss 1 %".to_owned());
    record.experiment.count = Some(1_000);
    record.runs[0].cell.tx = Some("frame".to_owned());
    record.runs[0].cell.rx = Some("frame".to_owned());
    record.runs[0].metrics = common::load_record().runs[0].metrics.clone();
    record.runs[0].notes.push("a note".to_owned());
    record.runs[0].rounds[0].marks.push("steal".to_owned());
    serde_json::to_value(&record).unwrap()
}

#[test]
fn full_record_fits_the_schema_and_uses_all_of_it() {
    let schema = schema();
    let mut seen = BTreeSet::new();
    schema.check(&schema.root, &full_record(), "", &mut seen).unwrap();
    let unused: Vec<String> = schema.named().difference(&seen).cloned().collect();
    assert!(unused.is_empty(), "in the schema but not in a record: {unused:?}");
}

#[test]
fn load_with_rates_fits_the_schema() {
    let (schema, record) = (schema(), serde_json::to_value(common::load_record()).unwrap());
    schema.check(&schema.root, &record, "", &mut BTreeSet::new()).unwrap();
}

#[test]
fn field_that_the_schema_lacks_is_found() {
    let schema = schema();
    let mut record = full_record();
    record["runs"][0]["invented"] = Value::Bool(true);
    let error = schema.check(&schema.root, &record, "", &mut BTreeSet::new()).unwrap_err();
    assert!(error.contains("invented"), "{error}");
}

#[test]
fn field_that_the_record_lacks_is_found() {
    let schema = schema();
    let mut record = full_record();
    record["clock"].as_object_mut().unwrap().remove("hz");
    let error = schema.check(&schema.root, &record, "", &mut BTreeSet::new()).unwrap_err();
    assert!(error.contains("hz"), "{error}");
}

#[test]
fn dataplane_record_fits_its_schema_and_uses_all_of_it() {
    let schema = dataplane_schema();
    let mut seen = BTreeSet::new();
    let mut record = common::dataplane::dataplane_record();
    record.environment.insert("nic.ring.rx".to_owned(), Reading::NeedsRoot);
    record.traffic.vlan = Some(5);
    for method in [Method::MlrSearch, Method::Rfc2544] {
        record.method = method;
        schema.check(&schema.root, &serde_json::to_value(&record).unwrap(), "", &mut seen).unwrap();
    }
    let unused: Vec<String> = schema.named().difference(&seen).cloned().collect();
    assert!(unused.is_empty(), "in the schema but not in a record: {unused:?}");
}

#[test]
fn change_of_a_dataplane_record_is_found() {
    let schema = dataplane_schema();
    let whole = serde_json::to_value(common::dataplane::small_dataplane_record()).unwrap();
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut record = whole.clone();
        change(&mut record);
        schema.check(&schema.root, &record, "", &mut BTreeSet::new()).unwrap_err()
    };
    let error = refused(&|record| record["cells"][0]["invented"] = Value::Bool(true));
    assert!(error.contains("invented"), "{error}");
    let error = refused(&|record| drop(record["traffic"].as_object_mut().unwrap().remove("flows")));
    assert!(error.contains("flows"), "{error}");
    let error = refused(&|record| record["cells"][0]["throughput"][0]["state"] = "lost".into());
    assert!(error.contains("state"), "{error}");
}
