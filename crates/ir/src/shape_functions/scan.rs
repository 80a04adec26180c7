//! The shape function of `scan`, a loop along one dimension of its inputs.

use super::context::{Context, Inferred, ShapeOf, without_layouts};
use crate::{ArrayShape, ComputationId, Dim, Shape};
use tegula_expr::Provider;

impl<P: Provider> Context<'_, P> {
    /// The result of the step, with the scanned dimension inserted in everything but the carries.
    pub(super) fn scan(
        &mut self,
        dimension: i64,
        carries: i64,
        step: ComputationId,
    ) -> Inferred<P::Index> {
        let carries = usize::try_from(carries).ok();
        let inputs = carries.and_then(|carries| self.operands.len().checked_sub(carries));
        let Some((carries, inputs)) = carries.zip(inputs) else {
            return Err(self.error("the scan has fewer operands or results than `num_carries`"));
        };
        let given = self.result_of(step)?;
        let given = given.as_tuple().unwrap_or(std::slice::from_ref(given));
        let Some(outputs) = given.len().checked_sub(carries) else {
            return Err(self.error("the step returns fewer values than `num_carries`"));
        };
        if inputs + outputs == 0 {
            return Err(self.error("expected at least one input or output to scan"));
        }
        let size = self.scanned_size(dimension, inputs)?;
        let mut shapes = Vec::with_capacity(given.len());
        for (number, shape) in given.iter().enumerate() {
            let mut shape = without_layouts(shape);
            let place = usize::try_from(dimension).unwrap_or(usize::MAX);
            match &mut shape {
                _ if number >= outputs => {}
                Shape::Array(array) if place <= array.rank() => {
                    array.dims.insert(place, size.clone());
                }
                _ => return Err(self.error("an output lacks the scanned dimension")),
            }
            shapes.push(shape);
        }
        match (shapes.len(), self.result_of(step)?.as_tuple()) {
            (1, None) => Ok(ShapeOf::Same(shapes.swap_remove(0))),
            _ => Ok(ShapeOf::Same(Shape::Tuple(shapes))),
        }
    }

    /// The size of the scanned dimension, which is the same in all inputs. Without inputs, it is
    /// that of the first output as the instruction states it.
    fn scanned_size(&mut self, dimension: i64, inputs: usize) -> Result<Dim, crate::Error> {
        for input in 0..inputs {
            self.dimension(input, dimension)?;
        }
        let place = usize::try_from(dimension).unwrap_or(usize::MAX);
        for input in 1..inputs {
            let (a, b) = (
                self.provider.shape(0, place),
                self.provider.shape(input, place),
            );
            self.same(&a, &b, "sizes of the scanned dimension")?;
        }
        let array: Option<&ArrayShape> = match inputs {
            0 => {
                let stated = self.stated()?;
                let first = stated.as_tuple().and_then(<[Shape]>::first);
                first.unwrap_or(stated).as_array()
            }
            _ => Some(self.array(0)?),
        };
        let size = array.and_then(|array| array.dims.get(place)).cloned();
        size.ok_or_else(|| self.error("the first output lacks the scanned dimension"))
    }
}
