//! The software of an emulated host: a kernel, busybox, the programs under test, and the init that ties them together.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cpio::Archive;
use super::elf::loaded_part;
use super::memory_file::MemoryFile;
use super::{EmulatedHostError, StockKernel};

const INIT: &[u8] = include_bytes!("../../emulated-host/init");

/// What exported files and the commands that follow them call of a distribution. There is no boot loader to tell and no
/// daemon to reload.
const TOOLS: [(&str, &[u8]); 4] = [
    ("/bin/systemctl", include_bytes!("../../emulated-host/systemctl")),
    ("/bin/systemd-tmpfiles", include_bytes!("../../emulated-host/systemd-tmpfiles")),
    ("/bin/update-grub", b"#!/bin/sh\n"),
    ("/bin/udevadm", b"#!/bin/sh\n"),
];

/// What every distribution mounts beside /proc and /dev.
const MOUNTS: &[u8] = b"\
sysfs /sys sysfs defaults 0 0
tmpfs /run tmpfs defaults 0 0
tmpfs /tmp tmpfs defaults 0 0
devpts /dev/pts devpts defaults 0 0
tmpfs /dev/shm tmpfs defaults 0 0
hugetlbfs /dev/hugepages hugetlbfs defaults 0 0
cgroup2 /sys/fs/cgroup cgroup2 defaults 0 0
securityfs /sys/kernel/security securityfs defaults 0 0
debugfs /sys/kernel/debug debugfs defaults 0 0
bpf /sys/fs/bpf bpf defaults 0 0
";

/// Where programs of the system lie that a user's PATH may lack.
const SYSTEM_DIRECTORIES: [&str; 4] = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// Size of the disk; what is never written takes no memory.
const DISK_BYTES: u64 = 64 << 20;

/// The software of an emulated host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSystem {
    /// What `crates/lab/emulated-host/fetch-kernel` made: `vmlinux` and `lib/modules/`.
    pub kernel_directory: PathBuf,
    /// Programs of this machine that the host shall have, with the libraries they need, as `/bin/NAME`.
    pub programs: Vec<PathBuf>,
    /// Files of this machine, or directories with all in them, and the path of each inside. Of programs and libraries those
    /// that they are loaded with come along.
    pub files: Vec<(PathBuf, String)>,
}

impl HostSystem {
    /// The kernel of Debian 13, which `make test` puts into cargo's target directory with others, and these programs. `tmpdir` is
    /// `env!("CARGO_TARGET_TMPDIR")`, which tests have.
    #[must_use]
    pub fn of_target(tmpdir: &str, programs: &[&str]) -> Self {
        let target = Path::new(tmpdir).parent().unwrap_or(Path::new("/"));
        let kernel_directory = target.join("emulated-host").join(StockKernel::Linux6_12.version());
        Self { kernel_directory, programs: programs.iter().map(PathBuf::from).collect(), files: Vec::new() }
    }

    /// The same with another kernel.
    #[must_use]
    pub fn with_kernel(self, kernel: StockKernel) -> Self {
        Self { kernel_directory: self.kernel_directory.with_file_name(kernel.version()), ..self }
    }

    /// The kernel to boot.
    pub(super) fn kernel(&self) -> Result<PathBuf, EmulatedHostError> {
        Self::kernel_in(&self.kernel_directory)
            .ok_or_else(|| EmulatedHostError::MissingKernel { directory: self.kernel_directory.clone() })
    }

    /// The kernel in a directory: `vmlinux`, or `vmlinuz`, which unpacks itself.
    #[must_use]
    pub fn kernel_in(directory: &Path) -> Option<PathBuf> {
        ["vmlinux", "vmlinuz"].into_iter().map(|name| directory.join(name)).find(|path| path.is_file())
    }

    /// The first root file system, in memory.
    pub(super) fn initramfs(&self) -> Result<MemoryFile, EmulatedHostError> {
        let mut archive = Archive::default();
        for directory in [
            "/bin",
            "/lib64",
            "/usr/lib",
            "/usr/local",
            "/dev",
            "/proc",
            "/sys",
            "/run",
            "/tmp",
            "/disk",
            "/var/lib",
            "/root",
        ] {
            archive.directory(directory);
        }
        for directory in
            ["/etc/sysctl.d", "/etc/tmpfiles.d", "/etc/modprobe.d", "/etc/systemd/system", "/etc/default", "/boot"]
        {
            archive.directory(directory);
        }
        for (link, target) in [("/sbin", "bin"), ("/usr/bin", "../bin"), ("/usr/sbin", "../bin")] {
            archive.symlink(link, target);
        }
        // tcpdump reads files as a user of its own.
        archive.file("/etc/passwd", 0o644, b"root:x:0:0:root:/root:/bin/sh\ntcpdump:x:100:100::/:/bin/sh\n");
        archive.file("/etc/group", 0o644, b"root:x:0:\ntcpdump:x:100:\n");
        archive.file("/etc/fstab", 0o644, MOUNTS);
        archive.file("/init", 0o755, INIT);
        for (path, script) in TOOLS {
            archive.file(path, 0o755, script);
        }
        let busybox = program("busybox", "busybox-static")?;
        archive.file("/bin/busybox", 0o755, &read(&busybox)?);
        // A kernel may have everything built in.
        let modules = self.kernel_directory.join("lib");
        if modules.is_dir() {
            add_tree(&mut archive, &modules, "/lib")?;
        }
        self.add_programs(&mut archive)?;
        let bytes = archive.finish();
        MemoryFile::with_bytes("initramfs", &bytes).map_err(|source| prepare("keep the initramfs in memory", source))
    }

    fn add_programs(&self, archive: &mut Archive) -> Result<(), EmulatedHostError> {
        let mut libraries = BTreeMap::new();
        for program in &self.programs {
            let name = program.file_name().unwrap_or_default().to_string_lossy();
            archive.file(&format!("/bin/{name}"), 0o755, &loaded_part(read(program)?));
            for library in libraries_of(program)? {
                libraries.insert(library.clone(), read(Path::new(&library))?);
            }
        }
        for (from, to) in &self.files {
            if from.is_dir() {
                add_tree(archive, from, to)?;
                continue;
            }
            archive.file(to, 0o755, &loaded_part(read(from)?));
            for library in libraries_of(from)? {
                libraries.insert(library.clone(), read(Path::new(&library))?);
            }
        }
        for (path, bytes) in libraries {
            archive.file(&path, 0o755, &loaded_part(bytes));
        }
        Ok(())
    }
}

/// A disk with an empty ext4, in memory.
pub(super) fn empty_disk() -> Result<MemoryFile, EmulatedHostError> {
    let mke2fs = program("mke2fs", "e2fsprogs")?;
    let failed = |source| prepare("make a file system on the host's disk", source);
    let disk = MemoryFile::with_length("disk", DISK_BYTES).map_err(failed)?;
    let mut command = Command::new(mke2fs);
    let output = command.args(["-q", "-F", "-t", "ext4", "-m", "0"]).arg(disk.path()).output().map_err(failed)?;
    if output.status.success() {
        return Ok(disk);
    }
    Err(failed(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())))
}

/// The path of a program of this machine, which is in a package.
pub(super) fn program(name: &str, package: &'static str) -> Result<PathBuf, EmulatedHostError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(SYSTEM_DIRECTORIES.map(PathBuf::from));
    let mut found = directories.map(|directory| directory.join(name)).filter(|path| path.is_file());
    found.next().ok_or_else(|| EmulatedHostError::MissingProgram { program: name.to_owned(), package })
}

/// The same of one that is called like its package, or that every distribution has.
pub(super) fn program_anywhere(name: &str) -> Result<PathBuf, EmulatedHostError> {
    program(name, "it")
}

/// The paths of the libraries that a program is loaded with, the loader among them, as ldd(1) gives them.
fn libraries_of(program: &Path) -> Result<Vec<String>, EmulatedHostError> {
    let output = Command::new("ldd").arg(program).output();
    let output = output.map_err(|source| prepare(format!("ldd {}", program.display()), source))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x..)`, `/lib64/ld-linux-x86-64.so.2 (0x..)`; none for a static program.
    let paths = text.lines().filter_map(|line| line.split_ascii_whitespace().find(|word| word.starts_with('/')));
    Ok(paths.map(str::to_owned).collect())
}

fn add_tree(archive: &mut Archive, from: &Path, to: &str) -> Result<(), EmulatedHostError> {
    let failed = |source| prepare(format!("read {}", from.display()), source);
    let mut entries = fs::read_dir(from).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(failed)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, to) = (entry.path(), format!("{to}/{}", entry.file_name().to_string_lossy()));
        if path.is_dir() {
            add_tree(archive, &path, &to)?;
        } else {
            archive.file(&to, 0o644, &read(&path)?);
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, EmulatedHostError> {
    fs::read(path).map_err(|source| prepare(format!("read {}", path.display()), source))
}

pub(super) fn prepare(action: impl Into<String>, source: impl Into<io::Error>) -> EmulatedHostError {
    EmulatedHostError::Prepare { action: action.into(), source: source.into() }
}
