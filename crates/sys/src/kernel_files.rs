//! Files of `/proc` where that is not mounted, as in a process that changed its root directory.
//!
//! A file system of the kernel can be mounted without a place in the tree (`fsopen(2)`, `fsmount(2)`, Linux 5.2), and files of it be opened
//! from there. Only the file is kept: an open directory would be a way out of the root directory that somebody chose.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

const PROC: &str = "/proc/";
const FSOPEN_CLOEXEC: libc::c_uint = 1;
const FSMOUNT_CLOEXEC: libc::c_uint = 1;
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;

/// Opens a file for reading by its path. One of `/proc` that is not there is looked for in a mount of its own.
///
/// # Errors
/// That of the path, where it is of another place, or where the mount cannot be had: that takes CAP_SYS_ADMIN.
pub fn open(path: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => Ok(file),
        Err(errno) => {
            let Some(rest) = path.strip_prefix(PROC) else { return Err(errno.into()) };
            let mounted = mount(c"proc").map_err(|_| io::Error::from(errno))?;
            Ok(rustix::fs::openat(&mounted, rest, flags, Mode::empty())?)
        }
    }
}

/// The text of such a file.
///
/// # Errors
/// As [`open`], or it cannot be read.
pub fn read_to_string(path: &str) -> io::Result<String> {
    io::read_to_string(std::fs::File::from(open(path)?))
}

/// A file system of this name, mounted nowhere.
fn mount(name: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: the name ends in NUL, and the kernel only reads it.
    let context = unsafe { opened(libc::syscall(libc::SYS_fsopen, name.as_ptr(), FSOPEN_CLOEXEC))? };
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: the command takes neither key nor value.
    let created = unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), FSCONFIG_CMD_CREATE, none, none, 0) };
    if created < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: only numbers are passed.
    unsafe { opened(libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), FSMOUNT_CLOEXEC, 0)) }
}

/// # Safety
/// The result of a call that gives a new descriptor.
unsafe fn opened(result: libc::c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the caller's: nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_of_proc_is_opened_from_a_mount_of_its_own() {
        assert!(read_to_string("/proc/self/stat").unwrap().contains('('));
        assert_eq!(open("/nearwire-none").unwrap_err().kind(), io::ErrorKind::NotFound);
        match mount(c"proc") {
            Ok(mounted) => {
                let file = rustix::fs::openat(&mounted, "self/stat", OFlags::RDONLY, Mode::empty()).unwrap();
                let text = io::read_to_string(std::fs::File::from(file)).unwrap();
                assert!(text.starts_with(&std::process::id().to_string()), "{text}");
            }
            Err(error) => println!("SKIP a file system cannot be mounted here: {error}"),
        }
        assert!(mount(c"nearwire-none").is_err());
    }
}
