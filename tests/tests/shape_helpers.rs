//! The numbers that shape helpers have besides result sizes, in three modes, against
//! plain arithmetic.

use std::convert::Infallible;
use tegula_expr::{Extract, Provider, ShapeHelper};
use tegula_ir::helpers::{ConcatenateSizes, PadSizes, SliceSizes, WindowSizes};
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

struct Slice(SliceDim);

impl ShapeHelper for Slice {
    type Shapes<I: Clone> = (SliceSizes<I>, I);
    type Error = Infallible;

    fn compute<P: Provider>(
        &self,
        p: &mut P,
    ) -> Result<(SliceSizes<P::Index>, P::Index), Infallible> {
        let (size, third) = (p.shape_as_dim(0, 0), p.literal(2));
        Ok((self.0.sizes(p, &size), self.0.element(p, &third)))
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
