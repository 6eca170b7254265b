//! ELF files without what nobody loads.

/// Offsets in the header and in a program header of a 64-bit file, in bytes (elf(5)).
const PROGRAM_HEADERS_AT: usize = 0x20;
const SECTION_HEADERS_AT: usize = 0x28;
const PROGRAM_HEADER_BYTES_AT: usize = 0x36;
const PROGRAM_HEADER_COUNT_AT: usize = 0x38;
const SECTION_HEADER_COUNT_AT: usize = 0x3c;
const SEGMENT_OFFSET_AT: usize = 0x08;
const SEGMENT_FILE_BYTES_AT: usize = 0x20;

/// `\x7fELF`, 64 bits, least byte first.
const MAGIC: [u8; 6] = [0x7f, b'E', b'L', b'F', 2, 1];

/// A program without its sections, which debuggers and linkers read and the kernel and the loader do not. Of a debug build
/// that is nine tenths. What is no such file is given back whole.
pub(super) fn loaded_part(mut file: Vec<u8>) -> Vec<u8> {
    let Some(end) = end_of_segments(&file).filter(|end| *end <= file.len()) else {
        return file;
    };
    file.truncate(end);
    file[SECTION_HEADERS_AT..SECTION_HEADERS_AT + 8].fill(0);
    // The number of section headers and which of them has the names.
    file[SECTION_HEADER_COUNT_AT..SECTION_HEADER_COUNT_AT + 4].fill(0);
    file
}

fn end_of_segments(file: &[u8]) -> Option<usize> {
    if !file.starts_with(&MAGIC) {
        return None;
    }
    let headers_at = number(file, PROGRAM_HEADERS_AT, 8)?;
    let bytes_each = number(file, PROGRAM_HEADER_BYTES_AT, 2)?;
    let count = number(file, PROGRAM_HEADER_COUNT_AT, 2)?;
    let mut end = headers_at.checked_add(bytes_each.checked_mul(count)?)?;
    for index in 0..count {
        let header = headers_at + index * bytes_each;
        let offset = number(file, header + SEGMENT_OFFSET_AT, 8)?;
        end = end.max(offset.checked_add(number(file, header + SEGMENT_FILE_BYTES_AT, 8)?)?);
    }
    Some(end)
}

fn number(file: &[u8], at: usize, length_bytes: usize) -> Option<usize> {
    let bytes = file.get(at..at.checked_add(length_bytes)?)?;
    usize::try_from(bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::loaded_part;

    #[test]
    fn own_program_without_sections_is_smaller_and_runs() {
        let whole = fs::read(std::env::current_exe().unwrap()).unwrap();
        let part = loaded_part(whole.clone());
        // How much smaller depends on the profile's debug information.
        assert!(part.len() < whole.len(), "{} of {}", part.len(), whole.len());
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        fs::write(&program, part).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let output = Command::new(&program).arg("--list").output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("own_program_without_sections"));
    }

    #[test]
    fn what_is_no_program_stays_as_it_is() {
        let whole = fs::read(std::env::current_exe().unwrap()).unwrap();
        for file in [&b"#!/bin/sh\n"[..], &[], &whole[..0x30], &whole[..0x100]] {
            assert_eq!(loaded_part(file.to_vec()), file);
        }
    }
}
