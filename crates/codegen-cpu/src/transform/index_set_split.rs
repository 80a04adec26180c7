//! Index-set splitting: cuts a kernel along its innermost dimension where a branch changes.
//!
//! A concatenation or a wide padding asks at each point which part the point belongs to, so the
//! lanes of a vector would compute all parts and keep one. Where the parts begin at constant
//! indices, each becomes a kernel of its own in which the branch is decided. A part of one point
//! loses the dimension, and its lanes go along the next one; that is how a short innermost
//! dimension is vectorised whose points are computed in different ways (`stack`).

use crate::analysis::known_branches::{factors, resolved};
use tegula_expr::{Term, Var};
use tegula_fusion::kernel::{Block, IndexVar, Statement};
use tegula_fusion::{Kernel, KernelRanges, Rename};

/// Points of a piece that is as good as a loop of its own: a vector's. Shorter ones (what a
/// rotation brings round, a border) are a part of one vector, and may be the fewer points.
const MIN_LENGTH: i64 = 16;
/// The most pieces: each is compiled.
const MAX_PIECES: usize = 8;
/// Points of an innermost dimension that may become a kernel each. Each goes through the
/// arrays once more.
const MAX_UNITS: i64 = 4;
/// Points of the next dimension that are worth lanes.
const MIN_NEXT: i64 = 16;

/// A part of a kernel's domain.
#[derive(Clone, Debug)]
pub(crate) struct Subdomain {
    /// What is done there; its innermost dimension is the piece's.
    pub kernel: Kernel,
    /// If that is the outermost dimension too: where the piece begins in it, and how
    /// long it is.
    pub outermost: Option<[i64; 2]>,
}

/// The pieces of a kernel; none if it is better left whole.
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

/// Where conditions on a variable begin or cease to hold.
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

/// The kernel on a part of its innermost dimension.
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
