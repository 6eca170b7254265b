//! A process in plain text: what `nearwire status PID` prints, and the program itself at its end where `stats` is set.

use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

use crate::kernel_tables::packet_filters::PacketFilters;
use crate::kernel_tables::vlan_tags::HiddenTags;

use super::{ConnectionStatus, Counter, InterfaceStatus, SocketCounter, SocketStatus, Status};
use crate::reason::Reason;

/// The width of labels.
const LABEL: usize = 14;
const COLUMNS: usize = 10;
/// Shown where there are several.
const ENGINE_COLUMN: usize = 2;
/// A column: its head, and whether it is of numbers, which stand at its right.
const HEADS: [(&str, bool); COLUMNS] = [
    ("fd", false),
    ("served by", false),
    ("engine", true),
    ("local", false),
    ("remote", false),
    ("received", true),
    ("sent", true),
    ("dropped", true),
    ("by kernel", true),
    ("why", false),
];

/// A process with a page.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its pid, in the namespace of the reader.
    pub pid: i32,
    /// The name of the executable.
    pub name: String,
    /// What it says of itself.
    pub status: Status,
    /// How long it has been running.
    pub age: Duration,
    /// CPU time of all its threads.
    pub cpu: Duration,
    /// The packet filters that its accelerated traffic bypasses, where these were asked for.
    pub filters: PacketFilters,
    /// Interfaces of its accelerated sockets that take VLAN tags out of frames, where these were asked for.
    pub hidden_tags: Vec<HiddenTags>,
}

impl Process {
    /// The calling process.
    #[must_use]
    pub fn of_self(name: &str, status: Status) -> Process {
        let cpu = now(ClockId::ProcessCPUTime);
        let pid = i32::try_from(status.pid).unwrap_or(0);
        Process {
            pid,
            name: name.to_owned(),
            age: Process::age_of(status.started_ticks),
            status,
            cpu,
            filters: PacketFilters::default(),
            hidden_tags: Vec::new(),
        }
    }

    /// The age of a process that was started so many clock ticks after boot.
    #[must_use]
    pub fn age_of(started_ticks: u64) -> Duration {
        now(ClockId::Boottime).saturating_sub(Process::time_of(started_ticks))
    }

    /// Clock ticks as a time.
    #[must_use]
    pub fn time_of(ticks: u64) -> Duration {
        Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64)
    }

    /// Time that threads spun, of the time since the page was made; above 1 where several spin.
    #[must_use]
    pub fn spin_share(&self) -> f64 {
        let since = Duration::from_nanos(self.status.since_ns);
        let spun = Duration::from_nanos(self.status.counter(Counter::SpinningNs));
        share(spun, now(ClockId::Monotonic).saturating_sub(since))
    }

    /// CPU time of the time since it started; above 1 where several threads run.
    #[must_use]
    pub fn cpu_share(&self) -> f64 {
        share(self.cpu, self.age)
    }

    /// All of it.
    #[must_use]
    pub fn page(&self) -> String {
        let Process { pid, name, status, .. } = self;
        let mut text = format!("{name}, process {pid}, running for {}\n", seconds(self.age));
        line(&mut text, "library", &format!("nearwire {}", status.library_version));
        line(&mut text, "engine", &status.engine_in_words());
        lines(&mut text, "interfaces", status.interfaces.iter().map(in_words));
        let spinning = percent(self.spin_share());
        let spin = status.waiting.map_or_else(|| status.spin.to_string(), |waiting| format!("auto: {waiting}"));
        line(&mut text, "waiting", &format!("spin {spin}; {spinning} of the time was spent spinning"));
        line(&mut text, "CPU time", &format!("{}, {} of one CPU", seconds(self.cpu), percent(self.cpu_share())));
        lines(&mut text, "configuration", status.config.lines().map(str::to_owned));
        let counted = status.counters.iter().filter(|(_, count)| *count > 0);
        lines(&mut text, "counters", counted.map(|(counter, count)| format!("{count} {counter}")));
        let handed = status.handed.iter();
        lines(&mut text, "to the kernel", handed.map(|(handed, count)| format!("{count} calls: {handed}")));
        let found = self.filters.found.iter().map(|filter| format!("bypassed: {filter}"));
        let unknown = self.filters.unknown.iter().map(|unknown| format!("not known: {unknown}"));
        lines(&mut text, "packet filters", found.chain(unknown));
        lines(&mut text, "VLAN tags", self.hidden_tags.iter().filter_map(HiddenTags::caution));
        if status.is_torn {
            line(&mut text, "", "(some of it changed while it was read, and is left out)");
        }
        text.push('\n');
        text + &sockets(&status.sockets, status.engines > 1, now(ClockId::Monotonic))
    }
}

impl Status {
    /// The engine, in words.
    #[must_use]
    pub fn engine_in_words(&self) -> String {
        let unknown = "in a state that this nearwire does not know";
        let mut words = self.engine.map_or(unknown, |state| state.words()).to_owned();
        if self.engines > 1 {
            words += &format!(", {} engines", self.engines);
        }
        if let Some(reason) = self.engine_reason {
            words += &format!(": {reason}");
        }
        if !self.engine_text.is_empty() {
            words += &format!(" ({})", self.engine_text);
        }
        words
    }
}

fn line(text: &mut String, label: &str, words: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "  {label:<LABEL$} {words}");
}

fn lines(text: &mut String, label: &str, all: impl Iterator<Item = String>) {
    for (number, words) in all.enumerate() {
        line(text, if number == 0 { label } else { "" }, &words);
    }
}

fn sockets(sockets: &[SocketStatus], has_engines: bool, now: Duration) -> String {
    if sockets.is_empty() {
        return "No sockets.\n".to_owned();
    }
    let rows: Vec<[String; COLUMNS]> = std::iter::once(HEADS.map(|(head, _)| head.to_owned()))
        .chain(sockets.iter().map(|socket| row(socket, now)))
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, ((cell, width), (_, is_number))) in row.iter().zip(widths).zip(HEADS).enumerate() {
            if column == ENGINE_COLUMN && !has_engines {
                continue;
            }
            line += &if is_number { format!(" {cell:>width$} ") } else { format!(" {cell:<width$} ") };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn row(socket: &SocketStatus, now: Duration) -> [String; COLUMNS] {
    let address = |address: Option<SocketAddr>| address.map_or("-".to_owned(), |address| address.to_string());
    let count = |counter| socket.counter(counter);
    let by_kernel = count(SocketCounter::ReceivedByShadow).saturating_add(count(SocketCounter::SentByShadow));
    [
        socket.fd.to_string(),
        if socket.is_accelerated { "nearwire" } else { "kernel" }.to_owned(),
        if socket.is_accelerated { socket.engine.to_string() } else { "-".to_owned() },
        address(socket.local),
        address(socket.remote),
        count(SocketCounter::Received).to_string(),
        count(SocketCounter::Sent).to_string(),
        count(SocketCounter::Dropped).to_string(),
        by_kernel.to_string(),
        socket.connection.map_or_else(|| socket.why(), |connection| connection_in_words(socket, connection, now)),
    ]
}

/// Who has a TCP connection since when, and what is known of it.
fn connection_in_words(socket: &SocketStatus, connection: ConnectionStatus, now: Duration) -> String {
    let ConnectionStatus { since_ns, adopted, released: _, round_trip_ns, retransmitted_segments } = connection;
    let since = seconds(now.saturating_sub(Duration::from_nanos(since_ns)));
    let times = match adopted {
        0 => "TCP, never adopted".to_owned(),
        1 => "TCP, adopted once".to_owned(),
        times => format!("TCP, adopted {times} times"),
    };
    if !socket.is_accelerated {
        return format!("{times}, the kernel's for {since}: {}", socket.why());
    }
    let round_trip = match round_trip_ns {
        0 => String::new(),
        ns => format!("; round trip {:.1} us", ns as f64 / 1000.0),
    };
    format!("{times}, for {since}{round_trip}; {retransmitted_segments} segments sent again")
}

fn in_words(interface: &InterfaceStatus) -> String {
    let mut words = match interface.reason {
        None => format!("{}: {} queues, {}", interface.name, interface.queues, interface.mode),
        Some(reason) => format!("{}: not used: {}", interface.name, Reason::words(reason)),
    };
    if !interface.text.is_empty() {
        words += &format!(" ({})", interface.text);
    }
    words
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// As in "1d 2h 3m 4s", without what is 0.
fn seconds(time: Duration) -> String {
    let seconds = time.as_secs();
    let parts = [(seconds / 86_400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let words: Vec<_> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    if words.is_empty() { "0s".to_owned() } else { words.join(" ") }
}

fn share(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() { 0.0 } else { part.as_secs_f64() / whole.as_secs_f64() }
}

fn now(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_shown_leaves_out_what_is_zero() {
        assert_eq!(seconds(Duration::from_millis(900)), "0s");
        assert_eq!(seconds(Duration::from_secs(86_400 + 7200 + 5)), "1d 2h 5s");
    }
}
