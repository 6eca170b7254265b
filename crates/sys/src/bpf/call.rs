//! bpf(2) itself, and the load of a program.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::attr::{self, Attr, Command, zeroed};

const BPF_PROG_TYPE_XDP: u32 = 6;
/// `enum bpf_attach_type`.
pub(super) const BPF_XDP: u32 = 37;

/// One instruction, as in `struct bpf_insn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// Operation code.
    pub code: u8,
    /// Destination register in the low four bits, source register in the high four.
    pub registers: u8,
    /// Signed offset: of a memory access in bytes, of a jump in instructions.
    pub offset: i16,
    /// Signed constant.
    pub immediate: i32,
}

pub(super) fn bpf<A: Attr>(command: Command, attr: &mut A) -> io::Result<i32> {
    // SAFETY: `attr` is a live, zero-initialised prefix of `union bpf_attr` for this command (`Attr`'s promise) and
    // the size passed is its size. Pointers in it are set by the callers below to buffers that outlive the call,
    // with their lengths beside them.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command as libc::c_long, std::ptr::from_mut(attr), size_of::<A>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

pub(super) fn bpf_fd<A: Attr>(command: Command, attr: &mut A) -> io::Result<OwnedFd> {
    let fd = bpf(command, attr)?;
    // SAFETY: the command (create, load) returned a new descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(super) fn fd_u32(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

/// The instructions are to outlive the request.
pub(super) fn program_to_load(name: &str, instructions: &[Instruction]) -> attr::ProgLoad {
    let mut attr: attr::ProgLoad = zeroed();
    attr.prog_type = BPF_PROG_TYPE_XDP;
    attr.insn_cnt = instructions.len() as u32;
    attr.insns = instructions.as_ptr() as u64;
    attr.license = c"Dual MIT/GPL".as_ptr() as u64;
    attr.prog_name = attr::object_name(name);
    attr.expected_attach_type = BPF_XDP;
    attr
}

/// A signal that is pending ends the verifier with EAGAIN (`do_check` in kernel/bpf/verifier.c): a program with interval
/// timers would have no filter. As often as libbpf tries (`PROG_LOAD_ATTEMPTS`).
pub(super) fn load_patiently(attr: &mut attr::ProgLoad) -> io::Result<OwnedFd> {
    const ATTEMPTS: u32 = 5;
    for _ in 1..ATTEMPTS {
        match bpf_fd(Command::ProgLoad, attr) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            loaded => return loaded,
        }
    }
    bpf_fd(Command::ProgLoad, attr)
}

pub(super) fn program_info(program: BorrowedFd<'_>) -> io::Result<attr::ProgInfo> {
    let mut info = attr::ProgInfo::default();
    let mut attr: attr::ObjInfo = zeroed();
    attr.bpf_fd = fd_u32(program);
    attr.info_len = size_of::<attr::ProgInfo>() as u32;
    attr.info = (&raw mut info) as u64;
    bpf(Command::ObjGetInfoByFd, &mut attr)?;
    Ok(info)
}
