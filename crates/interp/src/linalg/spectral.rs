//! Eigenvalues and singular values, as JAX calls LAPACK's routines for them on CPUs:
//! [handlers](crate::CustomCallHandler) that every process has, on every target.
//!
//! What a routine gives is what LAPACK's documentation says, computed by the `faer` library in
//! `f64` and rounded once. That leaves open the factor of magnitude 1 of each vector, which
//! vectors span the space of an eigenvalue that occurs several times, and the order of the
//! eigenvalues of a matrix that is not symmetric: there the library's choice is not LAPACK's.
//! Where there is no result (a matrix has a NaN or an infinity, or an iteration does not end)
//! the routine gives NaN and says so in its last result.

mod decompose;

use self::decompose::{Request, row, solve};
use super::{Matrix, matrices, store};
use crate::error::Fault;
use crate::reduce::from_i64s;
use crate::scalar::C64;
use tegula_ir::{ArrayShape, CustomCall, ElementType, Literal, lapack_option, lapack_target};

/// A routine for matrices of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spectral {
    routine: Routine,
    element_type: ElementType,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Routine {
    /// `syevd(a)`, `heevd(a)`: vectors, values in ascending order, `info`.
    SelfAdjoint,
    /// `gesdd(a)`, `gesvd(a)`: `a`, values in descending order, `u`, the adjoint of `v`, `info`.
    Singular,
    /// `geev(a)`: values (of real matrices their real and their imaginary parts), left vectors,
    /// right vectors, `info`.
    General,
}

/// What a routine gives for each matrix but for `info`, a vector being one row; [`None`] if there
/// is no result.
type Found = Option<Vec<Matrix>>;

impl Spectral {
    /// The routine of a target like `lapack_ssyevd_ffi`.
    pub(crate) fn of(target: &str) -> Option<Self> {
        let (element_type, name) = lapack_target(target)?;
        let routine = match (name, element_type.is_complex()) {
            ("syevd", false) | ("heevd", true) => Routine::SelfAdjoint,
            ("gesdd" | "gesvd", _) => Routine::Singular,
            ("geev", _) => Routine::General,
            _ => return None,
        };
        Some(Self {
            routine,
            element_type,
        })
    }

    /// The results of a call.
    ///
    /// # Errors
    /// Operands, results or options are not those of the routine.
    pub(crate) fn run(
        self,
        call: &CustomCall,
        operands: &[Literal],
        results: &[ArrayShape],
    ) -> Result<Vec<Literal>, String> {
        let ([a], [arrays @ .., info]) = (operands, results) else {
            return Err("the routine has one operand, and results".to_owned());
        };
        self.check_types(a, results)?;
        let request = self.request(call, arrays)?;
        let (_, inputs) = matrices(a).map_err(Fault::into_reason)?;
        let is_square = |a: &Matrix| a.rows == a.columns;
        if self.routine != Routine::Singular && !inputs.iter().all(is_square) {
            return Err("the matrix is not square".to_owned());
        }
        let solve = match self.element_type.is_complex() {
            true => solve::<C64>,
            false => solve::<f64>,
        };
        let found: Vec<Found> = inputs.iter().map(|a| solve(a, request)).collect();
        let mut literals = Vec::with_capacity(results.len());
        for (place, shape) in arrays.iter().enumerate() {
            literals.push(together(shape, &found, place)?);
        }
        let fails: Vec<i64> = found.iter().map(|x| i64::from(x.is_none())).collect();
        if info.static_dims().map(|dims| dims.iter().product()) != Some(fails.len() as i64) {
            return Err(not_given(arrays.len(), info));
        }
        literals.push(from_i64s(info, &fails).map_err(Fault::into_reason)?);
        Ok(literals)
    }

    /// Checks that the operand and the results are of the routine's types.
    fn check_types(self, a: &Literal, results: &[ArrayShape]) -> Result<(), String> {
        let own = self.element_type;
        if a.element_type() != own {
            let given = a.element_type();
            return Err(format!("the operand is of {given}, not of {own}"));
        }
        let real = own.complex_part().unwrap_or(own);
        let complex = match own {
            ElementType::F32 | ElementType::C64 => ElementType::C64,
            _ => ElementType::C128,
        };
        let expected: &[ElementType] = match self.routine {
            Routine::SelfAdjoint => &[own, real, ElementType::S32],
            Routine::Singular => &[own, real, own, own, ElementType::S32],
            Routine::General if own.is_complex() => &[own, own, own, ElementType::S32],
            Routine::General => &[own, own, complex, complex, ElementType::S32],
        };
        if !results
            .iter()
            .map(|shape| shape.element_type)
            .eq(expected.iter().copied())
        {
            let names: Vec<String> = expected.iter().map(ToString::to_string).collect();
            return Err(format!("the routine's results are of {}", names.join(", ")));
        }
        Ok(())
    }

    /// What is asked for by the options of a call and the shapes of its results, of which there
    /// are as many as the routine has.
    fn request(self, call: &CustomCall, arrays: &[ArrayShape]) -> Result<Request, String> {
        let is = |name: &str, letter: char| Ok::<_, String>(lapack_option(call, name)? == letter);
        Ok(match self.routine {
            Routine::SelfAdjoint => Request::SelfAdjoint {
                lower: is("uplo", 'L')?,
                vectors: is("mode", 'V')?,
            },
            Routine::Singular => {
                // The last size of `u`, the last but one of the adjoint of `v`.
                let size = |array: usize, from_last: usize| {
                    let dims = &arrays.get(array)?.dims;
                    let place = dims.len().checked_sub(from_last)?;
                    usize::try_from(dims[place].as_static()?).ok()
                };
                let (Some(left), Some(right)) = (size(2, 1), size(3, 2)) else {
                    return Err("results that are not matrices of known sizes".to_owned());
                };
                let vectors = !is("mode", 'N')?;
                Request::Singular {
                    counts: [left, right],
                    vectors,
                }
            }
            Routine::General => {
                Request::General([is("compute_left", 'V')?, is("compute_right", 'V')?])
            }
        })
    }
}

/// The array of the parts of one result, NaN where there are none.
fn together(shape: &ArrayShape, found: &[Found], place: usize) -> Result<Literal, String> {
    let dims: Option<Vec<usize>> = (shape.dims.iter())
        .map(|dim| usize::try_from(dim.as_static()?).ok())
        .collect();
    let dims = dims.ok_or("results of sizes that are not known")?;
    let elements: usize = dims.iter().product();
    let each = elements.checked_div(found.len()).unwrap_or(0);
    let part = |parts: &Found| match parts {
        Some(parts) => parts[place].clone(),
        None => row(std::iter::repeat_n(C64::new(f64::NAN, 0.0), each)),
    };
    let parts: Vec<Matrix> = found.iter().map(part).collect();
    if parts.iter().map(|part| part.entries.len()).sum::<usize>() != elements {
        return Err(not_given(place, shape));
    }
    store(shape.element_type, &dims, &parts).map_err(Fault::into_reason)
}

fn not_given(place: usize, shape: &ArrayShape) -> String {
    format!("result {place} is {shape}, which the routine does not give")
}
