//! The passes over a kernel, in the order in which they run.
//!
//! [`run`] is the list. Each pass takes a kernel and returns a better one, or nothing if it does
//! not apply; the last two decide which loops become vector loops. The result records how points
//! were regrouped, so that later stages need not repeat a pass to find out.

use super::index_set_split::{Subdomain, split_index_set};
use super::integer_moves::move_as_integers;
use super::loop_coalesce::coalesce_loops;
use super::loop_interchange::interchange_loops;
use super::loop_unswitch::unswitch_loops;
use super::pack_operand::{PackedOperand, pack_operands};
use super::reduction_interchange::interchange_reductions;
use super::unroll_and_jam::{Jammed, jam_short_dims, unroll_and_jam};
use crate::abi::Part;
use crate::vectorize::select_loops::{VectorPlan, select_loops};
use crate::vectorize::translate::small_array;
use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;
use tegula_fusion::Kernel;
use tegula_ir::PassManager;
use tegula_plan::{KernelText, verify_kernel};

/// The names of the passes over each kernel, in their order.
pub const PASSES: [&str; 10] = [
    "integer-moves",
    "loop-unswitch",
    "reduction-interchange",
    "loop-coalesce",
    "jam-short-dims",
    "loop-interchange",
    "unroll-and-jam",
    "index-set-split",
    "select-loops",
    "pack-operand",
];

/// The properties of the machine that the passes depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// Whether strided vectors of every second, third or fourth element are loaded and stored as
    /// whole vectors that are shuffled (AVX-512), and not element by element.
    pub interleaves: bool,
}

/// A kernel after all passes.
#[derive(Debug)]
pub(crate) struct Transformed {
    /// The parts, which become one function each.
    pub pieces: SmallVec<[Piece; 1]>,
    pub regrouping: Regrouping,
}

/// A part of a kernel that becomes one function.
#[derive(Debug)]
pub(crate) struct Piece {
    pub kernel: Kernel,
    pub vectors: VectorPlan,
    /// Small arrays that the function copies when it begins.
    pub packed: Vec<PackedOperand>,
    /// The part of the outermost dimension that it computes; `None` for all of it.
    pub part: Option<Part>,
}

/// The points and elements of a kernel that its code handles together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Regrouping {
    /// The number of consecutive points of the outermost dimension that are one iteration of the
    /// code. A run of a part of that dimension must begin and end at a multiple of this.
    pub granularity: i64,
    /// For each parameter: whether the code may read all of the array, independent of the points
    /// that it computes.
    pub reads_whole: Vec<bool>,
}

/// Runs all passes over a kernel. `name` identifies the kernel to the observer of `passes`.
pub(crate) fn run(
    name: &str,
    kernel: &Kernel,
    machine: Machine,
    passes: &mut PassManager<'_>,
) -> Transformed {
    let mut passes = Passes {
        kernel: name,
        passes,
    };
    let mut kernel = Cow::Borrowed(kernel);
    passes.run("integer-moves", &mut kernel, move_as_integers);
    passes.run("loop-unswitch", &mut kernel, unswitch_loops);
    passes.run("reduction-interchange", &mut kernel, interchange_reductions);
    passes.run("loop-coalesce", &mut kernel, coalesce_loops);
    passes.run("jam-short-dims", &mut kernel, |kernel| {
        jam_short_dims(kernel, machine.interleaves)
    });
    passes.run("loop-interchange", &mut kernel, interchange_loops);
    let jammed = passes.unroll_and_jam(&mut kernel);
    let subdomains = passes.index_set_split(&kernel, jammed);
    let pieces: SmallVec<[Piece; 1]> = subdomains
        .into_iter()
        .map(|(kernel, part)| passes.vectorize(kernel, part))
        .collect();
    let regrouping = Regrouping {
        granularity: jammed.map_or(1, |[points, _]| points),
        reads_whole: reads_whole(&pieces, kernel.params.len()),
    };
    Transformed { pieces, regrouping }
}

/// Vectorises a kernel that no other pass may change: a comparator of a sort.
pub(crate) fn vectorize_only(kernel: &Kernel) -> Piece {
    let mut passes = Passes {
        kernel: "",
        passes: &mut PassManager::new(),
    };
    passes.vectorize(kernel.clone(), None)
}

/// Runs passes over a kernel; in debug builds each result is verified. Results are passed to the
/// observer.
struct Passes<'a, 'o> {
    kernel: &'a str,
    passes: &'a mut PassManager<'o>,
}

impl Passes<'_, '_> {
    fn run(
        &mut self,
        name: &'static str,
        kernel: &mut Cow<'_, Kernel>,
        pass: impl FnOnce(&Kernel) -> Option<Kernel>,
    ) {
        if let Some(changed) = self.passes.run_on_kernel(name, || pass(kernel)) {
            self.changed(name, &changed);
            *kernel = Cow::Owned(changed);
        }
    }

    fn changed(&mut self, name: &'static str, kernel: &Kernel) {
        debug_assert_eq!(verify_kernel(kernel), Ok(()), "after {name}");
        let text = format_args!("{} = {}", self.kernel, KernelText(kernel));
        self.passes.show(name, &text);
    }

    /// Returns the number of points of the outermost dimension that became one, and the new number
    /// of points.
    fn unroll_and_jam(&mut self, kernel: &mut Cow<'_, Kernel>) -> Option<[i64; 2]> {
        let mut outermost = None;
        self.run("unroll-and-jam", kernel, |kernel| {
            let Jammed {
                kernel,
                outermost: points,
            } = unroll_and_jam(kernel)?;
            outermost = points;
            Some(kernel)
        });
        outermost
    }

    /// Splits a kernel's domain into parts that get a function each, with the range of the
    /// outermost dimension that each computes; `jammed` points of that dimension are one.
    fn index_set_split(
        &mut self,
        kernel: &Kernel,
        jammed: Option<[i64; 2]>,
    ) -> SmallVec<[(Kernel, Option<Part>); 1]> {
        let part = |bounds: Option<[i64; 2]>| {
            let [first, length] = bounds.or(jammed.map(|[_, length]| [0, length]))?;
            Some(Part {
                points: jammed.map_or(1, |[points, _]| points),
                first,
                length,
            })
        };
        let subdomains = self
            .passes
            .run_on_kernel("index-set-split", || split_index_set(kernel));
        if subdomains.is_empty() {
            return smallvec![(kernel.clone(), part(None))];
        }
        let subdomains = subdomains.into_iter();
        let pieces = subdomains.map(|Subdomain { kernel, outermost }| {
            self.changed("index-set-split", &kernel);
            (kernel, part(outermost))
        });
        pieces.collect()
    }

    fn vectorize(&mut self, kernel: Kernel, part: Option<Part>) -> Piece {
        let vectors = self
            .passes
            .run_on_kernel("select-loops", || select_loops(&kernel));
        let text = format_args!("{}:\n{vectors}", self.kernel);
        self.passes.show("select-loops", &text);
        let packed = self
            .passes
            .run_on_kernel("pack-operand", || pack_operands(&kernel, &vectors));
        let (kernel, vectors, packed) = match packed {
            Some(better) => {
                self.changed("pack-operand", &better.0);
                better
            }
            None => (kernel, vectors, Vec::new()),
        };
        Piece {
            kernel,
            vectors,
            packed,
            part,
        }
    }
}

/// For each parameter, whether a piece copies the whole array, or holds it in a register.
fn reads_whole(pieces: &[Piece], params: usize) -> Vec<bool> {
    let mut wholes = vec![false; params];
    for piece in pieces {
        for (number, whole) in wholes.iter_mut().enumerate() {
            let packed = piece.packed.iter().any(|packed| packed.is_of(number));
            let param = piece.kernel.params.get(number);
            *whole |= packed || param.is_some_and(|param| small_array(param).is_some());
        }
    }
    wholes
}
