//! Printing of each operation's attributes, in XLA's order.

use super::Printer;
use super::values::{self, braced, conv_dims, padding, slices, window};
use crate::text::strings::quote;
use crate::{
    Collective, ComputationId, CustomCall, DotDims, GatherDims, Instruction, Op, Order, Precision,
    ScatterDims, Shape,
};
use std::fmt::Display;

/// A printer of `name=value` pairs.
pub(crate) struct Attributes<'p, 'm> {
    printer: &'p mut Printer<'m>,
}

impl<'p, 'm> Attributes<'p, 'm> {
    pub(crate) fn new(printer: &'p mut Printer<'m>) -> Self {
        Self { printer }
    }

    pub(crate) fn put(&mut self, name: &str, value: impl Display) {
        self.printer.write(format_args!(", {name}={value}"));
    }

    fn flag(&mut self, name: &str, value: bool) {
        if value {
            self.put(name, true);
        }
    }

    fn option(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    /// Prints a list of numbers, unless it is empty.
    fn list(&mut self, name: &str, values: &[i64]) {
        if !values.is_empty() {
            self.put(name, braced(values));
        }
    }

    fn computation(&mut self, name: &str, id: ComputationId) {
        let value = self.printer.computation_name(id);
        self.put(name, value);
    }

    fn computations(&mut self, name: &str, ids: &[ComputationId]) {
        let names: Vec<String> = ids
            .iter()
            .map(|&id| self.printer.computation_name(id))
            .collect();
        self.put(name, format_args!("{{{}}}", names.join(", ")));
    }

    fn window(&mut self, value: &[crate::WindowDim]) {
        if !value.is_empty() {
            self.put("window", window(value));
        }
    }

    fn precision(&mut self, precision: &[Precision]) {
        if precision
            .iter()
            .any(|&precision| precision != Precision::Default)
        {
            self.put("operand_precision", braced(precision));
        }
    }

    fn dot_dims(&mut self, dims: &DotDims) {
        self.list("lhs_batch_dims", &dims.lhs_batch);
        self.put("lhs_contracting_dims", braced(&dims.lhs_contracting));
        self.list("rhs_batch_dims", &dims.rhs_batch);
        self.put("rhs_contracting_dims", braced(&dims.rhs_contracting));
    }

    fn collective(&mut self, collective: &Collective) {
        self.option("channel_id", collective.channel_id);
        self.put("replica_groups", &collective.replica_groups);
        self.flag("use_global_device_ids", collective.use_global_device_ids);
        self.flag("constrain_layout", collective.constrain_layout);
    }

    /// Prints all attributes of the instruction's operation.
    pub(crate) fn operation(&mut self, instruction: &Instruction) {
        match &instruction.op {
            Op::Unary(_)
            | Op::Binary(_)
            | Op::Select
            | Op::Clamp
            | Op::Convert
            | Op::BitcastConvert
            | Op::StochasticConvert
            | Op::Parameter(_)
            | Op::Constant(_)
            | Op::Reshape
            | Op::DynamicReshape
            | Op::Bitcast
            | Op::Copy
            | Op::CopyDone
            | Op::DynamicUpdateSlice
            | Op::Tuple
            | Op::OptBarrier
            | Op::AfterAll
            | Op::AddDependency
            | Op::AsyncUpdate
            | Op::AsyncDone
            | Op::ReplicaId
            | Op::PartitionId
            | Op::CollectiveDone(_) => {}
            Op::Compare { direction, order } => {
                self.put("direction", direction);
                if *order == Order::Total {
                    self.put("order", "TOTAL");
                }
            }
            Op::ReducePrecision {
                exponent_bits,
                mantissa_bits,
            } => {
                self.put("exponent_bits", exponent_bits);
                self.put("mantissa_bits", mantissa_bits);
            }
            Op::Iota(dimension) => self.put("iota_dimension", dimension),
            Op::Broadcast(dims) | Op::Transpose(dims) | Op::Reverse(dims) => {
                self.put("dimensions", braced(dims));
            }
            Op::Slice(dims) => self.put("slice", slices(dims)),
            Op::Pad(dims) => self.put("padding", padding(dims)),
            Op::Concatenate(dim) | Op::GetDimensionSize(dim) | Op::SetDimensionSize(dim) => {
                self.put("dimensions", braced([dim]));
            }
            Op::CopyStart {
                cross_program_prefetch_index,
            } => self.option(
                "cross_program_prefetch_index",
                *cross_program_prefetch_index,
            ),
            Op::DynamicSlice(sizes) => self.put("dynamic_slice_sizes", values::slice_sizes(sizes)),
            Op::GetTupleElement(index) => self.put("index", index),
            op => self.larger_operation(op),
        }
    }

    fn larger_operation(&mut self, op: &Op) {
        match op {
            Op::Gather {
                dims,
                slice_sizes,
                indices_are_sorted,
            } => {
                self.gather(dims);
                self.put("slice_sizes", values::slice_sizes(slice_sizes));
                self.flag("indices_are_sorted", *indices_are_sorted);
            }
            Op::Scatter {
                dims,
                indices_are_sorted,
                unique_indices,
                to_apply,
            } => {
                self.scatter(dims);
                self.flag("indices_are_sorted", *indices_are_sorted);
                self.flag("unique_indices", *unique_indices);
                self.computation("to_apply", *to_apply);
            }
            Op::Dot {
                dims,
                precision,
                algorithm,
            } => {
                self.dot_dims(dims);
                self.precision(precision);
                self.option("algorithm", algorithm.as_ref());
            }
            Op::RaggedDot {
                dims,
                precision,
                lhs_ragged_dims,
                rhs_group_dims,
            } => {
                self.dot_dims(dims);
                self.put("lhs_ragged_dims", braced(lhs_ragged_dims));
                self.list("rhs_group_dims", rhs_group_dims);
                self.precision(precision);
            }
            Op::ScaledDot { dims, precision } => {
                self.dot_dims(dims);
                self.precision(precision);
            }
            Op::Convolution {
                window,
                dims,
                feature_group_count,
                batch_group_count,
                precision,
            } => {
                self.window(window);
                self.put("dim_labels", conv_dims(dims));
                for (name, count) in [
                    ("feature_group_count", feature_group_count),
                    ("batch_group_count", batch_group_count),
                ] {
                    self.option(name, Some(count).filter(|&&count| count != 1));
                }
                self.precision(precision);
            }
            Op::Reduce {
                dimensions,
                to_apply,
            }
            | Op::Map {
                dimensions,
                to_apply,
            } => {
                self.put("dimensions", braced(dimensions));
                self.computation("to_apply", *to_apply);
            }
            Op::ReduceWindow { window, to_apply } => {
                self.window(window);
                self.computation("to_apply", *to_apply);
            }
            Op::SelectAndScatter {
                window,
                select,
                scatter,
            } => {
                self.window(window);
                self.computation("select", *select);
                self.computation("scatter", *scatter);
            }
            Op::Sort {
                dimension,
                is_stable,
                to_apply,
            } => {
                self.put("dimensions", braced([dimension]));
                self.flag("is_stable", *is_stable);
                self.computation("to_apply", *to_apply);
            }
            Op::TopK {
                k,
                largest,
                is_stable,
            } => {
                self.put("k", k);
                self.put("largest", largest);
                self.option("is_stable", *is_stable);
            }
            Op::Scan {
                dimension,
                num_carries,
                is_reverse,
                is_associative,
                to_apply,
            } => {
                self.put("dimensions", braced([dimension]));
                self.put("num_carries", num_carries);
                self.flag("is_reverse", *is_reverse);
                self.flag("is_associative", *is_associative);
                self.computation("to_apply", *to_apply);
            }
            op => self.library_operation(op),
        }
    }

    fn library_operation(&mut self, op: &Op) {
        match op {
            Op::Fft { kind, length } => {
                self.put("fft_type", kind);
                self.put("fft_length", braced(length));
            }
            Op::Cholesky { lower } => self.flag("lower", *lower),
            Op::TriangularSolve {
                left_side,
                lower,
                unit_diagonal,
                transpose_a,
            } => {
                self.flag("left_side", *left_side);
                self.flag("lower", *lower);
                self.flag("unit_diagonal", *unit_diagonal);
                self.put("transpose_a", transpose_a);
            }
            Op::BatchNormTraining {
                epsilon,
                feature_index,
            }
            | Op::BatchNormInference {
                epsilon,
                feature_index,
            }
            | Op::BatchNormGrad {
                epsilon,
                feature_index,
            } => {
                self.put("epsilon", epsilon);
                self.put("feature_index", feature_index);
            }
            Op::Rng(distribution) => self.put("distribution", distribution),
            Op::RngBitGenerator(algorithm) => self.put("algorithm", algorithm),
            Op::RngGetAndUpdateState(delta) => self.put("delta", delta),
            op => self.control_operation(op),
        }
    }

    fn control_operation(&mut self, op: &Op) {
        match op {
            Op::Call {
                to_apply,
                is_composite,
            } => {
                self.computation("to_apply", *to_apply);
                self.flag("is_composite", *is_composite);
            }
            Op::Fusion { kind, calls } => {
                self.put("kind", kind);
                self.computation("calls", *calls);
            }
            Op::While { condition, body } => {
                self.computation("condition", *condition);
                self.computation("body", *body);
            }
            Op::Conditional {
                branches,
                predicated,
            } => match branches.as_slice() {
                [on_true, on_false] if *predicated => {
                    self.computation("true_computation", *on_true);
                    self.computation("false_computation", *on_false);
                }
                branches => self.computations("branch_computations", branches),
            },
            Op::CustomCall(call) => self.custom_call(call),
            Op::Domain(domain) => self.put("domain", domain),
            Op::AsyncStart { calls, thread } => {
                self.option("async_execution_thread", thread.as_deref().map(quote));
                self.computation("calls", *calls);
            }
            Op::Infeed(config) => self.option("infeed_config", config.as_deref().map(quote)),
            Op::Outfeed { shape, config } => {
                self.option("outfeed_shape", shape.as_ref());
                self.option("outfeed_config", config.as_deref().map(quote));
            }
            Op::Channel {
                channel_id,
                is_host_transfer,
                ..
            } => {
                self.option("channel_id", *channel_id);
                self.flag("is_host_transfer", *is_host_transfer);
            }
            op => self.collective_operation(op),
        }
    }

    fn collective_operation(&mut self, op: &Op) {
        match op {
            Op::AllGather {
                collective,
                dimension,
                ..
            } => {
                self.collective(collective);
                self.put("dimensions", braced([dimension]));
            }
            Op::AllReduce {
                collective,
                to_apply,
                ..
            } => {
                self.collective(collective);
                self.computation("to_apply", *to_apply);
            }
            Op::ReduceScatter {
                collective,
                dimension,
                to_apply,
            } => {
                self.collective(collective);
                self.put("dimensions", braced([dimension]));
                self.computation("to_apply", *to_apply);
            }
            Op::AllToAll {
                collective,
                dimension,
            } => {
                self.collective(collective);
                self.option("dimensions", dimension.map(|dimension| braced([dimension])));
            }
            Op::RaggedAllToAll(collective) | Op::CollectiveBroadcast(collective) => {
                self.collective(collective);
            }
            Op::CollectivePermute {
                pairs, channel_id, ..
            } => {
                self.option("channel_id", *channel_id);
                let pairs = pairs.iter().map(|(from, to)| braced([from, to]));
                self.put("source_target_pairs", braced(pairs));
            }
            // All other operations have no attributes, or were handled above.
            _ => {}
        }
    }

    fn gather(&mut self, dims: &GatherDims) {
        self.put("offset_dims", braced(&dims.offset_dims));
        self.put("collapsed_slice_dims", braced(&dims.collapsed_slice_dims));
        self.put("start_index_map", braced(&dims.start_index_map));
        self.list("operand_batching_dims", &dims.operand_batching_dims);
        self.list(
            "start_indices_batching_dims",
            &dims.start_indices_batching_dims,
        );
        self.put("index_vector_dim", dims.index_vector_dim);
    }

    fn scatter(&mut self, dims: &ScatterDims) {
        self.put("update_window_dims", braced(&dims.update_window_dims));
        self.put("inserted_window_dims", braced(&dims.inserted_window_dims));
        self.put(
            "scatter_dims_to_operand_dims",
            braced(&dims.scatter_dims_to_operand_dims),
        );
        self.list("input_batching_dims", &dims.input_batching_dims);
        self.list(
            "scatter_indices_batching_dims",
            &dims.scatter_indices_batching_dims,
        );
        self.put("index_vector_dim", dims.index_vector_dim);
    }

    fn custom_call(&mut self, call: &CustomCall) {
        for (name, value) in &call.extra {
            self.put(name, value);
        }
        self.put("custom_call_target", quote(&call.target));
        if let Some(layouts) = &call.operand_layouts {
            let shapes: Vec<String> = layouts.iter().map(Shape::to_string).collect();
            self.put(
                "operand_layout_constraints",
                format_args!("{{{}}}", shapes.join(", ")),
            );
        }
        self.flag("custom_call_has_side_effect", call.has_side_effect);
        if !call.aliasing.is_empty() {
            let aliases: Vec<String> = call
                .aliasing
                .iter()
                .map(|(output, operand, index)| {
                    format!("{}: ({operand}, {})", braced(output), braced(index))
                })
                .collect();
            self.put(
                "output_to_operand_aliasing",
                format_args!("{{{}}}", aliases.join(", ")),
            );
        }
        self.option("api_version", call.api_version.as_ref());
        if !call.called.is_empty() {
            self.computations("called_computations", &call.called);
        }
    }
}
