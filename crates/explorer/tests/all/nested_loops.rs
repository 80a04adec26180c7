//! Elements through loops inside of loops and conditionals, against the evaluator; and which iteration of
//! each is shown.

use super::reads::check;
use super::{example, open};
use std::collections::BTreeMap;
use tegula_explorer::reads::{LoopReads, ReadSet, Scope};

fn set<'a>(sets: &'a [ReadSet], dims: &[i64]) -> Option<&'a ReadSet> {
    sets.iter().find(|set| set.dims == dims)
}

#[test]
fn an_inner_loop_that_runs_longer_each_time_reads_what_the_evaluator_reads() {
    check(&example("web/examples/nested_loops.hlo"));
}

#[test]
fn the_iteration_of_an_inner_loop_is_one_of_the_outer_iteration_that_is_shown() {
    let session = open(&example("web/examples/nested_loops.hlo"));
    let graph = session.graph().expect("it is planned");
    // Row 6 of the sums, of 12: the columns 0 to 6 of its row.
    let ask = |iterations: &BTreeMap<u32, usize>| -> Vec<LoopReads> {
        let reads = session.reads(graph.results[0], &[6], Scope::Program, iterations);
        reads.expect("elements are followed").loops
    };
    let loops = ask(&BTreeMap::new());
    let [outer, inner] = &loops[..] else {
        panic!("{loops:?}");
    };
    assert_eq!((outer.trips, outer.iteration), (Some(12), 11));
    // The last row only passes the sum on.
    assert_eq!((inner.trips, inner.iteration), (Some(12), 11));
    assert!(
        inner.reads.iter().all(|set| set.dims != [12, 12]),
        "{inner:?}"
    );
    let mut iterations = BTreeMap::from([(outer.node, 6)]);
    let loops = ask(&iterations);
    let [outer, inner] = &loops[..] else {
        panic!("{loops:?}");
    };
    assert_eq!((outer.parent, inner.parent), (None, Some(outer.node)));
    assert_eq!((outer.trips, outer.iteration), (Some(12), 6));
    assert_eq!((inner.trips, inner.iteration), (Some(7), 6));
    let row = set(&outer.reads, &[12, 12]).expect("it reads a row");
    let columns: Vec<u32> = (0..7).map(|column| 6 * 12 + column).collect();
    assert_eq!((&row.elements, row.exact), (&columns, true));
    for wanted in [0, 3, 6, 40] {
        iterations.insert(inner.node, wanted);
        let loops = ask(&iterations);
        let inner = &loops[1];
        let own = wanted.min(6);
        assert_eq!(inner.iteration, own, "at most the last one");
        let cell = set(&inner.reads, &[12, 12]).expect("it reads one element");
        let expected = vec![6 * 12 + own as u32];
        assert_eq!((&cell.elements, cell.exact), (&expected, true));
        let sum = set(&inner.states, &[12]).expect("it adds to a sum");
        assert_eq!(sum.elements, [6]);
    }
}

#[test]
fn loops_in_a_loop_whose_end_depends_on_data_are_supersets() {
    let text = example("web/examples/nested_loops.hlo")
        .replace(
            "limit = s32[] constant(12)",
            "limit = s32[] get-tuple-element(state), index=3",
        )
        .replace(
            "(s32[], f32[12], f32[12,12])",
            "(s32[], f32[12], f32[12,12], s32[])",
        )
        .replace(
            "tuple(next_row, sums, xs)",
            "tuple(next_row, sums, xs, many)",
        )
        .replace("tuple(zero, first, xs)", "tuple(zero, first, xs, many)")
        .replace(
            "  first = f32[12]",
            "  many = s32[] parameter(2)\n  first = f32[12]",
        )
        .replace(
            "  // The columns up to the row's own.",
            "  many = s32[] get-tuple-element(state), index=3",
        );
    let session = open(&text);
    let graph = session.graph().expect("it is planned");
    let reads = session.reads(graph.results[0], &[6], Scope::Program, &BTreeMap::new());
    let reads = reads.expect("elements are followed");
    let loops: Vec<_> = reads.loops.iter().map(|found| found.trips).collect();
    assert_eq!(loops, [None, None]);
    let sets = reads
        .loops
        .iter()
        .flat_map(|found| found.states.iter().chain(&found.reads));
    for set in sets {
        assert!(!set.exact && set.note.is_some(), "{set:?}");
    }
    let xs = set(&reads.sets, &[12, 12]).expect("it is read");
    assert!(!xs.exact);
}

/// Draws programs of loops and conditionals inside of each other. All have one state: three counters, a
/// number that any loop may count up, sums and what is summed.
struct Programs {
    seed: u64,
    computations: Vec<String>,
}

const STATE: &str = "(s32[], s32[], s32[], s32[], f32[5], f32[4,3])";

impl Programs {
    fn draw(&mut self, below: u64) -> u64 {
        // Of PCG: enough to draw programs.
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    /// Lines that give `name`, a number from 0 to below `size` that depends on the counters.
    fn index(&mut self, name: &str, size: u64) -> String {
        let mut text = format!("{name}_0 = s32[] constant({})\n", self.draw(4));
        for at in 0..4 {
            let factor = self.draw(3);
            text += &format!(
                "{name}_f{at} = s32[] constant({factor})\n\
                 {name}_p{at} = s32[] multiply(s{at}, {name}_f{at})\n\
                 {name}_{} = s32[] add({name}_{at}, {name}_p{at})\n",
                at + 1
            );
        }
        text + &format!(
            "{name}_size = s32[] constant({size})\n{name} = s32[] remainder({name}_4, {name}_size)\n"
        )
    }

    /// Adds a computation from state to state; gives its name.
    fn computation(&mut self, lines: &str, given: &str) -> String {
        let name = format!("c{}", self.computations.len());
        let types = ["s32[]", "s32[]", "s32[]", "s32[]", "f32[5]", "f32[4,3]"];
        let mut parts = format!("state = {STATE} parameter(0)\n");
        for (at, part) in types.iter().enumerate() {
            parts += &format!("s{at} = {part} get-tuple-element(state), index={at}\n");
        }
        self.computations
            .push(format!("{name} {{\n{parts}{lines}ROOT {given}\n}}\n"));
        name
    }

    /// A body of one or two statements at a depth of loops.
    fn body(&mut self, depth: usize, budget: usize) -> String {
        let first = self.statement(depth, budget);
        let second = self.statement(depth, budget);
        let lines = format!("a = {STATE} call(state), to_apply={first}\n");
        self.computation(&lines, &format!("b = {STATE} call(a), to_apply={second}"))
    }

    fn statement(&mut self, depth: usize, budget: usize) -> String {
        let tuple = |s3: &str, s4: &str| format!("r = {STATE} tuple(s0, s1, s2, {s3}, {s4}, s5)");
        match self.draw(if depth < 3 && budget > 0 { 6 } else { 3 }) {
            0 | 1 => {
                let (to, row, column) = (
                    self.index("to", 5),
                    self.index("row", 4),
                    self.index("col", 3),
                );
                let lines = format!(
                    "{to}{row}{column}cell = f32[1,1] dynamic-slice(s5, row, col), dynamic_slice_sizes={{1,1}}\n\
                     flat = f32[1] reshape(cell)\n\
                     old = f32[1] dynamic-slice(s4, to), dynamic_slice_sizes={{1}}\n\
                     sum = f32[1] add(old, flat)\n\
                     sums = f32[5] dynamic-update-slice(s4, sum, to)\n"
                );
                self.computation(&lines, &tuple("s3", "sums"))
            }
            2 => {
                // Moves a sum, and counts.
                let (to, from) = (self.index("to", 5), self.index("from", 5));
                let lines = format!(
                    "{to}{from}more = s32[] constant({})\ncount = s32[] add(s3, more)\n\
                     part = f32[1] dynamic-slice(s4, from), dynamic_slice_sizes={{1}}\n\
                     half = f32[] constant(0.5)\nhalves = f32[1] broadcast(half), dimensions={{}}\n\
                     scaled = f32[1] multiply(part, halves)\n\
                     sums = f32[5] dynamic-update-slice(s4, scaled, to)\n",
                    self.draw(3)
                );
                self.computation(&lines, &tuple("count", "sums"))
            }
            3 => {
                let (yes, no) = (self.body(depth, budget - 1), self.body(depth, budget - 1));
                let lines = self.index("which", 2)
                    + "zero = s32[] constant(0)\ntest = pred[] compare(which, zero), direction=EQ\n";
                let given = format!(
                    "r = {STATE} conditional(test, state, state), true_computation={yes}, false_computation={no}"
                );
                self.computation(&lines, &given)
            }
            _ => {
                let body = self.body(depth + 1, budget - 1);
                let lines = format!(
                    "after = {STATE} call(state), to_apply={body}\n\
                     {}one = s32[] constant(1)\nnext = s32[] add(s{depth}, one)\n",
                    (0..6)
                        .filter(|&at| at != depth)
                        .map(|at| {
                            let part =
                                ["s32[]", "s32[]", "s32[]", "s32[]", "f32[5]", "f32[4,3]"][at];
                            format!("a{at} = {part} get-tuple-element(after), index={at}\n")
                        })
                        .collect::<String>()
                );
                let parts = |own: &str, other: &str| {
                    let part = |at| {
                        if at == depth {
                            own.to_owned()
                        } else {
                            format!("{other}{at}")
                        }
                    };
                    (0..6).map(part).collect::<Vec<_>>().join(", ")
                };
                let step = self.computation(
                    &lines,
                    &format!("r = {STATE} tuple({})", parts("next", "a")),
                );
                // The number of iterations is fixed, or depends on the counters around.
                let limit = match self.draw(2) {
                    0 => "limit = s32[] constant(9)\n".to_owned(),
                    _ => {
                        let around = if depth == 0 {
                            "s3".to_owned()
                        } else {
                            format!("s{}", depth - 1)
                        };
                        format!(
                            "three = s32[] constant(3)\nmore = s32[] remainder({around}, three)\n\
                             least = s32[] constant({})\nlimit = s32[] add(more, least)\n",
                            self.draw(3)
                        )
                    }
                };
                let going = self.computation(
                    &limit,
                    &format!("less = pred[] compare(s{depth}, limit), direction=LT"),
                );
                let lines = format!(
                    "zero = s32[] constant(0)\nstart = {STATE} tuple({})\n",
                    parts("zero", "s")
                );
                self.computation(
                    &lines,
                    &format!("r = {STATE} while(start), condition={going}, body={step}"),
                )
            }
        }
    }

    fn program(seed: u64) -> String {
        let mut drawn = Self {
            seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            computations: Vec::new(),
        };
        let body = loop {
            drawn.computations.clear();
            let body = drawn.body(0, 4);
            let loops = drawn
                .computations
                .iter()
                .filter(|text| text.contains(" while("))
                .count();
            if loops > 1 && drawn.computations.len() < 60 {
                break body;
            }
        };
        format!(
            "HloModule drawn\n{}ENTRY main {{\nxs = f32[4,3] parameter(0)\nfirst = f32[5] parameter(1)\n\
             zero = s32[] constant(0)\nstart = {STATE} tuple(zero, zero, zero, zero, first, xs)\n\
             end = {STATE} call(start), to_apply={body}\n\
             ROOT sums = f32[5] get-tuple-element(end), index=4\n}}\n",
            drawn.computations.concat()
        )
    }
}

#[test]
fn drawn_loops_and_conditionals_in_each_other_read_what_the_evaluator_reads() {
    let programs: u64 = std::env::var("TEGULA_SWEEP")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(40);
    let mut nested = 0;
    for seed in 0..programs {
        let text = Programs::program(seed);
        check(&text);
        let session = open(&text);
        let graph = session.graph().expect("it is planned");
        let result = graph.results[0];
        let reads = session.reads(result, &[0, 1, 2, 3, 4], Scope::Program, &BTreeMap::new());
        let loops = reads.expect("elements are followed").loops;
        nested += usize::from(loops.iter().any(|found| found.parent.is_some()));
    }
    // Short loops are written out; enough of them are not.
    assert!(nested * 5 > programs as usize, "{nested} of {programs}");
}
