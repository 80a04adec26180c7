//! Lowers one kernel to one Cranelift function.
//!
//! The function is `extern "C" fn(args: *const *mut u8, begin: i64, end: i64)`. `args` holds the
//! addresses of the kernel's parameters, then that of the values of the plan's symbols (only read
//! if the kernel uses sizes known at run time), then that of the run's [stop flag](stopping) (only
//! read if the kernel has long loops). `begin..end` is the part of the outermost domain dimension
//! to run (a kernel without a domain runs once if `begin < end`).
//!
//! Index terms become 64-bit integer arithmetic; a term that was computed in an enclosing block is
//! not computed again.

mod domain;
mod stopping;
mod terms;

use stopping::LoopStatement;
pub(crate) use stopping::looks;

use super::counted_loop::CountedLoop;
use super::mem2reg::Registers;
use super::mem2reg::offset_of;
use super::types::{carrier_types, is_narrow_float, stored_types};
use crate::abi::LINE_SHIFT;
use crate::clif::operand_copy::copy_operand;
use crate::error::Error;
use crate::image::libcalls::{General, Helper};
use crate::isa::clif128;
use crate::origin::Origin;
use crate::program::ir::Location;
use crate::simd::row_addressing::RowsIn;
use crate::transform::pack_operand::PackedOperand;
use crate::vectorize::select_loops::VectorPlan;
use crate::vectorize::translate::Run;
use cranelift_codegen::ir::{
    BlockArg, FuncRef, InstBuilder, MemFlagsData, SourceLoc, StackSlotData, StackSlotKind, Type,
    Value, types,
};
use cranelift_frontend::FunctionBuilder;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tegula_expr::{Term, Var, canonicalize};
use tegula_fusion::kernel::{Access, Block, IndexVar, Param, ScalarId, Statement};
use tegula_fusion::{Kernel, KernelRanges};
use tegula_ir::ElementType;

/// The Cranelift values that carry one scalar.
pub(crate) type Values = SmallVec<[Value; 2]>;

/// The module's services for generated functions.
pub(crate) trait Imports {
    /// References a helper in the function being built.
    fn import(&mut self, builder: &mut FunctionBuilder<'_>, helper: &Helper) -> FuncRef;
    /// The address of the data that describes an operation for a helper. It is valid as long as the
    /// code.
    fn operation(&mut self, builder: &mut FunctionBuilder<'_>, operation: General) -> Value;
    /// The features of the machine's 128-bit vectors.
    fn abilities(&self) -> clif128::Abilities;
    /// Whether instructions record the statement that they came from.
    fn has_origins(&self) -> bool {
        false
    }
    /// Whether the function gets a stop flag, which long loops poll.
    fn stops(&self) -> bool;
    /// References a vector loop's body that is a separate function, if there is one.
    fn wide_body(
        &mut self,
        builder: &mut FunctionBuilder<'_>,
        run: &Run,
        rows: RowsIn<'_>,
    ) -> Result<Option<FuncRef>, Error>;
}

/// The state of lowering one kernel.
pub(crate) struct Lower<'a, 'f> {
    pub(crate) builder: &'a mut FunctionBuilder<'f>,
    imports: &'a mut dyn Imports,
    kernel: &'a Kernel,
    bases: Vec<Value>,
    vars: Vec<Option<Value>>,
    scalars: Vec<Values>,
    /// Known values of terms, for each open block.
    terms: Vec<FxHashMap<Term, Value>>,
    imported: FxHashMap<&'static str, FuncRef>,
    /// The loops that are vectorised.
    vectors: &'a VectorPlan,
    /// The address of the current row of each tile.
    tile_rows: SmallVec<[Value; 2]>,
    /// Whether the arrays that the kernel reads do not change while the function runs.
    reads_stay: bool,
    /// The promoted elements, and the locations of the parameters.
    registers: Option<(&'a Registers, &'a [Location])>,
    /// The address of the run's stop flag, if it is polled.
    flag: Option<Value>,
}

/// One iteration: computes the next carried values from the counter and the carried values.
pub(crate) type Iteration<'i, 'a, 'f> =
    &'i mut dyn FnMut(&mut Lower<'a, 'f>, Value, &[Value]) -> Result<Values, Error>;

/// Lowers a kernel into the function that `builder` builds. The arrays in `reordered` are copied
/// first and read from the copies.
pub(crate) fn lower_kernel(
    kernel: &Kernel,
    vectors: &VectorPlan,
    reordered: &[PackedOperand],
    builder: &mut FunctionBuilder<'_>,
    imports: &mut dyn Imports,
) -> Result<(), Error> {
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    builder.seal_block(entry);
    let [args, begin, end] = builder.block_params(entry)[..] else {
        return Err(Error::Bug(
            "a kernel function must have three parameters: arguments, begin and end".to_owned(),
        ));
    };
    let mut bases = Vec::with_capacity(kernel.params.len());
    for (i, param) in kernel.params.iter().enumerate() {
        bases.push(match param.access {
            Access::Local => local(builder, param)?,
            _ => {
                let flags = MemFlagsData::trusted().with_readonly();
                builder.ins().load(types::I64, flags, args, 8 * i as i32)
            }
        });
    }
    for (i, param) in kernel.params.iter().enumerate() {
        if let Some(copy) = reordered.iter().find(|copy| copy.is_of(i)) {
            bases[i] = copy_operand(copy, builder, param, bases[i])?;
        }
    }
    let scalar = VectorPlan::default();
    let mut lower = Lower::new(kernel, vectors, bases, builder, imports);
    lower.symbols(args);
    lower.stop_flag(args);
    lower.domain([begin, end], &scalar)?;
    lower.builder.ins().return_(&[]);
    lower.builder.seal_all_blocks();
    Ok(())
}

/// Lowers a kernel without a domain, symbols and local arrays at the builder's position, which may
/// be inside of loops. `given` are the addresses of its arguments; `registers` are the promoted
/// elements, with the locations of the arguments.
pub(crate) fn lower_in_place(
    kernel: &Kernel,
    vectors: &VectorPlan,
    (given, registers): (Vec<Value>, (&Registers, &[Location])),
    builder: &mut FunctionBuilder<'_>,
    imports: &mut dyn Imports,
) -> Result<(), Error> {
    let mut lower = Lower::new(kernel, vectors, given, builder, imports);
    lower.reads_stay = false;
    lower.registers = Some(registers);
    lower.statements(&kernel.body)
}

/// Allocates an array that is local to a point on the stack. Points run one after the other.
fn local(builder: &mut FunctionBuilder<'_>, param: &Param) -> Result<Value, Error> {
    let dims: Option<Vec<i64>> = param.dims.iter().map(Term::as_constant).collect();
    let elements = dims.and_then(|dims| dims.iter().try_fold(1i64, |n, &d| n.checked_mul(d)));
    let bytes = elements.and_then(|n| n.checked_mul(param.element_type.storage_bytes() as i64));
    let bytes = bytes.and_then(|n| u32::try_from(n).ok());
    let bytes = bytes.filter(|&n| n <= MAX_LOCAL);
    let bytes = bytes
        .ok_or_else(|| Error::Bug("a kernel-local array exceeds the stack limit".to_owned()))?;
    let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes.max(1), LINE_SHIFT);
    let slot = builder.create_sized_stack_slot(slot);
    Ok(builder.ins().stack_addr(types::I64, slot, 0))
}

/// The maximum bytes of a local array: threads have stacks of two megabytes.
const MAX_LOCAL: u32 = 512 << 10;
impl<'a, 'f> Lower<'a, 'f> {
    /// A kernel whose parameters are at the addresses `bases`, and whose inputs do not change.
    fn new(
        kernel: &'a Kernel,
        vectors: &'a VectorPlan,
        bases: Vec<Value>,
        builder: &'a mut FunctionBuilder<'f>,
        imports: &'a mut dyn Imports,
    ) -> Self {
        Self {
            builder,
            imports,
            kernel,
            bases,
            vars: vec![None; kernel.vars.len()],
            scalars: vec![Values::new(); kernel.scalars.len()],
            terms: vec![FxHashMap::default()],
            imported: FxHashMap::default(),
            vectors,
            tile_rows: SmallVec::new(),
            reads_stay: true,
            registers: None,
            flag: None,
        }
    }

    /// Loads the values of the symbols that the kernel uses.
    fn symbols(&mut self, args: Value) {
        let kernel = self.kernel;
        let flags = MemFlagsData::trusted().with_readonly();
        let mut table = None;
        for (slot, var) in self.vars.iter_mut().zip(&kernel.vars) {
            if let IndexVar::Symbol { symbol, .. } = var {
                let ins = &mut self.builder;
                let table = *table.get_or_insert_with(|| {
                    let last = 8 * kernel.given() as i32;
                    ins.ins().load(types::I64, flags, args, last)
                });
                let value = ins.ins().load(types::I64, flags, table, 8 * *symbol as i32);
                *slot = Some(value);
            }
        }
    }

    pub(crate) fn set_var(&mut self, var: Var, value: Value) {
        self.vars[var.0 as usize] = Some(value);
    }

    /// Sets the address of a parameter from here on.
    pub(crate) fn set_base(&mut self, param: usize, base: Value) {
        self.bases[param] = base;
    }

    /// The address of the current row of a tile.
    pub(crate) fn tile_row(&self, number: usize) -> Value {
        self.tile_rows[number]
    }

    /// Opens a scope of known terms, which [`Self::close_terms`] closes.
    pub(crate) fn open_terms(&mut self) {
        self.terms.push(FxHashMap::default());
    }

    pub(crate) fn close_terms(&mut self) {
        self.terms.pop();
    }

    pub(crate) fn abilities(&self) -> clif128::Abilities {
        self.imports.abilities()
    }

    pub(crate) fn wide_body(
        &mut self,
        run: &Run,
        rows: RowsIn<'_>,
    ) -> Result<Option<FuncRef>, Error> {
        self.imports.wide_body(self.builder, run, rows)
    }

    pub(crate) fn kernel(&self) -> &'a Kernel {
        self.kernel
    }

    pub(crate) fn vectors(&self) -> &'a VectorPlan {
        self.vectors
    }

    fn extent(&mut self, var: Var) -> Result<Value, Error> {
        match self.kernel.var(var) {
            Some(IndexVar::Domain(extent) | IndexVar::Loop(extent)) => {
                let extent = extent.clone();
                Ok(self.term_value(&extent))
            }
            _ => Err(Error::Bug(
                "a loop runs over a variable that is not declared as a loop variable".to_owned(),
            )),
        }
    }

    /// A counted loop with carried values. `body` returns the next ones.
    pub(crate) fn count(
        &mut self,
        begin: Value,
        end: Value,
        var: Option<Var>,
        init: &[Value],
        body: Iteration<'_, 'a, 'f>,
    ) -> Result<SmallVec<[Value; 4]>, Error> {
        let around = self.comes_from(var.map_or(Origin::None, Origin::Variable));
        let turn = CountedLoop::open(self.builder, begin, end, init);
        self.terms.push(FxHashMap::default());
        if let Some(var) = var {
            self.vars[var.0 as usize] = Some(turn.counter);
        }
        let next = body(self, turn.counter, &turn.carried);
        self.terms.pop();
        let results = turn.close(self.builder, 1, &next?);
        self.builder.set_srcloc(around);
        Ok(results)
    }

    // ---- statements ------------------------------------------------------------

    fn statements(&mut self, block: &Block) -> Result<(), Error> {
        self.each(&block.statements)
    }

    pub(crate) fn each(&mut self, statements: &[Statement]) -> Result<(), Error> {
        statements.iter().try_for_each(|s| self.statement(s))
    }

    pub(crate) fn type_of(&self, id: ScalarId) -> ElementType {
        self.kernel.scalars[id]
    }

    pub(crate) fn values(&self, id: ScalarId) -> Values {
        self.scalars[id.as_u32() as usize].clone()
    }

    fn define(&mut self, id: ScalarId, values: Values) {
        self.scalars[id.as_u32() as usize] = values;
    }

    /// The values of several scalars, concatenated.
    pub(crate) fn flat(&self, ids: &[ScalarId]) -> SmallVec<[Value; 4]> {
        ids.iter().flat_map(|&id| self.values(id)).collect()
    }

    pub(crate) fn define_flat(&mut self, ids: &[ScalarId], values: &[Value]) {
        let mut rest = values;
        for &id in ids {
            let count = carrier_types(self.type_of(id)).len().min(rest.len());
            let (these, others) = rest.split_at(count);
            self.define(id, these.iter().copied().collect());
            rest = others;
        }
    }

    /// Sets the origin of the next instructions, if origins are recorded; returns the previous
    /// source location.
    pub(crate) fn comes_from(&mut self, origin: Origin) -> SourceLoc {
        let around = self.builder.srcloc();
        if self.imports.has_origins() && origin != Origin::None {
            self.builder.set_srcloc(origin.location());
        }
        around
    }

    pub(crate) fn statement(&mut self, statement: &Statement) -> Result<(), Error> {
        let around = self.comes_from(Origin::of(statement));
        let done = self.lower(statement);
        self.builder.set_srcloc(around);
        done
    }

    fn lower(&mut self, statement: &Statement) -> Result<(), Error> {
        match statement {
            Statement::Compute {
                result,
                op,
                operands,
            } => {
                let to = self.type_of(*result);
                let from = operands.first().map_or(to, |&s| self.type_of(s));
                let operands: SmallVec<[Values; 3]> =
                    operands.iter().map(|&s| self.values(s)).collect();
                let values = self.scalar(op, from, to, &operands)?;
                self.define(*result, values);
            }
            Statement::Load {
                result,
                param,
                index,
            } => {
                let values = self.load(*param, index);
                self.define(*result, values);
            }
            Statement::Store {
                param,
                index,
                value,
            } => {
                let values = self.values(*value);
                self.store(*param, index, &values);
            }
            Statement::Bind { var } => {
                let Some(&IndexVar::Runtime { value, .. }) = self.kernel.var(*var) else {
                    return Err(Error::Bug(
                        "a statement binds a variable that is not a run-time variable".to_owned(),
                    ));
                };
                let scalar = self.values(value)[0];
                let wide = self.extend(self.type_of(value), scalar, types::I64);
                self.vars[var.0 as usize] = Some(wide);
            }
            Statement::Loop {
                var,
                init,
                carried,
                body,
                results,
            } => {
                let var = *var;
                let init = self.flat(init);
                let last = self.whole_loop(&LoopStatement { var, carried, body }, &init)?;
                self.define_flat(results, &last);
            }
            Statement::If {
                condition,
                then,
                otherwise,
                results,
            } => {
                self.branch(condition, then, otherwise, results)?;
            }
        }
        Ok(())
    }

    fn branch(
        &mut self,
        condition: &Term,
        then: &Block,
        otherwise: &Block,
        results: &[ScalarId],
    ) -> Result<(), Error> {
        let condition = self.condition(condition);
        let (yes, no, join) = (
            self.builder.create_block(),
            self.builder.create_block(),
            self.builder.create_block(),
        );
        for &result in results {
            for ty in carrier_types(self.type_of(result)) {
                self.builder.append_block_param(join, ty);
            }
        }
        self.builder.ins().brif(condition, yes, &[], no, &[]);
        for (block, body) in [(yes, then), (no, otherwise)] {
            self.builder.switch_to_block(block);
            self.builder.seal_block(block);
            self.terms.push(FxHashMap::default());
            let done = self.statements(body);
            self.terms.pop();
            done?;
            let values: Vec<BlockArg> = self
                .flat(&body.results)
                .into_iter()
                .map(BlockArg::from)
                .collect();
            self.builder.ins().jump(join, &values);
        }
        self.builder.switch_to_block(join);
        self.builder.seal_block(join);
        let values: SmallVec<[Value; 4]> =
            self.builder.block_params(join).iter().copied().collect();
        self.define_flat(results, &values);
        Ok(())
    }

    // ---- memory ------------------------------------------------------------------

    /// The address of an element.
    fn address(&mut self, param: usize, index: &[Term]) -> Value {
        let declared = &self.kernel.params[param];
        let before = declared.elements_before(index);
        let linear = canonicalize(&before, &KernelRanges(&self.kernel.vars));
        self.address_of(param, &linear)
    }

    /// The address of the element with this offset in its array, in elements.
    pub(crate) fn address_of(&mut self, param: usize, linear: &Term) -> Value {
        let declared = &self.kernel.params[param];
        let size = declared.element_type.storage_bytes() as i64;
        let base = self.bases[param];
        if let Some(constant) = linear.as_constant() {
            return self
                .builder
                .ins()
                .iadd_imm_s(base, constant.wrapping_mul(size));
        }
        // Neighbouring elements share an address and differ in the displacement.
        if let Some((terms, constant)) = linear.as_linear()
            && constant != 0
            && let Some(behind) = constant.checked_mul(size)
        {
            let sum = |sum: Term, (atom, factor): (Term, i64)| {
                sum.add(&atom.mul(&Term::constant(factor)))
            };
            let rest = terms.into_iter().fold(Term::constant(0), sum);
            let address = self.address_of(param, &rest);
            return self.builder.ins().iadd_imm_s(address, behind);
        }
        let linear = self.term_value(linear);
        let offset = match size {
            1 => linear,
            _ => self
                .builder
                .ins()
                .ishl_imm_s(linear, i64::from(size.trailing_zeros())),
        };
        self.builder.ins().iadd(base, offset)
    }

    /// The locations of an element's parts, if they may be promoted.
    fn places(&self, param: usize, index: &[Term]) -> Option<SmallVec<[(Location, Type); 2]>> {
        let (_, arrays) = self.registers?;
        let mut at = *arrays.get(param)?;
        at.offset += offset_of(self.kernel, param, index)?;
        let types = stored_types(self.kernel.params[param].element_type);
        let parts = types.iter().map(|&ty| {
            let part = (at, ty);
            at.offset += ty.bytes() as usize;
            part
        });
        Some(parts.collect())
    }

    fn load(&mut self, param: usize, index: &[Term]) -> Values {
        let declared = &self.kernel.params[param];
        let element_type = declared.element_type;
        let mut flags = MemFlagsData::trusted();
        if declared.access == Access::Read && self.reads_stay {
            flags = flags.with_readonly();
        }
        let places = self.places(param, index);
        let mut address = None;
        let mut offset = 0;
        let mut parts = Values::new();
        for (part, ty) in stored_types(element_type).into_iter().enumerate() {
            let place = places.as_ref().and_then(|places| places.get(part));
            let promoted = place
                .zip(self.registers)
                .and_then(|(&(at, _), (registers, _))| registers.load(self.builder, at, ty));
            parts.push(match promoted {
                Some(value) => value,
                None => {
                    let address = match address {
                        Some(address) => address,
                        None => *address.insert(self.address(param, index)),
                    };
                    self.builder.ins().load(ty, flags, address, offset)
                }
            });
            offset += ty.bytes() as i32;
        }
        if is_narrow_float(element_type) {
            let value = self.carried(element_type, parts[0]);
            return SmallVec::from_slice(&[value]);
        }
        parts
    }

    fn store(&mut self, param: usize, index: &[Term], values: &Values) {
        let element_type = self.kernel.params[param].element_type;
        let mut values = values.clone();
        if is_narrow_float(element_type) {
            values[0] = self.stored_bits(element_type, values[0]);
        }
        let flags = MemFlagsData::trusted();
        let places = self.places(param, index);
        let mut address = None;
        let mut offset = 0;
        for (part, value) in values.into_iter().enumerate() {
            let ty = self.builder.func.dfg.value_type(value);
            let place = places.as_ref().and_then(|places| places.get(part));
            let promoted = place
                .zip(self.registers)
                .is_some_and(|(&(at, _), (registers, _))| registers.store(self.builder, at, value));
            if !promoted {
                let address = match address {
                    Some(address) => address,
                    None => *address.insert(self.address(param, index)),
                };
                self.builder.ins().store(flags, value, address, offset);
            }
            offset += ty.bytes() as i32;
        }
    }

    /// An integer constant, truncated to its type.
    pub(crate) fn integer(&mut self, ty: Type, value: i64) -> Value {
        // Cranelift requires the bits above the type's width to be zero.
        let mask = u64::MAX >> (64 - ty.bits());
        let bits = (value.cast_unsigned() & mask).cast_signed();
        self.builder.ins().iconst(ty, bits)
    }

    // ---- the module -----------------------------------------------------------------

    pub(crate) fn import(&mut self, helper: &Helper) -> FuncRef {
        if let Some(&known) = self.imported.get(helper.name) {
            return known;
        }
        let function = self.imports.import(self.builder, helper);
        self.imported.insert(helper.name, function);
        function
    }

    pub(crate) fn operation(&mut self, operation: General) -> Value {
        self.imports.operation(self.builder, operation)
    }
}

/// The parameter types of a kernel's function.
pub(crate) const KERNEL_PARAMS: [Type; 3] = [types::I64, types::I64, types::I64];
