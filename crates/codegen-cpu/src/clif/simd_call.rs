//! Vector loops in a kernel's function: code before the loop, the inputs of its SIMD body, and the
//! use of its reductions' results.

use super::lower::{Lower, Values};
use super::types::carrier_types;
use crate::error::Error;
use crate::image::sine_table;
use crate::isa::clif128;
use crate::simd::ir::Input;
use crate::simd::row_addressing::RowsIn;
use crate::vectorize::translate::{Combined, Run, Source};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    BlockArg, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value, types,
};
use smallvec::SmallVec;
use tegula_fusion::kernel::ScalarId;
use tegula_ir::{Category, ElementType};

impl Lower<'_, '_> {
    /// Runs `n` lanes from lane `first` on. Returns the new values of the carried scalars.
    pub(crate) fn run_of_lanes(
        &mut self,
        run: &Run,
        [first, n]: [Value; 2],
        carried: &[ScalarId],
        init: &[Value],
    ) -> Result<SmallVec<[Value; 4]>, Error> {
        let (inside, exit) = (self.builder.create_block(), self.builder.create_block());
        for &value in init {
            let ty = self.builder.func.dfg.value_type(value);
            self.builder.append_block_param(exit, ty);
        }
        // With no lanes, nothing may be loaded.
        let any = self
            .builder
            .ins()
            .icmp_imm_s(IntCC::SignedGreaterThan, n, 0);
        let unchanged: Vec<BlockArg> = init.iter().copied().map(BlockArg::from).collect();
        self.builder.ins().brif(any, inside, &[], exit, &unchanged);
        self.builder.switch_to_block(inside);
        self.builder.seal_block(inside);
        self.open_terms();
        let results = self.lanes_inside(run, [first, n], carried, init);
        self.close_terms();
        let results: Vec<BlockArg> = results?.into_iter().map(BlockArg::from).collect();
        self.builder.ins().jump(exit, &results);
        self.builder.switch_to_block(exit);
        self.builder.seal_block(exit);
        Ok(self.builder.block_params(exit).iter().copied().collect())
    }

    fn lanes_inside(
        &mut self,
        run: &Run,
        [first, n]: [Value; 2],
        carried: &[ScalarId],
        init: &[Value],
    ) -> Result<SmallVec<[Value; 4]>, Error> {
        let inputs = self.inputs(run, first)?;
        let reduced = self.body(run, &inputs, n)?;
        self.combine(run, &reduced, carried, init)
    }

    /// The body's inputs for lanes from `first` on.
    pub(crate) fn inputs(&mut self, run: &Run, first: Value) -> Result<Vec<Value>, Error> {
        self.set_var(run.lane, first);
        self.each(&run.hoisted)?;
        let inputs = run.sources.iter().zip(&run.body.inputs);
        Ok(inputs.map(|(s, input)| self.input(s, *input)).collect())
    }

    /// Combines the results of a vector loop's reductions with the carried scalars.
    pub(crate) fn combine(
        &mut self,
        run: &Run,
        reduced: &[Value],
        carried: &[ScalarId],
        init: &[Value],
    ) -> Result<SmallVec<[Value; 4]>, Error> {
        let mut results: SmallVec<[Value; 4]> = init.iter().copied().collect();
        let mut reduced = reduced.iter();
        for Combined { carried: which, op } in &run.combined {
            let parts = |id: &ScalarId| carrier_types(self.type_of(*id)).len();
            let first: usize = carried[..*which].iter().map(parts).sum();
            let place = first..first + parts(&carried[*which]);
            let element_type = self.type_of(carried[*which]);
            let new = reduced.by_ref().take(place.len());
            let new: Values = new.map(|&v| self.carried_lane(element_type, v)).collect();
            let old: Values = SmallVec::from_slice(&init[place.clone()]);
            let combined = self.binary(*op, element_type, &old, &new);
            let combined = combined.ok_or_else(|| Error::Bug("a combination".to_owned()))?;
            results[place].copy_from_slice(&combined);
        }
        Ok(results)
    }

    fn body(&mut self, run: &Run, inputs: &[Value], n: Value) -> Result<Vec<Value>, Error> {
        let Some(function) = self.wide_body(run, RowsIn::One)? else {
            let machine = self.abilities();
            return clif128::emit(self.builder, &run.body, inputs, n, machine);
        };
        let size = 8 * (inputs.len() + run.body.reductions.len()).max(1);
        let size = u32::try_from(size).map_err(|_| Error::Bug("a body's inputs".to_owned()))?;
        let slot = self.builder.create_sized_stack_slot(StackSlotData::new(
            StackSlotKind::ExplicitSlot,
            size,
            3,
        ));
        for (i, &input) in inputs.iter().enumerate() {
            let at = 8 * i as i32;
            self.builder.ins().stack_store(types::I64, input, slot, at);
        }
        let address = self.builder.ins().stack_addr(types::I64, slot, 0);
        self.builder.ins().call(function, &[address, n]);
        let results = run.body.reductions.iter().enumerate().map(|(i, r)| {
            let ty = clif128::scalar_type(run.body.type_of(r.value));
            let at = 8 * (inputs.len() + i) as i32;
            self.builder.ins().stack_load(types::I64, ty, slot, at)
        });
        Ok(results.collect())
    }

    /// An input as a 64-bit integer.
    pub(crate) fn input(&mut self, source: &Source, input: Input) -> Value {
        match source {
            Source::Address(param, linear, offset) => {
                let address = self.address_of(*param, linear);
                self.builder.ins().iadd_imm_s(address, i64::from(*offset))
            }
            Source::Integer(term) => self.term(term),
            Source::Scalar(id, part) => {
                let value = self.values(*id)[*part];
                self.number(self.type_of(*id), value, input)
            }
            Source::Table => sine_table(self.builder),
            Source::Tile(number) => self.tile_row(*number),
        }
    }

    /// A scalar in the form of its lanes, in 64 bits.
    fn number(&mut self, element_type: ElementType, value: Value, _input: Input) -> Value {
        let ty = self.builder.func.dfg.value_type(value);
        let integer = match ty {
            types::F32 | types::F64 => {
                let to = if ty == types::F32 {
                    types::I32
                } else {
                    types::I64
                };
                self.builder.ins().bitcast(to, MemFlagsData::new(), value)
            }
            _ => value,
        };
        if ty == types::I64 || ty == types::F64 {
            return integer;
        }
        match element_type.category() {
            Category::Signed => self.builder.ins().sextend(types::I64, integer),
            _ => self.builder.ins().uextend(types::I64, integer),
        }
    }

    /// Converts one lane to the carried form of a scalar.
    fn carried_lane(&mut self, element_type: ElementType, value: Value) -> Value {
        let to = carrier_types(element_type)[0];
        let from = self.builder.func.dfg.value_type(value);
        if from.is_int() && to.bits() < from.bits() {
            self.builder.ins().ireduce(to, value)
        } else {
            value
        }
    }
}
