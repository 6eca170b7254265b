//! Numbers and sentences of the page.

use crate::load::capacities;
use crate::record::{Quantile, Record, Run};
use crate::render::units::{cell_name, count, is_kernel_path, time, us};

/// A time with its unit, the micro sign where a page can show it.
pub(crate) fn micro(value_ns: f64) -> String {
    time(value_ns).replace(" us", " µs")
}

/// Microseconds as a bare number; an en dash where unsupported.
pub(crate) fn micro_number(value_ns: Option<f64>) -> String {
    value_ns.map_or_else(|| "–".to_owned(), |value_ns| us(Some(value_ns)))
}

/// The page's sentence: which path is nearest, and how much nearer than the kernel's best.
pub(super) fn headline(runs: &[&Run], size_bytes: u32) -> String {
    let best = |kernel: bool| {
        runs.iter()
            .filter(|run| is_kernel_path(&run.cell.path) == kernel)
            .find_map(|run| run.latency_ns.p50.map(|p50_ns| (cell_name(&run.cell), p50_ns)))
    };
    match (best(false), best(true)) {
        (Some((near, near_ns)), Some((kernel, kernel_ns))) if near_ns < kernel_ns => format!(
            "{near} is {:.1} times nearer the wire than {kernel}, the kernel’s best: {} against {} at {size_bytes} B.",
            kernel_ns / near_ns,
            micro(near_ns),
            micro(kernel_ns),
        ),
        (Some((near, near_ns)), Some((kernel, kernel_ns))) => format!(
            "{kernel}, the kernel’s best, is nearest the wire: {} at {size_bytes} B; {near} takes {}.",
            micro(kernel_ns),
            micro(near_ns),
        ),
        (Some((name, p50_ns)), None) | (None, Some((name, p50_ns))) => {
            format!("{name} is nearest the wire: {} at {size_bytes} B.", micro(p50_ns))
        }
        (None, None) => "No path has enough samples for a median.".to_owned(),
    }
}

/// The sentence of a load: what carries most messages. `None` for other workloads.
pub(super) fn load_headline(record: &Record) -> Option<String> {
    let capacities = capacities(record);
    let rate = |run: &Run| run.cell.rate_per_second.unwrap_or_default();
    let carried = capacities.iter().filter_map(|capacity| Some((capacity, capacity.greatest()?)));
    let Some((capacity, greatest)) = carried.max_by_key(|(_, run)| rate(run)) else {
        return (!capacities.is_empty()).then(|| "No rate that was measured is carried.".to_owned());
    };
    let (name, size_bytes) = (cell_name(&capacity.cell), capacity.cell.size_bytes);
    let p99 = greatest.latency_ns.p99.map(|ns| format!(", 99 % of them answered within {}", micro(ns)));
    Some(format!(
        "{name} carries {} messages of {size_bytes} B a second{}.",
        count(rate(greatest)),
        p99.unwrap_or_default()
    ))
}

/// The sentence of a stream: what moves most messages. `None` for other workloads.
pub(super) fn stream_headline(record: &Record) -> Option<String> {
    let rates = record.runs.iter().filter_map(|run| Some((run, run.metric("received-rate")?)));
    let (run, rate) = rates.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (name, size_bytes) = (cell_name(&run.cell), run.cell.size_bytes);
    Some(format!("{name} moves {} messages of {size_bytes} B a second.", count(rate as u64)))
}

/// The size the page opens with: 64 bytes when measured, as the papers do, else the smallest with a median.
pub(super) fn headline_size(record: &Record) -> Option<u32> {
    let sizes = || {
        let supported = record.runs.iter().filter(|run| run.latency_ns.p50.is_some());
        supported.map(|run| run.cell.size_bytes)
    };
    sizes()
        .find(|&size_bytes| size_bytes == 64)
        .or_else(|| sizes().min())
        .or_else(|| record.runs.iter().map(|run| run.cell.size_bytes).min())
}

/// A forwarder's own latency in words; `None` for other workloads.
pub(super) fn forwarder(run: &Run) -> Option<String> {
    let quantiles = run.forwarder_ns.as_ref()?;
    let value_ns = |percent| Quantile::at(quantiles, percent)?.value_ns;
    let at = |percent| value_ns(percent).map_or_else(|| "–".to_owned(), micro);
    Some(format!(
        "{} {} B: p50 {}, p99 {}, max {}",
        cell_name(&run.cell),
        run.cell.size_bytes,
        at(50.0),
        at(99.0),
        at(100.0)
    ))
}
