//! Programs on which libtpu's compiler was run, and the results. `TEGULA_TPU_FACTS` names the
//! folder; the corpus is in `TEGULA_CORPUS`.

use serde_json::Value;
use std::path::{Path, PathBuf};
use tegula_ir::{ArrayShape, Module, Shape, infer_symbolic_dims, parse_module, parse_shape};

/// An array in the program that libtpu's compiler produced.
pub(crate) struct Made {
    pub(crate) name: String,
    pub(crate) opcode: String,
    pub(crate) shape: ArrayShape,
    /// The compiler's own estimate, in cycles.
    pub(crate) cycles: Option<f64>,
    /// The block of the result that is in VMEM at a time, in tiles, from the most major dimension,
    /// if the instruction has a single result.
    pub(crate) window: Option<Vec<i64>>,
    /// The number of steps of the kernel.
    pub(crate) steps: i64,
}

impl Made {
    /// Whether an operation of the program produces it, rather than a move between memories or
    /// layouts.
    pub(crate) fn is_result(&self) -> bool {
        let moves = [
            "copy",
            "copy-start",
            "copy-done",
            "slice-start",
            "slice-done",
            "parameter",
            "get-tuple-element",
            "bitcast",
            "custom-call",
            "constant",
            "tuple",
            "async-start",
            "async-done",
        ];
        !moves.contains(&self.opcode.as_str())
    }
}

/// A program, before and after.
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) corpus: bool,
    pub(crate) module: Module,
    pub(crate) made: Vec<Made>,
}

/// The folder of facts.
pub(crate) fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("TEGULA_TPU_FACTS").map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: TEGULA_TPU_FACTS does not name the folder of TPU facts");
    }
    folder
}

/// Every program with its facts, in the order of names.
pub(crate) fn programs() -> Option<Vec<Program>> {
    let folder = folder()?;
    let mut programs = Vec::new();
    let corpus = std::env::var_os("TEGULA_CORPUS").map(PathBuf::from);
    let sources = [
        ("programs_v5e.json", Some(folder.join("programs")), false),
        ("corpus_v5e.json", corpus, true),
    ];
    for (file, hlo, corpus) in sources {
        let Some(hlo) = hlo else {
            println!("skipped: TEGULA_CORPUS does not name the folder of the corpus");
            continue;
        };
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let facts: Value = serde_json::from_str(&text).unwrap();
        for (name, facts) in facts.as_object().unwrap() {
            let Some(module) = module(&hlo.join(format!("{name}.hlo"))) else {
                continue;
            };
            let Some(entry) = facts["entry"].as_array() else {
                continue;
            };
            programs.push(Program {
                name: name.clone(),
                corpus,
                module,
                made: entry.iter().flat_map(made).collect(),
            });
        }
    }
    Some(programs)
}

fn module(path: &Path) -> Option<Module> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut module = parse_module(&text).unwrap();
    infer_symbolic_dims(&mut module, &[]).unwrap();
    Some(module)
}

fn made(line: &Value) -> Vec<Made> {
    let text = |at: usize| line[at].as_str().unwrap_or_default().to_owned();
    let Ok(shape) = parse_shape(&text(2)) else {
        return Vec::new();
    };
    let numbers = |key: &str| -> Option<Vec<i64>> {
        let all = line[3][key].as_array()?.iter();
        all.map(Value::as_i64).collect()
    };
    let window = numbers("output_window").filter(|_| shape.as_array().is_some());
    let steps = numbers("iterations").map_or(1, |counts| counts.iter().product());
    let mut made = Vec::new();
    shape.for_each_leaf(&mut |leaf| {
        if let Shape::Array(array) = leaf {
            made.push(Made {
                name: text(0),
                opcode: text(1),
                shape: array.clone(),
                cycles: line[3]["cycles"].as_f64(),
                window: window.clone(),
                steps,
            });
        }
    });
    made
}
