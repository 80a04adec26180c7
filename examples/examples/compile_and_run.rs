//! Compiles a program and runs it:
//!
//!     cargo run --release --example compile_and_run

use tegula::{Compiler, Error, Module, Target, Tensor};

const PROGRAM: &str = "HloModule distance
ENTRY main {
  p = f32[2] parameter(0)
  q = f32[2] parameter(1)
  d = f32[2] subtract(p, q)
  squared = f32[] dot(d, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT distance = f32[] sqrt(squared)
}";

fn distance(p: [f32; 2], q: [f32; 2]) -> Result<Option<f32>, Error> {
    let module: Module = PROGRAM.parse()?;
    let executable = Compiler::new(Target::Cpu).compile(&module)?;
    let p = Tensor::from_slice(&[2], &p)?;
    let q = Tensor::from_slice(&[2], &q)?;
    let results = executable.run([&p, &q])?;
    Ok(results[0]
        .as_slice::<f32>()
        .and_then(|d| d.first().copied()))
}

fn main() -> anyhow::Result<()> {
    let distance = distance([1.0, 1.0], [4.0, 5.0])?;
    println!("the distance is {distance:?}");
    Ok(())
}

#[test]
fn the_distance_is_five() {
    assert_eq!(distance([1.0, 1.0], [4.0, 5.0]).unwrap(), Some(5.0));
}
