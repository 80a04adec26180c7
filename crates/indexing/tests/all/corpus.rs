//! Derives the maps of every instruction of the corpus in both directions. Nothing may panic, and
//! maps that claim to be exact must stay inside the arrays, before and after simplification.
//!
//! `TEGULA_CORPUS` names the folder; without it, the test is skipped.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tegula_indexing::{
    IndexingMap, OperandIndexing, Simplifier, fusion_input_to_output, fusion_output_to_input,
};
use tegula_ir::{ArrayShape, InstructionId, Module, Op, Shape, parse_module};

/// The most arrays of one result that are examined: a loop's state may have a hundred, each of
/// which depends on all.
const MAX_OUTPUTS: usize = 2;
/// The most arrays of a loop's state that are analysed: for more, the maps take minutes; see
/// docs/limits.md.
const MAX_STATE: usize = 12;

/// The array `leaf` of a shape.
fn array(shape: &Shape, leaf: usize) -> Option<ArrayShape> {
    let (mut found, mut position) = (None, 0);
    shape.for_each_leaf(&mut |shape: &Shape| {
        if position == leaf {
            found = shape.as_array().cloned();
        }
        position += 1;
    });
    found
}

/// Maps stay inside the array that they lead to, before and after simplifying.
fn check_map(map: &IndexingMap, target: &ArrayShape, simplifier: &mut Simplifier, what: &str) {
    let simple = simplifier.simplify_map(map);
    for map in [map, &simple] {
        assert!(
            map.is_empty() || map.results.len() == target.rank(),
            "{what}: {map}"
        );
    }
    for (result, dim) in simple.results.iter().zip(&target.dims) {
        let range = tegula_expr::range_of(result, &simple);
        let size = dim.as_static().unwrap_or(i64::MAX);
        let is_free = simple.constraints.is_empty() && !simple.is_empty();
        assert!(
            !is_free || (0 <= range.lower && range.upper < size),
            "{what}: {simple}"
        );
    }
}

/// All maps of an instruction in both directions; counts them, and what has none.
fn check(
    module: &Module,
    id: InstructionId,
    simplifier: &mut Simplifier,
    unknown: &mut BTreeMap<String, u32>,
) -> u32 {
    let data = &module[id];
    let mut count = 0;
    let leaves = data.shape.leaf_count();
    if matches!(data.op, Op::While { .. }) && leaves > MAX_STATE {
        return 0;
    }
    for output in 0..leaves.min(MAX_OUTPUTS) {
        for (backward, found) in [
            (true, fusion_output_to_input(module, id, output, simplifier)),
            (
                false,
                fusion_input_to_output(module, id, output, simplifier),
            ),
        ] {
            for OperandIndexing {
                operand,
                leaf,
                maps,
            } in found
            {
                let opcode = data.op.opcode().name();
                let Ok(maps) = maps.map_err(|reason| {
                    let cause = format!("{opcode}: {}", reason.cause);
                    *unknown.entry(cause).or_default() += 1;
                }) else {
                    continue;
                };
                let target = if backward {
                    array(&module[data.operands[operand]].shape, leaf)
                } else {
                    array(&data.shape, output)
                };
                count += u32::try_from(maps.len()).unwrap_or(u32::MAX);
                for map in maps {
                    let target = target.as_ref().expect("an array");
                    check_map(&map, target, simplifier, &data.name);
                }
            }
        }
    }
    count
}

#[test]
fn the_whole_corpus() {
    let Some(folder) = std::env::var_os("TEGULA_CORPUS").map(PathBuf::from) else {
        println!("skipped: TEGULA_CORPUS is not set");
        return;
    };
    let mut unknown = BTreeMap::new();
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the corpus")
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "hlo"))
        .collect();
    files.sort();
    for file in &files {
        let text = std::fs::read_to_string(file).expect("a text");
        let module = match parse_module(&text) {
            Ok(module) => module,
            Err(error) => panic!("{}: {error}", file.display()),
        };
        let start = std::time::Instant::now();
        let mut simplifier = Simplifier::new();
        let maps: u32 = (&module.instructions)
            .into_iter()
            .map(|(id, _)| check(&module, id, &mut simplifier, &mut unknown))
            .sum();
        println!(
            "{}: {} instructions, {maps} maps, {:?}",
            file.file_stem().unwrap_or_default().display(),
            module.instructions.len(),
            start.elapsed()
        );
    }
    assert!(unknown.is_empty(), "operands without a map: {unknown:?}");
    assert!(!files.is_empty());
}
