//! Indexing maps.

mod compose;
mod fusion;
mod map;
mod ops;
mod points;
mod simplify;
mod text;

pub use fusion::fusion_output_to_input;
pub use map::{
    Constraint, Exactness, IndexingMap, RuntimeSource, RuntimeVariable, Status, Variable,
};
pub use ops::{Cause, OperandIndexing, Unknown, input_to_output, output_to_input};
pub use points::{Access, Point};
pub use simplify::{Explained, Limits, Report, Session, StopReason, address_cost};
pub use text::{PrintedMap, parse_map};
