//! The memories: their bytes in the real tiled layouts, the allocations in them, and what is known
//! of each element.
//!
//! [`geometry`] gives the position of each element's bits, [`image`] transfers boxes of elements,
//! [`ledger`] places buffers and adds up their bytes, [`region`] represents which elements are
//! initialised and which are padding.

pub(crate) mod geometry;
pub(crate) mod image;
pub(crate) mod ledger;
pub(crate) mod region;
