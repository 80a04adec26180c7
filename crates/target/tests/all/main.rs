//! All tests of chips and machines, one module each, in a single executable: linking one for each
//! module would take most of the time and of the disk space.

mod chips;
mod default_layouts;
