//! Every routine by what its results must satisfy, and by what LAPACK gave.

mod recorded;
mod residuals;
mod sample;
