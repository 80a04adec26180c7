//! Reads and verifies a program many times and prints the fastest time of each step.

use std::time::{Duration, Instant};
use tegula_ir::{PrintStyle, parse_module, print_module, verify};

fn fastest<T>(mut work: impl FnMut() -> T) -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..200 {
        let start = Instant::now();
        std::hint::black_box(work());
        best = best.min(start.elapsed());
    }
    best
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&path)?;
        let module = parse_module(&text)?;
        let read = fastest(|| parse_module(&text));
        let check = fastest(|| verify(&module));
        let print = fastest(|| print_module(&module, PrintStyle::Canonical));
        let count = module.instructions.len();
        println!("{path}: {count} instructions, read {read:?}, verify {check:?}, print {print:?}");
    }
    Ok(())
}
