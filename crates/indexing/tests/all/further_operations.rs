//! Operations that the reference evaluator does not run: collectives, scans,
//! products with scales, sizes that are set.

use crate::common::modules::{Program, collective, map_of, one_op};
use crate::common::proof::simplified;
use smallvec::smallvec;
use tegula_indexing::{
    Exactness, IndexingMap, RuntimeSource, Simplifier, fusion_output_to_input, input_to_output,
    output_leaf_to_input, output_to_input,
};
use tegula_ir::{DotDims, ElementType, FusionKind, Op, Opcode, Shape};

fn text(map: &IndexingMap) -> String {
    simplified(map).to_string()
}

fn position(map: &IndexingMap) -> String {
    let participant = map.participant.as_ref().expect("a participant");
    let names = |var| map.name(var);
    participant
        .position
        .display(&names, tegula_expr::Style::Document)
        .to_string()
}

fn all_gather() -> Op {
    Op::AllGather {
        collective: collective(&[&[0, 1, 2, 3]]),
        dimension: 0,
        start: false,
    }
}

#[test]
fn gathered_elements_and_whose_they_are() {
    let (module, id) = one_op(all_gather(), &[&[2, 3]], &[8, 3]);
    let found = output_to_input(&module, id);
    let map = map_of(&found, 0);
    assert_eq!(
        text(map),
        "(d0, d1) -> (d0 mod 2, d1), domain: d0 in [0, 7], d1 in [0, 2]"
    );
    assert_eq!(position(map), "d0 floordiv 2");
    let found = input_to_output(&module, id);
    assert_eq!(
        text(map_of(&found, 0)),
        "(d0, d1)[s0]{rt0} -> (rt0 * 2 + d0, d1), domain: d0 in [0, 1], d1 in [0, 2], s0 in [0, 3], rt0 in [0, 3]"
    );
}

#[test]
fn scattered_and_exchanged_parts() {
    let op = Op::ReduceScatter {
        collective: collective(&[&[0, 1]]),
        dimension: 1,
        to_apply: tegula_ir::ComputationId::from_u32(0),
    };
    let (module, id) = one_op(op, &[&[3, 8]], &[3, 4]);
    let found = output_to_input(&module, id);
    let map = map_of(&found, 0);
    assert_eq!(
        text(map),
        "(d0, d1)[s0]{rt0} -> (d0, rt0 * 4 + d1), domain: d0 in [0, 2], d1 in [0, 3], s0 in [0, 1], rt0 in [0, 1]"
    );
    assert!(matches!(
        map.runtime[0].source,
        Some(RuntimeSource::Position(_))
    ));
    let op = Op::AllToAll {
        collective: collective(&[&[0, 1]]),
        dimension: Some(0),
    };
    let (module, id) = one_op(op, &[&[6]], &[6]);
    let found = output_to_input(&module, id);
    let map = map_of(&found, 0);
    assert_eq!(
        text(map),
        "(d0){rt0} -> (rt0 * 3 + d0 mod 3), domain: d0 in [0, 5], rt0 in [0, 1]"
    );
    assert_eq!(position(map), "d0 floordiv 3");
}

#[test]
fn permutations_read_their_partner() {
    let op = Op::CollectivePermute {
        pairs: vec![(0, 1), (1, 2)],
        channel_id: None,
        start: false,
    };
    let (module, id) = one_op(op, &[&[4]], &[4]);
    let found = output_to_input(&module, id);
    let map = map_of(&found, 0);
    let partner = |own: i64| {
        let term = &map.participant.as_ref().expect("a participant").position;
        term.eval(&|var: tegula_expr::Var| Some([0, own][var.0 as usize]))
            .expect("a value")
    };
    assert_eq!([partner(1), partner(2)], [0, 1]);
    // Nobody sends to participant 0.
    assert_eq!(map.evaluate(&[3, 0]), Ok(None));
    assert_eq!(map.evaluate(&[3, 2]), Ok(Some(vec![3])));
}

#[test]
fn chained_collectives_compose() {
    // Scattering what was gathered gives every participant its own part back.
    let mut p = Program::new();
    let x = p.parameter(&[2]);
    let gathered = p.array(all_gather(), &[x], &[8]);
    let scatter = Op::ReduceScatter {
        collective: collective(&[&[0, 1, 2, 3]]),
        dimension: 0,
        to_apply: tegula_ir::ComputationId::from_u32(0),
    };
    let _ = p.array(scatter, &[gathered], &[2]);
    let callee = p.module.instructions[gathered].computation;
    p.start_computation();
    let y = p.parameter(&[2]);
    let fusion = Op::Fusion {
        kind: FusionKind::Loop,
        calls: callee,
    };
    let fusion = p.array(fusion, &[y], &[2]);
    let found = fusion_output_to_input(&p.module, fusion, 0, &mut Simplifier::new());
    let map = map_of(&found, 0);
    assert_eq!(
        text(map).split(", domain").next(),
        Some("(d0){rt0} -> (d0)")
    );
    assert_eq!(position(map), "rt0");
}

#[test]
fn scans_read_what_came_before() {
    let op = |is_reverse| Op::Scan {
        dimension: 0,
        num_carries: 1,
        is_reverse,
        is_associative: true,
        to_apply: tegula_ir::ComputationId::from_u32(0),
    };
    for is_reverse in [false, true] {
        let mut p = Program::new();
        let (x, c) = (p.parameter(&[4, 3]), p.parameter(&[3]));
        let both = Shape::Tuple(vec![
            Shape::array(ElementType::F32, &[4, 3]),
            Shape::array(ElementType::F32, &[3]),
        ]);
        let id = p.push(op(is_reverse), &[x, c], both);
        let found = output_to_input(&p.module, id);
        let reads = map_of(&found, 0).accesses(1000).expect("small");
        let pairs: Vec<(i64, i64)> = reads.iter().map(|(from, to)| (from[0], to[0])).collect();
        assert!(
            pairs
                .iter()
                .all(|(out, read)| if is_reverse { read >= out } else { read <= out })
        );
        assert_eq!(pairs.len(), 10 * 3);
        let last = output_leaf_to_input(&p.module, id, 1);
        assert_eq!(
            text(map_of(&last, 0)),
            "(d0)[s0] -> (s0, d0), domain: d0 in [0, 2], s0 in [0, 3]"
        );
        let back = input_to_output(&p.module, id);
        assert_eq!(map_of(&back, 0).accesses(1000).expect("small").len(), 30);
        assert_eq!(map_of(&back, 1).accesses(1000).expect("small").len(), 12);
    }
}

#[test]
fn scales_serve_blocks() {
    let dims = DotDims {
        lhs_contracting: smallvec![1],
        rhs_contracting: smallvec![1],
        ..DotDims::default()
    };
    let op = Op::ScaledDot {
        dims,
        precision: Vec::new(),
    };
    let (module, id) = one_op(op, &[&[4, 64], &[8, 64], &[4, 2], &[8, 2]], &[4, 8]);
    let found = output_to_input(&module, id);
    assert_eq!(
        text(map_of(&found, 3)),
        "(d0, d1)[s0] -> (d1, s0 / 32), domain: d0 in [0, 3], d1 in [0, 7], s0 in [0, 63]"
    );
    let back = input_to_output(&module, id);
    let scale = map_of(&back, 2).accesses(100_000).expect("small");
    let expected = map_of(&found, 2).accesses(100_000).expect("small");
    let turned: std::collections::BTreeSet<_> =
        expected.into_iter().map(|(from, to)| (to, from)).collect();
    assert_eq!(scale, turned);
}

#[test]
fn starts_and_dones_pass_arrays_on() {
    let mut p = Program::new();
    let x = p.parameter(&[2]);
    let start = Op::AllGather {
        collective: collective(&[&[0, 1]]),
        dimension: 0,
        start: true,
    };
    let both = Shape::Tuple(vec![
        Shape::array(ElementType::F32, &[2]),
        Shape::array(ElementType::F32, &[4]),
    ]);
    let start = p.push(start, &[x], both);
    let done = p.array(Op::CollectiveDone(Opcode::AllGatherDone), &[start], &[4]);
    assert_eq!(
        text(map_of(&output_leaf_to_input(&p.module, start, 0), 0)),
        "(d0) -> (d0), domain: d0 in [0, 1]"
    );
    assert_eq!(
        text(map_of(&output_leaf_to_input(&p.module, start, 1), 0)),
        "(d0) -> (d0 mod 2), domain: d0 in [0, 3]"
    );
    let found = output_to_input(&p.module, done);
    assert_eq!(found[0].maps, Ok(Vec::new()));
    assert_eq!(
        text(map_of(&found, 1)),
        "(d0) -> (d0), domain: d0 in [0, 3]"
    );
    let (module, id) = one_op(Op::SetDimensionSize(0), &[&[4], &[]], &[4]);
    let found = output_to_input(&module, id);
    assert_eq!(
        text(map_of(&found, 0)),
        "(d0) -> (d0), domain: d0 in [0, 3]"
    );
    assert_eq!(map_of(&found, 1).results.len(), 0);
}

#[test]
fn whole_operands() {
    let dims = DotDims {
        lhs_contracting: smallvec![1],
        rhs_contracting: smallvec![1],
        ..DotDims::default()
    };
    let op = Op::RaggedDot {
        dims,
        precision: Vec::new(),
        lhs_ragged_dims: smallvec![0],
        rhs_group_dims: smallvec![0],
    };
    let (module, id) = one_op(op, &[&[4, 3], &[2, 3, 5], &[2]], &[4, 5]);
    for operand in output_to_input(&module, id) {
        let maps = operand.maps.expect("a map");
        assert_eq!(maps[0].exactness, Exactness::Superset);
        assert_eq!(maps[0].ranges.len(), maps[0].results.len());
    }
}

/// The maps of an instruction's array to its first operand, from HLO text.
fn maps_in(text: &str, name: &str, leaf: usize) -> Vec<Vec<String>> {
    let module = tegula_ir::parse_module(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    let (id, _) = module
        .instructions
        .iter()
        .find(|(_, data)| &*data.name == name)
        .expect("an instruction");
    let maps = output_leaf_to_input(&module, id, leaf)
        .into_iter()
        .map(|operand| {
            let maps = operand.maps.expect("maps");
            maps.iter().map(ToString::to_string).collect()
        });
    maps.collect()
}

#[test]
fn arrays_that_are_passed_on() {
    let text = "HloModule m
        add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
        twice { x = f32[2,3] parameter(0) ROOT s = f32[2,3] add(x, x) }
        ENTRY e {
            p = f32[2,3] parameter(0)
            t = token[] after-all()
            dependency = f32[2,3] add-dependency(p, t)
            start = (f32[2,3], f32[2,3], u32[]) copy-start(p)
            done = f32[2,3] copy-done(start)
            domain = f32[2,3] domain(p), domain={kind=\"sharding\", entry={replicated}, exit={replicated}}
            begun = ((f32[2,3]), f32[2,3], u32[]) async-start(p), calls=twice
            going = ((f32[2,3]), f32[2,3], u32[]) async-update(begun)
            ended = f32[2,3] async-done(going)
            reduced = f32[2,3] all-reduce-start(p), replica_groups={{0,1}}, to_apply=add
            sum = f32[2,3] all-reduce-done(reduced)
            sent = (f32[2,3], f32[2,3]) collective-permute-start(p), source_target_pairs={{0,1}}
            got = f32[2,3] collective-permute-done(sent)
            ROOT r = (f32[2,3]) tuple(p)
        }";
    let own = "(d0, d1) -> (d0, d1), domain: d0 in [0, 1], d1 in [0, 2]".to_owned();
    for (name, leaf, operand) in [
        ("dependency", 0, 0),
        ("start", 0, 0),
        ("start", 1, 0),
        ("done", 0, 0),
        ("domain", 0, 0),
        ("begun", 0, 0),
        ("going", 0, 0),
        ("going", 1, 1),
        ("ended", 0, 1),
        ("sum", 0, 0),
        ("sent", 0, 0),
        ("got", 0, 1),
    ] {
        let found = maps_in(text, name, leaf);
        for (position, maps) in found.iter().enumerate() {
            let expected = if position == operand {
                vec![own.clone()]
            } else {
                Vec::new()
            };
            assert_eq!(
                *maps, expected,
                "{name}, array {leaf}, operand array {position}"
            );
        }
        assert!(operand < found.len(), "{name}");
    }
}

#[test]
fn whatever_an_operation_may_do_with_its_operand() {
    let text = "HloModule m
        ENTRY e {
            p = f32[2,3] parameter(0)
            key = u64[2] parameter(1)
            bits = u32[2,3] parameter(2)
            low = f32[] parameter(3)
            size = s32[] parameter(4)
            custom = f32[5] custom-call(p), custom_call_target=\"x\"
            random = (u64[2], u32[4]) rng-bit-generator(key), algorithm=rng_default
            uniform = f32[2,3] rng(low, low), distribution=rng_uniform
            rounded = bf16[2,3] stochastic-convert(p, bits)
            shaped = f32[<=3,<=2] dynamic-reshape(p, size, size)
            ROOT r = (f32[2,3]) tuple(p)
        }";
    let of = |name, leaf, operand: usize| maps_in(text, name, leaf)[operand].clone();
    assert_eq!(
        of("custom", 0, 0),
        ["(d0)[s0, s1] -> (s0, s1), domain: d0 in [0, 4], s0 in [0, 1], s1 in [0, 2]"]
    );
    assert_eq!(
        of("random", 1, 0),
        ["(d0)[s0] -> (s0), domain: d0 in [0, 3], s0 in [0, 1]"]
    );
    assert_eq!(
        of("uniform", 0, 1),
        ["(d0, d1) -> (), domain: d0 in [0, 1], d1 in [0, 2]"]
    );
    for operand in [0, 1] {
        assert_eq!(
            of("rounded", 0, operand),
            ["(d0, d1) -> (d0, d1), domain: d0 in [0, 1], d1 in [0, 2]"]
        );
    }
    assert_eq!(of("shaped", 0, 1).len(), 1);
}
