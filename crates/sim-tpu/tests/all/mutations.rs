//! Damaged kernels: every text gives an answer, without a panic, an endless run, or exhausted
//! memory.

use crate::common::{Random, chip, folder, load};
use std::time::{Duration, Instant};
use tegula_sim_tpu::{Options, PrintForm, print_kernel, read_kernel, simulate};

const PIECES: &[&str] = &[
    "0",
    "1",
    "-1",
    "7",
    "128",
    "9223372036854775807",
    "-9223372036854775808",
    "i",
    "k",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "+:",
    "..",
    "=",
    "+=",
    "->",
    "*",
    "+",
    "-",
    "mod",
    "floordiv",
    "0 +: 0",
    "for i in 0..1000000000000 {",
    "if i < 3 {",
    "wait s",
    "start ",
    "free a",
    "clipped",
    "grid i in 0..3 {",
    "window ",
    "out ",
    "parallel ",
    "buffers 64",
    "f32[1048576,1048576]",
    "f32[0]",
    "f32[]",
    "s4[3,5]",
    "pred[8]",
    "dot(",
    "reduce(",
    "to_apply=add",
    "dimensions={0}",
    "load(",
    "assume ",
    "set ",
    "let ",
    "sem t[9]",
    "\"",
    "//",
    "\n",
    "}",
    "at 5",
    "program",
    "é",
    "while {",
    "nan",
    "-inf",
    "computation c {",
];

fn mutate(text: &str, random: &mut Random) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for _ in 0..1 + random.below(3) {
        let at = random.below(characters.len());
        match random.below(5) {
            0 => {
                let end = (at + 1 + random.below(12)).min(characters.len());
                characters.drain(at..end);
            }
            1 | 2 => {
                let piece = PIECES[random.below(PIECES.len())];
                characters.splice(at..at, piece.chars());
            }
            3 => {
                let end = (at + 1 + random.below(40)).min(characters.len());
                let copy: Vec<char> = characters[at..end].to_vec();
                let to = random.below(characters.len());
                characters.splice(to..to, copy);
            }
            _ => {
                // Replaces a number by another one.
                let digit = characters.iter().skip(at).position(char::is_ascii_digit);
                if let Some(digit) = digit {
                    let piece = PIECES[random.below(7)];
                    characters.splice(at + digit..=at + digit, piece.chars());
                }
            }
        }
    }
    characters.into_iter().collect()
}

#[test]
fn damaged_kernels_get_an_answer() {
    let mut random = Random(20_261_121);
    let mut texts = Vec::new();
    for kind in ["clean", "bugs"] {
        let mut files: Vec<_> = std::fs::read_dir(folder().join(kind))
            .expect("the folder is there")
            .map(|entry| entry.expect("it can be listed").path())
            .collect();
        files.sort();
        texts.extend(files.iter().map(|path| load(path)));
    }
    let (mut read, mut ran) = (0, 0);
    for round in 0..10_000 {
        let text = mutate(&texts[round % texts.len()], &mut random);
        let begin = Instant::now();
        let Ok(program) = read_kernel(&text) else {
            continue;
        };
        read += 1;
        for form in [PrintForm::Short, PrintForm::Expanded] {
            let printed = print_kernel(&program, form);
            let again = read_kernel(&printed)
                .unwrap_or_else(|error| panic!("{error}\n{text}\n=>\n{printed}"));
            assert_eq!(print_kernel(&again, form), printed, "{text}");
        }
        for functional in [false, true] {
            let inputs = match functional && program.buffers.len() < 20 {
                true => small_inputs(&program),
                false => Vec::new(),
            };
            let options = Options {
                functional,
                inputs,
                step_limit: 100_000,
                host_bytes: 64 << 20,
                ..Options::default()
            };
            ran += usize::from(simulate(&program, &chip(""), &options).is_ok());
        }
        // Far above the time of any run, so only a run that does not end fails here.
        assert!(begin.elapsed() < Duration::from_secs(60), "{text}");
    }
    assert!(read > 500 && ran > 500, "{read} read, {ran} ran");
}

fn small_inputs(program: &tegula_sim_tpu::TpuProgram) -> Vec<tegula_ir::Literal> {
    let small = program.buffers.values().all(|buffer| {
        let elements = buffer.shape.element_count();
        elements.is_some_and(|n| n < 1 << 20)
    });
    if small {
        crate::common::inputs(program, "")
    } else {
        Vec::new()
    }
}

#[test]
fn what_is_refused_says_where_and_why() {
    let cases = [
        ("", "1:1", "expected `kernel`"),
        ("kernel k {", "1:11", "expected a statement"),
        (
            "kernel k { hbm x : f32[8,128 }",
            "1:30",
            "expected `,` or `]`",
        ),
        ("kernel k {\n  hbm x : f33[8]\n}", "2:11", "f33"),
        (
            "kernel k {\n  vmem x : f32[8] = parameter(0)\n}",
            "2:21",
            "only buffers in HBM",
        ),
        (
            "kernel k {\n  vmem a : f32[8]\n  vmem a : f32[8]\n}",
            "3:8",
            "already declared",
        ),
        (
            "kernel k { vmem a : f32[8,128]\n a[0] = negate(a[0, :]) }",
            "2:2",
            "2 dimensions",
        ),
        (
            "kernel k { vmem a : f32[8]\n a[:] = frobnicate(a[:]) }",
            "2:9",
            "is not an operation",
        ),
        (
            "kernel k { vmem a : f32[8]\n a[:] = add(a[:], a[0 +: 4]) }",
            "2:9",
            "",
        ),
        (
            "kernel k { vmem a : f32[8]\n a[:] = add(a[:], b[:]) }",
            "2:19",
            "buffer `b` is not declared",
        ),
        (
            "kernel k { vmem a : f32[8]\n a[j +: 2] = negate(a[0 +: 2]) }",
            "2:4",
            "unknown name `j`",
        ),
        (
            "kernel k { hbm x : f32[8] vmem a : f32[4] sem s\n start x[:] -> a[:], s }",
            "2:8",
            "equal",
        ),
        (
            "kernel k { hbm x : f32[8] vmem a : f32[8] sem s[2]\n start x[:] -> a[:], s }",
            "2:22",
            "add an index",
        ),
        (
            "kernel k { hbm x : f32[8] vmem a : f32[8]\n a[:] = negate(x[:]) }",
            "2:2",
            "copy it there first",
        ),
        (
            "kernel k { for mod in 0..3 { } }",
            "1:16",
            "cannot be the name",
        ),
        (
            "kernel k { wait t }",
            "1:17",
            "semaphore `t` is not declared",
        ),
        (
            "kernel k { } x",
            "1:14",
            "expected the end of the text after the kernel",
        ),
        ("kernel k { sem s[99999999] }", "1:16", "semaphores"),
        ("kernel k { if 3 { } }", "1:17", "comparison"),
        (
            "kernel k { vmem a : f32[8] let n = load(a[0]) }",
            "1:41",
            "SMEM",
        ),
        (
            "kernel k { grid i in 0..2, j in 0..i { } }",
            "1:28",
            "its own variables",
        ),
        (
            "kernel k { hbm x : f32[8,128]\n grid i in 0..2 { window w = x block (8) at (i, 0) } }",
            "2:26",
            "2 dimensions",
        ),
        (
            "kernel k { vmem a : f32[8]\n a[:] = add(a[:], one) }",
            "2:19",
            "neither a slice nor a number",
        ),
    ];
    let mut failures = Vec::new();
    for (text, place, part) in cases {
        match read_kernel(text) {
            Ok(_) => failures.push(format!("it is read: {text}")),
            Err(error) => {
                let line = error.to_string();
                if !line.starts_with(&format!("{place}:")) || !line.contains(part) {
                    failures.push(format!("{line}, expected {part} at {place}: {text}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn nesting_is_bounded() {
    let deep = format!(
        "kernel k {{ {} {} }}",
        "for i in 0..1 {".repeat(100),
        "}".repeat(100)
    );
    assert!(read_kernel(&deep).is_err());
    let deep = format!(
        "kernel k {{ let n = {}1{} }}",
        "(".repeat(5000),
        ")".repeat(5000)
    );
    assert!(read_kernel(&deep).is_err());
}

#[test]
fn a_run_that_does_not_end_is_stopped() {
    let text = "kernel k { for i in 0..9223372036854775807 { let n = i } }";
    let program = read_kernel(text).expect("a kernel");
    let options = Options {
        step_limit: 10_000,
        ..Options::default()
    };
    let error = simulate(&program, &chip(""), &options).expect_err("it does not end");
    assert!(error.to_string().contains("10000 steps"), "{error}");
}
