//! Custom calls that one device executes for all: those with side effects, and those that the
//! program places on one device.
//!
//! Outside of a manual computation, the program specifies a single call, so it must be executed
//! once. A conditional selects the device that executes it, and the results are broadcast.

use super::{Emitter, Frame, Local};
use crate::error::Error;
use crate::graph::Node;
use crate::sharding::{Cut, Sharding};
use std::sync::Arc;
use tegula_ir::{ComputationId, Direction, DraftId, ElementType, Op, Scalar, Shape};

impl Emitter<'_> {
    /// Emits the call on the first device of each part of the scope.
    pub(super) fn once(&mut self, frame: &mut Frame, node: &Node) -> Result<(), Error> {
        let devices = self.graph.devices;
        let mut operands = Vec::new();
        for (number, value) in node.operands.iter().enumerate() {
            let whole = Sharding::replicated(self.graph.values[*value].rank(), devices);
            self.reason = format!("one device executes the call and needs operand {number}");
            operands.push(self.wanted(frame, *value, &whole)?);
        }
        let operands = self.as_stated(frame, node, operands)?;
        let given = self.push(frame, Op::Tuple, &operands, None)?;
        let shape = frame.draft.shape(given).clone();
        let groups = groups(self.scope(self.scope_of(node)));
        let calls = self.calling(node, &shape)?;
        let waits = self.waiting(node, &shape)?;
        let mut is_first = vec![0; devices];
        for first in groups.iter().filter_map(|group| group.first()) {
            if let Some(own) = usize::try_from(*first)
                .ok()
                .and_then(|at| is_first.get_mut(at))
            {
                *own = 1;
            }
        }
        let own = self.by_device(frame, &is_first)?;
        let one = self.scalar(frame, ElementType::S32, Scalar::Int(1))?;
        let own = self.compare(frame, Direction::Eq, own, one)?;
        let op = Op::Conditional {
            branches: vec![calls, waits],
            predicated: true,
        };
        let made = self.push(frame, op, &[own, given, given], Some(node.shape.clone()))?;
        self.note("one device executes the call and sends the result to all");
        let leaves = self.leaves_of(frame, made)?;
        for (value, id) in node.results.iter().zip(leaves) {
            let Some(array) = self.graph.values[*value].shape.as_array().cloned() else {
                let sharding = self.found.sharding(*value).clone();
                frame.values.insert(*value, Local { id, sharding });
                continue;
            };
            let bytes = array.representative().byte_size().unwrap_or(0);
            let op = Op::CollectiveBroadcast(self.collective_of_partitions(&groups));
            self.reason = "only the device that executed the call has its result".to_owned();
            self.exchanged("collective-broadcast", bytes);
            let dims = array.dims.clone();
            let whole = Local {
                id: self.push(frame, op, &[id], Some(Shape::Array(array)))?,
                sharding: Sharding::replicated(dims.len(), devices),
            };
            let target = self.found.sharding(*value).clone();
            let scope = self.scope_of(node);
            let local = self.reshard(frame, &whole, &target, &dims, scope)?;
            frame.values.insert(*value, local);
        }
        Ok(())
    }

    /// The branch of the device that executes the call.
    fn calling(&mut self, node: &Node, given: &Shape) -> Result<ComputationId, Error> {
        let mut frame = Frame::new(&format!("{}.call", self.site));
        let parameter = frame.draft.parameter(given.clone(), None);
        let mut operands = Vec::new();
        for at in 0..given.as_tuple().map_or(0, <[Shape]>::len) {
            operands.push(self.push(
                &mut frame,
                Op::GetTupleElement(at as i64),
                &[parameter],
                None,
            )?);
        }
        let made = self.push(
            &mut frame,
            node.op.clone(),
            &operands,
            Some(node.shape.clone()),
        )?;
        self.annotate(&mut frame, node, made);
        self.finished(frame, made)
    }

    /// The branch of the other devices, whose results are not used.
    fn waiting(&mut self, node: &Node, given: &Shape) -> Result<ComputationId, Error> {
        let mut frame = Frame::new(&format!("{}.wait", self.site));
        frame.draft.parameter(given.clone(), None);
        let mut leaves = Vec::new();
        for value in &node.results {
            leaves.push(match self.graph.values[*value].shape.as_array() {
                Some(array) => {
                    let zero = self.zero(&mut frame, array.element_type)?;
                    self.filled(&mut frame, zero, &array.dims)?
                }
                None => self.push(&mut frame, Op::AfterAll, &[], Some(Shape::Token))?,
            });
        }
        let made = self.tuple_of(&mut frame, &node.shape, &mut leaves.into_iter())?;
        self.finished(frame, made)
    }

    fn finished(&mut self, frame: Frame, root: DraftId) -> Result<ComputationId, Error> {
        let site = Arc::clone(&self.site);
        let finished = frame.draft.finish(&mut self.builder, root);
        finished.map_err(|error| Error::build(&site, error))
    }
}

/// The devices of each part of a scope.
fn groups(scope: &Cut) -> Vec<Vec<i64>> {
    let devices = 0..scope.devices();
    let of = |part: i64| {
        let members = devices
            .clone()
            .filter(|device| scope.place(*device) == part);
        members.map(|device| device as i64).collect()
    };
    (0..scope.parts()).map(of).collect()
}
