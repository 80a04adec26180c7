//! Programs that would run, or compile, for ever or in any amount of memory end with an error of their
//! own on every target once a limit is exceeded.

use std::time::{Duration, Instant};
use tegula::{Compiler, Error, ErrorKind, Executable, Interrupt, Limits, Module, Target, Tensor};
use tegula_tests::gpu;

/// How much longer than allowed a run may take on a busy machine.
const SLACK: Duration = Duration::from_secs(20);

const TIMEOUT: Duration = Duration::from_millis(200);

/// Loops that never end: one that is a single small kernel, one with arrays, one around a product.
const ENDLESS: [(&str, &str); 5] = [
    (
        "scalars",
        "HloModule scalars
         always { s = (s32[], f32[]) parameter(0) ROOT yes = pred[] constant(true) }
         next { s = (s32[], f32[]) parameter(0)
           i = s32[] get-tuple-element(s), index=0 x = f32[] get-tuple-element(s), index=1
           one = s32[] constant(1) j = s32[] add(i, one) y = f32[] cosine(x)
           ROOT t = (s32[], f32[]) tuple(j, y) }
         ENTRY main { x = f32[16,16] parameter(0) i = s32[] constant(0) c = f32[] constant(1)
           s = (s32[], f32[]) tuple(i, c)
           loop = (s32[], f32[]) while(s), condition=always, body=next
           y = f32[] get-tuple-element(loop), index=1
           ROOT z = f32[16,16] broadcast(y), dimensions={} }",
    ),
    (
        "nested",
        "HloModule nested
         few { i = s32[] parameter(0) ten = s32[] constant(10) ROOT c = pred[] compare(i, ten), direction=LT }
         up { i = s32[] parameter(0) zero = s32[] constant(0) ROOT m = s32[] multiply(i, zero) }
         ENTRY main { x = f32[16,16] parameter(0) i = s32[] constant(0)
           loop = s32[] while(i), condition=few, body=up
           f = f32[] convert(loop) ROOT z = f32[16,16] broadcast(f), dimensions={} }",
    ),
    (
        "arrays",
        "HloModule arrays
         always { s = (pred[], f32[16,16]) parameter(0) ROOT p = pred[] get-tuple-element(s), index=0 }
         next { s = (pred[], f32[16,16]) parameter(0)
           p = pred[] get-tuple-element(s), index=0 x = f32[16,16] get-tuple-element(s), index=1
           t = f32[16,16] transpose(x), dimensions={1,0} y = f32[16,16] tanh(t)
           ROOT u = (pred[], f32[16,16]) tuple(p, y) }
         ENTRY main { x = f32[16,16] parameter(0) yes = pred[] constant(true)
           s = (pred[], f32[16,16]) tuple(yes, x)
           loop = (pred[], f32[16,16]) while(s), condition=always, body=next
           ROOT z = f32[16,16] get-tuple-element(loop), index=1 }",
    ),
    (
        "products",
        "HloModule products
         always { x = f32[16,16] parameter(0) ROOT yes = pred[] constant(true) }
         next { x = f32[16,16] parameter(0)
           ROOT y = f32[16,16] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
         ENTRY main { x = f32[16,16] parameter(0)
           ROOT loop = f32[16,16] while(x), condition=always, body=next }",
    ),
    (
        // 2^43 terms, none of which is in memory.
        "iterations",
        "HloModule iterations
         add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }
         ENTRY main { x = f32[16,16] parameter(0)
           i = s32[2048,65536,65536] iota(), iota_dimension=1
           j = s32[2048,65536,65536] iota(), iota_dimension=2
           k = s32[2048,65536,65536] xor(i, j) zero = s32[] constant(0)
           sum = s32[] reduce(k, zero), dimensions={0,1,2}, to_apply=add
           f = f32[] convert(sum) ROOT z = f32[16,16] broadcast(f), dimensions={} }",
    ),
];

fn targets() -> Vec<Target> {
    let mut targets = vec![Target::Interp, Target::Plan, Target::Cpu, Target::Tpu];
    if gpu::is_there() {
        targets.push(Target::CudaSim);
    }
    targets
}

fn compiled(text: &str, target: Target, threads: usize) -> Executable {
    let module: Module = text.parse().expect("a program");
    let compiler = Compiler::new(target).threads(threads);
    let executable = compiler.compile(&module);
    executable.unwrap_or_else(|error| panic!("{target:?}: {error}"))
}

fn input() -> Tensor {
    Tensor::from_slice(&[16, 16], &[0.5_f32; 256]).expect("an array")
}

/// Whether a target runs a program at all: arrays of 2^43 elements are in memory on some.
fn takes(target: Target, name: &str) -> bool {
    name != "iterations" || matches!(target, Target::Plan | Target::Cpu)
}

fn assert_stopped(result: Result<Vec<Tensor>, Error>, kind: ErrorKind, what: &str, start: Instant) {
    let error = result.expect_err(what);
    assert_eq!(error.kind, kind, "{what}: {error}");
    assert!(start.elapsed() < SLACK, "{what}: {:?}", start.elapsed());
}

#[test]
fn endless_programs_end_at_their_deadline() {
    let limits = Limits::new().timeout(TIMEOUT);
    for target in targets() {
        for (name, text) in ENDLESS {
            if !takes(target, name) {
                continue;
            }
            for threads in [1, 2] {
                let mut executable = compiled(text, target, threads);
                executable.limit_steps(u64::MAX / 2);
                let start = Instant::now();
                let ran = executable.run_within(&limits, [input()]);
                assert!(start.elapsed() >= TIMEOUT, "{target:?} {name} ended");
                assert_stopped(
                    ran,
                    ErrorKind::Timeout,
                    &format!("{target:?} {name}"),
                    start,
                );
            }
        }
    }
}

#[test]
fn an_interrupt_of_another_thread_stops_a_run() {
    for target in targets() {
        let (name, text) = ENDLESS[2];
        let mut executable = compiled(text, target, 1);
        executable.limit_steps(u64::MAX / 2);
        let interrupt = Interrupt::new();
        let limits = Limits::new().interrupt(&interrupt);
        let start = Instant::now();
        std::thread::scope(|threads| {
            let run = threads.spawn(|| executable.run_within(&limits, [input()]));
            std::thread::sleep(Duration::from_millis(50));
            interrupt.interrupt();
            let ran = run.join().expect("no panic");
            assert_stopped(
                ran,
                ErrorKind::Interrupted,
                &format!("{target:?} {name}"),
                start,
            );
        });
    }
}

#[test]
fn a_stopped_executable_runs_again() {
    let text = "HloModule counted
        below { s = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0
          n = s32[] get-tuple-element(s), index=1 ROOT c = pred[] compare(i, n), direction=LT }
        next { s = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0
          n = s32[] get-tuple-element(s), index=1 one = s32[] constant(1)
          j = s32[] add(i, one) ROOT t = (s32[], s32[]) tuple(j, n) }
        ENTRY main { n = s32[] parameter(0) zero = s32[] constant(0)
          s = (s32[], s32[]) tuple(zero, n)
          loop = (s32[], s32[]) while(s), condition=below, body=next
          ROOT i = s32[] get-tuple-element(loop), index=0 }";
    for target in targets() {
        let mut executable = compiled(text, target, 1);
        executable.limit_steps(u64::MAX / 2);
        let limits = Limits::new().timeout(Duration::from_millis(20));
        let start = Instant::now();
        let ran = executable.run_within(&limits, [Tensor::scalar(i32::MAX)]);
        if target != Target::Cpu || ran.is_err() {
            assert_stopped(ran, ErrorKind::Timeout, &format!("{target:?}"), start);
        }
        let ran = executable.run([Tensor::scalar(1000_i32)]);
        let ran = ran.unwrap_or_else(|error| panic!("{target:?}: {error}"));
        assert_eq!(ran[0].as_slice::<i32>(), Some(&[1000][..]), "{target:?}");
    }
}

#[test]
fn a_run_stops_while_others_go_on() {
    let endless = compiled(ENDLESS[0].1, Target::Cpu, 2);
    let short = compiled(
        "HloModule short
         ENTRY main { x = f32[512,512] parameter(0)
           ROOT y = f32[512,512] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
        Target::Cpu,
        2,
    );
    let x = Tensor::from_slice(&[512, 512], &vec![1.0_f32; 512 * 512]).expect("an array");
    std::thread::scope(|threads| {
        let stopped = threads.spawn(|| {
            for _ in 0..5 {
                let limits = Limits::new().timeout(Duration::from_millis(30));
                let error = endless.run_within(&limits, [input()]).expect_err("endless");
                assert_eq!(error.kind, ErrorKind::Timeout);
            }
        });
        while !stopped.is_finished() {
            let results = short.run([&x]).expect("it has no limits");
            let all = results[0].as_slice::<f32>().expect("f32");
            assert!(all.iter().all(|&sum| sum == 512.0));
        }
    });
}

#[test]
fn a_large_product_is_stopped() {
    let n = 6000;
    let text = format!(
        "HloModule large
         ENTRY main {{ x = f32[{n},{n}] parameter(0)
           ROOT y = f32[{n},{n}] dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"
    );
    let x = Tensor::from_slice(&[n, n], &vec![1.0_f32; (n * n) as usize]).expect("an array");
    for threads in [1, 2] {
        let executable = compiled(&text, Target::Cpu, threads);
        let start = Instant::now();
        let limits = Limits::new().timeout(Duration::from_millis(100));
        let ran = executable.run_within(&limits, [&x]);
        assert_stopped(ran, ErrorKind::Timeout, "a product", start);
        assert!(
            start.elapsed() < Duration::from_secs(3),
            "{:?}",
            start.elapsed()
        );
    }
}

/// They take many seconds. (That each routine of linear algebra looks is a test of `tegula-linalg`.)
#[test]
fn eigenvalues_and_singular_values_are_stopped() {
    let n = 2500;
    let lapack = |routine: &str, config: &str, results: &str| {
        let results = results.replace("N", &n.to_string());
        let text = format!(
            "HloModule large ENTRY main {{ x = f64[{n},{n}] parameter(0)
               ROOT y = ({results}) custom-call(x), custom_call_target=\"lapack_d{routine}_ffi\",
                 api_version=API_VERSION_TYPED_FFI, backend_config={config} }}"
        );
        (routine.to_owned(), text)
    };
    let programs = [
        lapack(
            "syevd",
            "{mode = 86 : ui8, uplo = 76 : ui8}",
            "f64[N,N], f64[N], s32[]",
        ),
        lapack(
            "geev",
            "{compute_left = 86 : ui8, compute_right = 86 : ui8}",
            "f64[N], f64[N], c128[N,N], c128[N,N], s32[]",
        ),
        lapack(
            "gesdd",
            "{mode = 65 : ui8}",
            "f64[N,N], f64[N], f64[N,N], f64[N,N], s32[]",
        ),
    ];
    // Without a pattern.
    let entry =
        |at: usize| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f64 / (1 << 24) as f64;
    let numbers: Vec<f64> = (0..n * n).map(entry).collect();
    let x = Tensor::from_slice(&[n as i64; 2], &numbers).expect("an array");
    for (name, text) in programs {
        let executable = compiled(&text, Target::Cpu, 1);
        let start = Instant::now();
        let limits = Limits::new().timeout(Duration::from_millis(50));
        let ran = executable.run_within(&limits, [&x]);
        assert_stopped(ran, ErrorKind::Timeout, &name, start);
        let took = start.elapsed();
        assert!(took < Duration::from_secs(2), "{name}: {took:?}");
    }
}

#[test]
fn several_devices_are_stopped() {
    let (_, text) = ENDLESS[2];
    let module: Module = text
        .replace("HloModule arrays", "HloModule arrays, num_partitions=2")
        .replace(
            "parameter(0) yes",
            "parameter(0), sharding={devices=[2,1]<=[2]} yes",
        )
        .parse()
        .expect("a program");
    for target in [Target::Interp, Target::Plan, Target::Cpu] {
        let compiler = Compiler::new(target).devices(2);
        let mut executable = compiler.compile(&module).expect("it compiles");
        executable.limit_steps(u64::MAX / 2);
        let start = Instant::now();
        let ran = executable.run_within(&Limits::new().timeout(TIMEOUT), [input()]);
        assert_stopped(ran, ErrorKind::Timeout, &format!("{target:?}"), start);
    }
}

#[test]
fn a_compilation_without_time_is_an_error() {
    for target in targets() {
        let module: Module = ENDLESS[0].1.parse().expect("a program");
        let compiler = Compiler::new(target).limits(Limits::new().timeout(Duration::ZERO));
        let error = compiler.compile(&module).expect_err("no time");
        assert_eq!(error.kind, ErrorKind::Timeout, "{target:?}: {error}");
    }
}

#[test]
fn a_large_compilation_ends_at_its_deadline() {
    use std::fmt::Write;
    // Reductions between, so that not all is one kernel.
    let mut text = "HloModule giant
        add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
        ENTRY main { x0 = f32[64,64] parameter(0) zero = f32[] constant(0)\n"
        .to_owned();
    let count = 3000;
    for i in 0..count {
        let next = i + 1;
        let _ = writeln!(
            text,
            "r{i} = f32[64] reduce(x{i}, zero), dimensions={{{}}}, to_apply=add
             b{i} = f32[64,64] broadcast(r{i}), dimensions={{0}}
             t{i} = f32[64,64] tanh(b{i})
             x{next} = f32[64,64] subtract(x{i}, t{i})",
            i % 2
        );
    }
    let _ = writeln!(text, "ROOT y = f32[64,64] add(x{count}, x0) }}");
    let module: Module = text.parse().expect("a program");
    for target in targets() {
        if target == Target::Interp {
            continue;
        }
        let limits = Limits::new().timeout(Duration::from_millis(50));
        let start = Instant::now();
        let compiled = Compiler::new(target).limits(limits).compile(&module);
        let took = start.elapsed();
        let error = compiled.expect_err("it takes longer");
        assert_eq!(error.kind, ErrorKind::Timeout, "{target:?}: {error}");
        assert!(took < SLACK, "{target:?}: {took:?}");
    }
}

#[test]
fn huge_arrays_exceed_the_memory_limit() {
    // 4 GiB each.
    let text = "HloModule huge
        add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
        less { a = f32[] parameter(0) b = f32[] parameter(1)
          ROOT c = pred[] compare(a, b), direction=LT }
        ENTRY main { x = f32[16,16] parameter(0)
          y = f32[2048,2048,16,16] broadcast(x), dimensions={2,3}
          s = f32[2048,2048,16,16] sort(y), dimensions={1}, to_apply=less
          zero = f32[] constant(0)
          ROOT r = f32[2048] reduce(s, zero), dimensions={1,2,3}, to_apply=add }";
    // A TPU sorts in VMEM alone.
    let stored = "HloModule stored
        ENTRY main { x = f32[16,16] parameter(0) r = f32[256] reshape(x)
          y = f32[4194304,256] broadcast(r), dimensions={1} ROOT z = f32[4194304,256] add(y, y) }";
    for target in targets() {
        let text = if target == Target::Tpu { stored } else { text };
        let executable = compiled(text, target, 1);
        let start = Instant::now();
        let ran = executable.run_within(&Limits::new().memory(64 << 20), [input()]);
        assert_stopped(ran, ErrorKind::OutOfMemory, &format!("{target:?}"), start);
    }
}

#[test]
fn what_fits_runs() {
    let text = "HloModule fits
        ENTRY main { x = f32[16,16] parameter(0) ROOT y = f32[16,16] add(x, x) }";
    let limits = Limits::new()
        .timeout(Duration::from_secs(3600))
        .memory(64 << 20)
        .interrupt(&Interrupt::new());
    for target in targets() {
        let executable = compiled(text, target, 1);
        for _ in 0..3 {
            let ran = executable.run_within(&limits, [input()]);
            let ran = ran.unwrap_or_else(|error| panic!("{target:?}: {error}"));
            assert_eq!(ran[0].as_slice::<f32>(), Some(&[1.0; 256][..]));
        }
    }
}
