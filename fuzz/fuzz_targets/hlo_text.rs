//! HLO text: what is read prints, and reads back as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tegula_ir::{PrintStyle, parse_module, print_module, infer_symbolic_dims, verify};

fuzz_target!(|text: &str| {
    let Ok(mut module) = parse_module(text) else {
        return;
    };
    let printed = print_module(&module, PrintStyle::Short);
    let again = parse_module(&printed).expect("what was printed reads");
    assert!(module.same_as(&again), "printing and reading changes it");
    if verify(&module).is_ok() && infer_symbolic_dims(&mut module, &[]).is_ok() {
        let _ = verify(&module);
    }
});
