//! What a run checks of the sizes that it is given.

use tegula_ir::ElementType::F32;
use tegula_ir::{ArrayShape, Dim, ModuleBuilder, Shape, infer_symbolic_dims};

/// One name for several dimensions is one size: of an array, and of two arrays.
#[test]
fn a_size_with_one_name_is_one() {
    let mut builder = ModuleBuilder::new("m");
    let n = builder.symbol("n", 0, 1024);
    let mut main = builder.computation("main");
    let mut given = |rank: usize| {
        main.parameter(Shape::Array(ArrayShape {
            element_type: F32,
            dims: (0..rank).map(|_| Dim::Symbolic(n.clone())).collect(),
            layout: None,
        }))
    };
    let both = [given(2), given(1)];
    let root = main.tuple(&both).expect("is a tuple");
    let entry = main.finish(root).expect("is a computation");
    let mut module = builder.build(entry).expect("is well-formed");
    infer_symbolic_dims(&mut module, &[]).expect("has sizes");
    let bind = |square: [i64; 2], list: i64| {
        let arrays = [ArrayShape::new(F32, &square), ArrayShape::new(F32, &[list])];
        let arrays: Vec<&ArrayShape> = arrays.iter().collect();
        module.sizes.bind(&module.symbols, &arrays)
    };
    assert_eq!(bind([3, 3], 3), Ok(vec![3]));
    let error = bind([2, 5], 2).expect_err("is no square");
    assert_eq!(
        error,
        "n must be one size: dimension 0 of input 0 is 2, dimension 1 of input 0 is 5"
    );
    let error = bind([2, 2], 4).expect_err("is as long as the square");
    assert!(error.ends_with("dimension 0 of input 1 is 4"), "{error}");
}
