//! Records from strangers: whatever the values in a record, it is refused or shown, and never a panic.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use nearwire_report::record::Record;
use nearwire_report::{CompareOptions, Format, compare, render, render_comparison, render_html};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Pointers to all values below `value`.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, member)| pointers(member, &format!("{at}/{name}"), found));
        }
        // One of each kind is enough, and keeps the small parts of a record as likely as its many blocks.
        Value::Array(members) => {
            members.iter().take(2).enumerate().for_each(|(n, member)| pointers(member, &format!("{at}/{n}"), found));
        }
        _ => {}
    }
}

fn odd_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!([])),
        Just(json!({})),
        Just(json!(true)),
        prop_oneof![Just(json!(0)), Just(json!(-1)), Just(json!(1)), Just(json!(u64::MAX)), Just(json!(i64::MIN))],
        prop_oneof![Just(json!(0.0)), Just(json!(-0.5)), Just(json!(1e308)), Just(json!(1e-308)), Just(json!(5e9))],
        prop_oneof![Just(json!("")), Just(json!("</script><b>")), Just(json!("\u{1b}[2J\n\"")), Just(json!("x,y"))],
    ]
}

/// Renders in every way and compares in both directions.
fn show(record: &Record, whole: &Record) {
    for format in Format::ALL {
        render(record, format).unwrap();
    }
    let page = render_html(&[record.clone(), whole.clone()]).unwrap();
    assert!(!page.contains("</script><b>"), "text of a record is not markup");
    for (a, b) in [(record, whole), (whole, record), (record, record)] {
        let _ = render_comparison(&compare(a, b, CompareOptions { resamples: 20, ..CompareOptions::default() }));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn record_with_odd_values_is_refused_or_shown(
        changes in prop::collection::vec((any::<prop::sample::Index>(), odd_value()), 1..4)
    ) {
        let whole = common::forward_record();
        let mut value = serde_json::to_value(&whole).unwrap();
        for (which, odd) in changes {
            let mut all = Vec::new();
            pointers(&value, "", &mut all);
            if let Some(place) = value.pointer_mut(which.get::<String>(&all)) {
                *place = odd;
            }
        }
        if let Ok(record) = serde_json::from_value::<Record>(value) {
            show(&record, &whole);
        }
    }
}
