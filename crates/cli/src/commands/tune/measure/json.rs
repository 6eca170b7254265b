//! The result as JSON.

use serde_json::{Value, json};

use super::Told;

pub(super) fn page(told: &Told<'_>) -> String {
    let mut page = serde_json::to_value(&told.measured).unwrap_or_default();
    if let Value::Object(fields) = &mut page {
        let left = told.left.iter().map(|(id, why)| json!({"id": id, "why": why}));
        fields.insert("profile".to_owned(), told.profile.into());
        fields.insert("cable".to_owned(), told.cable.clone().into());
        fields.insert("host".to_owned(), json!(told.kind));
        fields.insert("not_measured".to_owned(), left.collect());
    }
    format!("{page:#}\n")
}
