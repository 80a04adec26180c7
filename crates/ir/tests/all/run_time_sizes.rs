//! Checks of sizes at run time.

use tegula_expr::Term;
use tegula_ir::ElementType::{F32, S32};
use tegula_ir::{
    ArrayShape, Dim, GatherDims, Module, ModuleBuilder, Op, Shape, infer_symbolic_dims,
};

fn shape(dims: &[Term]) -> Shape {
    Shape::Array(ArrayShape {
        element_type: F32,
        dims: dims.iter().cloned().map(Dim::Symbolic).collect(),
        layout: None,
    })
}

/// The values of a program's symbols for inputs of these sizes, or the error.
fn bind(module: &Module, inputs: &[&[i64]]) -> Result<Vec<i64>, String> {
    let arrays: Vec<ArrayShape> = inputs.iter().map(|d| ArrayShape::new(F32, d)).collect();
    let arrays: Vec<&ArrayShape> = arrays.iter().collect();
    module.sizes.bind(&module.symbols, &arrays)
}

/// A name for several dimensions means equal sizes, within one array and across two.
#[test]
fn a_size_with_one_name_is_one() {
    let mut builder = ModuleBuilder::new("m");
    let n = builder.symbol("n", 0, 1024);
    let mut main = builder.computation("main");
    let both = [[&n, &n].as_slice(), &[&n]].map(|dims| {
        let dims: Vec<Term> = dims.iter().map(|&dim| dim.clone()).collect();
        main.parameter(shape(&dims))
    });
    let root = main.tuple(&both).expect("is a tuple");
    let entry = main.finish(root).expect("is a computation");
    let mut module = builder.build(entry).expect("is well-formed");
    infer_symbolic_dims(&mut module, &[]).expect("has sizes");
    let bind = |square: [i64; 2], list: i64| bind(&module, &[&square, &[list]]);
    assert_eq!(bind([3, 3], 3), Ok(vec![3]));
    let error = bind([2, 5], 2).expect_err("is no square");
    assert_eq!(
        error,
        "n must be one size: dimension 0 of input 0 is 2, dimension 1 of input 0 is 5"
    );
    let error = bind([2, 2], 4).expect_err("is as long as the square");
    assert!(error.ends_with("dimension 0 of input 1 is 4"), "{error}");
}

/// Estimates of sizes for cost models are not too small if strides divide the size, and not too
/// large if the size is bounded by a constant.
#[test]
fn guesses_of_sizes_are_not_empty() {
    let mut builder = ModuleBuilder::new("m");
    let n = builder.symbol("n", 0, 1024);
    let constant = Term::constant;
    let guess = |size: Term| Dim::Symbolic(size).representative();
    assert_eq!(guess(n.clone()), 64);
    assert_eq!(guess(n.floor_div(&constant(2))), 32);
    assert_eq!(guess(n.floor_div(&constant(320))), 16);
    assert_eq!(guess(Term::min(&n, &constant(3))), 3);
    assert_eq!(guess(Term::max(&n.sub(&constant(70)), &constant(0))), 16);
}

/// A reshape may swap two sizes.
#[test]
fn a_reshape_exchanges_sizes() {
    let mut builder = ModuleBuilder::new("m");
    let [rows, columns] = ["s", "t"].map(|name| builder.symbol(name, 0, 1024));
    let mut main = builder.computation("main");
    let x = main.parameter(shape(&[rows.clone(), columns.clone()]));
    let turned = shape(&[columns, rows]);
    let root = main.push_with_shape(Op::Reshape, &[x], turned);
    let entry = main.finish(root.expect("is a reshape"));
    let mut module = builder.build(entry.expect("ends")).expect("is well-formed");
    infer_symbolic_dims(&mut module, &[]).expect("has sizes");
    assert_eq!(bind(&module, &[&[5, 6]]), Ok(vec![5, 6]));
}

/// An empty slice of a dimension is an error only if there is an index.
#[test]
fn no_index_needs_no_element() {
    let mut builder = ModuleBuilder::new("m");
    let [rows, count] = ["n", "m"].map(|name| builder.symbol(name, 0, 1024));
    let mut main = builder.computation("main");
    let x = main.parameter(shape(&[rows, Term::constant(4)]));
    let mut indices = shape(std::slice::from_ref(&count));
    if let Shape::Array(array) = &mut indices {
        array.element_type = S32;
    }
    let indices = main.parameter(indices);
    let gather = Op::Gather {
        dims: GatherDims {
            offset_dims: [1].as_slice().into(),
            collapsed_slice_dims: [0].as_slice().into(),
            start_index_map: [0].as_slice().into(),
            index_vector_dim: 1,
            operand_batching_dims: [].as_slice().into(),
            start_indices_batching_dims: [].as_slice().into(),
        },
        slice_sizes: [1, 4].as_slice().into(),
        indices_are_sorted: false,
    };
    let root = main.push_with_shape(gather, &[x, indices], shape(&[count, Term::constant(4)]));
    let entry = main.finish(root.expect("is a gather"));
    let mut module = builder.build(entry.expect("ends")).expect("is well-formed");
    infer_symbolic_dims(&mut module, &[]).expect("has sizes");
    assert!(bind(&module, &[&[3, 4], &[2]]).is_ok());
    assert!(bind(&module, &[&[0, 4], &[0]]).is_ok());
    let error = bind(&module, &[&[0, 4], &[2]]).expect_err("has no row to take");
    assert!(error.contains("the slice of dimension 0: "), "{error}");
}
