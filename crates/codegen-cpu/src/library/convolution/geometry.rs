//! The sizes and strides of a convolution, from its shapes.

use smallvec::{SmallVec, smallvec};
use tegula_ir::helpers::ConvolutionGroups;
use tegula_ir::{ArrayShape, ConvDims, WindowDim};
use tegula_linalg::convolution::{Dim, Geometry, Spatial, Window, row_major};

/// A convolution's [geometry](Geometry), with owned lists.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    input_dims: SmallVec<[i64; 6]>,
    spatial: SmallVec<[Spatial; 3]>,
    /// The geometry without its lists.
    others: Geometry<'static>,
}

impl Sizes {
    /// `None` if the shapes are not static or do not fit the dimension numbers; those of a verified
    /// operation do.
    pub(super) fn new(
        [input, kernel, output]: [&ArrayShape; 3],
        window: &[WindowDim],
        dims: &ConvDims,
        groups: ConvolutionGroups,
    ) -> Option<Self> {
        let (x, k, y) = (strided(input)?, strided(kernel)?, strided(output)?);
        let at = |dims: &[Dim], i: i64| dims.get(usize::try_from(i).ok()?).copied();
        let mut spatial = SmallVec::new();
        for (i, window) in window.iter().enumerate() {
            let input_dim = *dims.input_spatial.get(i)?;
            spatial.push(Spatial {
                input: at(&x, input_dim)?,
                kernel: at(&k, *dims.kernel_spatial.get(i)?)?,
                output: at(&y, *dims.output_spatial.get(i)?)?,
                window: Window {
                    stride: window.stride,
                    padding_low: window.padding_low,
                    base_dilation: window.base_dilation,
                    window_dilation: window.window_dilation,
                    is_reversed: window.reversal,
                },
                input_dim: usize::try_from(input_dim).ok()?,
            });
        }
        let out_features = at(&k, dims.kernel_output_feature)?;
        let number = |dim: i64| usize::try_from(dim).ok();
        let others = Geometry {
            input_dims: &[],
            other_input_dims: [number(dims.input_batch)?, number(dims.input_feature)?],
            batch: [at(&x, dims.input_batch)?, at(&y, dims.output_batch)?],
            in_features: [
                at(&x, dims.input_feature)?,
                at(&k, dims.kernel_input_feature)?,
            ],
            out_features: [out_features, at(&y, dims.output_feature)?],
            spatial: &[],
            groups: groups.count(),
            are_of_batch: groups.batch > 1,
            group_outputs: out_features.size / groups.count(),
        };
        Some(Self {
            input_dims: x.iter().map(|d| d.size).collect(),
            spatial,
            others,
        })
    }

    pub(super) fn geometry(&self) -> Geometry<'_> {
        Geometry {
            input_dims: &self.input_dims,
            spatial: &self.spatial,
            ..self.others
        }
    }
}

/// Sizes and row-major strides.
fn strided(shape: &ArrayShape) -> Option<SmallVec<[Dim; 6]>> {
    let sizes = shape.static_dims()?;
    let mut dims: SmallVec<[Dim; 6]> = smallvec![Dim::default(); sizes.len()];
    row_major(&sizes, &mut dims);
    Some(dims)
}
