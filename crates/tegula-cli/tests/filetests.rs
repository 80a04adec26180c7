//! File tests: the header of a program has commands, and the end of the file has their output.
//!
//! A file of `tests/filetests` is a program (or empty). Lines `// run: COMMAND ARGUMENTS` come
//! before the program, where `%s` stands for the file itself. The output of all commands follows
//! the program, each line after `//> `: standard output, then standard error, then the exit code if
//! it is not 0. Times are replaced by `#`. `TEGULA_BLESS=1` rewrites the output.

use libtest_mimic::{Arguments, Failed, Trial};
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/filetests");
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    let trials: Vec<Trial> = files
        .into_iter()
        .map(|path| {
            let name = path
                .strip_prefix(&root)
                .unwrap_or(&path)
                .display()
                .to_string();
            Trial::test(name, move || check(&path).map_err(Failed::from))
        })
        .collect();
    assert!(
        !trials.is_empty(),
        "there are no file tests in {}",
        root.display()
    );
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder)
        .expect("the folder of file tests is there")
        .flatten()
    {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}

fn check(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let program: String = text
        .lines()
        .filter(|l| !l.starts_with("//>"))
        .map(|l| format!("{l}\n"))
        .collect();
    let expected: String = text
        .lines()
        .filter_map(|l| l.strip_prefix("//>"))
        .map(|l| format!("{}\n", l.strip_prefix(' ').unwrap_or(l)))
        .collect();
    let mut actual = String::new();
    for line in text.lines().filter_map(|l| l.strip_prefix("// run: ")) {
        actual.push_str(&run(line, path)?);
    }
    if actual.is_empty() {
        return Err("no `// run:` line, or nothing was printed".to_owned());
    }
    if actual == expected {
        return Ok(());
    }
    if std::env::var_os("TEGULA_BLESS").is_some() {
        let output: String = actual
            .lines()
            .map(|l| format!("//> {l}").trim_end().to_owned() + "\n")
            .collect();
        let program = program.trim_end();
        return std::fs::write(path, format!("{program}\n\n{output}")).map_err(|e| e.to_string());
    }
    Err(format!("expected:\n{expected}\nactual:\n{actual}"))
}

fn run(line: &str, path: &Path) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tegula"));
    // Commands run in the file's own folder, so that messages do not contain the path of the tests.
    command.current_dir(path.parent().unwrap_or(Path::new(".")));
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    for argument in split(line) {
        command.arg(argument.replace("%s", &file));
    }
    let output = command.output().map_err(|e| e.to_string())?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    match output.status.code() {
        Some(0) => {}
        Some(code) => text.push_str(&format!("exit code {code}\n")),
        None => text.push_str("killed by a signal\n"),
    }
    // Trailing blanks are ignored, because `//>` alone cannot preserve them.
    Ok(without_times(&text)
        .lines()
        .map(|l| l.trim_end().to_owned() + "\n")
        .collect())
}

/// Splits a line into words; text in single quotes is one word.
fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (i, part) in line.split('\'').enumerate() {
        if i % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// Replaces numbers before ` ms` and after `_ms":` by `#`, and also simulated times, which change
/// with the chip's parameters.
fn without_times(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(" ms") {
        let before = &rest[..at];
        let digits = before.trim_end_matches(is_number);
        out.push_str(digits);
        if digits.len() < before.len() {
            out.push('#');
        }
        out.push_str(" ms");
        rest = &rest[at + 3..];
    }
    out.push_str(rest);
    for key in ["_ms\":", "\"seconds\":"] {
        let text = std::mem::take(&mut out);
        let mut parts = text.split(key);
        out.push_str(parts.next().unwrap_or_default());
        for part in parts {
            out.push_str(key);
            out.push('#');
            out.push_str(part.trim_start_matches(is_number));
        }
    }
    let simulated = |line: &str| {
        let line = line.strip_suffix('\n').unwrap_or(line);
        match line.starts_with("  time ") {
            true => "  time      #\n".to_owned(),
            false => format!("{line}\n"),
        }
    };
    out.split_inclusive('\n').map(simulated).collect()
}

fn is_number(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '.' | 'e' | '-')
}
