//! The torus of a slice: its axes, and the position of each chip.

use crate::Error;
use std::fmt;

/// The maximum number of chips of a slice: the largest known pod has 9,216.
const MOST_CHIPS: usize = 1 << 16;

/// An axis of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The number of chips along the axis.
    pub size: usize,
    /// Whether the last chip has a link to the first one.
    pub wraps: bool,
}

/// The chips of a slice in row-major order: the last axis varies fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torus {
    /// The axes.
    pub axes: Vec<Axis>,
}

impl fmt::Display for Torus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, axis) in self.axes.iter().enumerate() {
            if number > 0 {
                f.write_str("x")?;
            }
            write!(f, "{}", axis.size)?;
        }
        Ok(())
    }
}

impl Torus {
    /// Parses a text such as `16x16`. An axis whose size is a multiple of `wraps_at` is a ring.
    ///
    /// # Errors
    /// A part that is not a positive number, or too many chips.
    pub fn parse(text: &str, wraps_at: usize) -> Result<Self, Error> {
        let wrong = |why: String| Error::Topology {
            text: text.to_owned(),
            why,
        };
        let mut axes = Vec::new();
        let mut chips = 1_usize;
        for part in text.split(['x', 'X']) {
            let part = part.trim();
            if part.is_empty() {
                return Err(wrong("has an axis without a number".to_owned()));
            }
            let size: usize = part
                .parse()
                .map_err(|_| wrong(format!("has `{part}`, which is not a number of chips")))?;
            if size == 0 {
                return Err(wrong("has an axis of 0 chips".to_owned()));
            }
            chips = chips.saturating_mul(size);
            if chips > MOST_CHIPS {
                return Err(wrong(format!("has more than {MOST_CHIPS} chips")));
            }
            // Two chips have a single link, which does not form a ring.
            let wraps = size > 2 && wraps_at > 0 && size.is_multiple_of(wraps_at);
            axes.push(Axis { size, wraps });
        }
        Ok(Self { axes })
    }

    /// The number of chips.
    pub fn chips(&self) -> usize {
        self.axes.iter().map(|axis| axis.size).product()
    }

    /// The position of a chip along each axis.
    pub fn coordinates(&self, mut chip: usize) -> Vec<usize> {
        let mut at = vec![0; self.axes.len()];
        for (at, axis) in at.iter_mut().zip(&self.axes).rev() {
            *at = chip % axis.size;
            chip /= axis.size;
        }
        at
    }

    /// The signed number of links between two positions along an axis, by the shorter path; if both
    /// are equally long, in the positive direction.
    pub fn distance(&self, axis: usize, from: usize, to: usize) -> isize {
        let Some(Axis { size, wraps }) = self.axes.get(axis).copied() else {
            return 0;
        };
        let straight = to as isize - from as isize;
        if !wraps {
            return straight;
        }
        let size = size as isize;
        let up = straight.rem_euclid(size);
        if up * 2 <= size { up } else { up - size }
    }
}
