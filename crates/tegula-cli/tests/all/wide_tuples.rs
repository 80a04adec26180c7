//! Programs with wide tuples: the time of a command grows with its output.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const WIDTH: usize = 8000;

#[test]
fn indexing_is_not_cubic() {
    let mut text = "HloModule m ENTRY e { p = f32[4] parameter(0)\n".to_owned();
    for i in 0..WIDTH {
        let _ = writeln!(text, "x{i} = f32[4] add(p, p)");
    }
    let names: Vec<String> = (0..WIDTH).map(|i| format!("x{i}")).collect();
    let shapes = vec!["f32[4]"; WIDTH].join(", ");
    let _ = writeln!(text, "ROOT t = ({shapes}) tuple({}) }}", names.join(", "));
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wide_tuple.hlo");
    std::fs::write(&path, text).expect("a file");
    let start = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tegula"));
    let output = command.arg("index").arg(&path).output().expect("it runs");
    // This takes a fifth of a second; a cubic algorithm took more than a minute.
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "{:?}",
        start.elapsed()
    );
    let printed = String::from_utf8_lossy(&output.stdout);
    let last = printed.lines().last().unwrap_or_default();
    assert!(
        last.starts_with(&format!("  operand {}: (d0) -> (d0)", WIDTH - 1)),
        "{last}"
    );
}
