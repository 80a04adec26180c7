//! What the repository's tests share: the corpus of real programs, the example
//! programs, random programs, and how targets are judged.

pub mod corpus;
pub mod judge;
pub mod models;
pub mod mpi;
pub mod nvrtc;
pub mod object;
pub mod onnx_like;
pub mod open_models;
pub mod opened;
pub mod program;
pub mod random;
pub mod shape_modes;
pub mod shardings;
pub mod stablehlo_checks;
pub mod symbolic;
