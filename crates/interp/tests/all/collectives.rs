//! Compares collectives with their definitions: every mode of groups, 1 to 8 devices, every element
//! type.
//!
//! The expected results are computed here element by element from all devices' arrays, with groups
//! that are enumerated from the definition of each mode, independently of the crate.

use crate::common::module;
use std::time::Duration;
use tegula_devices::{ExchangeError, RunError, Topology};
use tegula_interp::{Error, Options, Value, evaluate_devices};
use tegula_ir::{ArrayShape, Binary, Category, ElementType, Literal, Module, Op};
use tegula_scalar::{Number, apply_binary, encode, has_binary};

const TIMEOUT: Duration = Duration::from_secs(20);

/// The topologies of 1 to 8 devices.
fn topologies() -> impl Iterator<Item = Topology> {
    let all = (1..=8).flat_map(|replicas| (1..=8).map(move |partitions| (replicas, partitions)));
    all.filter(|(r, p)| r * p <= 8)
        .map(|(replicas, partitions)| Topology {
            replicas,
            partitions,
        })
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Replica,
    Partition,
    Both,
    Flattened,
}

impl Mode {
    const ALL: [Self; 4] = [Self::Replica, Self::Partition, Self::Both, Self::Flattened];

    /// The attributes that give an operation this mode; `None` if it cannot have this mode.
    fn attributes(self, states_ids: bool) -> Option<&'static str> {
        match (self, states_ids) {
            (Self::Replica, _) => Some(""),
            (Self::Partition, false) => Some(", channel_id=1"),
            (Self::Both, true) => Some(", channel_id=1"),
            (Self::Flattened, true) => Some(", channel_id=1, use_global_device_ids=true"),
            _ => None,
        }
    }

    fn numbers(self, topology: Topology) -> usize {
        match self {
            Self::Replica | Self::Both => topology.replicas,
            Self::Partition => topology.partitions,
            Self::Flattened => topology.replicas * topology.partitions,
        }
    }

    /// The groups of devices that groups of numbers stand for.
    fn groups(self, topology: Topology, numbers: &[Vec<usize>]) -> Vec<Vec<usize>> {
        let Topology {
            replicas,
            partitions,
        } = topology;
        let mut groups = Vec::new();
        for group in numbers {
            match self {
                Self::Replica => groups.extend((0..partitions).map(|partition| {
                    group
                        .iter()
                        .map(|r| r * partitions + partition)
                        .collect::<Vec<_>>()
                })),
                Self::Partition => groups.extend((0..replicas).map(|replica| {
                    group
                        .iter()
                        .map(|p| replica * partitions + p)
                        .collect::<Vec<_>>()
                })),
                Self::Both => groups.push(
                    (group.iter())
                        .flat_map(|r| (0..partitions).map(move |p| r * partitions + p))
                        .collect(),
                ),
                Self::Flattened => groups.push(group.clone()),
            }
        }
        groups
    }
}

/// Groups of some numbers: the text, and the groups it stands for. The empty list stands for all.
fn groupings(count: usize) -> Vec<(String, Vec<Vec<usize>>)> {
    let mut all = vec![("{}".to_owned(), vec![(0..count).collect()])];
    for size in (1..=count).filter(|size| count.is_multiple_of(*size)) {
        let groups = count / size;
        let rows = (0..groups)
            .map(|g| (0..size).map(|i| g * size + i).collect())
            .collect();
        all.push((format!("[{groups},{size}]<=[{count}]"), rows));
        // Every `groups`-th number, each list in reverse.
        let rows: Vec<Vec<usize>> = (0..groups)
            .map(|g| (0..size).rev().map(|i| i * groups + g).collect())
            .collect();
        let lists: Vec<String> = rows
            .iter()
            .map(|row| {
                let row: Vec<String> = row.iter().map(usize::to_string).collect();
                format!("{{{}}}", row.join(","))
            })
            .collect();
        all.push((format!("{{{}}}", lists.join(",")), rows));
        let strided = (0..groups)
            .map(|g| (0..size).map(|i| i * groups + g).collect())
            .collect();
        all.push((
            format!("[{groups},{size}]<=[{size},{groups}]T(1,0)"),
            strided,
        ));
    }
    all
}

fn header(topology: Topology) -> String {
    format!(
        "HloModule m, replica_count={}, num_partitions={}\n",
        topology.replicas, topology.partitions
    )
}

fn run(module: &Module, topology: Topology, inputs: &[Vec<Literal>]) -> Vec<Vec<Literal>> {
    let arguments: Vec<Vec<Value>> = (inputs.iter())
        .map(|own| own.iter().cloned().map(Value::Array).collect())
        .collect();
    let results = evaluate_devices(module, topology, &arguments, &Options::default(), TIMEOUT);
    let results = results.unwrap_or_else(|error| panic!("{error}\n{module}"));
    let leaves = |value: &Value| value.leaves().into_iter().cloned().collect();
    results.iter().map(leaves).collect()
}

/// The elements of an array as bits.
fn bits(literal: &Literal) -> Vec<u128> {
    let size = literal.element_type().storage_bytes();
    let word = |bytes: &[u8]| {
        let mut word = [0; 16];
        word[..size].copy_from_slice(bytes);
        u128::from_le_bytes(word)
    };
    literal.bytes().chunks(size).map(word).collect()
}

fn array(ty: ElementType, dims: &[i64], bits: &[u128]) -> Literal {
    let bytes: Vec<u8> = (bits.iter())
        .flat_map(|bits| bits.to_le_bytes()[..ty.storage_bytes()].to_vec())
        .collect();
    Literal::from_bytes(&ArrayShape::new(ty, dims), &bytes).unwrap()
}

/// Small numbers of any type, which differ between devices.
fn input(ty: ElementType, dims: &[i64], device: usize) -> Literal {
    let count = dims.iter().product::<i64>() as usize;
    let number = |i: usize| ((i * 7 + device * 5) % 4) as u64;
    let element = |i| match ty.category() {
        Category::Boolean => u128::from(number(i) % 2),
        Category::Signed => encode(ty, Number::Signed(number(i) as i64)),
        Category::Unsigned => encode(ty, Number::Unsigned(number(i))),
        _ if ty.is_complex() => {
            let part = ty.complex_part().unwrap();
            let half = encode(part, Number::Double(number(i) as f64));
            half | encode(part, Number::Double(device as f64)) << part.bits()
        }
        _ => encode(ty, Number::Double(number(i) as f64)),
    };
    array(ty, dims, &(0..count).map(element).collect::<Vec<_>>())
}

/// The element types, each with the function that reduces them.
fn types() -> impl Iterator<Item = (ElementType, Binary)> {
    let binary = |ty: ElementType| {
        let op = [Binary::Add, Binary::Or]
            .into_iter()
            .find(|&op| has_binary(op, ty));
        op.map(|op| (ty, op))
    };
    ElementType::ALL.iter().filter_map(move |&ty| binary(ty))
}

/// Runs one operation on all devices in every mode and grouping, and compares each device's result
/// with `expected`, which computes it from the members' arrays and the device's position.
///
/// `text` returns the operation, whose operands are called `x`; its dimensions may depend on the
/// group's size.
fn holds(
    (ty, op): (ElementType, Binary),
    states_ids: bool,
    dims: impl Fn(usize) -> Vec<i64>,
    result: impl Fn(usize) -> Vec<i64>,
    text: impl Fn(&str) -> String,
    expected: impl Fn(&[Vec<u128>], usize) -> Vec<u128>,
) {
    for topology in topologies() {
        for mode in Mode::ALL {
            let Some(attributes) = mode.attributes(states_ids) else {
                continue;
            };
            for (written, numbers) in groupings(mode.numbers(topology)) {
                if mode == Mode::Flattened && written == "{}" {
                    continue;
                }
                let groups = mode.groups(topology, &numbers);
                let size = groups[0].len();
                let shape = |dims: &[i64]| ArrayShape::new(ty, dims).to_string();
                let scalar = ty.name();
                let call = text(&format!("replica_groups={written}{attributes}"));
                let program = format!(
                    "{}f {{ a = {scalar}[] parameter(0) b = {scalar}[] parameter(1)
                       ROOT c = {scalar}[] {}(a, b) }}
                     ENTRY e {{ x = {} parameter(0)
                       ROOT y = {} {call} }}",
                    header(topology),
                    Op::Binary(op).opcode().name(),
                    shape(&dims(size)),
                    shape(&result(size)),
                );
                let inputs: Vec<Vec<Literal>> = (0..topology.devices())
                    .map(|device| vec![input(ty, &dims(size), device)])
                    .collect();
                let results = run(&module(&program), topology, &inputs);
                for group in &groups {
                    let members: Vec<Vec<u128>> = group
                        .iter()
                        .map(|&member| bits(&inputs[member][0]))
                        .collect();
                    for (position, &device) in group.iter().enumerate() {
                        let expected = expected(&members, position);
                        assert_eq!(bits(&results[device][0]), expected, "{device}\n{program}");
                    }
                }
            }
        }
    }
}

fn sum((ty, op): (ElementType, Binary), members: &[Vec<u128>], at: usize) -> u128 {
    let elements = members.iter().map(|member| member[at]);
    let add = |a, b| apply_binary(op, ty, a, b).unwrap();
    elements.reduce(add).unwrap()
}

const F32: (ElementType, Binary) = (ElementType::F32, Binary::Add);

#[test]
fn all_reduce_adds_in_the_groups_order() {
    for ty in types() {
        let call = |attributes: &str| format!("all-reduce(x), to_apply=f, {attributes}");
        let dims = |_| vec![3];
        holds(ty, true, dims, dims, call, |members, _| {
            (0..3).map(|at| sum(ty, members, at)).collect()
        });
    }
}

#[test]
fn all_gather_joins_along_a_dimension() {
    let call = |attributes: &str| format!("all-gather(x), dimensions={{1}}, {attributes}");
    let result = |size: usize| vec![2, 3 * size as i64];
    holds(
        F32,
        true,
        |_| vec![2, 3],
        result,
        call,
        |members, _| {
            let rows = (0..2).flat_map(|row| members.iter().map(move |m| &m[row * 3..row * 3 + 3]));
            rows.flatten().copied().collect()
        },
    );
}

#[test]
fn reduce_scatter_leaves_a_part_of_the_sum() {
    let call =
        |attributes: &str| format!("reduce-scatter(x), to_apply=f, dimensions={{0}}, {attributes}");
    let dims = |size: usize| vec![2 * size as i64];
    holds(
        F32,
        true,
        dims,
        |_| vec![2],
        call,
        |members, position| {
            (0..2)
                .map(|at| sum(F32, members, position * 2 + at))
                .collect()
        },
    );
}

#[test]
fn all_to_all_exchanges_parts() {
    let call = |attributes: &str| format!("all-to-all(x), dimensions={{1}}, {attributes}");
    let dims = |size: usize| vec![2, 3 * size as i64];
    holds(F32, false, dims, dims, call, |members, position| {
        let width = members.len() * 3;
        let start = |row: usize| row * width + position * 3;
        let rows =
            (0..2).flat_map(|row| members.iter().map(move |m| &m[start(row)..start(row) + 3]));
        rows.flatten().copied().collect()
    });
}

#[test]
fn collective_broadcast_takes_the_first_of_the_group() {
    let call = |attributes: &str| format!("collective-broadcast(x), {attributes}");
    let dims = |_| vec![5];
    holds(F32, false, dims, dims, call, |members, _| {
        members[0].clone()
    });
}

/// Arrays without elements, and scalars, work in every collective.
#[test]
fn empty_arrays_and_scalars() {
    let call = |attributes: &str| format!("all-reduce(x), to_apply=f, {attributes}");
    holds(
        F32,
        true,
        |_| vec![0, 4],
        |_| vec![0, 4],
        call,
        |_, _| Vec::new(),
    );
    holds(
        F32,
        true,
        |_| vec![],
        |_| vec![],
        call,
        |members, _| vec![sum(F32, members, 0)],
    );
    let call = |attributes: &str| format!("all-gather(x), dimensions={{0}}, {attributes}");
    holds(
        F32,
        true,
        |_| vec![0, 4],
        |_| vec![0, 4],
        call,
        |_, _| Vec::new(),
    );
}

#[test]
fn every_type_is_moved() {
    for &ty in ElementType::ALL {
        if has_binary(Binary::Add, ty) || has_binary(Binary::Or, ty) {
            let op = [Binary::Add, Binary::Or]
                .into_iter()
                .find(|&op| has_binary(op, ty));
            let call = |attributes: &str| format!("all-to-all(x), dimensions={{0}}, {attributes}");
            let dims = |size: usize| vec![size as i64];
            let ty = (ty, op.unwrap());
            holds(ty, false, dims, dims, call, |members, position| {
                members.iter().map(|m| m[position]).collect()
            });
        }
    }
}

fn device_inputs(topology: Topology, dims: &[i64]) -> Vec<Vec<Literal>> {
    let devices = 0..topology.devices();
    devices
        .map(|device| vec![input(ElementType::F32, dims, device)])
        .collect()
}

#[test]
fn collective_permute_sends_along_pairs() {
    for topology in topologies() {
        for channel in [false, true] {
            let count = if channel {
                topology.partitions
            } else {
                topology.replicas
            };
            // One ring that is not closed, and one that is.
            for closed in [false, true] {
                let pairs: Vec<(usize, usize)> = (0..count)
                    .map(|i| (i, (i + 1) % count))
                    .filter(|(i, _)| closed || i + 1 < count)
                    .collect();
                let text: Vec<String> = pairs
                    .iter()
                    .map(|(from, to)| format!("{{{from},{to}}}"))
                    .collect();
                let channel_id = if channel { ", channel_id=1" } else { "" };
                let text = text.join(",");
                let program = format!(
                    "{}ENTRY e {{ x = f32[3] parameter(0)
                      s = (f32[3], f32[3], u32[], u32[]) collective-permute-start(x),
                          source_target_pairs={{{text}}}{channel_id}
                      d = f32[3] collective-permute-done(s)
                      y = f32[3] collective-permute(x), source_target_pairs={{{text}}}{channel_id}
                      ROOT t = (f32[3], f32[3]) tuple(d, y) }}",
                    header(topology)
                );
                let inputs = device_inputs(topology, &[3]);
                let results = run(&module(&program), topology, &inputs);
                for (device, result) in results.iter().enumerate() {
                    let (replica, partition) =
                        (device / topology.partitions, device % topology.partitions);
                    let own = if channel { partition } else { replica };
                    let source =
                        pairs
                            .iter()
                            .find(|(_, to)| *to == own)
                            .map(|(from, _)| match channel {
                                true => replica * topology.partitions + from,
                                false => from * topology.partitions + partition,
                            });
                    let expected = source.map_or(vec![0; 3], |source| bits(&inputs[source][0]));
                    assert_eq!(bits(&result[0]), expected, "{device}\n{program}");
                    assert_eq!(bits(&result[1]), expected, "{device}\n{program}");
                }
            }
        }
    }
}

#[test]
fn all_to_all_of_operands_gives_one_of_each_member() {
    let topology = Topology {
        replicas: 3,
        partitions: 1,
    };
    let program = "HloModule m, replica_count=3
        ENTRY e { x = f32[2] parameter(0) y = f32[2] parameter(1) z = f32[2] parameter(2)
          ROOT t = (f32[2], f32[2], f32[2]) all-to-all(x, y, z), replica_groups={{2,0,1}} }";
    let value = |device: usize, operand: usize| vec![(10 * device + operand) as f32; 2];
    let inputs: Vec<Vec<Literal>> = (0..3)
        .map(|device| {
            let own = (0..3).map(|operand| value(device, operand));
            own.map(|own| Literal::from_f32s(&[2], &own).unwrap())
                .collect()
        })
        .collect();
    let results = run(&module(program), topology, &inputs);
    for (position, device) in [2, 0, 1].into_iter().enumerate() {
        for (from, member) in [2, 0, 1].into_iter().enumerate() {
            let result = results[device][from].as_f32s().unwrap();
            assert_eq!(result, value(member, position));
        }
    }
}

/// Each device receives a different number of rows; rows of the output that no device writes stay.
#[test]
fn ragged_all_to_all_moves_rows() {
    let topology = Topology {
        replicas: 2,
        partitions: 1,
    };
    let program = "HloModule m, replica_count=2
        ENTRY e { x = f32[4] parameter(0) o = f32[6] parameter(1) i = s32[2] parameter(2)
          n = s32[2] parameter(3) p = s32[2] parameter(4) r = s32[2] parameter(5)
          ROOT y = f32[6] ragged-all-to-all(x, o, i, n, p, r), replica_groups={{0,1}} }";
    let f = |values: &[f32]| Literal::from_f32s(&[values.len() as i64], values).unwrap();
    let n = |values: &[i32]| Literal::from_i32s(&[2], values).unwrap();
    let inputs = vec![
        vec![
            f(&[1., 2., 3., 4.]),
            f(&[9.; 6]),
            n(&[0, 1]),
            n(&[1, 3]),
            n(&[0, 0]),
            n(&[1, 2]),
        ],
        vec![
            f(&[5., 6., 7., 8.]),
            f(&[9.; 6]),
            n(&[0, 2]),
            n(&[2, 1]),
            n(&[1, 3]),
            n(&[3, 1]),
        ],
    ];
    let results = run(&module(program), topology, &inputs);
    assert_eq!(results[0][0].as_f32s().unwrap(), [1., 5., 6., 9., 9., 9.]);
    assert_eq!(results[1][0].as_f32s().unwrap(), [2., 3., 4., 7., 9., 9.]);
}

#[test]
fn start_forms_and_ids() {
    let topology = Topology {
        replicas: 2,
        partitions: 3,
    };
    let program = "HloModule m, replica_count=2, num_partitions=3
        f { a = u32[] parameter(0) b = u32[] parameter(1) ROOT c = u32[] add(a, b) }
        w { p = u32[] parameter(0) q = u32[1] reshape(p)
          ROOT s = u32[1] reduce-scatter(q), to_apply=f, dimensions={0}, replica_groups={{0},{1}} }
        ENTRY e { r = u32[] replica-id() p = u32[] partition-id()
          a = u32[] all-reduce-start(p), to_apply=f, replica_groups={}, channel_id=1
          b = u32[] all-reduce-done(a)
          q = u32[1] reshape(p)
          g = (u32[1], u32[6]) all-gather-start(q), dimensions={0}, channel_id=2, use_global_device_ids=true, replica_groups=[1,6]<=[6]
          h = u32[6] all-gather-done(g)
          k = ((u32[]), u32[1]) async-start(p), calls=w
          l = u32[1] async-done(k)
          ROOT t = (u32[], u32[], u32[], u32[6], u32[1]) tuple(r, p, b, h, l) }";
    let results = run(&module(program), topology, &vec![Vec::new(); 6]);
    for (device, result) in results.iter().enumerate() {
        let expected: [&[u128]; 5] = [
            &[device as u128 / 3],
            &[device as u128 % 3],
            &[6],
            &[0, 1, 2, 0, 1, 2],
            &[device as u128 % 3],
        ];
        for (literal, expected) in result.iter().zip(expected) {
            assert_eq!(bits(literal), expected);
        }
    }
}

/// Different iterations of a loop are never mixed up.
#[test]
fn collectives_in_loops() {
    let topology = Topology {
        replicas: 1,
        partitions: 4,
    };
    let program = "HloModule m, num_partitions=4
        f { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }
        c { s = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0
            n = s32[] constant(50) ROOT r = pred[] compare(i, n), direction=LT }
        b { s = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0
            x = s32[] get-tuple-element(s), index=1 o = s32[] constant(1) j = s32[] add(i, o)
            y = s32[] all-reduce(i), to_apply=f, channel_id=1, use_global_device_ids=true, replica_groups={{0,1},{2,3}}
            z = s32[] add(x, y) ROOT t = (s32[], s32[]) tuple(j, z) }
        ENTRY e { i = s32[] constant(0) s = (s32[], s32[]) tuple(i, i)
          w = (s32[], s32[]) while(s), condition=c, body=b
          ROOT r = s32[] get-tuple-element(w), index=1 }";
    let results = run(&module(program), topology, &vec![Vec::new(); 4]);
    for result in results {
        assert_eq!(result[0].as_i32s(), Some(&[49 * 50][..]));
    }
}

fn failure(program: &str, topology: Topology, timeout: Duration) -> RunError<Error> {
    let arguments = vec![Vec::new(); topology.devices()];
    let module = module(program);
    let results = evaluate_devices(&module, topology, &arguments, &Options::default(), timeout);
    results.expect_err("it fails")
}

#[test]
fn a_device_that_takes_another_way_is_named() {
    let topology = Topology {
        replicas: 1,
        partitions: 2,
    };
    let program = "HloModule m, num_partitions=2
        f { a = u32[] parameter(0) b = u32[] parameter(1) ROOT c = u32[] add(a, b) }
        with { x = u32[] parameter(0) ROOT y = u32[] all-reduce(x), to_apply=f, channel_id=1, use_global_device_ids=true, replica_groups={{0,1}} }
        without { x = u32[] parameter(0) ROOT y = u32[] negate(x) }
        ENTRY e { p = u32[] partition-id() z = u32[] constant(0)
          q = pred[] compare(p, z), direction=EQ
          ROOT r = u32[] conditional(q, p, p), true_computation=with, false_computation=without }";
    let error = failure(program, topology, TIMEOUT);
    let RunError::Device {
        device: 0,
        error: Error::Exchange {
            instruction,
            reason,
        },
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!(&**instruction, "y");
    assert!(
        matches!(reason, ExchangeError::Ended { device: 1, .. }),
        "{reason}"
    );
}

#[test]
fn groups_without_a_meaning_are_errors() {
    let topology = Topology {
        replicas: 2,
        partitions: 1,
    };
    for (attributes, message) in [
        ("replica_groups={{0}}", "device 1 is in no group"),
        (
            "replica_groups={{0,2}}",
            "the groups contain 2: expected numbers from 0 to below 2",
        ),
        (
            "replica_groups={{0,1},{1}}",
            "the groups contain 1 twice: expected each number once",
        ),
        (
            "replica_groups={{0,1}}, use_global_device_ids=true",
            "needs a `channel_id`",
        ),
        (
            "replica_groups={}, channel_id=1, use_global_device_ids=true",
            "needs `replica_groups`",
        ),
    ] {
        let program = format!(
            "HloModule m, replica_count=2
             f {{ a = u32[] parameter(0) b = u32[] parameter(1) ROOT c = u32[] add(a, b) }}
             ENTRY e {{ p = u32[] replica-id()
               ROOT r = u32[] all-reduce(p), to_apply=f, {attributes} }}"
        );
        let error = failure(&program, topology, TIMEOUT).to_string();
        assert!(error.contains(message), "{error}");
    }
}
