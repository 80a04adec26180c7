//! Raises each instruction to its StableHLO operation.

use super::values::{constant, leaf_types};
use super::{Raiser, Values, attributes, error};
use crate::Error;
use crate::mlir::{Attribute, Block, Region, Type, ValueId};
use std::sync::Arc;
use tegula_ir::{
    Binary, Collective, CustomCall, Direction, FftType, Instruction, Op, Opcode, Order,
    RngAlgorithm, RngDistribution, Shape, TO_END, TransposeA, Unary,
};

type Properties = Vec<(&'static str, Attribute)>;

impl Raiser<'_> {
    /// Appends the operation for an instruction, and returns its values.
    pub(super) fn instruction(
        &mut self,
        instruction: &Instruction,
        values: &Values,
        block: &mut Block,
    ) -> Result<Vec<ValueId>, Error> {
        let operand = |place: usize| -> Vec<ValueId> {
            let id = instruction.operands.get(place);
            id.and_then(|id| values.get(id))
                .cloned()
                .unwrap_or_default()
        };
        let all: Vec<ValueId> = (0..instruction.operands.len()).flat_map(operand).collect();
        match &instruction.op {
            Op::Tuple => return Ok(all),
            Op::GetTupleElement(index) => return self.element(instruction, *index, &all),
            Op::Conditional {
                branches,
                predicated,
            } => {
                let regions = branches.iter().enumerate().map(|(place, branch)| {
                    let given = [operand(place + 1)];
                    self.region(*branch, Some(&given))
                });
                let regions: Vec<Region> = regions.collect::<Result<_, Error>>()?;
                let name = if *predicated { "if" } else { "case" };
                return self.push(instruction, name, &operand(0), Vec::new(), regions, block);
            }
            Op::While { condition, body } => {
                let regions = vec![self.region(*condition, None)?, self.region(*body, None)?];
                return self.push(instruction, "while", &all, Vec::new(), regions, block);
            }
            Op::Call { to_apply, .. } => {
                let name = self.name_of(*to_apply, None);
                let callee = Attribute::Symbol([name].into());
                let properties = vec![("callee", callee)];
                return self.push(
                    instruction,
                    "func.call",
                    &all,
                    properties,
                    Vec::new(),
                    block,
                );
            }
            _ => {
                if let Some(values) = self.composed(instruction, values, block)? {
                    return Ok(values);
                }
            }
        }
        let (name, properties, regions) = self.simple(instruction)?;
        let operands: Vec<ValueId> = match &instruction.op {
            // StableHLO repeats the size as an operand.
            Op::Rng(_) => {
                let mut operands = all;
                operands.push(self.size_constant(instruction, block)?);
                operands
            }
            _ => all,
        };
        self.push(instruction, name, &operands, properties, regions, block)
    }

    /// The values of one element of a tuple.
    fn element(
        &self,
        instruction: &Instruction,
        index: i64,
        all: &[ValueId],
    ) -> Result<Vec<ValueId>, Error> {
        let tuple = instruction
            .operands
            .first()
            .map(|id| &self.source[*id].shape);
        let elements = tuple.and_then(Shape::as_tuple).unwrap_or_default();
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let Some(element) = elements.get(index) else {
            return Err(error(instruction, "the tuple element does not exist"));
        };
        let start: usize = elements[..index].iter().map(Shape::leaf_count).sum();
        let values = all.get(start..start + element.leaf_count());
        let values = values
            .ok_or_else(|| error(instruction, "the started operation has no tuple elements"))?;
        Ok(values.to_vec())
    }

    fn push(
        &mut self,
        instruction: &Instruction,
        name: &str,
        operands: &[ValueId],
        properties: Properties,
        regions: Vec<Region>,
        block: &mut Block,
    ) -> Result<Vec<ValueId>, Error> {
        let types = leaf_types(&instruction.shape).map_err(|why| error(instruction, why))?;
        let name = match name.contains('.') {
            true => name.to_owned(),
            false => format!("stablehlo.{name}"),
        };
        let mut operation = self.maker.operation(&name, operands, &types, properties);
        operation.regions = regions;
        if let Some(annotations) = &instruction.annotations
            && let Some(sharding) = &annotations.sharding
        {
            let sharding = Attribute::String(Arc::clone(sharding));
            operation
                .attributes
                .push(("mhlo.sharding".into(), sharding));
        }
        let results = operation.results.to_vec();
        block.operations.push(operation);
        Ok(results)
    }

    fn size_constant(
        &mut self,
        instruction: &Instruction,
        block: &mut Block,
    ) -> Result<ValueId, Error> {
        let sizes = instruction
            .shape
            .as_array()
            .and_then(tegula_ir::ArrayShape::static_dims);
        let sizes = sizes.ok_or_else(|| error(instruction, "its size is not known"))?;
        let Attribute::Elements(elements) = attributes::rows(1, &sizes) else {
            return Err(error(instruction, "its size is not a constant"));
        };
        let ty = Type::tensor(vec![Some(sizes.len() as i64)], Type::signless(64));
        let value = Attribute::Elements(Arc::new(crate::mlir::Elements {
            ty: ty.clone(),
            ..(*elements).clone()
        }));
        let operation =
            self.maker
                .operation("stablehlo.constant", &[], &[ty], vec![("value", value)]);
        let result = operation.results[0];
        block.operations.push(operation);
        Ok(result)
    }

    /// An operation with the same operands and results as the instruction, in order.
    fn simple(
        &mut self,
        instruction: &Instruction,
    ) -> Result<(&'static str, Properties, Vec<Region>), Error> {
        let none = Vec::new;
        let list = |values: &[i64]| Attribute::i64s(values);
        if takes_to_end(&instruction.op) {
            let why = "StableHLO has no slice up to the end of a dimension of symbolic size";
            return Err(error(instruction, why));
        }
        Ok(match &instruction.op {
            Op::Unary(op) => (unary(*op), none(), Vec::new()),
            Op::Binary(op) => (binary(*op), none(), Vec::new()),
            Op::Compare { direction, order } => (
                "compare",
                self.compare(instruction, *direction, *order),
                Vec::new(),
            ),
            Op::Select => ("select", none(), Vec::new()),
            Op::Clamp => ("clamp", none(), Vec::new()),
            Op::Convert => ("convert", none(), Vec::new()),
            Op::BitcastConvert => ("bitcast_convert", none(), Vec::new()),
            Op::ReducePrecision {
                exponent_bits,
                mantissa_bits,
            } => {
                let properties = vec![
                    ("exponent_bits", attributes::i32((*exponent_bits).into())),
                    ("mantissa_bits", attributes::i32((*mantissa_bits).into())),
                ];
                ("reduce_precision", properties, Vec::new())
            }
            Op::Constant(literals) => match literals.as_ref() {
                [literal] => ("constant", vec![("value", constant(literal))], Vec::new()),
                _ => return Err(error(instruction, "StableHLO has no constant of a tuple")),
            },
            Op::Iota(dimension) => (
                "iota",
                vec![("iota_dimension", Attribute::i64(*dimension))],
                Vec::new(),
            ),
            Op::Broadcast(dims) => (
                "broadcast_in_dim",
                vec![("broadcast_dimensions", list(dims))],
                Vec::new(),
            ),
            Op::Reshape => ("reshape", none(), Vec::new()),
            Op::Transpose(dims) => ("transpose", vec![("permutation", list(dims))], Vec::new()),
            Op::Reverse(dims) => ("reverse", vec![("dimensions", list(dims))], Vec::new()),
            Op::Slice(slices) => {
                let part = |of: fn(&tegula_ir::SliceDim) -> i64| {
                    let values: Vec<i64> = slices.iter().map(of).collect();
                    Attribute::i64s(&values)
                };
                let properties = vec![
                    ("start_indices", part(|slice| slice.start)),
                    ("limit_indices", part(|slice| slice.limit)),
                    ("strides", part(|slice| slice.stride)),
                ];
                ("slice", properties, Vec::new())
            }
            Op::Pad(padding) => {
                let part = |of: fn(&tegula_ir::PadDim) -> i64| {
                    let values: Vec<i64> = padding.iter().map(of).collect();
                    Attribute::i64s(&values)
                };
                let properties = vec![
                    ("edge_padding_low", part(|dim| dim.low)),
                    ("edge_padding_high", part(|dim| dim.high)),
                    ("interior_padding", part(|dim| dim.interior)),
                ];
                ("pad", properties, Vec::new())
            }
            Op::Concatenate(dim) => (
                "concatenate",
                vec![("dimension", Attribute::i64(*dim))],
                Vec::new(),
            ),
            Op::DynamicSlice(sizes) => (
                "dynamic_slice",
                vec![("slice_sizes", list(sizes))],
                Vec::new(),
            ),
            Op::DynamicUpdateSlice => ("dynamic_update_slice", none(), Vec::new()),
            Op::Gather {
                dims,
                slice_sizes,
                indices_are_sorted,
            } => {
                let properties = vec![
                    ("dimension_numbers", attributes::gather_dims(dims)),
                    ("slice_sizes", list(slice_sizes)),
                    ("indices_are_sorted", Attribute::bool(*indices_are_sorted)),
                ];
                ("gather", properties, Vec::new())
            }
            Op::GetDimensionSize(dim) => (
                "get_dimension_size",
                vec![("dimension", Attribute::i64(*dim))],
                Vec::new(),
            ),
            Op::SetDimensionSize(dim) => (
                "set_dimension_size",
                vec![("dimension", Attribute::i64(*dim))],
                Vec::new(),
            ),
            Op::OptBarrier => ("optimization_barrier", none(), Vec::new()),
            Op::AfterAll => match instruction.operands.is_empty() {
                true => ("create_token", none(), Vec::new()),
                false => ("after_all", none(), Vec::new()),
            },
            Op::ReplicaId => ("replica_id", none(), Vec::new()),
            Op::PartitionId => ("partition_id", none(), Vec::new()),
            Op::TopK {
                k, largest: true, ..
            } => ("chlo.top_k", vec![("k", Attribute::i64(*k))], Vec::new()),
            Op::RaggedDot {
                dims,
                precision,
                lhs_ragged_dims,
                rhs_group_dims,
            } => {
                let numbers = attributes::ragged_dot_dims(dims, lhs_ragged_dims, rhs_group_dims);
                let mut properties = vec![("ragged_dot_dimension_numbers", numbers)];
                let precision = attributes::precision(precision);
                properties.extend(precision.map(|value| ("precision_config", value)));
                ("chlo.ragged_dot", properties, Vec::new())
            }
            Op::CustomCall(call) => {
                let properties = self.custom_call(instruction, call);
                ("custom_call", properties, Vec::new())
            }
            _ => return self.with_regions(instruction),
        })
    }

    fn with_regions(
        &mut self,
        instruction: &Instruction,
    ) -> Result<(&'static str, Properties, Vec<Region>), Error> {
        Ok(match &instruction.op {
            Op::Scatter {
                dims,
                indices_are_sorted,
                unique_indices,
                to_apply,
            } => {
                let properties = vec![
                    ("scatter_dimension_numbers", attributes::scatter_dims(dims)),
                    ("indices_are_sorted", Attribute::bool(*indices_are_sorted)),
                    ("unique_indices", Attribute::bool(*unique_indices)),
                ];
                ("scatter", properties, vec![self.region(*to_apply, None)?])
            }
            Op::Dot {
                dims,
                precision,
                algorithm,
            } => {
                let mut properties = vec![("dot_dimension_numbers", attributes::dot_dims(dims))];
                let precision = attributes::precision(precision);
                properties.extend(precision.map(|value| ("precision_config", value)));
                if let Some(name) = algorithm {
                    let value = attributes::dot_algorithm(name);
                    let value = value.ok_or_else(|| {
                        error(instruction, format!("the algorithm `{name}` is not known"))
                    })?;
                    properties.push(("algorithm", value));
                }
                ("dot_general", properties, Vec::new())
            }
            Op::Convolution {
                window,
                dims,
                feature_group_count,
                batch_group_count,
                precision,
            } => {
                let window = attributes::window(window);
                let mut properties = vec![
                    ("window_strides", window.strides),
                    ("padding", window.padding),
                    ("lhs_dilation", window.base_dilations),
                    ("rhs_dilation", window.window_dilations),
                    ("window_reversal", window.reversal),
                    ("dimension_numbers", attributes::conv_dims(dims)),
                    ("feature_group_count", Attribute::i64(*feature_group_count)),
                    ("batch_group_count", Attribute::i64(*batch_group_count)),
                ];
                let precision = attributes::precision(precision);
                properties.extend(precision.map(|value| ("precision_config", value)));
                ("convolution", properties, Vec::new())
            }
            Op::Reduce {
                dimensions,
                to_apply,
            } => {
                let properties = vec![("dimensions", Attribute::i64s(dimensions))];
                ("reduce", properties, vec![self.region(*to_apply, None)?])
            }
            Op::ReduceWindow { window, to_apply } => {
                let window = attributes::window(window);
                let properties = vec![
                    ("window_dimensions", window.sizes),
                    ("window_strides", window.strides),
                    ("base_dilations", window.base_dilations),
                    ("window_dilations", window.window_dilations),
                    ("padding", window.padding),
                ];
                (
                    "reduce_window",
                    properties,
                    vec![self.region(*to_apply, None)?],
                )
            }
            Op::SelectAndScatter {
                window,
                select,
                scatter,
            } => {
                let window = attributes::window(window);
                let properties = vec![
                    ("window_dimensions", window.sizes),
                    ("window_strides", window.strides),
                    ("padding", window.padding),
                ];
                let regions = vec![self.region(*select, None)?, self.region(*scatter, None)?];
                ("select_and_scatter", properties, regions)
            }
            Op::Map {
                dimensions,
                to_apply,
            } => {
                let properties = vec![("dimensions", Attribute::i64s(dimensions))];
                ("map", properties, vec![self.region(*to_apply, None)?])
            }
            Op::Scan {
                dimension,
                num_carries,
                is_reverse,
                is_associative,
                to_apply,
            } => {
                let segments = |count: usize| Attribute::IntegerArray {
                    element: Type::signless(32),
                    values: [count as i64 - num_carries, *num_carries].into(),
                };
                let results = instruction.shape.as_tuple().map_or(1, <[Shape]>::len);
                let mut properties = vec![
                    ("dimension", Attribute::i64(*dimension)),
                    ("is_reverse", Attribute::bool(*is_reverse)),
                    ("operandSegmentSizes", segments(instruction.operands.len())),
                    ("resultSegmentSizes", segments(results)),
                ];
                if *is_associative {
                    properties.push(("is_associative", Attribute::bool(true)));
                }
                ("chlo.scan", properties, vec![self.region(*to_apply, None)?])
            }
            Op::Sort {
                dimension,
                is_stable,
                to_apply,
            } => {
                let properties = vec![
                    ("dimension", Attribute::i64(*dimension)),
                    ("is_stable", Attribute::bool(*is_stable)),
                ];
                ("sort", properties, vec![self.region(*to_apply, None)?])
            }
            _ => return self.library(instruction),
        })
    }

    fn library(
        &mut self,
        instruction: &Instruction,
    ) -> Result<(&'static str, Properties, Vec<Region>), Error> {
        let case = |kind: &str, case: &str| Attribute::stablehlo_enum(kind, case);
        Ok(match &instruction.op {
            Op::Fft { kind, length } => {
                let kind = match kind {
                    FftType::Fft => "FFT",
                    FftType::Ifft => "IFFT",
                    FftType::Rfft => "RFFT",
                    FftType::Irfft => "IRFFT",
                };
                let properties = vec![
                    ("fft_type", case("fft_type", kind)),
                    ("fft_length", Attribute::i64s(length)),
                ];
                ("fft", properties, Vec::new())
            }
            Op::Cholesky { lower } => (
                "cholesky",
                vec![("lower", Attribute::bool(*lower))],
                Vec::new(),
            ),
            Op::TriangularSolve {
                left_side,
                lower,
                unit_diagonal,
                transpose_a,
            } => {
                let transpose = match transpose_a {
                    TransposeA::NoTranspose => "NO_TRANSPOSE",
                    TransposeA::Transpose => "TRANSPOSE",
                    TransposeA::Adjoint => "ADJOINT",
                };
                let properties = vec![
                    ("left_side", Attribute::bool(*left_side)),
                    ("lower", Attribute::bool(*lower)),
                    ("unit_diagonal", Attribute::bool(*unit_diagonal)),
                    ("transpose_a", case("transpose", transpose)),
                ];
                ("triangular_solve", properties, Vec::new())
            }
            Op::BatchNormTraining {
                epsilon,
                feature_index,
            } => (
                "batch_norm_training",
                norm(*epsilon, *feature_index),
                Vec::new(),
            ),
            Op::BatchNormInference {
                epsilon,
                feature_index,
            } => (
                "batch_norm_inference",
                norm(*epsilon, *feature_index),
                Vec::new(),
            ),
            Op::BatchNormGrad {
                epsilon,
                feature_index,
            } => (
                "batch_norm_grad",
                norm(*epsilon, *feature_index),
                Vec::new(),
            ),
            Op::Rng(distribution) => {
                let distribution = match distribution {
                    RngDistribution::Uniform => "UNIFORM",
                    RngDistribution::Normal => "NORMAL",
                };
                let value = case("rng_distribution", distribution);
                ("rng", vec![("rng_distribution", value)], Vec::new())
            }
            Op::RngBitGenerator(algorithm) => {
                let algorithm = match algorithm {
                    RngAlgorithm::Default => "DEFAULT",
                    RngAlgorithm::ThreeFry => "THREE_FRY",
                    RngAlgorithm::Philox => "PHILOX",
                };
                let value = case("rng_algorithm", algorithm);
                (
                    "rng_bit_generator",
                    vec![("rng_algorithm", value)],
                    Vec::new(),
                )
            }
            Op::AllGather {
                collective,
                dimension,
                start: false,
            } => {
                let mut properties = exchange(instruction, collective)?;
                properties.push(("all_gather_dim", Attribute::i64(*dimension)));
                ("all_gather", properties, Vec::new())
            }
            Op::AllReduce {
                collective,
                to_apply,
                start: false,
            } => {
                let properties = exchange(instruction, collective)?;
                (
                    "all_reduce",
                    properties,
                    vec![self.region(*to_apply, None)?],
                )
            }
            Op::ReduceScatter {
                collective,
                dimension,
                to_apply,
            } => {
                let mut properties = exchange(instruction, collective)?;
                properties.push(("scatter_dimension", Attribute::i64(*dimension)));
                (
                    "reduce_scatter",
                    properties,
                    vec![self.region(*to_apply, None)?],
                )
            }
            Op::AllToAll {
                collective,
                dimension: Some(dimension),
                ..
            } => {
                let groups = collective.replica_groups.listed();
                let members = groups
                    .as_ref()
                    .and_then(|groups| groups.first())
                    .map(Vec::len);
                // HLO may leave out the list if all devices are one group.
                let everyone = self.source.attributes.num_partitions;
                let everyone = everyone
                    .or(self.source.attributes.replica_count)
                    .unwrap_or(1);
                let count = members.filter(|members| *members > 0);
                let count = count.map_or(everyone, |members| members as i64);
                let mut properties = without_ids(instruction, collective)?;
                properties.push(("split_dimension", Attribute::i64(*dimension)));
                properties.push(("concat_dimension", Attribute::i64(*dimension)));
                properties.push(("split_count", Attribute::i64(count)));
                ("all_to_all", properties, Vec::new())
            }
            Op::CollectiveBroadcast(collective) => (
                "collective_broadcast",
                without_ids(instruction, collective)?,
                Vec::new(),
            ),
            Op::CollectivePermute {
                pairs,
                channel_id,
                start: false,
            } => {
                let flat: Vec<i64> = pairs.iter().flat_map(|(from, to)| [*from, *to]).collect();
                let mut properties = vec![("source_target_pairs", attributes::rows(2, &flat))];
                let channel = channel_id.map(attributes::channel_handle);
                properties.extend(channel.map(|value| ("channel_handle", value)));
                ("collective_permute", properties, Vec::new())
            }
            op => {
                let name = opcode_name(op.opcode());
                return Err(error(
                    instruction,
                    format!("StableHLO has no operation for {name}"),
                ));
            }
        })
    }

    fn compare(&self, instruction: &Instruction, direction: Direction, order: Order) -> Properties {
        let direction = match direction {
            Direction::Eq => "EQ",
            Direction::Ne => "NE",
            Direction::Ge => "GE",
            Direction::Gt => "GT",
            Direction::Le => "LE",
            Direction::Lt => "LT",
        };
        let operand = instruction
            .operands
            .first()
            .map(|id| &self.source[*id].shape);
        let ty = operand
            .and_then(Shape::as_array)
            .map(|array| array.element_type);
        let compared = match (order, ty) {
            (Order::Total, _) => "TOTALORDER",
            (_, Some(ty)) if ty.is_signed() => "SIGNED",
            (_, Some(ty)) if ty.is_float() || ty.is_complex() => "FLOAT",
            _ => "UNSIGNED",
        };
        vec![
            (
                "comparison_direction",
                Attribute::stablehlo_enum("comparison_direction", direction),
            ),
            (
                "compare_type",
                Attribute::stablehlo_enum("comparison_type", compared),
            ),
        ]
    }

    fn custom_call(&mut self, instruction: &Instruction, call: &CustomCall) -> Properties {
        let mut properties = vec![(
            "call_target_name",
            Attribute::String(Arc::clone(&call.target)),
        )];
        if call.has_side_effect {
            properties.push(("has_side_effect", Attribute::bool(true)));
        }
        let config = instruction.annotations.as_ref();
        let has_dictionary = config.is_some_and(|annotations| {
            let config = annotations.backend_config.as_deref();
            config.is_some_and(|config| config.starts_with('{'))
        });
        let version = match call.api_version.as_deref() {
            // Only version 4 takes a dictionary as its `backend_config`.
            _ if has_dictionary => 4,
            Some("API_VERSION_STATUS_RETURNING") => 2,
            Some("API_VERSION_STATUS_RETURNING_UNIFIED") => 3,
            Some("API_VERSION_TYPED_FFI") => 4,
            _ => 1,
        };
        properties.push(("api_version", attributes::i32(version)));
        if let Some(config) = config.and_then(|annotations| annotations.backend_config.as_deref()) {
            let value = match config.starts_with('{') {
                true => crate::text::parse_attribute(config).ok(),
                false => None,
            };
            let text = config
                .trim_matches('"')
                .replace("\\\"", "\"")
                .replace("\\\\", "\\");
            let value = value.unwrap_or_else(|| Attribute::string(&text));
            properties.push(("backend_config", value));
        }
        if let Some(stated) = &call.operand_layouts {
            let orders = |shapes: &[&Shape]| {
                let arrays = shapes.iter().filter_map(|shape| shape.as_array());
                Attribute::Array(arrays.map(attributes::order_of).collect())
            };
            let results = match &instruction.shape {
                Shape::Tuple(elements) => elements.iter().collect(),
                shape => vec![shape],
            };
            let stated: Vec<&Shape> = stated.iter().collect();
            properties.push(("operand_layouts", orders(&stated)));
            properties.push(("result_layouts", orders(&results)));
        }
        if !call.aliasing.is_empty() {
            let aliases = call.aliasing.iter().map(attributes::alias);
            properties.push((
                "output_operand_aliases",
                Attribute::Array(aliases.collect()),
            ));
        }
        if !call.called.is_empty() {
            let called = call.called.iter().map(|computation| {
                let name = self.name_of(*computation, None);
                Attribute::Symbol([name].into())
            });
            properties.push(("called_computations", Attribute::Array(called.collect())));
        }
        properties
    }
}

/// The properties that all collectives have.
fn exchange(instruction: &Instruction, collective: &Collective) -> Result<Properties, Error> {
    let too_many = || error(instruction, "its groups have too many devices to be listed");
    attributes::collective(collective).ok_or_else(too_many)
}

fn without_ids(instruction: &Instruction, collective: &Collective) -> Result<Properties, Error> {
    let mut properties = exchange(instruction, collective)?;
    properties.retain(|(name, _)| *name != "use_global_device_ids");
    Ok(properties)
}

fn norm(epsilon: f32, feature_index: i64) -> Properties {
    vec![
        ("epsilon", attributes::f32(epsilon)),
        ("feature_index", Attribute::i64(feature_index)),
    ]
}

fn opcode_name(opcode: Opcode) -> String {
    format!("`{opcode}`")
}

/// Whether a slice extends to the end of a dimension of open size.
fn takes_to_end(op: &Op) -> bool {
    match op {
        Op::Slice(slices) => slices.iter().any(|slice| slice.limit == TO_END),
        Op::DynamicSlice(slice_sizes) | Op::Gather { slice_sizes, .. } => {
            slice_sizes.contains(&TO_END)
        }
        _ => false,
    }
}

fn unary(op: Unary) -> &'static str {
    match op {
        Unary::Abs => "abs",
        Unary::Acos => "chlo.acos",
        Unary::Acosh => "chlo.acosh",
        Unary::Asin => "chlo.asin",
        Unary::Asinh => "chlo.asinh",
        Unary::Atanh => "chlo.atanh",
        Unary::Cbrt => "cbrt",
        Unary::Ceil => "ceil",
        Unary::Cos => "cosine",
        Unary::Cosh => "chlo.cosh",
        Unary::CountLeadingZeros => "count_leading_zeros",
        Unary::Erf => "chlo.erf",
        Unary::Exp => "exponential",
        Unary::Expm1 => "exponential_minus_one",
        Unary::Floor => "floor",
        Unary::Imag => "imag",
        Unary::IsFinite => "is_finite",
        Unary::Log => "log",
        Unary::Log1p => "log_plus_one",
        Unary::Logistic => "logistic",
        Unary::Negate => "negate",
        Unary::Not => "not",
        Unary::Popcnt => "popcnt",
        Unary::Real => "real",
        Unary::RoundNearestAfz => "round_nearest_afz",
        Unary::RoundNearestEven => "round_nearest_even",
        Unary::Rsqrt => "rsqrt",
        Unary::Sign => "sign",
        Unary::Sin => "sine",
        Unary::Sinh => "chlo.sinh",
        Unary::Sqrt => "sqrt",
        Unary::Tan => "tan",
        Unary::Tanh => "tanh",
    }
}

fn binary(op: Binary) -> &'static str {
    match op {
        Binary::Add => "add",
        Binary::And => "and",
        Binary::Atan2 => "atan2",
        Binary::Complex => "complex",
        Binary::Divide => "divide",
        Binary::Maximum => "maximum",
        Binary::Minimum => "minimum",
        Binary::Mulhi => "chlo.mulhi",
        Binary::Multiply => "multiply",
        Binary::Or => "or",
        Binary::Power => "power",
        Binary::Remainder => "remainder",
        Binary::ShiftLeft => "shift_left",
        Binary::ShiftRightArithmetic => "shift_right_arithmetic",
        Binary::ShiftRightLogical => "shift_right_logical",
        Binary::Subtract => "subtract",
        Binary::Xor => "xor",
    }
}
