//! Findings as JSON.

use nearwire_host::Reading;
use nearwire_host::change::RootHost;
use nearwire_host::check::{Finding, Outcome, Summary, Waiver, counts};
use serde_json::{Map, Value, json};

use super::Checked;

/// The version of this format; it grows when a key changes its meaning.
const FORMAT: u32 = 1;

pub(super) fn page(checked: &Checked, host: &mut RootHost) -> String {
    let counts: Map<_, _> =
        counts(&checked.findings).into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect();
    let left_out = checked
        .selection
        .profile
        .left_out
        .iter()
        .map(|advice| json!({"id": advice.setting.id, "printed": advice.printed, "reason": advice.reason}));
    let page = json!({
        "format": FORMAT,
        "profile": {"name": checked.selection.profile.name, "purpose": checked.selection.profile.purpose},
        "interfaces": checked.selection.interfaces,
        "summary": summary(checked),
        "counts": counts,
        "unused_waivers": checked.unused_waivers,
        "probes": checked.probes.json(),
        "findings": checked.findings.iter().map(|one| finding(one, host, checked.effects.json(one))).collect::<Vec<_>>(),
        "left_out": left_out.collect::<Vec<_>>(),
    });
    format!("{page:#}\n")
}

fn summary(checked: &Checked) -> Value {
    let summary = Summary::of(&checked.findings);
    let differing: Map<_, _> =
        summary.differing.iter().map(|(weight, count)| (weight.name().to_owned(), (*count).into())).collect();
    let unjudged = summary.unjudged.iter().map(|of| {
        let ids: Vec<_> = of.findings.iter().map(|finding| finding.id()).collect();
        json!({"cause": of.cause, "answer": of.answer, "findings": ids})
    });
    json!({
        "text": summary.to_string(),
        "differing": differing,
        "lighter": checked.lighter,
        "waived": summary.waived,
        "counting": summary.counting,
        "unjudged": unjudged.collect::<Vec<_>>(),
    })
}

fn finding(finding: &Finding, host: &mut RootHost, measured: Option<Value>) -> Value {
    let setting = finding.wish.setting;
    let (owner, why) = match &finding.outcome {
        Outcome::Owned(owner) => (Some(json!({"tool": owner.tool, "advice": owner.advice})), None),
        Outcome::NotApplicable { why } | Outcome::Unknown { why } => (None, Some(why)),
        _ => (None, None),
    };
    let fixes = finding.fixes().into_iter().map(|fix| json!({"when": fix.when.name(), "text": fix.text}));
    let mut page = json!({
        "id": finding.id(),
        "setting": setting.id,
        "interface": finding.interface,
        "area": setting.area.name(),
        "outcome": finding.outcome.name(),
        "weight": finding.wish.weight.name(),
        "found": match &finding.found { Reading::Value(value) => Some(value), _ => None },
        "wanted": finding.wanted,
        "value": finding.value,
        "cpus": finding.cpus.as_ref().map(ToString::to_string),
        "reason": finding.wish.reason,
        "source": finding.wish.source,
        "verdict": finding.wish.verdict.name(),
        "today": finding.wish.today,
        "why": why,
        "owner": owner,
        "note": finding.note,
        "waiver": match &finding.outcome { Outcome::Waived(waiver) => Some(waived(waiver)), _ => None },
        "class": setting.write.name(),
        "disruption": setting.disrupts.name(),
        "risk": setting.risk.iter().map(|risk| risk.name()).collect::<Vec<_>>(),
        "now": finding.now(host).map(|(command, more)| json!({"command": command, "more": more})),
        "fixes": fixes.collect::<Vec<_>>(),
    });
    if let (Value::Object(fields), Some(measured)) = (&mut page, measured) {
        fields.insert("measured".to_owned(), measured);
    }
    page
}

fn waived(waiver: &Waiver) -> Value {
    json!({"reason": waiver.reason, "owner": waiver.owner, "until": waiver.until.to_string()})
}
