//! The page of dataplane experiments: one HTML file that needs no network, no script and no other file.
//!
//! Its style sheet is that of the ordinary page and the little that only this page has.

mod bars;
mod charts;
mod palette;
mod plot;
mod tables;
mod topology;
mod trials;

use serde::Serialize;

use super::figures::{by_size, tidied};
use super::parts::sharing_notes;
use super::record::DataplaneRecord;
use super::words::{traffic, verdict};
use crate::html::HtmlError;
use crate::html::embedded::{Embedded, embedded};
use crate::html::overlay::letter;
use crate::record::Warning;
use tables::Anchors;

const TEMPLATE: &str = include_str!("../../../templates/dataplane.html");
/// What this page has beside [`crate::html::STYLE`].
pub const STYLE: &str = include_str!("../../../templates/dataplane.css");

/// Everything the template shows.
#[derive(Debug, Serialize)]
struct Page {
    style: String,
    headline: String,
    engines: Vec<(&'static str, &'static str)>,
    outcomes: Vec<(&'static str, &'static str, &'static str)>,
    trial_columns: [&'static str; 11],
    latency_columns: [&'static str; 10],
    sections: Vec<Section>,
    records: Vec<Embedded>,
}

/// One record.
#[derive(Debug, Serialize)]
struct Section {
    letter: String,
    headline: String,
    under: String,
    interrupted: bool,
    facts: Vec<tables::Fact>,
    /// The last goal's name.
    goal: String,
    goals: Vec<GoalCharts>,
    bars: Option<String>,
    topologies: Vec<topology::Picture>,
    latencies: Vec<SizeChart>,
    losses: Vec<SizeChart>,
    searches: Vec<trials::SizeSearches>,
    columns: Vec<String>,
    sizes: Vec<tables::SizeRows>,
    latency_rows: Vec<tables::Row>,
    loss_rows: Vec<tables::Row>,
    drop_rows: Vec<tables::Row>,
    others: Vec<(String, String)>,
    doubts: Vec<Warning>,
    settings: Vec<tables::Setting>,
    configuration: Vec<(String, String)>,
}

/// The charts of one goal.
#[derive(Debug, Serialize)]
struct GoalCharts {
    name: String,
    is_open: bool,
    charts: Vec<String>,
}

/// The chart of one size.
#[derive(Debug, Serialize)]
struct SizeChart {
    label: String,
    svg: String,
}

/// Renders the page; several records become sections.
///
/// # Errors
/// When there is nothing to show: no record, or none with a device.
pub fn render_dataplane_html(records: &[DataplaneRecord]) -> Result<String, HtmlError> {
    let records: Vec<&DataplaneRecord> = records.iter().filter(|record| !record.cells.is_empty()).collect();
    if records.is_empty() {
        return Err(HtmlError::Nothing);
    }
    let sections: Vec<Section> =
        records.iter().enumerate().map(|(index, record)| section(index, &tidied(record))).collect();
    let embedded = records.iter().enumerate().map(|(index, record)| embedded(&letter(index), record));
    let page = Page {
        style: format!("{}{STYLE}", crate::html::STYLE),
        headline: match sections.as_slice() {
            [only] => only.headline.clone(),
            several => format!("{} records side by side", several.len()),
        },
        engines: engines(&records),
        outcomes: trials::key(),
        trial_columns: trials::COLUMNS,
        latency_columns: tables::LATENCY_COLUMNS,
        records: embedded.collect::<Result<_, _>>()?,
        sections,
    };
    let mut environment = minijinja::Environment::new();
    // The name's ending turns on escaping of everything that is not marked safe.
    environment.add_template("dataplane.html", TEMPLATE)?;
    Ok(environment.get_template("dataplane.html")?.render(minijinja::value::Serde(&page))?)
}

/// The engines that occur, for the key.
fn engines(records: &[&DataplaneRecord]) -> Vec<(&'static str, &'static str)> {
    let occurs = |class: &str| {
        records.iter().flat_map(|record| &record.cells).any(|cell| palette::engine(&cell.device) == class)
    };
    palette::ENGINES.into_iter().filter(|(class, _)| occurs(class)).collect()
}

fn section(index: usize, record: &DataplaneRecord) -> Section {
    let letter = letter(index);
    let anchors = Anchors::of(&letter, record);
    let sizes = by_size(record);
    let goal = record.goals.last().map(|goal| goal.name.clone()).unwrap_or_default();
    let of_sizes = |draw: &dyn Fn(&super::figures::Size) -> Option<String>| {
        let charts = sizes.iter().filter_map(|size| Some(SizeChart { label: size.label(), svg: draw(size)? }));
        charts.collect::<Vec<_>>()
    };
    Section {
        headline: verdict(record).replace("kernel's", "kernel’s"),
        under: format!(
            "{}, {}, over {}. Started {}",
            record.topology,
            traffic(record),
            record.cable,
            record.started_at
        ),
        interrupted: record.interrupted,
        facts: tables::facts(record),
        goals: goal_charts(record),
        bars: match sizes.as_slice() {
            [only] if only.cells.iter().any(|cell| !cell.throughput.is_empty()) => {
                Some(bars::chart(record, only, &anchors))
            }
            _ => None,
        },
        topologies: topology::pictures(record),
        latencies: of_sizes(&|size| charts::latency(size, &goal)),
        losses: of_sizes(&charts::frame_loss),
        searches: trials::searches(record, &anchors),
        columns: tables::columns(record),
        sizes: tables::figure_rows(record, &anchors),
        latency_rows: tables::latency_rows(record),
        loss_rows: tables::loss_rows(record),
        drop_rows: tables::drop_rows(record),
        others: tables::other_lines(record),
        doubts: doubts(record),
        settings: tables::settings(record),
        configuration: tables::configuration(record),
        goal,
        letter,
    }
}

/// The last goal first and open: it is the one that latencies and bits belong to.
fn goal_charts(record: &DataplaneRecord) -> Vec<GoalCharts> {
    let goals = record.goals.iter().rev().enumerate();
    let charts = goals.map(|(index, goal)| GoalCharts {
        name: goal.name.clone(),
        is_open: index == 0,
        charts: [charts::FRAMES, charts::BITS]
            .into_iter()
            .filter_map(|unit| charts::rates(record, goal, unit))
            .collect(),
    });
    charts.filter(|goal| !goal.charts.is_empty()).collect()
}

/// Warnings, and parts that share a CPU.
fn doubts(record: &DataplaneRecord) -> Vec<Warning> {
    let shared = sharing_notes(record).into_iter().map(|text| Warning {
        code: "shared-cpu".to_owned(),
        text,
        advice: "give each part a CPU of its own".to_owned(),
    });
    record.warnings.iter().cloned().chain(shared).collect()
}
