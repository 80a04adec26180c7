//! Constants and iotas: each device creates its own part.

use super::local::part_of;
use super::{Emitter, Frame, Local};
use crate::error::Error;
use crate::graph::Node;
use crate::sharding::Sharding;
use tegula_ir::{ArrayShape, Binary, Dim, ElementType, Literal, Op, Shape};

impl Emitter<'_> {
    /// Partitions constants and iotas: each device creates its own part.
    pub(super) fn made_of_nothing(
        &mut self,
        frame: &mut Frame,
        node: &Node,
    ) -> Result<Option<Local>, Error> {
        let &[value] = node.results.as_slice() else {
            return Ok(None);
        };
        let target = self.found.sharding(value).clone();
        let array = self.array_of(value);
        let part = part_of(&array, &target);
        let id = match &node.op {
            Op::Constant(literals) => {
                let [literal] = &literals[..] else {
                    return Ok(None);
                };
                let element = literal
                    .uniform_element()
                    .filter(|_| !target.is_replicated());
                let Some(element) = element else {
                    let id = self.push(frame, node.op.clone(), &[], Some(Shape::Array(array)))?;
                    let whole = Local {
                        id,
                        sharding: Sharding::replicated(target.rank(), target.devices()),
                    };
                    let scope = self.scope_of(node);
                    return self
                        .reshard(frame, &whole, &target, &self.dims_of(value), scope)
                        .map(Some);
                };
                let scalar = ArrayShape::new(literal.element_type(), &[]);
                let scalar_literal = Literal::from_bytes(&scalar, element);
                let scalar_literal = scalar_literal.map_err(|_| {
                    self.bug("the element of a splat constant does not fit its type")
                })?;
                let op = Op::Constant([scalar_literal].into());
                let element = self.push(frame, op, &[], Some(Shape::Array(scalar)))?;
                self.filled(frame, element, &part.dims)?
            }
            Op::Iota(dim) => {
                let along = usize::try_from(*dim).unwrap_or(usize::MAX);
                match target.cut(along) {
                    None => self.push(frame, node.op.clone(), &[], Some(Shape::Array(part)))?,
                    Some(cut) => {
                        let size = array.dims.get(along).and_then(Dim::as_static).unwrap_or(0);
                        let start = self.by_device(frame, &cut.starts(size))?;
                        let index = Shape::Array(part.with_element_type(ElementType::S32));
                        let index = self.push(frame, node.op.clone(), &[], Some(index))?;
                        let start = self.filled(frame, start, &part.dims)?;
                        let index = self.binary(frame, Binary::Add, index, start)?;
                        match part.element_type {
                            ElementType::S32 => index,
                            _ => {
                                self.push(frame, Op::Convert, &[index], Some(Shape::Array(part)))?
                            }
                        }
                    }
                }
            }
            _ => return Ok(None),
        };
        Ok(Some(Local {
            id,
            sharding: target,
        }))
    }
}
