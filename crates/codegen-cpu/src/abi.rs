//! The interface between compiled code and the run time: the calling convention of a kernel's
//! function, and the part of the kernel's domain that each of its functions computes.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// The binary logarithm of a cache line's bytes.
pub(crate) const LINE_SHIFT: u8 = 6;

/// A generated kernel. See [`crate::clif::lower`] for the arguments.
pub(crate) type KernelFn = unsafe extern "C" fn(*const *mut u8, i64, i64);

/// A kernel's code: the functions of its pieces, each with its part of the outermost dimension,
/// unless it iterates over that dimension as the kernel does.
pub(crate) type KernelCode = SmallVec<[(KernelFn, Option<Part>); 1]>;

/// The part of a kernel's outermost dimension that a function computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// The number of the kernel's points that are one point of the function.
    pub points: i64,
    /// The first of the function's points that it computes.
    pub first: i64,
    /// The number of points that it computes.
    pub length: i64,
}

impl Part {
    /// The function's bounds for a range of the kernel's points, whose bounds are not negative. A
    /// point of the function belongs to the range that contains its first kernel point.
    pub(crate) fn bounds(&self, bounds: [i64; 2]) -> [i64; 2] {
        bounds.map(|at| {
            let point = (at + self.points - 1) / self.points;
            (point - self.first).clamp(0, self.length)
        })
    }
}

/// The functions of a kernel, each with the range that it computes for a part of the outermost
/// dimension.
pub(crate) fn parts_of(
    code: &KernelCode,
    bounds: [i64; 2],
    mut run: impl FnMut(KernelFn, [i64; 2]),
) {
    for (function, part) in code {
        let bounds = match part {
            Some(part) => part.bounds(bounds),
            None => bounds,
        };
        run(*function, bounds);
    }
}
