//! Which offsets are proved to be aligned, and which must not be.

use tegula_sim_tpu::{Code, Options, read_kernel, simulate};
use tegula_target::Chip;

/// The numbers of offsets in a body's copies whose alignment was proved and not proved.
fn proofs(body: &str) -> (usize, usize) {
    let text = format!(
        "kernel k {{
  hbm x : f32[4096,128] = parameter(0)
  smem t : s32[8]
  vmem a : f32[8,128]
  sem s
  t[:] = broadcast(3), dimensions={{}}
  let n = load(t[0])
  assume n in [0, 100]
  let m = load(t[1])
{body}
}}"
    );
    let program = read_kernel(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let chip = Chip::by_name("v5e").expect("a chip");
    let report = simulate(&program, &chip, &Options::default());
    let report = report.unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(
        report.alignment.failed > 0,
        report.count(Code::Alignment) > 0
    );
    (report.alignment.proved, report.alignment.failed)
}

fn copy(offset: &str) -> String {
    format!("start x[{offset} +: 8, :] -> a[:, :], s\nwait s")
}

#[test]
fn multiples_are_proved() {
    for (offset, before) in [
        ("8 * n", ""),
        ("16 * n + 24", ""),
        ("8 * k", "let k = n + 1"),
        ("k - 4", "let k = 8 * n + 4"),
        ("n floordiv 8 * 8", ""),
        ("n - n mod 8", ""),
        ("max(8 * n, 16)", ""),
        ("select(n < 4, 8, 16)", ""),
        ("8 * (n * n)", ""),
        ("8 * max(m, 0)", ""),
    ] {
        assert_eq!(
            proofs(&format!("{before}\n{}", copy(offset))),
            (1, 0),
            "{offset}"
        );
    }
    // Small domains are checked point by point.
    let inner = copy("4 * i * (i + 1)");
    assert_eq!(proofs(&format!("for i in 0..8 {{\n{inner}\n}}")), (1, 0));
    // A condition that leads to the copy.
    let inner = copy("4 * i");
    assert_eq!(
        proofs(&format!(
            "for i in 0..8 {{ if i mod 2 == 0 {{\n{inner}\n}} }}"
        )),
        (1, 0)
    );
    assert_eq!(
        proofs(&format!(
            "for i in 0..8 {{ if i mod 2 == 1 {{ }} else {{\n{inner}\n}} }}"
        )),
        (1, 0)
    );
}

#[test]
fn others_are_not() {
    for (offset, before) in [
        ("n", ""),
        ("4 * n", ""),
        ("8 * n + 4", ""),
        ("k", "let k = n floordiv 8"),
        ("n mod 8", ""),
        ("max(m, 0)", ""),
    ] {
        assert_eq!(
            proofs(&format!("{before}\n{}", copy(offset))),
            (0, 1),
            "{offset}"
        );
    }
    let inner = copy("4 * i");
    assert_eq!(
        proofs(&format!(
            "for i in 0..8 {{ if i mod 2 != 0 {{ }}\n{inner}\n}}"
        )),
        (0, 1)
    );
}

/// Facts about a variable are forgotten where it is set again.
#[test]
fn variables_that_change_are_not_what_they_were() {
    let next = copy("8 * c");
    let body = format!("let c = 0\nfor i in 0..4 {{\n{next}\nset c = c + 1\n}}");
    assert_eq!(proofs(&body), (1, 0));
    for body in [
        format!(
            "let c = 0\nfor i in 0..4 {{\nset c = c + 4\n{}\n}}",
            copy("c")
        ),
        format!("let c = 0\nif c == 0 {{\nset c = 4\n{}\n}}", copy("c")),
        format!("let c = 0\nlet k = c\nset c = c + 4\n{}", copy("8 + c - k")),
        format!("let c = 8\nassume c in [8, 8]\nset c = 12\n{}", copy("c")),
        format!("for i in 0..3 {{\nset i = i * 4\n{}\n}}", copy("8 * i + i")),
    ] {
        assert_eq!(proofs(&body).1, 1, "{body}");
    }
}
