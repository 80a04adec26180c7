//! Operations: opcodes with typed attributes.
//!
//! Elementwise operations are grouped ([`Unary`], [`Binary`]). Every other operation is a variant
//! of [`Op`], whose fields are its attributes. Operands belong to the
//! [`Instruction`](crate::Instruction).

use crate::{
    Collective, ComputationId, ConvDims, CustomCall, DimNumbers, Direction, DotDims, ElementType,
    FftType, FusionKind, GatherDims, Literal, Opcode, Order, PadDim, Precision, RngAlgorithm,
    RngDistribution, ScatterDims, Shape, SliceDim, TransposeA, WindowDim,
};
use std::sync::Arc;

macro_rules! elementwise {
    ($(#[$doc:meta])* $enum:ident { $($variant:ident)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $enum { $(#[doc = concat!("[`Opcode::", stringify!($variant), "`]")] $variant,)* }

        impl $enum {
            /// Every operation of this group.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The opcode of the operation.
            pub const fn opcode(self) -> Opcode {
                match self { $(Self::$variant => Opcode::$variant,)* }
            }

            /// The operation with this opcode, if it belongs to this group.
            pub const fn from_opcode(opcode: Opcode) -> Option<Self> {
                match opcode { $(Opcode::$variant => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

elementwise! {
    /// Elementwise operations of one operand and no attributes.
    Unary {
        Abs Acos Acosh Asin Asinh Atanh Cbrt Ceil Cos Cosh CountLeadingZeros Erf Exp
        Expm1 Floor Imag IsFinite Log Log1p Logistic Negate Not Popcnt Real
        RoundNearestAfz RoundNearestEven Rsqrt Sign Sin Sinh Sqrt Tan Tanh
    }
}

elementwise! {
    /// Elementwise operations of two operands and no attributes.
    Binary {
        Add And Atan2 Complex Divide Maximum Minimum Mulhi Multiply Or Power Remainder
        ShiftLeft ShiftRightArithmetic ShiftRightLogical Subtract Xor
    }
}

/// An operation and its attributes.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// An elementwise operation of one operand.
    Unary(Unary),
    /// An elementwise operation of two operands.
    Binary(Binary),
    /// `compare(a, b), direction=`: elementwise, gives `pred`.
    Compare {
        /// The relation.
        direction: Direction,
        /// The order.
        order: Order,
    },
    /// `select(pred, on_true, on_false)`; the predicate may be a scalar.
    Select,
    /// `clamp(low, x, high)`; the bounds may be scalars.
    Clamp,
    /// `convert(x)` to the result's element type.
    Convert,
    /// `bitcast-convert(x)`: the same bits as another type.
    BitcastConvert,
    /// `stochastic-convert(x, random)`.
    StochasticConvert,
    /// `reduce-precision(x)`: rounded to fewer bits and back.
    ReducePrecision {
        /// Exponent bits kept.
        exponent_bits: u32,
        /// Mantissa bits kept.
        mantissa_bits: u32,
    },
    /// `parameter(number)`.
    Parameter(u32),
    /// `constant(literal)`. A tuple constant has several literals.
    Constant(Arc<[Literal]>),
    /// `iota(), iota_dimension=`.
    Iota(i64),
    /// `broadcast(x), dimensions=`: the result dimension of each operand dimension.
    Broadcast(DimNumbers),
    /// `reshape(x)`.
    Reshape,
    /// `dynamic-reshape(x, sizes...)`.
    DynamicReshape,
    /// `bitcast(x)`: the same memory with another shape.
    Bitcast,
    /// `transpose(x), dimensions=`: result dimension `i` is operand dimension `dimensions[i]`.
    Transpose(DimNumbers),
    /// `reverse(x), dimensions=`.
    Reverse(DimNumbers),
    /// `slice(x), slice={[start:limit:stride], ...}`.
    Slice(Vec<SliceDim>),
    /// `pad(x, value), padding=`.
    Pad(Vec<PadDim>),
    /// `concatenate(...), dimensions={d}`.
    Concatenate(i64),
    /// `copy(x)`.
    Copy,
    /// `copy-start(x)`: gives (destination, source, context).
    CopyStart {
        /// `cross_program_prefetch_index=`.
        cross_program_prefetch_index: Option<i64>,
    },
    /// `copy-done(start)`.
    CopyDone,
    /// `dynamic-slice(x, starts...), dynamic_slice_sizes=`.
    DynamicSlice(DimNumbers),
    /// `dynamic-update-slice(x, update, starts...)`.
    DynamicUpdateSlice,
    /// `gather(operand, indices)`.
    Gather {
        /// Dimension numbers.
        dims: GatherDims,
        /// The size of the slice at each index, by operand dimension; [`TO_END`](crate::TO_END)
        /// takes all of the dimension.
        slice_sizes: DimNumbers,
        /// Whether the indices are known to be sorted.
        indices_are_sorted: bool,
    },
    /// `scatter(operands..., indices, updates...)`.
    Scatter {
        /// Dimension numbers.
        dims: ScatterDims,
        /// Whether the indices are known to be sorted.
        indices_are_sorted: bool,
        /// Whether the indices are known to be unique.
        unique_indices: bool,
        /// The computation that combines old and new values: (old..., new...) -> combined....
        to_apply: ComputationId,
    },
    /// `dot(lhs, rhs)`.
    Dot {
        /// Dimension numbers.
        dims: DotDims,
        /// Precision by operand; empty: default.
        precision: Vec<Precision>,
        /// `algorithm=`, as written.
        algorithm: Option<Arc<str>>,
    },
    /// `ragged-dot(lhs, rhs, group_sizes)`.
    RaggedDot {
        /// Dimension numbers.
        dims: DotDims,
        /// Precision by operand; empty: default.
        precision: Vec<Precision>,
        /// `lhs_ragged_dims=`.
        lhs_ragged_dims: DimNumbers,
        /// `rhs_group_dims=`.
        rhs_group_dims: DimNumbers,
    },
    /// `scaled-dot(lhs, rhs, lhs_scale, rhs_scale)`.
    ScaledDot {
        /// Dimension numbers.
        dims: DotDims,
        /// Precision by operand; empty: default.
        precision: Vec<Precision>,
    },
    /// `convolution(input, kernel)`.
    Convolution {
        /// The window, by spatial dimension.
        window: Vec<WindowDim>,
        /// The role of each dimension.
        dims: ConvDims,
        /// `feature_group_count=`.
        feature_group_count: i64,
        /// `batch_group_count=`.
        batch_group_count: i64,
        /// Precision by operand; empty: default.
        precision: Vec<Precision>,
    },
    /// `reduce(inputs..., inits...), dimensions=, to_apply=`.
    Reduce {
        /// The dimensions reduced away.
        dimensions: DimNumbers,
        /// The combining computation: (accumulators..., values...) -> accumulators....
        to_apply: ComputationId,
    },
    /// `reduce-window(inputs..., inits...), window=, to_apply=`.
    ReduceWindow {
        /// The window, by dimension.
        window: Vec<WindowDim>,
        /// The combining computation: (accumulators..., values...) -> accumulators....
        to_apply: ComputationId,
    },
    /// `select-and-scatter(operand, source, init)`.
    SelectAndScatter {
        /// The window, by dimension.
        window: Vec<WindowDim>,
        /// The computation that says whether its first argument is preferred to the second.
        select: ComputationId,
        /// The computation that combines values scattered to the same element.
        scatter: ComputationId,
    },
    /// `map(operands...), dimensions=, to_apply=`.
    Map {
        /// All dimensions, in order.
        dimensions: DimNumbers,
        /// The computation that is applied to each element.
        to_apply: ComputationId,
    },
    /// `sort(operands...), dimensions={d}, to_apply=`.
    Sort {
        /// The dimension sorted along.
        dimension: i64,
        /// Whether equal elements keep their order.
        is_stable: bool,
        /// The comparator, which says whether a goes before b: (a0, b0, a1, b1, ...) -> pred.
        to_apply: ComputationId,
    },
    /// `topk(x), k=, largest=`: values and indices along the last dimension.
    TopK {
        /// The number of elements to find.
        k: i64,
        /// Whether the largest elements are found, rather than the smallest.
        largest: bool,
        /// `is_stable=`, if written.
        is_stable: Option<bool>,
    },
    /// `scan(inputs..., inits...)`: gives (outputs..., carries...).
    Scan {
        /// The dimension that is scanned along.
        dimension: i64,
        /// The number of carried values.
        num_carries: i64,
        /// Whether the scan runs from the end to the beginning.
        is_reverse: bool,
        /// Whether the function is associative.
        is_associative: bool,
        /// The computation of one step.
        to_apply: ComputationId,
    },
    /// `fft(x), fft_type=, fft_length=`.
    Fft {
        /// The kind of transform.
        kind: FftType,
        /// Sizes of the transformed (last) dimensions.
        length: DimNumbers,
    },
    /// `cholesky(a), lower=`.
    Cholesky {
        /// Whether the lower triangle is read and written.
        lower: bool,
    },
    /// `triangular-solve(a, b)`.
    TriangularSolve {
        /// `op(a) x = b` rather than `x op(a) = b`.
        left_side: bool,
        /// Whether `a` is lower triangular.
        lower: bool,
        /// Whether the diagonal is taken to be ones.
        unit_diagonal: bool,
        /// The operation `op`: none, transposition, or conjugate transposition.
        transpose_a: TransposeA,
    },
    /// `batch-norm-training(x, scale, offset)`.
    BatchNormTraining {
        /// Added to the variance.
        epsilon: f32,
        /// The feature dimension.
        feature_index: i64,
    },
    /// `batch-norm-inference(x, scale, offset, mean, variance)`.
    BatchNormInference {
        /// Added to the variance.
        epsilon: f32,
        /// The feature dimension.
        feature_index: i64,
    },
    /// `batch-norm-grad(x, scale, mean, variance, grad)`.
    BatchNormGrad {
        /// Added to the variance.
        epsilon: f32,
        /// The feature dimension.
        feature_index: i64,
    },
    /// `rng(a, b), distribution=`.
    Rng(RngDistribution),
    /// `rng-bit-generator(state), algorithm=`: new state and bits.
    RngBitGenerator(RngAlgorithm),
    /// `rng-get-and-update-state(), delta=`.
    RngGetAndUpdateState(i64),
    /// `tuple(...)`.
    Tuple,
    /// `get-tuple-element(t), index=`.
    GetTupleElement(i64),
    /// `call(operands...), to_apply=`.
    Call {
        /// The callee.
        to_apply: ComputationId,
        /// `is_composite=`.
        is_composite: bool,
    },
    /// `fusion(operands...), kind=, calls=`.
    Fusion {
        /// The kind of fusion.
        kind: FusionKind,
        /// The fused computation.
        calls: ComputationId,
    },
    /// `while(init), condition=, body=`.
    While {
        /// The computation that says whether to go on: (state) -> pred.
        condition: ComputationId,
        /// The computation of one iteration: (state) -> state.
        body: ComputationId,
    },
    /// `conditional(selector, operands...)`: a `pred` selects among two branches (true, false), an
    /// `s32` among any number.
    Conditional {
        /// The branches; each takes one operand.
        branches: Vec<ComputationId>,
        /// Whether the text used `true_computation`/`false_computation`.
        predicated: bool,
    },
    /// `custom-call(operands...)`.
    CustomCall(Box<CustomCall>),
    /// `opt-barrier(x)`: the identity, across which nothing is moved.
    OptBarrier,
    /// `domain(x)`: the identity; `domain={...}` as written.
    Domain(Arc<str>),
    /// `get-dimension-size(x), dimensions={d}`.
    GetDimensionSize(i64),
    /// `set-dimension-size(x, size), dimensions={d}`.
    SetDimensionSize(i64),
    /// `after-all(tokens...)`.
    AfterAll,
    /// `add-dependency(x, token)`.
    AddDependency,
    /// `async-start(operands...)` of the wrapped computation.
    AsyncStart {
        /// The computation that is started.
        calls: ComputationId,
        /// `async_execution_thread=`.
        thread: Option<Arc<str>>,
    },
    /// `async-update(start)`.
    AsyncUpdate,
    /// `async-done(start)`.
    AsyncDone,
    /// `infeed(token)`, `infeed_config=`.
    Infeed(Option<Arc<str>>),
    /// `outfeed(x, token)`, `outfeed_shape=` and `outfeed_config=`.
    Outfeed {
        /// The shape of `x`.
        shape: Option<Box<Shape>>,
        /// `outfeed_config=`.
        config: Option<Arc<str>>,
    },
    /// `send`, `send-done`, `recv`, `recv-done`.
    Channel {
        /// Which of the four operations.
        opcode: Opcode,
        /// `channel_id=`.
        channel_id: Option<i64>,
        /// `is_host_transfer=`.
        is_host_transfer: bool,
    },
    /// `replica-id()`.
    ReplicaId,
    /// `partition-id()`.
    PartitionId,
    /// `all-gather` and `all-gather-start`.
    AllGather {
        /// The attributes that all collectives have.
        collective: Collective,
        /// The dimension gathered along.
        dimension: i64,
        /// Whether this is the start form.
        start: bool,
    },
    /// `all-reduce` and `all-reduce-start`.
    AllReduce {
        /// The attributes that all collectives have.
        collective: Collective,
        /// The computation that combines two elements.
        to_apply: ComputationId,
        /// Whether this is the start form.
        start: bool,
    },
    /// `reduce-scatter`.
    ReduceScatter {
        /// The attributes that all collectives have.
        collective: Collective,
        /// The dimension scattered along.
        dimension: i64,
        /// The computation that combines two elements.
        to_apply: ComputationId,
    },
    /// `all-to-all`.
    AllToAll {
        /// The attributes that all collectives have.
        collective: Collective,
        /// The dimension that is split, if the operand is one array.
        dimension: Option<i64>,
    },
    /// `ragged-all-to-all`.
    RaggedAllToAll(Collective),
    /// `collective-broadcast`.
    CollectiveBroadcast(Collective),
    /// `collective-permute` and `collective-permute-start`.
    CollectivePermute {
        /// `source_target_pairs=`.
        pairs: Vec<(i64, i64)>,
        /// `channel_id=`.
        channel_id: Option<i64>,
        /// Whether this is the start form.
        start: bool,
    },
    /// `all-gather-done`, `all-reduce-done`, `collective-permute-done`.
    CollectiveDone(Opcode),
}

/// The channel of a collective, if it has one. `$as` is `as_ref` for a shared reference to the
/// operation and `as_mut` for a mutable one.
macro_rules! channel_of_collective {
    ($op:expr, $as:ident) => {
        match $op {
            Self::AllGather { collective, .. }
            | Self::AllReduce { collective, .. }
            | Self::ReduceScatter { collective, .. }
            | Self::AllToAll { collective, .. }
            | Self::RaggedAllToAll(collective)
            | Self::CollectiveBroadcast(collective) => collective.channel_id.$as(),
            Self::CollectivePermute { channel_id, .. } => channel_id.$as(),
            _ => None,
        }
    };
}

/// Calls `$f` with a reference to each computation that an operation calls, in a fixed order.
/// `$iter` is `iter` for a shared reference to the operation and `iter_mut` for a mutable one.
macro_rules! for_each_called {
    ($op:expr, $iter:ident, $f:ident) => {
        match $op {
            Self::Scatter { to_apply, .. }
            | Self::Reduce { to_apply, .. }
            | Self::ReduceWindow { to_apply, .. }
            | Self::Map { to_apply, .. }
            | Self::Sort { to_apply, .. }
            | Self::Scan { to_apply, .. }
            | Self::AllReduce { to_apply, .. }
            | Self::ReduceScatter { to_apply, .. }
            | Self::Call { to_apply, .. }
            | Self::Fusion {
                calls: to_apply, ..
            }
            | Self::AsyncStart {
                calls: to_apply, ..
            } => $f(to_apply),
            Self::SelectAndScatter {
                select, scatter, ..
            } => {
                $f(select);
                $f(scatter);
            }
            Self::While { condition, body } => {
                $f(condition);
                $f(body);
            }
            Self::Conditional { branches, .. } => branches.$iter().for_each($f),
            Self::CustomCall(call) => call.called.$iter().for_each($f),
            _ => {}
        }
    };
}

impl Op {
    /// The opcode.
    pub fn opcode(&self) -> Opcode {
        match self {
            Self::Unary(op) => op.opcode(),
            Self::Binary(op) => op.opcode(),
            Self::Compare { .. } => Opcode::Compare,
            Self::Select => Opcode::Select,
            Self::Clamp => Opcode::Clamp,
            Self::Convert => Opcode::Convert,
            Self::BitcastConvert => Opcode::BitcastConvert,
            Self::StochasticConvert => Opcode::StochasticConvert,
            Self::ReducePrecision { .. } => Opcode::ReducePrecision,
            Self::Parameter(_) => Opcode::Parameter,
            Self::Constant(_) => Opcode::Constant,
            Self::Iota(_) => Opcode::Iota,
            Self::Broadcast(_) => Opcode::Broadcast,
            Self::Reshape => Opcode::Reshape,
            Self::DynamicReshape => Opcode::DynamicReshape,
            Self::Bitcast => Opcode::Bitcast,
            Self::Transpose(_) => Opcode::Transpose,
            Self::Reverse(_) => Opcode::Reverse,
            Self::Slice(_) => Opcode::Slice,
            Self::Pad(_) => Opcode::Pad,
            Self::Concatenate(_) => Opcode::Concatenate,
            Self::Copy => Opcode::Copy,
            Self::CopyStart { .. } => Opcode::CopyStart,
            Self::CopyDone => Opcode::CopyDone,
            Self::DynamicSlice(_) => Opcode::DynamicSlice,
            Self::DynamicUpdateSlice => Opcode::DynamicUpdateSlice,
            Self::Gather { .. } => Opcode::Gather,
            Self::Scatter { .. } => Opcode::Scatter,
            Self::Dot { .. } => Opcode::Dot,
            Self::RaggedDot { .. } => Opcode::RaggedDot,
            Self::ScaledDot { .. } => Opcode::ScaledDot,
            Self::Convolution { .. } => Opcode::Convolution,
            Self::Reduce { .. } => Opcode::Reduce,
            Self::ReduceWindow { .. } => Opcode::ReduceWindow,
            Self::SelectAndScatter { .. } => Opcode::SelectAndScatter,
            Self::Map { .. } => Opcode::Map,
            Self::Sort { .. } => Opcode::Sort,
            Self::TopK { .. } => Opcode::TopK,
            Self::Scan { .. } => Opcode::Scan,
            Self::Fft { .. } => Opcode::Fft,
            Self::Cholesky { .. } => Opcode::Cholesky,
            Self::TriangularSolve { .. } => Opcode::TriangularSolve,
            Self::BatchNormTraining { .. } => Opcode::BatchNormTraining,
            Self::BatchNormInference { .. } => Opcode::BatchNormInference,
            Self::BatchNormGrad { .. } => Opcode::BatchNormGrad,
            Self::Rng(_) => Opcode::Rng,
            Self::RngBitGenerator(_) => Opcode::RngBitGenerator,
            Self::RngGetAndUpdateState(_) => Opcode::RngGetAndUpdateState,
            Self::Tuple => Opcode::Tuple,
            Self::GetTupleElement(_) => Opcode::GetTupleElement,
            Self::Call { .. } => Opcode::Call,
            Self::Fusion { .. } => Opcode::Fusion,
            Self::While { .. } => Opcode::While,
            Self::Conditional { .. } => Opcode::Conditional,
            Self::CustomCall(_) => Opcode::CustomCall,
            Self::OptBarrier => Opcode::OptBarrier,
            Self::Domain(_) => Opcode::Domain,
            Self::GetDimensionSize(_) => Opcode::GetDimensionSize,
            Self::SetDimensionSize(_) => Opcode::SetDimensionSize,
            Self::AfterAll => Opcode::AfterAll,
            Self::AddDependency => Opcode::AddDependency,
            Self::AsyncStart { .. } => Opcode::AsyncStart,
            Self::AsyncUpdate => Opcode::AsyncUpdate,
            Self::AsyncDone => Opcode::AsyncDone,
            Self::Infeed(_) => Opcode::Infeed,
            Self::Outfeed { .. } => Opcode::Outfeed,
            Self::Channel { opcode, .. } | Self::CollectiveDone(opcode) => *opcode,
            Self::ReplicaId => Opcode::ReplicaId,
            Self::PartitionId => Opcode::PartitionId,
            Self::AllGather { start: false, .. } => Opcode::AllGather,
            Self::AllGather { start: true, .. } => Opcode::AllGatherStart,
            Self::AllReduce { start: false, .. } => Opcode::AllReduce,
            Self::AllReduce { start: true, .. } => Opcode::AllReduceStart,
            Self::ReduceScatter { .. } => Opcode::ReduceScatter,
            Self::AllToAll { .. } => Opcode::AllToAll,
            Self::RaggedAllToAll(_) => Opcode::RaggedAllToAll,
            Self::CollectiveBroadcast(_) => Opcode::CollectiveBroadcast,
            Self::CollectivePermute { start: false, .. } => Opcode::CollectivePermute,
            Self::CollectivePermute { start: true, .. } => Opcode::CollectivePermuteStart,
        }
    }

    /// The computations that this operation calls, in a fixed order.
    pub fn called_computations(&self) -> smallvec::SmallVec<[ComputationId; 2]> {
        let mut called = smallvec::SmallVec::new();
        let mut note = |id: &ComputationId| called.push(*id);
        for_each_called!(self, iter, note);
        called
    }

    /// Replaces each computation that this operation calls by the result of `f` for it.
    pub fn map_computations(&mut self, mut f: impl FnMut(ComputationId) -> ComputationId) {
        let mut replace = |id: &mut ComputationId| *id = f(*id);
        for_each_called!(self, iter_mut, replace);
    }

    /// The `channel_id=` of a collective, if it has one; the collective is then between partitions.
    pub fn collective_channel(&self) -> Option<i64> {
        channel_of_collective!(self, as_ref).copied()
    }

    /// As [`Self::collective_channel`], for writing.
    pub fn collective_channel_mut(&mut self) -> Option<&mut i64> {
        channel_of_collective!(self, as_mut)
    }

    /// Whether the operation distinguishes a program's partitions: it gives the partition's number,
    /// or is a collective between partitions.
    pub fn is_between_partitions(&self) -> bool {
        matches!(self, Self::PartitionId) || self.collective_channel().is_some()
    }

    /// Whether each result element depends only on the operand elements at the
    /// same index (scalar operands of `select` and `clamp` aside).
    pub fn is_elementwise(&self) -> bool {
        matches!(
            self,
            Self::Unary(_)
                | Self::Binary(_)
                | Self::Compare { .. }
                | Self::Select
                | Self::Clamp
                | Self::Convert
                | Self::StochasticConvert
                | Self::ReducePrecision { .. }
        )
    }
}

/// The element type of the result of a unary operation for an operand of this type.
pub fn unary_result_type(op: Unary, operand: ElementType) -> ElementType {
    match op {
        Unary::IsFinite => ElementType::Pred,
        Unary::Real | Unary::Imag | Unary::Abs => operand.complex_part().unwrap_or(operand),
        _ => operand,
    }
}
