//! A fleet as one HTML page: a row for each setting, a column for each host.

use std::fmt::Write as _;

use nearwire_host::check::fleet::Row;
use nearwire_host::markup::escaped;

use super::Fleet;

const STYLE: &str = "\
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em; color: #1a1a1a; background: #fff }
table { border-collapse: collapse } th, td { border: 1px solid #ccc; padding: .25em .5em; text-align: left; vertical-align: top }
thead th { position: sticky; top: 0; background: #f2f2f2 } tbody th { font-weight: 600; white-space: nowrap }
td { max-width: 16em; overflow-wrap: anywhere } .differs { background: #fbd9d3 } .waived { background: #fdf0c4 }
.ok { background: #e2f3e2 } .none { color: #767676 } .unlike { outline: 2px solid #1f5fa8; outline-offset: -2px }
@media (prefers-color-scheme: dark) { body { color: #e6e6e6; background: #161616 } th, td { border-color: #444 }
thead th { background: #262626 } .differs { background: #5c231a } .waived { background: #554410 } .ok { background: #17361b } }";

pub(super) fn page(fleet: &Fleet) -> String {
    let title = format!("{} hosts, profile {}", fleet.members.len(), fleet.profile.name);
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n<style>\n{STYLE}\n</style></head>\n\
         <body>\n<h1>{0}</h1>\n<p>{1}</p>\n<ul>\n",
        escaped(&title),
        escaped(&fleet.profile.purpose)
    );
    for (at, member) in fleet.members.iter().enumerate() {
        let mark = if fleet.baseline == Some(at) { ", the baseline" } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(html, "<li><b>{}</b>{mark}: {}</li>", escaped(&member.name), escaped(&fleet.summary(member)));
    }
    for (file, why) in &fleet.unreadable {
        let _ = writeln!(
            html,
            "<li><b>{}</b> was not checked: {}</li>",
            escaped(&file.display().to_string()),
            escaped(why)
        );
    }
    html.push_str(
        "</ul>\n<p>Red differs from the profile, yellow is waived, green is as wanted, without a colour it was not judged. \
         A blue frame: another value than the baseline's.</p>\n<table>\n<thead><tr><th>Weight</th><th>Setting</th><th>Wanted</th>",
    );
    for member in &fleet.members {
        let _ = write!(html, "<th>{}</th>", escaped(&member.name));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in &fleet.rows {
        setting(&mut html, fleet, row);
    }
    html.push_str("</tbody></table>\n</body></html>\n");
    html
}

fn setting(html: &mut String, fleet: &Fleet, row: &Row) {
    let unlike = fleet.unlike(row);
    let (weight, id, wanted) = (row.weight.name(), escaped(&row.id), escaped(&row.wanted));
    let _ = write!(html, "<tr><td>{weight}</td><th>{id}</th><td>{wanted}</td>");
    for member in 0..fleet.members.len() {
        let frame = if unlike.contains(&member) { " unlike" } else { "" };
        let _ = match row.group_of(member) {
            Some(group) => {
                let (name, found) = (group.outcome.name(), escaped(&group.found));
                let class = match name {
                    "owned" | "differs" => "differs",
                    "ok" | "waived" => name,
                    _ => "none",
                };
                write!(html, "<td class=\"{class}{frame}\" title=\"{name}\">{found}</td>")
            }
            None => write!(html, "<td class=\"none\" title=\"not applicable\">-</td>"),
        };
    }
    html.push_str("</tr>\n");
}
