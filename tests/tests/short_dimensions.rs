//! Kernels whose innermost dimension is shorter than a vector, and rotations, whose pieces
//! are.

use tegula::{Cpu, Options, Target, read};
use tegula_ir::Literal;
use tegula_tests::judge::{Reference, Verdict};
use tegula_tests::random::Regime;

/// A program of one array means on the CPU what the evaluator says.
fn holds(dims: &[i64], body: &str) {
    let list: Vec<String> = dims.iter().map(ToString::to_string).collect();
    let text = format!(
        "HloModule short ENTRY main {{ p = f32[{}] parameter(0)\n{body}\n}}",
        list.join(",")
    );
    let module = read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let count: i64 = dims.iter().product();
    let values: Vec<f32> = (0..count).map(|i| (i * 7 % 23) as f32 - 11.0).collect();
    let inputs = [Literal::from_f32s(dims, &values).expect("small")];
    let reference = Reference::new(&module, &inputs, Regime::General).expect("a meaning");
    for (cpu, threads) in [(Cpu::Native, 1), (Cpu::Native, 2), (Cpu::X86V2, 1)] {
        let options = Options {
            target: Target::Cpu,
            cpu,
            threads,
            ..Options::default()
        };
        let verdict = reference.judge_with(&module, &inputs, &options);
        assert_eq!(verdict, Ok(Verdict::Agrees), "{options:?}\n{text}");
    }
}

#[test]
fn channels_that_go_last_only_in_the_result() {
    for (channels, width) in [(3, 33), (2, 16), (1, 40), (3, 15), (5, 20)] {
        holds(
            &[4, channels, 7, width],
            &format!(
                "e = f32[4,{channels},7,{width}] exponential(p)
                 c = f32[{channels}] iota(), iota_dimension=0
                 b = f32[4,{channels},7,{width}] broadcast(c), dimensions={{1}}
                 s = f32[4,{channels},7,{width}] subtract(e, b)
                 ROOT t = f32[4,7,{width},{channels}] transpose(s), dimensions={{0,2,3,1}}"
            ),
        );
    }
}

/// Each way round along each dimension.
#[test]
fn rotations_of_three_dimensions() {
    for [a, b, c] in [[9, 11, 48], [3, 4, 17], [2, 2, 2], [1, 5, 33]] {
        let shape = format!("f32[{a},{b},{c}]");
        let mut body = String::new();
        let mut sum = "p".to_owned();
        for (d, n) in [a, b, c].into_iter().enumerate() {
            for cut in [1, n - 1] {
                let range = |from: i64, to: i64| -> String {
                    let of = |(e, &n): (usize, &i64)| match e == d {
                        true => format!("[{from}:{to}]"),
                        false => format!("[0:{n}]"),
                    };
                    [a, b, c]
                        .iter()
                        .enumerate()
                        .map(of)
                        .collect::<Vec<_>>()
                        .join(",")
                };
                let part = |n: i64| -> String {
                    let of = |(e, &all): (usize, &i64)| if e == d { n } else { all }.to_string();
                    let dims: Vec<String> = [a, b, c].iter().enumerate().map(of).collect();
                    format!("f32[{}]", dims.join(","))
                };
                body += &format!(
                    "h{d}_{cut} = {} slice(p), slice={{{}}}
                     t{d}_{cut} = {} slice(p), slice={{{}}}
                     r{d}_{cut} = {shape} concatenate(t{d}_{cut}, h{d}_{cut}), dimensions={{{d}}}
                     s{d}_{cut} = {shape} add({sum}, r{d}_{cut})\n",
                    part(cut),
                    range(0, cut),
                    part(n - cut),
                    range(cut, n),
                );
                sum = format!("s{d}_{cut}");
                if n <= 2 {
                    break;
                }
            }
        }
        holds(
            &[a, b, c],
            &format!("{body} ROOT out = {shape} negate({sum})"),
        );
    }
}
