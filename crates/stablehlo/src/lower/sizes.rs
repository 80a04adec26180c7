//! Evaluates arithmetic on sizes as terms.
//!
//! A front end that leaves sizes open computes other sizes from them, with ordinary operations on
//! small integer tensors. This module evaluates these computations on terms over the sizes of the
//! entry's parameters; truth values are the terms 0 and 1. Integers are taken to be unbounded,
//! because sizes are far below the values at which 32-bit arithmetic wraps.
//!
//! An index that depends on data is a variable of its own, so that the size of a slice from `i` to
//! `i + n` is known to be `n`. Such variables never become part of a size.

use super::{Frame, Lowerer, access::Access};
use crate::mlir::{Attribute, Operation, Type, ValueId};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use tegula_expr::{Cmp, Interval, Node, Term, Var, canonicalize, range_of};
use tegula_ir::{Guard, GuardMessage, Shape};

/// The upper bound of the size that a `?` stands for.
pub(super) const MAX_SIZE: i64 = i32::MAX as i64;

/// The maximum number of elements of a tensor that is treated as sizes.
const MAX_ELEMENTS: u64 = 64;

/// The maximum number of nodes of a term.
const MAX_TERM_SIZE: u32 = 4000;

/// Variables with this number or above represent indices that depend on data.
const FIRST_INDEX: u32 = 1 << 31;

/// The known values that are computed from sizes.
#[derive(Default)]
pub(super) struct Sizes {
    known: FxHashMap<ValueId, Arc<[Term]>>,
    /// The range of each symbol, which assertions can narrow.
    ranges: FxHashMap<Var, Interval>,
    guards: Vec<Guard>,
    /// The number of indices that depend on data.
    indices: u32,
}

impl Sizes {
    /// Whether a value depends on open sizes only, and is not constant.
    pub(super) fn is_open(&self, value: ValueId) -> bool {
        let terms = self.terms(value);
        terms.is_some_and(|terms| terms.iter().any(|term| term.as_constant().is_none()))
    }

    /// The elements of a value that depends on sizes only.
    pub(super) fn terms(&self, value: ValueId) -> Option<&Arc<[Term]>> {
        let terms = self.known.get(&value)?;
        (!terms.iter().any(depends_on_data)).then_some(terms)
    }

    /// The elements of a value, which may depend on data.
    pub(super) fn index_terms(&self, value: ValueId) -> Option<&Arc<[Term]>> {
        self.known.get(&value)
    }

    /// Represents the elements of a data-dependent integer value by new variables.
    fn name_indices(&mut self, value: ValueId, count: usize) {
        let terms = (0..count).map(|_| {
            let number = FIRST_INDEX.saturating_add(self.indices);
            self.indices = self.indices.saturating_add(1);
            Term::var(Var(number))
        });
        let terms = terms.collect();
        self.known.insert(value, terms);
    }

    /// The element of a scalar value that depends on sizes only.
    pub(super) fn scalar(&self, value: ValueId) -> Option<Term> {
        match self.terms(value).map(AsRef::as_ref) {
            Some([only]) => Some(only.clone()),
            _ => None,
        }
    }

    /// Declares that two values are equal.
    pub(super) fn copy(&mut self, from: ValueId, to: ValueId) {
        match self.known.get(&from).cloned() {
            Some(terms) => self.known.insert(to, terms),
            None => self.known.remove(&to),
        };
    }

    /// The canonical form of a term, given the ranges of the sizes.
    pub(super) fn canonical(&self, term: &Term) -> Term {
        canonicalize(term, &self.ranges)
    }

    /// The range of values of a term.
    pub(super) fn range(&self, term: &Term) -> Interval {
        range_of(&self.canonical(term), &self.ranges)
    }

    /// Requires that `condition` is 1 at run time. The message has placeholders `{0}`, `{1}`, ...
    /// for values.
    ///
    /// # Errors
    /// The message, if the condition is never satisfied.
    pub(super) fn assert(
        &mut self,
        condition: &Term,
        message: &str,
        values: Vec<Term>,
    ) -> Result<(), String> {
        let message = GuardMessage {
            text: message.into(),
            values,
        };
        match condition.as_constant() {
            Some(0) => return Err(message.with_values(&|_| None)),
            Some(_) => return Ok(()),
            None => {}
        }
        let (op, left, right) = match condition.node() {
            Node::Cmp(op, left, right) => (*op, left.clone(), right.clone()),
            _ => (Cmp::Eq, condition.clone(), Term::constant(1)),
        };
        self.learn(op, &left, &right);
        self.guards.push(Guard {
            op,
            left,
            right,
            what: "the shapes of the inputs".into(),
            message: Some(Arc::new(message)),
        });
        Ok(())
    }

    /// Narrows the range of a symbol that is compared with a constant.
    fn learn(&mut self, op: Cmp, left: &Term, right: &Term) {
        let (symbol, interval) = match (op, left.as_constant(), right.as_constant()) {
            (Cmp::Le, Some(lower), None) => (right.as_var(), Interval::new(lower, MAX_SIZE)),
            (Cmp::Lt, Some(lower), None) => (right.as_var(), Interval::new(lower + 1, MAX_SIZE)),
            (Cmp::Le, None, Some(upper)) => (left.as_var(), Interval::new(0, upper)),
            (Cmp::Lt, None, Some(upper)) => (left.as_var(), Interval::new(0, upper - 1)),
            _ => return,
        };
        if let Some(symbol) = symbol {
            let known = self.ranges.entry(symbol);
            let known = known.or_insert(Interval::new(0, MAX_SIZE));
            *known = known.intersect(&interval);
        }
    }

    /// The checks at run time.
    pub(super) fn into_guards(self) -> Vec<Guard> {
        self.guards
    }

    fn compare(&self, direction: &str, a: &Term, b: &Term) -> Option<Term> {
        let (op, a, b) = match direction {
            "EQ" => (Cmp::Eq, a, b),
            "NE" => (Cmp::Ne, a, b),
            "LT" => (Cmp::Lt, a, b),
            "LE" => (Cmp::Le, a, b),
            "GT" => (Cmp::Lt, b, a),
            "GE" => (Cmp::Le, b, a),
            _ => return None,
        };
        let difference = self.range(&a.sub(b));
        let (lower, upper) = (difference.lower, difference.upper);
        let decided = match op {
            Cmp::Eq if lower > 0 || upper < 0 => Some(false),
            Cmp::Eq if lower == 0 && upper == 0 => Some(true),
            Cmp::Ne if lower > 0 || upper < 0 => Some(true),
            Cmp::Ne if lower == 0 && upper == 0 => Some(false),
            Cmp::Lt if upper < 0 => Some(true),
            Cmp::Lt if lower >= 0 => Some(false),
            Cmp::Le if upper <= 0 => Some(true),
            Cmp::Le if lower > 0 => Some(false),
            _ => None,
        };
        Some(match decided {
            Some(value) => Term::constant(value.into()),
            None => Term::cmp(op, a, b),
        })
    }

    /// The quotient of terms, rounded towards zero as in integer division.
    fn quotient(&self, a: &Term, b: &Term) -> Option<Term> {
        if self.range(b).lower < 1 {
            return None;
        }
        if self.range(a).lower >= 0 {
            return Some(a.floor_div(b));
        }
        let negative = a.neg().floor_div(b).neg();
        let is_negative = Term::cmp(Cmp::Lt, a, &Term::constant(0));
        Some(Term::select(&is_negative, &negative, &a.floor_div(b)))
    }

    fn sign(&self, a: &Term) -> Term {
        let one = Term::constant(1);
        Term::max(&Term::min(a, &one), &Term::constant(-1))
    }
}

impl<'m> Lowerer<'m> {
    /// Records the results of an operation as terms over sizes, if they are.
    pub(super) fn follow_sizes(&mut self, access: &Access<'_>, frame: &Frame) {
        let operation = access.operation;
        if operation.name.starts_with("func.") || operation.results.len() != 1 {
            return;
        }
        let result = operation.results[0];
        let Some(count) = small_count(self.source.type_of(result)) else {
            return;
        };
        if moves_indices(&operation.name) {
            for value in &operation.operands {
                let count = small_count(self.source.type_of(*value));
                if let (Some(count), None) = (count, self.sizes.index_terms(*value)) {
                    self.sizes.name_indices(*value, count);
                }
            }
        }
        let terms = self.size_terms(operation, frame, count);
        let terms = terms.filter(|terms| {
            terms.len() == count && terms.iter().all(|term| term.size() <= MAX_TERM_SIZE)
        });
        match terms {
            Some(terms) => {
                let terms = terms.iter().map(|term| self.sizes.canonical(term));
                let terms = terms.collect();
                self.sizes.known.insert(result, terms);
            }
            None => {
                self.sizes.known.remove(&result);
            }
        }
    }

    fn size_terms(&self, operation: &Operation, frame: &Frame, count: usize) -> Option<Vec<Term>> {
        let name = operation.name.strip_prefix("stablehlo.")?;
        if name == "constant" {
            let Some(Attribute::Elements(elements)) = operation.attribute("value") else {
                return None;
            };
            let values = elements.integers(count)?;
            return Some(values.into_iter().map(Term::constant).collect());
        }
        if name == "get_dimension_size" {
            let operand = frame.local(*operation.operands.first()?)?;
            let Shape::Array(array) = frame.shape(operand) else {
                return None;
            };
            let dimension = operation.attribute("dimension")?.as_integer()?;
            return Some(vec![array.dimension(dimension)?.term()]);
        }
        let operands = operation.operands.iter();
        let moves = moves_indices(&operation.name);
        let known: Option<Vec<&[Term]>> = operands
            .map(|value| match moves {
                true => self.sizes.index_terms(*value).map(AsRef::as_ref),
                false => self.sizes.terms(*value).map(AsRef::as_ref),
            })
            .collect();
        let known = known?;
        if name == "concatenate" {
            // Rows are concatenated; along another dimension, elements would be interleaved.
            let along_rows = operation.attribute("dimension")?.as_integer() == Some(0);
            return along_rows.then(|| known.concat());
        }
        let rank = |value: &ValueId| Some(self.source.type_of(*value).as_tensor()?.dims.len());
        if name == "slice" && rank(operation.operands.first()?)? == 1 {
            let list = |name: &str| operation.attribute(name)?.as_integers();
            let first = |name: &str| usize::try_from(*list(name)?.first()?).ok();
            let (start, limit) = (first("start_indices")?, first("limit_indices")?);
            let stride = list("strides")
                .and_then(|list| list.first().copied())
                .unwrap_or(1);
            let all = known.first()?.get(start..limit)?;
            let step = usize::try_from(stride).ok()?.max(1);
            return Some(all.iter().step_by(step).cloned().collect());
        }
        // In an elementwise operation, a scalar is combined with any number of elements.
        let at = |operand: usize, element: usize| {
            let terms = known.get(operand)?;
            match terms.len() {
                1 => terms.first(),
                _ => terms.get(element),
            }
        };
        (0..count)
            .map(|element| {
                let a = at(0, element)?;
                self.element_term(operation, name, a, &|operand| at(operand, element))
            })
            .collect()
    }

    fn element_term<'t>(
        &self,
        operation: &Operation,
        name: &str,
        a: &Term,
        operand: &dyn Fn(usize) -> Option<&'t Term>,
    ) -> Option<Term> {
        let zero = Term::constant(0);
        let sizes = &self.sizes;
        let truth = |value: ValueId| {
            let element = self.source.type_of(value).as_tensor()?.element.clone();
            Some(element == Type::BOOL)
        };
        let is_truth = truth(*operation.operands.first()?)?;
        Some(match name {
            "convert" | "reshape" | "broadcast_in_dim" | "optimization_barrier" => {
                let gives_truth = truth(*operation.results.first()?)?;
                match gives_truth && !is_truth {
                    true => sizes.compare("NE", a, &zero)?,
                    false => a.clone(),
                }
            }
            "negate" => a.neg(),
            "abs" => Term::max(a, &a.neg()),
            "sign" => sizes.sign(a),
            "not" if is_truth => Term::constant(1).sub(a),
            _ => {
                let b = operand(1)?;
                match name {
                    "add" if !is_truth => a.add(b),
                    "subtract" => a.sub(b),
                    "multiply" => a.mul(b),
                    "divide" => sizes.quotient(a, b)?,
                    "remainder" => match sizes.range(a).lower >= 0 && sizes.range(b).lower >= 1 {
                        true => a.modulo(b),
                        false => a.sub(&sizes.quotient(a, b)?.mul(b)),
                    },
                    "maximum" => Term::max(a, b),
                    "minimum" => Term::min(a, b),
                    "and" if is_truth => Term::min(a, b),
                    "or" if is_truth => Term::max(a, b),
                    "xor" if is_truth => sizes.compare("NE", a, b)?,
                    "compare" => {
                        let direction = operation.attribute("comparison_direction")?;
                        sizes.compare(direction.as_case()?, a, b)?
                    }
                    "select" => {
                        let c = operand(2)?;
                        match sizes.canonical(a).as_constant() {
                            Some(0) => c.clone(),
                            Some(_) => b.clone(),
                            None => Term::select(a, b, c),
                        }
                    }
                    "clamp" => Term::min(&Term::max(b, a), operand(2)?),
                    _ => return None,
                }
            }
        })
    }
}

/// The number of elements of a tensor that may contain sizes: few integers.
fn small_count(ty: &Type) -> Option<usize> {
    let tensor = ty.as_tensor()?;
    let is_list = tensor.dims.len() <= 2;
    let is_integer = matches!(tensor.element, Type::Integer { .. } | Type::Index);
    let count = ty.element_count().filter(|count| *count <= MAX_ELEMENTS)?;
    (is_list && is_integer).then_some(count as usize)
}

/// Whether an operation is evaluated for data-dependent indices as well: only if the result is
/// right for all indices, even if 32-bit arithmetic wraps.
fn moves_indices(name: &str) -> bool {
    let name = name.strip_prefix("stablehlo.").unwrap_or_default();
    matches!(
        name,
        "add"
            | "subtract"
            | "clamp"
            | "maximum"
            | "minimum"
            | "concatenate"
            | "reshape"
            | "broadcast_in_dim"
            | "slice"
    )
}

/// Whether a term contains an index that depends on data.
pub(super) fn depends_on_data(term: &Term) -> bool {
    let mut depends = false;
    term.for_each_var(&mut |var| depends |= var.0 >= FIRST_INDEX);
    depends
}
