//! Gives a custom call its meaning, and runs a program that uses it:
//!
//!     cargo run --release --example custom_call

use tegula::{BoxError, Compiler, Module, Target, Tensor};

/// The rows of a table by number, kept outside of the program.
const PROGRAM: &str = "HloModule lookup
ENTRY main {
  ids = s32[?] parameter(0)
  scale = f32[] parameter(1)
  rows = f32[?,2] custom-call(ids), custom_call_target=\"table\"
  rows_of_ids = s32[?,2] broadcast(ids), dimensions={0}
  numbers = f32[?,2] convert(rows_of_ids)
  scales = f32[?,2] broadcast(scale), dimensions={}
  scaled = f32[?,2] multiply(rows, scales)
  ROOT r = f32[?,2] add(scaled, numbers)
}";

const TABLE: [[f32; 2]; 3] = [[0.5, 1.5], [2.5, 3.5], [4.5, 5.5]];

/// The handler of `table`. An error that it gives is the run's.
fn rows(ids: &Tensor) -> Result<Tensor, BoxError> {
    let ids = ids.as_slice::<i32>().ok_or("the numbers of rows are s32")?;
    let mut rows: Vec<f32> = Vec::with_capacity(ids.len() * 2);
    for &id in ids {
        let row = usize::try_from(id).ok().and_then(|id| TABLE.get(id));
        rows.extend(row.ok_or_else(|| format!("there is no row {id}"))?);
    }
    Ok(Tensor::from_slice(&[ids.len() as i64, 2], &rows)?)
}

fn look_up(ids: &[i32]) -> anyhow::Result<Vec<f32>> {
    let module: Module = PROGRAM.parse()?;
    let compiler = Compiler::new(Target::Cpu).custom_call("table", |_call, inputs, _results| {
        Ok(vec![rows(&inputs[0])?])
    });
    let executable = compiler.compile(&module)?;
    let ids = Tensor::from_slice(&[ids.len() as i64], ids)?;
    let results = executable.run([&ids, &Tensor::scalar(10.0_f32)])?;
    Ok(results[0].as_slice::<f32>().unwrap_or_default().to_vec())
}

fn main() -> anyhow::Result<()> {
    println!("{:?}", look_up(&[2, 0])?);
    Ok(())
}

#[test]
fn rows_are_found_and_missing_ones_are_errors() {
    assert_eq!(look_up(&[2, 0]).unwrap(), [47.0, 57.0, 5.0, 15.0]);
    assert!(look_up(&[]).unwrap().is_empty());
    let error = look_up(&[3]).unwrap_err().to_string();
    assert!(
        error.contains("table") && error.contains("no row 3"),
        "{error}"
    );
}
