//! Generates the functions that a C program calls: one executes a plan's steps, one computes the
//! size of the arena.
//!
//! ```c
//! int32_t NAME_call(const int64_t *sizes, const void *const *parameters,
//!                   void *const *results, void *arena);
//! int64_t NAME_arena_bytes(const int64_t *sizes);
//! ```
//! `sizes` are the sizes that a call is [given](GivenSizes). The first function checks them, and
//! returns 0 or the number of the [check](checks) that failed, from 1.

mod aliased_slices;
mod loops;
mod routine_calls;

use super::calls::Library;
use super::calls::open_convolution::Function;
use super::weights::HASH;
use super::{Check, Condition, GivenSizes, OTHER_WEIGHTS};
use crate::abi::Part;
use crate::clif::integer;
use crate::clif::lower::KERNEL_PARAMS;
use crate::compile::PlanFunctions;
use crate::error::Error;
use crate::image::{FunctionId, ImageBuilder, constant_address, function};
pub(super) use aliased_slices::AliasedSlices;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{
    FuncRef, InstBuilder, MemFlagsData, StackSlot, StackSlotData, StackSlotKind, Value, types,
};
use cranelift_codegen::isa::TargetFrontendConfig;
use cranelift_frontend::FunctionBuilder;
use rustc_hash::{FxHashMap, FxHashSet};
use tegula_custom_call::{is_built_in, is_library_routine};
use tegula_expr::{Arithmetic, Node, Term, Var};
use tegula_fusion::LibraryOp;
use tegula_fusion::kernel::IndexVar;
use tegula_ir::{ALIGNMENT, Op};
use tegula_plan::{BufferId, KernelId, Place, Plan, Step, ValueId};

/// The bytes of an address.
const WORD: usize = 8;
/// The part of the error message for a missing routine that lists the available ones.
const ROUTINES_OF_LAPACK: &str = ", which has `getrf`, `gtsv`, `potrf` and `trsm` of LAPACK, and `geqrf` \
    and `orgqr` of real numbers,";

/// Emits `NAME_call`.
pub(super) fn call(
    image: &mut ImageBuilder,
    program: Program<'_>,
    (open, checks): (&GivenSizes, &[Check]),
    library: &mut Library,
) -> Result<FunctionId, Error> {
    let signature = (&[types::I64; 4][..], &[types::I32][..]);
    function::define(image, signature, |image, builder, given| {
        let &[sizes, parameters, results, arena] = given else {
            return Err(bug("a signature"));
        };
        let mut driver = Driver::new((image, builder), (program, library), [sizes, arena]);
        driver.checks = checks.len();
        driver.symbols(open);
        driver.check(checks);
        driver.open_weights(parameters)?;
        driver.enter(parameters, results)?;
        driver.steps(&program.plan.steps)?;
        Ok(Some(driver.builder.ins().iconst(types::I32, 0)))
    })
}

/// Emits `NAME_arena_bytes`, which returns -1 if sizes are too large.
pub(super) fn arena_bytes(
    image: &mut ImageBuilder,
    program: Program<'_>,
    (open, checks): (&GivenSizes, &[Check]),
    library: &mut Library,
) -> Result<FunctionId, Error> {
    let signature = (&[types::I64][..], &[types::I64][..]);
    function::define(image, signature, |image, builder, given| {
        let &[sizes] = given else {
            return Err(bug("a signature"));
        };
        // There is no arena yet, and the computed terms do not read it.
        let mut driver = Driver::new((image, builder), (program, library), [sizes, sizes]);
        driver.symbols(open);
        let mut bytes = driver.arena_bytes()?;
        for check in checks {
            if !matches!(check.condition, Condition::AtMost(..)) {
                continue;
            }
            let fits = driver.holds(&check.condition);
            let none = driver.builder.ins().iconst(types::I64, -1);
            bytes = driver.builder.ins().select(fits, bytes, none);
        }
        Ok(Some(bytes))
    })
}

/// The offset in the arena of the products that are prepared once.
fn prepared_offset(plan: &Plan) -> Term {
    let unit = Term::constant(ALIGNMENT as i64);
    plan.arena_bytes.ceil_div(&unit).mul(&unit)
}

/// The offset in the arena of the routines' scratch memory.
fn scratch_offset(plan: &Plan, library: &Library) -> Term {
    let bytes = library.ready.bytes.next_multiple_of(ALIGNMENT);
    prepared_offset(plan).add(&Term::constant(bytes as i64))
}

/// The bytes of the arena, if they depend on no size.
pub(super) fn known_arena_bytes(plan: &Plan, library: &Library) -> Option<i64> {
    match (library.has_scratch(), library.open().next()) {
        (false, _) => plan.arena_bytes.as_constant(),
        (true, None) => Some(scratch_offset(plan, library).as_constant()? + library.scratch as i64),
        (true, Some(_)) => None,
    }
}

fn bug(what: &str) -> Error {
    Error::Bug(format!("object code: {what}"))
}

/// The input for the functions of an object.
#[derive(Clone, Copy)]
pub(super) struct Program<'p> {
    pub plan: &'p Plan,
    /// The functions of its kernels, sorts and loops.
    pub code: &'p PlanFunctions,
    pub slices: &'p AliasedSlices,
}

struct Driver<'d, 'f> {
    image: &'d mut ImageBuilder,
    builder: &'d mut FunctionBuilder<'f>,
    config: TargetFrontendConfig,
    plan: &'d Plan,
    code: &'d PlanFunctions,
    sizes: Value,
    arena: Value,
    /// Terms that were computed in the function's first block, and are available everywhere.
    terms: FxHashMap<Term, Value>,
    buffers: FxHashMap<BufferId, Value>,
    /// The slices of arrays that are read in place.
    slices: &'d AliasedSlices,
    /// The computed address of each slice, by its number.
    slice_addresses: FxHashMap<usize, Value>,
    functions: FxHashMap<FunctionId, FuncRef>,
    /// The stack slot for the addresses of a kernel's arguments.
    table: Option<StackSlot>,
    /// The calls of routines.
    library: &'d mut Library,
    /// The addresses of the products that are prepared once.
    prepared: Vec<Value>,
    /// The address of the routines' scratch memory, after the plan's part of the arena.
    scratch: Option<Value>,
    /// The address of the file of constants, if there is one.
    weights: Option<Value>,
    /// The number of statuses that belong to checks.
    checks: usize,
}

impl<'d, 'f> Driver<'d, 'f> {
    fn new(
        (image, builder): (&'d mut ImageBuilder, &'d mut FunctionBuilder<'f>),
        (program, library): (Program<'d>, &'d mut Library),
        [sizes, arena]: [Value; 2],
    ) -> Self {
        Self {
            config: image.config(),
            image,
            builder,
            plan: program.plan,
            code: program.code,
            sizes,
            arena,
            terms: FxHashMap::default(),
            buffers: FxHashMap::default(),
            slices: program.slices,
            slice_addresses: FxHashMap::default(),
            functions: FxHashMap::default(),
            table: None,
            library,
            prepared: Vec::new(),
            scratch: None,
            weights: None,
            checks: 0,
        }
    }

    /// Computes the values of the plan's symbols from the given sizes, in a table for kernels.
    fn symbols(&mut self, open: &GivenSizes) {
        let flags = MemFlagsData::trusted().with_readonly();
        let words = open.of.len().max(1);
        let table = StackSlotData::new(StackSlotKind::ExplicitSlot, (WORD * words) as u32, 3);
        let table = self.builder.create_sized_stack_slot(table);
        for (number, given) in open.of.iter().enumerate() {
            let value = match given {
                Some(given) => {
                    let offset = (WORD * given) as i32;
                    let ins = self.builder.ins();
                    ins.load(types::I64, flags, self.sizes, offset)
                }
                None => self.builder.ins().iconst(types::I64, 0),
            };
            let at = (WORD * number) as i32;
            self.builder.ins().stack_store(types::I64, value, table, at);
            self.terms.insert(Term::var(Var(number as u32)), value);
        }
        self.sizes = self.builder.ins().stack_addr(types::I64, table, 0);
    }

    /// Returns the number of the first check that fails.
    fn check(&mut self, checks: &[Check]) {
        for (number, check) in checks.iter().enumerate() {
            let holds = self.holds(&check.condition);
            let [fails, on] = [(); 2].map(|()| self.builder.create_block());
            self.builder.ins().brif(holds, on, &[], fails, &[]);
            self.builder.switch_to_block(fails);
            let status = self.builder.ins().iconst(types::I32, number as i64 + 1);
            self.builder.ins().return_(&[status]);
            self.builder.switch_to_block(on);
        }
    }

    /// Whether a condition on the sizes holds.
    fn holds(&mut self, condition: &Condition) -> Value {
        match condition {
            Condition::Compare(left, op, right) => {
                let (left, right) = (self.term(left), self.term(right));
                integer::compare(self.builder, *op, left, right)
            }
            Condition::AtMost(terms, most) => {
                let mut largest = self.builder.ins().f64const(0.0);
                for term in terms {
                    let bound = self.magnitude(term);
                    largest = self.builder.ins().fmax(largest, bound);
                }
                let most = self.builder.ins().f64const(*most as f64);
                let ins = self.builder.ins();
                ins.fcmp(FloatCC::LessThanOrEqual, largest, most)
            }
        }
    }

    /// [`super::magnitude`] of the sizes that the call is given.
    fn magnitude(&mut self, term: &Term) -> Value {
        term.fold(&mut |term: &Term, parts: &[Value]| {
            let number = match term.node() {
                Node::Var(_) => {
                    let size = self.term(term);
                    let size = self.builder.ins().fcvt_from_sint(types::F64, size);
                    return self.builder.ins().fabs(size);
                }
                Node::Add(..) => return self.builder.ins().fadd(parts[0], parts[1]),
                Node::Mul(..) => return self.builder.ins().fmul(parts[0], parts[1]),
                Node::FloorDiv(..) | Node::CeilDiv(..) => return parts[0],
                Node::Min(..) | Node::Max(..) | Node::Mod(..) | Node::Select(..) => {
                    let first = parts[0];
                    let rest = parts[1..].iter();
                    return rest.fold(first, |most, &part| self.builder.ins().fmax(most, part));
                }
                Node::Const(number) => number.unsigned_abs() as f64,
                Node::Cmp(..) => 1.0,
            };
            self.builder.ins().f64const(number)
        })
    }

    /// Checks that the file of constants, whose address comes after the parameters, belongs to this
    /// object.
    fn open_weights(&mut self, parameters: Value) -> Result<(), Error> {
        if self.library.weights.is_none() {
            return Ok(());
        }
        let hash = self.library.hash().ok_or_else(|| bug("a hash"))?;
        let flags = MemFlagsData::trusted().with_readonly();
        let at = (WORD * self.plan.parameters.len()) as i32;
        let ins = self.builder.ins();
        let file = ins.load(types::I64, flags, parameters, at);
        self.weights = Some(file);
        let own = constant_address(self.builder, hash as u32);
        let [fails, on] = [(); 2].map(|()| self.builder.create_block());
        for word in 0..HASH / WORD {
            let at = (WORD * word) as i32;
            let wanted = self.builder.ins().load(types::I64, flags, own, at);
            let ins = self.builder.ins();
            // The fields after the magic bytes.
            let found = ins.load(types::I64, flags, file, at + WORD as i32);
            let same = self.builder.ins().icmp(IntCC::Equal, wanted, found);
            let next = match word + 1 < HASH / WORD {
                true => self.builder.create_block(),
                false => on,
            };
            self.builder.ins().brif(same, next, &[], fails, &[]);
            self.builder.switch_to_block(next);
        }
        self.builder.switch_to_block(fails);
        let status = self.builder.ins().iconst(types::I32, OTHER_WEIGHTS);
        self.builder.ins().return_(&[status]);
        self.builder.switch_to_block(on);
        Ok(())
    }

    /// The address of a constant, in the object or in the file.
    fn constant(&mut self, number: usize) -> Value {
        match (self.weights, self.library.in_file(self.plan, number)) {
            (Some(file), Some(offset)) => self.builder.ins().iadd_imm_s(file, offset as i64),
            _ => constant_address(self.builder, number as u32),
        }
    }

    /// Computes the address of every buffer, and copies parameters to the results that begin as
    /// copies of them.
    fn enter(&mut self, parameters: Value, results: Value) -> Result<(), Error> {
        let flags = MemFlagsData::trusted().with_readonly();
        let plan = self.plan;
        let mut read = FxHashSet::default();
        self.library.read(&plan.steps, &mut read);
        // Buffers of one constant have one address, because a loop's function uses the address of
        // any of them.
        let read =
            read.iter().filter_map(
                |&value| match plan.buffers[plan.values[value].buffer].place {
                    Place::Constant(number) => Some(number),
                    _ => None,
                },
            );
        let read: FxHashSet<usize> = read.collect();
        for (id, buffer) in &plan.buffers {
            let listed = |number: usize| (WORD * number) as i32;
            let address = match &buffer.place {
                Place::Parameter(number) => {
                    let ins = self.builder.ins();
                    ins.load(types::I64, flags, parameters, listed(*number))
                }
                Place::Output { result, from } => {
                    let ins = self.builder.ins();
                    let start = ins.load(types::I64, flags, results, listed(*result));
                    self.builder.ins().iadd_imm_s(start, *from)
                }
                Place::Constant(number) if read.contains(number) => self.constant(*number),
                Place::Constant(_) => self.builder.ins().iconst(types::I64, 0),
                Place::Arena(offset) => {
                    let offset = self.term(offset);
                    self.builder.ins().iadd(self.arena, offset)
                }
            };
            self.buffers.insert(id, address);
        }
        if self.library.has_scratch() {
            let own = self.term(&scratch_offset(plan, self.library));
            self.scratch = Some(self.builder.ins().iadd(self.arena, own));
        }
        self.prepare()?;
        let mut most = 0;
        for kernel in plan.kernels.values() {
            most = most.max(kernel.given() + 1);
            for var in &kernel.domain {
                if let Some(extent) = kernel.extent(*var) {
                    let extent = own(kernel, extent);
                    self.term(&extent);
                }
            }
        }
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, (WORD * most) as u32, 3);
        self.table = Some(self.builder.create_sized_stack_slot(slot));
        for alias in &plan.aliases {
            let result = plan.results.get(alias.output).ok_or_else(|| {
                bug("an alias of a parameter names a result that the program does not have")
            })?;
            let offset = |number: usize| (WORD * number) as i32;
            let ins = self.builder.ins();
            let from = ins.load(types::I64, flags, parameters, offset(alias.parameter));
            let ins = self.builder.ins();
            let to = ins.load(types::I64, flags, results, offset(alias.output));
            let bytes = &plan.buffers[plan.values[*result].buffer].bytes;
            let bytes = self.term(bytes);
            // The caller may pass the same memory for both.
            self.builder.call_memmove(self.config, to, from, bytes);
        }
        Ok(())
    }

    fn steps(&mut self, steps: &[Step]) -> Result<(), Error> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &Step) -> Result<(), Error> {
        match step {
            Step::Kernel { kernel, args } => self.kernel(*kernel, args),
            Step::Copy { from, to } => self.copy(*from, *to),
            Step::Library {
                operands, results, ..
            } if self.is_called(results) => self.routines(operands, results),
            Step::Library {
                op: LibraryOp::Operation(op),
                operands,
                results,
            } if let Op::CustomCall(call) = &**op
                && !is_built_in(&call.target)
                && let Some(number) = self.library.custom(&call.target) =>
            {
                self.custom_call(call, number, operands, results)
            }
            Step::Library { op, .. } => {
                let name = match op {
                    LibraryOp::Operation(op) if let Op::CustomCall(call) = &**op => &*call.target,
                    op => op.name(),
                };
                let has = match is_library_routine(name) {
                    true => ROUTINES_OF_LAPACK,
                    false => "",
                };
                let what = format!("`{name}` in an object{has}");
                Err(Error::Unsupported(what))
            }
            Step::While { .. }
                if let Some(looped) = self.code.loops.get(&std::ptr::from_ref(step)) =>
            {
                self.loop_function(looped)
            }
            Step::While {
                condition,
                predicate,
                body,
            } => self.while_loop(condition, *predicate, body),
            Step::Conditional { selector, branches } => self.conditional(*selector, branches),
            Step::Strips { steps, .. } => self.steps(steps),
        }
    }

    /// The bytes of the arena: the plan's, and those for routines.
    fn arena_bytes(&mut self) -> Result<Value, Error> {
        if !self.library.has_scratch() {
            return Ok(self.term(&self.plan.arena_bytes));
        }
        let own = self.term(&scratch_offset(self.plan, self.library));
        let known = self.library.scratch as i64;
        let mut most = self.builder.ins().iconst(types::I64, known);
        let mut open: Vec<(&'static str, Vec<Term>, Vec<Function>)> = Vec::new();
        for (scratch, words, functions) in self.library.open() {
            let scratch = (scratch, words.to_vec(), functions.to_vec());
            if !open.contains(&scratch) {
                open.push(scratch);
            }
        }
        // Sorted, because the order of the hash map is not deterministic.
        open.sort_by_key(|(name, words, _)| (*name, format!("{words:?}")));
        for (scratch, words, functions) in open {
            let words = self.words(&words)?;
            let bytes = if functions.is_empty() {
                self.call(scratch, &[types::I64], &[types::I64], &[words])
            } else {
                let functions = self.function_table(&functions);
                let (params, returns) = (&[types::I64; 2], &[types::I64]);
                self.call(scratch, params, returns, &[words, functions])
            };
            let bytes = bytes.ok_or_else(|| bug("a call's scratch memory has no size"))?;
            most = self.builder.ins().smax(most, bytes);
        }
        Ok(self.builder.ins().iadd(own, most))
    }

    fn kernel(&mut self, id: KernelId, args: &[ValueId]) -> Result<(), Error> {
        if let Some(view) = self.slices.of(self.plan, id, args).cloned() {
            return self.alias_slice(&view);
        }
        let table = self.table.ok_or_else(|| bug("a kernel"))?;
        for (number, arg) in args.iter().enumerate() {
            let address = self.address(*arg)?;
            let at = (WORD * number) as i32;
            self.builder
                .ins()
                .stack_store(types::I64, address, table, at);
        }
        let last = (WORD * args.len()) as i32;
        self.builder
            .ins()
            .stack_store(types::I64, self.sizes, table, last);
        let plan = self.plan;
        let kernel = &plan.kernels[id];
        let mut extents = kernel.domain.iter().map(|&var| match kernel.extent(var) {
            Some(extent) => Ok(own(kernel, extent)),
            None => Err(bug("a kernel's domain has a dimension without an extent")),
        });
        let outermost = extents.next().transpose()?;
        let mut end = self.term(&outermost.unwrap_or_else(|| Term::constant(1)));
        // A domain has no points if one of its dimensions has extent 0.
        for extent in extents {
            let extent = self.term(&extent?);
            let none = self
                .builder
                .ins()
                .icmp_imm_s(IntCC::SignedLessThan, extent, 1);
            let zero = self.builder.ins().iconst(types::I64, 0);
            end = self.builder.ins().select(none, zero, end);
        }
        let addresses = self.builder.ins().stack_addr(types::I64, table, 0);
        let begin = self.builder.ins().iconst(types::I64, 0);
        let pieces = self.code.kernels.get(id.as_u32() as usize);
        for (function, part) in pieces.ok_or_else(|| bug("a kernel was not compiled"))? {
            let [begin, end] = match part {
                None => [begin, end],
                Some(part) => [begin, end].map(|at| self.bound(part, at)),
            };
            let function = self.function(*function);
            self.builder.ins().call(function, &[addresses, begin, end]);
        }
        Ok(())
    }

    /// Emits [`Part::bounds`].
    fn bound(&mut self, part: &Part, at: Value) -> Value {
        let points = self.builder.ins().iconst(types::I64, part.points);
        let point = integer::arithmetic(self.builder, Arithmetic::CeilDiv, at, points);
        let from = self.builder.ins().iadd_imm_s(point, -part.first);
        let [zero, length] = [0, part.length].map(|n| self.builder.ins().iconst(types::I64, n));
        let low = self.builder.ins().smax(from, zero);
        self.builder.ins().smin(low, length)
    }

    fn copy(&mut self, from: ValueId, to: ValueId) -> Result<(), Error> {
        if self.plan.same_place(from, to) {
            return Ok(());
        }
        let bytes = self.plan.values[from].shape.byte_size_term();
        let bytes = bytes.ok_or_else(|| bug("a copied array has no size in bytes"))?;
        let [from, to] = [self.address(from)?, self.address(to)?];
        match bytes.as_constant().map(u64::try_from) {
            Some(Ok(bytes @ 0..=64)) => {
                let flags = MemFlagsData::trusted();
                self.builder.emit_small_memory_copy(
                    self.config,
                    to,
                    from,
                    bytes,
                    1,
                    1,
                    true,
                    flags,
                );
            }
            _ => {
                let bytes = self.term(&bytes);
                self.builder.call_memmove(self.config, to, from, bytes);
            }
        }
        Ok(())
    }

    /// Emits steps in blocks of their own: terms that are computed there are not available
    /// elsewhere.
    fn inside(&mut self, steps: &[Step]) -> Result<(), Error> {
        let known = self.terms.clone();
        self.steps(steps)?;
        self.terms = known;
        Ok(())
    }

    fn function(&mut self, id: FunctionId) -> FuncRef {
        let signature = self.image.signature(&KERNEL_PARAMS, &[]);
        let (image, builder) = (&*self.image, &mut *self.builder);
        let refer = || image.refer(id, signature, builder.func);
        *self.functions.entry(id).or_insert_with(refer)
    }

    fn address(&mut self, value: ValueId) -> Result<Value, Error> {
        if let Some(entry) = self.slices.entry(value) {
            let found = self.slice_addresses.get(&entry).copied();
            return found.ok_or_else(|| bug("a slice is used before its address is computed"));
        }
        let buffer = self.plan.values[value].buffer;
        let address = self.buffers.get(&buffer).copied();
        address.ok_or_else(|| bug("a value's buffer has no address"))
    }

    /// A term over the plan's symbols.
    fn term(&mut self, term: &Term) -> Value {
        if let Some(&known) = self.terms.get(term) {
            return known;
        }
        let value = match term.node() {
            Node::Const(number) => self.builder.ins().iconst(types::I64, *number),
            // Unreachable: every symbol is known.
            Node::Var(_) => self.builder.ins().iconst(types::I64, 0),
            Node::Add(a, b) => self.arithmetic(Arithmetic::Add, a, b),
            Node::Mul(a, b) => self.arithmetic(Arithmetic::Mul, a, b),
            Node::Min(a, b) => self.arithmetic(Arithmetic::Min, a, b),
            Node::Max(a, b) => self.arithmetic(Arithmetic::Max, a, b),
            Node::FloorDiv(a, b) => self.arithmetic(Arithmetic::FloorDiv, a, b),
            Node::CeilDiv(a, b) => self.arithmetic(Arithmetic::CeilDiv, a, b),
            Node::Mod(a, b) => self.arithmetic(Arithmetic::Mod, a, b),
            Node::Cmp(op, a, b) => self.arithmetic(Arithmetic::Cmp(*op), a, b),
            Node::Select(condition, a, b) => {
                let condition = self.term(condition);
                let (a, b) = (self.term(a), self.term(b));
                self.builder.ins().select(condition, a, b)
            }
        };
        self.terms.insert(term.clone(), value);
        value
    }

    fn arithmetic(&mut self, op: Arithmetic, a: &Term, b: &Term) -> Value {
        let (a, b) = (self.term(a), self.term(b));
        integer::arithmetic(self.builder, op, a, b)
    }
}

/// A kernel's term in terms of the plan's symbols.
pub(super) fn own(kernel: &tegula_fusion::Kernel, term: &Term) -> Term {
    term.substitute(&mut |var| match kernel.var(var) {
        Some(IndexVar::Symbol { symbol, .. }) => Some(Term::var(Var(*symbol))),
        _ => None,
    })
}
