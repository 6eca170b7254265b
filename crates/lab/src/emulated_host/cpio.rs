//! Archives in the format that the kernel unpacks as its first root file system.

use std::collections::BTreeSet;

/// `S_IFDIR`, `S_IFREG` and `S_IFLNK` of inode(7).
const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;

/// An archive in memory, format "newc": a header of 110 hexadecimal characters, the name, the bytes, each padded to four
/// bytes. Source: `Documentation/driver-api/early-userspace/buffer-format.rst`.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    directories: BTreeSet<String>,
    entries: u32,
}

impl Archive {
    /// Adds a directory and those above it. Paths are absolute.
    pub(super) fn directory(&mut self, path: &str) {
        let path = path.trim_matches('/');
        if path.is_empty() || self.directories.contains(path) {
            return;
        }
        self.parent(path);
        self.directories.insert(path.to_owned());
        self.entry(path, DIRECTORY | 0o755, &[]);
    }

    /// Adds a file with these permissions, and the directories above it.
    pub(super) fn file(&mut self, path: &str, permissions: u32, bytes: &[u8]) {
        let path = path.trim_matches('/');
        self.parent(path);
        self.entry(path, FILE | permissions, bytes);
    }

    /// Adds a symbolic link, and the directories above it.
    pub(super) fn symlink(&mut self, path: &str, target: &str) {
        let path = path.trim_matches('/');
        self.parent(path);
        self.entry(path, SYMLINK | 0o777, target.as_bytes());
    }

    /// The bytes of the whole archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn parent(&mut self, path: &str) {
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.directory(parent);
        }
    }

    fn entry(&mut self, name: &str, mode: u32, bytes: &[u8]) {
        self.entries += 1;
        let (inode, links) = (self.entries, 1);
        // uid, gid, time; four device numbers; the checksum, which this format does not use.
        let fields = [inode, mode, 0, 0, links, 0, bytes.len() as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(bytes);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::Archive;

    /// Name, mode and bytes of each entry, read as the kernel reads them (`init/initramfs.c`).
    fn entries(archive: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut entries = Vec::new();
        let mut at = 0;
        loop {
            let field = |index: usize| {
                let from = at + 6 + 8 * index;
                u32::from_str_radix(std::str::from_utf8(&archive[from..from + 8]).unwrap(), 16).unwrap()
            };
            assert_eq!(&archive[at..at + 6], b"070701");
            let (mode, length, name_length) = (field(1), field(6) as usize, field(11) as usize);
            let name = String::from_utf8(archive[at + 110..at + 110 + name_length - 1].to_vec()).unwrap();
            let from = (at + 110 + name_length).next_multiple_of(4);
            if name == "TRAILER!!!" {
                assert_eq!(from, archive.len());
                return entries;
            }
            entries.push((name, mode, archive[from..from + length].to_vec()));
            at = (from + length).next_multiple_of(4);
        }
    }

    #[test]
    fn file_in_new_directories_comes_after_each_of_them_once() {
        let mut archive = Archive::default();
        archive.file("/usr/bin/one", 0o755, b"12345");
        archive.file("/usr/bin/two", 0o644, b"");
        archive.symlink("/usr/sbin", "bin");
        let entries = entries(&archive.finish());
        let found: Vec<_> =
            entries.iter().map(|(name, mode, bytes)| (name.as_str(), *mode, bytes.as_slice())).collect();
        let expected: [(&str, u32, &[u8]); 5] = [
            ("usr", 0o040_755, b""),
            ("usr/bin", 0o040_755, b""),
            ("usr/bin/one", 0o100_755, b"12345"),
            ("usr/bin/two", 0o100_644, b""),
            ("usr/sbin", 0o120_777, b"bin"),
        ];
        assert_eq!(found, expected);
    }
}
