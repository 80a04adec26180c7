//! Tests of the instructions on AArch64, and of their model elsewhere.

use super::vector::turned;
use super::vector::{Bf16Pairs, F32, F32ByBf16, F32ByF16, F64, I8Quads, Numbers, U8Quads, Vector};
use crate::microkernels::CpuFeatures;
use crate::microkernels::pack::neon::function;
use crate::microkernels::pack::{Lanes, PackFn, Run, pack_function};
use crate::microkernels::packed_tile::Arithmetic;
use half::{bf16, f16};
use tegula_ir::ElementType;

/// Only the first lanes are read and written.
fn counted<V: Vector>(numbers: &[V::Unit], poison: V::Unit)
where
    V::Unit: PartialEq + core::fmt::Debug + Default,
{
    for count in 0..=V::LANES {
        let mut out = [poison; 4];
        // SAFETY: each array has four elements.
        unsafe {
            let vector = V::load(numbers.as_ptr(), count);
            vector.store(out.as_mut_ptr(), V::LANES);
            assert_eq!(out[..count], numbers[..count]);
            assert!(
                out[count..V::LANES]
                    .iter()
                    .all(|&x| x == V::Unit::default())
            );
            let mut out = [poison; 4];
            V::load(numbers.as_ptr(), V::LANES).store(out.as_mut_ptr(), count);
            assert_eq!(out[..count], numbers[..count]);
            assert!(out[count..].iter().all(|&x| x == poison));
        }
    }
}

#[test]
fn so_many_lanes_are_read_and_written() {
    counted::<F32>(&[1.0, -2.0, 3.0, 4.5], 9.0);
    counted::<F64>(&[1.0, -2.0], 9.0);
    counted::<I8Quads>(&[1, -2, 3, i32::MIN], 9);
}

#[test]
fn floats_of_16_bits_are_widened() {
    let numbers = [1.5f32, -0.0, 65504.0, 6e-8];
    for count in 0..=4 {
        let halves = numbers.map(|x| f16::from_f32(x).to_bits());
        let brains = numbers.map(|x| bf16::from_f32(x).to_bits());
        let mut out = [[9f32; 4]; 2];
        // SAFETY: each array has four elements.
        unsafe {
            F32ByF16::right(halves.as_ptr(), count).store(out[0].as_mut_ptr(), 4);
            F32ByBf16::right(brains.as_ptr(), count).store(out[1].as_mut_ptr(), 4);
        }
        for lane in 0..4 {
            let known = lane < count;
            let half = f16::from_bits(halves[lane]).to_f32();
            let brain = bf16::from_bits(brains[lane]).to_f32();
            assert_eq!(out[0][lane], if known { half } else { 0.0 });
            assert_eq!(out[1][lane], if known { brain } else { 0.0 });
        }
    }
}

#[test]
fn products_are_fused_and_sums_are_of_all_lanes() {
    let third = 1.0f32 / 3.0;
    let mut out = [0f32; 4];
    // SAFETY: each array has four elements.
    unsafe {
        let (a, b) = (
            F32::load([third; 4].as_ptr(), 4),
            F32::load([-third; 4].as_ptr(), 4),
        );
        let square = F32::load([third * third; 4].as_ptr(), 4);
        square.multiply_add(third, b).store(out.as_mut_ptr(), 4);
        assert_eq!(out, [third.mul_add(-third, third * third); 4]);
        square.multiply_add_lanes(a, b).store(out.as_mut_ptr(), 4);
        assert_eq!(out, [third.mul_add(-third, third * third); 4]);
        let row =
            |start: f32| F32::load([start, start + 1.0, start + 2.0, start + 3.0].as_ptr(), 4);
        assert_eq!(
            F32::totals([0.0, 4.0, 8.0, 12.0].map(row)),
            [6.0, 22.0, 38.0, 54.0]
        );
        let turned = turned([0.0, 4.0, 8.0, 12.0].map(row));
        for (i, row) in turned.into_iter().enumerate() {
            row.store(out.as_mut_ptr(), 4);
            assert_eq!(out, [0.0, 4.0, 8.0, 12.0].map(|x| x + i as f32));
        }
    }
}

#[test]
fn dot_products_of_narrow_numbers() {
    let here = CpuFeatures::detect();
    let is_emulated = cfg!(not(target_arch = "aarch64"));
    let mut out = [0i32; 4];
    // SAFETY: each array has four elements; the CPU has the instructions.
    unsafe {
        let right: [i32; 4] = core::array::from_fn(|lane| {
            i32::from_ne_bytes([-128i8, 127, -1, lane as i8].map(i8::cast_unsigned))
        });
        let left = i32::from_ne_bytes([-128i8, -7, 100, 3].map(i8::cast_unsigned));
        if here.dot_product || is_emulated {
            let sums = I8Quads::load([5; 4].as_ptr(), 4);
            let right = I8Quads::right(right.as_ptr(), 4);
            sums.multiply_add(left, right).store(out.as_mut_ptr(), 4);
            let expected = [0, 1, 2, 3].map(|lane| 5 + 128 * 128 - 7 * 127 - 100 + 3 * lane);
            assert_eq!(out, expected);
        }
        if here.int8_matrices || is_emulated {
            let sums = U8Quads::load([5; 4].as_ptr(), 4);
            let right = U8Quads::right(right.as_ptr(), 4);
            sums.multiply_add(left, right).store(out.as_mut_ptr(), 4);
            let expected = [0, 1, 2, 3].map(|lane| 5 - 128 * 128 + 249 * 127 - 100 + 3 * lane);
            assert_eq!(out, expected);
        }
        if here.bf16 || is_emulated {
            let pair = |a: f32, b: f32| f32::from_bits(a.to_bits() >> 16 | b.to_bits());
            let right = Bf16Pairs::right([pair(2.0, 3.0); 4].as_ptr(), 4);
            let sums = Bf16Pairs::load([0.5f32; 4].as_ptr(), 4);
            let mut out = [0f32; 4];
            sums.multiply_add(pair(-1.5, 4.0), right)
                .store(out.as_mut_ptr(), 4);
            assert_eq!(out, [9.5; 4]);
        }
    }
}

/// Packed panels of rows and of columns equal those of the element-by-element path.
#[test]
fn panels_are_those_of_single_elements() {
    let source: Vec<f32> = (0..4000).map(|i| i as f32).collect();
    let portable = pack_function(CpuFeatures::default(), ElementType::F32, Arithmetic::F32);
    let (fast, portable) = (function(ElementType::F32, Arithmetic::F32), portable);
    for (count, width) in [(1, 4), (4, 4), (6, 6), (7, 8), (16, 16)] {
        for (stride, lane) in [(1, 41), (23, 1), (3, 50), (1, 1)] {
            for length in [1, 3, 4, 9, 32] {
                let lanes = Lanes::new(count, |offsets| {
                    for (i, offset) in offsets.iter_mut().enumerate() {
                        *offset = i as isize * lane;
                    }
                });
                let packed = |function: Option<PackFn>| {
                    let mut target = vec![f32::NAN; length * width];
                    let run = Run {
                        source: source.as_ptr().cast(),
                        stride,
                        length,
                        lanes: &lanes,
                        target: target.as_mut_ptr().cast(),
                        width,
                    };
                    // SAFETY: the source has all elements, the target all groups.
                    unsafe { function.expect("f32")(&run) };
                    target
                };
                assert_eq!(
                    packed(fast),
                    packed(portable),
                    "{count} {stride} {lane} {length}"
                );
            }
        }
    }
}
