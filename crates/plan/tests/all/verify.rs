//! Tests of the verifier on hand-written plans, valid and invalid.

use tegula_plan::{parse_plan, verify};

/// Values `x0` (parameter), `x1` (result) and whatever the buffers and values
/// declare; kernels that copy (`k0`), reverse (`k1`) and add into (`k2`).
fn plan(arena: i64, buffers: &str, values: &str, steps: &str) -> String {
    format!(
        "plan \"t\" arena {arena} {{
b0 = parameter 0 bytes 400
b1 = output 0 bytes 400
{buffers}
x0 = f32[100] in b0
x1 = f32[100] in b1
{values}
k0 = kernel(read f32[100], write f32[100]) {{
  for i0 < 100
  v0:f32 = load 0[i0]
  store 1[i0] = v0
}}
k1 = kernel(read f32[100], write f32[100]) {{
  for i0 < 100
  v0:f32 = load 0[99 - i0]
  store 1[i0] = v0
}}
k2 = kernel(read f32[100], update f32[100]) {{
  for i0 < 100
  v0:f32 = load 0[i0]
  v1:f32 = load 1[i0]
  v2:f32 = add v0, v1
  store 1[i0] = v2
}}
parameters(x0)
results(x1)
{steps}
}}
"
    )
}

#[track_caller]
fn errors(text: &str) -> Vec<String> {
    let plan = parse_plan(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let errors = verify(&plan).err();
    let errors = errors.iter().flat_map(|errors| errors.iter());
    errors.map(ToString::to_string).collect()
}

#[track_caller]
fn right(text: &str) {
    assert_eq!(errors(text), Vec::<String>::new(), "in\n{text}");
}

#[track_caller]
fn wrong(text: &str, expected: &[&str]) {
    assert_eq!(errors(text), expected, "in\n{text}");
}

const TWO: &str = "b2 = arena 0 bytes 400\nb3 = arena 448 bytes 400";
const IN_TWO: &str = "x2 = f32[100] in b2\nx3 = f32[100] in b3";

#[test]
fn right_plans_pass() {
    right(&plan(0, "", "", "run k0(x0, x1)"));
    right(&plan(
        848,
        TWO,
        IN_TWO,
        "run k1(x0, x2)\nrun k1(x2, x3)\nrun k2(x2, x3)\ncopy x3 -> x1",
    ));
    // A kernel may overwrite what it reads, element by element.
    let shared = "x2 = f32[100] in b2\nx3 = f32[100] in b2";
    right(&plan(
        848,
        TWO,
        shared,
        "copy x0 -> x2\nrun k0(x2, x3)\ncopy x3 -> x1",
    ));
    // Buffers that are not live at the same time may overlap.
    let overlapping = "b2 = arena 0 bytes 400\nb3 = arena 64 bytes 400";
    right(&plan(
        464,
        overlapping,
        IN_TWO,
        "run k0(x0, x2)\nrun k0(x0, x3)\nrun k0(x3, x1)",
    ));
}

#[test]
fn overlapping_live_buffers() {
    let overlapping = "b2 = arena 0 bytes 400\nb3 = arena 64 bytes 400";
    let steps = "run k0(x0, x2)\nrun k0(x0, x3)\nrun k0(x2, x1)";
    let error = "x2 is read by k0, but was not written or was overwritten";
    wrong(&plan(464, overlapping, IN_TWO, steps), &[error]);
}

#[test]
fn values_in_the_memory_of_a_result() {
    let inside = "b2 = output 0 bytes 400\nb3 = arena 0 bytes 400";
    let steps = "run k1(x0, x2)\nrun k1(x2, x3)\nrun k0(x3, x1)";
    right(&plan(400, inside, IN_TWO, steps));
    let steps = "run k1(x0, x2)\nrun k0(x0, x1)\nrun k1(x2, x3)";
    let error = "x2 is read by k1, but was not written or was overwritten";
    wrong(&plan(400, inside, IN_TWO, steps), &[error]);
    let at = |buffer: &str| plan(0, buffer, "", "run k0(x0, x1)");
    right(&at("b2 = output 0 from 320 bytes 80"));
    wrong(
        &at("b2 = output 0 from 384 bytes 64"),
        &["b2 of 64 bytes at 384 is not inside output 0 of 400 bytes"],
    );
    wrong(
        &at("b2 = output 0 from 100 bytes 64"),
        &["b2 is misaligned: its offset 100 is not a multiple of 64"],
    );
    wrong(
        &at("b2 = output 1 bytes 64"),
        &["b2 is in output 1, which does not exist"],
    );
}

#[test]
fn a_value_read_before_it_is_written() {
    let error = "x2 is read by k0, but was not written or was overwritten";
    wrong(&plan(848, TWO, IN_TWO, "run k0(x2, x1)"), &[error]);
    let error = "x2 is read by a copy, but was not written or was overwritten";
    wrong(&plan(848, TWO, IN_TWO, "copy x2 -> x1"), &[error]);
    let error = "x1 is read by the program's result, but was not written or was overwritten";
    wrong(&plan(0, "", "", ""), &[error]);
}

#[test]
fn a_parameter_or_constant_that_is_written() {
    let error = "x0 is written, but is stored in a parameter or constant";
    wrong(&plan(0, "", "", "copy x0 -> x1\nrun k0(x1, x0)"), &[error]);
}

#[test]
fn buffers_out_of_place() {
    let copy = "run k0(x0, x1)";
    let at = |buffer: &str| plan(848, buffer, "", copy);
    wrong(
        &at("b2 = arena 100 bytes 400"),
        &["b2 is misaligned: its offset 100 is not a multiple of 64"],
    );
    wrong(
        &at("b2 = arena 512 bytes 400"),
        &["b2 of 400 bytes at 512 is not inside the arena of 848 bytes"],
    );
    wrong(
        &at("b2 = arena 9223372036854775744 bytes 400"),
        &["b2 of 400 bytes at 9223372036854775744 is not inside the arena of 848 bytes"],
    );
    wrong(
        &at("b2 = arena -64 bytes 4"),
        &["the offset of b2 in the arena is unknown"],
    );
    wrong(
        &at("b2 = parameter 1 bytes 4"),
        &["b2 is in parameter 1, which does not exist"],
    );
    wrong(
        &at("b2 = constant 0 bytes 4"),
        &["b2 is in constant 0, which does not exist"],
    );
    wrong(
        &at("b2 = parameter 0 bytes 404"),
        &["b2 has 404 bytes of parameter 0, which has 400"],
    );
    wrong(
        &plan(848, "b2 = arena 0 bytes 396", "x2 = f32[100] in b2", copy),
        &["x2 is larger than its buffer b2"],
    );
    wrong(
        &plan(-64, "", "", copy),
        &["the size of the arena is not a number of bytes"],
    );
}

#[test]
fn two_buffers_of_one_output_overlap() {
    let text = plan(
        0,
        "b2 = output 0 bytes 400",
        "x2 = f32[100] in b2",
        "run k0(x0, x1)\nrun k1(x0, x2)",
    );
    let error = "x1 is read by the program's result, but was not written or was overwritten";
    wrong(&text, &[error]);
}

#[test]
fn arguments_that_do_not_fit() {
    let values = "x2 = s32[100] in b2\nx3 = f32[10,10] in b3";
    let error = "parameter 1 of k0 is not of the shape of x2";
    wrong(
        &plan(848, TWO, values, "copy x0 -> x1\nrun k0(x0, x2)"),
        &[error],
    );
    let error = "parameter 1 of k0 is not of the shape of x3";
    wrong(
        &plan(848, TWO, values, "copy x0 -> x1\nrun k0(x0, x3)"),
        &[error],
    );
    wrong(
        &plan(0, "", "", "copy x0 -> x1\nrun k0(x0)"),
        &["k0 takes 2 values, not 1"],
    );
}

#[test]
fn kernels_that_write_over_what_they_read() {
    let shared = "x2 = f32[100] in b2\nx3 = f32[100] in b2";
    let steps = |kernel: &str| format!("copy x0 -> x2\nrun {kernel}(x2, x3)\ncopy x3 -> x1");
    let error = "k1 overwrites x2 with x3 before it has read all of x2";
    wrong(&plan(848, TWO, shared, &steps("k1")), &[error]);
    let error = "k1 overwrites x2 with x2 before it has read all of x2";
    wrong(
        &plan(
            848,
            TWO,
            shared,
            "copy x0 -> x2\nrun k1(x2, x2)\ncopy x2 -> x1",
        ),
        &[error],
    );
    let partly = "b2 = arena 0 bytes 400\nb3 = arena 64 bytes 400";
    let error = "k0 gets x3 and x2, which partly overlap";
    wrong(&plan(464, partly, IN_TWO, &steps("k0")), &[error]);
}

#[test]
fn library_calls_over_their_operands() {
    let buffers = "b2 = arena 0 bytes 400";
    let values = "x2 = f32[10,10] in b2\nx3 = f32[10,10] in b2\nx4 = f32[10,10] in b0\nx5 = f32[10,10] in b1";
    let dot = "lhs {0} {1} rhs {1} {2} out {0,2}";
    let steps =
        |result: &str| format!("copy x0 -> x1\ncopy x4 -> x2\ndot(x2, x4) -> ({result}) {dot}");
    right(&plan(
        448,
        buffers,
        values,
        &format!("dot(x4, x4) -> (x2) {dot}\ncopy x0 -> x1"),
    ));
    let error = |result: &str| format!("dot writes {result} over one of its operands");
    wrong(&plan(448, buffers, values, &steps("x3")), &[&error("x3")]);
    wrong(&plan(448, buffers, values, &steps("x2")), &[&error("x2")]);
    let error = "dot: must have two operands, an optional addend, and one result";
    wrong(
        &plan(
            448,
            buffers,
            values,
            &format!("copy x0 -> x1\ndot(x4, x4) -> () {dot}"),
        ),
        &[error],
    );
    let error = "dot: the result's size does not follow from the operands";
    let flat = "lhs {0} {1} rhs {2} {1} out {0}";
    let error_labels = "dot: the labels do not fit the operands";
    wrong(
        &plan(
            448,
            buffers,
            values,
            &format!("copy x0 -> x1\ndot(x4, x4) -> (x2) {flat}"),
        ),
        &[error_labels],
    );
    let batched = "lhs {0} {1} rhs {0} {1} out {0}";
    wrong(
        &plan(
            448,
            buffers,
            values,
            &format!("copy x0 -> x1\ndot(x4, x4) -> (x2) {batched}"),
        ),
        &[error],
    );
}

const LOOP: &str = "b2 = arena 0 bytes 400\nb3 = arena 448 bytes 400\nb4 = arena 896 bytes 1\nb5 = arena 0 bytes 400";
const IN_LOOP: &str = "x2 = f32[100] in b2\nx3 = f32[100] in b3\nx4 = pred[] in b4\nx5 = f32[100] in b5\nx6 = pred[] in b0";

#[test]
fn loops() {
    let text = |body: &str| {
        let steps = "copy x0 -> x2\nwhile {\ncopy x6 -> x4\n} x4 {\nBODY\n}\ncopy x2 -> x1";
        // A pred of the parameter's memory is as large as its buffer at most.
        plan(960, LOOP, IN_LOOP, &steps.replace("BODY", body))
    };
    right(&text("run k1(x2, x3)\ncopy x3 -> x2"));
    // x5 and x2 share memory, so the next iteration finds x2 overwritten.
    wrong(
        &text("run k1(x2, x3)\nrun k0(x3, x5)"),
        &[
            "x2 is read by k1, but was not written or was overwritten",
            "x2 is read by a copy, but was not written or was overwritten",
        ],
    );
    // It is written again before the iteration ends.
    right(&text("run k1(x2, x3)\nrun k0(x3, x5)\nrun k0(x3, x2)"));
    // It is only read in the iteration after the one that writes it.
    wrong(
        &text("run k1(x3, x2)\nrun k1(x2, x3)"),
        &["x3 is read by k1, but was not written or was overwritten"],
    );
    // One branch overwrites what the other leaves alone.
    wrong(
        &text("conditional x4 {\nrun k0(x0, x5)\n} {\n}\ncopy x2 -> x3"),
        &[
            "x2 is read by a copy, but was not written or was overwritten",
            "x2 is read by a copy, but was not written or was overwritten",
        ],
    );
    let text = plan(
        960,
        LOOP,
        IN_LOOP,
        "copy x0 -> x1\ncopy x0 -> x2\nwhile {\n} x2 {\n}",
    );
    wrong(&text, &["the predicate x2 of a loop is not a pred"]);
    let text = plan(960, LOOP, IN_LOOP, "copy x0 -> x1\nconditional x0 {\n}");
    wrong(
        &text,
        &["expected a pred or s32 selector and at least one branch, found selector x0"],
    );
}

#[test]
fn nested_loops_take_no_exponential_time() {
    let depth = 200;
    let open = "copy x6 -> x4\nwhile {\n} x4 {\ncopy x0 -> x2\n".repeat(depth);
    let close = "copy x0 -> x5\n}\n".repeat(depth);
    right(&plan(
        960,
        LOOP,
        IN_LOOP,
        &format!("{open}{close}copy x0 -> x1"),
    ));
}

#[test]
fn malformed_kernels() {
    let kernel = |body: &str| {
        let text = plan(0, "", "", "run k0(x0, x1)");
        text.replace("  v0:f32 = load 0[i0]\n  store 1[i0] = v0\n", body)
    };
    wrong(
        &kernel("store 1[i0] = v0\nv0:f32 = load 0[i0]\n"),
        &["k0: v0 is used where it is not defined"],
    );
    wrong(
        &kernel("v0:f32 = load 1[i0]\n"),
        &["k0: parameter 1 is loaded, which its access does not allow"],
    );
    wrong(
        &kernel("v0:f32 = load 0[i0]\nstore 0[i0] = v0\n"),
        &["k0: parameter 0 is stored, which its access does not allow"],
    );
    wrong(
        &kernel("v0:f32 = load 0[]\n"),
        &["k0: parameter 0 has 1 dimensions, not 0"],
    );
    wrong(
        &kernel("v0:f32 = load 7[]\n"),
        &["k0: parameter 7 is not declared"],
    );
    wrong(
        &kernel("v0:s32 = load 0[i0]\n"),
        &["k0: parameter 0 and v0 are of different types"],
    );
    let escapes = "if i0 -> () {\nv0:f32 = load 0[i0]\n} else {\n}\nstore 1[i0] = v0\n";
    wrong(
        &kernel(escapes),
        &["k0: v0 is used where it is not defined"],
    );
    let disagrees = "v0:f32 = load 0[i0]\nloop i1 < 3 (v1:f32) = (v0) -> (v2:f32) {\n}\n";
    wrong(
        &kernel(disagrees),
        &["k0: the scalars that the loop over i1 carries do not agree"],
    );
    let types = "v0:f32 = load 0[i0]\nv1:s32 = index i0\nv2:f32 = add v0, v1\n";
    wrong(
        &kernel(types),
        &["k0: the operands of v2 do not fit its operation"],
    );
    for narrowed in ["v2:f32 = multiply v1, v1", "v2:f32 = cosine v1"] {
        let of_complex = format!("v0:f32 = load 0[i0]\nv1:c64 = complex v0, v0\n{narrowed}\n");
        wrong(
            &kernel(&of_complex),
            &["k0: the operands of v2 do not fit its operation"],
        );
    }
    let bound = "v0:f32 = load 0[i0]\nbind i1 = v0 in [0, 3]\n";
    wrong(
        &kernel(bound),
        &["k0: i1 is bound to v0, which is not an integer"],
    );
}
