//! What takes capabilities to be made: maps, programs and links, as fds.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use super::attr::{self, Command, zeroed};
use super::call::{BPF_XDP, Instruction, bpf_fd, fd_u32, load_patiently, program_to_load};
use super::room;

const BPF_F_NO_PREALLOC: u32 = 1;
const BPF_F_MMAPABLE: u32 = 1 << 10;
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
const BPF_F_XDP_DEV_BOUND_ONLY: u32 = 1 << 6;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// Enough for the verifier's words on a program of a few dozen instructions, and on any of ours.
const VERIFIER_LOG_BYTES: [usize; 2] = [64 * 1024, 4 * 1024 * 1024];

/// Why an fd could not be made.
#[derive(Debug)]
pub struct Refusal {
    /// What the kernel said.
    pub source: io::Error,
    /// What the verifier said of a program; empty otherwise.
    pub log: String,
}

impl From<io::Error> for Refusal {
    fn from(source: io::Error) -> Refusal {
        Refusal { source, log: String::new() }
    }
}

/// What a map is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapKind {
    /// Values by key bytes.
    Hash,
    /// The same, where an entry takes memory only while it is there (`BPF_F_NO_PREALLOC`).
    SparseHash,
    /// Values by index.
    Array,
    /// The same, which a process can map (`BPF_F_MMAPABLE`, Linux 5.5): [`crate::shared_words::SharedWords::of_array`].
    SharedArray,
    /// AF_XDP sockets by index.
    Xskmap,
}

/// A map to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapSpec<'a> {
    /// What it is.
    pub kind: MapKind,
    /// Its name, for bpftool; 15 bytes count.
    pub name: &'a str,
    /// Length of a key, bytes.
    pub key_size_bytes: u32,
    /// Length of a value, bytes.
    pub value_size_bytes: u32,
    /// How many fit.
    pub max_entries: u32,
}

pub(crate) fn make_map(spec: &MapSpec<'_>) -> io::Result<OwnedFd> {
    let mut attr: attr::MapCreate = zeroed();
    attr.map_type = match spec.kind {
        MapKind::Hash | MapKind::SparseHash => 1,
        MapKind::Array | MapKind::SharedArray => 2,
        MapKind::Xskmap => 17,
    };
    attr.key_size = spec.key_size_bytes;
    attr.value_size = spec.value_size_bytes;
    attr.max_entries = spec.max_entries;
    attr.map_flags = match spec.kind {
        MapKind::SparseHash => BPF_F_NO_PREALLOC,
        MapKind::SharedArray => BPF_F_MMAPABLE,
        MapKind::Hash | MapKind::Array | MapKind::Xskmap => 0,
    };
    attr.map_name = attr::object_name(spec.name);
    bpf_fd(Command::MapCreate, &mut attr)
}

/// What an XDP program is loaded for, beyond what all are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// The interface whose driver it asks about frames (`Documentation/networking/xdp-rx-metadata.rst`), by index, in the calling
    /// thread's network namespace. It may be attached there in the driver and nowhere else, and the kernel runs it on no packet of
    /// [`Program::test_run`](super::Program::test_run).
    pub bound_to: Option<u32>,
    /// It can do with frames that lie in several buffers (`BPF_F_XDP_HAS_FRAGS`, Linux 5.18), of which it sees the first. Without, a
    /// driver refuses it at an MTU that one buffer does not hold.
    pub multi_buffer: bool,
}

pub(crate) fn make_program(name: &str, instructions: &[Instruction], options: LoadOptions) -> Result<OwnedFd, Refusal> {
    let prog_flags = if options.multi_buffer { BPF_F_XDP_HAS_FRAGS } else { 0 };
    let Some(ifindex) = options.bound_to else {
        return load(attr::ProgLoad { prog_flags, ..program_to_load(name, instructions) });
    };
    let unreached = |source| Refusal { source, log: String::new() };
    if room::constants_are_blinded().map_err(unreached)? {
        return Err(Refusal { source: io::ErrorKind::Unsupported.into(), log: BLINDED.to_owned() });
    }
    let instructions = room::with_room(instructions).map_err(unreached)?;
    let mut attr = program_to_load(name, &instructions);
    (attr.prog_flags, attr.prog_ifindex) = (prog_flags | BPF_F_XDP_DEV_BOUND_ONLY, ifindex);
    load(attr)
}

/// Why no program is bound to an interface, where `room` says so.
const BLINDED: &str =
    "not asked: net.core.bpf_jit_harden makes the kernel move the program, and it crashes when the interface goes";

fn load(mut attr: attr::ProgLoad) -> Result<OwnedFd, Refusal> {
    load_patiently(&mut attr).map_err(|source| Refusal { source, log: verifier_log(attr) })
}

/// Loads again with a log: loading without one first keeps the good case cheap.
///
/// A log that is too long loses its beginning since Linux 6.4 and its end before: the end is what matters, so there is a
/// second size.
fn verifier_log(mut attr: attr::ProgLoad) -> String {
    let mut log = Vec::new();
    for size_bytes in VERIFIER_LOG_BYTES {
        log = vec![0u8; size_bytes];
        attr.log_level = 1;
        attr.log_size = size_bytes as u32;
        attr.log_buf = log.as_mut_ptr() as u64;
        let outcome = bpf_fd(Command::ProgLoad, &mut attr);
        // Any other outcome is the first one's.
        if !outcome.is_err_and(|error| error.raw_os_error() == Some(libc::ENOSPC)) {
            break;
        }
    }
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).trim_end().to_owned()
}

/// Where in the receive path an XDP program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpAttach {
    /// In the driver (`XDP_FLAGS_DRV_MODE`).
    Driver,
    /// On socket buffers, any driver (`XDP_FLAGS_SKB_MODE`).
    Skb,
}

pub(crate) fn make_link(program: BorrowedFd<'_>, ifindex: u32, attach: XdpAttach) -> io::Result<OwnedFd> {
    let mut attr: attr::LinkCreate = zeroed();
    attr.prog_fd = fd_u32(program);
    attr.target_ifindex = ifindex;
    attr.attach_type = BPF_XDP;
    attr.flags = match attach {
        XdpAttach::Driver => XDP_FLAGS_DRV_MODE,
        XdpAttach::Skb => XDP_FLAGS_SKB_MODE,
    };
    bpf_fd(Command::LinkCreate, &mut attr)
}
