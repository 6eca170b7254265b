//! Programs that use io_uring: its requests go to the kernel past every function of the C library, so a socket that the
//! library serves would get nothing that is asked for that way. Sockets of such a program are the kernel's.
//!
//! | the program sets a ring up by | we learn by |
//! |---|---|
//! | `syscall(SYS_io_uring_setup)` | the symbol; what is accelerated then is given back |
//! | an instruction in its own text or a library's (liburing) | that text, looked through when a UDP socket is opened |
//!
//! A library that is loaded when sockets are accelerated already is found when the next one is opened. Code that is made at
//! run time is not found.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use libc::{c_int, dl_phdr_info, size_t};

use crate::state;

/// The program uses it, or could.
static IS_USED: AtomicBool = AtomicBool::new(false);
/// Objects that the dynamic linker had loaded at the last look, of all that it ever loaded.
static LOOKED_AT: AtomicU64 = AtomicU64::new(0);

/// Whether sockets are the kernel's for this reason.
#[inline]
pub fn is_used() -> bool {
    IS_USED.load(Relaxed)
}

/// A ring was set up, or is used.
#[cold]
pub fn set_up() {
    if !IS_USED.swap(true, Relaxed) && state::is_in_use() {
        state::with_each(|sockets| sockets.io_uring_used());
    }
}

/// Before a socket is followed: looks through the text of what was loaded since the last time.
pub fn look_for() {
    if is_used() {
        return;
    }
    let mut look = Look { before: LOOKED_AT.load(Relaxed), loaded: 0, finds: false };
    // SAFETY: the function takes what it is given for what it is, and the value lives until the call is over.
    unsafe { libc::dl_iterate_phdr(Some(object), (&raw mut look).cast()) };
    LOOKED_AT.store(look.loaded, Relaxed);
    if look.finds {
        set_up();
    }
}

struct Look {
    before: u64,
    loaded: u64,
    finds: bool,
}

/// One loaded object. Not 0: enough is known.
unsafe extern "C" fn object(info: *mut dl_phdr_info, _: size_t, look: *mut c_void) -> c_int {
    // SAFETY: the dynamic linker gives a live structure, and what `look_for` gave it.
    let (info, look) = unsafe { (&*info, &mut *look.cast::<Look>()) };
    look.loaded = info.dlpi_adds;
    if look.loaded == look.before {
        return 1;
    }
    // SAFETY: the object's own table of segments.
    let segments = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    for segment in segments {
        let is_text = segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_X != 0;
        if !is_text || segment.p_flags & libc::PF_R == 0 {
            continue;
        }
        let start = info.dlpi_addr.wrapping_add(segment.p_vaddr) as usize;
        let text = start..start.wrapping_add(segment.p_filesz as usize);
        // This library asks for calls by number too.
        if text.contains(&(object as *const () as usize)) {
            continue;
        }
        // SAFETY: a segment that is loaded and can be read, which the dynamic linker keeps while this runs.
        let text = unsafe { std::slice::from_raw_parts(start as *const u8, text.len()) };
        look.finds |= sets_up_rings(text);
    }
    0
}

/// How many bytes behind the number of a call its instruction is looked for: arguments are put into registers in between.
const INSTRUCTION_WITHIN_BYTES: usize = 64;

/// Whether code makes the system call: its number is put into the register that says which, and the instruction follows.
#[cfg(target_arch = "x86_64")]
fn sets_up_rings(text: &[u8]) -> bool {
    const NUMBER: [u8; 4] = (libc::SYS_io_uring_setup as u32).to_le_bytes();
    const MOV_EAX: [u8; 1] = [0xb8];
    const MOV_RAX: [u8; 3] = [0x48, 0xc7, 0xc0];
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    places_of(&NUMBER, text).any(|at| {
        let behind = text.get(at + NUMBER.len()..).unwrap_or_default();
        let behind = behind.get(..INSTRUCTION_WITHIN_BYTES).unwrap_or(behind);
        (text[..at].ends_with(&MOV_EAX) || text[..at].ends_with(&MOV_RAX))
            && behind.windows(SYSCALL.len()).any(|code| code == SYSCALL)
    })
}

#[cfg(target_arch = "aarch64")]
fn sets_up_rings(text: &[u8]) -> bool {
    /// `mov w8, #425`, and with the bit below `mov x8, #425`.
    const MOV_W8: u32 = 0x5280_0000 | (libc::SYS_io_uring_setup as u32) << 5 | 8;
    const WIDE: u32 = 1 << 31;
    const SVC_0: u32 = 0xd400_0001;
    places_of(&MOV_W8.to_le_bytes()[..3], text).any(|at| {
        let code = |at: usize| text.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let mut behind = (at + 4..at + 4 + INSTRUCTION_WITHIN_BYTES).step_by(4);
        at % 4 == 0
            && code(at).is_some_and(|found| found & !WIDE == MOV_W8)
            && behind.any(|next| code(next) == Some(SVC_0))
    })
}

/// Where some bytes are.
fn places_of<'t>(wanted: &'t [u8], text: &'t [u8]) -> impl Iterator<Item = usize> + 't {
    let mut from = 0;
    std::iter::from_fn(move || {
        let rest = text.get(from..)?;
        // SAFETY: both are live slices of the lengths given. Programs have tens of MB of text, which the C library looks
        // through several times as fast as a loop would.
        let found = unsafe { libc::memmem(rest.as_ptr().cast(), rest.len(), wanted.as_ptr().cast(), wanted.len()) };
        if found.is_null() {
            return None;
        }
        let at = found.addr() - text.as_ptr().addr();
        from = at + 1;
        Some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn code_that_makes_the_call_is_found_and_other_uses_of_its_number_are_not() {
        // mov $0x1a9,%eax; mov %rsi,%rdi; syscall
        let direct = [0x90, 0xb8, 0xa9, 1, 0, 0, 0x48, 0x89, 0xf7, 0x0f, 0x05, 0xc3];
        assert!(sets_up_rings(&direct));
        // mov $0x1a9,%rax; syscall
        assert!(sets_up_rings(&[0x48, 0xc7, 0xc0, 0xa9, 1, 0, 0, 0x0f, 0x05]));
        // mov $0x1a9,%edi; call: by the C library.
        assert!(!sets_up_rings(&[0xbf, 0xa9, 1, 0, 0, 0xe8, 0, 0, 0, 0, 0x0f, 0x05]));
        let far = [&direct[..6], &[0x90; 100], &direct[9..]].concat();
        assert!(!sets_up_rings(&far));
        assert!(!sets_up_rings(&direct[..8]) && !sets_up_rings(&[]));
    }

    #[test]
    fn programs_without_io_uring_that_are_looked_through_are_not_said_to_use_it() {
        look_for();
        assert!(!is_used() && LOOKED_AT.load(Relaxed) > 0);
    }
}
