//! Operand packing: copies a small array with its dimensions permuted, when a kernel's function
//! begins.
//!
//! If lanes go along a dimension that is not the array's last, they gather, or the loop is not
//! vectorised at all. If the array is small and each element is read often, a copy in which these
//! elements are contiguous is cheaper: copying an element costs about a nanosecond, and so does
//! each gathered lane.

use crate::vectorize::select_loops::VectorPlan;
use crate::vectorize::select_loops::select_loops;
use rustc_hash::FxHashMap;
use tegula_expr::{Term, Var};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Access, Block, Param, Statement};

/// The maximum bytes of a copy: it must stay in the nearest cache.
const MAX_BYTES: i64 = 16 << 10;
/// The minimum number of reads of each element. Each thread makes a copy of its own.
const OFTEN: i64 = 32;

/// An array that a kernel reads from a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PackedOperand {
    /// The parameter's number.
    param: usize,
    /// For each dimension of the copy, the dimension of the array.
    pub(crate) order: Vec<usize>,
}

/// The kernel that reads copies of small arrays, its vector loops, and the copies; `None` if they
/// would gain nothing over `choice`.
pub(crate) fn pack_operands(
    kernel: &Kernel,
    choice: &VectorPlan,
) -> Option<(Kernel, VectorPlan, Vec<PackedOperand>)> {
    if gathers(choice) == Some(0) {
        // The domain is already vectorised without gathers.
        return None;
    }
    let mut lanes = Vec::new();
    scalar_loops(&kernel.body, choice, &mut lanes);
    lanes.extend(kernel.domain.last());
    lanes.into_iter().find_map(|lane| {
        let copies = copies(kernel, lane);
        if copies.is_empty() {
            return None;
        }
        let mut kernel = kernel.clone();
        for copy in &copies {
            apply(&mut kernel, copy);
        }
        let better = select_loops(&kernel);
        // If the domain is vectorised, all its loops are inside the vector loop. It must not be
        // replaced by vectorised inner loops if one of the loops would then stay scalar.
        let left = || {
            let mut left = Vec::new();
            scalar_loops(&kernel.body, &better, &mut left);
            left.len()
        };
        let loops = better.loops.len() > choice.loops.len();
        let gains = loops && (choice.domain.is_none() || left() == 0);
        let gains = gains || fewer_gathers(&better, choice);
        gains.then_some((kernel, better, copies))
    })
}

/// The number of gathers of the domain's vector loop, if the domain is vectorised.
fn gathers(choice: &VectorPlan) -> Option<usize> {
    let (_, rows) = choice.domain.as_ref()?;
    let mut gathers = 0;
    rows.for_each(&mut |run| gathers += run.gathers);
    Some(gathers)
}

fn fewer_gathers(better: &VectorPlan, choice: &VectorPlan) -> bool {
    match (gathers(better), gathers(choice)) {
        (Some(better), Some(were)) => better < were,
        (better, were) => better == Some(0) && were.is_none() && choice.loops.is_empty(),
    }
}

/// Collects the innermost loops that are not vectorised.
fn scalar_loops(block: &Block, choice: &VectorPlan, out: &mut Vec<Var>) {
    for statement in &block.statements {
        match statement {
            Statement::Loop { var, body, .. } => {
                if body.any(Statement::is_loop) {
                    scalar_loops(body, choice, out);
                } else if !choice.loops.contains_key(var) {
                    out.push(*var);
                }
            }
            Statement::If {
                then, otherwise, ..
            } => {
                scalar_loops(then, choice, out);
                scalar_loops(otherwise, choice, out);
            }
            _ => {}
        }
    }
}

/// The reads of one array by a kernel.
#[derive(Default)]
struct Reads {
    times: i64,
    /// The dimension along which lanes read the array, in all loads that lanes read along one;
    /// `None` if loads differ.
    along: Option<Option<usize>>,
}

/// The copies that make elements contiguous for lanes along a variable.
fn copies(kernel: &Kernel, lane: Var) -> Vec<PackedOperand> {
    let reads = all_reads(kernel, lane).unwrap_or_default();
    let copy = |(param, declared): (usize, &Param)| {
        let reads = reads.get(&param)?;
        let along = reads.along??;
        let rank = declared.dims.len();
        let others = (0..rank).filter(|&dim| dim != along);
        (is_worth(declared, reads)? && along + 1 < rank).then(|| PackedOperand {
            param,
            order: others.chain([along]).collect(),
        })
    };
    kernel.params.iter().enumerate().filter_map(copy).collect()
}

/// Whether an array is small and read often.
fn is_worth(declared: &Param, reads: &Reads) -> Option<bool> {
    let (elements, bytes) = array_size(declared)?;
    let is_small = declared.access == Access::Read && elements.checked_mul(bytes)? <= MAX_BYTES;
    Some(is_small && reads.times >= elements.checked_mul(OFTEN)?)
}

/// The reads of each of a kernel's arrays; `None` if their number is not known.
fn all_reads(kernel: &Kernel, lane: Var) -> Option<FxHashMap<usize, Reads>> {
    let mut domain = kernel.domain.iter().map(|&var| kernel.constant_extent(var));
    let points = domain.try_fold(1i64, |n, extent| n.checked_mul(extent?))?;
    let mut reads = FxHashMap::default();
    find(kernel, &kernel.body, lane, points, &mut reads)?;
    Some(reads)
}

/// The number of elements of an array and the bytes of one, if it can be copied by loads and stores
/// of integers.
pub(crate) fn array_size(param: &Param) -> Option<(i64, i64)> {
    let bytes = param.element_type.storage_bytes() as i64;
    let dims = param.dims.iter().map(Term::as_constant);
    let elements = dims.into_iter().try_fold(1i64, |n, d| n.checked_mul(d?))?;
    (elements > 0 && bytes <= 8).then_some((elements, bytes))
}

/// Finds the loads in a block that is executed `times` times; `None` if their number is not known.
fn find(
    kernel: &Kernel,
    block: &Block,
    lane: Var,
    times: i64,
    reads: &mut FxHashMap<usize, Reads>,
) -> Option<()> {
    for statement in &block.statements {
        match statement {
            Statement::Load { param, index, .. } => {
                let reads = reads.entry(*param).or_default();
                reads.times = reads.times.saturating_add(times);
                let mut mentions = (0..index.len()).filter(|&d| index[d].mentions(lane));
                let along = match (mentions.next(), mentions.next()) {
                    (None, _) => continue,
                    (Some(dim), None) => (index[dim].as_var() == Some(lane)).then_some(dim),
                    _ => None,
                };
                reads.along = match reads.along {
                    None => Some(along),
                    Some(known) => Some(known.filter(|_| known == along)),
                };
            }
            Statement::Loop { var, body, .. } => {
                let times = times.checked_mul(kernel.constant_extent(*var)?)?;
                find(kernel, body, lane, times, reads)?;
            }
            Statement::If {
                then, otherwise, ..
            } => {
                find(kernel, then, lane, times, reads)?;
                find(kernel, otherwise, lane, times, reads)?;
            }
            Statement::Compute { .. } | Statement::Store { .. } | Statement::Bind { .. } => {}
        }
    }
    Some(())
}

/// Permutes the dimensions of an array in a kernel.
fn apply(kernel: &mut Kernel, copy: &PackedOperand) {
    let dims = &mut kernel.params[copy.param].dims;
    *dims = copy.order.iter().map(|&d| dims[d].clone()).collect();
    in_order(&mut kernel.body, copy);
}

fn in_order(block: &mut Block, copy: &PackedOperand) {
    for statement in &mut block.statements {
        match statement {
            Statement::Load { param, index, .. } if *param == copy.param => {
                *index = copy.order.iter().map(|&d| index[d].clone()).collect();
            }
            Statement::Loop { body, .. } => in_order(body, copy),
            Statement::If {
                then, otherwise, ..
            } => {
                in_order(then, copy);
                in_order(otherwise, copy);
            }
            _ => {}
        }
    }
}

impl PackedOperand {
    /// Whether it is the copy of this parameter.
    pub(crate) fn is_of(&self, param: usize) -> bool {
        self.param == param
    }
}
