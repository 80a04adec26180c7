//! The geometry of a convolution: sizes and strides by the role of each dimension, and the elements
//! that a window touches, as sums of strides.
//!
//! Output `o` and tap `t` of the window meet the dilated base at
//! `o * stride + t * window_dilation - padding_low`. With a base dilation of more than 1, the
//! outputs divide into *phases*. The outputs of a phase meet elements of the base by the same taps,
//! a fixed number of taps apart, and within a phase everything is linear again. The zeros between
//! the base's elements are therefore never multiplied. Adjacent phases that meet the same elements,
//! each by taps one before those of the next, are joined to one with a *width*: in the product they
//! are columns, as output features are.

/// The maximum number of phases of a dimension, before adjacent ones are joined.
const MAX_PHASES: i64 = 4096;

/// A dimension of one array: its size and stride in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dim {
    /// The number of positions.
    pub size: i64,
    /// The distance between positions, in elements.
    pub stride: i64,
}

/// Writes the sizes of a dense row-major array, with its strides.
pub fn row_major(sizes: &[i64], dims: &mut [Dim]) {
    let mut stride = 1i64;
    for (&size, dim) in sizes.iter().zip(dims).rev() {
        *dim = Dim { size, stride };
        stride = stride.saturating_mul(size.max(1));
    }
}

/// The movement of a window along one dimension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// The distance between the windows of consecutive outputs; at least 1.
    pub stride: i64,
    /// Positions of padding before the input's first element; a negative number skips elements.
    pub padding_low: i64,
    /// The distance between the input's elements; at least 1.
    pub base_dilation: i64,
    /// The distance between the window's taps; at least 1.
    pub window_dilation: i64,
    /// Whether the kernel's elements are used in reverse order.
    pub is_reversed: bool,
}

/// A spatial dimension.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spatial {
    /// The dimension in the input.
    pub input: Dim,
    /// The dimension in the kernel.
    pub kernel: Dim,
    /// The dimension in the output.
    pub output: Dim,
    /// The window.
    pub window: Window,
    /// The number of the dimension in the input.
    pub input_dim: usize,
}

/// Sizes and strides of a convolution.
#[derive(Clone, Copy, Debug)]
pub struct Geometry<'a> {
    /// The input's sizes.
    pub input_dims: &'a [i64],
    /// The numbers of the input's batch and feature dimensions.
    pub other_input_dims: [usize; 2],
    /// The batch dimension of the input and of the output.
    pub batch: [Dim; 2],
    /// The input features' dimension, of the input and of the kernel.
    pub in_features: [Dim; 2],
    /// The output features' dimension, of the kernel and of the output.
    pub out_features: [Dim; 2],
    /// The spatial dimensions.
    pub spatial: &'a [Spatial],
    /// The number of groups.
    pub groups: i64,
    /// Whether groups divide the batch; otherwise they divide the features.
    pub are_of_batch: bool,
    /// The number of output features in a group.
    pub group_outputs: i64,
}

impl Geometry<'_> {
    /// The positions along the input's batch and features of the first element that is summed for
    /// the result at a batch index and an output feature.
    pub fn input_offset(&self, batch: i64, feature: i64) -> [i64; 2] {
        let group = match self.groups {
            ..=1 => 0,
            // Without features, no group is asked for.
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

    /// The number of the output's elements; `None` if it overflows.
    pub fn output_elements(&self) -> Option<i64> {
        let spatial = self.spatial.iter().map(|spatial| spatial.output.size);
        let mut all = spatial.chain([self.batch[1].size, self.out_features[1].size]);
        all.try_fold(1i64, i64::checked_mul)
    }
}

/// The outputs of one spatial dimension that meet the base by the same taps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    /// The outputs.
    pub outputs: Progression,
    /// The taps; there may be none.
    pub taps: Progression,
    /// The element of the base that the first output meets by the first tap.
    pub start: i64,
    /// The distance that this element moves from one output to the next.
    pub by_output: i64,
    /// The distance that this element moves from one tap to the next.
    pub by_tap: i64,
    /// The number of joined phases. The outputs of each phase are those of the phase before plus
    /// one.
    pub width: i64,
    /// The difference between the taps of a phase and those of the phase before.
    pub tap_shift: i64,
}

/// An arithmetic progression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progression {
    /// The first term.
    pub first: i64,
    /// The difference.
    pub step: i64,
    /// The number of terms.
    pub count: i64,
}

impl Progression {
    /// The terms of `first, first + step, ...` below `end`.
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
    /// Calls `visit` with phases that together contain every output once, until it returns `false`.
    /// If `are_wide`, adjacent phases are joined to as few as possible; otherwise all have width 1.
    /// `None` if there are more than `MAX_PHASES`.
    pub fn phases(&self, are_wide: bool, visit: &mut dyn FnMut(Phase) -> bool) -> Option<()> {
        let w = self.window;
        if w.base_dilation < 1 || w.stride < 1 || w.window_dilation < 1 || self.kernel.size < 0 {
            return None;
        }
        // The periods with which outputs, and taps, meet the base in the same way.
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

    /// The phase of an output, before adjacent phases are joined.
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

    /// The element of the base where an output and a tap meet (it may be outside of the base), and
    /// the distance of the meeting point after that element: not 0 if they meet between elements.
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

    /// The element of the base where an output and a tap meet; `None` if they meet between elements
    /// or outside of the base.
    pub fn meet(&self, output: i64, tap: i64) -> Option<i64> {
        let (element, rest) = self.element(output, tap)?;
        (rest == 0 && (0..self.input.size).contains(&element)).then_some(element)
    }

    /// The offset of a tap in the kernel's memory.
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
    /// The two phases joined, if `next` continues this one.
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

    /// The range of the base's elements that are met; it may exceed the base.
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
