//! Errors state what was expected, and the place.

use tegula_stablehlo::{Place, read, to_module};

fn error_of(text: &str) -> tegula_stablehlo::Error {
    match read(text.as_bytes().to_vec()).and_then(|module| to_module(&module)) {
        Ok(_) => panic!("expected an error of\n{text}"),
        Err(error) => error,
    }
}

#[test]
fn errors_of_texts_have_a_line_and_a_caret() {
    let error = error_of(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %y = stablehlo.add %x, %z : \
         tensor<4xf32>\n  return %y : tensor<4xf32>\n}",
    );
    assert!(
        matches!(
            error.place,
            Some(Place::Text {
                line: 2,
                column: 26,
                ..
            })
        ),
        "{error}"
    );
    assert!(
        error
            .message
            .contains("`%z` is not defined before this use"),
        "{error}"
    );
    assert!(error.to_string().ends_with('^'), "{error}");
}

#[test]
fn errors_name_the_operation_and_what_was_expected() {
    for (body, expected) in [
        (
            "%y = stablehlo.frobnicate %x : tensor<4xf32>",
            "the pretty form of the operation",
        ),
        (
            "%y = \"stablehlo.frobnicate\"(%x) : (tensor<4xf32>) -> tensor<4xf32>",
            "`stablehlo.frobnicate`: this operation is not supported",
        ),
        (
            "%y = stablehlo.add %x, %x : tensor<5xf32>",
            "has type tensor<4xf32>, but is used as tensor<5xf32>",
        ),
        (
            "%y = \"stablehlo.slice\"(%x) : (tensor<4xf32>) -> tensor<4xf32>",
            "the attribute `start_indices` is missing",
        ),
        (
            "%y = stablehlo.constant dense<[1.0, 2.0]> : tensor<4xf32>",
            "expected 4 elements here, found 2",
        ),
        (
            "%y = chlo.broadcast_compare %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>",
            "expected EQ, NE, GE, GT, LE or LT",
        ),
        (
            "%y = \"stablehlo.collective_broadcast\"(%x) <{has_dynamic_root, replica_groups = \
             dense<[[0]]> : tensor<1x1xi64>}> : (tensor<4xf32>) -> tensor<4xf32>",
            "expected arrays and their roots",
        ),
        (
            "%y = stablehlo.reshape %x : (tensor<4xf32>) -> tensor<3xf32>",
            "numbers of elements",
        ),
    ] {
        let error = error_of(&format!(
            "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n  {body}\n  return %x : \
             tensor<4xf32>\n}}"
        ));
        assert!(error.message.contains(expected), "{error}");
        assert!(
            matches!(error.place, Some(Place::Text { line: 2, .. })),
            "{error}"
        );
    }
}

#[test]
fn recursion_and_missing_functions_are_errors() {
    let recursive = "func.func @main(%x: tensor<f32>) -> tensor<f32> {\n  %y = call @main(%x) : \
                     (tensor<f32>) -> tensor<f32>\n  return %y : tensor<f32>\n}";
    assert!(
        error_of(recursive).message.contains("recursion"),
        "{}",
        error_of(recursive)
    );
    let missing = recursive.replace("call @main", "call @other");
    assert!(
        error_of(&missing)
            .message
            .contains("the function `@other` does not exist")
    );
}

#[test]
fn orders_of_custom_calls_are_kept() {
    let call = |target: &str, order: &str| {
        format!(
            "func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {{
                %y = stablehlo.custom_call @{target}(%x) {{
                    operand_layouts = [dense<{order}> : tensor<2xindex>],
                    result_layouts = [dense<[1, 0]> : tensor<2xindex>]
                }} : (tensor<2x3xf32>) -> tensor<2x3xf32>
                return %y : tensor<2x3xf32>
            }}"
        )
    };
    let orders = |order: &str| {
        let module = read(call("mine", order).into_bytes()).expect("a program");
        let module = to_module(&module).expect("it is translated");
        let mut calls = module.instructions.keys();
        let call = calls.find_map(|id| module.custom_call_to_run(id));
        call.map(|call| call.orders())
    };
    assert_eq!(orders("[1, 0]"), Some(None));
    assert_eq!(orders("[0, 1]"), Some(Some(vec![vec![0, 1], vec![1, 0]])));
    let error = error_of(&call("mine", "[0, 0]"));
    assert!(
        error
            .message
            .contains("is not a permutation of 2 dimensions"),
        "{error}"
    );
}

#[test]
fn sizes_that_depend_on_data_are_refused() {
    let error = error_of(
        "func.func @main(%x: tensor<4xf32>, %n: tensor<1xi32>) -> tensor<?xf32> {\n  %y = \
         stablehlo.dynamic_reshape %x, %n : (tensor<4xf32>, tensor<1xi32>) -> tensor<?xf32>\n  \
         return %y : tensor<?xf32>\n}",
    );
    assert!(error.message.contains("depend on data"), "{error}");
}

#[test]
fn assertions_that_cannot_hold_give_their_message() {
    let error = error_of(
        "func.func @main(%x: tensor<4xf32>, %z: tensor<?xf32>) -> tensor<4xf32> {\n  %n = \
         stablehlo.get_dimension_size %x, dim = 0 : (tensor<4xf32>) -> tensor<i32>\n  %c = \
         stablehlo.constant dense<5> : tensor<i32>\n  %p = stablehlo.compare GE, %n, %c : \
         (tensor<i32>, tensor<i32>) -> tensor<i1>\n  stablehlo.custom_call \
         @shape_assertion(%p, %n) {error_message = \"x has {0} elements\"} : (tensor<i1>, \
         tensor<i32>) -> ()\n  return %x : tensor<4xf32>\n}",
    );
    assert!(error.message.contains("x has 4 elements"), "{error}");
}
