//! Lowers contractions, reductions, windows, sorts, and library operations.

use super::{Frame, Local, Lowerer, access::Access};
use crate::Error;
use crate::mlir::{Attribute, FloatKind, Type};
use std::sync::Arc;
use tegula_ir::{
    ConvDims, DotDims, FftType, Op, RngAlgorithm, RngDistribution, Shape, TransposeA, WindowDim,
};

impl<'m> Lowerer<'m> {
    pub(super) fn windowed(
        &mut self,
        name: &str,
        access: &Access<'m>,
        frame: &mut Frame,
    ) -> Result<(), Error> {
        let operands = self.operands(access, frame)?;
        let op = match name {
            "dot" | "dot_general" => self.dot(name, access, frame, &operands)?,
            "convolution" => self.convolution_op(access, None)?,
            "reduce" => Op::Reduce {
                dimensions: access.dims("dimensions")?,
                to_apply: self.scalar_region(access, 0)?,
            },
            "reduce_window" => Op::ReduceWindow {
                window: self.reduce_window_dims(access)?,
                to_apply: self.scalar_region(access, 0)?,
            },
            "select_and_scatter" => Op::SelectAndScatter {
                window: self.reduce_window_dims(access)?,
                select: self.scalar_region(access, 0)?,
                scatter: self.scalar_region(access, 1)?,
            },
            "sort" => Op::Sort {
                dimension: self.sort_dimension(access, frame, &operands)?,
                is_stable: access.flag("is_stable")?,
                to_apply: self.scalar_region(access, 0)?,
            },
            "map" => Op::Map {
                dimensions: access.dims("dimensions")?,
                to_apply: self.scalar_region(access, 0)?,
            },
            "fft" => Op::Fft {
                kind: match access.case("fft_type")? {
                    Some("FFT") => FftType::Fft,
                    Some("IFFT") => FftType::Ifft,
                    Some("RFFT") => FftType::Rfft,
                    Some("IRFFT") => FftType::Irfft,
                    _ => return Err(access.error("expected FFT, IFFT, RFFT or IRFFT")),
                },
                length: access.dims("fft_length")?,
            },
            "cholesky" => Op::Cholesky {
                lower: access.flag("lower")?,
            },
            "triangular_solve" => Op::TriangularSolve {
                left_side: access.flag("left_side")?,
                lower: access.flag("lower")?,
                unit_diagonal: access.flag("unit_diagonal")?,
                transpose_a: match access.case("transpose_a")? {
                    Some("NO_TRANSPOSE") => TransposeA::NoTranspose,
                    Some("TRANSPOSE") => TransposeA::Transpose,
                    Some("ADJOINT") => TransposeA::Adjoint,
                    _ => {
                        return Err(access.error("expected NO_TRANSPOSE, TRANSPOSE or ADJOINT"));
                    }
                },
            },
            "rng" => return self.rng(access, frame, &operands),
            "rng_bit_generator" => Op::RngBitGenerator(rng_algorithm(access)?),
            _ => batch_norm(name, access)?,
        };
        self.push_results(access, frame, op, &operands)
    }

    /// Appends an operation with as many results as the input states; several results are elements
    /// of a tuple.
    pub(super) fn push_results(
        &mut self,
        access: &Access<'_>,
        frame: &mut Frame,
        op: Op,
        operands: &[Local],
    ) -> Result<(), Error> {
        let count = access.operation.results.len();
        if count == 1 && !matches!(op, Op::RngBitGenerator(_)) {
            return self.push_result(access, frame, op, operands, None);
        }
        let mut inferred = None;
        if self.has_open_sizes {
            let shapes: Vec<&Shape> = operands.iter().map(|local| frame.shape(*local)).collect();
            inferred = tegula_ir::infer_shape(self.builder.module(), &op, &shapes, None).ok();
        }
        let like = inferred
            .as_ref()
            .and_then(Shape::as_tuple)
            .unwrap_or_default();
        let shapes: Result<Vec<Shape>, Error> = (0..count)
            .map(|place| self.result_shape(access, place, like.get(place)))
            .collect();
        let tuple = self.push(frame, op, operands, Some(Shape::Tuple(shapes?)))?;
        let elements = self.elements(frame, tuple)?;
        self.bind_all(access, frame, &elements)
    }

    fn dot(
        &mut self,
        name: &str,
        access: &Access<'_>,
        frame: &Frame,
        operands: &[Local],
    ) -> Result<Op, Error> {
        const NUMBERS: &str = "dot_dimension_numbers";
        let dims = if name == "dot" {
            // A product of vectors or matrices contracts the last dimension of the first with the
            // first dimension of the second.
            let lhs = self.first(access, operands)?;
            let rank = self.array(access, frame, lhs)?.rank() as i64;
            DotDims {
                lhs_contracting: [rank - 1].into_iter().collect(),
                rhs_contracting: [0].into_iter().collect(),
                ..DotDims::default()
            }
        } else {
            DotDims {
                lhs_batch: access.field(NUMBERS, "lhs_batching_dimensions")?,
                rhs_batch: access.field(NUMBERS, "rhs_batching_dimensions")?,
                lhs_contracting: access.field(NUMBERS, "lhs_contracting_dimensions")?,
                rhs_contracting: access.field(NUMBERS, "rhs_contracting_dimensions")?,
            }
        };
        Ok(Op::Dot {
            dims,
            precision: access.precision()?,
            algorithm: algorithm(access)?,
        })
    }

    /// A convolution; its padding is an attribute, unless it is given here.
    pub(super) fn convolution_op(
        &self,
        access: &Access<'_>,
        given_padding: Option<Vec<(i64, i64)>>,
    ) -> Result<Op, Error> {
        const NUMBERS: &str = "dimension_numbers";
        let dims = ConvDims {
            input_batch: access.number(NUMBERS, "input_batch_dimension")?,
            input_feature: access.number(NUMBERS, "input_feature_dimension")?,
            input_spatial: access.field(NUMBERS, "input_spatial_dimensions")?,
            kernel_input_feature: access.number(NUMBERS, "kernel_input_feature_dimension")?,
            kernel_output_feature: access.number(NUMBERS, "kernel_output_feature_dimension")?,
            kernel_spatial: access.field(NUMBERS, "kernel_spatial_dimensions")?,
            output_batch: access.number(NUMBERS, "output_batch_dimension")?,
            output_feature: access.number(NUMBERS, "output_feature_dimension")?,
            output_spatial: access.field(NUMBERS, "output_spatial_dimensions")?,
        };
        let rank = dims.input_spatial.len();
        let kernel = access.operation.operands.get(1).copied();
        let kernel = kernel.and_then(|value| self.source.type_of(value).as_tensor());
        let size = |place: usize| {
            let dim = usize::try_from(*dims.kernel_spatial.get(place)?).ok()?;
            *kernel?.dims.get(dim)?
        };
        let strides = access.integers_or("window_strides", 1, rank)?;
        let base = access.integers_or("lhs_dilation", 1, rank)?;
        let dilation = access.integers_or("rhs_dilation", 1, rank)?;
        let reversal = access.integers_or("window_reversal", 0, rank)?;
        let padding = match given_padding {
            Some(padding) => padding,
            None => access.pairs_or_zero("padding", rank)?,
        };
        let mut window = Vec::with_capacity(rank);
        for place in 0..rank {
            let size = size(place);
            let size = size.ok_or_else(|| {
                access.unsupported("the spatial sizes of the kernel must be known")
            })?;
            let (padding_low, padding_high) = padding.get(place).copied().unwrap_or_default();
            window.push(WindowDim {
                size,
                stride: strides[place],
                padding_low,
                padding_high,
                base_dilation: base[place],
                window_dilation: dilation[place],
                reversal: reversal[place] != 0,
            });
        }
        Ok(Op::Convolution {
            window,
            dims,
            feature_group_count: access.integer("feature_group_count")?,
            batch_group_count: access.integer("batch_group_count")?,
            precision: access.precision()?,
        })
    }

    fn reduce_window_dims(&self, access: &Access<'_>) -> Result<Vec<WindowDim>, Error> {
        let sizes = match access.operation.attribute("window_dimensions") {
            Some(_) => access.integers("window_dimensions")?,
            None => return Err(access.error("the attribute `window_dimensions` is missing")),
        };
        let rank = sizes.len();
        let strides = access.integers_or("window_strides", 1, rank)?;
        let base = access.integers_or("base_dilations", 1, rank)?;
        let dilation = access.integers_or("window_dilations", 1, rank)?;
        let padding = access.pairs_or_zero("padding", rank)?;
        let dim = |place: usize| WindowDim {
            size: sizes[place],
            stride: strides[place],
            padding_low: padding[place].0,
            padding_high: padding[place].1,
            base_dilation: base[place],
            window_dilation: dilation[place],
            reversal: false,
        };
        Ok((0..rank).map(dim).collect())
    }

    /// The dimension that is sorted along: the last one by default, and counted from the end if
    /// negative.
    fn sort_dimension(
        &self,
        access: &Access<'_>,
        frame: &Frame,
        operands: &[Local],
    ) -> Result<i64, Error> {
        let stated = match access.operation.attribute("dimension") {
            Some(_) => access.integer("dimension")?,
            None => -1,
        };
        let rank = self
            .array(access, frame, self.first(access, operands)?)?
            .rank() as i64;
        Ok(if stated < 0 { stated + rank } else { stated })
    }

    /// Lowers `rng`. The type states the size, so the operand that repeats it is ignored.
    fn rng(
        &mut self,
        access: &Access<'_>,
        frame: &mut Frame,
        operands: &[Local],
    ) -> Result<(), Error> {
        let distribution = match access.case("rng_distribution")? {
            Some("UNIFORM") => RngDistribution::Uniform,
            Some("NORMAL") => RngDistribution::Normal,
            _ => return Err(access.error("expected UNIFORM or NORMAL")),
        };
        let bounds = operands.get(..2);
        let bounds = bounds.ok_or_else(|| access.error("expected two operands and a shape"))?;
        let shape = self.result_shape(access, 0, None)?;
        let local = self.push(frame, Op::Rng(distribution), bounds, Some(shape))?;
        self.bind(access, frame, local)
    }
}

/// The random number generator that `rng_algorithm` names.
pub(super) fn rng_algorithm(access: &Access<'_>) -> Result<RngAlgorithm, Error> {
    Ok(match access.case("rng_algorithm")? {
        Some("THREE_FRY") => RngAlgorithm::ThreeFry,
        Some("PHILOX") => RngAlgorithm::Philox,
        _ => RngAlgorithm::Default,
    })
}

fn batch_norm(name: &str, access: &Access<'_>) -> Result<Op, Error> {
    let epsilon = match access.attribute("epsilon")? {
        Attribute::Float {
            bits,
            ty: Type::Float(kind),
        } => crate::number::float_to_f64(*bits, *kind).unwrap_or_default() as f32,
        _ => return Err(access.error("expected a number as the attribute `epsilon`")),
    };
    let feature_index = access.integer("feature_index")?;
    Ok(match name {
        "batch_norm_training" => Op::BatchNormTraining {
            epsilon,
            feature_index,
        },
        "batch_norm_inference" => Op::BatchNormInference {
            epsilon,
            feature_index,
        },
        _ => Op::BatchNormGrad {
            epsilon,
            feature_index,
        },
    })
}

/// HLO's name for a dot's algorithm, such as `dot_bf16_bf16_f32_x3`.
fn algorithm(access: &Access<'_>) -> Result<Option<Arc<str>>, Error> {
    let Some(value) = access.operation.attribute("algorithm") else {
        return Ok(None);
    };
    let entries = value.as_entries();
    let entries = entries.ok_or_else(|| access.error("expected fields in `algorithm`"))?;
    let get = |name: &str| {
        let found = entries.iter().find(|(key, _)| &**key == name);
        found.map(|(_, value)| value)
    };
    let kind = |name: &str| match get(name) {
        Some(Attribute::Type(Type::Float(kind))) => Some(*kind),
        _ => None,
    };
    let operations = get("num_primitive_operations").and_then(Attribute::as_integer);
    let imprecise = get("allow_imprecise_accumulation").and_then(Attribute::as_bool);
    let types = (
        kind("lhs_precision_type"),
        kind("rhs_precision_type"),
        kind("accumulation_type"),
    );
    let is_f8 = |kind: FloatKind| kind.bits() == 8;
    let name = match (types, operations) {
        ((Some(a), Some(b), Some(FloatKind::F32)), Some(1)) if is_f8(a) && is_f8(b) => {
            match imprecise {
                Some(true) => "dot_any_f8_any_f8_f32_fast_accum".to_owned(),
                _ => "dot_any_f8_any_f8_f32".to_owned(),
            }
        }
        ((Some(a), Some(b), Some(sum)), Some(1)) => {
            format!("dot_{}_{}_{}", a.name(), b.name(), sum.name())
        }
        ((Some(a), Some(b), Some(sum)), Some(times @ (3 | 6 | 9))) => {
            format!("dot_{}_{}_{}_x{times}", a.name(), b.name(), sum.name())
        }
        _ => return Err(access.unsupported("this combination in `algorithm` is not supported")),
    };
    Ok(Some(name.into()))
}
