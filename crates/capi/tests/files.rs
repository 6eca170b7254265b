//! What is installed: header, libraries, pkg-config file, manual.

#![allow(clippy::unwrap_used, reason = "what these functions do is test")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use common::{WARNINGS, has, libraries, source, succeeds};

/// The functions that the header declares.
fn declared() -> BTreeSet<String> {
    let header = fs::read_to_string(source("include/nearwire.h")).unwrap();
    let starts = |line: &&str| line.starts_with("int ") || line.starts_with("const char *");
    header.lines().filter(starts).filter_map(|line| Some(name_before_bracket(line)?.to_owned())).collect()
}

fn name_before_bracket(line: &str) -> Option<&str> {
    line.split_once('(')?.0.rsplit([' ', '*']).next()
}

#[test]
fn header_alone_is_clean_in_c99_and_cpp11() {
    for (compiler, standard, language) in [("cc", "-std=c99", "c"), ("c++", "-std=c++11", "c++")] {
        if has(compiler, "--version") {
            let mut check = Command::new(compiler);
            check.args([standard, "-fsyntax-only", "-x", language]).args(WARNINGS).arg(source("include/nearwire.h"));
            // "#pragma once in main file" and its like are about headers compiled alone.
            succeeds(&mut check);
        }
    }
}

#[test]
fn shared_library_exports_what_the_header_declares_and_nothing_else() {
    if !has("nm", "--version") {
        return;
    }
    let symbols = succeeds(Command::new("nm").args(["-D", "--defined-only"]).arg(libraries().join("libnearwire.so")));
    let exported: BTreeSet<_> = symbols.lines().filter_map(|line| line.rsplit(' ').next()).map(str::to_owned).collect();
    assert_eq!(exported, declared());
    assert!(exported.len() > 25);
}

#[test]
fn every_function_has_a_place_in_the_manual() {
    let mut named = BTreeSet::new();
    for page in fs::read_dir(source("man")).unwrap() {
        let text = fs::read_to_string(page.unwrap().path()).unwrap();
        let prototypes = text.lines().filter_map(|line| line.strip_prefix(".BI \""));
        named.extend(prototypes.filter_map(|line| Some(name_before_bracket(line)?.to_owned())));
    }
    assert_eq!(named, declared());
}

#[test]
fn manual_pages_pass_the_checker() {
    if !has("mandoc", "-V") {
        return;
    }
    for page in fs::read_dir(source("man")).unwrap() {
        succeeds(Command::new("mandoc").args(["-T", "lint", "-W", "warning"]).arg(page.unwrap().path()));
    }
}

#[test]
fn installed_files_build_a_program_by_pkg_config() {
    if !has("make", "--version") || !has("pkg-config", "--version") || !has("cc", "--version") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().display();
    let mut install = Command::new("make");
    install.arg("-C").arg(source("")).arg("install").arg(format!("PREFIX={prefix}"));
    succeeds(install.arg(format!("BUILT={}", libraries().display())));
    let is_there = |path: &str| assert!(directory.path().join(path).exists(), "{path}");
    for path in ["include/nearwire.h", "lib/libnearwire.so.0.1.0", "lib/libnearwire.a", "lib/pkgconfig/nearwire.pc"] {
        is_there(path);
    }
    for function in declared() {
        is_there(&format!("share/man/man3/{function}.3"));
    }
    let configured = |arguments: &[&str]| {
        let config = directory.path().join("lib/pkgconfig");
        succeeds(Command::new("pkg-config").args(arguments).arg("nearwire").env("PKG_CONFIG_PATH", config))
    };
    assert_eq!(configured(&["--modversion"]).trim(), env!("CARGO_PKG_VERSION"));
    let program = directory.path().join("layout");
    let flags = configured(&["--cflags", "--libs"]);
    let mut cc = Command::new("cc");
    cc.arg(source("tests/c/layout.c")).arg("-o").arg(&program).args(flags.split_ascii_whitespace());
    succeeds(&mut cc);
    runs(&program, &directory.path().join("lib"));
}

fn runs(program: &Path, libraries: &Path) {
    assert!(!succeeds(Command::new(program).env("LD_LIBRARY_PATH", libraries)).is_empty());
}
