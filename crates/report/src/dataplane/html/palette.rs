//! One colour for each engine and one way of dashes for each function, everywhere on the page.

use crate::dataplane::words::is_wire;

/// Class of the colour of a device's engine.
pub(super) fn engine(device: &str) -> &'static str {
    match device.rsplit_once('/').map_or(device, |(_, engine)| engine) {
        "xdp" => "f-xdp",
        "packet" => "f-packet",
        "kernel" => "f-udp",
        _ if is_wire(device) => "f-other",
        _ => "f-bypass",
    }
}

/// Engines for the key: class and name.
pub(super) const ENGINES: [(&str, &str); 5] = [
    ("f-xdp", "AF_XDP"),
    ("f-packet", "AF_PACKET"),
    ("f-udp", "the kernel"),
    ("f-bypass", "another engine"),
    ("f-other", "generator and sink alone"),
];

/// Class of the dashes of a device's function.
pub(super) fn dashes(device: &str) -> &'static str {
    match device.split_once('/').map_or("", |(function, _)| function) {
        "mac-swap" => "d-dot",
        "l2" => "d-dash",
        "l3" => "d-dashdot",
        _ => "d-solid",
    }
}
