//! Every instruction of the corpus in both directions: nothing panics, maps that
//! claim to be exact stay inside the arrays, and simplification keeps that.
//!
//! `TEGULA_CORPUS` names the folder; without it the test is skipped.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tegula_indexing::{OperandIndexing, Session, input_to_output, output_to_input};
use tegula_ir::{Module, Shape, parse_module};

fn check(module: &Module, session: &mut Session, unknown: &mut BTreeMap<&'static str, u32>) -> u32 {
    let mut maps = 0;
    for (id, data) in &module.instructions {
        for (backward, found) in [
            (true, output_to_input(module, id)),
            (false, input_to_output(module, id)),
        ] {
            for OperandIndexing {
                operand,
                leaf,
                maps: found,
            } in found
            {
                let Ok(found) = found else {
                    if backward {
                        *unknown.entry(data.op.opcode().name()).or_default() += 1;
                    }
                    continue;
                };
                let target = if backward {
                    // Arrays inside tuples are passed on as they are.
                    module.operand_shape(id, operand).filter(|_| leaf == 0)
                } else {
                    Some(&data.shape)
                };
                for map in found {
                    maps += 1;
                    let simple = session.simplify_map(&map);
                    let Some(Shape::Array(array)) = target else {
                        continue;
                    };
                    for map in [&map, &simple] {
                        if map.is_empty() {
                            continue;
                        }
                        assert_eq!(map.results.len(), array.rank(), "{}: {map}", data.name);
                    }
                    for (result, dim) in simple.results.iter().zip(&array.dims) {
                        let range = tegula_expr::range_of(result, &simple);
                        let size = dim.as_static().unwrap_or(i64::MAX);
                        let is_constrained = !simple.constraints.is_empty();
                        assert!(
                            is_constrained
                                || simple.is_empty()
                                || (0 <= range.lower && range.upper < size),
                            "{}: {simple}",
                            data.name
                        );
                    }
                }
            }
        }
    }
    maps
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
        let maps = check(&module, &mut Session::new(), &mut unknown);
        println!(
            "{}: {} instructions, {maps} maps, {:?}",
            file.file_stem().unwrap_or_default().display(),
            module.instructions.len(),
            start.elapsed()
        );
    }
    println!("operands without a map: {unknown:?}");
    assert!(!files.is_empty());
}
