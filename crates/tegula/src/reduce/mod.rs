//! Reduces a program while it keeps a property, by delta debugging (Zeller and Hildebrandt, 2002)
//! on instructions.
//!
//! Each edit makes the program smaller but keeps it valid: it replaces an instruction by a
//! parameter, by zeros, or by one of its operands, or it makes another instruction the result.
//! Groups of instructions are tried before single ones, and smaller sizes are tried last. Unused
//! parts are removed after each edit. An edit is kept if the verifier accepts the program, the
//! program is smaller, and it still has the property.

mod compact;
mod sizes;

use compact::compact;
use sizes::{Sizes, resized, sizes_of};
use std::collections::HashSet;
use tegula_ir::{
    Instruction, InstructionId, Literal, Module, Op, PrintStyle, Shape, print_module, verify,
};

/// The result of a reduction.
#[derive(Clone, Debug)]
pub struct Reduction {
    /// The smallest program found.
    pub module: Module,
    /// The number of programs that were tested.
    pub tries: usize,
    /// Whether the reduction stopped because it reached the limit of tests.
    pub gave_up: bool,
}

/// The maximum number of elements of a constant that replaces an instruction.
const MAX_ZEROS: i64 = 4096;

/// The smallest program found for which `fails` is true, as it is for the given one. `fails` is
/// called at most `max_tries` times; an error from it ends the reduction.
///
/// # Errors
/// Those of `fails`.
pub fn reduce<E>(
    module: &Module,
    max_tries: usize,
    fails: &mut dyn FnMut(&Module) -> Result<bool, E>,
) -> Result<Reduction, E> {
    let mut reducer = Reducer {
        best: module.clone(),
        fails,
        seen: HashSet::new(),
        tries: 0,
        max_tries,
    };
    // First, unused parts, annotations and the like are removed.
    reducer.offer(module, true)?;
    while !reducer.is_spent() {
        let before = measure(&reducer.best);
        reducer.results()?;
        reducer.groups()?;
        reducer.bypasses()?;
        reducer.sizes()?;
        if measure(&reducer.best) >= before {
            break;
        }
    }
    let gave_up = reducer.is_spent();
    Ok(Reduction {
        module: reducer.best,
        tries: reducer.tries,
        gave_up,
    })
}

/// The size of a program: the number of operations, then of instructions, then of elements.
fn measure(module: &Module) -> (usize, usize, i64) {
    let all = || module.instructions.values();
    let operations = all().filter(|i| !is_leaf(i)).count();
    let elements = all().map(|i| {
        let leaves = tegula_fusion::array_leaves(&i.shape);
        leaves
            .iter()
            .map(|l| l.representative().element_count().unwrap_or(0))
            .fold(0, i64::saturating_add)
    });
    (
        operations,
        module.instructions.len(),
        elements.fold(0, i64::saturating_add),
    )
}

fn is_leaf(instruction: &Instruction) -> bool {
    matches!(instruction.op, Op::Parameter(_) | Op::Constant(_))
}

struct Reducer<'f, E> {
    best: Module,
    fails: &'f mut dyn FnMut(&Module) -> Result<bool, E>,
    /// The texts of programs that were tested.
    seen: HashSet<String>,
    tries: usize,
    max_tries: usize,
}

impl<E> Reducer<'_, E> {
    fn is_spent(&self) -> bool {
        self.tries >= self.max_tries
    }

    /// Tests a candidate and keeps it if it is smaller and still fails.
    fn offer(&mut self, candidate: &Module, even_if_not_smaller: bool) -> Result<bool, E> {
        if self.is_spent() {
            return Ok(false);
        }
        let Some(candidate) = compact(candidate) else {
            return Ok(false);
        };
        let smaller = measure(&candidate) < measure(&self.best);
        if !(smaller || even_if_not_smaller) || verify(&candidate).is_err() {
            return Ok(false);
        }
        if !self
            .seen
            .insert(print_module(&candidate, PrintStyle::Short))
        {
            return Ok(false);
        }
        self.tries += 1;
        let kept = (self.fails)(&candidate)?;
        if kept {
            self.best = candidate;
        }
        Ok(kept)
    }

    /// Makes another instruction of the entry the result, or drops elements of a result that is a
    /// tuple.
    fn results(&mut self) -> Result<(), E> {
        let root = self.best.entry_computation().root;
        let mut position = 0;
        // Instructions near the inputs give the smallest programs.
        while let Some(&id) = self.best.entry_computation().instructions.get(position) {
            let mut candidate = self.best.clone();
            candidate.computations[candidate.entry].root = id;
            if id != root && self.offer(&candidate, false)? {
                break;
            }
            position += 1;
        }
        self.tuple_parts()
    }

    fn tuple_parts(&mut self) -> Result<(), E> {
        let mut part = 0;
        loop {
            let root = self.best.entry_computation().root;
            if self.best[root].op != Op::Tuple || part >= self.best[root].operands.len() {
                return Ok(());
            }
            let mut candidate = self.best.clone();
            candidate.instructions[root].operands.remove(part);
            if let Shape::Tuple(parts) = &candidate[root].shape {
                let kept = parts.iter().enumerate().filter(|&(i, _)| i != part);
                let kept = kept.map(|(_, shape)| shape.clone()).collect();
                candidate.instructions[root].shape = Shape::Tuple(kept);
            }
            if !self.offer(&candidate, false)? {
                part += 1;
            }
        }
    }

    /// Replaces groups of instructions by parameters and zeros.
    fn groups(&mut self) -> Result<(), E> {
        let mut size = self.best.instructions.len().div_ceil(2);
        while size > 0 {
            let mut start = 0;
            while start < self.best.instructions.len() {
                let ids: Vec<InstructionId> = self
                    .best
                    .instructions
                    .keys()
                    .skip(start)
                    .take(size)
                    .collect();
                let mut kept = false;
                for parameters in [true, false] {
                    let mut candidate = self.best.clone();
                    for &id in &ids {
                        make_leaf(&mut candidate, id, parameters);
                    }
                    kept = self.offer(&candidate, false)?;
                    if kept || self.is_spent() {
                        break;
                    }
                }
                if self.is_spent() {
                    return Ok(());
                }
                // After an edit is kept, instructions are renumbered, so the same position is tried
                // again.
                if !kept {
                    start += size;
                }
            }
            size /= 2;
        }
        Ok(())
    }

    /// Reduces dimensions: first all of them together, then those of each size.
    fn sizes(&mut self) -> Result<(), E> {
        for smallest in [1, 2] {
            let all = sizes_of(&self.best).into_iter();
            let all: Sizes = all
                .filter(|&s| s > smallest)
                .map(|s| (s, smallest))
                .collect();
            self.offer_resized(&all)?;
        }
        for size in sizes_of(&self.best) {
            let mut current = size;
            loop {
                let mut smaller = vec![1, 2, current / 2, current - 1];
                smaller.retain(|&to| 0 < to && to < current);
                smaller.dedup();
                let mut kept = None;
                for to in smaller {
                    if self.offer_resized(&Sizes::from([(current, to)]))? {
                        kept = Some(to);
                        break;
                    }
                }
                match kept {
                    Some(to) if to > 1 => current = to,
                    _ => break,
                }
            }
        }
        Ok(())
    }

    fn offer_resized(&mut self, sizes: &Sizes) -> Result<bool, E> {
        if sizes.is_empty() || self.is_spent() {
            return Ok(false);
        }
        match resized(&self.best, sizes) {
            Some(candidate) => self.offer(&candidate, false),
            None => Ok(false),
        }
    }

    /// Replaces an instruction by an operand of the same shape.
    fn bypasses(&mut self) -> Result<(), E> {
        let mut position = 0;
        while let Some(id) = self.best.instructions.keys().nth(position) {
            let mut kept = false;
            for operand in self.best[id].operands.clone() {
                if !self.best[operand]
                    .shape
                    .same_ignoring_layout(&self.best[id].shape)
                {
                    continue;
                }
                let mut candidate = self.best.clone();
                replace_uses(&mut candidate, id, operand);
                kept = self.offer(&candidate, false)?;
                if kept {
                    break;
                }
            }
            if self.is_spent() {
                return Ok(());
            }
            position += usize::from(!kept);
        }
        Ok(())
    }
}

/// Replaces an instruction by zeros or by a new parameter, which only the entry can have.
fn make_leaf(module: &mut Module, id: InstructionId, parameter: bool) {
    let instruction = &module.instructions[id];
    let computation = instruction.computation;
    if is_leaf(instruction) {
        return;
    }
    if parameter && computation == module.entry {
        let parameters = &mut module.computations[computation].parameters;
        let number = u32::try_from(parameters.len()).unwrap_or(u32::MAX);
        parameters.push(id);
        let instruction = &mut module.instructions[id];
        instruction.op = Op::Parameter(number);
        instruction.operands.clear();
        return;
    }
    let Some(shape) = instruction.shape.as_array() else {
        return;
    };
    if shape.element_count().is_none_or(|n| n > MAX_ZEROS) {
        return;
    }
    if let Ok(zeros) = Literal::zeros(shape) {
        let instruction = &mut module.instructions[id];
        instruction.op = Op::Constant([zeros].into());
        instruction.operands.clear();
    }
}

fn replace_uses(module: &mut Module, from: InstructionId, to: InstructionId) {
    for instruction in module.instructions.values_mut() {
        for operand in &mut instruction.operands {
            if *operand == from {
                *operand = to;
            }
        }
    }
    for computation in module.computations.values_mut() {
        if computation.root == from {
            computation.root = to;
        }
    }
}
