//! From entries to a file.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tar::{Builder, EntryType, Header};

use super::layout::Entry;
use crate::root::unpack_zstd;

/// A tar archive of the entries, packed with zstd.
pub(super) fn pack(entries: &BTreeMap<String, Entry>) -> io::Result<Vec<u8>> {
    let mut archive = Builder::new(Vec::new());
    for (path, entry) in entries {
        let path = path.trim_start_matches('/');
        let mut header = Header::new_gnu();
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_mode(if matches!(entry, Entry::File(_)) { 0o644 } else { 0o755 });
        header.set_size(0);
        match entry {
            Entry::Directory => {
                header.set_entry_type(EntryType::Directory);
                archive.append_data(&mut header, format!("{path}/"), io::empty())?;
            }
            Entry::File(bytes) => {
                header.set_entry_type(EntryType::Regular);
                header.set_size(bytes.len() as u64);
                archive.append_data(&mut header, path, bytes.as_slice())?;
            }
            Entry::Link(target) => {
                header.set_entry_type(EntryType::Symlink);
                archive.append_link(&mut header, path, target)?;
            }
        }
    }
    let archive = archive.into_inner()?;
    let packed = compress_to_vec(archive.as_slice(), CompressionLevel::Fastest);
    // A snapshot that cannot be opened is noticed when its host is out of reach.
    if unpack_zstd(&packed)? == archive {
        Ok(packed)
    } else {
        Err(io::Error::other("zstd does not unpack to the same"))
    }
}

/// Puts bytes at a path: into a file beside it, which takes the name when all is on disk.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = beside(path)?;
    let written = write(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // It may never have been made.
        let _ = fs::remove_file(&beside);
    }
    written
}

fn beside(path: &Path) -> io::Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name"));
    };
    let name = format!(".{}.{}.part", name.to_string_lossy(), std::process::id());
    Ok(path.with_file_name(name))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file: File = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
