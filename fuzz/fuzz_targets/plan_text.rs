//! The text of a Plan: what is read is verified.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tegula_plan::{parse_plan, verify};

fuzz_target!(|text: &str| {
    if let Ok(plan) = parse_plan(text) {
        let _ = verify(&plan);
        let again = parse_plan(&plan.to_string()).expect("what was printed reads");
        assert_eq!(plan, again);
    }
});
