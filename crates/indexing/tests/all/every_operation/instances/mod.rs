//! Random instances of operations.

mod control;
mod elementwise;
mod library;
mod movement;
mod offsets;
mod windows;

pub(crate) use control::control;
pub(crate) use elementwise::elementwise;
pub(crate) use library::library;
pub(crate) use movement::movement;
pub(crate) use offsets::with_offsets;
pub(crate) use windows::contraction;

use crate::common::Random;

fn shape(ty: &str, sizes: &[i64]) -> String {
    let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    format!("{ty}[{}]", sizes.join(","))
}

fn list(numbers: &[i64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    numbers.join(",")
}

fn random_sizes(random: &mut Random, rank: i64, most: i64) -> Vec<i64> {
    (0..rank).map(|_| random.range(1, most)).collect()
}
