//! Who serves the sockets of the programs that are measured.

use std::ffi::OsStr;
use std::fmt;
use std::process::Command;

use crate::NEARWIRE;
use crate::process::base;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// The kernel.
    Kernel,
    /// The library, with this as `NEARWIRE_SPIN`.
    Spin(String),
    /// `auto` of the nearwire that `BASE` in the environment names.
    Base,
    /// The kernel, on interfaces that another program, which sleeps, has a port on: what the attached program costs.
    Beside,
    /// The kernel, in programs that have the library: what that costs.
    Kept,
}

impl Policy {
    /// Of a word of the command line; `None`: it is none.
    pub fn of_word(word: &str) -> Option<Policy> {
        Some(match word {
            "kernel" => Policy::Kernel,
            "base" => Policy::Base,
            "beside" => Policy::Beside,
            "kept" => Policy::Kept,
            "auto" | "forever" => Policy::Spin(word.to_owned()),
            time if time.starts_with(|first: char| first.is_ascii_digit()) => Policy::Spin(time.to_owned()),
            _ => return None,
        })
    }

    /// The library, with a word of `NEARWIRE_SPIN`.
    pub fn spin(word: &str) -> Policy {
        Policy::Spin(word.to_owned())
    }

    /// A program under it.
    pub fn command(&self, program: &str) -> Command {
        match self {
            Policy::Kernel | Policy::Beside => Command::new(program),
            Policy::Kept => run(NEARWIRE, ("NEARWIRE_INTERFACES", "none"), &[], program),
            Policy::Spin(spin) => run(NEARWIRE, ("NEARWIRE_SPIN", spin), &["--strict"], program),
            Policy::Base => {
                let base = base().unwrap_or_default();
                run(&base, ("NEARWIRE_SPIN", "auto"), &["--strict"], program)
            }
        }
    }
}

fn run(nearwire: impl AsRef<OsStr>, variable: (&str, &str), options: &[&str], program: &str) -> Command {
    let mut command = Command::new(nearwire);
    command.env(variable.0, variable.1).args(["run", "--quiet"]).args(options).args(["--", program]);
    command
}

impl fmt::Display for Policy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Policy::Kernel => "kernel",
            Policy::Spin(spin) => spin,
            Policy::Base => "base",
            Policy::Beside => "beside",
            Policy::Kept => "kept",
        })
    }
}
