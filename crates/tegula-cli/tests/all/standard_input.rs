//! A program from standard input gives the same output as one from a file, even if it is read
//! several times.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn tegula(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tegula"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(input).expect("the input is taken");
    drop(stdin);
    child.wait_with_output().expect("the command ends")
}

fn check(command: &str, more: &[&str], file: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join(file);
    let bytes = std::fs::read(&path).expect("the file is there");
    let arguments = |model: &str| -> Vec<String> {
        let all = [command, model].into_iter().chain(more.iter().copied());
        all.map(str::to_owned).collect()
    };
    let run = |model: &str, input: &[u8]| {
        let arguments = arguments(model);
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        tegula(&words, input)
    };
    let given = run("-", &bytes);
    let read = run(&path.display().to_string(), &[]);
    let error = String::from_utf8_lossy(&given.stderr);
    assert!(given.status.success(), "{command}: {error}");
    assert_eq!(given.stdout, read.stdout, "{command}");
}

#[test]
fn every_reader_gets_it() {
    let model = "examples/models/softmax.hlo";
    check("compile", &["--emit", "plan"], model);
    check("index", &[], model);
    check("sizes", &[], model);
    check("layout", &["--chip", "v5e"], model);
    // The readers of kernels look at the input first, then the readers of programs.
    check("simulate", &["--chip", "v5e"], model);
    check("compile", &["--emit", "tpu"], model);
}

#[test]
fn a_model_in_stages_is_read_again() {
    let model = "../../tests/data/onnx/sample/node/test_nonzero_example/model.onnx";
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join(model);
    let bytes = std::fs::read(model).expect("the model is there");
    let shape = tegula::ArrayShape::new(tegula::ElementType::Pred, &[2, 2]);
    let condition = tegula::Literal::from_bytes(&shape, &[1, 0, 1, 1]).expect("four elements");
    let inputs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("standard_input.npz");
    let file = std::fs::File::create(&inputs).expect("a file");
    tegula::npz::write_npz(file, [("in0", &condition)]).expect("it is written");
    let inputs = inputs.display().to_string();
    let output = tegula(&["run", "-", "--inputs", &inputs], &bytes);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("for these inputs"), "{text}");
    assert!(text.contains("[0, 1, 1, 0, 0, 1]"), "{text}");
}
