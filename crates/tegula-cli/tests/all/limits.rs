//! `--timeout`, `--memory` and Ctrl-C: each gives a one-line message, its own exit code and no
//! half-written file.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const ENDLESS: &str = "HloModule endless
    always { x = f32[4] parameter(0) ROOT yes = pred[] constant(true) }
    next { x = f32[4] parameter(0) ROOT y = f32[4] cosine(x) }
    ENTRY main { x = f32[4] parameter(0)
      ROOT loop = f32[4] while(x), condition=always, body=next }";

const HUGE: &str = "HloModule huge
    ENTRY main { x = f32[65536,16384] parameter(0) ROOT y = f32[65536,16384] add(x, x) }";

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("limits_{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn command(folder: &Path, program: &str, line: &str) -> Command {
    let path = folder.join("program.hlo");
    std::fs::write(&path, program).expect("a file");
    let out = folder.join("out.npz").display().to_string();
    let inputs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("limits_inputs.npz");
    let zeros = tegula::Literal::from_values(&[4], &[0.0_f32; 4]).expect("an array");
    let file = std::fs::File::create(&inputs).expect("a file");
    tegula::npz::write_npz(file, [("in0", &zeros)]).expect("an archive");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tegula"));
    let words = line.split(' ');
    command.args(words.map(|word| match word {
        "%s" => path.display().to_string(),
        "%o" => out.clone(),
        "%i" => inputs.display().to_string(),
        word => word.to_owned(),
    }));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_command_ends_at_its_time_limit() {
    let folder = folder("timeout");
    for line in [
        "run %s --timeout 0.3 --outputs %o",
        "run %s --timeout 0.3 --target plan",
        "run %s --timeout 0.3 --target interp --steps 1000000000000",
        "run %s --timeout 0.3 --target tpu --steps 1000000000000",
        "bench %s --timeout 0.3",
        "simulate %s --timeout 0.3 --steps 1000000000000 --inputs %i",
        "compile %s --timeout 0 --emit plan",
        "run %s --timeout 0",
    ] {
        let start = Instant::now();
        let output = command(&folder, ENDLESS, line).output().expect("it runs");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(124), "{line}: {said}");
        assert!(
            said.contains("the time limit was reached"),
            "{line}: {said}"
        );
        assert!(start.elapsed() < Duration::from_secs(20), "{line}");
        assert!(!folder.join("out.npz").exists(), "{line}");
    }
}

#[test]
fn a_command_ends_at_its_memory_limit() {
    let folder = folder("memory");
    for line in [
        "run %s --memory 1GiB",
        "run %s --memory 1000000 --target interp",
        "run %s --memory 0.5GiB --target plan",
        "bench %s --memory 64MiB",
        "run %s --memory 64MiB --target tpu",
    ] {
        let output = command(&folder, HUGE, line).output().expect("it runs");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(
            said.contains("more bytes of memory exceed"),
            "{line}: {said}"
        );
    }
    let small = "HloModule small
        ENTRY main { x = f32[4] parameter(0) ROOT y = f32[4] add(x, x) }";
    let line = "run %s --memory 64MiB --timeout 600";
    let output = command(&folder, small, line).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn limits_that_are_none_are_said() {
    let folder = folder("wrong");
    for (option, said) in [
        ("--timeout soon", "expected a number of seconds"),
        ("--timeout -1", "expected a number of seconds"),
        ("--memory much", "expected a number of bytes"),
        ("--memory 1e400", "expected a number of bytes"),
    ] {
        let option = option.replace(' ', "=");
        let line = format!("run %s {option}");
        let output = command(&folder, ENDLESS, &line).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(
            stderr(&output).contains(said),
            "{line}: {}",
            stderr(&output)
        );
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_command_with_one_line() {
    let folder = folder("interrupt");
    for line in [
        "run %s --outputs %o",
        "run %s --outputs %o --target plan",
        "bench %s",
        "simulate %s --steps 1000000000000 --outputs %o --inputs %i",
    ] {
        let child = command(&folder, ENDLESS, line).spawn().expect("it starts");
        std::thread::sleep(Duration::from_millis(700));
        let start = Instant::now();
        let sent = Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status();
        assert!(sent.expect("kill runs").success(), "{line}");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(
            output.status.code(),
            Some(130),
            "{line}: {}",
            stderr(&output)
        );
        assert_eq!(stderr(&output), "interrupted\n", "{line}");
        assert!(output.stdout.is_empty(), "{line}");
        assert!(start.elapsed() < Duration::from_secs(10), "{line}");
        let left: Vec<_> = std::fs::read_dir(&folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        assert_eq!(left, ["program.hlo"], "{line}");
    }
}
