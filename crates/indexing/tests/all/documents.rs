//! Every map of the founding document, compared by value on its whole domain.

use crate::common::modules::{Program, all_to_all_of_unknown_groups, map_of, one_op};
use crate::common::proof::simplified;
use smallvec::smallvec;
use tegula_indexing::{IndexingMap, input_to_output, output_to_input, parse_map};
use tegula_ir::{
    ComputationId, ConvDims, DotDims, GatherDims, InstructionId, Module, Op, PadDim, SliceDim,
    WindowDim,
};

const LIMIT: usize = 3_000_000;

fn read(text: &str) -> IndexingMap {
    parse_map(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Asserts that our map, before and after simplification, is the document's.
fn same(ours: &IndexingMap, document: &str) {
    let theirs = read(document);
    let simple = simplified(ours);
    for map in [ours, &simple] {
        // Large domains are sampled by shrinking both maps in the same way.
        let (a, b) = (shrunk(map), shrunk(&theirs));
        assert_eq!(
            a.same_value(&b, LIMIT),
            Some(true),
            "\nours     {map}\ndocument {theirs}"
        );
    }
}

/// The map over the last 40 values of each variable.
fn shrunk(map: &IndexingMap) -> IndexingMap {
    let mut map = map.clone();
    let most = if map.variable_count() > 3 { 9 } else { 40 };
    for variable in map.variables_mut() {
        variable.bounds.lower = variable.bounds.lower.max(variable.bounds.upper - most);
    }
    map
}

fn backward(module: &(Module, InstructionId), operand: usize, document: &str) {
    same(
        map_of(&output_to_input(&module.0, module.1), operand),
        document,
    );
}

fn forward(module: &(Module, InstructionId), operand: usize, document: &str) {
    same(
        map_of(&input_to_output(&module.0, module.1), operand),
        document,
    );
}

#[test]
fn elementwise() {
    let m = one_op(
        Op::Binary(tegula_ir::Binary::Add),
        &[&[10, 20], &[10, 20]],
        &[10, 20],
    );
    let expected = "(d0, d1) -> (d0, d1), domain: d0 in [0, 9], d1 in [0, 19]";
    for operand in 0..2 {
        backward(&m, operand, expected);
        forward(&m, operand, expected);
    }
}

#[test]
fn broadcast() {
    let m = one_op(Op::Broadcast(smallvec![1]), &[&[20]], &[10, 20, 30]);
    backward(
        &m,
        0,
        "(d0, d1, d2) -> (d1), domain: d0 in [0, 9], d1 in [0, 19], d2 in [0, 29]",
    );
    forward(
        &m,
        0,
        "(d0)[s0, s1] -> (s0, d0, s1), domain: d0 in [0, 19], s0 in [0, 9], s1 in [0, 29]",
    );
}

#[test]
fn dynamic_slice() {
    let m = one_op(
        Op::DynamicSlice(smallvec![1, 2, 32]),
        &[&[2, 2, 258], &[], &[], &[]],
        &[1, 2, 32],
    );
    backward(
        &m,
        0,
        "(d0, d1, d2){rt0, rt1, rt2} -> (d0 + rt0, d1 + rt1, d2 + rt2), domain: d0 in [0, 0],
         d1 in [0, 1], d2 in [0, 31], rt0 in [0, 1], rt1 in [0, 0], rt2 in [0, 226]",
    );
    for operand in 1..4 {
        backward(
            &m,
            operand,
            "(d0, d1, d2) -> (), domain: d0 in [0, 0], d1 in [0, 1], d2 in [0, 31]",
        );
    }
}

#[test]
fn dynamic_update_slice() {
    let m = one_op(
        Op::DynamicUpdateSlice,
        &[&[20, 30], &[5, 10], &[], &[]],
        &[20, 30],
    );
    backward(
        &m,
        0,
        "(d0, d1) -> (d0, d1), domain: d0 in [0, 19], d1 in [0, 29]",
    );
    // The document omits the constraint that the index is inside the update.
    backward(
        &m,
        1,
        "(d0, d1){rt0, rt1} -> (d0 - rt0, d1 - rt1), domain: d0 in [0, 19], d1 in [0, 29],
         rt0 in [0, 15], rt1 in [0, 20], d0 - rt0 in [0, 4], d1 - rt1 in [0, 9]",
    );
    backward(
        &m,
        2,
        "(d0, d1) -> (), domain: d0 in [0, 19], d1 in [0, 29]",
    );
}

#[test]
fn the_bounds_of_offsets_stay() {
    // Only half of the result is used, but the offset is still clamped to all of [0, 15].
    let m = one_op(
        Op::DynamicUpdateSlice,
        &[&[20, 30], &[5, 10], &[], &[]],
        &[20, 30],
    );
    let mut map = map_of(&output_to_input(&m.0, m.1), 1).clone();
    map.dims[0].bounds.upper = 3;
    let simple = simplified(&map);
    assert_eq!(
        simple.runtime[0].variable.bounds,
        map.runtime[0].variable.bounds
    );
    same(&simple, &map.to_string());
}

#[test]
fn gather() {
    let op = Op::Gather {
        dims: GatherDims {
            offset_dims: smallvec![1, 2, 3],
            collapsed_slice_dims: smallvec![],
            start_index_map: smallvec![0, 1],
            operand_batching_dims: smallvec![],
            start_indices_batching_dims: smallvec![],
            index_vector_dim: 1,
        },
        slice_sizes: smallvec![7, 8, 4],
        indices_are_sorted: false,
    };
    let m = one_op(op, &[&[33, 76, 70], &[1806, 2]], &[1806, 7, 8, 4]);
    backward(
        &m,
        0,
        "(d0, d1, d2, d3){rt0, rt1} -> (d1 + rt0, d2 + rt1, d3), domain: d0 in [0, 1805],
         d1 in [0, 6], d2 in [0, 7], d3 in [0, 3], rt0 in [0, 26], rt1 in [0, 68]",
    );
    backward(
        &m,
        1,
        "(d0, d1, d2, d3)[s0] -> (d0, s0), domain: d0 in [0, 1805], d1 in [0, 6], d2 in [0, 7],
         d3 in [0, 3], s0 in [0, 1]",
    );
}

#[test]
fn transpose() {
    let m = one_op(
        Op::Transpose(smallvec![0, 2, 3, 1]),
        &[&[3, 12288, 6, 128]],
        &[3, 6, 128, 12288],
    );
    backward(
        &m,
        0,
        "(d0, d1, d2, d3) -> (d0, d3, d1, d2), domain: d0 in [0, 2], d1 in [0, 5], d2 in [0, 127],
         d3 in [0, 12287],",
    );
    forward(
        &m,
        0,
        "(d0, d1, d2, d3) -> (d0, d2, d3, d1), domain: d0 in [0, 2], d1 in [0, 12287], d2 in [0, 5],
         d3 in [0, 127]",
    );
}

#[test]
fn reverse() {
    let m = one_op(
        Op::Reverse(smallvec![1, 2]),
        &[&[1, 17, 9, 9]],
        &[1, 17, 9, 9],
    );
    let expected = "(d0, d1, d2, d3) -> (d0, -d1 + 16, -d2 + 8, d3), domain: d0 in [0, 0],
         d1 in [0, 16], d2 in [0, 8], d3 in [0, 8]";
    backward(&m, 0, expected);
    forward(&m, 0, expected);
}

#[test]
fn variadic_reduce() {
    let op = Op::Reduce {
        dimensions: smallvec![0],
        to_apply: ComputationId::from_u32(0),
    };
    let mut program = Program::new();
    let inputs: Vec<_> = [&[256, 10][..], &[256, 10], &[], &[]]
        .iter()
        .map(|dims| program.parameter(dims))
        .collect();
    let element = tegula_ir::Shape::array(tegula_ir::ElementType::F32, &[10]);
    let id = program.push(
        op,
        &inputs,
        tegula_ir::Shape::Tuple(vec![element.clone(), element]),
    );
    let m = (program.module, id);
    for operand in 0..2 {
        backward(
            &m,
            operand,
            "(d0)[s0] -> (s0, d0), domain: d0 in [0, 9], s0 in [0, 255]",
        );
        forward(
            &m,
            operand,
            "(d0, d1) -> (d1), domain: d0 in [0, 255], d1 in [0, 9]",
        );
        backward(&m, operand + 2, "(d0) -> (), domain: d0 in [0, 9]");
        forward(&m, operand + 2, "()[s0] -> (s0), domain: s0 in [0, 9]");
    }
}

#[test]
fn slice() {
    let dim = |start, limit, stride| SliceDim {
        start,
        limit,
        stride,
    };
    let op = Op::Slice(vec![dim(5, 10, 1), dim(3, 20, 7), dim(0, 50, 2)]);
    let m = one_op(op, &[&[10, 20, 50]], &[5, 3, 25]);
    backward(
        &m,
        0,
        "(d0, d1, d2) -> (d0 + 5, d1 * 7 + 3, d2 * 2), domain: d0 in [0, 4], d1 in [0, 2], d2 in [0, 24]",
    );
    forward(
        &m,
        0,
        "(d0, d1, d2) -> (d0 - 5, (d1 - 3) floordiv 7, d2 floordiv 2), domain: d0 in [5, 9],
         d1 in [3, 17], d2 in [0, 48], (d1 - 3) mod 7 in [0, 0], d2 mod 2 in [0, 0]",
    );
}

#[test]
fn reshape() {
    let collapse = "(d0) -> (d0 floordiv 8, d0 mod 8), domain: d0 in [0, 31]";
    let expand = "(d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7]";
    let m = one_op(Op::Reshape, &[&[4, 8]], &[32]);
    backward(&m, 0, collapse);
    forward(&m, 0, expand);
    let m = one_op(Op::Reshape, &[&[32]], &[4, 8]);
    backward(&m, 0, expand);
    forward(&m, 0, collapse);
    let m = one_op(Op::Reshape, &[&[4, 8]], &[2, 4, 4]);
    backward(
        &m,
        0,
        "(d0, d1, d2) -> (d0 * 2 + d1 floordiv 2, d2 + (d1 mod 2) * 4), domain: d0 in [0, 1],
         d1 in [0, 3], d2 in [0, 3]",
    );
    forward(
        &m,
        0,
        "(d0, d1) -> (d0 floordiv 2, d1 floordiv 4 + (d0 mod 2) * 2, d1 mod 4), domain: d0 in [0, 3],
         d1 in [0, 7]",
    );
    let m = one_op(Op::Reshape, &[&[4, 8, 12]], &[32, 3, 4]);
    backward(
        &m,
        0,
        "(d0, d1, d2) -> (d0 floordiv 8, d0 mod 8, d1 * 4 + d2), domain: d0 in [0, 31], d1 in [0, 2]
         d2 in [0, 3]",
    );
    forward(
        &m,
        0,
        "(d0, d1, d2) -> (d0 * 8 + d1, d2 floordiv 4, d2 mod 4), domain: d0 in [0, 3], d1 in [0, 7],
         d2 in [0, 11]",
    );
}

#[test]
fn concatenate() {
    let m = one_op(
        Op::Concatenate(1),
        &[&[2, 5, 7], &[2, 11, 7], &[2, 17, 7]],
        &[2, 33, 7],
    );
    for (operand, start, end) in [(0, 0, 4), (1, 5, 15), (2, 16, 32)] {
        backward(
            &m,
            operand,
            &format!(
                "(d0, d1, d2) -> (d0, d1 - {start}, d2), domain: d0 in [0, 1], d1 in [{start}, {end}], d2 in [0, 6]"
            ),
        );
        let last = end - start;
        forward(
            &m,
            operand,
            &format!(
                "(d0, d1, d2) -> (d0, d1 + {start}, d2), domain: d0 in [0, 1], d1 in [0, {last}], d2 in [0, 6]"
            ),
        );
    }
}

#[test]
fn dot() {
    let dims = DotDims {
        lhs_batch: smallvec![0],
        rhs_batch: smallvec![0],
        lhs_contracting: smallvec![2],
        rhs_contracting: smallvec![1],
    };
    let op = Op::Dot {
        dims,
        precision: Vec::new(),
        algorithm: None,
    };
    let m = one_op(op, &[&[4, 128, 256], &[4, 256, 64]], &[4, 128, 64]);
    let output = "domain: d0 in [0, 3], d1 in [0, 127], d2 in [0, 63], s0 in [0, 255]";
    backward(
        &m,
        0,
        &format!("(d0, d1, d2)[s0] -> (d0, d1, s0), {output}"),
    );
    backward(
        &m,
        1,
        &format!("(d0, d1, d2)[s0] -> (d0, s0, d2), {output}"),
    );
    forward(
        &m,
        0,
        "(d0, d1, d2)[s0] -> (d0, d1, s0), domain: d0 in [0, 3], d1 in [0, 127], d2 in [0, 255], s0 in [0, 63]",
    );
    // The document's result (d0, s0, d1) has the contracted and the free dimension exchanged.
    forward(
        &m,
        1,
        "(d0, d1, d2)[s0] -> (d0, s0, d2), domain: d0 in [0, 3], d1 in [0, 255], d2 in [0, 63], s0 in [0, 127]",
    );
}

#[test]
fn pad() {
    let dim = |low, high, interior| PadDim {
        low,
        high,
        interior,
    };
    let op = Op::Pad(vec![dim(1, 4, 1), dim(4, 8, 0)]);
    let m = one_op(op, &[&[4, 4], &[]], &[12, 16]);
    backward(
        &m,
        0,
        "(d0, d1) -> ((d0 - 1) floordiv 2, d1 - 4), domain: d0 in [1, 7], d1 in [4, 7], (d0 - 1) mod 2 in [0, 0]",
    );
    backward(
        &m,
        1,
        "(d0, d1) -> (), domain: d0 in [0, 11], d1 in [0, 15]",
    );
    forward(
        &m,
        0,
        "(d0, d1) -> (d0 * 2 + 1, d1 + 4), domain: d0 in [0, 3], d1 in [0, 3]",
    );
}

fn window(size: i64, stride: i64, padding: i64, base: i64, dilation: i64) -> WindowDim {
    WindowDim {
        size,
        stride,
        padding_low: padding,
        padding_high: padding,
        base_dilation: base,
        window_dilation: dilation,
        reversal: false,
    }
}

#[test]
fn reduce_window() {
    let op = Op::ReduceWindow {
        window: vec![window(1, 1, 0, 1, 1), window(512, 1, 0, 1, 1)],
        to_apply: ComputationId::from_u32(0),
    };
    let m = one_op(op, &[&[1024, 514], &[]], &[1024, 3]);
    backward(
        &m,
        0,
        "(d0, d1)[s0] -> (d0, d1 + s0), domain: d0 in [0, 1023], d1 in [0, 2], s0 in [0, 511]",
    );
    backward(
        &m,
        1,
        "(d0, d1) -> (), domain: d0 in [0, 1023], d1 in [0, 2]",
    );
}

#[test]
fn convolution_with_padding_and_dilation() {
    let dims = ConvDims {
        input_batch: 0,
        input_feature: 3,
        input_spatial: smallvec![1, 2],
        kernel_input_feature: 2,
        kernel_output_feature: 3,
        kernel_spatial: smallvec![0, 1],
        output_batch: 0,
        output_feature: 3,
        output_spatial: smallvec![1, 2],
    };
    let op = Op::Convolution {
        window: vec![window(3, 1, 1, 1, 1), window(3, 1, 2, 2, 1)],
        dims,
        feature_group_count: 1,
        batch_group_count: 1,
        precision: Vec::new(),
    };
    let m = one_op(op, &[&[2, 5, 4, 3], &[3, 3, 3, 6]], &[2, 5, 9, 6]);
    backward(
        &m,
        0,
        "(d0, d1, d2, d3)[s0, s1, s2] -> (d0, d1 + s0 - 1, (d2 + s1 - 2) / 2, s2), domain:
         d0 in [0, 1], d1 in [0, 4], d2 in [0, 8], d3 in [0, 5], s0 in [0, 2], s1 in [0, 2],
         s2 in [0, 2], d1 + s0 - 1 in [0, 4], d2 + s1 - 2 in [0, 6], (d2 + s1 - 2) mod 2 in [0, 0]",
    );
    backward(
        &m,
        1,
        "(d0, d1, d2, d3)[s0, s1, s2] -> (s0, s1, s2, d3), domain: d0 in [0, 1], d1 in [0, 4],
         d2 in [0, 8], d3 in [0, 5], s0 in [0, 2], s1 in [0, 2], s2 in [0, 2]",
    );
}

#[test]
fn what_has_no_map_says_so() {
    // The number of parts is not stated.
    let (module, id) = one_op(all_to_all_of_unknown_groups(), &[&[4, 4]], &[4, 4]);
    assert!(output_to_input(&module, id)[0].maps.is_err());
    assert!(input_to_output(&module, id)[0].maps.is_err());
    // Attributes that contradict the shapes.
    for (op, input, output) in [
        (Op::Transpose(smallvec![0, 0]), &[2, 3][..], &[2, 3][..]),
        (Op::Transpose(smallvec![7]), &[2], &[2]),
        (Op::Broadcast(smallvec![-1]), &[2], &[2, 2]),
        (Op::Reshape, &[2], &[3]),
        (Op::Reshape, &[i64::MAX, 4], &[4, i64::MAX]),
        (Op::Slice(Vec::new()), &[2], &[2]),
        (Op::Reverse(smallvec![4]), &[2], &[2]),
        (Op::Concatenate(9), &[2], &[2]),
    ] {
        let (module, id) = one_op(op, &[input], output);
        assert!(output_to_input(&module, id)[0].maps.is_err(), "{input:?}");
        input_to_output(&module, id);
    }
}

#[test]
fn the_simplifier_examples() {
    for (map, expected) in [
        (
            "(d0, d1) -> (d0 + d1 floordiv 16, d1 mod 16), domain: d0 in [0, 6], d1 in [0, 14]",
            "(d0, d1) -> (d0, d1), domain: d0 in [0, 6], d1 in [0, 14]",
        ),
        (
            "(d0, d1, d2) -> ((100*d0 + 10*d1 + d2) floorDiv 100, ((100*d0 + 10*d1 + d2) mod 100) floordiv 10, d2 mod 10), domain: d0 in [0, 9], d1 in [0, 9], d2 in [0, 9]",
            "(d0, d1, d2) -> (d0, d1, d2), domain: d0 in [0, 9], d1 in [0, 9], d2 in [0, 9]",
        ),
        (
            "(d0, d1, d2) -> ((16*d0 + 4*d1 + d2) floordiv 8, (16*d0 + 4*d1 + d2) mod 8), domain: d0 in [0, 9], d1 in [0, 9], d2 in [0, 9]",
            "(d0, d1, d2) -> (d0 * 2 + (d1 * 4 + d2) / 8, (d1 * 4 + d2) mod 8), domain: d0 in [0, 9], d1 in [0, 9], d2 in [0, 9]",
        ),
        (
            "(d0, d1) -> (-((-11*d0 - d1 + 109) floordiv 11) + 9), domain: d0 in [0, 9], d1 in [0, 10]",
            "(d0, d1) -> (d0), domain: d0 in [0, 9], d1 in [0, 10]",
        ),
        // Multiples and offsets of constraints move to the bounds, and constraints that always hold
        // are dropped.
        (
            "(d0)[s0] -> (d0), domain: d0 in [0, 5], s0 in [1, 3], d0 + s0 in [0, 20]",
            "(d0)[s0] -> (d0), domain: d0 in [0, 5], s0 in [1, 3]",
        ),
        (
            "(d0)[s0] -> (d0 + s0), domain: d0 in [0, 1000], s0 in [0, 1000], (d0 * 6 + s0 * 6 + 3) floordiv 2 in [50, 100]",
            "(d0)[s0] -> (d0 + s0), domain: d0 in [0, 33], s0 in [0, 33], d0 + s0 in [17, 33]",
        ),
    ] {
        assert_eq!(simplified(&read(map)).to_string(), expected);
    }
}

#[test]
fn chained_reshapes_cancel() {
    let (first, one) = one_op(Op::Reshape, &[&[10, 10, 10]], &[50, 20]);
    let (second, two) = one_op(Op::Reshape, &[&[50, 20]], &[10, 10, 10]);
    let first = output_to_input(&first, one);
    let second = output_to_input(&second, two);
    let both = map_of(&second, 0).compose(map_of(&first, 0));
    assert_eq!(
        simplified(&both).to_string(),
        "(d0, d1, d2) -> (d0, d1, d2), domain: d0 in [0, 9], d1 in [0, 9], d2 in [0, 9]"
    );
}
