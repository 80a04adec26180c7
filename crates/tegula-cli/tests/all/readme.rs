//! The commands of the README do what it says.

use std::path::Path;
use std::process::Command;

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The arguments of every `tegula` or `cargo run` line in a `sh` block.
fn commands() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("README.md")).expect("there is a README");
    let mut inside = false;
    let mut commands = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```sh";
        } else if inside {
            let arguments = line
                .strip_prefix("tegula ")
                .or(line.strip_prefix("cargo run --release -- "));
            commands.extend(arguments.map(str::to_owned));
        }
    }
    commands
}

#[cfg(unix)]
#[test]
fn every_command_succeeds_and_prints_something() {
    let commands = commands();
    assert!(commands.len() >= 5, "{commands:?}");
    // Where what they write is nobody's, and the examples are found.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let examples = root().join("examples").canonicalize().expect("examples");
    std::os::unix::fs::symlink(examples, folder.join("examples")).expect("a link");
    for line in commands {
        let script = format!("\"$TEGULA\" {line}");
        let output = Command::new("sh")
            .args(["-c", &script])
            .env("TEGULA", env!("CARGO_BIN_EXE_tegula"))
            .current_dir(&folder)
            .output()
            .expect("there is a shell");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {error}");
        assert!(!output.stdout.is_empty(), "{line}");
    }
}
