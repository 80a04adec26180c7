//! Mutated programs and arrays: whatever is read compiles or is an error, and never
//! a panic. `TEGULA_SWEEP` says how many mutations are tried.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tegula::npz::{read_npz, write_npz};
use tegula::random_input::random_inputs;
use tegula::{ErrorKind, Options, Target, compile};
use tegula_ir::ElementType;
use tegula_ir::Module;
use tegula_tests::models::{folder, names};
use tegula_tests::random::{Random, Regime, random_program};
use tegula_tests::read;
use tegula_tests::symbolic::symbolic_program;

fn count(default: u64) -> u64 {
    let sweep = std::env::var("TEGULA_SWEEP").ok();
    sweep.and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// A token of a program: a word, a number, or one other character.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || "_-.".contains(c);
        let end = match word(first) {
            true => rest.find(|c| !word(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (token, after) = rest.split_at(end);
        tokens.push(token);
        rest = after;
    }
    tokens
}

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "7",
    "?",
    "<=4",
    "-1",
    "100000",
    "2147483648",
];

const OPERATIONS: &[&[&str]] = &[
    &[
        "add",
        "subtract",
        "multiply",
        "divide",
        "maximum",
        "power",
        "remainder",
        "and",
        "xor",
    ],
    &[
        "negate",
        "abs",
        "exponential",
        "tanh",
        "sign",
        "floor",
        "not",
        "is-finite",
        "cbrt",
    ],
    &[
        "f32", "s32", "bf16", "f64", "pred", "u8", "s4", "c64", "f8e5m2",
    ],
    &["LT", "GE", "EQ", "NE"],
];

/// What a token may be replaced by and still make sense.
fn alike(token: &str, random: &mut Random) -> Option<&'static str> {
    if token.chars().all(|c| c.is_ascii_digit()) {
        return Some(*random.pick(NUMBERS));
    }
    let group = OPERATIONS.iter().find(|group| group.contains(&token))?;
    Some(*random.pick::<&str>(group))
}

/// A program with some of its tokens changed, here and there or everywhere.
fn mutate(text: &str, random: &mut Random) -> String {
    let mut tokens = tokens(text);
    for _ in 0..=random.below(2) {
        let start = random.below(tokens.len());
        let places = (start..tokens.len()).chain(0..start);
        let mut candidates = places.filter(|&i| alike(tokens[i], &mut Random::new(0)).is_some());
        let Some(at) = candidates.next() else { break };
        let old = tokens[at];
        let new = match random.below(8) {
            0 => tokens[random.below(tokens.len())],
            1 => "",
            _ => alike(old, random).unwrap_or_default(),
        };
        if random.once_in(2) {
            // A size, a type or an operation everywhere: more of these are right.
            tokens
                .iter_mut()
                .filter(|t| **t == old)
                .for_each(|t| *t = new);
        } else {
            tokens[at] = new;
        }
    }
    tokens.concat()
}

/// Reads and compiles; gives whether it was read.
fn exercise(text: &str) -> bool {
    let Ok(module) = read(text) else { return false };
    for target in [Target::Plan, Target::Cpu] {
        let options = Options {
            target,
            ..Options::default()
        };
        match compile(&module, &options) {
            Ok(executable) => run(&module, &executable),
            Err(error) => assert_ne!(error.kind, ErrorKind::Bug, "{error}"),
        }
    }
    true
}

/// Runs what is small.
fn run(module: &Module, executable: &tegula::Executable) {
    let loops = module.computations.values().flat_map(|c| &c.instructions);
    let loops = loops.filter(|&&i| matches!(module[i].op, tegula_ir::Op::While { .. }));
    let large = module.instructions.values().any(|instruction| {
        let leaves = tegula_fusion::array_leaves(&instruction.shape);
        leaves
            .iter()
            .any(|leaf| leaf.element_count().is_none_or(|n| n > 4096))
    });
    // A mutated loop need not end.
    if large || loops.count() > 0 {
        return;
    }
    if let Ok(inputs) = random_inputs(module, 1) {
        let arguments = inputs.iter();
        if let Err(error) = executable.run(arguments) {
            assert_ne!(error.kind, ErrorKind::Bug, "{error}");
        }
    }
}

#[test]
fn programs() {
    let mut texts: Vec<String> = names()
        .expect("the examples")
        .iter()
        .map(|name| fs::read_to_string(folder().join(format!("{name}.hlo"))).expect("its text"))
        .filter(|text| text.len() < 8000)
        .collect();
    texts.extend((0..100).map(|seed| random_program(seed, Regime::Dyadic).text));
    texts.extend((0..100).map(|seed| symbolic_program(seed).text));
    let mut random = Random::new(5);
    let count = count(1500);
    let mut read = 0;
    for round in 0..count {
        let text = mutate(&texts[round as usize % texts.len()], &mut random);
        match catch_unwind(AssertUnwindSafe(|| exercise(&text))) {
            Ok(was_read) => read += u64::from(was_read),
            Err(_) => panic!("this program panics:\n{text}"),
        }
    }
    // Otherwise only the reader is tested.
    assert!(read * 20 > count, "{read} of {count} were read");
}

#[test]
fn arrays() {
    let mut files: Vec<Vec<u8>> = Vec::new();
    for seed in 0..8 {
        let inputs = random_program(seed, Regime::General).inputs;
        let named: Vec<String> = (0..inputs.len()).map(|i| format!("in{i}")).collect();
        let mut bytes = std::io::Cursor::new(Vec::new());
        write_npz(&mut bytes, named.iter().map(String::as_str).zip(&inputs)).expect("a file");
        files.push(bytes.into_inner());
    }
    files.push(fs::read(folder().join("softmax.npz")).expect("a file"));
    let mut random = Random::new(6);
    let mut read = 0;
    let count = count(4000);
    for round in 0..count {
        let mut bytes = files[round as usize % files.len()].clone();
        for _ in 0..=random.below(4) {
            // Headers and the directory are at the ends.
            let near = random.below(200).min(bytes.len() - 1);
            let at = match random.below(3) {
                0 => near,
                1 => bytes.len() - 1 - near,
                _ => random.below(bytes.len()),
            };
            match random.below(5) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] = 0xff,
                2 => bytes[at] = 0,
                3 => bytes[at] ^= 1 << random.below(8),
                _ => bytes[at] = random.word() as u8,
            }
        }
        if let Ok(arrays) = read_npz(&bytes) {
            read += 1;
            for array in arrays {
                for ty in [ElementType::F32, ElementType::BF16, ElementType::S4] {
                    let _ = array.to_literal(ty);
                }
            }
        }
    }
    assert!(read * 20 > count, "{read} of {count} were read");
}
