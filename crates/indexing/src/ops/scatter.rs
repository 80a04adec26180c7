//! Maps of scatters, in both directions.
//!
//! The operands are arrays, the indices, and as many updates. A window of the updates is written at
//! its index if all of it is in bounds. So the run-time variable of an index component is not
//! clamped; its bounds are the positions at which the window fits.

use tegula_expr::{Interval, Term};
use tegula_ir::helpers::{GatherRoles, GatheredDim};
use tegula_ir::{InstructionId, Op};

use super::builder::{Builder, Draft, last_index};
use super::rearrange::known;
use super::{Cause, MapOrCause};
use crate::map::RuntimeSource;

/// A scatter, with the roles of its dimensions.
struct Scatter<'a> {
    at: &'a Builder<'a>,
    /// The number of updated arrays.
    arrays: usize,
    indices: InstructionId,
    roles: GatherRoles,
}

/// The role of an operand.
enum Role {
    Array,
    Indices,
    Updates,
}

impl<'a> Scatter<'a> {
    fn new(at: &'a Builder<'a>) -> Result<Self, Cause> {
        let Op::Scatter { dims, .. } = at.op() else {
            return Err(Cause::Malformed);
        };
        let count = at.instruction.operands.len();
        let arrays = count / 2;
        if count.is_multiple_of(2) {
            return Err(Cause::Malformed);
        }
        let ranks = [
            at.input(0)?.rank(),
            at.input(arrays)?.rank(),
            at.input(arrays + 1)?.rank(),
        ];
        Ok(Self {
            at,
            arrays,
            indices: at.operand_id(arrays)?,
            roles: dims.roles(ranks).ok_or(Cause::Malformed)?,
        })
    }

    fn role(&self, operand: usize) -> Role {
        match operand {
            operand if operand < self.arrays => Role::Array,
            operand if operand == self.arrays => Role::Indices,
            _ => Role::Updates,
        }
    }

    /// The sizes of a window along the dimensions of the updated array.
    fn window_sizes(&self, draft: &mut Draft<'_>) -> Result<Vec<Term>, Cause> {
        let updates = self.at.input(self.arrays + 1)?;
        let size = |role: &GatheredDim| match role.offset {
            None => Ok(Term::constant(1)),
            Some(own) => Ok(draft.extent(updates.dims.get(own).ok_or(Cause::Malformed)?)),
        };
        self.roles.operand.iter().map(size).collect()
    }

    /// The start of window number `window` in each dimension of the updated array.
    fn starts(
        &self,
        draft: &mut Draft<'_>,
        window: &[Term],
        sizes: &[Term],
    ) -> Result<Vec<Term>, Cause> {
        let array = draft.extents(self.at.input(0)?);
        let mut starts = Vec::new();
        for (role, (all, size)) in self.roles.operand.iter().zip(array.iter().zip(sizes)) {
            if let Some(number) = role.paired {
                starts.push(window.get(number).cloned().ok_or(Cause::Malformed)?);
                continue;
            }
            let Some(component) = role.component else {
                starts.push(Term::constant(0));
                continue;
            };
            let component = i64::try_from(component).map_err(|_| Cause::Overflow)?;
            let last = known(all.sub(size))?;
            let source = RuntimeSource::Element {
                instruction: self.indices,
                index: self.roles.place_of_index(window, component.into()),
                clamped: false,
            };
            let upper = draft.range_of(&last).upper;
            let start = draft.runtime(Interval::new(0, upper), Some(source));
            if last.as_constant().is_none() {
                draft.limit(&start, last);
            }
            starts.push(start);
        }
        Ok(starts)
    }

    /// Whether the combination of old and new values uses the old one.
    fn reads_old(&self) -> bool {
        let Op::Scatter { to_apply, .. } = self.at.op() else {
            return true;
        };
        let module = self.at.module;
        let Some(computation) = module.computations.get(*to_apply) else {
            return false;
        };
        let Some(old) = computation.parameters.get(..self.arrays) else {
            return false;
        };
        old.contains(&computation.root)
            || computation.instructions.iter().any(|id| {
                let data = module.instructions.get(*id);
                data.is_some_and(|data| data.operands.iter().any(|o| old.contains(o)))
            })
    }
}

/// The map from the result to an operand.
pub(super) fn backward(at: &Builder<'_>, operand: usize) -> MapOrCause {
    let scatter = Scatter::new(at)?;
    let mut draft = at.draft(at.output()?);
    match scatter.role(operand) {
        Role::Array => {
            let results = draft.dims();
            let is_exact = scatter.reads_old() && scatter.arrays == 1;
            let draft = if is_exact { draft } else { draft.superset() };
            draft.finish(results)
        }
        // Every index is read, because any of them may point to this element.
        Role::Indices => {
            let indices = at.input(operand)?;
            let mut results = Vec::new();
            for (dim, size) in indices.dims.iter().enumerate() {
                let number = scatter.roles.indices.iter().position(|&own| own == dim);
                let paired = number.and_then(|number| scatter.roles.paired_with(number));
                results.push(match paired {
                    Some(own) => draft.dim(own),
                    None => draft.range_over(size),
                });
            }
            draft.finish(results)
        }
        Role::Updates => {
            let indices = at.input(scatter.arrays)?;
            let mut window = Vec::new();
            for (number, &dim) in scatter.roles.indices.iter().enumerate() {
                window.push(match scatter.roles.paired_with(number) {
                    Some(own) => draft.dim(own),
                    None => draft.range_over(indices.dims.get(dim).ok_or(Cause::Malformed)?),
                });
            }
            let sizes = scatter.window_sizes(&mut draft)?;
            let starts = scatter.starts(&mut draft, &window, &sizes)?;
            let mut offsets = Vec::new();
            for (dim, role) in scatter.roles.operand.iter().enumerate() {
                let (Some(start), Some(size)) = (starts.get(dim), sizes.get(dim)) else {
                    return Err(Cause::Malformed);
                };
                if role.paired.is_some() {
                    continue;
                }
                let offset = draft.dim(dim).sub(start);
                draft.within(&offset, &last_index(size));
                if role.offset.is_some() {
                    offsets.push(offset);
                }
            }
            let results = scatter.roles.place_in_result(window, offsets);
            let results = results.ok_or(Cause::Malformed)?;
            let draft = if scatter.arrays == 1 {
                draft
            } else {
                draft.superset()
            };
            draft.finish(results)
        }
    }
}

/// The map from an operand to the result.
pub(super) fn forward(at: &Builder<'_>, operand: usize) -> MapOrCause {
    let scatter = Scatter::new(at)?;
    match scatter.role(operand) {
        Role::Array => {
            let draft = at.draft(at.input(operand)?);
            let results = draft.dims();
            let is_exact = scatter.reads_old() && scatter.arrays == 1;
            let draft = if is_exact { draft } else { draft.superset() };
            draft.finish(results)
        }
        Role::Indices => {
            if scatter
                .roles
                .operand
                .iter()
                .all(|role| role.paired.is_none())
            {
                return at.everywhere(operand);
            }
            let mut draft = at.draft(at.input(operand)?);
            let mut results = Vec::new();
            for (role, size) in scatter.roles.operand.iter().zip(&at.output()?.dims) {
                let own = role
                    .paired
                    .and_then(|number| scatter.roles.indices.get(number));
                results.push(match own {
                    Some(&own) => draft.dim(own),
                    None => draft.range_over(size),
                });
            }
            draft.finish(results)
        }
        Role::Updates => {
            let mut draft = at.draft(at.input(operand)?);
            let window = scatter.roles.batch.iter().map(|&dim| draft.dim(dim));
            let window: Vec<Term> = window.collect();
            let sizes = scatter.window_sizes(&mut draft)?;
            let starts = scatter.starts(&mut draft, &window, &sizes)?;
            let results = starts.iter().zip(&scatter.roles.operand);
            let results = results.map(|(start, role)| match role.offset {
                Some(own) => start.add(&draft.dim(own)),
                None => start.clone(),
            });
            let results = results.collect();
            let draft = if scatter.arrays == 1 {
                draft
            } else {
                draft.superset()
            };
            draft.finish(results)
        }
    }
}
