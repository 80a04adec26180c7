//! Stores tiles of accumulators to arrays of any strides and element type.

use super::packed_tile::Arithmetic;
#[cfg(target_arch = "x86_64")]
use super::vector512;
#[cfg(target_arch = "x86_64")]
use super::vector512::Vector as _;
use super::{CpuFeatures, VectorWidth};
use half::{bf16, f16};
use tegula_ir::ElementType;

/// A tile to be stored.
pub(crate) struct Stored<'a> {
    /// Its first accumulator.
    pub(crate) source: *const u8,
    /// The distance between rows, in accumulators.
    pub(crate) stride: usize,
    pub(crate) columns: usize,
    /// The array; offsets count from here, in elements.
    pub(crate) out: *mut u8,
    /// The offset of each row.
    pub(crate) row_offsets: &'a [isize],
    /// The offset of each column; `None` if columns are contiguous.
    pub(crate) column_offsets: Option<&'a [isize]>,
    /// Whether the numbers are added to the old values.
    pub(crate) add: bool,
}

/// Stores a tile, converting its numbers.
///
/// # Safety
/// Every number can be read and every element written.
pub(crate) type StoreFn = unsafe fn(&Stored<'_>);

/// The function that converts and stores an arithmetic's accumulators as elements of a type, and
/// whether both types are the same, so that accumulators can be added to elements.
#[inline(always)]
pub(crate) fn store_function(
    isa: CpuFeatures,
    arithmetic: Arithmetic,
    element_type: ElementType,
) -> Option<(StoreFn, bool)> {
    use Arithmetic::{I8Quads, I16Pairs, U8Quads};
    use ElementType::{BF16, F16, F32, F64, S8, S16, S32, S64, U8, U16, U32, U64};
    let function: StoreFn = match (arithmetic, element_type) {
        #[cfg(target_arch = "x86_64")]
        (Arithmetic::F32 | Arithmetic::Bf16Pairs, BF16) if isa.width == VectorWidth::Avx512 => {
            narrow::<vector512::Bf16, bf16>
        }
        #[cfg(target_arch = "x86_64")]
        (Arithmetic::F32 | Arithmetic::Bf16Pairs, F16) if isa.width == VectorWidth::Avx512 => {
            narrow::<vector512::F16, f16>
        }
        #[cfg(target_arch = "x86_64")]
        (Arithmetic::F32, BF16) if isa.width == VectorWidth::Avx2 => store_avx2::<f32, bf16>,
        (Arithmetic::F32 | Arithmetic::Bf16Pairs, F32) => store::<f32, f32>,
        (Arithmetic::F32 | Arithmetic::Bf16Pairs, BF16) => store::<f32, bf16>,
        (Arithmetic::F32 | Arithmetic::Bf16Pairs, F16) => store::<f32, f16>,
        (Arithmetic::F64, F64) => store::<f64, f64>,
        (Arithmetic::I32 | I16Pairs | U8Quads | I8Quads, S8 | U8) => store::<i32, u8>,
        (Arithmetic::I32 | I16Pairs | U8Quads | I8Quads, S16 | U16) => store::<i32, u16>,
        (Arithmetic::I32 | I16Pairs | U8Quads | I8Quads, S32 | U32) => store::<i32, i32>,
        (Arithmetic::I64, S64 | U64) => store::<i64, i64>,
        _ => return None,
    };
    let _ = (isa, VectorWidth::Portable);
    let size = element_type.storage_bytes();
    let same = size == arithmetic.bytes() && element_type != F16 && element_type != BF16;
    Some((function, same))
}

/// Converts an accumulator to an element.
trait Element<From> {
    fn of(number: From) -> Self;
    /// The sum of an element and an accumulator, if they have the same type.
    fn plus(self, number: From) -> Self;
}

macro_rules! elements {
    ($($from:ty => $to:ty: $of:expr, $plus:expr;)*) => {$(
        impl Element<$from> for $to {
            #[inline(always)]
            fn of(number: $from) -> Self {
                let of: fn($from) -> $to = $of;
                of(number)
            }
            #[inline(always)]
            fn plus(self, number: $from) -> Self {
                let plus: fn($to, $from) -> $to = $plus;
                plus(self, number)
            }
        }
    )*};
}

elements! {
    f32 => f32: |x| x, |a, x| a + x;
    f64 => f64: |x| x, |a, x| a + x;
    i32 => i32: |x| x, |a, x| a.wrapping_add(x);
    i64 => i64: |x| x, |a, x| a.wrapping_add(x);
    // Accumulators are never added to elements of another type.
    f32 => bf16: |x| bf16::from_bits(rounded_to_bf16(x)), |_, x| bf16::from_bits(rounded_to_bf16(x));
    f32 => f16: |x| f16::from_f32(x), |_, x| f16::from_f32(x);
    i32 => u8: |x| x as u8, |_, x| x as u8;
    i32 => u16: |x| x as u16, |_, x| x as u16;
}

/// Rounds to the nearest bf16, ties to even, without a branch.
#[inline(always)]
fn rounded_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let quiet = bits >> 16 | 0x40;
    (if x.is_nan() { quiet } else { rounded }) as u16
}

/// [`store`] compiled for wider vectors.
///
/// # Safety
/// As [`StoreFn`], on a CPU with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn store_avx2<A: Copy, D: Copy + Element<A>>(tile: &Stored<'_>) {
    // SAFETY: the caller promises that every number can be read and every element written, and a
    // CPU with AVX2.
    unsafe { store::<A, D>(tile) };
}

/// # Safety
/// As [`StoreFn`].
#[inline(always)]
unsafe fn store<A: Copy, D: Copy + Element<A>>(tile: &Stored<'_>) {
    let (source, out) = (tile.source.cast::<A>(), tile.out.cast::<D>());
    let neighbours = |offsets: &[isize]| matches!(offsets, [a, b, ..] if *b == a + 1);
    // Columns that are far apart are written one at a time, so that each cache line is written
    // once.
    if let Some(offsets) = tile.column_offsets.filter(|_| neighbours(tile.row_offsets)) {
        for (j, &offset) in offsets.iter().take(tile.columns).enumerate() {
            for (i, &row) in tile.row_offsets.iter().enumerate() {
                // SAFETY: the caller promises that every number can be read and every element
                // written.
                unsafe {
                    let place = out.offset(offset + row);
                    let number = *source.add(i * tile.stride + j);
                    *place = match tile.add {
                        true => (*place).plus(number),
                        false => D::of(number),
                    };
                }
            }
        }
        return;
    }
    for (i, &row) in tile.row_offsets.iter().enumerate() {
        // SAFETY: the caller promises that every number can be read and every element written.
        unsafe {
            let (source, out) = (source.add(i * tile.stride), out.offset(row));
            match tile.column_offsets {
                None if tile.add => {
                    for j in 0..tile.columns {
                        *out.add(j) = (*out.add(j)).plus(*source.add(j));
                    }
                }
                None => {
                    for j in 0..tile.columns {
                        *out.add(j) = D::of(*source.add(j));
                    }
                }
                Some(offsets) => {
                    for (j, &offset) in offsets.iter().take(tile.columns).enumerate() {
                        let place = out.offset(offset);
                        *place = match tile.add {
                            true => (*place).plus(*source.add(j)),
                            false => D::of(*source.add(j)),
                        };
                    }
                }
            }
        }
    }
}

/// Stores rows of 16-bit floats by vectors, if columns are adjacent.
///
/// # Safety
/// As [`StoreFn`], on a CPU with AVX-512 F, BW and VL.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn narrow<V: vector512::Vector<Element = i16>, D: Copy + Element<f32>>(tile: &Stored<'_>) {
    if tile.column_offsets.is_some() {
        // SAFETY: the caller promises that every number can be read and every element written, and
        // a CPU with AVX-512 F, BW and VL.
        return unsafe { store::<f32, D>(tile) };
    }
    let (source, out) = (tile.source.cast::<f32>(), tile.out.cast::<i16>());
    for (i, &row) in tile.row_offsets.iter().enumerate() {
        for start in (0..tile.columns).step_by(16) {
            let mask = ((1u32 << (tile.columns - start).min(16)) - 1) as u16;
            // SAFETY: the caller promises that every number can be read and every element written,
            // and a CPU with AVX-512 F, BW and VL; the mask selects only the tile's columns.
            unsafe {
                let numbers = vector512::F32::load(source.add(i * tile.stride + start), mask);
                V::store(out.offset(row).add(start), mask, numbers);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Arithmetic, CpuFeatures, ElementType, Stored, bf16, rounded_to_bf16, store_function,
    };
    use tegula_target::IsaLevel;
    #[test]
    fn vectors_store_the_same_halves() {
        let special = [
            0.0,
            -0.0,
            f32::INFINITY,
            f32::NAN,
            1e-40,
            6e-8,
            65519.9,
            65520.0,
            -3e38,
        ];
        let numbers = (0..40).map(|i| (i as f32 - 20.0) * 0.337_f32.powi(i - 18));
        let source: Vec<f32> = special.into_iter().chain(numbers).collect();
        for ty in [ElementType::BF16, ElementType::F16] {
            let [wide, middle, portable] = [IsaLevel::Native, IsaLevel::X86V3, IsaLevel::X86V2]
                .map(|cpu| {
                    let (store, _) =
                        store_function(CpuFeatures::up_to(cpu), Arithmetic::F32, ty).expect("both");
                    let mut out = vec![7u16; 70];
                    let stored = Stored {
                        source: source.as_ptr().cast(),
                        stride: 24,
                        columns: 19,
                        out: out.as_mut_ptr().cast(),
                        row_offsets: &[40, 3],
                        column_offsets: None,
                        add: false,
                    };
                    // SAFETY: the offsets are inside.
                    unsafe { store(&stored) };
                    out
                });
            assert_eq!(wide, portable, "{ty:?}");
            assert_eq!(middle, portable, "{ty:?}");
        }
    }

    #[test]
    fn bf16_is_the_nearest_with_ties_to_even() {
        for high in (0..=u16::MAX).step_by(7) {
            for low in [0u16, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let x = f32::from_bits(u32::from(high) << 16 | u32::from(low));
                let (got, want) = (bf16::from_bits(rounded_to_bf16(x)), bf16::from_f32(x));
                let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
                assert!(same, "{x}: {got} and not {want}");
            }
        }
    }

    #[test]
    fn numbers_go_where_the_offsets_say() {
        let (store, same) = store_function(
            CpuFeatures::up_to(IsaLevel::X86V2),
            Arithmetic::F32,
            ElementType::F32,
        )
        .expect("f32");
        assert!(same);
        let source = [1.0f32, 2.0, -1.0, 3.0, 4.0, -1.0];
        let mut out = [10.0f32; 8];
        let mut stored = Stored {
            source: source.as_ptr().cast(),
            stride: 3,
            columns: 2,
            out: out.as_mut_ptr().cast(),
            row_offsets: &[0, 1],
            column_offsets: Some(&[6, 2]),
            add: false,
        };
        // SAFETY: the offsets are inside.
        unsafe { store(&stored) };
        stored.add = true;
        stored.row_offsets = &[4, 0];
        stored.column_offsets = None;
        // SAFETY: the offsets are inside.
        unsafe { store(&stored) };
        assert_eq!(out, [13.0, 14.0, 2.0, 4.0, 11.0, 12.0, 1.0, 3.0]);
    }
}
