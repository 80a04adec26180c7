//! The values that operations take as attributes: windows, dimension numbers,
//! precisions, replica groups and the like. Which operation takes which is in
//! [`Op`](crate::Op).

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
    /// Padding in front, may be negative.
    pub padding_low: i64,
    /// Padding behind, may be negative.
    pub padding_high: i64,
    /// Distance between elements of the base (`lhs_dilate`), at least 1.
    pub base_dilation: i64,
    /// Distance between elements of the window (`rhs_dilate`), at least 1.
    pub window_dilation: i64,
    /// Whether the window is applied back to front.
    pub reversal: bool,
}

/// `dim_labels=` of a convolution: which dimension is what.
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
    /// Elements in front, may be negative.
    pub low: i64,
    /// Elements behind, may be negative.
    pub high: i64,
    /// Elements between neighbours, at least 0.
    pub interior: i64,
}

/// As the limit of a slice, or the size of a dynamic one: to the end of the
/// dimension, whatever its size is. Text spells it `?`; HLO has no such thing, because
/// it has no sizes that are known only at run time.
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
    /// The operand dimension that each index component is for.
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
    /// The operand dimension that each index component is for.
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
    /// As it is.
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
        /// The shape of the result: groups, then the members of each.
        dims: DimNumbers,
        /// The shape the iota is given before the transposition.
        reshape_dims: DimNumbers,
        /// The transposition; empty: none.
        transpose: DimNumbers,
    },
}

/// What all collectives share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Collective {
    /// Who takes part with whom.
    pub replica_groups: ReplicaGroups,
    /// `channel_id=`.
    pub channel_id: Option<i64>,
    /// `use_global_device_ids=`.
    pub use_global_device_ids: bool,
    /// `constrain_layout=`.
    pub constrain_layout: bool,
}

/// The attribute of a call to run that says in which orders its callee wants arrays.
const ORDERS: &str = "orders";

/// `custom_call_target=` and what goes with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CustomCall {
    /// The name of the callee.
    pub target: Arc<str>,
    /// The layouts the callee wants of its operands, if stated.
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
    /// The call as whoever runs it sees it, with operands and a result of these shapes. Operands
    /// and results are lists of arrays, dense and row-major. So the layouts of operands are left
    /// out, but the orders that a foreign function wants its arrays in are kept
    /// ([`Self::orders`]), as the attribute `orders`, and which results lie in the memory of
    /// operands is said by numbers of arrays ([`Self::in_place`]). The instruction's
    /// `backend_config=`, where callees find their options, is the last of
    /// [`extra`](Self::extra).
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

    /// Of a call [to run](Self::to_run): the arrays among the operands in whose memory the callee
    /// finds and leaves arrays among the results, as pairs of an operand and its result. The callee
    /// may change such a result in place: before the call it holds what the operand does.
    pub fn in_place(&self) -> impl Iterator<Item = (usize, usize)> {
        self.aliasing.iter().filter_map(|(result, operand, _)| {
            let result = usize::try_from(*result.first()?).ok()?;
            Some((usize::try_from(*operand).ok()?, result))
        })
    }

    /// [`aliasing`](Self::aliasing) by numbers of arrays.
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
        // The number of the array at a place within a shape; a call to run says 0 of its one array.
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

    /// Of a call [to run](Self::to_run): in which order of dimensions, the fastest-varying first,
    /// the callee wants each array, those among the operands first, then those among the results.
    /// [`None`]: all row-major.
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

    /// The orders that are stated, as text, if one is not row-major. LAPACK's routines are known to
    /// take matrices by columns.
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
