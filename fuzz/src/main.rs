//! Runs one check of `nearwire-checks` under libFuzzer. Which one, says the variable NEARWIRE_FUZZ_TARGET; the arguments
//! are libFuzzer's.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use nearwire_checks::{Check, TARGETS};

static CHECK: LazyLock<Check> = LazyLock::new(|| {
    let wanted = std::env::var("NEARWIRE_FUZZ_TARGET").unwrap_or_default();
    let names = TARGETS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let found = TARGETS.iter().find(|(name, _)| *name == wanted);
    found.unwrap_or_else(|| panic!("NEARWIRE_FUZZ_TARGET is '{wanted}'; set it to one of {names}")).1
});

fuzz_target!(|input: &[u8]| CHECK(input));
