//! StableHLO, bytecode or text: what is read prints, reads back, and is translated or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tegula_stablehlo::{Form, print, read, to_module};

fuzz_target!(|bytes: &[u8]| {
    let Ok(module) = read(bytes.to_vec()) else { return };
    let printed = print(&module, Form::Generic);
    if let Ok(again) = read(printed.clone().into_bytes()) {
        assert_eq!(print(&again, Form::Generic), printed);
    }
    let _ = to_module(&module);
});
