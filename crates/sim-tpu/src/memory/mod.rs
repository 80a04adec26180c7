//! The memories: bytes under the real tiled layouts, who holds which of them, and what
//! is known of each element.
//!
//! [`geometry`] says where an element's bits are, [`image`] moves boxes of elements in
//! and out, [`ledger`] places buffers and adds up, [`region`] keeps which elements are
//! initialised and which are padding.

pub(crate) mod geometry;
pub(crate) mod image;
pub(crate) mod ledger;
pub(crate) mod region;
