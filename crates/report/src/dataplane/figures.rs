//! Figures of a record that table, CSV and page show: rates, bits, counts over all trials, sizes in their order.

use super::record::{Cell, DataplaneRecord, Goal, LatencyAt, LatencyBound, LossAt, Throughput, Trial};

/// Bytes that a frame takes on the wire beside those that are counted: FCS 4, preamble 8, gap 12.
const WIRE_BYTES: f64 = 24.0;
/// Beyond any measurement, whatever the unit; only a damaged record holds more. Sums and products of such numbers are finite.
const MOST: f64 = 1e15;
/// Less than any measurement but 0 gives, whatever the unit.
const LEAST: f64 = 1e-9;

/// Of the throughput by the last goal, the rate whose latency stands beside it.
pub(super) const HALF: f64 = 0.5;

/// The record with numbers that no measurement gives left out, or 0 where there must be one.
pub(super) fn tidied(record: &DataplaneRecord) -> DataplaneRecord {
    let mut record = record.clone();
    for Goal { loss_ratio, latency, exceed_ratio, width, .. } in &mut record.goals {
        [loss_ratio, exceed_ratio, width].into_iter().for_each(tidy);
        if let Some(LatencyBound { percentile, .. }) = latency {
            tidy(percentile);
        }
    }
    for cell in &mut record.cells {
        tidy(&mut cell.mean_bytes);
        for Throughput { lower_fps, upper_fps, conditional_fps, .. } in &mut cell.throughput {
            [lower_fps, upper_fps, conditional_fps].into_iter().for_each(tidy_if_any);
        }
        for LatencyAt { share, rate_fps, p50_ns, p99_ns, p999_ns, max_ns, pdv_p999_ns, ipdv_p99_ns, .. } in
            &mut cell.latency
        {
            [share, rate_fps].into_iter().for_each(tidy);
            [p50_ns, p99_ns, p999_ns, max_ns, pdv_p999_ns, ipdv_p99_ns].into_iter().for_each(tidy_if_any);
        }
        for LossAt { rate_fps, loss_ratio } in &mut cell.frame_loss {
            [rate_fps, loss_ratio].into_iter().for_each(tidy);
        }
        if let Some(bursts) = &mut cell.back_to_back {
            [&mut bursts.mean_frames, &mut bursts.deviation_frames].into_iter().for_each(tidy);
            tidy_if_any(&mut bursts.buffer_ns);
        }
        for Trial { rate_fps, p50_ns, p99_ns, .. } in &mut cell.trials {
            [rate_fps, p50_ns, p99_ns].into_iter().for_each(tidy_if_any);
        }
    }
    record
}

fn is_measured(value: f64) -> bool {
    value == 0.0 || (LEAST..=MOST).contains(&value)
}

fn tidy(value: &mut f64) {
    *value = Some(*value).filter(|value| is_measured(*value)).unwrap_or(0.0);
}

fn tidy_if_any(value: &mut Option<f64>) {
    *value = value.filter(|value| is_measured(*value));
}

/// A number with three digits that count: `0.0123`, `1.20`, `28.8`, `1234`.
pub(super) fn three_digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        below if below < 0.000_01 => format!("{value:.1e}"),
        below if below < 0.009_995 => format!("{value:.5}"),
        below if below < 0.099_95 => format!("{value:.4}"),
        below if below < 0.999_5 => format!("{value:.3}"),
        below if below < 9.995 => format!("{value:.2}"),
        below if below < 99.95 => format!("{value:.1}"),
        below if below < 1e6 => format!("{value:.0}"),
        _ => format!("{value:.2e}"),
    }
}

/// Frames a second as millions of them; `-` for none.
pub(super) fn mpps(rate_fps: Option<f64>) -> String {
    rate_fps.map_or_else(|| "-".to_owned(), |rate_fps| three_digits(rate_fps / 1e6))
}

/// A ratio as percent, with its sign.
pub(super) fn percent(ratio: f64) -> String {
    let text = three_digits(ratio * 100.0);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} %")
}

/// Bits a second of frames without FCS.
pub(super) fn frame_bits(rate_fps: f64, mean_bytes: f64) -> f64 {
    rate_fps * mean_bytes * 8.0
}

/// Bits a second with all that a frame takes on the wire.
pub(super) fn wire_bits(rate_fps: f64, mean_bytes: f64) -> f64 {
    frame_bits(rate_fps, mean_bytes + WIRE_BYTES)
}

/// What a cell carries by a goal.
pub(super) fn throughput<'a>(cell: &'a Cell, goal: &str) -> Option<&'a Throughput> {
    cell.throughput.iter().find(|found| found.goal == goal)
}

/// What a cell carries by the last goal, frames a second; none: it keeps to the goal at no rate.
pub(super) fn last_fps(record: &DataplaneRecord, cell: &Cell) -> Option<f64> {
    throughput(cell, &record.goals.last()?.name)?.lower_fps
}

/// The latency at half of the last goal's throughput.
pub(super) fn at_half(cell: &Cell) -> Option<&LatencyAt> {
    cell.latency.iter().find(|at| (at.share - HALF).abs() < 1e-6)
}

/// Frames of all trials of a cell that were not as they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Totals {
    pub(super) lost: u64,
    pub(super) duplicated: u64,
    pub(super) reordered: u64,
    pub(super) corrupted: u64,
}

pub(super) fn totals(cell: &Cell) -> Totals {
    cell.trials.iter().fold(Totals::default(), |sum, trial| Totals {
        lost: sum.lost.saturating_add(lost_frames(trial)),
        duplicated: sum.duplicated.saturating_add(trial.duplicated_frames),
        reordered: sum.reordered.saturating_add(trial.reordered_frames),
        corrupted: sum.corrupted.saturating_add(trial.corrupted_frames),
    })
}

/// Frames that were sent and did not come back.
pub(super) fn lost_frames(trial: &Trial) -> u64 {
    trial.sent_frames.saturating_sub(trial.received_frames)
}

/// Of the frames that were due, how many did not come back.
pub(super) fn loss_ratio(trial: &Trial) -> f64 {
    let due = trial.sent_frames.saturating_add(trial.unsent_frames);
    if due == 0 { 0.0 } else { due.saturating_sub(trial.received_frames) as f64 / due as f64 }
}

/// Frames a second that a trial offered; where it offered all that the generator could, what that came to.
pub(super) fn offered_fps(trial: &Trial) -> f64 {
    let seconds = trial.duration_ns.max(1) as f64 / 1e9;
    trial.rate_fps.unwrap_or(trial.sent_frames as f64 / seconds).min(MOST)
}

/// The cells of one size or mix.
pub(super) struct Size<'a> {
    /// As in [`Cell::sizes`].
    pub(super) sizes: &'a str,
    /// The mean of them.
    pub(super) mean_bytes: f64,
    /// In the order of the experiment.
    pub(super) cells: Vec<&'a Cell>,
}

impl Size<'_> {
    pub(super) fn is_mix(&self) -> bool {
        is_mix(self.sizes)
    }

    /// `64 B`, `60+590+1514 B`, `imix`.
    pub(super) fn label(&self) -> String {
        size_label(self.sizes)
    }
}

fn is_mix(sizes: &str) -> bool {
    sizes.parse::<u32>().is_err()
}

/// A size or a mix in words.
pub(super) fn size_label(sizes: &str) -> String {
    let is_number = sizes.chars().all(|c| c.is_ascii_digit() || c == '+');
    format!("{sizes}{}", if is_number { " B" } else { "" })
}

/// Sizes by their bytes, then mixes by their means.
pub(super) fn by_size(record: &DataplaneRecord) -> Vec<Size<'_>> {
    let mut sizes: Vec<Size> = Vec::new();
    for cell in &record.cells {
        match sizes.iter_mut().find(|size| size.sizes == cell.sizes) {
            Some(size) => size.cells.push(cell),
            None => sizes.push(Size { sizes: &cell.sizes, mean_bytes: cell.mean_bytes, cells: vec![cell] }),
        }
    }
    sizes.sort_by(|a, b| (a.is_mix().cmp(&b.is_mix())).then(a.mean_bytes.total_cmp(&b.mean_bytes)));
    sizes
}

/// Devices in the order of the experiment, each once.
pub(super) fn devices(record: &DataplaneRecord) -> Vec<&str> {
    let mut devices: Vec<&str> = Vec::new();
    for cell in &record.cells {
        if !devices.contains(&cell.device.as_str()) {
            devices.push(&cell.device);
        }
    }
    devices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let texts = [0.0, 0.000_123, 0.0123, 0.8, 1.2, 28.76, 1234.4, 5e9].map(three_digits);
        assert_eq!(texts, ["0", "0.00012", "0.0123", "0.800", "1.20", "28.8", "1234", "5.00e9"]);
    }

    #[test]
    fn percent_has_no_zeros_at_its_end() {
        assert_eq!([0.0, 0.005, 0.5, 0.123_4].map(percent), ["0 %", "0.5 %", "50 %", "12.3 %"]);
    }

    #[test]
    fn smallest_frames_at_ten_gigabits_fill_the_wire() {
        // 60 B without FCS: the well-known 14.88 million a second.
        assert!((wire_bits(14_880_952.4, 60.0) - 1e10).abs() < 1e3);
    }

    #[test]
    fn sizes_and_mixes_have_their_units() {
        assert_eq!(["64", "60+590+1514", "imix"].map(size_label), ["64 B", "60+590+1514 B", "imix"]);
    }
}
