//! One colour for each family of paths, everywhere on the page; the way of waiting sets the line's dashes.
//!
//! Colours are CSS classes, so that the style sheet can give light and dark values; they follow Okabe and
//! Ito's set, which survives the common colour blindnesses. Every mark carries a label besides.

use crate::record::Cell;

/// Class of a path's family, as in `f-udp`.
#[must_use]
pub fn family(path: &str) -> &'static str {
    match path.split_once('/') {
        Some((_, "bypass" | "sockets")) => "f-bypass",
        Some(("udp", _)) => "f-udp",
        Some(("tcp", _)) => "f-tcp",
        Some(("frame", "packet")) => "f-packet",
        Some(("frame", _)) => "f-xdp",
        _ => "f-other",
    }
}

/// Class of the dashes: solid for what spins, dashed and dotted for the other ways of waiting.
pub(super) fn dashes(cell: &Cell) -> &'static str {
    let how = cell.path.split_once('/').map_or("", |(_, how)| how);
    match (how, cell.tx.as_deref(), cell.rx.as_deref()) {
        ("block", ..) | (_, Some("frame"), Some("frame")) => "d-dot",
        ("busy-poll", ..) | (_, Some("frame"), Some("in-place")) => "d-dash",
        ("epoll", ..) | (_, Some("prepared"), Some("frame")) => "d-dashdot",
        ("epoll-busy-poll" | "sockets", ..) => "d-long",
        _ => "d-solid",
    }
}

/// Key of the families on the page: class and name.
pub(super) const FAMILIES: [(&str, &str); 6] = [
    ("f-xdp", "frame/xdp"),
    ("f-packet", "frame/packet"),
    ("f-bypass", "bypass"),
    ("f-udp", "kernel UDP"),
    ("f-tcp", "kernel TCP"),
    ("f-other", "other"),
];
