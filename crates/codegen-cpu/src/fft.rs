//! Fourier transforms through the `rustfft` library, along one dimension after
//! the other.

use rustfft::num_complex::Complex;
use rustfft::{FftDirection, FftNum, FftPlanner};
use tegula_ir::FftType;

/// A transform of the last dimensions of an array.
#[derive(Clone, Debug)]
pub(crate) struct Fft {
    /// Which.
    pub kind: FftType,
    /// The dimensions of the real or of the full complex array.
    pub full: Vec<usize>,
    /// How many of the last dimensions are transformed.
    pub count: usize,
}

impl Fft {
    /// The dimensions of the array of half-complex numbers.
    fn half(&self) -> Vec<usize> {
        let mut dims = self.full.clone();
        if let Some(last) = dims.last_mut() {
            *last = *last / 2 + 1;
        }
        dims
    }

    /// Complex to complex.
    pub(crate) fn complex<T: FftNum>(&self, input: &[Complex<T>], output: &mut [Complex<T>]) {
        output.copy_from_slice(input);
        let direction = match self.kind {
            FftType::Fft | FftType::Rfft => FftDirection::Forward,
            FftType::Ifft | FftType::Irfft => FftDirection::Inverse,
        };
        let rank = self.full.len();
        for d in rank - self.count..rank {
            along(output, &self.full, d, direction);
        }
        if direction == FftDirection::Inverse {
            scale(output, self.points());
        }
    }

    /// Real to half-complex.
    pub(crate) fn real_to_half<T: FftNum>(&self, input: &[T], output: &mut [Complex<T>]) {
        let Some(&length) = self.full.last().filter(|&&n| n > 0) else {
            return;
        };
        let zero = T::zero();
        let mut lines: Vec<Complex<T>> = input.iter().map(|&x| Complex::new(x, zero)).collect();
        let rank = self.full.len();
        along(&mut lines, &self.full, rank - 1, FftDirection::Forward);
        let half = length / 2 + 1;
        for (line, out) in lines
            .chunks_exact(length)
            .zip(output.chunks_exact_mut(half))
        {
            out.copy_from_slice(&line[..half]);
        }
        let dims = self.half();
        for d in rank - self.count..rank - 1 {
            along(output, &dims, d, FftDirection::Forward);
        }
    }

    /// Half-complex to real. The other half of each line is the conjugate of this.
    pub(crate) fn half_to_real<T: FftNum>(&self, input: &[Complex<T>], output: &mut [T]) {
        let Some(&length) = self.full.last().filter(|&&n| n > 0) else {
            return;
        };
        let mut values = input.to_vec();
        let (rank, dims) = (self.full.len(), self.half());
        for d in rank - self.count..rank - 1 {
            along(&mut values, &dims, d, FftDirection::Inverse);
        }
        let half = length / 2 + 1;
        let fft = FftPlanner::new().plan_fft(length, FftDirection::Inverse);
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
            fft.process(&mut line);
            for (out, value) in to.iter_mut().zip(&line) {
                *out = value.re * factor;
            }
        }
    }

    /// The number of points that one transform is over.
    fn points(&self) -> usize {
        self.full[self.full.len() - self.count..].iter().product()
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
    direction: FftDirection,
) {
    let (length, inner) = (
        dims[dimension],
        dims[dimension + 1..].iter().product::<usize>(),
    );
    if values.is_empty() || length == 0 {
        return;
    }
    let fft = FftPlanner::new().plan_fft(length, direction);
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
