//! How kernels are spread over threads on a GPU: which form each kind of kernel gets,
//! that its results are the evaluator's, and that its machine code keeps what the form
//! promises.

mod cases;
mod products;

use cases::{CASES, COMPUTATIONS, Case, WHOLE};
use products::{PADDED, PRODUCTS, computations, padded};
use std::path::PathBuf;
use std::process::Command;
use tegula::{Options, Tensor};
use tegula_codegen_cuda::{Arch, Listing, listing};
use tegula_ir::Literal;
use tegula_scalar::Bits;
use tegula_tests::gpu;
use tegula_tests::judge::{Reference, Verdict};
use tegula_tests::random::Regime;

fn module(case: &Case) -> tegula_ir::Module {
    let computations = computations();
    let text = format!(
        "HloModule case\n{COMPUTATIONS}{computations}\n{}",
        case.text
    );
    tegula_tests::read(&text).unwrap_or_else(|e| panic!("{}: {e}", case.name))
}

/// Small numbers that sums of which are exact.
fn inputs(module: &tegula_ir::Module) -> Vec<Literal> {
    let entry = module.entry_computation();
    let mut seed = 1u64;
    let mut next = || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % 17
    };
    let parameters = entry.parameters.iter();
    let literals = parameters.map(|&parameter| {
        let shape = module[parameter].shape.as_array().expect("an array");
        let ty = shape.element_type;
        let count = shape.element_count().expect("a size") as usize;
        let mut bytes = Vec::new();
        for _ in 0..count {
            let value = tegula_ir::Scalar::Int(next() as i64 - 8);
            let bits = tegula_scalar::bits_from_scalar(ty, value).to_le_bytes();
            bytes.extend_from_slice(&bits[..ty.storage_bytes()]);
        }
        Literal::from_bytes(shape, &bytes).expect("so many bytes")
    });
    literals.collect()
}

fn cuda(case: &Case) -> String {
    let module = module(case);
    let plan = tegula::plan_for(&module, &tegula::PlanOptions::gpu())
        .expect("a plan")
        .plan;
    let text = listing(&plan, Arch(90), Listing::Cuda).expect("a program");
    String::from_utf8(text).expect("text")
}

#[test]
fn each_kind_of_kernel_has_its_form() {
    for case in CASES.iter().chain(PRODUCTS) {
        let text = cuda(case);
        for reason in case.reasons {
            let found = text
                .lines()
                .any(|line| line.starts_with("// ") && line.contains(reason));
            assert!(found, "{}: no `{reason}` in\n{text}", case.name);
        }
    }
}

#[test]
fn each_form_gives_what_the_evaluator_gives() {
    let Some(target) = gpu::target() else {
        return;
    };
    for case in CASES.iter().chain(PRODUCTS) {
        let module = module(case);
        let inputs = inputs(&module);
        // Sums of small numbers are exact; functions are not.
        let functions = ["exponential", "rsqrt", "sine"];
        let regime = match functions.iter().any(|f| case.text.contains(f)) {
            true => Regime::General,
            false => Regime::Dyadic,
        };
        let reference = Reference::of_many_runs(&module, &inputs, regime);
        let reference = reference.expect("a reference");
        let options = Options {
            target,
            ..Options::default()
        };
        match reference.judge_with(&module, &inputs, &options) {
            Ok(verdict) => assert_eq!(verdict, Verdict::Agrees, "{}", case.name),
            Err(error) => panic!("{}: {error}", case.name),
        }
    }
}

#[test]
fn what_an_infinity_meets_in_the_padding_is_no_product() {
    let Some(target) = gpu::target() else {
        return;
    };
    for &(channels, features, types) in PADDED {
        let text = padded(channels, features, types);
        let module = tegula_tests::read(&text).unwrap_or_else(|e| panic!("{types:?}: {e}"));
        let tensors: Vec<Tensor> = inputs(&module).into_iter().map(Tensor::from).collect();
        let run = |target| {
            let options = Options {
                target,
                ..Options::default()
            };
            let executable = tegula::compile(&module, &options).expect("a program");
            let results = executable.run(tensors.iter()).expect("results");
            let result = results[0].literal();
            let (ty, elements) = (result.element_type(), Bits::of(result));
            let shown = |i| format!("{:?}", tegula_scalar::scalar_from_bits(ty, elements.get(i)));
            (0..result.len()).map(shown).collect::<Vec<String>>()
        };
        let (expected, found) = (run(tegula::Target::Cpu), run(target));
        assert_eq!(found, expected, "{types:?}");
        for (what, count) in [("NaN", 12), ("inf", 8), ("-inf", 8), ("", 2)] {
            let elements = found.iter().filter(|element| match what {
                "" => !element.contains("NaN") && !element.contains("inf"),
                "inf" => element.contains("inf") && !element.contains("-inf"),
                what => element.contains(what),
            });
            assert_eq!(elements.count(), count * features, "{types:?}: {what}");
        }
    }
}

#[test]
fn accesses_touch_no_more_than_they_need() {
    if !gpu::is_there() {
        return;
    }
    for (name, text) in WHOLE {
        let text = format!("HloModule whole\n{COMPUTATIONS}\n{text}");
        let module = tegula_tests::read(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let plan = tegula::plan_for(&module, &tegula::PlanOptions::gpu())
            .expect("a plan")
            .plan;
        let measured = tegula_codegen_cuda::measure(plan, &inputs(&module));
        let (_, launches) = measured.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(!launches.is_empty(), "{name}");
        if name.starts_with("softmax") {
            let accesses = launches.iter().flat_map(|l| &l.report.statistics.accesses);
            let reads = accesses.filter(|a| a.space == "global" && !a.writes);
            let read: u64 = reads.map(|access| access.bytes).sum();
            let size: usize = inputs(&module).iter().map(|i| i.bytes().len()).sum();
            assert_eq!(read, size as u64, "{name}: a row is read once");
        }
        for launch in &launches {
            for access in &launch.report.statistics.accesses {
                let place = format!("{name}, {}: {access:?}", launch.function);
                assert_eq!(access.sectors, access.minimum_sectors, "{place}");
                assert_eq!(access.wavefronts, access.minimum_wavefronts, "{place}");
            }
        }
    }
}

/// NVIDIA's disassembler: beside the compiler, where `scripts/get-nvrtc FOLDER --tools`
/// puts it, or of the system.
fn disassembler() -> Option<PathBuf> {
    let compiler = tegula_codegen_cuda::compiler().ok()?;
    let beside = PathBuf::from(compiler.place()).parent()?.join("cuobjdump");
    let found = [beside, PathBuf::from("cuobjdump")]
        .into_iter()
        .find(|path| Command::new(path).arg("--version").output().is_ok());
    if found.is_none() {
        let required = std::env::var_os("TEGULA_REQUIRE_NVRTC").is_some();
        assert!(!required, "there is no cuobjdump beside NVRTC");
        println!("skipped: no cuobjdump");
    }
    found
}

/// Runs the disassembler on machine code; it calls another tool beside it.
fn disassemble(tool: &PathBuf, code: &[u8], what: &str, number: usize) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join(format!("emitters-{number}.cubin"));
    std::fs::write(&file, code).expect("a file");
    let mut path = tool
        .parent()
        .map(|p| p.as_os_str().to_owned())
        .unwrap_or_default();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let output = Command::new(tool)
        .arg(what)
        .arg(&file)
        .env("PATH", path)
        .output();
    let output = output.expect("the disassembler runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

/// What machine code must be: no stack, no local memory; 16 bytes at once where
/// several points are done together.
fn gate(name: &str, cuda: &str, code: &[u8], tool: &PathBuf, number: usize) {
    let usage = disassemble(tool, code, "-res-usage", number);
    for line in usage.lines().filter(|line| line.contains("STACK:")) {
        let clean = line.contains("STACK:0 ") && line.contains("LOCAL:0 ");
        assert!(clean, "{name}: {line}");
    }
    let sass = disassemble(tool, code, "-sass", number);
    for function in sass.split("Function : ").skip(1) {
        let own = function.lines().next().unwrap_or_default().trim();
        for line in function.lines() {
            let local = [" LDL", " STL"].iter().any(|op| line.contains(op));
            assert!(!local, "{name}: {own}: {line}");
        }
        let head = format!("// {own}: ");
        let reason = cuda.lines().find_map(|line| line.strip_prefix(&head));
        let promise = ["accesses of 16 bytes", "8 elements at once", "per 8 points"];
        if reason.is_some_and(|reason| promise.iter().any(|text| reason.contains(text))) {
            let wide = function.lines().any(|line| line.contains(".128"));
            assert!(wide, "{name}: {own} has no access of 16 bytes");
        }
    }
}

#[test]
fn machine_code_keeps_what_the_forms_promise() {
    if !gpu::is_there() {
        return;
    }
    let Some(tool) = disassembler() else {
        return;
    };
    let mut programs: Vec<(String, tegula_ir::Module)> = CASES
        .iter()
        .chain(PRODUCTS)
        .map(|case| (case.name.to_owned(), module(case)))
        .collect();
    for name in tegula_tests::models::names().expect("models") {
        let program = tegula_tests::models::load(&name).expect("a program");
        programs.push((name, program.module));
    }
    for (number, (name, module)) in programs.iter().enumerate() {
        let plan = tegula::plan_for(module, &tegula::PlanOptions::gpu())
            .expect("a plan")
            .plan;
        let text = |what| listing(&plan, Arch(90), what).expect("a program");
        let cuda = String::from_utf8(text(Listing::Cuda)).expect("text");
        // A program without a kernel has no code.
        if cuda.contains("__global__") {
            gate(name, &cuda, &text(Listing::Cubin), &tool, number);
        }
    }
}
