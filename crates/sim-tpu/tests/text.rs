//! Kernels as text: what reads, prints and what is refused.

use tegula_sim_tpu::{PrintForm, print_kernel, read_kernel};

const SCALE: &str = include_str!("kernels/clean/double_buffered_scale.kernel");

/// Reads, prints, reads again and prints: the printed text is a fixed point.
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
    assert!(settles(SCALE).contains("start x[0 +: 128, :] -> a[0, :, :], in[0]"));
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
        "wait zb_sem[zb_slot]",
    ] {
        assert!(expanded.contains(part), "{part}\n{expanded}");
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
