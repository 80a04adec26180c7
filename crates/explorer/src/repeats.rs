//! Finds repeated layers: a part of a sequence of steps that occurs several times in a row.

use serde::Serialize;

/// Equal consecutive parts of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Repeat {
    /// The index of the first step of the first part.
    pub start: usize,
    /// The number of steps in a part.
    pub period: usize,
    /// The number of parts, at least 2.
    pub count: usize,
}

/// Parts shorter than this are too small for a box of their own.
const LEAST_PERIOD: usize = 3;

/// Finds the repetition that covers most steps; if several do, the one with the shortest part.
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
