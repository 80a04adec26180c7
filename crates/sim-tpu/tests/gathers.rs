//! Gathers of rows from arrays that stay in HBM: the same values as the evaluator's, with
//! no finding, and only the tiles of the rows are copied.

use tegula_interp::{Value, evaluate};
use tegula_ir::{Literal, Module, parse_module};
use tegula_layout::assign::{Machine, assign};
use tegula_layout::memory;
use tegula_sim_tpu::lower::{Lowered, ResultOf, lower};
use tegula_sim_tpu::{Options, simulate};
use tegula_target::Chip;

fn lowered(module: &Module, chip: &Chip) -> Lowered {
    let machine = Machine::tpu(chip).unwrap();
    let assignment = assign(module, &machine, &|_| false).unwrap();
    let schedule = memory::schedule(module, &assignment, chip, &memory::Options::default());
    lower(module, &assignment, &schedule, chip).unwrap()
}

/// Small numbers in every byte.
fn table(module: &Module) -> Literal {
    let id = module.entry_computation().parameters[0];
    let mut literal = Literal::zeros(module[id].shape.as_array().unwrap()).unwrap();
    for (at, byte) in literal.bytes_mut().iter_mut().enumerate() {
        *byte = (at * 31 % 61) as u8;
    }
    literal
}

fn indices(module: &Module, values: &[i32]) -> Literal {
    let id = module.entry_computation().parameters[1];
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Literal::from_bytes(module[id].shape.as_array().unwrap(), &bytes).unwrap()
}

/// The bytes that were copied.
fn check(text: &str, values: &[i32]) -> i64 {
    let chip = Chip::by_name("v5e").unwrap();
    let module = parse_module(text).unwrap();
    let lowered = lowered(&module, &chip);
    let inputs = vec![table(&module), indices(&module, values)];
    let expected = evaluate(
        &module,
        &inputs.iter().cloned().map(Value::Array).collect::<Vec<_>>(),
    );
    let Ok(Value::Array(expected)) = expected else {
        panic!("no array")
    };
    let mut all = inputs;
    all.extend(lowered.constants.iter().cloned());
    let options = Options {
        functional: true,
        inputs: all,
        ..Options::default()
    };
    let report = simulate(&lowered.program, &chip, &options).unwrap();
    assert!(report.is_clean(), "{text}\n{:#?}", report.findings);
    let [ResultOf::Result(number, None)] = lowered.results[..] else {
        panic!("one result of its own")
    };
    assert_eq!(report.results[number].bytes(), expected.bytes(), "{text}");
    report.copied_bytes
}

fn program(ty: &str, rows: i64, count: usize, after: &str) -> String {
    format!(
        "HloModule rows\nENTRY main {{\n  t = {ty}[{rows},128] parameter(0)\n  i = s32[{count}] parameter(1)\n  \
         g = {ty}[{count},128] gather(t, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, \
         start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,128}}\n  {after}\n}}\n"
    )
}

#[test]
fn rows_are_copied_alone() {
    // The last tile is not full; there are indices beyond both ends.
    let rows = 20_003;
    let values = [
        0,
        7,
        8,
        rows - 1,
        rows - 3,
        rows - 4,
        99_999,
        -5,
        1234,
        1234,
        77,
    ];
    let values = values.map(|value| value as i32);
    for ty in ["f32", "bf16", "s8", "s32"] {
        let after = format!("ROOT r = {ty}[11,128] add(g, g)");
        let copied = check(&program(ty, rows, values.len(), &after), &values);
        assert!(copied < 1 << 18, "{ty}: {copied} bytes");
    }
}

#[test]
fn rows_of_several_dimensions_go_where_the_result_has_them() {
    let text = "HloModule rows\nENTRY main {\n  t = f32[3000,2,128] parameter(0)\n  i = s32[3,2,1] parameter(1)\n  \
                ROOT g = f32[2,3,2,128] gather(t, i), offset_dims={0,3}, collapsed_slice_dims={0}, \
                start_index_map={0}, index_vector_dim=2, slice_sizes={1,2,128}\n}\n";
    check(text, &[2999, 0, 5, 17, -1, 3000]);
}

#[test]
fn most_rows_of_a_table_are_copied_with_it() {
    let values: Vec<i32> = (0..4000).map(|at| at * 7 % 8000).collect();
    let copied = check(
        &program(
            "f32",
            8000,
            values.len(),
            "ROOT r = f32[4000,128] negate(g)",
        ),
        &values,
    );
    assert!(copied >= 8000 * 512);
}
