//! Machine instructions before register allocation, in basic blocks.

use super::features::{INTEGER, InstructionSet, MASK, VECTOR};
use super::opcodes::Size;
use crate::origin::Origin;
use iced_x86::Code;
use regalloc2::{
    Block, Function, Inst as InstId, InstRange, MachineEnv, Operand, PReg, PRegSet, RegClass, VReg,
};
use smallvec::SmallVec;

/// The base of a memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// An operand of the instruction.
    Operand(u8),
    /// An offset in the constant pool.
    Pool(u32),
}

/// A memory operand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    pub base: Base,
    /// The index operand, its size, and its scale.
    pub index: Option<(u8, Size, u32)>,
    pub displacement: i32,
    /// Whether one element is broadcast to all lanes.
    pub broadcast: bool,
}

/// One argument, in the manual's order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arg {
    /// An operand's register.
    Operand(u8, Size),
    /// The instruction's memory operand.
    Memory,
    /// An immediate.
    Immediate(i32),
}

/// The condition under which a branch is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Greater or equal.
    GreaterEqual,
    /// Greater.
    Greater,
    /// Greater, of unsigned numbers.
    Above,
    /// Not zero.
    NotZero,
}

/// The kind of an instruction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A machine instruction.
    Code(Code),
    /// Defines the function's arguments.
    Entry,
    /// Jumps to the only successor.
    Jump,
    /// Jumps to the first successor if the condition holds, else to the second.
    Branch(Taken),
    /// Returns from the function.
    Return,
}

/// One instruction.
#[derive(Clone, Debug)]
pub(super) struct Inst {
    pub kind: Kind,
    pub operands: SmallVec<[Operand; 6]>,
    pub args: SmallVec<[Arg; 4]>,
    pub memory: Option<Memory>,
    /// The operand that masks lanes, and whether masked lanes become 0.
    pub mask: Option<(u8, bool)>,
    /// The origin of the instruction.
    pub origin: Origin,
}

impl Inst {
    pub(super) fn control(kind: Kind) -> Self {
        Self {
            kind,
            operands: SmallVec::new(),
            args: SmallVec::new(),
            memory: None,
            mask: None,
            origin: Origin::None,
        }
    }
}

/// A block under construction.
#[derive(Default)]
pub(super) struct BlockData {
    pub insts: Vec<Inst>,
    pub params: Vec<VReg>,
    pub successors: Vec<Block>,
    /// The arguments that a jump passes to its successor.
    pub arguments: Vec<VReg>,
    /// Whether the block is rarely executed, and placed after the others.
    pub cold: bool,
}

/// A function in the form of the register allocator.
pub(super) struct Machine {
    pub insts: Vec<Inst>,
    ranges: Vec<InstRange>,
    blocks: Vec<BlockData>,
    predecessors: Vec<Vec<Block>>,
    vregs: usize,
    pub set: InstructionSet,
}

/// Moves rarely executed blocks after the others.
fn cold_last(blocks: Vec<BlockData>) -> Vec<BlockData> {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_key(|&i| blocks[i].cold);
    let mut place = vec![0; blocks.len()];
    for (to, &from) in order.iter().enumerate() {
        place[from] = to;
    }
    let mut placed: Vec<(usize, BlockData)> = place.iter().copied().zip(blocks).collect();
    placed.sort_by_key(|(to, _)| *to);
    for (_, block) in &mut placed {
        for successor in &mut block.successors {
            *successor = Block::new(place[successor.index()]);
        }
    }
    placed.into_iter().map(|(_, block)| block).collect()
}

impl Machine {
    pub(super) fn new(set: InstructionSet, blocks: Vec<BlockData>, vregs: usize) -> Self {
        let mut blocks = cold_last(blocks);
        let mut insts = Vec::new();
        let mut ranges = Vec::new();
        let mut predecessors = vec![Vec::new(); blocks.len()];
        for (i, block) in blocks.iter_mut().enumerate() {
            let first = InstId::new(insts.len());
            insts.append(&mut block.insts);
            ranges.push(InstRange::new(first, InstId::new(insts.len())));
            for successor in &block.successors {
                predecessors[successor.index()].push(Block::new(i));
            }
        }
        Self {
            insts,
            ranges,
            blocks,
            predecessors,
            vregs,
            set,
        }
    }

    /// The number of instructions, except for rarely executed ones.
    pub(super) fn size(&self) -> usize {
        let blocks = self.blocks.iter().zip(&self.ranges);
        let common = blocks.filter(|(block, _)| !block.cold);
        common.map(|(_, range)| range.len()).sum()
    }

    pub(super) fn block_count(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn successors(&self, block: Block) -> &[Block] {
        &self.blocks[block.index()].successors
    }
}

impl Function for Machine {
    fn num_insts(&self) -> usize {
        self.insts.len()
    }

    fn num_blocks(&self) -> usize {
        self.blocks.len()
    }

    fn entry_block(&self) -> Block {
        Block::new(0)
    }

    fn block_insns(&self, block: Block) -> InstRange {
        self.ranges[block.index()]
    }

    fn block_succs(&self, block: Block) -> &[Block] {
        &self.blocks[block.index()].successors
    }

    fn block_preds(&self, block: Block) -> &[Block] {
        &self.predecessors[block.index()]
    }

    fn block_params(&self, block: Block) -> &[VReg] {
        &self.blocks[block.index()].params
    }

    fn is_ret(&self, inst: InstId) -> bool {
        matches!(self.insts[inst.index()].kind, Kind::Return)
    }

    fn is_branch(&self, inst: InstId) -> bool {
        matches!(self.insts[inst.index()].kind, Kind::Jump | Kind::Branch(_))
    }

    fn branch_blockparams(&self, block: Block, _inst: InstId, _successor: usize) -> &[VReg] {
        &self.blocks[block.index()].arguments
    }

    fn inst_operands(&self, inst: InstId) -> &[Operand] {
        &self.insts[inst.index()].operands
    }

    fn inst_clobbers(&self, _inst: InstId) -> PRegSet {
        PRegSet::empty()
    }

    fn num_vregs(&self) -> usize {
        self.vregs
    }

    /// In words of eight bytes.
    fn spillslot_size(&self, class: RegClass) -> usize {
        match class {
            VECTOR => self.set.vector_bytes() / 8,
            _ => 1,
        }
    }
}

/// The registers of the System V calling convention that a function may use without saving them,
/// and those that it must save.
pub(super) fn environment(set: InstructionSet) -> MachineEnv {
    let registers = |class, numbers: &[usize]| {
        numbers
            .iter()
            .fold(PRegSet::empty(), |set, &n| set.with(PReg::new(n, class)))
    };
    let vectors: Vec<usize> = (0..set.vector_registers()).collect();
    let masks: &[usize] = match set {
        InstructionSet::Avx512 => &[1, 2, 3, 4, 5, 6, 7],
        InstructionSet::Avx2 => &[],
    };
    MachineEnv {
        preferred_regs_by_class: [
            registers(INTEGER, &[0, 1, 2, 6, 7, 8, 9, 10, 11]),
            registers(VECTOR, &vectors),
            registers(MASK, masks),
        ],
        non_preferred_regs_by_class: [
            registers(INTEGER, &CALLEE_SAVED),
            PRegSet::empty(),
            PRegSet::empty(),
        ],
        scratch_by_class: [None; 3],
        fixed_stack_slots: Vec::new(),
    }
}

/// rbx and r12 to r15; rbp is the frame pointer.
pub(super) const CALLEE_SAVED: [usize; 5] = [3, 12, 13, 14, 15];
