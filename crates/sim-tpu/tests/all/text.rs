//! Kernels as text: parsing, printing, and texts that are rejected.

use tegula_sim_tpu::{PrintForm, print_kernel, read_kernel};

const SCALE: &str = include_str!("../kernels/clean/double_buffered_scale.kernel");

/// Parses, prints, parses and prints again: the printed text is a fixed point.
fn settles(text: &str) -> String {
    let program = read_kernel(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    for form in [PrintForm::Short, PrintForm::Expanded] {
        let printed = print_kernel(&program, form);
        let again = read_kernel(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
        assert_eq!(print_kernel(&again, form), printed);
    }
    print_kernel(&program, PrintForm::Expanded)
}

#[test]
fn the_reference_example() {
    assert!(settles(SCALE).contains("dma_start x[0 +: 128, :] -> a[0, :, :], in[0]"));
}

#[test]
fn a_grid() {
    let text = "kernel matmul {
  computation body { a = f32[128,128] parameter(0)
    b = f32[128,128] parameter(1)
    ROOT m = f32[128,128] maximum(a, b) }
  hbm x : f32[256,512] = parameter(0)
  hbm y : f32[512,384] = parameter(1)
  hbm z : f32[256,384] = result(0)
  grid parallel i in 0..2, j in 0..3, k in 0..4 {
    window xb = x block (128,128) at (i, k) buffers 2;
    window yb = y block (128,128) at (k, j)
    window out zb = z block (128,128) at (i, j) buffers 2
    if k == 0 { zb[:, :] = broadcast(0.0), dimensions={} }
    zb[:, :] += dot(xb[:, :], yb[:, :]), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    zb[0 +: 8, :] = multiply(zb[0 +: 8, :], 2.0); zb[:, :] = call(zb[:,:], zb[:,:]), to_apply=body
  }
}";
    let expanded = settles(text);
    for part in [
        "for k in 0..4 {",
        "if xb_next == 1 {",
        "dma_wait zb_sem[zb_slot]",
    ] {
        assert!(expanded.contains(part), "{part}\n{expanded}");
    }
}

/// A scalar that is loaded inside a term gets a generated name and a statement before the term's.
#[test]
fn loads_inside_terms() {
    let text = "kernel pages {
  hbm  x : f32[64,128] = parameter(0)
  hbm  y : f32[8,128] = result(0)
  smem t : s32[4]
  vmem a : f32[8,128]
  sem  s
  assume t in [0, 7]
  for load_0 in 0..load(t[0]) + 1 {
    if load(t[1]) < load(t[load(t[2]) mod 4]) {
      start x[8*load(t[load_0 mod 4]) +: 8, :] -> a[:, :], s; wait s
    }
  }
  let last = load(t[3])
  while { } last < load(t[3]) { set last = load(t[2]) }
  start a[:, :] -> y[:, :], s
  wait s
}";
    let printed = settles(text);
    let parts = [
        "let load_0 = load(t[0])\n  assume load_0 in [0, 7]\n  for load_0 in 0..load_0 + 1 {",
        "    let load_2 = load(t[2])\n    assume load_2 in [0, 7]\n    let load_3 = load(t[load_2 mod 4])",
        "dma_start x[load_4 * 8 +: 8, :] -> a[:, :], s",
        "  let last = load(t[3])\n  assume last in [0, 7]\n",
        "    let load_5 = load(t[3])\n    assume load_5 in [0, 7]\n  } last < load_5 {",
        "    let load_6 = load(t[2])\n    assume load_6 in [0, 7]\n    set last = load_6",
    ];
    for part in parts {
        assert!(printed.contains(part), "{part}\n{printed}");
    }
}

#[test]
fn loads_that_are_refused() {
    let kernel = |body: &str| {
        format!(
            "kernel k {{\n hbm x : f32[64,128] = parameter(0)\n smem t : s32[4]\n vmem v : s32[4]\n{body}\n}}"
        )
    };
    let nested = format!(
        "let n = 1 + {}0{}",
        "load(t[".repeat(100_000),
        "])".repeat(100_000)
    );
    for (body, part) in [
        ("let n = 1 + load(v[0])", "array of integers in SMEM"),
        ("let n = 1 + load(t[0]", "expected"),
        ("let n = load(t[0]) load(t[1])", "expected an operator"),
        ("let m = 3\n assume t in [0, m]", "expected numbers"),
        (
            "grid i in 0..4 { window w = x block (8,128) at (load(t[i]), 0) }",
            "cannot depend",
        ),
        (&nested, "nested more than"),
    ] {
        let error = read_kernel(&kernel(body)).expect_err(part).to_string();
        assert!(error.contains(part), "{part}\n{error}");
    }
}

#[test]
fn a_loop_with_a_condition() {
    let text = "kernel count {
  hbm x : s32[] = parameter(0)
  smem n : s32[]
  sem done
  while {
    start x[] -> n[], done
    wait done
    let left = load(n[])
  } left > 0 {
    if left == 1 { signal done, 1; await done, 1 }
  }
}";
    let printed = settles(text);
    assert!(printed.contains("} 0 < left {"), "{printed}");
}
