//! Text of the page can be read: every colour of text against every ground that it may lie on has a contrast of 4.5 or more
//! (WCAG 2.2, success criterion 1.4.3), in the light and the dark scheme and in print.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

const STYLE: &str = nearwire_report::html::STYLE;
/// What pages of dataplane experiments have beside it.
const DATAPLANE: &str = nearwire_report::dataplane::STYLE;
const LEAST: f64 = 4.5;

/// Grounds of what is not named below.
const ANYWHERE: [&str; 3] = ["ground", "panel", "hover"];
/// Grounds that only some text has.
const ONLY: [(&str, &[&str]); 7] = [
    ("ink", &["ground", "panel", "hover", "grid", "alarm-ground", "differs"]),
    ("soft", &["ground", "panel", "hover", "alarm-ground", "differs"]),
    ("faint", &["ground", "panel", "hover", "differs"]),
    ("alarm", &["ground", "panel", "hover", "alarm-ground"]),
    ("better", &["ground", "panel", "hover", "differs"]),
    ("worse", &["ground", "panel", "hover", "differs"]),
    ("tip", &["tip-ground"]),
];

type Colours = BTreeMap<String, String>;

/// The custom properties of each `:root`: light, dark, print.
fn schemes() -> Vec<Colours> {
    let mut schemes: Vec<Colours> = Vec::new();
    for block in STYLE.split(":root {").skip(1) {
        let block = block.split('}').next().unwrap();
        let mut colours = schemes.first().cloned().unwrap_or_default();
        for declaration in block.split(';').filter(|declaration| declaration.contains("--")) {
            let (name, value) = declaration.trim().split_once(':').unwrap();
            colours.insert(name.trim_start_matches("--").to_owned(), value.trim().to_owned());
        }
        schemes.push(colours);
    }
    schemes
}

fn luminance(colour: &str) -> f64 {
    let digits = colour.strip_prefix('#').unwrap_or_else(|| panic!("{colour} is no colour by digits"));
    let width = digits.len() / 3;
    let channel = |index: usize| {
        let text = digits[index * width..(index + 1) * width].repeat(2 / width);
        let share = f64::from(u8::from_str_radix(&text, 16).unwrap()) / 255.0;
        if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(0) + 0.7152 * channel(1) + 0.0722 * channel(2)
}

fn contrast(one: &str, other: &str) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// Custom properties that colour text: `color`, and `fill` of what a picture writes.
fn colours_of_text() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for rule in STYLE.split('}').chain(DATAPLANE.split('}')) {
        let Some((selector, body)) = rule.rsplit_once('{') else { continue };
        for declaration in body.split(';') {
            let Some((property, value)) = declaration.split_once(':') else { continue };
            let writes = ["text", "label", "number", "tick", "caption", "column", "group", "letter"];
            let fills_text = property.trim() == "fill" && writes.iter().any(|class| selector.contains(class));
            // The families' colours are written by way of `--c`.
            let is_family = property.trim() == "--c";
            if property.trim() == "color" || fills_text || is_family {
                names.extend(
                    value.split("var(--").skip(1).map(|rest| rest.split([')', ',']).next().unwrap().trim().to_owned()),
                );
            }
        }
    }
    names.remove("c");
    names
}

#[test]
fn every_text_has_a_contrast_of_four_and_a_half_in_each_scheme() {
    let (schemes, texts) = (schemes(), colours_of_text());
    assert_eq!(schemes.len(), 3, "light, dark, print");
    assert!(texts.len() >= 10, "{texts:?}");
    let mut failed = Vec::new();
    for (scheme, colours) in ["light", "dark", "print"].iter().zip(&schemes) {
        for text in &texts {
            let grounds = ONLY.iter().find(|(name, _)| name == text).map_or(&ANYWHERE[..], |(_, grounds)| grounds);
            for ground in grounds {
                let found = contrast(&colours[text], &colours[*ground]);
                if found < LEAST {
                    failed.push(format!("{scheme}: {text} on {ground} {found:.2}"));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn contrast_is_that_of_the_standard() {
    assert!((contrast("#000", "#ffffff") - 21.0).abs() < 1e-9);
    assert!((contrast("#777777", "#fff") - 4.48).abs() < 0.01);
}
