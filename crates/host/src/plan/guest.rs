//! A guest's memory.

use std::collections::BTreeMap;

use super::{HostFacts, PlanError, PlannedGuest};

/// What a node's OS keeps: the sixteenth part, and no less than this.
const KEPT_BYTES_MIN: u64 = 512 << 20;
const KEPT_PART: u64 = 16;
/// What every processor with huge pages has, where the host does not list them.
const PAGE_BYTES: u64 = 2 << 20;

/// Size and number of the pages for a guest's memory, and why.
pub(super) fn pages(facts: &HostFacts, memory_bytes: u64) -> (u64, u64, String) {
    let smallest = facts.page_bytes.first().copied().unwrap_or(PAGE_BYTES);
    let fits = |size: &&u64| memory_bytes.is_multiple_of(**size);
    let size = facts.page_bytes.iter().rfind(fits).copied().unwrap_or(smallest);
    let pages = memory_bytes.div_ceil(size);
    let why = format!(
        "pages of {}, the largest of this host that divide {}: fewer translations to look up",
        in_units(size),
        in_units(memory_bytes)
    );
    (size, pages, why)
}

/// Whether each node has the memory of its guests and leaves some to the OS.
pub(super) fn check_memory(facts: &HostFacts, guests: &[PlannedGuest]) -> Result<(), PlanError> {
    let mut wanted: BTreeMap<u32, u64> = BTreeMap::new();
    for guest in guests {
        let bytes = guest.page_bytes.saturating_mul(guest.pages);
        if let Some(node) = guest.node {
            let sum = wanted.entry(node).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }
    for (node, wanted_bytes) in wanted {
        let Some(total_bytes) = facts.nodes.get(&node).and_then(|node| node.memory_bytes) else { continue };
        let kept_bytes = (total_bytes / KEPT_PART).max(KEPT_BYTES_MIN);
        if wanted_bytes > total_bytes.saturating_sub(kept_bytes) {
            let [wanted_mib, total_mib, kept_mib] = [wanted_bytes, total_bytes, kept_bytes].map(|bytes| bytes >> 20);
            return Err(PlanError::NotEnoughMemory { node, wanted_mib, total_mib, kept_mib });
        }
    }
    Ok(())
}

/// `4 GiB`, `512 MiB`, `64 KiB`.
pub(super) fn in_units(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift)) {
        Some((shift, unit)) => format!("{} {unit}", bytes >> shift),
        None => format!("{bytes} bytes"),
    }
}
