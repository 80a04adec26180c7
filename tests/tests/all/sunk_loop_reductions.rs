//! Products that loops sum up, which become one product behind the loop: results are those
//! of the definition, and what must not be changed is not.

use std::borrow::Cow;
use tegula_ir::Module;
use tegula_tests::judge::assert_agrees_exactly;

/// What a test changes of the program.
#[derive(Clone, Copy)]
struct Parts {
    ty: &'static str,
    trips: i64,
    /// The number of the row, from the counter `i`.
    index: &'static str,
    /// The product, of the row `x` and of `d`, and the states that become of both sums.
    sums: &'static str,
    /// What comes after the loop `w`.
    end: &'static str,
}

const INDEX: &str = "t = s32[] add(i, zero)";
const SUMS: &str = "p0 = f[8,16] dot(x, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  n0 = f[8,16] add(s0, p0)
  q1 = f[16,8] dot(d, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  p1 = f[8,16] transpose(q1), dimensions={1,0}
  n1 = f[8,16] add(p1, s1)";
const END: &str = "a = f[8,16] get-tuple-element(w), index=1
  b = f[8,16] get-tuple-element(w), index=2
  c = f[3,16] get-tuple-element(w), index=3
  ROOT r = (f[8,16], f[8,16], f[3,16]) tuple(a, b, c)";
const PARTS: Parts = Parts {
    ty: "f32",
    trips: 5,
    index: INDEX,
    sums: SUMS,
    end: END,
};

/// Two sums of products of rows `x` of an array with `d`, which a state makes.
fn program(parts: Parts) -> Module {
    let Parts {
        ty,
        trips,
        index,
        sums,
        end,
    } = parts;
    let state = "(s32[], f[8,16], f[8,16], f[3,16], f[5,3,8])";
    let text = format!(
        "HloModule sums
row {{
  a = f[5,3,8] parameter(0) t = s32[] parameter(1) zero = s32[] constant(0)
  s = f[1,3,8] dynamic-slice(a, t, zero, zero), dynamic_slice_sizes={{1,3,8}}
  ROOT r = f[3,8] reshape(s)
}}
condition {{
  p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0
  unused = f[8,16] get-tuple-element(p), index=1
  n = s32[] constant({trips}) ROOT r = pred[] compare(i, n), direction=LT
}}
body {{
  p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0
  zero = s32[] constant(0) one = s32[] constant(1) last = s32[] constant(4)
  s0 = f[8,16] get-tuple-element(p), index=1
  s1 = f[8,16] get-tuple-element(p), index=2
  h = f[3,16] get-tuple-element(p), index=3
  xs = f[5,3,8] get-tuple-element(p), index=4
  {index}
  x = f[3,8] call(xs, t), to_apply=row
  half = f[] constant(0.5) halves = f[3,16] broadcast(half), dimensions={{}}
  d = f[3,16] add(h, halves)
  {sums}
  j = s32[] add(i, one)
  ROOT r = {state} tuple(j, n0, n1, d, xs)
}}
ENTRY main {{
  a = f[8,16] parameter(0) h = f[3,16] parameter(1) xs = f[5,3,8] parameter(2)
  zero = s32[] constant(0) none = f[] constant(0)
  z = f[8,16] broadcast(none), dimensions={{}}
  v = {state} tuple(zero, a, z, h, xs)
  w = {state} while(v), condition=condition, body=body
  {end}
}}
"
    );
    // `end` names its own parameters otherwise.
    let text = text.replace("  a = f[8,16] get", "  ra = f[8,16] get");
    let text = text.replace("tuple(a, b, c)", "tuple(ra, b, c)");
    let text = text.replace("f[", &format!("{ty}["));
    tegula_tests::read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn changes(module: &Module) -> bool {
    let changed = tegula_fusion::sink_loop_reductions(Cow::Borrowed(module));
    matches!(changed, Cow::Owned(_))
}

#[test]
fn sums_are_products_behind_the_loop() {
    let backwards = "u = s32[] subtract(last, i) t = s32[] add(u, zero)";
    for ty in ["f32", "f64"] {
        for index in [INDEX, backwards] {
            let module = program(Parts { ty, index, ..PARTS });
            assert!(changes(&module), "{ty} {index}");
            assert_agrees_exactly(&module);
        }
    }
    let taken_twice = END.replace(
        "  b = ",
        "  a2 = f[8,16] get-tuple-element(w), index=1 a3 = f[8,16] add(a2, a) b = ",
    );
    let taken_twice = taken_twice.replace("add(a2, a)", "add(a2, ra)");
    let end = taken_twice.replace("tuple(a, b", "tuple(a3, b").leak();
    let module = program(Parts { end, ..PARTS });
    assert!(changes(&module));
    assert_agrees_exactly(&module);
}

#[test]
fn other_sums_stay() {
    let other = [
        // What would be kept is larger than the one sum.
        Parts {
            sums: "p0 = f[8,16] dot(x, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}
              n0 = f[8,16] add(s0, p0) n1 = f[8,16] multiply(s1, s1)",
            ..PARTS
        },
        // Not every row, or rows twice.
        Parts { trips: 4, ..PARTS },
        Parts {
            index: "t = s32[] constant(1)",
            ..PARTS
        },
        Parts {
            index: "t = s32[] add(i, i)",
            ..PARTS
        },
        Parts {
            index: "t = s32[] multiply(i, one)",
            ..PARTS
        },
        // The sum is read, or is none.
        Parts {
            sums: "p0 = f[8,16] dot(x, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}
              n0 = f[8,16] add(s0, p0) n1 = f[8,16] multiply(s1, n0)",
            ..PARTS
        },
        Parts {
            sums: "p0 = f[8,16] dot(x, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}
              n0 = f[8,16] subtract(s0, p0) n1 = f[8,16] add(s1, s0)",
            ..PARTS
        },
        // Nothing of it is a row.
        Parts {
            sums: "e = f[3,8] slice(d), slice={[0:3],[0:8]}
              p0 = f[8,16] dot(e, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}
              n0 = f[8,16] add(s0, p0) n1 = f[8,16] add(s1, p0)",
            ..PARTS
        },
        // The loop's result is taken whole.
        Parts {
            end: "ROOT r = (s32[], f[8,16], f[8,16], f[3,16], f[5,3,8]) copy(w)",
            ..PARTS
        },
    ];
    for parts in other {
        let module = program(parts);
        assert!(!changes(&module), "{} {}", parts.index, parts.sums);
        assert_agrees_exactly(&module);
    }
}
