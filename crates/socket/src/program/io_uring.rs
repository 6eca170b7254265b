//! Whether code sets up io_uring by an instruction of its own, and not by a function of the C library.
//!
//! Programs do so by liburing, which has the instruction in its own text, or by code of that kind in theirs.

use memchr::memmem;

/// How many bytes behind the number of a call its instruction is looked for: arguments are put into registers in between.
pub(super) const INSTRUCTION_WITHIN_BYTES: usize = 64;

/// Whether code for this machine makes the system call: its number is put into the register that says which, and the
/// instruction follows.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn is_set_up_by(text: &[u8]) -> bool {
    const NUMBER: [u8; 4] = (libc::SYS_io_uring_setup as u32).to_le_bytes();
    const MOV_EAX: [u8; 1] = [0xb8];
    const MOV_RAX: [u8; 3] = [0x48, 0xc7, 0xc0];
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    memmem::find_iter(text, &NUMBER).any(|at| {
        let behind = &text[at..];
        let behind = behind.get(..NUMBER.len() + INSTRUCTION_WITHIN_BYTES).unwrap_or(behind);
        (text[..at].ends_with(&MOV_EAX) || text[..at].ends_with(&MOV_RAX))
            && behind.windows(SYSCALL.len()).any(|code| code == SYSCALL)
    })
}

/// Whether code for this machine makes the system call: its number is put into the register that says which, and the
/// instruction follows.
#[cfg(target_arch = "aarch64")]
#[must_use]
pub fn is_set_up_by(text: &[u8]) -> bool {
    /// `mov w8, #425`, and with the bit below `mov x8, #425`.
    const MOV_W8: u32 = 0x5280_0000 | (libc::SYS_io_uring_setup as u32) << 5 | 8;
    const WIDE: u32 = 1 << 31;
    const SVC_0: u32 = 0xd400_0001;
    // Which of the two it is stands in the last byte.
    memmem::find_iter(text, &MOV_W8.to_le_bytes()[..3]).any(|at| {
        let code = |at: usize| text.get(at..at + 4)?.first_chunk().map(|code| u32::from_le_bytes(*code));
        let mut behind = (at + 4..at + 4 + INSTRUCTION_WITHIN_BYTES).step_by(4);
        at % 4 == 0
            && code(at).is_some_and(|found| found & !WIDE == MOV_W8)
            && behind.any(|next| code(next) == Some(SVC_0))
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
        assert!(is_set_up_by(&direct));
        assert!(is_set_up_by(&[&[0xa9; 3][..], &direct].concat()));
        // mov $0x1a9,%rax; syscall
        assert!(is_set_up_by(&[0x48, 0xc7, 0xc0, 0xa9, 1, 0, 0, 0x0f, 0x05]));
        // mov $0x1a9,%edi; call: by the C library.
        assert!(!is_set_up_by(&[0xbf, 0xa9, 1, 0, 0, 0xe8, 0, 0, 0, 0, 0x0f, 0x05]));
        let far = [&direct[..6], &[0x90; 100], &direct[9..]].concat();
        assert!(!is_set_up_by(&far));
        assert!(!is_set_up_by(&direct[..8]) && !is_set_up_by(&[]) && !is_set_up_by(&[0xa9]));
    }
}
