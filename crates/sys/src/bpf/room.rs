//! Room for a program that is bound to an interface.
//!
//! The verifier replaces instructions by several others (look-ups in maps, reads of the context). A program that thereby
//! outgrows the pages which it was given when it was loaded is moved. Of a program that is bound to an interface
//! (`BPF_F_XDP_DEV_BOUND_ONLY`) the kernel keeps the address from before, and uses it when the interface goes: memory that has
//! been freed, which ends in an oops with the lock of all interfaces held. Seen on Linux 6.12 and 6.18.
//!
//! So such a program is loaded with as many instructions again behind a jump that is always taken. The verifier takes them away before
//! it replaces anything, and the pages stay. Blinding of constants (`net.core.bpf_jit_harden` 2) copies the whole program, for
//! which no room helps: there no program is bound.
//!
//! Source: `kernel/bpf/core.c` (`bpf_prog_realloc`, `bpf_jit_blind_constants`), `kernel/bpf/offload.c`
//! (`__bpf_prog_dev_bound_init`), `kernel/bpf/verifier.c` (`opt_remove_dead_code`, before `convert_ctx_accesses`).

use std::io;
use std::os::fd::AsFd;

use super::call::{Instruction, load_patiently, program_info, program_to_load};

/// `r0 = 0`
const CLEAR: Instruction = Instruction { code: 0xb7, registers: 0, offset: 0, immediate: 0 };
/// `exit`
const EXIT: Instruction = Instruction { code: 0x95, registers: 0, offset: 0, immediate: 0 };

/// The program with room to grow to twice its length without another page.
///
/// # Errors
/// `E2BIG` for a program of more instructions than a jump reaches.
pub(super) fn with_room(instructions: &[Instruction]) -> io::Result<Vec<Instruction>> {
    let offset = i16::try_from(instructions.len()).map_err(|_| io::Error::from_raw_os_error(libc::E2BIG))?;
    // `if r0 == 0 goto offset`: not a plain jump, behind which the verifier would refuse what is never reached.
    let skip = Instruction { code: 0x15, registers: 0, offset, immediate: 0 };
    let room = std::iter::repeat_n(CLEAR, instructions.len());
    Ok([CLEAR, skip].into_iter().chain(room).chain(instructions.iter().copied()).collect())
}

/// Whether the kernel blinds the constants of this process's programs: a constant is then three machine instructions. Asked of
/// the compiler, as the setting cannot be read in a network namespace other than the first.
///
/// # Errors
/// A program could not be loaded or looked at.
pub(super) fn constants_are_blinded() -> io::Result<bool> {
    const CONSTANTS: u32 = 8;
    /// The longest unblinded: two instructions of aarch64. The shortest blinded: 16 bytes on x86-64, against 3 of a copy.
    const PLAIN_MOST_BYTES: u32 = 8;
    let constant = |number: u32| Instruction { immediate: (0x1234_5678 + number).cast_signed(), ..CLEAR };
    // `r0 = r1`
    let copy = Instruction { code: 0xbf, registers: 0x10, ..CLEAR };
    let ending = [CLEAR, EXIT];
    let constants: Vec<_> = (0..CONSTANTS).map(constant).chain(ending).collect();
    let copies: Vec<_> = (0..CONSTANTS).map(|_| copy).chain(ending).collect();
    let more_bytes = compiled_bytes(&constants)?.saturating_sub(compiled_bytes(&copies)?);
    Ok(more_bytes > CONSTANTS * PLAIN_MOST_BYTES)
}

/// Length of the machine code; 0 where programs are interpreted.
fn compiled_bytes(instructions: &[Instruction]) -> io::Result<u32> {
    let program = load_patiently(&mut program_to_load("nw_blinding", instructions))?;
    program_info(program.as_fd()).map(|info| info.jited_prog_len_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::tests::with_bpf;
    use crate::bpf::{Map, MapKind, Program};

    /// Bytes of the pages of a program, as `fdinfo` of its descriptor says.
    fn pages_bytes(program: &Program) -> usize {
        use std::os::fd::AsRawFd;
        let path = format!("/proc/self/fdinfo/{}", program.as_fd().as_raw_fd());
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().find_map(|line| line.strip_prefix("memlock:")).unwrap().trim().parse().unwrap()
    }

    /// Look-ups in an array, of which the verifier makes some eight instructions each, until the end.
    fn growing(map: &Map) -> Vec<Instruction> {
        use std::os::fd::AsRawFd;
        let descriptor = map.as_fd().as_raw_fd();
        let look_up = [
            Instruction { code: 0x62, registers: 0x0a, offset: -4, immediate: 0 }, // *(u32 *)(r10 - 4) = 0
            Instruction { code: 0xbf, registers: 0xa2, offset: 0, immediate: 0 },  // r2 = r10
            Instruction { code: 0x07, registers: 0x02, offset: 0, immediate: -4 }, // r2 += -4
            Instruction { code: 0x18, registers: 0x11, offset: 0, immediate: descriptor }, // r1 = map
            Instruction { code: 0, registers: 0, offset: 0, immediate: 0 },
            Instruction { code: 0x85, registers: 0, offset: 0, immediate: 1 }, // r0 = lookup(r1, r2)
        ];
        std::iter::repeat_n(look_up, 80).flatten().chain([CLEAR, EXIT]).collect()
    }

    #[test]
    fn program_with_room_stays_in_the_pages_it_was_loaded_into() {
        with_bpf(|| {
            const INSTRUCTION_BYTES: usize = 8;
            let map = Map::create(MapKind::Array, "array", 4, 8, 1).unwrap();
            let instructions = growing(&map);
            let without = Program::load_xdp("grows", &instructions).unwrap();
            assert!(pages_bytes(&without) > (instructions.len() * INSTRUCTION_BYTES).next_multiple_of(4096));
            let roomy = with_room(&instructions).unwrap();
            let with = Program::load_xdp("grows", &roomy).unwrap();
            // The header of a program and its instructions, in whole pages.
            let loaded_bytes = roomy.len() * INSTRUCTION_BYTES;
            assert_eq!(pages_bytes(&with), (loaded_bytes + 128).next_multiple_of(4096));
        });
    }

    #[test]
    fn constants_are_blinded_as_the_setting_says() {
        with_bpf(|| {
            // Of the first network namespace only.
            let Ok(setting) = std::fs::read_to_string("/proc/sys/net/core/bpf_jit_harden") else { return };
            assert_eq!(constants_are_blinded().unwrap(), setting.trim() == "2");
        });
    }
}
