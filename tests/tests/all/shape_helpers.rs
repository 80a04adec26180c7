//! The numbers that shape helpers have besides result sizes, in three modes, against
//! plain arithmetic.

use std::convert::Infallible;
use tegula_expr::{Extract, Provider, ShapeHelper};
use tegula_ir::helpers::{
    ConcatenateSizes, ConvolutionGroups, GroupSizes, PadSizes, SliceSizes, WindowSizes,
};
use tegula_ir::{PadDim, SliceDim, TO_END, WindowDim};
use tegula_tests::random::Random;
use tegula_tests::shape_modes::{Actual, in_three_modes};

const CASES: usize = 60;

/// A window along operand 0; where position 1 has tap 1.
struct Window(WindowDim);

impl ShapeHelper for Window {
    type Shapes<I: Clone> = (WindowSizes<I>, I);
    type Error = Infallible;

    fn compute<P: Provider>(
        &self,
        p: &mut P,
    ) -> Result<(WindowSizes<P::Index>, P::Index), Infallible> {
        let (size, one) = (p.shape_as_dim(0, 0), p.literal(1));
        Ok((self.0.sizes(p, &size), self.0.place(p, &one, &one)))
    }

    fn numbers<I: Clone>((sizes, place): (WindowSizes<I>, I)) -> Vec<I> {
        vec![
            sizes.dilated,
            sizes.padded,
            sizes.extent,
            sizes.positions,
            place,
        ]
    }
}

#[test]
fn windows() {
    let mut random = Random::new(1);
    for _ in 0..CASES {
        let size = random.between(0, 12);
        let w = WindowDim {
            size: random.between(1, 4),
            stride: random.between(1, 3),
            padding_low: random.between(-1, 3),
            padding_high: random.between(0, 3),
            window_dilation: random.between(1, 2),
            base_dilation: random.between(1, 3),
            reversal: random.between(0, 1) == 1,
        };
        let dilated = if size == 0 {
            0
        } else {
            (size - 1) * w.base_dilation + 1
        };
        let padded = dilated + w.padding_low + w.padding_high;
        let extent = (w.size - 1) * w.window_dilation + 1;
        // Counted: every begin at which the window still fits.
        let begins = (0..=padded - extent).step_by(w.stride as usize);
        let tap = if w.reversal { w.size - 2 } else { 1 };
        let place = w.stride + tap * w.window_dilation - w.padding_low;
        let expected = vec![dilated, padded, extent, begins.count() as i64, place];
        let found = in_three_modes(&Window(w), &[Actual::array(&[size])]);
        assert_eq!(found, Ok(Some(expected)), "{w:?} on {size}");
    }
}

/// Where the window's tap 1 at position 1 meets an element, whether it does, and how far
/// that element is behind the tap of position 0.
struct Meeting(WindowDim);

impl ShapeHelper for Meeting {
    type Shapes<I: Clone> = [I; 3];
    type Error = Infallible;

    fn compute<P: Provider>(&self, p: &mut P) -> Result<[P::Index; 3], Infallible> {
        let (size, one) = (p.shape_as_dim(0, 0), p.literal(1));
        let (element, inside) = self.0.meet(p, &size, &one, &one);
        let place = self.0.base().place(p, &element);
        Ok([element, inside, self.0.distance(p, &place, &one)])
    }

    fn numbers<I: Clone>(shapes: [I; 3]) -> Vec<I> {
        shapes.to_vec()
    }
}

#[test]
fn windows_meet_elements() {
    let mut random = Random::new(5);
    let mut met = 0;
    for _ in 0..3 * CASES {
        let size = random.between(0, 6);
        let w = WindowDim {
            size: random.between(2, 4),
            stride: random.between(1, 3),
            padding_low: random.between(-1, 3),
            padding_high: 0,
            window_dilation: random.between(1, 3),
            base_dilation: random.between(1, 3),
            reversal: random.between(0, 1) == 1,
        };
        let tap = if w.reversal { w.size - 2 } else { 1 };
        let place = w.stride + tap * w.window_dilation - w.padding_low;
        let element = place.div_euclid(w.base_dilation);
        // By going through all elements.
        let inside = (0..size).any(|element| element * w.base_dilation == place);
        met += i64::from(inside);
        let behind = element * w.base_dilation - tap * w.window_dilation + w.padding_low;
        let expected = vec![element, i64::from(inside), behind];
        let found = in_three_modes(&Meeting(w), &[Actual::array(&[size])]);
        assert_eq!(found, Ok(Some(expected)), "{w:?} on {size}");
    }
    assert!(met > 30);
}

/// Groups of a convolution: operand 0 are output features, channels of a group and the
/// batch; where the last element of all comes from, and goes back to.
struct Groups(ConvolutionGroups);

impl ShapeHelper for Groups {
    type Shapes<I: Clone> = (GroupSizes<I>, [I; 2], [I; 2]);
    type Error = Infallible;

    fn compute<P: Provider>(
        &self,
        p: &mut P,
    ) -> Result<(GroupSizes<P::Index>, [P::Index; 2], [P::Index; 2]), Infallible> {
        let [outputs, channels, batch] = [0, 1, 2].map(|dim| p.shape_as_dim(0, dim));
        let sizes = self.0.sizes(p, &outputs, &channels, &batch);
        let one = p.literal(1);
        let [feature, channel, last] =
            [&outputs, &channels, &sizes.batch].map(|size| p.sub(size, &one));
        let from = self.0.input(p, &sizes, [&last, &feature, &channel]);
        let own = p.sub(&sizes.outputs, &one);
        let back = self.0.output(p, &sizes, [&from[0], &from[1], &own]);
        Ok((sizes, from, back))
    }

    fn numbers<I: Clone>((sizes, from, back): (GroupSizes<I>, [I; 2], [I; 2])) -> Vec<I> {
        let sizes = vec![sizes.outputs, sizes.channels, sizes.batch];
        [sizes, from.to_vec(), back.to_vec()].concat()
    }
}

#[test]
fn groups_of_convolutions() {
    let mut random = Random::new(6);
    for _ in 0..CASES {
        let [outputs, channels, batch] = [(); 3].map(|()| random.between(1, 4));
        let count = random.between(1, 3);
        for (features, batches) in [(count, 1), (1, count)] {
            let groups = ConvolutionGroups {
                features,
                batch: batches,
            };
            assert!(groups.is_possible());
            // The last of the result is of the last group.
            let expected = vec![
                outputs,
                channels,
                batch,
                batches * batch - 1,
                features * channels - 1,
                batch - 1,
                outputs * count - 1,
            ];
            let dims = [outputs * count, channels, batch * batches];
            let found = in_three_modes(&Groups(groups), &[Actual::array(&dims)]);
            assert_eq!(found, Ok(Some(expected)), "{groups:?} of {dims:?}");
        }
    }
}

struct Slice(SliceDim);

impl ShapeHelper for Slice {
    type Shapes<I: Clone> = (SliceSizes<I>, I);
    type Error = Infallible;

    fn compute<P: Provider>(
        &self,
        p: &mut P,
    ) -> Result<(SliceSizes<P::Index>, P::Index), Infallible> {
        let (size, third) = (p.shape_as_dim(0, 0), p.literal(2));
        let sizes = self.0.sizes(p, &size);
        Ok((sizes, self.0.spaced().place(p, &third)))
    }

    fn numbers<I: Clone>((sizes, element): (SliceSizes<I>, I)) -> Vec<I> {
        vec![sizes.length, sizes.limit, element]
    }
}

struct Pad(PadDim);

impl ShapeHelper for Pad {
    type Shapes<I: Clone> = PadSizes<I>;
    type Error = Infallible;

    fn compute<P: Provider>(&self, p: &mut P) -> Result<PadSizes<P::Index>, Infallible> {
        let size = p.shape_as_dim(0, 0);
        Ok(self.0.sizes(p, &size))
    }

    fn numbers<I: Clone>(sizes: PadSizes<I>) -> Vec<I> {
        vec![sizes.padded, sizes.dilated]
    }
}

struct Concatenate(usize);

impl ShapeHelper for Concatenate {
    type Shapes<I: Clone> = ConcatenateSizes<I>;
    type Error = Infallible;

    fn compute<P: Provider>(&self, p: &mut P) -> Result<ConcatenateSizes<P::Index>, Infallible> {
        let sizes: Vec<P::Index> = (0..self.0).map(|o| p.shape_as_dim(o, 0)).collect();
        Ok(ConcatenateSizes::of(p, &sizes))
    }

    fn numbers<I: Clone>(sizes: ConcatenateSizes<I>) -> Vec<I> {
        [vec![sizes.size], sizes.starts].concat()
    }
}

#[test]
fn slices_paddings_and_concatenations() {
    let mut random = Random::new(2);
    for _ in 0..CASES {
        let size = random.between(0, 12);
        let start = random.between(0, size);
        let slice = SliceDim {
            start,
            limit: if random.between(0, 1) == 0 {
                TO_END
            } else {
                random.between(start, size)
            },
            stride: random.between(1, 3),
        };
        let limit = slice.limit.min(size);
        let length = (start..limit).step_by(slice.stride as usize).count() as i64;
        let expected = vec![length, limit, start + 2 * slice.stride];
        let found = in_three_modes(&Slice(slice), &[Actual::array(&[size])]);
        assert_eq!(found, Ok(Some(expected)), "{slice:?} of {size}");

        let pad = PadDim {
            low: random.between(-2, 3),
            high: random.between(-2, 3),
            interior: random.between(0, 2),
        };
        let between = if size == 0 {
            0
        } else {
            (size - 1) * pad.interior
        };
        let expected = vec![size + between + pad.low + pad.high, size + between];
        let found = in_three_modes(&Pad(pad), &[Actual::array(&[size])]);
        assert_eq!(found, Ok(Some(expected)), "{pad:?} of {size}");

        let sizes = [size, random.between(0, 5), random.between(0, 5)];
        let operands = sizes.map(|size| Actual::array(&[size]));
        let expected = vec![sizes.iter().sum(), 0, sizes[0], sizes[0] + sizes[1]];
        let found = in_three_modes(&Concatenate(3), &operands);
        assert_eq!(found, Ok(Some(expected)), "{sizes:?}");
    }
}
