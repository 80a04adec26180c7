//! Tracks the short innermost dimensions of a kernel, along which all points are computed together.
//!
//! Innermost dimensions of few points (such as coordinates) are too short to vectorise. If such a
//! kernel has loops, the backend computes all points along these dimensions together: it runs each
//! loop once, and evaluates once what does not depend on the dimensions. An example is the distance
//! by which all coordinates of a force are divided.

use super::classify::is_view;
use crate::limits::Limits;
use crate::program::{NodeId, Program, ValueId};
use smallvec::SmallVec;
use tegula_ir::{Dim, Module, Op};

/// The most innermost dimensions that count as short.
const MOST: usize = 2;

/// Which dimensions of a value, evaluated somewhere in a kernel, are short dimensions of that
/// kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Short {
    /// A bit for each dimension of the value.
    dims: u32,
    /// Whether the value is evaluated in a loop.
    in_loop: bool,
}

impl Short {
    /// The short dimensions of a kernel's own result: innermost ones with at most `most` points
    /// together.
    pub(super) fn of_result(dims: &[Dim], most: i64) -> Self {
        let size = |dim: &Dim| dim.as_static().unwrap_or(i64::MAX);
        let found = (1..=MOST).rev().find(|&count| {
            let Some((next, short)) =
                (dims.len().checked_sub(count + 1)).map(|at| (&dims[at], &dims[at + 1..]))
            else {
                return false;
            };
            let points = short.iter().map(size).fold(1, i64::saturating_mul);
            (2..=most).contains(&points) && size(next) >= Limits::NEXT_TO_SHORT && dims.len() <= 32
        });
        let dims = found.map_or(0, |count| ((1 << count) - 1) << (dims.len() - count));
        Self {
            dims,
            in_loop: false,
        }
    }

    /// The dimensions that are short in both.
    pub(super) fn both(self, other: Self) -> Self {
        Self {
            dims: self.dims & other.dims,
            in_loop: self.in_loop && other.in_loop,
        }
    }

    fn has(self, dim: usize) -> bool {
        self.dims >> dim & 1 != 0
    }

    /// The short dimensions of a node's operand, and how many points share one evaluation of the
    /// operand. `in_loop` says whether the node reads the operand in a loop of its own.
    pub(super) fn step(
        self,
        (module, program): (&Module, &Program),
        id: NodeId,
        operand: usize,
        in_loop: bool,
    ) -> (Self, f64) {
        let in_loop = self.in_loop || in_loop;
        if self.dims == 0 {
            return (Self { dims: 0, in_loop }, 1.0);
        }
        let node = &program.nodes[id];
        let dims_of = |v: Option<&ValueId>| v.map_or(&[][..], |&v| &program.values[v].shape.dims);
        let (from, to) = (
            dims_of(node.results.first()),
            dims_of(node.operands.get(operand)),
        );
        let at = |to: SmallVec<[Option<usize>; 8]>| {
            let came = to.into_iter().enumerate();
            let short = came.filter(|(_, from)| from.is_some_and(|from| self.has(from)));
            short.fold(0, |dims, (to, _)| dims | 1 << to)
        };
        let mut shared = 1.0;
        let dims = match &module[node.origin].op {
            op if op.is_elementwise() && from.len() == to.len() => self.dims,
            Op::Broadcast(numbers) => {
                let given = |dim: usize| numbers.contains(&(dim as i64));
                let dropped = (0..from.len()).filter(|&dim| self.has(dim) && !given(dim));
                if in_loop {
                    shared = dropped
                        .map(|dim| from[dim].representative() as f64)
                        .product();
                }
                at(numbers.iter().map(|&n| usize::try_from(n).ok()).collect())
            }
            Op::Transpose(numbers) => {
                let mut places: SmallVec<[Option<usize>; 8]> = SmallVec::from_elem(None, to.len());
                for (place, &n) in numbers.iter().enumerate() {
                    if let Some(to) = usize::try_from(n).ok().and_then(|n| places.get_mut(n)) {
                        *to = Some(place);
                    }
                }
                at(places)
            }
            Op::Reduce { dimensions, .. } if operand < node.operands.len() / 2 => {
                let mut results = 0..from.len();
                let place = |dim| match dimensions.contains(&(dim as i64)) {
                    true => None,
                    false => results.next(),
                };
                at((0..to.len()).map(place).collect())
            }
            Op::Reshape | Op::Bitcast if is_view(module, program, id) => {
                let long = |dim: &&usize| from[**dim] != Dim::Static(1);
                let mut longs: SmallVec<[usize; 8]> = (0..from.len()).collect();
                longs.retain(|dim| long(&&*dim));
                let mut longs = longs.into_iter();
                let place = |dim: &Dim| match dim {
                    Dim::Static(1) => None,
                    _ => longs.next(),
                };
                at(to.iter().map(place).collect())
            }
            _ => 0,
        };
        (Self { dims, in_loop }, shared)
    }
}
