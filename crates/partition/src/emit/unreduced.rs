//! Arrays of which devices have partial results (`unreduced` axes of Shardy).
//!
//! A value is what all of them are together. It is combined when it is first needed so; where its
//! partial results are taken as they are, it never is. An array becomes partial results by one device
//! keeping it and the others having what changes nothing.

use super::{Emitter, Frame};
use crate::error::Error;
use crate::graph::ValueId;
use crate::read::Unreduced;
use crate::sharding::Sharding;
use tegula_ir::{Binary, Direction, DraftId, ElementType, Op, Scalar};

impl Emitter<'_> {
    /// Combines the partial results of a value, if devices have only those.
    pub(super) fn combine(&mut self, frame: &mut Frame, value: ValueId) -> Result<(), Error> {
        let Some(unreduced) = frame.partial.remove(&value) else {
            return Ok(());
        };
        if let Some(mut local) = frame.values.get(&value).cloned() {
            self.reason = "partial results that the program left apart".to_owned();
            local.id = self.all_reduce(frame, local.id, unreduced.op, &unreduced.groups)?;
            frame.values.insert(value, local);
        }
        Ok(())
    }

    /// The partial results of a value, which is cut so.
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
        let whole = self.wanted(frame, value, target)?;
        let mut keeps = vec![0; self.graph.devices];
        for first in unreduced.groups.iter().filter_map(|group| group.first()) {
            let place = usize::try_from(*first).ok();
            if let Some(own) = place.and_then(|place| keeps.get_mut(place)) {
                *own = 1;
            }
        }
        let array = frame.array(whole);
        let keeps = self.by_device(frame, &keeps)?;
        let one = self.scalar(frame, ElementType::S32, Scalar::Int(1))?;
        let keeps = self.compare(frame, Direction::Eq, keeps, one)?;
        let keeps = self.filled(frame, keeps, &array.dims)?;
        let nothing = match unreduced.op {
            // Users see these arrays, and the identity of a sum is minus zero.
            Binary::Add => self.zero(frame, array.element_type)?,
            op => self.identity(frame, op, array.element_type)?,
        };
        let nothing = self.filled(frame, nothing, &array.dims)?;
        self.push(frame, Op::Select, &[keeps, whole, nothing], None)
    }
}
