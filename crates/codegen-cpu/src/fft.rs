//! Fourier transforms through the `rustfft` library, along one dimension after
//! the other.

use rustfft::num_complex::Complex;
use rustfft::{FftDirection, FftNum, FftPlanner};
use std::fmt;
use std::sync::Arc;
use tegula_ir::FftType;

/// A transform of the last dimensions of an array of numbers with parts of type `T`.
#[derive(Clone)]
pub(crate) struct Fft<T> {
    kind: FftType,
    /// The dimensions of the real or of the full complex array.
    full: Vec<usize>,
    /// How each of the last dimensions is transformed.
    plans: Vec<Arc<dyn rustfft::Fft<T>>>,
}

impl<T> fmt::Debug for Fft<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} of {} of {:?}",
            self.kind,
            self.plans.len(),
            self.full
        )
    }
}

impl<T: FftNum> Fft<T> {
    /// Prepares a transform of the last `count` dimensions of the real or full complex
    /// array.
    pub(crate) fn new(kind: FftType, full: Vec<usize>, count: usize) -> Self {
        let direction = match kind {
            FftType::Fft | FftType::Rfft => FftDirection::Forward,
            FftType::Ifft | FftType::Irfft => FftDirection::Inverse,
        };
        let mut planner = FftPlanner::new();
        let first = full.len().saturating_sub(count);
        let lengths = full[first..].iter();
        let plans = lengths.map(|&n| planner.plan_fft(n, direction)).collect();
        Self { kind, full, plans }
    }

    pub(crate) fn kind(&self) -> FftType {
        self.kind
    }

    /// The dimensions that are transformed, with their plans; `half` without the last.
    fn along(&self, values: &mut [Complex<T>], dims: &[usize], half: bool) {
        let first = self.full.len() - self.plans.len();
        let count = self.plans.len() - usize::from(half);
        for (d, plan) in (first..).zip(&self.plans[..count]) {
            along(values, dims, d, plan.as_ref());
        }
    }

    /// The dimensions of the array of half-complex numbers.
    fn half(&self) -> Vec<usize> {
        let mut dims = self.full.clone();
        if let Some(last) = dims.last_mut() {
            *last = *last / 2 + 1;
        }
        dims
    }

    /// Complex to complex.
    pub(crate) fn complex(&self, input: &[Complex<T>], output: &mut [Complex<T>]) {
        output.copy_from_slice(input);
        self.along(output, &self.full, false);
        if self.kind == FftType::Ifft {
            scale(output, self.points());
        }
    }

    /// Real to half-complex.
    pub(crate) fn real_to_half(&self, input: &[T], output: &mut [Complex<T>]) {
        let Some((&length, plan)) = self.last() else {
            return;
        };
        let zero = T::zero();
        let mut lines: Vec<Complex<T>> = input.iter().map(|&x| Complex::new(x, zero)).collect();
        along(&mut lines, &self.full, self.full.len() - 1, plan);
        let half = length / 2 + 1;
        for (line, out) in lines
            .chunks_exact(length)
            .zip(output.chunks_exact_mut(half))
        {
            out.copy_from_slice(&line[..half]);
        }
        self.along(output, &self.half(), true);
    }

    /// Half-complex to real. The other half of each line is the conjugate of this.
    pub(crate) fn half_to_real(&self, input: &[Complex<T>], output: &mut [T]) {
        let Some((&length, plan)) = self.last() else {
            return;
        };
        let mut values = input.to_vec();
        self.along(&mut values, &self.half(), true);
        let half = length / 2 + 1;
        let mut line = vec![Complex::new(T::zero(), T::zero()); length];
        let factor = reciprocal::<T>(self.points());
        for (from, to) in values
            .chunks_exact(half)
            .zip(output.chunks_exact_mut(length))
        {
            line[..half].copy_from_slice(from);
            for k in half..length {
                line[k] = from[length - k].conj();
            }
            plan.process(&mut line);
            for (out, value) in to.iter_mut().zip(&line) {
                *out = value.re * factor;
            }
        }
    }

    /// The last dimension, if there is anything in it.
    fn last(&self) -> Option<(&usize, &dyn rustfft::Fft<T>)> {
        let length = self.full.last().filter(|&&n| n > 0)?;
        Some((length, self.plans.last()?.as_ref()))
    }

    /// The number of points that one transform is over.
    fn points(&self) -> usize {
        self.full[self.full.len() - self.plans.len()..]
            .iter()
            .product()
    }
}

fn reciprocal<T: FftNum>(n: usize) -> T {
    T::one() / T::from_usize(n.max(1)).unwrap_or_else(T::one)
}

fn scale<T: FftNum>(values: &mut [Complex<T>], points: usize) {
    let factor = reciprocal::<T>(points);
    for value in values {
        *value = Complex::new(value.re * factor, value.im * factor);
    }
}

/// Transforms every line along a dimension.
fn along<T: FftNum>(
    values: &mut [Complex<T>],
    dims: &[usize],
    dimension: usize,
    fft: &dyn rustfft::Fft<T>,
) {
    let (length, inner) = (
        dims[dimension],
        dims[dimension + 1..].iter().product::<usize>(),
    );
    if values.is_empty() || length == 0 {
        return;
    }
    if inner == 1 {
        fft.process(values);
        return;
    }
    let mut line = vec![Complex::new(T::zero(), T::zero()); length];
    for block in values.chunks_exact_mut(length * inner) {
        for i in 0..inner {
            for (k, slot) in line.iter_mut().enumerate() {
                *slot = block[k * inner + i];
            }
            fft.process(&mut line);
            for (k, value) in line.iter().enumerate() {
                block[k * inner + i] = *value;
            }
        }
    }
}
