//! Files that are cut off or changed are errors or other models, never panics.

use std::path::Path;
use std::sync::Arc;
use tegula_import_onnx::{Owner, is_model, to_module};

fn read(bytes: &[u8]) -> bool {
    let none = |_: &str| Err("there is no external data".to_owned());
    let owner: Owner = Arc::new(bytes.to_vec());
    to_module(&owner, &none, &|_, _, _| None).is_ok()
}

#[test]
fn cut_off_and_changed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/onnx/sample/node");
    let mut models = 0;
    let mut readable = 0;
    for entry in std::fs::read_dir(folder).expect("the sample is in the repository") {
        let path = entry.expect("a folder").path().join("model.onnx");
        let bytes = std::fs::read(path).expect("a model");
        assert!(is_model(&bytes));
        readable += usize::from(read(&bytes));
        for at in 0..bytes.len() {
            read(&bytes[..at]);
            let mut changed = bytes.clone();
            for value in [0, 0x7f, 0xff, bytes[at] ^ 1, bytes[at] ^ 0x10] {
                changed[at] = value;
                read(&changed);
            }
        }
        models += 1;
    }
    assert!(models >= 40, "{models} models in the sample");
    assert!(
        readable >= 20,
        "only {readable} of {models} models are read"
    );
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
        "operators that are not supported: Frob of opset 20 (the node of `a` (Frob)); \
         Nix of opset 20 (the node of `b` (Nix))"
    );
}
