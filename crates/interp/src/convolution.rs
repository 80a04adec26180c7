//! `convolution` as a matrix product: patches of the input times the kernel (im2col).
//!
//! With all arrays in the order `[batch, spatial..., feature]`, the row of a result position holds
//! the input elements under the window there (zero in the padding and between dilated elements),
//! and the kernel, `[spatial..., input feature, output feature]`, is the other factor. Feature
//! groups split the features of input and result; batch groups split the batch of the input and the
//! features of the result.

use crate::dot::{
    Domain, Product, in_one_type, load_complex, load_floats, load_integers, ordered, store_complex,
    store_integers,
};
use crate::error::{OpError, invalid};
use crate::matmul::{Entry, matmul};
use crate::movement::positions;
use crate::numbers::from_f64s;
use crate::strided::{Sizes, product, sizes, to_i64s};
use crate::window::Windows;
use smallvec::smallvec;
use tegula_ir::{ArrayShape, ConvDims, Literal, WindowDim};

/// The number of elements of the patch matrix that are built at a time.
const PATCH_ELEMENTS: usize = 1 << 20;

/// The sizes and groups of a convolution, in canonical order.
struct Geometry<'a> {
    window: &'a [WindowDim],
    /// The spatial sizes of the input, and those of the result.
    input: Sizes,
    output: Sizes,
    /// The batch sizes and numbers of features of input and result.
    batch: usize,
    features: usize,
    out_batch: usize,
    out_features: usize,
    groups: usize,
    batch_groups: usize,
}

impl Geometry<'_> {
    /// The input features of one group, which is the kernel's number of input features.
    fn group_features(&self) -> usize {
        if self.batch_groups > 1 {
            self.features
        } else {
            self.features / self.groups
        }
    }

    fn window_size(&self) -> usize {
        self.window.iter().map(|w| w.size as usize).product()
    }

    fn total_groups(&self) -> usize {
        self.groups * self.batch_groups
    }

    /// For each element of the kernel's window at a result position, the spatial position of the
    /// input element under it, if there is one.
    fn under_window(&self, position: usize, places: &mut Vec<Option<usize>>) {
        let mut at: Sizes = smallvec![0; self.output.len()];
        let mut rest = position;
        for (at, &size) in at.iter_mut().zip(&self.output).rev() {
            *at = rest % size;
            rest /= size;
        }
        places.clear();
        places.push(Some(0));
        for (d, w) in self.window.iter().enumerate() {
            let start = at[d] as i64 * w.stride - w.padding_low;
            let mut next = Vec::with_capacity(places.len() * w.size as usize);
            for &outer in places.iter() {
                for i in 0..w.size {
                    let i = if w.reversal { w.size - 1 - i } else { i };
                    let place = start + i * w.window_dilation;
                    let element = place / w.base_dilation;
                    let inside = place >= 0
                        && place % w.base_dilation == 0
                        && element < self.input[d] as i64;
                    let outer = outer.filter(|_| inside);
                    next.push(outer.map(|outer| outer * self.input[d] + element as usize));
                }
            }
            *places = next;
        }
    }

    fn convolve<T: Entry>(&self, input: &[T], kernel: &[T]) -> Vec<T> {
        let positions = product(&self.output);
        let rows = self.out_batch * positions;
        let group_out = self.out_features / self.total_groups();
        let mut result = vec![T::default(); rows * self.out_features];
        let patch = self.window_size() * self.group_features();
        let chunk = (PATCH_ELEMENTS / patch.max(1)).clamp(1, rows.max(1));
        for group in 0..self.total_groups() {
            let kernel = self.group_kernel(kernel, group, group_out);
            for start in (0..rows).step_by(chunk) {
                if tegula_limits::is_stopped() {
                    return result;
                }
                let count = chunk.min(rows - start);
                let patches = self.patches(input, group, start, count);
                let sums = matmul(&patches, &kernel, count, patch, group_out);
                for (r, sums) in sums.chunks_exact(group_out.max(1)).enumerate() {
                    let place = (start + r) * self.out_features + group * group_out;
                    result[place..place + group_out].copy_from_slice(sums);
                }
            }
        }
        result
    }

    /// The part of the kernel with the output features of one group.
    fn group_kernel<T: Entry>(&self, kernel: &[T], group: usize, group_out: usize) -> Vec<T> {
        let first = group * group_out;
        let rows = kernel.chunks_exact(self.out_features.max(1));
        rows.flat_map(|row| row[first..first + group_out].iter().copied())
            .collect()
    }

    /// Builds the rows of the patch matrix for `count` result positions from `start` on.
    fn patches<T: Entry>(&self, input: &[T], group: usize, start: usize, count: usize) -> Vec<T> {
        let (features, width) = (self.features, self.group_features());
        let positions = product(&self.output);
        let image = product(&self.input);
        let first_feature = if self.batch_groups > 1 {
            0
        } else {
            group * width
        };
        let first_batch = if self.batch_groups > 1 {
            group * self.out_batch
        } else {
            0
        };
        let mut patches = Vec::with_capacity(count * self.window_size() * width);
        let mut places = Vec::new();
        for row in start..start + count {
            self.under_window(row % positions, &mut places);
            let batch = first_batch + row / positions;
            for place in &places {
                match place {
                    Some(place) => {
                        let from = (batch * image + place) * features + first_feature;
                        patches.extend_from_slice(&input[from..from + width]);
                    }
                    None => patches.resize(patches.len() + width, T::default()),
                }
            }
        }
        patches
    }

    fn magnitudes<T: Entry>(&self, input: &[T], kernel: &[T]) -> Vec<f64> {
        let abs = |x: &[T]| -> Vec<f64> { x.iter().map(|x| x.magnitude()).collect() };
        self.convolve(&abs(input), &abs(kernel))
    }
}

/// The dimension numbers in the order `[first, spatial..., last]`.
fn canonical_order(first: i64, spatial: &[i64], last: i64, rank: usize) -> Result<Sizes, OpError> {
    let numbers: Vec<i64> = std::iter::once(first)
        .chain(spatial.iter().copied())
        .chain(std::iter::once(last))
        .collect();
    let order = positions(&numbers, rank)?;
    let mut seen = vec![false; rank];
    order.iter().for_each(|&d| seen[d] = true);
    if order.len() != rank || seen.contains(&false) {
        return Err(invalid(
            "expected dim_labels that name each dimension exactly once",
        ));
    }
    Ok(order)
}

/// Evaluates `convolution(input, kernel)`; `magnitudes` asks for the sums of absolute products too.
pub(crate) fn convolution(
    input: &Literal,
    kernel: &Literal,
    shape: &ArrayShape,
    (window, dims): (&[WindowDim], &ConvDims),
    (groups, batch_groups): (i64, i64),
    magnitudes: bool,
) -> Result<Product, OpError> {
    let rank = window.len() + 2;
    let input_order = canonical_order(
        dims.input_batch,
        &dims.input_spatial,
        dims.input_feature,
        rank,
    )?;
    let output_order = canonical_order(
        dims.output_batch,
        &dims.output_spatial,
        dims.output_feature,
        rank,
    )?;
    let mut kernel_order = canonical_order(
        dims.kernel_input_feature,
        &dims.kernel_spatial,
        dims.kernel_output_feature,
        rank,
    )?;
    // The kernel's input features come after its spatial dimensions.
    kernel_order[..rank - 1].rotate_left(1);
    if input.shape().rank() != rank || kernel.shape().rank() != rank {
        return Err(invalid("expected operands with the rank of dim_labels"));
    }
    let (input, kernel, shape) = in_one_type(input, kernel, shape)?;
    let (input, kernel) = (
        ordered(&input, &input_order)?,
        ordered(&kernel, &kernel_order)?,
    );
    let geometry = geometry(&input, &kernel, window, groups, batch_groups)?;

    // The result is computed in canonical order and then transposed.
    let mut canonical: Sizes = smallvec![geometry.out_batch];
    canonical.extend(geometry.output.iter().copied());
    canonical.push(geometry.out_features);
    let mut back: Sizes = smallvec![0; rank];
    for (i, &d) in output_order.iter().enumerate() {
        back[d] = i;
    }
    let canonical = ArrayShape::new(shape.element_type, &to_i64s(&canonical));
    let (sums, sizes) = match Domain::of(shape.element_type) {
        Domain::Float => {
            let (x, k) = (load_floats(&input), load_floats(&kernel));
            let sizes = magnitudes.then(|| geometry.magnitudes(&x, &k));
            (from_f64s(&canonical, &geometry.convolve(&x, &k))?, sizes)
        }
        Domain::Integer => {
            let (x, k) = (load_integers(&input), load_integers(&kernel));
            (
                store_integers(&canonical, &geometry.convolve(&x, &k))?,
                None,
            )
        }
        Domain::Complex => {
            let (x, k) = (load_complex(&input), load_complex(&kernel));
            let sizes = magnitudes.then(|| geometry.magnitudes(&x, &k));
            (
                store_complex(&canonical, &geometry.convolve(&x, &k))?,
                sizes,
            )
        }
    };
    let sums = ordered(&sums, &back)?;
    if sums.shape().dims != shape.dims {
        return Err(invalid(
            "the stated shape of the result differs from the computed one",
        ));
    }
    let magnitudes = sizes
        .map(|sizes| reorder(&canonical, &sizes, &back))
        .transpose()?;
    Ok(Product {
        sums,
        magnitudes,
        terms: geometry.window_size() * geometry.group_features(),
    })
}

fn reorder(shape: &ArrayShape, values: &[f64], order: &[usize]) -> Result<Vec<f64>, OpError> {
    let shape = shape.with_element_type(tegula_ir::ElementType::F64);
    let ordered = ordered(&from_f64s(&shape, values)?, order)?;
    Ok(crate::numbers::to_f64s(&ordered))
}

fn geometry<'a>(
    input: &Literal,
    kernel: &Literal,
    window: &'a [WindowDim],
    groups: i64,
    batch_groups: i64,
) -> Result<Geometry<'a>, OpError> {
    let (x, k) = (sizes(input), sizes(kernel));
    let spatial = window.len();
    let count = |groups: i64| usize::try_from(groups).ok().filter(|&groups| groups > 0);
    let (Some(groups), Some(batch_groups)) = (count(groups), count(batch_groups)) else {
        return Err(invalid(
            "expected positive feature_group_count and batch_group_count",
        ));
    };
    let windows = Windows::new(window, &x[1..=spatial])?;
    let geometry = Geometry {
        window,
        input: x[1..=spatial].into(),
        output: windows.positions,
        batch: x[0],
        features: x[spatial + 1],
        out_batch: x[0] / batch_groups,
        out_features: k[spatial + 1],
        groups,
        batch_groups,
    };
    let agrees = (groups == 1 || batch_groups == 1)
        && geometry.batch.is_multiple_of(batch_groups)
        && geometry.features.is_multiple_of(groups)
        && geometry
            .out_features
            .is_multiple_of(groups.saturating_mul(batch_groups))
        && geometry.group_features() == k[spatial]
        && window
            .iter()
            .zip(&k)
            .all(|(w, &size)| w.size == size as i64);
    if agrees {
        Ok(geometry)
    } else {
        Err(invalid(
            "the operands' shapes, the window and the group counts do not fit together",
        ))
    }
}
