//! Tests layout assignment on small programs whose best layouts are known.

use tegula_ir::{Module, parse_module};
use tegula_layout::assign::{AssignError, Assignment, Machine, assign, name_of};
use tegula_target::Chip;
use tegula_tpu_schedule::{HOST, Options, Step, Views, schedule, to_module, verify};

fn v5e() -> Chip {
    Chip::by_name("v5e").unwrap()
}

fn on(module: &Module, machine: &Machine) -> Assignment {
    assign(
        module,
        machine,
        &|_| true,
        &mut tegula_ir::PassManager::new(),
    )
    .unwrap()
}

fn program(body: &str) -> Module {
    parse_module(&format!("HloModule p\n\nENTRY main {{\n{body}}}\n")).unwrap()
}

/// The layout of an instruction's result, as text.
fn layout(module: &Module, assignment: &Assignment, name: &str) -> String {
    let named =
        |&value: &tegula_fusion::ValueId| name_of(module, &assignment.program, value) == Some(name);
    let value = assignment.program.values.keys().find(named).unwrap();
    assignment.layouts[&value].to_string()
}

const TURNED: &str = "  x = f32[512,256] parameter(0)\n  y = f32[512,256] negate(x)\n  ROOT t = f32[256,512] transpose(y), dimensions={1,0}\n";

#[test]
fn a_transposition_costs_one_copy_wherever_it_is() {
    let module = program(TURNED);
    let assignment = on(&module, &Machine::tpu(&v5e()).unwrap());
    assert!(assignment.is_best);
    let schedule = schedule(&module, &assignment, &v5e(), &Options::default());
    verify(&schedule, &assignment.program).unwrap();
    let copies = schedule
        .steps
        .iter()
        .filter(|s| matches!(s, Step::Relayout { .. }))
        .count();
    assert!(copies <= 1, "{schedule:?}");
}

#[test]
fn stated_layouts_are_kept_whole() {
    let body = "  x = f32[64,256]{0,1:T(8,128)} parameter(0)\n  h = bf16[64,256]{1,0:T(16,128)(2,1)S(5)} parameter(1)\n  c = f32[64,256] convert(h)\n  ROOT y = f32[64,256]{0,1:T(8,128)} add(x, c)\n";
    let module = program(body);
    let assignment = on(&module, &Machine::tpu(&v5e()).unwrap());
    assert_eq!(layout(&module, &assignment, "x"), "{0,1:T(8,128)}");
    assert_eq!(
        layout(&module, &assignment, "h"),
        "{1,0:T(16,128)(2,1)S(5)}"
    );
    assert_eq!(assignment.results[0].to_string(), "{0,1:T(8,128)}");
    let schedule = schedule(&module, &assignment, &v5e(), &Options::default());
    verify(&schedule, &assignment.program).unwrap();
    assert!(schedule.buffers.iter().any(|buffer| buffer.space() == HOST));
    let written = to_module(&module, &assignment, &schedule, Views::Bitcasts).unwrap();
    tegula_ir::verify(&written).unwrap();
    let plain =
        program("  x = f32[64,256]{0,1} parameter(0)\n  ROOT y = f32[64,256]{0,1} negate(x)\n");
    let assignment = on(&plain, &Machine::tpu(&v5e()).unwrap());
    assert_eq!(layout(&plain, &assignment, "x"), "{1,0:T(8,128)}");
}

#[test]
fn each_chip_has_its_layouts_or_says_that_they_are_not_known() {
    for chip in ["v4", "v5e", "v5p", "v6e", "7x"] {
        let machine = Machine::tpu(&Chip::by_name(chip).unwrap()).unwrap();
        let module = program(TURNED);
        assert_eq!(
            layout(&module, &on(&module, &machine), "x"),
            "{1,0:T(8,128)}",
            "{chip}"
        );
    }
    for chip in ["v2", "v3"] {
        let machine = Machine::tpu(&Chip::by_name(chip).unwrap()).unwrap();
        let module = program("  x = f32[1,300] parameter(0)\n  ROOT y = f32[1,300] negate(x)\n");
        let assignment = on(&module, &machine);
        assert_eq!(
            layout(&module, &assignment, "x"),
            "{1,0:T(2,128)}",
            "{chip}"
        );
        let chip = Chip::by_name(chip).unwrap();
        let plan = tegula_tpu_schedule::schedule(&module, &assignment, &chip, &Default::default());
        assert!(plan.buffers.iter().all(|buffer| buffer.offset.is_none()));
    }
    assert_eq!(Machine::tpu(&Chip::by_name("v4i").unwrap()), None);
}

/// CPUs and GPUs prefer contiguous rows, and a convolution prefers contiguous features.
#[test]
fn machines_without_tiles_keep_rows_together() {
    let body = "  x = f32[100,300] parameter(0)\n  y = f32[300,50] parameter(1)\n  d = f32[100,50] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  ROOT z = f32[100,50] tanh(d)\n";
    let module = program(body);
    for machine in [Machine::cpu(), Machine::gpu()] {
        let assignment = on(&module, &machine);
        for name in ["x", "y", "z"] {
            assert_eq!(layout(&module, &assignment, name), "{1,0}");
        }
        assert_eq!(assignment.results[0].to_string(), "{1,0}");
    }
    let body = "  x = f32[4,16,30,30] parameter(0)\n  w = f32[32,16,3,3] parameter(1)\n  a = f32[4,32,30,30] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01\n  v = f32[32,32,3,3] parameter(2)\n  ROOT b = f32[4,32,30,30] convolution(a, v), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01\n";
    let module = program(body);
    let assignment = on(&module, &Machine::cpu());
    assert_eq!(layout(&module, &assignment, "a"), "{1,3,2,0}");
}

#[test]
fn the_same_program_gives_the_same_text() {
    let text = |_| {
        let module = program(TURNED);
        let assignment = on(&module, &Machine::tpu(&v5e()).unwrap());
        let schedule = schedule(&module, &assignment, &v5e(), &Options::default());
        let written = to_module(&module, &assignment, &schedule, Views::Bitcasts).unwrap();
        tegula_ir::print_module(&written, tegula_ir::PrintStyle::Short)
    };
    assert_eq!(text(0), text(1));
}

#[test]
fn open_sizes_and_odd_types_are_answered() {
    let mut open = program("  x = f32[?,8] parameter(0)\n  ROOT y = f32[?,8] negate(x)\n");
    tegula_ir::infer_symbolic_dims(&mut open, &[]).unwrap();
    let failed = assign(
        &open,
        &Machine::tpu(&v5e()).unwrap(),
        &|_| false,
        &mut tegula_ir::PassManager::new(),
    );
    let failed = failed.unwrap_err();
    assert!(
        matches!(&failed, AssignError::Size(name) if name == "x"),
        "{failed}"
    );
    for body in [
        "  x = s2[7,9] parameter(0)\n  ROOT y = s2[9,7] transpose(x), dimensions={1,0}\n",
        "  x = c128[3,4] parameter(0)\n  ROOT y = c128[3,4] negate(x)\n",
        "  x = f64[3,0,4] parameter(0)\n  ROOT y = f64[0,12] reshape(x)\n",
        "  x = f32[] parameter(0)\n  ROOT y = f32[1,1,1] reshape(x)\n",
        "  x = f32[2,3] parameter(0)\n  ROOT t = (f32[2,3], f32[2,3]) tuple(x, x)\n",
    ] {
        let module = program(body);
        let assignment = on(&module, &Machine::tpu(&v5e()).unwrap());
        let schedule = schedule(&module, &assignment, &v5e(), &Options::default());
        verify(&schedule, &assignment.program).unwrap_or_else(|error| panic!("{body}{error}"));
        let written = to_module(&module, &assignment, &schedule, Views::Bitcasts).unwrap();
        tegula_ir::verify(&written).unwrap_or_else(|errors| panic!("{body}{errors:?}"));
    }
}

/// The order in which an instruction's result is written on a v5e.
fn order(body: &str, name: &str) -> String {
    let module = program(body);
    let assignment = on(&module, &Machine::tpu(&v5e()).unwrap());
    let layout = layout(&module, &assignment, name);
    layout.split(':').next().unwrap().to_owned()
}

#[test]
fn few_images_lie_in_pieces() {
    // 14 columns become pieces of 2, which divide a register evenly, so they are rows.
    let few = "  x = bf16[2,14,14,256] parameter(0)\n  w = bf16[3,3,256,256] parameter(1)\n  c = bf16[2,14,14,256] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n  ROOT y = bf16[2,14,14,256] tanh(c)\n";
    assert_eq!(order(few, "y"), "{3,2,0,1");
    // 32 columns become pieces of 5, which are not in registers but next to the images.
    let few = "  x = f32[2,32,32,64] parameter(0)\n  w = f32[3,3,64,128] parameter(1)\n  c = f32[2,32,32,128] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n  ROOT y = f32[2,32,32,128] tanh(c)\n";
    assert_eq!(order(few, "y"), "{3,1,2,0");
    // Eight images are rows themselves.
    let many = few.replace("[2,32,", "[8,32,");
    assert_eq!(order(&many, "y"), "{3,0,2,1");
}

#[test]
fn fewer_elements_than_lanes_are_sorted_along_rows() {
    let sort = |shape: &str| {
        let body = format!(
            "less {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT l = pred[] compare(a, b), direction=LT\n}}\n\nENTRY main {{\n  x = f32[{shape}] parameter(0)\n  ROOT s = f32[{shape}] sort(x), dimensions={{1}}, to_apply=less\n}}\n"
        );
        let module = parse_module(&format!("HloModule p\n\n{body}")).unwrap();
        let assignment = on(&module, &Machine::tpu(&v5e()).unwrap());
        layout(&module, &assignment, "s")
    };
    assert!(sort("6,100,40").starts_with("{2,1,0"));
    assert!(sort("6,200,40").starts_with("{1,2,0"));
}

#[test]
fn a_product_has_no_batch_inside_registers() {
    let body = "  a = bf16[64,16,8] parameter(0)\n  b = bf16[64,8,24] parameter(1)\n  ROOT d = bf16[64,16,24] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}\n";
    let written = order(body, "d");
    assert!(written == "{2,1,0" || written == "{1,2,0", "{written}");
}
