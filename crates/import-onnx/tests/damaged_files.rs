//! Truncated or modified files must give errors or other models, never panics.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tegula_import_onnx::{Owner, is_model, to_module, to_stages};

/// Reads a model as a single program and as stages; says whether either succeeds.
fn read(bytes: &[u8]) -> bool {
    let none = |_: &str| Err("there is no external data".to_owned());
    let owner: Owner = Arc::new(bytes.to_vec());
    let whole = to_module(&owner, &none, &|_, _, _| None).is_ok();
    to_stages(&owner, &none, &[]).is_ok() || whole
}

fn models_in(folder: &Path) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(folder).expect("a folder of tests");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a folder").path().join("model.onnx"))
        .collect();
    paths.sort();
    let models = paths.iter().map(std::fs::read);
    models.map(|bytes| bytes.expect("a model")).collect()
}

/// Reads variants of a model, in which one of `places` bytes is modified.
fn change(bytes: &[u8], places: usize) {
    for at in (0..bytes.len()).step_by((bytes.len() / places).max(1)) {
        let mut changed = bytes.to_vec();
        for value in [0, 0x7f, 0xff, bytes[at] ^ 1, bytes[at] ^ 0x10] {
            changed[at] = value;
            read(&changed);
        }
    }
}

#[test]
fn cut_off_and_changed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/onnx/sample/node");
    let models = models_in(&folder);
    let mut readable = 0;
    for bytes in &models {
        assert!(is_model(bytes));
        readable += usize::from(read(bytes));
        for at in 0..bytes.len() {
            read(&bytes[..at]);
        }
        change(bytes, bytes.len());
    }
    let count = models.len();
    assert!(count >= 40, "{count} models in the sample");
    for kind in ["microsoft", "ml"] {
        let models = models_in(&folder.with_file_name(kind));
        assert!(models.len() >= 80, "{} models of {kind}", models.len());
        for bytes in &models {
            assert!(read(bytes), "a model of {kind} is not read");
            change(bytes, 100);
        }
    }
    assert!(readable >= 20, "only {readable} of {count} models are read");
}

/// Modifies some bytes of every model of the backend suite, if `TEGULA_ONNX_SUITE` names its
/// folder, to test each operator's own checks of ranks and sizes.
#[test]
fn every_operator_changed() {
    let Some(suite) = std::env::var_os("TEGULA_ONNX_SUITE") else {
        return;
    };
    for bytes in models_in(&Path::new(&suite).join("node")) {
        change(&bytes, 60);
    }
}

#[test]
fn names_every_operator_that_is_missing() {
    // A graph of two nodes, `Frob` and `Nix`, of opset 20.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut all = vec![number << 3 | 2, bytes.len() as u8];
        all.extend_from_slice(bytes);
        all
    }
    let node = |op: &[u8], output: &[u8]| field(1, &[field(2, output), field(4, op)].concat());
    let graph = field(7, &[node(b"Frob", b"a"), node(b"Nix", b"b")].concat());
    let bytes = [graph, field(8, &[0x10, 20])].concat();
    let none = |_: &str| Err(String::new());
    let owner: Owner = Arc::new(bytes);
    let error = to_module(&owner, &none, &|_, _, _| None).expect_err("not supported");
    assert_eq!(
        error.message,
        "unsupported operators: Frob of opset 20 (the node of `a` (Frob)); \
         Nix of opset 20 (the node of `b` (Nix))"
    );
}
