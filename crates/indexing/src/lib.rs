//! Indexing maps, which describe exactly what elements every operation reads.
//!
//! An [`IndexingMap`] is a function from the index of one array to indices of another, together
//! with the domain on which it holds. The crate
//! - derives maps from HLO instructions, from results to operands ([`output_to_input`]) and back
//!   ([`input_to_output`]), and composes them through fusions ([`fusion_output_to_input`]);
//! - composes, evaluates, enumerates and compares maps;
//! - simplifies them ([`Simplifier`]): it narrows domains, simplifies results, and chooses the
//!   forms of several terms that are cheapest together;
//! - inverts and rewrites them ([`IndexingMap::inverse`], ...);
//! - counts what they read ([`utilization`]) and how a warp's loads coalesce ([`coalescing`]), and
//!   proves alignment ([`is_multiple_of`], [`stride_along`], [`contiguous_elements`]);
//! - propagates tiles through instructions and whole fusions ([`tiles`]), with conditions on their
//!   sizes;
//! - decides whether two sizes are equal under assumptions ([`equality`]);
//! - parses and prints maps ([`parse_map`], [`IndexingMap::display`]).
//!
//! What it does not do: it chooses no fusion and no layout, emits no code, and does not look at
//! data.
//!
//! # Invariants
//! - Unknown is a value: an operation without a description yields [`Unknown`] with its cause, and
//!   nothing panics, whatever the attributes say.
//! - Simplification neither removes nor adds a point of a domain, and changes no result at any
//!   point, for any bounds. Arithmetic is checked, and every search has a bound; [`Report`] names
//!   the bounds that were hit.
//! - Terms of different domains do not interact: no constraint of one map rewrites a term of
//!   another, and whatever else a simplifier has cached does not change a result.
//! - A map says whether it names exactly the elements that are read, or more ([`Exactness`]).
//!
//! ```
//! use tegula_indexing::{IndexingMap, Simplifier};
//!
//! // Two reshapes, f32[10,10,10] to f32[50,20] and back, as one map.
//! let there: IndexingMap = "(d0, d1) -> (d0 / 5, (d0 mod 5) * 2 + d1 / 10, d1 mod 10), \
//!     domain: d0 in [0, 49], d1 in [0, 19]".parse()?;
//! let back: IndexingMap = "(d0, d1, d2) -> (d0 * 5 + d1 / 2, (d1 mod 2) * 10 + d2), \
//!     domain: d0 in [0, 9], d1 in [0, 9], d2 in [0, 9]".parse()?;
//! let both = Simplifier::new().simplify_map(&back.compose(&there));
//! assert_eq!(
//!     both.to_string(),
//!     "(d0, d1, d2) -> (d0, d1, d2), domain: d0 in [0, 9], d1 in [0, 9], d2 in [0, 9]"
//! );
//! # Ok::<(), tegula_expr::ParseError>(())
//! ```

mod checker;
mod compose;
pub mod equality;
mod fusion;
mod map;
mod ops;
mod points;
mod simplify;
mod table;
mod text;
pub mod tiles;
mod transform;
mod uses;

pub use checker::{Checked, Difference, check_same};
pub use fusion::{fusion_input_to_output, fusion_output_to_input};
pub use map::{
    Constraint, Exactness, IndexingMap, Participant, RuntimeSource, RuntimeVariable, Status,
    Variable,
};
pub use ops::{
    Cause, OperandIndexing, Unknown, input_to_output, input_to_output_leaf, output_leaf_to_input,
    output_to_input, passed_on,
};
pub use points::{Access, Point};
pub use simplify::{
    Explained, Limits, Narrowed, RULES, Report, Rule, Simplifier, StopReason, address_cost,
};
pub use text::{PrintedMap, parse_map};
pub use uses::{
    Answer, Coalescing, Proof, Utilization, Warp, coalescing, contiguous_elements, is_multiple_of,
    row_major_address, stride_along, utilization,
};
