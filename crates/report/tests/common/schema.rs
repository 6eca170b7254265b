//! A JSON schema of ours, and what it says of a value: as much of the standard as our schemas use.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The keywords that the schema uses, and no others.
const KEYWORDS: [&str; 15] = [
    "$defs",
    "$ref",
    "$schema",
    "additionalProperties",
    "const",
    "description",
    "enum",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "oneOf",
    "prefixItems",
    "title",
];

pub struct Schema {
    pub root: Value,
}

impl Schema {
    pub fn of(text: &str) -> Self {
        Self { root: serde_json::from_str(text).unwrap() }
    }

    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema.get("$ref").and_then(Value::as_str) {
            Some(pointer) => self.root.pointer(pointer.trim_start_matches('#')).expect(pointer),
            None => schema,
        }
    }

    /// Checks a value; `seen` collects the places of the properties that occurred.
    pub fn check(&self, schema: &Value, value: &Value, at: &str, seen: &mut BTreeSet<String>) -> Result<(), String> {
        let place = schema.get("$ref").and_then(Value::as_str).unwrap_or(at).to_owned();
        let schema = self.resolved(schema).as_object().unwrap();
        for keyword in schema.keys() {
            let known =
                KEYWORDS.contains(&keyword.as_str()) || ["type", "properties", "required"].contains(&keyword.as_str());
            assert!(known, "{place}: this test does not know {keyword}");
        }
        if let Some(choices) = schema.get("oneOf").and_then(Value::as_array) {
            let fits = |choice: &&Value| self.check(choice, value, &place, &mut BTreeSet::new()).is_ok();
            let fitting: Vec<&Value> = choices.iter().filter(fits).collect();
            let [only] = fitting.as_slice() else {
                return Err(format!("{place}: {} of the choices fit {value}", fitting.len()));
            };
            return self.check(only, value, &place, seen);
        }
        check_scalar(schema, value, &place)?;
        if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
            for item in values {
                self.check(items, item, &format!("{place}[]"), seen)?;
            }
        }
        if let Some(object) = value.as_object() {
            self.check_object(schema, object, &place, seen)?;
        }
        Ok(())
    }

    fn check_object(
        &self,
        schema: &Map<String, Value>,
        object: &Map<String, Value>,
        place: &str,
        seen: &mut BTreeSet<String>,
    ) -> Result<(), String> {
        let none = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        for (key, value) in object {
            match (properties.get(key), schema.get("additionalProperties")) {
                (Some(property), _) => {
                    seen.insert(format!("{place}/{key}"));
                    self.check(property, value, &format!("{place}/{key}"), seen)?;
                }
                (None, Some(Value::Object(other))) => {
                    self.check(&Value::Object(other.clone()), value, place, seen)?;
                }
                (None, _) => return Err(format!("{place} has {key}, which the schema lacks")),
            }
        }
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        for key in required.map(|key| key.as_str().unwrap()) {
            if !object.contains_key(key) {
                return Err(format!("{place} lacks {key}"));
            }
        }
        Ok(())
    }

    /// Every property that the schema names, by the same places.
    pub fn named(&self) -> BTreeSet<String> {
        let mut named = BTreeSet::new();
        let mut add = |place: &str, schema: &Value| {
            let properties = schema.get("properties").and_then(Value::as_object);
            named.extend(properties.into_iter().flatten().map(|(key, _)| format!("{place}/{key}")));
        };
        add("", &self.root);
        for (name, definition) in self.root["$defs"].as_object().unwrap() {
            add(&format!("#/$defs/{name}"), definition);
            for choice in definition.get("oneOf").and_then(Value::as_array).into_iter().flatten() {
                add(&format!("#/$defs/{name}"), choice);
            }
        }
        named
    }
}

fn check_scalar(schema: &Map<String, Value>, value: &Value, place: &str) -> Result<(), String> {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let allows = |wanted: &Value| wanted == kind || (wanted == "number" && kind == "integer");
    let typed = match schema.get("type") {
        None => true,
        Some(Value::Array(wanted)) => wanted.iter().any(allows),
        Some(wanted) => allows(wanted),
    };
    let chosen = schema.get("enum").and_then(Value::as_array).is_none_or(|all| all.contains(value));
    let fixed = schema.get("const").is_none_or(|wanted| wanted == value);
    let bounded = schema
        .get("minimum")
        .and_then(Value::as_f64)
        .is_none_or(|least| value.as_f64().is_none_or(|number| number >= least));
    if typed && chosen && fixed && bounded { Ok(()) } else { Err(format!("{place}: {value} does not fit")) }
}
