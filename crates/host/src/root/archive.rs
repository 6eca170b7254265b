//! Reading a tar archive into memory, whoever made it.
//!
//! Formats: POSIX.1-2017 `pax` (ustar headers, `x` and `g` records), GNU tar (`L` and `K` records).
//! What packs it is told by its first bytes, not by its name.

mod packing;

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use rustix::io::Errno;
use tar::{EntryType, Header, PaxExtensions};

use super::FILE_BYTES_MAX;
use super::error::ArchiveError;
use super::memory::{MemoryTree, Node};

/// Longest unpacked archive, bytes: reports of large hosts have some hundred MB, nearly all of it
/// logs.
const UNPACKED_BYTES_MAX: u64 = 1 << 30;
/// Most names. A directory with one name in it takes 400 bytes of memory, a file less. A host of 1024 CPUs has 100 000
/// names of CPUs and interrupts.
const NAMES_MAX: usize = 1 << 18;
/// Letters of names and bytes of files that are kept.
const KEPT_BYTES_MAX: u64 = 48 << 20;
/// No setting is in a longer file of the distribution: policies of SELinux and databases of hardware have tens of MB.
const DISTRIBUTION_BYTES_MAX: u64 = 1 << 20;
/// Longest record with a long name or with attributes.
const RECORD_BYTES_MAX: u64 = 64 << 10;
/// Most zeros that fill up an archive: tools fill up 10 KiB, or as much as a tape wants.
const BEHIND_BYTES_MAX: u64 = 1 << 20;
/// `PATH_MAX` of `include/uapi/linux/limits.h`.
const PATH_BYTES_MAX: usize = 4096;
const BLOCK_BYTES: usize = 512;

/// The directories at the top of a host that settings are read from. Others are passed over: a
/// report has logs of hundreds of MB.
const WANTED: [&str; 11] =
    ["proc", "sys", "boot", "etc", "run", "dev", "lib", "usr", "nearwire", "lib64", "sos_commands"];
/// Below them what no setting is read from and reports of large hosts have a hundred thousand names of; of the outputs of
/// commands only those about processors, interfaces, chronyd, units and the kernel are read.
const PASSED_OVER: [&str; 6] = [
    "/sys/kernel/debug/tracing/",
    "/sys/kernel/tracing/",
    "/sys/kernel/slab/",
    "/usr/share/",
    "/usr/include/",
    "/sos_commands/",
];
const NOT_PASSED_OVER: [&str; 8] = [
    "/sos_commands/processor/",
    "/sos_commands/chrony/",
    "/sos_commands/networking/ethtool_",
    "/sos_commands/networking/ip_-",
    "/sos_commands/kernel/sysctl_-a",
    "/sos_commands/kernel/dmesg",
    "/sos_commands/systemd/systemctl_list-unit",
    "/sys/kernel/tracing/current_tracer",
];
/// A host is found by these.
const MARKS: [&str; 2] = ["proc", "sys"];
/// hwloc and sos put the host below one directory, OpenShift's gatherers below two.
const DEPTH_MAX: usize = 2;

/// Reads the archive at a path.
pub(super) fn read(path: &Path) -> Result<MemoryTree, ArchiveError> {
    let file = File::open(path).map_err(|source| ArchiveError::Open { source })?;
    let kind = file.metadata().map_err(|source| ArchiveError::Open { source })?;
    if !kind.is_file() {
        return Err(ArchiveError::NotAnArchive);
    }
    read_from(BufReader::new(file))
}

/// Reads an archive.
pub(super) fn read_from(source: impl io::BufRead) -> Result<MemoryTree, ArchiveError> {
    let mut unpacker = Unpacker::new(packing::unpack(source)?);
    unpacker.run()?;
    let mut tree = unpacker.tree;
    let depth = u32::try_from(DEPTH_MAX).unwrap_or(0);
    if tree.descend_to(&MARKS, depth) { Ok(tree) } else { Err(ArchiveError::NoHost) }
}

/// Unpacks what this program packed.
pub(crate) fn unpack_zstd(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    packing::Zstd::new(packed).read_to_end(&mut unpacked)?;
    Ok(unpacked)
}

struct Unpacker<R> {
    source: R,
    at_bytes: u64,
    tree: MemoryTree,
    kept_bytes: u64,
}

/// What records before an entry say about it.
#[derive(Default)]
struct Ahead {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size_bytes: Option<u64>,
}

impl<R: Read> Unpacker<R> {
    fn new(source: R) -> Self {
        Self { source, at_bytes: 0, tree: MemoryTree::new(), kept_bytes: 0 }
    }

    fn run(&mut self) -> Result<(), ArchiveError> {
        let mut ahead = Ahead::default();
        while let Some(header) = self.header()? {
            let declared = header.entry_size().map_err(|_| self.damaged("an odd size"))?;
            match header.entry_type() {
                EntryType::GNULongName => ahead.name = Some(self.record(declared)?),
                EntryType::GNULongLink => ahead.link = Some(self.record(declared)?),
                EntryType::XHeader => {
                    let record = self.record(declared)?;
                    self.extensions(&record, &mut ahead)?;
                }
                EntryType::XGlobalHeader => {
                    self.record(declared)?;
                }
                kind => {
                    let ahead = std::mem::take(&mut ahead);
                    self.entry(&header, kind, declared, ahead)?;
                }
            }
        }
        // What packs the archive may have a check sum at its very end.
        let rest = io::copy(&mut (&mut self.source).take(BEHIND_BYTES_MAX + 1), &mut io::sink());
        match rest.map_err(|source| ArchiveError::Read { source })? {
            0..=BEHIND_BYTES_MAX => Ok(()),
            _ => Err(ArchiveError::TooLarge { what: "bytes behind its end", limit: BEHIND_BYTES_MAX }),
        }
    }

    fn entry(&mut self, header: &Header, kind: EntryType, declared: u64, ahead: Ahead) -> Result<(), ArchiveError> {
        let name = ahead.name.unwrap_or_else(|| header.path_bytes().into_owned());
        let name = String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned();
        let link = ahead.link.or_else(|| header.link_name_bytes().map(|link| link.into_owned()));
        let link = String::from_utf8_lossy(&link.unwrap_or_default()).trim_end_matches('\0').to_owned();
        // Links and directories have no data, whatever their header says.
        let has_data = matches!(kind, EntryType::Regular | EntryType::Continuous);
        let size_bytes = if has_data { ahead.size_bytes.unwrap_or(declared) } else { 0 };
        if name.len().max(link.len()) > PATH_BYTES_MAX {
            return Err(self.damaged("a name longer than a path can be"));
        }
        if leaves(&name) {
            return Err(ArchiveError::Escape { entry: name });
        }
        self.check_room_for(padded(size_bytes))?;
        if !is_wanted(&name) || (size_bytes > DISTRIBUTION_BYTES_MAX && is_of_distribution(&name)) {
            return self.skip(padded(size_bytes));
        }
        self.keep((name.len() + link.len()) as u64)?;
        let put = match kind {
            EntryType::Directory => self.tree.insert(&name, Node::Directory(Default::default())).map(drop),
            EntryType::Symlink => self.tree.insert(&name, Node::Link(link.as_str().into())).map(drop),
            // One to what is not kept, or not in the archive, is not there.
            EntryType::Link if leaves(&link) => Ok(()),
            EntryType::Link => self.tree.link_hard(name.trim_matches('/').trim_start_matches("./"), &link),
            EntryType::Char | EntryType::Block | EntryType::Fifo => self.tree.insert(&name, Node::Special).map(drop),
            EntryType::Regular | EntryType::Continuous => {
                // The old format marks a directory by a slash.
                let node = match self.file(size_bytes)? {
                    _ if name.ends_with('/') => Node::Directory(Default::default()),
                    bytes => Node::File(bytes.into()),
                };
                self.tree.insert(&name, node).map(drop)
            }
            _ => return Err(self.damaged("an entry of a kind that no copy of a host has")),
        };
        if self.tree.count() > NAMES_MAX {
            return Err(ArchiveError::TooLarge { what: "names", limit: NAMES_MAX as u64 });
        }
        match put {
            // What is below a file or a link has no place; the same name once more has been put in place of the earlier
            // one, as when tar unpacks. `sos` packs some files twice.
            Ok(()) | Err(Errno::NOENT | Errno::EXIST | Errno::NOTDIR) => Ok(()),
            Err(errno) => Err(ArchiveError::Read { source: errno.into() }),
        }
    }

    /// The next header, or `None` at the block of zeros that ends an archive.
    fn header(&mut self) -> Result<Option<Header>, ArchiveError> {
        let mut block = [0; BLOCK_BYTES];
        let is_first = self.at_bytes == 0;
        match self.fill(&mut block) {
            Err(ArchiveError::CutOff { .. }) if is_first => return Err(ArchiveError::NotAnArchive),
            filled => filled?,
        }
        if block.iter().all(|&byte| byte == 0) {
            return if is_first { Err(ArchiveError::NotAnArchive) } else { Ok(None) };
        }
        let header = Header::from_byte_slice(&block).clone();
        // The sum is taken with blanks in its own place.
        let sum: u32 = block
            .iter()
            .enumerate()
            .map(|(at, &byte)| u32::from(if (148..156).contains(&at) { b' ' } else { byte }))
            .sum();
        match header.cksum() {
            Ok(found) if found == sum => Ok(Some(header)),
            _ if is_first => Err(ArchiveError::NotAnArchive),
            _ => Err(self.damaged("the check sum of a header is wrong")),
        }
    }

    /// A file's bytes, as many of them as are ever read.
    fn file(&mut self, size_bytes: u64) -> Result<Vec<u8>, ArchiveError> {
        let kept_bytes = size_bytes.min(FILE_BYTES_MAX);
        self.keep(kept_bytes)?;
        let bytes = self.bytes(kept_bytes)?;
        self.skip(padded(size_bytes) - kept_bytes)?;
        Ok(bytes)
    }

    fn record(&mut self, size_bytes: u64) -> Result<Vec<u8>, ArchiveError> {
        if size_bytes > RECORD_BYTES_MAX {
            return Err(ArchiveError::TooLarge { what: "bytes in one name", limit: RECORD_BYTES_MAX });
        }
        let bytes = self.bytes(size_bytes)?;
        self.skip(padded(size_bytes) - size_bytes)?;
        Ok(bytes)
    }

    fn extensions(&self, record: &[u8], ahead: &mut Ahead) -> Result<(), ArchiveError> {
        for extension in PaxExtensions::new(record) {
            let extension = extension.map_err(|_| self.damaged("odd attributes"))?;
            let value = extension.value_bytes();
            match extension.key_bytes() {
                b"path" => ahead.name = Some(value.to_vec()),
                b"linkpath" => ahead.link = Some(value.to_vec()),
                b"size" => {
                    let size = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                    ahead.size_bytes = Some(size.ok_or_else(|| self.damaged("an odd size"))?);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn bytes(&mut self, count: u64) -> Result<Vec<u8>, ArchiveError> {
        self.take(count)?;
        let mut bytes = Vec::new();
        // Not allocated ahead: the size is only what the header says.
        let read =
            (&mut self.source).take(count).read_to_end(&mut bytes).map_err(|source| ArchiveError::Read { source })?;
        if read as u64 == count { Ok(bytes) } else { Err(self.cut_off()) }
    }

    fn skip(&mut self, count: u64) -> Result<(), ArchiveError> {
        self.take(count)?;
        let skipped = io::copy(&mut (&mut self.source).take(count), &mut io::sink());
        match skipped.map_err(|source| ArchiveError::Read { source })? {
            skipped if skipped == count => Ok(()),
            _ => Err(self.cut_off()),
        }
    }

    fn fill(&mut self, block: &mut [u8; BLOCK_BYTES]) -> Result<(), ArchiveError> {
        match self.source.read_exact(block) {
            Ok(()) => self.take(BLOCK_BYTES as u64),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(self.cut_off()),
            Err(source) => Err(ArchiveError::Read { source }),
        }
    }

    /// Counts unpacked bytes before they are read.
    fn take(&mut self, count: u64) -> Result<(), ArchiveError> {
        self.check_room_for(count)?;
        self.at_bytes += count;
        Ok(())
    }

    fn check_room_for(&self, count: u64) -> Result<(), ArchiveError> {
        if self.at_bytes.saturating_add(count) > UNPACKED_BYTES_MAX {
            return Err(ArchiveError::TooLarge { what: "bytes when unpacked", limit: UNPACKED_BYTES_MAX });
        }
        Ok(())
    }

    fn keep(&mut self, count: u64) -> Result<(), ArchiveError> {
        self.kept_bytes = self.kept_bytes.saturating_add(count);
        if self.kept_bytes > KEPT_BYTES_MAX {
            return Err(ArchiveError::TooLarge { what: "bytes of system files", limit: KEPT_BYTES_MAX });
        }
        Ok(())
    }

    fn damaged(&self, what: &'static str) -> ArchiveError {
        ArchiveError::Damaged { at_bytes: self.at_bytes.saturating_sub(BLOCK_BYTES as u64), what }
    }

    fn cut_off(&self) -> ArchiveError {
        ArchiveError::CutOff { unpacked_bytes: self.at_bytes }
    }
}

/// A file's data fill whole blocks.
fn padded(size_bytes: u64) -> u64 {
    size_bytes.saturating_add(BLOCK_BYTES as u64 - 1) / BLOCK_BYTES as u64 * BLOCK_BYTES as u64
}

/// Whether a name leads out of the archive. One from the root of the host begins at that of the archive.
fn leaves(name: &str) -> bool {
    name.split('/').any(|part| part == "..")
}

/// Whether a name belongs to a directory that settings are read from, at any place where the host
/// may be.
fn is_wanted(name: &str) -> bool {
    let mut parts = name.split('/').filter(|part| !part.is_empty() && *part != ".");
    let path = format!("/{name}");
    let is_passed_over = PASSED_OVER.iter().any(|middle| path.contains(middle))
        && !NOT_PASSED_OVER.iter().any(|middle| path.contains(middle));
    parts.by_ref().take(DEPTH_MAX + 1).any(|part| WANTED.contains(&part)) && !is_passed_over
}

/// Whether a name is of a file that a package brought.
fn is_of_distribution(name: &str) -> bool {
    let mut parts = name.split('/').take(DEPTH_MAX + 1);
    parts.find(|part| WANTED.contains(part)).is_some_and(|top| matches!(top, "etc" | "usr" | "lib" | "lib64" | "run"))
}

#[cfg(test)]
mod tests;
