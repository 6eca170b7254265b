//! Whether a library can be preloaded into a program.

use std::path::Path;

use super::elf::ElfFacts;
use super::{Caller, Kind, Program};

/// What comes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It can.
    Fine,
    /// It will be loaded, or may be, and perhaps without effect.
    Doubtful(String),
    /// It cannot.
    Refused(String),
}

/// Judges a program that the caller executes with the library in `LD_PRELOAD`.
#[must_use]
pub fn judge(program: &Program, library: &ElfFacts, caller: &Caller) -> Judgement {
    let file = match program.interpreters.last() {
        None => program.path.display().to_string(),
        Some(interpreter) => format!("{}, the interpreter of {},", interpreter.display(), program.path.display()),
    };
    let refused = |why: &str| Judgement::Refused(format!("{file} cannot be preloaded: {why}"));
    let doubtful = |why: &str| Judgement::Doubtful(format!("{file} {why}"));
    let facts = match &program.kind {
        Kind::Elf(facts) => facts,
        Kind::BrokenElf(error) => return refused(&error.to_string()),
        Kind::Unreadable(error) => {
            return doubtful(&format!("cannot be read ({error}): whether it can be preloaded is not known"));
        }
    };
    let machine = |facts: &ElfFacts| (facts.bits, facts.is_little_endian, facts.machine);
    if machine(facts) != machine(library) {
        let (theirs, ours) = (facts.machine_words(), library.machine_words());
        return refused(&format!("it is {theirs}, and the library is {ours}"));
    }
    let Some(loader) = &facts.interpreter else {
        let why = if facts.is_go {
            "it is a static Go program, which makes its system calls itself; change its source to use libnearwire"
        } else {
            "it is statically linked, so nobody would load the library; link it dynamically (without -static)"
        };
        return refused(why);
    };
    if let Some((true, why)) = program.privileges.secure_mode(caller) {
        return refused(&format!(
            "it is {why}, so the dynamic linker ignores LD_PRELOAD; run it as its owner, or run a copy without these privileges"
        ));
    }
    if is_musl(facts) != is_musl(library) {
        return refused(&format!(
            "its dynamic linker {loader} is of another C library than the library, which is built for {}; build it for that one",
            if is_musl(library) { "musl" } else { "glibc" }
        ));
    }
    if facts.is_go {
        return doubtful(
            "is a Go program: its own sockets bypass the C library and stay with the kernel; only those that its C code \
             opens are accelerated",
        );
    }
    if facts.uses_io_uring {
        return doubtful(
            "uses io_uring, or a library that does: its requests bypass the C library, so all of its sockets stay with the \
             kernel",
        );
    }
    Judgement::Fine
}

/// Whether a file, by its facts and name, is a shared library that can be preloaded at all.
///
/// # Errors
/// Why it is not, in words.
pub fn check_library(facts: &ElfFacts, path: &Path) -> Result<(), String> {
    // Both separate names in LD_PRELOAD, and nothing escapes them.
    match path.to_str() {
        Some(path) if !path.contains([':', ' ']) => {}
        _ => return Err("LD_PRELOAD cannot hold a path with a colon, a space or bytes that are no UTF-8".to_owned()),
    }
    if facts.interpreter.is_some() {
        return Err("it is a program and no shared library".to_owned());
    }
    Ok(())
}

/// musl's dynamic linker is `ld-musl-ARCH.so.1`, its C library `libc.musl-ARCH.so.1` or `libc.so`.
fn is_musl(facts: &ElfFacts) -> bool {
    let name = facts.interpreter.as_deref().and_then(|loader| loader.rsplit('/').next());
    let is_libc = |name: &String| name.starts_with("libc.musl-") || name == "libc.so";
    name.is_some_and(|name| name.starts_with("ld-musl-")) || facts.needed.iter().any(is_libc)
}
