//! What JAX calls LAPACK for and handlers give: that the results are what they are called, on
//! every target in the same bits.

use tegula::{Arg, Options, Target, Tensor};
use tegula_ir::{ArrayShape, ElementType, Literal};
use tegula_tests::read;

/// A complex number.
type Number = [f64; 2];

fn times([a, b]: Number, [c, d]: Number) -> Number {
    [a * c - b * d, a * d + b * c]
}

fn conjugate([a, b]: Number) -> Number {
    [a, -b]
}

/// A matrix, row-major.
struct Matrix {
    columns: usize,
    entries: Vec<Number>,
}

impl Matrix {
    fn rows(&self) -> usize {
        self.entries.len().checked_div(self.columns).unwrap_or(0)
    }

    fn adjoint(&self) -> Self {
        let entries = (0..self.columns)
            .flat_map(|j| (0..self.rows()).map(move |i| (i, j)))
            .map(|(i, j)| conjugate(self.entries[i * self.columns + j]));
        Self {
            columns: self.rows(),
            entries: entries.collect(),
        }
    }

    fn multiply(&self, other: &Self) -> Self {
        let entry = |i: usize, j: usize| {
            (0..self.columns).fold([0.0, 0.0], |sum: Number, k| {
                let product = times(
                    self.entries[i * self.columns + k],
                    other.entries[k * other.columns + j],
                );
                [sum[0] + product[0], sum[1] + product[1]]
            })
        };
        let places = (0..self.rows()).flat_map(|i| (0..other.columns).map(move |j| (i, j)));
        Self {
            columns: other.columns,
            entries: places.map(|(i, j)| entry(i, j)).collect(),
        }
    }

    /// With each column times a number.
    fn scaled(&self, values: &[Number]) -> Self {
        let entries = self.entries.iter().enumerate();
        let entries = entries.map(|(at, &x)| times(x, values[at % self.columns]));
        Self {
            columns: self.columns,
            entries: entries.collect(),
        }
    }

    fn assert_close(&self, other: &Self, what: &str) {
        assert_eq!(self.entries.len(), other.entries.len(), "{what}");
        for (a, b) in self.entries.iter().zip(&other.entries) {
            let apart = (a[0] - b[0]).abs().max((a[1] - b[1]).abs());
            assert!(apart < 1e-11, "{what}: {a:?} {b:?}");
        }
    }

    fn assert_orthonormal(&self, what: &str) {
        let product = self.adjoint().multiply(self);
        let one = |at: usize| f64::from(u8::from(at.is_multiple_of(self.columns + 1)));
        let identity = Self {
            columns: self.columns,
            entries: (0..product.entries.len())
                .map(|at| [one(at), 0.0])
                .collect(),
        };
        product.assert_close(&identity, what);
    }
}

/// Entries between -1 and 1 without a pattern.
fn sample(rows: usize, columns: usize, is_complex: bool) -> Matrix {
    let part = |at: usize| ((at * at * 37 + at * 11 + 5) % 101) as f64 / 50.5 - 1.0;
    let entry = |at: usize| {
        [
            part(2 * at),
            if is_complex { part(2 * at + 1) } else { 0.0 },
        ]
    };
    Matrix {
        columns,
        entries: (0..rows * columns).map(entry).collect(),
    }
}

fn type_of(is_complex: bool) -> (ElementType, &'static str) {
    if is_complex {
        (ElementType::C128, "c128")
    } else {
        (ElementType::F64, "f64")
    }
}

fn literal(a: &Matrix, is_complex: bool) -> Literal {
    let parts = a
        .entries
        .iter()
        .flat_map(|x| x[..1 + usize::from(is_complex)].to_vec());
    let bytes: Vec<u8> = parts.flat_map(f64::to_le_bytes).collect();
    let shape = ArrayShape::new(type_of(is_complex).0, &[a.rows() as i64, a.columns as i64]);
    Literal::from_bytes(&shape, &bytes).expect("as many bytes")
}

fn numbers(array: &Literal) -> Vec<Number> {
    let doubles: Vec<f64> = match array.element_type() {
        ElementType::S32 => {
            let words = array.bytes().as_chunks::<4>().0.iter();
            return words
                .map(|&word| [f64::from(i32::from_le_bytes(word)), 0.0])
                .collect();
        }
        _ => array
            .bytes()
            .as_chunks::<8>()
            .0
            .iter()
            .map(|&x| f64::from_le_bytes(x))
            .collect(),
    };
    if array.element_type().is_complex() {
        return doubles.as_chunks::<2>().0.to_vec();
    }
    doubles.iter().map(|&x| [x, 0.0]).collect()
}

/// What a call of one matrix gives, on all targets the same.
fn call(
    routine: &str,
    config: &str,
    a: &Matrix,
    is_complex: bool,
    results: &str,
) -> Vec<Vec<Number>> {
    let (rows, columns, name) = (a.rows(), a.columns, type_of(is_complex).1);
    let text = format!(
        "HloModule spectral ENTRY main {{ a = {name}[{rows},{columns}] parameter(0)
           ROOT c = ({results}) custom-call(a), custom_call_target=\"lapack_{routine}_ffi\",
             api_version=API_VERSION_TYPED_FFI, backend_config={config} }}"
    );
    run_everywhere(&text, &[literal(a, is_complex)])
}

/// What a program gives, on all targets the same.
fn run_everywhere(text: &str, inputs: &[Literal]) -> Vec<Vec<Number>> {
    let module = read(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let inputs: Vec<Tensor> = inputs.iter().cloned().map(Tensor::from).collect();
    let run = |target| {
        let options = Options {
            target,
            ..Options::default()
        };
        let program = tegula::compile(&module, &options);
        let program = program.unwrap_or_else(|e| panic!("{target:?}: {e}\n{text}"));
        let given = program.run(inputs.iter());
        let given = given.unwrap_or_else(|e| panic!("{target:?}: {e}\n{text}"));
        given
            .into_iter()
            .map(Tensor::into_literal)
            .collect::<Vec<_>>()
    };
    let first = run(Target::Interp);
    for target in [Target::Plan, Target::Cpu, Target::Tpu] {
        for (a, b) in first.iter().zip(run(target)) {
            assert_eq!(a.bytes(), b.bytes(), "{target:?}\n{text}");
        }
    }
    first.iter().map(numbers).collect()
}

#[test]
fn vectors_of_symmetric_matrices() {
    for is_complex in [false, true] {
        for uplo in [76, 85] {
            let half = sample(9, 9, is_complex);
            let adjoint = half.adjoint();
            let sums = half.entries.iter().zip(&adjoint.entries);
            let sums = sums.map(|(a, b)| [a[0] + b[0], a[1] + b[1]]).collect();
            let a = Matrix {
                columns: 9,
                entries: sums,
            };
            let routine = if is_complex { "zheevd" } else { "dsyevd" };
            let results = format!("{}[9,9], f64[9], s32[]", type_of(is_complex).1);
            let config = format!("{{mode = 86 : ui8, uplo = {uplo} : ui8}}");
            // Only one triangle is read.
            let mut given = Matrix {
                columns: 9,
                entries: a.entries.clone(),
            };
            given.entries[if uplo == 76 { 1 } else { 9 }] = [77.0, 0.0];
            let [u, values, info] = &call(routine, &config, &given, is_complex, &results)[..]
            else {
                panic!("three results");
            };
            assert_eq!(info[0], [0.0, 0.0]);
            assert!(values.is_sorted_by(|a, b| a[0] <= b[0]), "{values:?}");
            let u = Matrix {
                columns: 9,
                entries: u.clone(),
            };
            u.assert_orthonormal(routine);
            a.multiply(&u).assert_close(&u.scaled(values), routine);
        }
    }
}

#[test]
fn singular_values_and_vectors() {
    for is_complex in [false, true] {
        for (m, n) in [(7, 4), (4, 7), (5, 5), (1, 3), (3, 1)] {
            for full in [false, true] {
                let a = sample(m, n, is_complex);
                let (least, name) = (m.min(n), type_of(is_complex).1);
                let (left, right) = if full { (m, n) } else { (least, least) };
                let results = format!(
                    "{name}[{m},{n}], f64[{least}], {name}[{m},{left}], {name}[{right},{n}], s32[]"
                );
                let routine = if is_complex { "zgesdd" } else { "dgesvd" };
                let config = if full {
                    "{mode = 65 : ui8}"
                } else {
                    "{mode = 83 : ui8}"
                };
                let parts = call(routine, config, &a, is_complex, &results);
                let u = Matrix {
                    columns: left,
                    entries: parts[2].clone(),
                };
                let v = Matrix {
                    columns: n,
                    entries: parts[3].clone(),
                }
                .adjoint();
                u.assert_orthonormal("u");
                v.assert_orthonormal("v");
                let values = &parts[1];
                assert!(values.is_sorted_by(|a, b| a[0] >= b[0]) && values[least - 1][0] >= 0.0);
                // The first columns only have a value.
                let first = |x: &Matrix, count: usize| Matrix {
                    columns: count,
                    entries: (x.entries.chunks(x.columns))
                        .flat_map(|r| r[..count].to_vec())
                        .collect(),
                };
                let product = first(&u, least)
                    .scaled(values)
                    .multiply(&first(&v, least).adjoint());
                product.assert_close(&a, routine);
            }
        }
    }
}

#[test]
fn vectors_of_any_square_matrix() {
    for is_complex in [false, true] {
        let a = sample(8, 8, is_complex);
        let values = if is_complex {
            "c128[8]"
        } else {
            "f64[8], f64[8]"
        };
        let results = format!("{values}, c128[8,8], c128[8,8], s32[]");
        let routine = if is_complex { "zgeev" } else { "dgeev" };
        let config = "{compute_left = 86 : ui8, compute_right = 86 : ui8}";
        let parts = call(routine, config, &a, is_complex, &results);
        let values: Vec<Number> = if is_complex {
            parts[0].clone()
        } else {
            parts[0]
                .iter()
                .zip(&parts[1])
                .map(|(re, im)| [re[0], im[0]])
                .collect()
        };
        let [.., left, right, _] = &parts[..] else {
            panic!("vectors");
        };
        let [left, right] = [left, right].map(|x| Matrix {
            columns: 8,
            entries: x.clone(),
        });
        a.multiply(&right)
            .assert_close(&right.scaled(&values), "right");
        let conjugates: Vec<Number> = values.iter().map(|&x| conjugate(x)).collect();
        a.adjoint()
            .multiply(&left)
            .assert_close(&left.scaled(&conjugates), "left");
        for x in [&left, &right] {
            let lengths = x.adjoint().multiply(x);
            assert!((0..8).all(|i| (lengths.entries[9 * i][0] - 1.0).abs() < 1e-12));
        }
    }
}

#[test]
fn schur_forms() {
    for is_complex in [false, true] {
        let a = sample(8, 8, is_complex);
        let (name, letter) = (type_of(is_complex).1, if is_complex { 'z' } else { 'd' });
        let values = if is_complex {
            "c128[8]"
        } else {
            "f64[8], f64[8]"
        };
        let results = format!("{name}[8,8], {name}[8,8], {values}, s32[], s32[]");
        let config = "{mode = 86 : ui8, sort = 78 : ui8}";
        let parts = call(&format!("{letter}gees"), config, &a, is_complex, &results);
        let [t, z] = [&parts[0], &parts[1]].map(|x| Matrix {
            columns: 8,
            entries: x.clone(),
        });
        z.assert_orthonormal("schur vectors");
        z.multiply(&t)
            .multiply(&z.adjoint())
            .assert_close(&a, "schur form");
    }
}

#[test]
fn a_matrix_without_a_result_is_said_to_be_one() {
    let mut a = sample(3, 3, false);
    a.entries[4] = [f64::NAN, 0.0];
    let parts = call(
        "dsyevd",
        "{mode = 86 : ui8, uplo = 76 : ui8}",
        &a,
        false,
        "f64[3,3], f64[3], s32[]",
    );
    assert!(parts[0].iter().chain(&parts[1]).all(|x| x[0].is_nan()));
    assert_eq!(parts[2], [[1.0, 0.0]]);
    // Numbers whose squares are no numbers, and zeros.
    for scale in [1e300, 1e-300, 0.0] {
        let entries = sample(3, 3, false)
            .entries
            .iter()
            .map(|x| [x[0] * scale, 0.0])
            .collect();
        let a = Matrix {
            columns: 3,
            entries,
        };
        let results = "f64[3,3], f64[3], f64[3,3], f64[3,3], s32[]";
        let parts = call("dgesdd", "{mode = 83 : ui8}", &a, false, results);
        let u = Matrix {
            columns: 3,
            entries: parts[2].clone(),
        };
        u.assert_orthonormal("u");
        assert_eq!(parts[4], [[0.0, 0.0]]);
        assert!(
            parts[1].iter().all(|x| x[0] <= 3.0 * scale && x[0] >= 0.0),
            "{:?}",
            parts[1]
        );
    }
}

#[test]
fn matrices_without_elements() {
    let empty = Matrix {
        columns: 1,
        entries: Vec::new(),
    };
    let given = call(
        "dgesdd",
        "{mode = 65 : ui8}",
        &empty,
        false,
        "f64[0,1], f64[0], f64[0,0], f64[1,1], s32[]",
    );
    assert_eq!(given[3], [[1.0, 0.0]]);
    for (routine, config, results) in [
        (
            "dsyevd",
            "{mode = 86 : ui8, uplo = 76 : ui8}",
            "f64[0,0], f64[0], s32[]",
        ),
        (
            "dgeev",
            "{compute_left = 86 : ui8, compute_right = 86 : ui8}",
            "f64[0], f64[0], c128[0,0], c128[0,0], s32[]",
        ),
    ] {
        let none = Matrix {
            columns: 0,
            entries: Vec::new(),
        };
        let given = call(routine, config, &none, false, results);
        assert_eq!(given.last(), Some(&vec![[0.0, 0.0]]));
    }
}

/// A symmetric matrix is one triangle: nothing in the other one is looked at.
#[test]
fn what_is_not_read_may_be_anything() {
    let config = "{mode = 86 : ui8, uplo = 76 : ui8}";
    let a = sample(4, 4, false);
    let mut other = sample(4, 4, false);
    other.entries[3] = [f64::NAN, 0.0];
    other.entries[6] = [1e300, 0.0];
    let results = "f64[4,4], f64[4], s32[]";
    let given = [a, other].map(|a| call("dsyevd", config, &a, false, results));
    assert_eq!(given[0], given[1]);
}

#[test]
fn what_does_not_go_with_the_routine_is_an_error() {
    let symmetric = "{mode = 86 : ui8, uplo = 76 : ui8}";
    let any = "{compute_left = 86 : ui8, compute_right = 86 : ui8}";
    for (operand, routine, config, results, what) in [
        (
            "f64[3,3]",
            "dsyevd",
            symmetric,
            "f64[3,3], f64[4], s32[]",
            "returns f64[3,3], f64[3], s32[], but",
        ),
        (
            "f64[3,3]",
            "dsyevd",
            symmetric,
            "f64[3,3], s32[]",
            "returns f64[3,3], f64[3], s32[], but",
        ),
        (
            "f64[3,3]",
            "dsyevd",
            "{mode = 86 : ui8}",
            "f64[3,3], f64[3], s32[]",
            "uplo",
        ),
        (
            "f64[3,4]",
            "dsyevd",
            symmetric,
            "f64[3,4], f64[3], s32[]",
            "not square",
        ),
        (
            "f64[4,3]",
            "dgeev",
            any,
            "f64[3], f64[3], c128[4,3], c128[4,3], s32[]",
            "not square",
        ),
        (
            "f64[3]",
            "dgesdd",
            "{mode = 83 : ui8}",
            "f64[3], f64[3], f64[3], f64[3], s32[]",
            "expected matrices",
        ),
        (
            "c128[3,3]",
            "zheevd",
            symmetric,
            "f64[3,3], f64[3], s32[]",
            "returns c128[3,3], f64[3], s32[], but",
        ),
        (
            "f64[3,3]",
            "zheevd",
            symmetric,
            "c128[3,3], f64[3], s32[]",
            "expected c128",
        ),
    ] {
        let text = format!(
            "HloModule spectral ENTRY main {{ a = {operand} parameter(0)
               ROOT c = ({results}) custom-call(a), custom_call_target=\"lapack_{routine}_ffi\",
                 backend_config={config} }}"
        );
        let module = read(&text).expect("text that can be read");
        let shape = module[module.entry_computation().parameters[0]]
            .shape
            .as_array();
        let input = Literal::zeros(shape.expect("an array")).expect("small");
        let input = Tensor::from(input);
        for target in [Target::Interp, Target::Plan, Target::Cpu] {
            let options = Options {
                target,
                ..Options::default()
            };
            let ran = tegula::compile(&module, &options);
            let ran = ran.and_then(|program| program.run(vec![Arg::Borrowed(&input)]));
            let error = ran.map(|_| ()).expect_err("an error").to_string();
            assert!(error.contains(what), "{target:?}: {error}");
        }
    }
}

/// The product of a tridiagonal matrix and right sides.
fn tridiagonal_product([below, diagonal, above]: [&Matrix; 3], x: &Matrix) -> Matrix {
    let n = diagonal.entries.len();
    let mut whole = Matrix {
        columns: n,
        entries: vec![[0.0, 0.0]; n * n],
    };
    for i in 0..n {
        whole.entries[i * n + i] = diagonal.entries[i];
        if i > 0 {
            whole.entries[i * n + i - 1] = below.entries[i];
        }
        if i + 1 < n {
            whole.entries[i * n + i + 1] = above.entries[i];
        }
    }
    whole.multiply(x)
}

#[test]
fn tridiagonal_systems() {
    for is_complex in [false, true] {
        let (name, letter) = (type_of(is_complex).1, if is_complex { 'z' } else { 'd' });
        for n in [1, 2, 3, 9] {
            // Without a diagonal, every other row is exchanged.
            for diagonal in [8.0, 0.0] {
                if diagonal == 0.0 && n % 2 == 1 {
                    continue;
                }
                let all = sample(1, 3 * n, is_complex);
                let vector = |from: usize, more: f64| Matrix {
                    columns: n,
                    entries: (all.entries[from..from + n].iter())
                        .map(|x| [x[0] + more, x[1]])
                        .collect(),
                };
                let (below, above) = (vector(0, 3.0), vector(n, 3.0));
                let mut middle = vector(2 * n, diagonal);
                if diagonal == 0.0 {
                    middle.entries.fill([0.0, 0.0]);
                }
                let x = sample(n, 3, is_complex);
                let b = tridiagonal_product([&below, &middle, &above], &x);
                let text = format!(
                    "HloModule tridiagonal ENTRY main {{
                       l = {name}[1,{n}] parameter(0) d = {name}[1,{n}] parameter(1)
                       u = {name}[1,{n}] parameter(2) p = {name}[{n},3] parameter(3)
                       b = {name}[1,{n},3] reshape(p)
                       ROOT c = ({name}[1,{n}], {name}[1,{n}], {name}[1,{n}], {name}[1,{n},3],
                         s32[1]) custom-call(l, d, u, b),
                         custom_call_target=\"lapack_{letter}gtsv_ffi\" }}"
                );
                let inputs = [&below, &middle, &above, &b].map(|x| literal(x, is_complex));
                let parts = run_everywhere(&text, &inputs);
                assert_eq!(parts[4], [[0.0, 0.0]]);
                let found = Matrix {
                    columns: 3,
                    entries: parts[3].clone(),
                };
                found.assert_close(&x, &text);
            }
        }
    }
}

#[test]
fn a_tridiagonal_system_without_a_solution_is_said_to_be_one() {
    let text = "HloModule tridiagonal ENTRY main {
        l = f64[1,3] parameter(0) v = f64[3] reshape(l) b = f64[3,1] reshape(l)
        ROOT c = (f64[3], f64[3], f64[3], f64[3,1], s32[]) custom-call(v, v, v, b),
          custom_call_target=\"lapack_dgtsv_ffi\" }";
    let zeros = Matrix {
        columns: 3,
        entries: vec![[0.0, 0.0]; 3],
    };
    let parts = run_everywhere(text, &[literal(&zeros, false)]);
    assert_eq!(parts[4], [[1.0, 0.0]]);
}
