//! Requirements of the RFCs: every line `//= RFC ... MUST: ...` in `wire` and `stack` has a `//= test RFC ...` somewhere.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn sources(folder: &Path, into: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("readable").map(|entry| entry.expect("readable").path()) {
        if entry.is_dir() {
            sources(&entry, into);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            into.push(fs::read_to_string(&entry).expect("readable"));
        }
    }
}

#[test]
fn requirement_met_has_a_test() {
    let mut texts = Vec::new();
    for folder in ["src", "tests", "../wire/src"] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut texts);
    }
    // (met, tested) by "RFC 768 fields".
    let mut requirements: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for line in texts.iter().flat_map(|text| text.lines()).map(str::trim) {
        if let Some(tested) = line.strip_prefix("//= test ") {
            requirements.entry(tested.to_owned()).or_default().1 += 1;
        } else if let Some(met) = line.strip_prefix("//= ") {
            let name = met.split_once(" MUST: ").unwrap_or_else(|| panic!("{line}: wanted RFC n section MUST: what")).0;
            requirements.entry(name.to_owned()).or_default().0 += 1;
        }
    }
    for (name, (met, tested)) in &requirements {
        println!("{name:<24} met {met}, tested {tested}");
    }
    assert!(requirements.len() > 5, "the annotations were found");
    let one_sided = requirements.iter().filter(|(_, (met, tested))| *met == 0 || *tested < *met);
    assert_eq!(one_sided.collect::<Vec<_>>(), [], "(met, tested)");
}
