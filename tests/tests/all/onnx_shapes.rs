//! Shapes of operations that are not HLO, in three modes, against what ONNX says they
//! are, computed here once more with plain numbers.

use tegula_expr::ShapeHelper;
use tegula_tests::onnx_like::{
    ConstantOfShape, Expand, NonZero, Range, Reshape, Resize, SameConvolution, Slice, Tile,
};
use tegula_tests::random::Random;
use tegula_tests::shape_modes::{Actual, in_three_modes};

const CASES: usize = 40;

#[track_caller]
fn agree<H: ShapeHelper<Error: std::fmt::Debug>>(
    helper: &H,
    operands: &[Actual],
    expected: &Option<Vec<i64>>,
) {
    let found = in_three_modes(helper, operands).unwrap_or_else(|error| panic!("{error}"));
    // Of an operation without a meaning any answer will do, as long as all agree.
    if let Some(expected) = expected {
        assert_eq!(found.as_ref(), Some(expected), "{operands:?}");
    }
}

fn sizes(random: &mut Random, rank: usize) -> Vec<i64> {
    (0..rank)
        .map(|_| *random.pick(&[1, 2, 3, 4, 6, 12]))
        .collect()
}

#[test]
fn reshape_with_0_and_minus_1() {
    let reshape = Reshape {
        rank: 3,
        to_rank: 3,
    };
    let mut random = Random::new(1);
    for _ in 0..CASES {
        let dims = sizes(&mut random, 3);
        let count: i64 = dims.iter().product();
        let [a, b, c] = [dims[0], dims[1], dims[2]];
        for (target, expected) in [
            (vec![0, -1, 1], vec![a, b * c, 1]),
            (vec![-1, 0, 0], vec![a, b, c]),
            (vec![0, 0, -1], vec![a, b, c]),
            (vec![count, 1, 1], vec![count, 1, 1]),
            (vec![c, -1, a], vec![c, b, a]),
        ] {
            let operands = [Actual::array(&dims), Actual::list(&target)];
            agree(&reshape, &operands, &Some(expected));
        }
    }
    // Nothing says what -1 is of no elements; -1 twice is wrong.
    let none = [Actual::array(&[0, 2, 3]), Actual::list(&[0, -1, 0])];
    agree(&reshape, &none, &None);
    let twice = [Actual::array(&[4, 2, 3]), Actual::list(&[-1, -1, 1])];
    agree(&reshape, &twice, &None);
}

#[test]
fn slice_with_steps_and_negative_bounds() {
    let slice = Slice {
        rank: 2,
        axes: vec![-1],
        steps: true,
    };
    let mut random = Random::new(2);
    for case in 0..3 * CASES {
        let size = random.between(0, 9);
        let (mut start, mut end) = (random.between(-12, 12), random.between(-12, 12));
        if case % 5 == 0 {
            (start, end) = (i64::MAX / 2, i64::MIN / 2);
        }
        let step = *random.pick(&[1, 2, 3, -1, -2, 7]);
        let operands = [
            Actual::array(&[5, size]),
            Actual::list(&[start]),
            Actual::list(&[end]),
            Actual::list(&[step]),
        ];
        let place = |position: i64| {
            if position < 0 {
                position + size
            } else {
                position
            }
        };
        let (first, last) = match step > 0 {
            true => (place(start).clamp(0, size), place(end).clamp(0, size)),
            // Of no elements even the first is before the first.
            false => (
                place(start).max(0).min(size - 1),
                place(end).max(-1).min(size - 1),
            ),
        };
        let mut taken = 0;
        let mut at = first;
        while (step > 0 && at < last) || (step < 0 && at > last) {
            (taken, at) = (taken + 1, at + step);
        }
        let expected = vec![5, taken, 0, first, 5, last, 1, step];
        agree(&slice, &operands, &Some(expected));
    }
    let still = [
        Actual::array(&[5, 4]),
        Actual::list(&[0]),
        Actual::list(&[4]),
        Actual::list(&[0]),
    ];
    agree(&slice, &still, &None);
}

#[test]
fn expand_by_equal_or_1() {
    let mut random = Random::new(3);
    for _ in 0..CASES {
        let full = sizes(&mut random, 3);
        let mut thinned = |dims: &[i64]| -> Vec<i64> {
            dims.iter()
                .map(|&d| if random.between(0, 1) == 0 { 1 } else { d })
                .collect()
        };
        let (own, wanted) = (thinned(&full[1..]), thinned(&full));
        let expected = (0..3).map(|d| {
            let own = if d == 0 { 1 } else { own[d - 1] };
            own.max(wanted[d])
        });
        let expected = expected.collect();
        let expand = Expand {
            rank: 2,
            to_rank: 3,
        };
        let operands = [Actual::array(&own), Actual::list(&wanted)];
        agree(&expand, &operands, &Some(expected));
    }
}

#[test]
fn tile_constant_of_shape_and_non_zero() {
    let mut random = Random::new(4);
    for _ in 0..CASES {
        let (dims, repeats) = (sizes(&mut random, 2), sizes(&mut random, 2));
        let expected = vec![dims[0] * repeats[0], dims[1] * repeats[1]];
        let operands = [Actual::array(&dims), Actual::list(&repeats)];
        agree(&Tile { rank: 2 }, &operands, &Some(expected));
        let shape = [Actual::list(&dims)];
        agree(&ConstantOfShape { rank: 2 }, &shape, &Some(dims.clone()));
        let most = dims[0] * dims[1];
        let count = random.between(0, most);
        let data = [Actual::array(&dims), Actual::list(&[count])];
        agree(&NonZero { rank: 2 }, &data, &Some(vec![2, count, 2, most]));
    }
    let large = [Actual::array(&[1 << 40, 3]), Actual::list(&[1 << 40, 1])];
    agree(&Tile { rank: 2 }, &large, &None);
}

#[test]
fn resize_by_exact_scales() {
    let mut random = Random::new(5);
    for _ in 0..CASES {
        let dims = sizes(&mut random, 3);
        let scales: Vec<f32> = (0..3)
            .map(|_| *random.pick(&[0.5f32, 2.0, 1.5, 0.1, 0.7, 1.0 / 3.0, 3.3]))
            .collect();
        let expected = dims.iter().zip(&scales).map(|(&size, &scale)| {
            // A size of a few bits times 24 bits is exact in an f64.
            (size as f64 * f64::from(scale)).floor() as i64
        });
        let expected = Some(expected.collect());
        agree(&Resize { scales }, &[Actual::array(&dims)], &expected);
    }
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let found = in_three_modes(
            &Resize {
                scales: vec![scale],
            },
            &[Actual::array(&[4])],
        );
        assert_eq!(found, Ok(None), "{scale}");
    }
}

#[test]
fn range_of_integers() {
    let mut random = Random::new(6);
    for _ in 0..2 * CASES {
        let (start, limit) = (random.between(-20, 20), random.between(-20, 20));
        let delta = *random.pick(&[1, 2, 5, -1, -3]);
        let mut count = 0;
        let mut at = start;
        while (delta > 0 && at < limit) || (delta < 0 && at > limit) {
            (count, at) = (count + 1, at + delta);
        }
        let operands = [start, limit, delta].map(|number| Actual::list(&[number]));
        agree(&Range, &operands, &Some(vec![count]));
    }
    agree(&Range, &[0, 4, 0].map(|n| Actual::list(&[n])), &None);
    let far = [i64::MIN, i64::MAX, 1].map(|n| Actual::list(&[n]));
    agree(&Range, &far, &None);
}

#[test]
fn convolution_with_normalised_pads() {
    let mut random = Random::new(7);
    for _ in 0..CASES {
        let (size, kernel) = (random.between(1, 20), random.between(1, 5));
        let (stride, dilation) = (random.between(1, 3), random.between(1, 2));
        let lower = random.between(0, 1) == 1;
        let positions = (size + stride - 1) / stride;
        let needed = (positions - 1) * stride + (kernel - 1) * dilation + 1;
        let missing = (needed - size).max(0);
        let (less, more) = (missing / 2, missing - missing / 2);
        let (low, high) = if lower { (more, less) } else { (less, more) };
        let expected = Some(vec![positions, low, high, kernel]);
        let operands = [Actual::array(&[size]), Actual::array(&[kernel])];
        agree(
            &SameConvolution {
                stride,
                dilation,
                lower,
            },
            &operands,
            &expected,
        );
    }
}
