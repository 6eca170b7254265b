//! Programs as the kernel and the dynamic linker see them: where a name leads, what the file is, and whether a library can be
//! preloaded into it.
//!
//! Sources: execve(2), `fs/exec.c`, `fs/binfmt_script.c`, `security/commoncap.c`, ld.so(8).

mod caller;
pub mod elf;
mod find;
pub mod io_uring;
mod judge;
mod privileges;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub use caller::{Caller, Capability};
use elf::{ElfError, ElfFacts};
pub use find::{FindError, find};
pub use judge::{Judgement, check_library, judge};
pub use privileges::{FileOwner, Privileges};

/// How many interpreters the kernel follows (`exec_binprm` in fs/exec.c).
const SCRIPTS_MAX: usize = 5;
/// What the kernel reads of a file to tell what it is (`BINPRM_BUF_SIZE`).
const BEGIN_BYTES: usize = 256;
/// Who runs a text that names no interpreter: execvp(3) does, and so does env(1).
const SHELL: &str = "/bin/sh";

/// The name of this process's program; empty where it is not known. Read once: a process that changes its root directory may not find /proc.
#[must_use]
pub fn own_name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let executable = std::fs::read_link("/proc/self/exe").unwrap_or_default();
        executable.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    })
}

/// What the file that runs in the end is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An ELF file.
    Elf(ElfFacts),
    /// An ELF file that breaks its own rules.
    BrokenElf(ElfError),
    /// It may be executed and not be read.
    Unreadable(String),
}

/// A program that was looked at.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file that was asked for.
    pub path: PathBuf,
    /// The interpreters of scripts, in the order in which they are followed; empty for a program that is no script.
    pub interpreters: Vec<PathBuf>,
    /// What the last of them is.
    pub kind: Kind,
    /// What its file gives besides.
    pub privileges: Privileges,
}

impl Program {
    /// Looks at the file of a path; of a script at its interpreter.
    ///
    /// # Errors
    /// An interpreter that is not there or cannot be executed, or scripts that interpret each other.
    pub fn look(path: &Path) -> Result<Program, FindError> {
        let mut interpreters: Vec<PathBuf> = Vec::new();
        loop {
            let last = interpreters.last().map_or(path, PathBuf::as_path);
            let (kind, next) = match File::open(last) {
                Err(error) => (Some(Kind::Unreadable(error.to_string())), None),
                Ok(file) => look_into(&file).map_err(|error| FindError::not_executable(last, &error.to_string()))?,
            };
            if let Some(kind) = kind {
                let privileges = Privileges::of_file(last);
                return Ok(Program { path: path.to_owned(), interpreters, kind, privileges });
            }
            let next = next.unwrap_or_else(|| SHELL.into());
            if interpreters.len() == SCRIPTS_MAX {
                return Err(FindError::not_executable(path, "its interpreters are scripts that need further ones"));
            }
            find::check_executable(&next).map_err(|error| error.of_interpreter(last))?;
            interpreters.push(next);
        }
    }

    /// The file that runs in the end.
    #[must_use]
    pub fn executed(&self) -> &Path {
        self.interpreters.last().unwrap_or(&self.path)
    }
}

/// What a file is, or that it is a text and who interprets it.
fn look_into(file: &File) -> io::Result<(Option<Kind>, Option<PathBuf>)> {
    let mut begin = [0; BEGIN_BYTES];
    let length = read_some(file, &mut begin)?;
    let begin = &begin[..length];
    if begin.starts_with(&elf::MAGIC) {
        let kind = ElfFacts::read(file).map_or_else(Kind::BrokenElf, Kind::Elf);
        return Ok((Some(kind), None));
    }
    Ok((None, begin.strip_prefix(b"#!").and_then(interpreter)))
}

fn read_some(file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read_at(&mut buffer[length..], length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// The interpreter in the first line of a script, behind `#!`.
fn interpreter(line: &[u8]) -> Option<PathBuf> {
    let line = line.split(|byte| *byte == b'\n').next()?;
    let name = line.split(|byte| matches!(byte, b' ' | b'\t' | b'\0')).find(|word| !word.is_empty())?;
    Some(OsStr::from_bytes(name).into())
}

#[cfg(test)]
mod tests;
