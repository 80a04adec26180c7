//! `fft` over up to three dimensions, in `f64`.
//!
//! A line of length `n = p * m` is `p` interleaved lines of length `m` (Cooley and
//! Tukey, 1965); a prime length is summed as the definition says.

use crate::dot::{load_complex, load_floats, store_complex};
use crate::error::{Fault, invalid};
use crate::reduce::from_f64s;
use crate::scalar::C64;
use crate::strided::{Sizes, product, sizes};
use tegula_ir::{ArrayShape, FftType, Literal};

/// A transform of one length in one direction.
struct Transform {
    len: usize,
    /// `exp(-+2 pi i k / len)` for every `k`.
    roots: Vec<C64>,
    scale: f64,
}

impl Transform {
    fn new(len: usize, inverse: bool) -> Self {
        let sign = if inverse { 1.0 } else { -1.0 };
        let root = |k: usize| {
            let angle = sign * std::f64::consts::TAU * k as f64 / len as f64;
            C64::new(libm::cos(angle), libm::sin(angle))
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

    /// The transform of every `stride`-th element of a line, unscaled.
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

/// `fft(x)` over the last dimensions, of the lengths given.
pub(crate) fn fft(
    x: &Literal,
    shape: &ArrayShape,
    kind: FftType,
    length: &[i64],
) -> Result<Literal, Fault> {
    let in_dims = sizes(x);
    let out_dims: Sizes = shape
        .static_dims()
        .map(|dims| dims.iter().map(|&d| d as usize).collect())
        .ok_or_else(|| invalid("the result has no fixed size"))?;
    let Some(first) = in_dims
        .len()
        .checked_sub(length.len())
        .filter(|_| !length.is_empty())
    else {
        return Err(invalid("more transformed dimensions than dimensions"));
    };
    let last = in_dims.len() - 1;
    // The dimensions of the full complex array, halves completed.
    let mut dims: Sizes = in_dims.clone();
    for (d, &len) in (first..).zip(length) {
        dims[d] = usize::try_from(len).map_err(|_| invalid("a length is negative"))?;
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
        return Err(invalid("the shapes do not agree with the lengths"));
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

/// The first half of the transform of a real line, whose first and (if the length
/// is even) middle elements are real.
fn keep_half(row: &[C64], half: usize) -> impl Iterator<Item = C64> {
    let real = move |k: usize| k == 0 || 2 * k == row.len();
    let element = move |k: usize| C64::new(row[k].re, if real(k) { 0.0 } else { row[k].im });
    (0..half).map(element)
}

/// Lines of `half` elements completed to `len` by `x[len - k] = conj(x[k])`. The
/// imaginary parts of the first and (if `len` is even) the middle element, which
/// a real line does not have, are dropped.
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

/// For each element of a transform's result, the sum of the absolute values that
/// it is a sum of; and how many these are.
pub(crate) fn magnitudes(
    x: &Literal,
    result: &Literal,
    kind: FftType,
    length: &[i64],
) -> Result<(Vec<f64>, usize), Fault> {
    let terms: usize = length.iter().map(|&n| n.max(1) as usize).product();
    let scale = match kind {
        FftType::Fft | FftType::Rfft => 1.0,
        FftType::Ifft => 1.0 / terms as f64,
        // The other half of the input is its mirror image.
        FftType::Irfft => 2.0 / terms as f64,
    };
    // Transforms are contiguous; the side that is not halved has all terms.
    let whole = if kind == FftType::Irfft { result } else { x };
    let transforms = (whole.len() / terms).max(1);
    let values = crate::reduce::to_f64s(&crate::reduce::parts(x)?);
    let each = (result.len() / transforms).max(1);
    let mut magnitudes = Vec::with_capacity(result.len());
    for block in values.chunks((values.len() / transforms).max(1)) {
        let sum: f64 = block.iter().map(|v| v.abs()).sum();
        magnitudes.extend(std::iter::repeat_n(sum * scale, each));
    }
    Ok((magnitudes, terms))
}

#[cfg(test)]
mod tests {
    use super::*;

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
