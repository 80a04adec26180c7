//! The tests of indexing maps, a module each, in one program: linking one for each would take
//! most of the time and of the disk.

mod collectives;
mod common;
mod corpus;
mod documents;
mod equality;
mod every_operation;
mod explanations;
mod further_operations;
mod fusions;
mod hard_maps;
mod hostile;
mod joint;
mod oracle;
mod proofs;
mod random_maps;
mod reshapes;
mod sessions;
mod symbolic;
mod text;
mod tiles;
mod transforms;
mod uses;
