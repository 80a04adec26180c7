//! Unreduced arrays, of which devices hold partial results (Shardy's `unreduced` axes).
//!
//! The value is the combination of all partial results. They are combined when the value is first
//! needed as a whole; if only the partial results are used, they never are. To convert a whole
//! array to partial results, one device keeps it and the others hold the identity element.

use super::{Emitter, Frame};
use crate::error::Error;
use crate::graph::ValueId;
use crate::read::Unreduced;
use crate::sharding::Sharding;
use tegula_ir::{Binary, Dim, Direction, DraftId, ElementType, Op, Scalar};

impl Emitter<'_> {
    /// Combines the partial results of a value, if it is unreduced.
    pub(super) fn combine(&mut self, frame: &mut Frame, value: ValueId) -> Result<(), Error> {
        let Some(unreduced) = frame.partial.remove(&value) else {
            return Ok(());
        };
        if let Some(mut local) = frame.values.get(&value).cloned() {
            self.reason = "the program's sharding left partial results on the devices".to_owned();
            local.id = self.all_reduce(frame, local.id, unreduced.op, &unreduced.groups)?;
            frame.values.insert(value, local);
        }
        Ok(())
    }

    /// The partial results of a value for this sharding.
    pub(super) fn partial(
        &mut self,
        frame: &mut Frame,
        value: ValueId,
        target: &Sharding,
        unreduced: &Unreduced,
    ) -> Result<DraftId, Error> {
        if frame.partial.get(&value) == Some(unreduced)
            && let Some(local) = frame.values.get(&value)
            && local.sharding == *target
        {
            return Ok(local.id);
        }
        self.combine(frame, value)?;
        if let Some(own) = self.placed(frame, value, target, unreduced)? {
            return Ok(own);
        }
        let whole = self.wanted(frame, value, target)?;
        let array = frame.array(whole);
        let keeps = self.is_first(frame, unreduced)?;
        let keeps = self.filled(frame, keeps, &array.dims)?;
        let nothing = match unreduced.op {
            // Users see these arrays, so a sum gets zeros, although the exact identity is minus
            // zero.
            Binary::Add => self.zero(frame, array.element_type)?,
            op => self.identity(frame, op, array.element_type)?,
        };
        let nothing = self.filled(frame, nothing, &array.dims)?;
        self.push(frame, Op::Select, &[keeps, whole, nothing], None)
    }

    /// Whether this device is the first of its group.
    pub(super) fn is_first(
        &mut self,
        frame: &mut Frame,
        unreduced: &Unreduced,
    ) -> Result<DraftId, Error> {
        let mut firsts = vec![0; self.graph.devices];
        for first in unreduced.groups.iter().filter_map(|group| group.first()) {
            let place = usize::try_from(*first).ok();
            if let Some(own) = place.and_then(|place| firsts.get_mut(place)) {
                *own = 1;
            }
        }
        let own = self.by_device(frame, &firsts)?;
        let one = self.scalar(frame, ElementType::S32, Scalar::Int(1))?;
        self.compare(frame, Direction::Eq, own, one)
    }

    /// If the devices of each group hold all parts of one dimension of a sum: places each device's
    /// part among zeros, which needs no exchange.
    fn placed(
        &mut self,
        frame: &mut Frame,
        value: ValueId,
        target: &Sharding,
        unreduced: &Unreduced,
    ) -> Result<Option<DraftId>, Error> {
        let Some(local) = frame.values.get(&value).cloned() else {
            return Ok(None);
        };
        let own = &local.sharding;
        let others = (0..own.rank()).filter(|dim| own.cut(*dim) != target.cut(*dim));
        let others: Vec<usize> = others.collect();
        let &[dim] = others.as_slice() else {
            return Ok(None);
        };
        let (Some(cut), None, Binary::Add) = (own.cut(dim), target.cut(dim), unreduced.op) else {
            return Ok(None);
        };
        let are_all_there = unreduced.groups.iter().all(|group| {
            let places = group
                .iter()
                .filter_map(|device| usize::try_from(*device).ok());
            let mut places: Vec<i64> = places.map(|device| cut.place(device)).collect();
            places.sort_unstable();
            places.into_iter().eq(0..cut.parts())
        });
        let size = self.graph.values[value].size(dim);
        let Some(size) = size.filter(|size| are_all_there && cut.divides(*size)) else {
            return Ok(None);
        };
        let part = cut.part_size(size);
        let starts: Vec<i64> = cut.places().iter().map(|place| place * part).collect();
        let mut whole = frame.array(local.id);
        if let Some(own) = whole.dims.get_mut(dim) {
            *own = Dim::Static(size);
        }
        let zero = self.zero(frame, whole.element_type)?;
        let zeros = self.filled(frame, zero, &whole.dims)?;
        let start = self.by_device(frame, &starts)?;
        let origin = self.scalar(frame, ElementType::S32, Scalar::Int(0))?;
        let mut operands = vec![zeros, local.id];
        operands.extend((0..whole.dims.len()).map(|own| if own == dim { start } else { origin }));
        self.push(frame, Op::DynamicUpdateSlice, &operands, None)
            .map(Some)
    }
}
