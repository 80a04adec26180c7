//! Tests of formats of reduced precision: every lowering is compared with the evaluator.

use super::{Lanes, compute};
use crate::simd::builder::Builder;
use crate::simd::ir::Type;
use crate::simd::test_harness::Compiled;
use crate::simd::tests::pointer;
use tegula_fusion::kernel::ScalarOp;
use tegula_ir::ElementType::{F32, F64};
use tegula_scalar as scalar;

/// Every kind of format, with numbers at its limits.
#[test]
fn numbers_are_rounded_to_formats() {
    let formats = [
        (8, 7),
        (5, 10),
        (5, 2),
        (4, 3),
        (8, 23),
        (1, 0),
        (2, 22),
        (8, 0),
        (6, 9),
    ];
    let singles: Vec<u32> = (0..=255u32)
        .flat_map(|exponent| {
            let mantissas = [
                0, 1, 0x7f_ffff, 0x40_0000, 0x3f_ffff, 0x00_8000, 0x01_8000, 0x1000,
            ];
            mantissas.map(|mantissa| exponent << 23 | mantissa)
        })
        .flat_map(|bits| [bits, bits | 1 << 31])
        .collect();
    for (exponent_bits, mantissa_bits) in formats {
        let op = ScalarOp::ReducePrecision {
            exponent_bits,
            mantissa_bits,
        };
        for ty in [F32, F64] {
            let (lane, bytes) = match ty {
                F32 => (Type::F32, 4),
                _ => (Type::F64, 8),
            };
            let mut b = Builder::new();
            let access = pointer(&mut b, bytes);
            let x = b.load(access, lane, None);
            let lanes = compute(&mut b, &op, ty, ty, &[Lanes::from_slice(&[x])]);
            let out = pointer(&mut b, bytes);
            b.store(out, lanes.expect("lanes")[0], None, None);
            let body = b.finish();
            // The same numbers in f64, and some that f32 lacks.
            let numbers: Vec<u64> = match ty {
                F32 => singles.iter().map(|&bits| u64::from(bits)).collect(),
                _ => singles
                    .iter()
                    .map(|&bits| f64::from(f32::from_bits(bits)).to_bits() ^ u64::from(bits & 1))
                    .collect(),
            };
            for compiled in Compiled::all(&body) {
                let mut given: Vec<u8> = Vec::new();
                for bits in &numbers {
                    given.extend(&bits.to_le_bytes()[..bytes as usize]);
                }
                let mut found = vec![0u8; given.len()];
                let inputs = [given.as_ptr() as u64, found.as_mut_ptr() as u64];
                // SAFETY: the arrays have as many elements as there are lanes.
                unsafe { compiled.run(&inputs, numbers.len() as u64) };
                for (i, &bits) in numbers.iter().enumerate() {
                    let wanted = scalar::apply_reduce_precision(
                        ty,
                        exponent_bits,
                        mantissa_bits,
                        bits.into(),
                    );
                    let mut word = [0; 16];
                    let at = i * bytes as usize;
                    word[..bytes as usize].copy_from_slice(&found[at..at + bytes as usize]);
                    let found = u128::from_le_bytes(word);
                    assert_eq!(
                        Some(found),
                        wanted,
                        "{}: {bits:x} of {ty} to {exponent_bits}, {mantissa_bits}",
                        compiled.name
                    );
                }
            }
        }
    }
}
