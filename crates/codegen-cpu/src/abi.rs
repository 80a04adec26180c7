//! The interface between compiled code and the run time: the calling convention of a kernel's
//! function, and the part of the kernel's domain that each of its functions computes.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// A cache line has two to this many bytes.
pub(crate) const LINE_SHIFT: u8 = 6;

/// A generated kernel. See [`crate::clif::lower`] for the arguments.
pub(crate) type KernelFn = unsafe extern "C" fn(*const *mut u8, i64, i64);

/// A kernel's code: functions for its pieces, and where in its outermost dimension each
/// piece is, if it does not go through that as the kernel does.
pub(crate) type KernelCode = SmallVec<[(KernelFn, Option<Part>); 1]>;

/// What of a kernel's outermost dimension a function does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Points of the kernel that are one of the function's.
    pub points: i64,
    /// The first of those points that it does.
    pub first: i64,
    /// How many it does.
    pub length: i64,
}

impl Part {
    /// The function's bounds for some of the kernel's points, whose bounds are not negative: its
    /// point belongs to whoever has its first.
    pub(crate) fn bounds(&self, bounds: [i64; 2]) -> [i64; 2] {
        bounds.map(|at| {
            let point = (at + self.points - 1) / self.points;
            (point - self.first).clamp(0, self.length)
        })
    }
}

/// The functions of a kernel, with what each is to do of a part of the outermost dimension.
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
