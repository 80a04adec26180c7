//! The dispatch of lowering by operation, and elementwise operations.

use super::{Frame, Local, Lowerer, MAX_INSTRUCTIONS, access::Access, types};
use crate::Error;
use crate::mlir::{Attribute, Operation, ValueId};
use tegula_ir::{Binary, Dim, Direction, ElementType, Literal, Metadata, Op, Order, Shape, Unary};

impl<'m> Lowerer<'m> {
    /// Lowers one operation and binds its results.
    pub(super) fn operation(
        &mut self,
        operation: &'m Operation,
        frame: &mut Frame,
    ) -> Result<(), Error> {
        let access = Access::new(operation);
        frame.offset = operation.offset;
        let before = frame.len();
        self.translate(&access, frame)
            .map_err(|error| access.wrap(error))?;
        self.instructions += frame.len() - before;
        if self.instructions > MAX_INSTRUCTIONS {
            return Err(access.unsupported(format!(
                "the program has more than {MAX_INSTRUCTIONS} instructions: functions with symbolic sizes are inlined"
            )));
        }
        if self.has_open_sizes {
            self.follow_sizes(&access, frame);
        }
        Ok(())
    }

    fn translate(&mut self, access: &Access<'m>, frame: &mut Frame) -> Result<(), Error> {
        let name = &*access.operation.name;
        if let Some(name) = name.strip_prefix("stablehlo.") {
            if let Some(op) = unary(name) {
                return self.elementwise(access, frame, Op::Unary(op));
            }
            if matches!(name, "maximum" | "minimum") && is_complex(self, access) {
                return self.complex_extremum(name == "maximum", access, frame);
            }
            if let Some(op) = binary(name) {
                return self.elementwise(access, frame, Op::Binary(op));
            }
            return self.stablehlo(name, access, frame);
        }
        match name {
            "func.call" => self.call(access, frame),
            "sdy.mesh" => Ok(()),
            "sdy.sharding_constraint" => {
                let operand = self.operand(access, frame, 0)?;
                let text = crate::print::attribute_text(access.attribute("sharding")?);
                let rank = frame
                    .shape(operand)
                    .as_array()
                    .map_or(0, tegula_ir::ArrayShape::rank);
                if rank == 0 && !text.contains("unreduced") {
                    // A scalar has no dimension to shard.
                    return self.bind(access, frame, operand);
                }
                let local = self.push(frame, Op::Copy, &[operand], None)?;
                let sharding = super::entry::sharding_attribute(access.attribute("sharding")?);
                let annotations = frame.annotations_mut(local);
                annotations.frontend_attributes.push(sharding);
                self.bind(access, frame, local)
            }
            "sdy.sharding_group" => self.sharding_group(access, frame),
            "sdy.manual_computation" => self.manual_computation(access, frame),
            "builtin.unrealized_conversion_cast" => {
                let operands = self.operands(access, frame)?;
                self.bind_all(access, frame, &operands)
            }
            _ => match name.strip_prefix("chlo.") {
                Some(name) => self.chlo(name, access, frame),
                None => Err(access.unsupported(
                    "this operation is not supported: expected StableHLO, CHLO or `func`",
                )),
            },
        }
    }

    /// Values in the same sharding group must have the same sharding. The value is replaced by a
    /// copy that states its group.
    fn sharding_group(&mut self, access: &Access<'m>, frame: &mut Frame) -> Result<(), Error> {
        let operand = self.operand(access, frame, 0)?;
        let group = access.integer("group_id")?;
        let copy = self.push(frame, Op::Copy, &[operand], None)?;
        let group = super::entry::quoted(&group.to_string());
        let annotations = frame.annotations_mut(copy);
        annotations
            .frontend_attributes
            .push(("xla.sdy.sharding_group_id".into(), group));
        if let Some(value) = access.operation.operands.first() {
            frame.bind(*value, copy);
        }
        Ok(())
    }

    fn stablehlo(
        &mut self,
        name: &str,
        access: &Access<'m>,
        frame: &mut Frame,
    ) -> Result<(), Error> {
        match name {
            "constant" => self.constant(access, frame),
            "compare" => self.compare(access, frame),
            "select" => self.elementwise(access, frame, Op::Select),
            "clamp" => self.clamp(access, frame),
            "convert" => self.convert(access, frame),
            "bitcast_convert" => self.bitcast_convert(access, frame),
            "reduce_precision" => {
                let bits = |name: &str| {
                    let value = access.integer(name)?;
                    u32::try_from(value).map_err(|_| {
                        access.error(format!(
                            "`{name}` must be from 0 to 2^32 - 1, found {value}"
                        ))
                    })
                };
                let op = Op::ReducePrecision {
                    exponent_bits: bits("exponent_bits")?,
                    mantissa_bits: bits("mantissa_bits")?,
                };
                self.elementwise(access, frame, op)
            }
            "iota"
            | "broadcast"
            | "broadcast_in_dim"
            | "reshape"
            | "transpose"
            | "reverse"
            | "slice"
            | "pad"
            | "concatenate"
            | "dynamic_slice"
            | "dynamic_update_slice"
            | "gather"
            | "scatter"
            | "get_dimension_size"
            | "set_dimension_size" => self.shaping(name, access, frame),
            "dynamic_broadcast_in_dim"
            | "dynamic_reshape"
            | "dynamic_iota"
            | "dynamic_pad"
            | "dynamic_gather"
            | "dynamic_conv"
            | "real_dynamic_slice" => self.dynamic(name, access, frame),
            "dot"
            | "dot_general"
            | "convolution"
            | "reduce"
            | "reduce_window"
            | "select_and_scatter"
            | "sort"
            | "map"
            | "fft"
            | "cholesky"
            | "triangular_solve"
            | "batch_norm_training"
            | "batch_norm_inference"
            | "batch_norm_grad"
            | "rng"
            | "rng_bit_generator" => self.windowed(name, access, frame),
            "while"
            | "case"
            | "if"
            | "tuple"
            | "get_tuple_element"
            | "optimization_barrier"
            | "after_all"
            | "create_token" => self.control(name, access, frame),
            "custom_call" => self.custom_call(access, frame),
            "composite" => self.composite(access, frame),
            "all_gather"
            | "all_reduce"
            | "reduce_scatter"
            | "all_to_all"
            | "collective_permute"
            | "collective_broadcast"
            | "collective_reduce"
            | "replica_id"
            | "partition_id"
            | "cross-replica-sum" => self.collective(name, access, frame),
            "async_start" => self.async_start(access, frame),
            "async_done" => self.async_done(access, frame),
            "infeed" | "outfeed" | "send" | "recv" => self.transfer(name, access, frame),
            "einsum" | "unary_einsum" => self.einsum(access, frame),
            "torch_index_select" => self.torch_index_select(access, frame),
            "uniform_quantize" | "uniform_dequantize" => Err(access.unsupported(
                "quantized types are not supported: lower them to integers first \
                 (stablehlo-legalize-quant-to-math)",
            )),
            _ => Err(access.unsupported("this operation is not supported")),
        }
    }

    /// The instruction of an operand.
    pub(super) fn operand(
        &mut self,
        access: &Access<'_>,
        frame: &mut Frame,
        place: usize,
    ) -> Result<Local, Error> {
        let Some(value) = access.operation.operands.get(place).copied() else {
            return Err(access.error(format!("operand {place} is missing")));
        };
        self.value(frame, value)
    }

    /// The instructions of all operands.
    pub(super) fn operands(
        &mut self,
        access: &Access<'_>,
        frame: &mut Frame,
    ) -> Result<Vec<Local>, Error> {
        let operands = access.operation.operands.iter();
        operands.map(|value| self.value(frame, *value)).collect()
    }

    /// Appends an operation.
    pub(super) fn push(
        &self,
        frame: &mut Frame,
        op: Op,
        operands: &[Local],
        stated: Option<Shape>,
    ) -> Result<Local, Error> {
        frame.push(self.builder.module(), op, operands, stated)
    }

    /// The shape of a result, from its type. Open sizes are taken from `like`, which has the same
    /// rank.
    pub(super) fn result_shape(
        &self,
        access: &Access<'_>,
        place: usize,
        like: Option<&Shape>,
    ) -> Result<Shape, Error> {
        let Some(result) = access.operation.results.get(place) else {
            return Err(access.error(format!("result {place} is missing")));
        };
        let shape = types::shape(self.source.type_of(*result));
        let mut shape = shape.map_err(|why| access.unsupported(why))?;
        if !types::is_open(&shape) {
            return Ok(shape);
        }
        let known = like.and_then(Shape::as_array);
        if let (Shape::Array(array), Some(known)) = (&mut shape, known)
            && known.dims.len() == array.dims.len()
        {
            for (dim, known) in array.dims.iter_mut().zip(&known.dims) {
                if !matches!(dim, Dim::Static(_)) {
                    *dim = known.clone();
                }
            }
            return Ok(shape);
        }
        Err(access.unsupported(
            "the sizes of the result do not follow from sizes of the inputs: sizes that depend \
             on data are not supported",
        ))
    }

    /// Appends an operation whose result has the type's element type. Its sizes are determined by
    /// the operands, or else those of `like`. Binds the result.
    pub(super) fn push_result(
        &mut self,
        access: &Access<'_>,
        frame: &mut Frame,
        op: Op,
        operands: &[Local],
        like: Option<&Shape>,
    ) -> Result<(), Error> {
        let like = match like {
            Some(like) => Some(like.clone()),
            None if self.has_open_sizes => {
                let shapes: Vec<&Shape> = operands.iter().map(|o| frame.shape(*o)).collect();
                tegula_ir::infer_shape(self.builder.module(), &op, &shapes, None).ok()
            }
            None => None,
        };
        let shape = self.result_shape(access, 0, like.as_ref())?;
        let local = self.push(frame, op, operands, Some(shape))?;
        self.bind(access, frame, local)
    }

    /// Binds the only result, and records the source of the instruction.
    pub(super) fn bind(
        &mut self,
        access: &Access<'_>,
        frame: &mut Frame,
        local: Local,
    ) -> Result<(), Error> {
        self.bind_all(access, frame, &[local])
    }

    /// Binds all results.
    pub(super) fn bind_all(
        &mut self,
        access: &Access<'_>,
        frame: &mut Frame,
        locals: &[Local],
    ) -> Result<(), Error> {
        let results = &access.operation.results;
        if results.len() != locals.len() {
            return Err(access.error(format!(
                "expected {} results, found {}",
                locals.len(),
                results.len()
            )));
        }
        for (result, local) in results.iter().zip(locals) {
            self.check_type(access, frame, *result, *local)?;
            frame.bind(*result, *local);
            if let Some(name) = &self.source.values[result.index()].name {
                frame.set_name(*local, name);
            }
        }
        if let Some(local) = locals.first() {
            describe(access, frame, *local);
        }
        Ok(())
    }

    /// Checks that the instruction has the shape that the value's type states.
    fn check_type(
        &self,
        access: &Access<'_>,
        frame: &Frame,
        value: ValueId,
        local: Local,
    ) -> Result<(), Error> {
        let stated = types::shape(self.source.type_of(value));
        let stated = stated.map_err(|why| access.unsupported(why))?;
        let given = frame.shape(local);
        let fits = match (&stated, given) {
            (Shape::Array(stated), Shape::Array(given)) => {
                let same = |(a, b): (&Dim, &Dim)| match (a, b.as_static()) {
                    (Dim::Static(a), Some(b)) => *a == b,
                    _ => true,
                };
                stated.element_type == given.element_type
                    && stated.rank() == given.rank()
                    && stated.dims.iter().zip(&given.dims).all(same)
            }
            (stated, given) => stated.may_equal(given),
        };
        match fits {
            true => Ok(()),
            false => Err(access.error(format!(
                "the result is {given:#}, but its type says {}",
                crate::print::type_text(self.source.type_of(value))
            ))),
        }
    }

    fn elementwise(&mut self, access: &Access<'_>, frame: &mut Frame, op: Op) -> Result<(), Error> {
        let operands = self.operands(access, frame)?;
        // The operands of an elementwise operation have the same shape, except that a predicate may
        // be a scalar.
        let like = operands.iter().map(|local| frame.shape(*local));
        let like = like.max_by_key(|shape| shape.as_array().map_or(0, tegula_ir::ArrayShape::rank));
        let like = like.cloned().filter(|_| self.has_open_sizes);
        self.push_result(access, frame, op, &operands, like.as_ref())
    }

    /// HLO does not convert complex to real numbers, so their real parts are converted.
    fn convert(&mut self, access: &Access<'_>, frame: &mut Frame) -> Result<(), Error> {
        let operands = self.operands(access, frame)?;
        let like = frame.shape(self.first(access, &operands)?).clone();
        let shape = self.result_shape(access, 0, Some(&like))?;
        let element = |shape: &Shape| shape.as_array().map(|array| array.element_type);
        let (from, to) = (element(&like), element(&shape));
        let narrows = from.is_some_and(|ty| ty.complex_part().is_some())
            && to.is_some_and(|ty| ty.complex_part().is_none());
        if !narrows {
            return self.push_result(access, frame, Op::Convert, &operands, Some(&like));
        }
        let real = self.push(frame, Op::Unary(Unary::Real), &operands, None)?;
        let local = self.push(frame, Op::Convert, &[real], Some(shape))?;
        self.bind(access, frame, local)
    }

    /// The larger or the smaller of two complex numbers, which are ordered by their real and then
    /// by their imaginary parts.
    fn complex_extremum(
        &mut self,
        is_maximum: bool,
        access: &Access<'_>,
        frame: &mut Frame,
    ) -> Result<(), Error> {
        let [a, b] = [
            self.operand(access, frame, 0)?,
            self.operand(access, frame, 1)?,
        ];
        let compared = |frame: &mut Frame, part, direction| {
            let x = self.push(frame, Op::Unary(part), &[a], None)?;
            let y = self.push(frame, Op::Unary(part), &[b], None)?;
            let order = Order::Partial;
            self.push(frame, Op::Compare { direction, order }, &[x, y], None)
        };
        let beyond = match is_maximum {
            true => Direction::Gt,
            false => Direction::Lt,
        };
        let real_beyond = compared(frame, Unary::Real, beyond)?;
        let real_equal = compared(frame, Unary::Real, Direction::Eq)?;
        let imaginary_beyond = compared(frame, Unary::Imag, beyond)?;
        let and = Op::Binary(Binary::And);
        let decided = self.push(frame, and, &[real_equal, imaginary_beyond], None)?;
        let or = Op::Binary(Binary::Or);
        let is_first = self.push(frame, or, &[real_beyond, decided], None)?;
        let local = self.push(frame, Op::Select, &[is_first, a, b], None)?;
        self.bind(access, frame, local)
    }

    /// If the widths differ, there is one more dimension for narrower elements, and one less for
    /// wider ones. The other sizes are the same.
    fn bitcast_convert(&mut self, access: &Access<'m>, frame: &mut Frame) -> Result<(), Error> {
        let operands = self.operands(access, frame)?;
        let operand = self.first(access, &operands)?;
        let mut like = self.array(access, frame, operand)?.clone();
        let result = access.operation.results.first();
        let result = result.and_then(|result| self.source.type_of(*result).as_tensor());
        let to = result.and_then(|tensor| super::types::element_type(&tensor.element).ok());
        let rank = result.map_or(0, |tensor| tensor.dims.len());
        // If the rank changes, each boolean is one bit; otherwise it is a byte, as in HLO.
        match (like.element_type, to) {
            (ElementType::Pred, Some(to)) if rank < like.rank() => {
                return self.of_bits(access, frame, operand, to);
            }
            (_, Some(ElementType::Pred)) if rank > like.rank() => {
                return self.bits_of(access, frame, operand);
            }
            _ => {}
        }
        // The type states the size of the additional dimension.
        like.dims.resize(rank, Dim::Static(0));
        let like = Shape::Array(like);
        self.push_result(access, frame, Op::BitcastConvert, &operands, Some(&like))
    }

    /// Lowers `clamp`, whose bounds may be scalars.
    fn clamp(&mut self, access: &Access<'_>, frame: &mut Frame) -> Result<(), Error> {
        let operands = self.operands(access, frame)?;
        let like = operands.get(1).map(|local| frame.shape(*local).clone());
        self.push_result(access, frame, Op::Clamp, &operands, like.as_ref())
    }

    fn compare(&mut self, access: &Access<'_>, frame: &mut Frame) -> Result<(), Error> {
        self.elementwise(access, frame, comparison(access)?)
    }

    fn constant(&mut self, access: &Access<'_>, frame: &mut Frame) -> Result<(), Error> {
        let Attribute::Elements(elements) = access.attribute("value")? else {
            return Err(access.error("expected a dense constant as the attribute `value`"));
        };
        let literal = types::literal(elements).map_err(|why| access.unsupported(why))?;
        let local = self.push(frame, Op::Constant([literal].into()), &[], None)?;
        let shape = self.result_shape(access, 0, None)?;
        let scalar = frame.shape(local) == &shape;
        let local = match scalar {
            true => local,
            // All elements of the bound are the same.
            false => self.push(
                frame,
                Op::Broadcast(std::iter::empty().collect()),
                &[local],
                Some(shape),
            )?,
        };
        self.bind(access, frame, local)
    }

    /// A scalar constant of an array's element type.
    pub(super) fn scalar_like(
        &self,
        frame: &mut Frame,
        like: Local,
        value: f64,
    ) -> Result<Local, Error> {
        let array = frame.shape(like).as_array();
        let ty = array.map(|array| array.element_type);
        let ty = ty.ok_or_else(|| Error::input("expected an array"))?;
        let scalar = tegula_ir::ArrayShape::new(ty, &[]);
        let wide = Op::Constant([Literal::from_value(value)].into());
        let wide = self.push(frame, wide, &[], None)?;
        self.push(frame, Op::Convert, &[wide], Some(Shape::Array(scalar)))
    }

    /// A tuple of instructions.
    pub(super) fn tuple(&self, frame: &mut Frame, elements: &[Local]) -> Result<Local, Error> {
        self.push(frame, Op::Tuple, elements, None)
    }

    /// The elements of a tuple.
    pub(super) fn elements(&self, frame: &mut Frame, tuple: Local) -> Result<Vec<Local>, Error> {
        let count = frame.shape(tuple).as_tuple().map_or(0, <[Shape]>::len);
        (0..count as i64)
            .map(|index| self.push(frame, Op::GetTupleElement(index), &[tuple], None))
            .collect()
    }
}

/// Whether the first operand is of complex numbers.
fn is_complex(lowerer: &Lowerer<'_>, access: &Access<'_>) -> bool {
    let operand = access.operation.operands.first();
    let ty = operand.and_then(|value| lowerer.source.type_of(*value).as_tensor());
    ty.is_some_and(|tensor| matches!(tensor.element, crate::mlir::Type::Complex(_)))
}

/// Annotates an instruction with its source location and its sharding.
fn describe(access: &Access<'_>, frame: &mut Frame, local: Local) {
    let location = &access.operation.location;
    let name = location.name();
    let file = location.file();
    if name.is_some() || file.is_some() {
        let metadata = Metadata {
            op_name: name.map(Into::into),
            source_file: file.map(|(file, _)| file.into()),
            source_line: file.map(|(_, line)| line.into()),
            ..Metadata::default()
        };
        frame.annotations_mut(local).metadata = Some(metadata);
    }
    let sharding = access.operation.attribute("mhlo.sharding");
    if let Some(sharding) = sharding.and_then(Attribute::as_str) {
        frame.annotations_mut(local).sharding = Some(sharding.into());
    }
}

/// The comparison given by `comparison_direction` and `compare_type`.
pub(super) fn comparison(access: &Access<'_>) -> Result<Op, Error> {
    let direction = match access.case("comparison_direction")? {
        Some("EQ") => Direction::Eq,
        Some("NE") => Direction::Ne,
        Some("GE") => Direction::Ge,
        Some("GT") => Direction::Gt,
        Some("LE") => Direction::Le,
        Some("LT") => Direction::Lt,
        _ => {
            return Err(access.error(
                "expected EQ, NE, GE, GT, LE or LT as the attribute `comparison_direction`",
            ));
        }
    };
    let order = match access.case("compare_type")? {
        Some("TOTALORDER") => Order::Total,
        _ => Order::Partial,
    };
    Ok(Op::Compare { direction, order })
}

fn unary(name: &str) -> Option<Unary> {
    Some(match name {
        "abs" => Unary::Abs,
        "cbrt" => Unary::Cbrt,
        "ceil" => Unary::Ceil,
        "count_leading_zeros" => Unary::CountLeadingZeros,
        "cosine" => Unary::Cos,
        "exponential" => Unary::Exp,
        "exponential_minus_one" => Unary::Expm1,
        "floor" => Unary::Floor,
        "imag" => Unary::Imag,
        "is_finite" => Unary::IsFinite,
        "log" => Unary::Log,
        "log_plus_one" => Unary::Log1p,
        "logistic" => Unary::Logistic,
        "negate" => Unary::Negate,
        "not" => Unary::Not,
        "popcnt" => Unary::Popcnt,
        "real" => Unary::Real,
        "round_nearest_afz" => Unary::RoundNearestAfz,
        "round_nearest_even" => Unary::RoundNearestEven,
        "rsqrt" => Unary::Rsqrt,
        "sign" => Unary::Sign,
        "sine" => Unary::Sin,
        "sqrt" => Unary::Sqrt,
        "tan" => Unary::Tan,
        "tanh" => Unary::Tanh,
        _ => return None,
    })
}

/// The binary elementwise operation of this name.
pub(super) fn binary(name: &str) -> Option<Binary> {
    Some(match name {
        "add" => Binary::Add,
        "and" => Binary::And,
        "atan2" => Binary::Atan2,
        "complex" => Binary::Complex,
        "divide" => Binary::Divide,
        "maximum" => Binary::Maximum,
        "minimum" => Binary::Minimum,
        "multiply" => Binary::Multiply,
        "or" => Binary::Or,
        "power" => Binary::Power,
        "remainder" => Binary::Remainder,
        "shift_left" => Binary::ShiftLeft,
        "shift_right_arithmetic" => Binary::ShiftRightArithmetic,
        "shift_right_logical" => Binary::ShiftRightLogical,
        "subtract" => Binary::Subtract,
        "xor" => Binary::Xor,
        _ => return None,
    })
}
