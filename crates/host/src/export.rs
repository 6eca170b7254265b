//! Goals as files that outlive a boot, in the forms of the tools that read them.
//!
//! [`export`] gives the files of one [`Format`] as text and writes nothing. Each goal is in a file,
//! with its id and reason as a comment, or in [`Export::left_out`] with the cause. [`validate()`]
//! asks the tool that will read a file whether it takes it, and [`verify()`] looks after the boot what came of the files.
//!
//! Values and names come from profiles that somebody else may have written, and the files are read
//! by root. So a value is taken only when it is made of the letters its kind can have.

mod ansible;
mod command_line;
mod consistent;
mod form;
mod grub;
mod host_form;
mod interface;
mod interface_form;
mod link;
mod pick;
mod plan;
mod sysctl;
mod systemd;
mod text;
mod tmpfiles;
mod tuned;
mod tuned_options;
mod udev;
mod unit;
mod validate;
mod verify;
mod words;

use std::io;
use std::path::Path;

use crate::{CpuSet, Goal, Setting};

pub(crate) use consistent::isolcpus_flags;
use form::UnitState;
pub use interface::Interface;
pub(crate) use interface_form::link_options;
pub use validate::{Verdict, validate};
pub use verify::{Exported, State, Verified, installed, verify};

use plan::Plan;

/// A kind of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// The kernel's command line, by a file that `grub-mkconfig` sources.
    Grub,
    /// Kernel parameters: `sysctl.d(5)`.
    Sysctl,
    /// Units, `tmpfiles.d(5)`, `systemd.link(5)`, presets, and options of modules.
    Systemd,
    /// Rules for devices: `udev(7)`.
    Udev,
    /// A profile of `tuned`: `tuned.conf(5)`.
    TunedProfile,
    /// A playbook that lays down the files of [`Format::Systemd`], [`Format::Sysctl`] and
    /// [`Format::Grub`].
    Ansible,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Grub, Self::Sysctl, Self::Systemd, Self::Udev, Self::TunedProfile, Self::Ansible];

    /// The format as commands call it: `tuned-profile`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grub => "grub",
            Self::Sysctl => "sysctl",
            Self::Systemd => "systemd",
            Self::Udev => "udev",
            Self::TunedProfile => "tuned-profile",
            Self::Ansible => "ansible",
        }
    }
}

/// What files are made of.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The profile that the goals come from, for the first line of each file.
    pub profile: &'a str,
    /// The goals.
    pub goals: &'a [Goal],
    /// Where Nearwire's own program is on the host that the files are for, where that is known: a
    /// path that will stay. Without it the files do with the tools that every host has.
    pub program: Option<&'a str>,
    /// What is known of the interfaces that goals name. One that is missing is told by its name.
    pub interfaces: &'a [Interface],
    /// The command line of the running kernel, where it is known.
    pub command_line: Option<&'a str>,
    /// The CPUs that go offline when SMT is switched off: all but the first of each core.
    pub smt_siblings: &'a CpuSet,
}

/// The files of one format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Export {
    /// The files, none where no goal has this form.
    pub files: Vec<File>,
    /// The goals that are in no file.
    pub left_out: Vec<LeftOut>,
    /// What to run once the files are in place, one command each, in order.
    pub after: Vec<String>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where it belongs, absolute.
    pub path: String,
    /// The whole text.
    pub text: String,
    /// Permissions: `0o644`, or `0o755` of a script.
    pub mode: u32,
}

impl File {
    fn new(path: impl Into<String>, text: String) -> Self {
        Self { path: path.into(), text, mode: 0o644 }
    }
}

/// A goal that is in no file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The goal's id, with the interface in brackets.
    pub id: String,
    /// The cause, for a person.
    pub why: String,
}

impl Export {
    /// Writes the files below a directory that stands for `/`, for [`validate()`] or an image.
    ///
    /// # Errors
    /// Those of making directories and writing files.
    pub fn write_below(&self, directory: &Path) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt;
        for file in &self.files {
            let path = directory.join(file.path.trim_start_matches('/'));
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(&path, &file.text)?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(file.mode))?;
        }
        Ok(())
    }
}

/// Why no file of any format keeps a setting that differs and has no goal.
#[must_use]
pub fn why_no_file(setting: &Setting) -> &'static str {
    pick::nowhere(setting)
}

/// The files of one format for some goals. The same request gives the same bytes.
#[must_use]
pub fn export(format: Format, request: &Request<'_>) -> Export {
    let (goals, lost) = consistent::without_lost_cpus(request);
    let mut plan = Plan::make(format, &Request { goals: &goals, ..*request });
    plan.left_out.extend(lost);
    let (files, after) = match format {
        Format::Grub => grub::files(&plan),
        Format::Sysctl => sysctl::files(&plan),
        Format::Systemd => systemd::files(&plan),
        Format::Udev => udev::files(&plan),
        Format::TunedProfile => tuned::files(&plan),
        Format::Ansible => ansible::files(&plan),
    };
    let after = after.iter().map(ToString::to_string).collect();
    Export { files, left_out: plan.left_out, after }
}

#[cfg(test)]
mod tests;
