//! Tiles of accumulated numbers to arrays of any strides and element type.

use super::tile::Arithmetic;
use half::{bf16, f16};
use tegula_ir::ElementType;

/// A tile to be stored.
pub(crate) struct Stored<'a> {
    /// Its first number.
    pub(crate) source: *const u8,
    /// Numbers from one row to the next.
    pub(crate) stride: usize,
    pub(crate) columns: usize,
    /// The array, from which offsets are counted in elements.
    pub(crate) out: *mut u8,
    /// By row.
    pub(crate) row_offsets: &'a [isize],
    /// By column; `None`: one after the other.
    pub(crate) column_offsets: Option<&'a [isize]>,
    /// Whether the numbers are added to what is there.
    pub(crate) add: bool,
}

/// Stores a tile, converting its numbers.
///
/// # Safety
/// Every number can be read and every element written.
pub(crate) type StoreFn = unsafe fn(&Stored<'_>);

/// How the numbers of an arithmetic become elements of a type, and whether both
/// are the same, so that numbers can be added to elements.
pub(crate) fn store_function(
    arithmetic: Arithmetic,
    element_type: ElementType,
) -> Option<(StoreFn, bool)> {
    use ElementType::{BF16, F16, F32, F64, S8, S16, S32, S64, U8, U16, U32, U64};
    let function: StoreFn = match (arithmetic, element_type) {
        (Arithmetic::F32 | Arithmetic::Bf16Pairs, F32) => store::<f32, f32>,
        (Arithmetic::F32 | Arithmetic::Bf16Pairs, BF16) => store::<f32, bf16>,
        (Arithmetic::F32 | Arithmetic::Bf16Pairs, F16) => store::<f32, f16>,
        (Arithmetic::F64, F64) => store::<f64, f64>,
        (Arithmetic::I32 | Arithmetic::I16Pairs, S8 | U8) => store::<i32, u8>,
        (Arithmetic::I32 | Arithmetic::I16Pairs, S16 | U16) => store::<i32, u16>,
        (Arithmetic::I32 | Arithmetic::I16Pairs, S32 | U32) => store::<i32, i32>,
        (Arithmetic::I64, S64 | U64) => store::<i64, i64>,
        _ => return None,
    };
    let size = element_type.storage_bytes();
    let same = size == arithmetic.bytes() && element_type != F16 && element_type != BF16;
    Some((function, same))
}

/// A number as an element.
trait Element<From> {
    fn of(number: From) -> Self;
    /// The sum of an element of the number's own type and the number.
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
    // Nothing is added to elements of another type.
    f32 => bf16: |x| bf16::from_bits(rounded_to_bf16(x)), |_, x| bf16::from_bits(rounded_to_bf16(x));
    f32 => f16: |x| f16::from_f32(x), |_, x| f16::from_f32(x);
    i32 => u8: |x| x as u8, |_, x| x as u8;
    i32 => u16: |x| x as u16, |_, x| x as u16;
}

/// The nearest bf16, ties to even, without a branch.
#[inline(always)]
fn rounded_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let quiet = bits >> 16 | 0x40;
    (if x.is_nan() { quiet } else { rounded }) as u16
}

/// # Safety
/// As [`StoreFn`].
unsafe fn store<A: Copy, D: Copy + Element<A>>(tile: &Stored<'_>) {
    let (source, out) = (tile.source.cast::<A>(), tile.out.cast::<D>());
    for (i, &row) in tile.row_offsets.iter().enumerate() {
        // SAFETY: the caller's promise.
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

#[cfg(test)]
mod tests {
    use super::{Arithmetic, ElementType, Stored, bf16, rounded_to_bf16, store_function};

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
        let (store, same) = store_function(Arithmetic::F32, ElementType::F32).expect("f32");
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
        // SAFETY: as above.
        unsafe { store(&stored) };
        assert_eq!(out, [13.0, 14.0, 2.0, 4.0, 11.0, 12.0, 1.0, 3.0]);
    }
}
