//! The software of a guest: a kernel, and our program where it forwards.

use std::path::{Path, PathBuf};

use nearwire_lab::emulated_host::{HostSystem, StockKernel};

use super::GuestError;

/// Names a directory with a guest's kernel (`vmlinux` or `vmlinuz`) and its modules (`lib/modules/RELEASE`); what the kernel has built in
/// needs no module. It needs virtio_pci, virtio_console, virtio_blk, virtio_net, ext4 and, for l2/guest-kernel, bridge.
pub const KERNEL_VARIABLE: &str = "NEARWIRE_GUEST_KERNEL";
/// Our program.
const PROGRAM: &str = "nearwire";

/// What a guest is booted with.
pub(super) fn find(needs_forwarder: bool) -> Result<HostSystem, GuestError> {
    let named = std::env::var_os(KERNEL_VARIABLE).map(PathBuf::from);
    let here = std::env::current_exe().unwrap_or_default();
    let kernel_directory = kernel_in(named.as_deref(), &here)?;
    let programs = if needs_forwarder { vec![forwarder_at(&here)?] } else { Vec::new() };
    Ok(HostSystem { kernel_directory, programs, files: Vec::new() })
}

/// The named directory, or that of `make test` in cargo's target directory, above the running program.
fn kernel_in(named: Option<&Path>, here: &Path) -> Result<PathBuf, GuestError> {
    let looked: Vec<PathBuf> = match named {
        Some(directory) => vec![directory.to_owned()],
        None => here
            .ancestors()
            .map(|directory| directory.join("emulated-host").join(StockKernel::Linux6_12.version()))
            .filter(|directory| directory.is_dir())
            .collect(),
    };
    let found = looked.iter().find(|directory| HostSystem::kernel_in(directory).is_some()).cloned();
    found.ok_or(GuestError::MissingKernel { looked })
}

/// The running program, or, of a test, that of the same build.
fn forwarder_at(here: &Path) -> Result<PathBuf, GuestError> {
    if here.file_name().is_some_and(|name| name == PROGRAM) {
        return Ok(here.to_owned());
    }
    let looked: Vec<PathBuf> = here.ancestors().skip(1).take(2).map(|directory| directory.join(PROGRAM)).collect();
    let found = looked.iter().find(|path| path.is_file()).cloned();
    found.ok_or(GuestError::MissingForwarder { looked })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_without_a_kernel_is_told_with_what_to_do() {
        let empty = tempfile::tempdir().unwrap();
        let error = kernel_in(Some(empty.path()), Path::new("/")).unwrap_err().to_string();
        for words in [&*empty.path().display().to_string(), KERNEL_VARIABLE, "fetch-kernel"] {
            assert!(error.contains(words), "{words}: {error}");
        }
        let error = kernel_in(None, &empty.path().join("program")).unwrap_err().to_string();
        assert!(error.contains("any directory"), "{error}");
    }

    #[test]
    fn kernel_is_found_by_either_name_and_above_the_program() {
        let target = tempfile::tempdir().unwrap();
        let directory = target.path().join("emulated-host/6.12");
        std::fs::create_dir_all(&directory).unwrap();
        let program = target.path().join("debug/deps/guest-1");
        for name in ["vmlinuz", "vmlinux"] {
            std::fs::write(directory.join(name), "").unwrap();
            assert_eq!(kernel_in(None, &program).unwrap(), directory);
            std::fs::remove_file(directory.join(name)).unwrap();
        }
    }

    #[test]
    fn program_that_runs_goes_into_the_guest_or_that_of_the_same_build() {
        assert_eq!(forwarder_at(Path::new("/usr/bin/nearwire")).unwrap(), Path::new("/usr/bin/nearwire"));
        let target = tempfile::tempdir().unwrap();
        let test = target.path().join("debug/deps/guest-1");
        let error = forwarder_at(&test).unwrap_err().to_string();
        assert!(error.contains("debug/nearwire, ") || error.contains("deps/nearwire, "), "{error}");
        std::fs::create_dir_all(target.path().join("debug")).unwrap();
        std::fs::write(target.path().join("debug/nearwire"), "").unwrap();
        assert_eq!(forwarder_at(&test).unwrap(), target.path().join("debug/nearwire"));
    }
}
