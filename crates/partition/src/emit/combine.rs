//! Partial results of devices, combined.

use super::local::part_of;
use super::plan::Plan;
use super::reshard::part_bytes;
use super::{Emitter, Frame, Local, cost, number};
use crate::error::Error;
use crate::graph::ValueId;
use crate::sharding::{Cut, Sharding};
use tegula_ir::{
    ArrayShape, Binary, Dim, DraftId, ElementType, FloatFormat, Literal, Op, Scalar, Shape,
};

/// The largest or the smallest number of a type of floats: infinity, where there is one.
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
    /// Everyone's partial results, combined.
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
        // Those who have different parts of what is summed, and the same part of the result.
        let rank = plan.result.rank();
        let with_sum = Sharding::new(
            self.graph.devices,
            plan.result
                .cuts()
                .iter()
                .cloned()
                .chain([Some(cut.clone())]),
        );
        let groups = self.part_groups(&with_sum, rank, None, scope)?;
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
        self.reason = "partial results".to_owned();
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

    /// A sum, combined with what it begins with: on one device of each group where devices have
    /// partial sums.
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

    /// What changes nothing that it is combined with.
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
            // Minus zero changes no float, zero changes minus zero.
            Binary::Add if ty.is_float() => {
                Literal::from_scalars(&ArrayShape::new(ty, &[]), [Scalar::Float(-0.0)]).ok()
            }
            _ => bits(false),
        };
        let literal = literal.ok_or_else(|| self.bug("an identity that the type does not have"))?;
        let shape = Shape::array(ty, &[]);
        self.push(frame, Op::Constant([literal].into()), &[], Some(shape))
    }
}

/// Whether these are the same groups of the same devices.
fn is_same(a: &[Vec<i64>], b: &[Vec<i64>]) -> bool {
    let sorted = |groups: &[Vec<i64>]| {
        let mut groups = groups.to_vec();
        groups.iter_mut().for_each(|group| group.sort_unstable());
        groups.sort();
        groups
    };
    sorted(a) == sorted(b)
}

/// A dimension along which partial results are wanted cut, as they are over the devices that have
/// them.
pub(super) fn scattered_dim(
    plan: &Plan,
    wanted: &Sharding,
    array: &ArrayShape,
) -> Option<(usize, Cut)> {
    let (_, cut) = plan.contracted()?;
    let mut dims = 0..wanted.rank();
    let dim = dims.find(|&dim| {
        let size = array.dims.get(dim).and_then(Dim::as_static);
        plan.result.cut(dim).is_none()
            && wanted.cut(dim) == Some(&cut)
            && size.is_some_and(|size| cut.divides(size))
    })?;
    Some((dim, cut))
}
