//! Maps of whole fusions: the document's examples.

use crate::common::modules::{Program, all_to_all_of_unknown_groups};
use smallvec::smallvec;
use tegula_indexing::{Simplifier, fusion_output_to_input};
use tegula_ir::{Binary, ComputationId, FusionKind, InstructionId, Op, Unary};

/// A fusion of `body` over parameters of the given sizes, and its maps.
fn maps_of(
    parameters: &[&[i64]],
    body: impl FnOnce(&mut Program, &[InstructionId]) -> Vec<i64>,
) -> Vec<Vec<String>> {
    let mut program = Program::new();
    let calls = program.start_computation();
    let inner: Vec<_> = parameters
        .iter()
        .map(|dims| program.parameter(dims))
        .collect();
    let output = body(&mut program, &inner);
    program.start_computation();
    let outer: Vec<_> = parameters
        .iter()
        .map(|dims| program.parameter(dims))
        .collect();
    let fusion = program.array(
        Op::Fusion {
            kind: FusionKind::Loop,
            calls,
        },
        &outer,
        &output,
    );
    fusion_output_to_input(&program.module, fusion, 0, &mut Simplifier::new())
        .into_iter()
        .map(|operand| match operand.maps {
            Ok(maps) => maps.iter().map(ToString::to_string).collect(),
            Err(unknown) => vec![unknown.cause.to_string()],
        })
        .collect()
}

#[test]
fn one_input_two_maps() {
    let maps = maps_of(&[&[1000, 1000]], |p, x| {
        let t = p.array(Op::Transpose(smallvec![1, 0]), &[x[0]], &[1000, 1000]);
        p.array(Op::Binary(Binary::Add), &[x[0], t], &[1000, 1000]);
        vec![1000, 1000]
    });
    let domain = "domain: d0 in [0, 999], d1 in [0, 999]";
    let mut maps = maps.into_iter().next().unwrap_or_default();
    maps.sort();
    let expected = ["(d0, d1)", "(d1, d0)"].map(|to| format!("(d0, d1) -> {to}, {domain}"));
    assert_eq!(maps, expected);
}

#[test]
fn equal_maps_come_once() {
    let maps = maps_of(&[&[20, 10, 50]], |p, x| {
        let a = p.array(Op::Transpose(smallvec![1, 0, 2]), &[x[0]], &[10, 20, 50]);
        let a = p.array(Op::Unary(Unary::Exp), &[a], &[10, 20, 50]);
        let a = p.array(Op::Transpose(smallvec![0, 2, 1]), &[a], &[10, 50, 20]);
        let b = p.array(Op::Transpose(smallvec![2, 1, 0]), &[x[0]], &[50, 10, 20]);
        let b = p.array(Op::Unary(Unary::Exp), &[b], &[50, 10, 20]);
        let b = p.array(Op::Transpose(smallvec![1, 0, 2]), &[b], &[10, 50, 20]);
        p.array(Op::Binary(Binary::Add), &[a, b], &[10, 50, 20]);
        vec![10, 50, 20]
    });
    let expected =
        "(d0, d1, d2) -> (d2, d0, d1), domain: d0 in [0, 9], d1 in [0, 49], d2 in [0, 19]";
    assert_eq!(maps, [[expected]]);
}

#[test]
fn softmax() {
    let dims = [2, 65, 125];
    let maps = maps_of(&[&dims], |p, x| {
        let reduce = |p: &mut Program, x: InstructionId, like: &[i64]| {
            let zero = p.array(Op::Iota(0), &[], &[]);
            let op = Op::Reduce {
                dimensions: smallvec![2],
                to_apply: ComputationId::from_u32(0),
            };
            let sum = p.array(op, &[x, zero], &like[..2]);
            p.array(Op::Broadcast(smallvec![0, 1]), &[sum], like)
        };
        let most = reduce(p, x[0], &dims);
        let shifted = p.array(Op::Binary(Binary::Subtract), &[x[0], most], &dims);
        let e = p.array(Op::Unary(Unary::Exp), &[shifted], &dims);
        let total = reduce(p, e, &dims);
        p.array(Op::Binary(Binary::Divide), &[e, total], &dims);
        dims.to_vec()
    });
    let domain = "domain: d0 in [0, 1], d1 in [0, 64], d2 in [0, 124]";
    let mut maps = maps.into_iter().next().unwrap_or_default();
    maps.sort();
    assert_eq!(
        maps,
        [
            format!("(d0, d1, d2) -> (d0, d1, d2), {domain}"),
            format!("(d0, d1, d2)[s0] -> (d0, d1, s0), {domain}, s0 in [0, 124]"),
        ]
    );
}

#[test]
fn one_unknown_path_leaves_the_others() {
    let maps = maps_of(&[&[4, 4], &[4, 4]], |p, x| {
        let c = p.array(all_to_all_of_unknown_groups(), &[x[0]], &[4, 4]);
        p.array(Op::Binary(Binary::Add), &[c, x[1]], &[4, 4]);
        vec![4, 4]
    });
    assert_eq!(
        maps[0],
        ["`all-to-all` has no indexing map in the direction that was asked for"]
    );
    assert_eq!(
        maps[1],
        ["(d0, d1) -> (d0, d1), domain: d0 in [0, 3], d1 in [0, 3]"]
    );
}
