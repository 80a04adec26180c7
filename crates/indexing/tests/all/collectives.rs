//! Tests the maps of collectives, alone and in chains, against an evaluation for a small group of
//! participants. There, every element carries the set of parameter elements, of all participants,
//! that it was computed from.

use crate::common::proof::simplified;
use std::collections::BTreeSet;

use crate::common::modules::{Program, collective};
use crate::common::{Random, cases};
use tegula_expr::Var;
use tegula_indexing::{
    Cause, Exactness, IndexingMap, OperandIndexing, RuntimeSource, Simplifier,
    fusion_input_to_output, fusion_output_to_input,
};
use tegula_ir::{ComputationId, FusionKind, InstructionId, Op, ReplicaGroups};

/// A participant, and an index of its array.
type Element = (usize, Vec<i64>);

/// One participant's array: for each element, in row-major order, what it was computed from.
#[derive(Clone)]
struct Array {
    sizes: Vec<i64>,
    from: Vec<BTreeSet<Element>>,
}

fn indices(sizes: &[i64]) -> Vec<Vec<i64>> {
    sizes.iter().fold(vec![Vec::new()], |all, size| {
        let longer =
            |index: Vec<i64>| (0..*size).map(move |i| index.iter().copied().chain([i]).collect());
        all.into_iter().flat_map(longer).collect()
    })
}

impl Array {
    fn of(sizes: &[i64], from: impl Fn(&[i64]) -> BTreeSet<Element>) -> Self {
        Self {
            sizes: sizes.to_vec(),
            from: indices(sizes).iter().map(|index| from(index)).collect(),
        }
    }

    fn at(&self, index: &[i64]) -> BTreeSet<Element> {
        let flat = index
            .iter()
            .zip(&self.sizes)
            .fold(0, |flat, (i, n)| flat * n + i);
        self.from[usize::try_from(flat).expect("an index")].clone()
    }
}

#[derive(Clone, Debug)]
enum Step {
    AllGather(usize),
    AllReduce,
    ReduceScatter(usize),
    AllToAll(usize),
    Broadcast,
    Permute(Vec<(i64, i64)>),
    /// No collective: a transposition.
    Transpose,
}

fn replaced(index: &[i64], dim: usize, value: i64) -> Vec<i64> {
    let mut index = index.to_vec();
    index[dim] = value;
    index
}

/// The arrays of all participants after a step, by its definition.
fn apply(step: &Step, groups: &[Vec<usize>], arrays: &[Array]) -> Vec<Array> {
    (0..arrays.len())
        .map(|own| {
            let group = groups
                .iter()
                .find(|group| group.contains(&own))
                .expect("a group");
            let position = group
                .iter()
                .position(|member| *member == own)
                .expect("a member") as i64;
            let count = group.len() as i64;
            let sizes = arrays[own].sizes.clone();
            let member =
                |position: i64| &arrays[group[usize::try_from(position).expect("a member")]];
            let all = |index: &[i64]| -> BTreeSet<Element> {
                group
                    .iter()
                    .flat_map(|member| arrays[*member].at(index))
                    .collect()
            };
            match step {
                Step::AllGather(dim) => {
                    let part = sizes[*dim];
                    Array::of(&replaced(&sizes, *dim, part * count), |index| {
                        let place = index[*dim];
                        member(place / part).at(&replaced(index, *dim, place % part))
                    })
                }
                Step::AllReduce => Array::of(&sizes, all),
                Step::ReduceScatter(dim) => {
                    let part = sizes[*dim] / count;
                    Array::of(&replaced(&sizes, *dim, part), |index| {
                        all(&replaced(index, *dim, position * part + index[*dim]))
                    })
                }
                Step::AllToAll(dim) => {
                    let part = sizes[*dim] / count;
                    Array::of(&sizes, |index| {
                        let place = index[*dim];
                        let there = position * part + place % part;
                        member(place / part).at(&replaced(index, *dim, there))
                    })
                }
                Step::Broadcast => Array::of(&sizes, |index| member(0).at(index)),
                Step::Permute(pairs) => {
                    let source = pairs.iter().find(|(_, target)| *target == own as i64);
                    Array::of(&sizes, |index| {
                        let from = source.map(|(from, _)| usize::try_from(*from).expect("one"));
                        from.map_or_else(BTreeSet::new, |from| arrays[from].at(index))
                    })
                }
                Step::Transpose => {
                    let turned: Vec<i64> = sizes.iter().rev().copied().collect();
                    Array::of(&turned, |index| {
                        let index: Vec<i64> = index.iter().rev().copied().collect();
                        arrays[own].at(&index)
                    })
                }
            }
        })
        .collect()
}

fn op(step: &Step, groups: &[Vec<usize>]) -> Op {
    let lists: Vec<Vec<i64>> = groups
        .iter()
        .map(|group| group.iter().map(|member| *member as i64).collect())
        .collect();
    let lists: Vec<&[i64]> = lists.iter().map(Vec::as_slice).collect();
    let collective = collective(&lists);
    let to_apply = ComputationId::from_u32(0);
    match step {
        Step::AllGather(dim) => Op::AllGather {
            collective,
            dimension: *dim as i64,
            start: false,
        },
        Step::AllReduce => Op::AllReduce {
            collective,
            to_apply,
            start: false,
        },
        Step::ReduceScatter(dim) => Op::ReduceScatter {
            collective,
            dimension: *dim as i64,
            to_apply,
        },
        Step::AllToAll(dim) => Op::AllToAll {
            collective,
            dimension: Some(*dim as i64),
        },
        Step::Broadcast => Op::CollectiveBroadcast(collective),
        Step::Permute(pairs) => Op::CollectivePermute {
            pairs: pairs.clone(),
            channel_id: None,
            start: false,
        },
        Step::Transpose => Op::Transpose(smallvec::smallvec![1, 0]),
    }
}

/// The participants of the group that contains participant `own`, in the order of their positions.
fn members(groups: &ReplicaGroups, own: usize) -> Vec<usize> {
    let ReplicaGroups::Lists(lists) = groups else {
        panic!("groups are listed here");
    };
    let group = lists.iter().find(|group| group.contains(&(own as i64)));
    match group {
        Some(group) => group.iter().map(|member| *member as usize).collect(),
        // Without groups, a position is a participant.
        None => (0..=own.max(8)).collect(),
    }
}

/// What the map names for the participant that runs it: pairs of its own index and an element.
fn named(map: &IndexingMap, own: usize) -> BTreeSet<(Vec<i64>, Element)> {
    let mut free = map.clone();
    free.runtime.clear();
    free.constraints.clear();
    free.results.clear();
    free.participant = None;
    let mut found = BTreeSet::new();
    for (point, _) in free.enumerate(1_000_000).expect("small") {
        let mut point = point;
        for runtime in &map.runtime {
            let Some(RuntimeSource::Position(groups)) = &runtime.source else {
                panic!("{map}: a run-time variable that is no position");
            };
            let members = members(groups, own);
            let position = members.iter().position(|member| *member == own);
            point.push(position.expect("a position") as i64);
        }
        let Some(results) = map.evaluate(&point).expect("a value") else {
            continue;
        };
        let participant = map.participant.as_ref().map_or(own, |participant| {
            let position = participant
                .position
                .eval(&|var: Var| point.get(var.0 as usize).copied())
                .expect("a position");
            members(&participant.groups, own)[usize::try_from(position).expect("a position")]
        });
        found.insert((point[..map.dims.len()].to_vec(), (participant, results)));
    }
    found
}

/// Compares the maps of the only operand with the truth; returns whether they are known.
fn compare(found: &[OperandIndexing], truth: &[BTreeSet<(Vec<i64>, Element)>], what: &str) -> bool {
    let maps = match &found[0].maps {
        Ok(maps) => maps,
        Err(unknown) => {
            assert_eq!(unknown.cause, Cause::MixedGroups, "{what}");
            return false;
        }
    };
    for (own, truth) in truth.iter().enumerate() {
        let mut all = BTreeSet::new();
        for map in maps {
            assert_eq!(map.exactness, Exactness::Exact, "{what}: {map}");
            let simple = simplified(map);
            assert!(
                simple.is_empty() || named(&simple, own) == named(map, own),
                "{what}: {map}"
            );
            all.extend(named(map, own));
        }
        let shown: Vec<String> = maps.iter().map(ToString::to_string).collect();
        assert_eq!(all, *truth, "{what}: participant {own}: {shown:#?}");
    }
    true
}

fn check(steps: &[Step], groups: &[Vec<usize>], sizes: &[i64]) -> bool {
    let count = groups.iter().map(Vec::len).sum();
    let start = |own: usize| Array::of(sizes, |index| BTreeSet::from([(own, index.to_vec())]));
    let mut arrays: Vec<Array> = (0..count).map(start).collect();
    let mut program = Program::new();
    let mut last: InstructionId = program.parameter(sizes);
    for step in steps {
        arrays = apply(step, groups, &arrays);
        last = program.array(op(step, groups), &[last], &arrays[0].sizes);
    }
    let calls = program.module.instructions[last].computation;
    program.start_computation();
    let operand = program.parameter(sizes);
    let kind = FusionKind::Loop;
    let fusion = program.array(Op::Fusion { kind, calls }, &[operand], &arrays[0].sizes);
    let (mut reads, mut readers) = (vec![BTreeSet::new(); count], vec![BTreeSet::new(); count]);
    for (own, array) in arrays.iter().enumerate() {
        for index in indices(&array.sizes) {
            for (from, source) in array.at(&index) {
                reads[own].insert((index.clone(), (from, source.clone())));
                readers[from].insert((source, (own, index.clone())));
            }
        }
    }
    let what = format!("{steps:?} over {groups:?} of {sizes:?}");
    let simplifier = &mut Simplifier::new();
    let backward = fusion_output_to_input(&program.module, fusion, 0, simplifier);
    let forward = fusion_input_to_output(&program.module, fusion, 0, simplifier);
    let known = compare(&backward, &reads, &format!("{what}, backward"));
    known & compare(&forward, &readers, &format!("{what}, forward"))
}

fn random_step(random: &mut Random, sizes: &[i64], members: i64, all: i64) -> Option<Step> {
    let dim = usize::try_from(random.range(0, 1)).expect("a dimension");
    let divides = sizes[dim] % members == 0;
    Some(match random.range(0, 6) {
        0 if sizes[dim] * members <= 12 => Step::AllGather(dim),
        1 => Step::AllReduce,
        2 if divides => Step::ReduceScatter(dim),
        3 if divides => Step::AllToAll(dim),
        4 => Step::Broadcast,
        5 => {
            let shift = random.range(1, all);
            let kept = (0..all).filter(|_| random.range(0, 3) > 0);
            Step::Permute(kept.map(|from| (from, (from + shift) % all)).collect())
        }
        6 => Step::Transpose,
        _ => return None,
    })
}

#[test]
fn maps_name_the_elements_of_every_participant() {
    let (mut known, mut seen) = (0, BTreeSet::new());
    let total = cases(400).min(20_000);
    for case in 0..total {
        let mut random = Random(case ^ 0xC0);
        let mut groups: Vec<Vec<usize>> = match random.range(0, 3) {
            0 => vec![vec![0, 1]],
            1 => vec![vec![0, 1, 2]],
            2 => vec![vec![0, 2], vec![1, 3]],
            _ => vec![vec![0, 3], vec![1, 2]],
        };
        if random.range(0, 1) == 1 {
            groups.iter_mut().for_each(|group| group.reverse());
        }
        let members = groups[0].len() as i64;
        let all = groups.iter().map(Vec::len).sum::<usize>() as i64;
        let mut sizes = vec![members * random.range(1, 2), random.range(1, 3)];
        let first = sizes.clone();
        let mut steps: Vec<Step> = Vec::new();
        for _ in 0..random.range(1, 3) {
            let Some(step) = random_step(&mut random, &sizes, members, all) else {
                continue;
            };
            match &step {
                Step::AllGather(dim) => sizes[*dim] *= members,
                Step::ReduceScatter(dim) => sizes[*dim] /= members,
                Step::Transpose => sizes.reverse(),
                _ => {}
            }
            seen.insert(op(&step, &groups).opcode().name());
            steps.push(step);
        }
        if !steps.is_empty() {
            known += u64::from(check(&steps, &groups, &first));
        }
    }
    assert_eq!(seen.len(), 7, "{seen:?}");
    assert!(known * 2 > total, "{known} of {total} chains have maps");
}

/// The size of the printed map does not depend on the length of the chain.
#[test]
fn long_chains_of_permutations_stay_short() {
    let text = |length: usize| {
        let steps: String = (1..=length)
            .map(|i| {
                let root = if i == length { "ROOT " } else { "" };
                format!(
                    "{root}a{i} = f32[4,8] collective-permute(a{}), \
                     source_target_pairs={{{{0,1}},{{1,2}},{{2,3}},{{3,0}}}}\n",
                    i - 1
                )
            })
            .collect();
        format!(
            "HloModule m
             body {{ a0 = f32[4,8] parameter(0)
             {steps} }}
             ENTRY e {{ p = f32[4,8] parameter(0) ROOT c = f32[4,8] call(p), to_apply=body }}"
        )
    };
    let maps = |length: usize| {
        let module = tegula_ir::parse_module(&text(length)).expect("it reads");
        let call = module.entry_computation().root;
        let mut simplifier = Simplifier::new();
        let operands = fusion_output_to_input(&module, call, 0, &mut simplifier);
        let map = operands[0].maps.as_ref().expect("it is known")[0].clone();
        map.to_string()
    };
    // Four steps are the identity, and one more step follows.
    assert_eq!(maps(9), maps(205));
}
