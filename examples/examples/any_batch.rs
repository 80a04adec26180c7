//! Compiles a program whose batch is open once, and runs it at three sizes:
//!
//!     cargo run --release --example any_batch

use tegula::{Compiler, Error, Executable, Module, Target, Tensor};

/// Softmax over rows; `?` is the number of rows, known when the program runs.
const PROGRAM: &str = "HloModule softmax
larger {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY main {
  x = f32[?,10] parameter(0)
  lowest = f32[] constant(-inf)
  most = f32[?] reduce(x, lowest), dimensions={1}, to_apply=larger
  mosts = f32[?,10] broadcast(most), dimensions={0}
  shifted = f32[?,10] subtract(x, mosts)
  e = f32[?,10] exponential(shifted)
  zero = f32[] constant(0)
  total = f32[?] reduce(e, zero), dimensions={1}, to_apply=sum
  totals = f32[?,10] broadcast(total), dimensions={0}
  ROOT y = f32[?,10] divide(e, totals)
}";

/// The sum of all probabilities of a batch: the number of its rows.
fn total(executable: &Executable, rows: usize) -> Result<f32, Error> {
    let numbers: Vec<f32> = (0..rows * 10).map(|i| (i % 7) as f32).collect();
    let x = Tensor::from_slice(&[rows as i64, 10], &numbers)?;
    let results = executable.run([&x])?;
    Ok(results[0]
        .as_slice::<f32>()
        .unwrap_or_default()
        .iter()
        .sum())
}

fn compiled() -> Result<Executable, Error> {
    let module: Module = PROGRAM.parse()?;
    Compiler::new(Target::Cpu).compile(&module)
}

fn main() -> anyhow::Result<()> {
    let executable = compiled()?;
    println!("compiled once, in {:.2?}", executable.compile_time);
    for rows in [1, 7, 64] {
        println!("{rows} rows sum to {:.3}", total(&executable, rows)?);
    }
    Ok(())
}

#[test]
fn rows_sum_to_one_each() {
    let executable = compiled().unwrap();
    for rows in [0, 1, 7, 64] {
        let total = total(&executable, rows).unwrap();
        assert!(
            (total - rows as f32).abs() < 1e-4,
            "{rows} rows sum to {total}"
        );
    }
}
