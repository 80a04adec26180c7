//! `scan`, `ragged-dot` and `scaled-dot` as HLO text: what XLA's evaluator gives, on every target.

use tegula::{Options, Target, Tensor, compile};
use tegula_ir::{Literal, Scalar};
use tegula_tests::read;

const TARGETS: [Target; 4] = [Target::Interp, Target::Plan, Target::Cpu, Target::Tpu];

fn run(text: &str, target: Target, inputs: &[Literal]) -> Result<Vec<Vec<f64>>, String> {
    let module = read(text).map_err(|e| e.to_string())?;
    let options = Options {
        target,
        ..Options::default()
    };
    let executable = compile(&module, &options).map_err(|e| format!("{target:?}: {e}"))?;
    let inputs: Vec<Tensor> = inputs.iter().cloned().map(Tensor::from).collect();
    let results = executable.run(inputs.iter());
    let results = results.map_err(|e| format!("{target:?}: {e}"))?;
    let number = |scalar| match scalar {
        Scalar::Bool(x) => f64::from(u8::from(x)),
        Scalar::Int(x) => x as f64,
        Scalar::Uint(x) => x as f64,
        Scalar::Float(x) | Scalar::Complex(x, _) => x,
    };
    let numbers = |buffer: &Tensor| buffer.literal().scalars().map(number).collect();
    Ok(results.iter().map(numbers).collect())
}

/// What a program without inputs gives, on every target.
fn assert_gives(text: &str, expected: &[&[f64]]) {
    for target in TARGETS {
        let found = run(text, target, &[]).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(found, expected, "{target:?}\n{text}");
    }
}

fn refusal(text: &str) -> String {
    run(text, Target::Interp, &[]).expect_err(text)
}

const ADD: &str = "add { x = f32[] parameter(0) y = f32[] parameter(1) s = f32[] add(x, y)
    ROOT t = (f32[], f32[]) tuple(s, s) }";

#[test]
fn scans_of_xlas_own_tests() {
    let scan = |attributes: &str| {
        format!(
            "HloModule m {ADD} ENTRY e {{ input = f32[4] constant({{1, 2, 3, 4}})
               init = f32[] constant(0)
               ROOT s = (f32[4], f32[]) scan(input, init), dimensions={{0}}, {attributes},
               to_apply=add }}"
        )
    };
    assert_gives(&scan("num_carries=1"), &[&[1.0, 3.0, 6.0, 10.0], &[10.0]]);
    let reverse = scan("is_reverse=true, num_carries=1");
    assert_gives(&reverse, &[&[10.0, 9.0, 7.0, 4.0], &[10.0]]);
    let variadic = "HloModule m
        step { x1 = f32[] parameter(0) x2 = f32[] parameter(1) y1 = f32[] parameter(2)
          y2 = f32[] parameter(3) a = f32[] add(x1, y1) b = f32[] multiply(x2, y2)
          ROOT t = (f32[], f32[], f32[], f32[]) tuple(a, b, a, b) }
        ENTRY e { a = f32[3] constant({1, 2, 3}) b = f32[3] constant({1, 2, 3})
          c = f32[] constant(0) d = f32[] constant(1)
          ROOT s = (f32[3], f32[3], f32[], f32[]) scan(a, b, c, d), dimensions={0}, num_carries=2,
            to_apply=step }";
    assert_gives(
        variadic,
        &[&[1.0, 3.0, 6.0], &[1.0, 2.0, 6.0], &[6.0], &[6.0]],
    );
    // The carry has other dimensions than the output, and the dimension is the last.
    let matrix = "HloModule m
        add { x = f32[2,2] parameter(0) y = f32[2,2] parameter(1) s = f32[2,2] add(x, y)
          ROOT t = (f32[2,2], f32[2,2]) tuple(s, s) }
        ENTRY e { a = f32[2,2,2] constant({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}})
          z = f32[2,2] constant({{0, 0}, {0, 0}})
          ROOT s = (f32[2,2,2], f32[2,2]) scan(a, z), dimensions={1}, num_carries=1, to_apply=add }";
    assert_gives(
        matrix,
        &[
            &[1.0, 2.0, 4.0, 6.0, 5.0, 6.0, 12.0, 14.0],
            &[4.0, 6.0, 12.0, 14.0],
        ],
    );
}

#[test]
fn scans_of_nothing_of_one_step_and_of_no_input() {
    let empty = format!(
        "HloModule m {ADD} ENTRY e {{ a = f32[0] constant({{}}) z = f32[] constant(7)
           ROOT s = (f32[0], f32[]) scan(a, z), dimensions={{0}}, num_carries=1, to_apply=add }}"
    );
    assert_gives(&empty, &[&[], &[7.0]]);
    let counts = "HloModule m
        step { c = s32[] parameter(0) one = s32[] constant(1) n = s32[] add(c, one)
          ROOT t = (s32[], s32[]) tuple(c, n) }
        ENTRY e { z = s32[] constant(5)
          ROOT s = (s32[3], s32[]) scan(z), dimensions={0}, num_carries=1, to_apply=step }";
    assert_gives(counts, &[&[5.0, 6.0, 7.0], &[8.0]]);
    let mapped = "HloModule m
        step { x = f32[] parameter(0) ROOT n = f32[] negate(x) }
        ENTRY e { a = f32[3] constant({1, 2, 3})
          ROOT s = f32[3] scan(a), dimensions={0}, num_carries=0, to_apply=step }";
    assert_gives(mapped, &[&[-1.0, -2.0, -3.0]]);
}

#[test]
fn scans_that_do_not_fit() {
    let scan = |operands: &str, rest: &str| {
        format!(
            "HloModule m {ADD} ENTRY e {{ a = f32[4] constant({{1, 2, 3, 4}}) z = f32[] constant(0)
               b = f32[3] constant({{1, 2, 3}}) i = s32[] constant(0)
               ROOT s = (f32[4], f32[]) scan({operands}), {rest}, to_apply=add }}"
        )
    };
    let one = "dimensions={0}, num_carries=1";
    for (operands, rest, message) in [
        ("z, a", one, "dimension"),
        ("a, i", one, "parameter 1"),
        ("a, b, z", one, "sizes of the scanned dimension"),
        ("b, z", one, "f32[3]"),
        ("a, z", "dimensions={1}, num_carries=1", "dimension"),
        ("a, z", "dimensions={0}, num_carries=3", "carries"),
    ] {
        let found = refusal(&scan(operands, rest));
        assert!(found.contains(message), "{operands}: {found}");
    }
}

/// The numbers from 1 on.
fn counted(count: usize) -> String {
    let numbers: Vec<String> = (1..=count).map(|x| x.to_string()).collect();
    numbers.join(", ")
}

/// A `ragged-dot` of these shapes; operands count from 1.
fn ragged(
    lhs: (&str, usize),
    rhs: (&str, usize),
    groups: &str,
    result: &str,
    dims: &str,
) -> String {
    let flat = |(shape, count): (&str, usize), name: &str| {
        let ty = shape.split('[').next().unwrap_or_default();
        let numbers = counted(count);
        format!(
            "{name}f = {ty}[{count}] constant({{{numbers}}}) {name} = {shape} reshape({name}f)\n"
        )
    };
    format!(
        "HloModule m ENTRY e {{ {} {} g = s32{groups}
           ROOT r = {result} ragged-dot(a, b, g), {dims} }}",
        flat(lhs, "a"),
        flat(rhs, "b"),
    )
}

const FREE: &str =
    "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}";

#[test]
fn groups_of_rows() {
    // Rows (1,2), (3,4), (5,6), (7,8); sides (1,2;3,4), (5,6;7,8), (9,10;11,12).
    let of = |groups: &str| {
        ragged(
            ("f32[4,2]", 8),
            ("f32[3,2,2]", 12),
            groups,
            "f32[4,2]",
            FREE,
        )
    };
    let first = [7.0, 10.0];
    let all: [f64; 8] = [first[0], first[1], 43.0, 50.0, 67.0, 78.0, 151.0, 166.0];
    assert_gives(&of("[3] constant({1, 2, 1})"), &[&all]);
    let none = of("[3] constant({1, 2, 1})")
        .replace("[3,2,2]", "[0,2,2]")
        .replace(
            "bf = f32[12] constant({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})",
            "bf = f32[0] constant({})",
        );
    assert_gives(
        &none.replace("[3] constant({1, 2, 1})", "[0] constant({})"),
        &[&[0.0; 8]],
    );
    // Behind all groups is zero.
    let mut less = all;
    less[6..].fill(0.0);
    assert_gives(&of("[3] constant({1, 2, 0})"), &[&less]);
    // A row is of the first group that ends behind it, whatever the sizes are.
    let more = [7.0, 10.0, 15.0, 22.0, 23.0, 34.0, 151.0, 166.0];
    assert_gives(&of("[3] constant({3, -2, 9})"), &[&more]);
}

#[test]
fn groups_with_sizes_of_their_own_for_each_batch() {
    let dims = "lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2},
        rhs_contracting_dims={2}, lhs_ragged_dims={1}, rhs_group_dims={0}";
    let text = ragged(
        ("s32[2,3,1]", 6),
        ("s32[2,2,1,1]", 4),
        "[2,2] constant({{1, 2}, {2, 1}})",
        "s32[2,3,1]",
        dims,
    );
    // Sides of the first batch are 1 and 3, of the second 2 and 4.
    assert_gives(&text, &[&[1.0, 6.0, 9.0, 8.0, 10.0, 24.0]]);
    // A free dimension in front of the ragged one has sizes of its own, too.
    let free = "lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_ragged_dims={1},
        rhs_group_dims={0}";
    let text = ragged(
        ("s32[2,3,1]", 6),
        ("s32[2,1,1]", 2),
        "[2,2] constant({{1, 2}, {2, 1}})",
        "s32[2,3,1]",
        free,
    );
    assert_gives(&text, &[&[1.0, 4.0, 6.0, 4.0, 5.0, 12.0]]);
}

#[test]
fn groups_of_terms_and_of_batches() {
    let dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1}";
    let of = |groups: &str| ragged(("s32[1,4]", 4), ("s32[4,1]", 4), groups, "s32[3,1,1]", dims);
    assert_gives(&of("[3] constant({1, 2, 1})"), &[&[1.0, 13.0, 16.0]]);
    assert_gives(&of("[3] constant({3, -2, 9})"), &[&[14.0, 0.0, 29.0]]);
    // Another contracting dimension in front, with sizes of its own.
    let two = "lhs_contracting_dims={1,2}, rhs_contracting_dims={0,1}, lhs_ragged_dims={2}";
    let text = ragged(
        ("s32[1,2,2]", 4),
        ("s32[2,2,1]", 4),
        "[2,2] constant({{1, 1}, {2, 0}})",
        "s32[2,1,1]",
        two,
    );
    assert_gives(&text, &[&[26.0, 4.0]]);
    let batch = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1},
        rhs_contracting_dims={1}, lhs_ragged_dims={0}";
    let text = ragged(
        ("s32[3,1]", 3),
        ("s32[3,1]", 3),
        "[2] constant({1, 1})",
        "s32[3]",
        batch,
    );
    assert_gives(&text, &[&[1.0, 4.0, 9.0]]);
}

#[test]
fn a_nan_stays_in_its_group() {
    let text = "HloModule m ENTRY e {
        a = f32[3,1] constant({{1}, {inf}, {3}}) b = f32[2,1,1] constant({{{2}}, {{nan}}})
        g = s32[2] constant({2, 1})
        ROOT r = f32[3,1] ragged-dot(a, b, g), lhs_contracting_dims={1}, rhs_contracting_dims={1},
          lhs_ragged_dims={0}, rhs_group_dims={0} }";
    for target in TARGETS {
        let found = run(text, target, &[]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(found[0][..2], [2.0, f64::INFINITY], "{target:?}");
        assert!(found[0][2].is_nan(), "{target:?}");
    }
}

#[test]
fn mixed_types_of_groups() {
    let text = "HloModule m ENTRY e {
        a = s8[2,2] constant({{100, 100}, {1, 2}}) b = u8[2,2,1] constant({{{2}, {3}}, {{4}, {5}}})
        g = u8[2] constant({1, 1})
        ROOT r = s32[2,1] ragged-dot(a, b, g), lhs_contracting_dims={1}, rhs_contracting_dims={1},
          lhs_ragged_dims={0}, rhs_group_dims={0} }";
    assert_gives(text, &[&[500.0, 14.0]]);
}

#[test]
fn groups_that_do_not_fit() {
    let of = |groups: &str, dims: &str| {
        ragged(
            ("f32[4,2]", 8),
            ("f32[3,2,2]", 12),
            groups,
            "f32[4,2]",
            dims,
        )
    };
    let contracted = "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={1},
        rhs_group_dims={0}";
    let none = "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}";
    for (groups, dims, message) in [
        (
            "[2] constant({1, 2})",
            FREE,
            "the group dimension must be equal",
        ),
        (
            "[1,3] constant({{1, 2, 1}})",
            FREE,
            "the group sizes must have 1 or",
        ),
        ("[] constant(1)", FREE, "group sizes must be an array"),
        (
            "[3] constant({1, 2, 1})",
            contracted,
            "only a free ragged dimension",
        ),
        (
            "[3] constant({1, 2, 1})",
            none,
            "expected one group dimension",
        ),
    ] {
        let found = refusal(&of(groups, dims));
        assert!(found.contains(message), "{found}");
    }
}

#[test]
fn scales_of_parts() {
    let text = "HloModule m ENTRY e {
        a = f8e4m3fn[2,4] constant({{1, 2, 3, 4}, {5, 6, 7, 8}})
        b = f8e5m2[4,1] constant({{1}, {1}, {2}, {2}})
        s = f8e8m0fnu[2,2] constant({{1, 2}, {0.5, 4}}) t = f8e8m0fnu[2,1] constant({{2}, {0.25}})
        ROOT r = bf16[2,1] scaled-dot(a, b, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={0} }";
    assert_gives(text, &[&[13.0, 41.0]]);
    // A scale of no dimensions is none, whatever it is.
    let text = "HloModule m ENTRY e {
        a = bf16[1,2] constant({{1, 2}}) b = f8e5m2[2,1] constant({{1}, {2}})
        s = bf16[] constant(8) t = f8e8m0fnu[1,1] constant({{2}})
        ROOT r = f32[1,1] scaled-dot(a, b, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={0} }";
    assert_gives(text, &[&[10.0]]);
    let wrong = text.replace(
        "t = f8e8m0fnu[1,1] constant({{2}})",
        "t = f8e8m0fnu[3,1] constant({{1}, {1}, {1}})",
    );
    let found = refusal(&wrong);
    assert!(found.contains("equal parts"), "{found}");
}
