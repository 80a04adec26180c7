//! The program that the run time walks, and how a Plan becomes one.
//!
//! [`ir`] is the data: actions with addresses. [`lower`] makes them from a Plan's steps, with the
//! help of passes that look at the Plan: [`run_invariants`] (steps that only the first run does),
//! [`slice_aliasing`] (dynamic slices that are not copied), [`double_buffer`] (loop state swapped
//! instead of copied), [`strip_mine`] (steps done strip by strip), [`nontemporal_stores`] (stores
//! past the caches). [`effects`] says what a step reads and writes.

pub(crate) mod double_buffer;
pub(crate) mod effects;
pub(crate) mod ir;
pub(crate) mod kept_memory;
pub(crate) mod lower;
pub(crate) mod nontemporal_stores;
pub(crate) mod run_invariants;
pub(crate) mod slice_aliasing;
pub(crate) mod strip_mine;
