//! The parts of test beds in words: where each runs, and which of them share a CPU.

use std::collections::BTreeMap;

use super::record::{Cell, DataplaneRecord, Part};

/// One arrangement of parts, and the devices that have it.
pub(super) struct Bed<'a> {
    /// From the generator to the sink.
    pub(super) parts: &'a [Part],
    /// Each once.
    pub(super) devices: Vec<&'a str>,
}

/// Every arrangement once, in the order of the experiment.
pub(super) fn beds(record: &DataplaneRecord) -> Vec<Bed<'_>> {
    let mut beds: Vec<Bed> = Vec::new();
    for Cell { device, parts, .. } in record.cells.iter().filter(|cell| !cell.parts.is_empty()) {
        match beds.iter_mut().find(|bed| bed.parts == parts.as_slice()) {
            Some(bed) if bed.devices.contains(&device.as_str()) => {}
            Some(bed) => bed.devices.push(device),
            None => beds.push(Bed { parts, devices: vec![device] }),
        }
    }
    beds
}

/// `generator and sink on CPU 0, forwarder on CPU 1`.
pub(super) fn cpus_words(parts: &[Part]) -> String {
    let mut groups: Vec<(&[u32], Vec<&str>)> = Vec::new();
    for part in parts {
        match groups.iter_mut().find(|(cpus, _)| *cpus == part.cpus.as_slice()) {
            Some((_, names)) => names.push(&part.name),
            None => groups.push((&part.cpus, vec![&part.name])),
        }
    }
    let words = groups.iter().map(|(cpus, names)| format!("{} on {}", listed(names), cpu_words(cpus)));
    words.collect::<Vec<_>>().join(", ")
}

/// `CPU 1`, `CPUs 1 and 2`, `any CPU`.
pub(super) fn cpu_words(cpus: &[u32]) -> String {
    let numbers: Vec<String> = cpus.iter().map(u32::to_string).collect();
    match cpus.len() {
        0 => "any CPU".to_owned(),
        1 => format!("CPU {}", numbers[0]),
        _ => format!("CPUs {}", listed(&numbers.iter().map(String::as_str).collect::<Vec<_>>())),
    }
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// CPUs that do the work of two parts or more, with the names of these.
pub(super) fn shared_cpus(parts: &[Part]) -> BTreeMap<u32, Vec<&str>> {
    let mut users: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for part in parts {
        let mut cpus = part.cpus.clone();
        cpus.sort_unstable();
        cpus.dedup();
        cpus.into_iter().for_each(|cpu| users.entry(cpu).or_default().push(&part.name));
    }
    users.retain(|_, names| names.len() > 1);
    users
}

/// What sharing means, for each group of parts that shares; none where no CPU is shared.
pub(super) fn sharing_notes(record: &DataplaneRecord) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for bed in beds(record) {
        for (cpu, names) in shared_cpus(bed.parts) {
            let note = format!(
                "{} share CPU {cpu}: each takes time from the other, so the device alone carries at least what is shown",
                listed(&names)
            );
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, cpus: &[u32]) -> Part {
        Part {
            name: name.to_owned(),
            detail: String::new(),
            interfaces: Vec::new(),
            cpus: cpus.to_vec(),
            place: String::new(),
        }
    }

    #[test]
    fn parts_of_one_cpu_are_told_together() {
        let parts = [part("generator", &[0]), part("forwarder", &[1, 2]), part("sink", &[0]), part("bridge", &[])];
        assert_eq!(cpus_words(&parts), "generator and sink on CPU 0, forwarder on CPUs 1 and 2, bridge on any CPU");
        assert_eq!(shared_cpus(&parts), BTreeMap::from([(0, vec!["generator", "sink"])]));
    }
}
