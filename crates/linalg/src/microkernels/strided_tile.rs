//! Product tiles whose operands are read in place: the rows of the left operand are at arbitrary
//! addresses, and the columns of the right operand are vectors of adjacent elements. Either may
//! also be a packed panel, which is only a special case of strides.

#[cfg(target_arch = "x86_64")]
mod addresses;
mod form;
#[cfg(target_arch = "x86_64")]
mod halves;

use super::CpuFeatures;
use super::VectorWidth;
#[cfg(target_arch = "x86_64")]
use super::amx;
#[cfg(any(target_arch = "aarch64", feature = "std"))]
use super::neon;
#[cfg(target_arch = "x86_64")]
use super::pack::transpose;
use super::packed_tile::Arithmetic;
use super::strided::{Fetch, Later, Strided};
#[cfg(target_arch = "x86_64")]
use super::vector512::sums_to_bf16;
#[cfg(target_arch = "x86_64")]
use addresses::{are_even, opaque};
pub use form::TileForm;
pub(crate) use form::{AT_ONCE, LATER, NOTHING, TURNED};
#[cfg(target_arch = "x86_64")]
use halves::{from_bf16, from_f16};
use tegula_ir::ElementType;

/// The maximum number of rows of a vector tile.
pub(crate) const MAX_ROWS: usize = 14;
/// The maximum number of rows of any tile, and the bytes of the largest tile.
pub(crate) const TILE_ROWS: usize = 32;
pub(crate) const TILE_BYTES: usize = TILE_ROWS * 32 * 4;

/// The distance, in depth elements, at which the right operand is prefetched: pieces of its rows
/// are short, and the hardware prefetcher does not predict large strides.
const AHEAD: isize = 16;

/// The maximum number of vectors of an x86-64 tile that prefetches.
#[cfg(target_arch = "x86_64")]
const FETCHING: usize = 2;

/// Computes a tile with this many vectors, of which the last may be partial.
///
/// # Safety
/// Every element of every row and column can be read, those of the result written; there are
/// `rows.len()` offsets and room for the copy; the kernel has tiles with this many rows and
/// vectors; the CPU has the features that the kernel was compiled for.
pub(crate) type StridedFn = unsafe fn(usize, &Strided<'_>);

/// A tile's function and its sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StridedKernel {
    /// The maximum number of rows.
    pub(crate) rows: usize,
    /// Lanes of a vector.
    pub(crate) lanes: usize,
    /// The possible numbers of vectors of a tile with this many rows, largest first.
    vectors: fn(usize) -> &'static [usize],
    /// The maximum number of vectors of a tile that prefetches, and copies the right operand.
    fetching: usize,
    pub(crate) function: StridedFn,
    /// The function that rounds sums in `f32` to a result of bf16, if there is one.
    to_bf16: Option<StridedFn>,
    /// Whether it has tiles that are transposed as they are stored.
    pub(crate) turns: bool,
    /// Whether its registers are matrices: a sequence of tiles runs with them
    /// [configured](Self::enter), the left operand is contiguous along the depth, and the right one
    /// is packed.
    pub(crate) matrices: bool,
}

/// The minimum number of rows for matrix registers. By Intel's manual, a step of 16 units and 32
/// columns takes 32 cycles for up to 16 rows with matrices, and 16 cycles for each row with
/// vectors; copied rows cost the same again.
pub(crate) const MATRIX_ROWS: usize = 6;

/// The state that tiles need while they run.
#[cfg(target_arch = "x86_64")]
pub(crate) type Entered = Option<super::amx::Configured>;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) type Entered = Option<core::convert::Infallible>;

impl StridedKernel {
    /// The kernel for an arithmetic and this many rows, if there is one.
    #[inline(always)]
    pub(crate) fn new(isa: CpuFeatures, arithmetic: Arithmetic, rows: usize) -> Option<Self> {
        #[cfg(any(target_arch = "aarch64", feature = "std"))]
        if isa.width == VectorWidth::Neon {
            return neon::strided_tile::kernel(arithmetic);
        }
        #[cfg(target_arch = "x86_64")]
        return Self::of_x86(isa, arithmetic, rows);
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (isa, arithmetic, rows);
            None
        }
    }

    /// A vector kernel that reads both operands in place.
    #[cfg(any(target_arch = "aarch64", feature = "std"))]
    #[inline(always)]
    pub(super) fn of_vectors(
        rows: usize,
        lanes: usize,
        vectors: fn(usize) -> &'static [usize],
        fetching: usize,
        function: StridedFn,
    ) -> Self {
        Self {
            rows,
            lanes,
            vectors,
            fetching,
            function,
            to_bf16: None,
            turns: false,
            matrices: false,
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn of_x86(isa: CpuFeatures, arithmetic: Arithmetic, rows: usize) -> Option<Self> {
        let new = |rows, lanes, vectors, function| {
            Some(Self {
                rows,
                lanes,
                vectors,
                fetching: FETCHING,
                function,
                to_bf16: None,
                turns: false,
                matrices: false,
            })
        };
        let matrices = |function, to_bf16| {
            Some(Self {
                rows: amx::MAX_ROWS,
                lanes: 16,
                vectors: |_| amx::VECTORS,
                fetching: FETCHING,
                function,
                to_bf16,
                turns: false,
                matrices: true,
            })
        };
        let many = rows >= MATRIX_ROWS;
        match (isa.width, arithmetic) {
            (VectorWidth::Avx512, Arithmetic::Bf16Pairs) if isa.amx_bf16 && many => {
                matrices(amx::bf16, Some(amx::bf16_to_bf16))
            }
            (VectorWidth::Avx512, Arithmetic::I8Quads) if isa.amx_int8 && many => {
                matrices(amx::s8, None)
            }
            (VectorWidth::Avx512, Arithmetic::U8Quads) if isa.amx_int8 && many => {
                matrices(amx::u8, None)
            }
            (VectorWidth::Avx512, Arithmetic::F32) => Some(Self {
                turns: true,
                ..new(14, 16, wide_tiles, avx512_f32::dispatch)?
            }),
            (VectorWidth::Avx512, Arithmetic::F64) => new(14, 8, wide_tiles, avx512_f64::dispatch),
            (VectorWidth::Avx512, Arithmetic::Bf16Pairs) if isa.bf16 => Some(Self {
                to_bf16: Some(avx512_bf16_to_bf16::dispatch),
                ..new(14, 16, tiles, avx512_bf16::dispatch)?
            }),
            (VectorWidth::Avx2, Arithmetic::F32) => new(6, 8, tiles, avx2_f32::dispatch),
            (VectorWidth::Avx2, Arithmetic::F64) => new(6, 4, tiles, avx2_f64::dispatch),
            _ => None,
        }
    }

    /// The kernel for products in f32 with a right operand of 16-bit floats.
    #[inline(always)]
    pub(crate) fn of_halves(isa: CpuFeatures, rhs: ElementType) -> Option<Self> {
        #[cfg(any(target_arch = "aarch64", feature = "std"))]
        if isa.width == VectorWidth::Neon {
            return neon::strided_tile::of_halves(rhs);
        }
        #[cfg(target_arch = "x86_64")]
        return Self::of_halves_for_x86(isa, rhs);
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (isa, rhs);
            None
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn of_halves_for_x86(isa: CpuFeatures, rhs: ElementType) -> Option<Self> {
        let function = match (isa.width, rhs) {
            (VectorWidth::Avx512, ElementType::BF16) => avx512_f32_by_bf16::dispatch,
            (VectorWidth::Avx512, ElementType::F16) => avx512_f32_by_f16::dispatch,
            _ => return None,
        };
        Some(Self {
            rows: 14,
            lanes: 16,
            vectors: wide_tiles,
            fetching: FETCHING,
            function,
            to_bf16: None,
            turns: false,
            matrices: false,
        })
    }

    /// Prepares this thread for tiles, until the returned guard is dropped.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn enter(&self) -> Entered {
        // SAFETY: such kernels are only made if the CPU has AMX.
        self.matrices.then(|| unsafe { amx::Configured::new() })
    }

    /// Prepares this thread for tiles, until the returned guard is dropped.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn enter(&self) -> Entered {
        None
    }

    /// The function that stores tiles as elements of a type. `same` says whether sums have that
    /// type.
    #[inline(always)]
    pub(crate) fn storing(&self, out: ElementType, same: bool) -> Option<StridedFn> {
        match (same, out) {
            (true, _) => Some(self.function),
            (false, ElementType::BF16) => self.to_bf16,
            (false, _) => None,
        }
    }

    /// The possible numbers of vectors of tiles with this many rows, largest first.
    #[cfg(feature = "std")]
    pub(crate) fn widths(&self, rows: usize) -> &'static [usize] {
        (self.vectors)(rows)
    }

    /// Whether tiles with this many rows have forms that prefetch: only if they are narrow enough.
    pub(crate) fn fetches(&self, rows: usize) -> bool {
        self.vectors(rows, usize::MAX / 2) <= self.fetching
    }

    /// The number of vectors of the next tile, with this many columns left.
    pub(crate) fn vectors(&self, rows: usize, columns: usize) -> usize {
        let left = columns.div_ceil(self.lanes);
        let fits = |&&vectors: &&usize| vectors <= left;
        (self.vectors)(rows).iter().find(fits).copied().unwrap_or(1)
    }
}

/// With few rows, a tile takes long pieces of the right operand's rows: they are read at memory
/// speed, and there are enough independent sums.
#[cfg(target_arch = "x86_64")]
fn wide_tiles(rows: usize) -> &'static [usize] {
    match rows {
        1 => &[16, 8, 4, 2, 1],
        2 => &[8, 4, 2, 1],
        3 => &[6, 4, 2, 1],
        4 => &[4, 2, 1],
        _ => &[2, 1],
    }
}

#[cfg(target_arch = "x86_64")]
fn tiles(rows: usize) -> &'static [usize] {
    match rows {
        1 => &[8, 4, 2, 1],
        2 => &[4, 2, 1],
        _ => &[2, 1],
    }
}

/// Calls a tile of a form, by a separate function. In `crates/rt` the function's name ends with
/// [`TileForm::name`], so that programs can omit tiles that they do not call.
#[cfg(target_arch = "x86_64")]
macro_rules! named_tile {
    (
        $module:ident, $features:literal, $lanes:literal, $masked:literal, $m:literal, $v:literal,
        $form:ident, $arguments:expr
    ) => {{
        #[target_feature(enable = $features)]
        #[cfg_attr(
                not(feature = "std"),
                unsafe(export_name = concat!(
                    "tegula_rt_tile_", stringify!($module), "_", $m, "_", $v, "_", stringify!($form)
                ))
            )]
        unsafe fn named(arguments: &Strided<'_>) {
            // SAFETY: the caller promises that every row and column can be read and the result
            // written, one offset for each row, and the kernel's CPU features.
            unsafe {
                let whole = $masked && arguments.columns == $v * $lanes;
                match (whole, super::are_even(arguments.rows, $m)) {
                    (true, true) => tile::<$m, $v, $form, true, true>(arguments),
                    (true, false) => tile::<$m, $v, $form, true, false>(arguments),
                    (false, true) => tile::<$m, $v, $form, false, true>(arguments),
                    (false, false) => tile::<$m, $v, $form, false, false>(arguments),
                }
            }
        }
        // SAFETY: the caller promises that every row and column can be read and the result written,
        // one offset for each row, and the kernel's CPU features.
        unsafe { named($arguments) }
    }};
}

/// A module with the tile for one kind of vector, and whether tiles of whole vectors have a form
/// without a mask: a mask takes a vector register, of which AVX-512 has more.
///
/// Loops run over indices. With iterators and closures over arrays the machine code is no better,
/// and LLVM takes 179 s for this crate instead of 125 (28 November 2026, Intel Cascade Lake).
#[cfg(target_arch = "x86_64")]
macro_rules! strided_tile {
    (
        $module:ident, $features:literal, $number:ty, $lanes:literal, $masked:literal,
        [$(($m:literal, $v:literal))*], [$($n:literal)*],
        $zero:ident, $load:ident, $store:ident, $broadcast:ident, $multiply_add:expr, $add:ident,
        $mask:expr, $load_some:expr, $store_some:expr,
        $right:ty, $right_load:expr, $right_some:expr
    ) => {
        strided_tile!(
            $module, $features, $number, $lanes, $masked, [$(($m, $v))*], [$($n)*],
            $zero, $load, $store, $broadcast, $multiply_add, $add, $mask, $load_some,
            $store_some, $right, $right_load, $right_some,
            to $number, $load, $load_some, $store, $store_some, super::not_turned, []
        );
    };
    // As the rule above, but the result may have another element type, with its own loads and
    // stores. `$turned` is the function that transposes a tile, `$t` the heights of transposed
    // tiles.
    (
        $module:ident, $features:literal, $number:ty, $lanes:literal, $masked:literal,
        [$(($m:literal, $v:literal))*], [$($n:literal)*],
        $zero:ident, $load:ident, $store:ident, $broadcast:ident, $multiply_add:expr, $add:ident,
        $mask:expr, $load_some:expr, $store_some:expr,
        $right:ty, $right_load:expr, $right_some:expr,
        to $out:ty, $read:expr, $read_some:expr, $write:expr, $write_some:expr,
        $turned:path, [$($t:literal)*]
    ) => {
        mod $module {
            use super::{AHEAD, AT_ONCE, Fetch, LATER, Later, NOTHING, Strided, TURNED};
            use core::arch::x86_64::*;
            #[target_feature(enable = $features)]
            unsafe fn tile<
                const M: usize,
                const V: usize,
                const FETCH: u8,
                const WHOLE: bool,
                const EVEN: bool,
            >(
                tile: &Strided<'_>,
            ) {
                let (mut copy, mut later) = match tile.fetch {
                    Fetch::Ahead(copy) => (copy.cast::<$number>(), Later::NONE),
                    Fetch::Later(later) => (core::ptr::null_mut(), later),
                    Fetch::Nothing => (core::ptr::null_mut(), Later::NONE),
                };
                let copies = !copy.is_null();
                let ahead = tile.steps[1].wrapping_mul(AHEAD);
                let last = (V - 1) * $lanes;
                let mask = $mask(tile.columns - last);
                for block in 0..tile.rows.len() / M {
                    let rows = tile.rows.as_ptr().wrapping_add(block * M);
                    let offsets = tile.row_offsets.as_ptr().wrapping_add(block * M);
                    // SAFETY: there is an offset for each row.
                    let row = |m: usize| unsafe {
                        tile.out.cast::<$out>().wrapping_offset(offsets.add(m).read())
                    };
                    if tile.add {
                        // Prefetches the old values, so that they are in the cache when the sums
                        // are complete.
                        for m in 0..M {
                            let row = row(m);
                            for v in 0..V {
                                _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(v * $lanes).cast());
                            }
                        }
                    }
                    let mut sums = [[$zero(); V]; M];
                    // SAFETY: the caller promises that every row and column can be read and the
                    // result written, one offset for each row, and the kernel's CPU features; the
                    // mask selects only the remaining columns.
                    unsafe {
                        let first = if EVEN { rows.read() } else { 0 };
                        let apart = if EVEN && M > 1 { rows.add(1).read() - first } else { 0 };
                        let mut odd = [0isize; super::MAX_ROWS / 2];
                        for i in 0..M / 2 {
                            odd[i] = super::opaque((2 * i as isize + 1).wrapping_mul(apart));
                        }
                        for stretch in tile.depth {
                            let mut at = stretch.at[0] * tile.units[0] + first;
                            let mut right = tile.right.wrapping_offset(stretch.at[1] * tile.units[1]);
                            for _ in 0..stretch.length {
                                if EVEN {
                                    at = super::opaque(at);
                                }
                                let left = tile.left.wrapping_offset(at);
                                let from = right.cast::<$right>();
                                let mut columns = [$zero(); V];
                                for v in 0..V {
                                    columns[v] = if WHOLE || v + 1 < V {
                                        $right_load(from.add(v * $lanes))
                                    } else {
                                        $right_some(from.add(last), mask)
                                    };
                                }
                                if FETCH == LATER && later.count > 0 {
                                    later.count -= 1;
                                    for v in 0..V {
                                        let first = later.from.cast::<$right>();
                                        let last = first.wrapping_add((v + 1) * $lanes - 1);
                                        _mm_prefetch::<_MM_HINT_T1>(last.cast());
                                    }
                                    later.from = later.from.wrapping_offset(later.step);
                                }
                                if FETCH == AT_ONCE {
                                    for v in 0..V {
                                        let ahead = right.wrapping_offset(ahead).cast::<$right>();
                                        let last = ahead.wrapping_add((v + 1) * $lanes - 1);
                                        _mm_prefetch::<_MM_HINT_T0>(last.cast());
                                        if copies {
                                            $store(copy.add(v * $lanes), columns[v]);
                                        }
                                    }
                                    copy = copy.wrapping_add(V * $lanes);
                                }
                                for m in 0..M {
                                    let row = left.wrapping_offset(match m {
                                        // Loaded anew each time: see `addresses`.
                                        _ if !EVEN => rows.add(m).read_volatile(),
                                        0 => 0,
                                        _ => odd[(m >> m.trailing_zeros()) / 2] << m.trailing_zeros(),
                                    });
                                    // Pairs of 16-bit numbers may be unaligned.
                                    let row = $broadcast(row.cast::<$number>().read_unaligned());
                                    for v in 0..V {
                                        sums[m][v] = $multiply_add(row, columns[v], sums[m][v]);
                                    }
                                }
                                at = at.wrapping_add(tile.steps[0]);
                                right = right.wrapping_offset(tile.steps[1]);
                            }
                        }
                        if FETCH == TURNED {
                            $turned(tile, &sums, offsets.read());
                            continue;
                        }
                        if tile.add {
                            for m in 0..M {
                                for v in 0..V {
                                    let place = row(m).cast_const().add(v * $lanes);
                                    let before = if WHOLE || v + 1 < V {
                                        $read(place)
                                    } else {
                                        $read_some(place, mask)
                                    };
                                    sums[m][v] = $add(before, sums[m][v]);
                                }
                            }
                        }
                        for m in 0..M {
                            for v in 0..V {
                                let sum = sums[m][v];
                                let place = row(m).add(v * $lanes);
                                if WHOLE || v + 1 < V {
                                    $write(place, sum);
                                } else {
                                    $write_some(place, mask, sum);
                                }
                            }
                        }
                    }
                }
            }

            /// # Safety
            /// As [`super::StridedFn`].
            #[target_feature(enable = $features)]
            pub(super) unsafe fn dispatch(vectors: usize, arguments: &Strided<'_>) {
                let form = match arguments.fetch {
                    Fetch::Nothing if arguments.turned.is_some() => TURNED,
                    Fetch::Nothing => NOTHING,
                    Fetch::Ahead(_) => AT_ONCE,
                    Fetch::Later(_) => LATER,
                };
                match (arguments.height, vectors, form) {
                    $(($m, $v, NOTHING) => {
                        named_tile!($module, $features, $lanes, $masked, $m, $v, NOTHING, arguments)
                    })*
                    $(
                        ($n, 1, AT_ONCE) => {
                            named_tile!($module, $features, $lanes, $masked, $n, 1, AT_ONCE, arguments)
                        }
                        ($n, 2, AT_ONCE) => {
                            named_tile!($module, $features, $lanes, $masked, $n, 2, AT_ONCE, arguments)
                        }
                        ($n, 1, LATER) => {
                            named_tile!($module, $features, $lanes, $masked, $n, 1, LATER, arguments)
                        }
                        ($n, 2, LATER) => {
                            named_tile!($module, $features, $lanes, $masked, $n, 2, LATER, arguments)
                        }
                    )*
                    $(
                        ($t, 1, TURNED) => {
                            named_tile!($module, $features, $lanes, $masked, $t, 1, TURNED, arguments)
                        }
                        ($t, 2, TURNED) => {
                            named_tile!($module, $features, $lanes, $masked, $t, 2, TURNED, arguments)
                        }
                    )*
                    other => debug_assert!(false, "no tile of {other:?} exists"),
                }
            }
        }
    };
}

/// AVX-512 tiles with the sizes of [`wide_tiles`]: the module, its features, the number type, its
/// lanes, the heights of tiles that prefetch, and the vector operations.
#[cfg(target_arch = "x86_64")]
macro_rules! wide_tile {
    ($module:ident, $features:literal, $number:ty, $lanes:literal, $fetching:tt, $($rest:tt)*) => {
        strided_tile!(
            $module, $features, $number, $lanes, false,
            [(1, 1) (1, 2) (1, 4) (1, 8) (1, 16) (2, 1) (2, 2) (2, 4) (2, 8) (3, 1) (3, 2) (3, 4) (3, 6)
             (4, 1) (4, 2) (4, 4) (5, 1) (5, 2) (6, 1) (6, 2) (7, 1) (7, 2) (8, 1) (8, 2) (9, 1) (9, 2)
             (10, 1) (10, 2) (11, 1) (11, 2) (12, 1) (12, 2) (13, 1) (13, 2) (14, 1) (14, 2)],
            $fetching, $($rest)*
        );
    };
}

/// As [`wide_tile`], with sums in `f32`: after the heights, the type of the right operand's
/// elements, and the whole and partial loads of a vector of them.
#[cfg(target_arch = "x86_64")]
macro_rules! wide_tile_of_f32 {
    ($module:ident, $features:literal, $fetching:tt, $($right:tt)*) => {
        wide_tile!(
            $module, $features, f32, 16, $fetching,
            _mm512_setzero_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps,
            _mm512_fmadd_ps, _mm512_add_ps, |count: usize| ((1u32 << count) - 1) as __mmask16,
            |p, mask| _mm512_maskz_loadu_ps(mask, p),
            |p, mask, x| _mm512_mask_storeu_ps(p, mask, x), $($right)*
        );
    };
}

#[cfg(target_arch = "x86_64")]
wide_tile_of_f32!(
    avx512_f32, "avx512f", [1 2 3 4 5 6 7 8 9 10 11 12 13 14],
    f32, |p| _mm512_loadu_ps(p), |p, mask| _mm512_maskz_loadu_ps(mask, p),
    to f32, _mm512_loadu_ps, |p, mask| _mm512_maskz_loadu_ps(mask, p),
    _mm512_storeu_ps, |p, mask, x| _mm512_mask_storeu_ps(p, mask, x),
    super::turned, [1 2 3 4 5 6 7 8 9 10 11 12 13 14]
);
#[cfg(target_arch = "x86_64")]
wide_tile!(
    avx512_f64, "avx512f", f64, 8,
    [1 2 3 4 5 6 7 8 9 10 11 12 13 14],
    _mm512_setzero_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_set1_pd, _mm512_fmadd_pd,
    _mm512_add_pd, |count: usize| ((1u32 << count) - 1) as __mmask8,
    |p, mask| _mm512_maskz_loadu_pd(mask, p), |p, mask, x| _mm512_mask_storeu_pd(p, mask, x),
    f64, |p| _mm512_loadu_pd(p), |p, mask| _mm512_maskz_loadu_pd(mask, p)
);
/// Tiles of sums of bf16 pairs' products, and their destination.
#[cfg(target_arch = "x86_64")]
macro_rules! tile_of_pairs {
    ($module:ident, $($out:tt)*) => {
        strided_tile!(
            $module, "avx512f,avx512bw,avx512vl,avx512bf16", f32, 16, false,
            [(1, 1) (1, 2) (1, 4) (1, 8) (2, 1) (2, 2) (2, 4) (3, 1) (3, 2) (4, 1) (4, 2) (5, 1)
             (5, 2) (6, 1) (6, 2) (7, 1) (7, 2) (8, 1) (8, 2) (9, 1) (9, 2) (10, 1) (10, 2) (11, 1)
             (11, 2) (12, 1) (12, 2) (13, 1) (13, 2) (14, 1) (14, 2)],
            [],
            _mm512_setzero_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps,
            |a, b, c| _mm512_dpbf16_ps(
                c,
                core::mem::transmute::<__m512, __m512bh>(a),
                core::mem::transmute::<__m512, __m512bh>(b),
            ),
            _mm512_add_ps, |count: usize| ((1u32 << count) - 1) as __mmask16,
            |p, mask| _mm512_maskz_loadu_ps(mask, p),
            |p, mask, x| _mm512_mask_storeu_ps(p, mask, x),
            f32, |p| _mm512_loadu_ps(p), |p, mask| _mm512_maskz_loadu_ps(mask, p)
            $($out)*
        );
    };
}

#[cfg(target_arch = "x86_64")]
tile_of_pairs!(avx512_bf16,);
#[cfg(target_arch = "x86_64")]
tile_of_pairs!(
    avx512_bf16_to_bf16,,
    to i16,
    |p: *const i16| super::from_bf16(p, u16::MAX),
    |p, mask| super::from_bf16(p, mask),
    |p: *mut i16, x| super::sums_to_bf16(p, u16::MAX, x),
    |p: *mut i16, mask, x| super::sums_to_bf16(p, mask, x),
    super::not_turned, []
);
#[cfg(target_arch = "x86_64")]
wide_tile_of_f32!(
    avx512_f32_by_bf16, "avx512f,avx512bw,avx512vl", [5 6 7 8 9 10 11 12 13 14],
    i16, |p: *const i16| super::from_bf16(p, u16::MAX), |p, mask| super::from_bf16(p, mask)
);
#[cfg(target_arch = "x86_64")]
wide_tile_of_f32!(
    avx512_f32_by_f16, "avx512f,avx512bw,avx512vl", [5 6 7 8 9 10 11 12 13 14],
    i16, |p: *const i16| super::from_f16(p, u16::MAX), |p, mask| super::from_f16(p, mask)
);

/// Stores a tile whose rows are adjacent in the result, starting at the row with the given offset:
/// transposes sixteen columns at a time in registers.
///
/// # Safety
/// The elements can be written; AVX-512 F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn turned<const M: usize, const V: usize>(
    tile: &Strided<'_>,
    sums: &[[core::arch::x86_64::__m512; V]; M],
    first: isize,
) {
    use core::arch::x86_64::{_mm512_castps_si512, _mm512_mask_storeu_epi32, _mm512_setzero_si512};
    const LANES: usize = 16;
    let step = tile.turned.unwrap_or(1);
    let rows = ((1u32 << M) - 1) as u16;
    let mut place = tile.out.cast::<i32>().wrapping_offset(first);
    for v in 0..V {
        let mut block = core::array::from_fn(|m| match sums.get(m) {
            Some(row) => _mm512_castps_si512(row[v]),
            None => _mm512_setzero_si512(),
        });
        transpose(&mut block);
        for &column in block.iter().take(tile.columns - v * LANES) {
            // SAFETY: the caller promises: the elements can be written; AVX-512 F.
            unsafe { _mm512_mask_storeu_epi32(place, rows, column) };
            place = place.wrapping_offset(step);
        }
    }
}

/// A placeholder for [`turned`] in kernels without such tiles.
#[cfg(target_arch = "x86_64")]
fn not_turned<T, const M: usize, const V: usize>(_: &Strided<'_>, _: &[[T; V]; M], _: isize) {}

#[cfg(target_arch = "x86_64")]
strided_tile!(
    avx2_f32, "avx2,fma", f32, 8, true,
    [(1, 1) (1, 2) (1, 4) (1, 8) (2, 1) (2, 2) (2, 4) (3, 1) (3, 2) (4, 1) (4, 2) (5, 1) (5, 2)
     (6, 1) (6, 2)],
    [1 2 3 4 5 6],
    _mm256_setzero_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_fmadd_ps,
    _mm256_add_ps, |count: usize| _mm256_cmpgt_epi32(
        _mm256_set1_epi32(count as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
    |p, mask| _mm256_maskload_ps(p, mask), |p, mask, x| _mm256_maskstore_ps(p, mask, x),
    f32, |p| _mm256_loadu_ps(p), |p, mask| _mm256_maskload_ps(p, mask)
);
#[cfg(target_arch = "x86_64")]
strided_tile!(
    avx2_f64, "avx2,fma", f64, 4, true,
    [(1, 1) (1, 2) (1, 4) (1, 8) (2, 1) (2, 2) (2, 4) (3, 1) (3, 2) (4, 1) (4, 2) (5, 1) (5, 2)
     (6, 1) (6, 2)],
    [1 2 3 4 5 6],
    _mm256_setzero_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_set1_pd, _mm256_fmadd_pd,
    _mm256_add_pd, |count: usize| _mm256_cmpgt_epi64(
        _mm256_set1_epi64x(count as i64), _mm256_setr_epi64x(0, 1, 2, 3)),
    |p, mask| _mm256_maskload_pd(p, mask), |p, mask, x| _mm256_maskstore_pd(p, mask, x),
    f64, |p| _mm256_loadu_pd(p), |p, mask| _mm256_maskload_pd(p, mask)
);

#[cfg(test)]
mod tests {
    use super::super::strided::Stretch;
    use super::*;
    use tegula_target::IsaLevel;
    /// Whether the kernel has a tile. A tile over an empty depth is zero, and a form that does not
    /// exist leaves the output unchanged.
    fn is_there(kernel: &StridedKernel, rows: usize, vectors: usize, fetch: Fetch) -> bool {
        let mut out = [f64::NAN; TILE_ROWS * 16 * 16];
        let columns = vectors * kernel.lanes;
        let offsets: Vec<isize> = (0..rows).map(|row| (row * columns) as isize).collect();
        let tile = Strided {
            left: core::ptr::null(),
            rows: &[0; TILE_ROWS][..rows],
            height: rows,
            right: core::ptr::null(),
            units: [0; 2],
            steps: [0; 2],
            depth: &[],
            columns,
            out: out.as_mut_ptr().cast(),
            row_offsets: &offsets,
            turned: None,
            add: false,
            fetch,
        };
        let _entered = kernel.enter();
        // SAFETY: nothing is read, the results have room; the kernel is one of this
        // machine's.
        unsafe { (kernel.function)(vectors, &tile) };
        out[0].to_bits() & u64::from(u32::MAX) == 0
    }

    #[test]
    fn every_tile_that_is_asked_for_is_there() {
        let levels = [IsaLevel::X86V3, IsaLevel::ArmV8].map(CpuFeatures::up_to);
        for isa in levels.into_iter().chain([CpuFeatures::every()]) {
            let sums = [Arithmetic::F32, Arithmetic::F64, Arithmetic::Bf16Pairs];
            let kernels = sums
                .into_iter()
                .map(|a| (StridedKernel::new(isa, a, usize::MAX), a));
            let halves = [ElementType::BF16, ElementType::F16];
            let halves = halves.map(|ty| (StridedKernel::of_halves(isa, ty), Arithmetic::F32));
            for (kernel, arithmetic) in kernels.chain(halves) {
                let Some(kernel) = kernel else { continue };
                for rows in 1..=kernel.rows {
                    for &vectors in (kernel.vectors)(rows) {
                        let there = |fetch| is_there(&kernel, rows, vectors, fetch);
                        assert!(there(Fetch::Nothing), "{rows} {vectors}");
                        // Pairs are packed, so they are never prefetched.
                        if kernel.fetches(rows) && arithmetic != Arithmetic::Bf16Pairs {
                            let ahead = Fetch::Ahead(core::ptr::null_mut());
                            assert!(there(ahead), "{rows} {vectors}");
                            assert!(there(Fetch::Later(Later::NONE)), "{rows} {vectors}");
                        }
                    }
                }
            }
        }
    }

    /// The assumption of tiles that round to bf16: no sum of pairs is subnormal.
    #[test]
    fn sums_of_small_pairs_are_rounded_as_they_are() {
        let kernel = StridedKernel::new(
            CpuFeatures {
                amx_bf16: false,
                ..CpuFeatures::every()
            },
            Arithmetic::Bf16Pairs,
            1,
        );
        let Some((kernel, to_bf16)) = kernel.and_then(|kernel| Some((kernel, kernel.to_bf16?)))
        else {
            return;
        };
        // 1.5 * 2^-70 times 1.0078125 * 2^-48 to 2^-78.
        let left = [0x1cc0u16, 0];
        let right: [[u16; 2]; 16] = core::array::from_fn(|i| [(79 - 2 * i as u16) << 7 | 1, 0]);
        let mut sums = [f32::NAN; 16];
        let mut rounded = [0u16; 16];
        let mut tile = Strided {
            left: left.as_ptr().cast(),
            rows: &[0],
            height: 1,
            right: right.as_ptr().cast(),
            units: [4, 64],
            steps: [4, 64],
            depth: &[Stretch {
                at: [0; 2],
                length: 1,
            }],
            columns: 16,
            out: sums.as_mut_ptr().cast(),
            row_offsets: &[0],
            turned: None,
            add: false,
            fetch: Fetch::Nothing,
        };
        // SAFETY: there is one unit of the row and of each column, and room for the results.
        unsafe {
            (kernel.function)(1, &tile);
            tile.out = rounded.as_mut_ptr().cast();
            to_bf16(1, &tile);
        }
        assert!(sums.iter().all(|sum| !sum.is_subnormal()), "{sums:?}");
        assert!(sums[0] != 0.0 && sums[15] == 0.0, "{sums:?}");
        assert_eq!(rounded, sums.map(|sum| half::bf16::from_f32(sum).to_bits()));
    }
}
