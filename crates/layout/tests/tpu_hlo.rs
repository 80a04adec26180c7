//! Scheduled programs as HLO: they are read again, say the same, and compute what the
//! program computes.

mod facts;

use tegula_ir::{PrintStyle, parse_module, print_module};
use tegula_layout::assign::{Machine, assign};
use tegula_layout::memory::{Options, schedule, to_module};
use tegula_target::Chip;

fn written(module: &tegula_ir::Module) -> tegula_ir::Module {
    let chip = Chip::by_name("v5e").unwrap();
    let module = tegula_fusion::expand(module).unwrap();
    let assignment = assign(&module, &Machine::tpu(&chip).unwrap(), &|_| false).unwrap();
    let schedule = schedule(&module, &assignment, &chip, &Options::default());
    to_module(&module, &assignment, &schedule).unwrap()
}

#[test]
fn scheduled_programs_are_read_again() {
    let Some(programs) = facts::programs() else {
        return;
    };
    for program in &programs {
        let written = written(&program.module);
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
