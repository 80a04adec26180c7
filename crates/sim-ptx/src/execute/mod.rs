//! Running a kernel: blocks one after another, the warps of a block in turns.

mod access;
mod atomic;
mod bits;
mod block;
mod collective;
mod compare;
mod context;
mod convert;
mod float;
mod integer;
mod lanes;
mod launch;
mod matrix;
mod own;
mod shadow;
mod step;
mod traffic;
#[cfg(target_arch = "x86_64")]
mod vectors;
mod warp;

pub use launch::{Launch, LaunchError, Options, launch};
