//! Tests against the definition.

use super::*;

fn axis(size: usize, lhs: isize, rhs: isize, out: isize) -> Axis {
    Axis {
        size,
        lhs,
        rhs,
        out,
    }
}

/// Compares a depthwise convolution of planes with its definition, on this many threads; of two
/// images, if windows have several lines. Windows reach `border` elements outside of images.
fn agrees<T>(
    isa: CpuFeatures,
    ty: ElementType,
    channels: usize,
    [height, width]: [usize; 2],
    [down, along]: [usize; 2],
    kernel: [usize; 2],
    (border, threads): (usize, usize),
) where
    T: Number + From<i8> + PartialEq + core::fmt::Debug,
{
    let [tall, wide] = kernel;
    let rows = (height + 2 * border - tall) / down + 1;
    let columns = (width + 2 * border - wide) / along + 1;
    let whole = |count: usize, period: usize| -> Vec<T> {
        let number = |i: usize| T::from((i % period) as i8 - (period / 2) as i8);
        (0..count).map(number).collect()
    };
    let images = if tall > 1 { 2 } else { 1 };
    let elements = images * channels * height * width;
    let mut x = whole(elements, 13);
    // Elements outside of the array must not contribute.
    let outside = [border * (width + 1), 7 * width + 7].map(|n| vec![T::from(99); n]);
    x.splice(0..0, outside[0].iter().copied());
    x.extend(&outside[1]);
    let x = &x[outside[0].len()..];
    let w = whole(channels * tall * wide, 7);
    let mut y = vec![T::from(99); images * channels * rows * columns];
    let (down_by, along_by, size) = (down as isize, along as isize, width as isize);
    let taps = (tall * wide) as isize;
    let plane = height as isize * size;
    let axes = Axes {
        batch: [axis(channels, plane, taps, (rows * columns) as isize)].into(),
        rows: [
            axis(
                images,
                channels as isize * plane,
                0,
                (channels * rows * columns) as isize,
            ),
            axis(rows, down_by * size, 0, columns as isize),
            axis(columns, along_by, 0, 1),
        ]
        .into(),
        columns: AxisList::new(),
        depth: [axis(tall, size, wide as isize, 0), axis(wide, 1, 1, 0)].into(),
        starts: [-(border as isize) * (size + 1), 0, 0],
    };
    let bounds = (border > 0).then_some(ImageBounds {
        first: [-(border as isize); 2],
        size: [height, width],
    });
    let planes = Planes::new(isa, [ty; 3], &axes, bounds);
    let Some(planes) = planes else {
        // Only these are computed without a copy with a border.
        let lanes = 64 / size_of::<T>();
        let is_small = rows * columns <= lanes && tall * wide <= 2 * lanes && height * width <= 64;
        let is_window = tall == wide && [3, 5, 7].contains(&tall) && columns >= MIN_ROW;
        let goes_on = matches!([down, along], [1, 1] | [2, 1] | [2, 2]);
        let has_loop = isa.width == VectorWidth::Avx512 && (is_small || is_window && goes_on);
        assert!(
            border > 0 && !has_loop,
            "{isa:?} {ty} {height}x{width} {down} {along} {kernel:?} {border}"
        );
        return;
    };
    let pool = ThreadPool::new(threads);
    // SAFETY: the axes are those of the arrays.
    unsafe {
        let (x, w) = (x.as_ptr().cast(), w.as_ptr().cast());
        planes.run(x, w, y.as_mut_ptr().cast(), &pool);
    }
    for (at, found) in y.iter().enumerate() {
        let (plane, row, column) = (at / (rows * columns), at / columns % rows, at % columns);
        let c = plane % channels;
        let mut sum = T::default();
        for i in 0..tall {
            for j in 0..wide {
                // An index to the left of or above the image wraps to a number that is too large.
                let line = (row * down + i).wrapping_sub(border);
                let at = (column * along + j).wrapping_sub(border);
                if line < height && at < width {
                    let place = (plane * height + line) * width + at;
                    sum = sum + x[place] * w[(c * tall + i) * wide + j];
                }
            }
        }
        assert_eq!(
            *found, sum,
            "{isa:?} {ty} {channels} {height}x{width} {down} {along} {kernel:?} at {at}"
        );
    }
}

/// In both types and on all kinds of CPU.
fn all_agree(
    channels: usize,
    size: [usize; 2],
    steps: [usize; 2],
    kernel: [usize; 2],
    (border, threads): (usize, usize),
) {
    let native = CpuFeatures::detect();
    let widths = [native.width, VectorWidth::Portable, VectorWidth::Neon];
    for isa in widths.map(|width| CpuFeatures { width, ..native }) {
        agrees::<f32>(
            isa,
            ElementType::F32,
            channels,
            size,
            steps,
            kernel,
            (border, threads),
        );
        agrees::<f64>(
            isa,
            ElementType::F64,
            channels,
            size,
            steps,
            kernel,
            (border, threads),
        );
    }
}

#[test]
fn planes_of_every_length() {
    for width in [4usize, 5, 7, 8, 9, 15, 16, 17, 31, 33, 40] {
        for stride in [1, 2] {
            for kernel in [1, 3, 5] {
                let size = [7, (width - 1) * stride + kernel];
                all_agree(3, size, [stride; 2], [kernel; 2], (0, 1));
            }
        }
    }
}

/// Rows that are computed together, and remaining rows; planes that are divided between threads,
/// and rows of a single plane.
#[test]
fn windows_of_every_height() {
    for rows in 1..12 {
        for stride in [1, 2] {
            for kernel in [3, 5, 7] {
                let size = [(rows - 1) * stride + kernel, 18 * stride + kernel];
                all_agree(2, size, [stride; 2], [kernel; 2], (0, 1));
            }
        }
    }
    for channels in [1, 2, 7] {
        all_agree(channels, [40, 300], [1; 2], [5, 5], (0, 3));
        all_agree(channels, [43, 601], [2; 2], [3, 3], (0, 3));
    }
}

/// Windows that reach outside of images, by less and by more than a window; images smaller and
/// larger than a vector.
#[test]
fn windows_reach_outside_of_images() {
    for (kernel, borders) in [(3, 1..4), (5, 1..4), (7, 2..8)] {
        for (border, stride) in borders.flat_map(|border| [(border, 1), (border, 2)]) {
            for width in [4, 5, 7, 14, 16, 17, 31, 33, 70] {
                let height = 4 + width % 7;
                all_agree(2, [height, width], [stride; 2], [kernel; 2], (border, 1));
                all_agree(2, [height, width], [2, stride], [kernel; 2], (border, 1));
            }
        }
    }
    for height in 1..8 {
        all_agree(3, [height, 50], [1, 1], [5, 5], (2, 1));
        all_agree(3, [height, 50], [2, 1], [3, 3], (1, 4));
    }
    all_agree(1, [60, 150], [1; 2], [5, 5], (2, 3));
}

#[test]
fn one_plane_of_one_row_to_six() {
    for width in [4usize, 7, 9, 12, 13, 16, 30, 65] {
        for rows in 1..7 {
            for stride in [1, 2] {
                let size = [(rows - 1) * stride + 1, (width - 1) * stride + 11];
                all_agree(1, size, [stride; 2], [1, 11], (0, 1));
            }
        }
    }
}

#[test]
fn threads_share_long_rows() {
    for width in [12_500usize, 12_543, 12_544] {
        for rows in [1, 2, 3, 9] {
            all_agree(1, [rows, width + 10], [1; 2], [1, 11], (0, 4));
        }
    }
}

#[test]
fn planes_of_few_results() {
    for [height, width] in [
        [1, 1],
        [1, 4],
        [2, 2],
        [3, 1],
        [4, 4],
        [3, 5],
        [2, 8],
        [7, 7],
    ] {
        for (kernel, border) in [
            ([3, 3], 1),
            ([5, 5], 2),
            ([5, 5], 4),
            ([1, 3], 1),
            ([3, 1], 3),
        ] {
            for steps in [[1, 1], [2, 2], [2, 1], [1, 3]] {
                for channels in [1, 3, 9] {
                    if height + 2 * border >= kernel[0] && width + 2 * border >= kernel[1] {
                        all_agree(channels, [height, width], steps, kernel, (border, 2));
                    }
                }
            }
        }
    }
}
