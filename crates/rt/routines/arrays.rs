//! The functions that programs call for operations on whole arrays: sorts, random bits,
//! factorisations, Fourier transforms.
//!
//! Each is given words that describe the operation, additional data, and the addresses of its
//! operands and results. The documentation of `tegula_rt` lists the words.

use crate::dense::{Cholesky, Complex, Lu, Number, Solve, TridiagonalSolve};
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

/// The arguments of a routine.
#[derive(Clone, Copy)]
struct Arguments {
    words: *const i64,
    data: *const u8,
    inputs: *const *const u8,
    outputs: *const *mut u8,
    scratch: *mut u8,
}

/// Exports routines for some vector widths.
macro_rules! routines {
    ($($width:ident $name:ident = $run:expr;)*) => {$(
        /// # Safety
        /// The words and the data are those that the documentation of `tegula_rt` lists for this
        /// routine; the arrays have the sizes in the words, and the scratch memory has the bytes
        /// that the routine's scratch function returns.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            words: *const i64,
            data: *const u8,
            inputs: *const *const u8,
            outputs: *const *mut u8,
            scratch: *mut u8,
        ) {
            let arguments = Arguments {
                words,
                data,
                inputs,
                outputs,
                scratch,
            };
            // SAFETY: the caller promises what the routine asks for.
            unsafe { $run(features(VectorWidth::$width), arguments) };
        }
    )*};
}

/// Exports functions that return the bytes of scratch memory of routines.
macro_rules! scratch {
    ($($name:ident = $bytes:expr;)*) => {$(
        /// # Safety
        /// The words are those that the routine of this name is called with.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(words: *const i64) -> i64 {
            // SAFETY: the caller promises the words.
            let bytes: usize = unsafe { $bytes(words) };
            bytes as i64
        }
    )*};
}

/// `N` words from an address on.
///
/// # Safety
/// This many words can be read.
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

/// Sorts arrays together. The data are the addresses of the program's functions: the comparator,
/// and the function that computes keys, if there is one.
///
/// # Safety
/// The arguments are a sort's.
#[inline(always)]
unsafe fn run_sort(_: CpuFeatures, arguments: Arguments) {
    // SAFETY: the caller promises a sort's words, functions, arrays and scratch memory.
    unsafe {
        let (sort, order, arrays) = sort(arguments.words);
        let count = sort.sizes.len().min(MAX_ARRAYS);
        let functions = arguments.data.cast::<SortFn>();
        let code = SortCode {
            comparator: functions.read(),
            key: order.map(|order| SortKey {
                function: functions.add(1).read(),
                arrays,
                order,
            }),
        };
        let inputs = core::slice::from_raw_parts(arguments.inputs, count);
        let outputs = core::slice::from_raw_parts(arguments.outputs, count);
        sort.run(inputs, outputs, &code, arguments.scratch);
    }
}

/// # Safety
/// The words are a sort's.
unsafe fn sort_scratch(words: *const i64) -> usize {
    // SAFETY: the caller promises the words.
    let (sort, order, _) = unsafe { sort(words) };
    sort.scratch_bytes(order.map(|order| order.bytes))
}

/// # Safety
/// The words are a selection's.
unsafe fn top_k(start: *const i64, isa: CpuFeatures) -> TopK {
    // SAFETY: the caller promises the words.
    let &[length, rows, k, largest, element_type] = unsafe { words(start) };
    TopK {
        isa,
        element_type: named(element_type),
        rows: rows as usize,
        length: length as usize,
        k: k as usize,
        largest: largest != 0,
    }
}

/// Selects the first elements of rows.
///
/// # Safety
/// The arguments are a selection's.
#[inline(always)]
unsafe fn run_top_k(isa: CpuFeatures, arguments: Arguments) {
    // SAFETY: the caller promises a selection's words, arrays and scratch memory.
    unsafe {
        let top = top_k(arguments.words, isa);
        let size = top.element_type.storage_bytes();
        let (all, selected) = (top.rows * top.length, top.rows * top.k);
        let input = core::slice::from_raw_parts(arguments.inputs.read(), all * size);
        let values = arguments.outputs.read();
        let values = core::slice::from_raw_parts_mut(values, selected * size);
        let places = arguments.outputs.add(1).read().cast::<i32>();
        let places = core::slice::from_raw_parts_mut(places, selected);
        top.run(input, values, places, arguments.scratch);
    }
}

/// # Safety
/// The words are a selection's.
unsafe fn top_k_scratch(words: *const i64) -> usize {
    // SAFETY: the caller promises the words.
    unsafe { top_k(words, CpuFeatures::default()) }.scratch_bytes()
}

/// Generates random bits: computes the next state and an array from a state.
///
/// # Safety
/// The arguments are a generator's.
#[inline(always)]
unsafe fn run_random_bits(_: CpuFeatures, arguments: Arguments) {
    // SAFETY: the caller promises a generator's words and arrays: a state of at least two words, a
    // next state of the same size, and an array of the given sizes.
    unsafe {
        let start = arguments.words;
        let &[three_fry, state_words, bits, is_signed, size, count] = words(start);
        let dims = core::slice::from_raw_parts(start.add(6).cast::<usize>(), count as usize);
        let (state_words, size) = (state_words as usize, size as usize);
        let out = arguments.outputs.add(1).read();
        let put = &mut |at: usize, word: u64| {
            let stored = stored_bits(word, bits as u32, is_signed != 0).to_le_bytes();
            let to = out.add(at * size);
            core::ptr::copy_nonoverlapping(stored.as_ptr(), to, size);
        };
        let state = arguments.outputs.read().cast::<u64>();
        let given = arguments.inputs.read();
        core::ptr::copy_nonoverlapping(given, state.cast(), 8 * state_words);
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
/// The arguments are a factorisation's.
#[inline(always)]
unsafe fn run_cholesky<T: Number>(isa: CpuFeatures, arguments: Arguments) {
    // SAFETY: the caller promises a factorisation's words, arrays and scratch memory.
    unsafe {
        let input = arguments.inputs.read().cast::<T>();
        let output = arguments.outputs.read().cast();
        cholesky(arguments.words).run(isa, input, output, arguments.scratch);
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
/// The arguments are a solve's.
#[inline(always)]
unsafe fn run_solve<T: Number>(isa: CpuFeatures, arguments: Arguments) {
    // SAFETY: the caller promises a solve's words, arrays and scratch memory.
    unsafe {
        let solve = solve(arguments.words);
        let [a, b] = [0, 1].map(|n| arguments.inputs.add(n).read().cast::<T>());
        let out = arguments.outputs.read().cast::<T>();
        core::ptr::copy_nonoverlapping(b, out, solve.rows * solve.columns * solve.count);
        solve.run(isa, a, out, arguments.scratch);
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
/// The arguments are an elimination's.
#[inline(always)]
unsafe fn run_lu<T: Number>(isa: CpuFeatures, arguments: Arguments) {
    // SAFETY: the caller promises an elimination's words, arrays and scratch memory.
    unsafe {
        let lu = lu(arguments.words);
        let (given, matrices) = (
            arguments.inputs.read(),
            arguments.outputs.read().cast::<T>(),
        );
        core::ptr::copy_nonoverlapping(given.cast(), matrices, lu.rows * lu.columns * lu.count);
        let [pivots, permutations] = [1, 2].map(|n| arguments.outputs.add(n).read().cast());
        lu.run(isa, matrices, pivots, permutations, arguments.scratch);
    }
}

/// # Safety
/// The arguments are a transform's: the numbers of the plan's words and numbers, then these words.
#[inline(always)]
unsafe fn run_transform<T: fourier::Real>(isa: CpuFeatures, arguments: Arguments) {
    // SAFETY: the caller promises a transform's words, numbers, arrays and scratch memory.
    unsafe {
        let &[count, numbers] = words(arguments.words);
        let own = core::slice::from_raw_parts(arguments.words.add(2), count as usize);
        let numbers = core::slice::from_raw_parts(arguments.data.cast::<T>(), numbers as usize);
        let (input, output) = (arguments.inputs.read(), arguments.outputs.read());
        let transform = Fourier::new(own, numbers);
        transform.run(isa, input.cast(), output.cast(), arguments.scratch.cast());
    }
}

/// # Safety
/// The words are a transform's.
unsafe fn transform_scratch<T: fourier::Real>(start: *const i64) -> usize {
    // SAFETY: the caller promises the words; no number is read.
    unsafe {
        let &[count, _] = words(start);
        let own = core::slice::from_raw_parts(start.add(2), count as usize);
        Fourier::<T>::new(own, &[]).scratch_bytes()
    }
}

/// # Safety
/// The arguments are those of systems.
#[inline(always)]
unsafe fn run_tridiagonal_solve<T: Number>(_: CpuFeatures, arguments: Arguments) {
    // SAFETY: the caller promises systems' words and arrays.
    unsafe {
        let &[rows, columns, count] = words(arguments.words);
        let systems = TridiagonalSolve {
            rows: rows as usize,
            columns: columns as usize,
            count: count as usize,
        };
        let numbers = [0, 1, 2, 3];
        let given = numbers.map(|n| arguments.inputs.add(n).read().cast::<T>());
        let gives = numbers.map(|n| arguments.outputs.add(n).read().cast::<T>());
        systems.run(given, gives, arguments.outputs.add(4).read().cast());
    }
}

routines! {
    Portable tegula_rt_sort = run_sort;
    Portable tegula_rt_random_bits = run_random_bits;
    Portable tegula_rt_tridiagonal_solve_f32 = run_tridiagonal_solve::<f32>;
    Portable tegula_rt_tridiagonal_solve_f64 = run_tridiagonal_solve::<f64>;
    Portable tegula_rt_tridiagonal_solve_c64 = run_tridiagonal_solve::<Complex<f32>>;
    Portable tegula_rt_tridiagonal_solve_c128 = run_tridiagonal_solve::<Complex<f64>>;
}

scratch! {
    tegula_rt_scratch_sort = sort_scratch;
    tegula_rt_scratch_top_k = top_k_scratch;
    tegula_rt_scratch_fft_f32 = transform_scratch::<f32>;
    tegula_rt_scratch_fft_f64 = transform_scratch::<f64>;
    tegula_rt_scratch_cholesky_f32 = |words| cholesky(words).scratch_bytes::<f32>();
    tegula_rt_scratch_cholesky_f64 = |words| cholesky(words).scratch_bytes::<f64>();
    tegula_rt_scratch_cholesky_c64 = |words| cholesky(words).scratch_bytes::<Complex<f32>>();
    tegula_rt_scratch_cholesky_c128 = |words| cholesky(words).scratch_bytes::<Complex<f64>>();
    tegula_rt_scratch_solve_f32 = |words| solve(words).scratch_bytes::<f32>();
    tegula_rt_scratch_solve_f64 = |words| solve(words).scratch_bytes::<f64>();
    tegula_rt_scratch_solve_c64 = |words| solve(words).scratch_bytes::<Complex<f32>>();
    tegula_rt_scratch_solve_c128 = |words| solve(words).scratch_bytes::<Complex<f64>>();
    tegula_rt_scratch_lu_f32 = |words| lu(words).scratch_bytes::<f32>();
    tegula_rt_scratch_lu_f64 = |words| lu(words).scratch_bytes::<f64>();
    tegula_rt_scratch_lu_c64 = |words| lu(words).scratch_bytes::<Complex<f32>>();
    tegula_rt_scratch_lu_c128 = |words| lu(words).scratch_bytes::<Complex<f64>>();
}

#[cfg(target_arch = "x86_64")]
routines! {
    Portable tegula_rt_top_k_portable = run_top_k;
    Portable tegula_rt_fft_portable_f32 = run_transform::<f32>;
    Portable tegula_rt_fft_portable_f64 = run_transform::<f64>;
    Portable tegula_rt_cholesky_portable_f32 = run_cholesky::<f32>;
    Portable tegula_rt_cholesky_portable_f64 = run_cholesky::<f64>;
    Portable tegula_rt_cholesky_portable_c64 = run_cholesky::<Complex<f32>>;
    Portable tegula_rt_cholesky_portable_c128 = run_cholesky::<Complex<f64>>;
    Portable tegula_rt_solve_portable_f32 = run_solve::<f32>;
    Portable tegula_rt_solve_portable_f64 = run_solve::<f64>;
    Portable tegula_rt_solve_portable_c64 = run_solve::<Complex<f32>>;
    Portable tegula_rt_solve_portable_c128 = run_solve::<Complex<f64>>;
    Portable tegula_rt_lu_portable_f32 = run_lu::<f32>;
    Portable tegula_rt_lu_portable_f64 = run_lu::<f64>;
    Portable tegula_rt_lu_portable_c64 = run_lu::<Complex<f32>>;
    Portable tegula_rt_lu_portable_c128 = run_lu::<Complex<f64>>;
    Avx2 tegula_rt_top_k_avx2 = run_top_k;
    Avx2 tegula_rt_fft_avx2_f32 = run_transform::<f32>;
    Avx2 tegula_rt_fft_avx2_f64 = run_transform::<f64>;
    Avx2 tegula_rt_cholesky_avx2_f32 = run_cholesky::<f32>;
    Avx2 tegula_rt_cholesky_avx2_f64 = run_cholesky::<f64>;
    Avx2 tegula_rt_cholesky_avx2_c64 = run_cholesky::<Complex<f32>>;
    Avx2 tegula_rt_cholesky_avx2_c128 = run_cholesky::<Complex<f64>>;
    Avx2 tegula_rt_solve_avx2_f32 = run_solve::<f32>;
    Avx2 tegula_rt_solve_avx2_f64 = run_solve::<f64>;
    Avx2 tegula_rt_solve_avx2_c64 = run_solve::<Complex<f32>>;
    Avx2 tegula_rt_solve_avx2_c128 = run_solve::<Complex<f64>>;
    Avx2 tegula_rt_lu_avx2_f32 = run_lu::<f32>;
    Avx2 tegula_rt_lu_avx2_f64 = run_lu::<f64>;
    Avx2 tegula_rt_lu_avx2_c64 = run_lu::<Complex<f32>>;
    Avx2 tegula_rt_lu_avx2_c128 = run_lu::<Complex<f64>>;
    Avx512 tegula_rt_top_k_avx512 = run_top_k;
    Avx512 tegula_rt_fft_avx512_f32 = run_transform::<f32>;
    Avx512 tegula_rt_fft_avx512_f64 = run_transform::<f64>;
    Avx512 tegula_rt_cholesky_avx512_f32 = run_cholesky::<f32>;
    Avx512 tegula_rt_cholesky_avx512_f64 = run_cholesky::<f64>;
    Avx512 tegula_rt_solve_avx512_f32 = run_solve::<f32>;
    Avx512 tegula_rt_solve_avx512_f64 = run_solve::<f64>;
    Avx512 tegula_rt_lu_avx512_f32 = run_lu::<f32>;
    Avx512 tegula_rt_lu_avx512_f64 = run_lu::<f64>;
}

#[cfg(target_arch = "aarch64")]
routines! {
    Neon tegula_rt_top_k_neon = run_top_k;
    Neon tegula_rt_fft_neon_f32 = run_transform::<f32>;
    Neon tegula_rt_fft_neon_f64 = run_transform::<f64>;
    Neon tegula_rt_cholesky_neon_f32 = run_cholesky::<f32>;
    Neon tegula_rt_cholesky_neon_f64 = run_cholesky::<f64>;
    Neon tegula_rt_cholesky_neon_c64 = run_cholesky::<Complex<f32>>;
    Neon tegula_rt_cholesky_neon_c128 = run_cholesky::<Complex<f64>>;
    Neon tegula_rt_solve_neon_f32 = run_solve::<f32>;
    Neon tegula_rt_solve_neon_f64 = run_solve::<f64>;
    Neon tegula_rt_solve_neon_c64 = run_solve::<Complex<f32>>;
    Neon tegula_rt_solve_neon_c128 = run_solve::<Complex<f64>>;
    Neon tegula_rt_lu_neon_f32 = run_lu::<f32>;
    Neon tegula_rt_lu_neon_f64 = run_lu::<f64>;
    Neon tegula_rt_lu_neon_c64 = run_lu::<Complex<f32>>;
    Neon tegula_rt_lu_neon_c128 = run_lu::<Complex<f64>>;
}
