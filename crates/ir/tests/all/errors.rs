//! Malformed programs: the messages and the places of errors.

use tegula_ir::{Error, ErrorKind, parse_literal, parse_module, parse_shape, verify};

/// Reads and verifies a text; returns the first error.
fn first_error(text: &str) -> Error {
    match parse_module(text) {
        Err(error) => error,
        Ok(module) => match verify(&module) {
            Err(errors) => errors.into_iter().next().expect("an error"),
            Ok(()) => panic!("accepted:\n{text}"),
        },
    }
}

/// Inserts `lines` into an entry computation with `a: f32[2,3]`, `b: f32[3]` and `i: s32[]`, after
/// a reducer `add`. Lines are counted from the first inserted one.
#[track_caller]
fn check(lines: &str, line: u32, column: u32, message: &str) {
    let text = format!(
        "HloModule m\n\
         add {{ x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }}\n\
         ENTRY main {{ a = f32[2,3]{{1,0}} parameter(0) b = f32[3] parameter(1) i = s32[] parameter(2)\n\
         {lines}\n}}"
    );
    let error = first_error(&text);
    let found = (
        error.line().saturating_sub(3),
        error.column(),
        error.message(),
    );
    assert_eq!(found, (line, column, message), "{error}");
}

#[track_caller]
fn check_text(text: &str, line: u32, column: u32, message: &str) {
    let error = first_error(text);
    let found = (error.line(), error.column(), error.message());
    assert_eq!(found, (line, column, message), "{error}");
}

#[test]
fn grammar() {
    check("x = f32[2,3] abs(a", 2, 1, "expected `,` or `)`, found `}`");
    check("x = f32[2,3] abs(a) $", 1, 21, "unexpected character '$'");
    check("x = f32[2,3] foo(a)", 1, 14, "`foo` is not an operation");
    check("x = f32[2,3", 2, 1, "expected `,` or `]`, found `}`");
    check("x = f31[2,3] abs(a)", 1, 5, "`f31` is not an operation");
    check(
        "x = abs(a), metadata={op_name=\"y}",
        1,
        31,
        "the string that starts here has no end",
    );
    check(
        "/* x = abs(a)",
        1,
        1,
        "the comment that starts here has no end",
    );
    check(
        "x = abs(a), dimension={0}",
        1,
        13,
        "`dimension` is not an attribute of any operation",
    );
    check(
        "x = abs(a), dimensions={0}",
        1,
        13,
        "`abs` has no `dimensions=`",
    );
    check(
        "ROOT x = abs(a)\nROOT y = abs(a)",
        2,
        1,
        "this computation already has a ROOT",
    );
    check(
        "x = abs(a), metadata={}, metadata={}",
        1,
        26,
        "`metadata` is specified twice",
    );
    check(
        "x = iota(), iota_dimension=99999999999999999999",
        1,
        28,
        "99999999999999999999 does not fit into 64 bits",
    );
    check(
        "x = f32[2,3] abs(a), backend_config={{",
        1,
        37,
        "this `{` is never closed",
    );
}

#[test]
fn headers() {
    check_text("", 1, 1, "the text is empty");
    check_text("HloModule m", 1, 1, "the program has no computations");
    check_text(
        "HloModule m\nENTRY e { }",
        2,
        7,
        "this computation has no instructions",
    );
    check_text(
        "HloModule m, is_scheduled=maybe\ne { a = f32[] parameter(0) }",
        1,
        27,
        "expected `true` or `false`, found `maybe`",
    );
    check_text(
        "e { a = f32[] parameter(0) }\ne { a = f32[] parameter(0) }",
        2,
        1,
        "a computation `e` is already defined",
    );
    check_text(
        "ENTRY e { a = f32[] parameter(0) }\nENTRY f { a = f32[] parameter(0) }",
        2,
        7,
        "an ENTRY computation is already defined",
    );
    check_text(
        "e (a: f32[]) -> f32[3] { a = f32[] parameter(0) }",
        1,
        1,
        "the header says f32[3], but `a` is f32[]",
    );
    check_text(
        "HloModule m, entry_computation_layout={(f32[3])->f32[]}\ne { a = f32[] parameter(0) }",
        1,
        1,
        "entry_computation_layout does not fit the entry computation",
    );
    check_text(
        "HloModule m, input_output_alias={ {1}: (0, {}) }\ne { a = f32[] parameter(0) }",
        1,
        1,
        "input_output_alias names a parameter or an output that does not exist",
    );
    check_text(
        "HloModule m, buffer_donor={ (4, {}) }\ne { a = f32[] parameter(0) }",
        1,
        1,
        "buffer_donor names a parameter that does not exist",
    );
}

#[test]
fn names() {
    check(
        "x = f32[2,3] abs(c)",
        1,
        18,
        "no instruction `c` is defined before this one",
    );
    check(
        "x = abs(y)\ny = abs(a)",
        1,
        9,
        "no instruction `y` is defined before this one",
    );
    check(
        "a = f32[3] abs(b)",
        1,
        1,
        "an instruction `a` is already defined",
    );
    check(
        "x = call(a), to_apply=g",
        1,
        23,
        "no computation `g` is defined",
    );
    check("x = call(a), to_apply=main", 0, 7, "`main` calls itself");
    check(
        "x = abs(a), control-predecessors={q}",
        1,
        35,
        "no instruction `q` is defined here",
    );
    check(
        "p = f32[] parameter(1)",
        1,
        1,
        "parameter 1 is already defined",
    );
    check(
        "p = f32[] parameter(4)",
        0,
        7,
        "this computation lacks parameter 3",
    );
    check(
        "p = f32[] parameter(-1)",
        1,
        1,
        "parameter number -1 is out of range",
    );
    check(
        "t = tuple(a, b)\nx = abs(t#2)",
        2,
        9,
        "the operand has no tuple element 2",
    );
    let cycle = "f { x = f32[] parameter(0) y = f32[] call(x), to_apply=g }\n\
                 g { x = f32[] parameter(0) y = f32[] call(x), to_apply=f }";
    check_text(cycle, 1, 1, "`f` calls itself");
}

#[test]
fn literals() {
    check(
        "c = f32[2] constant({1, 2, 3})",
        1,
        28,
        "more than 2 elements in these braces",
    );
    check(
        "c = f32[2] constant({1})",
        1,
        21,
        "expected 2 elements in these braces, found 1",
    );
    check(
        "c = f32[] constant(x)",
        1,
        20,
        "`x` is not a value of type f32",
    );
    check(
        "c = s8[] constant(200)",
        1,
        19,
        "`200` is not a value of type s8",
    );
    check(
        "c = u8[] constant(-1)",
        1,
        19,
        "`-1` is not a value of type u8",
    );
    check(
        "c = f16[] constant(1e6)",
        1,
        20,
        "`1e6` is not a value of type f16",
    );
    check(
        "c = f8e4m3fn[] constant(inf)",
        1,
        25,
        "`inf` is not a value of type f8e4m3fn",
    );
    check(
        "c = constant(1)",
        1,
        5,
        "the shape of a constant must be written",
    );
    check(
        "c = f32[100] constant({...})",
        1,
        23,
        "the elements of this constant were left out of the text",
    );
    check(
        "c = f32[99999999999,99999999999] constant({1})",
        1,
        43,
        "a literal's shape needs fixed sizes that fit into 64 bits",
    );
    check(
        "c = f32[?] constant({1})",
        1,
        21,
        "a literal's shape needs fixed sizes that fit into 64 bits",
    );
    let error = first_error("ENTRY e { c = f32[100] constant({...}) }");
    assert!(
        error
            .help()
            .is_some_and(|help| help.contains("large constants"))
    );
    assert!(parse_literal("f32[2,2] { {1, 2}, {3} }").is_err());
    assert!(parse_literal("c64[] (1, nan(0x7)").is_err());
    assert!(parse_literal("f32[] nan(0x0)").is_err());
    assert!(parse_literal("f8e4m3fn[] nan(0x1)").is_err());
    assert!(parse_literal("bf16[] nan(0x3ff)").is_err());
    assert!(parse_literal("f32[] 1 2").is_err());
}

#[test]
fn attributes() {
    check("x = f32[3] slice(a)", 1, 1, "`slice` needs `slice=`");
    check(
        "x = pred[3] compare(b, b), direction=XX",
        1,
        28,
        "`XX` is not a value of `direction=`",
    );
    check(
        "x = reduce-window(a, i), window={stride=2}, to_apply=add",
        1,
        43,
        "a window needs `size=`",
    );
    check(
        "x = reduce-window(a, i), window={size=2x2 stride=1}, to_apply=add",
        1,
        50,
        "expected 2 sizes as in the field before, found 1",
    );
    check(
        "x = f32[] convolution(a, b), dim_labels=bb_io->bf",
        1,
        41,
        "expected dimension labels that name every dimension once in each part",
    );
    check(
        "x = reduce-window(b, i), window={size=2 pad=1_1_0}, to_apply=add",
        1,
        45,
        "a window has no interior padding, expected `low_high`",
    );
    check(
        "x = concatenate(a, a), dimensions={0,1}",
        1,
        1,
        "expected one dimension of `concatenate`",
    );
    check(
        "x = f32[2,3]{1,1} abs(a)",
        1,
        13,
        "expected minor_to_major to list each of the 2 dimensions once",
    );
    check(
        "x = f32[2,3]{1,0:T(0)} abs(a)",
        1,
        20,
        "a tile dimension cannot have size 0",
    );
    check(
        "x = f32[2,3]{1,0:Q(0)} abs(a)",
        1,
        18,
        "`Q` is not a layout property",
    );
    check(
        "x = f32[-2] abs(a)",
        1,
        9,
        "a dimension cannot have size -2",
    );
}

#[test]
fn shapes() {
    check(
        "x = f32[3] abs(a)",
        1,
        1,
        "`x`: the shape should be f32[2,3], found f32[3]",
    );
    check(
        "x = add(a, b)",
        1,
        1,
        "`add`: operands must have the same dimensions, found f32[2,3] and f32[3]",
    );
    check("x = add(a)", 1, 1, "`add` takes 2 operands, found 1");
    check(
        "x = add(b, i)",
        1,
        1,
        "`add`: operand 1 must be of type f32, found s32",
    );
    check("x = not(a)", 1, 1, "`not`: not defined for f32");
    check(
        "x = f32[6] convert(a)",
        1,
        1,
        "`x`: the shape should be f32[2,3], found f32[6]",
    );
    check(
        "x = convert(a)",
        1,
        1,
        "the shape of a `convert` must be written",
    );
    check(
        "x = f32[5] reshape(a)",
        1,
        1,
        "`x`: `reshape`: numbers of elements must be equal, found 6 and 5",
    );
    check(
        "x = transpose(a), dimensions={0,0}",
        1,
        1,
        "`transpose`: dimension 0 is named twice",
    );
    check(
        "x = f32[2,3] broadcast(b), dimensions={2}",
        1,
        1,
        "`x`: `broadcast`: dimension 2 is out of range for rank 2",
    );
    check(
        "x = slice(b), slice={[0:4]}",
        1,
        1,
        "`slice`: the limit of dimension 0: 4 is more than 3",
    );
    check(
        "x = slice(b), slice={[2:1]}",
        1,
        1,
        "`slice`: [2:1:1] is not a slice of dimension 0",
    );
    check(
        "x = dot(a, a), lhs_contracting_dims={0}, rhs_contracting_dims={1}",
        1,
        1,
        "`dot`: sizes of contracting dimensions 0 and 1 must be equal, found 2 and 3",
    );
    check(
        "x = reduce(a, i), dimensions={0}, to_apply=add",
        1,
        1,
        "`reduce`: operand 1 must be of type f32, found s32",
    );
    check(
        "x = get-tuple-element(a), index=0",
        1,
        1,
        "`get-tuple-element`: the operand must be a tuple, found f32[2,3]",
    );
    check(
        "x = pad(b, b), padding=1_1",
        1,
        1,
        "`pad`: operand 1 must be a scalar",
    );
    check(
        "x = dynamic-slice(a, i), dynamic_slice_sizes={1,1}",
        1,
        1,
        "`dynamic-slice`: expected 2 scalar start indices",
    );
    check(
        "x = f32[9000000000,9000000000] broadcast(b), dimensions={0}",
        1,
        1,
        "`x`: the bytes of f32[9000000000,9000000000] do not fit into 64 bits",
    );
}

#[test]
fn calls() {
    check(
        "x = f32[3] call(a), to_apply=add",
        1,
        1,
        "`x`: the shape should be f32[], found f32[3]",
    );
    check(
        "x = call(a), to_apply=add",
        1,
        1,
        "`x`: number of parameters of `add`: expected 1, found 2",
    );
    check(
        "x = s32[] reduce(i, i), dimensions={}, to_apply=add",
        1,
        1,
        "`x`: parameter 0 of `add` must be s32[], found f32[]",
    );
    check(
        "x = sort(b), dimensions={0}, to_apply=add",
        1,
        1,
        "`x`: `add` must return pred[], but it returns f32[]",
    );
    check(
        "x = while(a), condition=add, body=add",
        1,
        1,
        "`x`: number of parameters of `add`: expected 1, found 2",
    );
    check(
        "x = conditional(b, b), branch_computations={add}",
        1,
        1,
        "`x`: 1 branches cannot be selected by f32[3]: expected a pred[] for two branches, or an s32[] for any number",
    );
}

#[test]
fn starts_and_layouts() {
    check(
        "t = ((f32[3]), f32[3], u32[]) custom-call(), custom_call_target=\"t\"\nx = async-done(t)",
        2,
        1,
        "`x`: the operand must be an async-start or async-update",
    );
    check(
        "x = f32[] custom-call(a), custom_call_target=\"t\", operand_layout_constraints={}",
        1,
        1,
        "`x`: 0 operand layouts for 1 operands",
    );
}

#[test]
fn shape_text() {
    for text in [
        "f32",
        "f32[",
        "f32[2]x",
        "f32[2,]",
        "(f32[2]",
        "f32[2]{1}",
        "f32[2]{0:T()(}",
        "f32[2]{0:SC(0:2)}",
        "f32[2]{0:SC(0:1,1)}",
        "f32[2]{0:SC(1:1)}",
        "f32[2]{0:#(u8)}",
        "f32[2]{0:*(u8)}",
        "f32[2]{0:L(0)}",
        "f32[2]{0:S(-1)}",
        "b(f32[2]",
        "token[1]",
        "x[2]",
        "f32[99999999999999999999999]",
    ] {
        assert!(parse_shape(text).is_err(), "{text}");
    }
}

#[test]
fn whose_fault() {
    let deep = format!(
        "HloModule m ENTRY e {{ x = {}f32[] parameter(0) }}",
        "(".repeat(100)
    );
    assert_eq!(first_error(&deep).kind(), ErrorKind::Limit);
    let huge = "e { x = f32[4000000000,4000000000] parameter(0) }";
    assert_eq!(first_error(huge).kind(), ErrorKind::Limit);
    assert_eq!(first_error("e { x = f32[] }").kind(), ErrorKind::Input);
}
