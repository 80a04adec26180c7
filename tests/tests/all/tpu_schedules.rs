//! Random programs laid out and scheduled for a TPU: the schedule is proved, the
//! program that it is written as is read again, and it computes to the bit what the
//! program computes. `TEGULA_SWEEP` says how many programs; `TEGULA_SEED` runs one.

use tegula_interp::{Value, evaluate};
use tegula_ir::{PrintStyle, parse_module, print_module};
use tegula_layout::assign::{Machine, assign};
use tegula_target::Chip;
use tegula_tests::random::{Regime, random_program};
use tegula_tpu_schedule::{Options, Views, schedule, to_module, verify};

/// Programs when nothing else is asked for.
const PROGRAMS: u64 = 150;

/// Gives whether the program could be evaluated both ways.
fn check(seed: u64, chip: &Chip) -> Result<bool, String> {
    let program = random_program(seed, Regime::Dyadic);
    let fail =
        |what: &str, error: String| Err(format!("seed {seed}: {what}: {error}\n{}", program.text));
    let module = match tegula_tests::read(&program.text) {
        Ok(module) => module,
        Err(error) => return fail("read", error.to_string()),
    };
    let expanded = match tegula_fusion::expand(&module) {
        Ok(expanded) => expanded,
        Err(error) => return fail("expand", error.to_string()),
    };
    let machine = Machine::tpu(chip).expect("the chip's layouts are known");
    let Ok(assignment) = assign(
        &expanded,
        &machine,
        &|_| false,
        &mut tegula_ir::PassManager::new(),
    ) else {
        return Ok(false);
    };
    // Little VMEM makes for evictions.
    let options = Options {
        vmem_bytes: Some(1 << (15 + seed % 13)),
        scoped_bytes: 1 << 14,
    };
    let schedule = schedule(&expanded, &assignment, chip, &options);
    if let Err(error) = verify(&schedule, &assignment.program) {
        return fail("the schedule", error.to_string());
    }
    for views in [Views::Bitcasts, Views::Operations] {
        let written = match to_module(&expanded, &assignment, &schedule, views) {
            Ok(written) => written,
            Err(error) => return fail("writing", error.to_string()),
        };
        if let Err(errors) = tegula_ir::verify(&written) {
            return fail("what was written", format!("{errors:?}"));
        }
        let text = print_module(&written, PrintStyle::Short);
        match parse_module(&text) {
            Ok(again) if again.same_as(&written) => {}
            Ok(_) => return fail("reading again", text),
            Err(error) => return fail("reading again", format!("{error}\n{text}")),
        }
        if views == Views::Bitcasts {
            continue;
        }
        let inputs: Vec<Value> = program.inputs.iter().cloned().map(Value::Array).collect();
        let (Ok(expected), Ok(found)) = (evaluate(&module, &inputs), evaluate(&written, &inputs))
        else {
            return Ok(false);
        };
        if leaves(&expected) != leaves(&found) {
            return fail("the results differ", text);
        }
    }
    Ok(true)
}

fn leaves(value: &Value) -> Vec<&[u8]> {
    match value {
        Value::Array(literal) => vec![literal.bytes()],
        Value::Tuple(all) => all.iter().flat_map(leaves).collect(),
        Value::Token => Vec::new(),
    }
}

#[test]
fn scheduled_random_programs_compute_the_same() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let chip = Chip::by_name("v5e").expect("there is a v5e");
    if let Some(seed) = number("TEGULA_SEED") {
        check(seed, &chip).unwrap_or_else(|error| panic!("{error}"));
        return;
    }
    let count = number("TEGULA_SWEEP").unwrap_or(PROGRAMS);
    let (mut judged, mut failures) = (0, Vec::new());
    for seed in 0..count {
        match check(seed, &chip) {
            Ok(both) => judged += u64::from(both),
            Err(error) => failures.push(error),
        }
    }
    let shown: Vec<&String> = failures.iter().take(2).collect();
    assert!(
        failures.is_empty(),
        "{} of {count} programs fail; the first:\n{shown:#?}",
        failures.len()
    );
    println!("{judged} of {count} programs judged");
    assert!(judged * 2 > count);
}
