//! Large programs with an open batch and sequence: every size follows from the
//! inputs', and one compilation runs at all of them. Needs the corpus.

use anyhow::{Result, ensure};
use std::path::PathBuf;
use tegula::check::{Tolerance, compare_every};
use tegula::{Options, Target, Tensor, compile};
use tegula_expr::Var;
use tegula_tests::corpus::{load, whole_corpus};
use tegula_tests::open_models::{OPEN_MODELS, OpenModel};
use tegula_tests::program::Program;
use tegula_tests::{read, read_specialised};

fn corpus() -> Option<PathBuf> {
    let folder = whole_corpus();
    if folder.is_none() {
        println!("skipped: no corpus (TEGULA_CORPUS is not set)");
    }
    folder
}

#[test]
fn every_size_follows_from_the_inputs() {
    let Some(folder) = corpus() else { return };
    for model in &OPEN_MODELS {
        let module = read(&model.text(&folder).unwrap()).unwrap();
        let known: Vec<Var> = module.sizes.sources.iter().map(|s| s.symbol).collect();
        assert_eq!(known.len(), model.dims(model.sizes[0]).len());
        let (mut open, mut sizes) = (0, 0);
        for instruction in module.instructions.values() {
            instruction.shape.for_each_leaf(&mut |leaf| {
                for dim in leaf.as_array().map_or(&[][..], |array| &array.dims) {
                    let mut follows = true;
                    dim.term()
                        .for_each_var(&mut |var| follows &= known.contains(&var));
                    assert!(follows, "{}: {}: {dim:?}", model.name, instruction.name);
                    (open, sizes) = (open + usize::from(dim.as_static().is_none()), sizes + 1);
                }
            });
        }
        println!("{}: {open} of {sizes} sizes are open", model.name);
        assert!(open > 100);
    }
}

fn run(model: &OpenModel) -> Result<()> {
    let Some(folder) = corpus() else {
        return Ok(());
    };
    let text = model.text(&folder)?;
    let program = load(&folder, model.name, "hlo")?;
    let options = Options {
        target: Target::Cpu,
        ..Options::default()
    };
    // At the static program's size, the results are XLA's.
    let opened = Program {
        module: read(&text)?,
        ..program
    };
    opened.check_with(&options)?;
    let open = compile(&opened.module, &options)?;
    for sizes in model.sizes {
        let inputs = model.inputs(&opened.inputs, sizes)?;
        let borrowed = || inputs.iter();
        let dims = model.dims(sizes);
        let dims: Vec<(&str, i64)> = dims.iter().map(|(name, size)| (&**name, *size)).collect();
        let fixed = compile(&read_specialised(&text, &dims)?, &options)?;
        let (found, expected): (Vec<Tensor>, Vec<Tensor>) =
            (open.run(borrowed())?, fixed.run(borrowed())?);
        for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let (found, expected) = (found.literal(), expected.literal());
            ensure!(
                found.shape() == expected.shape(),
                "the shape of result {number}"
            );
            let tolerance = Tolerance::Scaled(opened.tolerance(Target::Cpu));
            let comparison = compare_every(1, found, expected, tolerance)?;
            ensure!(
                comparison.ok,
                "{} at {sizes:?}: result {number} differs by {:.2e}",
                model.name,
                comparison.max_abs
            );
        }
    }
    Ok(())
}

#[test]
fn gpt2_at_any_batch() {
    run(&OPEN_MODELS[0]).unwrap();
}

#[test]
fn bert_at_any_batch_and_sequence() {
    run(&OPEN_MODELS[1]).unwrap();
}

#[test]
fn resnet_at_any_batch() {
    run(&OPEN_MODELS[2]).unwrap();
}

#[test]
fn a_recurrent_training_step_at_any_batch() {
    run(&OPEN_MODELS[3]).unwrap();
}
