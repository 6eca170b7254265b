//! `nearwire check` of the described hosts, word for word. After an intended change
//! `NEARWIRE_WRITE_GOLDEN=1 cargo test -p nearwire-cli --test golden_check` writes the pages again.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{errors, nearwire, text};
use nearwire_lab::host_tree::{HostTree, scratch_directory};
use tempfile::TempDir;

/// Each host with the profiles that are meant for it.
const PAGES: [(&str, &str); 10] = [
    ("exanic", "raw-frame"),
    ("exanic", "as-printed/exanic"),
    ("vma", "socket-bypass"),
    ("vma", "as-printed/vma"),
    ("busy-poll", "busy-poll"),
    ("busy-poll", "as-printed/busy-poll"),
    ("usnic", "mpi"),
    ("usnic", "as-printed/usnic"),
    ("opennfp", "nfv"),
    ("opennfp", "as-printed/opennfp"),
];

/// The plan that the deck makes for its host.
const DECK: [&str; 15] = [
    "--json",
    "--nic",
    "enp5s0np0",
    "--os-cpus",
    "4",
    "--poller-cpus",
    "4",
    "--guest",
    "VM00:4:4G",
    "--guest",
    "VM02:4:4G",
    "--guest",
    "VM01:4:4G",
    "--guest",
    "VM03:4:4G",
];

fn written(tree: &HostTree) -> TempDir {
    let directory = tempfile::tempdir_in(scratch_directory()).unwrap();
    tree.write(directory.path()).unwrap();
    directory
}

fn page(root: &Path, profile: &str, more: &[&str]) -> String {
    let root = root.to_str().unwrap();
    let output = nearwire(&[&["check", "--sysroot", root, "--profile", profile], more].concat());
    assert!(matches!(output.status.code(), Some(0 | 1)), "{profile}: {}", errors(&output));
    let page = text(&output);
    assert!(!page.contains(root), "a page that depends on where the tree is: {page}");
    page
}

/// Compares a page with its file, or writes it.
#[track_caller]
fn assert_golden(name: &str, page: &str) {
    let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/check")).join(format!("{name}.txt"));
    if std::env::var_os("NEARWIRE_WRITE_GOLDEN").is_some() {
        fs::write(&file, page).unwrap();
    }
    let golden = fs::read_to_string(&file).unwrap_or_default();
    let lines = || golden.lines().zip(page.lines()).enumerate().find(|(_, (wanted, found))| wanted != found);
    assert!(golden == page, "{} differs, first at {:?}; the page is:\n{page}", file.display(), lines());
}

#[test]
fn described_host_checked_prints_its_page_word_for_word() {
    for (host, profile) in PAGES {
        let tree = written(&HostTree::named(host).unwrap());
        let name = format!("{host}-{}", profile.replace('/', "-"));
        assert_golden(&name, &page(tree.path(), profile, &[]));
    }
}

#[test]
fn opennfp_host_checked_with_the_plan_of_its_deck_prints_its_page_word_for_word() {
    let tree = written(&HostTree::named("opennfp").unwrap());
    let root = tree.path().to_str().unwrap();
    let plan = nearwire(&[&["plan", "--sysroot", root], &DECK[..]].concat());
    let file = tree.path().join("plan.json");
    fs::write(&file, text(&plan)).unwrap();
    assert_golden("opennfp-nfv-plan", &page(tree.path(), "nfv", &["--plan", file.to_str().unwrap()]));
}
