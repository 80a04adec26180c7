//! `tegula reduce` runs the command on candidates and writes the smallest.

use std::fmt::Write;
use std::process::Command;

#[test]
fn a_chain_shrinks_to_the_operation_that_the_command_looks_for() {
    let mut text = "HloModule chain\n\nENTRY main {\n  x0 = f32[8] parameter(0)\n".to_owned();
    for i in 1..30 {
        let op = if i == 17 { "tanh" } else { "negate" };
        let _ = writeln!(text, "  x{i} = f32[8] {op}(x{})", i - 1);
    }
    text.push_str("  ROOT r = f32[8] negate(x29)\n}\n");
    let folder = std::env::temp_dir().join(format!("tegula-reduce-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("there is room for a folder");
    let (model, output) = (folder.join("chain.hlo"), folder.join("small.hlo"));
    std::fs::write(&model, text).expect("the program can be written");
    let run = Command::new(env!("CARGO_BIN_EXE_tegula"))
        .arg("reduce")
        .arg(&model)
        .arg("-o")
        .arg(&output)
        .args([
            "--json",
            "--",
            "sh",
            "-c",
            "grep -q tanh \"$0\" && exit 1; exit 0",
        ])
        .output()
        .expect("tegula runs");
    let small = std::fs::read_to_string(&output).unwrap_or_default();
    let errors = String::from_utf8_lossy(&run.stderr);
    let _ = std::fs::remove_dir_all(&folder);
    assert!(run.status.success(), "{errors}");
    let report: serde_json::Value = serde_json::from_slice(&run.stdout).expect("one JSON object");
    assert_eq!(report["instructions"], 2, "{small}");
    assert!(
        small.contains("tanh") && !small.contains("negate"),
        "{small}"
    );
}
