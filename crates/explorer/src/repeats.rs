//! Repeated layers: where a sequence of steps repeats itself, as the layers of a network do.

use serde::Serialize;

/// A run of equal parts of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Repeat {
    /// The first step of the first part.
    pub start: usize,
    /// Steps of a part.
    pub period: usize,
    /// How many parts there are, at least 2.
    pub count: usize,
}

/// Parts shorter than this are not worth a box of their own.
const LEAST_PERIOD: usize = 3;

/// The run that covers most steps, and of those the one with the shortest part.
pub(crate) fn longest_repeat<T: PartialEq>(steps: &[T]) -> Option<Repeat> {
    let mut best: Option<Repeat> = None;
    for period in LEAST_PERIOD..=steps.len() / 2 {
        let mut run = 0;
        for at in 0..=steps.len() - period {
            if steps.get(at + period) == steps.get(at) {
                run += 1;
                continue;
            }
            let found = Repeat {
                start: at - run,
                period,
                count: run / period + 1,
            };
            let covers = |r: &Repeat| r.period * r.count;
            if found.count >= 2 && best.as_ref().is_none_or(|b| covers(&found) > covers(b)) {
                best = Some(found);
            }
            run = 0;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_found_between_other_steps() {
        let steps: Vec<char> = "xyabcdabcdabcdz".chars().collect();
        let expected = Repeat {
            start: 2,
            period: 4,
            count: 3,
        };
        assert_eq!(longest_repeat(&steps), Some(expected));
    }

    #[test]
    fn short_parts_and_single_ones_are_no_repeat() {
        assert_eq!(longest_repeat(&['a', 'b', 'a', 'b', 'a', 'b', 'c']), None);
        assert_eq!(longest_repeat::<u8>(&[]), None);
        assert_eq!(longest_repeat(&['a', 'b', 'c', 'd']), None);
    }
}
