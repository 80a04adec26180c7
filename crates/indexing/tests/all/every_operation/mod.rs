//! Tests maps of operations by brute force. For random small instances of every operation that the
//! reference evaluator runs, operands' elements are changed one at a time to find out what each
//! element of the result depends on. An exact map names exactly those pairs, and a superset
//! contains them; in both directions.

pub(crate) mod case;
pub(crate) mod dependence;
pub(crate) mod instances;

use std::collections::BTreeSet;

use crate::common::{Random, cases};
use case::{Case, Instance};
use dependence::check;
use instances::{contraction, control, elementwise, library, movement, with_offsets};
use tegula_ir::{Op, Opcode};

/// Operands whose maps name more than is read; the documentation of the crate's `ops` module has
/// the same list.
const SUPERSETS: &[(&str, usize)] = &[
    ("cholesky", 0),
    ("conditional", 1),
    ("conditional", 2),
    ("dynamic-update-slice", 0),
    ("pad", 1),
    ("select-and-scatter", 0),
    ("select-and-scatter", 1),
    ("sort", 1),
    ("triangular-solve", 0),
    ("triangular-solve", 1),
    ("while", 0),
];

/// Operations that the reference evaluator does not run or that depend on no operand, and the tests
/// that cover them instead.
const ELSEWHERE: &[(&str, &[&str])] = &[
    (
        "collectives.rs",
        &[
            "all-gather",
            "all-reduce",
            "all-to-all",
            "collective-broadcast",
            "collective-permute",
            "reduce-scatter",
        ],
    ),
    (
        "further_operations.rs",
        &[
            "add-dependency",
            "all-gather-done",
            "all-gather-start",
            "all-reduce-done",
            "all-reduce-start",
            "async-done",
            "async-start",
            "async-update",
            "collective-permute-done",
            "collective-permute-start",
            "copy-done",
            "copy-start",
            "custom-call",
            "domain",
            "dynamic-reshape",
            "ragged-all-to-all",
            "ragged-dot",
            "rng",
            "rng-bit-generator",
            "scaled-dot",
            "scan",
            "set-dimension-size",
            "stochastic-convert",
        ],
    ),
    (
        "no operands, or no arrays",
        &[
            "after-all",
            "constant",
            "infeed",
            "iota",
            "outfeed",
            "parameter",
            "partition-id",
            "recv",
            "recv-done",
            "replica-id",
            "rng-get-and-update-state",
            "send",
            "send-done",
        ],
    ),
];

#[test]
fn maps_name_what_results_depend_on() {
    let mut supersets = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut run = |instance: &Instance, random: &mut Random| {
        let case = Case::new(instance);
        if !matches!(case.module[case.root].op, Op::Parameter(_)) {
            seen.insert(case.module[case.root].op.opcode().name());
        }
        supersets.extend(check(instance, random));
    };
    for case in 0..cases(600).min(20_000) {
        let mut random = Random(case ^ 0x5eed);
        let drawn = match case % 4 {
            0 => movement(&mut random, (case as i64 / 4) % 12),
            1 => with_offsets(&mut random, (case as i64 / 4) % 6),
            2 => contraction(&mut random, (case as i64 / 4) % 4),
            _ => library(&mut random, (case as i64 / 4) % 13),
        };
        run(&drawn, &mut random);
    }
    for kind in 0..6 {
        run(&control(kind), &mut Random(kind as u64));
    }
    for instance in elementwise() {
        run(&instance, &mut Random(1));
    }
    println!("supersets: {supersets:?}");
    let expected: BTreeSet<_> = SUPERSETS.iter().copied().collect();
    assert_eq!(supersets, expected);
    let elsewhere: BTreeSet<&str> = ELSEWHERE
        .iter()
        .flat_map(|(_, names)| *names)
        .copied()
        .collect();
    for opcode in Opcode::ALL {
        let name = opcode.name();
        assert!(
            seen.contains(name) != elsewhere.contains(name),
            "`{name}` is tried here or elsewhere"
        );
    }
}
