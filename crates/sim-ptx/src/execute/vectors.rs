//! The most common matrix product, of half-precision elements summed in f32, with 512-bit vectors.
//!
//! The compiler generates scalar code for sums over fragments; here, each row of the result is one
//! vector. Products and sums are those of [`super::matrix`], in the same order.

use crate::number::canonical;
use crate::operation::LANES;
use std::arch::x86_64::{
    __m128i, __m512d, __m512i, _mm256_castsi256_ps, _mm256_cvtepu16_epi32, _mm256_cvtph_ps,
    _mm256_slli_epi32, _mm512_cvtps_pd, _mm512_fmadd_pd, _mm512_permutex2var_epi16, _mm512_set1_pd,
    _mm512_setzero_pd,
};

/// For each element of half of the transposed tile, its index among a register's 64 halves.
const fn transposed(first_row: u16) -> [u16; 32] {
    let mut places = [0; 32];
    let mut i = 0;
    while i < 32 {
        let (row, column) = (first_row + i / 8, i % 8);
        places[i as usize] = column * 8 + row;
        i += 1;
    }
    places
}

/// Converts eight half-precision elements to f64.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
fn numbers<const BF16: bool>(halves: [u16; 8]) -> __m512d {
    // SAFETY: both types are 16 bytes of integers.
    let halves: __m128i = unsafe { std::mem::transmute(halves) };
    _mm512_cvtps_pd(match BF16 {
        true => _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(halves))),
        false => _mm256_cvtph_ps(halves),
    })
}

fn halves(register: &[u32; LANES]) -> [[u16; 8]; 8] {
    // SAFETY: both types are 128 bytes of integers, with the low half of a word first, which is
    // this processor's byte order.
    unsafe { std::mem::transmute(*register) }
}

fn values(row: __m512d) -> [f64; 8] {
    // SAFETY: both types are 64 bytes of numbers.
    unsafe { std::mem::transmute(row) }
}

/// `d = a * b + c` for a 16 x 8 x 16 product, with registers as in [`super::matrix`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,fma,f16c")]
pub(super) fn multiply<const BF16: bool>(
    a: [&[u32; LANES]; 4],
    b: [&[u32; LANES]; 2],
    c: [&[u32; LANES]; 4],
) -> [[u32; LANES]; 4] {
    let mut left = [[0.0; 16]; 16];
    for (index, register) in a.into_iter().enumerate() {
        let from = index / 2 * 8;
        for (row, halves) in left[index % 2 * 8..].iter_mut().zip(halves(register)) {
            row[from..from + 8].copy_from_slice(&values(numbers::<BF16>(halves)));
        }
    }
    let mut right = [_mm512_setzero_pd(); 16];
    for (rows, register) in right.as_chunks_mut::<8>().0.iter_mut().zip(b) {
        // SAFETY: all types are 64 bytes of integers.
        let ([low, high], places): ([__m512i; 2], [__m512i; 2]) = unsafe {
            (
                std::mem::transmute::<[u32; LANES], [__m512i; 2]>(*register),
                std::mem::transmute::<[[u16; 32]; 2], [__m512i; 2]>([transposed(0), transposed(4)]),
            )
        };
        let turned = places.map(|places| _mm512_permutex2var_epi16(low, places, high));
        // SAFETY: both types are 128 bytes of integers.
        let turned: [[u16; 8]; 8] = unsafe { std::mem::transmute(turned) };
        for (row, halves) in rows.iter_mut().zip(turned) {
            *row = numbers::<BF16>(halves);
        }
    }
    let mut sums = [_mm512_setzero_pd(); 16];
    for (k, right) in right.into_iter().enumerate() {
        for (sum, left) in sums.iter_mut().zip(&left) {
            *sum = _mm512_fmadd_pd(_mm512_set1_pd(left[k]), right, *sum);
        }
    }
    let sums = sums.map(values);
    let mut d = [[0; LANES]; 4];
    for (half, sums) in sums.as_chunks::<8>().0.iter().enumerate() {
        let sums = sums.as_flattened();
        for e in 0..2 {
            let (d, c) = (&mut d[2 * half + e], c[2 * half + e]);
            for lane in 0..LANES {
                let sum = sums[2 * lane + e] + f64::from(f32::from_bits(c[lane]));
                d[lane] = canonical(sum as f32);
            }
        }
    }
    d
}

#[cfg(test)]
mod tests {
    use super::super::host::{Vectors, vectors};
    use super::*;
    use crate::number;

    #[test]
    fn products_are_those_of_their_elements() {
        if vectors() != Vectors::Of512 {
            return println!("skipped: no vectors of 512 bits");
        }
        let mut state = 3u64;
        let mut word = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        for round in 0..200 {
            // The first rounds use halves of moderate size, later ones any bits.
            let limit = if round < 100 { 0xbfff_bfff } else { u32::MAX };
            let mut register = || -> [u32; LANES] { std::array::from_fn(|_| word() & limit) };
            let a: [_; 4] = std::array::from_fn(|_| register());
            let b: [_; 2] = std::array::from_fn(|_| register());
            let c: [_; 4] = std::array::from_fn(|_| register());
            let (lhs, rhs, added) = (a.each_ref(), b.each_ref(), c.each_ref());
            // SAFETY: the processor has the features.
            let found = unsafe {
                [
                    multiply::<false>(lhs, rhs, added),
                    multiply::<true>(lhs, rhs, added),
                ]
            };
            for (d, format) in found.iter().zip([number::F16, number::BF16]) {
                let half = |register: &[u32; LANES], lane: usize, e: usize| {
                    format.value(register[lane] >> (16 * e) & 0xffff)
                };
                for (row, column) in (0..16).flat_map(|row| (0..8).map(move |c| (row, c))) {
                    let sum = (0..16).fold(0.0f64, |sum, k| {
                        let x = half(&a[row / 8 + k / 8 * 2], row % 8 * 4 + k % 8 / 2, k % 2);
                        let y = half(&b[k / 8], column * 4 + k % 8 / 2, k % 2);
                        x.mul_add(y, sum)
                    });
                    let (index, lane) = (row / 8 * 2 + column % 2, row % 8 * 4 + column / 2);
                    let sum = sum + f64::from(f32::from_bits(c[index][lane]));
                    assert_eq!(d[index][lane], canonical(sum as f32), "{row} {column}");
                }
            }
        }
    }
}
