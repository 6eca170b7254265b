//! Why there is no guest.

use std::path::PathBuf;

use nearwire_lab::LabError;
use nearwire_lab::emulated_host::EmulatedHostError;

use super::system::KERNEL_VARIABLE;

/// Why a guest does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuestError {
    /// There is no kernel for it.
    #[error(
        "no kernel for a guest: neither vmlinux nor vmlinuz in {}; set {KERNEL_VARIABLE} to a directory with one of them and lib/modules \
         (`crates/lab/emulated-host/fetch-kernel DIRECTORY 6.12` in Nearwire's source makes one on Debian)",
        paths(.looked)
    )]
    MissingKernel {
        /// Directories that were looked at.
        looked: Vec<PathBuf>,
    },
    /// The program that forwards inside is not there.
    #[error("a guest with our forwarder needs the nearwire program; it is not at {}; `cargo build -p nearwire-cli` builds it", paths(.looked))]
    MissingForwarder {
        /// Paths that were looked at.
        looked: Vec<PathBuf>,
    },
    /// QEMU, or what is inside.
    #[error("guest: {0}")]
    Host(#[from] EmulatedHostError),
    /// The bridges of the host.
    #[error("bridges of the guest's host: {0}")]
    Lab(#[from] LabError),
    /// A command in the guest failed that sets it up.
    #[error("set up the guest: {said}")]
    SetUp {
        /// The command that failed, and what it said.
        said: String,
    },
    /// The forwarder in the guest did not start.
    #[error("start the forwarder in the guest: {said}")]
    Forwarder {
        /// What it said.
        said: String,
    },
}

impl GuestError {
    /// True where this machine, or this user on it, lacks what a guest needs, so that a test may skip.
    #[must_use]
    pub fn is_missing_requirement(&self) -> bool {
        match self {
            GuestError::MissingKernel { .. } | GuestError::MissingForwarder { .. } => true,
            GuestError::Host(error) => error.is_missing_requirement(),
            GuestError::Lab(_) | GuestError::SetUp { .. } | GuestError::Forwarder { .. } => false,
        }
    }
}

fn paths(looked: &[PathBuf]) -> String {
    let paths: Vec<String> = looked.iter().map(|path| path.display().to_string()).collect();
    if paths.is_empty() { "any directory".to_owned() } else { paths.join(", ") }
}
