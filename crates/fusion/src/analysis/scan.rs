//! Finds `reduce-window` operations that are scans (prefix sums and the like): every window begins,
//! or every window ends, at the boundary of the array.

use crate::program::{Node, Program};
use tegula_ir::{Module, Op, WindowDim};

/// Shorter scans stay ordinary windows: one loop per window, so that the positions are independent.
const MIN_LENGTH: i64 = 8;

/// A scan along one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scan {
    /// The dimension that is scanned.
    pub dimension: usize,
    /// Its number of elements.
    pub length: i64,
    /// Whether the scan goes from the last element to the first.
    pub reversed: bool,
}

/// Returns the scan that a node is equivalent to, if there is one.
pub(crate) fn as_scan(module: &Module, program: &Program, node: &Node) -> Option<Scan> {
    let Op::ReduceWindow { window, .. } = &module[node.origin].op else {
        return None;
    };
    let shape = &program.values[*node.operands.first()?].shape;
    let mut found = None;
    for (dimension, (dim, size)) in window.iter().zip(&shape.dims).enumerate() {
        if is_trivial(dim) {
            continue;
        }
        let length = size.as_static()?;
        let plain = dim.stride == 1 && dim.base_dilation == 1 && dim.window_dilation == 1;
        // A window of the full length reaches this many positions past its own.
        let all = dim.size.checked_sub(1)?;
        let ends = [dim.padding_low, dim.padding_high];
        let reversed = match ends {
            [low, 0] if low == all => false,
            [0, high] if high == all => true,
            _ => return None,
        };
        if !plain || dim.size < length || length < MIN_LENGTH || found.is_some() {
            return None;
        }
        found = Some(Scan {
            dimension,
            length,
            reversed,
        });
    }
    found
}

/// Whether windows have one element along a dimension.
fn is_trivial(dim: &WindowDim) -> bool {
    let padded = dim.padding_low != 0 || dim.padding_high != 0;
    dim.size == 1 && dim.stride == 1 && dim.base_dilation == 1 && !padded
}
