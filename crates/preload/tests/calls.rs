//! The table of calls is that of the library, and `docs/calls.md` is that of the table.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use nearwire_preload::calls::table::{CALLS, CONNECTIONS, ENDING_OPTIONS, RECEIVE_FLAGS_OF_KERNEL, SEND_FLAGS};
use nearwire_preload::real::NAMES;
use nearwire_socket::kept::{is_known, only_kernel_names};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/calls.md");
const SHT_DYNSYM: u32 = 11;
const SYMBOL_BYTES: usize = 24;

const HEAD: &str = "# Calls of a program that runs past the kernel

What becomes of each function of the C library when a program runs under `nearwire run`. This file is generated from
`crates/preload/src/calls/table.rs`; `NEARWIRE_WRITE_DOCS=1 cargo test -p nearwire-preload --test calls` writes it again.

*Accelerated* calls are handled by the library, or by the kernel where the library cannot. *Followed* calls are made on the kernel
socket behind every accelerated one, and the library reads what they did; errors are the kernel's own. *Kernel* calls
are not intercepted and need not be. All of this concerns UDP sockets over IPv4 and IPv6, and TCP connections, unless
`adopt` is `never`; nothing else of the program is changed.

*Not supported*: system calls that bypass the C library (Go programs, instructions of the program's own) reach the
kernel socket, and not the datagrams that bypassed the kernel.

| function | | remark |
|---|---|---|
";

/// The document.
fn markdown() -> String {
    let mut text = String::from(HEAD);
    for (served, names, remark) in CALLS {
        for name in *names {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "| `{name}` | {} | {remark} |", served.words());
        }
    }
    let tables = [
        ("sending", SEND_FLAGS, "With any other flag the kernel handles the call."),
        (
            "receiving",
            RECEIVE_FLAGS_OF_KERNEL,
            "With one of these the kernel handles the call; with all others the library does.",
        ),
    ];
    for (title, flags, remark) in tables {
        let _ = write!(text, "\n## Flags of {title}\n\n{remark}\n\n| flag | |\n|---|---|\n");
        for (_, name, remark) in flags {
            let _ = writeln!(text, "| `{name}` | {remark} |");
        }
    }
    text.push_str(
        "\n## Options\n\nEvery option is set on the kernel socket and read back from there, so the kernel checks it. The kernel serves an \
         accelerated\nsocket on which one of these is set, whatever the value:\n\n",
    );
    for (_, _, name) in ENDING_OPTIONS {
        let _ = writeln!(text, "- `{name}`");
    }
    text.push_str("- any that the library does not know\n");
    text.push_str("\nand with one of these as long as its value is not 0:\n\n");
    for name in only_kernel_names() {
        let _ = writeln!(text, "- `{name}`");
    }
    text.push_str(
        "- `SO_TIMESTAMPING` with reports of sent datagrams, with `SOF_TIMESTAMPING_OPT_PKTINFO` or\n  \
         `SOF_TIMESTAMPING_BIND_PHC` for times of the device, or with times of the device if the device has them and its port does\n  \
         not ([run.md](run.md#times-of-arrival))\n",
    );
    text.push_str(
        "\n## TCP connections\n\nAll of the above is for UDP sockets, and this for TCP ([run.md](run.md#tcp)):\n\n\
         | what is done with an adopted connection, or happens to it | it is then |\n|---|---|\n",
    );
    for (what, becomes) in CONNECTIONS {
        let _ = writeln!(text, "| {what} | {} |", becomes.words());
    }
    text
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> usize {
    bytes[at..at + N].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// The names that a library defines for others: `Elf64_Shdr` and `Elf64_Sym` of elf(5).
fn exported(library: &[u8]) -> BTreeSet<String> {
    let (sections, section_bytes, count) =
        (number::<8>(library, 40), number::<2>(library, 58), number::<2>(library, 60));
    let section = |index: usize| &library[sections + index * section_bytes..][..section_bytes];
    let place = |section: &[u8]| number::<8>(section, 24)..number::<8>(section, 24) + number::<8>(section, 32);
    let symbols = (0..count).map(section).find(|section| number::<4>(section, 4) == SHT_DYNSYM as usize).unwrap();
    let names = &library[place(section(number::<4>(symbols, 40)))];
    let of = |symbol: &[u8]| {
        let name = &names[number::<4>(symbol, 0)..];
        let end = name.iter().position(|byte| *byte == 0).unwrap();
        String::from_utf8(name[..end].to_vec()).unwrap()
    };
    let is_defined = |symbol: &&[u8]| number::<2>(symbol, 6) != 0 && symbol[4] >> 4 != 0;
    library[place(symbols)].chunks_exact(SYMBOL_BYTES).filter(is_defined).map(of).collect()
}

#[test]
fn calls_listed_are_those_that_the_library_intercepts() {
    let library = std::env::current_exe().unwrap().with_file_name("libnearwire_preload.so");
    let exported = exported(&std::fs::read(library).unwrap());
    let listed = |is_exported: bool| -> BTreeSet<String> {
        let calls = CALLS.iter().filter(|(served, ..)| served.is_exported() == is_exported);
        calls.flat_map(|(_, names, _)| names.iter().map(|name| (*name).to_owned())).collect()
    };
    assert_eq!(exported, listed(true), "symbols of the library, and the table");
    let all: BTreeSet<String> = listed(true).union(&listed(false)).cloned().collect();
    let originals: BTreeSet<String> = NAMES.iter().map(|name| (*name).to_owned()).collect();
    let missing: Vec<_> = originals.difference(&all).collect();
    assert!(missing.is_empty(), "the library knows the originals of calls that the table has not: {missing:?}");
    let count: usize = CALLS.iter().map(|(_, names, _)| names.len()).sum();
    assert_eq!(count, all.len(), "a name stands once in the table");
}

#[test]
fn options_that_make_a_socket_the_kernels_are_known_to_no_other_table() {
    let known: Vec<_> = ENDING_OPTIONS.iter().filter(|(level, number, _)| is_known((*level, *number))).collect();
    assert!(known.is_empty(), "{known:?}");
}

#[test]
fn document_in_the_tree_is_that_of_the_table() {
    if std::env::var_os("NEARWIRE_WRITE_DOCS").is_some() {
        std::fs::write(DOCUMENT, markdown()).unwrap();
    }
    let found = std::fs::read_to_string(Path::new(DOCUMENT)).unwrap_or_default();
    assert!(
        found == markdown(),
        "docs/calls.md is not what the table says; NEARWIRE_WRITE_DOCS=1 cargo test -p nearwire-preload --test calls writes it"
    );
}
