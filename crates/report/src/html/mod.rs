//! The report page: one HTML file that needs no network, no script and no other file.
//!
//! Charts are SVG that we write ourselves; the template in `templates/` places them and escapes all text that
//! comes from records. Colours live in the style sheet, so that one page serves light and dark.

mod anchors;
mod bars;
mod comparison;
mod curves;
mod dots;
mod doubts;
pub(crate) mod embedded;
mod heat_blocks;
mod heat_map;
pub mod intervals;
pub(crate) mod overlay;
mod palette;
mod published;
mod rounds;
mod spots;
pub(crate) mod svg;
mod tables;
pub(crate) mod words;

use serde::Serialize;
use thiserror::Error;

pub use palette::family;

use anchors::Anchors;

use crate::record::{Latency, Record};
use crate::render::{by_size, load_lines};

const TEMPLATE: &str = include_str!("../../templates/report.html");
/// The style sheet of the page, for pages of other crates.
pub const STYLE: &str = include_str!("../../templates/report.css");

/// Why a page could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HtmlError {
    /// No record, or none with a run.
    #[error("make a report: the records hold no runs; measure first with `nearwire bench --json FILE`")]
    Nothing,
    /// The template and the figures do not fit together.
    #[error("make a report: {source}; this is a defect, please report it")]
    Template {
        /// What the template engine said.
        #[from]
        source: minijinja::Error,
    },
    /// A record cannot be written as JSON.
    #[error("make a report: write a record as JSON: {source}; this is a defect, please report it")]
    Json {
        /// What the writer said.
        #[from]
        source: serde_json::Error,
    },
}

/// Everything the template shows.
#[derive(Debug, Serialize)]
struct Page {
    style: &'static str,
    headline: String,
    overlay: Option<String>,
    comparison: Option<comparison::Comparison>,
    families: Vec<(&'static str, &'static str)>,
    sections: Vec<Section>,
    records: Vec<embedded::Embedded>,
}

/// One record.
#[derive(Debug, Serialize)]
struct Section {
    letter: String,
    headline: String,
    started_at: String,
    cable: String,
    workload: String,
    interrupted: bool,
    facts: Vec<tables::Fact>,
    sizes: Vec<SizePanel>,
    columns: &'static [&'static str],
    size_chart: Option<String>,
    throughput_charts: Vec<(&'static str, String)>,
    rate_chart: Option<String>,
    carried: Vec<String>,
    /// "Half round trips" or the like.
    latencies: &'static str,
    is_half_rtt: bool,
    has_latency: bool,
    heat_maps: Vec<heat_map::HeatMap>,
    doubts: Vec<doubts::Doubt>,
    notes: Vec<(String, String)>,
    forwarders: Vec<String>,
    settings: Vec<tables::SettingRow>,
    settings_that_differ: usize,
    configuration: Vec<(&'static str, String)>,
}

/// The charts and figures of one message size.
#[derive(Debug, Serialize)]
struct SizePanel {
    size_bytes: u32,
    open: bool,
    dots: String,
    percentiles: String,
    strips: Vec<rounds::Strip>,
    rows: Vec<tables::FigureRow>,
}

/// Renders the page; several records become sections below a chart of them all.
///
/// # Errors
/// When there is nothing to show.
pub fn render_html(records: &[Record]) -> Result<String, HtmlError> {
    let records: Vec<Record> = records.iter().filter(|record| !record.runs.is_empty()).cloned().collect();
    let Some(first) = records.first() else {
        return Err(HtmlError::Nothing);
    };
    let anchors: Vec<Anchors> =
        records.iter().enumerate().map(|(index, record)| Anchors::of(&overlay::letter(index), record)).collect();
    let sections: Vec<Section> = records
        .iter()
        .zip(&anchors)
        .enumerate()
        .map(|(index, (record, anchors))| section(index, record, anchors))
        .collect();
    let embedded =
        records.iter().enumerate().map(|(index, record)| embedded::embedded(&overlay::letter(index), record));
    let embedded = embedded.collect::<Result<_, _>>()?;
    let page = Page {
        style: STYLE,
        headline: match sections.as_slice() {
            [only] => only.headline.clone(),
            several => format!("{} records side by side", several.len()),
        },
        overlay: words::headline_size(first).and_then(|size_bytes| overlay::chart(&records, size_bytes, &anchors)),
        comparison: comparison::comparison(&records, &anchors),
        families: families(&records),
        sections,
        records: embedded,
    };
    let mut environment = minijinja::Environment::new();
    // The name's ending turns on escaping of everything that is not marked safe.
    environment.add_template("report.html", TEMPLATE)?;
    Ok(environment.get_template("report.html")?.render(minijinja::value::Serde(&page))?)
}

/// The families that occur, for the key.
fn families(records: &[Record]) -> Vec<(&'static str, &'static str)> {
    let runs = || records.iter().flat_map(|record| &record.runs);
    let occurs = |class: &str| runs().any(|run| palette::family(&run.cell.path) == class);
    palette::FAMILIES.into_iter().filter(|(class, _)| occurs(class)).collect()
}

fn section(index: usize, record: &Record, anchors: &Anchors) -> Section {
    let groups = by_size(record);
    let headline_size = words::headline_size(record);
    let of_size = |size_bytes: u32| Some(words::headline(groups.get(&size_bytes)?, size_bytes));
    let headline = words::load_headline(record)
        .or_else(|| words::stream_headline(record))
        .or_else(|| headline_size.and_then(of_size))
        .unwrap_or_default();
    let latency = record.experiment.latency;
    let mut sizes: Vec<SizePanel> = groups
        .iter()
        .map(|(&size_bytes, runs)| SizePanel {
            size_bytes,
            open: headline_size == Some(size_bytes),
            dots: match latency {
                Latency::None => bars::chart(runs, size_bytes, anchors),
                Latency::HalfRtt | Latency::ResponseTime => dots::chart(runs, size_bytes, latency, anchors),
            },
            percentiles: curves::percentiles(runs, size_bytes, latency),
            strips: rounds::strips(runs, anchors),
            rows: runs.iter().map(|run| tables::figure_row(run, latency, anchors)).collect(),
        })
        .collect();
    sizes.sort_by_key(|panel| (!panel.open, panel.size_bytes));
    let settings = tables::settings(record);
    Section {
        letter: overlay::letter(index),
        headline,
        started_at: record.started_at.clone(),
        cable: record.experiment.cable_detail.clone(),
        workload: record.experiment.workload.clone(),
        interrupted: record.interrupted,
        facts: tables::facts(record),
        sizes,
        columns: tables::columns(latency),
        size_chart: curves::sizes(record).filter(|_| latency == Latency::HalfRtt),
        throughput_charts: if latency == Latency::None { curves::throughput(record) } else { Vec::new() },
        rate_chart: curves::rates(record),
        carried: load_lines(record),
        latencies: if latency == Latency::HalfRtt { "Half round trips" } else { "Response times" },
        is_half_rtt: latency == Latency::HalfRtt,
        has_latency: latency != Latency::None,
        heat_maps: heat_map::maps(record, anchors),
        doubts: doubts::doubts(record, anchors),
        notes: doubts::notes(record),
        forwarders: record.runs.iter().filter_map(words::forwarder).collect(),
        settings_that_differ: tables::differing(&settings),
        settings,
        configuration: tables::configuration(record),
    }
}
