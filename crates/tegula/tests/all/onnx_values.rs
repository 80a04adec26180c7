//! Inputs of ONNX models whose values decide shapes: a run with other values is an error.

use tegula::{Arg, ArrayShape, Literal, Options, Target, Tensor, compile, read_onnx};
use tegula_ir::{ElementType, Scalar};

/// A message's field of bytes; they are fewer than 128.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut all = vec![number << 3 | 2, bytes.len() as u8];
    all.extend_from_slice(bytes);
    all
}

/// An input of a type and of sizes.
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
    let model = read_onnx(
        expand(),
        &none,
        &|_, name, _| (name == "shape").then(|| numbers([2, 3])),
        &[],
    )
    .unwrap();
    assert_eq!(model.fixed, [1]);
    let x = Tensor::from_slice::<f32>(&[3], &[1.0, 2.0, 3.0]).unwrap();
    for target in [Target::Cpu, Target::Interp, Target::Plan] {
        let options = Options {
            target,
            ..Options::default()
        };
        let mut program = compile(&model.module, &options).unwrap();
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
    let model = read_onnx(expand(), &none, &|_, _, _| Some(numbers([2, 3])), &[]).unwrap();
    let program = compile(&model.module, &Options::default()).unwrap();
    let error = program.serialize().unwrap_err();
    assert!(
        error.message.contains("the value of its input `shape`"),
        "{}",
        error.message
    );
}
