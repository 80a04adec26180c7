//! Kernel emission: turns clusters into kernels. Emission walks from a materialised value to the
//! materialised values that it is computed from, composing indexing maps on the way.
//!
//! `element(value, index)` returns the scalar of a value at an index. If the value is in memory,
//! that is a load; otherwise it is the scalar form of the operation that defines the value, applied
//! to the elements of the operands at the indices that the operation's maps give. A value that is
//! needed several times at the same index in one scope is computed once.

mod elements;
mod half_power;
pub(crate) mod inline_computation;
pub(crate) mod loops;
mod maps;
pub(crate) mod read_maps;
pub(crate) mod scan;
mod select_and_scatter;
pub(crate) mod symbolic_dims;
pub(crate) mod updates;

use self::symbolic_dims::without_certain;
use crate::cluster::Clusters;
use crate::error::Error;
use crate::fused::BoundKernel;
use crate::kernel::algebraic_simplify::{Definitions, Instead, Operands, remove_unused};
use crate::kernel::{
    Access, Block, IndexVar, Kernel, KernelRanges, Param, ScalarId, ScalarOp, Statement,
};
use crate::program::{Program, ValueId};
use read_maps::ReadMaps;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tegula_expr::{Term, Var, canonicalize};
use tegula_ir::{Binary, ElementType, InstructionId, Literal, Module, Unary};

pub(crate) type Scalars = SmallVec<[ScalarId; 2]>;

/// The inputs from which every kernel of a program is built.
pub(crate) struct Context<'a> {
    pub module: &'a Module,
    pub program: &'a Program,
    pub clusters: &'a Clusters,
    pub maps: ReadMaps<'a>,
    /// Sums and products of at most this many terms are unrolled.
    pub shallow: i64,
    /// Whether an update computes each changed element at a point of its own, see
    /// [`Limits::spread_updates`](crate::Limits::spread_updates).
    pub spread_updates: bool,
}

/// Emits one iteration of nested loops. It is given the emitter, one index per loop and the carried
/// scalars, and returns the next carried scalars.
type Iteration<'f, 'a> =
    &'f mut dyn FnMut(&mut Emitter<'a>, &[Term], &[ScalarId]) -> Result<Scalars, Error>;

/// Emits the scalars at an index.
type AtIndex<'f, 'a> = &'f mut dyn FnMut(&mut Emitter<'a>, &[Term]) -> Result<Scalars, Error>;

/// The most iterations that nested unrolled loops may have together: nesting multiplies their
/// statements.
const MAX_WRITTEN_OUT: i64 = 16;

/// Builds one kernel.
pub(crate) struct Emitter<'a> {
    pub module: &'a Module,
    pub program: &'a Program,
    pub clusters: &'a Clusters,
    pub maps: &'a ReadMaps<'a>,
    pub kernel: Kernel,
    pub args: Vec<ValueId>,
    /// The values that the kernel itself writes, and its own index: at that index it computes them
    /// rather than loading them.
    own: (Vec<ValueId>, Vec<Term>),
    /// The kernel's variable for each symbol of the module that it uses.
    pub symbols: FxHashMap<Var, Var>,
    /// The open blocks, outermost first.
    scopes: Vec<Scope>,
    definitions: Definitions,
    /// Whether a simplification was made, so that statements may be unused.
    simplified: bool,
    /// Loops of at most this many iterations are unrolled.
    pub(crate) shallow: i64,
    /// Whether an update computes each changed element at a point of its own.
    pub(crate) spread_updates: bool,
    /// The product of the trip counts of the unrolled loops around the current statement.
    written_out: i64,
    /// The instruction whose kernel this is, for error messages.
    root: InstructionId,
}

#[derive(Default)]
struct Scope {
    block: Block,
    memo: FxHashMap<(ValueId, Vec<Term>), ScalarId>,
    /// The scalars computed in this scope, by type, operation and operands.
    computed: FxHashMap<(ElementType, ScalarOp, Operands), ScalarId>,
}

impl<'a> Emitter<'a> {
    pub(crate) fn new(context: &'a Context<'a>, root: InstructionId) -> Self {
        Self {
            module: context.module,
            program: context.program,
            clusters: context.clusters,
            maps: &context.maps,
            kernel: Kernel::default(),
            args: Vec::new(),
            own: (Vec::new(), Vec::new()),
            symbols: FxHashMap::default(),
            scopes: vec![Scope::default()],
            definitions: Definitions::default(),
            simplified: false,
            shallow: context.shallow,
            spread_updates: context.spread_updates,
            written_out: 1,
            root,
        }
    }

    pub(crate) fn finish(mut self) -> BoundKernel {
        let scope = self.scopes.pop().unwrap_or_default();
        self.kernel.body = scope.block;
        if self.simplified {
            remove_unused(&mut self.kernel);
        }
        BoundKernel {
            kernel: self.kernel,
            args: self.args,
        }
    }

    /// Emits a kernel over the index space of `values`, which have one shape: computes their
    /// scalars at each index and stores them.
    pub(crate) fn over(
        &mut self,
        values: &[ValueId],
        compute: AtIndex<'_, 'a>,
    ) -> Result<(), Error> {
        let dims = values.first().map(|&v| self.dims(v)).unwrap_or_default();
        let index = self.domain(&dims);
        let outputs: Vec<usize> = (values.iter())
            .map(|&v| self.param(v, Access::Write))
            .collect();
        if dims.iter().any(|d| d.as_constant() == Some(0)) {
            return Ok(());
        }
        self.own = (values.to_vec(), index.clone());
        let scalars = compute(self, &index)?;
        // Stores come last, because an output may share memory with an input.
        for (&output, &scalar) in outputs.iter().zip(&scalars) {
            self.store(output, &index, scalar);
        }
        Ok(())
    }

    /// Whether the kernel computes the value at this index rather than loading it.
    fn computes(&self, value: ValueId, index: &[Term]) -> bool {
        let (own, at) = &self.own;
        !self.clusters.is_materialised(value) || (own.contains(&value) && index == at)
    }

    pub(crate) fn bug(&self, what: &str) -> Error {
        Error::bug(self.module, self.root, what)
    }

    // ---- index variables and blocks -------------------------------------

    /// Adds a domain variable for each dimension; a dimension of size 1 needs none.
    pub(crate) fn domain(&mut self, dims: &[Term]) -> Vec<Term> {
        let index = |extent: &Term| {
            if extent.as_constant() == Some(1) {
                return Term::constant(0);
            }
            let var = self.kernel.push_var(IndexVar::Domain(extent.clone()));
            self.kernel.domain.push(var);
            Term::var(var)
        };
        dims.iter().map(index).collect()
    }

    pub(crate) fn element_type(&self, value: ValueId) -> ElementType {
        self.program.values[value].shape.element_type
    }

    pub(crate) fn simplify(&self, term: &Term) -> Term {
        canonicalize(term, &KernelRanges(&self.kernel.vars))
    }

    /// Simplifies a truth value.
    fn simplify_condition(&self, term: &Term) -> Term {
        let simple = self.simplify(term);
        if self.symbols.is_empty() {
            return simple;
        }
        self.simplify(&without_certain(&self.kernel, &simple))
    }

    pub(crate) fn push(&mut self, statement: Statement) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.block.statements.push(statement);
        }
    }

    fn open(&mut self) {
        self.scopes.push(Scope::default());
    }

    fn close(&mut self, results: Scalars) -> Block {
        let mut block = self.scopes.pop().unwrap_or_default().block;
        block.results = results;
        block
    }

    fn new_scalars(&mut self, like: &[ScalarId]) -> Scalars {
        like.iter()
            .map(|&s| {
                let element_type = self.kernel.scalars[s];
                self.kernel.scalars.push(element_type)
            })
            .collect()
    }

    /// Emits nested loops over the extents with carried scalars. `body` is given one index per
    /// extent and the carried scalars, and returns the next ones.
    pub(crate) fn loops(
        &mut self,
        extents: &[Term],
        init: &[ScalarId],
        body: Iteration<'_, 'a>,
    ) -> Result<Scalars, Error> {
        if extents.iter().any(|e| e.as_constant() == Some(0)) {
            return Ok(init.iter().copied().collect());
        }
        self.loop_level(extents, &mut Vec::new(), init, body)
    }

    fn loop_level(
        &mut self,
        extents: &[Term],
        index: &mut Vec<Term>,
        init: &[ScalarId],
        body: Iteration<'_, 'a>,
    ) -> Result<Scalars, Error> {
        let Some(extent) = extents.get(index.len()) else {
            return body(self, index, init);
        };
        if extent.as_constant() == Some(1) {
            index.push(Term::constant(0));
            let results = self.loop_level(extents, index, init, body);
            index.pop();
            return results;
        }
        let var = self.kernel.push_var(IndexVar::Loop(extent.clone()));
        let carried = self.new_scalars(init);
        self.open();
        index.push(Term::var(var));
        let next = self.loop_level(extents, index, &carried, body);
        index.pop();
        let body = self.close(next?);
        let results = self.new_scalars(init);
        let init = init.iter().copied().collect();
        self.push(Statement::Loop {
            var,
            init,
            carried,
            body,
            results: results.clone(),
        });
        Ok(results)
    }

    /// Like [`loops`](Self::loops), but loops of few iterations are unrolled.
    pub(crate) fn short_loops(
        &mut self,
        extents: &[Term],
        init: &[ScalarId],
        body: Iteration<'_, 'a>,
    ) -> Result<Scalars, Error> {
        let sizes: Option<Vec<i64>> = extents.iter().map(Term::as_constant).collect();
        let count = |sizes: &Vec<i64>| sizes.iter().try_fold(1i64, |n, &size| n.checked_mul(size));
        let Some((sizes, count)) = sizes.and_then(|s| count(&s).map(|n| (s, n))) else {
            return self.loops(extents, init, body);
        };
        let written_out = self.written_out.saturating_mul(count);
        if !(2..=self.shallow).contains(&count) || written_out > MAX_WRITTEN_OUT {
            return self.loops(extents, init, body);
        }
        let before = std::mem::replace(&mut self.written_out, written_out);
        let mut carried: Scalars = init.iter().copied().collect();
        for iteration in 0..count {
            let (mut rest, mut index) = (iteration, vec![Term::constant(0); sizes.len()]);
            for (place, size) in index.iter_mut().zip(&sizes).rev() {
                *place = Term::constant(rest % size);
                rest /= size;
            }
            carried = body(self, &index, &carried)?;
        }
        self.written_out = before;
        Ok(carried)
    }

    /// Emits a conditional; if the condition is constant, only the block that runs.
    pub(crate) fn branch(
        &mut self,
        condition: &Term,
        then: &mut dyn FnMut(&mut Self) -> Result<Scalars, Error>,
        otherwise: &mut dyn FnMut(&mut Self) -> Result<Scalars, Error>,
    ) -> Result<Scalars, Error> {
        let condition = self.simplify_condition(condition);
        match condition.as_constant() {
            Some(0) => return otherwise(self),
            Some(_) => return then(self),
            None => {}
        }
        self.open();
        let taken = then(self);
        let then = self.close(taken?);
        self.open();
        let taken = otherwise(self);
        let otherwise = self.close(taken?);
        let results = self.new_scalars(&then.results);
        let statement = Statement::If {
            condition,
            then,
            otherwise,
            results: results.clone(),
        };
        self.push(statement);
        Ok(results)
    }

    // ---- scalars ---------------------------------------------------------

    /// The scalar that an operation computes. Reuses a known scalar or a simpler operation if there
    /// is one.
    pub(crate) fn compute(
        &mut self,
        element_type: ElementType,
        op: ScalarOp,
        operands: &[ScalarId],
    ) -> ScalarId {
        let types = &self.kernel.scalars;
        if let Some(instead) = self.definitions.instead(types, element_type, &op, operands) {
            self.simplified = true;
            return self.instead(element_type, instead);
        }
        let key = (element_type, op, Operands::from_slice(operands));
        if let Some(&known) = self.scopes.iter().rev().find_map(|s| s.computed.get(&key)) {
            return known;
        }
        let result = self.kernel.scalars.push(element_type);
        let (_, op, operands) = key.clone();
        self.definitions
            .insert(result, element_type, op.clone(), operands.clone());
        self.push(Statement::Compute {
            result,
            op,
            operands,
        });
        if let Some(scope) = self.scopes.last_mut() {
            scope.computed.insert(key, result);
        }
        result
    }

    fn instead(&mut self, element_type: ElementType, instead: Instead) -> ScalarId {
        match instead {
            Instead::Same(scalar) => scalar,
            Instead::Operation(op, operands) => self.compute(element_type, op, &operands),
            Instead::Negated(op, operands) => {
                let positive = self.compute(element_type, op, &operands);
                self.compute(element_type, ScalarOp::Unary(Unary::Negate), &[positive])
            }
            Instead::ByConstant(op, operand, bits) => {
                let constant = self.compute(element_type, ScalarOp::Constant(bits), &[]);
                self.compute(element_type, ScalarOp::Binary(op), &[operand, constant])
            }
            Instead::Constant(bits) => self.compute(element_type, ScalarOp::Constant(bits), &[]),
            Instead::Power(base, halves) => self.half_power(base, halves),
        }
    }

    pub(crate) fn binary(&mut self, op: Binary, a: ScalarId, b: ScalarId) -> ScalarId {
        let element_type = self.kernel.scalars[a];
        self.compute(element_type, ScalarOp::Binary(op), &[a, b])
    }

    pub(crate) fn convert(&mut self, value: ScalarId, to: ElementType) -> ScalarId {
        if self.kernel.scalars[value] == to {
            return value;
        }
        self.compute(to, ScalarOp::Convert, &[value])
    }

    /// The first element of a literal, as a constant.
    pub(crate) fn literal(&mut self, literal: &Literal) -> ScalarId {
        let element_type = literal.element_type();
        let mut bytes = [0u8; 16];
        let size = element_type.storage_bytes();
        if let (Some(to), Some(from)) = (bytes.get_mut(..size), literal.bytes().get(..size)) {
            to.copy_from_slice(from);
        }
        let bits = u128::from_le_bytes(bytes);
        self.compute(element_type, ScalarOp::Constant(bits), &[])
    }

    /// The value of a scalar that is an integer constant.
    pub(crate) fn constant_of(&self, scalar: ScalarId) -> Option<i128> {
        let statements = self.scopes.iter().flat_map(|s| &s.block.statements);
        let bits = statements.rev().find_map(|statement| match statement {
            Statement::Compute {
                result,
                op: ScalarOp::Constant(bits),
                ..
            } if *result == scalar => Some(*bits),
            _ => None,
        });
        crate::analysis::trip_count::integer(self.kernel.scalars[scalar], bits?)
    }

    /// An index variable for an integer scalar, clamped to a range.
    pub(crate) fn bind(&mut self, value: ScalarId, lower: i64, upper: i64) -> Term {
        if lower == upper {
            return Term::constant(lower);
        }
        let wide = self.index(value);
        let constant = |e: &mut Self, n: i64| {
            e.compute(
                ElementType::S64,
                ScalarOp::Constant(u128::from(n.cast_unsigned())),
                &[],
            )
        };
        let low = constant(self, lower);
        let high = constant(self, upper);
        let clamped = self.compute(ElementType::S64, ScalarOp::Clamp, &[low, wide, high]);
        self.bind_exact(clamped, lower, upper)
    }

    /// Converts an integer scalar to an index; values too large for an index become the largest
    /// one.
    pub(crate) fn index(&mut self, value: ScalarId) -> ScalarId {
        let mut value = value;
        if self.kernel.scalars[value] == ElementType::U64 {
            let most = ScalarOp::Constant(u128::from(i64::MAX.cast_unsigned()));
            let most = self.compute(ElementType::U64, most, &[]);
            value = self.binary(Binary::Minimum, value, most);
        }
        self.convert(value, ElementType::S64)
    }

    /// An index variable for an integer scalar that is known to lie in a range.
    pub(crate) fn bind_exact(&mut self, value: ScalarId, lower: i64, upper: i64) -> Term {
        let var = self.kernel.push_var(IndexVar::Runtime {
            value,
            lower,
            upper,
        });
        self.push(Statement::Bind { var });
        Term::var(var)
    }

    /// The parameter for a value, added if there is none yet.
    pub(crate) fn param(&mut self, value: ValueId, access: Access) -> usize {
        let found = (0..self.args.len())
            .find(|&i| self.args[i] == value && self.kernel.params[i].access == access);
        found.unwrap_or_else(|| {
            self.args.push(value);
            let dims = self.dims(value);
            let element_type = self.element_type(value);
            self.kernel.params.push(Param {
                access,
                element_type,
                dims,
            });
            self.args.len() - 1
        })
    }

    /// Adds a scalar parameter that belongs to no value of the program.
    pub(crate) fn scalar_param(&mut self, element_type: ElementType, access: Access) -> usize {
        self.kernel.params.push(Param {
            access,
            element_type,
            dims: Vec::new(),
        });
        self.kernel.params.len() - 1
    }

    pub(crate) fn load(&mut self, param: usize, index: &[Term]) -> ScalarId {
        let result = self
            .kernel
            .scalars
            .push(self.kernel.params[param].element_type);
        let index = index.iter().map(|t| self.simplify(t)).collect();
        self.push(Statement::Load {
            result,
            param,
            index,
        });
        result
    }

    pub(crate) fn store(&mut self, param: usize, index: &[Term], value: ScalarId) {
        let index = index.iter().map(|t| self.simplify(t)).collect();
        self.push(Statement::Store {
            param,
            index,
            value,
        });
    }
}
