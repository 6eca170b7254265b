//! Processes for people.

use std::time::Duration;

use comfy_table::{CellAlignment, Table};
use nearwire_socket::reason::Reason;
use nearwire_socket::status::{Counter, InterfaceStatus, SocketCounter, SocketStatus, Status};

use super::process::Process;

/// The width of labels.
const LABEL: usize = 14;

pub fn list(found: &[Process], unreadable: usize) -> String {
    let mut text = String::new();
    if found.is_empty() {
        text.push_str("No program runs with accelerated sockets; nearwire run -- PROGRAM starts one.\n");
    } else {
        let mut table =
            table(&["pid", "program", "accelerated", "sockets", "spinning", "CPU", "running", "engine"], 2..7);
        for process in found {
            let Process { status, .. } = process;
            let accelerated = status.sockets.iter().filter(|socket| socket.is_accelerated).count();
            table.add_row([
                process.pid.to_string(),
                process.name.clone(),
                accelerated.to_string(),
                status.sockets.len().to_string(),
                percent(process.spin_share()),
                percent(process.cpu_share()),
                seconds(process.age),
                engine(status),
            ]);
        }
        text += &lines(&table);
        text.push_str("nearwire status PID shows the sockets of one.\n");
    }
    if unreadable > 0 {
        text += &format!("{unreadable} processes could not be looked into: run as root (CAP_SYS_PTRACE).\n");
    }
    text
}

pub fn page(process: &Process) -> String {
    let Process { pid, name, status, .. } = process;
    let mut text = format!("{name}, process {pid}, running for {}\n", seconds(process.age));
    let mut line = |label: &str, words: &str| text += &format!("  {label:<LABEL$} {words}\n");
    line("library", &format!("nearwire {}", status.library_version));
    line("engine", &engine(status));
    for (number, interface) in status.interfaces.iter().enumerate() {
        line(if number == 0 { "interfaces" } else { "" }, &in_words(interface));
    }
    line("waiting", &format!("spin {}; {} of the time was spent spinning", status.spin, percent(process.spin_share())));
    line("CPU time", &format!("{}, {} of one CPU", seconds(process.cpu), percent(process.cpu_share())));
    for (number, words) in status.config.lines().enumerate() {
        line(if number == 0 { "configuration" } else { "" }, words);
    }
    let counted: Vec<_> = status.counters.iter().filter(|(_, count)| *count > 0).collect();
    for (number, (counter, count)) in counted.iter().enumerate() {
        line(if number == 0 { "counters" } else { "" }, &format!("{count} {counter}"));
    }
    for (number, (handed, count)) in status.handed.iter().enumerate() {
        line(if number == 0 { "to the kernel" } else { "" }, &format!("{count} calls: {handed}"));
    }
    if status.is_torn {
        line("", "(some of it changed while it was read, and is left out)");
    }
    text.push('\n');
    text += &sockets(&status.sockets);
    text
}

fn sockets(sockets: &[SocketStatus]) -> String {
    if sockets.is_empty() {
        return "No sockets.\n".to_owned();
    }
    let header = ["fd", "served by", "local", "remote", "received", "sent", "dropped", "by kernel", "why"];
    let mut table = table(&header, 4..8);
    for socket in sockets {
        let address =
            |address: Option<std::net::SocketAddr>| address.map_or("-".to_owned(), |address| address.to_string());
        let by_kernel =
            [SocketCounter::ReceivedByShadow, SocketCounter::SentByShadow].map(|counter| socket.counter(counter));
        table.add_row([
            socket.fd.to_string(),
            if socket.is_accelerated { "nearwire" } else { "kernel" }.to_owned(),
            address(socket.local),
            address(socket.remote),
            socket.counter(SocketCounter::Received).to_string(),
            socket.counter(SocketCounter::Sent).to_string(),
            socket.counter(SocketCounter::Dropped).to_string(),
            by_kernel[0].saturating_add(by_kernel[1]).to_string(),
            socket.why(),
        ]);
    }
    lines(&table)
}

pub fn engine(status: &Status) -> String {
    let mut words =
        status.engine.map_or("in a state that this nearwire does not know", |state| state.words()).to_owned();
    if let Some(reason) = status.engine_reason {
        words += &format!(": {reason}");
    }
    if !status.engine_text.is_empty() {
        words += &format!(" ({})", status.engine_text);
    }
    words
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

fn table(header: &[&str], right: std::ops::Range<usize>) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(header.iter().copied());
    for column in right {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn lines(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn seconds(time: Duration) -> String {
    humantime::format_duration(Duration::from_secs(time.as_secs())).to_string()
}

impl Process {
    /// Time that threads spun, of the time since the page was made; above 1 where several spin.
    pub fn spin_share(&self) -> f64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now_ns = now.tv_sec as f64 * 1e9 + now.tv_nsec as f64;
        share(self.status.counter(Counter::SpinningNs) as f64, now_ns - self.status.since_ns as f64)
    }

    /// CPU time of the time since it started; above 1 where several threads run.
    pub fn cpu_share(&self) -> f64 {
        share(self.cpu.as_secs_f64(), self.age.as_secs_f64())
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
