//! Tests the C emitter: random computations, compiled with the installed C compiler (skipped
//! without one), are compared with the provider of numbers, including faults.

use crate::common::{Random, VALUES, random_computation};
use std::fmt::Write;
use std::process::Command;
use tegula_expr::{CFunction, CText, Emitting, EvalError, KnownOperand, Numbers, Values};

const COMPUTATIONS: u64 = 60;
const POINTS: usize = 40;

fn known() -> Vec<KnownOperand> {
    vec![
        KnownOperand {
            dims: vec![None, None, Some(6)],
            elements: None,
        },
        KnownOperand {
            dims: vec![Some(2)],
            elements: None,
        },
        KnownOperand {
            dims: vec![Some(2)],
            elements: Some(vec![-3, 9]),
        },
    ]
}

fn points(random: &mut Random) -> Vec<[i64; 4]> {
    (0..POINTS)
        .map(|_| [(); 4].map(|()| VALUES[(random.next() % VALUES.len() as u64) as usize]))
        .collect()
}

#[test]
fn c_text_means_what_numbers_mean() {
    let has_compiler = Command::new("cc").arg("--version").output();
    if !has_compiler.is_ok_and(|output| output.status.success()) {
        println!("skipped: no C compiler (cc)");
        return;
    }
    let (known, mut text) = (
        known(),
        format!("#include <stdio.h>\n{}", CFunction::PRELUDE),
    );
    let mut calls = String::new();
    let mut expected = Vec::new();
    for case in 0..COMPUTATIONS {
        let mut provider = Emitting(CText::new(&known));
        let results = random_computation(&mut provider, &mut Random(case));
        let name = format!("computation{case}");
        text.push_str(&provider.function(&name, &results).definition);
        let _ = writeln!(
            calls,
            "    for (int p = 0; p < {POINTS}; p++) {{\n        \
             long long dims0[3] = {{points[p][0], points[p][1], 6}}, dims1[1] = {{2}};\n        \
             const long long *dims[3] = {{dims0, dims1, dims1}};\n        \
             const long long *elements[3] = {{0, points[p] + 2, 0}};\n        \
             long long out[{count}] = {{0}};\n        \
             int fault = {name}(dims, elements, out);\n        \
             printf(\"%d\", fault);\n        \
             for (int i = 0; !fault && i < {count}; i++) printf(\" %lld\", out[i]);\n        \
             printf(\"\\n\");\n    }}",
            count = results.len()
        );
        for [a, b, c, d] in points(&mut Random(7)) {
            let dims = [vec![a, b, 6], vec![2], vec![2]];
            let elements = [vec![], vec![c, d], vec![-3, 9]];
            let mut numbers = Numbers(Values {
                dims: &dims,
                elements: &elements,
            });
            let results = random_computation(&mut numbers, &mut Random(case));
            let results: Result<Vec<i64>, EvalError> = results.into_iter().collect();
            expected.push(match results {
                Ok(values) => values
                    .iter()
                    .fold("0".to_owned(), |line, v| format!("{line} {v}")),
                Err(EvalError::DivisionByZero) => "2".to_owned(),
                Err(_) => "1".to_owned(),
            });
        }
    }
    let spell = |value: i64| match value {
        i64::MIN => "(-9223372036854775807LL - 1)".to_owned(),
        value => format!("{value}LL"),
    };
    let rows = points(&mut Random(7));
    let rows = rows
        .iter()
        .map(|p| format!("{{{}}}", p.map(spell).join(", ")));
    let rows = rows.collect::<Vec<_>>().join(",\n    ");
    let _ = write!(
        text,
        "static const long long points[{POINTS}][4] = {{\n    {rows}\n}};\n\n\
         int main(void)\n{{\n{calls}    return 0;\n}}\n"
    );
    let folder = std::env::temp_dir().join(format!("tegula-c-text-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the program");
    let (source, program) = (folder.join("sizes.c"), folder.join("sizes"));
    std::fs::write(&source, &text).expect("writing the program");
    // The sanitiser traps on undefined behaviour.
    let flags = ["-std=c99", "-Wall", "-Werror", "-Wno-unused"];
    let built = Command::new("cc")
        .args(flags)
        .args([
            "-O1",
            "-fsanitize=undefined",
            "-fsanitize-undefined-trap-on-error",
            "-o",
        ])
        .args([&program, &source])
        .output()
        .expect("running cc");
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    let run = Command::new(&program)
        .output()
        .expect("running the program");
    assert!(run.status.success(), "{:?}", run.status);
    let found = String::from_utf8_lossy(&run.stdout).into_owned();
    for (line, (found, expected)) in found.lines().zip(&expected).enumerate() {
        let (case, point) = (line / POINTS, line % POINTS);
        assert_eq!(found, expected, "computation {case}, point {point}");
    }
    assert_eq!(found.lines().count(), expected.len());
    std::fs::remove_dir_all(&folder).expect("removing the folder");
}
