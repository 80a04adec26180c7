//! Programs through the CUDA driver's interface, on the stand-in for the driver: the
//! host code is the one that a GPU has. Each scenario is a process of its own, since a
//! process has one driver: this program starts itself again with the stand-in in its
//! library path.

use std::borrow::Cow;
use std::process::Command;
use tegula::{Arg, Buffer, Compiled, Executable, Options, Target, compile, read};
use tegula_ir::{ArrayShape, ElementType, Literal, Scalar};
use tegula_tests::nvrtc;

const FINDINGS: &str = "TEGULA_SIM_CUDA_FINDINGS";
const SCENARIO: &str = "TEGULA_TEST_SCENARIO";

/// Runs a scenario, which is an ignored test of this file, and gives what the stand-in
/// found.
fn scenario(name: &str, environment: &[(&str, &str)]) -> String {
    if !nvrtc::is_there() {
        return String::new();
    }
    if !cfg!(target_os = "linux") {
        println!("skipped: not Linux, where the driver is libcuda.so.1");
        return String::new();
    }
    let program = std::env::current_exe().expect("this program");
    let built = program
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join("libtegula_sim_cuda.so"))
        .find(|path| path.exists())
        .expect("libtegula_sim_cuda.so beside this program");
    let own = format!("tegula-cuda-driver-{}-{name}", std::process::id());
    let folder = std::env::temp_dir().join(own);
    std::fs::create_dir_all(&folder).expect("a folder");
    for name in ["libcuda.so.1", "libcuda.so"] {
        std::fs::copy(&built, folder.join(name)).expect("the library is copied");
    }
    let findings = folder.join("findings");
    let output = Command::new(&program)
        .args(["--ignored", "--exact", &format!("scenarios::{name}")])
        .env(SCENARIO, name)
        .env(FINDINGS, &findings)
        .env("LD_LIBRARY_PATH", &folder)
        .env("TEGULA_CACHE", folder.join("cache"))
        .envs(environment.iter().copied())
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {text}");
    assert!(text.contains("1 passed"), "{name}: {text}");
    let found = std::fs::read_to_string(&findings).unwrap_or_default();
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    // Machine code is refused: the stand-in's device runs PTX. Nothing may be left.
    let found: Vec<&str> = found.lines().filter(|l| !l.contains("cubin")).collect();
    let found = found.join("\n");
    assert!(!found.contains("leak"), "{name}: {found}");
    found
}

#[test]
fn programs_run_again_and_again() {
    assert_eq!(scenario("repeated", &[]), "");
}

#[test]
fn models_run() {
    let found = scenario("models", &[]);
    // What could be faster is no error.
    let slow = ["partial-sectors", "bank-conflict"];
    let mut lines = found.lines();
    let wrong = lines.find(|line| !slow.iter().any(|kind| line.contains(kind)));
    assert_eq!(wrong, None);
}

#[test]
fn loops_stay_on_the_device() {
    assert_eq!(scenario("loops", &[]), "");
}

#[test]
fn what_is_frozen_stays_on_the_device() {
    assert_eq!(scenario("frozen", &[]), "");
}

#[test]
fn threads_share_a_program() {
    assert_eq!(scenario("threads", &[]), "");
}

#[test]
fn too_little_memory_is_an_error_and_no_end() {
    let found = scenario("memory", &[("TEGULA_SIM_CUDA_MEMORY", "2000000")]);
    assert!(
        found.is_empty() || found.contains("out of device memory"),
        "{found}"
    );
}

#[test]
fn a_kernel_that_fails_is_an_error_and_no_end() {
    let found = scenario("failure", &[("TEGULA_SIM_CUDA_FAILURES", "4:719,40:700")]);
    assert!(
        found.is_empty() || found.contains("is made to fail"),
        "{found}"
    );
}

#[test]
fn a_lost_device_is_an_error_each_time() {
    let found = scenario("lost", &[("TEGULA_SIM_CUDA_FAILURES", "1:46")]);
    assert!(
        found.is_empty() || found.contains("is made to fail"),
        "{found}"
    );
}

#[test]
fn an_old_architecture_is_an_error() {
    assert_eq!(
        scenario("architecture", &[("TEGULA_SIM_CUDA_ARCH", "70")]),
        ""
    );
}

/// A chain of operations that is several kernels.
const CHAIN: &str = "HloModule chain
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[16,32] parameter(0) w = f32[32,24] parameter(1) b = f32[24] parameter(2)
  d = f32[16,24] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f32[16,24] broadcast(b), dimensions={1}
  f = f32[16,24] add(d, e)
  z = f32[] constant(0)
  r = f32[16] reduce(f, z), dimensions={1}, to_apply=sum
  q = f32[16,24] broadcast(r), dimensions={0}
  h = f32[16,24] subtract(f, q)
  g = f32[16,16] dot(h, f), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT s = f32[16] reduce(g, z), dimensions={0}, to_apply=sum
}";

const LOOP: &str = "HloModule counted
step { s = (s32[], f32[8,40], f32[8,40]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,40] get-tuple-element(s), index=1
  y = f32[8,40] get-tuple-element(s), index=2
  one = s32[] constant(1) j = s32[] add(i, one)
  c = f32[] constant(0.5) h = f32[8,40] broadcast(c), dimensions={}
  m = f32[8,40] multiply(x, h) n = f32[8,40] add(m, y)
  ROOT t = (s32[], f32[8,40], f32[8,40]) tuple(j, n, x) }
more { s = (s32[], f32[8,40], f32[8,40]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(37) ROOT l = pred[] compare(i, k), direction=LT }
ENTRY main { i = s32[] parameter(0) x = f32[8,40] parameter(1) y = f32[8,40] parameter(2)
  s = (s32[], f32[8,40], f32[8,40]) tuple(i, x, y)
  ROOT w = (s32[], f32[8,40], f32[8,40]) while(s), condition=more, body=step }";

/// Small numbers of a shape, different for each seed.
fn array(ty: ElementType, dims: &[i64], seed: usize) -> Buffer {
    let mut literal = Literal::zeros(&ArrayShape::new(ty, dims)).expect("room");
    for i in 0..literal.len() {
        let number = ((i * 7 + seed * 13) % 17) as i64 - 8;
        let scalar = match ty.is_float() {
            true => Scalar::Float(number as f64),
            false => Scalar::Int(number),
        };
        literal.set_scalar(i, scalar).expect("an element");
    }
    Buffer::from(literal)
}

fn floats(dims: &[i64], seed: usize) -> Buffer {
    array(ElementType::F32, dims, seed)
}

fn on(target: Target, text: &str) -> Result<Executable, tegula::Error> {
    let module = read(text).expect("a program");
    let options = Options {
        target,
        ..Options::default()
    };
    compile(&module, &options)
}

fn run(executable: &Executable, inputs: &[Buffer]) -> Result<Vec<Buffer>, tegula::Error> {
    executable.run(inputs.iter().map(Arg::Borrowed).collect())
}

/// Runs on the driver, against the definition.
fn check(executable: &Executable, text: &str, inputs: &[Buffer]) {
    let expected = run(&on(Target::Interp, text).expect("a program"), inputs).expect("results");
    let results = run(executable, inputs).expect("results");
    assert_eq!(results.len(), expected.len());
    for (result, expected) in results.iter().zip(&expected) {
        assert_eq!(result.literal(), expected.literal());
    }
}

fn chain_inputs(seed: usize) -> Vec<Buffer> {
    vec![
        floats(&[16, 32], seed),
        floats(&[32, 24], seed + 1),
        floats(&[24], seed + 2),
    ]
}

mod scenarios {
    use super::*;

    fn chosen(name: &str) -> bool {
        std::env::var(SCENARIO).is_ok_and(|chosen| chosen == name)
    }

    /// The second run is recorded; later ones do what was recorded, on other inputs.
    #[test]
    #[ignore = "started by a test of its own"]
    fn repeated() {
        if !chosen("repeated") {
            return;
        }
        let chain = on(Target::Cuda, CHAIN).expect("a program");
        for seed in 0..5 {
            check(&chain, CHAIN, &chain_inputs(seed));
        }
        // Timing runs leaves nothing behind.
        let Compiled::Cuda(program) = chain.compiled() else {
            panic!("it was compiled for a GPU");
        };
        let inputs = chain_inputs(5);
        let borrowed: Vec<_> = inputs.iter().map(|b| Cow::Borrowed(b.literal())).collect();
        let time = program.time(&borrowed, 3).expect("a time");
        assert!(time > std::time::Duration::ZERO);
        check(&chain, CHAIN, &inputs);
    }

    #[test]
    #[ignore = "started by a test of its own"]
    fn models() {
        if !chosen("models") {
            return;
        }
        for name in tegula_tests::models::names().expect("models") {
            let program = tegula_tests::models::load(&name).expect("a program");
            let checked = program.check(Target::Cuda, 1);
            checked.unwrap_or_else(|error| panic!("{name}: {error:#}"));
        }
    }

    #[test]
    #[ignore = "started by a test of its own"]
    fn loops() {
        if !chosen("loops") {
            return;
        }
        let executable = on(Target::Cuda, LOOP).expect("a program");
        for start in [0, 36, 37, 30, 0] {
            let mut i = Literal::zeros(&ArrayShape::new(ElementType::S32, &[])).expect("room");
            i.set_scalar(0, Scalar::Int(start)).expect("an element");
            let inputs = [Buffer::from(i), floats(&[8, 40], 1), floats(&[8, 40], 2)];
            check(&executable, LOOP, &inputs);
        }
    }

    #[test]
    #[ignore = "started by a test of its own"]
    fn frozen() {
        if !chosen("frozen") {
            return;
        }
        let mut chain = on(Target::Cuda, CHAIN).expect("a program");
        for weights in 0..2 {
            let all = chain_inputs(weights);
            chain.freeze(1, all[1].clone()).expect("a parameter");
            for seed in 5..8 {
                let mut inputs = chain_inputs(seed);
                inputs[1] = all[1].clone();
                let expected = run(&on(Target::Interp, CHAIN).expect("a program"), &inputs);
                inputs.remove(1);
                let results = run(&chain, &inputs).expect("results");
                let expected = expected.expect("results");
                assert_eq!(results[0].literal(), expected[0].literal());
            }
        }
    }

    #[test]
    #[ignore = "started by a test of its own"]
    fn threads() {
        if !chosen("threads") {
            return;
        }
        let chain = on(Target::Cuda, CHAIN).expect("a program");
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let chain = &chain;
                scope.spawn(move || {
                    for seed in 0..6 {
                        check(chain, CHAIN, &chain_inputs(10 * thread + seed));
                    }
                });
            }
        });
    }

    #[test]
    #[ignore = "started by a test of its own"]
    fn memory() {
        if !chosen("memory") {
            return;
        }
        let large = "HloModule large
ENTRY main { a = f32[1000,1000] parameter(0) ROOT b = f32[1000,1000] negate(a) }";
        let chain = on(Target::Cuda, CHAIN).expect("a program");
        let executable = on(Target::Cuda, large).expect("a program");
        for seed in 0..3 {
            let error = run(&executable, &[floats(&[1000, 1000], seed)]).err();
            let text = error.expect("too much").to_string();
            assert!(text.contains("bytes of device memory"), "{text}");
            check(&chain, CHAIN, &chain_inputs(seed));
        }
    }

    #[test]
    #[ignore = "started by a test of its own"]
    fn failure() {
        if !chosen("failure") {
            return;
        }
        let programs = [CHAIN, LOOP].map(|text| (text, on(Target::Cuda, text)));
        let programs = programs.map(|(text, program)| (text, program.expect("a program")));
        let mut i = Literal::zeros(&ArrayShape::new(ElementType::S32, &[])).expect("room");
        i.set_scalar(0, Scalar::Int(30)).expect("an element");
        let of_loop = [Buffer::from(i), floats(&[8, 40], 1), floats(&[8, 40], 2)];
        let mut failed = 0;
        for seed in 0..8 {
            for (text, program) in &programs {
                let inputs = match *text == CHAIN {
                    true => chain_inputs(seed),
                    false => of_loop.to_vec(),
                };
                let expected = run(&on(Target::Interp, text).expect("a program"), &inputs);
                match run(program, &inputs) {
                    Ok(results) => {
                        let expected = expected.expect("results");
                        for (result, expected) in results.iter().zip(&expected) {
                            assert_eq!(result.literal(), expected.literal());
                        }
                    }
                    Err(error) => {
                        let text = error.to_string();
                        assert!(text.contains("the device failed at"), "{text}");
                        failed += 1;
                    }
                }
            }
        }
        assert_eq!(failed, 2);
    }

    #[test]
    #[ignore = "started by a test of its own"]
    fn lost() {
        if !chosen("lost") {
            return;
        }
        let chain = on(Target::Cuda, CHAIN).expect("a program");
        for seed in 0..3 {
            let error = run(&chain, &chain_inputs(seed)).err();
            let text = error.expect("no device").to_string();
            assert!(text.contains("unavailable"), "{text}");
        }
    }

    #[test]
    #[ignore = "started by a test of its own"]
    fn architecture() {
        if !chosen("architecture") {
            return;
        }
        let error = on(Target::Cuda, CHAIN).err().expect("an old GPU");
        let text = error.to_string();
        assert!(text.contains("sm_70") && text.contains("sm_80"), "{text}");
    }
}
