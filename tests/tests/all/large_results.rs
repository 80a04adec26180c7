//! The memory of large results on the CPU: it is used again once they are dropped, and never
//! while they are there.

use tegula::{Arg, Buffer, Executable, Module, Options, compile};
use tegula_ir::{ArrayShape, ElementType, Literal};

/// A little more than a MiB.
const LEN: i64 = 300_007;

fn read(text: &str) -> Module {
    tegula::read(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn compiled(text: &str, threads: usize) -> Executable {
    let options = Options {
        threads,
        ..Options::default()
    };
    compile(&read(text), &options).expect("it compiles")
}

/// `first`, `first + 1`, ..., as a buffer.
fn counted(first: f32) -> Buffer {
    let bytes: Vec<u8> = (0..LEN)
        .flat_map(|i| (first + i as f32).to_ne_bytes())
        .collect();
    let shape = ArrayShape::new(ElementType::F32, &[LEN]);
    Buffer::from(Literal::from_bytes(&shape, &bytes).expect("a literal"))
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
