//! Programs as objects for C: linked, loaded, and held against the reference evaluator.

use std::path::PathBuf;
use std::process::Command;
use tegula::{Architecture, ErrorKind, IsaLevel, Options, compile};
use tegula_fusion::array_leaves;
use tegula_ir::{ArrayShape, Literal, Module};
use tegula_tests::corpus::{load, names, small_corpus};
use tegula_tests::judge::{MIDDLE, OLDEST, Reference};
use tegula_tests::object::{Failure, LinkedObject};
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
        Ok(linked) => Some(linked.run(&[], inputs, &results(module)).expect("it runs")),
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
            assert!(found.bytes() == wanted.bytes(), "{name}: result {number}");
        }
        let outputs: Vec<tegula::Tensor> = outputs.into_iter().map(Into::into).collect();
        let compared = program.compare(&outputs, tegula::Target::Cpu);
        assert!(compared.is_ok(), "{name}: {compared:?}");
        compiled += 1;
    }
    assert!(compiled >= 8, "{compiled}");
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
    let object = tegula::compile_object(&module, OLDEST, "odd").expect("an object");
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
        let error = tegula::compile_object(&module, OLDEST, name);
        let error = error.expect_err("no name").to_string();
        assert!(error.contains("is not a name of C"), "{error}");
    }
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
            let parameters = &module.entry_computation().parameters;
            let inputs = parameters.iter().enumerate().map(|(number, &parameter)| {
                let shape = array_leaves(&module[parameter].shape)[0].clone();
                let mut input = Literal::zeros(&shape).expect("an array");
                for i in 0..input.len() {
                    let drawn = (i * 7919 + number * 31) % 61;
                    let scalar = match shape.element_type.is_float() {
                        true => tegula_ir::Scalar::Float(drawn as f64 / 32.0 - 0.9),
                        false => tegula_ir::Scalar::Int(drawn as i64 - 30),
                    };
                    input.set_scalar(i, scalar).expect("an element");
                }
                input
            });
            let inputs: Vec<Literal> = inputs.collect();
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
        let object = tegula::compile_object(&module, IsaLevel::Native, name).expect("an object");
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
    let object = tegula::compile_object(&module, IsaLevel::Native, "m").expect("an object");
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
