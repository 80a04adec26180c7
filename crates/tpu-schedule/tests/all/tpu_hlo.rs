//! Tests scheduled programs written as HLO: they parse to the same program, and compute what the
//! program computes.

use tegula_ir::{PrintStyle, parse_module, print_module};
use tegula_layout::assign::{Machine, assign};
use tegula_target::Chip;
use tegula_tpu_schedule::{Options, Views, schedule, to_module};

fn written(module: &tegula_ir::Module, views: Views) -> tegula_ir::Module {
    let chip = Chip::by_name("v5e").unwrap();
    let module = tegula_fusion::expand(module).unwrap();
    let assignment = assign(
        &module,
        &Machine::tpu(&chip).unwrap(),
        &|_| false,
        &mut tegula_ir::PassManager::new(),
    )
    .unwrap();
    let schedule = schedule(&module, &assignment, &chip, &Options::default());
    to_module(&module, &assignment, &schedule, views).unwrap()
}

#[test]
fn scheduled_programs_are_read_again() {
    let Some(programs) = crate::facts::programs() else {
        return;
    };
    for program in &programs {
        let written = written(&program.module, Views::Bitcasts);
        if let Err(errors) = tegula_ir::verify(&written) {
            let text = print_module(&written, PrintStyle::Short);
            panic!(
                "{}: {errors:?}\n{}",
                program.name,
                &text[text.len().saturating_sub(20000)..]
            );
        }
        let text = print_module(&written, PrintStyle::Short);
        let again = parse_module(&text).unwrap_or_else(|e| panic!("{}: {e:?}", program.name));
        assert!(again.same_as(&written), "{}", program.name);
    }
}

/// Small numbers that every type can represent.
fn argument(shape: &tegula_ir::ArrayShape, seed: usize) -> tegula_interp::Value {
    let mut literal = tegula_ir::Literal::zeros(shape).unwrap();
    let wide =
        tegula_ir::ArrayShape::new(tegula_ir::ElementType::S8, &shape.static_dims().unwrap());
    let mut small = tegula_ir::Literal::zeros(&wide).unwrap();
    for (at, byte) in small.bytes_mut().iter_mut().enumerate() {
        *byte = ((at * 7 + seed * 3) % 5) as u8;
    }
    let mut builder = tegula_ir::ModuleBuilder::new("convert");
    let mut main = builder.computation("main");
    let x = main.parameter(tegula_ir::Shape::Array(wide));
    let x = main.convert(x, shape.element_type).unwrap();
    let entry = main.finish(x).unwrap();
    let module = builder.build(entry).unwrap();
    let value = tegula_interp::Value::Array(small);
    if let tegula_interp::Value::Array(array) = tegula_interp::evaluate(&module, &[value]).unwrap()
    {
        literal = array;
    }
    tegula_interp::Value::Array(literal)
}

/// The repository's programs, written with layouts and evaluated by the reference evaluator, give
/// the same results to the bit.
#[test]
fn scheduled_programs_compute_the_same() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/hlo");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "hlo"))
        .collect();
    paths.sort();
    let mut same = 0;
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let module = parse_module(&text).unwrap();
        let entry = module.entry_computation();
        let elements: i64 = module
            .instructions
            .values()
            .filter_map(|i| i.shape.as_array()?.element_count())
            .sum();
        let heavy = module.instructions.values().any(|i| {
            matches!(
                i.op,
                tegula_ir::Op::CustomCall(_)
                    | tegula_ir::Op::Convolution { .. }
                    | tegula_ir::Op::While { .. }
            ) && elements > 100_000
        });
        let products = module
            .instructions
            .values()
            .any(|i| matches!(i.op, tegula_ir::Op::Dot { .. }));
        if heavy || elements > 3_000_000 || (products && elements > 500_000) {
            continue;
        }
        let arguments: Vec<_> = entry
            .parameters
            .iter()
            .enumerate()
            .map(|(seed, &id)| argument(module[id].shape.as_array().unwrap(), seed))
            .collect();
        let Ok(expected) = tegula_interp::evaluate(&module, &arguments) else {
            continue;
        };
        let written = written(&module, Views::Operations);
        let found = tegula_interp::evaluate(&written, &arguments);
        let found = found.unwrap_or_else(|error| panic!("{}: {error:?}", path.display()));
        let bits = |value: &tegula_interp::Value| format!("{value:?}");
        assert_eq!(
            leaves(&found),
            leaves(&expected),
            "{}: {}",
            path.display(),
            bits(&found).len()
        );
        same += 1;
    }
    println!("{same} programs compute the same");
    assert!(same > 20);
}

fn leaves(value: &tegula_interp::Value) -> Vec<Vec<u8>> {
    match value {
        tegula_interp::Value::Array(literal) => vec![literal.bytes().to_vec()],
        tegula_interp::Value::Tuple(all) => all.iter().flat_map(leaves).collect(),
        _ => Vec::new(),
    }
}

/// A large input that is fetched in slices is reassembled correctly.
#[test]
fn slices_put_together_are_the_array() {
    let text = "HloModule s

ENTRY main {
  x = f32[8,1024] parameter(0)
  v = f32[1024,512] parameter(1)
  w = f32[512,512] parameter(2)
  h = f32[8,512] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT y = f32[8,512] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
";
    let module = parse_module(text).unwrap();
    let written = written(&module, Views::Operations);
    let text = print_module(&written, PrintStyle::Short);
    assert_eq!(text.matches(" async-start(").count(), 4, "{text}");
    assert!(text.contains("cross_program_prefetch_index=0"), "{text}");
    let parameters = &module.entry_computation().parameters;
    let arguments: Vec<_> = (0..3)
        .map(|at| argument(module[parameters[at]].shape.as_array().unwrap(), at))
        .collect();
    let [found, expected] = [&written, &module]
        .map(|module| leaves(&tegula_interp::evaluate(module, &arguments).unwrap()));
    assert_eq!(found, expected);
}
