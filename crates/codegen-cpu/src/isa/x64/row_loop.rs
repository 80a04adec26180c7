//! Several rows of lanes in one call, with slots for each or as iterations of a loop; and rows of
//! few vectors without a loop over lanes.

use super::assembler::{Out, Place, Source};
use super::features::INTEGER;
use super::features::InstructionSet;
use super::inst::Taken;
use super::isel::strided_access::Loaded;
use super::isel::{Copies, Select, out};
use super::opcodes::Size;
use super::unroll_factor::{Pressure, SHORT, has_loops};
use crate::simd::ir::{Op, Statement, Type};
use crate::simd::row_addressing::{Change, Turns, Word};
use iced_x86::Code;
use regalloc2::{Block, VReg};

/// The maximum number of vectors of a row that are computed together, without a loop.
const FEW_VECTORS: i64 = 4;

impl Select<'_> {
    /// Computes row after row, each with slots of its own.
    pub(super) fn rows(&mut self, rows: VReg, lanes: Option<i64>) -> Option<()> {
        let zero = self.asm.number(0);
        let params = [zero; 2].map(|v| self.asm.register(v.class()));
        let [header, inside, exit] = self.three_blocks(&params);
        let [slots, row] = params;
        self.asm.jump(header, &[self.slots, zero]);
        self.asm.switch_to(header);
        self.asm.compare(row, rows);
        self.asm.branch(Taken::GreaterEqual, exit, inside);
        self.asm.switch_to(inside);
        self.asm.rows_start_here();
        self.slots = slots;
        self.one_of_rows(lanes)?;
        let words = self.body.inputs.len() + self.body.reductions.len();
        let next = self.asm.sum(slots, None, 8 * words as i32);
        let next = [next, self.asm.sum(row, None, 1)];
        self.asm.jump(header, &next);
        self.asm.switch_to(exit);
        Some(())
    }

    /// Executes the iterations of a row loop, each of which computes its inputs.
    pub(super) fn turns(&mut self, turns: &Turns, count: VReg, lanes: Option<i64>) -> Option<()> {
        let inputs = turns.inputs.len();
        let slots = self.slots;
        let starts: Vec<VReg> = (0..inputs + turns.words.len())
            .map(|i| self.asm.word(slots, 8 * i as i32))
            .collect();
        let mut steps: Vec<i32> = turns.inputs.iter().map(|c| c.step).collect();
        steps.extend(turns.words.iter().map(|w| w.step));
        // The iteration number, and the inputs that change by a constant.
        let moving: Vec<usize> = (0..steps.len()).filter(|&i| steps[i] != 0).collect();
        let mut init = vec![self.asm.number(0)];
        init.extend(moving.iter().map(|&i| starts[i]));
        let params: Vec<VReg> = init.iter().map(|v| self.asm.register(v.class())).collect();
        let [header, inside, exit] = self.three_blocks(&params);
        self.asm.is_cold(exit);
        self.asm.jump(header, &init);
        self.asm.switch_to(header);
        self.asm.compare(params[0], count);
        self.asm.branch(Taken::GreaterEqual, exit, inside);
        self.asm.switch_to(inside);
        let mut now = starts;
        for (&i, &param) in moving.iter().zip(&params[1..]) {
            now[i] = param;
        }
        let mut over = Vec::new();
        let words: Vec<VReg> = (turns.words.iter().zip(&now[inputs..]))
            .map(|(word, &address)| self.turns_word(word, address, &mut over))
            .collect::<Option<_>>()?;
        for (i, change) in turns.inputs.iter().enumerate() {
            let input = self.changed(change, now[i], &words);
            self.words[i] = Some(input);
        }
        let lanes_start = self.asm.block(&[]);
        self.asm.jump(lanes_start, &[]);
        self.asm.switch_to(lanes_start);
        self.asm.rows_start_here();
        self.one_of_rows(lanes)?;
        let next_turn = self.asm.block(&[]);
        self.asm.jump(next_turn, &[]);
        for block in over {
            self.asm.switch_to(block);
            self.asm.jump(next_turn, &[]);
        }
        self.asm.switch_to(next_turn);
        let mut next = vec![self.asm.sum(params[0], None, 1)];
        for (&i, &param) in moving.iter().zip(&params[1..]) {
            next.push(self.asm.sum(param, None, steps[i]));
        }
        self.asm.jump(header, &next);
        self.asm.switch_to(exit);
        Some(())
    }

    /// Loads a word of an iteration. If the word is out of bounds, the iteration is skipped:
    /// `ended` gets a block that is completed later.
    fn turns_word(&mut self, word: &Word, address: VReg, ended: &mut Vec<Block>) -> Option<VReg> {
        let (code, size) = match (word.storage.bytes, word.storage.signed) {
            (1, true) => (Code::Movsx_r64_rm8, Size::R64),
            (1, false) => (Code::Movzx_r32_rm8, Size::R32),
            (2, true) => (Code::Movsx_r64_rm16, Size::R64),
            (2, false) => (Code::Movzx_r32_rm16, Size::R32),
            (4, true) => (Code::Movsxd_r64_rm32, Size::R64),
            (4, false) => (Code::Mov_r32_rm32, Size::R32),
            (8, _) => (Code::Mov_r64_rm64, Size::R64),
            _ => return None,
        };
        let from = Source::Memory {
            base: address,
            index: None,
            displacement: 0,
        };
        let mut number = self.asm.register(INTEGER);
        self.asm
            .op(code, out(number, size), &[(from, Size::R64)], None);
        if let Some([least, most]) = word.clamp {
            let [least, most] = [least, most].map(|bound| self.bound(bound));
            number = self.asm.larger(number, least);
            number = self.asm.smaller(number, most);
        }
        if let Some(most) = word.most {
            let most = self.bound(most);
            let [over, goes_on] = [self.asm.block(&[]), self.asm.block(&[])];
            self.asm.is_cold(over);
            // As an unsigned number, a negative one is large.
            self.asm.compare(number, most);
            self.asm.branch(Taken::Above, over, goes_on);
            ended.push(over);
            self.asm.switch_to(goes_on);
        }
        Some(number)
    }

    /// A constant, loaded before all rows.
    fn bound(&mut self, number: i32) -> VReg {
        let was = std::mem::replace(&mut self.asm.place, Place::Entry);
        let bound = self.asm.number(number);
        self.asm.place = was;
        bound
    }

    /// The value of an input in an iteration.
    fn changed(&mut self, change: &Change, start: VReg, words: &[VReg]) -> VReg {
        let mut input = start;
        for &(word, factor) in &change.words {
            let word = words[word];
            input = match factor {
                1 | 2 | 4 | 8 => self.asm.address(Source::Memory {
                    base: input,
                    index: Some((word, factor as u32)),
                    displacement: 0,
                }),
                _ => {
                    let times = self.times(word, factor);
                    self.asm.sum(input, Some(times), 0)
                }
            };
        }
        input
    }

    fn times(&mut self, number: VReg, factor: i32) -> VReg {
        let product = Out {
            register: self.asm.register(INTEGER),
            size: Size::R64,
            mask: None,
        };
        if factor > 0 && factor & (factor - 1) == 0 {
            let amount = factor.trailing_zeros() as i32;
            self.asm
                .onto(Code::Shl_rm64_imm8, product, number, &[], Some(amount));
        } else {
            let number = (Source::Register(number), Size::R64);
            self.asm
                .op(Code::Imul_r64_rm64_imm32, product, &[number], Some(factor));
        }
        product.register
    }

    /// Computes all lanes of one of several rows.
    fn one_of_rows(&mut self, lanes: Option<i64>) -> Option<()> {
        match lanes {
            Some(n) if self.is_few(n) => self.few_vectors(n),
            _ => self.row(lanes),
        }
    }

    /// Whether the vectors of a row of this many lanes are computed together.
    fn is_few(&self, lanes: i64) -> bool {
        let of_vector = i64::from(self.lanes());
        let whole = lanes / of_vector;
        let fits = |whole: i64| {
            usize::try_from(whole).is_ok_and(|whole| Pressure::of(self.body).fits(whole))
        };
        let simple = !has_loops(self.body) && self.body.reductions.is_empty();
        let short = self.body.size() <= SHORT;
        lanes > 0 && simple && short && whole <= FEW_VECTORS && fits(whole)
    }

    /// A row of a few vectors, without a loop: the whole vectors together, then the remaining
    /// lanes.
    fn few_vectors(&mut self, lanes: i64) -> Option<()> {
        self.find_pointers();
        let of_vector = i64::from(self.lanes());
        let (whole, rest) = (lanes / of_vector, lanes % of_vector);
        if whole > 0 {
            self.vectors_from(0, whole as usize, None)?;
        }
        let first = (whole * of_vector) as i32;
        // Masked accesses to the next row wait for its stores, so half a vector is used if it is
        // enough.
        let half = i64::from(self.set.lanes(true));
        if (1..=half).contains(&rest) && self.may_be_halves() {
            self.lanes = half as i32;
        }
        if rest == i64::from(self.lanes()) {
            self.vectors_from(first, 1, None)?;
        } else if rest > 0 {
            let tail = self.first_lanes(rest as usize);
            let place = std::mem::replace(&mut self.asm.place, Place::Entry);
            let left = self.splat_bits(rest as u64, Type::I32);
            self.asm.place = place;
            self.left = left;
            self.vectors_from(first, 1, Some(tail))?;
        }
        Some(())
    }

    /// Whether fewer lanes than the body's may be used. Not with AVX2, whose masks would be
    /// different, nor with strided accesses, which load and store elements for all lanes together.
    fn may_be_halves(&self) -> bool {
        let neighbours = |s: &Statement| match s {
            Statement::Define(v) => {
                !matches!(self.body.op(*v), Op::Gather { .. } | Op::LoadHalf { .. })
            }
            Statement::Store { index, .. } => index.is_none(),
            Statement::StorePair { .. } | Statement::Loop(_) | Statement::Rare(_) => false,
        };
        self.set == InstructionSet::Avx512 && self.body.statements.iter().all(neighbours)
    }

    fn vectors_from(&mut self, first: i32, unroll: usize, tail: Option<VReg>) -> Option<()> {
        self.unroll = unroll;
        self.copies.fill(Copies::new());
        self.pairs = None;
        self.loaded = Loaded::default();
        self.lane = self.bound(first);
        self.tails = tail.map(|tail| Copies::from_slice(&[tail]));
        let body = self.body;
        self.statements(&body.statements)?;
        self.tails = None;
        Some(())
    }

    /// A mask of the first lanes, made before the rows.
    fn first_lanes(&mut self, lanes: usize) -> VReg {
        if self.set == InstructionSet::Avx512 {
            return self.constant_lanes((1u16 << lanes) - 1);
        }
        let bytes = self.set.vector_bytes();
        let of_lane = bytes / self.lanes() as usize;
        let mask: Vec<u8> = (0..bytes)
            .map(|i| if i < of_lane * lanes { 0xff } else { 0 })
            .collect();
        let source = Source::Pool {
            offset: self.asm.constant(&mask),
            broadcast: false,
        };
        let was = std::mem::replace(&mut self.asm.place, Place::Entry);
        let sources = [(source, self.set.mask_size())];
        let mask = self.mask(Code::VEX_Vmovups_ymm_ymmm256, &sources, None);
        self.asm.place = was;
        mask
    }
}
