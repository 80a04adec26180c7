//! Tests maps against the reference evaluator: an operation is evaluated on small distinct numbers,
//! and its result is recomputed from the operands through the maps alone.

use crate::common::proof::simplified;
use tegula_expr::Var;
use tegula_indexing::{
    IndexingMap, OperandIndexing, RuntimeSource, input_to_output, output_to_input,
};
use tegula_interp::{Value, evaluate};
use tegula_ir::{ElementType, InstructionId, Literal, Module, parse_module};

/// An array as row-major numbers.
struct Array {
    sizes: Vec<i64>,
    values: Vec<i64>,
}

impl Array {
    fn at(&self, index: &[i64]) -> i64 {
        assert_eq!(index.len(), self.sizes.len());
        let flat = index.iter().zip(&self.sizes).fold(0, |flat, (i, n)| {
            assert!((0..*n).contains(i), "{index:?} is outside {:?}", self.sizes);
            flat * n + i
        });
        self.values[usize::try_from(flat).expect("an index")]
    }

    fn of(literal: &Literal) -> Self {
        let sizes = literal.shape().static_dims().expect("static").to_vec();
        let words = literal.bytes().as_chunks::<4>().0.iter();
        let values = words.map(|word| match literal.element_type() {
            ElementType::F32 => f32::from_le_bytes(*word) as i64,
            _ => i64::from(i32::from_le_bytes(*word)),
        });
        Self {
            sizes,
            values: values.collect(),
        }
    }
}

/// One operation (the root) over parameters, evaluated.
struct Case {
    module: Module,
    root: InstructionId,
    inputs: Vec<Array>,
    output: Array,
}

impl Case {
    /// `operands` are shapes; f32 arrays hold distinct small numbers, s32 ones
    /// hold `offsets` in turn.
    fn new(operands: &[&str], offsets: &[i32], result: &str, operation: &str) -> Self {
        let names: Vec<String> = (0..operands.len()).map(|n| format!("p{n}")).collect();
        let parameters: String = operands
            .iter()
            .enumerate()
            .map(|(n, shape)| format!("  p{n} = {shape} parameter({n})\n"))
            .collect();
        let (opcode, attributes) = operation.split_once(' ').unwrap_or((operation, ""));
        let text = format!(
            "HloModule m\nadd {{\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT s = f32[] add(x, y)\n}}\nENTRY e {{\n{parameters}  ROOT r = {result} {opcode}({}){attributes}\n}}\n",
            names.join(", ")
        );
        let module = parse_module(&text).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let entry = module.entry_computation();
        let mut next = offsets.iter().cycle();
        let arguments: Vec<Literal> = entry
            .parameters
            .iter()
            .enumerate()
            .map(|(n, id)| {
                let shape = module[*id].shape.as_array().expect("an array");
                let count = shape.element_count().expect("a size");
                let bytes: Vec<u8> = (0..count)
                    .flat_map(|k| match shape.element_type {
                        ElementType::F32 => ((k % 997 + n as i64 + 1) as f32).to_le_bytes(),
                        _ => next.next().copied().unwrap_or(0).to_le_bytes(),
                    })
                    .collect();
                Literal::from_bytes(shape, &bytes).expect("a literal")
            })
            .collect();
        let values: Vec<Value> = arguments.iter().cloned().map(Value::Array).collect();
        let output = evaluate(&module, &values).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let output = Array::of(output.as_array().expect("an array"));
        let inputs = arguments.iter().map(Array::of).collect();
        let root = entry.root;
        Self {
            module,
            root,
            inputs,
            output,
        }
    }

    /// The values of a map's run-time variables at a point.
    fn bind(&self, map: &IndexingMap, point: &mut [i64]) {
        let first = map.dims.len() + map.ranges.len();
        for (position, runtime) in map.runtime.iter().enumerate() {
            let Some(RuntimeSource::Element {
                instruction, index, ..
            }) = &runtime.source
            else {
                panic!("a source")
            };
            let operands = &self.module[self.root].operands;
            let operand = operands
                .iter()
                .position(|id| id == instruction)
                .expect("an operand");
            let env = |var: Var| point.get(var.0 as usize).copied();
            let index: Vec<i64> = index
                .iter()
                .map(|term| term.eval(&env).expect("an index"))
                .collect();
            let bounds = runtime.variable.bounds;
            let value = self.inputs[operand]
                .at(&index)
                .clamp(bounds.lower, bounds.upper);
            point[first + position] = value;
        }
    }

    /// The operand values that the map yields for a result index: one for each point of the domain
    /// with that index.
    fn reads(&self, map: &IndexingMap, operand: usize, index: &[i64]) -> Vec<i64> {
        let bounds = map.bounds();
        let mut points = vec![index.to_vec()];
        for range in bounds.iter().skip(map.dims.len()).take(map.ranges.len()) {
            points = points
                .into_iter()
                .flat_map(|point: Vec<i64>| {
                    (range.lower..=range.upper).map(move |value| {
                        let mut point = point.clone();
                        point.push(value);
                        point
                    })
                })
                .collect();
        }
        points
            .into_iter()
            .filter_map(|mut point| {
                point.resize(bounds.len(), 0);
                self.bind(map, &mut point);
                let results = map.evaluate(&point).expect("a value")?;
                Some(self.inputs[operand].at(&results))
            })
            .collect()
    }

    fn maps(&self) -> Vec<IndexingMap> {
        only(output_to_input(&self.module, self.root))
    }

    /// Checks the result at every index against `expected`, which gets the reads
    /// of each operand; before and after simplification.
    fn check(&self, expected: impl Fn(&[Vec<i64>]) -> i64) {
        let simple = |map: &IndexingMap| simplified(map);
        for maps in [self.maps(), self.maps().iter().map(simple).collect()] {
            for flat in 0..self.output.values.len() {
                let mut index = vec![0; self.output.sizes.len()];
                let mut rest = flat as i64;
                for (slot, size) in index.iter_mut().zip(&self.output.sizes).rev() {
                    *slot = rest % size;
                    rest /= size;
                }
                let reads: Vec<Vec<i64>> = maps
                    .iter()
                    .enumerate()
                    .map(|(operand, map)| self.reads(map, operand, &index))
                    .collect();
                assert_eq!(
                    self.output.at(&index),
                    expected(&reads),
                    "at {index:?}: {}",
                    maps[0]
                );
            }
        }
    }

    /// Checks that both directions are the same relation, where both exist and
    /// are exact.
    fn check_inverse(&self, operand: usize) {
        let back = &self.maps()[operand];
        let forth = &only(input_to_output(&self.module, self.root))[operand];
        // Run-time values come after the dimensions on either side.
        let runtime = back.runtime.len();
        let mut pairs: Vec<(Vec<i64>, Vec<i64>)> = back
            .accesses(1_000_000)
            .expect("small")
            .into_iter()
            .map(|(mut from, mut to)| {
                to.extend(from.split_off(from.len() - runtime));
                (to, from)
            })
            .collect();
        pairs.sort();
        let forth: Vec<_> = forth
            .accesses(1_000_000)
            .expect("small")
            .into_iter()
            .collect();
        assert!(
            pairs == forth,
            "{back}\n{:?}",
            self.module[self.root].op.opcode()
        );
    }
}

fn only(found: Vec<OperandIndexing>) -> Vec<IndexingMap> {
    found
        .into_iter()
        .map(|operand| {
            operand
                .maps
                .expect("a map")
                .into_iter()
                .next()
                .expect("one map")
        })
        .collect()
}

fn first(reads: &[Vec<i64>]) -> i64 {
    reads[0][0]
}

/// The only value that is read.
fn one_of(reads: &[Vec<i64>]) -> i64 {
    let all: Vec<i64> = reads.iter().flatten().copied().collect();
    assert_eq!(all.len(), 1, "{reads:?}");
    all[0]
}

fn products(reads: &[Vec<i64>]) -> i64 {
    assert_eq!(reads[0].len(), reads[1].len());
    reads[0].iter().zip(&reads[1]).map(|(a, b)| a * b).sum()
}

#[test]
fn operations_that_move_elements() {
    for (input, result, operation) in [
        ("f32[3]", "f32[2,3,4]", "broadcast , dimensions={1}"),
        ("f32[2,3,4]", "f32[4,2,3]", "transpose , dimensions={2,0,1}"),
        ("f32[2,3,4]", "f32[2,3,4]", "reverse , dimensions={0,2}"),
        (
            "f32[10,20,9]",
            "f32[5,3,5]",
            "slice , slice={[5:10:1], [3:20:7], [0:9:2]}",
        ),
        ("f32[4,8]", "f32[2,4,4]", "reshape "),
        ("f32[1,12,1,5]", "f32[3,20]", "reshape "),
        ("f32[2,3]", "f32[2,3]", "copy "),
        ("f32[2,6]{0,1}", "f32[3,4]{1,0}", "bitcast "),
        ("f32[2,6]{0,1}", "f32[6,2]{1,0}", "bitcast "),
    ] {
        let case = Case::new(&[input], &[], result, operation);
        case.check(first);
        case.check_inverse(0);
    }
}

#[test]
fn pads_and_concatenations() {
    for (result, padding) in [
        ("f32[12,16]", "1_4_1x4_8_0"),
        ("f32[6,2]", "-1_2_1x-1_-1_0"),
    ] {
        let case = Case::new(
            &["f32[4,4]", "f32[]"],
            &[],
            result,
            &format!("pad , padding={padding}"),
        );
        case.check(|reads| reads[0].first().copied().unwrap_or(reads[1][0]));
        case.check_inverse(0);
    }
    let case = Case::new(
        &["f32[2,2,3]", "f32[2,5,3]", "f32[2,1,3]"],
        &[],
        "f32[2,8,3]",
        "concatenate , dimensions={1}",
    );
    case.check(one_of);
    (0..3).for_each(|operand| case.check_inverse(operand));
}

#[test]
fn run_time_offsets() {
    // The last offsets are clamped.
    for offsets in [[0, 1, 2], [1, 3, 4], [9, -7, 100]] {
        let case = Case::new(
            &["f32[3,5,7]", "s32[]", "s32[]", "s32[]"],
            &offsets,
            "f32[1,2,3]",
            "dynamic-slice , dynamic_slice_sizes={1,2,3}",
        );
        case.check(first);
        case.check_inverse(0);
        let case = Case::new(
            &["f32[5,7]", "f32[2,3]", "s32[]", "s32[]"],
            &offsets,
            "f32[5,7]",
            "dynamic-update-slice ",
        );
        case.check(|reads| reads[1].first().copied().unwrap_or(reads[0][0]));
        case.check_inverse(1);
    }
}

#[test]
fn gathers() {
    let offsets = [0, 3, 2, 1, 9, -4, 5, 2, 1, 0, 3, 3];
    for (operand, indices, result, attributes) in [
        (
            "f32[8,6,5]",
            "s32[3,2]",
            "f32[3,2,3,4]",
            "offset_dims={1,2,3}, collapsed_slice_dims={}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={2,3,4}",
        ),
        (
            "f32[8,6]",
            "s32[2,3]",
            "f32[2,3,6]",
            "offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1,6}",
        ),
        (
            "f32[4,8,5]",
            "s32[4,3,1]",
            "f32[4,3,5]",
            "offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1,5}",
        ),
        (
            "f32[8,6]",
            "s32[2,4]",
            "f32[4,6]",
            "offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={1,0}, index_vector_dim=0, slice_sizes={1,1}",
        ),
    ] {
        let result = if attributes.contains("index_vector_dim=0") {
            "f32[4]"
        } else {
            result
        };
        Case::new(
            &[operand, indices],
            &offsets,
            result,
            &format!("gather , {attributes}"),
        )
        .check(first);
    }
}

#[test]
fn contractions() {
    for (operands, result, attributes) in [
        (
            ["f32[3,4]", "f32[4,5]"],
            "f32[3,5]",
            "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ),
        (
            ["f32[2,3,4]", "f32[4,2,5]"],
            "f32[2,3,5]",
            "lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_contracting_dims={0}",
        ),
        (
            ["f32[4,3,2]", "f32[5,2,4]"],
            "f32[3,5]",
            "lhs_contracting_dims={0,2}, rhs_contracting_dims={2,1}",
        ),
    ] {
        let case = Case::new(&operands, &[], result, &format!("dot , {attributes}"));
        case.check(products);
        case.check_inverse(0);
        case.check_inverse(1);
    }
    let case = Case::new(
        &["f32[3,4,5]", "f32[]"],
        &[],
        "f32[4]",
        "reduce , dimensions={0,2}, to_apply=add",
    );
    case.check(|reads| reads[0].iter().sum::<i64>() + reads[1][0]);
    case.check_inverse(0);
    case.check_inverse(1);
}

#[test]
fn windows() {
    for (result, window) in [
        ("f32[4,3]", "size=1x3 stride=1x2"),
        ("f32[2,9]", "size=3x3 pad=0_0x2_2"),
        (
            "f32[4,6]",
            "size=2x2 pad=1_0x0_0 rhs_dilate=1x2 rhs_reversal=0x1 stride=1x1",
        ),
        ("f32[7,13]", "size=1x1 lhs_dilate=2x2"),
        ("f32[4,6]", "size=2x3 lhs_dilate=2x1 pad=1_1x0_1 stride=2x1"),
    ] {
        let operation = format!("reduce-window , window={{{window}}}, to_apply=add");
        // Reversal matters for convolutions only.
        if window.contains("reversal") {
            continue;
        }
        let case = Case::new(&["f32[4,7]", "f32[]"], &[], result, &operation);
        case.check(|reads| reads[0].iter().sum::<i64>() + reads[1][0]);
        case.check_inverse(0);
        case.check_inverse(1);
    }
    for (operands, result, attributes) in [
        (
            ["f32[2,5,5,3]", "f32[3,3,3,4]"],
            "f32[2,5,5,4]",
            "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
        ),
        (
            ["f32[2,6,4]", "f32[3,2,6]"],
            "f32[2,4,6]",
            "window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=2",
        ),
        (
            ["f32[4,3,5]", "f32[4,3,2]"],
            "f32[2,4,4]",
            "window={size=2}, dim_labels=bf0_oi0->bf0, batch_group_count=2",
        ),
        (
            ["f32[1,2,7]", "f32[3,2,3]"],
            "f32[1,3,11]",
            "window={size=3 pad=1_1 lhs_dilate=2 rhs_dilate=2 rhs_reversal=1}, dim_labels=bf0_oi0->bf0",
        ),
        (
            ["f32[1,2,9]", "f32[3,2,3]"],
            "f32[1,3,4]",
            "window={size=3 stride=2 pad=0_0}, dim_labels=bf0_oi0->bf0",
        ),
    ] {
        // The kernel's map has no padding, so pairs are matched by position, over the points of the
        // input's domain only.
        let case = Case::new(
            &operands,
            &[],
            result,
            &format!("convolution , {attributes}"),
        );
        check_convolution(&case);
        case.check_inverse(0);
        case.check_inverse(1);
    }
}

/// The sum over the points of the input's domain of input times kernel.
fn check_convolution(case: &Case) {
    let maps = case.maps();
    let (input, kernel) = (&maps[0], &maps[1]);
    let mut sums = std::collections::BTreeMap::new();
    for (point, index) in input.enumerate(1_000_000).expect("small") {
        let other = kernel
            .evaluate(&point)
            .expect("a value")
            .expect("inside the kernel's domain");
        let product = case.inputs[0].at(&index) * case.inputs[1].at(&other);
        *sums.entry(point[..input.dims.len()].to_vec()).or_insert(0) += product;
    }
    for (index, sum) in sums {
        assert_eq!(case.output.at(&index), sum, "at {index:?}: {input}");
    }
}
