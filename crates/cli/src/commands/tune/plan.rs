//! `nearwire tune plan`: shows what apply would write.

use std::fmt::Write as _;

use nearwire_host::change::{Change, put_in_order};
use nearwire_host::{Disruption, Risk};
use serde_json::{Value, json};

use super::Planned;
use crate::args::tune::PlanArgs;
use crate::exit::Outcome;
use crate::output;

/// The version of the JSON format; it grows when a key changes its meaning.
const FORMAT: u32 = 1;

pub fn run(args: &PlanArgs) -> Outcome {
    let planned = Planned::make(&args.changes)?;
    let mut changes = planned.prepared.changes.clone();
    put_in_order(&mut changes);
    output::print_of_host(&match () {
        () if args.json => page(&planned, &changes),
        () if args.script => script(&planned, &changes),
        () => text(&planned, &changes),
    })
}

/// The plan as text; apply shows it before it asks.
pub(super) fn text(planned: &Planned, changes: &[Change]) -> String {
    let mut text = format!("Profile {}: {}\n", planned.selection.profile.name, planned.selection.profile.purpose);
    // Writing to a string cannot fail.
    let _ = match changes.len() {
        0 => writeln!(text, "\nNothing to write now."),
        1 => writeln!(text, "\n1 value to write now:"),
        count => writeln!(text, "\n{count} values to write now, in this order:"),
    };
    let width = changes.iter().map(|change| change.id.len()).max().unwrap_or(0);
    for change in changes {
        let _ = write!(text, "  {:<width$}  {} -> {}", change.id, shown(&change.found), shown(&change.wanted));
        let _ = writeln!(text, "{}", costs(change.disruption(), change.risk()));
    }
    let later = planned.prepared.later.iter().map(|(goal, why)| (goal.id(), format!("{}; {why}", goal.value)));
    list(&mut text, "Need a boot, a file or a firmware menu (nearwire tune export, nearwire check):", later);
    let failed = planned.prepared.failed.iter().map(|(id, error)| (id.clone(), error.to_string()));
    list(&mut text, "Cannot be written:", failed);
    list(&mut text, "Left to you:", planned.by_hand.iter().cloned());
    let refused = planned.prepared.refused.iter().map(|id| (id.clone(), format!("--i-accept-risk {id} writes it")));
    list(&mut text, "Lowers security, so it is not changed:", refused);
    text
}

/// What a change interrupts and risks, separated by commas.
fn costs(disruption: Disruption, risks: &[Risk]) -> String {
    let disruption = Some(disruption).filter(|disruption| *disruption != Disruption::None);
    let words = disruption.map(Disruption::name).into_iter().chain(risks.iter().map(|risk| risk.name()));
    let words: Vec<_> = words.collect();
    if words.is_empty() { String::new() } else { format!("  ({})", words.join(", ")) }
}

fn shown(value: &str) -> &str {
    if value.is_empty() { "(empty)" } else { value }
}

fn list(text: &mut String, title: &str, rows: impl Iterator<Item = (String, String)>) {
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return;
    }
    let width = rows.iter().map(|(id, _)| id.len()).max().unwrap_or(0);
    let _ = writeln!(text, "\n{title}");
    for (id, words) in rows {
        let line = format!("  {id:<width$}  {words}");
        let _ = writeln!(text, "{}", output::wrapped(&line, width + 4, output::terminal_width()));
    }
}

fn script(planned: &Planned, changes: &[Change]) -> String {
    let mut text = format!(
        "#!/bin/sh\n# What nearwire tune apply would write for profile {}. It writes and does not check the effect,\n\
         # and it keeps no journal; the commands that put everything back are at the end, as comments.\nset -e\n\n",
        planned.selection.profile.name.replace('\n', " ")
    );
    for change in changes {
        let _ = writeln!(text, "{}", change.shell());
    }
    text.push_str("\n# To put everything back:\n");
    for change in changes.iter().rev() {
        let _ = writeln!(text, "# {}", change.inverse_shell());
    }
    text
}

fn page(planned: &Planned, changes: &[Change]) -> String {
    let prepared = &planned.prepared;
    let pair = |id: &str, why: String| json!({"id": id, "why": why});
    let page = json!({
        "format": FORMAT,
        "profile": planned.selection.profile.name,
        "changes": changes.iter().map(change).collect::<Vec<_>>(),
        "later": prepared.later.iter().map(|(goal, why)| {
            json!({"id": goal.id(), "value": goal.value, "why": why.to_string()})
        }).collect::<Vec<_>>(),
        "failed": prepared.failed.iter().map(|(id, error)| pair(id, error.to_string())).collect::<Vec<_>>(),
        "by_hand": planned.by_hand.iter().map(|(id, advice)| pair(id, advice.clone())).collect::<Vec<_>>(),
        "refused": prepared.refused,
    });
    format!("{page:#}\n")
}

fn change(change: &Change) -> Value {
    json!({
        "id": change.id,
        "target": change.target.to_string(),
        "found": change.found,
        "wanted": change.wanted,
        "disruption": change.disruption().name(),
        "risk": change.risk().iter().map(|risk| risk.name()).collect::<Vec<_>>(),
        "shell": change.shell(),
        "inverse_shell": change.inverse_shell(),
    })
}
