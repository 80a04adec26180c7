//! The explorer's answers: elements against the evaluator, layers of a network, errors at their place,
//! and programs that nobody should write.

mod examples;
mod nested_loops;
mod reads;
mod requests;

use tegula_explorer::Session;

fn open(text: &str) -> Session {
    Session::open(text).unwrap_or_else(|problem| panic!("{problem:?}"))
}

fn example(name: &str) -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
