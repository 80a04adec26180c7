//! The tests of the evaluator, a module each, in one program: linking one for each would take
//! most of the time and of the disk.

mod calling;
mod collectives;
mod common;
mod control;
mod elementwise;
mod library;
mod movement;
mod perturb;
mod transfers;
