//! The tests of layouts, a module each, in one program: linking one for each would take
//! most of the time and of the disk.

mod apply_layouts;
mod assign;
mod tiled_layout;
mod tiled_random;
