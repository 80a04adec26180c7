//! Integer terms, the one language of Tegula for indices, shapes, loop bounds, buffer sizes and
//! alignment proofs.
//!
//! A [`Term`] is an immutable tree over `i64` constants and variables that is cheap to clone. The
//! owner of a term gives its variables a meaning (a dimension of an indexing map, a symbolic extent
//! of a shape, a loop counter of a kernel); here, a variable is a number.
//!
//! The crate provides, in the order of use:
//! - smart constructors on [`Term`] that fold what the operands alone decide;
//! - [`Term::eval`], which defines the meaning of a term;
//! - [`range_of`] and [`residue_of`]: bounds and residues, derived from those of the variables;
//! - [`canonicalize`]: the canonical form over the variables' ranges;
//! - [`parse`] and [`Term::display`]: text in both spellings;
//! - [`Provider`]: numbers from analyses, evaluators or backends behind one
//!   interface, so that the shape of an operation is written once;
//! - [`index`]: index expressions, which are terms with a kind and a scope.
//!
//! What it does not do: it knows nothing of arrays, operations or e-graphs. The indexing crate
//! searches for better forms.
//!
//! # Invariants
//! - No operation wraps: a constructor that would overflow while folding leaves
//!   the node unfolded, and evaluation reports the overflow.
//! - Division rounds towards negative infinity (`floordiv`) or positive infinity
//!   (`ceildiv`); `mod` is `a - floordiv(a, b) * b`.
//! - Canonicalisation refines: wherever the term has a value for variables in
//!   their ranges, the canonical form has the same value.
//! - Nothing recurses on the depth of a term, and nothing panics.
//!
//! ```
//! use tegula_expr::{Interval, Style, Var, canonicalize, parse};
//!
//! let names = |name: &str| name.strip_prefix('d')?.parse().ok().map(Var);
//! let term = parse("(d0 * 128 + d1) floordiv 128", &names)?;
//! let ranges = [Interval::of_size(8), Interval::of_size(128)];
//! let canonical = canonicalize(&term, ranges.as_slice());
//! let spell = |var: Var| format!("d{}", var.0);
//! assert_eq!(canonical.display(&spell, Style::Xla).to_string(), "d0");
//! # Ok::<(), tegula_expr::ParseError>(())
//! ```

mod build;
mod canon;
mod eval;
pub mod index;
mod interval;
mod number;
mod parse;
mod print;
mod provider;
mod range;
mod term;
mod walk;

pub use canon::{CanonCache, Canonicalizer, Facts, Step, canonicalize};
pub use eval::EvalError;
pub use interval::{Interval, Residue};
pub use number::{ceil_div, exact_ratio, floor_div, floor_mod, gcd};
pub use parse::{MAX_NESTING, ParseError, parse, parse_prefix};
pub use print::{Names, Numbered, Printed, Style};
pub use provider::{
    Arithmetic, CFunction, CText, Emitted, Emitter, Emitting, Extract, KnownOperand, NoOperands,
    Number, Numbers, Operands, Provider, ShapeHelper, Symbols, Values, Watched, emit_term, numbers,
    terms,
};
pub use range::{VarRanges, facts_of, range_of, residue_of};
pub use term::{Cmp, Node, Term, Var};
pub use walk::LinearTerms;
