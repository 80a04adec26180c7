//! Combines partial results of devices.

use super::local::part_of;
use super::plan::Plan;
use super::reshard::part_bytes;
use super::{Emitter, Frame, Local, cost, number};
use crate::axes::Combination;
use crate::error::Error;
use crate::graph::{Node, ValueId};
use crate::sharding::{Cut, Sharding};
use tegula_ir::{
    ArrayShape, Binary, Dim, DimNumbers, Direction, DraftId, ElementType, FloatFormat, Literal, Op,
    Scalar, Shape,
};

/// The largest or the smallest value of a floating-point type: an infinity, if it has one.
fn extreme_float(ty: ElementType, highest: bool) -> f64 {
    let format = ty.float_format();
    let finite = format.filter(|format| format.infinity_code().is_none());
    let largest = finite.map_or(f64::INFINITY, FloatFormat::largest);
    match finite {
        _ if highest => largest,
        Some(format) if format.sign_mask() == 0 => format.decode(0),
        _ => -largest,
    }
}

impl Emitter<'_> {
    /// Combines the partial results of all devices.
    pub(super) fn combined(
        &mut self,
        frame: &mut Frame,
        value: usize,
        plan: &Plan,
        (id, op, cut): (DraftId, Binary, &Cut),
        scope: &Cut,
    ) -> Result<Local, Error> {
        let array = self.array_of(value);
        let wanted = self.found.sharding(value).clone();
        let groups = self.groups_of_parts(plan, cut, scope)?;
        if let Some(unreduced) = self.graph.wanted_partial.get(&value)
            && unreduced.op == op
            && plan.result == wanted
            && is_same(&groups, &unreduced.groups)
        {
            frame.partial.insert(value, unreduced.clone());
            return Ok(Local {
                id,
                sharding: wanted,
            });
        }
        self.reason = "the devices hold partial results".to_owned();
        if let Some((dim, cut)) = scattered_dim(plan, &wanted, &array) {
            let bytes = part_bytes(&plan.result, &array);
            self.exchanged("reduce-scatter", cost::scatter(bytes, cut.parts()));
            let sharding = plan.result.with(dim, Some(cut));
            let shape = Shape::Array(part_of(&array, &sharding));
            let op = Op::ReduceScatter {
                collective: self.collective(&groups),
                dimension: number(dim),
                to_apply: self.reducer(op, array.element_type)?,
            };
            let id = self.push(frame, op, &[id], Some(shape))?;
            return Ok(Local { id, sharding });
        }
        let id = self.all_reduce(frame, id, op, &groups)?;
        Ok(Local {
            id,
            sharding: plan.result.clone(),
        })
    }

    /// The results of a reduction that selects candidates: each device gathers the candidates of
    /// all parts, in order, and reduces them. `made` are the device's own results, and the
    /// operands.
    pub(super) fn selected(
        &mut self,
        frame: &mut Frame,
        node: &Node,
        plan: &Plan,
        (made, operands): (&[DraftId], &[DraftId]),
        cut: &Cut,
    ) -> Result<Vec<Local>, Error> {
        let Op::Reduce { to_apply, .. } = node.op else {
            return Err(self.bug("expected a reduce that selects one of several candidates"));
        };
        let scope = self.scope(self.scope_of(node)).clone();
        let groups = self.groups_of_parts(plan, cut, &scope)?;
        self.reason = "each part has its own candidates for the selected element".to_owned();
        let mut all = Vec::new();
        for id in made {
            let mut shape = frame.array(*id);
            shape.dims.insert(0, Dim::Static(1));
            shape.layout = None;
            let bytes = shape.representative().byte_size().unwrap_or(0);
            let own = self.push(frame, Op::Reshape, &[*id], Some(Shape::Array(shape)))?;
            let all_bytes = bytes.saturating_mul(cut.parts());
            self.exchanged("all-gather", cost::all_gather(all_bytes, cut.parts()));
            all.push(self.all_gather(frame, own, 0, &groups)?);
        }
        all.extend_from_slice(operands.get(made.len()..).unwrap_or_default());
        let op = Op::Reduce {
            dimensions: DimNumbers::from_slice(&[0]),
            to_apply: self.copied(to_apply)?,
        };
        let shape = super::local::part_shape(&node.shape, &plan.result);
        let id = self.push(frame, op, &all, Some(shape))?;
        let local = |id| Local {
            id,
            sharding: plan.result.clone(),
        };
        Ok(self.leaves_of(frame, id)?.into_iter().map(local).collect())
    }

    /// Groups of devices that hold different parts along the combined dimension, in order, and the
    /// same part of the result.
    pub(super) fn groups_of_parts(
        &self,
        plan: &Plan,
        cut: &Cut,
        scope: &Cut,
    ) -> Result<Vec<Vec<i64>>, Error> {
        let result = plan.result.cuts().iter().cloned();
        let with_parts = Sharding::new(self.graph.devices, result.chain([Some(cut.clone())]));
        self.part_groups(&with_parts, plan.result.rank(), None, scope)
    }

    /// Combines a sum with its initial value; if devices hold partial sums, on only one device of
    /// each group.
    pub(super) fn begun_with(
        &mut self,
        frame: &mut Frame,
        (value, local): (ValueId, Local),
        begin: Option<DraftId>,
        op: Binary,
    ) -> Result<Local, Error> {
        let Some(mut begin) = begin else {
            return Ok(local);
        };
        if let Some(unreduced) = frame.partial.get(&value).cloned() {
            let ty = frame.array(begin).element_type;
            let nothing = self.identity(frame, op, ty)?;
            let is_first = self.is_first(frame, &unreduced)?;
            begin = self.push(frame, Op::Select, &[is_first, begin, nothing], None)?;
        }
        let dims = frame.array(local.id).dims;
        let begin = self.filled(frame, begin, &dims)?;
        let id = self.binary(frame, op, begin, local.id)?;
        Ok(Local { id, ..local })
    }

    /// The array on devices that have the first part of a cut, and the identity of a combining
    /// operation on the others, so that the array is in the combined result once.
    pub(super) fn on_first_part(
        &mut self,
        frame: &mut Frame,
        array: DraftId,
        op: Binary,
        cut: &Cut,
    ) -> Result<DraftId, Error> {
        let shape = frame.array(array);
        let place = self.by_device(frame, cut.places())?;
        let first = self.zero(frame, frame.array(place).element_type)?;
        let is_first = self.compare(frame, Direction::Eq, place, first)?;
        let identity = self.identity(frame, op, shape.element_type)?;
        let nothing = self.filled(frame, identity, &shape.dims)?;
        self.push(frame, Op::Select, &[is_first, array, nothing], None)
    }

    /// The identity element of a combining operation.
    pub(super) fn identity(
        &mut self,
        frame: &mut Frame,
        op: Binary,
        ty: ElementType,
    ) -> Result<DraftId, Error> {
        let bits = |ones: bool| {
            let mut literal = Literal::zeros(&ArrayShape::new(ty, &[])).ok()?;
            if ones {
                literal
                    .bytes_mut()
                    .fill(if ty == ElementType::Pred { 1 } else { 0xff });
            }
            Some(literal)
        };
        let extreme = |highest: bool| {
            let value = match (ty.is_float(), ty.is_signed()) {
                (true, _) => Scalar::Float(extreme_float(ty, highest)),
                (false, true) => {
                    let shift = 64 - ty.bits();
                    Scalar::Int(if highest {
                        i64::MAX >> shift
                    } else {
                        i64::MIN >> shift
                    })
                }
                (false, false) if ty == ElementType::Pred => Scalar::Bool(highest),
                (false, false) => Scalar::Uint(if highest {
                    u64::MAX >> (64 - ty.bits())
                } else {
                    0
                }),
            };
            Literal::from_scalars(&ArrayShape::new(ty, &[]), [value]).ok()
        };
        let one = || match ty {
            ElementType::Pred => Some(Scalar::Bool(true)),
            ty if ty.is_float() => Some(Scalar::Float(1.0)),
            _ => Some(Scalar::Int(1).convert(ty)),
        };
        let literal = match op {
            Binary::Multiply => {
                one().and_then(|one| Literal::from_scalars(&ArrayShape::new(ty, &[]), [one]).ok())
            }
            Binary::And => bits(true),
            Binary::Maximum => extreme(false),
            Binary::Minimum => extreme(true),
            // Adding minus zero leaves every float unchanged; adding zero changes minus zero.
            Binary::Add if ty.is_float() => {
                Literal::from_scalars(&ArrayShape::new(ty, &[]), [Scalar::Float(-0.0)]).ok()
            }
            _ => bits(false),
        };
        let literal = literal
            .ok_or_else(|| self.bug("the element type has no identity for the reduction"))?;
        let shape = Shape::array(ty, &[]);
        self.push(frame, Op::Constant([literal].into()), &[], Some(shape))
    }
}

/// Whether two lists contain the same groups of devices.
fn is_same(a: &[Vec<i64>], b: &[Vec<i64>]) -> bool {
    let sorted = |groups: &[Vec<i64>]| {
        let mut groups = groups.to_vec();
        groups.iter_mut().for_each(|group| group.sort_unstable());
        groups.sort();
        groups
    };
    sorted(a) == sorted(b)
}

/// A dimension along which the partial results can be reduce-scattered: its requested cut divides
/// it among the devices that hold the partial results.
pub(super) fn scattered_dim(
    plan: &Plan,
    wanted: &Sharding,
    array: &ArrayShape,
) -> Option<(usize, Cut)> {
    let (Combination::By(_), cut) = plan.contracted()? else {
        return None;
    };
    let mut dims = 0..wanted.rank();
    let dim = dims.find(|&dim| {
        let size = array.dims.get(dim).and_then(Dim::as_static);
        plan.result.cut(dim).is_none()
            && wanted.cut(dim) == Some(&cut)
            && size.is_some_and(|size| cut.divides(size))
    })?;
    Some((dim, cut))
}
