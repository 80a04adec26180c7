//! Allocates registers (regalloc2) and encodes instructions (iced-x86).

use super::branch_alignment::{CONDITIONAL, UNCONDITIONAL, padding};
use super::features::InstructionSet;
use super::features::{INTEGER, MASK};
use super::inst::{Arg, Base, CALLEE_SAVED, Inst, Kind, Machine, Taken, environment};
use super::opcodes::Size;
use crate::origin::Origin;
use iced_x86::{Code, Encoder, Instruction, OpKind, Register};
use regalloc2::{
    Algorithm, Allocation, Block, Ctx, Edit, InstOrEdit, MachineEnv, Output, PReg, RegClass,
    RegallocOptions,
};

/// Functions with more instructions than this use the fast allocation algorithm.
const LARGE: usize = 600;

/// The bytes of `cmp` of two registers of 64 bits.
const COMPARISON: usize = 3;

/// NOPs of 1 to 8 bytes ("Intel 64 and IA-32 Architectures Software
/// Developer's Manual", volume 2, NOP).
const IDLE: [&[u8]; 8] = [
    &[0x90],
    &[0x66, 0x90],
    &[0x0f, 0x1f, 0x00],
    &[0x0f, 0x1f, 0x40, 0x00],
    &[0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
    &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
];

/// Machine code, and its origins: each entry gives the origin of the instructions from an offset up
/// to the next entry's.
pub(crate) type LinkedCode = (Vec<u8>, Vec<(u32, Origin)>);

/// The register allocator: the machine's registers, and memory that is reused between functions.
pub(super) struct Allocator {
    environment: MachineEnv,
    context: Box<Ctx>,
}

impl Allocator {
    pub(super) fn new(set: InstructionSet) -> Self {
        Self {
            environment: environment(set),
            context: Box::default(),
        }
    }
}

/// The code of a function followed by its constants, and the origins of its instructions (see
/// [`LinkedCode`]). `None` if the allocator or the encoder failed, which means that the
/// instructions break a rule.
pub(super) fn encode(
    allocator: &mut Allocator,
    machine: &Machine,
    pool: &[u8],
) -> Option<LinkedCode> {
    let algorithm = match machine.size() > LARGE {
        true => Algorithm::Fastalloc,
        false => Algorithm::Ion,
    };
    let options = RegallocOptions {
        verbose_log: false,
        validate_ssa: cfg!(debug_assertions),
        algorithm,
    };
    let Allocator {
        environment,
        context,
    } = allocator;
    let output = regalloc2::run_with_ctx(machine, environment, &options, context).ok()?;
    #[cfg(test)]
    check(machine, environment, output);
    let mut writer = Writer {
        set: machine.set,
        encoder: Encoder::new(64),
        position: 0,
        jumps: Vec::new(),
        constants: Vec::new(),
        origins: Vec::new(),
        starts: vec![0; machine.block_count()],
        saved: saved(output),
        frame: i32::try_from(output.num_spillslots).ok()?.checked_mul(8)?,
    };
    writer.prologue();
    for b in 0..machine.block_count() {
        let block = Block::new(b);
        writer.starts[b] = writer.position;
        for item in output.block_insts_and_edits(machine, block) {
            match item {
                InstOrEdit::Inst(inst) => {
                    let data = &machine.insts[inst.index()];
                    let allocations = output.inst_allocs(inst);
                    writer.comes_from(data.origin);
                    let next = machine.insts.get(inst.index() + 1);
                    if is_fused(data.kind, next.map(|next| next.kind)) {
                        writer.pad_jump(COMPARISON + CONDITIONAL);
                    }
                    writer.instruction(machine, block, data, allocations)?;
                }
                InstOrEdit::Edit(Edit::Move { from, to }) => writer.copy(*from, *to)?,
            }
        }
    }
    let origins = std::mem::take(&mut writer.origins);
    Some((writer.finish(pool)?, origins))
}

/// Whether processors fuse an instruction with the jump after it.
fn is_fused(kind: Kind, next: Option<Kind>) -> bool {
    matches!(
        (kind, next),
        (Kind::Code(Code::Cmp_r64_rm64), Some(Kind::Branch(_)))
    )
}

/// Checks the result of the allocator.
#[cfg(test)]
fn check(machine: &Machine, environment: &MachineEnv, output: &Output) {
    let mut checker = regalloc2::checker::Checker::new(machine, environment);
    checker.prepare(output);
    if let Err(errors) = checker.run() {
        panic!("wrong registers: {errors:?}");
    }
}

/// The registers that must be saved.
fn saved(output: &Output) -> Vec<usize> {
    let moved = output.edits.iter().flat_map(|(_, edit)| {
        let Edit::Move { from, to } = edit;
        [*from, *to]
    });
    let used: Vec<PReg> = output
        .allocs
        .iter()
        .copied()
        .chain(moved)
        .filter_map(Allocation::as_reg)
        .collect();
    CALLEE_SAVED
        .into_iter()
        .filter(|&n| used.contains(&PReg::new(n, INTEGER)))
        .collect()
}

struct Writer {
    set: InstructionSet,
    encoder: Encoder,
    position: usize,
    /// The offsets of 32-bit displacements to blocks, which are filled in once the blocks' offsets
    /// are known.
    jumps: Vec<(usize, Block)>,
    /// The offsets of displacements to constants, and the offsets that they are relative to.
    constants: Vec<(usize, usize, u32)>,
    /// The offsets at which the origin changes.
    origins: Vec<(u32, Origin)>,
    starts: Vec<usize>,
    saved: Vec<usize>,
    frame: i32,
}

/// A vector register or general register by number.
fn register(number: usize, size: Size) -> Register {
    let (base, number) = match size {
        Size::Zmm => (Register::ZMM0, number),
        Size::Ymm => (Register::YMM0, number),
        Size::Xmm => (Register::XMM0, number),
        Size::K => (Register::K0, number),
        Size::R64 => (Register::RAX, number),
        Size::R32 => (Register::EAX, number),
    };
    base + number as u32
}

impl Writer {
    fn raw(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.encoder.write_u8(byte);
        }
        self.position += bytes.len();
    }

    fn comes_from(&mut self, origin: Origin) {
        if self.origins.last().is_none_or(|(_, last)| *last != origin) {
            self.origins.push((self.position as u32, origin));
        }
    }

    /// Spilled vectors are aligned to cache lines, so the frame is aligned, and rbp, which is not
    /// available to the allocator, holds the previous stack pointer.
    fn prologue(&mut self) {
        if self.frame > 0 {
            // push rbp; mov rbp, rsp
            self.raw(&[0x55, 0x48, 0x89, 0xe5]);
        }
        for n in self.saved.clone() {
            if n >= 8 {
                self.raw(&[0x41]);
            }
            self.raw(&[0x50 + (n % 8) as u8]);
        }
        if self.frame > 0 {
            // sub rsp, frame
            self.raw(&[0x48, 0x81, 0xec]);
            self.raw(&self.frame.to_le_bytes());
            // and rsp, -64
            self.raw(&[0x48, 0x83, 0xe4, 0xc0]);
        }
    }

    fn epilogue(&mut self) {
        // vzeroupper
        self.raw(&[0xc5, 0xf8, 0x77]);
        if self.frame > 0 {
            // lea rsp, [rbp - pushed bytes]; the displacement fits 8 bits
            let pushed = 8 * self.saved.len() as u8;
            self.raw(&[0x48, 0x8d, 0x65, pushed.wrapping_neg()]);
        }
        for n in self.saved.clone().into_iter().rev() {
            if n >= 8 {
                self.raw(&[0x41]);
            }
            self.raw(&[0x58 + (n % 8) as u8]);
        }
        if self.frame > 0 {
            // pop rbp
            self.raw(&[0x5d]);
        }
        self.raw(&[0xc3]);
    }

    /// Inserts NOPs if a jump of this many bytes must not begin here (see
    /// [`super::branch_alignment`]).
    fn pad_jump(&mut self, bytes: usize) {
        let mut left = padding(self.position, bytes);
        while left > 0 {
            let idle = IDLE[left.min(IDLE.len()) - 1];
            self.raw(idle);
            left -= idle.len();
        }
    }

    fn jump_to(&mut self, opcode: &[u8], block: Block) {
        self.raw(opcode);
        self.jumps.push((self.position, block));
        self.raw(&[0; 4]);
    }

    fn instruction(
        &mut self,
        machine: &Machine,
        block: Block,
        inst: &Inst,
        allocations: &[Allocation],
    ) -> Option<()> {
        let next = Block::new(block.index() + 1);
        let successors = machine.successors(block);
        match inst.kind {
            Kind::Entry => {}
            Kind::Jump => {
                if successors[0] != next {
                    self.pad_jump(UNCONDITIONAL);
                    self.jump_to(&[0xe9], successors[0]);
                }
            }
            Kind::Branch(taken) => {
                let opcode = match taken {
                    Taken::GreaterEqual => 0x8d,
                    Taken::Greater => 0x8f,
                    Taken::Above => 0x87,
                    Taken::NotZero => 0x85,
                };
                self.pad_jump(CONDITIONAL);
                self.jump_to(&[0x0f, opcode], successors[0]);
                if successors[1] != next {
                    self.pad_jump(UNCONDITIONAL);
                    self.jump_to(&[0xe9], successors[1]);
                }
            }
            Kind::Return => self.epilogue(),
            Kind::Code(code) => self.machine_code(code, inst, allocations)?,
        }
        Some(())
    }

    fn machine_code(&mut self, code: Code, inst: &Inst, allocations: &[Allocation]) -> Option<()> {
        let number = |operand: u8| {
            let allocation = allocations.get(usize::from(operand))?;
            Some(allocation.as_reg()?.hw_enc())
        };
        let mut out = Instruction::new();
        out.set_code(code);
        let mut constant = None;
        for (i, arg) in inst.args.iter().enumerate() {
            let i = i as u32;
            match *arg {
                Arg::Operand(operand, size) => {
                    out.set_op_kind(i, OpKind::Register);
                    out.set_op_register(i, register(number(operand)?, size));
                }
                Arg::Immediate(value) if code == Code::Mov_r32_imm32 => {
                    out.set_op_kind(i, OpKind::Immediate32);
                    out.set_immediate32(value.cast_unsigned());
                }
                Arg::Immediate(value)
                    if matches!(code, Code::Imul_r64_rm64_imm32 | Code::And_rm64_imm32) =>
                {
                    out.set_op_kind(i, OpKind::Immediate32to64);
                    out.set_immediate32to64(i64::from(value));
                }
                Arg::Immediate(value) => {
                    out.set_op_kind(i, OpKind::Immediate8);
                    out.set_immediate8(value as u8);
                }
                Arg::Memory => {
                    let memory = inst.memory?;
                    out.set_op_kind(i, OpKind::Memory);
                    out.set_is_broadcast(memory.broadcast);
                    match memory.base {
                        Base::Operand(operand) => {
                            out.set_memory_base(register(number(operand)?, Size::R64));
                            out.set_memory_displacement64(
                                i64::from(memory.displacement).cast_unsigned(),
                            );
                            out.set_memory_displ_size(1);
                        }
                        Base::Pool(offset) => {
                            constant = Some(offset);
                            out.set_memory_base(Register::RIP);
                            // A placeholder in range; the displacement is filled in later.
                            out.set_memory_displacement64(self.position as u64 + 0x1000);
                            out.set_memory_displ_size(8);
                        }
                    }
                    if let Some((operand, size, scale)) = memory.index {
                        out.set_memory_index(register(number(operand)?, size));
                        out.set_memory_index_scale(scale);
                    }
                }
            }
        }
        if let Some((operand, zero)) = inst.mask {
            out.set_op_mask(register(number(operand)?, Size::K));
            out.set_zeroing_masking(zero);
        }
        self.write(&out, constant)
    }

    fn write(&mut self, instruction: &Instruction, constant: Option<u32>) -> Option<()> {
        let length = self
            .encoder
            .encode(instruction, self.position as u64)
            .ok()?;
        if let Some(constant) = constant {
            let at = self.encoder.get_constant_offsets().displacement_offset();
            self.constants
                .push((self.position + at, self.position + length, constant));
        }
        self.position += length;
        Some(())
    }

    /// A copy between registers and the stack.
    fn copy(&mut self, from: Allocation, to: Allocation) -> Option<()> {
        if from == to {
            return Some(());
        }
        let class = from.as_reg().or(to.as_reg())?.class();
        let (size, move_to, move_from) = moves(self.set, class);
        let mut out = Instruction::new();
        out.set_code(match to.is_reg() {
            true => move_to,
            false => move_from,
        });
        for (i, side) in [to, from].into_iter().enumerate() {
            let i = i as u32;
            if let Some(preg) = side.as_reg() {
                out.set_op_kind(i, OpKind::Register);
                out.set_op_register(i, register(preg.hw_enc(), size));
            } else {
                let slot = i64::try_from(side.as_stack()?.index()).ok()?;
                out.set_op_kind(i, OpKind::Memory);
                out.set_memory_base(Register::RSP);
                out.set_memory_displacement64((8 * slot).cast_unsigned());
                out.set_memory_displ_size(1);
            }
        }
        self.write(&out, None)
    }

    /// Fills in the displacements.
    fn finish(mut self, pool: &[u8]) -> Option<Vec<u8>> {
        let mut code = self.encoder.take_buffer();
        for (at, block) in self.jumps {
            let distance = i32::try_from(self.starts[block.index()] as i64 - (at as i64 + 4));
            code.get_mut(at..at + 4)?
                .copy_from_slice(&distance.ok()?.to_le_bytes());
        }
        while !code.len().is_multiple_of(64) {
            code.push(0xcc);
        }
        let start = code.len() as i64;
        for (at, from, offset) in self.constants {
            let distance = i32::try_from(start + i64::from(offset) - from as i64).ok()?;
            code.get_mut(at..at + 4)?
                .copy_from_slice(&distance.to_le_bytes());
        }
        code.extend_from_slice(pool);
        Some(code)
    }
}

/// The instructions that copy registers of a class: their size, the load to a register, the store
/// from one.
fn moves(set: InstructionSet, class: RegClass) -> (Size, Code, Code) {
    match class {
        MASK => (Size::K, Code::VEX_Kmovw_kr_km16, Code::VEX_Kmovw_m16_kr),
        INTEGER => (Size::R64, Code::Mov_r64_rm64, Code::Mov_rm64_r64),
        _ => match set {
            InstructionSet::Avx512 => (
                Size::Zmm,
                Code::EVEX_Vmovups_zmm_k1z_zmmm512,
                Code::EVEX_Vmovups_zmmm512_k1z_zmm,
            ),
            InstructionSet::Avx2 => (
                Size::Ymm,
                Code::VEX_Vmovups_ymm_ymmm256,
                Code::VEX_Vmovups_ymmm256_ymm,
            ),
        },
    }
}
