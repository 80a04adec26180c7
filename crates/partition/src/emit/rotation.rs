//! Rotations: a `concatenate` of the end of an array and of the elements before it.
//!
//! `jnp.roll` is two slices of an array that are concatenated in reverse order. Each slice alone
//! would need resharding with an all-gather. Together they shift the array, so that each device
//! needs elements of only one or two others, which collective-permutes send.

use super::reshard::part_bytes;
use super::{Emitter, Frame, Local, number};
use crate::error::Error;
use crate::graph::{Kind, Node, Region, ValueId};
use crate::sharding::Cut;
use rustc_hash::{FxHashMap, FxHashSet};
use tegula_ir::{Op, TO_END};

/// A rotation: element `i` of the result is element `i - shift` of the source, modulo the size of
/// the dimension.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rotation {
    source: ValueId,
    dim: usize,
    shift: i64,
}

/// The rotations in a region.
#[derive(Debug, Default)]
pub(super) struct Rotations {
    /// The rotations, by node.
    found: FxHashMap<usize, Rotation>,
    /// Slices that only rotations read.
    unneeded: FxHashSet<usize>,
}

impl Rotations {
    pub(super) fn at(&self, node: usize) -> Option<Rotation> {
        self.found.get(&node).copied()
    }

    pub(super) fn is_unneeded(&self, node: usize) -> bool {
        self.unneeded.contains(&node)
    }
}

impl Emitter<'_> {
    /// Finds the rotations of a region along dimensions that are divided into equal parts, whose
    /// results have the sharding of their sources.
    pub(super) fn rotations(&self, region: &Region) -> Rotations {
        let mut made: FxHashMap<ValueId, usize> = FxHashMap::default();
        let mut reads: FxHashMap<ValueId, usize> = FxHashMap::default();
        for (at, node) in region.nodes.iter().enumerate() {
            for &operand in &node.operands {
                *reads.entry(operand).or_default() += 1;
            }
            for &result in &node.results {
                made.insert(result, at);
            }
        }
        for &result in &region.results {
            *reads.entry(result).or_default() += 1;
        }
        let mut rotations = Rotations::default();
        for (at, node) in region.nodes.iter().enumerate() {
            let Some(rotation) = self.rotation(region, &made, node) else {
                continue;
            };
            rotations.found.insert(at, rotation);
            for operand in &node.operands {
                if reads.get(operand) == Some(&1) {
                    rotations.unneeded.extend(made.get(operand));
                }
            }
        }
        rotations
    }

    fn rotation(
        &self,
        region: &Region,
        made: &FxHashMap<ValueId, usize>,
        node: &Node,
    ) -> Option<Rotation> {
        let (Kind::Operation, Op::Concatenate(dim)) = (&node.kind, &node.op) else {
            return None;
        };
        let (&[end, start], &[result]) = (&node.operands[..], &node.results[..]) else {
            return None;
        };
        let dim = usize::try_from(*dim).ok()?;
        let slice = |value: ValueId| {
            let slice = region.nodes.get(*made.get(&value)?)?;
            let source = *slice.operands.first()?;
            let Op::Slice(dims) = &slice.op else {
                return None;
            };
            // The slice must be whole in all other dimensions.
            let mut own = None;
            for (number, of) in dims.iter().enumerate() {
                let size = self.graph.values[source].size(number)?;
                let limit = if of.limit == TO_END { size } else { of.limit };
                match number == dim {
                    true if of.stride == 1 => own = Some((of.start, limit)),
                    false if of.stride == 1 && of.start == 0 && limit == size => {}
                    _ => return None,
                }
            }
            Some((source, own?))
        };
        let (source, (cut_at, size)) = slice(end)?;
        let (other, (first, last)) = slice(start)?;
        let whole = self.graph.values[source].size(dim)?;
        let is_circle = source == other && size == whole && first == 0 && last == cut_at;
        if !is_circle || cut_at <= 0 || cut_at >= whole {
            return None;
        }
        let sharding = self.found.sharding(source);
        let cut = sharding.cut(dim)?;
        let alike = self.found.sharding(result) == sharding
            && self.graph.values[source].scope == self.graph.values[result].scope;
        (alike && cut.parts() > 1 && cut.divides(whole)).then_some(Rotation {
            source,
            dim,
            shift: whole - cut_at,
        })
    }

    /// Emits a rotation: each device's part is the end of one other part, followed by the start of
    /// the next.
    pub(super) fn rotated(
        &mut self,
        frame: &mut Frame,
        node: &Node,
        rotation: Rotation,
    ) -> Result<(), Error> {
        let Rotation { source, dim, shift } = rotation;
        self.combine(frame, source)?;
        let local = frame.values.get(&source).cloned();
        let local =
            local.ok_or_else(|| self.bug("expected an operand that is emitted before its use"))?;
        let scope = self.scope(self.scope_of(node)).clone();
        let array = self.array_of(source);
        let size = self.graph.values[source].size(dim).unwrap_or(0);
        let parts = local.sharding.cut(dim).map_or(1, Cut::parts);
        let part = size / parts.max(1);
        let (far, near) = (shift / part.max(1), shift % part.max(1));
        let groups = self.part_groups(&local.sharding, dim, None, &scope)?;
        let bytes = part_bytes(&local.sharding, &array);
        self.reason = format!("dimension {dim} is rotated by {shift}");
        // Fetches elements from the part `by` positions before, in a circle.
        let from = |emitter: &mut Self, frame: &mut Frame, array, by: i64, length: i64| {
            if by % parts == 0 {
                return Ok(array);
            }
            let mut sources: Vec<usize> = (0..local.sharding.devices()).collect();
            for group in &groups {
                for (place, &target) in group.iter().enumerate() {
                    let before = (number(place) - by).rem_euclid(parts);
                    let device = usize::try_from(before).ok().and_then(|at| group.get(at));
                    let device = device.and_then(|&device| usize::try_from(device).ok());
                    let target = usize::try_from(target).ok();
                    if let (Some(device), Some(target)) = (device, target)
                        && let Some(slot) = sources.get_mut(target)
                    {
                        *slot = device;
                    }
                }
            }
            emitter.exchanged("collective-permute", bytes / part.max(1) * length);
            emitter.permute(frame, array, &sources)
        };
        let head = self.slice(frame, local.id, dim, 0, part - near)?;
        let head = from(self, frame, head, far, part - near)?;
        let id = match near {
            0 => head,
            _ => {
                let tail = self.slice(frame, local.id, dim, part - near, part)?;
                let tail = from(self, frame, tail, far + 1, near)?;
                self.push(frame, Op::Concatenate(number(dim)), &[tail, head], None)?
            }
        };
        self.annotate(frame, node, id);
        self.note(format!(
            "dimension {dim} is rotated by {shift}: collective-permutes move parts to other devices"
        ));
        let sharding = local.sharding.clone();
        frame.values.insert(node.results[0], Local { id, sharding });
        Ok(())
    }
}
