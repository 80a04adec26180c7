//! Programs with open sizes in `data/open`, each compiled once and run at several
//! sizes. The head of each says what must come of it:
//!
//! - `// at: p0_d0=5 p1_d0=2`: at these sizes of the inputs every target gives what
//!   the same text, specialised to them, gives by definition;
//! - `// refused at: p0_d0=4: words`: every target refuses these sizes with a message
//!   that has the words in it, and the text cannot be specialised to them;
//! - `// error: words`: no program at any size;
//! - `// not compiled: words`: a program, but not one for the Plan and the CPU.

use std::collections::BTreeMap;
use std::path::Path;
use tegula::{Executable, Options, Target, Tensor, compile};
use tegula_ir::{ArrayShape, ElementType, Literal, Module, Scalar};
use tegula_tests::random::Random;
use tegula_tests::{read, read_specialised};

const TARGETS: [(Target, usize); 4] = [
    (Target::Interp, 1),
    (Target::Plan, 1),
    (Target::Cpu, 1),
    (Target::Cpu, 2),
];

type Sizes<'a> = Vec<(&'a str, i64)>;

/// `p0_d0=5 p1_d0=2`.
fn sizes(text: &str) -> Sizes<'_> {
    fn size(word: &str) -> (&str, i64) {
        let (name, size) = word.split_once('=').expect("a name and a size");
        (name, size.parse().expect("a size"))
    }
    text.split_whitespace().map(size).collect()
}

/// What the head says with a key.
fn said<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("// "));
    lines
        .filter_map(|line| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim()))
        .collect()
}

fn options((target, threads): (Target, usize)) -> Options {
    Options {
        target,
        threads,
        ..Options::default()
    }
}

/// Small whole numbers, so that every target gives the same bits.
fn input(shape: &ArrayShape, dims: &[i64], random: &mut Random) -> Literal {
    let shape = ArrayShape::new(shape.element_type, dims);
    let mut literal = Literal::zeros(&shape).expect("small sizes");
    for i in 0..literal.len() {
        let scalar = match shape.element_type {
            ElementType::Pred => Scalar::Bool(random.once_in(2)),
            ElementType::U32 | ElementType::U64 => Scalar::Uint(random.below(9) as u64),
            ty if ty.is_integer() => Scalar::Int(random.between(-2, 6)),
            _ => Scalar::Float(random.between(-4, 4) as f64),
        };
        literal.set_scalar(i, scalar).expect("a number of the type");
    }
    literal
}

fn inputs(module: &Module, sizes: &Sizes<'_>, random: &mut Random) -> Result<Vec<Tensor>, String> {
    let sizes: BTreeMap<&str, i64> = sizes.iter().copied().collect();
    let mut all = Vec::new();
    for (number, &parameter) in module.entry_computation().parameters.iter().enumerate() {
        let mut leaves = Vec::new();
        let shape = &module[parameter].shape;
        shape.for_each_leaf(&mut |leaf| leaves.extend(leaf.as_array()));
        for (leaf, array) in leaves.iter().enumerate() {
            let part = match leaves.len() {
                1 => format!("p{number}"),
                _ => format!("p{number}_e{leaf}"),
            };
            let dims = array.dims.iter().enumerate().map(|(d, dim)| {
                let name = format!("{part}_d{d}");
                let given = sizes.get(name.as_str()).copied();
                let given = given.or_else(|| dim.as_static());
                given.ok_or_else(|| format!("nothing says what {name} is"))
            });
            let dims: Vec<i64> = dims.collect::<Result<_, _>>()?;
            all.push(Tensor::from(input(array, &dims, random)));
        }
    }
    Ok(all)
}

fn run(executable: &Executable, inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
    let result = executable.run(inputs.iter());
    result.map_err(|error| error.to_string())
}

/// Equal as numbers: the sign of a zero that a sum of products gives is open.
fn alike(a: &Tensor, b: &Tensor) -> bool {
    let (a, b) = (a.literal(), b.literal());
    let same = |i: usize| match (a.scalar(i), b.scalar(i)) {
        (Some(Scalar::Float(x)), Some(Scalar::Float(y))) => x == y || (x.is_nan() && y.is_nan()),
        (x, y) => x == y,
    };
    a.shape().dims == b.shape().dims && (0..a.len()).all(same)
}

fn check(text: &str) -> Result<(), String> {
    let errors = said(text, "error");
    let module = match (read(text), errors.as_slice()) {
        (Ok(module), _) => module,
        (Err(error), []) => return Err(format!("reading: {error}")),
        (Err(error), [words, ..]) => return has(&error.to_string(), words),
    };
    if let [words, ..] = said(text, "not compiled").as_slice() {
        for target in [Target::Plan, Target::Cpu] {
            match compile(&module, &options((target, 1))) {
                Ok(_) => return Err(format!("{target:?}: no error with `{words}`")),
                Err(error) => has(&error.to_string(), words)?,
            }
        }
        return Ok(());
    }
    let mut compiled = Vec::new();
    for target in TARGETS {
        match (compile(&module, &options(target)), errors.as_slice()) {
            (Ok(_), [words, ..]) => return Err(format!("{target:?}: no error with `{words}`")),
            (Ok(executable), []) => compiled.push(executable),
            (Err(error), [words, ..]) => has(&error.to_string(), words)?,
            (Err(error), []) => return Err(format!("compiling for {target:?}: {error}")),
        }
    }
    let mut random = Random::new(7);
    for at in said(text, "at") {
        let sizes = sizes(at);
        let inputs = inputs(&module, &sizes, &mut random)?;
        let fixed = read_specialised(text, &sizes).map_err(|e| format!("at {at}: {e}"))?;
        let interp = options(TARGETS[0]);
        let fixed = compile(&fixed, &interp).map_err(|e| format!("at {at}: {e}"))?;
        let expected = run(&fixed, &inputs).map_err(|e| format!("at {at}: {e}"))?;
        for (executable, target) in compiled.iter().zip(TARGETS) {
            let found = run(executable, &inputs).map_err(|e| format!("{target:?} at {at}: {e}"))?;
            let same = found.len() == expected.len()
                && found.iter().zip(&expected).all(|(a, b)| alike(a, b));
            if !same {
                return Err(format!(
                    "{target:?} differs at {at}: {found:?} and not {expected:?}"
                ));
            }
        }
    }
    for refused in said(text, "refused at") {
        let (at, words) = refused.split_once(": ").ok_or("a refusal has no words")?;
        let sizes = sizes(at);
        if let Ok(fixed) = read_specialised(text, &sizes)
            && compile(&fixed, &options(TARGETS[1])).is_ok()
        {
            return Err(format!("{at}: the text can be specialised to it"));
        }
        let inputs = inputs(&module, &sizes, &mut random)?;
        for (executable, target) in compiled.iter().zip(TARGETS) {
            match run(executable, &inputs) {
                Ok(_) => return Err(format!("{target:?} at {at}: it runs")),
                Err(error) => has(&error, words).map_err(|e| format!("{target:?} at {at}: {e}"))?,
            }
        }
    }
    Ok(())
}

fn has(error: &str, words: &str) -> Result<(), String> {
    match error.contains(words) {
        true => Ok(()),
        false => Err(format!("`{words}` is not in: {error}")),
    }
}

#[test]
fn programs_with_open_sizes_do_what_their_heads_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/open");
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut paths: Vec<_> = entries.map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    let chosen = std::env::var("TEGULA_PROGRAM").ok();
    let mut failures = Vec::new();
    let mut count = 0;
    for path in &paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if chosen.as_deref().is_some_and(|chosen| chosen != name) {
            continue;
        }
        count += 1;
        let text = std::fs::read_to_string(path).expect("a text");
        if let Err(error) = check(&text) {
            failures.push(format!("{name}: {error}"));
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {count} programs fail:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
