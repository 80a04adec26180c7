//! Sizes that are known only at run time (open sizes): which of them are equal, where their values
//! come from, and what must be checked at run time.
//!
//! The reader gives every size that the text leaves open its own symbol. The operations of the
//! program relate the symbols: the operands of an `add` have the same sizes, a `reshape` keeps the
//! number of elements, a callee's parameters are the caller's operands. [`infer_symbolic_dims`]
//! collects these relations as equations over terms ([`equations`]; [`values`] converts integers
//! that the program computes from sizes to terms), solves them ([`solve`]), and rewrites every
//! shape of the module with the remaining symbols. A computation that is called with different
//! sizes is copied ([`copies`]). A relation that does not follow from the others becomes a
//! [`Guard`].
//!
//! # Invariants of a module whose sizes are resolved
//! - A size that is the same in all runs is static.
//! - Sizes that must be equal are the same term.
//! - Every symbol that occurs in a shape has a [`SizeSource`], unless the program's inputs do not
//!   determine it.

mod copies;
mod equations;
mod solve;
mod values;

use crate::{ArrayShape, Dim, Error, InstructionId, Module, Shape, Symbol};
use rustc_hash::FxHashSet;
pub use solve::Derivation;
use std::sync::Arc;
use tegula_expr::{Cmp, Style, Term, Var};
pub use values::is_size_computation;

/// A source of a symbol's value at run time: a dimension of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeSource {
    /// The symbol.
    pub symbol: Var,
    /// The parameter, by its number in the flattened list of parameters.
    pub parameter: usize,
    /// The dimension of the parameter whose size is the symbol's value.
    pub dimension: usize,
}

/// A comparison of sizes that must hold at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// How the two sides must compare.
    pub op: Cmp,
    /// The left side, a term over the module's symbols.
    pub left: Term,
    /// The right side, a term over the module's symbols.
    pub right: Term,
    /// What requires it, as the subject of a sentence that continues with `must be equal` or the
    /// like.
    pub what: Arc<str>,
    /// The program's own message for a violation.
    pub message: Option<Arc<GuardMessage>>,
}

/// A message of the program about sizes, from an assertion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardMessage {
    /// The text, with placeholders `{0}`, `{1}`, ... for the values.
    pub text: Arc<str>,
    /// The values, terms over the module's symbols.
    pub values: Vec<Term>,
}

impl GuardMessage {
    /// The text with the values filled in; placeholders of unknown values stay.
    pub fn with_values(&self, value_of: &dyn Fn(Var) -> Option<i64>) -> String {
        let mut text = self.text.to_string();
        for (place, term) in self.values.iter().enumerate() {
            if let Ok(value) = term.eval(value_of) {
                text = text.replace(&format!("{{{place}}}"), &value.to_string());
            }
        }
        text
    }
}

/// The sources and checks of sizes that are known only at run time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunTimeSizes {
    /// The sources of the symbols' values. A symbol that is the size of several dimensions is
    /// listed once for each, and at run time they must agree.
    pub sources: Vec<SizeSource>,
    /// The checks at run time, in the order of the program.
    pub guards: Vec<Guard>,
}

impl RunTimeSizes {
    /// The value of every symbol for inputs of these shapes, by number; 0 for a symbol that no
    /// input determines. `symbols` are the module's.
    ///
    /// # Errors
    /// A size out of its symbol's bounds, different sizes for one symbol, or a violated guard. The
    /// number and ranks of inputs are not checked.
    pub fn bind(&self, symbols: &[Symbol], inputs: &[&ArrayShape]) -> Result<Vec<i64>, String> {
        let mut values = vec![0; symbols.len()];
        let mut found: Vec<Option<&SizeSource>> = vec![None; symbols.len()];
        for source in &self.sources {
            let input = inputs.get(source.parameter);
            let size = input.and_then(|shape| shape.dims.get(source.dimension)?.as_static());
            let index = source.symbol.0 as usize;
            let (Some(size), Some(symbol), Some(value)) =
                (size, symbols.get(index), values.get_mut(index))
            else {
                continue;
            };
            if size < symbol.lower || size > symbol.upper {
                let (lower, upper) = (symbol.lower, symbol.upper);
                return Err(format!(
                    "{}, {}, is {size}, which is not between {lower} and {upper}",
                    symbol.name,
                    source.describe()
                ));
            }
            match found.get_mut(index) {
                Some(Some(first)) if *value != size => {
                    return Err(format!(
                        "{} must be one size: {} is {value}, {} is {size}",
                        symbol.name,
                        first.describe(),
                        source.describe()
                    ));
                }
                Some(first) => *first = first.or(Some(source)),
                None => {}
            }
            *value = size;
        }
        for guard in &self.guards {
            self.check(guard, symbols, &values)?;
        }
        Ok(values)
    }

    fn check(&self, guard: &Guard, symbols: &[Symbol], values: &[i64]) -> Result<(), String> {
        let value_of = |var: Var| values.get(var.0 as usize).copied();
        let side = |term: &Term| {
            let value = term.eval(&value_of);
            value.map_err(|error| {
                format!("{}: {}: {error}", guard.what, display_term(term, symbols))
            })
        };
        let (left, right) = (side(&guard.left)?, side(&guard.right)?);
        if guard.op.holds(left, right) {
            return Ok(());
        }
        if let Some(message) = &guard.message {
            return Err(message.with_values(&value_of));
        }
        let sides = [
            valued(&guard.left, left, symbols),
            valued(&guard.right, right, symbols),
        ];
        let mut message = must(&guard.what, guard.op, &sides, "");
        let mut named = Vec::new();
        for source in &self.sources {
            if guard.left.mentions(source.symbol) || guard.right.mentions(source.symbol) {
                let name = symbols.get(source.symbol.0 as usize).map(|s| &*s.name);
                named.push(format!(
                    "{} is {}",
                    name.unwrap_or_default(),
                    source.describe()
                ));
            }
        }
        if !named.is_empty() {
            message = format!("{message} ({})", named.join("; "));
        }
        Err(message)
    }
}

impl SizeSource {
    fn describe(&self) -> String {
        format!("dimension {} of input {}", self.dimension, self.parameter)
    }
}

/// Displays a term over a module's symbols with their names.
pub fn display_term(term: &Term, symbols: &[Symbol]) -> String {
    let name = |Var(number): Var| match symbols.get(number as usize) {
        Some(symbol) => symbol.name.to_string(),
        None => format!("symbol{number}"),
    };
    term.display(&name, Style::Xla).to_string()
}

/// Displays a shape without layouts; open sizes are displayed with the names of the module's
/// symbols.
pub fn display_shape(shape: &Shape, symbols: &[Symbol]) -> String {
    match shape {
        Shape::Array(array) => {
            let dims = array.dims.iter().map(|dim| match dim {
                Dim::Static(size) => size.to_string(),
                Dim::Symbolic(size) => display_term(size, symbols),
                Dim::Bounded { bound, size } => {
                    format!("{} <= {bound}", display_term(size, symbols))
                }
            });
            let dims: Vec<String> = dims.collect();
            format!("{}[{}]", array.element_type, dims.join(","))
        }
        Shape::Tuple(elements) => {
            let elements: Vec<String> =
                elements.iter().map(|e| display_shape(e, symbols)).collect();
            format!("({})", elements.join(", "))
        }
        other => format!("{other:#}"),
    }
}

/// The message of a violated guard: how its sides must compare and, in `but`, why they do not.
fn must(what: &str, op: Cmp, [left, right]: &[String; 2], but: &str) -> String {
    match op {
        Cmp::Eq => format!("{what} must be equal{but}: {left} and {right}"),
        Cmp::Ne => format!("{what} must differ{but}: {left} and {right}"),
        Cmp::Lt => format!("{what}: {left} must be below {right}{but}"),
        Cmp::Le => format!("{what}: {left} must be at most {right}{but}"),
    }
}

fn valued(term: &Term, value: i64, symbols: &[Symbol]) -> String {
    match term.as_constant() {
        Some(constant) => constant.to_string(),
        None => format!("{} = {value}", display_term(term, symbols)),
    }
}

/// Solves for the open sizes of a verified module; see the module's documentation. Guards that the
/// module has already are kept. `fixed` gives symbols of inputs constant values, by name.
///
/// A module without open sizes is unchanged, if `fixed` is empty.
///
/// # Errors
/// Sizes that contradict the program, with the instruction that requires them; a name in `fixed`
/// that is not a size of an input.
pub fn infer_symbolic_dims(module: &mut Module, fixed: &[(&str, i64)]) -> Result<(), Error> {
    if module.symbols.is_empty() && fixed.is_empty() {
        return Ok(());
    }
    let sources = equations::sources(module);
    let stated = std::mem::take(&mut module.sizes.guards);
    let solution = solve(module, &sources, fixed)?;
    solution.apply(module);
    // Guards that the program states come first, because their messages are more specific. They are
    // about the inputs' own sizes, so nothing is substituted in them.
    let mut guards = stated;
    guards.extend(solution.guards);
    module.sizes = RunTimeSizes { sources, guards };
    Ok(())
}

/// The derivations of the symbols that [`infer_symbolic_dims`] would eliminate, for a module whose
/// sizes are not resolved yet. Each precedes the derivations of the symbols in its value. Calls get
/// their own copies of computations that they cannot share, as in [`infer_symbolic_dims`].
///
/// # Errors
/// As [`infer_symbolic_dims`].
pub fn derive_sizes(module: &mut Module, fixed: &[(&str, i64)]) -> Result<Vec<Derivation>, Error> {
    let sources = equations::sources(module);
    Ok(solve(module, &sources, fixed)?.derivations)
}

/// The maximum number of rounds of copies: a copy may contain calls whose callees must be copied.
const MAX_COPIES: usize = 8;

/// Solves the equations of the module. Two calls of one computation may have different sizes: if
/// sharing the callee would relate the sizes of inputs, the calls get copies.
fn solve(
    module: &mut Module,
    sources: &[SizeSource],
    fixed: &[(&str, i64)],
) -> Result<solve::Solution, Error> {
    let most = copies::most_instructions(module.instructions.len());
    for round in 0..=MAX_COPIES {
        let (solution, calls) = solve_once(module, sources, fixed);
        let calls = copies::shared(module, &calls);
        if calls.is_empty() || round == MAX_COPIES || !copies::separate(module, &calls, most) {
            return solution;
        }
    }
    Err(Error::bug(
        "copying shared computations for their sizes did not terminate",
    ))
}

type Attempt = (Result<solve::Solution, Error>, FxHashSet<InstructionId>);

fn solve_once(module: &Module, sources: &[SizeSource], fixed: &[(&str, i64)]) -> Attempt {
    let mut solver = solve::Solver::new(module, sources);
    let mut attempt = || {
        let fixed = equations::fixed(module, sources, fixed)?;
        let equations = equations::equations(module)?;
        for equation in fixed.into_iter().chain(equations) {
            solver.add(equation)?;
        }
        solver.finish()
    };
    let solution = attempt();
    (solution, solver.calls)
}
