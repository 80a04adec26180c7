//! One row times a matrix beside a loop that does nothing but read the matrix: minima of
//! interleaved runs on one thread. The loop has the vectors that Rust makes of it by itself, so
//! products may be faster than it; docs/performance.md has a loop of the widest ones too.
//!
//!     cargo bench -p tegula-tests --bench matrix_vector [DEPTHxCOLUMNS ...]

use anyhow::{Context, Result};
use std::hint::black_box;
use std::time::{Duration, Instant};
use tegula::{Arg, Buffer, Options, Target, compile, read};
use tegula_ir::{ArrayShape, ElementType, Literal};

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
        let (depth, columns) = size.split_once('x').context("a size is DEPTHxCOLUMNS")?;
        measure(depth.parse()?, columns.parse()?)?;
    }
    Ok(())
}

fn measure(depth: i64, columns: i64) -> Result<()> {
    let text = format!(
        "HloModule row
ENTRY main {{
  a = f32[1,{depth}] parameter(0)
  b = f32[{depth},{columns}] parameter(1)
  ROOT c = f32[1,{columns}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"
    );
    let options = Options {
        target: Target::Cpu,
        threads: 1,
        ..Options::default()
    };
    let executable = compile(&read(&text)?, &options)?;
    // Pages of zeros that were never written are one page.
    let numbers = |dims: [i64; 2]| {
        let bytes = vec![0x3f_u8; (dims[0] * dims[1] * 4) as usize];
        Literal::from_bytes(&ArrayShape::new(ElementType::F32, &dims), &bytes)
    };
    let (row, matrix) = (numbers([1, depth])?, numbers([depth, columns])?);
    let inputs = [Buffer::from(row), Buffer::from(matrix.clone())];
    let (mut product, mut reading) = (Duration::MAX, Duration::MAX);
    let begin = Instant::now();
    while begin.elapsed() < TIME {
        let start = Instant::now();
        let results = executable.run(inputs.iter().map(Arg::Borrowed).collect())?;
        product = product.min(start.elapsed());
        drop(results);
        let start = Instant::now();
        black_box(read_all(black_box(matrix.bytes())));
        reading = reading.min(start.elapsed());
    }
    let rate = |time: Duration| matrix.bytes().len() as f64 / time.as_secs_f64() / 1e9;
    println!(
        "1x{depth}x{columns}: {:.1} us, {:.1} GB/s; reading alone {:.1} us, {:.1} GB/s: {:.0} %",
        product.as_secs_f64() * 1e6,
        rate(product),
        reading.as_secs_f64() * 1e6,
        rate(reading),
        100.0 * reading.as_secs_f64() / product.as_secs_f64()
    );
    Ok(())
}

/// Reads every byte, 32 numbers at a time that do not wait for one another.
fn read_all(bytes: &[u8]) -> u64 {
    let mut sums = [0u64; 32];
    for chunk in bytes.as_chunks::<256>().0 {
        for (sum, word) in sums.iter_mut().zip(chunk.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
        }
    }
    sums.iter().fold(0, |a, &b| a.wrapping_add(b))
}
