//! LAPACK routines as JAX calls them on CPUs, implemented by `tegula-linalg`:
//! [handlers](crate::CustomCallHandler) that exist in every process, on every target.
//!
//! Each is computed in the type of its operands. If there is no result (a matrix contains NaN or
//! infinities, or an iteration does not converge), `info` says so and the results are NaN.

mod arrays;
mod orthogonal;
mod reflections;
mod spectral;

use self::arrays::{Element, Number};
pub(crate) use self::reflections::Reflections;
use num_complex::Complex;
use tegula_ir::{ArrayShape, CustomCall, ElementType, Literal, lapack_target};
use tegula_linalg::SvdMethod;

/// A routine for matrices of one element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LibraryCall {
    routine: Routine,
    element_type: ElementType,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Routine {
    /// A QR factorisation, or a product with its `Q`.
    Reflections(reflections::Kind),
    /// `geqp3(a, pivots)` returns the factored matrix, the pivots, and `tau`.
    FactorPivoted,
    /// `gehrd(a)` returns the reduced matrix, `tau`, and `info`.
    Hessenberg,
    /// `sytrd(a)`, `hetrd(a)` return the reduced matrix, its diagonal, its off-diagonal, `tau`, and
    /// `info`.
    Tridiagonal,
    /// `syevd(a)`, `heevd(a)` return eigenvectors, eigenvalues in ascending order, and `info`.
    SelfAdjoint,
    /// `gesdd(a)`, `gesvd(a)` return `a`, singular values in descending order, `u`, the adjoint of
    /// `v`, and `info`.
    Singular(SvdMethod),
    /// `geev(a)` returns eigenvalues (for real matrices as real and imaginary parts), left
    /// eigenvectors, right eigenvectors, and `info`.
    General,
    /// `gees(a)` returns the Schur form, the Schur vectors, eigenvalues as in `geev`, the number of
    /// selected eigenvalues (0), and `info`.
    Schur,
    /// `gtsv(below, diagonal, above, b)` returns all four operands after elimination, of which `b`
    /// is the solution, and the row (counted from 1) without a pivot, or 0.
    TridiagonalSolve,
}

/// A call with its operands and the shapes of its results.
struct Call<'a> {
    options: &'a CustomCall,
    operands: &'a [Literal],
}

impl<'a> Call<'a> {
    /// The operands; their number must be `N`.
    fn operands<const N: usize>(&self) -> Result<&'a [Literal; N], String> {
        let given = self.operands.len();
        let operands = self.operands.try_into();
        operands.map_err(|_| format!("expected {N} operands, found {given}"))
    }
}

/// The results of a routine.
type Results = Result<Vec<Literal>, String>;

impl LibraryCall {
    /// The routine for a target such as `lapack_sgeqrf_ffi`.
    pub(crate) fn of(target: &str) -> Option<Self> {
        let (element_type, name) = lapack_target(target)?;
        let routine = match (name, element_type.is_complex()) {
            ("geqrf", _) => Routine::Reflections(reflections::Kind::Factor),
            ("orgqr", false) | ("ungqr", true) => Routine::Reflections(reflections::Kind::Generate),
            ("ormqr", false) | ("unmqr", true) => Routine::Reflections(reflections::Kind::Multiply),
            ("geqp3", _) => Routine::FactorPivoted,
            ("gehrd", _) => Routine::Hessenberg,
            ("sytrd", false) | ("hetrd", true) => Routine::Tridiagonal,
            ("syevd", false) | ("heevd", true) => Routine::SelfAdjoint,
            ("gesdd", _) => Routine::Singular(SvdMethod::DivideAndConquer),
            ("gesvd", _) => Routine::Singular(SvdMethod::QrIteration),
            ("geev", _) => Routine::General,
            ("gees", _) => Routine::Schur,
            ("gtsv", _) => Routine::TridiagonalSolve,
            _ => return None,
        };
        Some(Self {
            routine,
            element_type,
        })
    }

    /// The routine for arrays in caller-provided memory; `None` if it only supports
    /// [literals](Self::run), or if operands, results or options are invalid.
    pub(crate) fn in_memory(
        self,
        options: &CustomCall,
        operands: &[&ArrayShape],
        results: &[&ArrayShape],
    ) -> Option<Reflections> {
        let Routine::Reflections(kind) = self.routine else {
            return None;
        };
        let call = Reflections::new(kind, self.element_type, options, operands).ok()?;
        let expected = call.results();
        let same = |(a, b): (&ArrayShape, &&ArrayShape)| a.same_ignoring_layout(b);
        let all = expected.len() == results.len() && expected.iter().zip(results).all(same);
        all.then_some(call)
    }

    /// The results of a call.
    ///
    /// # Errors
    /// Invalid operands, results or options.
    pub(crate) fn run(
        self,
        options: &CustomCall,
        operands: &[Literal],
        shapes: &[ArrayShape],
    ) -> Results {
        let call = Call { options, operands };
        let results = match self.element_type {
            ElementType::F32 => self.compute::<f32>(&call, shapes),
            ElementType::F64 => self.compute::<f64>(&call, shapes),
            ElementType::C64 => self.compute::<Complex<f32>>(&call, shapes),
            _ => self.compute::<Complex<f64>>(&call, shapes),
        }?;
        let expected: Vec<&ArrayShape> = results.iter().map(Literal::shape).collect();
        let same = |(a, b): (&&ArrayShape, &ArrayShape)| a.same_ignoring_layout(b);
        if expected.len() != shapes.len() || !expected.iter().zip(shapes).all(same) {
            let list = |shapes: &mut dyn Iterator<Item = &ArrayShape>| {
                let names: Vec<String> = shapes.map(ToString::to_string).collect();
                names.join(", ")
            };
            return Err(format!(
                "the routine returns {}, but the program expects {}",
                list(&mut expected.into_iter()),
                list(&mut shapes.iter())
            ));
        }
        Ok(results)
    }

    fn compute<T: Number>(self, call: &Call<'_>, shapes: &[ArrayShape]) -> Results
    where
        Complex<T::Real>: Element,
    {
        match self.routine {
            Routine::Reflections(kind) => reflect(kind, T::TYPE, call),
            Routine::FactorPivoted => orthogonal::factor_pivoted::<T>(call),
            Routine::Hessenberg => orthogonal::hessenberg::<T>(call),
            Routine::Tridiagonal => spectral::tridiagonal::<T>(call),
            Routine::SelfAdjoint => spectral::self_adjoint::<T>(call),
            Routine::Singular(method) => spectral::singular::<T>(call, shapes, method),
            Routine::General => spectral::general::<T>(call),
            Routine::Schur => spectral::schur::<T>(call),
            Routine::TridiagonalSolve => spectral::tridiagonal_solve::<T>(call),
        }
    }
}

/// Computes a QR factorisation, or a product with its `Q`.
fn reflect(kind: reflections::Kind, element_type: ElementType, call: &Call<'_>) -> Results {
    let shapes: Vec<&ArrayShape> = call.operands.iter().map(Literal::shape).collect();
    let routine = Reflections::new(kind, element_type, call.options, &shapes)?;
    let results = routine.results();
    let results: Result<Vec<Literal>, _> = results.iter().map(Literal::zeros).collect();
    let mut results = results.map_err(|error| error.to_string())?;
    // At least as many bytes as the scratch memory needs, aligned for every type.
    let mut scratch = zeros::<Complex<f64>>(routine.scratch_bytes().div_ceil(16));
    let operands: Vec<&[u8]> = call.operands.iter().map(Literal::bytes).collect();
    let mut written: Vec<&mut [u8]> = results.iter_mut().map(Literal::bytes_mut).collect();
    routine.run(
        &operands,
        &mut written,
        bytemuck::cast_slice_mut(&mut scratch),
    )?;
    Ok(results)
}

/// Memory for a number of elements.
fn zeros<T: Element>(count: usize) -> Vec<T> {
    vec![T::default(); count]
}
