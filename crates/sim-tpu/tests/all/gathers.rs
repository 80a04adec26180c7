//! Gathers of rows and slices at data-dependent positions, from arrays that stay in HBM: they
//! compute the evaluator's values without a finding, and copy only the tiles that they read.

use crate::common::agrees;
use tegula_ir::{Literal, Module, parse_module};
use tegula_layout::assign::{Machine, assign};

use tegula_codegen_tpu::{Lowered, lower};
use tegula_target::Chip;

fn lowered(module: &Module, chip: &Chip) -> Lowered {
    let machine = Machine::tpu(chip).unwrap();
    let assignment = assign(
        module,
        &machine,
        &|_| false,
        &mut tegula_ir::PassManager::new(),
    )
    .unwrap();
    let schedule = tegula_tpu_schedule::schedule(
        module,
        &assignment,
        chip,
        &tegula_tpu_schedule::Options::default(),
    );
    lower(module, &assignment, &schedule, chip).unwrap()
}

/// An array with small numbers in every byte.
fn table(module: &Module) -> Literal {
    let id = module.entry_computation().parameters[0];
    let mut literal = Literal::zeros(module[id].shape.as_array().unwrap()).unwrap();
    for (at, byte) in literal.bytes_mut().iter_mut().enumerate() {
        *byte = (at * 31 % 61) as u8;
    }
    literal
}

/// A value for a parameter of an integer type.
fn integers(module: &Module, number: usize, values: &[i64]) -> Literal {
    let id = module.entry_computation().parameters[number];
    let shape = module[id].shape.as_array().unwrap();
    let size = shape.element_type.bits() as usize / 8;
    let bytes = values.iter().flat_map(|v| v.to_le_bytes()[..size].to_vec());
    Literal::from_bytes(shape, &bytes.collect::<Vec<u8>>()).unwrap()
}

/// The bytes that were copied from a table with one array of indices.
fn check(text: &str, values: &[i64]) -> i64 {
    check_all(text, &[values])
}

/// The same for several arrays of indices.
fn check_all(text: &str, values: &[&[i64]]) -> i64 {
    let chip = Chip::by_name("v5e").unwrap();
    let module = parse_module(text).unwrap();
    let lowered = lowered(&module, &chip);
    let mut inputs = vec![table(&module)];
    let given = values.iter().zip(1..);
    inputs.extend(given.map(|(values, number)| integers(&module, number, values)));
    agrees(&module, &lowered, &inputs, &chip).copied_bytes
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
    // The last tile is partial, and indices are out of range at both ends.
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
    let values: Vec<i64> = (0..4000).map(|at| at * 7 % 8000).collect();
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

#[test]
fn indices_without_a_sign_are_clamped_at_the_end() {
    let text = "HloModule rows\nENTRY main {\n  t = f32[3000,128] parameter(0)\n  i = u32[4] parameter(1)\n  \
                ROOT g = f32[4,128] gather(t, i), offset_dims={1}, collapsed_slice_dims={0}, \
                start_index_map={0}, index_vector_dim=1, slice_sizes={1,128}\n}\n";
    let copied = check(text, &[2999, 4_000_000_000, 0, 3000]);
    assert!(copied < 1 << 16, "{copied} bytes");
    let wide = text.replace("u32[4]", "s64[4]");
    let copied = check(&wide, &[-1 << 40, 1 << 32, 5, i64::MAX]);
    assert!(copied < 1 << 16, "{copied} bytes");
}

/// A program with a slice of `[rows, columns]` at indices of a type.
fn slice(array: &str, index: &str, sizes: [i64; 2], after: &str) -> String {
    let ty = &array[..array.find('[').unwrap()];
    let [r, c] = sizes;
    format!(
        "HloModule slice\nENTRY main {{\n  t = {array} parameter(0)\n  i = {index}[] parameter(1)\n  \
         j = {index}[] parameter(2)\n  \
         s = {ty}[{r},{c}] dynamic-slice(t, i, j), dynamic_slice_sizes={{{r},{c}}}\n  \
         ROOT r = {ty}[{r},{c}] {after}\n}}\n"
    )
}

#[test]
fn the_tiles_of_a_slice_are_copied_alone() {
    for (array, sizes) in [
        ("f32[1024,1024]", [17, 1024]),
        ("f32[1024,1024]", [1, 1024]),
        ("f32[1024,1024]", [8, 100]),
        ("f32[512,4096]", [512, 1]),
        ("bf16[1024,1024]", [3, 1024]),
        ("s8[2048,512]", [33, 512]),
    ] {
        let text = slice(array, "s32", sizes, "add(s, s)");
        for (row, column) in [
            (0, 0),
            (5, 3),
            (8, 128),
            (1000, 1000),
            (-4, -1),
            (1 << 30, 1 << 30),
        ] {
            let copied = check_all(&text, &[&[row], &[column]]);
            assert!(copied < 1 << 20, "{array} {sizes:?}: {copied} bytes");
        }
    }
}

#[test]
fn slices_at_places_of_other_types_and_computed_ones() {
    for index in ["u32", "s64", "s8"] {
        let text = slice("f32[1024,256]", index, [8, 256], "negate(s)");
        for row in [0, 9, 127, -1] {
            check_all(&text, &[&[row], &[0]]);
        }
    }
    let text = "HloModule slice\nENTRY main {\n  t = f32[64,32,256] parameter(0)\n  i = s32[] parameter(1)\n  \
                z = s32[] constant(0)\n  k = s32[] constant(3)\n  m = s32[] multiply(i, k)\n  \
                s = f32[1,32,256] dynamic-slice(t, m, z, z), dynamic_slice_sizes={1,32,256}\n  \
                ROOT r = f32[32,256] reshape(s)\n}\n";
    for value in [0, 7, 21, 22] {
        let copied = check(text, &[value]);
        assert!(copied < 1 << 18, "{copied} bytes");
    }
}

/// If the last tile is partial, or the slice is most of the array, the whole array is fetched.
#[test]
fn other_slices_fetch_the_array() {
    for (array, sizes) in [("f32[1001,256]", [5, 256]), ("f32[64,256]", [50, 256])] {
        let text = slice(array, "s32", sizes, "negate(s)");
        for row in [0, 13, 996, 5000] {
            check_all(&text, &[&[row], &[0]]);
        }
    }
}

/// The first kernel writes its result in another layout than the one in which the second kernel
/// reads the same bytes; a copy moves whole tiles of the layout that was written.
#[test]
fn a_slice_of_an_array_that_its_kernel_sees_otherwise() {
    let text = "HloModule slice\nENTRY main {\n  t = s32[3,2,2,1] parameter(0)\n  i = s32[] parameter(1)\n  \
                j = s32[] parameter(2)\n  z = s32[] constant(0)\n  c = s32[3,2,2,1] clamp(t, t, t)\n  \
                s = s32[3,2,1,1] dynamic-slice(c, i, z, j, j), dynamic_slice_sizes={3,2,1,1}\n  \
                ROOT r = (s32[3,2,2,1], s32[3,2,1,1]) tuple(c, s)\n}\n";
    for place in [-1, 0, 1, 7] {
        check_all(text, &[&[0], &[place]]);
    }
}
