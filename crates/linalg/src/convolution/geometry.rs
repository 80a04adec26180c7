//! The geometry of a convolution: sizes and strides by the role of each dimension, and the elements
//! that a window touches, as sums of strides.
//!
//! Output `o` and tap `t` of the window meet the dilated base at `o * stride + t * window_dilation
//! - padding_low`. With a base dilation of more than 1, the outputs divide into *phases*. The
//! outputs of a phase meet elements of the base by the same taps, a fixed number of taps apart, and
//! within a phase everything is linear again. The zeros between the base's elements are therefore
//! never multiplied. Adjacent phases that meet the same elements, each by taps one before those of
//! the next, are joined to one with a *width*: in the product they are columns, as output features
//! are.

/// The most phases of a dimension before those beside each other are made one.
const MAX_PHASES: i64 = 4096;

/// A dimension of one array: its size and stride in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dim {
    /// How many positions it has.
    pub size: i64,
    /// How many elements these are apart.
    pub stride: i64,
}

/// The sizes of an array with the strides of its elements, which are dense and row-major.
pub fn row_major(sizes: &[i64], dims: &mut [Dim]) {
    let mut stride = 1i64;
    for (&size, dim) in sizes.iter().zip(dims).rev() {
        *dim = Dim { size, stride };
        stride = stride.saturating_mul(size.max(1));
    }
}

/// How a window moves along one dimension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// How far the window of an output is from that of the one before; at least 1.
    pub stride: i64,
    /// Positions before the input's first element; less than 0 leaves elements out.
    pub padding_low: i64,
    /// How far the input's elements are apart; at least 1.
    pub base_dilation: i64,
    /// How far the window's taps are apart; at least 1.
    pub window_dilation: i64,
    /// Whether the kernel's elements are taken from the last to the first.
    pub is_reversed: bool,
}

/// A spatial dimension.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spatial {
    /// In the input.
    pub input: Dim,
    /// In the kernel.
    pub kernel: Dim,
    /// In the output.
    pub output: Dim,
    /// The window.
    pub window: Window,
    /// Which dimension of the input it is.
    pub input_dim: usize,
}

/// Sizes and strides of a convolution.
#[derive(Clone, Copy, Debug)]
pub struct Geometry<'a> {
    /// The input's sizes.
    pub input_dims: &'a [i64],
    /// Which of the input's dimensions are batch and features.
    pub other_input_dims: [usize; 2],
    /// The input's and the output's.
    pub batch: [Dim; 2],
    /// The input's and the kernel's.
    pub in_features: [Dim; 2],
    /// The kernel's and the output's.
    pub out_features: [Dim; 2],
    /// The spatial dimensions.
    pub spatial: &'a [Spatial],
    /// How many groups there are.
    pub groups: i64,
    /// Whether these are parts of the batch; else they are parts of the features.
    pub are_of_batch: bool,
    /// The output features of one group.
    pub group_outputs: i64,
}

impl Geometry<'_> {
    /// The position along the input's batch and features of the first element that the result at a batch and an output
    /// feature sums over.
    pub fn input_offset(&self, batch: i64, feature: i64) -> [i64; 2] {
        let group = match self.groups {
            ..=1 => 0,
            // Of no features none asks for its group.
            _ => feature / self.group_outputs.max(1),
        };
        match self.are_of_batch {
            true => {
                let size = self.batch[0].size / self.groups.max(1);
                [group.saturating_mul(size).saturating_add(batch), 0]
            }
            false => [batch, group.saturating_mul(self.in_features[1].size)],
        }
    }

    /// How many elements the output has; `None` if that is no number.
    pub fn output_elements(&self) -> Option<i64> {
        let spatial = self.spatial.iter().map(|spatial| spatial.output.size);
        let mut all = spatial.chain([self.batch[1].size, self.out_features[1].size]);
        all.try_fold(1i64, i64::checked_mul)
    }
}

/// Outputs of one spatial dimension that meet the base with the same taps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    /// The first output, the distance between outputs, and how many there are.
    pub outputs: Progression,
    /// The same of taps; there may be none.
    pub taps: Progression,
    /// The element of the base that the first output meets with the first tap.
    pub start: i64,
    /// How far it moves from one output to the next.
    pub by_output: i64,
    /// How far it moves from one tap to the next.
    pub by_tap: i64,
    /// How many phases this is: the outputs of each are one further than those of the one before.
    pub width: i64,
    /// How many taps further those of each are.
    pub tap_shift: i64,
}

/// Numbers at equal distances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progression {
    /// The first.
    pub first: i64,
    /// The distance.
    pub step: i64,
    /// How many.
    pub count: i64,
}

impl Progression {
    /// The members of `first, first + step, ...` below `end`.
    fn below(first: i64, step: i64, end: i64) -> Self {
        let count = if first >= end {
            0
        } else {
            (end - first - 1) / step + 1
        };
        Self { first, step, count }
    }
}

impl Spatial {
    /// Calls `visit` with the phases, which have every output once, as few and wide as they can be, or all of width 1,
    /// until it gives `false`; `None` if there are more than [`MAX_PHASES`].
    pub fn phases(&self, are_wide: bool, visit: &mut dyn FnMut(Phase) -> bool) -> Option<()> {
        let w = self.window;
        if w.base_dilation < 1 || w.stride < 1 || w.window_dilation < 1 || self.kernel.size < 0 {
            return None;
        }
        // Outputs so far apart meet the base in the same way, and so do taps.
        let output_step = w.base_dilation / gcd(w.base_dilation, w.stride);
        let tap_step = w.base_dilation / gcd(w.base_dilation, w.window_dilation);
        if output_step > MAX_PHASES {
            return None;
        }
        let mut last: Option<Phase> = None;
        for output in 0..output_step.min(self.output.size) {
            let next = self.phase(output, [output_step, tap_step])?;
            let wider = last
                .filter(|_| are_wide)
                .and_then(|last| last.followed_by(&next));
            if let (Some(last), None) = (last, wider)
                && !visit(last)
            {
                return Some(());
            }
            last = Some(wider.unwrap_or(next));
        }
        if let Some(last) = last {
            visit(last);
        }
        Some(())
    }

    /// The phase of an output before those beside each other are made one.
    fn phase(&self, output: i64, [output_step, tap_step]: [i64; 2]) -> Option<Phase> {
        let w = self.window;
        let mut phase = Phase {
            outputs: Progression::below(output, output_step, self.output.size),
            by_output: output_step.checked_mul(w.stride)? / w.base_dilation,
            by_tap: tap_step.checked_mul(w.window_dilation)? / w.base_dilation,
            width: 1,
            ..Phase::default()
        };
        for tap in 0..tap_step.min(self.kernel.size) {
            let (element, rest) = self.element(output, tap)?;
            if rest == 0 {
                phase.taps = Progression::below(tap, tap_step, self.kernel.size);
                phase.start = element;
                break;
            }
        }
        Some(phase)
    }

    /// The element of the base where an output and a tap meet, which may lie outside, and how far behind it
    /// they do, between elements.
    fn element(&self, output: i64, tap: i64) -> Option<(i64, i64)> {
        let w = self.window;
        let begin = output.checked_mul(w.stride)?;
        let place = begin.checked_add(tap.checked_mul(w.window_dilation)?)?;
        let place = place.checked_sub(w.padding_low)?;
        Some((
            place.div_euclid(w.base_dilation),
            place.rem_euclid(w.base_dilation),
        ))
    }

    /// The element of the base where an output and a tap meet, if there is one.
    pub fn meet(&self, output: i64, tap: i64) -> Option<i64> {
        let (element, rest) = self.element(output, tap)?;
        (rest == 0 && (0..self.input.size).contains(&element)).then_some(element)
    }

    /// The place of a tap in the kernel's memory.
    pub fn tap_offset(&self, tap: i64) -> i64 {
        let tap = if self.window.is_reversed {
            self.kernel.size - 1 - tap
        } else {
            tap
        };
        tap * self.kernel.stride
    }
}

impl Phase {
    /// Both as one, if `next` is the phase after this that a wider one has.
    fn followed_by(&self, next: &Self) -> Option<Self> {
        let tap_shift = match self.width {
            1 => next.taps.first - self.taps.first,
            _ => self.tap_shift,
        };
        let expected = Self {
            outputs: Progression {
                first: self.outputs.first + self.width,
                ..self.outputs
            },
            taps: Progression {
                first: self.taps.first + tap_shift * self.width,
                ..self.taps
            },
            width: 1,
            tap_shift: 0,
            ..*self
        };
        let wider = Self {
            width: self.width + 1,
            tap_shift,
            ..*self
        };
        (expected == *next).then_some(wider)
    }

    /// The first element of the base that is met and the one after the last; they may lie outside of it.
    pub fn reach(&self) -> Option<(i64, i64)> {
        if self.taps.count == 0 || self.outputs.count == 0 {
            return None;
        }
        let outputs = (self.outputs.count - 1).checked_mul(self.by_output)?;
        let taps = (self.taps.count - 1).checked_mul(self.by_tap)?;
        let end = self.start.checked_add(outputs)?.checked_add(taps)?;
        Some((self.start, end.checked_add(1)?))
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_meet_what_the_window_meets() {
        let (mut checked, mut wide) = (0, 0);
        let steps = [
            (1, 1, 1),
            (2, 1, 3),
            (1, 2, 1),
            (3, 2, 1),
            (2, 4, 3),
            (1, 4, 1),
            (1, 3, 2),
        ];
        for (stride, base, dilation) in steps {
            for (low, kernel, outputs) in [(0, 3, 7), (2, 4, 9), (-1, 1, 5), (5, 6, 1), (3, 8, 16)]
            {
                let dim = |size| Dim { size, stride: 1 };
                let spatial = Spatial {
                    input: dim(6),
                    kernel: dim(kernel),
                    output: dim(outputs),
                    window: Window {
                        stride,
                        padding_low: low,
                        base_dilation: base,
                        window_dilation: dilation,
                        is_reversed: false,
                    },
                    input_dim: 0,
                };
                let mut met = Vec::new();
                let visited = spatial.phases(true, &mut |phase| {
                    wide += usize::from(phase.width > 1);
                    for q in 0..phase.outputs.count {
                        for j in 0..phase.taps.count {
                            let element = phase.start + q * phase.by_output + j * phase.by_tap;
                            let (low, end) = phase.reach().expect("there are taps");
                            assert!((low..end).contains(&element));
                            if !(0..6).contains(&element) {
                                continue;
                            }
                            for i in 0..phase.width {
                                let output = phase.outputs.first + i + q * phase.outputs.step;
                                let tap =
                                    phase.taps.first + i * phase.tap_shift + j * phase.taps.step;
                                met.push((output, tap, element));
                            }
                        }
                    }
                    true
                });
                assert_eq!(visited, Some(()), "few phases");
                met.sort_unstable();
                let all = (0..outputs).flat_map(|o| (0..kernel).map(move |t| (o, t)));
                let wanted: Vec<_> = all
                    .filter_map(|(o, t)| spatial.meet(o, t).map(|e| (o, t, e)))
                    .collect();
                assert_eq!(met, wanted);
                checked += met.len();
            }
        }
        assert!(checked > 100);
        assert!(wide > 2, "{wide}");
    }
}
