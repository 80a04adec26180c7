//! Programs as objects for C: linked, loaded, and held against the reference evaluator.

use std::path::PathBuf;
use std::process::Command;
use tegula::{ErrorKind, IsaLevel, Options, compile, read};
use tegula_fusion::array_leaves;
use tegula_ir::{ArrayShape, Literal, Module};
use tegula_tests::corpus::{load, names, small_corpus};
use tegula_tests::judge::Reference;
use tegula_tests::object::{Failure, LinkedObject};
use tegula_tests::random::{Regime, random_program};

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
            let levels = [IsaLevel::Native, IsaLevel::X86V3, IsaLevel::X86V2];
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

/// Those of the small corpus that objects can be, and their results.
#[test]
fn programs_of_the_corpus_agree() {
    let mut compiled = 0;
    for name in names(&small_corpus()).expect("a folder") {
        let program = load(&small_corpus(), &name, "hlo").expect("a program");
        let outputs = run(&program.module, &program.inputs, IsaLevel::Native, &name);
        let Some(outputs) = outputs else {
            continue;
        };
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
        let pairs = found.expect("floats").iter().zip(wanted.expect("floats"));
        for (found, wanted) in pairs {
            assert!((found - wanted).abs() <= 1e-5 * wanted.abs().max(1.0));
        }
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
    let object = tegula::compile_object(&module, IsaLevel::X86V2, "odd").expect("an object");
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
        let error = tegula::compile_object(&module, IsaLevel::X86V2, name);
        let error = error.expect_err("no name").to_string();
        assert!(error.contains("is not a name of C"), "{error}");
    }
}
