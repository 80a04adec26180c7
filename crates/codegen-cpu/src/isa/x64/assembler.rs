//! Builds basic blocks of machine instructions, one instruction at a time.

use super::features::{INTEGER, MASK, VECTOR};
use super::inst::{Arg, Base, BlockData, Inst, Kind, Memory, Taken};
use super::opcodes::Size;
use crate::abi::LINE_SHIFT;
use crate::origin::Origin;
use iced_x86::Code;
use regalloc2::{Block, Operand, PReg, RegClass, VReg};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A source operand of an instruction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// A register.
    Register(VReg),
    /// A constant in the pool; broadcast to all lanes, or a whole vector.
    Pool { offset: u32, broadcast: bool },
    /// Memory at a base register plus a scaled index register and a displacement.
    Memory {
        base: VReg,
        index: Option<(VReg, u32)>,
        displacement: i32,
    },
}

/// A result and its mask.
#[derive(Clone, Copy, Debug)]
pub(super) struct Out {
    pub register: VReg,
    pub size: Size,
    /// The mask, and whether masked lanes become 0 (else they keep their values).
    pub mask: Option<(VReg, bool)>,
}

/// The place where instructions are inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At the end of the current block.
    Here,
    /// At the start of each row; of the function, if it has only one row.
    Row,
    /// At the start of the function, before everything else.
    Entry,
}

pub(super) struct Assembler {
    pub blocks: Vec<BlockData>,
    current: usize,
    vregs: usize,
    entry: Vec<Inst>,
    row: Vec<Inst>,
    /// The block that rows begin with.
    row_block: usize,
    pub place: Place,
    /// The origin of the next instructions.
    pub origin: Origin,
    pub pool: Vec<u8>,
    known: FxHashMap<Vec<u8>, u32>,
}

impl Assembler {
    /// A function of three integers, some of which may be unused.
    pub(super) fn new() -> (Self, [VReg; 3]) {
        let mut assembler = Self {
            blocks: vec![BlockData::default()],
            current: 0,
            vregs: 0,
            entry: Vec::new(),
            row: Vec::new(),
            row_block: 0,
            place: Place::Here,
            origin: Origin::None,
            pool: Vec::new(),
            known: FxHashMap::default(),
        };
        let arguments = [(); 3].map(|()| assembler.register(INTEGER));
        let mut entry = Inst::control(Kind::Entry);
        for (vreg, number) in arguments.into_iter().zip([7, 6, 2]) {
            entry
                .operands
                .push(Operand::reg_fixed_def(vreg, PReg::new(number, INTEGER)));
        }
        assembler.entry.push(entry);
        (assembler, arguments)
    }

    /// The blocks, the number of registers that they use, and the constants.
    pub(super) fn finish(mut self) -> (Vec<BlockData>, usize, Vec<u8>) {
        for (block, first) in [(self.row_block, self.row), (0, self.entry)] {
            self.blocks[block].insts.splice(..0, first);
        }
        (self.blocks, self.vregs, self.pool)
    }

    pub(super) fn register(&mut self, class: RegClass) -> VReg {
        self.vregs += 1;
        VReg::new(self.vregs - 1, class)
    }

    /// The offset of a constant in the pool.
    pub(super) fn constant(&mut self, bytes: &[u8]) -> u32 {
        if let Some(&known) = self.known.get(bytes) {
            return known;
        }
        // Aligned to its size.
        while !self.pool.len().is_multiple_of(bytes.len()) {
            self.pool.push(0);
        }
        let offset = self.pool.len() as u32;
        self.pool.extend_from_slice(bytes);
        self.known.insert(bytes.to_vec(), offset);
        offset
    }

    fn push(&mut self, mut inst: Inst) {
        inst.origin = self.origin;
        match self.place {
            Place::Here => self.blocks[self.current].insts.push(inst),
            Place::Row => self.row.push(inst),
            Place::Entry => self.entry.push(inst),
        }
    }

    /// Makes the current block the one that each row starts with.
    pub(super) fn rows_start_here(&mut self) {
        self.row_block = self.current;
    }

    // ---- control ----------------------------------------------------------------

    pub(super) fn block(&mut self, params: &[VReg]) -> Block {
        self.blocks.push(BlockData {
            params: params.to_vec(),
            ..BlockData::default()
        });
        Block::new(self.blocks.len() - 1)
    }

    /// Marks a block as rarely executed.
    pub(super) fn is_cold(&mut self, block: Block) {
        self.blocks[block.index()].cold = true;
    }

    pub(super) fn switch_to(&mut self, block: Block) {
        self.current = block.index();
    }

    pub(super) fn jump(&mut self, to: Block, arguments: &[VReg]) {
        self.push(Inst::control(Kind::Jump));
        let block = &mut self.blocks[self.current];
        block.successors.push(to);
        block.arguments = arguments.to_vec();
    }

    pub(super) fn branch(&mut self, taken: Taken, yes: Block, no: Block) {
        self.push(Inst::control(Kind::Branch(taken)));
        self.blocks[self.current].successors.extend([yes, no]);
    }

    pub(super) fn ret(&mut self) {
        self.push(Inst::control(Kind::Return));
    }

    // ---- instructions ---------------------------------------------------------------

    fn source(inst: &mut Inst, source: Source, size: Size) {
        let number = inst.operands.len() as u8;
        match source {
            Source::Register(vreg) => {
                inst.operands.push(Operand::reg_use(vreg));
                inst.args.push(Arg::Operand(number, size));
            }
            Source::Pool { offset, broadcast } => {
                inst.memory = Some(Memory {
                    base: Base::Pool(offset),
                    index: None,
                    displacement: 0,
                    broadcast,
                });
                inst.args.push(Arg::Memory);
            }
            Source::Memory {
                base,
                index,
                displacement,
            } => {
                inst.operands.push(Operand::reg_use(base));
                let index = index.map(|(vreg, scale)| {
                    inst.operands.push(Operand::reg_use(vreg));
                    (number + 1, Size::R64, scale)
                });
                inst.memory = Some(Memory {
                    base: Base::Operand(number),
                    index,
                    displacement,
                    broadcast: false,
                });
                inst.args.push(Arg::Memory);
            }
        }
    }

    fn mask(inst: &mut Inst, mask: Option<(VReg, bool)>) {
        if let Some((mask, zero)) = mask {
            inst.mask = Some((inst.operands.len() as u8, zero));
            inst.operands.push(Operand::reg_use(mask));
        }
    }

    /// An instruction with one result.
    pub(super) fn op(
        &mut self,
        code: Code,
        out: Out,
        sources: &[(Source, Size)],
        immediate: Option<i32>,
    ) {
        self.general(code, Some((out, None)), sources, immediate);
    }

    /// An instruction that updates a register: its result begins as a copy of `tied`.
    pub(super) fn onto(
        &mut self,
        code: Code,
        out: Out,
        tied: VReg,
        sources: &[(Source, Size)],
        immediate: Option<i32>,
    ) {
        self.general(code, Some((out, Some(tied))), sources, immediate);
    }

    /// An instruction without a result.
    pub(super) fn effect(&mut self, code: Code, sources: &[(Source, Size)], mask: Option<VReg>) {
        let mut inst = Inst::control(Kind::Code(code));
        for &(source, size) in sources {
            Self::source(&mut inst, source, size);
        }
        Self::mask(&mut inst, mask.map(|m| (m, false)));
        self.push(inst);
    }

    /// An instruction without a result, with an immediate.
    pub(super) fn effect_by(&mut self, code: Code, sources: &[(Source, Size)], number: i32) {
        let mut inst = Inst::control(Kind::Code(code));
        for &(source, size) in sources {
            Self::source(&mut inst, source, size);
        }
        inst.args.push(Arg::Immediate(number));
        self.push(inst);
    }

    fn general(
        &mut self,
        code: Code,
        out: Option<(Out, Option<VReg>)>,
        sources: &[(Source, Size)],
        immediate: Option<i32>,
    ) {
        let mut inst = Inst::control(Kind::Code(code));
        if let Some((out, tied)) = out {
            inst.args.push(Arg::Operand(0, out.size));
            match tied {
                None => inst.operands.push(Operand::reg_def(out.register)),
                Some(tied) => {
                    inst.operands.push(Operand::reg_reuse_def(out.register, 1));
                    inst.operands.push(Operand::reg_use(tied));
                }
            }
            for &(source, size) in sources {
                Self::source(&mut inst, source, size);
            }
            Self::mask(&mut inst, out.mask);
        }
        if let Some(immediate) = immediate {
            inst.args.push(Arg::Immediate(immediate));
        }
        self.push(inst);
    }

    /// Gathers elements by index. The instruction clobbers its mask, which is a mask register of
    /// AVX-512 or a vector.
    pub(super) fn gather(
        &mut self,
        code: Code,
        (out, size): (VReg, Size),
        zero: VReg,
        mask: VReg,
        (base, index, index_size, scale): (VReg, VReg, Size, u32),
    ) {
        let used = self.register(mask.class());
        let mut inst = Inst::control(Kind::Code(code));
        inst.operands = SmallVec::from_slice(&[
            Operand::reg_reuse_def(out, 2),
            Operand::reg_reuse_def(used, 3),
            Operand::reg_use(zero),
            Operand::reg_use(mask),
            Operand::reg_use_at_end(index),
            Operand::reg_use_at_end(base),
        ]);
        inst.args = SmallVec::from_slice(&[Arg::Operand(0, size), Arg::Memory]);
        inst.memory = Some(Memory {
            base: Base::Operand(5),
            index: Some((4, index_size, scale)),
            displacement: 0,
            broadcast: false,
        });
        match mask.class() {
            MASK => inst.mask = Some((1, false)),
            _ => inst.args.push(Arg::Operand(1, size)),
        }
        self.push(inst);
    }

    /// Scatters elements by index.
    pub(super) fn scatter(
        &mut self,
        code: Code,
        (value, size): (VReg, Size),
        mask: VReg,
        (base, index, index_size, scale): (VReg, VReg, Size, u32),
    ) {
        let used = self.register(MASK);
        let mut inst = Inst::control(Kind::Code(code));
        inst.operands = SmallVec::from_slice(&[
            Operand::reg_reuse_def(used, 1),
            Operand::reg_use(mask),
            Operand::reg_use_at_end(index),
            Operand::reg_use_at_end(value),
            Operand::reg_use_at_end(base),
        ]);
        inst.args = SmallVec::from_slice(&[Arg::Memory, Arg::Operand(3, size)]);
        inst.memory = Some(Memory {
            base: Base::Operand(4),
            index: Some((2, index_size, scale)),
            displacement: 0,
            broadcast: false,
        });
        inst.mask = Some((0, false));
        self.push(inst);
    }

    // ---- general registers ----------------------------------------------------------

    fn plain(register: VReg) -> Out {
        Out {
            register,
            size: Size::R64,
            mask: None,
        }
    }

    /// An integer constant.
    pub(super) fn number(&mut self, value: i32) -> VReg {
        let out = self.register(INTEGER);
        let target = Out {
            size: Size::R32,
            ..Self::plain(out)
        };
        self.op(Code::Mov_r32_imm32, target, &[], Some(value));
        out
    }

    /// Loads a word of memory.
    pub(super) fn word(&mut self, base: VReg, displacement: i32) -> VReg {
        let out = self.register(INTEGER);
        let from = Source::Memory {
            base,
            index: None,
            displacement,
        };
        self.op(
            Code::Mov_r64_rm64,
            Self::plain(out),
            &[(from, Size::R64)],
            None,
        );
        out
    }

    /// The sum of a register, another if given, and a constant.
    pub(super) fn sum(&mut self, a: VReg, b: Option<VReg>, displacement: i32) -> VReg {
        self.address(Source::Memory {
            base: a,
            index: b.map(|b| (b, 1)),
            displacement,
        })
    }

    /// The address of a memory operand.
    pub(super) fn address(&mut self, place: Source) -> VReg {
        let out = self.register(INTEGER);
        self.op(
            Code::Lea_r64_m,
            Self::plain(out),
            &[(place, Size::R64)],
            None,
        );
        out
    }

    pub(super) fn difference(&mut self, a: VReg, b: VReg) -> VReg {
        let out = self.register(INTEGER);
        let b = (Source::Register(b), Size::R64);
        self.onto(Code::Sub_r64_rm64, Self::plain(out), a, &[b], None);
        out
    }

    /// Divides a signed number by a power of two, rounding down.
    pub(super) fn shifted_right(&mut self, a: VReg, amount: i32) -> VReg {
        self.by_immediate(Code::Sar_rm64_imm8, a, amount)
    }

    /// Multiplies a number with a power of two.
    pub(super) fn shifted_left(&mut self, a: VReg, amount: i32) -> VReg {
        self.by_immediate(Code::Shl_rm64_imm8, a, amount)
    }

    /// The bits of a number that a mask has.
    pub(super) fn masked(&mut self, a: VReg, mask: i32) -> VReg {
        self.by_immediate(Code::And_rm64_imm32, a, mask)
    }

    fn by_immediate(&mut self, code: Code, a: VReg, number: i32) -> VReg {
        let out = self.register(INTEGER);
        self.onto(code, Self::plain(out), a, &[], Some(number));
        out
    }

    /// The number of elements of `bytes` bytes (a power of two) from an address to the first line
    /// that begins at or after it.
    pub(super) fn elements_to_line(&mut self, address: VReg, bytes: u32) -> VReg {
        let zero = self.number(0);
        let before = self.difference(zero, address);
        let above = 64 - i32::from(LINE_SHIFT);
        let high = self.shifted_left(before, above);
        let amount = above + bytes.trailing_zeros() as i32;
        self.by_immediate(Code::Shr_rm64_imm8, high, amount)
    }

    pub(super) fn compare(&mut self, a: VReg, b: VReg) {
        let sources = [a, b].map(|r| (Source::Register(r), Size::R64));
        self.effect(Code::Cmp_r64_rm64, &sources, None);
    }

    /// The smaller of two.
    pub(super) fn smaller(&mut self, a: VReg, b: VReg) -> VReg {
        self.compare(a, b);
        let out = self.register(INTEGER);
        let b = (Source::Register(b), Size::R64);
        self.onto(Code::Cmovg_r64_rm64, Self::plain(out), a, &[b], None);
        out
    }

    /// The larger of two.
    pub(super) fn larger(&mut self, a: VReg, b: VReg) -> VReg {
        self.compare(a, b);
        let out = self.register(INTEGER);
        let b = (Source::Register(b), Size::R64);
        self.onto(Code::Cmovl_r64_rm64, Self::plain(out), a, &[b], None);
        out
    }

    pub(super) fn vector(&mut self) -> VReg {
        self.register(VECTOR)
    }
}
