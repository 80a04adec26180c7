//! Fourier transforms through the `rustfft` and `realfft` libraries, along one dimension
//! after the other; of real numbers along the last first, or last.

use crate::thread_pool::is_stopped;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::num_complex::Complex;
use rustfft::{FftDirection, FftNum, FftPlanner};
use std::fmt;
use std::sync::Arc;
use tegula_ir::FftType;

/// A transform of the last dimensions of an array of numbers with parts of type `T`.
#[derive(Clone)]
pub struct Fft<T> {
    kind: FftType,
    /// The dimensions of the real or of the full complex array.
    full: Vec<usize>,
    /// How many of the last dimensions are transformed.
    count: usize,
    /// How each of them is, but for the last if `last` says how.
    plans: Vec<Arc<dyn rustfft::Fft<T>>>,
    last: Option<Real<T>>,
    needs: Needs,
}

/// Lines of real numbers, forwards to half of their transform or back.
#[derive(Clone)]
enum Real<T> {
    Forward(Arc<dyn RealToComplex<T>>),
    Back(Arc<dyn ComplexToReal<T>>),
}

/// What transforms need beside their operands, in numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Needs {
    /// Complex ones, for the library.
    library: usize,
    /// Complex ones, of lines that are put together.
    lines: usize,
    /// Complex ones, of an operand that is transformed in steps.
    values: usize,
    /// Real ones, of a line.
    real: usize,
}

/// Memory for [`Needs`].
struct Workspace<'a, T> {
    library: &'a mut [Complex<T>],
    lines: &'a mut [Complex<T>],
    values: &'a mut [Complex<T>],
    real: &'a mut [T],
}

impl<T> fmt::Debug for Fft<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {} of {:?}", self.kind, self.count, self.full)
    }
}

impl<T: FftNum> Fft<T> {
    /// Prepares a transform of the last `count` dimensions of the real or full complex
    /// array.
    pub fn new(kind: FftType, full: Vec<usize>, count: usize) -> Self {
        let direction = match kind {
            FftType::Fft | FftType::Rfft => FftDirection::Forward,
            FftType::Ifft | FftType::Irfft => FftDirection::Inverse,
        };
        let count = count.min(full.len());
        let is_real = matches!(kind, FftType::Rfft | FftType::Irfft) && count > 0;
        let length = full.last().copied().filter(|&n| n > 0 && is_real);
        let last = length.map(|n| {
            let mut planner = RealFftPlanner::new();
            match kind {
                FftType::Rfft => Real::Forward(planner.plan_fft_forward(n)),
                _ => Real::Back(planner.plan_fft_inverse(n)),
            }
        });
        let mut planner = FftPlanner::new();
        let lengths = &full[full.len() - count..full.len() - usize::from(is_real)];
        let plans = lengths.iter().map(|&n| planner.plan_fft(n, direction));
        let mut fft = Self {
            kind,
            count,
            plans: plans.collect(),
            last,
            needs: Needs::default(),
            full,
        };
        fft.needs = fft.needs();
        fft
    }

    fn needs(&self) -> Needs {
        let length = self.full.last().copied().unwrap_or(0);
        // The last dimension's lines are contiguous.
        let apart = self.plans.iter().take(self.count.saturating_sub(1));
        let longest = apart.map(|plan| plan.len()).max().unwrap_or(0);
        let mut needs = Needs {
            library: self
                .plans
                .iter()
                .map(|plan| plan.get_inplace_scratch_len())
                .max()
                .unwrap_or(0),
            lines: LINES * longest,
            ..Needs::default()
        };
        match &self.last {
            Some(Real::Forward(plan)) => {
                needs.library = needs.library.max(plan.get_scratch_len());
                needs.real = length;
            }
            Some(Real::Back(plan)) => {
                needs.library = needs.library.max(plan.get_scratch_len());
                needs.lines = needs.lines.max(length / 2 + 1);
                needs.values = if self.count > 1 {
                    self.half().iter().product()
                } else {
                    0
                };
            }
            None => {}
        }
        needs
    }

    /// Bytes of scratch memory that a run needs.
    pub fn scratch_bytes(&self) -> usize {
        let Needs {
            library,
            lines,
            values,
            real,
        } = self.needs;
        (2 * (library + lines + values) + real) * size_of::<T>()
    }

    /// # Safety
    /// `scratch` has [`Self::scratch_bytes`], is aligned to complex numbers, holds numbers of
    /// any value, and is nobody else's.
    unsafe fn workspace<'a>(&self, scratch: *mut u8) -> Workspace<'a, T> {
        let complex = scratch.cast::<Complex<T>>();
        let (lines, values) = (self.needs.library, self.needs.library + self.needs.lines);
        let real = values + self.needs.values;
        let part = |first: usize, length: usize| {
            // SAFETY: the caller promises: `scratch` has [`Self::scratch_bytes`], is aligned to
            // complex numbers, holds numbers of any value, and is nobody else's; the parts do not
            // overlap.
            unsafe { std::slice::from_raw_parts_mut(complex.add(first), length) }
        };
        Workspace {
            library: part(0, self.needs.library),
            lines: part(lines, self.needs.lines),
            values: part(values, self.needs.values),
            // SAFETY: as the others.
            real: unsafe {
                std::slice::from_raw_parts_mut(complex.add(real).cast(), self.needs.real)
            },
        }
    }

    /// Which transform it is.
    pub fn kind(&self) -> FftType {
        self.kind
    }

    /// Transforms the dimensions that have plans.
    fn along(
        &self,
        values: &mut [Complex<T>],
        dims: &[usize],
        library: &mut [Complex<T>],
        lines: &mut [Complex<T>],
    ) {
        let first = self.full.len() - self.count;
        for (d, plan) in (first..).zip(&self.plans) {
            let library = &mut library[..plan.get_inplace_scratch_len()];
            along(values, dims, d, plan.as_ref(), library, lines);
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
    ///
    /// # Safety
    /// `scratch` has [`Self::scratch_bytes`], is aligned to complex numbers, and nobody else uses
    /// it during the call.
    pub unsafe fn complex(
        &self,
        input: &[Complex<T>],
        output: &mut [Complex<T>],
        scratch: *mut u8,
    ) {
        // SAFETY: the caller promises: `scratch` has [`Self::scratch_bytes`], is aligned to complex
        // numbers, and nobody else uses it during the call.
        let Workspace { library, lines, .. } = unsafe { self.workspace(scratch) };
        output.copy_from_slice(input);
        self.along(output, &self.full, library, lines);
        if self.kind == FftType::Ifft {
            scale(output, self.points());
        }
    }

    /// Real to half-complex.
    ///
    /// # Safety
    /// `scratch` has [`Self::scratch_bytes`], is aligned to complex numbers, and nobody else uses
    /// it during the call.
    pub unsafe fn real_to_half(&self, input: &[T], output: &mut [Complex<T>], scratch: *mut u8) {
        let Some((length, Real::Forward(plan))) = self.last() else {
            return;
        };
        // SAFETY: the caller promises: `scratch` has [`Self::scratch_bytes`], is aligned to complex
        // numbers, and nobody else uses it during the call.
        let Workspace {
            library,
            lines,
            real,
            ..
        } = unsafe { self.workspace(scratch) };
        let halves = output.chunks_exact_mut(length / 2 + 1);
        for (line, out) in input.chunks_exact(length).zip(halves) {
            if is_stopped() {
                return;
            }
            real.copy_from_slice(line);
            // The lengths are those it was planned for.
            let _ = plan.process_with_scratch(real, out, &mut library[..plan.get_scratch_len()]);
        }
        self.along(output, &self.half(), library, lines);
    }

    /// Half-complex to real. The other half of each line is the conjugate of this.
    ///
    /// # Safety
    /// `scratch` has [`Self::scratch_bytes`], is aligned to complex numbers, and nobody else uses
    /// it during the call.
    pub unsafe fn half_to_real(&self, input: &[Complex<T>], output: &mut [T], scratch: *mut u8) {
        let Some((length, Real::Back(plan))) = self.last() else {
            return;
        };
        let half = length / 2 + 1;
        let factor = reciprocal::<T>(self.points());
        // SAFETY: the caller promises: `scratch` has [`Self::scratch_bytes`], is aligned to complex
        // numbers, and nobody else uses it during the call.
        let Workspace {
            library,
            lines,
            values,
            ..
        } = unsafe { self.workspace(scratch) };
        let mut input = input;
        if self.count > 1 {
            values.copy_from_slice(input);
            self.along(values, &self.half(), library, lines);
            input = values;
        }
        let line = &mut lines[..half];
        for (from, to) in input
            .chunks_exact(half)
            .zip(output.chunks_exact_mut(length))
        {
            if is_stopped() {
                return;
            }
            line.copy_from_slice(from);
            // An imaginary part where there can be none is taken for zero and said to be
            // an error.
            let _ = plan.process_with_scratch(line, to, &mut library[..plan.get_scratch_len()]);
            for value in to {
                *value = *value * factor;
            }
        }
    }

    /// The last dimension, if there is anything in it.
    fn last(&self) -> Option<(usize, &Real<T>)> {
        let length = self.full.last().copied().filter(|&n| n > 0)?;
        Some((length, self.last.as_ref()?))
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

/// Lines that are put together at once: as many complex numbers of `f32` as a line of the
/// cache has.
const LINES: usize = 8;

/// Numbers that are transformed before the stop flag is looked at again: a millisecond.
const STOPPED_AFTER: usize = 1 << 16;

/// Transforms every line along a dimension.
fn along<T: FftNum>(
    values: &mut [Complex<T>],
    dims: &[usize],
    dimension: usize,
    fft: &dyn rustfft::Fft<T>,
    library: &mut [Complex<T>],
    lines: &mut [Complex<T>],
) {
    let (length, inner) = (
        dims[dimension],
        dims[dimension + 1..].iter().product::<usize>(),
    );
    if values.is_empty() || length == 0 {
        return;
    }
    if inner == 1 {
        for lines in values.chunks_mut(length * STOPPED_AFTER.div_ceil(length)) {
            if is_stopped() {
                return;
            }
            fft.process_with_scratch(lines, library);
        }
        return;
    }
    for block in values.chunks_exact_mut(length * inner) {
        for first in (0..inner).step_by(LINES) {
            if is_stopped() {
                return;
            }
            let count = LINES.min(inner - first);
            let lines = &mut lines[..count * length];
            for (k, row) in block.chunks_exact(inner).enumerate() {
                for (i, value) in row[first..first + count].iter().enumerate() {
                    lines[i * length + k] = *value;
                }
            }
            fft.process_with_scratch(lines, library);
            for (k, row) in block.chunks_exact_mut(inner).enumerate() {
                for (i, value) in row[first..first + count].iter_mut().enumerate() {
                    *value = lines[i * length + k];
                }
            }
        }
    }
}
