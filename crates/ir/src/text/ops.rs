//! Builds a typed [`Op`] from an opcode and its attributes as read.

use super::scope::Scope;
use super::tree::{Attribute, Value};
use super::tree::{Payload, RawInstruction, RawOpcode};
use crate::{
    Binary, Collective, ComputationId, CustomCall, DimNumbers, Direction, DotDims, Error, FftType,
    FusionKind, GatherDims, Op, Opcode, Order, Precision, ReplicaGroups, RngAlgorithm,
    RngDistribution, ScatterDims, Span, TransposeA, Unary, WindowDim,
};
use std::sync::Arc;

/// An instruction's attributes, from which its operation takes those that it has.
pub(crate) struct Attributes<'s, 'a> {
    scope: &'s Scope<'a>,
    span: Span,
    opcode: Opcode,
    rest: Vec<Attribute<'a>>,
}

/// Defines methods that take an attribute of one type: `name` for an optional one.
macro_rules! takers {
    ($($name:ident $variant:ident $type:ty;)*) => { $(
        fn $name(&mut self, name: &str) -> Option<$type> {
            match self.take(name)?.value {
                Value::$variant(value) => Some(value.into()),
                _ => None,
            }
        }
    )* };
}

impl<'s, 'a> Attributes<'s, 'a> {
    pub(crate) fn new(
        scope: &'s Scope<'a>,
        span: Span,
        opcode: Opcode,
        rest: Vec<Attribute<'a>>,
    ) -> Self {
        Self {
            scope,
            span,
            opcode,
            rest,
        }
    }

    /// The attributes that the operation has not taken.
    pub(crate) fn into_rest(self) -> Vec<Attribute<'a>> {
        self.rest
    }

    fn take(&mut self, name: &str) -> Option<Attribute<'a>> {
        let place = self
            .rest
            .iter()
            .position(|attribute| attribute.name == name)?;
        Some(self.rest.swap_remove(place))
    }

    takers! {
        int Int i64;
        boolean Bool bool;
        ints Ints DimNumbers;
        precisions Precisions Vec<Precision>;
        window Window Vec<WindowDim>;
        text Text Arc<str>;
        float Float f64;
    }

    fn missing(&self, name: &str) -> Error {
        let message = format!("`{}` needs `{name}=`", self.opcode);
        self.scope.error(self.span, message)
    }

    fn need<T>(&self, name: &str, value: Option<T>) -> Result<T, Error> {
        value.ok_or_else(|| self.missing(name))
    }

    fn flag(&mut self, name: &str) -> bool {
        self.boolean(name).unwrap_or(false)
    }

    fn need_int(&mut self, name: &str) -> Result<i64, Error> {
        let value = self.int(name);
        self.need(name, value)
    }

    fn need_ints(&mut self, name: &str) -> Result<DimNumbers, Error> {
        let value = self.ints(name);
        self.need(name, value)
    }

    /// The single number of `dimensions={d}`.
    fn one_dimension(&mut self) -> Result<i64, Error> {
        match self.need_ints("dimensions")?.as_slice() {
            [dimension] => Ok(*dimension),
            _ => {
                let message = format!("expected one dimension of `{}`", self.opcode);
                Err(self.scope.error(self.span, message))
            }
        }
    }

    /// Takes an attribute whose value is a name of an enumeration.
    fn word<T>(
        &mut self,
        name: &str,
        from_name: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(attribute) = self.take(name) else {
            return Ok(None);
        };
        match from_name(attribute.text) {
            Some(value) => Ok(Some(value)),
            None => {
                let message = format!("`{}` is not a value of `{name}=`", attribute.text);
                Err(self.scope.error(attribute.span, message))
            }
        }
    }

    fn need_word<T>(
        &mut self,
        name: &str,
        from_name: impl Fn(&str) -> Option<T>,
    ) -> Result<T, Error> {
        let value = self.word(name, from_name)?;
        self.need(name, value)
    }

    fn computations(&mut self, name: &str) -> Result<Option<Vec<ComputationId>>, Error> {
        let Some(attribute) = self.take(name) else {
            return Ok(None);
        };
        let Value::Names(names) = attribute.value else {
            return Ok(None);
        };
        let ids = names.into_iter().map(|named| self.scope.computation(named));
        ids.collect::<Result<Vec<_>, _>>().map(Some)
    }

    fn computation(&mut self, name: &str) -> Result<ComputationId, Error> {
        let ids = self.computations(name)?;
        let id = ids.and_then(|ids| ids.first().copied());
        self.need(name, id)
    }

    fn small(&mut self, name: &str) -> Result<u32, Error> {
        let value = self.need_int(name)?;
        u32::try_from(value).map_err(|_| {
            let message = format!("`{name}={value}` is out of range");
            self.scope.error(self.span, message)
        })
    }

    fn dot_dims(&mut self) -> DotDims {
        DotDims {
            lhs_batch: self.ints("lhs_batch_dims").unwrap_or_default(),
            rhs_batch: self.ints("rhs_batch_dims").unwrap_or_default(),
            lhs_contracting: self.ints("lhs_contracting_dims").unwrap_or_default(),
            rhs_contracting: self.ints("rhs_contracting_dims").unwrap_or_default(),
        }
    }

    fn precision(&mut self) -> Vec<Precision> {
        self.precisions("operand_precision").unwrap_or_default()
    }

    fn collective(&mut self) -> Collective {
        let groups = self.take("replica_groups").map(|groups| groups.value);
        Collective {
            replica_groups: match groups {
                Some(Value::Groups(groups)) => groups,
                _ => ReplicaGroups::Lists(Vec::new()),
            },
            channel_id: self.int("channel_id"),
            use_global_device_ids: self.flag("use_global_device_ids"),
            constrain_layout: self.flag("constrain_layout"),
        }
    }

    /// The operation of an instruction.
    pub(crate) fn operation(
        &mut self,
        raw: &RawInstruction<'a>,
        payload: Payload,
    ) -> Result<Op, Error> {
        let opcode = match raw.opcode {
            RawOpcode::Plain(opcode) => opcode,
            RawOpcode::Start(_) => Opcode::AsyncStart,
            RawOpcode::Update => Opcode::AsyncUpdate,
            RawOpcode::Done => Opcode::AsyncDone,
        };
        if let Some(op) = Unary::from_opcode(opcode) {
            return Ok(Op::Unary(op));
        }
        if let Some(op) = Binary::from_opcode(opcode) {
            return Ok(Op::Binary(op));
        }
        match payload {
            Payload::Parameter(number) => {
                let number = u32::try_from(number).map_err(|_| {
                    let message = format!("parameter number {number} is out of range");
                    self.scope.error(self.span, message)
                })?;
                Ok(Op::Parameter(number))
            }
            Payload::Constant(literals) => Ok(Op::Constant(literals.into())),
            Payload::None => {
                let op = self.array_operation(opcode)?;
                match op {
                    Some(op) => Ok(op),
                    None => self.other_operation(opcode),
                }
            }
        }
    }

    /// Operations on arrays.
    fn array_operation(&mut self, opcode: Opcode) -> Result<Option<Op>, Error> {
        Ok(Some(match opcode {
            Opcode::Compare => self.compare()?,
            Opcode::Select => Op::Select,
            Opcode::Clamp => Op::Clamp,
            Opcode::Convert => Op::Convert,
            Opcode::BitcastConvert => Op::BitcastConvert,
            Opcode::StochasticConvert => Op::StochasticConvert,
            Opcode::ReducePrecision => Op::ReducePrecision {
                exponent_bits: self.small("exponent_bits")?,
                mantissa_bits: self.small("mantissa_bits")?,
            },
            Opcode::Iota => Op::Iota(self.need_int("iota_dimension")?),
            Opcode::Broadcast => Op::Broadcast(self.ints("dimensions").unwrap_or_default()),
            Opcode::Reshape => {
                // The shapes determine the inferred dimension, too.
                self.take("inferred_dimension");
                Op::Reshape
            }
            Opcode::DynamicReshape => Op::DynamicReshape,
            Opcode::Bitcast => Op::Bitcast,
            Opcode::Transpose => Op::Transpose(self.need_ints("dimensions")?),
            Opcode::Reverse => Op::Reverse(self.need_ints("dimensions")?),
            Opcode::Slice => match self.take("slice").map(|slice| slice.value) {
                Some(Value::Slices(slices)) => Op::Slice(slices),
                _ => return Err(self.missing("slice")),
            },
            Opcode::Pad => match self.take("padding").map(|padding| padding.value) {
                Some(Value::Padding(padding)) => Op::Pad(padding),
                _ => return Err(self.missing("padding")),
            },
            Opcode::Concatenate => Op::Concatenate(self.one_dimension()?),
            Opcode::DynamicSlice => Op::DynamicSlice(self.need_ints("dynamic_slice_sizes")?),
            Opcode::DynamicUpdateSlice => Op::DynamicUpdateSlice,
            Opcode::Gather => self.gather()?,
            Opcode::Scatter => self.scatter()?,
            Opcode::Dot => Op::Dot {
                dims: self.dot_dims(),
                precision: self.precision(),
                algorithm: self
                    .take("algorithm")
                    .map(|algorithm| algorithm.text.into()),
            },
            Opcode::RaggedDot => Op::RaggedDot {
                dims: self.dot_dims(),
                precision: self.precision(),
                lhs_ragged_dims: self.need_ints("lhs_ragged_dims")?,
                rhs_group_dims: self.ints("rhs_group_dims").unwrap_or_default(),
            },
            Opcode::ScaledDot => Op::ScaledDot {
                dims: self.dot_dims(),
                precision: self.precision(),
            },
            Opcode::Convolution => self.convolution()?,
            Opcode::Reduce => Op::Reduce {
                dimensions: self.need_ints("dimensions")?,
                to_apply: self.computation("to_apply")?,
            },
            Opcode::ReduceWindow => Op::ReduceWindow {
                window: self.window("window").unwrap_or_default(),
                to_apply: self.computation("to_apply")?,
            },
            Opcode::SelectAndScatter => Op::SelectAndScatter {
                window: self.window("window").unwrap_or_default(),
                select: self.computation("select")?,
                scatter: self.computation("scatter")?,
            },
            Opcode::Map => Op::Map {
                dimensions: self.ints("dimensions").unwrap_or_default(),
                to_apply: self.computation("to_apply")?,
            },
            Opcode::Sort => Op::Sort {
                dimension: self.one_dimension()?,
                is_stable: self.flag("is_stable"),
                to_apply: self.computation("to_apply")?,
            },
            Opcode::TopK => Op::TopK {
                k: self.need_int("k")?,
                largest: self.boolean("largest").unwrap_or(true),
                is_stable: self.boolean("is_stable"),
            },
            Opcode::Scan => self.scan()?,
            Opcode::Fft => Op::Fft {
                kind: self.need_word("fft_type", FftType::from_name)?,
                length: self.need_ints("fft_length")?,
            },
            Opcode::Cholesky => Op::Cholesky {
                lower: self.flag("lower"),
            },
            Opcode::TriangularSolve => Op::TriangularSolve {
                left_side: self.flag("left_side"),
                lower: self.flag("lower"),
                unit_diagonal: self.flag("unit_diagonal"),
                transpose_a: self
                    .word("transpose_a", TransposeA::from_name)?
                    .unwrap_or(TransposeA::NoTranspose),
            },
            Opcode::BatchNormTraining | Opcode::BatchNormInference | Opcode::BatchNormGrad => {
                self.batch_norm(opcode)?
            }
            Opcode::Rng => Op::Rng(self.need_word("distribution", RngDistribution::from_name)?),
            Opcode::RngBitGenerator => {
                Op::RngBitGenerator(self.need_word("algorithm", RngAlgorithm::from_name)?)
            }
            Opcode::RngGetAndUpdateState => Op::RngGetAndUpdateState(self.need_int("delta")?),
            Opcode::GetDimensionSize => Op::GetDimensionSize(self.one_dimension()?),
            Opcode::SetDimensionSize => Op::SetDimensionSize(self.one_dimension()?),
            _ => return Ok(None),
        }))
    }

    /// Calls, tuples, tokens, asynchrony and communication.
    fn other_operation(&mut self, opcode: Opcode) -> Result<Op, Error> {
        Ok(match opcode {
            Opcode::Copy => Op::Copy,
            Opcode::CopyStart => Op::CopyStart {
                cross_program_prefetch_index: self.int("cross_program_prefetch_index"),
            },
            Opcode::CopyDone => Op::CopyDone,
            Opcode::Tuple => Op::Tuple,
            Opcode::GetTupleElement => Op::GetTupleElement(self.need_int("index")?),
            Opcode::Call => Op::Call {
                to_apply: self.computation("to_apply")?,
                is_composite: self.flag("is_composite"),
            },
            Opcode::Fusion => Op::Fusion {
                kind: self.need_word("kind", FusionKind::from_name)?,
                calls: self.computation("calls")?,
            },
            Opcode::While => Op::While {
                condition: self.computation("condition")?,
                body: self.computation("body")?,
            },
            Opcode::Conditional => self.conditional()?,
            Opcode::CustomCall => self.custom_call()?,
            Opcode::OptBarrier => Op::OptBarrier,
            Opcode::Domain => {
                let domain = self.take("domain");
                Op::Domain(super::values::fold_space(self.need("domain", domain)?.text))
            }
            Opcode::AfterAll => Op::AfterAll,
            Opcode::AddDependency => Op::AddDependency,
            Opcode::AsyncStart => Op::AsyncStart {
                calls: self.computation("calls")?,
                thread: self.text("async_execution_thread"),
            },
            Opcode::AsyncUpdate | Opcode::AsyncDone => {
                // Older dumps repeat the start operation's attributes here.
                for name in ["calls", "async_execution_thread", "async_group_id"] {
                    self.take(name);
                }
                match opcode {
                    Opcode::AsyncUpdate => Op::AsyncUpdate,
                    _ => Op::AsyncDone,
                }
            }
            Opcode::Infeed => Op::Infeed(self.text("infeed_config")),
            Opcode::Outfeed => Op::Outfeed {
                shape: match self.take("outfeed_shape").map(|shape| shape.value) {
                    Some(Value::Shapes(shapes)) => shapes.into_iter().next().map(Box::new),
                    _ => None,
                },
                config: self.text("outfeed_config"),
            },
            Opcode::Send | Opcode::SendDone | Opcode::Recv | Opcode::RecvDone => Op::Channel {
                opcode,
                channel_id: self.int("channel_id"),
                is_host_transfer: self.flag("is_host_transfer"),
            },
            Opcode::ReplicaId => Op::ReplicaId,
            Opcode::PartitionId => Op::PartitionId,
            Opcode::AllGatherDone | Opcode::AllReduceDone | Opcode::CollectivePermuteDone => {
                // Some dumps repeat the start operation's channel here.
                self.take("channel_id");
                Op::CollectiveDone(opcode)
            }
            _ => return self.collective_operation(opcode),
        })
    }

    fn collective_operation(&mut self, opcode: Opcode) -> Result<Op, Error> {
        Ok(match opcode {
            Opcode::AllGather | Opcode::AllGatherStart => Op::AllGather {
                collective: self.collective(),
                dimension: self.one_dimension()?,
                start: opcode == Opcode::AllGatherStart,
            },
            Opcode::AllReduce | Opcode::AllReduceStart => Op::AllReduce {
                collective: self.collective(),
                to_apply: self.computation("to_apply")?,
                start: opcode == Opcode::AllReduceStart,
            },
            Opcode::ReduceScatter => Op::ReduceScatter {
                collective: self.collective(),
                dimension: self.one_dimension()?,
                to_apply: self.computation("to_apply")?,
            },
            Opcode::AllToAll => Op::AllToAll {
                collective: self.collective(),
                dimension: match self.rest.iter().any(|other| other.name == "dimensions") {
                    true => Some(self.one_dimension()?),
                    false => None,
                },
            },
            Opcode::RaggedAllToAll => Op::RaggedAllToAll(self.collective()),
            Opcode::CollectiveBroadcast => Op::CollectiveBroadcast(self.collective()),
            Opcode::CollectivePermute | Opcode::CollectivePermuteStart => Op::CollectivePermute {
                pairs: match self.take("source_target_pairs").map(|pairs| pairs.value) {
                    Some(Value::Pairs(pairs)) => pairs,
                    _ => return Err(self.missing("source_target_pairs")),
                },
                channel_id: self.int("channel_id"),
                start: opcode == Opcode::CollectivePermuteStart,
            },
            other => {
                let message = format!("`{other}` cannot be represented");
                return Err(self.scope.error(self.span, message));
            }
        })
    }

    fn compare(&mut self) -> Result<Op, Error> {
        let direction = self.need_word("direction", Direction::from_name)?;
        let by_type = self.word("type", |name| match name {
            "TOTALORDER" => Some(Order::Total),
            "FLOAT" | "SIGNED" | "UNSIGNED" => Some(Order::Partial),
            _ => None,
        })?;
        let by_order = self.word("order", |name| match name {
            "TOTAL" => Some(Order::Total),
            "PARTIAL" => Some(Order::Partial),
            _ => None,
        })?;
        Ok(Op::Compare {
            direction,
            order: by_order.or(by_type).unwrap_or(Order::Partial),
        })
    }

    fn gather(&mut self) -> Result<Op, Error> {
        Ok(Op::Gather {
            dims: GatherDims {
                offset_dims: self.need_ints("offset_dims")?,
                collapsed_slice_dims: self.need_ints("collapsed_slice_dims")?,
                start_index_map: self.need_ints("start_index_map")?,
                operand_batching_dims: self.ints("operand_batching_dims").unwrap_or_default(),
                start_indices_batching_dims: self
                    .ints("start_indices_batching_dims")
                    .unwrap_or_default(),
                index_vector_dim: self.need_int("index_vector_dim")?,
            },
            slice_sizes: self.need_ints("slice_sizes")?,
            indices_are_sorted: self.flag("indices_are_sorted"),
        })
    }

    fn scatter(&mut self) -> Result<Op, Error> {
        Ok(Op::Scatter {
            dims: ScatterDims {
                update_window_dims: self.need_ints("update_window_dims")?,
                inserted_window_dims: self.need_ints("inserted_window_dims")?,
                scatter_dims_to_operand_dims: self.need_ints("scatter_dims_to_operand_dims")?,
                input_batching_dims: self.ints("input_batching_dims").unwrap_or_default(),
                scatter_indices_batching_dims: self
                    .ints("scatter_indices_batching_dims")
                    .unwrap_or_default(),
                index_vector_dim: self.need_int("index_vector_dim")?,
            },
            indices_are_sorted: self.flag("indices_are_sorted"),
            unique_indices: self.flag("unique_indices"),
            to_apply: self.computation("to_apply")?,
        })
    }

    fn convolution(&mut self) -> Result<Op, Error> {
        // The kind of gradient adds nothing to the other attributes.
        self.take("convolution_kind");
        self.take("conv_kind");
        let dims = match self.take("dim_labels").map(|labels| labels.value) {
            Some(Value::ConvDims(dims)) => *dims,
            _ => return Err(self.missing("dim_labels")),
        };
        Ok(Op::Convolution {
            window: self.window("window").unwrap_or_default(),
            dims,
            feature_group_count: self.int("feature_group_count").unwrap_or(1),
            batch_group_count: self.int("batch_group_count").unwrap_or(1),
            precision: self.precision(),
        })
    }

    fn scan(&mut self) -> Result<Op, Error> {
        let is_associative = self
            .take("is_associative")
            .is_some_and(|value| matches!(value.text, "true" | "TRI_STATE_TRUE"));
        Ok(Op::Scan {
            dimension: self.one_dimension()?,
            num_carries: self.need_int("num_carries")?,
            is_reverse: self.flag("is_reverse"),
            is_associative,
            to_apply: self.computation("to_apply")?,
        })
    }

    fn batch_norm(&mut self, opcode: Opcode) -> Result<Op, Error> {
        let epsilon = self.float("epsilon");
        let epsilon = self.need("epsilon", epsilon)? as f32;
        let feature_index = self.need_int("feature_index")?;
        Ok(match opcode {
            Opcode::BatchNormTraining => Op::BatchNormTraining {
                epsilon,
                feature_index,
            },
            Opcode::BatchNormInference => Op::BatchNormInference {
                epsilon,
                feature_index,
            },
            _ => Op::BatchNormGrad {
                epsilon,
                feature_index,
            },
        })
    }

    fn conditional(&mut self) -> Result<Op, Error> {
        if let Some(branches) = self.computations("branch_computations")? {
            return Ok(Op::Conditional {
                branches,
                predicated: false,
            });
        }
        Ok(Op::Conditional {
            branches: vec![
                self.computation("true_computation")?,
                self.computation("false_computation")?,
            ],
            predicated: true,
        })
    }

    fn custom_call(&mut self) -> Result<Op, Error> {
        let target = self.text("custom_call_target");
        let target = self.need("custom_call_target", target)?;
        let operand_layouts = self.take("operand_layout_constraints");
        let aliasing = self.take("output_to_operand_aliasing");
        let mut called = Vec::new();
        for name in ["to_apply", "called_computations", "calls"] {
            called.extend(self.computations(name)?.unwrap_or_default());
        }
        let has_side_effect = self.flag("custom_call_has_side_effect");
        let api_version = self.take("api_version").map(|version| version.text.into());
        let (mut own, common): (Vec<_>, Vec<_>) = std::mem::take(&mut self.rest)
            .into_iter()
            .partition(|attribute| !super::scope::is_annotation(attribute.name));
        self.rest = common;
        own.sort_by_key(|attribute| attribute.span);
        Ok(Op::CustomCall(Box::new(CustomCall {
            target,
            operand_layouts: match operand_layouts.map(|layouts| layouts.value) {
                Some(Value::Shapes(shapes)) => Some(shapes),
                _ => None,
            },
            has_side_effect,
            api_version,
            called,
            aliasing: match aliasing.map(|aliasing| aliasing.value) {
                Some(Value::Aliases(aliases)) => aliases,
                _ => Vec::new(),
            },
            extra: own
                .into_iter()
                .map(|own| (own.name.into(), super::values::fold_space(own.text)))
                .collect(),
        })))
    }
}
