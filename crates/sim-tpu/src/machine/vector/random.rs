//! The core's random number generator. Its words differ from the hardware's, which are not
//! published; like the hardware, it gives the same words for the same seed and other words for
//! another seed.

/// The generator: splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014).
#[derive(Clone, Debug, Default)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// The generator with this seed.
    pub(crate) fn seeded(seed: &[i64]) -> Self {
        let mut made = Self::default();
        for number in seed {
            made.state ^= *number as u64;
            made.state = made.next();
        }
        made
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next 32-bit words.
    pub(crate) fn words(&mut self, count: usize) -> Vec<i32> {
        (0..count).map(|_| (self.next() >> 32) as i32).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_its_words_again_and_bits_are_even() {
        let words = Random::seeded(&[1, 2]).words(4096);
        assert_eq!(words, Random::seeded(&[1, 2]).words(4096));
        assert_ne!(words, Random::seeded(&[2, 1]).words(4096));
        let ones: u32 = words.iter().map(|word| word.count_ones()).sum();
        assert!((ones as f64 / (32.0 * 4096.0) - 0.5).abs() < 0.01);
    }
}
