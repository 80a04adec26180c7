//! The commands, one per module: its options, the functions it calls, and what it prints.

pub(crate) mod bench;
pub(crate) mod compile;
pub(crate) mod explore;
mod fused_text;
pub(crate) mod generate;
pub(crate) mod index;
pub(crate) mod layout;
pub(crate) mod partition;
pub(crate) mod reduce;
pub(crate) mod run;
mod same_size;
pub(crate) mod shape;
pub(crate) mod simplify;
pub(crate) mod simulate;
pub(crate) mod sizes;
