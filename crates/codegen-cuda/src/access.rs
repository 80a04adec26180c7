//! What a warp's accesses cost, by exact enumeration: the 32-byte sectors of memory
//! that its 32 lanes touch with one instruction, computed from the index terms.

use rustc_hash::FxHashSet;
use tegula_expr::{Term, Var};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Block, IndexVar, Statement};

/// Bytes of a memory sector, the smallest unit that a GPU reads or writes (CUDA C++
/// Programming Guide, device memory accesses).
pub(crate) const SECTOR: i64 = 32;
/// Lanes of a warp.
pub(crate) const LANES: usize = 32;

/// One load or store of a body.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub param: usize,
    /// Elements before the one that is accessed.
    pub linear: Term,
}

/// Collects the loads and stores of a block and of the blocks nested in it.
pub(crate) fn accesses(kernel: &Kernel, block: &Block, found: &mut Vec<Access>) {
    for statement in &block.statements {
        match statement {
            Statement::Load { param, index, .. } | Statement::Store { param, index, .. } => {
                if let Some(declared) = kernel.params.get(*param) {
                    found.push(Access {
                        param: *param,
                        linear: declared.elements_before(index),
                    });
                }
            }
            Statement::Loop { body, .. } => accesses(kernel, body, found),
            Statement::If {
                then, otherwise, ..
            } => {
                accesses(kernel, then, found);
                accesses(kernel, otherwise, found);
            }
            Statement::Compute { .. } | Statement::Bind { .. } => {}
        }
    }
}

/// A representative value for each variable of a kernel: 64 for an open size, clamped
/// to its bounds, and 0 or the lower bound for anything else.
pub(crate) fn typical_values(kernel: &Kernel) -> Vec<i64> {
    let value = |var: &IndexVar| match *var {
        IndexVar::Symbol { lower, upper, .. } => 64.clamp(lower, upper.max(lower)),
        IndexVar::Runtime { lower, .. } => lower,
        IndexVar::Domain(_) | IndexVar::Loop(_) => 0,
    };
    kernel.vars.iter().map(value).collect()
}

/// The value of a term, if it has one.
pub(crate) fn value(term: &Term, values: &[i64]) -> Option<i64> {
    term.eval(&|var: Var| values.get(var.0 as usize).copied())
        .ok()
}

/// Sets `vars` to the mixed-radix digits of `number`, the last variable varying
/// fastest; `None` if the number is past the end of the index space.
pub(crate) fn set_digits(
    kernel: &Kernel,
    vars: &[Var],
    number: i64,
    values: &mut [i64],
) -> Option<()> {
    let mut rest = number;
    for &var in vars.iter().rev() {
        let (IndexVar::Domain(extent) | IndexVar::Loop(extent)) = kernel.var(var)? else {
            return None;
        };
        let extent = value(extent, values)?.max(1);
        *values.get_mut(var.0 as usize)? = rest % extent;
        rest /= extent;
    }
    (rest == 0).then_some(())
}

/// Counts the sectors that these accesses touch when one warp executes each of them
/// once. `lane` gives the variables' values in a lane, or `None` for an idle lane.
pub(crate) fn sectors(
    kernel: &Kernel,
    accesses: &[Access],
    lane: &dyn Fn(usize) -> Option<Vec<i64>>,
) -> u64 {
    let lanes: Vec<Vec<i64>> = (0..LANES).filter_map(lane).collect();
    let mut count = 0;
    for access in accesses {
        let Some(param) = kernel.params.get(access.param) else {
            continue;
        };
        let bytes = param.element_type.storage_bytes() as i64;
        let mut touched: FxHashSet<i64> = FxHashSet::default();
        for values in &lanes {
            if let Some(element) = value(&access.linear, values) {
                let first = element.saturating_mul(bytes);
                touched.insert(first.div_euclid(SECTOR));
                touched.insert(first.saturating_add(bytes - 1).div_euclid(SECTOR));
            }
        }
        count += touched.len() as u64;
    }
    count
}
