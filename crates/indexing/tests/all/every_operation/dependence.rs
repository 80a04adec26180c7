//! Compares the real dependences of results on operands with what the maps name.

use std::collections::BTreeSet;

use tegula_expr::Var;
use tegula_indexing::{
    Exactness, IndexingMap, OperandIndexing, RuntimeSource, Simplifier, fusion_input_to_output,
    fusion_output_to_input,
};
use tegula_interp::Value;
use tegula_ir::{ElementType, Literal};

use super::case::{Case, Instance, leaves, replaced, sizes, unflatten};
use crate::common::Random;

/// (operand index, result index).
pub(crate) type Relation = BTreeSet<(Vec<i64>, Vec<i64>)>;

/// The number of trials with different values per instance.
const TRIALS: usize = 10;
/// The number of trials if an element seems to be named without reason. Ten trials miss an element
/// that a predicate chooses half of the time once in a thousand elements; this many never do.
const MOST_TRIALS: usize = 64;

/// Different values for an element, as bytes.
fn changes(literal: &Literal, element: usize, random: &mut Random) -> Vec<Vec<u8>> {
    let width = literal.element_type().storage_bytes();
    let old = &literal.bytes()[element * width..(element + 1) * width];
    let new: Vec<Vec<u8>> = match literal.element_type() {
        ElementType::F32 => [f32::NAN, 5000.0, -5000.0, random.range(1, 400) as f32 + 0.5]
            .iter()
            .map(|v| v.to_le_bytes().to_vec())
            .collect(),
        ElementType::C64 => [f32::NAN, 5000.0]
            .iter()
            .map(|v| [v.to_le_bytes(), v.to_le_bytes()].concat())
            .collect(),
        ElementType::Pred => vec![vec![1 - old[0]]],
        _ => (-1..6).map(|v: i32| v.to_le_bytes().to_vec()).collect(),
    };
    new.into_iter().filter(|new| new != old).collect()
}

/// The elements of array `output` that change with each element of operand `operand`.
pub(crate) fn dependence(
    case: &Case,
    arguments: &[Value],
    base: &[Literal],
    (operand, leaf): (usize, usize),
    output: usize,
    random: &mut Random,
) -> Relation {
    let mut found = Relation::new();
    let own = leaves(&arguments[operand])[leaf].clone();
    let (own_sizes, width) = (sizes(&own), own.element_type().storage_bytes());
    for element in 0..own.bytes().len() / width {
        for change in changes(&own, element, random) {
            let mut changed = own.clone();
            changed.bytes_mut()[element * width..(element + 1) * width].copy_from_slice(&change);
            let mut arguments = arguments.to_vec();
            let mut at = leaf;
            arguments[operand] = replaced(&arguments[operand], &mut at, &changed);
            let after = &case.run(&arguments)[output];
            let before = &base[output];
            let out = before.element_type().storage_bytes();
            let pairs = before.bytes().chunks(out).zip(after.bytes().chunks(out));
            for (position, (a, b)) in pairs.enumerate() {
                if a != b {
                    let to = unflatten(position, &sizes(before));
                    found.insert((unflatten(element, &own_sizes), to));
                }
            }
        }
    }
    found
}

/// The pairs that a map names, with run-time variables bound to the arguments.
fn named(case: &Case, map: &IndexingMap, arguments: &[Value], forward: bool) -> Relation {
    let mut free = map.clone();
    let first = map.dims.len() + map.ranges.len();
    // Bound variables are given their single value below.
    free.runtime.clear();
    free.constraints.clear();
    free.results.clear();
    let mut found = Relation::new();
    for (point, _) in free.enumerate(2_000_000).expect("small") {
        let mut point = point;
        for runtime in &map.runtime {
            let value = bind(case, runtime, &point, arguments);
            point.push(value);
        }
        assert_eq!(point.len(), first + map.runtime.len());
        if let Some(results) = map.evaluate(&point).expect("a value") {
            let start = point[..map.dims.len()].to_vec();
            found.insert(if forward {
                (start, results)
            } else {
                (results, start)
            });
        }
    }
    found
}

pub(crate) fn bind(
    case: &Case,
    runtime: &tegula_indexing::RuntimeVariable,
    point: &[i64],
    arguments: &[Value],
) -> i64 {
    let Some(RuntimeSource::Element {
        instruction,
        index,
        clamped,
    }) = &runtime.source
    else {
        panic!("{}: a source", case.text)
    };
    let parameters = &case.module.entry_computation().parameters;
    let operand = parameters.iter().position(|id| id == instruction);
    let literal = leaves(&arguments[operand.expect("an operand")])[0].clone();
    let index: Vec<i64> = index
        .iter()
        .map(|term| {
            term.eval(&|var: Var| point.get(var.0 as usize).copied())
                .expect("an index")
        })
        .collect();
    let flat = index
        .iter()
        .zip(sizes(&literal))
        .fold(0, |flat, (i, n)| flat * n + i);
    let flat = usize::try_from(flat).expect("an index");
    let word: [u8; 4] = literal.bytes()[flat * 4..flat * 4 + 4]
        .try_into()
        .expect("four");
    let value = i64::from(i32::from_le_bytes(word));
    let bounds = runtime.variable.bounds;
    if *clamped {
        value.clamp(bounds.lower, bounds.upper)
    } else {
        value
    }
}

/// The union over an operand's maps, and whether all are exact.
fn union(
    case: &Case,
    found: &OperandIndexing,
    arguments: &[Value],
    forward: bool,
) -> (Relation, bool) {
    let maps = found
        .maps
        .as_ref()
        .unwrap_or_else(|unknown| panic!("{}: {}", case.text, unknown.cause));
    let mut relation = Relation::new();
    let mut exact = true;
    let mut simplifier = Simplifier::new();
    for map in maps {
        let own = named(case, map, arguments, forward);
        let simple = named(case, &simplifier.simplify_map(map), arguments, forward);
        if !simplifier.simplify_map(map).is_empty() {
            assert_eq!(own, simple, "{}: {map}", case.text);
        }
        relation.extend(own);
        exact &= map.exactness == Exactness::Exact;
    }
    (relation, exact)
}

/// Checks one instance; returns the operands whose maps are supersets.
pub(crate) fn check(instance: &Instance, random: &mut Random) -> BTreeSet<(&'static str, usize)> {
    let case = Case::new(instance);
    let mut supersets = BTreeSet::new();
    let opcode = case.module[case.root].op.opcode().name();
    let mut simplifier = Simplifier::new();
    let outputs = case.module[case.root].shape.leaf_count();
    // Indices stay the same, so that run-time variables have one value.
    let fixed = case.arguments(random);
    let trial = |random: &mut Random| -> Vec<Value> {
        let fresh = case.arguments(random);
        let keep = |(old, new): (&Value, Value)| match old {
            Value::Array(literal) if literal.element_type() == ElementType::S32 => old.clone(),
            _ => new,
        };
        fixed.iter().zip(fresh).map(keep).collect()
    };
    let trials: Vec<Vec<Value>> = (0..TRIALS).map(|_| trial(random)).collect();
    for output in 0..outputs {
        let backward = fusion_output_to_input(&case.module, case.root, output, &mut simplifier);
        let forward = fusion_input_to_output(&case.module, case.root, output, &mut simplifier);
        assert_eq!(backward.len(), forward.len());
        for (back, forth) in backward.iter().zip(&forward) {
            let place = (back.operand, back.leaf);
            let mut real = Relation::new();
            for arguments in &trials {
                let base = case.run(arguments);
                real.extend(dependence(&case, arguments, &base, place, output, random));
            }
            for (found, is_forward) in [(back, false), (forth, true)] {
                let (relation, exact) = union(&case, found, &fixed, is_forward);
                let missed: Vec<_> = real.difference(&relation).take(3).collect();
                let maps = found.maps.as_ref().expect("maps");
                let shown: Vec<String> = maps.iter().map(ToString::to_string).collect();
                assert!(
                    missed.is_empty(),
                    "{}: operand {place:?}, output {output}, forward {is_forward}: not named {missed:?}\n{shown:#?}",
                    case.text
                );
                // An index or a predicate is read even if it cannot influence the result.
                if exact && is_number(&trials[0], place) {
                    for _ in TRIALS..MOST_TRIALS {
                        if relation.is_subset(&real) {
                            break;
                        }
                        let arguments = trial(random);
                        let base = case.run(&arguments);
                        real.extend(dependence(&case, &arguments, &base, place, output, random));
                    }
                    let more: Vec<_> = relation.difference(&real).take(3).collect();
                    assert!(
                        more.is_empty(),
                        "{}: operand {place:?}, output {output}, forward {is_forward}: nothing depends on {more:?}\n{shown:#?}",
                        case.text
                    );
                }
                if !exact {
                    supersets.insert((opcode, back.operand));
                }
            }
        }
    }
    supersets
}

pub(crate) fn is_number(arguments: &[Value], (operand, leaf): (usize, usize)) -> bool {
    let ty = leaves(&arguments[operand])[leaf].element_type();
    matches!(ty, ElementType::F32 | ElementType::C64)
}
