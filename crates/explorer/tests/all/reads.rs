//! Elements that are read, against the evaluator: where an input element becomes NaN, exactly the results
//! that read it become NaN.

use super::{example, open};
use std::collections::{BTreeMap, BTreeSet};
use tegula_explorer::reads::Scope;
use tegula_interp::{Value, evaluate};
use tegula_ir::{Literal, Module};

/// For each parameter and element of it, the elements of the result that become NaN with it.
fn tainted(module: &Module) -> Vec<Vec<BTreeSet<usize>>> {
    let entry = module.entry_computation();
    let shapes: Vec<_> = entry
        .parameters
        .iter()
        .map(|&id| module[id].shape.as_array().expect("an array").clone())
        .collect();
    let count = |shape: &tegula_ir::ArrayShape| shape.element_count().expect("static") as usize;
    let values: Vec<Vec<f32>> = shapes
        .iter()
        .map(|shape| {
            (0..count(shape))
                .map(|i| (i % 7) as f32 * 0.25 + 0.5)
                .collect()
        })
        .collect();
    let literal = |at: usize, values: &[f32]| {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        Literal::from_bytes(&shapes[at], &bytes).expect("as many as the shape has")
    };
    let run = |values: &[Vec<f32>]| -> Vec<f32> {
        let inputs: Vec<Value> = values
            .iter()
            .enumerate()
            .map(|(at, values)| Value::Array(literal(at, values)))
            .collect();
        match evaluate(module, &inputs).expect("it runs") {
            Value::Array(result) => {
                let bytes = result.bytes();
                let words = bytes.chunks_exact(4);
                words
                    .map(|w| f32::from_le_bytes([w[0], w[1], w[2], w[3]]))
                    .collect()
            }
            _ => panic!("the result is one array"),
        }
    };
    assert!(run(&values).iter().all(|x| !x.is_nan()));
    (0..values.len())
        .map(|parameter| {
            (0..values[parameter].len())
                .map(|element| {
                    let mut changed = values.clone();
                    changed[parameter][element] = f32::NAN;
                    let result = run(&changed);
                    let nan = result.iter().enumerate().filter(|(_, x)| x.is_nan());
                    nan.map(|(at, _)| at).collect()
                })
                .collect()
        })
        .collect()
}

/// Holds what each element of the result is said to read against what the evaluator reads.
pub(super) fn check(text: &str) {
    let session = open(text);
    let module = tegula_ir::parse_module(text).expect("it is read");
    let expected = tainted(&module);
    let graph = session.graph().expect("it is planned");
    let result = &graph.values[graph.results[0] as usize];
    let elements: i64 = result.dims.as_ref().expect("static").iter().product();
    for element in 0..elements {
        let reads = session.reads(result.id, &[element], Scope::Program, &BTreeMap::new());
        let reads = reads.expect("elements are followed");
        for (number, &parameter) in graph.parameters.iter().enumerate() {
            let own = reads.sets.iter().find(|set| set.value == parameter);
            let found: BTreeSet<usize> = own.map_or_else(BTreeSet::new, |set| {
                assert!(set.exact, "{}: {:?}", set.name, set.note);
                match set.all {
                    true => (0..set.dims.iter().product::<i64>() as usize).collect(),
                    false => set.elements.iter().map(|&n| n as usize).collect(),
                }
            });
            let tainted = expected[number].iter().enumerate();
            let tainted: BTreeSet<usize> = tainted
                .filter(|(_, results)| results.contains(&(element as usize)))
                .map(|(at, _)| at)
                .collect();
            assert_eq!(
                found, tainted,
                "element {element}, parameter {number}\n{text}"
            );
        }
    }
}

#[test]
fn the_pages_examples_read_what_the_evaluator_reads() {
    for name in ["max_pool", "transposed_matmul"] {
        check(&example(&format!("web/examples/{name}.hlo")));
    }
    let convolution = example("web/examples/conv_bn.hlo").replace("12,12", "4,5");
    // The maximum of a NaN and 0 is a NaN, so relu hides none.
    check(&convolution);
}

#[test]
fn views_slices_pads_and_reductions_compose() {
    check(
        "HloModule views
         add { a = f32[] parameter(0)
               b = f32[] parameter(1)
               ROOT s = f32[] add(a, b) }
         ENTRY main {
           x = f32[4,6] parameter(0)
           y = f32[3] parameter(1)
           zero = f32[] constant(0)
           padded = f32[6,7] pad(x, zero), padding=1_1x0_1
           cut = f32[3,4] slice(padded), slice={[0:6:2], [1:7:2]} , metadata={op_name=\"cut\"}
           flat = f32[12] reshape(cut)
           turned = f32[12] reverse(flat), dimensions={0}
           back = f32[3,4] reshape(turned)
           sums = f32[3] reduce(back, zero), dimensions={1}, to_apply=add
           both = f32[3] multiply(sums, y)
           wide = f32[3,2] broadcast(both), dimensions={0}
           ROOT t = f32[2,3] transpose(wide), dimensions={1,0}
         }"
        .replace("[1:7:2]", "[0:7:2]")
        .as_str(),
    );
}

#[test]
fn what_depends_on_data_is_said_to_be_a_superset() {
    let session = open(
        "HloModule pick
         ENTRY main {
           table = f32[10,4] parameter(0)
           row = s32[] parameter(1)
           zero = s32[] constant(0)
           ROOT found = f32[1,4] dynamic-slice(table, row, zero), dynamic_slice_sizes={1,4}
         }",
    );
    let graph = session.graph().expect("it is planned");
    let reads = session.reads(graph.results[0], &[2], Scope::Program, &BTreeMap::new());
    let reads = reads.expect("elements are followed");
    let table = reads.sets.iter().find(|set| set.name == "table");
    let table = table.expect("the table is read");
    assert!(!table.exact);
    assert_eq!(table.count, 10, "any row of column 2");
    assert!(
        table
            .note
            .as_deref()
            .is_some_and(|note| note.contains("data"))
    );
}

/// A recurrence of 10 steps, of as many iterations as `limit` says.
fn recurrence(limit: &str) -> String {
    example("web/examples/scan.hlo").replace("limit = s32[] constant(10)", limit)
}

#[test]
fn iterations_of_a_counted_loop_read_what_the_evaluator_reads() {
    let scan = recurrence("limit = s32[] constant(10)").replace("16]", "3]");
    check(&scan.replace("{1,16}", "{1,3}"));
    // Each iteration writes a row of the result, and reads two of its neighbours.
    check(
        "HloModule rows
         going { state = (s32[], f32[5,4], f32[6,4]) parameter(0)
                 i = s32[] get-tuple-element(state), index=0
                 limit = s32[] constant(5)
                 ROOT less = pred[] compare(i, limit), direction=LT }
         step { state = (s32[], f32[5,4], f32[6,4]) parameter(0)
                i = s32[] get-tuple-element(state), index=0
                ys = f32[5,4] get-tuple-element(state), index=1
                xs = f32[6,4] get-tuple-element(state), index=2
                zero = s32[] constant(0)
                two = f32[2,4] dynamic-slice(xs, i, zero), dynamic_slice_sizes={2,4}
                a = f32[1,4] slice(two), slice={[0:1], [0:4]}
                b = f32[1,4] slice(two), slice={[1:2], [0:4]}
                turned = f32[1,4] reverse(b), dimensions={1}
                y = f32[1,4] add(a, turned)
                next = f32[5,4] dynamic-update-slice(ys, y, i, zero)
                one = s32[] constant(1)
                more = s32[] add(i, one)
                ROOT result = (s32[], f32[5,4], f32[6,4]) tuple(more, next, xs) }
         ENTRY main {
           xs = f32[6,4] parameter(0)
           first = f32[5,4] parameter(1)
           zero = s32[] constant(0)
           start = (s32[], f32[5,4], f32[6,4]) tuple(zero, first, xs)
           loop = (s32[], f32[5,4], f32[6,4]) while(start), condition=going, body=step
           ys = f32[5,4] get-tuple-element(loop), index=1
           ROOT back = f32[4,5] transpose(ys), dimensions={1,0} }",
    );
}

#[test]
fn an_iteration_needs_the_rows_before_it() {
    let session = open(&recurrence("limit = s32[] constant(10)"));
    let graph = session.graph().expect("it is planned");
    let node = graph.nodes.iter().find(|node| node.opcode == "while");
    let node = node.expect("a loop").id;
    for iteration in [0, 3, 9] {
        let iterations = BTreeMap::from([(node, iteration)]);
        let reads = session.reads(graph.results[0], &[5], Scope::Program, &iterations);
        let reads = reads.expect("elements are followed");
        let [found] = &reads.loops[..] else {
            panic!("{:?}", reads.loops);
        };
        assert_eq!((found.trips, found.iteration), (Some(10), iteration));
        // Column 5 of this iteration's row, and of the state before it.
        let set = |sets: &[tegula_explorer::reads::ReadSet], dims: &[i64]| {
            let found = sets.iter().find(|set| set.dims == dims);
            found.map(|set| (set.elements.clone(), set.exact))
        };
        let row = vec![iteration as u32 * 16 + 5];
        assert_eq!(set(&found.reads, &[10, 16]), Some((row, true)));
        assert_eq!(set(&found.states, &[16]), Some((vec![5], true)));
    }
}

#[test]
fn a_loop_whose_end_depends_on_data_is_a_superset() {
    let text = recurrence("limit = s32[] constant(10)");
    let text = text
        .replace(
            "(s32[], f32[16], f32[10,16])",
            "(s32[], f32[16], f32[10,16], s32[])",
        )
        .replace(
            "limit = s32[] constant(10)",
            "limit = s32[] get-tuple-element(state), index=3",
        )
        .replace("tuple(more, next, xs)", "tuple(more, next, xs, given)")
        .replace(
            "  zero = s32[] constant(0)\n  row",
            "  given = s32[] get-tuple-element(state), index=3\n  zero = s32[] constant(0)\n  row",
        )
        .replace("tuple(zero, first, xs)", "tuple(zero, first, xs, many)")
        .replace(
            "  first = f32[16]",
            "  many = s32[] parameter(2)\n  first = f32[16]",
        );
    let session = open(&text);
    let graph = session.graph().expect("it is planned");
    let reads = session.reads(graph.results[0], &[5], Scope::Program, &BTreeMap::new());
    let reads = reads.expect("elements are followed");
    assert_eq!(reads.loops[0].trips, None);
    let set = |name: &str| reads.sets.iter().find(|set| set.name == name);
    let rows = set("xs").expect("rows are read");
    assert_eq!((rows.count, rows.exact), (10, false), "column 5");
    assert!(rows.note.is_some());
    assert_eq!(set("many").map(|set| set.count), Some(1), "it decides");
}

#[test]
fn branches_of_a_choice_are_followed() {
    let session = open(
        "HloModule choice
         left { a = f32[4] parameter(0)
                ROOT r = f32[4] reverse(a), dimensions={0} }
         right { b = f32[4] parameter(0)
                 ROOT n = f32[4] negate(b) }
         ENTRY main {
           x = f32[4] parameter(0)
           y = f32[4] parameter(1)
           which = pred[] parameter(2)
           ROOT c = f32[4] conditional(which, x, y), true_computation=left, false_computation=right }",
    );
    let graph = session.graph().expect("it is planned");
    let reads = session.reads(graph.results[0], &[1], Scope::Program, &BTreeMap::new());
    let reads = reads.expect("elements are followed");
    let set = |name: &str| reads.sets.iter().find(|set| set.name == name);
    assert_eq!(
        set("x").map(|set| (&set.elements[..], set.exact)),
        Some((&[2][..], false))
    );
    assert_eq!(
        set("y").map(|set| (&set.elements[..], set.exact)),
        Some((&[1][..], false))
    );
    assert!(set("which").is_some());
}
