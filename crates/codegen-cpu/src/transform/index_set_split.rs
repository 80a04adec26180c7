//! Index-set splitting: cuts a kernel along its innermost dimension where a branch changes.
//!
//! A concatenation or a wide padding tests at each point which part the point belongs to, so the
//! lanes of a vector would compute all parts and keep one. If the parts begin at constant indices,
//! each becomes a kernel in which the branch is decided. A part of one point loses the dimension,
//! and is vectorised along the next one; this vectorises a short innermost dimension whose points
//! are computed in different ways (`stack`).

use crate::analysis::known_branches::{factors, resolved};
use tegula_expr::{Term, Var};
use tegula_fusion::kernel::{Block, IndexVar, Statement};
use tegula_fusion::{Kernel, KernelRanges, Rename};

/// The minimum number of points of a piece that is worth a loop of its own: a vector's lanes.
/// Shorter pieces (the wrapped part of a rotation, a border) would be a part of one vector, and
/// must have at most half of the points together.
const MIN_LENGTH: i64 = 16;
/// The maximum number of pieces, each of which is compiled.
const MAX_PIECES: usize = 8;
/// The maximum number of points of an innermost dimension that may become a kernel each. Each
/// kernel reads the arrays again.
const MAX_UNITS: i64 = 4;
/// The minimum number of points of the next dimension that is worth vectorising.
const MIN_NEXT: i64 = 16;

/// A part of a kernel's domain.
#[derive(Clone, Debug)]
pub(crate) struct Subdomain {
    /// The kernel of the part; its innermost dimension has the part's points.
    pub kernel: Kernel,
    /// If the innermost dimension is also the outermost: the first index and the length of the
    /// part.
    pub outermost: Option<[i64; 2]>,
}

/// The parts of a kernel; none if it is not worth splitting.
pub(crate) fn split_index_set(kernel: &Kernel) -> Vec<Subdomain> {
    let Some(&inner) = kernel.domain.last() else {
        return Vec::new();
    };
    let extent = |var: Var| kernel.constant_extent(var).unwrap_or(0);
    let length = extent(inner);
    let mut bounds = vec![0, length];
    boundaries(&kernel.body, inner, &mut bounds);
    bounds.retain(|&b| (0..=length).contains(&b));
    bounds.sort_unstable();
    bounds.dedup();
    let lengths = bounds.windows(2).map(|pair| pair[1] - pair[0]);
    let long: i64 = lengths.clone().filter(|&n| n >= MIN_LENGTH).sum();
    if !(2..=MAX_PIECES).contains(&lengths.count()) {
        return Vec::new();
    }
    let next = kernel.domain.iter().rev().nth(1).map_or(0, |&v| extent(v));
    if length <= MAX_UNITS && next >= MIN_NEXT {
        bounds = (0..=length).collect();
    } else if 2 * long < length {
        return Vec::new();
    }
    let piece = |pair: &[i64]| {
        let (first, length) = (pair[0], pair[1] - pair[0]);
        Subdomain {
            kernel: restricted(kernel, inner, first, length),
            outermost: (kernel.domain.len() == 1).then_some([first, length]),
        }
    };
    bounds.windows(2).map(piece).collect()
}

/// Collects the values of a variable at which conditions begin or cease to hold.
fn boundaries(block: &Block, var: Var, out: &mut Vec<i64>) {
    for statement in &block.statements {
        match statement {
            Statement::If {
                condition,
                then,
                otherwise,
                ..
            } => {
                factors(condition, var, out);
                boundaries(then, var, out);
                boundaries(otherwise, var, out);
            }
            Statement::Loop { body, .. } => boundaries(body, var, out),
            _ => {}
        }
    }
}

/// The kernel restricted to a part of its innermost dimension.
fn restricted(kernel: &Kernel, inner: Var, first: i64, length: i64) -> Kernel {
    let mut piece = kernel.clone();
    if let Some(var) = piece.vars.get_mut(inner.0 as usize) {
        *var = IndexVar::Domain(Term::constant(length));
    }
    let mut rename = Rename::default();
    let mut moved = Term::constant(first);
    if length == 1 && kernel.domain.len() > 1 {
        piece.domain.pop();
    } else {
        moved = Term::var(inner).add(&moved);
    }
    rename.vars.insert(inner, moved);
    piece.body = resolved(&kernel.body, &mut rename, &KernelRanges(&piece.vars));
    piece
}
