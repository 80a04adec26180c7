//! Which `reduce-window` is a running sum or its like: each window begins, or ends, with the array.

use crate::program::{Node, Program};
use tegula_ir::{Module, Op, WindowDim};

/// Below this the windows are loops of their own, whose positions are independent.
const MIN_LENGTH: i64 = 8;

/// A dimension along which a combination runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scan {
    /// Which.
    pub dimension: usize,
    /// How many elements it has.
    pub length: i64,
    /// From the last element to the first.
    pub reversed: bool,
}

/// How a node is a scan, if it is one.
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
        // What a window of the whole length reaches to, and no position more.
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

/// A window of one element.
fn is_trivial(dim: &WindowDim) -> bool {
    let padded = dim.padding_low != 0 || dim.padding_high != 0;
    dim.size == 1 && dim.stride == 1 && dim.base_dilation == 1 && !padded
}
