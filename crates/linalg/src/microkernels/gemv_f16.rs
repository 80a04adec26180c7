//! Vector-matrix products with a matrix of 16-bit floats, along the matrix's rows as in
//! [`super::gemv`]: eight rows at a time, with f32 sums in separate memory.

use super::long_rows::{LongRows, LongRowsFn, TOGETHER as COLUMNS};
use super::vector512::{Bf16, F16, F32, Vector};
use core::arch::x86_64::*;
use half::f16;
use tegula_ir::ElementType;

/// Lanes of a vector of sums.
const LANES: usize = COLUMNS / 2;
/// Rows of the matrix that are read side by side.
const ROWS: usize = 8;

/// The function for a matrix type (also the row's) and a result type.
#[inline(always)]
pub(super) fn function(matrix: ElementType, out: ElementType) -> Option<LongRowsFn> {
    match (matrix, out) {
        (ElementType::BF16, ElementType::BF16) => Some(long_rows::<Bf16, Bf16>),
        (ElementType::BF16, ElementType::F32) => Some(long_rows::<Bf16, F32>),
        (ElementType::F16, ElementType::F16) => Some(long_rows::<F16, F16>),
        (ElementType::F16, ElementType::F32) => Some(long_rows::<F16, F32>),
        _ => None,
    }
}

/// A 16-bit type: [`COLUMNS`] elements widen to two vectors of `f32`.
trait Halves {
    fn number(bits: u16) -> f32;

    /// Widened elements, in an order that suits the type; 0 where the mask is false.
    ///
    /// # Safety
    /// The elements of the mask can be read; AVX-512 F, BW and VL.
    unsafe fn numbers(from: *const i16, mask: u32) -> [__m512; 2];

    /// The output of [`Self::numbers`], in the order of the elements.
    ///
    /// # Safety
    /// AVX-512 F, BW and VL.
    unsafe fn in_order(numbers: [__m512; 2]) -> [__m512; 2];
}

impl Halves for Bf16 {
    fn number(bits: u16) -> f32 {
        f32::from_bits(u32::from(bits) << 16)
    }

    /// Even and odd elements: widening adjacent elements took a quarter longer.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn numbers(from: *const i16, mask: u32) -> [__m512; 2] {
        // SAFETY: the caller promises that the elements of the mask can be read, and that the CPU
        // has the instructions.
        let bits = unsafe { _mm512_maskz_loadu_epi16(mask, from) };
        let upper = _mm512_set1_epi32(0xffff_0000_u32.cast_signed());
        [
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits)),
            _mm512_castsi512_ps(_mm512_and_si512(bits, upper)),
        ]
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn in_order([even, odd]: [__m512; 2]) -> [__m512; 2] {
        let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        let high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
        [
            _mm512_permutex2var_ps(even, low, odd),
            _mm512_permutex2var_ps(even, high, odd),
        ]
    }
}

impl Halves for F16 {
    fn number(bits: u16) -> f32 {
        f16::from_bits(bits).to_f32()
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn numbers(from: *const i16, mask: u32) -> [__m512; 2] {
        let high = from.wrapping_add(LANES);
        // SAFETY: the caller promises that the elements of the mask can be read, and that the CPU
        // has the instructions.
        unsafe {
            [
                F16::load(from, mask as u16),
                F16::load(high, (mask >> LANES) as u16),
            ]
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn in_order(numbers: [__m512; 2]) -> [__m512; 2] {
        numbers
    }
}

/// # Safety
/// As [`LongRowsFn`], on a CPU with AVX-512 F, BW and VL.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn long_rows<H: Halves, O: Vector>(product: &LongRows) {
    let mut at = 0;
    // SAFETY: the caller promises that every element of the operands can be read and every element
    // of the result written, and that the result and the sums overlap nothing, and a CPU with
    // AVX-512 F, BW and VL; only rows below `depth` are used, and masks select only columns below
    // `columns`.
    unsafe {
        while at + ROWS <= product.depth {
            rows::<H, ROWS>(product, at);
            at += ROWS;
        }
        while at < product.depth {
            rows::<H, 1>(product, at);
            at += 1;
        }
        let (sums, out) = (product.sums.cast::<f32>(), product.out.cast::<O::Element>());
        for column in (0..product.columns).step_by(COLUMNS) {
            let sums = match product.depth {
                0 => [_mm512_setzero_ps(); 2],
                _ => load(sums.add(column)),
            };
            let mask = mask(product.columns - column);
            let parts = [
                (column, mask as u16),
                (column + LANES, (mask >> LANES) as u16),
            ];
            for (sum, (column, mask)) in H::in_order(sums).into_iter().zip(parts) {
                let out = out.wrapping_add(column);
                let sum = match product.add {
                    true => _mm512_add_ps(O::load(out, mask), sum),
                    false => sum,
                };
                O::store(out, mask, sum);
            }
        }
    }
}

/// The mask of the first `left` of [`COLUMNS`] columns.
fn mask(left: usize) -> u32 {
    match left {
        COLUMNS.. => u32::MAX,
        _ => (1 << left) - 1,
    }
}

/// Loads the sums of [`COLUMNS`] columns.
///
/// # Safety
/// The sums can be read; AVX-512 F.
#[target_feature(enable = "avx512f")]
unsafe fn load(sums: *const f32) -> [__m512; 2] {
    // SAFETY: the caller promises that the sums can be read, and AVX-512 F.
    unsafe { [_mm512_loadu_ps(sums), _mm512_loadu_ps(sums.add(LANES))] }
}

/// Adds the products with `R` rows of the matrix, from row `at` on, to the sums; the first rows
/// initialise the sums.
///
/// # Safety
/// As [`long_rows`]; the matrix has these rows.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn rows<H: Halves, const R: usize>(product: &LongRows, at: usize) {
    let (row, matrix) = (product.row.cast::<u16>(), product.matrix.cast::<i16>());
    let sums = product.sums.cast::<f32>();
    // SAFETY: the caller promises that every element of the operands can be read and every element
    // of the result written, and that the result and the sums overlap nothing; masks select only
    // existing columns.
    unsafe {
        let factors: [_; R] = core::array::from_fn(|r| {
            let bits = *row.offset((at + r) as isize * product.step);
            _mm512_set1_ps(H::number(bits))
        });
        let rows: [_; R] =
            core::array::from_fn(|r| matrix.offset((at + r) as isize * product.stride));
        let step = |column: usize, mask: u32| {
            let place = sums.add(column);
            let [mut low, mut high] = match at {
                0 => [_mm512_setzero_ps(); 2],
                _ => load(place),
            };
            for (&factor, row) in factors.iter().zip(&rows) {
                let numbers = H::numbers(row.add(column), mask);
                low = _mm512_fmadd_ps(factor, numbers[0], low);
                high = _mm512_fmadd_ps(factor, numbers[1], high);
            }
            _mm512_storeu_ps(place, low);
            _mm512_storeu_ps(place.add(LANES), high);
        };
        let whole = product.columns / COLUMNS * COLUMNS;
        for column in (0..whole).step_by(COLUMNS) {
            step(column, u32::MAX);
        }
        if whole < product.columns {
            step(whole, mask(product.columns - whole));
        }
    }
}
