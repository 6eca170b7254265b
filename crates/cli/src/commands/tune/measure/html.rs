//! The result as one HTML page in the style of the report.

use std::fmt::Write as _;

use nearwire_host::markup::escaped;
use nearwire_report::html::intervals::{IntervalRow, intervals};
use nearwire_report::html::{STYLE, family};
use nearwire_worth::Figure;
use nearwire_worth::result::Measured;
use nearwire_worth::store::Kind;
use nearwire_worth::verdict::Verdict;
use nearwire_worth::words::effect_in_words as cell;

use super::Told;
use super::text::{figures, from_to, headline, legend, pairs_in_words, sure_pairs};

/// What the style of the report lacks.
const MORE_STYLE: &str = "\
table.worth { border-collapse: collapse; font-size: 14px } .worth th, .worth td { border-bottom: 1px solid var(--line); \
padding: .3em .7em; text-align: left; vertical-align: top } .worth td { white-space: nowrap } \
.better { color: var(--xdp); font-weight: 600 } .worse { color: var(--tcp); font-weight: 600 } .noise { color: var(--faint) }";

pub(super) fn page(told: &Told<'_>) -> String {
    let measured = &told.measured;
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Nearwire: {0}</title>\n\
         <style>{STYLE}{MORE_STYLE}</style></head>\n<body>\n<header class=\"top\"><h1>{0}</h1>\n<p class=\"under\">Profile {1} on {2}. \
         {3}{4}, Linux {5}; {6} rounds.</p></header>\n",
        escaped(&headline(measured)),
        escaped(told.profile),
        escaped(&told.on()),
        escaped(&told.kind.cpu),
        escaped(&interface(&told.kind)),
        escaped(&told.kind.kernel),
        measured.rounds,
    );
    chart(&mut html, measured);
    table(&mut html, measured);
    pairs(&mut html, measured);
    left(&mut html, told);
    for note in &measured.notes {
        // Writing to a string cannot fail.
        let _ = writeln!(html, "<section><p>{}</p></section>", escaped(note));
    }
    let _ = write!(html, "<section><p class=\"lead\">{}</p></section>\n</body></html>\n", escaped(&legend(told)));
    html
}

/// The interface that was measured, if one was.
fn interface(kind: &Kind) -> String {
    if kind.driver == "none" { String::new() } else { format!(", {} {}", kind.driver, kind.nic) }
}

/// The median of each setting on each path.
fn chart(html: &mut String, measured: &Measured) {
    let is_only = measured.subjects.len() == 1;
    let mut rows = Vec::new();
    for worth in measured.by_gain() {
        for on in &worth.on {
            let Some(effect) = on.effect(Figure::P50Ns) else { continue };
            rows.push(IntervalRow {
                label: if is_only {
                    worth.candidate.id.clone()
                } else {
                    format!("{} {}", worth.candidate.id, on.subject)
                },
                tip: format!("{}: {}", from_to(worth), cell(effect)),
                value: effect.change,
                low: effect.low,
                high: effect.high,
                class: family(&on.subject),
                is_sure: effect.verdict.is_effect(),
            });
        }
    }
    if !rows.is_empty() {
        let picture =
            intervals(&rows, "change of the median of each setting", "ns, change of the median; left is faster");
        let _ =
            writeln!(html, "<section><h2>Change of the median</h2>\n<div class=\"chart\">{picture}</div></section>");
    }
}

fn table(html: &mut String, measured: &Measured) {
    let figures = figures(measured);
    html.push_str("<section><h2>All figures</h2>\n<div class=\"scroll\"><table class=\"worth\">\n<thead><tr><th>setting</th><th>from → to</th><th>path</th>");
    for figure in &figures {
        let _ = write!(html, "<th>{}</th>", escaped(figure.name()));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for worth in measured.by_gain() {
        for on in &worth.on {
            let (id, change) = (escaped(&worth.candidate.id), escaped(&from_to(worth)));
            let _ = write!(html, "<tr><th>{id}</th><td>{change}</td><td>{}</td>", escaped(&on.subject));
            for figure in &figures {
                let _ = match on.effect(*figure) {
                    Some(effect) => {
                        let class = class(effect.verdict);
                        write!(html, "<td class=\"{class}\">{}</td>", escaped(&cell(effect)))
                    }
                    None => write!(html, "<td class=\"noise\">–</td>"),
                };
            }
            html.push_str("</tr>\n");
        }
        if let Some(why) = &worth.failure {
            let id = escaped(&worth.candidate.id);
            let _ = writeln!(html, "<tr><th>{id}</th><td colspan=\"9\">given up: {}</td></tr>", escaped(why));
        }
    }
    html.push_str("</tbody></table></div></section>\n");
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Noise => "noise",
        Verdict::NoEffect => "none",
    }
}

fn pairs(html: &mut String, measured: &Measured) {
    if measured.pairs.is_empty() {
        return;
    }
    let _ = writeln!(
        html,
        "<section><h2>Together</h2>\n<p>{}</p>\n<ul class=\"plain\">",
        escaped(&pairs_in_words(measured))
    );
    for (pair, on, effect) in sure_pairs(measured) {
        let line =
            format!("{} with {}, {} {}: {}", pair.one, pair.other, on.subject, effect.figure.name(), cell(effect));
        let _ = writeln!(html, "<li>{}</li>", escaped(&line));
    }
    html.push_str("</ul></section>\n");
}

fn left(html: &mut String, told: &Told<'_>) {
    if told.left.is_empty() {
        return;
    }
    html.push_str("<section><h2>Not measured</h2>\n<ul class=\"plain\">\n");
    for (id, why) in told.left {
        let _ = writeln!(html, "<li><b>{}</b>: {}</li>", escaped(id), escaped(why));
    }
    html.push_str("</ul></section>\n");
}
