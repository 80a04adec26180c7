//! Programs through the CUDA driver's interface, on the stand-in for the driver: the
//! host code is the one that a GPU has. Each scenario is a process of its own, since a
//! process has one driver: this program starts itself again with the stand-in in its
//! library path. With `TEGULA_GPU=1` it is started without: the scenarios run on a GPU, but
//! for those in which the stand-in is made to fail.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use tegula::{Executable, Options, Target, Tensor, compile};
use tegula_ir::{ArrayShape, ElementType, Literal, Scalar};
use tegula_tests::gpu;
use tegula_tests::read;

const FINDINGS: &str = "TEGULA_SIM_CUDA_FINDINGS";
const PRODUCTS: &str = "TEGULA_SIM_CUDA_PRODUCTS";
const SCENARIO: &str = "TEGULA_TEST_SCENARIO";

/// Runs a scenario, which is an ignored test of this file, and gives what the stand-in
/// found.
fn scenario(name: &str, environment: &[(&str, &str)]) -> String {
    if !gpu::is_there() {
        return String::new();
    }
    if !cfg!(target_os = "linux") {
        println!("skipped: not Linux, where the driver is libcuda.so.1");
        return String::new();
    }
    let program = std::env::current_exe().expect("this program");
    if gpu::is_real() {
        // Only the stand-in fails when it is asked to.
        if environment.is_empty() {
            start(&program, name, &[]);
        }
        return String::new();
    }
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
    let driver = folder.join("libcuda.so.1");
    std::fs::copy(&built, &driver).expect("the library is copied");
    // The same file, so that it is one library in a process.
    for name in ["libcuda.so", "libcublasLt.so.13"] {
        std::fs::hard_link(&driver, folder.join(name)).expect("the library has another name");
    }
    let others = std::env::var_os("TEGULA_CUDA_LIBS").unwrap_or_default();
    let libraries = std::iter::once(folder.clone()).chain(std::env::split_paths(&others));
    let libraries = std::env::join_paths(libraries).expect("a path");
    let findings = folder.join("findings");
    let (products, cache) = (folder.join("products"), folder.join("cache"));
    let own: [(&str, &OsStr); 5] = [
        (FINDINGS, findings.as_ref()),
        (PRODUCTS, products.as_ref()),
        ("LD_LIBRARY_PATH", folder.as_ref()),
        ("TEGULA_CUDA_LIBS", &libraries),
        ("TEGULA_CACHE", cache.as_ref()),
    ];
    let asked = environment
        .iter()
        .map(|&(name, value)| (name, OsStr::new(value)));
    let environment: Vec<_> = own.into_iter().chain(asked).collect();
    start(&program, name, &environment);
    let found = std::fs::read_to_string(&findings).unwrap_or_default();
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    // Machine code is refused: the stand-in's device runs PTX. Nothing may be left.
    let found: Vec<&str> = found.lines().filter(|l| !l.contains("cubin")).collect();
    let found = found.join("\n");
    assert!(!found.contains("leak"), "{name}: {found}");
    found
}

/// Runs a scenario in a process of its own.
fn start(program: &Path, name: &str, environment: &[(&str, &OsStr)]) {
    let output = Command::new(program)
        .args(["--ignored", "--exact", &format!("scenarios::{name}")])
        .env(SCENARIO, name)
        .envs(environment.iter().copied())
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {text}");
    assert!(text.contains("1 passed"), "{name}: {text}");
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
fn products_of_matrices_go_to_the_library() {
    // What could be faster is no error.
    let found = scenario("products", &[]);
    let wrong = found.lines().find(|line| !line.contains("partial-sectors"));
    assert_eq!(wrong, None);
}

#[test]
fn products_are_added_and_within_loops() {
    assert_eq!(scenario("products_within", &[]), "");
}

#[test]
fn what_follows_a_product_is_done_with_it() {
    assert_eq!(scenario("epilogues", &[]), "");
}

#[test]
fn loops_stay_on_the_device() {
    assert_eq!(scenario("loops", &[]), "");
}

#[test]
fn choices_stay_on_the_device() {
    assert_eq!(scenario("choices", &[]), "");
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
        found.is_empty() || found.contains("failure injected into kernel launch"),
        "{found}"
    );
}

#[test]
fn a_lost_device_is_an_error_each_time() {
    let found = scenario("lost", &[("TEGULA_SIM_CUDA_FAILURES", "1:46")]);
    assert!(
        found.is_empty() || found.contains("failure injected into kernel launch"),
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

/// A choice within a loop of which nobody knows the number of iterations, and in it one
/// more: i halves where it is even, else becomes 3 i + 1, until it is 1.
const CHOICES: &str = "HloModule choices
half { s = (s32[], f32[40]) parameter(0) i = s32[] get-tuple-element(s), index=0
  x = f32[40] get-tuple-element(s), index=1 two = s32[] constant(2) j = s32[] divide(i, two)
  y = f32[40] negate(x) ROOT t = (s32[], f32[40]) tuple(j, y) }
third { s = (s32[], f32[40]) parameter(0) i = s32[] get-tuple-element(s), index=0
  x = f32[40] get-tuple-element(s), index=1 three = s32[] constant(3) k = s32[] multiply(i, three)
  one = s32[] constant(1) j = s32[] add(k, one) five = s32[] constant(5)
  l = s32[] remainder(i, five) y = f32[40] conditional(l, x, x, x), branch_computations={first, second, rest}
  ROOT t = (s32[], f32[40]) tuple(j, y) }
first { x = f32[40] parameter(0) a = f32[] constant(1) b = f32[40] broadcast(a), dimensions={}
  ROOT y = f32[40] add(x, b) }
second { x = f32[40] parameter(0) a = f32[] constant(2) b = f32[40] broadcast(a), dimensions={}
  ROOT y = f32[40] add(x, b) }
rest { x = f32[40] parameter(0) ROOT y = f32[40] add(x, x) }
step { s = (s32[], f32[40]) parameter(0) i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1) odd = s32[] and(i, one)
  ROOT t = (s32[], f32[40]) conditional(odd, s, s), branch_computations={half, third} }
more { s = (s32[], f32[40]) parameter(0) i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1) ROOT l = pred[] compare(i, one), direction=GT }
ENTRY main { i = s32[] parameter(0) x = f32[40] parameter(1)
  s = (s32[], f32[40]) tuple(i, x)
  w = (s32[], f32[40]) while(s), condition=more, body=step
  z = s32[] constant(7) c = pred[] compare(i, z), direction=LT
  y = f32[40] get-tuple-element(w), index=1
  ROOT r = f32[40] conditional(c, y, x), true_computation=first, false_computation=rest }";

/// Small numbers of a shape, different for each seed.
fn array(ty: ElementType, dims: &[i64], seed: usize) -> Tensor {
    let mut literal = Literal::zeros(&ArrayShape::new(ty, dims)).expect("room");
    for i in 0..literal.len() {
        let number = ((i * 7 + seed * 13) % 17) as i64 - 8;
        let scalar = match ty.is_float() {
            true => Scalar::Float(number as f64),
            false => Scalar::Int(number),
        };
        literal.set_scalar(i, scalar).expect("an element");
    }
    Tensor::from(literal)
}

fn floats(dims: &[i64], seed: usize) -> Tensor {
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

fn run(executable: &Executable, inputs: &[Tensor]) -> Result<Vec<Tensor>, tegula::Error> {
    executable.run(inputs.iter())
}

/// Runs on the driver, against the definition.
fn check(executable: &Executable, text: &str, inputs: &[Tensor]) {
    let expected = run(&on(Target::Interp, text).expect("a program"), inputs).expect("results");
    let results = run(executable, inputs).expect("results");
    assert_eq!(results.len(), expected.len());
    for (result, expected) in results.iter().zip(&expected) {
        assert_eq!(result.literal(), expected.literal());
    }
}

fn chain_inputs(seed: usize) -> Vec<Tensor> {
    vec![
        floats(&[16, 32], seed),
        floats(&[32, 24], seed + 1),
        floats(&[24], seed + 2),
    ]
}

/// What the stand-in for the library of products was given since the last look; none on a GPU.
fn products() -> Option<Vec<String>> {
    let path = std::env::var_os(PRODUCTS)?;
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let _none_yet = std::fs::remove_file(&path);
    Some(text.lines().map(str::to_owned).collect())
}

/// Holds what the library was given against what it should have been.
fn assert_products(count: usize, place: &str) {
    if let Some(done) = products() {
        assert_eq!(done.len(), count, "{place}");
    }
}

/// A dot of arrays whose dimensions are named: batches `b`, rows `m`, columns `n`, summed
/// `k`; the result's order is made by a transposition.
struct Dot<'a> {
    types: [&'a str; 2],
    lhs: &'a str,
    rhs: &'a str,
    out: &'a str,
}

fn size_of_dimension(name: char) -> i64 {
    match name {
        'b' => 3,
        'm' => 64,
        'n' => 80,
        _ => 264,
    }
}

impl Dot<'_> {
    fn text(&self) -> String {
        let dims = |names: &str| {
            let sizes = names.chars().map(|c| size_of_dimension(c).to_string());
            sizes.collect::<Vec<_>>().join(",")
        };
        let at = |names: &str, name: char| names.find(name);
        let batch = |side: &str, names: &str| {
            at(names, 'b').map_or(String::new(), |at| format!(", {side}_batch_dims={{{at}}}"))
        };
        let made: String = "bmn".chars().filter(|&c| self.out.contains(c)).collect();
        let order: Vec<String> = self
            .out
            .chars()
            .map(|c| made.find(c).expect("a dimension").to_string())
            .collect();
        let ([factor, result], [lhs, rhs, made]) =
            (self.types, [self.lhs, self.rhs, &made].map(dims));
        format!(
            "HloModule dot
ENTRY main {{ x = {factor}[{lhs}] parameter(0) y = {factor}[{rhs}] parameter(1)
  d = {result}[{made}] dot(x, y){}{}, lhs_contracting_dims={{{}}}, rhs_contracting_dims={{{}}}
  ROOT t = {result}[{}] transpose(d), dimensions={{{}}} }}",
            batch("lhs", self.lhs),
            batch("rhs", self.rhs),
            at(self.lhs, 'k').expect("a sum"),
            at(self.rhs, 'k').expect("a sum"),
            dims(self.out),
            order.join(",")
        )
    }

    fn inputs(&self) -> Vec<Tensor> {
        let ty = ElementType::from_name(self.types[0]).expect("a type");
        let dims = |names: &str| names.chars().map(size_of_dimension).collect::<Vec<_>>();
        [self.lhs, self.rhs]
            .iter()
            .zip(1..)
            .map(|(names, seed)| array(ty, &dims(names), seed))
            .collect()
    }
}

mod scenarios {
    use super::*;

    /// Every order of dimensions that a product of matrices can have, in every type; what
    /// the library does not take, generated functions do.
    #[test]
    #[ignore = "started by a test of its own"]
    fn products() {
        let Some(_gpu) = chosen("products") else {
            return;
        };
        let dot = |types, lhs, rhs, out| Dot {
            types,
            lhs,
            rhs,
            out,
        };
        let f32s = ["f32", "f32"];
        // Whether the library does it.
        let all = [
            (dot(f32s, "mk", "kn", "mn"), true),
            (dot(f32s, "km", "nk", "mn"), true),
            (dot(f32s, "mk", "nk", "nm"), true),
            (dot(f32s, "bmk", "bkn", "bmn"), true),
            (dot(f32s, "mbk", "bnk", "mbn"), true),
            (dot(f32s, "kbm", "kbn", "bnm"), true),
            (dot(f32s, "bmk", "nbk", "nbm"), true),
            // Neighbours are of different batches.
            (dot(f32s, "mkb", "bkn", "bmn"), false),
            (dot(["f64", "f64"], "bkm", "bkn", "bmn"), true),
            (dot(["bf16", "bf16"], "bmk", "bkn", "bmn"), true),
            (dot(["bf16", "f32"], "mk", "nk", "mn"), true),
            (dot(["f16", "f16"], "km", "kn", "nm"), true),
            (dot(["f16", "f32"], "bmk", "bnk", "bmn"), true),
            (dot(["s8", "s32"], "mk", "nk", "mn"), true),
            (dot(["s8", "s32"], "bmk", "nbk", "bnm"), true),
            (dot(["s8", "s32"], "mk", "kn", "mn"), false),
            (dot(["s32", "s32"], "mk", "nk", "mn"), false),
        ];
        for (dot, goes) in all {
            let text = dot.text();
            let program = on(Target::Cuda, &text).expect("a program");
            check(&program, &text, &dot.inputs());
            assert_products(usize::from(goes), &text);
        }
    }

    /// A product is added to another where that lies; sizes that are open; loops.
    #[test]
    #[ignore = "started by a test of its own"]
    fn products_within() {
        let Some(_gpu) = chosen("products_within") else {
            return;
        };
        let sums = "HloModule sums
ENTRY main { x = f32[64,264] parameter(0) y = f32[264,80] parameter(1)
  u = f32[64,200] parameter(2) v = f32[200,80] parameter(3)
  d = f32[64,80] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f32[64,80] dot(u, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT s = f32[64,80] add(d, e) }";
        let dims: [&[i64]; 4] = [&[64, 264], &[264, 80], &[64, 200], &[200, 80]];
        let inputs: Vec<Tensor> = dims.iter().zip(1..).map(|(d, s)| floats(d, s)).collect();
        check(&on(Target::Cuda, sums).expect("a program"), sums, &inputs);
        if let Some(done) = super::products() {
            let added = done.iter().filter(|line| line.contains("beta 1"));
            assert_eq!((done.len(), added.count()), (2, 1), "{done:?}");
        }
        // The library is asked at the sizes of a run, and only for what is worth a call.
        let open = "HloModule open
ENTRY main { x = f32[?,264] parameter(0) y = f32[264,80] parameter(1)
  ROOT d = f32[?,80] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }";
        let program = on(Target::Cuda, open).expect("a program");
        for (rows, calls) in [(64, 1), (3, 0), (200, 1), (0, 0), (64, 1)] {
            let inputs = [floats(&[rows, 264], 3), floats(&[264, 80], 4)];
            check(&program, open, &inputs);
            assert_products(calls, &format!("{rows} rows"));
        }
        // Counted loops call the library; those that may have ended do not.
        let body = "HloModule within
step { s = (s32[], f32[64,64], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0 x = f32[64,64] get-tuple-element(s), index=1
  y = f32[64,64] get-tuple-element(s), index=2 one = s32[] constant(1) j = s32[] add(i, one)
  d = f32[64,64] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[] constant(0.015625) h = f32[64,64] broadcast(c), dimensions={}
  m = f32[64,64] multiply(d, h)
  ROOT t = (s32[], f32[64,64], f32[64,64]) tuple(j, m, y) }
more { s = (s32[], f32[64,64], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(3) ROOT l = pred[] compare(i, k), direction=LT }
ENTRY main { START x = f32[64,64] parameter(0) y = f32[64,64] parameter(1)
  s = (s32[], f32[64,64], f32[64,64]) tuple(i, x, y)
  ROOT w = (s32[], f32[64,64], f32[64,64]) while(s), condition=more, body=step }";
        let mut i = Literal::zeros(&ArrayShape::new(ElementType::S32, &[])).expect("room");
        i.set_scalar(0, Scalar::Int(1)).expect("an element");
        let square = |seed| floats(&[64, 64], seed);
        for (start, calls) in [("i = s32[] constant(0)", 3), ("i = s32[] parameter(2)", 0)] {
            let text = body.replace("START", start);
            let mut inputs = vec![square(1), square(2)];
            if calls == 0 {
                inputs.push(Tensor::from(i.clone()));
            }
            let program = on(Target::Cuda, &text).expect("a program");
            for _ in 0..3 {
                check(&program, &text, &inputs);
                assert_products(calls, start);
            }
        }
    }

    /// Biases, the positive part and GELU; what is not exactly that stays a kernel.
    #[test]
    #[ignore = "started by a test of its own"]
    fn epilogues() {
        let Some(_gpu) = chosen("epilogues") else {
            return;
        };
        let gelu = "p = T multiply(a, a) q = T multiply(p, a) c = TY constant(0.044715)
  cs = T broadcast(c), dimensions={} r = T multiply(q, cs) s = T add(a, r)
  f = TY constant(0.7978845608) fs = T broadcast(f), dimensions={} u = T multiply(s, fs)
  v = T tanh(u) o = TY constant(1) os = T broadcast(o), dimensions={} l = T add(v, os)
  h = TY constant(0.5) hs = T broadcast(h), dimensions={} i = T multiply(l, hs)
  ROOT j = T multiply(a, i)";
        let relu = "ROOT r = T maximum(a, zs)";
        let bias = "bs = T broadcast(b), dimensions={1} a = T add(d, bs)";
        let bare = "a = T copy(d)";
        let rows = "bs = T broadcast(m), dimensions={0} a = T add(d, bs)";
        // The type, what follows, and the epilogue's number: 1 is none.
        let all = [
            ("f32", bias, "ROOT r = T copy(a)", 4),
            ("f32", bias, relu, 6),
            ("f64", bias, relu, 6),
            ("f32", bare, relu, 2),
            ("f32", bias, gelu, 36),
            ("f32", bare, gelu, 32),
            // A bias along the other dimension, another function, roundings in between.
            ("f32", rows, relu, 1),
            ("f32", bias, "ROOT r = T tanh(a)", 1),
            ("f32", bias, "n = T negate(zs) ROOT r = T minimum(a, n)", 1),
            ("f64", bias, gelu, 1),
            // Both sums are rounded.
            (
                "f32",
                bias,
                "o = TY constant(1) os = T broadcast(o), dimensions={} \
              p = T add(a, os) q = T subtract(p, os) ROOT r = T maximum(q, zs)",
                1,
            ),
            ("bf16", bias, relu, 1),
            ("bf16", bare, relu, 2),
        ];
        for (ty, first, then, epilogue) in all {
            let text = format!(
                "HloModule epilogue
ENTRY main {{ x = TY[64,264] parameter(0) w = TY[264,80] parameter(1) b = TY[80] parameter(2)
  m = TY[64] parameter(3)
  d = T dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  z = TY constant(0) zs = T broadcast(z), dimensions={{}}
  {first}
  {then} }}"
            );
            let text = text.replace(" T ", &format!(" {ty}[64,80] "));
            let text = text.replace("TY constant", &format!("{ty}[] constant"));
            let text = text.replace("TY[", &format!("{ty}["));
            let ty = ElementType::from_name(ty).expect("a type");
            // Small enough that GELU is no step.
            let scaled = |buffer: Tensor| {
                let mut literal = buffer.literal().clone();
                for i in 0..literal.len() {
                    let Some(Scalar::Float(value)) = literal.scalar(i) else {
                        panic!("a float");
                    };
                    let value = Scalar::Float(value / 16.0);
                    literal.set_scalar(i, value).expect("an element");
                }
                Tensor::from(literal)
            };
            let dims: [&[i64]; 4] = [&[64, 264], &[264, 80], &[80], &[64]];
            let inputs: Vec<Tensor> = dims
                .iter()
                .zip(1..)
                .map(|(dims, seed)| scaled(array(ty, dims, seed)))
                .collect();
            let program = on(Target::Cuda, &text).expect("a program");
            let expected = run(&on(Target::Interp, &text).expect("a program"), &inputs);
            let expected = expected.expect("results");
            // The second run is recorded, the third does what was.
            for _ in 0..3 {
                let results = run(&program, &inputs).expect("results");
                let [result, expected] = [&results[0], &expected[0]].map(Tensor::literal);
                for i in 0..result.len() {
                    let (Some(Scalar::Float(a)), Some(Scalar::Float(b))) =
                        (result.scalar(i), expected.scalar(i))
                    else {
                        panic!("a float");
                    };
                    // NVIDIA's GELU takes a tanh of 11 bits (PTX, "tanh.approx"): up to 4e-6 off.
                    let near = match (then.contains("tanh"), gpu::is_real()) {
                        (true, true) => 1e-5,
                        (true, false) => 1e-6,
                        (false, _) => 0.0,
                    };
                    assert!((a - b).abs() <= near * b.abs().max(1.0), "{a} {b} {text}");
                }
            }
            if let Some(done) = super::products() {
                let wanted = format!("epilogue {epilogue},");
                assert_eq!(done.len(), 3, "{text}");
                assert!(done[0].contains(&wanted), "{}: {text}", done[0]);
            }
        }
    }

    /// Closes the GPU at a scenario's end, when what is left allocated is a leak.
    struct Gpu;

    impl Drop for Gpu {
        fn drop(&mut self) {
            tegula_codegen_cuda::release_gpu();
        }
    }

    /// The GPU, if this is the scenario that the process was started for.
    fn chosen(name: &str) -> Option<Gpu> {
        let chosen = std::env::var(SCENARIO).is_ok_and(|chosen| chosen == name);
        chosen.then_some(Gpu)
    }

    /// The second run is recorded; later ones do what was recorded, on other inputs.
    #[test]
    #[ignore = "started by a test of its own"]
    fn repeated() {
        let Some(_gpu) = chosen("repeated") else {
            return;
        };
        let chain = on(Target::Cuda, CHAIN).expect("a program");
        for seed in 0..5 {
            check(&chain, CHAIN, &chain_inputs(seed));
        }
        // Timing runs leaves nothing behind.
        let backend = chain.backend();
        let Some(program) = backend.downcast_ref::<tegula_codegen_cuda::Executable>() else {
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
        let Some(_gpu) = chosen("models") else {
            return;
        };
        for name in tegula_tests::models::names().expect("models") {
            let program = tegula_tests::models::load(&name).expect("a program");
            let checked = program.check(Target::Cuda, 1);
            checked.unwrap_or_else(|error| panic!("{name}: {error:#}"));
        }
    }

    #[test]
    #[ignore = "started by a test of its own"]
    fn loops() {
        let Some(_gpu) = chosen("loops") else {
            return;
        };
        let executable = on(Target::Cuda, LOOP).expect("a program");
        for start in [0, 36, 37, 30, 0] {
            let mut i = Literal::zeros(&ArrayShape::new(ElementType::S32, &[])).expect("room");
            i.set_scalar(0, Scalar::Int(start)).expect("an element");
            let inputs = [Tensor::from(i), floats(&[8, 40], 1), floats(&[8, 40], 2)];
            check(&executable, LOOP, &inputs);
        }
    }

    #[test]
    #[ignore = "started by a test of its own"]
    fn choices() {
        let Some(_gpu) = chosen("choices") else {
            return;
        };
        let executable = on(Target::Cuda, CHOICES).expect("a program");
        for start in [1, 6, 7, 9, 27, 0, -3] {
            let mut i = Literal::zeros(&ArrayShape::new(ElementType::S32, &[])).expect("room");
            i.set_scalar(0, Scalar::Int(start)).expect("an element");
            check(&executable, CHOICES, &[Tensor::from(i), floats(&[40], 1)]);
        }
    }

    #[test]
    #[ignore = "started by a test of its own"]
    fn frozen() {
        let Some(_gpu) = chosen("frozen") else {
            return;
        };
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
        let Some(_gpu) = chosen("threads") else {
            return;
        };
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
        let Some(_gpu) = chosen("memory") else {
            return;
        };
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
        let Some(_gpu) = chosen("failure") else {
            return;
        };
        let programs = [CHAIN, LOOP].map(|text| (text, on(Target::Cuda, text)));
        let programs = programs.map(|(text, program)| (text, program.expect("a program")));
        let mut i = Literal::zeros(&ArrayShape::new(ElementType::S32, &[])).expect("room");
        i.set_scalar(0, Scalar::Int(30)).expect("an element");
        let of_loop = [Tensor::from(i), floats(&[8, 40], 1), floats(&[8, 40], 2)];
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
        let Some(_gpu) = chosen("lost") else {
            return;
        };
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
        let Some(_gpu) = chosen("architecture") else {
            return;
        };
        let error = on(Target::Cuda, CHAIN).expect_err("an old GPU");
        let text = error.to_string();
        assert!(text.contains("sm_70") && text.contains("sm_80"), "{text}");
    }
}
