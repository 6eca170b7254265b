//! Sentences and short texts about figures: the same on the terminal and on the page.

use super::figures::{Size, by_size, mpps, percent, size_label, three_digits, throughput};
use super::record::{Cell, DataplaneRecord, Goal, Method, State, Throughput};
use crate::render::units::time;

/// What a device carries by a goal, million frames a second: `1.20`, `>= 1.20`, `0.800 .. 1.10`, `lossy`.
pub(super) fn carried(found: &Throughput) -> String {
    let lower = mpps(found.lower_fps);
    match (found.state, found.lower_fps, found.upper_fps) {
        (State::Found, ..) => lower,
        (State::Lossy, ..) => "lossy".to_owned(),
        (State::AtLeast, ..) => format!(">= {lower}"),
        (State::GeneratorLimited, ..) => format!(">= {lower} *"),
        (State::NotConverged, None, None) => "-".to_owned(),
        (State::NotConverged, Some(_), None) => format!(">= {lower} ?"),
        (State::NotConverged, _, Some(upper_fps)) => {
            format!("{} .. {}", mpps(found.lower_fps.or(Some(0.0))), mpps(Some(upper_fps)))
        }
    }
}

/// The same with signs that a page can show.
pub(super) fn carried_on_page(found: &Throughput) -> String {
    carried(found).replace(">=", "≥").replace("..", "to").replace('*', "†").replace('-', "–")
}

/// The same with its unit, where it is a number.
pub(super) fn carried_with_unit(found: &Throughput) -> String {
    let text = carried_on_page(found);
    match (found.state, text.strip_suffix(" †")) {
        (State::Lossy, _) => text,
        (_, Some(number)) => format!("{number} Mpps †"),
        (_, None) => format!("{text} Mpps"),
    }
}

/// How the search ended, in words.
pub(super) const fn state_words(state: State) -> &'static str {
    match state {
        State::Found => "found",
        State::AtLeast => "at the highest rate that was allowed it still keeps to the goal",
        State::Lossy => "it does not keep to the goal at the least rate",
        State::NotConverged => "trials or time were used up before the bounds were near enough",
        State::GeneratorLimited => "the generator was too slow, so the device carries at least that",
    }
}

/// Bounds and state of a figure, as a sentence with its unit.
pub(super) fn bounds_words(found: &Throughput) -> String {
    let (lower, upper) = (mpps(found.lower_fps), mpps(found.upper_fps));
    let bounds = match (found.lower_fps, found.upper_fps) {
        (Some(_), Some(_)) => format!("between {lower} and {upper} Mpps"),
        (Some(_), None) => format!("at least {lower} Mpps"),
        (None, Some(_)) => format!("less than {upper} Mpps"),
        (None, None) => "no rate".to_owned(),
    };
    format!("{}: {bounds}; {}", found.goal, state_words(found.state))
}

/// `IPv4, 1 flow` or `IPv6, 4 flows, VLAN 5`.
pub(super) fn traffic(record: &DataplaneRecord) -> String {
    let traffic = &record.traffic;
    let flows = if traffic.flows == 1 { "1 flow".to_owned() } else { format!("{} flows", traffic.flows) };
    let vlan = traffic.vlan.map(|id| format!(", VLAN {id}")).unwrap_or_default();
    format!("IPv{}, {flows}{vlan}", traffic.ip_version)
}

pub(super) const fn method(method: Method) -> &'static str {
    match method {
        Method::MlrSearch => "MLRsearch (all goals at once)",
        Method::Rfc2544 => "RFC 2544, to the letter",
    }
}

/// What a device has to keep to.
pub(super) fn goal(goal: &Goal) -> String {
    let latency = goal
        .latency
        .map(|bound| format!("{} % of the frames within {}, ", bound.percentile, time(bound.at_most_ns as f64)));
    let exceed = match goal.exceed_ratio {
        ratio if ratio > 0.0 => format!(", of which {} may be in trials that do not keep to it", percent(ratio)),
        _ => String::new(),
    };
    format!(
        "{} lost at most, {}trials of {} to {}, {} of them decide{exceed}; bounds within {}",
        percent(goal.loss_ratio),
        latency.unwrap_or_default(),
        time(goal.initial_trial_ns as f64),
        time(goal.final_trial_ns as f64),
        time(goal.duration_sum_ns as f64),
        percent(goal.width)
    )
}

/// A cell's device and size: `l2/xdp 64 B`.
pub(super) fn cell_words(cell: &Cell) -> String {
    format!("{} {}", cell.device, size_label(&cell.sizes))
}

/// True where nothing stands between generator and sink.
pub(super) fn is_wire(device: &str) -> bool {
    device == "wire"
}

/// What was found, in one sentence: the device that carries most at the smallest size, and how many times what the kernel does
/// by the same function. Other functions are other work, so they are not compared.
pub(super) fn verdict(record: &DataplaneRecord) -> String {
    let Some(last) = record.goals.last() else {
        return "The experiment had no goal.".to_owned();
    };
    let goal = &last.name;
    let mut sizes = by_size(record).into_iter();
    let Some(size) = sizes.find(|size| !Carried::all(size, goal).is_empty()) else {
        let is_tried = record.cells.iter().any(|cell| throughput(cell, &last.name).is_some());
        return match is_tried {
            true => format!("No device keeps to {} at any rate that was tried.", last.name),
            false => "No device could be measured.".to_owned(),
        };
    };
    let mut carried = Carried::all(&size, goal);
    carried.sort_by(|a, b| is_wire(a.device).cmp(&is_wire(b.device)).then(b.fps.total_cmp(&a.fps)));
    let Some(best) = carried.first() else {
        return "No device could be measured.".to_owned();
    };
    let (who, verb) =
        if is_wire(best.device) { ("Generator and sink alone", "carry") } else { (best.device, "carries") };
    let first = format!("{who} {verb} {} Mpps of {} ({})", best.words(), size.label(), last.name);
    let compared =
        |one: &Carried| Some(format!("{} times as many as {}", one.times_kernel(&carried)?, kernel_of(one.device)?));
    let rest = match compared(best) {
        Some(words) => format!(", {words}"),
        None => {
            let other = carried.iter().skip(1).find_map(|one| Some((one, compared(one)?)));
            let words = other.map(|(one, words)| format!("; {} carries {}, {words}", one.device, one.words()));
            words.unwrap_or_default()
        }
    };
    format!("{first}{rest}.")
}

/// A device and what it carries by the last goal.
struct Carried<'a> {
    device: &'a str,
    fps: f64,
    is_least: bool,
}

impl<'a> Carried<'a> {
    fn all(size: &Size<'a>, goal: &str) -> Vec<Self> {
        size.cells.iter().filter_map(|cell| Self::of(cell, goal)).collect()
    }

    fn of(cell: &'a Cell, goal: &str) -> Option<Self> {
        let found = throughput(cell, goal)?;
        Some(Self { device: &cell.device, fps: found.lower_fps?, is_least: is_at_least(found) })
    }

    fn words(&self) -> String {
        format!("{}{}", if self.is_least { "at least " } else { "" }, mpps(Some(self.fps)))
    }

    /// How many times what the kernel carries by the same function; `None` where that was not found to an upper end.
    fn times_kernel(&self, all: &[Carried]) -> Option<String> {
        let kernel = kernel_of(self.device).filter(|kernel| kernel != self.device)?;
        let kernel = all.iter().find(|one| one.device == kernel && one.fps > 0.0 && !one.is_least)?;
        let least = if self.is_least { "at least " } else { "" };
        Some(format!("{least}{}", three_digits(self.fps / kernel.fps)))
    }
}

/// The kernel with a device's function.
fn kernel_of(device: &str) -> Option<String> {
    device.split_once('/').map(|(function, _)| format!("{function}/kernel"))
}

/// True where the device carries more than its lower bound, and nobody knows how much.
pub(super) const fn is_at_least(found: &Throughput) -> bool {
    matches!(found.state, State::AtLeast | State::GeneratorLimited)
}
