//! Large results on the CPU: their memory is used again once they are dropped, and never while
//! they are there; what is stored past the caches is what is stored otherwise.

use std::borrow::Cow;
use tegula::{Arg, Executable, IsaLevel, Options, PlanOptions, Tensor, compile, plan_for};
use tegula_codegen_cpu::{Listing, StreamLimits};
use tegula_ir::Module;
use tegula_ir::{ArrayShape, ElementType, Literal};

/// A little more than a MiB.
const LEN: i64 = 300_007;

fn read(text: &str) -> Module {
    tegula_tests::read(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn compiled(text: &str, threads: usize) -> Executable {
    let options = Options {
        threads,
        ..Options::default()
    };
    compile(&read(text), &options).expect("it compiles")
}

/// `first`, `first + 1`, ..., as a buffer.
fn counted(first: f32) -> Tensor {
    let bytes: Vec<u8> = (0..LEN)
        .flat_map(|i| (first + i as f32).to_ne_bytes())
        .collect();
    let shape = ArrayShape::new(ElementType::F32, &[LEN]);
    Tensor::from(Literal::from_bytes(&shape, &bytes).expect("a literal"))
}

fn run(executable: &Executable, args: Vec<Arg<'_>>) -> Literal {
    let mut results = executable.run(args).expect("a run");
    results.pop().expect("a result").stored().clone()
}

/// Whether an array is `first`, `first + step`, ...
fn counts(array: &Literal, first: f32, step: f32) -> bool {
    let values = array.as_f32s().expect("numbers");
    let mut values = values.iter().enumerate();
    values.all(|(i, &value)| value == first + step * i as f32)
}

const SUM: &str = "HloModule sum
ENTRY main { a = f32[300007] parameter(0) b = f32[300007] parameter(1)
  ROOT c = f32[300007] add(a, b) }";

#[test]
fn what_is_dropped_is_used_again() {
    for threads in [1, 2] {
        let sum = compiled(SUM, threads);
        let (a, b) = (counted(1.0), counted(2.0));
        let args = |x, y| vec![Arg::Borrowed(x), Arg::Borrowed(y)];
        let first = run(&sum, args(&a, &b));
        let second = run(&sum, args(&a, &a));
        assert!(counts(&first, 3.0, 2.0), "another run wrote into it");
        assert!(counts(&second, 2.0, 2.0));
        let at = first.bytes().as_ptr();
        let kept = first.clone();
        drop(first);
        let third = run(&sum, args(&b, &b));
        assert!(third.bytes().as_ptr() != at && counts(&kept, 3.0, 2.0));
        drop(kept);
        let fourth = run(&sum, args(&b, &b));
        assert_eq!(fourth.bytes().as_ptr(), at);
        assert!(counts(&fourth, 4.0, 2.0));
        drop(sum);
        assert!(counts(&fourth, 4.0, 2.0) && counts(&second, 2.0, 2.0));
    }
}

/// A result in the memory of an input that is given away, or in a copy of one that is lent.
#[test]
fn what_a_result_takes_over() {
    let sum = compiled(
        &SUM.replace(
            "HloModule sum",
            "HloModule sum, input_output_alias={ {}: (0, {}, may-alias) }",
        ),
        1,
    );
    let (a, b) = (counted(1.0), counted(2.0));
    let lent = run(&sum, vec![Arg::Borrowed(&a), Arg::Borrowed(&b)]);
    assert!(counts(&lent, 3.0, 2.0) && counts(a.stored(), 1.0, 1.0));
    let at = lent.bytes().as_ptr();
    let given = run(&sum, vec![Arg::Donated(lent.into()), Arg::Borrowed(&b)]);
    assert_eq!(given.bytes().as_ptr(), at);
    assert!(counts(&given, 5.0, 3.0));
    let shared = given.clone();
    let copied = run(&sum, vec![Arg::Donated(shared.into()), Arg::Borrowed(&b)]);
    assert!(counts(&given, 5.0, 3.0) && counts(&copied, 7.0, 4.0));
    drop(given);
    let again = run(&sum, vec![Arg::Borrowed(&b), Arg::Borrowed(&a)]);
    assert_eq!(again.bytes().as_ptr(), at);
    assert!(counts(&again, 3.0, 2.0));
}

#[test]
fn several_threads_run_and_drop() {
    let sum = &compiled(SUM, 1);
    std::thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || {
                let (a, b) = (counted(number as f32), counted(0.0));
                let mut last = None;
                for _ in 0..10 {
                    let result = run(sum, vec![Arg::Borrowed(&a), Arg::Borrowed(&b)]);
                    assert!(counts(&result, number as f32, 2.0));
                    last = Some(result);
                }
                assert!(last.is_some_and(|last| counts(&last, number as f32, 2.0)));
            });
        }
    });
}

/// Bytes of every kind as an array of a parameter's shape.
fn made(shape: &ArrayShape) -> Literal {
    let len = shape.byte_size().expect("a size");
    let byte = |i: i64| ((i.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64)) >> 40) as u8;
    let bytes: Vec<u8> = match shape.element_type {
        // Numbers, which sums are exact of.
        ElementType::F32 => (0..len / 4)
            .flat_map(|i| (f32::from(byte(i)) - 100.0).to_ne_bytes())
            .collect(),
        ElementType::F64 => (0..len / 8)
            .flat_map(|i| (f64::from(byte(i)) - 100.0).to_ne_bytes())
            .collect(),
        ElementType::BF16 => (0..len / 2)
            .flat_map(|i| half::bf16::from_f32(f32::from(byte(i)) - 100.0).to_ne_bytes())
            .collect(),
        _ => (0..len).map(byte).collect(),
    };
    Literal::from_bytes(shape, &bytes).expect("a literal")
}

/// The same results with stores past the caches as with others, to the bit, on any number of
/// threads; whether there are such stores at all, if `streams` says.
fn check_streamed(text: &str, streams: Option<bool>) {
    let module = read(text);
    let planned = plan_for(&module, &PlanOptions::default());
    let plan = planned.unwrap_or_else(|e| panic!("{e}\n{text}")).plan;
    let shapes = plan.parameters.iter().map(|&p| &plan.values[p].shape);
    let inputs: Vec<Literal> = shapes.map(made).collect();
    let given = || inputs.iter().map(Cow::Borrowed).collect();
    let options = |cpu, threads, cache| tegula_codegen_cpu::Options {
        cpu,
        threads,
        streaming: StreamLimits::past(cache),
    };
    let compiled = |options| {
        tegula_codegen_cpu::Executable::new(plan.clone(), &options)
            .unwrap_or_else(|e| panic!("{e}\n{text}"))
    };
    for (cpu, has) in [
        (
            IsaLevel::X86V4,
            cfg!(target_arch = "x86_64") && has_avx512(),
        ),
        (IsaLevel::X86V3, cfg!(target_arch = "x86_64") && has_avx2()),
    ] {
        if !has {
            continue;
        }
        let lists = |cache| {
            let options = options(cpu, 1, cache);
            let text = tegula_codegen_cpu::listing(&plan, &options, Listing::Asm);
            text.expect("it compiles").contains("vmovntp")
        };
        let as_expected = streams.is_none_or(|streams| streams == lists(0));
        assert!(as_expected, "{cpu:?}\n{text}");
        assert!(!lists(u64::MAX), "{cpu:?}\n{text}");
        let expected = compiled(options(cpu, 1, u64::MAX)).run(given());
        let expected = expected.expect("a run");
        for threads in [1, 2, 3] {
            let streamed = compiled(options(cpu, threads, 0));
            for _ in 0..2 {
                let results = streamed.run(given()).expect("a run");
                assert!(results == expected, "{cpu:?}, {threads}\n{text}");
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx512() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx2() -> bool {
    false
}

#[test]
fn runs_of_any_length_past_the_caches() {
    for ty in ["f32", "f64", "bf16", "s8", "u16"] {
        for n in [
            9000, 9001, 9002, 9003, 9007, 9015, 9016, 9023, 9031, 9055, 9063, 300_007,
        ] {
            let text = format!(
                "HloModule run
ENTRY main {{ a = {ty}[{n}] parameter(0) b = {ty}[{n}] parameter(1)
  ROOT c = {ty}[{n}] add(a, b) }}"
            );
            // Eight bytes, a vector of them with AVX2, have no such store.
            check_streamed(&text, (ty != "s8").then_some(true));
        }
    }
}

/// Rows that begin with lines or not, several results, one of them also a sum of its row.
#[test]
fn rows_past_the_caches() {
    let softmax = |rows: i64, columns: i64| {
        format!(
            "HloModule rows
largest {{ x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] maximum(x, y) }}
sum {{ x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] add(x, y) }}
ENTRY main {{ a = f32[{rows},{columns}] parameter(0)
  z = f32[] constant(0) l = f32[] constant(-inf)
  m = f32[{rows}] reduce(a, l), dimensions={{1}}, to_apply=largest
  mb = f32[{rows},{columns}] broadcast(m), dimensions={{0}}
  d = f32[{rows},{columns}] subtract(a, mb) e = f32[{rows},{columns}] exponential(d)
  s = f32[{rows}] reduce(e, z), dimensions={{1}}, to_apply=sum
  sb = f32[{rows},{columns}] broadcast(s), dimensions={{0}}
  ROOT q = f32[{rows},{columns}] divide(e, sb) }}"
        )
    };
    for (rows, columns, streams) in [
        (70, 256, true),
        (70, 272, true),
        (70, 1000, false),
        (30, 2049, true),
        (7, 5003, true),
        (300, 1024, true),
        (70, 64, false),
    ] {
        check_streamed(&softmax(rows, columns), Some(streams));
    }
    // Added to a number of each row: no run is longer than a row.
    for columns in [2050, 2063, 2064] {
        let text = format!(
            "HloModule two
ENTRY main {{ a = f32[40,{columns}] parameter(0) b = f32[40] parameter(1)
  c = f32[40,{columns}] broadcast(b), dimensions={{0}} d = f32[40,{columns}] add(a, c)
  e = f32[40,{columns}] multiply(a, c) f = bf16[40,{columns}] convert(d)
  ROOT r = (f32[40,{columns}], f32[40,{columns}], bf16[40,{columns}]) tuple(d, e, f) }}"
        );
        check_streamed(&text, Some(true));
    }
}

/// What is not stored in order, or was just read.
#[test]
fn what_stays_in_the_caches() {
    let texts = [
        // Its rows are put together from columns.
        "HloModule turned
ENTRY main { a = f32[300,200] parameter(0)
  ROOT t = f32[200,300] transpose(a), dimensions={1,0} }",
        // It is in the caches as it is read.
        "HloModule inplace, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY main { a = f32[9001] parameter(0) ROOT s = f32[9001] add(a, a) }",
    ];
    for text in texts {
        check_streamed(text, Some(false));
    }
}
