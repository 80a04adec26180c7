//! The program that the run time executes, and its construction from a Plan.
//!
//! [`ir`] defines the data: actions with addresses. [`lower`] makes actions from a Plan's steps,
//! using passes that analyse the Plan: [`run_invariants`] (steps that only the first run executes),
//! [`slice_aliasing`] (dynamic slices that are not copied), [`double_buffer`] (loop state swapped
//! instead of copied), [`strip_mine`] (steps executed strip by strip), [`nontemporal_stores`]
//! (stores that bypass the caches). [`effects`] gives the memory that a step reads and writes.

pub(crate) mod double_buffer;
pub(crate) mod effects;
pub(crate) mod ir;
pub(crate) mod kept_memory;
pub(crate) mod lower;
pub(crate) mod nontemporal_stores;
pub(crate) mod run_invariants;
pub(crate) mod slice_aliasing;
pub(crate) mod strip_mine;
