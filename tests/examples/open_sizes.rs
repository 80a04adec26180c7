//! Makes sizes of a static program open.
//!
//!     cargo run -p tegula-tests --example open_sizes -- gpt2_small_fwd.hlo 148:0 > open.hlo
//!
//! opens dimension 0 of input 148 (counted from 0) and every size that is the same.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else {
        eprintln!("usage: open_sizes PROGRAM INPUT:DIMENSION ...");
        return ExitCode::from(2);
    };
    let inputs: Option<Vec<(usize, usize)>> = arguments
        .map(|place| {
            let (input, dim) = place.split_once(':')?;
            Some((input.parse().ok()?, dim.parse().ok()?))
        })
        .collect();
    let Some(inputs) = inputs else {
        eprintln!("a place is INPUT:DIMENSION, such as 148:0");
        return ExitCode::from(2);
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("{path}: {error}");
            return ExitCode::from(2);
        }
    };
    match tegula_tests::opened::opened(&text, &inputs) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{path}: {error}");
            ExitCode::from(2)
        }
    }
}
