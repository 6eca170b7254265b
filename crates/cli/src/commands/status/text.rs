//! Processes as text.

use std::ops::Range;
use std::time::Duration;

use comfy_table::{CellAlignment, Table};
use nearwire_socket::status::Process;

use super::process::advice;

pub fn list(found: &[Process], unreadable: usize) -> String {
    let mut text = String::new();
    if found.is_empty() {
        text.push_str("No program runs with accelerated sockets; nearwire run -- PROGRAM starts one.\n");
    } else {
        text += &lines(&table(found));
        text.push_str("nearwire status PID shows the sockets of one program.\n");
    }
    if unreadable > 0 {
        let processes = if unreadable == 1 { "process" } else { "processes" };
        text += &format!("{unreadable} {processes} could not be inspected: {}.\n", advice());
    }
    text
}

/// A table without lines; the columns in `numbers` are right-aligned.
pub fn plain_table<const COLUMNS: usize>(header: [&str; COLUMNS], numbers: Range<usize>) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(header);
    for column in numbers {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// The lines of a table, without trailing spaces.
pub fn lines(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn table(found: &[Process]) -> Table {
    let header = ["pid", "program", "accelerated", "sockets", "spinning", "CPU", "running", "engine"];
    let mut table = plain_table(header, 2..7);
    for process in found {
        let sockets = &process.status.sockets;
        table.add_row([
            process.pid.to_string(),
            process.name.clone(),
            sockets.iter().filter(|socket| socket.is_accelerated).count().to_string(),
            sockets.len().to_string(),
            format!("{:.0} %", process.spin_share() * 100.0),
            format!("{:.0} %", process.cpu_share() * 100.0),
            humantime::format_duration(Duration::from_secs(process.age.as_secs())).to_string(),
            process.status.engine_in_words(),
        ]);
    }
    table
}
