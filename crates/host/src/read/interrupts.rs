//! Interrupts by the names that drivers give them.

use std::collections::BTreeMap;

use crate::Root;

/// The name by the directory that the kernel makes for who handles the interrupt (`register_handler_proc` of
/// `kernel/irq/proc.c`): the table of all is longer than is read where there are many CPUs and interrupts.
pub(crate) fn handler(root: &Root, irq: u32) -> Option<String> {
    const FILES: [&str; 7] = [
        "affinity_hint",
        "effective_affinity",
        "effective_affinity_list",
        "node",
        "smp_affinity",
        "smp_affinity_list",
        "spurious",
    ];
    let names = root.list(&format!("/proc/irq/{irq}")).ok()?;
    names.iter().find(|name| !FILES.contains(&name.as_str())).map(|name| printable(name))
}

/// The interrupts whose names have the interface or its device's address in them, as a word of its own.
pub(crate) fn named_for(interface: &str, bus_address: Option<&str>, irq_names: &BTreeMap<u32, String>) -> Vec<u32> {
    let is_word = |name: &str, word: &str| {
        let is_edge = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphanumeric());
        name.match_indices(word).any(|(at, found)| {
            is_edge(name[..at].chars().next_back()) && is_edge(name[at + found.len()..].chars().next())
        })
    };
    let words: Vec<&str> =
        [Some(interface), bus_address].into_iter().flatten().filter(|word| !word.is_empty()).collect();
    let is_its = |name: &String| words.iter().any(|word| is_word(name, word));
    irq_names.iter().filter(|(_, name)| is_its(name)).map(|(irq, _)| *irq).collect()
}

/// The name at the end of each numbered line. A shared interrupt has several; the last will do.
pub(crate) fn irq_names(interrupts: &str) -> BTreeMap<u32, String> {
    let mut lines = interrupts.lines();
    let columns = lines.next().unwrap_or_default().split_whitespace().count();
    let named = lines.filter_map(|line| {
        let (number, rest) = line.split_once(':')?;
        // The counts, the chip and its number of the interrupt come before the names.
        let name = rest.split_whitespace().skip(columns + 1).last()?;
        Some((number.trim().parse().ok()?, printable(name)))
    });
    named.collect()
}

/// The queue in an interrupt's name as drivers give it: `eth0-TxRx-3`, `eth0-rx-3`, `mlx4-3@0000:05:00.0`,
/// `mlx5_comp3@pci:0000:05:00.0`, `virtio0-input.3`, `gve-ntfy-blk3`. Names without a number behind
/// such a mark, and those of mailboxes, are of no queue.
pub(crate) fn queue_of(name: &str) -> Option<u32> {
    const OTHERS: [&str; 9] = ["async", "config", "control", "misc", "mbox", "mgmnt", "fdir", "event", "aeq"];
    let own = name.split('@').next().unwrap_or_default();
    if OTHERS.iter().any(|word| own.contains(word)) {
        return None;
    }
    let before = own.trim_end_matches(|c: char| c.is_ascii_digit());
    const MARKS: [&str; 8] = ["-", ".", "comp", "blk", "-rx", "-tx", "TxRx", "_q"];
    let is_marked = MARKS.iter().any(|mark| before.ends_with(mark));
    is_marked.then(|| own[before.len()..].parse().ok())?
}

/// A tree may come from a stranger, and this goes to a terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_found_in_names_of_many_drivers() {
        let names = [
            ("enp5s0np0-rxtx-3", Some(3)),
            ("eth0-TxRx-11", Some(11)),
            ("i40e-eth0-TxRx-2", Some(2)),
            ("mlx4-5@0000:05:00.0", Some(5)),
            ("mlx5_comp7@pci:0000:05:00.0", Some(7)),
            ("virtio0-input.1", Some(1)),
            ("eth0-Tx-Rx-0", Some(0)),
            ("gve-ntfy-blk4@pci:0000:00:04.0", Some(4)),
            ("ibmvnic-30000003-rx2", Some(2)),
            ("mana_q5@pci:7870:00:00.0", Some(5)),
            ("mlx5_async0@pci:0000:05:00.0", None),
            ("mlx4-async@pci:0000:05:00.0", None),
            ("i40e-0000:3b:00.0:fdir-TxRx-0", None),
            ("ice-0000:3b:00.0:misc", None),
            ("virtio0-config", None),
            ("eth0", None),
            ("exanic0", None),
            ("", None),
        ];
        for (name, queue) in names {
            assert_eq!(queue_of(name), queue, "{name}");
        }
    }

    #[test]
    fn interrupt_table_read_names_each() {
        let table = "           CPU0       CPU1\n  0:         42          0 IO-APIC   2-edge      timer\n \
                     66:          0          9 IR-PCI-MSIX-0000:05:00.0    2-edge      eth0-rx-0\n\
                     67:          0          0 PCI-MSIX\nLOC: 5 5 Local timer interrupts\n";
        let names = irq_names(table);
        assert_eq!(names.get(&66).map(String::as_str), Some("eth0-rx-0"));
        assert_eq!(names.get(&0).map(String::as_str), Some("timer"));
        assert_eq!(names.len(), 2);
    }
}
