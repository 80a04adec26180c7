//! The numbers of a convolution: sizes and strides by what a dimension is for, and
//! which elements a window touches, as sums of strides.
//!
//! An output and a tap of the window meet where the window's helper says
//! ([`WindowDim::meet`]). With a base dilation of more than 1, outputs fall into
//! *phases*: those of one phase meet elements with the same taps, every so many
//! apart, and within a phase everything is linear again. So nothing is multiplied
//! by the zeros between the base's elements. Phases beside each other that meet the same
//! elements, each with taps one before those of the other, are one with a *width*: to a product
//! they are columns, as output features are.

use smallvec::SmallVec;
use tegula_expr::{Number, numbers};
use tegula_ir::helpers::{ConvolutionGroups, GroupSizes};
use tegula_ir::{ArrayShape, ConvDims, WindowDim};

/// The most phases of a dimension before those beside each other are made one.
const MAX_PHASES: i64 = 4096;

/// A dimension of one array: its size and stride in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dim {
    pub(super) size: i64,
    pub(super) stride: i64,
}

/// A spatial dimension.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spatial {
    pub(super) input: Dim,
    pub(super) kernel: Dim,
    pub(super) output: Dim,
    pub(super) window: WindowDim,
    /// Which dimension of the input it is.
    pub(super) input_dim: usize,
}

/// Sizes and strides of a convolution.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    pub(super) input_dims: SmallVec<[i64; 6]>,
    /// Which of the input's dimensions are batch and features.
    pub(super) other_input_dims: [usize; 2],
    pub(super) batch: [Dim; 2],
    /// Input's, kernel's.
    pub(super) in_features: [Dim; 2],
    /// Kernel's, output's.
    pub(super) out_features: [Dim; 2],
    pub(super) spatial: SmallVec<[Spatial; 3]>,
    groups: ConvolutionGroups,
    group: GroupSizes<Number>,
}

/// Outputs of one spatial dimension that meet the base with the same taps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Phase {
    /// The first output, the distance between outputs, and how many there are.
    pub(super) outputs: Progression,
    /// The same of taps; there may be none.
    pub(super) taps: Progression,
    /// The element of the base that the first output meets with the first tap.
    pub(super) start: i64,
    /// How far it moves from one output to the next, and from one tap to the next.
    pub(super) by_output: i64,
    pub(super) by_tap: i64,
    /// How many phases this is: the outputs of each are one further than those of the one before,
    /// and its taps so many further.
    pub(super) width: i64,
    pub(super) tap_shift: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progression {
    pub(super) first: i64,
    pub(super) step: i64,
    pub(super) count: i64,
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

impl Geometry {
    /// `None` if the shapes are not static or do not fit the dimension numbers; a
    /// verified operation's do.
    pub(super) fn new(
        [input, kernel, output]: [&ArrayShape; 3],
        window: &[WindowDim],
        dims: &ConvDims,
        groups: ConvolutionGroups,
    ) -> Option<Self> {
        let (x, k, y) = (strided(input)?, strided(kernel)?, strided(output)?);
        let at = |dims: &[Dim], i: i64| dims.get(usize::try_from(i).ok()?).copied();
        let mut spatial = SmallVec::new();
        for (i, &window) in window.iter().enumerate() {
            let input_dim = *dims.input_spatial.get(i)?;
            spatial.push(Spatial {
                input: at(&x, input_dim)?,
                kernel: at(&k, *dims.kernel_spatial.get(i)?)?,
                output: at(&y, *dims.output_spatial.get(i)?)?,
                window,
                input_dim: usize::try_from(input_dim).ok()?,
            });
        }
        let (batch, in_features) = (
            at(&x, dims.input_batch)?,
            at(&k, dims.kernel_input_feature)?,
        );
        let out_features = at(&k, dims.kernel_output_feature)?;
        let sizes = [out_features, in_features, batch].map(|dim| Ok(dim.size));
        let group = groups.sizes(&mut numbers(), &sizes[0], &sizes[1], &sizes[2]);
        Some(Self {
            input_dims: x.iter().map(|d| d.size).collect(),
            other_input_dims: [
                usize::try_from(dims.input_batch).ok()?,
                usize::try_from(dims.input_feature).ok()?,
            ],
            batch: [batch, at(&y, dims.output_batch)?],
            in_features: [at(&x, dims.input_feature)?, in_features],
            out_features: [out_features, at(&y, dims.output_feature)?],
            spatial,
            groups,
            group,
        })
    }

    /// How many outputs one element of a group's kernel makes: the groups, and the
    /// output features of each.
    pub(super) fn groups(&self) -> (i64, i64) {
        (self.groups.count(), self.group.outputs.unwrap_or(0))
    }

    /// Where the first element of the input lies that the result at a batch and an
    /// output feature sums over.
    pub(super) fn input_offset(&self, batch: i64, feature: i64) -> i64 {
        let at = [&Ok(batch), &Ok(feature), &Ok(0)];
        let [batch, channel] = self.groups.input(&mut numbers(), &self.group, at);
        let offset = |at: Number, dim: Dim| at.unwrap_or(0).saturating_mul(dim.stride);
        offset(batch, self.batch[0]).saturating_add(offset(channel, self.in_features[0]))
    }
}

/// Sizes and row-major strides.
pub(super) fn strided(shape: &ArrayShape) -> Option<SmallVec<[Dim; 6]>> {
    let dims = shape.static_dims()?;
    Some(row_major(&dims))
}

pub(super) fn row_major(dims: &[i64]) -> SmallVec<[Dim; 6]> {
    let mut stride = 1i64;
    let mut strided: SmallVec<[Dim; 6]> = SmallVec::new();
    for &size in dims.iter().rev() {
        strided.push(Dim { size, stride });
        stride = stride.saturating_mul(size.max(1));
    }
    strided.reverse();
    strided
}

impl Spatial {
    /// The phases, which have every output once, as few and wide as they can be, or all of width 1;
    /// `None` if there are more than [`MAX_PHASES`].
    pub(super) fn phases(&self, wide: bool) -> Option<Vec<Phase>> {
        let phases = self.single_phases()?;
        Some(if wide { merged(phases) } else { phases })
    }

    fn single_phases(&self) -> Option<Vec<Phase>> {
        let w = self.window.from_begin();
        if !w.is_possible() {
            return None;
        }
        let (base, stride, dilation) = (w.base_dilation, w.stride, w.window_dilation);
        // Outputs so far apart meet the base in the same way, and so do taps.
        let output_step = base / gcd(base, stride);
        let tap_step = base / gcd(base, dilation);
        if output_step > MAX_PHASES {
            return None;
        }
        let mut phases = Vec::new();
        for output in 0..output_step {
            let outputs = Progression::below(output, output_step, self.output.size);
            if outputs.count == 0 {
                continue;
            }
            let mut phase = Phase {
                outputs,
                by_output: output_step.checked_mul(stride)? / base,
                by_tap: tap_step.checked_mul(dilation)? / base,
                width: 1,
                ..Phase::default()
            };
            for tap in 0..tap_step.min(self.kernel.size) {
                let place = w.place(&mut numbers(), &Ok(output), &Ok(tap));
                let (element, rest) = w.base().element(&mut numbers(), &place);
                if rest.ok()? == 0 {
                    phase.taps = Progression::below(tap, tap_step, self.kernel.size);
                    phase.start = element.ok()?;
                    break;
                }
            }
            phases.push(phase);
        }
        Some(phases)
    }

    /// The element of the base where an output and a tap meet.
    pub(super) fn meet(&self, output: i64, tap: i64) -> Option<i64> {
        let (element, inside) = self.window.from_begin().meet(
            &mut numbers(),
            &Ok(self.input.size),
            &Ok(output),
            &Ok(tap),
        );
        element.ok().filter(|_| inside == Ok(1))
    }

    /// The place of a tap in the kernel's memory.
    pub(super) fn tap_offset(&self, tap: i64) -> i64 {
        let tap = if self.window.reversal {
            self.kernel.size - 1 - tap
        } else {
            tap
        };
        tap * self.kernel.stride
    }
}

/// The same phases, those beside each other that differ in their taps alone as one.
fn merged(phases: Vec<Phase>) -> Vec<Phase> {
    let mut merged: Vec<Phase> = Vec::with_capacity(phases.len());
    for next in phases {
        let wider = merged.last().and_then(|last| last.followed_by(&next));
        match (merged.last_mut(), wider) {
            (Some(last), Some(wider)) => *last = wider,
            _ => merged.push(next),
        }
    }
    merged
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

    /// The first element of the base that is met and the one after the last; they
    /// may lie outside of it.
    pub(super) fn reach(&self) -> Option<(i64, i64)> {
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
                    window: WindowDim {
                        size: kernel,
                        stride,
                        padding_low: low,
                        padding_high: 0,
                        base_dilation: base,
                        window_dilation: dilation,
                        reversal: false,
                    },
                    input_dim: 0,
                };
                let mut met = Vec::new();
                for phase in spatial.phases(true).expect("few phases") {
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
                }
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
