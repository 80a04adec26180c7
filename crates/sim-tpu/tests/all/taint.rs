//! How padding is followed through computations: operations that mix it with other elements,
//! operations that mask it, and operations that leave it where it is not used.

use tegula_ir::{ArrayShape, ElementType, Literal};
use tegula_sim_tpu::{Code, Options, Report, read_kernel, simulate};
use tegula_target::Chip;

/// The findings of a kernel whose block has 28 rows and 28 lanes of padding: 36 rows of 100 lanes
/// in blocks of 64 by 128.
fn codes(body: &str) -> Vec<(&'static str, u32)> {
    let text = format!(
        "kernel k {{
  hbm x : f32[36,100] = parameter(0)
  hbm y : f32[36,100] = result(0)
  vmem n : s32[64,128]
  vmem p : pred[64,128]
  vmem q : pred[64,128]
  vmem t : f32[64,128]
  vmem u : f32[128,64]
  vmem r : f32[64]
  vmem l : f32[128]
  vmem c : f32[64,64]
  grid i in 0..1 {{
    window xb = x block (64, 128) at (i, 0)
    window out yb = y block (64, 128) at (i, 0)
{body}
  }}
}}"
    );
    report(&text)
        .findings
        .iter()
        .map(|f| (f.code.name(), f.line))
        .collect()
}

/// Runs a kernel on zeros.
fn report(text: &str) -> Report {
    let program = read_kernel(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let shape = ArrayShape::new(ElementType::F32, &[36, 100]);
    let options = Options {
        functional: true,
        inputs: vec![Literal::zeros(&shape).expect("it fits")],
        ..Options::default()
    };
    let chip = Chip::by_name("v5e").expect("a chip");
    simulate(&program, &chip, &options).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

const TAINT: &str = Code::Padding.name();
/// The line at which the body begins.
const BODY: u32 = 15;

#[test]
fn elementwise_work_keeps_padding_where_it_is() {
    assert_eq!(codes("yb[:, :] = multiply(xb[:, :], 2.0)"), []);
    assert_eq!(
        codes("t[:, :] = exponential(xb[:, :])\nyb[:, :] = add(t[:, :], xb[:, :])"),
        []
    );
}

#[test]
fn sums_along_padded_dimensions_mix() {
    let sum = "r[:] = reduce(xb[:, :], 0.0), dimensions={1}, to_apply=add";
    let store = "yb[:, :] = broadcast(r[:]), dimensions={0}";
    let found = codes(&format!("{sum}\n{store}"));
    assert!(found.contains(&(TAINT, BODY)), "{found:?}");
    let sum = "l[:] = reduce(xb[:, :], 0.0), dimensions={0}, to_apply=add";
    let store = "yb[:, :] = broadcast(l[:]), dimensions={1}";
    let found = codes(&format!("{sum}\n{store}"));
    assert!(found.contains(&(TAINT, BODY)), "{found:?}");
}

#[test]
fn a_masked_sum_is_clean() {
    let body = "n[:, :] = iota(), iota_dimension=1
p[:, :] = compare(n[:, :], 100), direction=LT
t[:, :] = select(p[:, :], xb[:, :], 0.0)
r[:] = reduce(t[:, :], 0.0), dimensions={1}, to_apply=add
yb[:, :] = broadcast(r[:]), dimensions={0}";
    assert_eq!(codes(body), []);
    // The mask includes one lane of padding.
    let found = codes(&body.replace("100", "101"));
    assert!(found.contains(&(TAINT, BODY + 3)), "{found:?}");
}

#[test]
fn masks_are_combined_by_what_decides() {
    let body = "n[:, :] = iota(), iota_dimension=1
p[:, :] = compare(n[:, :], 100), direction=LT
q[:, :] = compare(xb[:, :], 0.0), direction=GT
q[:, :] = and(p[:, :], q[:, :])
t[:, :] = select(q[:, :], xb[:, :], 0.0)
r[:] = reduce(t[:, :], 0.0), dimensions={1}, to_apply=add
yb[:, :] = broadcast(r[:]), dimensions={0}";
    assert_eq!(codes(body), []);
    let found = codes(&body.replace("and(", "or("));
    assert!(found.contains(&(TAINT, BODY + 5)), "{found:?}");
}

#[test]
fn products_mix_along_what_they_contract() {
    // Rows of padding stay rows of padding; lanes are contracted.
    let body =
        "c[:, :] = dot(xb[:, :], xb[:, :]), lhs_contracting_dims={1}, rhs_contracting_dims={1}
yb[:, 0 +: 64] = copy(c[:, :])
yb[:, 64 +: 64] = copy(c[:, :])";
    let found = codes(body);
    assert!(found.contains(&(TAINT, BODY)), "{found:?}");
    let masked = format!(
        "n[:, :] = iota(), iota_dimension=1
p[:, :] = compare(n[:, :], 100), direction=LT
t[:, :] = select(p[:, :], xb[:, :], 0.0)\n{}",
        body.replace("dot(xb[:, :], xb[:, :])", "dot(t[:, :], t[:, :])")
    );
    // The remaining findings are about columns of padding, which come from the other operand's
    // rows.
    let found = codes(&masked);
    assert!(!found.contains(&(TAINT, BODY + 3)), "{found:?}");
    assert!(found.iter().all(|(code, _)| *code == TAINT), "{found:?}");
}

#[test]
fn what_moves_padding_into_the_array_is_seen_when_it_is_stored() {
    let stored = 14;
    for body in [
        "yb[:, :] = reverse(xb[:, :]), dimensions={1}",
        "u[:, :] = transpose(xb[:, :]), dimensions={1,0}\nyb[:, 0 +: 64] = copy(u[64 +: 64, :])\nyb[:, 64 +: 64] = copy(u[64 +: 64, :])",
        "t[:, :] = copy(xb[:, :])\nyb[:, 0 +: 64] = copy(t[:, 64 +: 64])\nyb[:, 64 +: 64] = copy(t[:, 0 +: 64])",
        "t[:, :] = pad(xb[0 +: 64, 8 +: 120], 0.0), padding=0_0x0_8\nyb[:, :] = copy(t[:, :])",
        "t[0 +: 32, :] = copy(xb[32 +: 32, :])\nt[32 +: 32, :] = copy(xb[0 +: 32, :])\nyb[:, :] = copy(t[:, :])",
    ] {
        assert_eq!(codes(body), [(TAINT, stored)], "{body}");
    }
}

#[test]
fn writing_over_padding_ends_it() {
    let body = "t[:, :] = copy(xb[:, :])
t[:, 100 +: 28] = broadcast(0.0), dimensions={}
r[:] = reduce(t[:, :], 0.0), dimensions={1}, to_apply=add
yb[:, :] = broadcast(r[:]), dimensions={0}";
    assert_eq!(codes(body), []);
}

#[test]
fn padding_is_followed_into_computations() {
    let text = "t[:, :] = call(xb[:, :]), to_apply=total
yb[:, :] = copy(t[:, :])";
    let computation = "computation total {
      a = f32[64,128] parameter(0)
      z = f32[] constant(0)
      s = f32[64] reduce(a, z), dimensions={1}, to_apply=plus
      ROOT b = f32[64,128] broadcast(s), dimensions={0}
    }";
    // The computation has to stand before the windows, which the helper's fixed head does not
    // allow.
    let program = format!(
        "kernel k {{
  computation plus {{ a = f32[] parameter(0)
    b = f32[] parameter(1)
    ROOT r = f32[] add(a, b) }}
  {computation}
  hbm x : f32[36,100] = parameter(0)
  hbm y : f32[36,100] = result(0)
  vmem t : f32[64,128]
  grid i in 0..1 {{
    window xb = x block (64, 128) at (i, 0)
    window out yb = y block (64, 128) at (i, 0)
{text}
  }}
}}"
    );
    let report = report(&program);
    assert!(report.count(Code::Padding) > 0, "{:?}", report.findings);
    assert!(report.findings[0].message.contains("reduce") || report.findings.len() > 1);
}
