//! Texts that are not valid plans: what the parser reports, and where.

use tegula_plan::parse_plan;

/// A plan with these declarations and steps inserted.
fn with(declarations: &str, steps: &str) -> String {
    format!(
        "plan \"t\" arena 64 {{\nb0 = parameter 0 bytes 16\nb1 = output 0 bytes 16\n\
         x0 = f32[4] in b0\nx1 = f32[4] in b1\n{declarations}\n\
         parameters(x0)\nresults(x1)\n{steps}\n}}\n"
    )
}

/// A plan with this kernel body, which starts on line 6 of the text.
fn kernel(body: &str) -> String {
    let text = "k0 = kernel(read f32[4], write f32[4]) {\n  for i0 < 4\n";
    with(&format!("{text}{body}\n}}"), "run k0(x0, x1)")
}

#[track_caller]
fn fails(text: &str, expected: &str) {
    let error = parse_plan(text).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), expected, "in\n{text}");
}

#[test]
fn a_right_text_is_read() {
    parse_plan(&with("", "copy x0 -> x1")).unwrap();
    parse_plan(&kernel("v0:f32 = load 0[i0]\nstore 1[i0] = v0")).unwrap();
}

#[test]
fn around_the_plan() {
    fails("", "1:1: expected `plan`, found the end of the text");
    fails("module", "1:1: expected `plan`, found `module`");
    fails("plan t", "1:6: expected a name in quotes, found `t`");
    fails("plan \"t", "1:6: the name that starts here has no end");
    fails("plan \"\\q\"", "1:7: this escape sequence is not known");
    fails("plan \"t\" arena x", "1:16: unknown name `x`");
    fails(
        "plan \"t\" arena 99999999999999999999 {",
        "1:16: the number does not fit 64 bits",
    );
    fails(
        "plan \"t\" arena 0 {\n parameters()\n results()",
        "3:11: expected a step or `}`, found the end of the text",
    );
    fails(
        "plan \"t\" arena 0 {parameters() results()} x",
        "1:43: expected nothing after the plan, found `x`",
    );
}

#[test]
fn declarations() {
    fails(&with("x3 = f32[] in b0", ""), "6:1: expected x2, found x3");
    fails(&with("x2 = f32[] in b7", ""), "6:15: b7 is not declared");
    fails(
        &with("x2 = f33[] in b0", ""),
        "6:6: expected an element type, found `f33`",
    );
    fails(
        &with("x2 = f32[-1] in b0", ""),
        "6:10: expected a non-negative size",
    );
    fails(&with("x2 = f32[(p0)] in b0", ""), "6:11: unknown name `p0`");
    fails(
        &with("x2 = f32[2,2]{1,1} in b0", ""),
        "6:6: expected minor_to_major to list each of the 2 dimensions once",
    );
    fails(
        "plan \"t\" arena 0 {\nconstant 1 = f32[] of 1",
        "2:10: expected number 0, found 1",
    );
    fails(
        "plan \"t\" arena 0 {\nconstant 0 = f32[2] of {1, x}",
        "2:28: `x` is not a value of type f32",
    );
    fails(
        "plan \"t\" arena 0 {\nb0 = heap 0 bytes 4",
        "2:6: expected `parameter`, `output`, `constant` or `arena`, found `heap`",
    );
    fails(
        "plan \"t\" arena 0 {\nsymbol 0 = \"n\" in [1 8]",
        "2:22: expected `,`, found '8'",
    );
}

#[test]
fn an_operation_without_attributes_ends_with_its_line() {
    let values = "x2 = f32[2,2] in b0\nx3 = f32[2,2] in b1";
    parse_plan(&with(values, "hlo cholesky(x2) -> (x3)\ncopy x0 -> x1")).unwrap();
}

#[test]
fn steps() {
    fails(&with("", "copy x0 x1"), "9:9: expected `->`, found `x1`");
    fails(&with("", "copy x0 -> x9"), "9:12: x9 is not declared");
    fails(&with("", "run k0(x0)"), "9:5: k0 is not declared");
    fails(
        &with("", "jump"),
        "9:1: expected a step or `}`, found `jump`",
    );
    fails(
        &with("", "copy y0 -> x1"),
        "9:6: expected a value such as `x0`, found `y0`",
    );
    fails(
        &with("", "dot(x0, x0) -> (x1) lhs {0}"),
        "10:1: expected `rhs`, found '}'",
    );
    fails(
        &with("", "hlo fly(x0) -> (x1)"),
        "9:5: expected an HLO opcode, found `fly`",
    );
    fails(
        &with("", "hlo cholesky(x0) -> (x1), lower=maybe"),
        "9:33: expected `true` or `false`, found `maybe`",
    );
    fails(
        &with("", "hlo cholesky(x0) -> (x1), flower=true"),
        "9:27: `flower` is not an attribute of any operation",
    );
    let deep = "while {".repeat(400);
    fails(&with("", &deep), "9:2101: nested more than 300 levels deep");
}

#[test]
fn kernels() {
    fails(
        &kernel("v0:f32 = load 0[i1]"),
        "8:17: i1 is not defined in this kernel",
    );
    fails(
        &kernel("store 1[i0] = v5"),
        "8:15: v5 is not defined in this kernel",
    );
    fails(
        &kernel("v0:f32 = sing v1"),
        "8:10: expected an operation on scalars, found `sing`",
    );
    fails(
        &kernel("v0:f32 = add v0"),
        "8:10: `add` takes 2 scalars, not 1",
    );
    fails(
        &kernel("v0:f32 = constant 5"),
        "8:19: expected bits such as `0x3f`, found '5'",
    );
    fails(
        &kernel("v1:f32 = constant 0x0"),
        "6:6: this kernel has v1, but no v0",
    );
    fails(&kernel("for i0 < 4"), "8:5: i0 is defined twice");
    fails(
        &kernel("v0:f32 = constant 0x0\nv0:f32 = constant 0x0"),
        "9:1: v0 is defined twice",
    );
    fails(
        &kernel("v0:pred = compare ABOVE total v0, v0"),
        "8:19: expected EQ, NE, GE, GT, LE or LT, found `ABOVE`",
    );
    fails(
        &kernel("if i0 -> () {\n}"),
        "10:1: expected `else`, found '}'",
    );
    let parentheses = format!("for i1 < {}", "(".repeat(200));
    fails(
        &kernel(&parentheses),
        "8:110: parentheses are nested too deep",
    );
}

#[test]
fn short_names_of_large_shapes_are_bounded() {
    let dims = vec!["1"; 250].join(",");
    let many = vec!["x2"; 4000].join(",");
    let declaration = format!("x2 = f32[{dims}] in b0");
    let text = with(&declaration, &format!("hlo fft({many}) -> (x2)"));
    fails(&text, "9:12017: the operations name too many large shapes");
}
