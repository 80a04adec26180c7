//! Iteration over a kernel's domain: one point at a time, as vector loops, as row loops, or in
//! blocks of rows.

use super::{Lower, Values};
use crate::abi::LINE_SHIFT;
use crate::clif::counted_loop::CountedLoop;
use crate::clif::transposed_tile::TileCopy;
use crate::error::Error;
use crate::origin::Origin;
use crate::vectorize::loop_versioning::Version;
use crate::vectorize::select_loops::{Across, VectorPlan};
use crate::vectorize::translate::{Run, TILE_BYTES};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, Value, types};
use smallvec::SmallVec;
use tegula_expr::{Term, Var};

impl<'a> Lower<'a, '_> {
    /// Iterates over the domain; by the plan `scalar` at sizes that the lanes' indices are too
    /// short for.
    pub(super) fn domain(&mut self, part: [Value; 2], scalar: &'a VectorPlan) -> Result<(), Error> {
        let guards = self.vectors.guards();
        if guards.is_empty() {
            return self.whole_domain(part);
        }
        let most = self.integer(types::I64, i64::from(i32::MAX));
        let mut fits = self.integer(types::I8, 1);
        for term in guards {
            let value = self.term_value(term);
            let below = IntCC::SignedLessThanOrEqual;
            let own = self.builder.ins().icmp(below, value, most);
            fits = self.builder.ins().band(fits, own);
        }
        self.either(fits, [self.vectors, scalar], |lower, plan| {
            lower.vectors = plan;
            lower.whole_domain(part)
        })
    }

    /// Lowers two alternatives, of which a condition chooses the first or the second at run time.
    fn either<T>(
        &mut self,
        condition: Value,
        alternatives: [T; 2],
        mut lower: impl FnMut(&mut Self, T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let [yes, no, join] = [(); 3].map(|()| self.builder.create_block());
        self.builder.ins().brif(condition, yes, &[], no, &[]);
        for (block, alternative) in [yes, no].into_iter().zip(alternatives) {
            self.builder.switch_to_block(block);
            self.builder.seal_block(block);
            self.open_terms();
            let done = lower(self, alternative);
            self.close_terms();
            done?;
            self.builder.ins().jump(join, &[]);
        }
        self.builder.switch_to_block(join);
        self.builder.seal_block(join);
        Ok(())
    }

    fn whole_domain(&mut self, [begin, end]: [Value; 2]) -> Result<(), Error> {
        let kernel = self.kernel;
        if let Some(across) = self.vectors.across {
            return self.blocks(across, [begin, end]);
        }
        if self.whole_domain_is_lanes() {
            return self.domain_lanes(&kernel.domain, [begin, end]);
        }
        let Some((&outer, inner)) = kernel.domain.split_first() else {
            // Executed once or not at all: a loop over the requested part.
            return self
                .count(begin, end, None, &[], &mut |lower, _, _| {
                    lower.statements(&kernel.body)?;
                    Ok(Values::new())
                })
                .map(|_| ());
        };
        self.points(outer, [begin, end], inner)
    }

    pub(crate) fn inner_domain(&mut self, vars: &[Var]) -> Result<(), Error> {
        let kernel = self.kernel;
        let Some((&var, rest)) = vars.split_first() else {
            return self.statements(&kernel.body);
        };
        let zero = self.integer(types::I64, 0);
        let end = self.extent(var)?;
        let vectors = self.vectors;
        if vectors
            .domain
            .as_ref()
            .is_some_and(|(count, _)| *count == vars.len())
        {
            return self.domain_lanes(vars, [zero, end]);
        }
        self.points(var, [zero, end], rest)
    }

    /// Computes the domain in blocks of lanes that go along the dimension `across`. The order does
    /// not matter because points are independent.
    fn blocks(&mut self, across: Across, outermost: [Value; 2]) -> Result<(), Error> {
        let domain = &self.kernel.domain;
        let Some((count, Version::Leaf(run))) = &self.vectors.domain else {
            return Ok(());
        };
        let (outer, lanes) = domain.split_at(domain.len() - count);
        let around: SmallVec<[Var; 4]> =
            outer.iter().copied().filter(|v| *v != across.var).collect();
        self.blocks_inside(&around, across, (lanes, run), outermost)
    }

    fn blocks_inside(
        &mut self,
        around: &[Var],
        across: Across,
        (vars, run): (&[Var], &'a Run),
        outermost: [Value; 2],
    ) -> Result<(), Error> {
        if let Some((&var, rest)) = around.split_first() {
            let [begin, end] = self.part(var, outermost)?;
            self.count(begin, end, Some(var), &[], &mut |lower, _, _| {
                lower.blocks_inside(rest, across, (vars, run), outermost)?;
                Ok(Values::new())
            })?;
            return Ok(());
        }
        let [begin, end] = self.part(across.var, outermost)?;
        let zero = self.integer(types::I64, 0);
        let mut lanes = self.integer(types::I64, 1);
        for &var in vars {
            let extent = self.extent(var)?;
            lanes = self.builder.ins().imul(lanes, extent);
            self.set_var(var, zero);
        }
        let turn = CountedLoop::open(self.builder, zero, lanes, &[]);
        self.open_terms();
        let first = turn.counter;
        let left = self.builder.ins().isub(lanes, first);
        let most = self.integer(types::I64, across.lanes);
        let n = self.builder.ins().smin(left, most);
        let done = match run.tiles.is_empty() {
            true => self.rows_of_block(run, across.var, [begin, end], [first, n]),
            false => self.strips_of_block(run, across.var, [begin, end], [first, n]),
        };
        self.close_terms();
        turn.close(self.builder, across.lanes, &[]);
        done
    }

    /// Computes `n` lanes from lane `first` on in each of these rows.
    fn rows_of_block(
        &mut self,
        run: &Run,
        row: Var,
        [begin, end]: [Value; 2],
        lanes: [Value; 2],
    ) -> Result<(), Error> {
        self.count(begin, end, Some(row), &[], &mut |lower, _, _| {
            lower.run_of_lanes(run, lanes, &[], &[])?;
            Ok(Values::new())
        })?;
        Ok(())
    }

    /// The same in strips of as many rows as the tiles have, which are made before each.
    fn strips_of_block(
        &mut self,
        run: &Run,
        row: Var,
        [begin, end]: [Value; 2],
        [first, n]: [Value; 2],
    ) -> Result<(), Error> {
        let tiles = &run.tiles;
        let most = tiles.iter().map(|tile| TileCopy::rows_at_most(tile.bytes));
        let most = most.min().unwrap_or(1);
        let slot = StackSlotData::new(
            StackSlotKind::ExplicitSlot,
            (TILE_BYTES * tiles.len() as i64) as u32,
            LINE_SHIFT,
        );
        let slot = self.builder.create_sized_stack_slot(slot);
        let strip = CountedLoop::open(self.builder, begin, end, &[]);
        let start = strip.counter;
        let left = self.builder.ins().isub(end, start);
        let most_rows = self.integer(types::I64, most);
        let rows = self.builder.ins().smin(left, most_rows);
        // Terms known here are those of the first row.
        self.open_terms();
        self.set_var(row, start);
        self.set_var(run.lane, first);
        let mut bases = SmallVec::<[Value; 2]>::new();
        for (place, tile) in (0..).step_by(TILE_BYTES as usize).zip(tiles) {
            let to = self.builder.ins().stack_addr(types::I64, slot, place);
            let distance = self.term_value(&tile.distance);
            let bytes = i64::from(tile.bytes);
            let copy = TileCopy {
                bytes: tile.bytes,
                from: self.address_of(tile.param, &tile.first),
                distance: self.builder.ins().imul_imm_s(distance, bytes),
                to,
                lanes: n,
                rows,
            };
            copy.emit(self.builder);
            bases.push(to);
        }
        self.close_terms();
        let stop = self.builder.ins().iadd(start, rows);
        let done = self.count(start, stop, Some(row), &[], &mut |lower, at, _| {
            let ins = &mut lower.builder;
            let before = ins.ins().isub(at, start);
            let current = bases.iter().zip(tiles).map(|(&base, tile)| {
                let row_bytes = TileCopy::row_bytes(tile.bytes);
                let before = ins.ins().imul_imm_s(before, row_bytes);
                ins.ins().iadd(base, before)
            });
            lower.tile_rows = current.collect();
            lower.run_of_lanes(run, [first, n], &[], &[])?;
            Ok(Values::new())
        });
        strip.close(self.builder, most, &[]);
        done.map(|_| ())
    }

    /// The range of a domain dimension to compute: the requested part of the outermost one, all of
    /// the others.
    fn part(&mut self, var: Var, outermost: [Value; 2]) -> Result<[Value; 2], Error> {
        if self.kernel.domain.first() == Some(&var) {
            return Ok(outermost);
        }
        Ok([self.integer(types::I64, 0), self.extent(var)?])
    }

    fn whole_domain_is_lanes(&self) -> bool {
        let domain = self.vectors.domain.as_ref();
        domain.is_some_and(|(count, _)| *count == self.kernel.domain.len())
    }

    /// Computes these dimensions as one vector loop, with a range of the first one.
    fn domain_lanes(&mut self, vars: &[Var], [begin, end]: [Value; 2]) -> Result<(), Error> {
        let vectors = self.vectors;
        let Some((_, rows)) = &vectors.domain else {
            return Ok(());
        };
        let lane = vars
            .last()
            .map_or(Origin::None, |var| Origin::Variable(*var));
        let around = self.comes_from(lane);
        let (mut first, mut last) = (begin, end);
        for &var in &vars[1..] {
            let extent = self.extent(var)?;
            first = self.builder.ins().imul(first, extent);
            last = self.builder.ins().imul(last, extent);
        }
        let zero = self.integer(types::I64, 0);
        for &var in vars {
            self.set_var(var, zero);
        }
        let n = self.builder.ins().isub(last, first);
        let done = self.version_of_lanes(rows, [first, n]);
        self.builder.set_srcloc(around);
        done
    }

    /// Selects the version for the current indices and runs its vector loop.
    fn version_of_lanes(&mut self, rows: &Version<Run>, lanes: [Value; 2]) -> Result<(), Error> {
        let (var, bound, below, above) = match rows {
            Version::Leaf(run) => return self.run_of_lanes(run, lanes, &[], &[]).map(|_| ()),
            Version::Split {
                var,
                bound,
                below,
                above,
            } => (*var, *bound, below, above),
        };
        let at = self.term_value(&Term::var(var));
        let bound = self.integer(types::I64, bound);
        let is_below = self.builder.ins().icmp(IntCC::SignedLessThan, at, bound);
        self.either(is_below, [below, above], |lower, rows| {
            lower.version_of_lanes(rows, lanes)
        })
    }
}
