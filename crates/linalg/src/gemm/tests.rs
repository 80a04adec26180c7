use super::{Axes, Axis, AxisList, InPlace, Product, TileForm, Types};
#[cfg(target_arch = "x86_64")]
use super::{Sizes, skinny::dots};
use crate::microkernels::CpuFeatures;
#[cfg(target_arch = "x86_64")]
use crate::microkernels::VectorWidth;
use crate::microkernels::packed_tile::Arithmetic;
use crate::microkernels::strided::Fetch;
use crate::microkernels::strided_tile::{self, StridedKernel};
use crate::thread_pool::ThreadPool;
use std::cell::RefCell;
use tegula_ir::ElementType;
use tegula_target::IsaLevel;

thread_local! {
    /// The tiles that this thread has called.
    static CALLED: RefCell<Vec<TileForm>> = const { RefCell::new(Vec::new()) };
}

/// Records the call of a tile.
pub(super) fn called(rows: usize, vectors: usize, fetch: &Fetch) {
    let form = match fetch {
        Fetch::Nothing => strided_tile::NOTHING,
        Fetch::Ahead(_) => strided_tile::AT_ONCE,
        Fetch::Later(_) => strided_tile::LATER,
    };
    let tile = TileForm {
        rows,
        vectors,
        form,
    };
    CALLED.with_borrow_mut(|tiles| {
        if !tiles.contains(&tile) {
            tiles.push(tile);
        }
    });
}

/// The CPUs whose instructions are tested; matrix registers are emulated where necessary.
fn isas() -> Vec<CpuFeatures> {
    let cpus = [
        IsaLevel::Native,
        IsaLevel::X86V4,
        IsaLevel::X86V3,
        IsaLevel::X86V2,
        // Emulated by their model on other machines.
        IsaLevel::ArmV8,
        IsaLevel::ArmV8_4,
        IsaLevel::ArmV8_6,
    ];
    let mut isas: Vec<CpuFeatures> = cpus.map(CpuFeatures::up_to).to_vec();
    // Dot products of bf16 are also tested where they are slow.
    let every = CpuFeatures::every();
    if !isas.contains(&every) {
        isas.push(every);
    }
    isas.extend(emulated_amx());
    isas
}

/// This CPU with AMX, where that can be emulated.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn emulated_amx() -> Option<CpuFeatures> {
    let native = CpuFeatures::every();
    crate::microkernels::amx::emulated::is_available().then_some(CpuFeatures {
        amx_bf16: native.bf16,
        amx_int8: native.vnni,
        ..native
    })
}

/// AMX exists only on x86-64.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn emulated_amx() -> Option<CpuFeatures> {
    None
}

/// Whether the left and the right operand are transposed.
type Transposed = [bool; 2];

const FORMS: [Transposed; 4] = [[false, false], [false, true], [true, false], [true, true]];

/// The strides of the left operand's rows, the right operand's columns and the depth in both: `lhs`
/// is `[m, k]` or `[k, m]`, `rhs` `[k, n]` or `[n, k]`.
fn strides([m, k, n]: [usize; 3], [left, right]: Transposed) -> [[usize; 2]; 2] {
    let of = |transposed, [outer, inner]: [usize; 2]| match transposed {
        false => [inner, 1],
        true => [1, outer],
    };
    [of(left, [m, k]), of(!right, [n, k])]
}

/// A dimension with its size and strides.
fn axis(size: usize, lhs: usize, rhs: usize, out: usize) -> Axis {
    Axis {
        size,
        lhs: lhs as isize,
        rhs: rhs as isize,
        out: out as isize,
    }
}

/// The f32 product `lhs * rhs`.
fn product(
    isa: CpuFeatures,
    shape: [usize; 3],
    transposed: Transposed,
    lhs: &[f32],
    rhs: &[f32],
    threads: usize,
) -> Vec<f32> {
    let types = [ElementType::F32; 2];
    product_of(isa, types, shape, transposed, (lhs, rhs), threads)
}

fn product_of<L, R>(
    isa: CpuFeatures,
    [left, right]: [ElementType; 2],
    shape: [usize; 3],
    transposed: Transposed,
    operands: (&[L], &[R]),
    threads: usize,
) -> Vec<f32> {
    let types = [left, right, ElementType::F32];
    result_of(isa, types, shape, transposed, operands, threads)
}

/// The product for types that determine how the numbers of operands and result are stored; checks
/// that prepacking either operand does not change it.
fn result_of<L, R, T: Copy + Default + PartialOrd>(
    isa: CpuFeatures,
    types: Types,
    [m, k, n]: [usize; 3],
    transposed: Transposed,
    (lhs, rhs): (&[L], &[R]),
    threads: usize,
) -> Vec<T> {
    let [[row, left], [column, right]] = strides([m, k, n], transposed);
    let axes = Axes {
        batch: [].into(),
        rows: [axis(m, row, 0, n)].into(),
        columns: [axis(n, 0, column, 1)].into(),
        depth: [axis(k, left, right, 0)].into(),
        starts: [0; 3],
    };
    let pool = ThreadPool::new(threads);
    let operands = [lhs.as_ptr().cast::<u8>(), rhs.as_ptr().cast::<u8>()];
    // Without prepacking, with the left operand prepacked, and with the right one.
    let results = [None, Some(0), Some(1)].map(|fixed| {
        let product = Product::new(isa, types, axes.clone(), fixed);
        let product = product.expect("there is one of these types");
        let mut out = vec![T::default(); m * n];
        let mut scratch = Aligned::new(product.scratch_bytes(threads));
        let (mut kept, mut operands) = (Aligned::new(0), operands);
        // SAFETY: the arrays have the sizes of the axes; the scratch memory and the packed operand
        // have the requested sizes.
        unsafe {
            if let Some((operand, bytes)) = product.kept_bytes() {
                assert_eq!(Some(operand), fixed);
                kept = Aligned::new(bytes);
                product.keep(operands[operand], kept.start());
                if !product.needs_source() {
                    operands[operand] = core::ptr::null();
                }
            }
            let out = out.as_mut_ptr().cast();
            CALLED.take();
            product.run(operands, kept.start(), out, scratch.start(), &pool);
        }
        let (tiles, called) = (product.tiles(), CALLED.take());
        let lacks = called.iter().find(|tile| !tiles.contains(tile));
        assert!(
            threads > 1 || lacks.is_none(),
            "{types:?} {m}x{k}x{n}: {lacks:?}"
        );
        assert!(
            kept.is_whole() && scratch.is_whole(),
            "written beyond the end"
        );
        out
    });
    let [result, left, right] = results;
    for kept in [&left, &right] {
        let same = result.iter().zip(kept).all(|(a, b)| is_same(a, b));
        assert!(same, "{types:?} {m}x{k}x{n} {transposed:?}");
    }
    result
}

/// Whether both are the same number, or both are NaN.
fn is_same<T: PartialOrd>(a: &T, b: &T) -> bool {
    a == b || a.partial_cmp(b).is_none()
}

/// Memory aligned to 64 bytes, with a guard pattern after its end.
struct Aligned {
    words: Vec<u64>,
    bytes: usize,
}

impl Aligned {
    const MARK: u8 = 0xa5;

    fn new(bytes: usize) -> Self {
        let words = vec![u64::from_ne_bytes([Self::MARK; 8]); bytes / 8 + 18];
        Self { words, bytes }
    }

    fn start(&mut self) -> *mut u8 {
        let start = self.words.as_mut_ptr().cast::<u8>();
        start.wrapping_add(start.align_offset(64))
    }

    fn is_whole(&mut self) -> bool {
        let end = self.start().wrapping_add(self.bytes);
        // SAFETY: more than a cache line follows.
        unsafe { core::slice::from_raw_parts(end, 64) }
            .iter()
            .all(|&b| b == Self::MARK)
    }
}

fn expected(shape: [usize; 3], transposed: Transposed, lhs: &[f32], rhs: &[f32]) -> Vec<f32> {
    let ([m, k, n], [[row, left], [column, right]]) = (shape, strides(shape, transposed));
    let element = |i: usize, j: usize| {
        let terms = (0..k).map(|d| lhs[i * row + d * left] * rhs[j * column + d * right]);
        terms.sum()
    };
    (0..m * n).map(|at| element(at / n, at % n)).collect()
}

/// Small dyadic numbers.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    let number = |i: usize| ((i * 7919 + seed * 31) % 23) as f32 / 4.0 - 2.5;
    (0..count).map(number).collect()
}

#[test]
fn every_blocking_gives_the_sum() {
    let shapes = [
        [1, 1, 1],
        [1, 15, 7],
        [1, 16, 33],
        [2, 31, 5],
        [3, 97, 70],
        [4, 600, 9],
        [5, 200, 37],
        [14, 333, 34],
        [15, 100, 3],
        [33, 520, 65],
        [64, 780, 21],
        [160, 1300, 40],
        [29, 530, 300],
        [3, 20, 1100],
        [30, 40, 1024],
        [16, 1024, 300],
        [40, 1100, 300],
        [100, 1024, 260],
        // Flatter blocks, so that the right operand is read once.
        [200, 1024, 130],
        [100, 3, 130],
    ];
    for shape in shapes {
        let [m, k, n] = shape;
        let (lhs, rhs) = (numbers(m * k, 1), numbers(k * n, 2));
        for transposed in FORMS {
            let expected = expected(shape, transposed, &lhs, &rhs);
            for isa in isas() {
                for threads in [1, 3] {
                    let got = product(isa, shape, transposed, &lhs, &rhs, threads);
                    assert!(
                        got == expected,
                        "{shape:?} {transposed:?} {isa:?} {threads}"
                    );
                }
            }
        }
    }
}

/// Packing for matrix registers pays with fewer rows than for vectors, but not with so few that
/// vectors multiply them on CPUs with AMX, too.
#[cfg(target_arch = "x86_64")]
#[test]
fn few_rows_of_bf16_are_packed_for_matrix_registers_only() {
    let along_rows = |amx_bf16, rows, depth| {
        let isa = CpuFeatures {
            width: VectorWidth::Avx512,
            bf16: true,
            amx_bf16,
            ..CpuFeatures::every()
        };
        let types = [ElementType::BF16; 3];
        let axes = Axes {
            rows: [axis(rows, depth, 0, 4096)].into(),
            columns: [axis(4096, 0, depth, 1)].into(),
            depth: [axis(depth, 1, 1, 0)].into(),
            ..Axes::default()
        };
        dots(isa, types, &axes, Sizes::new(&axes), Arithmetic::Bf16Pairs).is_some()
    };
    for rows in 1..strided_tile::MATRIX_ROWS {
        assert!(along_rows(false, rows, 256), "{rows} rows");
        assert!(along_rows(true, rows, 256), "{rows} rows with AMX");
    }
    assert!(along_rows(false, 12, 1024));
    assert!(!along_rows(true, 12, 1024));
}

#[test]
fn a_large_right_operand_of_many_rows_is_packed() {
    let shape @ [m, k, n] = [660, 1024, 130];
    let (lhs, rhs) = (numbers(m * k, 1), numbers(k * n, 2));
    let transposed = [false; 2];
    let expected = expected(shape, transposed, &lhs, &rhs);
    for level in [IsaLevel::Native, IsaLevel::X86V3, IsaLevel::ArmV8] {
        for threads in [1, 3] {
            let isa = CpuFeatures::up_to(level);
            let got = product(isa, shape, transposed, &lhs, &rhs, threads);
            assert!(got == expected, "{level:?} {threads}");
        }
    }
}

/// The rows of a slice: the left operand skips a row after every few.
#[test]
fn rows_may_be_at_several_distances() {
    let pool = ThreadPool::new(1);
    for [outer, inner, k, n] in [[3, 7, 20, 40], [2, 33, 65, 300], [40, 2, 17, 16]] {
        let (slab, m) = ((inner + 1) * k, outer * inner);
        let (lhs, rhs) = (numbers(outer * slab, 1), numbers(k * n, 2));
        let of_slice = lhs.chunks(slab).flat_map(|slab| &slab[..inner * k]);
        let dense: Vec<f32> = of_slice.copied().collect();
        let expected = expected([m, k, n], [false; 2], &dense, &rhs);
        let axes = Axes {
            rows: [axis(outer, slab, 0, inner * n), axis(inner, k, 0, n)].into(),
            columns: [axis(n, 0, 1, 1)].into(),
            depth: [axis(k, 1, n, 0)].into(),
            ..Axes::default()
        };
        for isa in isas() {
            let product = Product::new(isa, [ElementType::F32; 3], axes.clone(), None);
            let product = product.expect("of f32");
            // Packing the pixels of a convolution takes as long as multiplying them.
            let reads_left = product.in_place.as_ref().is_none_or(InPlace::reads_left);
            let has_tiles = StridedKernel::new(isa, Arithmetic::F32, m).is_some();
            assert!(
                reads_left && product.in_place.is_some() == has_tiles,
                "{isa:?}"
            );
            let mut out = vec![0f32; m * n];
            let mut scratch = Aligned::new(product.scratch_bytes(1));
            let operands = [lhs.as_ptr(), rhs.as_ptr()].map(<*const f32>::cast);
            // SAFETY: the arrays have the sizes of the axes, and the scratch memory has the
            // requested size.
            unsafe {
                let out = out.as_mut_ptr().cast();
                product.run(operands, core::ptr::null(), out, scratch.start(), &pool);
            }
            assert!(out == expected, "{outer}x{inner}x{k}x{n} {isa:?}");
            assert!(scratch.is_whole(), "written beyond the end");
        }
    }
}

#[test]
fn a_batch_is_products_one_after_the_other() {
    const BATCH: usize = 3;
    let pool = ThreadPool::new(1);
    let types = [ElementType::F32; 3];
    for shape @ [m, k, n] in [
        [30, 20, 33],
        [64, 32, 64],
        [47, 35, 50],
        [64, 64, 32],
        [32, 64, 64],
        [31, 200, 45],
        [16, 300, 7],
    ] {
        let [left, right] = [m * k, k * n];
        let (lhs, rhs) = (numbers(BATCH * left, 1), numbers(BATCH * right, 2));
        for transposed in FORMS {
            let [[row, along], [column, down]] = strides(shape, transposed);
            let matrices = lhs.chunks(left).zip(rhs.chunks(right));
            let expected = matrices.flat_map(|(lhs, rhs)| expected(shape, transposed, lhs, rhs));
            let expected: Vec<f32> = expected.collect();
            // Rows or columns are adjacent in the result.
            for [down_out, along_out] in [[n, 1], [1, m]] {
                let axes = Axes {
                    batch: [axis(BATCH, left, right, m * n)].into(),
                    rows: [axis(m, row, 0, down_out)].into(),
                    columns: [axis(n, 0, column, along_out)].into(),
                    depth: [axis(k, along, down, 0)].into(),
                    starts: [0; 3],
                };
                for isa in isas() {
                    for adds in [false, true] {
                        let product = Product::new(isa, types, axes.clone(), None);
                        let product = match adds {
                            true => product.and_then(Product::adding),
                            false => product,
                        };
                        let product = product.expect("of f32");
                        let mut out = vec![1f32; BATCH * m * n];
                        let mut scratch = Aligned::new(product.scratch_bytes(1));
                        let operands = [lhs.as_ptr(), rhs.as_ptr()].map(<*const f32>::cast);
                        // SAFETY: the arrays have the sizes of the axes, and the scratch memory has
                        // the requested size.
                        unsafe {
                            let out = out.as_mut_ptr().cast();
                            product.run(operands, core::ptr::null(), out, scratch.start(), &pool);
                        }
                        let at = |i: usize| {
                            let (matrix, element) = (i / (m * n), i % (m * n));
                            matrix * m * n + element / n * down_out + element % n * along_out
                        };
                        let before = if adds { 1.0 } else { 0.0 };
                        let is_right = |i: usize| out[at(i)] == before + expected[i];
                        assert!(
                            (0..expected.len()).all(is_right),
                            "{shape:?} {transposed:?} {down_out} {isa:?} {adds}"
                        );
                        assert!(scratch.is_whole(), "written beyond the end");
                    }
                }
            }
        }
    }
}

/// Sums are rounded to bf16 exactly as f32 results are, including NaN and infinities.
#[test]
fn a_result_of_bf16_is_the_nearest_of_one_of_f32() {
    let special = [f32::INFINITY, f32::NAN, -0.0];
    for shape @ [m, k, n] in [
        [1, 30, 200],
        [3, 40, 70],
        [20, 50, 37],
        [33, 2, 40],
        [40, 256, 300],
        // Tiles of matrix registers that take turns.
        [70, 600, 40],
    ] {
        let numbers = |count: usize, seed: usize| -> Vec<u16> {
            let mut numbers = numbers(count, seed);
            for (i, &special) in special.iter().enumerate() {
                let (step, last) = (7 * k + 3, count - 1);
                numbers[(i * step + seed).min(last)] = special;
            }
            let narrow = |x: &f32| half::bf16::from_f32(x * 2.25).to_bits();
            numbers.iter().map(narrow).collect()
        };
        let (lhs, rhs) = (numbers(m * k, 1), numbers(k * n, 2));
        let operands = (&lhs[..], &rhs[..]);
        for transposed in FORMS {
            for isa in isas() {
                let bf16 = ElementType::BF16;
                let of = |out| [bf16, bf16, out];
                let wide = of(ElementType::F32);
                let wide: Vec<f32> = result_of(isa, wide, shape, transposed, operands, 2);
                let got: Vec<half::bf16> = result_of(isa, of(bf16), shape, transposed, operands, 2);
                let same = wide.iter().zip(&got).all(|(&wide, got)| {
                    let want = half::bf16::from_f32(wide);
                    want.to_bits() == got.to_bits() || wide.is_nan() && got.is_nan()
                });
                assert!(same, "{shape:?} {transposed:?} {isa:?}");
            }
        }
    }
}

#[test]
fn halves_are_multiplied_as_they_are() {
    for shape in [
        [1, 40, 300],
        [1, 603, 903],
        [2, 700, 37],
        [5, 33, 64],
        [14, 600, 129],
        [30, 20, 50],
        [48, 1100, 70],
        [70, 66, 33],
    ] {
        let [m, k, n] = shape;
        let (lhs, rhs) = (numbers(m * k, 3), numbers(k * n, 4));
        let narrow = |of: fn(f32) -> u16| {
            [&lhs, &rhs].map(|from| from.iter().map(|&x| of(x)).collect::<Vec<u16>>())
        };
        let bf16 = narrow(|x| half::bf16::from_f32(x).to_bits());
        let f16 = narrow(|x| half::f16::from_f32(x).to_bits());
        for transposed in FORMS {
            let expected = expected(shape, transposed, &lhs, &rhs);
            for isa in isas() {
                for (ty, [left, right]) in [(ElementType::BF16, &bf16), (ElementType::F16, &f16)] {
                    let (left, right) = (&left[..], &right[..]);
                    let both = product_of(isa, [ty, ty], shape, transposed, (left, right), 2);
                    assert!(both == expected, "{shape:?} {transposed:?} {isa:?} {ty:?}");
                    let types = [ElementType::F32, ty];
                    let mixed = product_of(isa, types, shape, transposed, (&lhs[..], right), 1);
                    assert!(
                        mixed == expected,
                        "{shape:?} {transposed:?} {isa:?} f32 {ty:?}"
                    );
                }
            }
        }
    }
}

/// A byte as it is multiplied: signed or unsigned.
fn byte(bits: u8, ty: ElementType) -> i32 {
    match ty {
        ElementType::S8 => i32::from(bits as i8),
        _ => i32::from(bits),
    }
}

#[test]
fn one_row_times_a_matrix_that_no_cache_holds() {
    // Right operands of f32 above 1 MiB and 16 MiB: whole rows, pages of rows, and many rows at
    // once.
    let shapes = [
        [1, 300, 1200],
        [1, 70, 4096],
        [1, 301, 901],
        [1, 2050, 2077],
    ];
    for shape in shapes {
        let [m, k, n] = shape;
        let (lhs, rhs) = (numbers(m * k, 5), numbers(k * n, 6));
        let narrow = |x: &f32| half::bf16::from_f32(*x).to_bits();
        let [left, right] = [&lhs, &rhs].map(|of| of.iter().map(narrow).collect::<Vec<u16>>());
        for transposed in FORMS {
            let expected = expected(shape, transposed, &lhs, &rhs);
            for threads in [1, 3] {
                let isa = CpuFeatures::up_to(IsaLevel::Native);
                let got = product(isa, shape, transposed, &lhs, &rhs, threads);
                assert!(got == expected, "{shape:?} {transposed:?} {threads}");
                let types = [ElementType::BF16; 2];
                let operands = (&left[..], &right[..]);
                let got = product_of(isa, types, shape, transposed, operands, threads);
                assert!(got == expected, "bf16 {shape:?} {transposed:?} {threads}");
            }
        }
    }
}

#[test]
fn bytes_are_multiplied_to_the_bit() {
    let (s8, u8) = (ElementType::S8, ElementType::U8);
    for shape in [
        [1, 1, 1],
        [3, 7, 5],
        [13, 66, 37],
        [30, 129, 300],
        [100, 2100, 33],
    ] {
        let [m, k, n] = shape;
        // All byte values, with those at the ends of their range most frequent.
        let numbers = |count: usize, seed: usize| -> Vec<u8> {
            let mixed = |i: usize| (i * 7919 + seed).wrapping_mul(2_654_435_761) >> 13;
            (0..count)
                .map(|i| if i % 3 == 0 { 0x80 } else { mixed(i) as u8 })
                .collect()
        };
        let (lhs, rhs) = (numbers(m * k, 1), numbers(k * n, 2));
        for transposed in FORMS {
            let [[row, left], [column, right]] = strides(shape, transposed);
            for types in [[s8, s8], [u8, s8], [s8, u8], [u8, u8]] {
                let term = |i: usize, j: usize, d: usize| {
                    let a = byte(lhs[i * row + d * left], types[0]);
                    a * byte(rhs[j * column + d * right], types[1])
                };
                let element = |at: usize| (0..k).map(|d| term(at / n, at % n, d)).sum::<i32>();
                let expected: Vec<i32> = (0..m * n).map(element).collect();
                for isa in isas() {
                    let all = [types[0], types[1], ElementType::S32];
                    let operands = (&lhs[..], &rhs[..]);
                    let got: Vec<i32> = result_of(isa, all, shape, transposed, operands, 2);
                    assert!(
                        got == expected,
                        "{shape:?} {transposed:?} {isa:?} {types:?}"
                    );
                }
            }
        }
    }
}

/// Subnormal bf16: alone in their row, next to sums that absorb them, and where one sum is zero.
#[test]
fn subnormal_factors_count() {
    let bf16 = |x: f32| (x.to_bits() >> 16) as u16;
    let (subnormal, large) = (2f32.powi(-130), 2f32.powi(100));
    let shape @ [m, k, n] = [37, 40, 35];
    for isa in isas() {
        for (others, factor, zero_row) in
            [(0.0, large, false), (1.0, 1.0, false), (1.0, large, true)]
        {
            let element = |i: usize| match (i / k, i % k) {
                (_, 3) => subnormal,
                (0, _) if zero_row => 0.0,
                _ => others,
            };
            let lhs: Vec<u16> = (0..m * k).map(|i| bf16(element(i))).collect();
            let rhs = vec![bf16(factor); k * n];
            let got = product_of(
                isa,
                [ElementType::BF16; 2],
                shape,
                FORMS[0],
                (&lhs, &rhs),
                1,
            );
            for (i, &got) in got.iter().enumerate() {
                let row = (i / n) * k..(i / n + 1) * k;
                let want: f32 = row.map(|i| element(i) * factor).sum();
                assert_eq!(got, want, "row {} of others {others}", i / n);
            }
        }
    }
}

/// Large f32 products on x86-64 treat subnormal numbers as zeros, small ones do not; code after a
/// product computes with subnormal numbers as before.
#[cfg(target_arch = "x86_64")]
#[test]
fn subnormal_numbers_of_large_products_are_zeros() {
    let (subnormal, large) = (2f32.powi(-130), 2f32.powi(100));
    for (shape, want) in [([20, 40, 30], 0.0), ([2, 3, 4], 3.0 * 2f32.powi(-30))] {
        let [m, k, n] = shape;
        let (lhs, rhs) = (vec![subnormal; m * k], vec![large; k * n]);
        // AArch64 is only a model here, which partly uses the C library's functions.
        let own = [IsaLevel::Native, IsaLevel::X86V3, IsaLevel::X86V2];
        for isa in own.map(CpuFeatures::up_to) {
            let types = [ElementType::F32; 2];
            let got = product_of(isa, types, shape, FORMS[0], (&lhs, &rhs), 2);
            assert!(
                got.iter().all(|&got| got == want),
                "{isa:?} {shape:?} {got:?}"
            );
            let half = std::hint::black_box(f32::MIN_POSITIVE) / 2.0;
            assert!(half > 0.0, "{isa:?} {shape:?}");
        }
    }
}

#[test]
fn nan_and_infinity_reach_their_elements_alone() {
    for shape in [[1, 40, 37], [3, 33, 20], [20, 50, 40]] {
        let [m, k, n] = shape;
        for special in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for transposed in FORMS {
                let (mut lhs, mut rhs) = (vec![1.0; m * k], vec![1.0; k * n]);
                lhs[m * k - 1] = special;
                // Column 5 at depth 2.
                let [_, [column, right]] = strides(shape, transposed);
                rhs[5 * column + 2 * right] = special;
                let expected = expected(shape, transposed, &lhs, &rhs);
                for isa in isas() {
                    let got = product(isa, shape, transposed, &lhs, &rhs, 1);
                    let same = got.iter().zip(&expected);
                    let same = { same }.all(|(a, b)| a == b || a.is_nan() && b.is_nan());
                    assert!(same, "{shape:?} {special} {transposed:?} {isa:?}");
                }
            }
        }
    }
}

#[test]
fn small_products_are_sums_whatever_lies_where() {
    let pool = ThreadPool::new(2);
    let axis = |size, lhs, rhs, out| Axis {
        size,
        lhs,
        rhs,
        out,
    };
    for (m, k, n) in [
        (1, 1, 1),
        (4, 4, 4),
        (4, 2, 1),
        (2, 3, 2),
        (8, 8, 7),
        (3, 5, 6),
    ] {
        for batch in [5usize, 4000] {
            // The left operand repeats, as for groups of columns.
            let axes = |apart: bool| Axes {
                batch: match apart {
                    true => [axis(batch, m * k, k * n, m * n)].into(),
                    false => AxisList::new(),
                },
                rows: [axis(m as usize, k, 0, n)].into(),
                columns: match apart {
                    true => [axis(n as usize, 0, 1, 1)].into(),
                    false => [axis(batch, 0, k * n, m * n), axis(n as usize, 0, 1, 1)].into(),
                },
                depth: [axis(k as usize, 1, n, 0)].into(),
                starts: [0; 3],
            };
            let counts = [m * k, k * n, m * n].map(|count| count as usize);
            let lhs = numbers(batch * counts[0], 1);
            let rhs = numbers(batch * counts[1], 2);
            for apart in [true, false] {
                if !apart && (n == 1 || batch < 8) {
                    continue;
                }
                let types = [ElementType::F32; 3];
                let product = Product::new(
                    CpuFeatures::up_to(IsaLevel::Native),
                    types,
                    axes(apart),
                    Some(1),
                );
                let product = product.expect("a product");
                assert!(product.small.is_some(), "{m} {k} {n}");
                assert!(product.kept_bytes().is_none(), "{m} {k} {n}");
                for adds in [false, true] {
                    let product = match adds {
                        true => product.clone().adding().expect("sums"),
                        false => product.clone(),
                    };
                    let mut out = vec![1f32; batch * counts[2]];
                    let operands = [lhs.as_ptr(), rhs.as_ptr()].map(<*const f32>::cast);
                    let none = core::ptr::null_mut();
                    // SAFETY: the arrays are as large as the axes reach; nothing is kept, no
                    // scratch is used.
                    unsafe { product.run(operands, none, out.as_mut_ptr().cast(), none, &pool) };
                    for (at, &got) in out.iter().enumerate() {
                        let (t, i, j) =
                            (at / counts[2], at % counts[2] / n as usize, at % n as usize);
                        let left = if apart { t * counts[0] } else { 0 };
                        let terms = (0..k as usize).map(|d| {
                            lhs[left + i * k as usize + d] * rhs[t * counts[1] + d * n as usize + j]
                        });
                        let want = terms.sum::<f32>() + if adds { 1.0 } else { 0.0 };
                        assert!(
                            (got - want).abs() <= 1e-5 * want.abs().max(1.0),
                            "{m} {k} {n}"
                        );
                    }
                }
            }
        }
    }
}
