//! What can go wrong with an emulated host.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::LabErrorKind;

/// An emulated host that could not be built, booted or used. The message says what was tried, on what, what was found and
/// what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatedHostError {
    /// A program that the emulation needs is not on this machine.
    #[error("emulated host: no program {program} in PATH; install {package} (make test does)")]
    MissingProgram {
        /// The program.
        program: String,
        /// Debian's package with it.
        package: &'static str,
    },
    /// There is no kernel to boot.
    #[error(
        "emulated host: no kernel in {}; crates/lab/emulated-host/fetch-kernel DIRECTORY VERSION gets one \
         (make test does)", directory.display()
    )]
    MissingKernel {
        /// Where it should be.
        directory: PathBuf,
    },
    /// The hardware cannot be emulated.
    #[error("emulated host with {what} {value}: allowed is {allowed}")]
    Hardware {
        /// What it is about.
        what: &'static str,
        /// What was asked for.
        value: String,
        /// What can be had.
        allowed: &'static str,
    },
    /// A file or program of this machine failed while the host was put together.
    #[error("emulated host: {action}: {source}")]
    Prepare {
        /// What was tried, on what.
        action: String,
        /// What was said.
        source: io::Error,
    },
    /// A network namespace for the other end of an interface could not be had.
    #[error("emulated host: {0}")]
    Namespace(#[from] crate::LabError),
    /// QEMU ended although nobody told it to: it refused its arguments, or the kernel panicked.
    #[error("emulated host: {action}: the emulation ended ({status}){}", transcript(said, console))]
    Ended {
        /// What was going on.
        action: String,
        /// Its exit status.
        status: String,
        /// QEMU's own last words.
        said: String,
        /// The last lines of the serial console.
        console: String,
    },
    /// No answer in time. The host is powered off: what it would still say belongs to no question.
    #[error(
        "emulated host: {action}: no answer in {} s; it is powered off; is this machine overloaded, or does the kernel \
         hang?{}", limit.as_secs(), transcript("", console)
    )]
    TimedOut {
        /// What was waited for.
        action: String,
        /// How long it was given.
        limit: Duration,
        /// The last lines of the serial console.
        console: String,
    },
    /// The host is off.
    #[error("emulated host: {action}: it is powered off; power_on comes first")]
    PoweredOff {
        /// What was tried.
        action: String,
    },
    /// Something inside wrote into the channel of commands.
    #[error("emulated host: {action}: the answer begins with '{found}' instead of a status and two lengths")]
    Unintelligible {
        /// What was asked.
        action: String,
        /// What came.
        found: String,
    },
    /// A command inside failed that had to work.
    #[error("emulated host: {action}: status {status}: {said}")]
    Command {
        /// What was tried.
        action: String,
        /// Its exit status.
        status: i32,
        /// Its standard error.
        said: String,
    },
}

impl EmulatedHostError {
    /// True where this machine, or this user on it, lacks what the emulation needs, so that a test may skip.
    #[must_use]
    pub fn is_missing_requirement(&self) -> bool {
        match self {
            Self::MissingProgram { .. } | Self::MissingKernel { .. } => true,
            Self::Namespace(error) => error.kind() == LabErrorKind::HostCannot,
            _ => false,
        }
    }
}

fn transcript(said: &str, console: &str) -> String {
    let part = |name: &str, text: &str| {
        if text.is_empty() { String::new() } else { format!("\n--- {name}:\n{text}") }
    };
    part("qemu", said) + &part("last lines of the console", console)
}
