//! Lowers operations that move elements: broadcasts, slices, gathers and others.

use super::{Frame, Local, Lowerer, access::Access};
use crate::Error;
use tegula_ir::{
    ArrayShape, Dim, DimNumbers, GatherDims, Op, PadDim, ScatterDims, Shape, SliceDim,
};

impl<'m> Lowerer<'m> {
    pub(super) fn shaping(
        &mut self,
        name: &str,
        access: &Access<'m>,
        frame: &mut Frame,
    ) -> Result<(), Error> {
        let operands = self.operands(access, frame)?;
        let op = match name {
            "iota" => {
                let shape = self.result_shape(access, 0, None)?;
                let op = Op::Iota(access.integer("iota_dimension")?);
                let local = self.push(frame, op, &[], Some(shape))?;
                return self.bind(access, frame, local);
            }
            "broadcast" => {
                // New dimensions come first.
                let added = access.integers("broadcast_sizes")?.len();
                let rank = self.rank(access, frame, operands.first())?;
                let dims = (added..added + rank).map(|dim| dim as i64).collect();
                Op::Broadcast(dims)
            }
            "broadcast_in_dim" => {
                let shape = self.result_shape(access, 0, None)?;
                let dims = access.dims("broadcast_dimensions")?;
                let operand = self.first(access, &operands)?;
                let local = self.broadcast_in_dim(access, frame, operand, &dims, shape)?;
                return self.bind(access, frame, local);
            }
            "reshape" => Op::Reshape,
            "transpose" => Op::Transpose(access.dims("permutation")?),
            "reverse" => Op::Reverse(access.dims("dimensions")?),
            "slice" => Op::Slice(slices(access)?),
            "pad" => Op::Pad(padding(access)?),
            "concatenate" => Op::Concatenate(access.integer("dimension")?),
            "dynamic_slice" => Op::DynamicSlice(access.dims("slice_sizes")?),
            "dynamic_update_slice" => Op::DynamicUpdateSlice,
            "gather" => Op::Gather {
                dims: gather_dims(access)?,
                slice_sizes: access.dims("slice_sizes")?,
                indices_are_sorted: access.flag("indices_are_sorted")?,
            },
            "scatter" => return self.scatter(access, frame, &operands),
            "set_dimension_size" => Op::SetDimensionSize(access.integer("dimension")?),
            _ => Op::GetDimensionSize(access.integer("dimension")?),
        };
        self.push_result(access, frame, op, &operands, None)
    }

    pub(super) fn first(&self, access: &Access<'_>, operands: &[Local]) -> Result<Local, Error> {
        let first = operands.first().copied();
        first.ok_or_else(|| access.error("operand 0 is missing"))
    }

    pub(super) fn array<'f>(
        &self,
        access: &Access<'_>,
        frame: &'f Frame,
        local: Local,
    ) -> Result<&'f ArrayShape, Error> {
        let array = frame.shape(local).as_array();
        array.ok_or_else(|| access.error("expected a tensor as the operand"))
    }

    fn rank(
        &self,
        access: &Access<'_>,
        frame: &Frame,
        local: Option<&Local>,
    ) -> Result<usize, Error> {
        let local = local.ok_or_else(|| access.error("operand 0 is missing"))?;
        Ok(self.array(access, frame, *local)?.rank())
    }

    /// Broadcasts with operand dimension `i` as dimension `dims[i]` of the result. A dimension of
    /// size 1 may be expanded to any size; HLO's broadcast does not do that, so it is removed
    /// first.
    pub(super) fn broadcast_in_dim(
        &self,
        access: &Access<'_>,
        frame: &mut Frame,
        operand: Local,
        dims: &DimNumbers,
        shape: Shape,
    ) -> Result<Local, Error> {
        let array = self.array(access, frame, operand)?;
        let Some(result) = shape.as_array() else {
            return Err(access.error("expected a tensor as the result"));
        };
        if dims.len() != array.rank() {
            return Err(access.error(format!(
                "expected {} numbers in `broadcast_dimensions`, one for each dimension of the \
                 operand, found {}",
                array.rank(),
                dims.len()
            )));
        }
        let mut kept = DimNumbers::new();
        let mut kept_sizes = Vec::new();
        for (size, &place) in array.dims.iter().zip(dims) {
            let target = usize::try_from(place)
                .ok()
                .and_then(|at| result.dims.get(at));
            let Some(target) = target else {
                return Err(access.error(format!("the result has no dimension {place}")));
            };
            let expands = size.as_static() == Some(1) && target.as_static() != Some(1);
            if !expands {
                kept.push(place);
                kept_sizes.push(size.clone());
            }
        }
        let mut operand = operand;
        if kept.len() < dims.len() {
            let narrowed = Shape::Array(ArrayShape {
                element_type: array.element_type,
                dims: kept_sizes.into_iter().collect(),
                layout: None,
            });
            operand = self.push(frame, Op::Reshape, &[operand], Some(narrowed))?;
        }
        let in_order = kept.windows(2).all(|pair| pair[0] < pair[1]);
        if !in_order {
            // HLO requires the dimensions in increasing order.
            let mut order: Vec<usize> = (0..kept.len()).collect();
            order.sort_by_key(|&place| kept[place]);
            let permutation = order.iter().map(|&place| place as i64).collect();
            operand = self.push(frame, Op::Transpose(permutation), &[operand], None)?;
            kept.sort_unstable();
        }
        let same = frame.shape(operand).same_ignoring_layout(&shape);
        match same && kept.iter().enumerate().all(|(at, dim)| at as i64 == *dim) {
            true => Ok(operand),
            false => self.push(frame, Op::Broadcast(kept), &[operand], Some(shape)),
        }
    }

    fn scatter(
        &mut self,
        access: &Access<'m>,
        frame: &mut Frame,
        operands: &[Local],
    ) -> Result<(), Error> {
        const NUMBERS: &str = "scatter_dimension_numbers";
        let to_apply = self.scalar_region(access, 0)?;
        let dims = ScatterDims {
            update_window_dims: access.field(NUMBERS, "update_window_dims")?,
            inserted_window_dims: access.field(NUMBERS, "inserted_window_dims")?,
            scatter_dims_to_operand_dims: access.field(NUMBERS, "scatter_dims_to_operand_dims")?,
            input_batching_dims: access.field(NUMBERS, "input_batching_dims")?,
            scatter_indices_batching_dims: access
                .field(NUMBERS, "scatter_indices_batching_dims")?,
            index_vector_dim: access.number(NUMBERS, "index_vector_dim")?,
        };
        let op = Op::Scatter {
            dims,
            indices_are_sorted: access.flag("indices_are_sorted")?,
            unique_indices: access.flag("unique_indices")?,
            to_apply,
        };
        self.push_results(access, frame, op, operands)
    }
}

/// The dimension numbers of a gather.
pub(super) fn gather_dims(access: &Access<'_>) -> Result<GatherDims, Error> {
    const NUMBERS: &str = "dimension_numbers";
    Ok(GatherDims {
        offset_dims: access.field(NUMBERS, "offset_dims")?,
        collapsed_slice_dims: access.field(NUMBERS, "collapsed_slice_dims")?,
        start_index_map: access.field(NUMBERS, "start_index_map")?,
        operand_batching_dims: access.field(NUMBERS, "operand_batching_dims")?,
        start_indices_batching_dims: access.field(NUMBERS, "start_indices_batching_dims")?,
        index_vector_dim: access.number(NUMBERS, "index_vector_dim")?,
    })
}

fn slices(access: &Access<'_>) -> Result<Vec<SliceDim>, Error> {
    let starts = access.integers("start_indices")?;
    let limits = access.integers("limit_indices")?;
    let strides = access.integers_or("strides", 1, starts.len())?;
    if limits.len() != starts.len() {
        return Err(access.error("expected as many limits as starts"));
    }
    let parts = starts.into_iter().zip(limits).zip(strides);
    Ok(parts
        .map(|((start, limit), stride)| SliceDim {
            start,
            limit,
            stride,
        })
        .collect())
}

fn padding(access: &Access<'_>) -> Result<Vec<PadDim>, Error> {
    let low = access.integers("edge_padding_low")?;
    let high = access.integers("edge_padding_high")?;
    let interior = access.integers("interior_padding")?;
    if high.len() != low.len() || interior.len() != low.len() {
        return Err(
            access.error("expected lists of low, high and interior padding of the same length")
        );
    }
    let parts = low.into_iter().zip(high).zip(interior);
    Ok(parts
        .map(|((low, high), interior)| PadDim {
            low,
            high,
            interior,
        })
        .collect())
}

/// A dimension with a given size.
pub(super) fn dim_of(size: tegula_expr::Term) -> Dim {
    match size.as_constant() {
        Some(size) => Dim::Static(size),
        None => Dim::Symbolic(size),
    }
}
