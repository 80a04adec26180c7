//! Kernels: a parallel iteration domain, and a scalar body run at each point.
//!
//! The body is a structured program over scalars in single assignment: loads and
//! stores whose indices are terms over the kernel's index variables, arithmetic
//! with the meaning of HLO's elementwise operations, counted loops with carried
//! scalars, and conditionals on terms. Points of the domain are independent: no
//! two of them store to the same element, and none loads what another stores.
//!
//! Index variables share one numbering ([`Var`]): those of the domain, those of
//! loops, run-time ones bound to a scalar of the body, and symbolic extents.
//!
//! # Invariants
//! - Every scalar is defined once, before its uses, in the same block or one
//!   that encloses it. The same holds for index variables.
//! - An index has one term per dimension of the parameter, and is in bounds
//!   wherever it is evaluated.
//! - A parameter of [`Access::Read`] is never stored to; one of
//!   [`Access::Write`] never loaded from, and every element of it is stored.

pub(crate) mod algebraic_simplify;
pub(crate) mod substitute;

use smallvec::SmallVec;
use tegula_arena::{Arena, EntityRef, entity_impl};
use tegula_expr::{Interval, Term, Var, VarRanges, range_of};
use tegula_ir::{Binary, Direction, ElementType, Order, Unary};

/// A scalar of a kernel's body.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScalarId(u32);
entity_impl!(ScalarId, "v");

/// How a kernel uses one of its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Only loads.
    Read,
    /// Only stores; every element is stored.
    Write,
    /// Loads and stores, or stores that leave some elements as they were.
    Update,
    /// A local array of each point's own, which the kernel is not given and which is stored to
    /// before it is loaded from. Such parameters come last, and their sizes are constant.
    Local,
}

/// A parameter: an array that the kernel is given, or a local one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Param {
    /// How it is used.
    pub access: Access,
    /// The type of its elements.
    pub element_type: ElementType,
    /// The size of each dimension.
    pub dims: Vec<Term>,
}

impl Param {
    /// The linear position of the element at an index. Arrays are dense and row-major.
    pub fn elements_before(&self, index: &[Term]) -> Term {
        let pairs = index.iter().zip(&self.dims);
        pairs.fold(Term::constant(0), |before, (term, dim)| {
            before.mul(dim).add(term)
        })
    }
}

/// The kind of an index variable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum IndexVar {
    /// A dimension of the domain, from 0 to the extent.
    Domain(Term),
    /// The counter of a loop, from 0 to the extent.
    Loop(Term),
    /// An integer scalar of the body, known to lie in an inclusive range.
    Runtime {
        /// The scalar whose value this is.
        value: ScalarId,
        /// The smallest value it can have.
        lower: i64,
        /// The largest value it can have.
        upper: i64,
    },
    /// A symbol of the module.
    Symbol {
        /// The number of the symbol.
        symbol: u32,
        /// The smallest value it can have.
        lower: i64,
        /// The largest value it can have.
        upper: i64,
    },
}

/// An operation that computes a scalar from scalars.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ScalarOp {
    /// A constant, given as the little-endian bits of its storage form.
    Constant(u128),
    /// The value of an index term, converted from `s64` as by HLO's `convert`.
    Index(Term),
    /// HLO's elementwise operation of one operand.
    Unary(Unary),
    /// HLO's elementwise operation of two operands.
    Binary(Binary),
    /// HLO's `compare`.
    Compare(Direction, Order),
    /// HLO's `select`.
    Select,
    /// HLO's `clamp`.
    Clamp,
    /// HLO's `convert`.
    Convert,
    /// HLO's `bitcast-convert` between types of one width.
    BitcastConvert,
    /// HLO's `reduce-precision`.
    ReducePrecision {
        /// Exponent bits kept.
        exponent_bits: u32,
        /// Mantissa bits kept.
        mantissa_bits: u32,
    },
}

/// Statements in order, and the scalars that the block yields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Block {
    /// The statements.
    pub statements: Vec<Statement>,
    /// The scalars yielded to the enclosing statement; none for a kernel's body.
    pub results: SmallVec<[ScalarId; 2]>,
}

impl Block {
    /// Whether `is_it` holds for any statement in the block or in blocks nested in it.
    pub fn any(&self, is_it: impl Fn(&Statement) -> bool + Copy) -> bool {
        self.statements.iter().any(|statement| {
            is_it(statement)
                || match statement {
                    Statement::Loop { body, .. } => body.any(is_it),
                    Statement::If {
                        then, otherwise, ..
                    } => then.any(is_it) || otherwise.any(is_it),
                    _ => false,
                }
        })
    }
}

/// One statement of a body.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Statement {
    /// Computes a scalar from scalars.
    Compute {
        /// The scalar that is defined.
        result: ScalarId,
        /// The operation.
        op: ScalarOp,
        /// The operands.
        operands: SmallVec<[ScalarId; 3]>,
    },
    /// Loads an element of a parameter.
    Load {
        /// The scalar that is defined.
        result: ScalarId,
        /// The parameter.
        param: usize,
        /// The index in each dimension.
        index: Vec<Term>,
    },
    /// Stores to an element of a parameter.
    Store {
        /// The parameter.
        param: usize,
        /// The index in each dimension.
        index: Vec<Term>,
        /// The scalar that is stored.
        value: ScalarId,
    },
    /// Makes an integer (or `pred`) scalar available to terms.
    Bind {
        /// The variable of kind [`IndexVar::Runtime`].
        var: Var,
    },
    /// Runs the body for each value of the counter, in order.
    Loop {
        /// The variable of kind [`IndexVar::Loop`].
        var: Var,
        /// The initial values of the carried scalars.
        init: SmallVec<[ScalarId; 2]>,
        /// The carried scalars as the body sees them.
        carried: SmallVec<[ScalarId; 2]>,
        /// One iteration; it yields the next carried scalars.
        body: Block,
        /// The carried scalars after the last iteration.
        results: SmallVec<[ScalarId; 2]>,
    },
    /// Runs one of two blocks.
    If {
        /// A nonzero value selects `then`.
        condition: Term,
        /// Runs if the condition is not zero.
        then: Block,
        /// Runs if the condition is zero.
        otherwise: Block,
        /// The scalars that the block that ran yields.
        results: SmallVec<[ScalarId; 2]>,
    },
}

impl Block {
    /// The operation that combines a loop-carried scalar `state` into `next`, perhaps under a
    /// condition, provided that neither scalar is used for anything else. `vars` are the kernel's
    /// index variables.
    pub fn combination(
        &self,
        vars: &[IndexVar],
        state: ScalarId,
        next: ScalarId,
    ) -> Option<Binary> {
        let mut users = self.statements.iter().filter(|s| s.uses(vars, state));
        let user = users.next()?;
        // If a partial result is stored or used otherwise, the order of the combinations matters.
        if users.next().is_some() || self.statements.iter().any(|s| s.uses(vars, next)) {
            return None;
        }
        match user {
            Statement::Compute {
                result,
                op: ScalarOp::Binary(op),
                operands,
            } => {
                let once = operands.iter().filter(|&&o| o == state).count() == 1;
                (*result == next && once).then_some(*op)
            }
            Statement::If {
                then,
                otherwise,
                results,
                ..
            } => {
                let at = results.iter().position(|&result| result == next)?;
                let (made, kept) = (*then.results.get(at)?, *otherwise.results.get(at)?);
                let others = otherwise.statements.iter().any(|s| s.uses(vars, state));
                (kept == state && !others).then_some(())?;
                then.combination(vars, state, made)
            }
            _ => None,
        }
    }
}

impl Statement {
    /// Whether the statement, or one nested in it, uses a scalar. `vars` are the kernel's index
    /// variables.
    pub fn uses(&self, vars: &[IndexVar], scalar: ScalarId) -> bool {
        let in_block = |block: &Block| {
            block.results.contains(&scalar) || block.statements.iter().any(|s| s.uses(vars, scalar))
        };
        match self {
            Self::Compute { operands, .. } => operands.contains(&scalar),
            Self::Store { value, .. } => *value == scalar,
            Self::Load { .. } => false,
            Self::Bind { var } => matches!(
                vars.get(var.0 as usize),
                Some(IndexVar::Runtime { value, .. }) if *value == scalar
            ),
            Self::Loop { init, body, .. } => init.contains(&scalar) || in_block(body),
            Self::If {
                then, otherwise, ..
            } => in_block(then) || in_block(otherwise),
        }
    }

    /// Whether it reads memory.
    pub fn is_load(&self) -> bool {
        matches!(self, Self::Load { .. })
    }

    /// Whether it writes memory.
    pub fn is_store(&self) -> bool {
        matches!(self, Self::Store { .. })
    }

    /// Whether it is a loop.
    pub fn is_loop(&self) -> bool {
        matches!(self, Self::Loop { .. })
    }
}

/// A kernel. See the [module](self)'s text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// The parameters.
    pub params: Vec<Param>,
    /// The index variables, by number.
    pub vars: Vec<IndexVar>,
    /// The domain's variables, outermost first.
    pub domain: Vec<Var>,
    /// The element type of each scalar.
    pub scalars: ScalarTypes,
    /// The body, run at each point of the domain.
    pub body: Block,
}

/// The element types of a kernel's scalars.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScalarTypes(Arena<ScalarId, ElementType>);

impl ScalarTypes {
    /// A new scalar of this type.
    pub fn push(&mut self, element_type: ElementType) -> ScalarId {
        self.0.push(element_type)
    }

    /// The number of scalars.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The types, to be changed.
    pub fn values_mut(&mut self) -> std::slice::IterMut<'_, ElementType> {
        self.0.values_mut()
    }

    /// The type of a scalar, if there is such a scalar.
    pub fn get(&self, id: ScalarId) -> Option<ElementType> {
        self.0.get(id).copied()
    }
}

impl std::ops::Index<ScalarId> for ScalarTypes {
    type Output = ElementType;
    fn index(&self, id: ScalarId) -> &ElementType {
        &self.0[id]
    }
}

impl Kernel {
    /// The number of arrays that the kernel is given: all parameters except those of
    /// [`Access::Local`].
    pub fn given(&self) -> usize {
        let local = |p: &&Param| p.access == Access::Local;
        self.params.len() - self.params.iter().rev().take_while(local).count()
    }

    /// A new index variable.
    pub fn push_var(&mut self, var: IndexVar) -> Var {
        let id = Var(self.vars.len() as u32);
        self.vars.push(var);
        id
    }

    /// The number of values that a domain or loop variable takes.
    pub fn extent(&self, var: Var) -> Option<&Term> {
        match self.var(var)? {
            IndexVar::Domain(extent) | IndexVar::Loop(extent) => Some(extent),
            _ => None,
        }
    }

    /// Like [`Self::extent`], but only if it is constant.
    pub fn constant_extent(&self, var: Var) -> Option<i64> {
        self.extent(var)?.as_constant()
    }

    /// The kind of a variable, if there is such a variable.
    pub fn var(&self, var: Var) -> Option<&IndexVar> {
        self.vars.get(var.0 as usize)
    }

    /// The scalar with this number, for parsers.
    pub fn scalar(index: usize) -> ScalarId {
        ScalarId::new(index)
    }
}

/// The ranges of index variables, for a kernel's list of variables. The range of a variable whose
/// extent is symbolic follows from the ranges of the variables in the extent, which are defined
/// before it, as the verifier of kernels checks.
pub struct KernelRanges<'a>(pub &'a [IndexVar]);

impl VarRanges for KernelRanges<'_> {
    fn range(&self, var: Var) -> Interval {
        let (lower, upper) = match self.0.get(var.0 as usize) {
            Some(IndexVar::Domain(extent) | IndexVar::Loop(extent)) => {
                let most = || range_of(extent, self).upper.min(MAX_OPEN_EXTENT);
                let extent = extent.as_constant().unwrap_or_else(most);
                (0, extent.saturating_sub(1))
            }
            Some(
                IndexVar::Runtime { lower, upper, .. } | IndexVar::Symbol { lower, upper, .. },
            ) => (*lower, *upper),
            None => (i64::MIN, i64::MAX),
        };
        Interval { lower, upper }
    }
}

/// The largest extent of a dimension or loop of symbolic size, so that indices have 32 bits. It is
/// checked when a plan is given its sizes.
pub const MAX_OPEN_EXTENT: i64 = i32::MAX as i64;
