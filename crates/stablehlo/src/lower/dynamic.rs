//! Lowers operations that take sizes as operands. If the sizes follow from those of the inputs,
//! they become ordinary operations with symbolic sizes.

use super::shaping::{dim_of, gather_dims};
use super::sizes::depends_on_data;
use super::{Frame, Local, Lowerer, access::Access};
use crate::Error;
use std::sync::Arc;
use tegula_expr::Term;
use tegula_ir::{
    ArrayShape, Binary, Dim, DimNumbers, GatherDims, Literal, Op, PadDim, Shape, SliceDim, TO_END,
};

impl<'m> Lowerer<'m> {
    pub(super) fn dynamic(
        &mut self,
        name: &str,
        access: &Access<'m>,
        frame: &mut Frame,
    ) -> Result<(), Error> {
        match name {
            "dynamic_iota" => {
                let shape = self.sized(self.element_of(access, 0)?, &self.sizes_of(access, 0)?);
                let op = Op::Iota(access.integer("iota_dimension")?);
                let local = self.push(frame, op, &[], Some(shape))?;
                self.bind(access, frame, local)
            }
            "dynamic_reshape" => {
                let operand = self.operand(access, frame, 0)?;
                let shape = self.sized(self.element_of(access, 0)?, &self.sizes_of(access, 1)?);
                let local = self.push(frame, Op::Reshape, &[operand], Some(shape))?;
                self.bind(access, frame, local)
            }
            "dynamic_broadcast_in_dim" => {
                let operand = self.operand(access, frame, 0)?;
                let shape = self.sized(self.element_of(access, 0)?, &self.sizes_of(access, 1)?);
                let dims = access.dims("broadcast_dimensions")?;
                let local = self.broadcast_in_dim(access, frame, operand, &dims, shape)?;
                self.bind(access, frame, local)
            }
            "dynamic_pad" => self.dynamic_pad(access, frame),
            "real_dynamic_slice" => self.real_dynamic_slice(access, frame),
            "dynamic_gather" => self.dynamic_gather(access, frame),
            _ => self.dynamic_conv(access, frame),
        }
    }

    /// The sizes in an operand.
    pub(super) fn sizes_of(&self, access: &Access<'_>, place: usize) -> Result<Arc<[Term]>, Error> {
        let value = access.operation.operands.get(place);
        let value = value.ok_or_else(|| access.error(format!("operand {place} is missing")))?;
        if let Some(terms) = self.sizes.terms(*value) {
            return Ok(Arc::clone(terms));
        }
        let constant = self.constants.get(value);
        let constant = constant.and_then(|operation| operation.attribute("value"));
        match constant.and_then(crate::mlir::Attribute::as_integers) {
            Some(values) => Ok(values.into_iter().map(Term::constant).collect()),
            None => Err(access.unsupported(format!(
                "the sizes in operand {place} do not follow from sizes of the inputs: sizes that \
                 depend on data are not supported"
            ))),
        }
    }

    /// The indices in an operand, which may depend on data.
    fn indices_of(&self, access: &Access<'_>, place: usize) -> Result<Arc<[Term]>, Error> {
        let value = access.operation.operands.get(place);
        match value.and_then(|value| self.sizes.index_terms(*value)) {
            Some(terms) => Ok(Arc::clone(terms)),
            None => self.sizes_of(access, place),
        }
    }

    /// An array shape with these sizes.
    fn sized(&self, element_type: tegula_ir::ElementType, sizes: &[Term]) -> Shape {
        Shape::Array(ArrayShape {
            element_type,
            dims: sizes.iter().cloned().map(dim_of).collect(),
            layout: None,
        })
    }

    /// The element type of a result.
    fn element_of(
        &self,
        access: &Access<'_>,
        place: usize,
    ) -> Result<tegula_ir::ElementType, Error> {
        let result = access.operation.results.get(place);
        let ty = result.and_then(|result| self.source.type_of(*result).as_tensor());
        let ty = ty.ok_or_else(|| access.error("expected a tensor of known rank as the result"))?;
        super::types::element_type(&ty.element).map_err(|why| access.unsupported(why))
    }

    /// Lowers `dynamic_pad`. Unknown amounts of padding become concatenations with arrays of the
    /// padding value.
    fn dynamic_pad(&mut self, access: &Access<'m>, frame: &mut Frame) -> Result<(), Error> {
        let mut local = self.operand(access, frame, 0)?;
        let value = self.operand(access, frame, 1)?;
        let low = self.sizes_of(access, 2)?;
        let high = self.sizes_of(access, 3)?;
        let interior = self.sizes_of(access, 4)?;
        let rank = self.array(access, frame, local)?.rank();
        if low.len() != rank || high.len() != rank || interior.len() != rank {
            return Err(access.error(format!("expected {rank} paddings of each kind")));
        }
        let mut padding = Vec::new();
        for dim in 0..rank {
            let known = |term: &Term| term.as_constant();
            let Some(interior) = known(&interior[dim]) else {
                return Err(access.unsupported("unknown padding between elements is not supported"));
            };
            padding.push(PadDim {
                low: known(&low[dim]).unwrap_or(0),
                high: known(&high[dim]).unwrap_or(0),
                interior,
            });
        }
        local = self.push(frame, Op::Pad(padding), &[local, value], None)?;
        for dim in 0..rank {
            for (amount, before) in [(&low[dim], true), (&high[dim], false)] {
                if amount.as_constant().is_some() {
                    continue;
                }
                if self.sizes.range(amount).lower < 0 {
                    return Err(access.unsupported(
                        "unknown padding that may be negative is not supported: expected an amount that follows from sizes and is at least 0",
                    ));
                }
                let mut array = self.array(access, frame, local)?.clone();
                array.dims[dim] = Dim::Symbolic(amount.clone());
                let none = DimNumbers::new();
                let filled = self.push(
                    frame,
                    Op::Broadcast(none),
                    &[value],
                    Some(Shape::Array(array)),
                )?;
                let parts = if before {
                    [filled, local]
                } else {
                    [local, filled]
                };
                local = self.push(frame, Op::Concatenate(dim as i64), &parts, None)?;
            }
        }
        self.bind(access, frame, local)
    }

    fn real_dynamic_slice(&mut self, access: &Access<'m>, frame: &mut Frame) -> Result<(), Error> {
        let mut local = self.operand(access, frame, 0)?;
        let starts = self.indices_of(access, 1)?;
        let limits = self.indices_of(access, 2)?;
        let strides = self.sizes_of(access, 3)?;
        let rank = self.array(access, frame, local)?.rank();
        if starts.len() != rank || limits.len() != rank || strides.len() != rank {
            return Err(access.error(format!("expected {rank} starts, limits and strides")));
        }
        for dim in 0..rank {
            let Some(stride) = strides[dim].as_constant().filter(|stride| *stride > 0) else {
                return Err(access.unsupported("expected a known, positive stride"));
            };
            let whole = self.array(access, frame, local)?.dims[dim].term();
            let taken = limits[dim].sub(&starts[dim]).ceil_div(&strides[dim]);
            let taken = self.sizes.canonical(&taken);
            if depends_on_data(&taken) {
                return Err(access.unsupported(format!(
                    "the size of the slice along dimension {dim} depends on data"
                )));
            }
            local = match (starts[dim].as_constant(), limits[dim].as_constant()) {
                (Some(start), Some(limit)) => {
                    self.sliced(access, frame, local, dim, [start, limit, stride])?
                }
                (Some(start), None) if limits[dim] == whole => {
                    self.sliced(access, frame, local, dim, [start, TO_END, stride])?
                }
                (Some(start), None) => {
                    let start = self.index_constant(frame, start)?;
                    self.taken(access, frame, local, dim, start, stride, &taken)?
                }
                (None, _) => {
                    let all = self.operand(access, frame, 1)?;
                    let start = self.index_element(access, frame, all, dim)?;
                    match taken.as_constant() {
                        Some(size) if stride == 1 => {
                            self.sliced_at(access, frame, local, dim, start, size)?
                        }
                        _ => self.taken(access, frame, local, dim, start, stride, &taken)?,
                    }
                }
            };
        }
        self.bind(access, frame, local)
    }

    /// A slice along one dimension.
    fn sliced(
        &self,
        access: &Access<'_>,
        frame: &mut Frame,
        operand: Local,
        along: usize,
        [start, limit, stride]: [i64; 3],
    ) -> Result<Local, Error> {
        let array = self.array(access, frame, operand)?;
        let whole = |dim: &Dim| SliceDim {
            start: 0,
            limit: dim.as_static().unwrap_or(TO_END),
            stride: 1,
        };
        let mut slices: Vec<SliceDim> = array.dims.iter().map(whole).collect();
        slices[along] = SliceDim {
            start,
            limit,
            stride,
        };
        self.push(frame, Op::Slice(slices), &[operand], None)
    }

    /// A slice of known size along one dimension, at an index that depends on data.
    fn sliced_at(
        &self,
        access: &Access<'_>,
        frame: &mut Frame,
        operand: Local,
        along: usize,
        start: Local,
        size: i64,
    ) -> Result<Local, Error> {
        let dims = self.array(access, frame, operand)?.dims.clone();
        let zero = self.index_constant(frame, 0)?;
        let mut operands = vec![operand];
        operands.extend(std::iter::repeat_n(zero, dims.len()));
        operands[1 + along] = start;
        let sizes = dims
            .iter()
            .enumerate()
            .map(|(dim, whole)| match dim == along {
                true => size,
                false => whole.as_static().unwrap_or(TO_END),
            });
        let op = Op::DynamicSlice(sizes.collect());
        self.push(frame, op, &operands, None)
    }

    /// A constant index.
    fn index_constant(&self, frame: &mut Frame, value: i64) -> Result<Local, Error> {
        let op = Op::Constant([Literal::from_value(value)].into());
        self.push(frame, op, &[], None)
    }

    /// An element of a list of indices.
    fn index_element(
        &self,
        access: &Access<'_>,
        frame: &mut Frame,
        all: Local,
        place: usize,
    ) -> Result<Local, Error> {
        let place = place as i64;
        let one = self.sliced(access, frame, all, 0, [place, place + 1, 1])?;
        let element_type = self.array(access, frame, one)?.element_type;
        let scalar = Shape::Array(ArrayShape::new(element_type, &[]));
        let one = self.push(frame, Op::Reshape, &[one], Some(scalar))?;
        let wide = Shape::array(tegula_ir::ElementType::S64, &[]);
        self.push(frame, Op::Convert, &[one], Some(wide))
    }

    /// `count` elements along one dimension, by a gather at indices from an iota.
    #[allow(
        clippy::too_many_arguments,
        reason = "a slice is an array, a dimension, a start, a stride and a count"
    )]
    fn taken(
        &self,
        access: &Access<'_>,
        frame: &mut Frame,
        operand: Local,
        along: usize,
        start: Local,
        stride: i64,
        count: &Term,
    ) -> Result<Local, Error> {
        let array = self.array(access, frame, operand)?.clone();
        let indices = Shape::Array(ArrayShape {
            element_type: tegula_ir::ElementType::S64,
            dims: [dim_of(count.clone())].into_iter().collect(),
            layout: None,
        });
        let mut index = self.push(frame, Op::Iota(0), &[], Some(indices.clone()))?;
        let stride = self.index_constant(frame, stride)?;
        for (op, scalar) in [(Binary::Multiply, stride), (Binary::Add, start)] {
            let none = DimNumbers::new();
            let all = self.push(frame, Op::Broadcast(none), &[scalar], Some(indices.clone()))?;
            index = self.push(frame, Op::Binary(op), &[index, all], None)?;
        }
        let rank = array.rank();
        let dims = GatherDims {
            offset_dims: (0..rank)
                .filter(|d| *d != along)
                .map(|d| d as i64)
                .collect(),
            collapsed_slice_dims: [along as i64].into_iter().collect(),
            start_index_map: [along as i64].into_iter().collect(),
            operand_batching_dims: DimNumbers::new(),
            start_indices_batching_dims: DimNumbers::new(),
            index_vector_dim: 1,
        };
        let sizes = array.dims.iter().enumerate();
        let slice_sizes = sizes.map(|(dim, size)| match dim == along {
            true => 1,
            false => size.as_static().unwrap_or(TO_END),
        });
        let op = Op::Gather {
            dims,
            slice_sizes: slice_sizes.collect(),
            indices_are_sorted: true,
        };
        let mut result = array;
        result.dims[along] = dim_of(count.clone());
        self.push(frame, op, &[operand, index], Some(Shape::Array(result)))
    }

    /// Lowers a gather with slice sizes that are constant or as large as the dimension, or a gather
    /// of a single slice of any size.
    fn dynamic_gather(&mut self, access: &Access<'m>, frame: &mut Frame) -> Result<(), Error> {
        let operand = self.operand(access, frame, 0)?;
        let sizes = self.sizes_of(access, 2)?;
        let array = self.array(access, frame, operand)?.clone();
        if sizes.len() != array.rank() {
            return Err(access.error(format!("expected {} sizes of the slice", array.rank())));
        }
        let mut slice_sizes = DimNumbers::new();
        for (size, dim) in sizes.iter().zip(&array.dims) {
            let whole = dim.as_static().is_none() && *size == dim.term();
            match size.as_constant() {
                Some(size) => slice_sizes.push(size),
                None if whole => slice_sizes.push(TO_END),
                None => return self.one_slice(access, frame, operand, &sizes),
            }
        }
        let indices = self.operand(access, frame, 1)?;
        let op = Op::Gather {
            dims: gather_dims(access)?,
            slice_sizes,
            indices_are_sorted: access.flag("indices_are_sorted")?,
        };
        self.push_result(access, frame, op, &[operand, indices], None)
    }

    /// A gather of a single slice at a known position.
    fn one_slice(
        &mut self,
        access: &Access<'m>,
        frame: &mut Frame,
        operand: Local,
        sizes: &[Term],
    ) -> Result<(), Error> {
        let starts = self.sizes_of(access, 1);
        let dims = gather_dims(access)?;
        let starts = starts
            .ok()
            .filter(|starts| starts.len() == dims.start_index_map.len());
        let Some(starts) = starts else {
            return Err(access.unsupported(
                "slices of unknown size at data-dependent positions are not supported",
            ));
        };
        let mut local = operand;
        for (dim, size) in sizes.iter().enumerate() {
            let place = dims.start_index_map.iter().position(|at| *at == dim as i64);
            let start = place.map_or(Some(0), |place| starts[place].as_constant());
            let whole = self.array(access, frame, local)?.dims[dim].term();
            if *size == whole {
                continue;
            }
            // An out-of-bounds start is clamped, and only 0 is known to be in bounds.
            let room = whole.sub(size);
            let stays = start.is_some_and(|start| {
                start == 0 || self.sizes.range(&room.sub(&Term::constant(start))).lower >= 0
            });
            let (Some(start), true) = (start, stays) else {
                return Err(access.unsupported("a slice at an unknown position is not supported"));
            };
            local = match size.as_constant() {
                Some(size) => self.sliced(access, frame, local, dim, [start, start + size, 1])?,
                None => {
                    let start = self.index_constant(frame, start)?;
                    self.taken(access, frame, local, dim, start, 1, size)?
                }
            };
        }
        let array = self.array(access, frame, local)?;
        let kept = array.dims.iter().enumerate();
        let kept = kept.filter(|(dim, _)| !dims.collapsed_slice_dims.contains(&(*dim as i64)));
        let kept: Vec<Dim> = kept.map(|(_, dim)| dim.clone()).collect();
        if kept.len() < array.rank() {
            let shape = Shape::Array(ArrayShape {
                element_type: array.element_type,
                dims: kept.into_iter().collect(),
                layout: None,
            });
            local = self.push(frame, Op::Reshape, &[local], Some(shape))?;
        }
        self.bind(access, frame, local)
    }

    fn dynamic_conv(&mut self, access: &Access<'m>, frame: &mut Frame) -> Result<(), Error> {
        let operands = [
            self.operand(access, frame, 0)?,
            self.operand(access, frame, 1)?,
        ];
        let padding = self.sizes_of(access, 2)?;
        let known: Option<Vec<i64>> = padding.iter().map(Term::as_constant).collect();
        let Some(known) = known else {
            return Err(access.unsupported("unknown padding of a convolution is not supported"));
        };
        let pairs = known.chunks(2).map(|pair| (pair[0], pair[1])).collect();
        let op = self.convolution_op(access, Some(pairs))?;
        self.push_result(access, frame, op, &operands, None)
    }

    /// Random bits with sizes from an operand; the operands are the key and the sizes.
    pub(super) fn dynamic_bits(
        &mut self,
        access: &Access<'m>,
        frame: &mut Frame,
    ) -> Result<(), Error> {
        let key = self.operand(access, frame, 0)?;
        let sizes = self.sizes_of(access, 1)?;
        let element_type = self.element_of(access, 1)?;
        let bits = self.sized(element_type, &sizes);
        let shape = Shape::Tuple(vec![frame.shape(key).clone(), bits]);
        let op = Op::RngBitGenerator(super::windows::rng_algorithm(access)?);
        let tuple = self.push(frame, op, &[key], Some(shape))?;
        let elements = self.elements(frame, tuple)?;
        self.bind_all(access, frame, &elements)
    }

    /// Lowers a `top_k` whose `k` is an operand.
    pub(super) fn dynamic_top_k(
        &mut self,
        access: &Access<'m>,
        frame: &mut Frame,
    ) -> Result<(), Error> {
        let array = self.operand(access, frame, 0)?;
        let k = self.sizes_of(access, 1)?;
        let Some(k) = k.first().and_then(Term::as_constant) else {
            return Err(access.unsupported("the number of largest elements must be known"));
        };
        let op = Op::TopK {
            k,
            largest: true,
            is_stable: None,
        };
        let tuple = self.push(frame, op, &[array], None)?;
        let elements = self.elements(frame, tuple)?;
        self.bind_all(access, frame, &elements)
    }
}
