//! LAPACK's routines as JAX calls them on CPUs: on every target what the evaluator says.

use tegula::{Arg, Options, Target, Tensor};
use tegula_ir::Literal;
use tegula_tests::judge::assert_agrees;
use tegula_tests::random::Regime;
use tegula_tests::read;

/// Matrices of small numbers beside the diagonal.
fn matrices(diagonal: f32) -> Literal {
    let element = |i: usize| {
        let (row, column) = (i / 5 % 5, i % 5);
        // A system that takes few bits away.
        let value = (((row * column + row + column + i / 25) % 7) as f32 - 3.0) / 16.0;
        if row == column {
            value + diagonal
        } else {
            value
        }
    };
    let values: Vec<f32> = (0..75).map(element).collect();
    Literal::from_f32s(&[3, 5, 5], &values).expect("small")
}

/// A program of one batch of square matrices of `f32` means the same everywhere.
fn holds(body: &str, diagonal: f32) {
    let text = format!("HloModule lapack ENTRY main {{ a = f32[3,5,5] parameter(0)\n{body}\n}}");
    let module = read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let inputs = [matrices(diagonal)];
    assert_agrees(&module, &inputs, Regime::General);
}

#[test]
fn factors_of_symmetric_matrices() {
    for uplo in [76, 85] {
        let call = format!(
            "ROOT c = (f32[3,5,5]{{1,2,0}}, s32[3]{{0}}) custom-call(a),
               custom_call_target=\"lapack_spotrf_ffi\", backend_config={{uplo = {uplo} : ui8}}"
        );
        holds(&call, 20.0);
        // No factor.
        holds(&call, -20.0);
    }
}

#[test]
fn triangular_systems() {
    for side in ['L', 'R'] {
        for trans in ['N', 'T', 'C'] {
            for diag in ['N', 'U'] {
                holds(
                    &format!(
                        "one = f32[] constant(1) ones = f32[3,5,5] broadcast(one), dimensions={{}}
                         i = f32[3,5,5] iota(), iota_dimension=2
                         b = f32[3,5,5] add(i, ones)
                         ROOT x = f32[3,5,5]{{1,2,0}} custom-call(a, b),
                           custom_call_target=\"lapack_strsm_ffi\",
                           backend_config={{diag = {} : ui8, side = {} : ui8, trans_x = {} : ui8,
                             uplo = 76 : ui8}}",
                        u32::from(diag),
                        u32::from(side),
                        u32::from(trans)
                    ),
                    9.0,
                );
            }
        }
    }
}

#[test]
fn factors_and_exchanged_rows() {
    for (body, diagonal) in [
        ("x = f32[3,5,5] copy(a)", 9.0),
        ("x = f32[3,5,5] subtract(a, a)", 9.0),
    ] {
        holds(
            &format!(
                "{body}
                 ROOT lu = (f32[3,5,5]{{1,2,0}}, s32[3,5]{{1,0}}, s32[3]{{0}}) custom-call(x),
                   custom_call_target=\"lapack_sgetrf_ffi\", backend_config={{}}"
            ),
            diagonal,
        );
    }
}

#[test]
fn complex_systems() {
    let body = |x: &str, y: &str| {
        format!(
            "HloModule lapack ENTRY main {{ x = f32[3,5,5] parameter(0)
               y = f32[3,5,5] {y} a = c64[3,5,5] complex({x}, y)
               ROOT lu = (c64[3,5,5]{{1,2,0}}, s32[3,5]{{1,0}}, s32[3]{{0}}) custom-call(a),
                 custom_call_target=\"lapack_cgetrf_ffi\", backend_config={{}} }}"
        )
    };
    for (x, y) in [
        ("x", "sine(x)"),
        ("x", "transpose(x), dimensions={0,2,1}"),
        ("y", "subtract(x, x)"),
    ] {
        let module = read(&body(x, y)).expect("text that can be read");
        let inputs = [matrices(9.0)];
        assert_agrees(&module, &inputs, Regime::General);
    }
}

#[test]
fn reflections_and_their_product() {
    // The last matrices are of zeros: there is nothing to reflect.
    for (x, diagonal) in [("copy(a)", 9.0), ("subtract(a, a)", 9.0)] {
        for (rows, columns) in [(5, 5), (5, 3), (3, 5)] {
            let least = rows.min(columns);
            holds(
                &format!(
                    "x = f32[3,5,5] {x}
                     m = f32[3,{rows},{columns}] slice(x), slice={{[0:3], [0:{rows}], [0:{columns}]}}
                     qr = (f32[3,{rows},{columns}]{{1,2,0}}, f32[3,{least}]{{1,0}}) custom-call(m),
                       custom_call_target=\"lapack_sgeqrf_ffi\", backend_config={{}}
                     f = f32[3,{rows},{columns}] get-tuple-element(qr), index=0
                     t = f32[3,{least}] get-tuple-element(qr), index=1
                     v = f32[3,{rows},{least}] slice(f), slice={{[0:3], [0:{rows}], [0:{least}]}}
                     q = f32[3,{rows},{least}]{{1,2,0}} custom-call(v, t),
                       custom_call_target=\"lapack_sorgqr_ffi\", backend_config={{}}
                     ROOT all = (f32[3,{rows},{columns}], f32[3,{least}], f32[3,{rows},{least}])
                       tuple(f, t, q)"
                ),
                diagonal,
            );
        }
    }
}

/// Programs of a factorisation that is a library's: the same on every target but for its rounding.
#[test]
fn products_with_q() {
    for (left, transpose) in [(true, true), (true, false), (false, true), (false, false)] {
        let (rows, columns) = if left { (5, 2) } else { (2, 5) };
        let text = format!(
            "HloModule ormqr ENTRY main {{ a = f32[3,5,5] parameter(0)
               m = f32[3,5,3] slice(a), slice={{[0:3], [0:5], [0:3]}}
               qr = (f32[3,5,3]{{1,2,0}}, f32[3,3]{{1,0}}) custom-call(m),
                 custom_call_target=\"lapack_sgeqrf_ffi\", backend_config={{}}
               f = f32[3,5,3] get-tuple-element(qr), index=0
               t = f32[3,3] get-tuple-element(qr), index=1
               c = f32[3,{rows},{columns}] iota(), iota_dimension=0
               p = f32[3,{rows},{columns}]{{1,2,0}} custom-call(f, t, c),
                 custom_call_target=\"lapack_sormqr_ffi\",
                 backend_config={{left = {left}, transpose = {transpose}}}
               b = f32[3,{rows},{columns}]{{1,2,0}} custom-call(f, t, p),
                 custom_call_target=\"lapack_sormqr_ffi\",
                 backend_config={{left = {left}, transpose = {}}}
               ROOT d = f32[3,{rows},{columns}] subtract(b, c) }}",
            !transpose
        );
        let module = read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let input = Tensor::from(matrices(9.0));
        for target in [Target::Interp, Target::Plan, Target::Cpu, Target::Tpu] {
            let options = Options {
                target,
                ..Options::default()
            };
            let program = tegula::compile(&module, &options);
            let program = program.unwrap_or_else(|e| panic!("{target:?}: {e}\n{text}"));
            let given = program.run(vec![Arg::Borrowed(&input)]);
            let given = given.unwrap_or_else(|e| panic!("{target:?}: {e}\n{text}"));
            for x in given[0].clone().into_literal().as_f32s().expect("f32") {
                // `Q` and its transpose undo each other.
                assert!(x.abs() < 1e-5, "{target:?}: {x}");
            }
        }
    }
}

/// A compiler's own handler of a routine comes before the library's, which the CPU calls otherwise.
#[test]
fn a_handler_replaces_the_library() {
    let module = "HloModule ormqr ENTRY main {
          v = f32[3,2] parameter(0)
          t = f32[2] parameter(1)
          c = f32[3,1] parameter(2)
          ROOT p = f32[3,1] custom-call(v, t, c), custom_call_target=\"lapack_sormqr_ffi\",
            backend_config={left = true, transpose = true} }";
    let module: tegula::Module = module.parse().expect("a program");
    let array = |dims: &[i64], values: &[f32]| Tensor::from_slice(dims, values).expect("small");
    let inputs = [
        array(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        array(&[2], &[0.0, 0.0]),
        array(&[3, 1], &[7.0, 8.0, 9.0]),
    ];
    let library = tegula::Compiler::new(Target::Cpu);
    let own = library
        .clone()
        .custom_call("lapack_sormqr_ffi", |_, operands, _| {
            let numbers = operands[2].as_slice::<f32>().ok_or("f32 was expected")?;
            let doubled: Vec<f32> = numbers.iter().map(|x| 2.0 * x).collect();
            Ok(vec![Tensor::from_slice(&[3, 1], &doubled)?])
        });
    for (compiler, expected) in [(own, [14.0, 16.0, 18.0]), (library, [7.0, 8.0, 9.0])] {
        let program = compiler.compile(&module).expect("compiled");
        let result = program.run(inputs.iter()).expect("it runs");
        assert_eq!(result[0].as_slice::<f32>(), Some(&expected[..]));
    }
}

/// Matrices without rows, columns or reflections.
#[test]
fn nothing_to_factor_or_multiply() {
    for (batch, rows, columns) in [(0, 3, 2), (2, 0, 3), (2, 3, 0), (2, 0, 0)] {
        let least = rows.min(columns);
        let text = format!(
            "HloModule empty ENTRY main {{ m = f32[{batch},{rows},{columns}] parameter(0)
               qr = (f32[{batch},{rows},{columns}], f32[{batch},{least}]) custom-call(m),
                 custom_call_target=\"lapack_sgeqrf_ffi\", backend_config={{}}
               f = f32[{batch},{rows},{columns}] get-tuple-element(qr), index=0
               t = f32[{batch},{least}] get-tuple-element(qr), index=1
               one = f32[] constant(1)
               c = f32[{batch},{rows},4] broadcast(one), dimensions={{}}
               ROOT p = f32[{batch},{rows},4] custom-call(f, t, c),
                 custom_call_target=\"lapack_sormqr_ffi\",
                 backend_config={{left = true, transpose = false}} }}"
        );
        let module: tegula::Module = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        let shape =
            tegula_ir::ArrayShape::new(tegula_ir::ElementType::F32, &[batch, rows, columns]);
        let input = Tensor::from(Literal::zeros(&shape).expect("small"));
        for target in [Target::Interp, Target::Plan, Target::Cpu] {
            let program = tegula::Compiler::new(target)
                .compile(&module)
                .expect("compiled");
            let result = program
                .run([&input])
                .unwrap_or_else(|e| panic!("{target:?}: {e}\n{text}"));
            // Of a matrix without columns `Q` is the identity.
            let expected = vec![1.0; (batch * rows * 4) as usize];
            assert_eq!(
                result[0].as_slice::<f32>(),
                Some(&expected[..]),
                "{target:?}\n{text}"
            );
        }
    }
}

/// Systems of so few rows that real ones are written out: of every kind, with several right sides.
#[test]
fn systems_of_a_few_rows() {
    let holds = |rows: usize, ty: &str, flags: &str, left: bool| {
        let dims = match left {
            true => format!("2,{rows},3"),
            false => format!("2,3,{rows}"),
        };
        let text = format!(
            "HloModule few ENTRY main {{ a = f32[3,5,5] parameter(0)
               s = f32[2,{rows},{rows}] slice(a), slice={{[1:3], [0:{rows}], [0:{rows}]}}
               i = f32[2,{rows},{rows}] iota(), iota_dimension=2
               c = {ty}[2,{rows},{rows}] {}
               v = f32[{dims}] iota(), iota_dimension=1
               w = {ty}[{dims}] convert(v)
               ROOT x = {ty}[{dims}] triangular-solve(c, w), {flags} }}",
            match ty {
                "c64" => "complex(s, i)",
                _ => "convert(s)",
            }
        );
        let module = read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_agrees(&module, &[matrices(9.0)], Regime::General);
    };
    for (number, rows) in (0..48).zip([1, 2, 3, 4].into_iter().cycle()) {
        let bit = |at: usize| number >> at & 1 == 1;
        let op = ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"][number % 3];
        let ty = ["f32", "f64", "c64"][number / 16];
        let (left, lower, unit) = (bit(2), bit(1), bit(3));
        let flags =
            format!("left_side={left}, lower={lower}, unit_diagonal={unit}, transpose_a={op}");
        holds(rows, ty, &flags, left);
    }
}

/// Solutions of halves are those of `f32`, rounded once.
#[test]
fn triangular_systems_of_halves() {
    for ty in ["bf16", "f16"] {
        let text = format!(
            "HloModule halves ENTRY main {{ a = f32[3,5,5] parameter(0)
               h = {ty}[3,5,5] convert(a)
               rows = f32[3,5,5] iota(), iota_dimension=1
               sum = f32[3,5,5] add(a, rows)
               b = {ty}[3,5,5] convert(sum)
               x = {ty}[3,5,5] triangular-solve(h, b), left_side=true, lower=true,
                 unit_diagonal=false, transpose_a=NO_TRANSPOSE
               ROOT w = f32[3,5,5] convert(x) }}"
        );
        let module = read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_agrees(&module, &[matrices(9.0)], Regime::General);
    }
}

#[test]
fn an_option_that_is_missing_is_named() {
    let text = "HloModule lapack ENTRY main { a = f32[2,2] parameter(0)
        ROOT c = (f32[2,2], s32[]) custom-call(a), custom_call_target=\"lapack_spotrf_ffi\" }";
    let module = read(text).expect("text that can be read");
    for target in [Target::Interp, Target::Plan, Target::Cpu] {
        let options = Options {
            target,
            ..Options::default()
        };
        let input = Tensor::from_slice::<f32>(&[2, 2], &[1.0, 0.0, 0.0, 1.0]).expect("small");
        let ran = tegula::compile(&module, &options);
        let ran = ran.and_then(|program| program.run(vec![Arg::Borrowed(&input)]));
        let error = ran.map(|_| ()).expect_err("no option").to_string();
        assert!(error.contains("uplo"), "{target:?}: {error}");
    }
}

#[test]
fn shapes_that_do_not_go_with_the_routine_are_errors() {
    for (operands, routine, results, what) in [
        ("f32[5]", "sgeqrf", "(f32[5], f32[5])", "is not a matrix"),
        ("f32[4,3]", "sgeqrf", "(f32[4,3], f32[7])", "f32[3]"),
        ("f32[2,4,3]", "sgeqrf", "(f32[2,4,3], f32[3])", "f32[2,3]"),
        ("s32[4,3]", "sgeqrf", "(s32[4,3], s32[3])", "is for f32"),
        ("f32[5] f32[]", "sorgqr", "f32[5]", "is not a matrix"),
        ("f32[4,3] f32[9]", "sorgqr", "f32[4,3]", "[9]"),
        ("f32[4,3] f32[]", "sorgqr", "f32[4,3]", "[]"),
        ("f32[3,4]", "spotrf", "(f32[3,4], s32[])", "not square"),
        ("f32[3,3]", "spotrf", "(f32[3,3], s32[3])", "s32[]"),
        ("f32[3,3]", "dpotrf", "(f32[3,3], s32[])", "is for f64"),
        ("f32[3,3]", "spotrf", "f32[3,3]", "s32[]"),
        ("f32[4,3]", "sgetrf", "(f32[4,3], s32[4], s32[])", "s32[3]"),
        ("f32[3,3] f32[4,3]", "strsm", "f32[4,3]", "do not match"),
        ("f32[3,3]", "strsm", "f32[3,3]", "number of operands"),
    ] {
        let parameters: Vec<String> = (operands.split(' ').enumerate())
            .map(|(i, shape)| format!("p{i} = {shape} parameter({i})"))
            .collect();
        let names: Vec<String> = (0..parameters.len()).map(|i| format!("p{i}")).collect();
        let text = format!(
            "HloModule lapack ENTRY main {{ {}
               ROOT c = {results} custom-call({}), custom_call_target=\"lapack_{routine}_ffi\",
                 backend_config={{diag = 78 : ui8, side = 76 : ui8, trans_x = 78 : ui8,
                   uplo = 76 : ui8}} }}",
            parameters.join(" "),
            names.join(", ")
        );
        let error = read(&text).expect_err("an error").to_string();
        assert!(error.contains(what), "{error}\n{text}");
    }
}
