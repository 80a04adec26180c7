//! HLO text, compiled: whatever is read either compiles or is an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tegula::{Module, Options, Target, compile};

fuzz_target!(|text: &str| {
    let Ok(module) = text.parse::<Module>() else {
        return;
    };
    for target in [Target::Plan, Target::Cpu] {
        let options = Options {
            target,
            ..Options::default()
        };
        if let Err(error) = compile(&module, &options) {
            assert_ne!(error.kind, tegula::ErrorKind::Bug, "{error}");
        }
    }
});
