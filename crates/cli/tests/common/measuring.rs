//! `nearwire tune measure` by a profile of a test's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use super::command;

/// A profile, with a journal and results beside it.
pub struct Place(TempDir);

impl Place {
    pub fn new(wishes: &[(&str, String)]) -> Self {
        let place = Self(tempfile::tempdir().expect("a directory"));
        let mut profile = "purpose = 'A test'\n".to_owned();
        for (setting, wanted) in wishes {
            profile += &format!("[[wish]]\nsetting = '{setting}'\n{wanted}\nreason = 'A test.'\nsource = 'A test'\n");
        }
        fs::write(place.path("profile.toml"), profile).expect("write the profile");
        place
    }

    pub fn directory(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn measure(&self, words: &[&str]) -> Command {
        let mut command = command(&["tune", "measure"]);
        command.args(words).arg("--profile").arg(self.path("profile.toml"));
        command.arg("--journal").arg(self.path("journal")).arg("--results").arg(self.path("results"));
        command
    }

    pub fn revert(&self) -> Output {
        command(&["tune", "revert", "--yes", "--journal"]).arg(self.path("journal")).output().expect("run revert")
    }

    pub fn has_journal(&self) -> bool {
        self.path("journal/journal").exists()
    }
}
