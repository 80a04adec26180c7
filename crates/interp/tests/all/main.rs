//! The tests of the evaluator, each in a module of one test program: a program for each would spend
//! most time and disk space on linking.

mod calling;
mod collectives;
mod common;
mod control;
mod elementwise;
mod library;
mod movement;
mod perturb;
mod transfers;
