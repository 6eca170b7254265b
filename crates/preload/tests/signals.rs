//! A C program's signal handlers with and without the library. Needs a C compiler (or says SKIP).

#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

mod common;

use std::process::Command;

use common::{compiled, library, missing_compiler};
use nearwire_lab::program_under_test;

fn said(command: &mut Command) -> String {
    let ran = command.output().unwrap();
    let (out, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && errors.is_empty(), "{}: {out}{errors}", ran.status);
    out.into_owned()
}

#[test]
fn handlers_of_a_c_program_behave_as_without_the_library() {
    if missing_compiler() {
        return;
    }
    let program = compiled("signals");
    let alone = said(&mut program_under_test(&program));
    let preloaded = said(program_under_test(&program).env("LD_PRELOAD", library()));
    let wrapped = |text: &str| text.lines().filter(|line| line.starts_with("kernel has ours")).count();
    assert_eq!((wrapped(&alone), wrapped(&preloaded)), (0, 1), "{preloaded}");
    let rest = |text: &str| text.lines().filter(|line| !line.starts_with("kernel has")).collect::<Vec<_>>().join("\n");
    assert_eq!(rest(&preloaded), rest(&alone));
    assert!(alone.ends_with("end\n"), "{alone}");
}
