//! Sparse matrices times dense ones, as JAX calls them on CPUs: on every target the product of the
//! matrix that is meant.

use tegula::{Options, Target, Tensor, compile};
use tegula_ir::{ArrayShape, ElementType, Literal, Scalar};
use tegula_tests::read;

fn array(ty: ElementType, dims: &[i64], values: &[i64]) -> Literal {
    let values = values.iter().map(|&x| Scalar::Int(x));
    Literal::from_scalars(&ArrayShape::new(ty, dims), values).expect("as many as it takes")
}

/// Rows of 3 columns: 1 0 2, nothing, 0 3 0.
fn run(
    ty: ElementType,
    width: Option<i64>,
    columns: &[i64],
    target: Target,
) -> Result<Vec<f64>, String> {
    let tail = width.map_or(String::new(), |width| format!(",{width}"));
    let text = format!(
        "HloModule m ENTRY e {{ v = {ty}[3] parameter(0) s = s32[4] parameter(1)
           c = s32[3] parameter(2) d = {ty}[3{tail}] parameter(3)
           ROOT r = {ty}[3{tail}] custom-call(v, s, c, d), \
           custom_call_target=\"cpu_csr_sparse_dense_ffi\", api_version=API_VERSION_TYPED_FFI }}"
    );
    let module = read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let options = Options {
        target,
        ..Options::default()
    };
    let executable = compile(&module, &options).map_err(|e| e.to_string())?;
    let count = 3 * width.unwrap_or(1);
    let dims: Vec<i64> = [3].into_iter().chain(width).collect();
    let inputs = [
        array(ty, &[3], &[1, 2, 3]),
        array(ElementType::S32, &[4], &[0, 2, 2, 3]),
        array(ElementType::S32, &[3], columns),
        array(ty, &dims, &(1..=count).collect::<Vec<i64>>()),
    ]
    .map(Tensor::from);
    let results = executable.run(inputs.iter());
    let results = results.map_err(|e| e.to_string())?;
    let number = |scalar| match scalar {
        Scalar::Int(x) => x as f64,
        Scalar::Float(x) | Scalar::Complex(x, _) => x,
        other => panic!("{other}"),
    };
    Ok(results[0].literal().scalars().map(number).collect())
}

#[test]
fn the_product_of_what_is_meant() {
    use ElementType::{C64, C128, F32, F64, S32};
    for ty in [F32, F64, S32, C64, C128] {
        for target in [Target::Interp, Target::Plan, Target::Cpu] {
            // Of 1 2 3, and of 1 2, 3 4, 5 6.
            assert_eq!(run(ty, None, &[0, 2, 1], target), Ok(vec![7.0, 0.0, 6.0]));
            let product = vec![11.0, 14.0, 0.0, 0.0, 9.0, 12.0];
            assert_eq!(run(ty, Some(2), &[0, 2, 1], target), Ok(product));
        }
    }
}

#[test]
fn columns_outside_are_errors() {
    for target in [Target::Interp, Target::Plan, Target::Cpu] {
        for columns in [[0, 3, 1], [0, -1, 1]] {
            assert!(run(ElementType::F32, None, &columns, target).is_err());
        }
    }
}
