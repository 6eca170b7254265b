//! `nearwire settings`: explains settings and shows their values.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::anyhow;
use nearwire_host::guide::{by_area, explain};
use nearwire_host::{ReadFrom, Reading, Setting, catalogue, interfaces, read_settings};
use serde_json::{Value, json};

use super::host_root;
use crate::args::SettingsArgs;
use crate::exit::{self, Failure, Outcome};
use crate::output;

pub fn run(args: &SettingsArgs) -> Outcome {
    let text = match &args.id {
        Some(id) => one(id, args)?,
        None if args.now || !args.host.is_live() => all_now(args)?,
        None if args.json => pretty(&catalogue::settings().map(in_json).collect()),
        None => table(),
    };
    output::print_of_host(&text)
}

fn table() -> String {
    let mut text = String::new();
    for (area, settings) in by_area() {
        let width = |of: fn(&Setting) -> &str| settings.iter().map(|setting| of(setting).len()).max().unwrap_or(0);
        let (ids, classes) = (width(|setting| setting.id), width(|setting| setting.write.name()));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", area.name());
        for setting in &settings {
            let _ = writeln!(text, "  {:<ids$}  {:<classes$}  {}", setting.id, setting.write.name(), setting.what);
        }
    }
    text
}

/// Every setting with its present values.
fn all_now(args: &SettingsArgs) -> Result<String, Failure> {
    let root = host_root::open(&args.host)?;
    let settings: Vec<_> = catalogue::settings().collect();
    let readings = read_settings(&root, &settings, &interfaces(&root).unwrap_or_default());
    if !args.json {
        let width = readings.iter().map(|(id, _)| id.len()).max().unwrap_or(0);
        return Ok(readings.iter().map(|(id, reading)| format!("{id:<width$}  {}\n", reading.in_words())).collect());
    }
    let mut now: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (id, reading) in &readings {
        let setting = id.split('[').next().unwrap_or(id);
        now.entry(setting).or_default().push(reading_in_json(id, reading));
    }
    let objects = settings.iter().map(|setting| {
        let mut object = in_json(setting);
        object["now"] = now.remove(setting.id).unwrap_or_default().into();
        object
    });
    Ok(pretty(&objects.collect()))
}

/// One setting with its present value; a setting of an interface may be given as `nic.mtu[eth0]`.
fn one(text: &str, args: &SettingsArgs) -> Result<String, Failure> {
    let (id, interface) = match text.strip_suffix(']').and_then(|text| text.split_once('[')) {
        Some((id, interface)) => (id, Some(interface)),
        None => (text, None),
    };
    let setting = catalogue::setting(id).ok_or_else(|| unknown(id))?;
    if interface.is_some() && !matches!(setting.read, ReadFrom::Nic(_)) {
        return Err(usage(format!("{id} is not a setting of an interface: leave out what is in brackets")));
    }
    let root = host_root::open(&args.host)?;
    let present = interfaces(&root).unwrap_or_default();
    let interfaces = match interface {
        None => present,
        // The loopback interface is not among those that are listed.
        Some(name) if !name.contains('/') && root.has(&format!("/sys/class/net/{name}")) => vec![name.to_owned()],
        Some(name) => return Err(super::selection::no_interface(name, &present)),
    };
    let readings = read_settings(&root, &[setting], &interfaces);
    Ok(if args.json { one_in_json(setting, &readings) } else { explanation(setting, &readings) })
}

pub(super) fn unknown(id: &str) -> Failure {
    let near = catalogue::near(id);
    if near.is_empty() {
        return usage(format!("no setting '{id}', and none with a similar name; nearwire settings lists all"));
    }
    let width = near.iter().map(|setting| setting.id.len()).max().unwrap_or(0);
    let lines = near.iter().map(|setting| format!("\n  {:<width$}  {}", setting.id, setting.what));
    usage(format!("no setting '{id}'; similar names:{}", lines.collect::<String>()))
}

fn usage(message: String) -> Failure {
    Failure { code: exit::USAGE, error: Some(anyhow!(message)) }
}

fn explanation(setting: &Setting, readings: &[(String, Reading)]) -> String {
    let lines = explain(setting);
    let width = lines.iter().map(|line| line.label.len()).max().unwrap_or(0);
    let mut text = format!("{} ({})\n{}\n\n", setting.id, setting.area.name(), setting.what);
    let mut add = |label: &str, line: &str| {
        let _ = writeln!(text, "{label:<width$}  {line}");
    };
    if readings.is_empty() {
        add("Now", "no interface on this host");
    }
    for (id, reading) in readings {
        let owner = id.strip_prefix(setting.id).unwrap_or_default().trim_matches(['[', ']']);
        let value = reading.in_words();
        add("Now", &if owner.is_empty() { value } else { format!("{owner}: {value}") });
    }
    for line in &lines {
        add(line.label, &line.text);
    }
    text
}

fn one_in_json(setting: &Setting, readings: &[(String, Reading)]) -> String {
    let mut object = in_json(setting);
    object["now"] = readings.iter().map(|(id, reading)| reading_in_json(id, reading)).collect();
    pretty(&Value::from(vec![object]))
}

pub(super) fn reading_in_json(id: &str, reading: &Reading) -> Value {
    match reading {
        Reading::Value(value) => json!({"id": id, "state": "value", "value": value}),
        Reading::Unsupported => json!({"id": id, "state": "unsupported"}),
        Reading::NeedsRoot => json!({"id": id, "state": "needs_root"}),
        Reading::Unknown { why } => json!({"id": id, "state": "unknown", "why": why}),
    }
}

fn in_json(setting: &Setting) -> Value {
    let words: Vec<_> = catalogue::printed(setting.id).map(|check| check.words).collect();
    let papers = catalogue::said(setting.id).map(|said| {
        json!({"paper": said.paper.title(), "place": said.place, "printed": words.join("; "), "value": said.value})
    });
    let documents = setting.docs.iter().map(|document| json!({"document": document}));
    let disputed = catalogue::disagreements(setting.id)
        .map(|topic| json!({"positions": topic.positions(), "held_here": topic.rule}));
    json!({
        "id": setting.id,
        "area": setting.area.name(),
        "what": setting.what,
        "why": setting.why,
        "sources": papers.chain(documents).collect::<Vec<_>>(),
        "how_read": setting.read.to_string(),
        "readable": !matches!(setting.read, ReadFrom::Elsewhere { .. }),
        "value": setting.value.to_string(),
        "class": setting.write.name(),
        "persistence": setting.kept_by().map(|form| form.to_string()).collect::<Vec<_>>(),
        "risk": setting.risk.iter().map(|risk| risk.name()).collect::<Vec<_>>(),
        "disruption": setting.disrupts.name(),
        "menu": setting.menu.iter()
            .map(|menu| json!({"vendor": menu.vendor.name(), "words": menu.words}))
            .collect::<Vec<_>>(),
        "today": setting.today,
        "disputed": disputed.collect::<Vec<_>>(),
        "in_record": setting.in_record,
    })
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}
