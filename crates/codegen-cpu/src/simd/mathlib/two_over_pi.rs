//! The bits of 2/pi as tables in memory, for the reduction of large arguments.

use crate::simd::builder::Builder;
use crate::simd::ir::{Access, Input, Storage};
use std::sync::OnceLock;

/// The first 1,216 bits of 2/pi after the point.
const TWO_OVER_PI: [u64; 19] = [
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
];

/// The number of bits in a limb.
pub(super) const LIMB: i64 = 12;

/// The index of the words for `f64`, after those for `f32`.
pub(super) const WORDS_AT: usize = 256 * 4;
/// The number of zero words before the bits: these are bits of whole turns.
pub(super) const ZERO_WORDS: usize = 2;
/// The length of the table.
const LEN: usize = WORDS_AT + ZERO_WORDS + 2 * TWO_OVER_PI.len();

/// `count` bits of 2/pi from bit `place` after the point; bits before the point are zeros.
fn bits_at(place: i64, count: i64) -> u32 {
    (place..place + count).fold(0, |bits, at| {
        let bit = usize::try_from(at).ok().and_then(|at| {
            let word = TWO_OVER_PI.get(at / 64)?;
            Some((word >> (63 - at % 64) & 1) as u32)
        });
        bits << 1 | bit.unwrap_or(0)
    })
}

/// For each biased exponent of an `f32`, eight limbs of 2/pi whose product with its integer
/// mantissa is the number of turns without whole ones; each word holds two limbs, the first the
/// more significant. They are followed by the bits for `f64` in words, the most significant first.
pub(crate) fn table() -> &'static [u32; LEN] {
    static TABLE: OnceLock<Box<[u32; LEN]>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = Box::new([0; LEN]);
        let (limbs, words) = table.split_at_mut(WORDS_AT);
        for (i, limbs) in limbs.iter_mut().enumerate() {
            let (exponent, pair) = (i as i64 / 4, i as i64 % 4);
            // x is an integer times 2^(exponent - 150), and a turn four quarters.
            let place = exponent - 152 + 2 * LIMB * pair;
            *limbs = bits_at(place, 2 * LIMB);
        }
        for (i, word) in words.iter_mut().enumerate() {
            *word = bits_at(32 * (i as i64 - ZERO_WORDS as i64), 32);
        }
        table
    })
}

/// An access to the table.
pub(super) fn access(b: &mut Builder) -> u32 {
    let pointer = b.input(Input::Integer);
    b.body().tables.push(pointer);
    b.access(Access {
        pointer,
        storage: Storage {
            bytes: 4,
            signed: false,
        },
        splat: false,
    })
}
