//! Factorisations, eigenvalues and singular values of matrices in memory: the results of LAPACK's
//! routines of the same names, with LAPACK's conventions for signs and orders.
//!
//! Matrices are column-major. The caller passes work space; each routine's documentation states
//! what it reads. Routines are generic over `f32`, `f64` and complex numbers of these, and compiled
//! for several instruction sets; the best that the machine has is used.
//!
//! Each step of a routine checks whether its run has been told to [stop](tegula_limits): the output
//! is then meaningless, and an iteration reports that it has not converged.

mod bidiagonal;
mod block_reflector;
mod complex_vectors;
mod deflation;
mod hessenberg;
mod householder;
mod isa;
mod matrix;
mod matrix_vector;
mod numbers;
mod product;
mod qr;
mod real_vectors;
mod rotation;
mod scalar;
mod scaling;
mod schur;
mod secular;
mod singular;
mod symmetric;
mod tridiagonal;

pub use bidiagonal::{Bidiagonal, gebrd, ormbr};
pub use hessenberg::{gehrd, orghr};
pub use isa::Isa;
pub use matrix::Matrix;
pub use qr::{Multiplication, geqp3, geqrf, orgqr, ormqr};
pub use scalar::{Real, Scalar};
pub use schur::{Eigen, gees, geev};
pub use singular::{SvdMethod, gesdd};
pub use symmetric::heevd;
pub use tridiagonal::{Tridiagonal, hetrd, ormtr};

/// The error of an iteration that did not converge: LAPACK's `info`, which is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotConverged(pub usize);
