//! What is known of a setting, in words: for the command and for the document that is made of the
//! whole catalogue.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::catalogue::{self, PAPERS, PRINTED};
use crate::{Area, Setting};

/// One line of an explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What it is about, one or two words.
    pub label: &'static str,
    /// What there is to say.
    pub text: String,
}

/// What is known of a setting besides what it is; a label may come more than once.
#[must_use]
pub fn explain(setting: &Setting) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut add = |label, text: String| lines.push(Line { label, text });
    add("Why", setting.why.to_owned());
    add("Read from", setting.read.to_string());
    add("Value", setting.value.to_string());
    add("Class", setting.write.name().to_owned());
    for form in setting.kept_by() {
        add("Kept by", form.to_string());
    }
    add("Disrupts", setting.disrupts.name().to_owned());
    let risks: Vec<_> = setting.risk.iter().map(|risk| risk.name()).collect();
    add("Risk", if risks.is_empty() { "none".to_owned() } else { risks.join(", ") });
    if let Some(today) = setting.today {
        add("Today", today.to_owned());
    }
    for menu in setting.menu {
        add("Menu", format!("{}: {}", menu.vendor.name(), menu.words));
    }
    let words: Vec<_> = catalogue::printed(setting.id).map(|check| check.words).collect();
    for said in catalogue::said(setting.id) {
        add("Paper", format!("{} ({}): {} = {}", said.paper.title(), said.place, words.join("; "), said.value));
    }
    for topic in catalogue::disagreements(setting.id) {
        add("Disputed", format!("{}. Held here: {}", topic.positions(), lower_first(topic.rule)));
    }
    for document in setting.docs {
        add("See", (*document).to_owned());
    }
    lines
}

/// Behind a colon a sentence starts small, unless it starts with a name or number.
fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() || second == ' ' => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => text.to_owned(),
    }
}

/// The settings by area, in the order of areas and tables.
#[must_use]
pub fn by_area() -> BTreeMap<Area, Vec<&'static Setting>> {
    let mut areas = BTreeMap::<Area, Vec<_>>::new();
    for setting in catalogue::settings() {
        areas.entry(setting.area).or_default().push(setting);
    }
    areas
}

/// The document of all settings, in Markdown.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from(HEAD);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{} settings; {} of them are in every record.\n", count(|_| true), count(|s| s.in_record));
    for paper in PAPERS {
        let _ = writeln!(text, "- {}", paper.title());
    }
    for (area, settings) in by_area() {
        let _ = writeln!(text, "\n## {}", area.name());
        for setting in settings {
            section(&mut text, setting);
        }
    }
    text.push_str(CHECKS_HEAD);
    for group in PRINTED {
        for check in group.checks {
            let words = check.words.replace('|', "\\|");
            let _ = writeln!(text, "| {} | {words} | [`{}`](#{}) |", group.name, check.id, anchor(check.id));
        }
    }
    text
}

const HEAD: &str = "# Settings

What `nearwire settings` knows of a host. This file is generated from the catalogue in `crates/host`; after a change
there, `NEARWIRE_WRITE_DOCS=1 cargo test -p nearwire-host guide` writes it again.

*Class* says how a setting is written while the host runs, *kept by* what makes it outlive a boot, *disrupts* what a
change interrupts. A profile, which says what value is wanted, is not here. A setting that lowers security is never part
of a profile without consent.

";

const CHECKS_HEAD: &str = "
## What the papers name

Each check that the papers name, and the setting that stands for it.

| part | printed | setting |
|---|---|---|
";

fn section(text: &mut String, setting: &Setting) {
    let _ = writeln!(text, "\n### {}\n\n{}\n", setting.id.replace('_', "\\_"), setting.what);
    for line in explain(setting) {
        let _ = writeln!(text, "- {}: {}", line.label, escaped(&line.text));
    }
}

/// Keeps Markdown from taking names for emphasis or markup.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '_' | '<' | '>' | '|') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// The anchor that Markdown viewers give to the heading of an id.
fn anchor(id: &str) -> String {
    id.replace('.', "")
}

fn count(counts: impl Fn(&Setting) -> bool) -> usize {
    catalogue::settings().filter(|setting| counts(setting)).count()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::path::Path;

    const DOCUMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

    /// That a generated document in the tree is this one; with `NEARWIRE_WRITE_DOCS` set it becomes
    /// this one.
    pub(crate) fn assert_document(name: &str, wanted: &str) {
        let path = Path::new(DOCUMENTS).join(name);
        if std::env::var_os("NEARWIRE_WRITE_DOCS").is_some() {
            std::fs::create_dir_all(DOCUMENTS).unwrap();
            std::fs::write(&path, wanted).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        let differs = wanted.lines().zip(found.lines()).find(|(wanted, found)| wanted != found);
        assert!(
            wanted == found,
            "docs/{name} is not what the tables say, first at {differs:?}; \
             NEARWIRE_WRITE_DOCS=1 cargo test -p nearwire-host guide writes it"
        );
    }

    #[test]
    fn guide_in_the_tree_is_that_of_the_catalogue() {
        assert_document("settings.md", &markdown());
    }

    #[test]
    fn explanation_of_firmware_setting_has_menu_papers_and_dispute() {
        let lines = explain(catalogue::setting("cpu.smt").unwrap());
        let texts =
            |label| lines.iter().filter(|line| line.label == label).map(|line| line.text.as_str()).collect::<Vec<_>>();
        assert_eq!(texts("Menu")[0], "Cisco: Intel Hyper-Threading technology = Disabled");
        assert_eq!(texts("Paper").len(), 5);
        assert_eq!(texts("Disputed").len(), 1);
        assert_eq!(texts("Read from"), ["/sys/devices/system/cpu/smt/control"]);
    }

    #[test]
    fn every_explanation_is_whole_and_in_single_lines() {
        for setting in catalogue::settings() {
            let lines = explain(setting);
            for label in ["Why", "Read from", "Value", "Class", "Disrupts", "Risk"] {
                assert!(
                    lines.iter().any(|line| line.label == label && !line.text.is_empty()),
                    "{} {label}",
                    setting.id
                );
            }
            assert!(lines.iter().all(|line| !line.text.contains('\n') && !line.text.contains("  ")), "{}", setting.id);
        }
    }
}
