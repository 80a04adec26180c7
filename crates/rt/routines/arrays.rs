//! The functions that programs call for operations on whole arrays: sorts, random bits,
//! factorisations, Fourier transforms.
//!
//! Each is given words that say what it does, data that it needs besides, and the addresses of its
//! operands and results. The documentation of `tegula_rt` says which words.

use crate::dense::{Cholesky, Complex, Lu, Number, Solve};
use crate::fourier::{self, Fourier};
use crate::generators::{philox_words, stored_bits, threefry_words};
use crate::sort::{KeyOrder, MAX_ARRAYS, Sort, SortCode, SortFn, SortKey};
use crate::top_k::TopK;
use crate::{CpuFeatures, ElementType, VectorWidth};

fn features(width: VectorWidth) -> CpuFeatures {
    CpuFeatures {
        width,
        ..CpuFeatures::default()
    }
}

fn named(index: i64) -> ElementType {
    let known = ElementType::ALL.get(index as usize);
    known.copied().unwrap_or(ElementType::F32)
}

/// Some of the words from a place on.
///
/// # Safety
/// There are so many.
unsafe fn words<'w, const N: usize>(words: *const i64) -> &'w [i64; N] {
    // SAFETY: the caller promises the words.
    unsafe { &*words.cast() }
}

/// # Safety
/// The words are a sort's.
unsafe fn sort<'w>(start: *const i64) -> (Sort<'w>, Option<KeyOrder>, &'w [usize]) {
    // SAFETY: the caller promises the words: what they are is listed there.
    unsafe {
        let &[length, inner, rows, count, key, descending, key_arrays] = words(start);
        let sizes = core::slice::from_raw_parts(start.add(7).cast::<usize>(), count as usize);
        let arrays = start.add(7 + count as usize).cast::<usize>();
        let arrays = core::slice::from_raw_parts(arrays, key_arrays as usize);
        let order = (key >= 0).then(|| KeyOrder::new(named(key), descending != 0));
        let sort = Sort {
            length: length as usize,
            stride: inner as usize,
            rows: rows as usize,
            sizes,
        };
        (sort, order, arrays)
    }
}

/// Sorts arrays together. The data are the addresses of the program's functions: whether one element goes
/// before another, and what computes keys, if there are any.
///
/// # Safety
/// The words, data, arrays and scratch memory are a sort's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tegula_rt_sort(
    words: *const i64,
    data: *const u8,
    inputs: *const *const u8,
    outputs: *const *mut u8,
    scratch: *mut u8,
) {
    // SAFETY: the caller promises a sort's words, functions, arrays and scratch memory.
    unsafe {
        let (sort, order, arrays) = sort(words);
        let count = sort.sizes.len().min(MAX_ARRAYS);
        let functions = data.cast::<SortFn>();
        let code = SortCode {
            comparator: functions.read(),
            key: order.map(|order| SortKey {
                function: functions.add(1).read(),
                arrays,
                order,
            }),
        };
        let inputs = core::slice::from_raw_parts(inputs, count);
        let outputs = core::slice::from_raw_parts(outputs, count);
        sort.run(inputs, outputs, &code, scratch);
    }
}

/// The bytes of scratch memory that a sort takes.
///
/// # Safety
/// The words are a sort's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tegula_rt_scratch_sort(words: *const i64) -> i64 {
    // SAFETY: the caller promises the words.
    let (sort, order, _) = unsafe { sort(words) };
    sort.scratch_bytes(order.map(|order| order.bytes)) as i64
}

/// # Safety
/// The words are a selection's.
unsafe fn top_k(start: *const i64, width: VectorWidth) -> (TopK, usize) {
    // SAFETY: the caller promises the words.
    let &[length, rows, k, largest, element_type] = unsafe { words(start) };
    let top = TopK {
        isa: features(width),
        element_type: named(element_type),
        length: length as usize,
        k: k as usize,
        largest: largest != 0,
    };
    (top, rows as usize)
}

/// # Safety
/// The words, arrays and scratch memory are a selection's.
#[inline(always)]
unsafe fn select(
    width: VectorWidth,
    words: *const i64,
    inputs: *const *const u8,
    outputs: *const *mut u8,
    scratch: *mut u8,
) {
    // SAFETY: the caller promises a selection's words, arrays and scratch memory.
    unsafe {
        let (top, rows) = top_k(words, width);
        let size = top.element_type.storage_bytes();
        let input = core::slice::from_raw_parts(inputs.read(), rows * top.length * size);
        let values = core::slice::from_raw_parts_mut(outputs.read(), rows * top.k * size);
        let places = outputs.add(1).read().cast::<i32>();
        let places = core::slice::from_raw_parts_mut(places, rows * top.k);
        top.run(input, values, places, scratch);
    }
}

/// The bytes of scratch memory that a selection takes.
///
/// # Safety
/// The words are a selection's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tegula_rt_scratch_top_k(words: *const i64) -> i64 {
    // SAFETY: the caller promises the words.
    let (top, _) = unsafe { top_k(words, VectorWidth::Portable) };
    top.scratch_bytes() as i64
}

macro_rules! of_width {
    ($($width:ident $top_k:ident;)*) => {$(
        /// Selects the first elements of rows.
        ///
        /// # Safety
        /// The words, arrays and scratch memory are a selection's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $top_k(
            words: *const i64,
            _data: *const u8,
            inputs: *const *const u8,
            outputs: *const *mut u8,
            scratch: *mut u8,
        ) {
            // SAFETY: the caller promises a selection's words, arrays and scratch memory.
            unsafe { select(VectorWidth::$width, words, inputs, outputs, scratch) };
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
of_width! {
    Portable tegula_rt_top_k_portable;
    Avx2 tegula_rt_top_k_avx2;
    Avx512 tegula_rt_top_k_avx512;
}

#[cfg(target_arch = "aarch64")]
of_width! {
    Neon tegula_rt_top_k_neon;
}

/// Random bits: of a state, the next one and an array.
///
/// # Safety
/// The words and arrays are a generator's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tegula_rt_random_bits(
    start: *const i64,
    _data: *const u8,
    inputs: *const *const u8,
    outputs: *const *mut u8,
    _scratch: *mut u8,
) {
    // SAFETY: the caller promises a generator's words and arrays: a state of at least two words, a next
    // one of as many, and an array of the sizes.
    unsafe {
        let &[three_fry, state_words, bits, is_signed, size, count] = words(start);
        let dims = core::slice::from_raw_parts(start.add(6).cast::<usize>(), count as usize);
        let (state_words, size) = (state_words as usize, size as usize);
        let out = outputs.add(1).read();
        let put = &mut |at: usize, word: u64| {
            let stored = stored_bits(word, bits as u32, is_signed != 0).to_le_bytes();
            let to = out.add(at * size);
            core::ptr::copy_nonoverlapping(stored.as_ptr(), to, size);
        };
        let state = outputs.read().cast::<u64>();
        core::ptr::copy_nonoverlapping(inputs.read(), state.cast(), 8 * state_words);
        let wide = bits == 64;
        match three_fry != 0 {
            true => threefry_words(&mut *state.cast(), dims, wide, put),
            false => {
                let state = core::slice::from_raw_parts_mut(state, state_words);
                philox_words(state, dims.iter().product(), wide, put);
            }
        }
    }
}

/// # Safety
/// The words are a factorisation's.
unsafe fn cholesky(start: *const i64) -> Cholesky {
    // SAFETY: the caller promises the words.
    let &[n, count, lower] = unsafe { words(start) };
    Cholesky {
        n: n as usize,
        count: count as usize,
        lower: lower != 0,
    }
}

/// # Safety
/// The words are a solve's.
unsafe fn solve(start: *const i64) -> Solve {
    // SAFETY: the caller promises the words.
    let &[rows, columns, count, flags] = unsafe { words(start) };
    let flag = |bit: i64| flags >> bit & 1 != 0;
    Solve {
        rows: rows as usize,
        columns: columns as usize,
        count: count as usize,
        left_side: flag(0),
        lower: flag(1),
        unit_diagonal: flag(2),
        transposed: flag(3),
        conjugated: flag(4),
    }
}

/// # Safety
/// The words are an elimination's.
unsafe fn lu(start: *const i64) -> Lu {
    // SAFETY: the caller promises the words.
    let &[rows, columns, count] = unsafe { words(start) };
    Lu {
        rows: rows as usize,
        columns: columns as usize,
        count: count as usize,
    }
}

/// # Safety
/// The words, arrays and scratch memory are an elimination's.
#[inline(always)]
unsafe fn eliminate<T: Number>(
    isa: CpuFeatures,
    words: *const i64,
    inputs: *const *const u8,
    outputs: *const *mut u8,
    scratch: *mut u8,
) {
    // SAFETY: the caller promises an elimination's words, arrays and scratch memory.
    unsafe {
        let lu = lu(words);
        let (matrices, elements) = (outputs.read().cast::<T>(), lu.rows * lu.columns * lu.count);
        core::ptr::copy_nonoverlapping(inputs.read().cast(), matrices, elements);
        let [pivots, permutations] = [1, 2].map(|n| outputs.add(n).read().cast());
        lu.run(isa, matrices, pivots, permutations, scratch);
    }
}

macro_rules! matrices {
    ($($width:ident $ty:ty, $cholesky:ident $solve:ident $lu:ident;)*) => {$(
        /// # Safety
        /// The words, arrays and scratch memory are a factorisation's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $cholesky(
            words: *const i64,
            _data: *const u8,
            inputs: *const *const u8,
            outputs: *const *mut u8,
            scratch: *mut u8,
        ) {
            // SAFETY: the caller promises a factorisation's words, arrays and scratch memory.
            unsafe {
                let isa = features(VectorWidth::$width);
                let (input, output) = (inputs.read().cast::<$ty>(), outputs.read().cast());
                cholesky(words).run(isa, input, output, scratch);
            }
        }

        /// # Safety
        /// The words, arrays and scratch memory are a solve's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $solve(
            words: *const i64,
            _data: *const u8,
            inputs: *const *const u8,
            outputs: *const *mut u8,
            scratch: *mut u8,
        ) {
            // SAFETY: the caller promises a solve's words, arrays and scratch memory.
            unsafe {
                let (solve, isa) = (solve(words), features(VectorWidth::$width));
                let (a, b) = (inputs.read().cast::<$ty>(), inputs.add(1).read().cast());
                let out = outputs.read().cast::<$ty>();
                core::ptr::copy_nonoverlapping(b, out, solve.rows * solve.columns * solve.count);
                solve.run(isa, a, out, scratch);
            }
        }

        /// # Safety
        /// The words, arrays and scratch memory are an elimination's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $lu(
            words: *const i64,
            _data: *const u8,
            inputs: *const *const u8,
            outputs: *const *mut u8,
            scratch: *mut u8,
        ) {
            // SAFETY: the caller promises an elimination's words, arrays and scratch memory.
            unsafe { eliminate::<$ty>(features(VectorWidth::$width), words, inputs, outputs, scratch) };
        }
    )*};
}

macro_rules! scratch_of_matrices {
    ($($ty:ty, $cholesky:ident $solve:ident $lu:ident;)*) => {$(
        /// The bytes of scratch memory that a factorisation takes.
        ///
        /// # Safety
        /// The words are a factorisation's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $cholesky(words: *const i64) -> i64 {
            // SAFETY: the caller promises the words.
            unsafe { cholesky(words) }.scratch_bytes::<$ty>() as i64
        }

        /// The bytes of scratch memory that a solve takes.
        ///
        /// # Safety
        /// The words are a solve's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $solve(words: *const i64) -> i64 {
            // SAFETY: the caller promises the words.
            unsafe { solve(words) }.scratch_bytes::<$ty>() as i64
        }

        /// The bytes of scratch memory that an elimination takes.
        ///
        /// # Safety
        /// The words are an elimination's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $lu(words: *const i64) -> i64 {
            // SAFETY: the caller promises the words.
            unsafe { lu(words) }.scratch_bytes::<$ty>() as i64
        }
    )*};
}

scratch_of_matrices! {
    f32, tegula_rt_scratch_cholesky_f32 tegula_rt_scratch_solve_f32 tegula_rt_scratch_lu_f32;
    f64, tegula_rt_scratch_cholesky_f64 tegula_rt_scratch_solve_f64 tegula_rt_scratch_lu_f64;
    Complex<f32>, tegula_rt_scratch_cholesky_c64 tegula_rt_scratch_solve_c64 tegula_rt_scratch_lu_c64;
    Complex<f64>, tegula_rt_scratch_cholesky_c128 tegula_rt_scratch_solve_c128 tegula_rt_scratch_lu_c128;
}

/// # Safety
/// The words are a transform's, behind how many there are and how many numbers.
#[inline(always)]
unsafe fn plan<'p, T: fourier::Real>(start: *const i64, data: *const u8) -> Fourier<'p, T> {
    // SAFETY: the caller promises the words and numbers.
    unsafe {
        let &[count, numbers] = words(start);
        let own = core::slice::from_raw_parts(start.add(2), count as usize);
        let numbers = core::slice::from_raw_parts(data.cast::<T>(), numbers as usize);
        Fourier::new(own, numbers)
    }
}

macro_rules! scratch_of_transforms {
    ($($ty:ty, $name:ident;)*) => {$(
        /// The bytes of scratch memory that a transform takes.
        ///
        /// # Safety
        /// The words are a transform's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(words: *const i64) -> i64 {
            // SAFETY: the caller promises the words; no number is read.
            unsafe {
                let &[count, _] = self::words(words);
                let own = core::slice::from_raw_parts(words.add(2), count as usize);
                Fourier::<$ty>::new(own, &[]).scratch_bytes() as i64
            }
        }
    )*};
}

scratch_of_transforms! {
    f32, tegula_rt_scratch_fft_f32;
    f64, tegula_rt_scratch_fft_f64;
}

macro_rules! transforms {
    ($($width:ident $ty:ty, $name:ident;)*) => {$(
        /// # Safety
        /// The words, numbers, arrays and scratch memory are a transform's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            words: *const i64,
            data: *const u8,
            inputs: *const *const u8,
            outputs: *const *mut u8,
            scratch: *mut u8,
        ) {
            // SAFETY: the caller promises a transform's words, numbers, arrays and scratch memory.
            unsafe {
                let plan = plan::<$ty>(words, data);
                let (input, output) = (inputs.read().cast(), outputs.read().cast());
                plan.run(features(VectorWidth::$width), input, output, scratch.cast());
            }
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
matrices! {
    Portable f32, tegula_rt_cholesky_portable_f32 tegula_rt_solve_portable_f32 tegula_rt_lu_portable_f32;
    Portable f64, tegula_rt_cholesky_portable_f64 tegula_rt_solve_portable_f64 tegula_rt_lu_portable_f64;
    Portable Complex<f32>, tegula_rt_cholesky_portable_c64 tegula_rt_solve_portable_c64 tegula_rt_lu_portable_c64;
    Portable Complex<f64>, tegula_rt_cholesky_portable_c128 tegula_rt_solve_portable_c128 tegula_rt_lu_portable_c128;
    Avx2 f32, tegula_rt_cholesky_avx2_f32 tegula_rt_solve_avx2_f32 tegula_rt_lu_avx2_f32;
    Avx2 f64, tegula_rt_cholesky_avx2_f64 tegula_rt_solve_avx2_f64 tegula_rt_lu_avx2_f64;
    Avx2 Complex<f32>, tegula_rt_cholesky_avx2_c64 tegula_rt_solve_avx2_c64 tegula_rt_lu_avx2_c64;
    Avx2 Complex<f64>, tegula_rt_cholesky_avx2_c128 tegula_rt_solve_avx2_c128 tegula_rt_lu_avx2_c128;
    Avx512 f32, tegula_rt_cholesky_avx512_f32 tegula_rt_solve_avx512_f32 tegula_rt_lu_avx512_f32;
    Avx512 f64, tegula_rt_cholesky_avx512_f64 tegula_rt_solve_avx512_f64 tegula_rt_lu_avx512_f64;
}

#[cfg(target_arch = "aarch64")]
matrices! {
    Neon f32, tegula_rt_cholesky_neon_f32 tegula_rt_solve_neon_f32 tegula_rt_lu_neon_f32;
    Neon f64, tegula_rt_cholesky_neon_f64 tegula_rt_solve_neon_f64 tegula_rt_lu_neon_f64;
    Neon Complex<f32>, tegula_rt_cholesky_neon_c64 tegula_rt_solve_neon_c64 tegula_rt_lu_neon_c64;
    Neon Complex<f64>, tegula_rt_cholesky_neon_c128 tegula_rt_solve_neon_c128 tegula_rt_lu_neon_c128;
}

#[cfg(target_arch = "x86_64")]
transforms! {
    Portable f32, tegula_rt_fft_portable_f32;
    Portable f64, tegula_rt_fft_portable_f64;
    Avx2 f32, tegula_rt_fft_avx2_f32;
    Avx2 f64, tegula_rt_fft_avx2_f64;
    Avx512 f32, tegula_rt_fft_avx512_f32;
    Avx512 f64, tegula_rt_fft_avx512_f64;
}

#[cfg(target_arch = "aarch64")]
transforms! {
    Neon f32, tegula_rt_fft_neon_f32;
    Neon f64, tegula_rt_fft_neon_f64;
}
