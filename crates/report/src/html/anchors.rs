//! Names of cells in links: every cell's row in the table of figures has one, as in `A-udp-spin-64B`.

use std::ptr;

use crate::record::{Cell, Record, Run};

/// The names of one record's cells.
pub(super) struct Anchors<'a> {
    names: Vec<(&'a Run, String)>,
}

impl<'a> Anchors<'a> {
    /// Names begin with the record's letter. Cells whose names agree, as after characters that a link cannot have, are
    /// numbered.
    pub(super) fn of(letter: &str, record: &'a Record) -> Self {
        let mut names: Vec<(&Run, String)> = Vec::with_capacity(record.runs.len());
        for run in &record.runs {
            let wanted = format!("{letter}-{}", cell_in_link(&run.cell));
            let is_taken = |name: &String| names.iter().any(|(_, taken)| taken == name);
            let numbered = (2..).map(|number| format!("{wanted}-{number}"));
            let free = std::iter::once(wanted.clone()).chain(numbered).find(|name| !is_taken(name));
            names.push((run, free.unwrap_or(wanted)));
        }
        Self { names }
    }

    /// The name of a run of this record.
    pub(super) fn id(&self, run: &Run) -> &str {
        self.names.iter().find(|(known, _)| ptr::eq(*known, run)).map_or("", |(_, name)| name)
    }

    /// The name of a cell; `None` when this record does not have it.
    pub(super) fn id_of(&self, cell: &Cell) -> Option<&str> {
        self.names.iter().find(|(run, _)| run.cell == *cell).map(|(_, name)| name.as_str())
    }
}

/// Path, modes, size, IP version, rate and varied settings.
fn cell_in_link(cell: &Cell) -> String {
    let mut parts = vec![cell.path.clone()];
    parts.extend([&cell.tx, &cell.rx].into_iter().flatten().cloned());
    parts.push(format!("{}B", cell.size_bytes));
    if cell.ip_version == Some(6) {
        parts.push("ip6".to_owned());
    }
    parts.extend(cell.rate_per_second.map(|rate| format!("{rate}s")));
    parts.extend(cell.variation.iter().map(|(id, value)| format!("{id}-{value}")));
    let mut name = String::new();
    for c in parts.join("-").chars() {
        match c {
            c if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') => name.push(c),
            _ if name.ends_with('-') => {}
            _ => name.push('-'),
        }
    }
    name.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn cell(path: &str) -> Cell {
        Cell {
            path: path.to_owned(),
            tx: None,
            rx: None,
            size_bytes: 64,
            ip_version: Some(4),
            rate_per_second: None,
            variation: BTreeMap::new(),
        }
    }

    #[test]
    fn name_holds_all_that_makes_a_cell() {
        assert_eq!(cell_in_link(&cell("udp/spin")), "udp-spin-64B");
        let at_rate = Cell { rate_per_second: Some(10_000), ..cell("udp/spin") };
        assert_eq!(cell_in_link(&at_rate), "udp-spin-64B-10000s");
        let frame = Cell { tx: Some("prepared".to_owned()), rx: Some("in-place".to_owned()), ..cell("frame/xdp") };
        assert_eq!(cell_in_link(&frame), "frame-xdp-prepared-in-place-64B");
        let variation = BTreeMap::from([("nic.offload.gro".to_owned(), "on".to_owned())]);
        let varied = Cell { ip_version: Some(6), variation, ..cell("tcp/block") };
        assert_eq!(cell_in_link(&varied), "tcp-block-64B-ip6-nic.offload.gro-on");
        assert_eq!(cell_in_link(&cell("<b id=\"x\">//")), "b-id-x-64B");
    }
}
