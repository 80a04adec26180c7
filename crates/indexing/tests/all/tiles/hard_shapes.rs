//! Tests that maps and tiles of high ranks and hard shapes, with given and symbolic sizes, take
//! bounded time. docs/limits.md states the bound asserted here.

use std::time::{Duration, Instant};

use crate::common::Random;
use tegula_indexing::tiles::Tiling;
use tegula_indexing::{Simplifier, fusion_input_to_output};
use tegula_ir::{InstructionId, Module, parse_module};

/// The maximum time per fusion in the test profile, on a machine with other load.
const BOUND: Duration = Duration::from_secs(5);

/// Derives maps in both directions, tiles of several sizes, and symbolic ones; returns how long
/// that took.
fn timed(name: &str, text: &str) -> Duration {
    let module = parse_module(text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
    let root = module.entry_computation().root;
    let start = Instant::now();
    let exact = all_of(&module, root, name);
    let backward = start.elapsed();
    let start = Instant::now();
    let forward = fusion_input_to_output(&module, root, 0, &mut Simplifier::new());
    let known = forward.iter().filter(|own| own.maps.is_ok()).count();
    let forward = start.elapsed();
    println!(
        "{name}: back with tiles {backward:?}, forth {forward:?} ({known} known); exact {exact:?}"
    );
    assert!(
        backward < BOUND && forward < BOUND,
        "{name}: {backward:?}, {forward:?}"
    );
    backward.max(forward)
}

/// The numbers of exact tiles and of all tiles, for given and for symbolic sizes.
fn all_of(module: &Module, root: InstructionId, name: &str) -> [(usize, usize); 2] {
    let tiling = Tiling::of(module, root, 0, &mut Simplifier::new())
        .unwrap_or_else(|unknown| panic!("{name}: {}", unknown.cause));
    let spaces = [
        tiling.space.with_minor_sizes(&[2, 4, 8]),
        tiling.space.clone(),
    ];
    spaces.map(|space| {
        let operands = tiling.operands(&space);
        let tiles: Vec<_> = operands
            .iter()
            .flat_map(|own| own.tiles.as_ref().expect("tiles"))
            .collect();
        let exact = tiles.iter().filter(|tile| tile.is_exact()).count();
        (exact, tiles.len())
    })
}

fn list(numbers: &[i64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    numbers.join(",")
}

/// A fusion of these lines over parameters `p0`, ...; `r` is the last value.
fn fusion(parameters: &[Vec<i64>], body: &str, result: &[i64]) -> String {
    let inner: String = parameters
        .iter()
        .enumerate()
        .map(|(n, dims)| format!("  p{n} = f32[{}] parameter({n})\n", list(dims)))
        .collect();
    let names: Vec<String> = (0..parameters.len()).map(|n| format!("p{n}")).collect();
    format!(
        "HloModule m\nadd {{\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT s = f32[] add(x, y)\n}}\n\
         fused {{\n{inner}  zero = f32[] constant(0)\n{body}}}\n\
         ENTRY e {{\n{inner}  ROOT f = f32[{}] fusion({}), kind=kLoop, calls=fused\n}}\n",
        list(result),
        names.join(", ")
    )
}

/// Arrays of `rank` bits are transposed and read as matrices again and again, as in tensor networks
/// of qubits.
fn tensor_network(rank: usize, steps: usize) -> String {
    let mut random = Random(rank as u64);
    let bits = vec![2i64; rank];
    let half = 1i64 << (rank / 2);
    let matrix = [half, (1i64 << rank) / half];
    let mut body = format!("  v0 = f32[{}] reshape(p0)\n", list(&bits));
    for step in 0..steps {
        let order = random.permutation(rank);
        body += &format!(
            "  t{step} = f32[{}] transpose(v{step}), dimensions={{{}}}\n",
            list(&bits),
            list(&order)
        );
        body += &format!("  m{step} = f32[{}] reshape(t{step})\n", list(&matrix));
        body += &format!("  v{} = f32[{}] reshape(m{step})\n", step + 1, list(&bits));
    }
    body += &format!("  ROOT r = f32[{}] negate(v{steps})\n", list(&bits));
    fusion(&[matrix.to_vec()], &body, &bits)
}

#[test]
fn tensor_networks_of_rank_16_to_24() {
    for rank in [16, 18, 20, 22, 24] {
        timed(
            &format!("tensor network of rank {rank}"),
            &tensor_network(rank, 6),
        );
    }
}

#[test]
fn contractions_of_high_rank() {
    // Two arrays of rank 16 that share 8 dimensions.
    let contracted = list(&(8..16).collect::<Vec<i64>>());
    let first = list(&(0..8).collect::<Vec<i64>>());
    let bits = vec![2i64; 16];
    let body = format!(
        "  ROOT r = f32[{}] dot(p0, p1), lhs_contracting_dims={{{contracted}}}, rhs_contracting_dims={{{first}}}\n",
        list(&bits)
    );
    timed(
        "dot over 8 of 16 dimensions",
        &fusion(&[bits.clone(), bits.clone()], &body, &bits),
    );
}

#[test]
fn reshapes_m_to_n() {
    for (name, from, to) in [
        ("primes", vec![2, 3, 5, 7, 11, 13], vec![13, 11, 7, 5, 3, 2]),
        (
            "powers of two and three",
            vec![6, 6, 6, 6, 6, 6],
            vec![8, 27, 8, 27],
        ),
        ("one by one", vec![4; 10], vec![2; 20]),
        ("no common boundary", vec![12, 10, 14], vec![15, 16, 7]),
        (
            "rank 12 to rank 11",
            vec![3, 4, 5, 2, 6, 7, 2, 3, 2, 2, 5, 3],
            vec![5, 6, 4, 7, 9, 2, 4, 5, 2, 3, 2],
        ),
    ] {
        let count = |dims: &[i64]| dims.iter().product::<i64>();
        let mut to = to;
        // Remaining factors go into a last dimension.
        if count(&to) != count(&from) && count(&from) % count(&to) == 0 {
            to.push(count(&from) / count(&to));
        }
        if count(&to) != count(&from) {
            to = vec![count(&from) / 6, 6];
        }
        let mut body = String::new();
        let mut last = "p0".to_owned();
        for step in 0..6 {
            let dims = if step % 2 == 0 { &to } else { &from };
            let root = if step == 5 { "ROOT " } else { "" };
            // A reversal in between keeps the reshapes from cancelling.
            body += &format!("  v{step} = f32[{}] reshape({last})\n", list(dims));
            body += &format!(
                "  {root}w{step} = f32[{}] reverse(v{step}), dimensions={{0}}\n",
                list(dims)
            );
            last = format!("w{step}");
        }
        timed(
            &format!("reshapes, {name}"),
            &fusion(std::slice::from_ref(&from), &body, &from),
        );
    }
}

#[test]
fn concatenations_of_100() {
    let parts: Vec<Vec<i64>> = (0..100).map(|n| vec![16, 3 + n % 5]).collect();
    let width: i64 = parts.iter().map(|dims| dims[1]).sum();
    let names: Vec<String> = (0..100).map(|n| format!("p{n}")).collect();
    let body = format!(
        "  c = f32[16,{width}] concatenate({}), dimensions={{1}}\n  t = f32[{width},16] transpose(c), dimensions={{1,0}}\n  ROOT r = f32[{}] reshape(t)\n",
        names.join(", "),
        16 * width
    );
    timed(
        "a concatenation of 100",
        &fusion(&parts, &body, &[16 * width]),
    );
    // Of one array, in turn with its reverse.
    let body: String = (0..100)
        .map(|n| {
            let op = if n % 2 == 0 {
                "negate(p0)".to_owned()
            } else {
                "reverse(p0), dimensions={0}".to_owned()
            };
            format!("  q{n} = f32[7] {op}\n")
        })
        .collect();
    let names: Vec<String> = (0..60).map(|n| format!("q{n}")).collect();
    let body = format!(
        "{body}  ROOT c = f32[420] concatenate({}), dimensions={{0}}\n",
        names.join(", ")
    );
    timed(
        "one array, concatenated 60 times",
        &fusion(&[vec![7]], &body, &[420]),
    );
}

#[test]
fn windows_with_both_dilations() {
    let dims = [64, 64];
    let window = "window={size=5x5 stride=1x2 pad=4_4x3_3 lhs_dilate=2x3 rhs_dilate=3x2}";
    let out = |n: i64, stride: i64, pad: i64, base: i64, dilation: i64| {
        ((n - 1) * base + 1 + 2 * pad - ((5 - 1) * dilation + 1)) / stride + 1
    };
    let first = [out(64, 1, 4, 2, 3), out(64, 2, 3, 3, 2)];
    let second = [out(first[0], 1, 4, 2, 3), out(first[1], 2, 3, 3, 2)];
    let body = format!(
        "  w = f32[{}] reduce-window(p0, zero), {window}, to_apply=add\n  ROOT r = f32[{}] reduce-window(w, zero), {window}, to_apply=add\n",
        list(&first),
        list(&second)
    );
    timed(
        "two windows with both dilations",
        &fusion(&[dims.to_vec()], &body, &second),
    );
}
