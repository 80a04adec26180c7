//! Executes kernels: blocks run one after another, and the warps of a block take turns.

mod access;
mod address;
mod atomic;
mod barrier;
mod bits;
mod block;
mod collective;
mod compare;
mod context;
mod convert;
mod float;
mod host;
mod integer;
mod lanes;
mod launch;
mod matrix;
mod matrix_multiply;
mod options;
mod own;
mod shadow;
mod step;
mod traffic;
#[cfg(target_arch = "x86_64")]
mod vectors;
mod warp;

pub use launch::launch;
pub use options::{Launch, LaunchError, Options};
