//! A small assembler for eBPF: what our XDP programs need and nothing more.
//!
//! Jumps name a [`Label`], which may be placed later; [`Assembler::finish`] fills the offsets in. Jumps go forward
//! only, so that every program ends: what the verifier would find out, [`Assembler::place`] asserts.
//!
//! Source: RFC 9669 (BPF instruction set architecture); helper numbers from `include/uapi/linux/bpf.h`.

use std::os::fd::{AsRawFd, BorrowedFd};

use nearwire_sys::bpf::Instruction;

/// A register. `R0` returns, `R1` to `R5` are arguments and lost in a call, `R6` to `R9` survive calls, `R10` points behind
/// the stack and cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// Width of a load or store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// One byte.
    Byte,
    /// Two bytes, in the byte order of the CPU.
    Half,
    /// Four bytes, in the byte order of the CPU.
    Word,
    /// Eight bytes, in the byte order of the CPU.
    Double,
}

impl Width {
    fn size(self) -> u8 {
        match self {
            Width::Byte => SIZE_BYTE,
            Width::Half => SIZE_HALF,
            Width::Word => SIZE_WORD,
            Width::Double => SIZE_DOUBLE,
        }
    }
}

/// A helper function of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum HelperCall {
    /// `bpf_map_lookup_elem(map, key)`: the address of the value, or 0.
    MapLookup = 1,
    /// `bpf_redirect_map(map, key, flags)`: the low bits of flags are the action when the key has no entry.
    RedirectMap = 51,
    /// `bpf_xdp_adjust_meta(context, bytes)`: moves the beginning of what is in front of the frame; 0, or why not.
    AdjustMeta = 54,
    /// `bpf_xdp_get_buff_len(context)`: length of the frame, in however many buffers (Linux 5.18).
    FrameLength = 188,
    /// `bpf_ktime_get_tai_ns()`: CLOCK_TAI in nanoseconds.
    TimeTai = 208,
}

/// A place in the program that jumps go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label(usize);

// Instruction classes, sources, operations and sizes of RFC 9669 sections 3 to 5.
const CLASS_LD: u8 = 0x00;
const CLASS_LDX: u8 = 0x01;
const CLASS_ST: u8 = 0x02;
const CLASS_STX: u8 = 0x03;
const CLASS_ALU: u8 = 0x04;
const CLASS_JMP: u8 = 0x05;
const CLASS_ALU64: u8 = 0x07;
const SOURCE_REGISTER: u8 = 0x08;
const MODE_MEMORY: u8 = 0x60;
const MODE_ATOMIC: u8 = 0xc0;
/// `BPF_CMPXCHG`.
const ATOMIC_COMPARE_EXCHANGE: i32 = 0xf1;
const SIZE_WORD: u8 = 0x00;
const SIZE_HALF: u8 = 0x08;
const SIZE_BYTE: u8 = 0x10;
const SIZE_DOUBLE: u8 = 0x18;
const ALU_ADD: u8 = 0x00;
const ALU_MULTIPLY: u8 = 0x20;
const ALU_DIVIDE: u8 = 0x30;
const ALU_AND: u8 = 0x50;
const ALU_SHIFT_LEFT: u8 = 0x60;
const ALU_SHIFT_RIGHT: u8 = 0x70;
const ALU_MOVE: u8 = 0xb0;
const ALU_TO_BIG_ENDIAN: u8 = 0xd8;
const JUMP_ALWAYS: u8 = 0x00;
const JUMP_EQUAL: u8 = 0x10;
const JUMP_ABOVE: u8 = 0x20;
const JUMP_NOT_EQUAL: u8 = 0x50;
const JUMP_BELOW: u8 = 0xa0;
const JUMP_CALL: u8 = 0x80;
const JUMP_EXIT: u8 = 0x90;
/// `BPF_PSEUDO_MAP_FD` as source register of a 64-bit load: the constant is a descriptor, loaded is the map.
const PSEUDO_MAP_FD: u8 = 1;
/// `BPF_PSEUDO_MAP_VALUE`: the same, loaded is the address of its first value more the second constant.
const PSEUDO_MAP_VALUE: u8 = 2;
/// `BPF_PSEUDO_KFUNC_CALL` as source register of a call: the constant is the number of a function of the kernel.
const PSEUDO_KERNEL_CALL: u8 = 2;

/// Collects instructions.
#[derive(Debug, Default)]
pub struct Assembler {
    instructions: Vec<Instruction>,
    /// Where each label was placed.
    labels: Vec<Option<usize>>,
    /// Jumps to fill in: instruction, label.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// An empty program.
    #[must_use]
    pub fn new() -> Assembler {
        Assembler::default()
    }

    /// A label to be placed later.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places `label` before the next instruction.
    ///
    /// # Panics
    /// The label has been placed already.
    pub fn place(&mut self, label: Label) -> &mut Self {
        assert!(self.labels[label.0].is_none(), "a label is placed once");
        self.labels[label.0] = Some(self.instructions.len());
        self
    }

    /// `to = constant`.
    pub fn set(&mut self, to: Register, constant: i32) -> &mut Self {
        self.push(CLASS_ALU64 | ALU_MOVE, to, Register::R0, 0, constant)
    }

    /// `to = from`.
    pub fn copy(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(CLASS_ALU64 | ALU_MOVE | SOURCE_REGISTER, to, from, 0, 0)
    }

    /// `to += constant`.
    pub fn add(&mut self, to: Register, constant: i32) -> &mut Self {
        self.push(CLASS_ALU64 | ALU_ADD, to, Register::R0, 0, constant)
    }

    /// `to += from`.
    pub fn add_register(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(CLASS_ALU64 | ALU_ADD | SOURCE_REGISTER, to, from, 0, 0)
    }

    /// `to *= constant`, sign-extended.
    pub fn multiply(&mut self, to: Register, constant: i32) -> &mut Self {
        self.push(CLASS_ALU64 | ALU_MULTIPLY, to, Register::R0, 0, constant)
    }

    /// `to /= constant`, unsigned; the constant is above 0.
    pub fn divide(&mut self, to: Register, constant: i32) -> &mut Self {
        self.push(CLASS_ALU64 | ALU_DIVIDE, to, Register::R0, 0, constant)
    }

    /// `to /= from`, unsigned; by 0 it is 0.
    pub fn divide_register(&mut self, to: Register, from: Register) -> &mut Self {
        self.push(CLASS_ALU64 | ALU_DIVIDE | SOURCE_REGISTER, to, from, 0, 0)
    }

    /// `to &= constant`, sign-extended.
    pub fn and(&mut self, to: Register, constant: i32) -> &mut Self {
        self.push(CLASS_ALU64 | ALU_AND, to, Register::R0, 0, constant)
    }

    /// `to <<= bits`.
    pub fn shift_left(&mut self, to: Register, bits: i32) -> &mut Self {
        self.push(CLASS_ALU64 | ALU_SHIFT_LEFT, to, Register::R0, 0, bits)
    }

    /// `to >>= bits`, unsigned.
    pub fn shift_right(&mut self, to: Register, bits: i32) -> &mut Self {
        self.push(CLASS_ALU64 | ALU_SHIFT_RIGHT, to, Register::R0, 0, bits)
    }

    /// Turns the low 16 bits of `to` from network order to that of the CPU, or back; the others become 0.
    ///
    /// The swap alone does that too. The verifiers of Linux 6.1 and 6.12 take its result for any number, and refuse to add it
    /// to a pointer; the mask, which changes nothing, tells them its bounds.
    pub fn swap_from_network(&mut self, to: Register) -> &mut Self {
        self.push(CLASS_ALU | ALU_TO_BIG_ENDIAN, to, Register::R0, 0, 16).and(to, 0xffff)
    }

    /// `to = *(width *)(base + offset_bytes)`.
    pub fn load(&mut self, width: Width, to: Register, base: Register, offset_bytes: i16) -> &mut Self {
        self.push(CLASS_LDX | MODE_MEMORY | width.size(), to, base, offset_bytes, 0)
    }

    /// `*(width *)(base + offset_bytes) = from`.
    pub fn store(&mut self, width: Width, base: Register, offset_bytes: i16, from: Register) -> &mut Self {
        self.push(CLASS_STX | MODE_MEMORY | width.size(), base, from, offset_bytes, 0)
    }

    /// `*(width *)(base + offset_bytes) = constant`.
    pub fn store_constant(&mut self, width: Width, base: Register, offset_bytes: i16, constant: i32) -> &mut Self {
        self.push(CLASS_ST | MODE_MEMORY | width.size(), base, Register::R0, offset_bytes, constant)
    }

    /// `*(u64 *)(base + offset_bytes) += from`, as one step for all CPUs.
    pub fn add_to_memory(&mut self, base: Register, offset_bytes: i16, from: Register) -> &mut Self {
        self.push(CLASS_STX | MODE_ATOMIC | SIZE_DOUBLE, base, from, offset_bytes, i32::from(ALU_ADD))
    }

    /// `if *(u32 *)(base + offset_bytes) == R0 { *(u32 *)(base + offset_bytes) = from }`, as one step for all CPUs. `R0` is what was there (Linux 5.12).
    pub fn exchange_word_if_equal(&mut self, base: Register, offset_bytes: i16, from: Register) -> &mut Self {
        self.push(CLASS_STX | MODE_ATOMIC | SIZE_WORD, base, from, offset_bytes, ATOMIC_COMPARE_EXCHANGE)
    }

    /// `to = constant`, all 64 bits. Takes two instruction slots.
    pub fn set_double(&mut self, to: Register, constant: u64) -> &mut Self {
        let (low, high) = ((constant as u32).cast_signed(), ((constant >> 32) as u32).cast_signed());
        self.push(CLASS_LD | SIZE_DOUBLE, to, Register::R0, 0, low);
        self.push(0, Register::R0, Register::R0, 0, high)
    }

    /// `to = map`. Takes two instruction slots.
    pub fn load_map(&mut self, to: Register, map: BorrowedFd<'_>) -> &mut Self {
        let registers = to as u8 | PSEUDO_MAP_FD << 4;
        let immediate = map.as_raw_fd();
        self.instructions.push(Instruction { code: CLASS_LD | SIZE_DOUBLE, registers, offset: 0, immediate });
        self.push(0, Register::R0, Register::R0, 0, 0)
    }

    /// `to = address of the only value of map + offset_bytes`, of an array. Takes two instruction slots.
    pub fn load_map_value(&mut self, to: Register, map: BorrowedFd<'_>, offset_bytes: i32) -> &mut Self {
        let registers = to as u8 | PSEUDO_MAP_VALUE << 4;
        let immediate = map.as_raw_fd();
        self.instructions.push(Instruction { code: CLASS_LD | SIZE_DOUBLE, registers, offset: 0, immediate });
        self.push(0, Register::R0, Register::R0, 0, offset_bytes)
    }

    /// `if left == constant goto label`.
    pub fn jump_if_equal(&mut self, left: Register, constant: i32, label: Label) -> &mut Self {
        self.jumps.push((self.instructions.len(), label));
        self.push(CLASS_JMP | JUMP_EQUAL, left, Register::R0, 0, constant)
    }

    /// `if left != constant goto label`.
    pub fn jump_if_not_equal(&mut self, left: Register, constant: i32, label: Label) -> &mut Self {
        self.jumps.push((self.instructions.len(), label));
        self.push(CLASS_JMP | JUMP_NOT_EQUAL, left, Register::R0, 0, constant)
    }

    /// `if left < constant goto label`, unsigned.
    pub fn jump_if_below(&mut self, left: Register, constant: i32, label: Label) -> &mut Self {
        self.jumps.push((self.instructions.len(), label));
        self.push(CLASS_JMP | JUMP_BELOW, left, Register::R0, 0, constant)
    }

    /// `if left > right goto label`, unsigned.
    pub fn jump_if_above(&mut self, left: Register, right: Register, label: Label) -> &mut Self {
        self.jumps.push((self.instructions.len(), label));
        self.push(CLASS_JMP | JUMP_ABOVE | SOURCE_REGISTER, left, right, 0, 0)
    }

    /// `if left == right goto label`.
    pub fn jump_if_same(&mut self, left: Register, right: Register, label: Label) -> &mut Self {
        self.jumps.push((self.instructions.len(), label));
        self.push(CLASS_JMP | JUMP_EQUAL | SOURCE_REGISTER, left, right, 0, 0)
    }

    /// `if left != right goto label`.
    pub fn jump_if_differs(&mut self, left: Register, right: Register, label: Label) -> &mut Self {
        self.jumps.push((self.instructions.len(), label));
        self.push(CLASS_JMP | JUMP_NOT_EQUAL | SOURCE_REGISTER, left, right, 0, 0)
    }

    /// `goto label`.
    pub fn jump(&mut self, label: Label) -> &mut Self {
        self.jumps.push((self.instructions.len(), label));
        self.push(CLASS_JMP | JUMP_ALWAYS, Register::R0, Register::R0, 0, 0)
    }

    /// `R0 = helper(R1, R2, R3, R4, R5)`.
    pub fn call(&mut self, helper: HelperCall) -> &mut Self {
        self.push(CLASS_JMP | JUMP_CALL, Register::R0, Register::R0, 0, helper as i32)
    }

    /// `R0 = function(R1, R2, R3, R4, R5)`, a function of the kernel by its number ([`nearwire_sys::btf`]).
    pub fn call_kernel(&mut self, function: u32) -> &mut Self {
        let registers = PSEUDO_KERNEL_CALL << 4;
        let immediate = function.cast_signed();
        self.instructions.push(Instruction { code: CLASS_JMP | JUMP_CALL, registers, offset: 0, immediate });
        self
    }

    /// `return R0`.
    pub fn exit(&mut self) -> &mut Self {
        self.push(CLASS_JMP | JUMP_EXIT, Register::R0, Register::R0, 0, 0)
    }

    fn push(&mut self, code: u8, to: Register, from: Register, offset: i16, immediate: i32) -> &mut Self {
        let registers = to as u8 | (from as u8) << 4;
        self.instructions.push(Instruction { code, registers, offset, immediate });
        self
    }

    /// The program, jumps resolved.
    ///
    /// # Panics
    /// A jump goes to a label that was not placed, or backwards.
    #[must_use]
    pub fn finish(mut self) -> Vec<Instruction> {
        for (at, label) in self.jumps {
            let target = self.labels[label.0].expect("every label jumped to is placed");
            let distance = target.checked_sub(at + 1).expect("jumps go forward only");
            self.instructions[at].offset = i16::try_from(distance).expect("programs are short");
        }
        self.instructions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jump_finished_offset_counts_from_the_next_instruction() {
        let mut program = Assembler::new();
        let end = program.label();
        program.set(Register::R0, 1).jump_if_equal(Register::R0, 1, end).set(Register::R0, 2);
        program.place(end).exit();
        let instructions = program.finish();
        assert_eq!(instructions[1], Instruction { code: 0x15, registers: 0, offset: 1, immediate: 1 });
    }

    /// Encodings of RFC 9669, worked out by hand.
    #[test]
    fn instructions_assembled_have_the_documented_bytes() {
        let mut program = Assembler::new();
        let end = program.label();
        program.load(Width::Half, Register::R5, Register::R2, 12);
        program.load(Width::Word, Register::R2, Register::R1, 16);
        program.copy(Register::R4, Register::R2).add(Register::R4, 14);
        program.jump_if_above(Register::R4, Register::R3, end).jump(end);
        program.call(HelperCall::RedirectMap).place(end).exit();
        let bytes: Vec<_> = program.finish().iter().map(|i| (i.code, i.registers, i.offset, i.immediate)).collect();
        let wanted = [
            (0x69, 0x25, 12, 0),
            (0x61, 0x12, 16, 0),
            (0xbf, 0x24, 0, 0),
            (0x07, 0x04, 0, 14),
            (0x2d, 0x34, 2, 0),
            (0x05, 0x00, 1, 0),
            (0x85, 0x00, 0, 51),
            (0x95, 0x00, 0, 0),
        ];
        assert_eq!(bytes, wanted);
    }

    #[test]
    fn instructions_on_stack_and_bits_assembled_have_the_documented_bytes() {
        let mut program = Assembler::new();
        let end = program.label();
        program.store_constant(Width::Word, Register::R10, -4, 7).store(
            Width::Double,
            Register::R10,
            -16,
            Register::R9,
        );
        program.load(Width::Byte, Register::R2, Register::R7, 14).shift_right(Register::R2, 4).and(Register::R2, 15);
        program.shift_left(Register::R2, 2).add_register(Register::R3, Register::R2).swap_from_network(Register::R4);
        program.jump_if_not_equal(Register::R2, 4, end).jump_if_below(Register::R2, 20, end);
        program.multiply(Register::R2, 3).jump_if_same(Register::R2, Register::R1, end);
        program.jump_if_differs(Register::R9, Register::R2, end);
        program.place(end).call(HelperCall::MapLookup);
        let bytes: Vec<_> = program.finish().iter().map(|i| (i.code, i.registers, i.offset, i.immediate)).collect();
        let wanted = [
            (0x62, 0x0a, -4, 7),
            (0x7b, 0x9a, -16, 0),
            (0x71, 0x72, 14, 0),
            (0x77, 0x02, 0, 4),
            (0x57, 0x02, 0, 15),
            (0x67, 0x02, 0, 2),
            (0x0f, 0x23, 0, 0),
            (0xdc, 0x04, 0, 16),
            (0x57, 0x04, 0, 0xffff),
            (0x55, 0x02, 4, 4),
            (0xa5, 0x02, 3, 20),
            (0x27, 0x02, 0, 3),
            (0x1d, 0x12, 1, 0),
            (0x5d, 0x29, 0, 0),
            (0x85, 0x00, 0, 1),
        ];
        assert_eq!(bytes, wanted);
    }

    #[test]
    fn wide_constant_and_kernel_call_assembled_have_the_documented_bytes() {
        let mut program = Assembler::new();
        program.set_double(Register::R3, 0x8000_0001_ffff_fffe).call_kernel(66150);
        program.add_to_memory(Register::R0, 64, Register::R1).divide(Register::R4, 3840).call(HelperCall::FrameLength);
        program.exchange_word_if_equal(Register::R1, 4, Register::R2);
        let bytes: Vec<_> = program.finish().iter().map(|i| (i.code, i.registers, i.offset, i.immediate)).collect();
        let wanted = [
            (0x18, 0x03, 0, -2),
            (0, 0, 0, i32::MIN + 1),
            (0x85, 0x20, 0, 66150),
            (0xdb, 0x10, 64, 0),
            (0x37, 0x04, 0, 3840),
            (0x85, 0x00, 0, 188),
            (0xc3, 0x21, 4, 0xf1),
        ];
        assert_eq!(bytes, wanted);
    }

    #[test]
    #[should_panic(expected = "jumps go forward only")]
    fn backward_jump_finished_panics() {
        let mut program = Assembler::new();
        let start = program.label();
        program.place(start).set(Register::R0, 0).jump(start);
        drop(program.finish());
    }

    #[test]
    #[should_panic(expected = "every label jumped to is placed")]
    fn jump_to_unplaced_label_finished_panics() {
        let mut program = Assembler::new();
        let nowhere = program.label();
        program.jump(nowhere);
        drop(program.finish());
    }
}
