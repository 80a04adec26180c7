//! Operations that index a partitioned dimension with data.
//!
//! The device that owns the part to which an index leads does the work. For writes, each device
//! writes what falls into its own part. For reads, each device reads what it owns, and zeros
//! elsewhere; the bits of all devices are combined by `or`, so the result is exact for all element
//! types.

use super::plan::{Indexed, Plan, bits_type, owned_slices};
use super::{Emitter, Frame, Local, number};
use crate::error::Error;
use crate::graph::Node;
use tegula_ir::{
    ArrayShape, Binary, Dim, DimNumbers, DraftId, ElementType, Op, Scalar, Shape, SliceDim,
};

impl Emitter<'_> {
    pub(super) fn indexed(
        &mut self,
        frame: &mut Frame,
        node: &Node,
        plan: &Plan,
    ) -> Result<Vec<Local>, Error> {
        let indexed = plan
            .indexed
            .clone()
            .ok_or_else(|| self.bug("expected a plan with an indexed dimension"))?;
        let operands = self.brought(frame, node, plan)?;
        if let Op::Slice(_) = node.op {
            let id = self.sent_to_all(frame, node, plan, &indexed, operands[0])?;
            return Ok(vec![Local {
                id,
                sharding: plan.result.clone(),
            }]);
        }
        let size = self.graph.values[node.operands[0]]
            .size(indexed.dim)
            .unwrap_or(0);
        let part = indexed.cut.part_size(size);
        let starts: Vec<i64> = indexed
            .cut
            .places()
            .iter()
            .map(|place| place * part)
            .collect();
        let start = self.by_device(frame, &starts)?;
        let here = Here {
            dim: indexed.dim,
            size,
            part,
            start,
        };
        let op = self.localized(node, &plan.picks, &[])?;
        let ids = match op {
            Op::DynamicUpdateSlice => vec![self.updated(frame, &operands, &here)?],
            Op::Scatter { .. } => self.scattered(frame, node, op, operands, &here, plan)?,
            Op::DynamicSlice(sizes) => {
                let slice = self.sliced(frame, &operands, &sizes, &here)?;
                vec![self.joined_bits(frame, slice, plan, &indexed, node)?]
            }
            Op::Gather { .. } => {
                let gathered = self.gathered_rows(frame, node, op, &operands, &here, plan)?;
                vec![self.joined_bits(frame, gathered, plan, &indexed, node)?]
            }
            _ => return Err(self.bug("expected a gather, a scatter, a slice or an update")),
        };
        let local = |id| Local {
            id,
            sharding: plan.result.clone(),
        };
        Ok(ids.into_iter().map(local).collect())
    }

    /// `slice`: each part that overlaps the slice sends its elements to the devices that hold the
    /// other parts.
    fn sent_to_all(
        &mut self,
        frame: &mut Frame,
        node: &Node,
        plan: &Plan,
        indexed: &Indexed,
        array: DraftId,
    ) -> Result<DraftId, Error> {
        let scope = self.scope(self.scope_of(node)).clone();
        let groups = self.groups_of_parts(plan, &indexed.cut, &scope)?;
        let size = self.graph.values[node.operands[0]].size(indexed.dim);
        let (Op::Slice(stated), Some(size)) = (&node.op, size) else {
            return Err(self.bug("expected a slice along a dimension of known size"));
        };
        let slice = stated.get(indexed.dim).copied();
        let slice = slice.ok_or_else(|| {
            self.bug("a slice states no start, limit and stride for the dimension that is cut")
        })?;
        self.reason = "only a few devices hold the slice".to_owned();
        let mut pieces = Vec::new();
        for (place, own) in owned_slices(&slice, size, &indexed.cut) {
            let mut op = self.localized(node, &plan.picks, &[])?;
            if let Op::Slice(dims) = &mut op
                && let Some(dim) = dims.get_mut(indexed.dim)
            {
                *dim = own;
            }
            let piece = self.push(frame, op, &[array], None)?;
            let place = usize::try_from(place).unwrap_or(usize::MAX);
            let mut from_owner = groups.clone();
            for group in from_owner.iter_mut().filter(|group| place < group.len()) {
                group.swap(0, place);
            }
            let shape = frame.array(piece);
            let bytes = shape.representative().byte_size().unwrap_or(0);
            self.exchanged("collective-broadcast", bytes);
            let op = Op::CollectiveBroadcast(self.collective_of_partitions(&from_owner));
            pieces.push(self.push(frame, op, &[piece], Some(Shape::Array(shape)))?);
        }
        match pieces[..] {
            [one] => Ok(one),
            _ => {
                let op = Op::Concatenate(number(indexed.dim));
                self.push(frame, op, &pieces, None)
            }
        }
    }

    /// An index converted to a signed type, and clamped so that the slice is inside.
    fn clamped(&mut self, frame: &mut Frame, index: DraftId, last: i64) -> Result<DraftId, Error> {
        let index = self.signed(frame, index)?;
        let array = frame.array(index);
        let low = self.scalar(frame, array.element_type, Scalar::Int(0))?;
        let high = self.scalar(frame, array.element_type, Scalar::Int(last))?;
        self.push(frame, Op::Clamp, &[low, index, high], None)
    }

    /// Converts numbers to a signed type that is wide enough for device offsets.
    fn signed(&mut self, frame: &mut Frame, index: DraftId) -> Result<DraftId, Error> {
        let array = frame.array(index);
        let ty = match array.element_type {
            ElementType::S32 | ElementType::S64 => return Ok(index),
            ElementType::U32 | ElementType::U64 => ElementType::S64,
            _ => ElementType::S32,
        };
        if array.element_type == ElementType::U64 {
            // Indices beyond the largest signed number are out of bounds of any array.
            let most = self.scalar(frame, ElementType::U64, Scalar::Uint(i64::MAX as u64))?;
            let most = self.filled(frame, most, &array.dims)?;
            let index = self.binary(frame, Binary::Minimum, index, most)?;
            return self.push(
                frame,
                Op::Convert,
                &[index],
                Some(Shape::Array(array.with_element_type(ty))),
            );
        }
        self.push(
            frame,
            Op::Convert,
            &[index],
            Some(Shape::Array(array.with_element_type(ty))),
        )
    }

    /// A scalar constant in the type of another value.
    fn in_type_of(
        &mut self,
        frame: &mut Frame,
        id: DraftId,
        other: DraftId,
    ) -> Result<DraftId, Error> {
        let ty = frame.array(other).element_type;
        match frame.array(id).element_type == ty {
            true => Ok(id),
            false => self.push(frame, Op::Convert, &[id], Some(Shape::array(ty, &[]))),
        }
    }

    /// `dynamic-update-slice`: writes the elements of the update that fall into this device's part.
    fn updated(
        &mut self,
        frame: &mut Frame,
        operands: &[DraftId],
        here: &Here,
    ) -> Result<DraftId, Error> {
        let (array, update) = (operands[0], operands[1]);
        let count = frame
            .array(update)
            .dims
            .get(here.dim)
            .and_then(Dim::as_static)
            .unwrap_or(0);
        let index = self.clamped(frame, operands[2 + here.dim], here.size - count)?;
        let start = self.in_type_of(frame, here.start, index)?;
        // Element i of the part becomes element `from + i` of the update.
        let from = self.binary(frame, Binary::Subtract, start, index)?;
        let padded = self.padded(frame, update, here.dim, (here.part, here.part), None)?;
        let part = self.scalar(
            frame,
            frame.array(from).element_type,
            Scalar::Int(here.part),
        )?;
        let offset = self.binary(frame, Binary::Add, from, part)?;
        let new = self.dynamic_slice(frame, padded, here.dim, offset, here.part)?;
        let mut sizes: DimNumbers = DimNumbers::new();
        for dim in &frame.array(new).dims {
            sizes.push(dim.as_static().unwrap_or(tegula_ir::TO_END));
        }
        let zero = self.scalar(
            frame,
            frame.array(operands[2 + here.dim]).element_type,
            Scalar::Int(0),
        )?;
        let mut starts = operands[2..].to_vec();
        starts[here.dim] = zero;
        let mut read = vec![array];
        read.extend(&starts);
        let old = self.push(frame, Op::DynamicSlice(sizes), &read, None)?;
        let dims = frame.array(new).dims;
        let inside = self.inside(frame, &dims, here.dim, from, 0..count)?;
        let new = self.push(frame, Op::Select, &[inside, new, old], None)?;
        let mut written = vec![array, new];
        written.extend(&starts);
        self.push(frame, Op::DynamicUpdateSlice, &written, None)
    }

    /// `dynamic-slice`: the elements of the slice that this device owns, and zeros elsewhere.
    fn sliced(
        &mut self,
        frame: &mut Frame,
        operands: &[DraftId],
        sizes: &DimNumbers,
        here: &Here,
    ) -> Result<DraftId, Error> {
        let count = sizes.get(here.dim).copied().unwrap_or(0);
        let index = self.clamped(frame, operands[1 + here.dim], here.size - count)?;
        let start = self.in_type_of(frame, here.start, index)?;
        let from = self.binary(frame, Binary::Subtract, index, start)?;
        // Elements after the end of the whole array are never read.
        let padded = self.padded(frame, operands[0], here.dim, (count, count), None)?;
        let low = self.scalar(frame, frame.array(from).element_type, Scalar::Int(count))?;
        let offset = self.binary(frame, Binary::Add, from, low)?;
        let mut all = vec![padded];
        for start in &operands[1..] {
            all.push(self.signed(frame, *start)?);
        }
        all[1 + here.dim] = offset;
        self.push(frame, Op::DynamicSlice(sizes.clone()), &all, None)
    }

    /// `scatter`: the indices become relative to this device's part.
    fn scattered(
        &mut self,
        frame: &mut Frame,
        node: &Node,
        op: Op,
        mut operands: Vec<DraftId>,
        here: &Here,
        plan: &Plan,
    ) -> Result<Vec<DraftId>, Error> {
        let Op::Scatter { dims, .. } = &op else {
            return Err(self.bug("expected a scatter"));
        };
        let count = operands.len() / 2;
        let own = dims
            .scatter_dims_to_operand_dims
            .iter()
            .position(|dim| *dim == number(here.dim));
        let component = own
            .ok_or_else(|| self.bug("expected an index component for the partitioned dimension"))?;
        let indices = self.signed(frame, operands[count])?;
        let offset =
            self.component_offset(frame, indices, dims.index_vector_dim, component, here)?;
        operands[count] = self.binary(frame, Binary::Subtract, indices, offset)?;
        let shape = super::local::part_shape(&node.shape, &plan.result);
        let id = self.push(frame, op, &operands, Some(shape))?;
        self.leaves_of(frame, id)
    }

    /// The offset that is subtracted from each number of the indices: the start of this device's
    /// part for one component, and 0 for others.
    fn component_offset(
        &mut self,
        frame: &mut Frame,
        indices: DraftId,
        vector: i64,
        component: usize,
        here: &Here,
    ) -> Result<DraftId, Error> {
        let array = frame.array(indices);
        let start = self.in_type_of(frame, here.start, indices)?;
        let start = self.filled(frame, start, &array.dims)?;
        let vector = usize::try_from(vector).unwrap_or(usize::MAX);
        if vector >= array.rank() {
            return Ok(start);
        }
        let is_own = self.is_component(frame, &array, vector, component)?;
        let zero = self.zero(frame, array.element_type)?;
        let zeros = self.filled(frame, zero, &array.dims)?;
        self.push(frame, Op::Select, &[is_own, start, zeros], None)
    }

    fn is_component(
        &mut self,
        frame: &mut Frame,
        array: &ArrayShape,
        vector: usize,
        component: usize,
    ) -> Result<DraftId, Error> {
        let zero = self.scalar(frame, ElementType::S32, Scalar::Int(0))?;
        let own = number(component);
        self.inside(frame, &array.dims, vector, zero, own..own + 1)
    }

    /// `gather`: the rows that this device owns, and zeros for the others.
    fn gathered_rows(
        &mut self,
        frame: &mut Frame,
        node: &Node,
        op: Op,
        operands: &[DraftId],
        here: &Here,
        plan: &Plan,
    ) -> Result<DraftId, Error> {
        let Op::Gather { dims, .. } = &op else {
            return Err(self.bug("expected a gather"));
        };
        let own = dims
            .start_index_map
            .iter()
            .position(|dim| *dim == number(here.dim));
        let component = own
            .ok_or_else(|| self.bug("expected an index component for the partitioned dimension"))?;
        let indices = self.signed(frame, operands[1])?;
        let array = frame.array(indices);
        let clamped = self.clamped(frame, indices, here.size - 1)?;
        let offset =
            self.component_offset(frame, indices, dims.index_vector_dim, component, here)?;
        let moved = self.binary(frame, Binary::Subtract, clamped, offset)?;
        let vector = usize::try_from(dims.index_vector_dim).unwrap_or(usize::MAX);
        let (indices, wanted) = match vector >= array.rank() {
            true => (moved, moved),
            false => {
                let is_own = self.is_component(frame, &array, vector, component)?;
                let indices = self.push(frame, Op::Select, &[is_own, moved, indices], None)?;
                let slice = array
                    .dims
                    .iter()
                    .enumerate()
                    .map(|(dim, size)| match dim == vector {
                        true => SliceDim {
                            start: number(component),
                            limit: number(component) + 1,
                            stride: 1,
                        },
                        false => SliceDim {
                            start: 0,
                            limit: size.as_static().unwrap_or(tegula_ir::TO_END),
                            stride: 1,
                        },
                    });
                let wanted = self.push(frame, Op::Slice(slice.collect()), &[moved], None)?;
                let mut shape = array.clone();
                shape.dims.remove(vector);
                shape.layout = None;
                (
                    indices,
                    self.push(frame, Op::Reshape, &[wanted], Some(Shape::Array(shape)))?,
                )
            }
        };
        let offset_dims = dims.offset_dims.clone();
        let shape = part_of_result(node, plan);
        let id = self.push(
            frame,
            op,
            &[operands[0], indices],
            Some(Shape::Array(shape.clone())),
        )?;
        let batch = frame.array(wanted);
        let bound = |emitter: &Self, frame: &mut Frame, value: i64| {
            let value = emitter.scalar(frame, batch.element_type, Scalar::Int(value))?;
            emitter.filled(frame, value, &batch.dims)
        };
        let (low, high) = (bound(self, frame, 0)?, bound(self, frame, here.part)?);
        let above = self.compare(frame, tegula_ir::Direction::Ge, wanted, low)?;
        let below = self.compare(frame, tegula_ir::Direction::Lt, wanted, high)?;
        let inside = self.binary(frame, Binary::And, above, below)?;
        let places: DimNumbers = (0..shape.rank())
            .map(number)
            .filter(|dim| !offset_dims.contains(dim))
            .collect();
        let mask = Shape::Array(shape.with_element_type(ElementType::Pred));
        let inside = self.push(frame, Op::Broadcast(places), &[inside], Some(mask))?;
        let zero = self.zero(frame, shape.element_type)?;
        let zeros = self.filled(frame, zero, &shape.dims)?;
        self.push(frame, Op::Select, &[inside, id, zeros], None)
    }

    /// Combines the bits of all devices that hold different parts.
    fn joined_bits(
        &mut self,
        frame: &mut Frame,
        array: DraftId,
        plan: &Plan,
        indexed: &Indexed,
        node: &Node,
    ) -> Result<DraftId, Error> {
        let scope = self.scope(self.scope_of(node)).clone();
        let groups = self.groups_of_parts(plan, &indexed.cut, &scope)?;
        let shape = frame.array(array);
        let bits = bits_type(shape.element_type).ok_or_else(|| {
            self.bug("expected an element type that can be reinterpreted as an unsigned integer")
        })?;
        self.reason = "each device holds some of the gathered elements".to_owned();
        if bits == shape.element_type {
            return self.all_reduce(frame, array, Binary::Or, &groups);
        }
        let as_bits = Shape::Array(shape.with_element_type(bits));
        let array = self.push(frame, Op::BitcastConvert, &[array], Some(as_bits))?;
        let array = self.all_reduce(frame, array, Binary::Or, &groups)?;
        self.push(
            frame,
            Op::BitcastConvert,
            &[array],
            Some(Shape::Array(shape)),
        )
    }
}

/// The position of this device's part of a dimension.
struct Here {
    dim: usize,
    size: i64,
    part: i64,
    start: DraftId,
}

fn part_of_result(node: &Node, plan: &Plan) -> ArrayShape {
    let array = node.shape.as_array().cloned();
    let array = array.unwrap_or_else(|| ArrayShape::new(ElementType::Pred, &[]));
    super::local::part_of(&array, &plan.result)
}
