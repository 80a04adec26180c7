//! What the repository's tests share: the corpus of real programs.

pub mod corpus;
