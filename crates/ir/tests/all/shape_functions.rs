//! Shape functions give the same results with symbols as with numbers, and compute windows
//! correctly.

use std::path::Path;
use tegula_expr::{Term, Var};
use tegula_ir::{Dim, Shape, infer_shape, parse_module, verify};

/// A copy of the shape with a symbol for each size; the sizes are appended to `values`.
fn symbolic(shape: &Shape, values: &mut Vec<i64>) -> Shape {
    match shape {
        Shape::Array(array) => {
            let mut array = array.clone();
            for dim in &mut array.dims {
                if let Dim::Static(size) = *dim {
                    *dim = Dim::Symbolic(Term::var(Var(values.len() as u32)));
                    values.push(size);
                }
            }
            Shape::Array(array)
        }
        other => other.clone(),
    }
}

fn value(dim: &Dim, values: &[i64]) -> Option<i64> {
    let Dim::Symbolic(term) = dim else {
        return dim.as_static();
    };
    term.eval(&|Var(number)| values.get(number as usize).copied())
        .ok()
}

#[test]
fn symbols_and_numbers_agree() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = vec![root.join("tests/data/operations.hlo")];
    let folder = std::fs::read_dir(root.join("../../tests/data/hlo")).expect("a folder");
    paths.extend(folder.map(|entry| entry.expect("an entry").path()));
    paths.retain(|path| path.extension().is_some_and(|e| e == "hlo"));
    let mut compared = 0;
    for path in paths {
        let module = parse_module(&std::fs::read_to_string(&path).expect("text")).expect("reads");
        for instruction in module.instructions.values() {
            // The symbols of the module are numbered first.
            let mut values = vec![0; module.symbols.len()];
            let operands: Vec<Shape> = instruction
                .operands
                .iter()
                .map(|&operand| symbolic(&module[operand].shape, &mut values))
                .collect();
            let operands: Vec<&Shape> = operands.iter().collect();
            let stated = Some(&instruction.shape);
            let inferred =
                infer_shape(&module, &instruction.op, &operands, stated).unwrap_or_else(|error| {
                    panic!("{}: {}: {error}", path.display(), instruction.name)
                });
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            let dims = |shape: &Shape, all: &mut Vec<Option<i64>>| {
                shape.for_each_leaf(&mut |leaf| {
                    let dims = leaf.as_array().map(|array| array.dims.as_slice());
                    all.extend(
                        dims.unwrap_or_default()
                            .iter()
                            .map(|dim| value(dim, &values)),
                    );
                });
            };
            dims(&inferred, &mut ours);
            dims(&instruction.shape, &mut theirs);
            compared += theirs.len();
            assert_eq!(ours, theirs, "{}: {}", path.display(), instruction.name);
        }
    }
    assert!(compared > 1000);
}

/// The inferred shape of `y`, the last line.
#[track_caller]
fn shape_of(lines: &str) -> String {
    let text = format!(
        "add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }}\n\
         ENTRY main {{ zero = f32[] constant(0)\n{lines} }}"
    );
    let module = parse_module(&text).unwrap_or_else(|error| panic!("{error}"));
    if let Err(errors) = verify(&module) {
        panic!("{errors:?}");
    }
    format!("{:#}", module[module.entry_computation().root].shape)
}

#[track_caller]
fn window(size: i64, window: &str) -> String {
    shape_of(&format!(
        "x = f32[{size}] parameter(0) y = reduce-window(x, zero), window={{{window}}}, to_apply=add"
    ))
}

#[test]
fn windows() {
    assert_eq!(window(10, "size=3"), "f32[8]");
    assert_eq!(window(10, "size=3 stride=2"), "f32[4]");
    assert_eq!(window(10, "size=3 stride=2 pad=1_1"), "f32[5]");
    assert_eq!(window(10, "size=3 pad=-2_0"), "f32[6]");
    assert_eq!(window(10, "size=3 rhs_dilate=4"), "f32[2]");
    assert_eq!(window(10, "size=3 lhs_dilate=2"), "f32[17]");
    assert_eq!(window(2, "size=3"), "f32[0]");
    assert_eq!(window(0, "size=1"), "f32[0]");
    assert_eq!(window(0, "size=1 pad=2_2 lhs_dilate=3"), "f32[4]");
}

#[test]
fn padding_and_slices() {
    let pad = |size: i64, pad: &str| {
        shape_of(&format!(
            "x = f32[{size}] parameter(0) y = pad(x, zero), padding={pad}"
        ))
    };
    assert_eq!(pad(5, "1_2"), "f32[8]");
    assert_eq!(pad(5, "1_2_3"), "f32[20]");
    assert_eq!(pad(5, "-1_-1"), "f32[3]");
    assert_eq!(pad(0, "1_2_3"), "f32[3]");
    let slice = |slice: &str| {
        shape_of(&format!(
            "x = f32[9] parameter(0) y = slice(x), slice={{[{slice}]}}"
        ))
    };
    assert_eq!(slice("0:9:2"), "f32[5]");
    assert_eq!(slice("1:9:2"), "f32[4]");
    assert_eq!(slice("4:4"), "f32[0]");
    assert_eq!(slice("0:9:100"), "f32[1]");
}

#[test]
fn gathers_and_dots() {
    // The example in XLA's documentation: batch dimensions around offset dimensions.
    let gather = shape_of(
        "x = f32[16,11] parameter(0) i = s32[8,5,2] parameter(1) \
         y = gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0,1}, \
         index_vector_dim=2, slice_sizes={1,6}",
    );
    assert_eq!(gather, "f32[8,6,5]");
    let batching = shape_of(
        "x = f32[3,16,11] parameter(0) i = s32[3,8] parameter(1) \
         y = gather(x, i), offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, \
         operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1,11}",
    );
    assert_eq!(batching, "f32[3,8,11]");
    let dot = shape_of(
        "a = f32[2,3,4,5] parameter(0) b = f32[4,6,5,2] parameter(1) \
         y = dot(a, b), lhs_batch_dims={0,2}, rhs_batch_dims={3,0}, lhs_contracting_dims={3}, rhs_contracting_dims={2}",
    );
    assert_eq!(dot, "f32[2,4,3,6]");
    let grouped = shape_of(
        "x = f32[4,10,6] parameter(0) k = f32[3,2,9] parameter(1) \
         y = convolution(x, k), window={size=3 stride=3}, dim_labels=b0f_0io->0bf, feature_group_count=3",
    );
    assert_eq!(grouped, "f32[3,4,9]");
}

#[test]
fn spectra() {
    let fft = |shape: &str, kind: &str, length: &str| {
        shape_of(&format!(
            "x = {shape} parameter(0) y = fft(x), fft_type={kind}, fft_length={{{length}}}"
        ))
    };
    assert_eq!(fft("f32[3,8]", "RFFT", "8"), "c64[3,5]");
    assert_eq!(fft("f32[4,9]", "RFFT", "4,9"), "c64[4,5]");
    assert_eq!(fft("c64[3,5]", "IRFFT", "8"), "f32[3,8]");
    assert_eq!(fft("c64[3,5]", "IRFFT", "9"), "f32[3,9]");
    assert_eq!(fft("c128[4,4]", "IFFT", "4,4"), "c128[4,4]");
}
