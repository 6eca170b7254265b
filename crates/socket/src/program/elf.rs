//! What an ELF file says of itself, as far as preloading goes. Every read is bounded, whatever the file says.
//!
//! Sources: elf(5), `include/uapi/linux/elf.h`, the Go linker's `cmd/link/internal/ld/elf.go` (section and note names).

use std::fs::File;
use std::os::unix::fs::FileExt;

use thiserror::Error;

use super::io_uring;

/// The first bytes of every ELF file.
pub const MAGIC: [u8; 4] = *b"\x7fELF";

const PROGRAM_HEADERS_MAX: usize = 1024;
const SECTIONS_MAX: usize = 65_536;
const DYNAMIC_BYTES_MAX: usize = 64 * 1024;
const NOTE_BYTES_MAX: usize = 4096;
const NAME_BYTES_MAX: usize = 256;
const NAMES_BYTES_MAX: usize = 1024 * 1024;
const INTERPRETER_BYTES_MAX: usize = 4096;

const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const PF_X: u32 = 1;
/// `EM_X86_64` or `EM_AARCH64`.
const THIS_MACHINE: u16 = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
const LIBURING: &str = "liburing.so";
/// Text is looked through in parts that overlap by the most that belongs together. Longer ones take the allocator to mmap(2): each page
/// of each part is then one that the process did not have, and the kernel takes longer for these than for the reading.
const TEXT_PART_BYTES: usize = 64 << 10;
const TEXT_OVERLAP_BYTES: usize = 2 * io_uring::INSTRUCTION_WITHIN_BYTES;
const TEXT_BYTES_MAX: u64 = 1 << 30;
/// Sections that the Go linker writes.
const GO_SECTIONS: [&[u8]; 2] = [b".go.buildinfo", b".note.go.buildid"];
/// The owner of the Go linker's note, which is left where sections are stripped.
const GO_NOTE: &[u8] = b"Go\0\0";

/// Bytes that can be read at any place.
pub trait Source {
    /// Exactly `length` bytes at `at`; `None` where there are not as many.
    fn bytes(&self, at: u64, length: usize) -> Option<Vec<u8>>;
}

impl Source for [u8] {
    fn bytes(&self, at: u64, length: usize) -> Option<Vec<u8>> {
        let at = usize::try_from(at).ok()?;
        self.get(at..at.checked_add(length)?).map(<[u8]>::to_vec)
    }
}

impl Source for File {
    fn bytes(&self, at: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        at.checked_add(length as u64).filter(|end| i64::try_from(*end).is_ok())?;
        self.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    }
}

/// What breaks the rules of ELF.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ElfError {
    /// Too short, or not ELF at all.
    #[error("it has no ELF header")]
    Header,
    /// A class or byte order that there is not.
    #[error("its ELF header has class {class} and data encoding {encoding}")]
    Class {
        /// `EI_CLASS`.
        class: u8,
        /// `EI_DATA`.
        encoding: u8,
    },
    /// An object file, a core dump.
    #[error("it is of ELF type {found}, neither a program nor a shared library")]
    Type {
        /// `e_type`.
        found: u16,
    },
    /// Program headers outside of the file, or more than any linker makes.
    #[error("its program headers are not in the file")]
    ProgramHeaders,
}

/// Facts about an ELF program or library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElfFacts {
    /// 32 or 64.
    pub bits: u8,
    /// Whether its numbers begin with the low byte.
    pub is_little_endian: bool,
    /// `e_machine`.
    pub machine: u16,
    /// The dynamic linker that it asks the kernel for.
    pub interpreter: Option<String>,
    /// The libraries it needs.
    pub needed: Vec<String>,
    /// Built by Go.
    pub is_go: bool,
    /// It sets up io_uring by code of its own, or needs the library that does; known of programs for this machine, not of libraries.
    pub uses_io_uring: bool,
}

impl ElfFacts {
    /// Reads them.
    ///
    /// # Errors
    /// The headers are broken. What is broken behind them counts as not there.
    pub fn read(source: &(impl Source + ?Sized)) -> Result<ElfFacts, ElfError> {
        let (facts, segments) = ElfFacts::with_segments(source)?;
        let has_code = || facts.is_for_this_machine() && has_text(source, &segments, io_uring::is_set_up_by);
        let uses_io_uring = facts.needed.iter().any(|name| name.starts_with(LIBURING)) || has_code();
        Ok(ElfFacts { uses_io_uring, ..facts })
    }

    /// The same of a library that is to be preloaded: its code, whose reading takes milliseconds, is not looked at.
    ///
    /// # Errors
    /// As of [`Self::read`].
    pub fn of_library(source: &(impl Source + ?Sized)) -> Result<ElfFacts, ElfError> {
        ElfFacts::with_segments(source).map(|(facts, _)| facts)
    }

    /// All but what the code says.
    fn with_segments(source: &(impl Source + ?Sized)) -> Result<(ElfFacts, Vec<Segment>), ElfError> {
        let header = Header::read(source)?;
        let segments = header.segments(source)?;
        let interpreter = segments.iter().find(|segment| segment.kind == PT_INTERP).and_then(|segment| {
            let bytes = source.bytes(segment.offset, segment.length(INTERPRETER_BYTES_MAX))?;
            Some(text_until_nul(&bytes))
        });
        let facts = ElfFacts {
            uses_io_uring: false,
            bits: if header.is_64 { 64 } else { 32 },
            is_little_endian: header.is_little_endian,
            machine: header.machine,
            needed: header.needed(source, &segments),
            is_go: segments.iter().any(|segment| has_go_note(&header, source, segment))
                || header.has_go_section(source),
            interpreter,
        };
        Ok((facts, segments))
    }

    fn is_for_this_machine(&self) -> bool {
        (self.bits, self.is_little_endian, self.machine) == (64, cfg!(target_endian = "little"), THIS_MACHINE)
    }

    /// The machine in words, as in "64-bit x86-64".
    #[must_use]
    pub fn machine_words(&self) -> String {
        // include/uapi/linux/elf-em.h
        const MACHINES: [(u16, &str); 9] = [
            (3, "x86"),
            (8, "MIPS"),
            (20, "PowerPC"),
            (21, "PowerPC64"),
            (22, "S390"),
            (40, "ARM"),
            (62, "x86-64"),
            (183, "AArch64"),
            (243, "RISC-V"),
        ];
        let name = MACHINES.iter().find(|(number, _)| *number == self.machine);
        let name = name.map_or_else(|| format!("machine {}", self.machine), |(_, name)| (*name).to_owned());
        format!("{}-bit {name}{}", self.bits, if self.is_little_endian { "" } else { " (big endian)" })
    }
}

struct Header {
    is_64: bool,
    is_little_endian: bool,
    machine: u16,
    segments_at: u64,
    segment_bytes: usize,
    segments: usize,
    sections_at: u64,
    section_bytes: usize,
    sections: usize,
    names_section: usize,
}

struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    file_bytes: u64,
}

impl Segment {
    fn length(&self, most: usize) -> usize {
        usize::try_from(self.file_bytes).unwrap_or(most).min(most)
    }
}

impl Header {
    fn read(source: &(impl Source + ?Sized)) -> Result<Header, ElfError> {
        let ident = source.bytes(0, 16).filter(|ident| ident.starts_with(&MAGIC)).ok_or(ElfError::Header)?;
        let (class, encoding) = (ident[4], ident[5]);
        if !matches!((class, encoding), (1 | 2, 1 | 2)) {
            return Err(ElfError::Class { class, encoding });
        }
        let (is_64, is_little_endian) = (class == 2, encoding == 1);
        let bytes = source.bytes(0, if is_64 { 64 } else { 52 }).ok_or(ElfError::Header)?;
        let numbers = Numbers { bytes: &bytes, is_64, is_little_endian };
        // The fields behind the three addresses (e_entry, e_phoff, e_shoff) and e_flags.
        let behind = if is_64 { 52 } else { 40 };
        let half = |number: usize| numbers.half(behind + 2 * number).map(usize::from).ok_or(ElfError::Header);
        let found = numbers.half(16).ok_or(ElfError::Header)?;
        if !matches!(found, ET_EXEC | ET_DYN) {
            return Err(ElfError::Type { found });
        }
        Ok(Header {
            is_64,
            is_little_endian,
            machine: numbers.half(18).ok_or(ElfError::Header)?,
            segments_at: numbers.address(if is_64 { 32 } else { 28 }).ok_or(ElfError::Header)?,
            sections_at: numbers.address(if is_64 { 40 } else { 32 }).ok_or(ElfError::Header)?,
            segment_bytes: half(1)?,
            segments: half(2)?,
            section_bytes: half(3)?,
            sections: half(4)?,
            names_section: half(5)?,
        })
    }

    fn numbers<'a>(&self, bytes: &'a [u8]) -> Numbers<'a> {
        Numbers { bytes, is_64: self.is_64, is_little_endian: self.is_little_endian }
    }

    fn segments(&self, source: &(impl Source + ?Sized)) -> Result<Vec<Segment>, ElfError> {
        let least_bytes = if self.is_64 { 56 } else { 32 };
        if self.segments == 0 {
            return Ok(Vec::new());
        }
        if self.segments > PROGRAM_HEADERS_MAX || self.segment_bytes < least_bytes {
            return Err(ElfError::ProgramHeaders);
        }
        let bytes =
            source.bytes(self.segments_at, self.segments * self.segment_bytes).ok_or(ElfError::ProgramHeaders)?;
        let segment = |bytes| {
            let numbers = self.numbers(bytes);
            let [offset, address, file_bytes] = if self.is_64 { [8, 16, 32] } else { [4, 8, 16] };
            Some(Segment {
                kind: numbers.word(0)?,
                flags: numbers.word(if self.is_64 { 4 } else { 24 })?,
                offset: numbers.address(offset)?,
                address: numbers.address(address)?,
                file_bytes: numbers.address(file_bytes)?,
            })
        };
        bytes.chunks_exact(self.segment_bytes).map(segment).collect::<Option<_>>().ok_or(ElfError::ProgramHeaders)
    }

    fn needed(&self, source: &(impl Source + ?Sized), segments: &[Segment]) -> Vec<String> {
        let dynamic = segments.iter().find(|segment| segment.kind == PT_DYNAMIC);
        let bytes = dynamic.and_then(|segment| source.bytes(segment.offset, segment.length(DYNAMIC_BYTES_MAX)));
        let bytes = bytes.unwrap_or_default();
        let half = if self.is_64 { 8 } else { 4 };
        let entries = bytes.chunks_exact(2 * half).map_while(|entry| {
            let numbers = self.numbers(entry);
            Some((numbers.address(0)?, numbers.address(half)?)).filter(|(tag, _)| *tag != DT_NULL)
        });
        let entries: Vec<(u64, u64)> = entries.collect();
        let names = entries.iter().find(|(tag, _)| *tag == DT_STRTAB).and_then(|(_, address)| {
            // Addresses are those in memory; a segment says where in the file they are.
            let holds = |segment: &&Segment| {
                segment.kind == PT_LOAD
                    && address.checked_sub(segment.address).is_some_and(|within| within < segment.file_bytes)
            };
            let segment = segments.iter().find(holds)?;
            segment.offset.checked_add(address - segment.address)
        });
        let Some(names) = names else { return Vec::new() };
        let name = |(_, offset): &(u64, u64)| text_at(source, names.checked_add(*offset)?);
        entries.iter().filter(|(tag, _)| *tag == DT_NEEDED).filter_map(name).collect()
    }

    fn has_go_section(&self, source: &(impl Source + ?Sized)) -> bool {
        let least_bytes = if self.is_64 { 64 } else { 40 };
        if self.sections_at == 0 || self.section_bytes < least_bytes || self.sections > SECTIONS_MAX {
            return false;
        }
        let Some(bytes) = source.bytes(self.sections_at, self.sections * self.section_bytes) else { return false };
        let sections: Vec<Numbers<'_>> =
            bytes.chunks_exact(self.section_bytes).map(|bytes| self.numbers(bytes)).collect();
        let names = sections.get(self.names_section).and_then(|section| {
            let [offset, length] = if self.is_64 { [24, 32] } else { [16, 20] };
            let length = usize::try_from(section.address(length)?).ok()?.min(NAMES_BYTES_MAX);
            source.bytes(section.address(offset)?, length)
        });
        let names = names.unwrap_or_default();
        sections.iter().any(|section| {
            let name = section.word(0).and_then(|at| names.get(at as usize..)).unwrap_or_default();
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            GO_SECTIONS.contains(&name)
        })
    }
}

/// Whether a part of the text is what is looked for.
fn has_text(source: &(impl Source + ?Sized), segments: &[Segment], is_wanted: impl Fn(&[u8]) -> bool) -> bool {
    segments.iter().filter(|segment| segment.kind == PT_LOAD && segment.flags & PF_X != 0).any(|segment| {
        let length = segment.file_bytes.min(TEXT_BYTES_MAX);
        let mut starts = (0..length).step_by(TEXT_PART_BYTES - TEXT_OVERLAP_BYTES);
        starts.any(|start| {
            let part = (length - start).min(TEXT_PART_BYTES as u64) as usize;
            let bytes = segment.offset.checked_add(start).and_then(|at| source.bytes(at, part));
            bytes.is_some_and(|bytes| is_wanted(&bytes))
        })
    })
}

/// Whether the first note of a segment is the Go linker's: name length, length, type 4, name.
fn has_go_note(header: &Header, source: &(impl Source + ?Sized), segment: &Segment) -> bool {
    if segment.kind != PT_NOTE {
        return false;
    }
    let bytes = source.bytes(segment.offset, segment.length(NOTE_BYTES_MAX)).unwrap_or_default();
    let word = |at| header.numbers(&bytes).word(at);
    word(0) == Some(4) && word(8) == Some(4) && bytes.get(12..16) == Some(GO_NOTE)
}

/// A text that ends with NUL, or is cut where it is longer than names are.
fn text_at(source: &(impl Source + ?Sized), at: u64) -> Option<String> {
    // Near the end of the file there are fewer bytes than a name may have.
    let lengths = [NAME_BYTES_MAX, 64, 24, 12, 6, 2];
    lengths.iter().find_map(|length| source.bytes(at, *length)).map(|bytes| text_until_nul(&bytes))
}

fn text_until_nul(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

/// Numbers of the file's byte order and size.
struct Numbers<'a> {
    bytes: &'a [u8],
    is_64: bool,
    is_little_endian: bool,
}

impl Numbers<'_> {
    fn half(&self, at: usize) -> Option<u16> {
        let bytes = *self.bytes.get(at..)?.first_chunk()?;
        Some(if self.is_little_endian { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    }

    fn word(&self, at: usize) -> Option<u32> {
        let bytes = *self.bytes.get(at..)?.first_chunk()?;
        Some(if self.is_little_endian { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    /// An address, offset or size: as long as the class says.
    fn address(&self, at: usize) -> Option<u64> {
        if !self.is_64 {
            return self.word(at).map(u64::from);
        }
        let bytes = *self.bytes.get(at..)?.first_chunk()?;
        Some(if self.is_little_endian { u64::from_le_bytes(bytes) } else { u64::from_be_bytes(bytes) })
    }
}
