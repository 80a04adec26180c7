//! Programs as objects for C: linked, loaded, and held against the reference evaluator.

use std::path::PathBuf;
use std::process::Command;
use tegula::{Architecture, ErrorKind, IsaLevel, ObjectOptions, Options, compile, compile_object};
use tegula_fusion::array_leaves;
use tegula_ir::{ArrayShape, Literal, Module};
use tegula_tests::corpus::{load, names, small_corpus};
use tegula_tests::judge::{MIDDLE, OLDEST, Reference};
use tegula_tests::object::{
    Failure, LinkedObject, results_of_stored, stored_inputs, stored_shapes,
};
use tegula_tests::random::{Regime, random_program};
use tegula_tests::read;

/// A folder for the files of a program.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir();
    folder.join(format!("tegula-object-{}-{name}", std::process::id()))
}

fn results(module: &Module) -> Vec<ArrayShape> {
    let root = &module[module.entry_computation().root].shape;
    let leaves = array_leaves(root);
    leaves.iter().map(|shape| (*shape).clone()).collect()
}

/// The results as an object; nothing where objects lack something.
fn run(module: &Module, inputs: &[Literal], cpu: IsaLevel, name: &str) -> Option<Vec<Literal>> {
    let folder = folder(name);
    let linked = LinkedObject::new(module, cpu, &folder);
    let outputs = match linked {
        Ok(linked) => {
            let inputs = stored_inputs(module, inputs);
            let shapes = stored_shapes(module, &results(module));
            let outputs = linked.run(&[], &inputs, &shapes).expect("it runs");
            let outputs = results_of_stored(module, outputs);
            Some(
                outputs
                    .into_iter()
                    .map(tegula::Tensor::into_literal)
                    .collect(),
            )
        }
        Err(Failure::Compile(error)) if error.kind == ErrorKind::Unsupported => None,
        Err(error) => panic!("{name}: {error:?}"),
    };
    let _ = std::fs::remove_dir_all(folder);
    outputs
}

#[test]
fn random_programs_agree() {
    let count = std::env::var("TEGULA_SWEEP")
        .ok()
        .and_then(|n| n.parse().ok());
    let mut judged = 0;
    for seed in 0..count.unwrap_or(40u64) {
        for regime in [Regime::Dyadic, Regime::General] {
            let program = random_program(seed, regime);
            let module = read(&program.text).expect("a program");
            let levels = [IsaLevel::Native, MIDDLE, OLDEST];
            let cpu = levels[seed as usize % 3];
            let name = format!("{seed}-{regime:?}");
            let Some(outputs) = run(&module, &program.inputs, cpu, &name) else {
                continue;
            };
            let reference = Reference::new(&module, &program.inputs, regime).expect("evaluated");
            let outputs: Vec<&Literal> = outputs.iter().collect();
            let verdict = reference.judge_results(&outputs);
            assert!(verdict.is_ok(), "{name}: {verdict:?}\n{}", program.text);
            judged += 1;
        }
    }
    let all = 2 * count.unwrap_or(40u64);
    assert!(judged * 2 > all, "{judged} of {all} were objects");
}

/// The widest vectors that this machine has, without matrix registers, which objects do not use.
fn widest() -> IsaLevel {
    let newest = Architecture::HERE.levels()[2];
    if newest.is_supported() {
        newest
    } else {
        MIDDLE
    }
}

/// The results of a run in this process, on the same CPU level.
fn run_here(module: &Module, inputs: &[Literal], cpu: IsaLevel) -> Vec<Literal> {
    let options = Options {
        cpu,
        ..Options::default()
    };
    let executable = compile(module, &options).expect("compiled");
    let buffers: Vec<tegula::Tensor> = inputs.iter().cloned().map(Into::into).collect();
    let results = executable.run(&buffers).expect("it runs");
    results
        .into_iter()
        .map(tegula::Tensor::into_literal)
        .collect()
}

/// Those of the small corpus that objects can be, and their results: those of a run, to the bit.
#[test]
fn programs_of_the_corpus_agree() {
    let mut compiled = 0;
    for name in names(&small_corpus()).expect("a folder") {
        let program = load(&small_corpus(), &name, "hlo").expect("a program");
        let outputs = run(&program.module, &program.inputs, widest(), &name);
        let Some(outputs) = outputs else {
            continue;
        };
        let expected = run_here(&program.module, &program.inputs, widest());
        for (number, (found, wanted)) in outputs.iter().zip(&expected).enumerate() {
            // A run calls another library for Fourier transforms.
            let same = match &*name {
                "fft_c64" => distance(found, wanted) < 2e-6,
                _ => found.bytes() == wanted.bytes(),
            };
            assert!(same, "{name}: result {number}");
        }
        let outputs: Vec<tegula::Tensor> = outputs.into_iter().map(Into::into).collect();
        let compared = program.compare(&outputs, tegula::Target::Cpu);
        assert!(compared.is_ok(), "{name}: {compared:?}");
        compiled += 1;
    }
    assert_eq!(compiled, names(&small_corpus()).expect("a folder").len());
}

/// A model with an open batch: one object, every size, and what is wrong with a size.
#[test]
fn open_sizes_stay_open() {
    let text = "HloModule m
        ENTRY e {
          x = f32[?,4] parameter(0)
          y = f32[?,4] parameter(1)
          w = f32[4,3] constant({ {1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, 12} })
          s = f32[?,4] add(x, y)
          t = f32[?,4] tanh(s)
          ROOT d = f32[?,3] dot(t, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        }";
    let module = read(text).expect("a program");
    let executable = compile(&module, &Options::default()).expect("compiled");
    let folder = folder("open");
    let linked = LinkedObject::new(&module, IsaLevel::Native, &folder).expect("an object");
    for batch in [1, 5, 64, 0] {
        let mut x = Literal::zeros(&ArrayShape::new(tegula_ir::ElementType::F32, &[batch, 4]))
            .expect("an array");
        for i in 0..x.len() {
            let number = tegula_ir::Scalar::Float(i as f64 / 64.0 - 1.0);
            x.set_scalar(i, number).expect("an element");
        }
        let inputs = [x.clone(), x];
        let buffers: Vec<tegula::Tensor> = inputs.iter().cloned().map(Into::into).collect();
        let expected = executable.run(&buffers);
        let expected = expected.expect("it runs");
        let shape = expected[0].shape().clone();
        let outputs = linked.run(&[batch], &inputs, &[shape]).expect("it runs");
        let (found, wanted) = (outputs[0].as_f32s(), expected[0].as_slice::<f32>());
        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
        assert_eq!(
            bits(found.expect("floats")),
            bits(wanted.expect("floats")),
            "{batch}"
        );
    }
    let header = std::fs::read_to_string(folder.join("m.h")).expect("its header");
    assert!(header.contains("#define M_SIZES 1\n"), "{header}");
    let status = linked.run(&[-1], &[], &[]).expect_err("a negative size");
    assert!(
        header.contains(&format!("case {status}:")),
        "{status}\n{header}"
    );
    let _ = std::fs::remove_dir_all(folder);
}

/// C and C++ take the header by itself, with every warning.
#[test]
fn the_header_is_c_and_cpp() {
    let text = "HloModule odd_names
        ENTRY e {
          int.1 = (s4[3], f32[0,2]) parameter(0)
          double = c64[2] parameter(1)
          sizes = bf16[] parameter(2)
          a = s4[3] get-tuple-element(int.1), index=0
          ROOT t = (s4[3], c64[2], bf16[]) tuple(a, double, sizes)
        }";
    let module = read(text).expect("a program");
    let object = compile_object(&module, &ObjectOptions::new("odd", OLDEST)).expect("an object");
    let folder = folder("header");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("odd.h"), &object.header).expect("written");
    std::fs::write(
        folder.join("twice.c"),
        "#include \"odd.h\"\n#include \"odd.h\"\n",
    )
    .expect("written");
    let c = ["cc", "-std=c99", "-xc"];
    let cpp = ["cc", "-std=c++11", "-xc++"];
    for [compiler, standard, language] in [c, cpp] {
        let mut command = Command::new(compiler);
        command.current_dir(&folder);
        command.args([
            standard,
            "-Wall",
            "-Werror",
            "-fsyntax-only",
            language,
            "twice.c",
        ]);
        let output = command.output().expect("a C compiler");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // A machine may have a C compiler without C++.
        let lacks = language == "-xc++" && said.contains("cc1plus");
        assert!(
            output.status.success() || lacks,
            "{said}\n{}",
            object.header
        );
    }
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn names_that_c_does_not_take_are_errors() {
    let module = read("HloModule m ENTRY e { ROOT p = f32[2] parameter(0) }").expect("a program");
    for name in ["", "1a", "a-b", "a b", "\u{e9}"] {
        let error = compile_object(&module, &ObjectOptions::new(name, OLDEST));
        let error = error.expect_err("no name").to_string();
        assert!(error.contains("is not a name of C"), "{error}");
    }
}

/// Inputs of a program, with these values for its open sizes.
fn drawn(module: &Module, sizes: &[i64]) -> Vec<Literal> {
    let parameters = module.entry_computation().parameters.iter().enumerate();
    let inputs = parameters.map(|(number, &parameter)| {
        let shape = array_leaves(&module[parameter].shape)[0].clone();
        let mut open = sizes.iter();
        let dims = shape.dims.iter().map(|dim| match dim {
            tegula_ir::Dim::Static(size) => *size,
            _ => *open.next().expect("a size"),
        });
        let shape = ArrayShape::new(shape.element_type, &dims.collect::<Vec<_>>());
        let mut input = Literal::zeros(&shape).expect("an array");
        for i in 0..input.len() {
            let drawn = (i * 7919 + number * 31) % 61;
            let real = drawn as f64 / 32.0 - 0.9;
            let scalar = match shape.element_type {
                ty if ty.is_float() => tegula_ir::Scalar::Float(real),
                ty if ty.is_complex() => {
                    tegula_ir::Scalar::Complex(real, (i * 31 % 23) as f64 / 16.0 - 0.7)
                }
                ty if ty.category() == tegula_ir::Category::Unsigned => {
                    tegula_ir::Scalar::Uint(drawn as u64)
                }
                _ => tegula_ir::Scalar::Int(drawn as i64 - 30),
            };
            input.set_scalar(i, scalar).expect("an element");
        }
        input
    });
    inputs.collect()
}

/// Operations on whole arrays: sorts by keys and by comparators of all kinds, selections, random bits,
/// factorisations and solves. The bits are those of a run on every level.
#[test]
fn routines_on_arrays_give_the_bits_of_a_run() {
    let lower = "lower { a = f32[] parameter(0)  b = f32[] parameter(1)
        ROOT c = pred[] compare(a, b), direction=LT, type=TOTALORDER }";
    let by_first = "by_first {
        a = s32[] parameter(0)  b = s32[] parameter(1)
        c = f64[] parameter(2)  d = f64[] parameter(3)
        ROOT e = pred[] compare(a, b), direction=GT }";
    let odd = "odd { a = f32[] parameter(0)  b = f32[] parameter(1)
        s = f32[] sine(a)  t = f32[] cosine(b)
        ROOT c = pred[] compare(s, t), direction=LT }";
    let positive = |ty: &str, n: usize| {
        format!(
            "x = {ty}[2,{n},{n}] parameter(0)
             p = {ty}[2,{n},{n}] dot(x, x), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
               lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
             i = s32[{n},{n}] iota(), iota_dimension=0  j = s32[{n},{n}] iota(), iota_dimension=1
             d = pred[{n},{n}] compare(i, j), direction=EQ  e = {ty}[{n},{n}] convert(d)
             f = {ty}[2,{n},{n}] broadcast(e), dimensions={{1,2}}
             a = {ty}[2,{n},{n}] add(p, f)"
        )
    };
    let mut programs: Vec<(String, &str, String)> = vec![
        (
            "sort".into(),
            lower,
            "x = f32[7,300] parameter(0)
             ROOT s = f32[7,300] sort(x), dimensions={1}, is_stable=true, to_apply=lower"
                .into(),
        ),
        (
            "sort-columns".into(),
            lower,
            "x = f32[40,9] parameter(0)
             ROOT s = f32[40,9] sort(x), dimensions={0}, to_apply=lower"
                .into(),
        ),
        (
            "sort-together".into(),
            by_first,
            "x = s32[5,70] parameter(0)  y = f64[5,70] parameter(1)
             ROOT s = (s32[5,70], f64[5,70]) sort(x, y), dimensions={1}, to_apply=by_first"
                .into(),
        ),
        (
            "sort-oddly".into(),
            odd,
            "x = f32[90] parameter(0)
             ROOT s = f32[90] sort(x), dimensions={0}, to_apply=odd"
                .into(),
        ),
        (
            "few".into(),
            "",
            "x = f32[6,500] parameter(0)
             ROOT t = (f32[6,9], s32[6,9]) topk(x), k=9, largest=true"
                .into(),
        ),
        (
            "many".into(),
            "",
            "x = s64[2,300] parameter(0)
             ROOT t = (s64[2,100], s32[2,100]) topk(x), k=100, largest=false"
                .into(),
        ),
    ];
    for algorithm in ["default", "three_fry", "philox"] {
        for bits in [
            "u32[3,5]", "u64[7]", "u8[4,6]", "s4[9]", "u16[0,3]", "s32[]",
        ] {
            programs.push((
                format!("{algorithm}-{}", &bits[..bits.find('[').unwrap_or(0)]),
                "",
                format!(
                    "x = u64[2] parameter(0)
                     ROOT r = (u64[2], {bits}) rng-bit-generator(x), algorithm=rng_{algorithm}"
                ),
            ));
        }
    }
    for ty in ["f32", "f64", "c64", "c128"] {
        for n in [1, 13, 40] {
            let positive = positive(ty, n);
            // Of complex numbers the product is not with the conjugate, but its real part is.
            if ty.starts_with('f') {
                for lower in ["true", "false"] {
                    programs.push((
                        format!("cholesky-{ty}-{n}-{lower}"),
                        "",
                        format!("{positive}\n ROOT c = {ty}[2,{n},{n}] cholesky(a), lower={lower}"),
                    ));
                }
            }
            for (flags, [rows, columns]) in [
                (
                    "left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
                    [n, 19],
                ),
                ("left_side=true, lower=false, transpose_a=ADJOINT", [n, 3]),
                ("left_side=false, lower=true, transpose_a=TRANSPOSE", [5, n]),
                (
                    "left_side=false, unit_diagonal=true, transpose_a=NO_TRANSPOSE",
                    [17, n],
                ),
            ] {
                programs.push((
                    format!("solve-{ty}-{n}-{rows}"),
                    "",
                    format!(
                        "{positive}\n b = {ty}[2,{rows},{columns}] parameter(1)
                         ROOT s = {ty}[2,{rows},{columns}] triangular-solve(a, b), {flags}"
                    ),
                ));
            }
            programs.push((
                format!("lu-{ty}-{n}"),
                "",
                format!(
                    "x = {ty}[3,{n},20] parameter(0)
                     ROOT l = ({ty}[3,{n},20], s32[3,{m}], s32[3,{n}]) custom-call(x),
                       custom_call_target=\"LuDecomposition\"",
                    m = n.min(20)
                ),
            ));
        }
    }
    for (number, (name, computation, body)) in programs.iter().enumerate() {
        let text = format!("HloModule m\n{computation}\nENTRY e {{\n{body}\n}}");
        let module = read(&text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
        let levels = [widest(), MIDDLE, OLDEST];
        let cpu = levels[number % 3];
        let inputs = drawn(&module, &[]);
        let outputs = run(&module, &inputs, cpu, &format!("array-{name}"));
        let outputs = outputs.unwrap_or_else(|| panic!("{name} is no object"));
        let expected = run_here(&module, &inputs, cpu);
        for (found, wanted) in outputs.iter().zip(&expected) {
            assert!(found.bytes() == wanted.bytes(), "{name} {cpu}");
        }
    }
}

/// The largest distance of two arrays' numbers, beside the largest number.
fn distance(found: &Literal, wanted: &Literal) -> f64 {
    let (mut apart, mut size) = (0.0f64, f64::MIN_POSITIVE);
    for i in 0..wanted.len() {
        let parts = |literal: &Literal| match literal.scalar(i).expect("an element") {
            tegula_ir::Scalar::Complex(re, im) => [re, im],
            tegula_ir::Scalar::Float(x) => [x, 0.0],
            other => panic!("{other:?}"),
        };
        for (a, b) in parts(found).into_iter().zip(parts(wanted)) {
            (apart, size) = (apart.max((a - b).abs()), size.max(b.abs()));
        }
    }
    apart / size
}

/// Fourier transforms are other routines than in a run, whose library needs an allocator: the order of
/// sums differs. Functions of complex numbers are on the C library's, whose last bit may.
#[test]
fn transforms_and_complex_functions_agree_with_a_run() {
    let mut programs = Vec::new();
    for (single, double, tolerance) in [("f32", "c64", 2e-6), ("f64", "c128", 4e-15)] {
        for n in [1, 8, 30, 97, 256, 1000] {
            programs.push((
                format!(
                    "x = {double}[3,{n}] parameter(0)
                     a = {double}[3,{n}] fft(x), fft_type=FFT, fft_length={{{n}}}
                     ROOT b = {double}[3,{n}] fft(a), fft_type=IFFT, fft_length={{3,{n}}}"
                ),
                tolerance,
            ));
        }
        for n in [6, 9, 128] {
            let half = n / 2 + 1;
            programs.push((
                format!(
                    "x = {single}[5,4,{n}] parameter(0)
                     a = {double}[5,4,{half}] fft(x), fft_type=RFFT, fft_length={{4,{n}}}
                     m = {double}[5,4,{half}] multiply(a, a)
                     ROOT b = {single}[5,4,{n}] fft(m), fft_type=IRFFT, fft_length={{4,{n}}}"
                ),
                tolerance,
            ));
        }
        for function in [
            "exponential",
            "log",
            "sine",
            "cosine",
            "tan",
            "tanh",
            "sqrt",
            "rsqrt",
            "cbrt",
            "logistic",
            "exponential-minus-one",
            "log-plus-one",
            "sign",
        ] {
            let text = format!("x = {double}[40] parameter(0) ROOT y = {double}[40] {function}(x)");
            programs.push((text, tolerance));
        }
        programs.push((
            format!(
                "x = {double}[40] parameter(0)  y = {double}[40] parameter(1)
                 p = {double}[40] power(x, y)  a = {single}[40] abs(p)  z = {single}[40] real(p)
                 ROOT c = {double}[40] complex(a, z)"
            ),
            tolerance,
        ));
    }
    for (number, (body, tolerance)) in programs.iter().enumerate() {
        let module = read(&format!("HloModule m\nENTRY e {{\n{body}\n}}")).expect(body);
        let levels = [widest(), MIDDLE, OLDEST];
        let cpu = levels[number % 3];
        let inputs = drawn(&module, &[]);
        let outputs = run(&module, &inputs, cpu, &format!("close-{number}"));
        let outputs = outputs.unwrap_or_else(|| panic!("no object: {body}"));
        let expected = run_here(&module, &inputs, cpu);
        let apart = distance(&outputs[0], &expected[0]);
        assert!(apart <= *tolerance, "{apart:.1e} {body}");
    }
}

/// Routines on arrays with open sizes: their scratch memory is known when sizes are.
#[test]
fn routines_on_arrays_have_open_sizes() {
    let lower = "lower { a = f32[] parameter(0)  b = f32[] parameter(1)
        ROOT c = pred[] compare(a, b), direction=LT, type=TOTALORDER }";
    for body in [
        "x = f32[?,6] parameter(0)
         ROOT s = f32[?,6] sort(x), dimensions={0}, to_apply=lower",
        "x = f32[?,30] parameter(0)
         ROOT t = (f32[?,4], s32[?,4]) topk(x), k=4, largest=true",
        "x = f32[?,6] parameter(0)  y = f32[6,6] parameter(1)
         ROOT s = f32[?,6] triangular-solve(y, x), left_side=false, lower=true,
           transpose_a=NO_TRANSPOSE",
    ] {
        let module = read(&format!("HloModule m\n{lower}\nENTRY e {{\n{body}\n}}")).expect(body);
        let folder = folder("open-arrays");
        let options = Options {
            cpu: widest(),
            ..Options::default()
        };
        let executable = compile(&module, &options).expect("compiled");
        let linked = LinkedObject::new(&module, widest(), &folder).expect(body);
        for size in [0, 1, 5, 700] {
            let inputs = drawn(&module, &[size]);
            let buffers: Vec<tegula::Tensor> = inputs.iter().cloned().map(Into::into).collect();
            let expected = executable.run(&buffers).expect("it runs");
            let shapes: Vec<ArrayShape> = expected.iter().map(|r| r.shape().clone()).collect();
            let outputs = linked.run(&[size], &inputs, &shapes).expect("it runs");
            for (found, wanted) in outputs.iter().zip(expected) {
                let same = found.bytes() == wanted.into_literal().bytes();
                assert!(same, "{size}: {body}");
            }
        }
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// What a program does not call is not in its object.
#[test]
fn objects_have_what_they_call() {
    let product = |types: [&str; 3]| {
        let [left, right, out] = types;
        format!(
            "HloModule m ENTRY e {{
               x = {left}[64,48] parameter(0)  y = {right}[48,80] parameter(1)
               ROOT d = {out}[64,80] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
             }}"
        )
    };
    for types in [
        ["f32"; 3],
        ["bf16", "bf16", "f32"],
        ["bf16"; 3],
        ["s8", "s8", "s32"],
    ] {
        let module = read(&product(types)).expect("a program");
        let options = ObjectOptions::new("m", widest());
        let object = compile_object(&module, &options).expect("an object");
        let bytes = object.bytes.len();
        assert!(bytes < 220_000, "{types:?}: {bytes}");
    }
}

/// Large constants in a file that the program maps: the same results, and no other file is taken.
#[test]
fn weights_lie_in_a_file() {
    let row = |i: usize| {
        let row: Vec<String> = (0..32)
            .map(|j| format!("{}", (i * 5 + j * 3) % 7))
            .collect();
        format!("{{{}}}", row.join(","))
    };
    let rows: Vec<String> = (0..64).map(row).collect();
    let text = format!(
        "HloModule m ENTRY e {{
           x = f32[20,64] parameter(0)
           w = f32[64,32] constant({{{}}})
           d = f32[20,32] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
           b = f32[32] constant({})
           c = f32[20,32] broadcast(b), dimensions={{1}}
           ROOT s = f32[20,32] add(d, c)
         }}",
        rows.join(","),
        row(9)
    );
    let module = read(&text).expect("a program");
    let options = ObjectOptions {
        weights: true,
        ..ObjectOptions::new("m", widest())
    };
    let object = compile_object(&module, &options).expect("an object");
    let inside = compile_object(&module, &ObjectOptions::new("m", widest())).expect("an object");
    let weights = object.weights.expect("a file");
    assert!(inside.weights.is_none());
    // The object has a kilobyte at most for them: it looks whether the file is its own.
    assert!(inside.bytes.len() + 1024 >= object.bytes.len() + 64 * 32 * 4);
    let folder = folder("weights");
    std::fs::create_dir_all(&folder).expect("a folder");
    let inputs = drawn(&module, &[]);
    std::fs::write(folder.join("m.o"), &object.bytes).expect("written");
    std::fs::write(folder.join("m.h"), &object.header).expect("written");
    std::fs::write(folder.join("m.weights"), &weights).expect("written");
    std::fs::write(folder.join("x"), inputs[0].bytes()).expect("written");
    let program = "#include \"m.h\"
        #include <stdio.h>
        #include <string.h>
        static _Alignas(M_ARENA_ALIGNMENT) char arena[M_ARENA_BYTES + 1];
        static _Alignas(M_WEIGHTS_ALIGNMENT) char weights[M_WEIGHTS_BYTES];
        static float x[20 * 64], out[20 * 32];
        static size_t load(const char *name, void *to, size_t bytes) {
          FILE *file = fopen(name, \"rb\");
          size_t count = fread(to, 1, bytes, file);
          fclose(file);
          return count;
        }
        int main(void) {
          if (load(\"x\", x, sizeof x) != sizeof x) return 1;
          if (load(\"m.weights\", weights, sizeof weights) != sizeof weights) return 2;
          if (m(x, out, weights, arena) != 0) return 3;
          FILE *file = fopen(\"out\", \"wb\");
          fwrite(out, 1, sizeof out, file);
          fclose(file);
          weights[9] ^= 1;
          const char *said = m_message(m(x, out, weights, arena));
          return strcmp(said, \"the weights are not this program's\") ? 4 : 0;
        }";
    std::fs::write(folder.join("main.c"), program).expect("written");
    let mut command = Command::new("cc");
    command.current_dir(&folder);
    command.args([
        "-std=c11", "-Wall", "-Werror", "-o", "main", "main.c", "m.o", "-lm",
    ]);
    let output = command.output().expect("a C compiler");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}\n{}", object.header);
    let mut command = Command::new(folder.join("main"));
    let status = command.current_dir(&folder).status().expect("it runs");
    assert_eq!(status.code(), Some(0));
    let found = std::fs::read(folder.join("out")).expect("results");
    let expected = run_here(&module, &inputs, widest());
    assert!(found == expected[0].bytes());
    let _ = std::fs::remove_dir_all(folder);
}

/// LAPACK's routines that are not without an allocator are refused by name; QR is loops.
#[test]
fn what_objects_lack_is_named() {
    let text = "HloModule m ENTRY e {
        x = f32[4,4] parameter(0)
        ROOT r = (f32[4,4], f32[4], s32[]) custom-call(x), custom_call_target=\"lapack_ssyevd_ffi\",
          api_version=API_VERSION_TYPED_FFI, backend_config={mode = 86 : ui8, uplo = 76 : ui8}
      }";
    let module = read(text).expect("a program");
    let options = ObjectOptions::new("m", OLDEST);
    let error = compile_object(&module, &options).expect_err("no object");
    assert_eq!(error.kind, ErrorKind::Unsupported);
    let error = error.to_string();
    assert!(error.contains("lapack_ssyevd_ffi"), "{error}");
}

/// Routines are the same functions as in a run: all types of products, borders whose kernels are
/// not finite, groups, and floats of 8 bits.
#[test]
fn routines_give_the_bits_of_a_run() {
    let programs = [
        (
            "f64",
            "x = f64[9,33] parameter(0)  y = f64[33,20] parameter(1)
          ROOT d = f64[9,20] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ),
        (
            "bf16",
            "x = bf16[40,70] parameter(0)  y = bf16[70,50] parameter(1)
          ROOT d = bf16[40,50] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ),
        (
            "turned",
            "x = f32[70,40] parameter(0)  y = f32[50,70] parameter(1)
          ROOT d = f32[40,50] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={1}",
        ),
        (
            "s8",
            "x = s8[40,70] parameter(0)  y = s8[70,50] parameter(1)
          ROOT d = s32[40,50] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ),
        (
            "small",
            "x = f32[500,3,4] parameter(0)  y = f32[500,4,3] parameter(1)
          ROOT d = f32[500,3,3] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0},
            lhs_contracting_dims={2}, rhs_contracting_dims={1}",
        ),
        (
            "border",
            "x = f32[2,9,9,5] parameter(0)  y = f32[3,3,5,7] parameter(1)
          ROOT c = f32[2,9,9,7] convolution(x, y), window={size=3x3 pad=1_1x1_1},
            dim_labels=b01f_01io->b01f",
        ),
        (
            "infinite",
            "x = f32[2,9,9,5] parameter(0)  one = f32[3,3,5,7] parameter(1)
          zero = f32[] constant(0)  zeros = f32[3,3,5,7] broadcast(zero), dimensions={}
          y = f32[3,3,5,7] divide(one, zeros)
          ROOT c = f32[2,9,9,7] convolution(x, y), window={size=3x3 pad=1_1x1_1},
            dim_labels=b01f_01io->b01f",
        ),
        (
            "groups",
            "x = f32[2,9,9,32] parameter(0)  y = f32[3,3,1,32] parameter(1)
          ROOT c = f32[2,7,7,32] convolution(x, y), window={size=3x3},
            dim_labels=b01f_01io->b01f, feature_group_count=32",
        ),
        (
            "planes",
            "x = f32[2,32,20,20] parameter(0)  y = f32[32,1,3,3] parameter(1)
          ROOT c = f32[2,32,18,18] convolution(x, y), window={size=3x3},
            dim_labels=bf01_oi01->bf01, feature_group_count=32",
        ),
        (
            "f8",
            "x = f32[64] parameter(0)  y = f32[64] parameter(1)
          a = f8e4m3fn[64] convert(x)  b = f8e5m2[64] convert(y)
          c = f32[64] convert(a)  d = f32[64] convert(b)
          ROOT s = f32[64] add(c, d)",
        ),
    ];
    for (name, body) in programs {
        let text = format!("HloModule m\nENTRY e {{\n{body}\n}}");
        let module = read(&text).expect(name);
        for cpu in [widest(), MIDDLE, OLDEST] {
            let inputs = drawn(&module, &[]);
            let file = format!("routine-{name}-{cpu}");
            let outputs = run(&module, &inputs, cpu, &file).expect("an object");
            let expected = run_here(&module, &inputs, cpu);
            assert!(outputs[0].bytes() == expected[0].bytes(), "{name} {cpu}");
        }
    }
}

/// Two programs with the same routines in one library, linked whole.
#[test]
fn programs_are_linked_together() {
    let folder = folder("together");
    std::fs::create_dir_all(&folder).expect("a folder");
    let text = "HloModule m ENTRY e {
        x = f32[8,8] parameter(0)
        ROOT d = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} }";
    let module = read(text).expect("a program");
    for name in ["one", "two"] {
        let object = compile_object(&module, &ObjectOptions::new(name, IsaLevel::Native))
            .expect("an object");
        std::fs::write(folder.join(format!("{name}.o")), object.bytes).expect("written");
    }
    let mut command = Command::new("cc");
    command.current_dir(&folder);
    command.args([
        "-shared",
        "-o",
        "both.so",
        "-Wl,--no-undefined",
        "one.o",
        "two.o",
        "-lm",
    ]);
    let output = command.output().expect("a C compiler");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let _ = std::fs::remove_dir_all(folder);
}

/// A custom call is a function of the user's, which may fail.
#[test]
fn custom_calls_are_functions_of_c() {
    let text = "HloModule m ENTRY e {
        x = f32[3] parameter(0)
        y = f32[3] add(x, x)
        ROOT r = f32[3] custom-call(y), custom_call_target=\"twice_in_c\", backend_config=\"by 2\"
      }";
    let module = read(text).expect("a program");
    let object =
        compile_object(&module, &ObjectOptions::new("m", IsaLevel::Native)).expect("an object");
    let folder = folder("custom");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("m.o"), &object.bytes).expect("written");
    std::fs::write(folder.join("m.h"), &object.header).expect("written");
    let program = "#include \"m.h\"
        #include <string.h>
        int32_t twice_in_c(const void *const *operands, void *const *results,
                           const int64_t *sizes, const char *config) {
          const float *x = operands[0];
          float *y = results[0];
          if (x[0] < 0 || sizes[0] != 3 || strcmp(config, \"\\\"by 2\\\"\")) return 1;
          for (int i = 0; i < 3; i++) y[i] = 2 * x[i];
          return 0;
        }
        static _Alignas(M_ARENA_ALIGNMENT) char arena[M_ARENA_BYTES + 1];
        int main(void) {
          float x[3] = {1, 2, 3}, out[3];
          if (m(x, out, arena) != 0 || out[2] != 12) return 1;
          x[0] = -1;
          int32_t status = m(x, out, arena);
          return strcmp(m_message(status), \"the custom call twice_in_c failed\") != 0;
        }";
    std::fs::write(folder.join("main.c"), program).expect("written");
    let mut command = Command::new("cc");
    command.current_dir(&folder);
    command.args([
        "-std=c11", "-Wall", "-Werror", "-o", "main", "main.c", "m.o", "-lm",
    ]);
    let output = command.output().expect("a C compiler");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}\n{}", object.header);
    let status = Command::new(folder.join("main")).status().expect("it runs");
    assert!(status.success());
    let _ = std::fs::remove_dir_all(folder);
}

/// State that a loop swaps is in its place after any number of iterations, also inside of another loop; slabs
/// of an array are read where they lie.
#[test]
fn loops_give_the_bits_of_a_run() {
    // Neighbours are summed, so that an iteration needs all of the old state.
    let turned = "r = f32[2000] reverse(x), dimensions={0}
        h = f32[] constant(0.5)  hb = f32[2000] broadcast(h), dimensions={}
        y = f32[2000] multiply(r, hb)  n = f32[2000] add(y, x)";
    let inner = format!(
        "below {{ s = (s32[], s32[], f32[2000]) parameter(0)
           i = s32[] get-tuple-element(s), index=0  e = s32[] get-tuple-element(s), index=1
           ROOT c = pred[] compare(i, e), direction=LT }}
         turn {{ s = (s32[], s32[], f32[2000]) parameter(0)
           i = s32[] get-tuple-element(s), index=0  e = s32[] get-tuple-element(s), index=1
           x = f32[2000] get-tuple-element(s), index=2  one = s32[] constant(1)  j = s32[] add(i, one)
           {turned}
           ROOT t = (s32[], s32[], f32[2000]) tuple(j, e, n) }}"
    );
    let outer = "turns { s = (s32[], s32[], f32[2000]) parameter(0)
           i = s32[] get-tuple-element(s), index=0  e = s32[] get-tuple-element(s), index=1
           x = f32[2000] get-tuple-element(s), index=2  one = s32[] constant(1)  j = s32[] add(i, one)
           z = s32[] constant(0)  t = (s32[], s32[], f32[2000]) tuple(z, i, x)
           w = (s32[], s32[], f32[2000]) while(t), condition=below, body=turn
           y = f32[2000] get-tuple-element(w), index=2  n = f32[2000] reverse(y), dimensions={0}
           ROOT r = (s32[], s32[], f32[2000]) tuple(j, e, n) }";
    let slabs = "more { s = (s32[], f32[8,64], f32[6,64,64]) parameter(0)
           i = s32[] get-tuple-element(s), index=0  e = s32[] constant(6)
           ROOT c = pred[] compare(i, e), direction=LT }
         layer { s = (s32[], f32[8,64], f32[6,64,64]) parameter(0)
           i = s32[] get-tuple-element(s), index=0  x = f32[8,64] get-tuple-element(s), index=1
           w = f32[6,64,64] get-tuple-element(s), index=2  z = s32[] constant(0)
           m = f32[1,64,64] dynamic-slice(w, i, z, z), dynamic_slice_sizes={1,64,64}
           v = f32[64,64] reshape(m)
           d = f32[8,64] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
           y = f32[8,64] tanh(d)  one = s32[] constant(1)  j = s32[] add(i, one)
           ROOT t = (s32[], f32[8,64], f32[6,64,64]) tuple(j, y, w) }
         ENTRY e { x = f32[8,64] parameter(0)  w = f32[6,64,64] parameter(1)  z = s32[] constant(0)
           t = (s32[], f32[8,64], f32[6,64,64]) tuple(z, x, w)
           l = (s32[], f32[8,64], f32[6,64,64]) while(t), condition=more, body=layer
           ROOT y = f32[8,64] get-tuple-element(l), index=1 }";
    let mut programs = vec![("slabs".to_owned(), format!("HloModule m\n{slabs}"))];
    for (name, body) in [("turn", "turn"), ("turns", "turns")] {
        for count in 0..4 {
            let text = format!(
                "HloModule m\n{inner}\n{outer}
                 ENTRY e {{ x = f32[2000] parameter(0)  z = s32[] constant(0)  n = s32[] constant({count})
                   k = s32[] parameter(1)  q = s32[] and(k, z)  p = s32[] add(n, q)
                   t = (s32[], s32[], f32[2000]) tuple(z, p, x)
                   w = (s32[], s32[], f32[2000]) while(t), condition=below, body={body}
                   ROOT y = f32[2000] get-tuple-element(w), index=2 }}"
            );
            programs.push((format!("{name}-{count}"), text));
        }
    }
    for (name, text) in programs {
        let module = read(&text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
        let inputs = drawn(&module, &[]);
        let outputs = run(&module, &inputs, widest(), &format!("loop-{name}"));
        let outputs = outputs.unwrap_or_else(|| panic!("{name} is no object"));
        let expected = run_here(&module, &inputs, widest());
        for (found, wanted) in outputs.iter().zip(&expected) {
            assert!(found.bytes() == wanted.bytes(), "{name}");
        }
    }
}
