//! Every routine by what its results must satisfy, by what LAPACK gave, and when it is to stop.

mod recorded;
mod residuals;
mod sample;
mod stopped;
