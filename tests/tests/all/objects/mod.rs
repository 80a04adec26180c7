//! Programs as objects for C: linked, loaded, and held against the reference evaluator.

mod as_a_run;
mod constants;
mod convolutions;
mod fourier;
mod names;

use std::path::{Path, PathBuf};
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
        Err(error) => panic!("{name}: {error:?}\n{}", module.source),
    };
    let _ = std::fs::remove_dir_all(folder);
    outputs
}

/// A C program that calls an object, compiled in its folder.
fn link(folder: &Path, object: &tegula::Object, program: &str) -> PathBuf {
    std::fs::create_dir_all(folder).expect("a folder");
    std::fs::write(folder.join("m.o"), &object.bytes).expect("written");
    std::fs::write(folder.join("m.h"), &object.header).expect("written");
    std::fs::write(folder.join("main.c"), program).expect("written");
    let mut command = Command::new("cc");
    command.current_dir(folder);
    command.args([
        "-std=c11", "-Wall", "-Werror", "-o", "main", "main.c", "m.o", "-lm",
    ]);
    let output = command.output().expect("a C compiler");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}\n{}", object.header);
    folder.join("main")
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
            assert!(found.bytes() == wanted.bytes(), "{name}: result {number}");
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

/// Sizes of which arrays fit in no memory are a status, although each is within its bounds.
#[test]
fn sizes_that_fit_in_no_memory_are_a_status() {
    let text = "HloModule m
        ENTRY e {
          x = f32[?] parameter(0)
          y = f32[?] parameter(1)
          z = f32[?] parameter(2)
          a = f32[?,?] dot(x, y)
          b = f32[?,?,?] dot(a, z)
          ROOT r = f32[?,?,?] sort(b), dimensions={2}, to_apply=less
        }
        less { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT c = pred[] compare(p, q), direction=LT }";
    let module = read(text).expect("a program");
    let folder = folder("huge");
    let linked = LinkedObject::new(&module, IsaLevel::Native, &folder).expect("an object");
    let header = std::fs::read_to_string(folder.join("m.h")).expect("its header");
    for sizes in [[1 << 24, 1 << 24, 1 << 14], [1 << 30, 1 << 30, 1 << 30]] {
        let status = linked.run(&sizes, &[], &[]).expect_err("too large");
        let message = format!("case {status}: return \"arrays of these sizes fit in no memory\"");
        assert!(header.contains(&message), "{status}\n{header}");
    }
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
          p1 = f32[2] parameter(3)
          class = f32[2] parameter(4)
          odd_call = f32[2] parameter(5)
          return = f32[2] parameter(6)
          a = s4[3] get-tuple-element(int.1), index=0
          ROOT t = (s4[3], c64[2], bf16[], f32[2], f32[2], f32[2], f32[2])
            tuple(a, double, sizes, p1, class, odd_call, return)
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

/// Integers of 32 and 64 bits become floats of 16 and 8 bits rounded once, as in a run.
#[test]
fn integers_are_rounded_once() {
    for integer in ["s32", "u32", "s64", "u64"] {
        let text = format!(
            "HloModule m
            ENTRY e {{
              x = {integer}[64] parameter(0)
              a = bf16[64] convert(x)
              b = f16[64] convert(x)
              c = f8e5m2[64] convert(x)
              ROOT r = (bf16[64], f16[64], f8e5m2[64]) tuple(a, b, c)
            }}"
        );
        let module = read(&text).expect("a program");
        let ty = module.entry_computation().parameters[0];
        let shape = module[ty].shape.as_array().expect("an array").clone();
        let mut x = Literal::zeros(&shape).expect("an array");
        let bits = shape.element_type.bits();
        for i in 0..64u64 {
            // Halves of a last place, a little more and a little less, in all magnitudes.
            let top = 0x101u64 << (bits - 9) >> (i % 32);
            let number = top.wrapping_add(i / 32).wrapping_sub(i % 3);
            let scalar = match shape.element_type.is_signed() {
                true => tegula_ir::Scalar::Int((number as i64) << (64 - bits) >> (64 - bits)),
                false => tegula_ir::Scalar::Uint(number & (u64::MAX >> (64 - bits))),
            };
            x.set_scalar(i as usize, scalar).expect("an element");
        }
        let inputs = [x];
        let wanted = run_here(&module, &inputs, IsaLevel::Native);
        let found = run(&module, &inputs, IsaLevel::Native, integer).expect("an object");
        assert_eq!(found, wanted, "{integer}");
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
    let weights = object.weights.as_ref().expect("a file");
    assert!(inside.weights.is_none());
    // The object has a kilobyte at most for them: it looks whether the file is its own.
    assert!(inside.bytes.len() + 1024 >= object.bytes.len() + 64 * 32 * 4);
    let folder = folder("weights");
    std::fs::create_dir_all(&folder).expect("a folder");
    let inputs = drawn(&module, &[]);
    std::fs::write(folder.join("m.weights"), weights).expect("written");
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
    let mut command = Command::new(link(&folder, &object, program));
    let status = command.current_dir(&folder).status().expect("it runs");
    assert_eq!(status.code(), Some(0));
    let found = std::fs::read(folder.join("out")).expect("results");
    let expected = run_here(&module, &inputs, widest());
    assert!(found == expected[0].bytes());
    let _ = std::fs::remove_dir_all(folder);
}

/// What LAPACK's routines are called with: of a type, the routine and its options, operands and results.
fn lapack_call(letter: char, routine: &str) -> String {
    let is_complex = matches!(letter, 'c' | 'z');
    let [ty, real] = match letter {
        's' => ["f32", "f32"],
        'd' => ["f64", "f64"],
        'c' => ["c64", "f32"],
        _ => ["c128", "f64"],
    };
    let matrix = format!("{ty}[5,5]");
    let tau = format!("{ty}[5]");
    let upper = "{uplo = 85 : ui8}";
    let (operands, results, config) = match routine {
        "geqrf" => (vec![&*matrix], vec![&*matrix, &tau], "{}"),
        "orgqr" | "ungqr" => (vec![&*matrix, &tau], vec![&*matrix], "{}"),
        "ormqr" | "unmqr" => (
            vec![&*matrix, &tau, &matrix],
            vec![&*matrix],
            "{side = 76 : ui8, transpose = 78 : ui8}",
        ),
        "geqp3" => (
            vec![&*matrix, "s32[5]"],
            vec![&*matrix, "s32[5]", &tau],
            "{}",
        ),
        "gehrd" => (
            vec![&*matrix],
            vec![&*matrix, "T4", "s32[]"],
            "{low = 1 : i32, high = 5 : i32}",
        ),
        "sytrd" | "hetrd" => (
            vec![&*matrix],
            vec![&*matrix, "R5", "R4", "T4", "s32[]"],
            upper,
        ),
        "syevd" | "heevd" => (
            vec![&*matrix],
            vec![&*matrix, "R5", "s32[]"],
            "{mode = 86 : ui8, uplo = 85 : ui8}",
        ),
        "gesdd" | "gesvd" => (
            vec![&*matrix],
            vec![&*matrix, "R5", &matrix, &matrix, "s32[]"],
            "{mode = 83 : ui8}",
        ),
        "geev" if is_complex => (
            vec![&*matrix],
            vec!["T5", "C", "C", "s32[]"],
            "{compute_left = 86 : ui8, compute_right = 86 : ui8}",
        ),
        "geev" => (
            vec![&*matrix],
            vec!["R5", "R5", "C", "C", "s32[]"],
            "{compute_left = 86 : ui8, compute_right = 86 : ui8}",
        ),
        "gees" if is_complex => (
            vec![&*matrix],
            vec![&*matrix, &matrix, "T5", "s32[]", "s32[]"],
            "{mode = 86 : ui8, sort = 78 : ui8}",
        ),
        "gees" => (
            vec![&*matrix],
            vec![&*matrix, &matrix, "R5", "R5", "s32[]", "s32[]"],
            "{mode = 86 : ui8, sort = 78 : ui8}",
        ),
        "potrf" => (vec![&*matrix], vec![&*matrix, "s32[]"], upper),
        "getrf" => (vec![&*matrix], vec![&*matrix, "s32[5]", "s32[]"], "{}"),
        "gtsv" => (
            vec![&*tau, &tau, &tau, &matrix],
            vec![&*tau, &tau, &tau, &matrix, "s32[]"],
            "{}",
        ),
        _ => (
            vec![&*matrix, &matrix],
            vec![&*matrix],
            "{side = 76 : ui8, uplo = 85 : ui8, trans_x = 78 : ui8, diag = 78 : ui8}",
        ),
    };
    let complex = match real {
        "f32" => "c64",
        _ => "c128",
    };
    let shape = |name: &str| match name {
        "R4" | "R5" => format!("{real}[{}]", &name[1..]),
        "T4" | "T5" => format!("{ty}[{}]", &name[1..]),
        "C" => format!("{complex}[5,5]"),
        other => other.to_owned(),
    };
    let parameters: Vec<String> = operands
        .iter()
        .enumerate()
        .map(|(number, of)| format!("p{number} = {of} parameter({number})"))
        .collect();
    let names: Vec<String> = (0..operands.len())
        .map(|number| format!("p{number}"))
        .collect();
    let results: Vec<String> = results.into_iter().map(shape).collect();
    let result = match &results[..] {
        [one] => one.clone(),
        all => format!("({})", all.join(", ")),
    };
    format!(
        "HloModule m ENTRY e {{
           {}
           ROOT r = {result} custom-call({}), custom_call_target=\"lapack_{letter}{routine}_ffi\",
             api_version=API_VERSION_TYPED_FFI, backend_config={config} }}",
        parameters.join("\n"),
        names.join(", ")
    )
}

/// Of LAPACK's routines objects have those that need no allocator, with the bits of a run; others are
/// refused by name, with what there is. QR of real numbers becomes loops of the program's own.
#[test]
fn objects_have_some_routines_of_lapack() {
    for letter in ['s', 'd', 'c', 'z'] {
        let is_complex = matches!(letter, 'c' | 'z');
        let own = |real: &'static str, complex| if is_complex { complex } else { real };
        for routine in ["potrf", "getrf", "trsm", "gtsv"] {
            let text = lapack_call(letter, routine);
            let module = read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            let inputs = drawn(&module, &[]);
            let name = format!("lapack-{letter}{routine}");
            let outputs = run(&module, &inputs, widest(), &name);
            let outputs = outputs.unwrap_or_else(|| panic!("{name} is no object"));
            let expected = run_here(&module, &inputs, widest());
            for (found, wanted) in outputs.iter().zip(&expected) {
                assert!(found.bytes() == wanted.bytes(), "{name}");
            }
        }
        let mut refused = vec![
            own("ormqr", "unmqr"),
            "geqp3",
            "gehrd",
            own("sytrd", "hetrd"),
            own("syevd", "heevd"),
            "gesdd",
            "gesvd",
            "geev",
            "gees",
        ];
        let qr = ["geqrf", own("orgqr", "ungqr")];
        if is_complex {
            refused.extend(qr);
        }
        let options = ObjectOptions::new("m", OLDEST);
        for routine in refused {
            let text = lapack_call(letter, routine);
            let module = read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert!(compile(&module, &Options::default()).is_ok(), "{routine}");
            let error = compile_object(&module, &options).expect_err(routine);
            assert_eq!(error.kind, ErrorKind::Unsupported);
            let error = error.to_string();
            for part in [&*format!("lapack_{letter}{routine}_ffi"), "`gtsv`"] {
                assert!(error.contains(part), "{error}");
            }
        }
        for routine in qr.into_iter().filter(|_| !is_complex) {
            let module = read(&lapack_call(letter, routine)).expect("a program");
            assert!(compile_object(&module, &options).is_ok(), "{routine}");
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
        z = f32[3] custom-call(y), custom_call_target=\"twice_in_c\", backend_config=\"by 2\"
        t = token[] after-all()
        i = (f32[3], token[]) custom-call(t, z), custom_call_target=\"one_more_in_place\",
          output_to_operand_aliasing={{0}: (1, {})}
        j = f32[3] get-tuple-element(i), index=0
        s = f32[3] subtract(j, z)
        ROOT r = (f32[3], f32[3]) tuple(z, s)
      }";
    let module = read(text).expect("a program");
    let object =
        compile_object(&module, &ObjectOptions::new("m", IsaLevel::Native)).expect("an object");
    let folder = folder("custom");
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
        int32_t one_more_in_place(const void *const *operands, void *const *results,
                                  const int64_t *sizes, const char *config) {
          float *y = results[0];
          (void)sizes, (void)config;
          for (int i = 0; i < 3; i++) y[i] += 1;
          return operands[0] != results[0];
        }
        static _Alignas(M_ARENA_ALIGNMENT) char arena[M_ARENA_BYTES + 1];
        int main(void) {
          float x[3] = {1, 2, 3}, out[3], more[3];
          if (m(x, out, more, arena) != 0 || out[2] != 12) return 1;
          for (int i = 0; i < 3; i++) if (more[i] != 1) return 2;
          x[0] = -1;
          int32_t status = m(x, out, more, arena);
          return strcmp(m_message(status), \"the custom call twice_in_c failed\") != 0;
        }";
    let status = Command::new(link(&folder, &object, program)).status();
    let status = status.expect("it runs");
    assert!(status.success());
    let _ = std::fs::remove_dir_all(folder);
}
