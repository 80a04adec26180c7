//! Eigenvalues and singular values, as JAX calls LAPACK's routines for them on CPUs:
//! [handlers](crate::CustomCallHandler) that every process has, on every target.
//!
//! What a routine gives is what LAPACK's documentation says, computed by the `faer` library in
//! `f64` and rounded once. That leaves open the factor of magnitude 1 of each vector, which
//! vectors span the space of an eigenvalue that occurs several times, and the order of the
//! eigenvalues of a matrix that is not symmetric: there the library's choice is not LAPACK's.
//! Where there is no result (a matrix has a NaN or an infinity, or an iteration does not end)
//! the routine gives NaN and says so in its last result.

use super::{Matrix, conjugate, matrices, store};
use crate::error::Fault;
use crate::scalar::C64;
use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{ComputeEigenvectors, evd_cplx, evd_real, evd_scratch};
use faer::linalg::solvers::{SelfAdjointEigen, Svd};
use faer::prelude::default;
use faer::traits::ComplexField;
use faer::{Mat, MatRef, Par, Side};
use tegula_ir::{ArrayShape, CustomCall, ElementType, Literal, lapack_option};

/// A routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spectral {
    /// `syevd(a)`, `heevd(a)`: vectors, values in ascending order, `info`.
    SelfAdjoint,
    /// `gesdd(a)`, `gesvd(a)`: `a`, values in descending order, `u`, the adjoint of `v`, `info`.
    Singular,
    /// `geev(a)`: values (of real matrices their real and their imaginary parts), left vectors,
    /// right vectors, `info`.
    General,
}

impl Spectral {
    /// The routine of a target like `lapack_ssyevd_ffi`.
    pub(crate) fn of(target: &str) -> Option<Self> {
        let name = target.strip_prefix("lapack_")?.strip_suffix("_ffi")?;
        let (real, routine) = match name.strip_prefix(['s', 'd']) {
            Some(routine) => (true, routine),
            None => (false, name.strip_prefix(['c', 'z'])?),
        };
        match (routine, real) {
            ("syevd", true) | ("heevd", false) => Some(Self::SelfAdjoint),
            ("gesdd" | "gesvd", _) => Some(Self::Singular),
            ("geev", _) => Some(Self::General),
            _ => None,
        }
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
        let request = self.request(call, arrays)?;
        let (_, inputs) = matrices(a).map_err(Fault::into_reason)?;
        let found: Vec<Option<Vec<Matrix>>> = inputs.iter().map(|m| request.solve(m)).collect();
        let mut literals = Vec::with_capacity(results.len());
        for (place, shape) in arrays.iter().enumerate() {
            literals.push(together(shape, &found, place)?);
        }
        let fails =
            |parts: &Option<Vec<Matrix>>| C64::new(f64::from(u8::from(parts.is_none())), 0.0);
        let fails = row(found.iter().map(fails));
        literals.push(together(info, &[Some(vec![fails])], 0)?);
        Ok(literals)
    }

    /// What is asked for by the options of a call and the shapes of its results but for `info`.
    fn request(self, call: &CustomCall, arrays: &[ArrayShape]) -> Result<Request, String> {
        let is = |name: &str, letter: char| Ok::<_, String>(lapack_option(call, name)? == letter);
        let count = |expected: bool| {
            let error = || "another number of results than the routine has".to_owned();
            expected.then_some(()).ok_or_else(error)
        };
        Ok(match self {
            Self::SelfAdjoint => {
                count(arrays.len() == 2)?;
                let [lower, vectors] = [is("uplo", 'L')?, is("mode", 'V')?];
                let side = if lower { Side::Lower } else { Side::Upper };
                let is_real = !arrays[0].element_type.is_complex();
                Request::SelfAdjoint {
                    side,
                    vectors,
                    is_real,
                }
            }
            Self::Singular => {
                count(arrays.len() == 4)?;
                // The last size of `u`, the last but one of the adjoint of `v`.
                let size = |array: &ArrayShape, from_last: usize| {
                    let place = array.rank().checked_sub(from_last);
                    let size = place.and_then(|place| array.dims[place].as_static());
                    size.and_then(|size| usize::try_from(size).ok())
                };
                let shares = [size(&arrays[2], 1), size(&arrays[3], 2)];
                let [Some(left), Some(right)] = shares else {
                    return Err("results that are not matrices of known sizes".to_owned());
                };
                let vectors = !is("mode", 'N')?;
                let is_real = !arrays[0].element_type.is_complex();
                Request::Singular {
                    left,
                    right,
                    vectors,
                    is_real,
                }
            }
            Self::General => {
                count(arrays.len() == 3 || arrays.len() == 4)?;
                let is_real = arrays.len() == 4;
                let [left, right] = [is("compute_left", 'V')?, is("compute_right", 'V')?];
                Request::General {
                    left,
                    right,
                    is_real,
                }
            }
        })
    }
}

/// A routine with its options, for one matrix.
#[derive(Clone, Copy, Debug)]
enum Request {
    SelfAdjoint {
        side: Side,
        vectors: bool,
        is_real: bool,
    },
    /// With so many left and right vectors.
    Singular {
        left: usize,
        right: usize,
        vectors: bool,
        is_real: bool,
    },
    General {
        left: bool,
        right: bool,
        is_real: bool,
    },
}

impl Request {
    /// The parts of the results for a matrix, a vector being one row; `None` if there are none.
    fn solve(self, a: &Matrix) -> Option<Vec<Matrix>> {
        let largest = a
            .entries
            .iter()
            .fold(0.0, |most: f64, x| most.max(x.re.abs()).max(x.im.abs()));
        if a.entries
            .iter()
            .any(|x| !x.re.is_finite() || !x.im.is_finite())
        {
            return None;
        }
        // Near 1, so that no square of a number is too large or too small.
        let exponent = if largest > 0.0 {
            libm::ilogb(largest).clamp(-1000, 1000)
        } else {
            0
        };
        let scaled = |x: C64| C64::new(libm::ldexp(x.re, -exponent), libm::ldexp(x.im, -exponent));
        let near_one = Matrix {
            entries: a.entries.iter().map(|&x| scaled(x)).collect(),
            ..*a
        };
        let back = |x: C64| C64::new(libm::ldexp(x.re, exponent), libm::ldexp(x.im, exponent));
        match self {
            Self::SelfAdjoint {
                is_real: true,
                side,
                vectors,
            } => self_adjoint::<f64>(&near_one, side, vectors, back),
            Self::SelfAdjoint { side, vectors, .. } => {
                self_adjoint::<C64>(&near_one, side, vectors, back)
            }
            Self::Singular {
                left,
                right,
                vectors,
                is_real,
            } => {
                let counts = [left, right];
                let found = if is_real {
                    singular::<f64>(&near_one, counts, vectors, back)?
                } else {
                    singular::<C64>(&near_one, counts, vectors, back)?
                };
                Some(std::iter::once(a.clone()).chain(found).collect())
            }
            Self::General {
                left,
                right,
                is_real,
            } => {
                let (values, vectors) = general(&near_one, [left, right], is_real)?;
                let values = values.into_iter().map(back);
                let mut parts = if is_real {
                    let (re, im): (Vec<C64>, Vec<C64>) =
                        values.map(|x| (C64::from(x.re), C64::from(x.im))).unzip();
                    vec![row(re.into_iter()), row(im.into_iter())]
                } else {
                    vec![row(values)]
                };
                parts.extend(vectors);
                Some(parts)
            }
        }
    }
}

/// The array of the parts of one result, NaN where there are none.
fn together(
    shape: &ArrayShape,
    found: &[Option<Vec<Matrix>>],
    place: usize,
) -> Result<Literal, String> {
    let dims: Option<Vec<usize>> = (shape.dims.iter())
        .map(|dim| usize::try_from(dim.as_static()?).ok())
        .collect();
    let dims = dims.ok_or("results of sizes that are not known")?;
    let elements: usize = dims.iter().product();
    let each = elements.checked_div(found.len()).unwrap_or(0);
    let part = |parts: &Option<Vec<Matrix>>| match parts {
        Some(parts) => parts[place].clone(),
        None => row(std::iter::repeat_n(C64::new(f64::NAN, 0.0), each)),
    };
    let parts: Vec<Matrix> = found.iter().map(part).collect();
    if parts.iter().map(|part| part.entries.len()).sum::<usize>() != elements {
        return Err(format!(
            "result {place} is {shape}, which the routine does not give"
        ));
    }
    if shape.element_type == ElementType::S32 {
        let numbers: Vec<i64> = parts
            .iter()
            .flat_map(|m| &m.entries)
            .map(|x| x.re as i64)
            .collect();
        return crate::reduce::from_i64s(shape, &numbers).map_err(Fault::into_reason);
    }
    store(shape.element_type, &dims, &parts).map_err(Fault::into_reason)
}

/// A number as the library has it.
trait Scalar: ComplexField {
    fn of(x: C64) -> Self;
    fn get(&self) -> C64;
}

impl Scalar for f64 {
    fn of(x: C64) -> Self {
        x.re
    }

    fn get(&self) -> C64 {
        C64::from(*self)
    }
}

impl Scalar for C64 {
    fn of(x: C64) -> Self {
        x
    }

    fn get(&self) -> C64 {
        *self
    }
}

fn load<T: Scalar>(a: &Matrix) -> Mat<T> {
    Mat::from_fn(a.rows, a.columns, |i, j| T::of(a.at(i, j)))
}

fn matrix<T: Scalar>(x: MatRef<'_, T>) -> Matrix {
    let (rows, columns) = x.shape();
    let entry = |k: usize| x[(k / columns, k % columns)].get();
    Matrix {
        rows,
        columns,
        entries: (0..rows * columns).map(entry).collect(),
    }
}

fn row(entries: impl Iterator<Item = C64>) -> Matrix {
    let entries: Vec<C64> = entries.collect();
    Matrix {
        rows: 1,
        columns: entries.len(),
        entries,
    }
}

/// The vectors of a matrix without elements: any will do.
fn identity(rows: usize, columns: usize) -> Matrix {
    let mut matrix = zeros(rows, columns);
    for i in 0..rows.min(columns) {
        *matrix.at_mut(i, i) = C64::new(1.0, 0.0);
    }
    matrix
}

/// A matrix that nobody asked for.
fn zeros(rows: usize, columns: usize) -> Matrix {
    Matrix {
        rows,
        columns,
        entries: vec![C64::default(); rows * columns],
    }
}

fn self_adjoint<T: Scalar>(
    a: &Matrix,
    side: Side,
    vectors: bool,
    back: impl Fn(C64) -> C64,
) -> Option<Vec<Matrix>> {
    if a.entries.is_empty() {
        return Some(vec![a.clone(), row(std::iter::empty())]);
    }
    let found = SelfAdjointEigen::new(load::<T>(a).as_ref(), side).ok()?;
    let values = found.S().column_vector().iter().map(|x| back(x.get()));
    // Without vectors, LAPACK leaves something there that nobody may read.
    let u = if vectors {
        matrix(found.U())
    } else {
        zeros(a.rows, a.columns)
    };
    Some(vec![u, row(values)])
}

/// Values, `u` and the adjoint of `v`.
fn singular<T: Scalar>(
    a: &Matrix,
    [left, right]: [usize; 2],
    vectors: bool,
    back: impl Fn(C64) -> C64,
) -> Option<Vec<Matrix>> {
    if a.entries.is_empty() {
        return Some(vec![
            row(std::iter::empty()),
            identity(a.rows, left),
            identity(right, a.columns),
        ]);
    }
    let least = a.rows.min(a.columns);
    let a_of_library = load::<T>(a);
    let found = if left.max(right) > least {
        Svd::new(a_of_library.as_ref())
    } else {
        Svd::new_thin(a_of_library.as_ref())
    };
    let found = found.ok()?;
    let values = found.S().column_vector().iter().map(|x| back(x.get()));
    let [u, v] = if vectors {
        [matrix(found.U()), matrix(found.V()).transposed(conjugate)]
    } else {
        [zeros(a.rows, left), zeros(right, a.columns)]
    };
    Some(vec![row(values), u, v])
}

/// Values, and left and right vectors.
fn general(a: &Matrix, wanted: [bool; 2], is_real: bool) -> Option<(Vec<C64>, [Matrix; 2])> {
    if is_real {
        general_real(a, wanted)
    } else {
        general_complex(a, wanted)
    }
}

fn general_complex(a: &Matrix, wanted: [bool; 2]) -> Option<(Vec<C64>, [Matrix; 2])> {
    let n = a.rows;
    let mut values = Diag::<C64>::zeros(n);
    let [mut left, mut right] = wanted.map(|is| is.then(|| Mat::<C64>::zeros(n, n)));
    evd_cplx(
        load::<C64>(a).as_ref(),
        values.as_mut(),
        left.as_mut().map(Mat::as_mut),
        right.as_mut().map(Mat::as_mut),
        Par::Seq,
        MemStack::new(&mut scratch::<C64>(n, wanted)),
        default(),
    )
    .ok()?;
    let values = values.column_vector().iter().copied().collect();
    let vectors = [left, right].map(|x| x.map_or(zeros(n, n), |x| normalised(matrix(x.as_ref()))));
    Some((values, vectors))
}

fn general_real(a: &Matrix, wanted: [bool; 2]) -> Option<(Vec<C64>, [Matrix; 2])> {
    let n = a.rows;
    let (mut re, mut im) = (Diag::<f64>::zeros(n), Diag::<f64>::zeros(n));
    let [mut left, mut right] = wanted.map(|is| is.then(|| Mat::<f64>::zeros(n, n)));
    evd_real(
        load::<f64>(a).as_ref(),
        re.as_mut(),
        im.as_mut(),
        left.as_mut().map(Mat::as_mut),
        right.as_mut().map(Mat::as_mut),
        Par::Seq,
        MemStack::new(&mut scratch::<f64>(n, wanted)),
        default(),
    )
    .ok()?;
    let parts = re.column_vector().iter().zip(im.column_vector().iter());
    let values: Vec<C64> = parts.map(|(&re, &im)| C64::new(re, im)).collect();
    let vectors = [left, right].map(|x| {
        x.map_or(zeros(n, n), |x| {
            normalised(of_pairs(&matrix(x.as_ref()), &values))
        })
    });
    Some((values, vectors))
}

fn scratch<T: ComplexField>(n: usize, wanted: [bool; 2]) -> MemBuffer {
    let [left, right] = wanted.map(|is| {
        if is {
            ComputeEigenvectors::Yes
        } else {
            ComputeEigenvectors::No
        }
    });
    MemBuffer::new(evd_scratch::<T>(n, left, right, Par::Seq, default()))
}

/// The vectors of a real matrix: the two columns of conjugate values are the real and the
/// imaginary part of the first one's.
fn of_pairs(packed: &Matrix, values: &[C64]) -> Matrix {
    let mut vectors = packed.clone();
    let mut column = 0;
    while column < values.len() {
        if values[column].im == 0.0 || column + 1 == values.len() {
            column += 1;
            continue;
        }
        for i in 0..packed.rows {
            let both = C64::new(packed.at(i, column).re, packed.at(i, column + 1).re);
            *vectors.at_mut(i, column) = both;
            *vectors.at_mut(i, column + 1) = conjugate(both);
        }
        column += 2;
    }
    vectors
}

/// Columns of length 1, whose largest entries are real.
fn normalised(mut vectors: Matrix) -> Matrix {
    for j in 0..vectors.columns {
        let column: Vec<C64> = (0..vectors.rows).map(|i| vectors.at(i, j)).collect();
        let length = column.iter().map(C64::norm_sqr).sum::<f64>().sqrt();
        let largest = column
            .iter()
            .max_by(|a, b| a.norm_sqr().total_cmp(&b.norm_sqr()));
        let Some(&largest) = largest.filter(|x| x.norm_sqr() > 0.0) else {
            continue;
        };
        let turn = if largest.im == 0.0 {
            C64::from(1.0 / length)
        } else {
            conjugate(largest) / (largest.norm() * length)
        };
        for (i, &x) in column.iter().enumerate() {
            *vectors.at_mut(i, j) = x * turn;
        }
    }
    vectors
}
