//! Every operation that the reference evaluator runs.

use std::collections::BTreeMap;

use super::{At, Indices, check, indices, is_exact, points, random_sizes, tiles_of};
use crate::common::{Random, cases};
use crate::every_operation::case::{Case, Instance};
use crate::every_operation::dependence::{Relation, bind, dependence, is_number};
use crate::every_operation::instances::{
    contraction, control, elementwise, library, movement, with_offsets,
};
use tegula_indexing::tiles::{OperandTiles, Tiling, TilingSpace};
use tegula_indexing::{Exactness, IndexingMap, OperandIndexing, Simplifier};
use tegula_interp::Value;

/// The number of trials with different values, on which the dependences may differ.
const TRIALS: usize = 10;

/// How often tiles are exact.
#[derive(Default)]
struct Tally {
    tiles: u64,
    exact: u64,
    by_operation: BTreeMap<&'static str, (u64, u64)>,
}

/// What the elements of the result really depend on.
pub(super) fn real(
    case: &Case,
    arguments: &[Vec<Value>],
    place: (usize, usize),
    output: usize,
    random: &mut Random,
) -> Relation {
    let mut found = Relation::new();
    for arguments in arguments {
        let base = case.run(arguments);
        found.extend(dependence(case, arguments, &base, place, output, random));
    }
    found
}

/// One operand of one tiling: its tiles against its maps, and together against what
/// the evaluator reads.
fn check_operand(
    case: &Case,
    (maps, tiles): (&OperandIndexing, &OperandTiles),
    (space, sizes): (&TilingSpace, &[i64]),
    (real, is_known): (&Relation, bool),
    arguments: &[Value],
    tally: &mut Tally,
) {
    let maps: &Vec<IndexingMap> = maps.maps.as_ref().expect("maps");
    let tiles = tiles.tiles.as_ref().expect("tiles");
    assert!(tiles.len() <= maps.len());
    let bind_one = |map: &IndexingMap, number: usize, point: &[i64]| {
        bind(case, &map.runtime[number], point, arguments)
    };
    let all: Vec<_> = maps.iter().map(|map| points(map, &bind_one)).collect();
    let parallel = space.parallel().count();
    let opcode = case.module[case.root].op.opcode().name();
    // For each tile of the result, the elements named by all its tiles along reduced dimensions.
    let mut named: BTreeMap<Vec<i64>, (Indices, bool)> = BTreeMap::new();
    for number in tiles_of(space, sizes) {
        for (map, points) in maps.iter().zip(&all) {
            let tile = tegula_indexing::tiles::Tile::of(map, space);
            assert!(tiles.contains(&tile));
            let mut at = At {
                tile: number.clone(),
                sizes: sizes.to_vec(),
                runtime: Vec::new(),
            };
            let first: Vec<i64> = number.iter().zip(sizes).map(|(n, t)| n * t).collect();
            let ranges = map.ranges.iter().map(|range| range.bounds.lower);
            let mut point: Vec<i64> = first.iter().copied().chain(ranges).collect();
            for number in 0..map.runtime.len() {
                let value = bind_one(map, number, &point);
                point.push(value);
                at.runtime.push(value);
            }
            let inside = points.iter().filter(|(point, _)| at.has(point));
            let read: Indices = inside.map(|(_, results)| results.clone()).collect();
            let mut tile = tile;
            if map.exactness == Exactness::Superset {
                assert!(!tile.is_exact());
            }
            check(&tile, &at, &read, &case.text);
            let exact = is_exact(&tile, &at);
            tally.tiles += 1;
            tally.exact += u64::from(exact);
            let own = tally.by_operation.entry(opcode).or_default();
            *own = (own.0 + u64::from(exact), own.1 + 1);
            let slot = named.entry(number[..parallel].to_vec());
            let (named, is_exact) = slot.or_insert((Indices::new(), true));
            named.extend(indices(&tile, &at));
            *is_exact &= exact;
            tile.reasons.clear();
        }
    }
    for (number, (named, is_exact)) in named {
        let at = At {
            tile: number,
            sizes: sizes[..parallel].to_vec(),
            runtime: Vec::new(),
        };
        let own = real.iter().filter(|(_, result)| at.has(result));
        let read: Indices = own.map(|(operand, _)| operand.clone()).collect();
        let missed: Vec<_> = read.difference(&named).take(3).collect();
        assert!(missed.is_empty(), "{}: not named {missed:?}", case.text);
        if is_exact && is_known {
            let more: Vec<_> = named.difference(&read).take(3).collect();
            let shown: Vec<String> = maps.iter().map(ToString::to_string).collect();
            assert!(
                more.is_empty(),
                "{}: not read {more:?}\ntile {:?} of {sizes:?}\n{shown:#?}\n{tiles:#?}",
                case.text,
                at.tile
            );
        }
    }
}

/// One operation: given and open sizes, every operand.
fn check_instance(instance: &Instance, random: &mut Random, tally: &mut Tally) {
    let case = Case::new(instance);
    let mut simplifier = Simplifier::new();
    let fixed = case.arguments(random);
    let trials: Vec<Vec<Value>> = (0..TRIALS)
        .map(|_| {
            let fresh = case.arguments(random);
            let keep = |(old, new): (&Value, Value)| match old {
                Value::Array(literal) if literal.element_type() == tegula_ir::ElementType::S32 => {
                    old.clone()
                }
                _ => new,
            };
            fixed.iter().zip(fresh).map(keep).collect()
        })
        .collect();
    for output in 0..case.module[case.root].shape.leaf_count() {
        let Ok(tiling) = Tiling::of(&case.module, case.root, output, &mut simplifier) else {
            continue;
        };
        let sizes = random_sizes(&tiling.space, random);
        let given: Vec<Option<i64>> = sizes.iter().copied().map(Some).collect();
        let spaces = [tiling.space.with_sizes(&given), tiling.space.clone()];
        for (number, maps) in tiling.operand_maps().iter().enumerate() {
            let place = (maps.operand, maps.leaf);
            let real = real(&case, &trials, place, output, random);
            // A few trials do not show for each element which of two a predicate selects.
            let chooses = case.module[case.root].op.opcode().name() == "select";
            let is_known = is_number(&fixed, place) && !chooses;
            for space in &spaces {
                let tiles = &tiling.operands(space)[number];
                check_operand(
                    &case,
                    (maps, tiles),
                    (space, &sizes),
                    (&real, is_known),
                    &fixed,
                    tally,
                );
            }
        }
    }
}

/// Operations whose results depend on data, so that a few trials do not show everything that is
/// read; `every_operation` tests those.
fn depends_on_data(kind: i64) -> bool {
    matches!(kind, 0..=2 | 5 | 6 | 10)
}

#[test]
fn tiles_have_what_operations_read() {
    let mut tally = Tally::default();
    for case in 0..cases(400) {
        let mut random = Random(case ^ 0x7115);
        let drawn = match case % 4 {
            0 => movement(&mut random, (case as i64 / 4) % 12),
            1 => with_offsets(&mut random, (case as i64 / 4) % 6),
            2 => contraction(&mut random, (case as i64 / 4) % 4),
            _ => {
                let kind = (case as i64 / 4) % 13;
                if depends_on_data(kind) {
                    contraction(&mut random, kind % 4)
                } else {
                    library(&mut random, kind)
                }
            }
        };
        check_instance(&drawn, &mut random, &mut tally);
    }
    for instance in elementwise().iter().chain(&[control(0), control(3)]) {
        check_instance(instance, &mut Random(3), &mut tally);
    }
    for (name, (exact, all)) in &tally.by_operation {
        println!("{name}: {exact} of {all} exact");
    }
    println!("{} of {} tiles are exact", tally.exact, tally.tiles);
    assert!(tally.exact * 10 > tally.tiles * 7);
}
