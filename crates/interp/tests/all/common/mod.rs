//! Runs modules written as text.

use tegula_interp::{Error, Value, evaluate};
use tegula_ir::{Literal, Module};

/// Parses a module, which must be valid.
pub(crate) fn module(text: &str) -> Module {
    let module = tegula_ir::parse_module(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    if let Err(errors) = tegula_ir::verify(&module) {
        panic!("{}\n{text}", errors[0]);
    }
    module
}

/// The result of a module, or its error.
pub(crate) fn try_run(text: &str, arguments: &[Literal]) -> Result<Value, Error> {
    let arguments: Vec<Value> = arguments.iter().cloned().map(Value::Array).collect();
    evaluate(&module(text), &arguments)
}

/// The arrays of a module's result.
pub(crate) fn run(text: &str, arguments: &[Literal]) -> Vec<Literal> {
    match try_run(text, arguments) {
        Ok(value) => value.leaves().into_iter().cloned().collect(),
        Err(error) => panic!("{error}\n{text}"),
    }
}

/// The single array of a module's result.
pub(crate) fn run_one(text: &str, arguments: &[Literal]) -> Literal {
    let [literal] = <[Literal; 1]>::try_from(run(text, arguments)).expect("one result");
    literal
}

/// An `f32` vector.
pub(crate) fn f32s(values: &[f32]) -> Literal {
    Literal::from_f32s(&[values.len() as i64], values).unwrap()
}

/// An `s32` vector.
pub(crate) fn i32s(values: &[i32]) -> Literal {
    Literal::from_i32s(&[values.len() as i64], values).unwrap()
}

/// `0, 1, 2, ...` as an `f32` array.
pub(crate) fn counting(dims: &[i64]) -> Literal {
    let count = dims.iter().product::<i64>();
    let values: Vec<f32> = (0..count).map(|i| i as f32).collect();
    Literal::from_f32s(dims, &values).unwrap()
}

/// Asserts that two float arrays agree up to rounding.
pub(crate) fn assert_close(actual: &Literal, expected: &[f32]) {
    let actual = actual.as_f32s().expect("f32");
    assert_eq!(actual.len(), expected.len());
    for (a, e) in actual.iter().zip(expected) {
        assert!(
            (a - e).abs() <= 1e-5 * (1.0 + e.abs()),
            "{actual:?}\n{expected:?}"
        );
    }
}
