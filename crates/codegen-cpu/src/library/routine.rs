//! Library routines on whole arrays: the list of them, their types, and the conversion of raw
//! memory to the slices that they take.

use super::random_bits::Random;
use super::stochastic_convert::StochasticConvert;
use crate::error::Error;
use tegula_ir::{ArrayShape, ElementType, FftType, Op, TransposeA};
use tegula_linalg::dense;
use tegula_linalg::dense::{Cholesky, Lu, Number, Solve};
use tegula_linalg::fourier::Planned;
use tegula_linalg::top_k::TopK;
use tegula_target::CpuFeatures;

/// A routine ready to run.
#[derive(Clone, Debug)]
pub(crate) struct Routine {
    kind: Kind,
    element_type: ElementType,
    /// The number of elements of each operand, then of each result.
    lengths: Vec<usize>,
    /// The bytes of each operand and result.
    bytes: Vec<usize>,
    operands: usize,
}

#[derive(Clone, Debug)]
enum Kind {
    Fft(CpuFeatures, Planned<f32>),
    DoubleFft(CpuFeatures, Planned<f64>),
    Cholesky(CpuFeatures, Cholesky),
    Solve(CpuFeatures, Solve),
    Lu(CpuFeatures, Lu),
    TopK(TopK),
    Random(Random),
    StochasticConvert(StochasticConvert),
}

/// The maximum number of points of a Fourier transform: planning takes about 24 bytes a point for
/// tables, and up to 220 if it has a large prime factor.
const MAX_FFT_POINTS: usize = 1 << 26;

impl Routine {
    /// The routine for an operation.
    ///
    /// # Errors
    /// This backend has no routine for the operation or its element type.
    pub(crate) fn new(
        isa: CpuFeatures,
        op: &Op,
        operands: &[&ArrayShape],
        results: &[&ArrayShape],
    ) -> Result<Self, Error> {
        let unsupported = |what: String| Error::Unsupported(what);
        let (Some(first), Some(_)) = (operands.first(), results.first()) else {
            return Err(unsupported(format!(
                "`{}` without operands or results",
                op.opcode()
            )));
        };
        let dims = |shape: &ArrayShape| -> Result<Vec<usize>, Error> {
            let dims = shape.static_dims().ok_or_else(|| {
                unsupported("an operand whose sizes are only known at run time".to_owned())
            })?;
            Ok(dims.iter().map(|&d| d as usize).collect())
        };
        // For a batch of matrices: the rows, the columns, and their number.
        let matrices = |shape: &ArrayShape| match dims(shape)?[..] {
            [ref batch @ .., rows, columns] => Ok((rows, columns, batch.iter().product())),
            _ => Err(Error::Bug(
                "expected a matrix, or a batch of matrices".to_owned(),
            )),
        };
        let kind = match op {
            Op::Fft { kind, length } => {
                let full = if *kind == FftType::Irfft {
                    results[0]
                } else {
                    first
                };
                let (full, count) = (dims(full)?, length.len());
                let transformed = full.iter().rev().take(count);
                if let Some(points) = transformed.max().filter(|&&points| points > MAX_FFT_POINTS) {
                    return Err(unsupported(format!(
                        "`fft` of {points} points (at most 2^26 are supported)"
                    )));
                }
                // The complex side identifies real transforms.
                let half = [first, results[0]].map(|s| s.element_type == ElementType::C64);
                match half.contains(&true) {
                    true => Kind::Fft(isa, Planned::<f32>::new(*kind, &full, count)),
                    false => Kind::DoubleFft(isa, Planned::<f64>::new(*kind, &full, count)),
                }
            }
            Op::Cholesky { lower } => {
                let (n, _, count) = matrices(first)?;
                let lower = *lower;
                Kind::Cholesky(isa, Cholesky { n, count, lower })
            }
            Op::TriangularSolve {
                left_side,
                lower,
                unit_diagonal,
                transpose_a,
            } => {
                let (rows, columns, count) = matrices(results[0])?;
                let solve = Solve {
                    rows,
                    columns,
                    count,
                    left_side: *left_side,
                    lower: *lower,
                    unit_diagonal: *unit_diagonal,
                    transposed: *transpose_a != TransposeA::NoTranspose,
                    conjugated: *transpose_a == TransposeA::Adjoint,
                };
                Kind::Solve(isa, solve)
            }
            Op::TopK { k, largest, .. } => {
                let dims = dims(first)?;
                let (&length, rows) = dims.split_last().unwrap_or((&1, &[]));
                Kind::TopK(TopK {
                    isa,
                    element_type: first.element_type,
                    rows: rows.iter().product(),
                    length,
                    k: usize::try_from(*k).unwrap_or(0),
                    largest: *largest,
                })
            }
            Op::Rng(distribution) => Kind::Random(Random::Numbers(*distribution)),
            Op::RngBitGenerator(algorithm) => {
                let dims = dims(results.last().unwrap_or(first))?;
                Kind::Random(Random::Bits {
                    algorithm: *algorithm,
                    dims,
                })
            }
            Op::StochasticConvert => {
                let (from, to) = (first.element_type, results[0].element_type);
                Kind::StochasticConvert(StochasticConvert { from, to })
            }
            Op::CustomCall(call) if &*call.target == "LuDecomposition" && results.len() == 3 => {
                let (rows, columns, count) = matrices(first)?;
                let lu = Lu {
                    rows,
                    columns,
                    count,
                };
                Kind::Lu(isa, lu)
            }
            other => return Err(unsupported(format!("`{}`", other.opcode()))),
        };
        let element_type = match kind {
            Kind::Fft(..) | Kind::DoubleFft(..) if first.element_type.is_complex() => {
                first.element_type
            }
            Kind::Fft(..) | Kind::DoubleFft(..) => results[0].element_type,
            // The state has another type than the bits.
            Kind::Random(_) => results
                .last()
                .map_or(first.element_type, |s| s.element_type),
            _ => first.element_type,
        };
        let routine = Self {
            kind,
            element_type,
            lengths: operands
                .iter()
                .chain(results)
                .map(|s| s.element_count().unwrap_or(0) as usize)
                .collect(),
            bytes: operands
                .iter()
                .chain(results)
                .map(|s| s.byte_size().unwrap_or(0) as usize)
                .collect(),
            operands: operands.len(),
        };
        if routine.knows(operands, results) {
            Ok(routine)
        } else {
            Err(unsupported(format!("`{}` of {element_type}", op.opcode())))
        }
    }

    fn knows(&self, operands: &[&ArrayShape], results: &[&ArrayShape]) -> bool {
        use ElementType::{BF16, C64, C128, F16, F32, F64, S32};
        match &self.kind {
            Kind::Fft(..) => self.element_type == C64,
            Kind::DoubleFft(..) => self.element_type == C128,
            Kind::Cholesky(..) => {
                matches!(self.element_type, BF16 | F16 | F32 | F64 | C64 | C128)
            }
            Kind::Solve(..) => {
                matches!(self.element_type, BF16 | F16 | F32 | F64 | C64 | C128)
                    && operands.iter().all(|s| s.element_type == self.element_type)
            }
            Kind::Lu(_, lu) => {
                let lengths = [
                    lu.rows * lu.columns,
                    lu.rows * lu.columns,
                    lu.rows.min(lu.columns),
                    lu.rows,
                ];
                matches!(self.element_type, F32 | F64 | C64 | C128)
                    && results[1..].iter().all(|s| s.element_type == S32)
                    && self.lengths == lengths.map(|length| length * lu.count)
            }
            Kind::Random(random) => random.knows(self.element_type, operands, results),
            Kind::StochasticConvert(convert) => convert.knows(operands),
            Kind::TopK(top) => {
                !self.element_type.is_complex()
                    && top.k <= top.length
                    && results.get(1).is_some_and(|s| s.element_type == S32)
            }
        }
    }

    /// Bytes of scratch memory that a run needs.
    pub(crate) fn scratch_bytes(&self) -> usize {
        match &self.kind {
            Kind::Fft(_, transform) => transform.scratch_bytes(),
            Kind::DoubleFft(_, transform) => transform.scratch_bytes(),
            Kind::TopK(top) => top.scratch_bytes(),
            Kind::Cholesky(..) | Kind::Solve(..) | Kind::Lu(..) => match self.element_type {
                ElementType::F64 => self.scratch_of_matrices::<f64>(),
                ElementType::C64 => self.scratch_of_matrices::<dense::Complex<f32>>(),
                ElementType::C128 => self.scratch_of_matrices::<dense::Complex<f64>>(),
                _ => self.scratch_of_matrices::<f32>(),
            },
            _ => 0,
        }
    }

    fn scratch_of_matrices<T: Number>(&self) -> usize {
        match &self.kind {
            Kind::Cholesky(_, cholesky) => cholesky.scratch_bytes::<T>(),
            Kind::Solve(_, solve) => solve.scratch_bytes::<T>(),
            Kind::Lu(_, lu) => lu.scratch_bytes::<T>(),
            _ => 0,
        }
    }

    /// Runs the routine.
    ///
    /// # Safety
    /// `inputs` and `outputs` are dense arrays of the routine's shapes, aligned to their elements,
    /// and no output overlaps any other array. `scratch` has [`Self::scratch_bytes`], aligned to
    /// 64.
    pub(crate) unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], scratch: *mut u8) {
        // SAFETY: the caller promises that `inputs` and `outputs` are dense arrays of the shapes
        // this was made for, aligned to their elements, and no output overlaps any other array.
        // `scratch` has [`Self::scratch_bytes`], aligned to 64; for the element type of the shapes.
        unsafe {
            match (&self.kind, self.element_type) {
                (Kind::Fft(isa, transform), _) => {
                    let (input, output) = (inputs[0].cast(), outputs[0].cast());
                    transform.run(*isa, input, output, scratch.cast());
                }
                (Kind::DoubleFft(isa, transform), _) => {
                    let (input, output) = (inputs[0].cast(), outputs[0].cast());
                    transform.run(*isa, input, output, scratch.cast());
                }
                (Kind::TopK(top), element_type) => {
                    let size = element_type.storage_bytes();
                    let input = std::slice::from_raw_parts(inputs[0], self.lengths[0] * size);
                    let values = std::slice::from_raw_parts_mut(outputs[0], self.lengths[1] * size);
                    top.run(input, values, self.output::<i32>(outputs, 1), scratch);
                }
                (Kind::Random(random), element_type) => {
                    let inputs: Vec<&[u8]> = (0..inputs.len())
                        .map(|i| std::slice::from_raw_parts(inputs[i], self.bytes[i]))
                        .collect();
                    let mut results: Vec<&mut [u8]> = (0..outputs.len())
                        .map(|i| {
                            let bytes = self.bytes[self.operands + i];
                            std::slice::from_raw_parts_mut(outputs[i], bytes)
                        })
                        .collect();
                    random.run(element_type, &inputs, &mut results);
                }
                (Kind::StochasticConvert(convert), _) => convert.run(
                    std::slice::from_raw_parts(inputs[0], self.bytes[0]),
                    std::slice::from_raw_parts(inputs[1], self.bytes[1]),
                    std::slice::from_raw_parts_mut(outputs[0], self.bytes[2]),
                ),
                (_, ElementType::BF16) => {
                    let narrow = half::bf16::from_f32;
                    self.half_matrices::<half::bf16>(inputs, outputs, scratch, narrow);
                }
                (_, ElementType::F16) => {
                    let narrow = half::f16::from_f32;
                    self.half_matrices::<half::f16>(inputs, outputs, scratch, narrow);
                }
                (_, ElementType::F32) => self.matrices::<f32>(inputs, outputs, scratch),
                (_, ElementType::F64) => self.matrices::<f64>(inputs, outputs, scratch),
                (_, ElementType::C64) => {
                    self.matrices::<dense::Complex<f32>>(inputs, outputs, scratch);
                }
                _ => self.matrices::<dense::Complex<f64>>(inputs, outputs, scratch),
            }
        }
    }

    /// # Safety
    /// The same as for [`Self::run`]; the operand's elements are `T`s.
    unsafe fn input<'a, T>(&self, inputs: &[*const u8], i: usize) -> &'a [T] {
        // SAFETY: the caller promises arrays of the shapes this was made for.
        unsafe { std::slice::from_raw_parts(inputs[i].cast(), self.lengths[i]) }
    }

    /// # Safety
    /// The same as for [`Self::run`]; the result's elements are `T`s and it is borrowed once.
    unsafe fn output<'a, T>(&self, outputs: &[*mut u8], i: usize) -> &'a mut [T] {
        // SAFETY: the caller promises arrays of the shapes this was made for.
        unsafe {
            std::slice::from_raw_parts_mut(outputs[i].cast(), self.lengths[self.operands + i])
        }
    }

    /// Computes in `f32` and rounds once.
    ///
    /// # Safety
    /// The same as for [`Self::run`], for arrays of `H`; there is one result.
    unsafe fn half_matrices<H: Copy + Into<f32>>(
        &self,
        inputs: &[*const u8],
        outputs: &[*mut u8],
        scratch: *mut u8,
        narrow: fn(f32) -> H,
    ) {
        let wide = |i: usize| -> Vec<f32> {
            // SAFETY: the caller states that operands are arrays of `H`.
            let operand = unsafe { self.input::<H>(inputs, i) };
            operand.iter().map(|&x| x.into()).collect()
        };
        let operands: Vec<Vec<f32>> = (0..inputs.len()).map(wide).collect();
        let mut result = vec![0.0f32; self.lengths[self.operands]];
        let from: Vec<*const u8> = operands.iter().map(|x| x.as_ptr().cast()).collect();
        let to = [result.as_mut_ptr().cast()];
        // SAFETY: these are arrays of `f32` with as many elements as those of `H`.
        unsafe { self.matrices::<f32>(&from, &to, scratch) };
        // SAFETY: the caller states that the result is an array of `H`.
        let narrowed = unsafe { self.output::<H>(outputs, 0) };
        for (to, x) in narrowed.iter_mut().zip(result) {
            *to = narrow(x);
        }
    }

    /// # Safety
    /// The same as for [`Self::run`], for arrays of `T`.
    unsafe fn matrices<T: Number>(
        &self,
        inputs: &[*const u8],
        outputs: &[*mut u8],
        scratch: *mut u8,
    ) {
        // SAFETY: the caller promises arrays of the shapes this was made for, and scratch memory.
        unsafe {
            let (first, out) = (self.input::<T>(inputs, 0), self.output::<T>(outputs, 0));
            match &self.kind {
                Kind::Cholesky(isa, cholesky) => {
                    cholesky.run(*isa, first.as_ptr(), out.as_mut_ptr(), scratch);
                }
                Kind::Solve(isa, solve) => {
                    out.copy_from_slice(self.input::<T>(inputs, 1));
                    solve.run(*isa, first.as_ptr(), out.as_mut_ptr(), scratch);
                }
                Kind::Lu(isa, lu) => {
                    out.copy_from_slice(first);
                    let [pivots, permutations] = [1, 2].map(|n| outputs[n].cast());
                    lu.run(*isa, out.as_mut_ptr(), pivots, permutations, scratch);
                }
                Kind::Fft(..)
                | Kind::DoubleFft(..)
                | Kind::TopK(_)
                | Kind::Random(_)
                | Kind::StochasticConvert(_) => {}
            }
        }
    }
}
