//! The kernel's type information (BTF), as far as a program needs it: the numbers of functions, which
//! it calls by them, and whether a structure has a member, which tells what a kernel does of which no call can ask.
//!
//! The types are one after the other without an index, so the n-th is found by walking over all before it. Half a hundred
//! thousand take under a millisecond; reading the file of 5 MiB takes longer. So it is asked once, by whoever needs it.
//!
//! Source: `Documentation/bpf/btf.rst`, `include/uapi/linux/btf.h`.

use std::fs;
use std::io;

const PATH: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
const VERSION: u8 = 1;
/// `struct btf_header` up to `str_len`.
const HEADER_BYTES: usize = 24;
/// `struct btf_type`.
const TYPE_BYTES: usize = 12;
const KIND_STRUCTURE: u32 = 4;
const KIND_FUNCTION: u32 = 12;
/// `struct btf_member`.
const MEMBER_BYTES: usize = 12;

/// The number of a function of the running kernel, as an instruction that calls it has it. `None`: the kernel has no such
/// function, or none that tells its type. Not of a module: those have files of their own.
///
/// # Errors
/// `ENOENT` where the kernel was built without type information, or whatever reading the file said.
pub fn kernel_function(name: &str) -> io::Result<Option<u32>> {
    Ok(function_id(&fs::read(PATH)?, name))
}

/// Whether a structure of the running kernel has a member of this name. `None`: the kernel has no such structure, or none that
/// tells its type.
///
/// # Errors
/// As [`kernel_function`].
pub fn kernel_structure_has(structure: &str, member: &str) -> io::Result<Option<bool>> {
    Ok(structure_has(&fs::read(PATH)?, structure, member))
}

/// The same of the types of a BTF file.
#[must_use]
pub fn structure_has(btf: &[u8], structure: &str, member: &str) -> Option<bool> {
    let (types, strings) = sections(btf)?;
    let structure_at = offset_of(strings, structure)?;
    let member_at = offset_of(strings, member);
    let mut rest = types;
    loop {
        let (name_of_type, info) = (u32_at(rest, 0)?, u32_at(rest, 4)?);
        let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        if (kind, name_of_type) == (KIND_STRUCTURE, structure_at) {
            let name_of = |number: usize| u32_at(rest, TYPE_BYTES + number * MEMBER_BYTES);
            return Some((0..count).any(|number| name_of(number).is_some() && name_of(number) == member_at));
        }
        rest = rest.get(TYPE_BYTES + bytes_behind(kind, count)?..)?;
    }
}

/// The number of a function among the types of a BTF file. `None`: it is not among them, or the file is not one, or has kinds of
/// types that are not known here, behind which nothing can be found.
#[must_use]
pub fn function_id(btf: &[u8], name: &str) -> Option<u32> {
    let (types, strings) = sections(btf)?;
    let name_at = offset_of(strings, name)?;
    let mut rest = types;
    // 0 is void, which is not in the file.
    for id in 1.. {
        let (name_of_type, info) = (u32_at(rest, 0)?, u32_at(rest, 4)?);
        let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        if (kind, name_of_type) == (KIND_FUNCTION, name_at) {
            return Some(id);
        }
        rest = rest.get(TYPE_BYTES + bytes_behind(kind, count)?..)?;
    }
    None
}

/// Types and names.
fn sections(btf: &[u8]) -> Option<(&[u8], &[u8])> {
    let magic = u16::from_ne_bytes(btf.first_chunk().copied()?);
    if magic != MAGIC || *btf.get(2)? != VERSION {
        return None;
    }
    let header_bytes = u32_at(btf, 4)? as usize;
    let behind = btf.get(header_bytes.max(HEADER_BYTES)..)?;
    let section = |at: usize| {
        let (start, len_bytes) = (u32_at(btf, at)? as usize, u32_at(btf, at + 4)? as usize);
        behind.get(start..start.checked_add(len_bytes)?)
    };
    Some((section(8)?, section(16)?))
}

/// Where a name stands: each does once.
fn offset_of(strings: &[u8], name: &str) -> Option<u32> {
    let mut at = 0;
    for found in strings.split(|&byte| byte == 0) {
        if found == name.as_bytes() {
            return u32::try_from(at).ok();
        }
        at += found.len() + 1;
    }
    None
}

/// What follows a type of a kind, bytes; `None` for a kind that is not known.
fn bytes_behind(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        // An integer's bits, a variable's linkage, what a tag is of.
        1 | 14 | 17 => 4,
        // An array's element, index and length.
        3 => 12,
        // Members of structures, unions and sections, and values of 64 bits.
        4 | 5 | 15 | 19 => 12 * count,
        // Values of enumerations, parameters.
        6 | 13 => 8 * count,
        // Pointers and what else is about one other type; numbers with a fraction.
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..)?.first_chunk().copied()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with an integer, a structure of one member, and two functions.
    fn small() -> Vec<u8> {
        let strings = b"\0int\0first\0second\0member\0";
        let kind = |kind: u32, count: u32| kind << 24 | count;
        let types: [u32; 19] = [
            1,
            kind(1, 0),
            4,
            32, // int
            0,
            kind(4, 1),
            4,
            18,
            1,
            0, // struct { int member; }
            5,
            kind(12, 0),
            1, // first
            11,
            kind(12, 0),
            1, // second
            1,
            kind(7, 0),
            0, // a declaration, so that the last is not what is looked for
        ];
        let types = types.map(u32::to_ne_bytes);
        let types = types.as_flattened();
        let numbers = [24, 0, types.len() as u32, types.len() as u32, strings.len() as u32].map(u32::to_ne_bytes);
        let head = [0xeb9f_u16.to_ne_bytes(), [1, 0]];
        [head.as_flattened(), numbers.as_flattened(), types, strings].concat()
    }

    #[test]
    fn function_looked_for_is_found_by_its_place() {
        assert_eq!(function_id(&small(), "first"), Some(3));
        assert_eq!(function_id(&small(), "second"), Some(4));
    }

    #[test]
    fn member_looked_for_is_found_in_its_structure_only() {
        let mut named = small();
        // The structure gets the name of the first function.
        let at = 24 + 4 * 4;
        named[at..at + 4].copy_from_slice(&5_u32.to_ne_bytes());
        assert_eq!(structure_has(&named, "first", "member"), Some(true));
        assert_eq!(structure_has(&named, "first", "second"), Some(false));
        assert_eq!(structure_has(&named, "first", "absent"), Some(false));
        assert_eq!(structure_has(&named, "second", "member"), None);
    }

    #[test]
    fn other_things_looked_for_are_no_functions() {
        for name in ["int", "member", "firs", "irst", "third", ""] {
            assert_eq!(function_id(&small(), name), None, "{name}");
        }
    }

    #[test]
    fn file_cut_anywhere_or_with_any_byte_changed_never_panics() {
        let whole = small();
        for length in 0..whole.len() {
            assert_eq!(function_id(&whole[..length], "absent"), None);
            let _ = function_id(&whole[..length], "second");
            let _ = structure_has(&whole[..length], "", "member");
        }
        for at in 0..whole.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut broken = whole.clone();
                broken[at] = byte;
                let _ = function_id(&broken, "second");
            }
        }
    }

    #[test]
    fn running_kernel_asked_knows_its_functions() {
        let Ok(btf) = fs::read(PATH) else {
            println!("SKIP this kernel tells no types");
            return;
        };
        assert_eq!(structure_has(&btf, "xsk_buff_pool", "umem"), Some(true));
        println!("lock in xsk_buff_pool: {:?}", structure_has(&btf, "xsk_buff_pool", "rx_lock"));
        let id = function_id(&btf, "bpf_xdp_metadata_rx_timestamp");
        println!("bpf_xdp_metadata_rx_timestamp: {id:?}");
        // In every kernel since long before its types were told.
        assert!(function_id(&btf, "netif_receive_skb").is_some());
        assert_eq!(function_id(&btf, "nearwire_no_such_function"), None);
        assert_eq!(kernel_function("netif_receive_skb").unwrap(), function_id(&btf, "netif_receive_skb"));
        for length in (0..btf.len()).step_by(btf.len() / 100) {
            let _ = function_id(&btf[..length], "netif_receive_skb");
        }
    }
}
