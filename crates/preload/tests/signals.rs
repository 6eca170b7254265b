//! A C program's signal handlers with and without the library. Needs a C compiler (or says SKIP).

#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo put the library: beside this test.
fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libnearwire_preload.so")
}

/// True when there is a C compiler; elsewhere the test says SKIP, or fails where nothing may be skipped.
fn has_compiler() -> bool {
    let found = Command::new("cc").arg("--version").output().is_ok();
    if !found {
        assert!(std::env::var_os("NEARWIRE_REQUIRE").is_none(), "NEARWIRE_REQUIRE is set, and there is no cc");
        println!("SKIP no cc");
    }
    found
}

fn compiled(directory: &Path, file: &str) -> PathBuf {
    let program = directory.join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu99", "-O1", "-pthread", "-Wall", "-Wextra", "-Wno-deprecated-declarations"]);
    let ran = cc.arg("-o").arg(&program).arg(source).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    program
}

fn said(command: &mut Command) -> String {
    let ran = command.output().unwrap();
    let (out, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && errors.is_empty(), "{}: {out}{errors}", ran.status);
    out.into_owned()
}

#[test]
fn handlers_of_a_c_program_behave_as_without_the_library() {
    if !has_compiler() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = compiled(directory.path(), "tests/c/signals.c");
    let alone = said(&mut Command::new(&program));
    let preloaded = said(Command::new(&program).env("LD_PRELOAD", library()));
    let wrapped = |text: &str| text.lines().filter(|line| line.starts_with("kernel has ours")).count();
    assert_eq!((wrapped(&alone), wrapped(&preloaded)), (0, 1), "{preloaded}");
    let rest = |text: &str| text.lines().filter(|line| !line.starts_with("kernel has")).collect::<Vec<_>>().join("\n");
    assert_eq!(rest(&preloaded), rest(&alone));
    assert!(alone.ends_with("end\n"), "{alone}");
}
