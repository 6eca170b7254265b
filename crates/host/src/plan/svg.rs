//! A plan as a picture: packages, cores, hyperthreads, NICs and their queues, coloured by owner.
//!
//! Each cell has a fill of its own with dark text on it, so that it reads on light and dark pages;
//! everything else takes its colour from the page's scheme.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::guest::in_units;
use super::{Owner, Plan, PlannedCore, PlannedNic, in_words};
use crate::markup::escaped;

const CELL_WIDTH: usize = 74;
const CELL_HEIGHT: usize = 24;
const GAP: usize = 10;
const PADDING: usize = 16;
const MARGIN: usize = 20;
const TITLE_HEIGHT: usize = 58;
const HEADER_HEIGHT: usize = 30;
const GROUP_WIDTH_MIN: usize = 360;
const PAGE_WIDTH_MAX: usize = 1400;
const LEGEND_ROW_HEIGHT: usize = 26;
/// About what a letter of the 13 px font takes.
const LETTER_WIDTH: usize = 8;
/// Fills of guests, in turn.
const GUEST_FILLS: [&str; 8] = ["#7ab8f5", "#f5d76e", "#f28b9b", "#6ed3cf", "#c3d96b", "#e0a8e0", "#d9b38c", "#9fb3ff"];

const STYLE: &str = "
  text { font: 13px system-ui, sans-serif; fill: #1c2430; }
  .title { font-size: 18px; font-weight: 600; }
  .faint { fill: #56606e; }
  .box { fill: #f6f7f9; stroke: #a8b0bc; }
  .core { fill: none; stroke: #8a94a3; }
  .cell { stroke: #5a6472; stroke-opacity: .5; }
  .open { fill: none; stroke: #8a94a3; stroke-dasharray: 4 3; }
  .on { fill: #14181f; }
  .number { font-weight: 600; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6eaf0; }
    .faint { fill: #a9b3c1; }
    .box { fill: #1b2028; stroke: #556070; }
    .core { stroke: #7b8696; }
    .on { fill: #14181f; }
  }
";

/// The cores of one package and node, and the NICs they serve.
struct Group<'a> {
    title: String,
    cores: Vec<&'a PlannedCore>,
    nics: Vec<&'a PlannedNic>,
    columns: usize,
    threads: usize,
}

impl Group<'_> {
    fn width(&self) -> usize {
        let titles = self.nics.iter().map(|nic| about(nic).chars().count() * LETTER_WIDTH + 16);
        let content = titles.chain([self.columns * (CELL_WIDTH + GAP)]).max().unwrap_or(0);
        (content + 2 * PADDING).max(GROUP_WIDTH_MIN)
    }

    fn core_height(&self) -> usize {
        self.threads * CELL_HEIGHT + 8
    }

    fn nic_height(&self, nic: &PlannedNic) -> usize {
        let queues = nic.irqs.iter().filter(|irq| irq.queue.is_some()).count();
        HEADER_HEIGHT + 20 + queues.div_ceil(self.columns) * (CELL_HEIGHT + 4)
    }

    fn height(&self) -> usize {
        let cores = self.cores.len().div_ceil(self.columns) * (self.core_height() + GAP);
        HEADER_HEIGHT + cores + self.nics.iter().map(|nic| self.nic_height(nic) + GAP).sum::<usize>() + PADDING
    }
}

impl Plan {
    /// An SVG picture that stands for itself: no fonts, scripts or pictures from elsewhere.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let groups = self.groups();
        let (places, page_width, bottom) = lay_out(&groups);
        let mut body = String::new();
        for (group, (x, y)) in groups.iter().zip(&places) {
            self.draw_group(group, *x, *y, &mut body);
        }
        let legend_rows = self.draw_legend(page_width, bottom + GAP, &mut body);
        let height = bottom + GAP + legend_rows * LEGEND_ROW_HEIGHT + MARGIN;
        let title = escaped(&self.title());
        // Writing to a string cannot fail.
        let mut text = String::new();
        let _ = write!(
            text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{page_width}\" height=\"{height}\" viewBox=\"0 0 {page_width} \
             {height}\" role=\"img\">\n<title>{title}</title>\n<style>{STYLE}</style>\n<defs><pattern id=\"idle\" width=\"8\" \
             height=\"8\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect width=\"8\" height=\"8\" \
             fill=\"#eceff3\"/><rect width=\"2\" height=\"8\" fill=\"#b4bcc8\"/></pattern></defs>\n"
        );
        let (head, rest) = title.split_once(": ").unwrap_or((&title, ""));
        let _ = writeln!(text, "<text class=\"title\" x=\"{MARGIN}\" y=\"30\">{head}</text>");
        let _ = writeln!(text, "<text class=\"faint\" x=\"{MARGIN}\" y=\"50\">{rest}</text>");
        text + &body + "</svg>\n"
    }

    fn groups(&self) -> Vec<Group<'_>> {
        let mut by_place: BTreeMap<_, Vec<&PlannedCore>> = BTreeMap::new();
        for core in &self.host.cores {
            by_place.entry((core.place(), core.node)).or_default().push(core);
        }
        let mut groups: Vec<(Option<u32>, Group<'_>)> = Vec::new();
        for (((.., package), node), cores) in by_place {
            let memory =
                self.host.nodes.iter().find(|known| Some(known.node) == node).and_then(|node| node.memory_bytes);
            let parts = [
                package.map(|package| format!("package {package}")),
                node.map(|node| format!("node {node}")),
                memory.map(in_units_roughly),
            ];
            let title = parts.into_iter().flatten().collect::<Vec<_>>().join(" \u{b7} ");
            let columns = columns(cores.len());
            let threads = cores.iter().map(|core| core.cpus.len()).max().unwrap_or(1);
            groups.push((node, Group { title, cores, nics: Vec::new(), columns, threads }));
        }
        for nic in &self.nics {
            let at = groups.iter().position(|(node, _)| *node == nic.served_by_node).unwrap_or(0);
            if let Some((_, group)) = groups.get_mut(at) {
                group.nics.push(nic);
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    fn draw_group(&self, group: &Group<'_>, x: usize, y: usize, text: &mut String) {
        let (width, height) = (group.width(), group.height());
        let _ =
            writeln!(text, "<rect class=\"box\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>");
        let _ = writeln!(
            text,
            "<text class=\"number\" x=\"{}\" y=\"{}\">{}</text>",
            x + PADDING,
            y + 20,
            escaped(&group.title)
        );
        let core_height = group.core_height();
        let mut below = y + HEADER_HEIGHT;
        for row in group.cores.chunks(group.columns) {
            for (at, core) in row.iter().enumerate() {
                self.draw_core(core, x + PADDING + at * (CELL_WIDTH + GAP), below, core_height, text);
            }
            below += core_height + GAP;
        }
        for nic in &group.nics {
            self.draw_nic(nic, group, x + PADDING, below, text);
            below += group.nic_height(nic) + GAP;
        }
    }

    fn draw_core(&self, core: &PlannedCore, x: usize, y: usize, height: usize, text: &mut String) {
        let width = CELL_WIDTH + 6;
        let _ =
            writeln!(text, "<rect class=\"core\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"5\"/>");
        for (thread, cpu) in core.cpus.iter().enumerate() {
            let (label, hint) = self.label(cpu);
            self.draw_cell(cpu, x + 3, y + 4 + thread * CELL_HEIGHT, &cpu.to_string(), &label, &hint, text);
        }
    }

    /// What stands at the right of a CPU's cell, and what a pointer over it shows.
    fn label(&self, cpu: u32) -> (String, String) {
        let irqs = self.nics.iter().flat_map(|nic| &nic.irqs).filter(|irq| irq.cpu == cpu && irq.queue.is_some());
        // Two ports of one device list the same interrupts.
        let queues = irqs.map(|irq| irq.irq).collect::<BTreeSet<_>>().len();
        let pins = self.guests.iter().flat_map(|guest| &guest.vcpus);
        let pin = pins.into_iter().find(|pin| pin.cpu == cpu);
        let owner = self.owner(cpu).map_or("nobody", Owner::name);
        match (pin, queues) {
            (Some(pin), _) => (format!("v{}", pin.vcpu), format!("CPU {cpu}: vCPU {} of {owner}", pin.vcpu)),
            (None, 0) => (String::new(), format!("CPU {cpu}: {owner}")),
            (None, count) => (format!("{count}q"), format!("CPU {cpu}: {owner}, {count} interrupts of queues")),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a cell is where it is and what it says")]
    fn draw_cell(&self, cpu: u32, x: usize, y: usize, number: &str, label: &str, hint: &str, text: &mut String) {
        let fill = self.owner(cpu).and_then(|owner| self.fill(owner));
        let height = CELL_HEIGHT - 2;
        let (paint, on) = match &fill {
            Some(fill) => (format!("class=\"cell\" fill=\"{fill}\""), " on"),
            None => ("class=\"open\"".to_owned(), ""),
        };
        let hint = escaped(hint);
        let _ = writeln!(
            text,
            "<g><title>{hint}</title><rect {paint} x=\"{x}\" y=\"{y}\" width=\"{CELL_WIDTH}\" height=\"{height}\" rx=\"3\"/>\
             <text class=\"number{on}\" x=\"{}\" y=\"{}\">{number}</text>",
            x + 7,
            y + 16
        );
        let (right, base) = (x + CELL_WIDTH - 7, y + 16);
        let _ = writeln!(
            text,
            "<text class=\"{}\" x=\"{right}\" y=\"{base}\" text-anchor=\"end\">{label}</text></g>",
            on.trim()
        );
    }

    fn draw_nic(&self, nic: &PlannedNic, group: &Group<'_>, x: usize, y: usize, text: &mut String) {
        let (width, height) = (group.width() - 2 * PADDING, group.nic_height(nic));
        let class = if nic.node.is_some() { "core" } else { "open" };
        let _ = writeln!(
            text,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"5\"/>"
        );
        let _ =
            writeln!(text, "<text class=\"number\" x=\"{}\" y=\"{}\">{}</text>", x + 8, y + 20, escaped(&about(nic)));
        let queues: Vec<_> = nic.irqs.iter().filter_map(|irq| Some((irq.queue?, irq))).collect();
        let caption =
            if queues.is_empty() { "no interrupts of queues" } else { "queue \u{2192} CPU that its interrupt goes to" };
        let _ = writeln!(text, "<text class=\"faint\" x=\"{}\" y=\"{}\">{caption}</text>", x + 8, y + 38);
        for (at, (queue, irq)) in queues.iter().enumerate() {
            let (column, row) = (at % group.columns, at / group.columns);
            let (left, top) = (x + 3 + column * (CELL_WIDTH + GAP), y + 44 + row * (CELL_HEIGHT + 4));
            let hint = format!("queue {queue}: IRQ {} {} to CPU {}", irq.irq, irq.name, irq.cpu);
            self.draw_cell(irq.cpu, left, top, &format!("q{queue}"), &format!("\u{2192} {}", irq.cpu), &hint, text);
        }
    }

    /// Gives the number of rows.
    fn draw_legend(&self, page_width: usize, top: usize, text: &mut String) -> usize {
        let (mut x, mut row) = (MARGIN, 0);
        for share in &self.shares {
            let words = format!("{}: {}", share.owner.name(), in_words(&share.cpus));
            let words = shortened(words, (page_width - 2 * MARGIN).saturating_sub(34) / LETTER_WIDTH);
            let width = 34 + words.chars().count() * LETTER_WIDTH;
            if x > MARGIN && x + width > page_width {
                (x, row) = (MARGIN, row + 1);
            }
            let y = top + row * LEGEND_ROW_HEIGHT;
            let paint = match self.fill(&share.owner) {
                Some(fill) => format!("class=\"cell\" fill=\"{fill}\""),
                None => "class=\"open\"".to_owned(),
            };
            let _ = writeln!(text, "<rect {paint} x=\"{x}\" y=\"{y}\" width=\"20\" height=\"16\" rx=\"3\"/>");
            let _ = writeln!(text, "<text x=\"{}\" y=\"{}\">{}</text>", x + 27, y + 13, escaped(&words));
            x += width;
        }
        row + 1
    }

    /// `None` for an empty cell.
    fn fill(&self, owner: &Owner) -> Option<String> {
        let fill = match owner {
            Owner::Os => "#b8bec9",
            Owner::Irq => "#f4a261",
            Owner::App => "#6fcf97",
            Owner::Poller => "#b79cf0",
            Owner::IdleSibling => "url(#idle)",
            Owner::Spare => return None,
            Owner::Guest { guest } => {
                let at = self.guests.iter().position(|known| known.name == *guest).unwrap_or(0);
                GUEST_FILLS[at % GUEST_FILLS.len()]
            }
        };
        Some(fill.to_owned())
    }
}

fn about(nic: &PlannedNic) -> String {
    let node = nic.node.map_or_else(|| "node unknown".to_owned(), |node| format!("node {node}"));
    let parts = [Some(nic.interface.as_str()), nic.driver.as_deref(), nic.bus_address.as_deref(), Some(&node)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" \u{b7} ")
}

/// As many in a row as make rows of one length: six at most on a small package, eight on a large one.
fn columns(cores: usize) -> usize {
    let most = if cores <= 24 { 6 } else { 8 };
    cores.div_ceil(cores.div_ceil(most).max(1)).max(1)
}

/// The beginning of a text that is too long for its place.
fn shortened(text: String, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text;
    }
    let kept: String = text.chars().take(letters.saturating_sub(1)).collect();
    kept + "\u{2026}"
}

/// The corner of each group, the width of the page, the lower end of the last row.
fn lay_out(groups: &[Group<'_>]) -> (Vec<(usize, usize)>, usize, usize) {
    let (mut x, mut y, mut row_height, mut page_width) = (MARGIN, TITLE_HEIGHT, 0, GROUP_WIDTH_MIN + 2 * MARGIN);
    let mut places = Vec::new();
    for group in groups {
        if x > MARGIN && x + group.width() + MARGIN > PAGE_WIDTH_MAX {
            (x, y, row_height) = (MARGIN, y + row_height + GAP, 0);
        }
        places.push((x, y));
        x += group.width() + MARGIN;
        row_height = row_height.max(group.height());
        page_width = page_width.max(x);
    }
    (places, page_width, y + row_height)
}

/// Memory in GiB where the last ones do not matter: firmware takes some for itself.
fn in_units_roughly(bytes: u64) -> String {
    const GIB: u64 = 1 << 30;
    if bytes >= GIB { format!("{} GiB", (bytes + GIB / 2) / GIB) } else { in_units(bytes) }
}
