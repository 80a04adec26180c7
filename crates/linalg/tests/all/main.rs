//! Tests each routine by the equations that its results must satisfy, by LAPACK's recorded results,
//! and by its reaction to an interrupt.

mod recorded;
mod residuals;
mod sample;
mod stopped;
