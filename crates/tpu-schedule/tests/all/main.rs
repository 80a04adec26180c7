//! The tests of placement on TPUs, a module each, in one program: linking one for each would take
//! most of the time and of the disk.

mod facts;
mod tpu_hlo;
mod tpu_layouts;
mod tpu_loops;
mod tpu_memory;
mod tpu_windows;
mod windows;
