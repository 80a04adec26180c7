//! Plans of computing an operation on parts, as data.

use super::Emitter;
use super::local::WindowPick;
use super::number;
use crate::axes::{Axis, AxisKind, Combination};
use crate::graph::Node;
use crate::sharding::{Cut, Sharding};
use tegula_ir::{ElementType, Op, SliceDim, TO_END};

/// How an operation is computed on the parts of its operands.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) picks: Vec<(Axis, Cut)>,
    pub(super) windows: Vec<WindowPick>,
    pub(super) indexed: Option<Indexed>,
    /// The sharding that each operand must have.
    pub(super) operands: Vec<Sharding>,
    /// The sharding of the result, before it is resharded.
    pub(super) result: Sharding,
    pub(super) cost: i64,
}

impl Plan {
    /// How partial results are combined, and the cut of the dimension that was reduced.
    pub(super) fn contracted(&self) -> Option<(Combination, Cut)> {
        let mut found: Option<(Combination, Cut)> = None;
        for (axis, cut) in &self.picks {
            let AxisKind::Contracted(op) = axis.kind else {
                continue;
            };
            found = Some(match found {
                None => (op, cut.clone()),
                Some((op, outer)) => (op, outer.then(cut)?),
            });
        }
        found
    }
}

/// An operation that indexes a partitioned dimension of its first operand.
#[derive(Clone, Debug)]
pub(super) struct Indexed {
    /// The dimension of the operand, and of the result if that is partitioned, too.
    pub(super) dim: usize,
    pub(super) cut: Cut,
    reads: bool,
    arrays: usize,
    /// For a slice at a constant position, the number of parts that overlap it; 0 for other
    /// operations.
    pub(super) owners: usize,
}

impl Indexed {
    /// All ways to partition a node like this.
    pub(super) fn of(
        emitter: &Emitter<'_>,
        node: &Node,
        current: &[Sharding],
        wanted: &Sharding,
    ) -> Vec<Self> {
        let writes = |dim: usize, arrays: usize| {
            let cut = wanted.cut(dim)?.clone();
            Some(Self {
                dim,
                cut,
                reads: false,
                arrays,
                owners: 0,
            })
        };
        let reads = |dim: usize| {
            let cut = current.first()?.cut(dim)?.clone();
            Some(Self {
                dim,
                cut,
                reads: true,
                arrays: 1,
                owners: 0,
            })
        };
        let value = |operand: usize| {
            node.operands
                .get(operand)
                .map(|value| &emitter.graph.values[*value])
        };
        let size = |operand: usize, dim: usize| value(operand).and_then(|value| value.size(dim));
        let rank = value(0).map_or(0, crate::graph::Value::rank);
        let dims = 0..rank;
        // Offsets in a single vector are an old form, which is not supported here.
        let scalar_offsets = |first: usize| {
            node.operands.len() == first + rank
                && (first..first + rank).all(|n| value(n).is_some_and(|v| v.rank() == 0))
        };
        match &node.op {
            Op::Slice(slices) => {
                let owned = dims.filter_map(|dim| {
                    let found = reads(dim)?;
                    let size = size(0, dim)?;
                    let owners = owned_slices(slices.get(dim)?, size, &found.cut).len();
                    (owners > 0).then_some(Self { owners, ..found })
                });
                owned.collect()
            }
            Op::DynamicUpdateSlice if scalar_offsets(2) => {
                let smaller = dims.filter(|&dim| size(0, dim) != size(1, dim));
                smaller.filter_map(|dim| writes(dim, 1)).collect()
            }
            Op::DynamicSlice(sizes) if scalar_offsets(1) && has_bits(value(0)) => {
                let smaller = dims.filter(|&dim| size(0, dim) != sizes.get(dim).copied());
                smaller.filter_map(reads).collect()
            }
            Op::Scatter { dims: numbers, .. } => {
                let inserted = dims.filter(|dim| {
                    numbers.inserted_window_dims.contains(&number(*dim))
                        && numbers.scatter_dims_to_operand_dims.contains(&number(*dim))
                });
                let arrays = node.operands.len() / 2;
                inserted.filter_map(|dim| writes(dim, arrays)).collect()
            }
            Op::Gather { dims: numbers, .. } if has_bits(value(0)) => {
                let collapsed = dims.filter(|dim| {
                    numbers.collapsed_slice_dims.contains(&number(*dim))
                        && numbers.start_index_map.contains(&number(*dim))
                        && size(0, *dim).is_some_and(|size| size > 0)
                });
                collapsed.filter_map(reads).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether the results of all devices are combined.
    pub(super) fn is_sum(&self) -> bool {
        self.reads
    }

    pub(super) fn text(&self) -> String {
        if self.owners > 0 {
            let (count, dim) = (self.owners, self.dim);
            return format!(
                "{count} parts of dimension {dim} hold the slice and are sent to all devices"
            );
        }
        let what = if self.reads { "reads" } else { "writes" };
        format!(
            "each device {what} the indexed elements in its part of dimension {}",
            self.dim
        )
    }

    /// Sets the shardings that operands and result must have.
    pub(super) fn require(&self, operands: &mut [Sharding], result: &mut Sharding) -> Option<()> {
        for operand in operands.iter_mut().take(self.arrays) {
            *operand = operand.with(self.dim, Some(self.cut.clone()));
        }
        if !self.reads {
            if result.cut(self.dim).is_some() {
                return None;
            }
            *result = result.with(self.dim, Some(self.cut.clone()));
        }
        Some(())
    }
}

/// The parts that overlap a slice of a dimension of `size` elements, each with the corresponding
/// slice of its own elements.
pub(super) fn owned_slices(slice: &SliceDim, size: i64, cut: &Cut) -> Vec<(i64, SliceDim)> {
    let part = cut.part_size(size).max(1);
    let limit = if slice.limit == TO_END {
        size
    } else {
        slice.limit
    };
    let mut owned = Vec::new();
    let mut at = slice.start;
    while at < limit {
        let place = at / part;
        let end = limit.min((place + 1) * part);
        let start = at - place * part;
        let limit = end - place * part;
        owned.push((
            place,
            SliceDim {
                start,
                limit,
                ..*slice
            },
        ));
        let stride = slice.stride.max(1);
        at += (end - at + stride - 1) / stride * stride;
    }
    owned
}

/// Whether the bits of the elements can be combined by `or`.
fn has_bits(value: Option<&crate::graph::Value>) -> bool {
    let array = value.and_then(|value| value.shape.as_array());
    array.is_some_and(|array| bits_type(array.element_type).is_some())
}

/// The type of an element's bits: the type itself, if it supports `or`.
pub(super) fn bits_type(ty: ElementType) -> Option<ElementType> {
    if ty == ElementType::Pred || ty.is_integer() {
        return Some(ty);
    }
    match ty.bits() {
        _ if ty.is_complex() => None,
        8 => Some(ElementType::U8),
        16 => Some(ElementType::U16),
        32 => Some(ElementType::U32),
        64 => Some(ElementType::U64),
        _ => None,
    }
}
