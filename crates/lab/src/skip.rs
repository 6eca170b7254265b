//! Tests that need what not every user may make.

use std::fmt::Display;

use crate::EmulatedHost;
use crate::emulated_host::EmulatedHostError;

/// What was made: a namespace, a cable. Where it could not be, the test is skipped, with the reason, or fails where `NEARWIRE_REQUIRE` says
/// that nothing may be skipped.
///
/// # Panics
/// In that case.
#[must_use]
pub fn made_or_skip<T>(made: Result<T, impl Display>) -> Option<T> {
    made.inspect_err(|error| {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "NEARWIRE_REQUIRE is set, but: {error}");
        println!("SKIP {error}");
    })
    .ok()
}

/// The same of an emulated host: only what this machine lacks is a reason to skip.
///
/// # Panics
/// There is no host for another reason, or in the case of [`made_or_skip`].
#[must_use]
pub fn emulated_or_skip(host: Result<EmulatedHost, EmulatedHostError>) -> Option<EmulatedHost> {
    match host {
        Err(error) if !error.is_missing_requirement() => panic!("{error}"),
        host => made_or_skip(host),
    }
}
