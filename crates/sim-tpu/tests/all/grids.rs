//! Random grids: whatever their windows' blocks, a grid computes what its points compute one after
//! the other, without a finding, and fetches only the blocks that it needs.

use crate::common::{Random, random};
use tegula_expr::{Var, parse};
use tegula_ir::{ArrayShape, ElementType};
use tegula_sim_tpu::{Options, read_kernel, simulate};
use tegula_target::Chip;

/// Block indices as terms over the point; they are at most 5 for dimensions of at most 3.
const INDICES: &[&str] = &[
    "0",
    "i",
    "j",
    "k",
    "i + j",
    "j + k",
    "i mod 2",
    "k floordiv 2",
    "2 - i",
    "max(i, k)",
    "(i + j + k) mod 3",
    "min(j, 1) + k",
    "i * j mod 5",
];

#[test]
fn grids_compute_what_their_points_say() {
    let mut dice = Random(11);
    let chip = Chip::by_name("v5e").expect("a chip");
    for _ in 0..300 {
        let sizes = [0, 1, 2].map(|_| 1 + dice.below(3) as i64);
        let lows = [0, 1, 2].map(|d| if d == 0 { 0 } else { dice.below(2) as i64 });
        let (index, other) = (
            INDICES[dice.below(INDICES.len())],
            INDICES[dice.below(INDICES.len())],
        );
        let buffers = [0, 1, 2].map(|_| 1 + dice.below(3));
        let ends = [0, 1, 2].map(|d| lows[d] + sizes[d]);
        // Variables begin at the grid's lower bounds; the terms use them shifted to begin at 0.
        let shift = |text: &str| {
            let with = |name: &str, d: usize, text: &str| {
                text.split(name)
                    .collect::<Vec<_>>()
                    .join(&format!("({name}{name} - {})", lows[d]))
            };
            // Names are single letters, so operators are replaced first and restored afterwards.
            let text = text
                .replace("mod", "%")
                .replace("floordiv", "/")
                .replace("min", "<")
                .replace("max", ">");
            let text = with("k", 2, &with("j", 1, &with("i", 0, &text)));
            text.replace('%', "mod")
                .replace('/', "floordiv")
                .replace('<', "min")
                .replace('>', "max")
        };
        let text = format!(
            "kernel points {{
  hbm x : f32[60,128] = parameter(0)
  hbm z : f32[60,128] = parameter(1)
  hbm y : f32[{},128] = result(0)
  grid ii in {}..{}, jj in {}..{}, kk in {}..{} {{
    window xb = x block (8, 128) at ({}, 0) buffers {}
    window zb = z block (8, 128) at ({}, 0) buffers {}
    window out yb = y block (8, 128) at ((ii - {}) * {} + jj - {}, 0) buffers {}
    if kk == {} {{ yb[:, :] = broadcast(0.0), dimensions={{}} }}
    yb[:, :] += subtract(xb[:, :], zb[:, :])
  }}
}}",
            8 * sizes[0] * sizes[1],
            lows[0],
            ends[0],
            lows[1],
            ends[1],
            lows[2],
            ends[2],
            shift(index),
            buffers[0],
            shift(other),
            buffers[1],
            lows[0],
            sizes[1],
            lows[1],
            buffers[2],
            lows[2],
        );
        let program = read_kernel(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let shape = ArrayShape::new(ElementType::F32, &[60, 128]);
        let inputs = vec![random(&shape, 1), random(&shape, 2)];
        let floats =
            |i: usize| -> Vec<f32> { inputs[i].scalars().map(|s| s.to_f64() as f32).collect() };
        let (x, z) = (floats(0), floats(1));
        let options = Options {
            functional: true,
            inputs: inputs.clone(),
            ..Options::default()
        };
        let report =
            simulate(&program, &chip, &options).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert!(report.is_clean(), "{:#?}\n{text}", report.findings);
        let names = |name: &str| {
            ["i", "j", "k"]
                .iter()
                .position(|n| *n == name)
                .map(|n| Var(n as u32))
        };
        let terms = [index, other].map(|t| parse(t, &names).expect("a term"));
        let mut expected = vec![0f32; (8 * sizes[0] * sizes[1] * 128) as usize];
        let mut last = [-1, -1];
        let mut copies = 0;
        for i in 0..sizes[0] {
            for j in 0..sizes[1] {
                for k in 0..sizes[2] {
                    let point = [i, j, k];
                    let env = |var: Var| point.get(var.0 as usize).copied();
                    let at = [0, 1].map(|t| terms[t].eval(&env).expect("a value"));
                    copies += (0..2).filter(|&t| at[t] != last[t]).count() as u64;
                    last = at;
                    let out = ((i * sizes[1] + j) * 8 * 128) as usize;
                    for e in 0..8 * 128 {
                        let from = |t: usize| (at[t] * 8 * 128) as usize + e;
                        let value = |v: &[f32], at: usize| v.get(at).copied().unwrap_or(0.0);
                        expected[out + e] += value(&x, from(0)) - value(&z, from(1));
                    }
                }
            }
        }
        copies += (sizes[0] * sizes[1]) as u64;
        assert_eq!(report.copies, copies, "{text}");
        let found: Vec<f32> = report.results[0]
            .scalars()
            .map(|s| s.to_f64() as f32)
            .collect();
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn an_empty_grid_does_nothing() {
    let text = "kernel none {
  hbm n : s32[1] = parameter(0)
  hbm x : f32[64,128] = parameter(1)
  hbm y : f32[64,128] = result(0)
  vmem a : f32[64,128]
  smem t : s32[1]
  sem s
  start n[:] -> t[:], s
  wait s
  let count = load(t[0])
  assume count in [0, 8]
  start x[:, :] -> a[:, :], s
  wait s
  start a[:, :] -> y[:, :], s
  wait s
  grid i in 0..count {
    window xb = x block (8, 128) at (i, 0)
    window out yb = y block (8, 128) at (i, 0)
    yb[:, :] = negate(xb[:, :])
  }
}";
    let program = read_kernel(text).expect("a kernel");
    let chip = Chip::by_name("v5e").expect("a chip");
    for (count, copies) in [("0", 3), ("1", 5), ("8", 19)] {
        let inputs = crate::common::inputs(&program, &format!("// input 0: {count}\n"));
        let options = Options {
            functional: true,
            inputs,
            ..Options::default()
        };
        let report = simulate(&program, &chip, &options).expect("it runs");
        assert_eq!(report.findings, [], "{count}");
        assert_eq!(report.copies, copies, "{count}");
    }
}

#[test]
fn windows_follow_the_point_alone() {
    let text = "kernel k {
  hbm x : f32[64,128] = parameter(0)
  let n = 0
  grid i in 0..4 {
    window xb = x block (8, 128) at (i + n, 0)
    set n = n + 1
  }
}";
    let program = read_kernel(text).expect("a kernel");
    let chip = Chip::by_name("v5e").expect("a chip");
    let error = simulate(&program, &chip, &Options::default()).expect_err("it cannot be fetched");
    assert!(error.to_string().starts_with("line 6: a window"), "{error}");
}
