//! The library that is preloaded.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use nearwire_socket::program::check_library;
use nearwire_socket::program::elf::ElfFacts;

use crate::exit::{self, Failure, OrExit};

const NAME: &str = "libnearwire_preload.so";
/// Where the library may be, relative to the directory of this command.
const PLACES: [&str; 3] = ["", "../lib", "../lib/nearwire"];

/// A library that was found and checked.
pub struct Library {
    /// Absolute, without symbolic links.
    pub path: PathBuf,
    pub facts: ElfFacts,
}

impl Library {
    /// The library that was named, or the one near this command.
    pub fn find(named: Option<&Path>) -> Result<Self, Failure> {
        let path = match named {
            Some(path) => path.canonicalize().with_context(|| format!("find the library {}", path.display())),
            None => near_this_command(),
        };
        let path = path.or_exit(exit::CANNOT)?;
        let read = || -> anyhow::Result<ElfFacts> {
            let facts = ElfFacts::of_library(&File::open(&path)?)?;
            check_library(&facts, &path).map_err(|why| anyhow!(why))?;
            Ok(facts)
        };
        let facts = read().with_context(|| format!("preload the library {}", path.display())).or_exit(exit::CANNOT)?;
        Ok(Self { path, facts })
    }

    /// `LD_PRELOAD` with this library before the present ones.
    pub fn before(&self, present: Option<&OsStr>) -> OsString {
        let present = present.map_or(&b""[..], OsStr::as_bytes);
        let is_ours = |file: &[u8]| file.ends_with(NAME.as_bytes()) || file == self.path.as_os_str().as_bytes();
        // The dynamic linker separates by space and colon. A library that an outer `nearwire run` put there is removed: this one replaces it.
        let others =
            present.split(|byte| matches!(byte, b' ' | b':')).filter(|file| !file.is_empty() && !is_ours(file));
        let mut all = self.path.clone().into_os_string();
        for other in others {
            all.push(":");
            all.push(OsStr::from_bytes(other));
        }
        all
    }
}

fn near_this_command() -> anyhow::Result<PathBuf> {
    let command = std::env::current_exe().context("find the directory of this command")?;
    let directory = command.parent().unwrap_or(Path::new("/"));
    let places = PLACES.map(|place| directory.join(place).join(NAME));
    places.iter().find_map(|place| place.canonicalize().ok()).ok_or_else(|| {
        let looked = places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", ");
        anyhow!(
            "no library to preload: looked for {looked}; build it with cargo build --release, or name it with --library"
        )
    })
}
