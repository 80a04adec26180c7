//! One row times a matrix beside a loop that does nothing but read the matrix: minima of
//! interleaved runs on one thread. The loop has the widest vectors that the CPU has.
//!
//!     cargo bench -p tegula-tests --bench matrix_vector [DEPTHxCOLUMNS ...]
//!
//! `t` behind the size: the matrix is given transposed; `bf16` or `f16` behind that: its type.

use anyhow::{Context, Result};
use std::hint::black_box;
use std::time::{Duration, Instant};
use tegula::{Options, Target, Tensor, compile};
use tegula_ir::{ArrayShape, ElementType, Literal};
use tegula_tests::read;

/// How long each size is measured.
const TIME: Duration = Duration::from_secs(3);
const SIZES: [&str; 3] = ["768x3072", "3072x768", "4096x4096"];

fn main() -> Result<()> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let given: Vec<&str> = given.iter().map(|s| &**s).collect();
    let sizes: Vec<&str> = given.into_iter().filter(|a| !a.starts_with('-')).collect();
    let sizes = if sizes.is_empty() {
        SIZES.to_vec()
    } else {
        sizes
    };
    for size in sizes {
        measure(size)?;
    }
    Ok(())
}

/// Measures a product as it is given on the command line.
fn measure(given: &str) -> Result<()> {
    let (size, element) = match given {
        _ if let Some(size) = given.strip_suffix("bf16") => (size, ElementType::BF16),
        _ if let Some(size) = given.strip_suffix("f16") => (size, ElementType::F16),
        _ => (given, ElementType::F32),
    };
    let (size, transposed) = match size.strip_suffix('t') {
        Some(size) => (size, true),
        None => (size, false),
    };
    let (depth, columns) = size.split_once('x').context("a size is DEPTHxCOLUMNS")?;
    let (depth, columns): (i64, i64) = (depth.parse()?, columns.parse()?);
    let (dims, contracted) = match transposed {
        true => ([columns, depth], 1),
        false => ([depth, columns], 0),
    };
    let name = element.name();
    let text = format!(
        "HloModule row
ENTRY main {{
  a = {name}[1,{depth}] parameter(0)
  b = {name}[{},{}] parameter(1)
  ROOT c = {name}[1,{columns}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{contracted}}}
}}
",
        dims[0], dims[1]
    );
    let options = Options {
        target: Target::Cpu,
        threads: 1,
        ..Options::default()
    };
    let executable = compile(&read(&text)?, &options)?;
    // Pages of zeros that were never written are one page.
    let numbers = |dims: [i64; 2]| {
        let bytes = vec![0x3f_u8; dims[0] as usize * dims[1] as usize * element.storage_bytes()];
        Literal::from_bytes(&ArrayShape::new(element, &dims), &bytes)
    };
    let (row, matrix) = (numbers([1, depth])?, numbers(dims)?);
    let inputs = [Tensor::from(row), Tensor::from(matrix.clone())];
    let (mut product, mut reading) = (Duration::MAX, Duration::MAX);
    let begin = Instant::now();
    while begin.elapsed() < TIME {
        let start = Instant::now();
        let results = executable.run(inputs.iter())?;
        product = product.min(start.elapsed());
        drop(results);
        let start = Instant::now();
        black_box(read_all(black_box(matrix.bytes())));
        reading = reading.min(start.elapsed());
    }
    let rate = |time: Duration| matrix.bytes().len() as f64 / time.as_secs_f64() / 1e9;
    println!(
        "1x{given}: {:.1} us, {:.1} GB/s; reading alone {:.1} us, {:.1} GB/s: {:.0} %",
        product.as_secs_f64() * 1e6,
        rate(product),
        reading.as_secs_f64() * 1e6,
        rate(reading),
        100.0 * reading.as_secs_f64() / product.as_secs_f64()
    );
    Ok(())
}

/// Reads every byte, with the widest vectors that there are.
fn read_all(bytes: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the CPU has AVX-512.
        return unsafe { read_avx512(bytes) };
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has AVX2.
        return unsafe { read_avx2(bytes) };
    }
    read_words(bytes)
}

/// Adds up 512 bytes at a time, whose sums do not wait for one another.
#[inline(always)]
fn read_words(bytes: &[u8]) -> u64 {
    let mut sums = [0u64; 64];
    for chunk in bytes.as_chunks::<512>().0 {
        for (sum, word) in sums.iter_mut().zip(chunk.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
        }
    }
    sums.iter().fold(0, |a, &b| a.wrapping_add(b))
}

/// # Safety
/// The CPU has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn read_avx2(bytes: &[u8]) -> u64 {
    read_words(bytes)
}

/// # Safety
/// The CPU has AVX-512 F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn read_avx512(bytes: &[u8]) -> u64 {
    use std::arch::x86_64::*;
    // Left to itself, the compiler prefers vectors of 256 bits.
    let mut sums = [_mm512_setzero_si512(); 8];
    for chunk in bytes.as_chunks::<512>().0 {
        for (sum, line) in sums.iter_mut().zip(chunk.as_chunks::<64>().0) {
            // SAFETY: a line has as many bytes as a vector.
            let line = unsafe { _mm512_loadu_si512(line.as_ptr().cast()) };
            *sum = _mm512_add_epi64(*sum, line);
        }
    }
    let total = sums.into_iter().reduce(|a, b| _mm512_add_epi64(a, b));
    total.map_or(0, |total| _mm512_reduce_add_epi64(total).cast_unsigned())
}
