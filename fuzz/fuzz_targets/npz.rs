//! npz and npy files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tegula::npz::read_npz;
use tegula_ir::ElementType;

fuzz_target!(|bytes: &[u8]| {
    for array in read_npz(bytes).unwrap_or_default() {
        for ty in [ElementType::F32, ElementType::BF16, ElementType::S8] {
            let _ = array.to_literal(ty);
        }
    }
});
