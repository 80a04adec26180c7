//! Loop interchange: swaps the two innermost dimensions if the innermost is too short for lanes and
//! most arrays are contiguous along the next.

use crate::analysis::affine_access::{merged, steps_along};
use crate::vectorize::select_loops::FEW;
use tegula_expr::Var;
use tegula_fusion::Kernel;
use tegula_fusion::kernel::Statement;

/// The minimum number of points of a dimension that is moved innermost.
const MANY: i64 = 16;

/// Swaps the two innermost dimensions of a kernel if the innermost has too few points for a vector
/// (such as the channels of an image, if they are last only in the result) and most arrays are
/// contiguous along the next. The outermost dimension, which threads share, stays.
pub(crate) fn interchange_loops(kernel: &Kernel) -> Option<Kernel> {
    let [_, .., next, last] = kernel.domain[..] else {
        return None;
    };
    let extent = |var: Var| kernel.constant_extent(var);
    let has_loops = kernel.body.any(|s| matches!(s, Statement::Loop { .. }));
    if has_loops || extent(last)? >= FEW || extent(next)? < MANY || merged(kernel).0 != 1 {
        return None;
    }
    let steps = steps_along(kernel, &kernel.body, next);
    let near = steps.iter().filter(|at| at.step == Some(1)).count();
    let far = (steps.iter()).filter(|at| !matches!(at.step, Some(0 | 1)));
    (near > 0 && near >= far.count()).then(|| {
        let mut kernel = kernel.clone();
        let rank = kernel.domain.len();
        kernel.domain.swap(rank - 2, rank - 1);
        kernel
    })
}
