//! Fuzz tests of the reader: hostile text must not cause a panic, nor take much time or memory.
//!
//! `TEGULA_SWEEP` sets the number of mutations.

use std::path::Path;
use tegula_ir::{
    Module, PrintStyle, parse_literal, parse_module, parse_shape, print_module, verify,
};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Texts that mutations insert, likely to cause errors.
const SPLICES: &[&str] = &[
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ",",
    "=",
    ":",
    "#0",
    "%",
    "\"",
    "/*",
    "*/",
    "//",
    "?",
    "<=8",
    "-1",
    "0",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "1x2",
    "1_1",
    "b01f_01io->b01f",
    "nan(0x1)",
    "inf",
    "{...}",
    "ROOT ",
    "ENTRY ",
    "f32[]",
    "()",
    "token[]",
    "s32[?]{0}",
    "f32[<=3]",
    "tuple(",
    "constant(",
    "dimensions={0}",
    "dimensions={7}",
    "to_apply=",
    "window={size=3}",
    "index=1",
    "é",
    "\u{0}",
    "'",
    "copy-start",
    "custom-call-start",
    "async-done",
];

/// Mutates a text at token boundaries, found by a crude rule.
fn mutate(text: &str, others: &[String], random: &mut Random) -> String {
    let mut text: Vec<char> = text.chars().collect();
    for _ in 0..1 + random.below(9) / 6 {
        let at = random.below(text.len());
        let end = (at + 1 + random.below(12)).min(text.len());
        match random.below(6) {
            0 => drop(text.drain(at..end)),
            1 => {
                let splice = SPLICES[random.below(SPLICES.len())];
                text.splice(at..at, splice.chars());
            }
            2 => {
                let splice = SPLICES[random.below(SPLICES.len())];
                text.splice(at..end, splice.chars());
            }
            3 => {
                let piece: Vec<char> = text[at..end].to_vec();
                let to = random.below(text.len());
                text.splice(to..to, piece);
            }
            4 => {
                // Replaces a number, if there is one.
                let digits = |c: &char| c.is_ascii_digit();
                if let Some(place) = text[at..].iter().position(digits) {
                    let value = random.next() >> random.below(64);
                    text.splice(at + place..at + place + 1, value.to_string().chars());
                }
            }
            _ => {
                let other: Vec<char> = others[random.below(others.len())].chars().collect();
                let from = random.below(other.len());
                let until = (from + 40).min(other.len());
                text.splice(at..end, other[from..until].iter().copied());
            }
        }
    }
    text.into_iter().collect()
}

/// Calls everything that can be called on a module that was read.
fn exercise(module: &Module) {
    let _ = verify(module);
    for style in [PrintStyle::Canonical, PrintStyle::Short] {
        let printed = print_module(module, style);
        let again = parse_module(&printed)
            .unwrap_or_else(|error| panic!("{error}\nfrom\n{}\nto\n{printed}", module.source));
        assert_eq!(
            print_module(&again, style),
            printed,
            "from\n{}",
            module.source
        );
    }
}

#[test]
fn mutated_programs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/hlo");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "hlo"));
    paths.sort();
    let read = |path| std::fs::read_to_string(path).expect("text");
    let mut texts: Vec<String> = paths.into_iter().map(read).collect();
    texts.retain(|text| text.len() < 4000);
    texts.push(include_str!("../data/operations.hlo").to_owned());
    let count: usize = std::env::var("TEGULA_SWEEP")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(10_000);
    let mut random = Random(1);
    let mut read = 0;
    for round in 0..count {
        let text = mutate(&texts[round % texts.len()], &texts, &mut random);
        if let Ok(module) = parse_module(&text) {
            read += 1;
            exercise(&module);
        }
    }
    // If too few mutated texts can be read, the mutations test only the lexer.
    assert!(read * 40 > count, "{read} of {count}");
}

#[test]
fn deep_nesting() {
    for (open, close) in [
        ("(", ")"),
        ("{", "}"),
        ("[", "]"),
        ("abs(", ")"),
        ("b(", ")"),
        ("f32[", "]"),
    ] {
        let deep = format!("{}{}", open.repeat(1_000_000), close.repeat(1_000_000));
        assert!(parse_shape(&deep).is_err());
        assert!(parse_module(&deep).is_err());
        assert!(parse_module(&format!("e {{ x = {deep} }}")).is_err());
        assert!(parse_module(&format!("e {{ x = f32[] abs({deep}) }}")).is_err());
        assert!(parse_literal(&format!("f32[2] {deep}")).is_err());
        let _ = parse_module(&format!("e {{ x = f32[] parameter(0), sharding={deep} }}"));
        let _ = parse_module(&format!(
            "HloModule m, x={deep} e {{ x = f32[] parameter(0) }}"
        ));
    }
}

#[test]
fn large_garbage() {
    let mut random = Random(7);
    let garbage: String = (0..10_000_000)
        .map(|_| (b' ' + random.below(95) as u8) as char)
        .collect();
    assert!(parse_module(&garbage).is_err());
    for piece in [
        "a ",
        "{",
        "%a = ",
        "/* ",
        "\"",
        "// \n",
        "1",
        "x1",
        "f32[1]{0} ",
        "\u{fffd}",
    ] {
        let text = piece.repeat(2_000_000);
        assert!(parse_module(&text).is_err(), "{piece}");
        assert!(parse_shape(&text).is_err(), "{piece}");
    }
}

/// Sizes that the text only states must not be allocated.
#[test]
fn huge_sizes() {
    for text in [
        "e { x = f32[1099511627776] constant({1}) }",
        "e { x = f32[0,1099511627776] constant({1}) }",
        "e { x = s4[1099511627776] iota(), iota_dimension=0 }",
        "e { x = f32[9223372036854775807,9223372036854775807] parameter(0) y = abs(x) }",
        "e { x = f32[] parameter(4294967295) }",
        "e { x = f32[9223372036854775807] parameter(0) y = concatenate(x, x), dimensions={0} }",
        "e { x = f32[5] parameter(0) z = f32[] constant(0) y = pad(x, z), padding=0_0_9223372036854775807 }",
        "e { x = f32[5] parameter(0) z = f32[] constant(0) y = pad(x, z), padding=9223372036854775807_1 }",
    ] {
        if let Ok(module) = parse_module(text) {
            let _ = verify(&module);
        }
    }
}

/// Many computations that call one another in a chain.
#[test]
fn long_chains() {
    let mut text = String::new();
    for number in (0..50_000).rev() {
        let call = match number {
            0 => "abs(x)".to_owned(),
            n => format!("call(x), to_apply=c{}", n - 1),
        };
        text.push_str(&format!(
            "c{number} {{ x = f32[] parameter(0) y = f32[] {call} }}\n"
        ));
    }
    text.push_str("ENTRY m { x = f32[] parameter(0) y = f32[] call(x), to_apply=c49999 }");
    let module = parse_module(&text).expect("reads");
    assert!(verify(&module).is_ok());
}

/// Nested tuples and sums that a short text can make exponentially large.
#[test]
fn exponential_growth() {
    let chain = |first: &str, step: &dyn Fn(usize) -> String, steps: usize| {
        let mut text = format!("e {{ {first}\n");
        for n in 1..=steps {
            text.push_str(&format!("x{n} = {}\n", step(n - 1)));
        }
        text + "}"
    };
    for steps in [60, 100_000] {
        let wide = chain(
            "x0 = f32[] parameter(0)",
            &|n| format!("tuple(x{n}, x{n})"),
            steps,
        );
        assert!(parse_module(&wide).is_err());
        let starts = chain(
            "x0 = f32[] parameter(0)",
            &|n| format!("copy-start(x{n})"),
            steps,
        );
        assert!(parse_module(&starts).is_err());
        let grow = |n| format!("concatenate(x{n}, x{n}), dimensions={{0}}");
        for size in ["?", "<=3", "7"] {
            let sums = chain(&format!("x0 = f32[{size}] parameter(0)"), &grow, steps);
            if let Ok(module) = parse_module(&sums) {
                let _ = verify(&module);
                let _ = print_module(&module, PrintStyle::Canonical);
            }
        }
    }
    let deep = chain(
        "x0 = f32[] parameter(0)",
        &|n| format!("tuple(x{n})"),
        100_000,
    );
    assert!(parse_module(&deep).is_err());
    let taken: String = (0..20_000)
        .map(|n| format!("abs.{n} = f32[] parameter({n})\n"))
        .collect();
    let nested = "y".to_owned();
    let uses: String = (0..20_000)
        .map(|n| format!("{nested}{n} = add(abs(abs.0), abs.1)\n"))
        .collect();
    assert!(parse_module(&format!("e {{ {taken}{uses} }}")).is_ok());
}
