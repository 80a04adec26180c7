//! The tests of layouts and placement, a module each, in one program: linking one for each would take
//! most of the time and of the disk.

mod apply_layouts;
mod assign;
mod facts;
mod plan_errors;
mod plan_text;
mod plan_verify;
mod tiled_layout;
mod tiled_random;
mod tpu_hlo;
mod tpu_layouts;
mod tpu_loops;
mod tpu_memory;
mod tpu_windows;
mod windows;
