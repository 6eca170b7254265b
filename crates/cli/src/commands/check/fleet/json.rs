//! A fleet as JSON.

use nearwire_host::check::fleet::Row;
use serde_json::{Value, json};

use super::Fleet;

/// The version of this format; it grows when a key changes its meaning.
const FORMAT: u32 = 1;

pub(super) fn page(fleet: &Fleet) -> String {
    let hosts = fleet.members.iter().map(|member| json!({"name": member.name, "summary": fleet.summary(member)}));
    let unreadable = fleet.unreadable.iter().map(|(file, why)| json!({"file": file.display().to_string(), "why": why}));
    let page = json!({
        "format": FORMAT,
        "profile": {"name": fleet.profile.name, "purpose": fleet.profile.purpose},
        "hosts": hosts.collect::<Vec<_>>(),
        "baseline": fleet.baseline.map(|at| &fleet.members[at].name),
        "not_checked": unreadable.collect::<Vec<_>>(),
        "settings": fleet.rows.iter().map(|row| setting(fleet, row)).collect::<Vec<_>>(),
    });
    format!("{page:#}\n")
}

fn setting(fleet: &Fleet, row: &Row) -> Value {
    let groups = row.groups.iter().map(|group| {
        let hosts: Vec<_> = fleet.names(&group.members).collect();
        json!({"found": group.found, "outcome": group.outcome.name(), "hosts": hosts})
    });
    json!({
        "id": row.id,
        "weight": row.weight.name(),
        "wanted": row.wanted,
        "differing": row.differing(),
        "alike": !row.is_unalike(),
        "unlike_baseline": fleet.names(&fleet.unlike(row)).collect::<Vec<_>>(),
        "values": groups.collect::<Vec<_>>(),
    })
}
