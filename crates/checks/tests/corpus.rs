//! What the fuzzer found worth keeping, and each input that once broke something, goes through the checks again.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use nearwire_checks::TARGETS;
use proptest::prelude::*;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

#[test]
fn corpus_of_the_fuzzer_replayed_passes() {
    for (target, check) in TARGETS {
        let folder = corpus().join(target);
        let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut inputs = 0;
        for file in files.map(|file| file.expect("readable").path()) {
            let input = fs::read(&file).expect("readable");
            assert!(catch_unwind(|| check(&input)).is_ok(), "{} fails", file.display());
            inputs += 1;
        }
        println!("{target}: {inputs} inputs");
        assert!(inputs >= 20, "{}: {inputs} inputs", folder.display());
    }
}

#[test]
fn folders_of_the_corpus_are_those_of_the_targets() {
    let mut folders: Vec<_> = fs::read_dir(corpus())
        .expect("readable")
        .map(|folder| folder.expect("readable").file_name().into_string().expect("UTF-8"))
        .collect();
    let mut targets: Vec<_> = TARGETS.iter().map(|(target, _)| *target).collect();
    folders.sort_unstable();
    targets.sort_unstable();
    assert_eq!(folders, targets);
}

proptest! {
    #[test]
    fn any_bytes_pass_every_check(input: Vec<u8>) {
        TARGETS.iter().for_each(|(_, check)| check(&input));
    }
}
