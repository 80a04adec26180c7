//! Small arrays with another dimension last: copied once, when a kernel's function begins.
//!
//! Lanes that go along a dimension of an array that is not its last find their elements apart: a
//! gather each, or no lanes at all. Where the array is small and each of its elements is read
//! often, a copy in which they are neighbours costs little: an element about a nanosecond, and a
//! gathered lane saves as much.

use crate::carrier::integer_type;
use crate::counted_loop::CountedLoop;
use crate::error::Error;
use crate::lower::LINE_SHIFT;
use crate::vector::{Choice, choose};
use cranelift_codegen::ir::{
    InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value, types,
};
use cranelift_frontend::FunctionBuilder;
use rustc_hash::FxHashMap;
use tegula_expr::{Term, Var};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Access, Block, IndexVar, Param, Statement};

/// The most bytes of such a copy: it stays in the nearest cache.
const MAX_BYTES: i64 = 16 << 10;
/// How often an element is read at least. Each thread makes a copy of its own.
const OFTEN: i64 = 32;

/// An array that a kernel reads from a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reordered {
    /// Its number among the parameters.
    param: usize,
    /// Which dimension of the array is each of the copy's.
    order: Vec<usize>,
}

/// A kernel that reads copies of small arrays, its vector loops, and the copies; `None` if they
/// would gain nothing over `choice`.
pub(crate) fn reordered(
    kernel: &Kernel,
    choice: &Choice,
) -> Option<(Kernel, Choice, Vec<Reordered>)> {
    if gathers(choice) == Some(0) {
        // Loops are inside of such lanes, and find all elements where these are neighbours.
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
        let better = choose(&kernel);
        // Lanes of the domain have all loops inside: one that stays without costs more.
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

/// Gathers of the domain's lanes, if it has any.
fn gathers(choice: &Choice) -> Option<usize> {
    let (_, rows) = choice.domain.as_ref()?;
    let mut gathers = 0;
    rows.for_each(&mut |run| gathers += run.gathers);
    Some(gathers)
}

fn fewer_gathers(better: &Choice, choice: &Choice) -> bool {
    match (gathers(better), gathers(choice)) {
        (Some(better), Some(were)) => better < were,
        (better, were) => better == Some(0) && were.is_none() && choice.loops.is_empty(),
    }
}

/// The innermost loops that are not lanes.
fn scalar_loops(block: &Block, choice: &Choice, out: &mut Vec<Var>) {
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

/// How a kernel reads one of its arrays.
#[derive(Default)]
struct Reads {
    times: i64,
    /// The dimension that lanes go along, in all loads that they go along one of; `None` if they
    /// differ.
    along: Option<Option<usize>>,
}

/// The arrays whose elements would be neighbours in copies, for lanes along a variable.
fn copies(kernel: &Kernel, lane: Var) -> Vec<Reordered> {
    let reads = all_reads(kernel, lane).unwrap_or_default();
    let copy = |(param, declared): (usize, &Param)| {
        let reads = reads.get(&param)?;
        let along = reads.along??;
        let rank = declared.dims.len();
        let others = (0..rank).filter(|&dim| dim != along);
        (is_worth(declared, reads)? && along + 1 < rank).then(|| Reordered {
            param,
            order: others.chain([along]).collect(),
        })
    };
    kernel.params.iter().enumerate().filter_map(copy).collect()
}

/// Which arrays may be read as a whole when a function begins, whatever part of the points it
/// does: to be copied.
pub(crate) fn may_be_copied(kernel: &Kernel) -> Vec<bool> {
    let lane = kernel.domain.last().copied();
    let reads = lane.and_then(|lane| all_reads(kernel, lane));
    let reads = reads.unwrap_or_default();
    let copied = |(param, declared): (usize, &Param)| is_worth(declared, reads.get(&param)?);
    let params = kernel.params.iter().enumerate();
    params.map(|param| copied(param) == Some(true)).collect()
}

/// Whether an array is small, and read often.
fn is_worth(declared: &Param, reads: &Reads) -> Option<bool> {
    let (elements, bytes) = size(declared)?;
    let is_small = declared.access == Access::Read && elements.checked_mul(bytes)? <= MAX_BYTES;
    Some(is_small && reads.times >= elements.checked_mul(OFTEN)?)
}

/// How a kernel reads each of its arrays; `None` if it is not known how often.
fn all_reads(kernel: &Kernel, lane: Var) -> Option<FxHashMap<usize, Reads>> {
    let mut domain = kernel.domain.iter().map(|&var| extent(kernel, var));
    let points = domain.try_fold(1i64, |n, extent| n.checked_mul(extent?))?;
    let mut reads = FxHashMap::default();
    find(kernel, &kernel.body, lane, points, &mut reads)?;
    Some(reads)
}

/// The elements of an array, and the bytes of one, if a copy is loads and stores of integers.
fn size(param: &Param) -> Option<(i64, i64)> {
    let bytes = param.element_type.storage_bytes() as i64;
    let dims = param.dims.iter().map(Term::as_constant);
    let elements = dims.into_iter().try_fold(1i64, |n, d| n.checked_mul(d?))?;
    (elements > 0 && bytes <= 8).then_some((elements, bytes))
}

fn extent(kernel: &Kernel, var: Var) -> Option<i64> {
    match kernel.var(var) {
        Some(IndexVar::Domain(extent) | IndexVar::Loop(extent)) => extent.as_constant(),
        _ => None,
    }
}

/// Loads in a block that is run so many times; `None` if it is not known how often.
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
                let times = times.checked_mul(extent(kernel, *var)?)?;
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

/// The kernel with an array's dimensions in another order.
fn apply(kernel: &mut Kernel, copy: &Reordered) {
    let dims = &mut kernel.params[copy.param].dims;
    *dims = copy.order.iter().map(|&d| dims[d].clone()).collect();
    in_order(&mut kernel.body, copy);
}

fn in_order(block: &mut Block, copy: &Reordered) {
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

impl Reordered {
    /// Whether it is a parameter's.
    pub(crate) fn is_of(&self, param: usize) -> bool {
        self.param == param
    }

    /// Makes the copy of an array that lies at `from`; gives where it lies. `param` has the
    /// copy's dimensions.
    pub(crate) fn make(
        &self,
        builder: &mut FunctionBuilder<'_>,
        param: &Param,
        from: Value,
    ) -> Result<Value, Error> {
        let bug = || Error::Bug("a copy of a small array".to_owned());
        let (elements, bytes) = size(param).ok_or_else(bug)?;
        let total = u32::try_from(elements * bytes).map_err(|_| bug())?;
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, total, LINE_SHIFT);
        let slot = builder.create_sized_stack_slot(slot);
        let to = builder.ins().stack_addr(types::I64, slot, 0);
        let dims: Option<Vec<i64>> = param.dims.iter().map(Term::as_constant).collect();
        let dims = dims.ok_or_else(bug)?;
        // Elements from one to the next along each of the copy's dimensions, in the array.
        let mut steps = vec![1i64; dims.len()];
        let mut step = 1;
        for old in (0..dims.len()).rev() {
            let new = self.order.iter().position(|&d| d == old).ok_or_else(bug)?;
            steps[new] = step;
            step *= dims[new];
        }
        let ty = integer_type(bytes as usize);
        let flags = MemFlagsData::trusted();
        let mut loops = Vec::new();
        let (mut source, mut target) = (from, to);
        let mut inside: i64 = dims.iter().product();
        for (&dim, &step) in dims.iter().zip(&steps) {
            inside /= dim;
            let [zero, end] = [0, dim].map(|n| builder.ins().iconst(types::I64, n));
            let turn = CountedLoop::open(builder, zero, end, &[source, target]);
            (source, target) = (turn.carried[0], turn.carried[1]);
            let next = [(source, step * bytes), (target, inside * bytes)];
            loops.push((turn, next));
        }
        let element = builder.ins().load(ty, flags, source, 0);
        builder.ins().store(flags, element, target, 0);
        for (turn, next) in loops.into_iter().rev() {
            let next = next.map(|(address, step)| builder.ins().iadd_imm_s(address, step));
            turn.close(builder, 1, &next);
        }
        Ok(to)
    }
}
