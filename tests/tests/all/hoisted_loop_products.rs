//! Products of a loop with the rows of an array, which become one product before the loop: results are those
//! of the definition, and what must not be changed is not.

use std::borrow::Cow;
use tegula_ir::{Module, Op};
use tegula_tests::judge::assert_agrees_exactly;

/// What a test changes of the program.
#[derive(Clone)]
struct Parts {
    /// The dimensions of a row, and the matrix.
    row: &'static str,
    matrix: &'static str,
    /// The product of the row `x` with the matrix `w`, and its dimensions.
    product: &'static str,
    result: &'static str,
    /// The number of the row, from the counter `i`.
    index: &'static str,
    /// What the loop's next matrix is.
    next: &'static str,
    trips: i64,
    /// Whether the product is in a computation that is called, and that one in another.
    called: bool,
}

const PARTS: Parts = Parts {
    row: "24",
    matrix: "72,24",
    product: "dot(w, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    result: "72",
    index: "t = s32[] add(i, zero)",
    next: "w",
    trips: 5,
    called: false,
};

fn program(parts: &Parts) -> Module {
    let Parts {
        row,
        matrix,
        product,
        result,
        index,
        next,
        trips,
        called,
    } = parts.clone();
    let state = format!("(s32[], f32[{matrix}], f32[5,{row}], f32[{result}])");
    let rank = row.split(',').count();
    let zeros = ", zero".repeat(rank);
    let body = match called {
        false => format!("p = f32[{result}] {product}"),
        true => format!(
            "c = (f32[{result}], s32[]) call(x, w, i), to_apply=outer
  p = f32[{result}] get-tuple-element(c), index=0"
        ),
    };
    let text = format!(
        "HloModule rows
inner {{
  x = f32[{row}] parameter(0) w = f32[{matrix}] parameter(1)
  ROOT p = f32[{result}] {product}
}}
outer {{
  x = f32[{row}] parameter(0) w = f32[{matrix}] parameter(1) i = s32[] parameter(2)
  p = f32[{result}] call(x, w), to_apply=inner
  ROOT r = (f32[{result}], s32[]) tuple(p, i)
}}
condition {{
  p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant({trips}) ROOT r = pred[] compare(i, n), direction=LT
}}
body {{
  s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0
  zero = s32[] constant(0) one = s32[] constant(1) last = s32[] constant(4)
  w = f32[{matrix}] get-tuple-element(s), index=1
  xs = f32[5,{row}] get-tuple-element(s), index=2
  h = f32[{result}] get-tuple-element(s), index=3
  {index}
  slice = f32[1,{row}] dynamic-slice(xs, t{zeros}), dynamic_slice_sizes={{1,{row}}}
  x = f32[{row}] reshape(slice)
  {body}
  half = f32[] constant(0.5) halves = f32[{result}] broadcast(half), dimensions={{}}
  less = f32[{result}] multiply(h, halves)
  more = f32[{result}] add(less, p)
  twice = f32[{matrix}] add(w, w)
  j = s32[] add(i, one)
  ROOT r = {state} tuple(j, {next}, xs, more)
}}
ENTRY main {{
  w = f32[{matrix}] parameter(0) xs = f32[5,{row}] parameter(1) h = f32[{result}] parameter(2)
  zero = s32[] constant(0)
  v = {state} tuple(zero, w, xs, h)
  l = {state} while(v), condition=condition, body=body
  ROOT r = f32[{result}] get-tuple-element(l), index=3
}}
"
    );
    tegula_tests::read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// How many products the entry has then.
fn products_before(module: &Module) -> usize {
    let changed = tegula_fusion::hoist_loop_products(Cow::Borrowed(module));
    tegula_ir::verify(&changed).unwrap_or_else(|e| panic!("{e:?}"));
    let entry = changed.entry_computation();
    let dot = |id: &&tegula_ir::InstructionId| matches!(changed[**id].op, Op::Dot { .. });
    entry.instructions.iter().filter(dot).count()
}

#[test]
fn products_with_rows_are_one_before_the_loop() {
    let backwards = "u = s32[] subtract(last, i) t = s32[] add(u, zero)";
    let forms = [
        PARTS,
        Parts {
            index: backwards,
            ..PARTS
        },
        Parts {
            called: true,
            ..PARTS
        },
        // The row on the left, of several rows and of two contracted dimensions.
        Parts {
            row: "3,24",
            matrix: "24,72",
            product: "dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            result: "3,72",
            ..PARTS
        },
        Parts {
            row: "4,3,6",
            matrix: "6,72,4",
            product: "dot(x, w), lhs_contracting_dims={0,2}, rhs_contracting_dims={2,0}",
            result: "3,72",
            called: true,
            ..PARTS
        },
        // And on the right: the product is turned.
        Parts {
            row: "24,3",
            product: "dot(w, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            result: "72,3",
            ..PARTS
        },
        Parts {
            row: "24,3,2",
            matrix: "12,24,6",
            product: "dot(w, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            result: "12,6,3,2",
            ..PARTS
        },
    ];
    for parts in forms {
        let module = program(&parts);
        assert_eq!(products_before(&module), 1, "{}", parts.product);
        assert_agrees_exactly(&module);
    }
}

#[test]
fn other_products_stay_in_the_loop() {
    let forms = [
        // The matrix changes.
        Parts {
            next: "twice",
            ..PARTS
        },
        // Fewer iterations than rows, and rows in another order.
        Parts { trips: 4, ..PARTS },
        Parts {
            index: "t = s32[] multiply(i, i)",
            ..PARTS
        },
        // So few products that they are computed where they are read.
        Parts {
            row: "4",
            matrix: "8,4",
            result: "8",
            ..PARTS
        },
    ];
    for parts in forms {
        let module = program(&parts);
        assert_eq!(
            products_before(&module),
            0,
            "{} {}",
            parts.next,
            parts.index
        );
        assert_agrees_exactly(&module);
    }
}
