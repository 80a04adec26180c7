//! Gives a custom call its meaning, and runs a program that uses it:
//!
//!     cargo run --release --example custom_call

use tegula::{Arg, Buffer, Literal, Options, compile, read, register_custom_call};

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
fn rows(ids: &Literal) -> Result<Vec<u8>, String> {
    let ids = ids.as_i32s().ok_or("the numbers of rows are s32")?;
    let mut bytes = Vec::with_capacity(ids.len() * 8);
    for &id in ids {
        let row = usize::try_from(id).ok().and_then(|id| TABLE.get(id));
        let row = row.ok_or_else(|| format!("there is no row {id}"))?;
        bytes.extend(row.iter().flat_map(|x| x.to_ne_bytes()));
    }
    Ok(bytes)
}

fn look_up(ids: &[i32]) -> anyhow::Result<Vec<f32>> {
    let executable = compile(&read(PROGRAM)?, &Options::default())?;
    let ids = Buffer::from_i32s(&[ids.len() as i64], ids)?;
    let scale = Buffer::from_f32s(&[], &[10.0])?;
    let results = executable.run(vec![Arg::Borrowed(&ids), Arg::Borrowed(&scale)])?;
    Ok(results[0].as_f32s().unwrap_or_default().to_vec())
}

/// Once in a process, before a program that uses it is compiled.
fn register() -> anyhow::Result<()> {
    Ok(register_custom_call(
        "table",
        |_call, operands, results| {
            // The shapes of the results have the sizes of the run.
            let rows = Literal::from_bytes(&results[0], &rows(&operands[0])?);
            Ok(vec![rows.map_err(|error| error.to_string())?])
        },
    )?)
}

fn main() -> anyhow::Result<()> {
    register()?;
    println!("{:?}", look_up(&[2, 0])?);
    Ok(())
}

#[test]
fn rows_are_found_and_missing_ones_are_errors() {
    register().unwrap();
    assert_eq!(look_up(&[2, 0]).unwrap(), [47.0, 57.0, 5.0, 15.0]);
    assert!(look_up(&[]).unwrap().is_empty());
    let error = look_up(&[3]).unwrap_err().to_string();
    assert!(
        error.contains("table") && error.contains("no row 3"),
        "{error}"
    );
}
