//! A planted failure in a random program shrinks to what causes it.

use tegula::reduce::reduce;
use tegula_ir::{PrintStyle, print_module};
use tegula_tests::random::{Regime, random_program};

#[test]
fn random_programs_shrink_to_the_planted_operation() {
    let mut reduced = 0;
    for seed in 0..400 {
        let program = random_program(seed, Regime::General);
        let module = tegula_tests::read(&program.text).expect("random programs are valid");
        let planted = |text: &str| text.contains(" tanh(");
        if module.instructions.len() < 30 || !planted(&program.text) {
            continue;
        }
        let mut fails = |module: &tegula_ir::Module| {
            Ok::<_, String>(planted(&print_module(module, PrintStyle::Short)))
        };
        let reduction = reduce(&module, 2000, &mut fails).expect("the property does not fail");
        let text = print_module(&reduction.module, PrintStyle::Short);
        assert!(planted(&text) && !reduction.gave_up, "seed {seed}:\n{text}");
        assert!(
            reduction.module.instructions.len() <= 4,
            "seed {seed}:\n{text}"
        );
        tegula_tests::read(&text).expect("what is printed can be read");
        reduced += 1;
        if reduced == 4 {
            return;
        }
    }
    assert!(reduced > 0, "no random program has a tanh");
}
