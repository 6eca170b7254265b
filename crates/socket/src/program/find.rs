//! Where a program's name leads, as execvp(3) finds it.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use thiserror::Error;

/// Where programs are looked for without `PATH` (glibc's `confstr(_CS_PATH)`).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Why a program cannot be started.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FindError {
    /// It is nowhere.
    #[error("run {program}: not found{place}")]
    NotFound {
        /// What was asked for.
        program: PathBuf,
        /// More words: where it was looked for.
        place: String,
    },
    /// It is there.
    #[error("run {program}: {why}")]
    NotExecutable {
        /// The file.
        program: PathBuf,
        /// Why it cannot be run.
        why: String,
    },
}

impl FindError {
    pub(super) fn not_executable(program: &Path, why: &str) -> FindError {
        FindError::NotExecutable { program: program.to_owned(), why: why.to_owned() }
    }

    /// The same, said of a script's interpreter.
    pub(super) fn of_interpreter(self, script: &Path) -> FindError {
        let script = script.display();
        match self {
            Self::NotFound { program, .. } => {
                Self::NotFound { program, place: format!("; it is the interpreter that {script} names") }
            }
            Self::NotExecutable { program, why } => {
                Self::NotExecutable { program, why: format!("{why}; it is the interpreter that {script} names") }
            }
        }
    }
}

/// The file that a name stands for: a name with a slash for itself, others for the first executable file in the
/// directories of `PATH`.
///
/// # Errors
/// There is none, or none that the caller may execute.
pub fn find(name: &OsStr, path_variable: Option<&OsStr>) -> Result<PathBuf, FindError> {
    if name.is_empty() || name.as_bytes().contains(&b'/') {
        check_executable(Path::new(name))?;
        return Ok(name.into());
    }
    let directories = path_variable.unwrap_or(OsStr::new(DEFAULT_PATH));
    let mut refused = None;
    for directory in directories.as_bytes().split(|byte| *byte == b':') {
        // An empty one is the current directory.
        let directory = if directory.is_empty() { b"." } else { directory };
        let file = Path::new(OsStr::from_bytes(directory)).join(name);
        match check_executable(&file) {
            Ok(()) => return Ok(file),
            Err(error @ FindError::NotExecutable { .. }) => refused = refused.or(Some(error)),
            Err(FindError::NotFound { .. }) => {}
        }
    }
    let place = format!(" in PATH={}", directories.display());
    Err(refused.unwrap_or_else(|| FindError::NotFound { program: name.into(), place }))
}

/// Whether execve(2) would take the file.
pub(super) fn check_executable(file: &Path) -> Result<(), FindError> {
    let refused = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            FindError::NotFound { program: file.to_owned(), place: String::new() }
        }
        _ => FindError::not_executable(file, &error.to_string()),
    };
    let about = std::fs::metadata(file).map_err(refused)?;
    if !about.is_file() {
        let what = if about.is_dir() { "it is a directory" } else { "it is no regular file" };
        return Err(FindError::not_executable(file, what));
    }
    accessat(CWD, file, Access::EXEC_OK, AtFlags::EACCESS).map_err(|errno| {
        let said = io::Error::from(errno);
        FindError::not_executable(
            file,
            &format!("{said}; it is not executable (chmod +x), or its file system is noexec"),
        )
    })
}
