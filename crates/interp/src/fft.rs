//! `fft` over up to three dimensions, in `f64`.
//!
//! A line of length `n = p * m` is transformed as `p` interleaved lines of length `m` (Cooley and
//! Tukey, 1965); a line of prime length is summed as the definition states.

use crate::dot::{load_complex, load_floats, store_complex};
use crate::error::{OpError, invalid};
use crate::numbers::from_f64s;
use crate::strided::{Sizes, product, sizes};
use std::f64::consts::FRAC_PI_2;
use tegula_ir::{ArrayShape, FftType, Literal};
use tegula_scalar::C64;

/// A transform of one length in one direction.
struct Transform {
    len: usize,
    /// `exp(-+2 pi i k / len)` for every `k`.
    roots: Vec<C64>,
    scale: f64,
}

impl Transform {
    fn new(len: usize, inverse: bool) -> Self {
        let root = |k: usize| match inverse {
            true => root_of_unity(k, len),
            false => root_of_unity(k, len).conj(),
        };
        Self {
            len,
            roots: (0..len).map(root).collect(),
            scale: if inverse { 1.0 / len as f64 } else { 1.0 },
        }
    }

    fn apply(&self, line: &mut [C64]) {
        let transformed = self.recurse(line, 1);
        for (x, y) in line.iter_mut().zip(transformed) {
            *x = y * self.scale;
        }
    }

    /// The unscaled transform of every `stride`-th element of a line.
    fn recurse(&self, line: &[C64], stride: usize) -> Vec<C64> {
        let n = self.len / stride;
        if n <= 1 {
            return line.iter().take(n).copied().collect();
        }
        let p = smallest_factor(n);
        let m = n / p;
        let parts: Vec<Vec<C64>> = (0..p)
            .map(|r| {
                let part = &line[r * stride..];
                self.recurse(part, stride * p)
            })
            .collect();
        let term = |k: usize, r: usize| parts[r][k % m] * self.roots[r * k % n * stride];
        (0..n).map(|k| (0..p).map(|r| term(k, r)).sum()).collect()
    }
}

/// `exp(2 pi i k / n)` for `k < n`, with each part accurate to about an ulp of 1: the angle is
/// reduced to an eighth of the circle before anything is rounded.
fn root_of_unity(k: usize, n: usize) -> C64 {
    let (k, n) = (4 * k as u128, n as u128);
    let (quarter, rest) = (k / n, k % n);
    let of_quarter = |part: u128| libm::sincos(FRAC_PI_2 * part as f64 / n as f64);
    let (sine, cosine) = if 2 * rest <= n {
        of_quarter(rest)
    } else {
        let (cosine, sine) = of_quarter(n - rest);
        (sine, cosine)
    };
    match quarter {
        0 => C64::new(cosine, sine),
        1 => C64::new(-sine, cosine),
        2 => C64::new(-cosine, -sine),
        _ => C64::new(sine, -cosine),
    }
}

fn smallest_factor(n: usize) -> usize {
    (2..)
        .take_while(|p| p * p <= n)
        .find(|p| n.is_multiple_of(*p))
        .unwrap_or(n)
}

/// Transforms every line along a dimension.
fn along(x: &mut [C64], dims: &[usize], dimension: usize, inverse: bool) {
    let (len, inner) = (dims[dimension], product(&dims[dimension + 1..]));
    if x.is_empty() {
        return;
    }
    let transform = Transform::new(len, inverse);
    let mut line = vec![C64::default(); len];
    for outer in 0..x.len() / (len * inner) {
        for i in 0..inner {
            let place = |k: usize| (outer * len + k) * inner + i;
            for (k, element) in line.iter_mut().enumerate() {
                *element = x[place(k)];
            }
            transform.apply(&mut line);
            for (k, element) in line.iter().enumerate() {
                x[place(k)] = *element;
            }
        }
    }
}

/// Evaluates `fft(x)` over the last dimensions, with the given lengths.
pub(crate) fn fft(
    x: &Literal,
    shape: &ArrayShape,
    kind: FftType,
    length: &[i64],
) -> Result<Literal, OpError> {
    let in_dims = sizes(x);
    let out_dims: Sizes = shape
        .static_dims()
        .map(|dims| dims.iter().map(|&d| d as usize).collect())
        .ok_or_else(|| invalid("expected a result with known sizes"))?;
    // A signal without elements has an empty result, whatever the lengths.
    if in_dims.contains(&0) {
        return Ok(Literal::zeros(shape)?);
    }
    let Some(first) = in_dims
        .len()
        .checked_sub(length.len())
        .filter(|_| !length.is_empty())
    else {
        return Err(invalid(
            "expected from one length to as many lengths as the operand has dimensions",
        ));
    };
    let last = in_dims.len() - 1;
    // The dimensions of the full complex array, before a half is dropped.
    let mut dims: Sizes = in_dims.clone();
    for (d, &len) in (first..).zip(length) {
        dims[d] = usize::try_from(len).map_err(|_| invalid("expected non-negative lengths"))?;
    }
    let half = dims[last] / 2 + 1;
    let halved = |dims: &[usize]| {
        let mut dims: Sizes = dims.into();
        dims[last] = half;
        dims
    };
    let expected = match kind {
        FftType::Fft | FftType::Ifft => (dims.clone(), dims.clone()),
        FftType::Rfft => (dims.clone(), halved(&dims)),
        FftType::Irfft => (halved(&dims), dims.clone()),
    };
    if (&in_dims, &out_dims) != (&expected.0, &expected.1)
        || dims[last] == 0 && kind == FftType::Irfft
    {
        return Err(invalid(
            "the shapes of the operand and the result do not fit the lengths",
        ));
    }
    match kind {
        FftType::Fft | FftType::Ifft => {
            let mut values = load_complex(x);
            let inverse = kind == FftType::Ifft;
            (first..=last).for_each(|d| along(&mut values, &dims, d, inverse));
            store_complex(shape, &values)
        }
        FftType::Rfft => {
            let real = load_floats(x);
            let mut values: Vec<C64> = real.iter().map(|&x| C64::new(x, 0.0)).collect();
            along(&mut values, &dims, last, false);
            let rows = values.chunks_exact(dims[last].max(1));
            let mut kept: Vec<C64> = rows.flat_map(|row| keep_half(row, half)).collect();
            (first..last).for_each(|d| along(&mut kept, &out_dims, d, false));
            store_complex(shape, &kept)
        }
        FftType::Irfft => {
            let mut values = load_complex(x);
            (first..last).for_each(|d| along(&mut values, &in_dims, d, true));
            let mut full = complete(&values, half, dims[last]);
            along(&mut full, &dims, last, true);
            from_f64s(shape, &full.iter().map(|x| x.re).collect::<Vec<_>>())
        }
    }
}

/// The first half of the transform of a real line. Its first element, and if the length is even its
/// middle element, are real.
fn keep_half(row: &[C64], half: usize) -> impl Iterator<Item = C64> {
    let real = move |k: usize| k == 0 || 2 * k == row.len();
    let element = move |k: usize| C64::new(row[k].re, if real(k) { 0.0 } else { row[k].im });
    (0..half).map(element)
}

/// Completes lines of `half` elements to `len` by `x[len - k] = conj(x[k])`. The imaginary parts of
/// the first element, and if `len` is even of the middle one, are dropped: the transform of a real
/// line has none.
fn complete(values: &[C64], half: usize, len: usize) -> Vec<C64> {
    let mut full = Vec::with_capacity(values.len() / half * len);
    for row in values.chunks_exact(half) {
        full.extend((0..len).map(|k| match k {
            0 => C64::new(row[0].re, 0.0),
            _ if 2 * k == len => C64::new(row[k].re, 0.0),
            _ if k < half => row[k],
            _ => row[len - k].conj(),
        }));
    }
    full
}

/// Rounding errors counted for each term of a transform: libraries compute the root that it is
/// multiplied by from the sine and cosine of a rounded angle of up to 6.28, which is off by up to 4
/// units, and the product is rounded as well.
const ROUNDINGS_OF_A_TERM: usize = 8;

/// For each element of a transform's result, the sum of the absolute values of its terms; and the
/// number of rounding errors of that sum.
pub(crate) fn magnitudes(
    x: &Literal,
    result: &Literal,
    kind: FftType,
    length: &[i64],
) -> Result<(Vec<f64>, usize), OpError> {
    let terms: usize = length.iter().map(|&n| n.max(1) as usize).product();
    let scale = match kind {
        FftType::Fft | FftType::Rfft => 1.0,
        FftType::Ifft => 1.0 / terms as f64,
        // The other half of the input is its mirror image.
        FftType::Irfft => 2.0 / terms as f64,
    };
    // Transforms are contiguous; the array that is not halved has all terms.
    let whole = if kind == FftType::Irfft { result } else { x };
    let transforms = (whole.len() / terms).max(1);
    let values = crate::numbers::to_f64s(&crate::numbers::parts(x)?);
    let each = (result.len() / transforms).max(1);
    let mut magnitudes = Vec::with_capacity(result.len());
    for block in values.chunks((values.len() / transforms).max(1)) {
        let sum: f64 = block.iter().map(|v| v.abs()).sum();
        magnitudes.extend(std::iter::repeat_n(sum * scale, each));
    }
    Ok((magnitudes, ROUNDINGS_OF_A_TERM * terms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_where_they_are_known() {
        let parts = |k, n| (root_of_unity(k, n).re, root_of_unity(k, n).im);
        assert_eq!(parts(0, 5), (1.0, 0.0));
        assert_eq!(parts(1, 4), (0.0, 1.0));
        assert_eq!(parts(3, 4), (0.0, -1.0));
        for k in [4, 8] {
            assert!((parts(k, 12).0 + 0.5).abs() < 1.2e-16, "{k}");
        }
        for n in 1..40 {
            for k in 0..n {
                let angle = std::f64::consts::TAU * k as f64 / n as f64;
                let known = C64::new(angle.cos(), angle.sin());
                assert!((root_of_unity(k, n) - known).norm() < 2e-15, "{k}/{n}");
            }
        }
    }

    #[test]
    fn lines_agree_with_the_definition_and_invert() {
        for len in [1, 2, 3, 4, 5, 6, 12, 16, 30, 49] {
            let x: Vec<C64> = (0..len)
                .map(|i| C64::new(libm::sin(i as f64 * 1.7), libm::cos(i as f64 * 2.9)))
                .collect();
            let mut y = x.clone();
            along(&mut y, &[len], 0, false);
            for (k, y) in y.iter().enumerate() {
                let term = |(j, x): (usize, &C64)| {
                    let angle = -std::f64::consts::TAU * (j * k % len) as f64 / len as f64;
                    x * C64::new(angle.cos(), angle.sin())
                };
                let sum: C64 = x.iter().enumerate().map(term).sum();
                assert!((y - sum).norm() < 1e-12, "{len} {k}");
            }
            along(&mut y, &[len], 0, true);
            assert!(x.iter().zip(&y).all(|(x, y)| (x - y).norm() < 1e-13));
        }
    }
}
