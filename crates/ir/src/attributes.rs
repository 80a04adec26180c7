//! Types of the attributes of operations: windows, dimension numbers, precisions, replica groups
//! and others. [`Op`](crate::Op) says which operation takes which.

use crate::{Annotations, ArrayShape, ComputationId, Layout, Shape};
use std::sync::Arc;

/// Dimension numbers.
pub type DimNumbers = smallvec::SmallVec<[i64; 6]>;

/// `direction=` of a compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Greater or equal.
    Ge,
    /// Greater.
    Gt,
    /// Less or equal.
    Le,
    /// Less.
    Lt,
}

/// Which order a compare uses (`type=FLOAT` or `order=TOTAL` in text).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// The type's own: IEEE's partial order for floats, in which NaN compares unequal.
    Partial,
    /// IEEE's total order: `-NaN < -inf < ... < -0 < +0 < ... < inf < NaN`.
    Total,
}

/// One dimension of a convolution's or reduce-window's `window={...}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowDim {
    /// Elements of the window along this dimension.
    pub size: i64,
    /// Distance between window positions, at least 1.
    pub stride: i64,
    /// Elements of padding before the first; negative padding crops.
    pub padding_low: i64,
    /// Elements of padding after the last; negative padding crops.
    pub padding_high: i64,
    /// Distance between elements of the base (`lhs_dilate`), at least 1.
    pub base_dilation: i64,
    /// Distance between elements of the window (`rhs_dilate`), at least 1.
    pub window_dilation: i64,
    /// Whether the elements of the window are applied in reverse order.
    pub reversal: bool,
}

/// `dim_labels=` of a convolution: the role of each dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvDims {
    /// The input's batch dimension (`b`).
    pub input_batch: i64,
    /// The input's feature dimension (`f`).
    pub input_feature: i64,
    /// The input's spatial dimensions (`0`, `1`, ...).
    pub input_spatial: DimNumbers,
    /// The kernel's input-feature dimension (`i`).
    pub kernel_input_feature: i64,
    /// The kernel's output-feature dimension (`o`).
    pub kernel_output_feature: i64,
    /// The kernel's spatial dimensions.
    pub kernel_spatial: DimNumbers,
    /// The output's batch dimension (`b`).
    pub output_batch: i64,
    /// The output's feature dimension (`f`).
    pub output_feature: i64,
    /// The output's spatial dimensions.
    pub output_spatial: DimNumbers,
}

/// `operand_precision=`: how exactly a dot or convolution treats an operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// The fastest the target offers.
    #[default]
    Default,
    /// Better than the default.
    High,
    /// The full precision of the type.
    Highest,
}

/// A dot's dimension numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DotDims {
    /// Batch dimensions of the left operand.
    pub lhs_batch: DimNumbers,
    /// Batch dimensions of the right operand.
    pub rhs_batch: DimNumbers,
    /// Contracted dimensions of the left operand.
    pub lhs_contracting: DimNumbers,
    /// Contracted dimensions of the right operand.
    pub rhs_contracting: DimNumbers,
}

/// Padding of one dimension: `low_high_interior`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PadDim {
    /// Elements added before the first; a negative number removes elements.
    pub low: i64,
    /// Elements added after the last; a negative number removes elements.
    pub high: i64,
    /// Elements inserted between adjacent elements, at least 0.
    pub interior: i64,
}

/// As the limit of a slice, or as a size of a dynamic slice: up to the end of the dimension,
/// whatever its size is. Tegula's text writes it `?`. HLO has no such value, because it has no
/// sizes that are known only at run time.
pub const TO_END: i64 = i64::MAX;

/// A slice of one dimension: `[start:limit:stride]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SliceDim {
    /// The first element taken.
    pub start: i64,
    /// One past the last element that may be taken, or [`TO_END`].
    pub limit: i64,
    /// The distance between elements taken, at least 1.
    pub stride: i64,
}

/// A gather's dimension numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GatherDims {
    /// Result dimensions that run over the slice.
    pub offset_dims: DimNumbers,
    /// Operand dimensions of slice size 1 that the result does not have.
    pub collapsed_slice_dims: DimNumbers,
    /// The operand dimension that each component of an index selects in.
    pub start_index_map: DimNumbers,
    /// Operand dimensions paired with batching dimensions of the indices.
    pub operand_batching_dims: DimNumbers,
    /// Dimensions of the indices paired with the operand's batching dimensions.
    pub start_indices_batching_dims: DimNumbers,
    /// The dimension of the indices that holds an index's components.
    pub index_vector_dim: i64,
}

/// A scatter's dimension numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScatterDims {
    /// Update dimensions that run over the window.
    pub update_window_dims: DimNumbers,
    /// Operand dimensions that the updates do not have.
    pub inserted_window_dims: DimNumbers,
    /// The operand dimension that each component of an index selects in.
    pub scatter_dims_to_operand_dims: DimNumbers,
    /// Operand dimensions paired with batching dimensions of the indices.
    pub input_batching_dims: DimNumbers,
    /// Dimensions of the indices paired with the operand's batching dimensions.
    pub scatter_indices_batching_dims: DimNumbers,
    /// The dimension of the indices that holds an index's components.
    pub index_vector_dim: i64,
}

/// `fft_type=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FftType {
    /// Complex forward.
    Fft,
    /// Complex inverse, scaled by 1/n.
    Ifft,
    /// Real to half-complex.
    Rfft,
    /// Half-complex to real, scaled by 1/n.
    Irfft,
}

/// `algorithm=` of a rng-bit-generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RngAlgorithm {
    /// The target's choice.
    Default,
    /// Threefry 2x32, 20 rounds.
    ThreeFry,
    /// Philox 4x32, 10 rounds.
    Philox,
}

/// `distribution=` of a rng.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RngDistribution {
    /// Uniform between the operands.
    Uniform,
    /// Normal with mean and deviation from the operands.
    Normal,
}

/// `transpose_a=` of a triangular solve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransposeA {
    /// `a` as it is.
    NoTranspose,
    /// Transposed.
    Transpose,
    /// Transposed and conjugated.
    Adjoint,
}

/// `kind=` of a fusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FusionKind {
    /// One loop over the output.
    Loop,
    /// Input fusion (rooted in a reduction or similar).
    Input,
    /// Output fusion (an epilogue).
    Output,
    /// Anything else.
    Custom,
}

/// A collective's `replica_groups=`, written out or in the iota form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReplicaGroups {
    /// `{{0,1},{2,3}}`.
    Lists(Vec<Vec<i64>>),
    /// `[groups,size]<=[dims]T(permutation)`.
    Iota {
        /// The shape of the result: the number of groups, then the size of each.
        dims: DimNumbers,
        /// The shape that 0, 1, 2, ... is given before the transposition.
        reshape_dims: DimNumbers,
        /// The permutation of the transposition; empty if there is none.
        transpose: DimNumbers,
    },
}

/// The attributes that all collectives have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Collective {
    /// The groups of devices that communicate with each other.
    pub replica_groups: ReplicaGroups,
    /// `channel_id=`.
    pub channel_id: Option<i64>,
    /// `use_global_device_ids=`.
    pub use_global_device_ids: bool,
    /// `constrain_layout=`.
    pub constrain_layout: bool,
}

/// The name of the attribute that [`CustomCall::to_run`] adds: the dimension orders in which the
/// callee takes arrays.
const ORDERS: &str = "orders";

/// `custom_call_target=` and the other attributes of a custom call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CustomCall {
    /// The name of the callee.
    pub target: Arc<str>,
    /// The layouts that the callee requires of its operands, if stated.
    pub operand_layouts: Option<Vec<Shape>>,
    /// `custom_call_has_side_effect=`.
    pub has_side_effect: bool,
    /// `api_version=`, as written.
    pub api_version: Option<Arc<str>>,
    /// Computations the callee may call.
    pub called: Vec<ComputationId>,
    /// `output_to_operand_aliasing=`: result index, operand, operand index.
    pub aliasing: Vec<(Vec<i64>, i64, Vec<i64>)>,
    /// `window=`, `dim_labels=` and the like, as written, in order.
    pub extra: Vec<(Arc<str>, Arc<str>)>,
}

impl CustomCall {
    /// The call as it is passed to whatever runs it, for operands and a result of these shapes.
    /// Operands and results are then flat lists of dense row-major arrays. Therefore:
    /// - the layouts of operands are dropped, but dimension orders that a foreign function requires
    ///   are kept in the attribute `orders` ([`Self::orders`]);
    /// - aliases name arrays by their number in these lists ([`Self::in_place`]);
    /// - the instruction's `backend_config=`, where callees find their options, becomes the last
    ///   entry of [`extra`](Self::extra).
    pub fn to_run(
        &self,
        annotations: Option<&Annotations>,
        operands: &[&Shape],
        result: &Shape,
    ) -> Self {
        let orders = self.orders_text(result);
        let orders = orders.map(|text| (ORDERS.into(), text.into()));
        let config = annotations.and_then(|a| a.backend_config.clone());
        let config = config.map(|config| ("backend_config".into(), config));
        let extra = self.extra.iter().cloned();
        Self {
            operand_layouts: None,
            aliasing: self.aliased_arrays(operands, result),
            extra: extra.chain(orders).chain(config).collect(),
            ..self.clone()
        }
    }

    /// For a call [to run](Self::to_run): pairs of an operand array and a result array that share
    /// memory. Before the call, the memory holds the operand; the callee may overwrite it with the
    /// result.
    pub fn in_place(&self) -> impl Iterator<Item = (usize, usize)> {
        self.aliasing.iter().filter_map(|(result, operand, _)| {
            let result = usize::try_from(*result.first()?).ok()?;
            Some((usize::try_from(*operand).ok()?, result))
        })
    }

    /// The entries of [`aliasing`](Self::aliasing) with flat numbers of arrays in place of indices
    /// into tuples.
    fn aliased_arrays(
        &self,
        operands: &[&Shape],
        result: &Shape,
    ) -> Vec<(Vec<i64>, i64, Vec<i64>)> {
        let arrays = |shape: &Shape| {
            let mut count = 0;
            shape.for_each_leaf(&mut |leaf| count += i64::from(leaf.as_array().is_some()));
            count
        };
        // The flat number of the array at an index within a shape. The shape of a call to run is a
        // single array, whose number is 0.
        let number = |shape: &Shape, index: &[i64]| {
            let (mut shape, mut before) = (shape, 0);
            for &step in index {
                let Some(elements) = shape.as_tuple() else {
                    return (step == 0).then_some(before);
                };
                let step = usize::try_from(step).ok()?;
                before += elements.get(..step)?.iter().map(arrays).sum::<i64>();
                shape = elements.get(step)?;
            }
            shape.as_array().map(|_| before)
        };
        let aliases = self.aliasing.iter().filter_map(|(to, operand, from)| {
            let operand = usize::try_from(*operand).ok()?;
            let before = operands.get(..operand)?.iter();
            let before: i64 = before.map(|shape| arrays(shape)).sum();
            let operand = before + number(operands.get(operand)?, from)?;
            Some((vec![number(result, to)?], operand, Vec::new()))
        });
        aliases.collect()
    }

    /// For a call [to run](Self::to_run): the dimension order in which the callee takes each array,
    /// the fastest-varying dimension first; operands come before results. [`None`] if all are
    /// row-major.
    pub fn orders(&self) -> Option<Vec<Vec<usize>>> {
        let (_, text) = self.extra.iter().find(|(name, _)| &**name == ORDERS)?;
        let lists = text.strip_prefix('{')?.strip_suffix('}')?;
        let lists = lists.split("},").map(|list| {
            let numbers = list.trim_matches(['{', '}']).split(',');
            let numbers = numbers.filter(|number| !number.is_empty());
            numbers.map(|number| number.parse().ok()).collect()
        });
        lists.collect()
    }

    /// The dimension orders as the text of an attribute, if one is not row-major. LAPACK routines
    /// are excluded, because they are known to take column-major matrices.
    fn orders_text(&self, result: &Shape) -> Option<String> {
        let stated = self.operand_layouts.as_ref()?;
        if self.target.starts_with("lapack_") {
            return None;
        }
        let mut arrays: Vec<&ArrayShape> = Vec::new();
        for shape in stated.iter().chain([result]) {
            shape.for_each_leaf(&mut |leaf| arrays.extend(leaf.as_array()));
        }
        let is_other = |shape: &&ArrayShape| {
            let layout = shape.layout.as_ref();
            layout.is_some_and(|layout| !layout.minor_to_major.iter().rev().is_sorted())
        };
        if !arrays.iter().any(is_other) {
            return None;
        }
        let orders = arrays.iter().map(|shape| {
            let own = Layout::row_major(shape.rank());
            let layout = shape.layout.as_deref().unwrap_or(&own);
            let order = layout.minor_to_major.iter().map(ToString::to_string);
            format!("{{{}}}", order.collect::<Vec<_>>().join(","))
        });
        Some(format!("{{{}}}", orders.collect::<Vec<_>>().join(",")))
    }
}
