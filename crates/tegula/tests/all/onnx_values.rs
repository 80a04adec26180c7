//! Inputs of ONNX models whose values determine shapes: a run with other values is an error.

use tegula::{Arg, ArrayShape, Literal, Options, Reader, Target, Tensor, compile};
use tegula_ir::{ElementType, Scalar};

/// A protobuf field of bytes, fewer than 128.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut all = vec![number << 3 | 2, bytes.len() as u8];
    all.extend_from_slice(bytes);
    all
}

/// An input with this type and these sizes.
fn input(name: &str, ty: u8, dims: &[u8]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|d| field(1, &[8, *d])).collect();
    let tensor = [&[8, ty][..], &field(2, &dims)].concat();
    field(
        11,
        &[field(1, name.as_bytes()), field(2, &field(1, &tensor))].concat(),
    )
}

/// `y = Expand(x, shape)` for an `x` of `f32[3]` and a `shape` of two numbers.
fn expand() -> Vec<u8> {
    let node = [
        field(1, b"x"),
        field(1, b"shape"),
        field(2, b"y"),
        field(4, b"Expand"),
    ]
    .concat();
    let graph = [
        field(1, &node),
        input("x", 1, &[3]),
        input("shape", 7, &[2]),
        field(12, &field(1, b"y")),
    ];
    [field(7, &graph.concat()), field(8, &[0x10, 20])].concat()
}

fn numbers(values: [i64; 2]) -> Literal {
    let shape = ArrayShape::new(ElementType::S64, &[2]);
    Literal::from_scalars(&shape, values.map(Scalar::Int)).unwrap()
}

#[test]
fn other_values_are_an_error() {
    let none = |_: &str| Err(String::new());
    let values = |_: usize, name: &str, _: &ArrayShape| (name == "shape").then(|| numbers([2, 3]));
    let model = Reader::new().external(&none).values(&values);
    let model = model.read_bytes(expand()).unwrap();
    let required: Vec<usize> = model.required.iter().map(|r| r.parameter).collect();
    assert_eq!(required, [1]);
    let x = Tensor::from_slice::<f32>(&[3], &[1.0, 2.0, 3.0]).unwrap();
    for target in [Target::Cpu, Target::Interp, Target::Plan] {
        let options = Options {
            target,
            ..Options::default()
        };
        let mut program = compile(&model, &options).unwrap();
        let run = |values| {
            let shape = Tensor::from(numbers(values));
            program.run(vec![Arg::Borrowed(&x), Arg::Borrowed(&shape)])
        };
        assert_eq!(
            run([2, 3]).unwrap()[0].as_slice::<f32>().unwrap(),
            [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]
        );
        let error = run([4, 3]).unwrap_err();
        assert_eq!(
            error.message,
            "input 1 (`shape`) is s64[2] [4, 3], but its value decides shapes and the program was \
             made for s64[2] [2, 3]: read the model again with this value"
        );
        program
            .freeze(1, Tensor::from(numbers([4, 3])))
            .unwrap_err();
        program.freeze(1, Tensor::from(numbers([2, 3]))).unwrap();
    }
}

#[test]
fn not_serialised() {
    let none = |_: &str| Err(String::new());
    let values = |_: usize, _: &str, _: &ArrayShape| Some(numbers([2, 3]));
    let model = Reader::new().external(&none).values(&values);
    let model = model.read_bytes(expand()).unwrap();
    let program = compile(&model, &Options::default()).unwrap();
    let error = program.serialize().unwrap_err();
    assert!(
        error.message.contains("the value of its input `shape`"),
        "{}",
        error.message
    );
}

/// `y = NonZero(x)` for an `x` of `f32[3]`: its number of columns depends on data.
fn non_zero() -> Vec<u8> {
    let node = [field(1, b"x"), field(2, b"y"), field(4, b"NonZero")].concat();
    let graph = [
        field(1, &node),
        input("x", 1, &[3]),
        field(12, &field(1, b"y")),
    ];
    [field(7, &graph.concat()), field(8, &[0x10, 20])].concat()
}

#[test]
fn stages_are_programs_and_nodes_have_shapes() {
    let none = |_: &str| Err("there is no external data".to_owned());
    let (stages, has_more) =
        tegula::StagedModel::read_stages(non_zero(), &(Box::new(none) as _), &[])
            .expect("a model in two stages");
    assert_eq!((stages.len(), has_more), (2, false));
    let shapes = tegula::onnx_node_shapes(non_zero(), &none, &|_, _, _| None);
    let shapes = shapes.expect("the shapes of its nodes");
    assert_eq!(shapes, [("y".to_owned(), "s64[1,data_size_0]".to_owned())]);

    let model = tegula::StagedModel::new(non_zero(), Box::new(none), &Options::default())
        .expect("a compiled model");
    let shape = ArrayShape::new(ElementType::F32, &[3]);
    let x = Literal::from_scalars(&shape, [0.0, 2.0, 5.0].map(Scalar::Float)).expect("an array");
    let mut seen = Vec::new();
    let results = model.run_watched(&[Tensor::from(x)], &mut |stage, _, args| {
        seen.push((stage, args.len()));
        Ok(())
    });
    let results = results.expect("a run");
    assert_eq!(results[0].shape().to_string(), "s64[1,2]");
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert_eq!((seen[0], seen[1].0), ((0, 1), 1));
}
