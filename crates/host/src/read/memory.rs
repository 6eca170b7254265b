//! Facts of the memory that need more than one file.

use super::HostFiles;
use super::host_files::field_of;
use crate::Reading;

/// Pages of each huge size, free of total, on each node that has some.
pub(crate) fn huge_pages(files: &HostFiles<'_>) -> Reading {
    const NODES: &str = "/sys/devices/system/node";
    let nodes = match files.root().list(NODES) {
        Ok(nodes) => nodes,
        Err(reading) => return huge_pages_of_host(files, reading),
    };
    let mut found = Vec::new();
    let mut pools_seen = 0;
    for node in nodes.iter().filter(|name| is_node(name)) {
        let pools = format!("{NODES}/{node}/hugepages");
        for pool in files.root().list(&pools).unwrap_or_default() {
            let count = |file| files.line(&format!("{pools}/{pool}/{file}"));
            let (total, free) = (count("nr_hugepages"), count("free_hugepages"));
            let (total, free) = match (total, free) {
                (Reading::Value(total), Reading::Value(free)) => (total, free),
                (Reading::NeedsRoot, _) | (_, Reading::NeedsRoot) => return Reading::NeedsRoot,
                _ => continue,
            };
            pools_seen += 1;
            if total != "0" {
                let size = pool.strip_prefix("hugepages-").unwrap_or(&pool);
                found.push(format!("{node} {size}: {free} of {total} free"));
            }
        }
    }
    match found.is_empty() {
        true if pools_seen == 0 => huge_pages_of_host(files, of_no_pools(files)),
        true => Reading::value("none"),
        false => Reading::Value(found.join(", ")),
    }
}

/// Nodes without pools: the kernel has no huge pages, or the copy has not these files.
fn of_no_pools(files: &HostFiles<'_>) -> Reading {
    match files.root().tells_absence() {
        true => Reading::value("none"),
        false => files.root().absent_or_not_copied("the nodes' huge pages"),
    }
}

/// Huge pages of the default size as `/proc/meminfo` tells them, where no node does: the kernel has no nodes, or only
/// this file was copied. Without any there the reading of the nodes stays.
fn huge_pages_of_host(files: &HostFiles<'_>, of_nodes: Reading) -> Reading {
    let Ok(text) = files.meminfo() else { return of_nodes };
    let field = |name| field_of(text, name).map(|field| field.split_whitespace().collect::<String>());
    match (field("HugePages_Total"), field("HugePages_Free"), field("Hugepagesize")) {
        (Some(total), _, _) if total == "0" => Reading::value("none"),
        (Some(total), Some(free), Some(size)) => Reading::Value(format!("host {size}: {free} of {total} free")),
        _ => of_nodes,
    }
}

fn is_node(name: &str) -> bool {
    let number = name.strip_prefix("node");
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// Memory that programs can still get, kB.
pub(crate) fn available_kb(files: &HostFiles<'_>) -> Reading {
    let text = match files.meminfo() {
        Ok(text) => text,
        Err(reading) => return reading,
    };
    let field = field_of(text, "MemAvailable").and_then(|field| field.strip_suffix("kB"));
    field.map_or(Reading::Unsupported, |number| Reading::value(number.trim()))
}

/// How many swap areas are in use.
pub(crate) fn swap_areas(files: &HostFiles<'_>) -> Reading {
    match files.root().read("/proc/swaps") {
        // The first line has the titles. Their names may identify a disk.
        Ok(text) => Reading::value(text.lines().skip(1).count()),
        Err(reading) => reading,
    }
}

/// Memory of each node, free of total, kB.
pub(crate) fn nodes(files: &HostFiles<'_>) -> Reading {
    const NODES: &str = "/sys/devices/system/node";
    let entries = match files.root().list(NODES) {
        Ok(entries) => entries,
        Err(reading) => return reading,
    };
    let mut texts = Vec::new();
    for node in entries.iter().filter(|name| is_node(name)) {
        match files.root().read(&format!("{NODES}/{node}/meminfo")) {
            Err(Reading::NeedsRoot) => return Reading::NeedsRoot,
            text => texts.push((node, text.unwrap_or_default())),
        }
    }
    let nodes = texts.iter().map(|(node, text)| {
        let field = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(name));
            lines.next().and_then(|(_, rest)| rest.split_whitespace().next()).unwrap_or("unknown").to_owned()
        };
        format!("{node}: {} of {} kB free", field("MemFree:"), field("MemTotal:"))
    });
    let nodes: Vec<_> = nodes.collect();
    if nodes.is_empty() { files.root().absent_or_not_copied("nodes' memory") } else { Reading::Value(nodes.join(", ")) }
}
