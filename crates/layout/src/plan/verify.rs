//! The Plan verifier: an independent look at what buffer assignment did.
//!
//! It walks the schedule and tracks which values hold what was last written to
//! them. A write to a value spoils every other value whose bytes overlap, except
//! where a copy just made them equal. At a loop's head a value is good only if it
//! is good both before the loop and after an iteration.
//!
//! What it checks is the list of invariants in [`super`].

use super::{KernelId, Place, Plan, Step, ValueId};
use rustc_hash::FxHashSet;
use tegula_fusion::kernel::Access;
use tegula_ir::{ALIGNMENT, ArrayShape, ElementType};

type Good = FxHashSet<ValueId>;

/// Checks a plan; gives everything that is wrong with it.
pub fn verify(plan: &Plan) -> Result<(), Vec<String>> {
    let mut verifier = Verifier {
        plan,
        errors: Vec::new(),
        overlapping: Vec::new(),
    };
    verifier.places();
    verifier.find_overlaps();
    let fixed = |id: &ValueId| {
        matches!(
            plan.buffers[plan.values[*id].buffer].place,
            Place::Constant(_) | Place::Parameter(_)
        )
    };
    let mut good: Good = plan.values.keys().filter(fixed).collect();
    verifier.steps(&plan.steps, &mut good);
    for &result in &plan.results {
        verifier.read(result, &good, "the program's result");
    }
    if verifier.errors.is_empty() {
        Ok(())
    } else {
        Err(verifier.errors)
    }
}

struct Verifier<'a> {
    plan: &'a Plan,
    errors: Vec<String>,
    /// For each value, the others whose bytes overlap its own.
    overlapping: Vec<Vec<ValueId>>,
}

impl Verifier<'_> {
    fn error(&mut self, message: String) {
        // A wrong plan tends to be wrong everywhere.
        if self.errors.len() < 100 {
            self.errors.push(message);
        }
    }

    /// Bytes of the arena or of an output that a value takes.
    fn extent(&self, id: ValueId) -> Option<(u8, i64, i64)> {
        let value = &self.plan.values[id];
        let bytes = value.shape.byte_size()?;
        match &self.plan.buffers[value.buffer].place {
            Place::Arena(offset) => {
                let start = offset.as_constant()?;
                Some((0, start, start.checked_add(bytes)?))
            }
            Place::Output(_) => Some((
                1,
                value.buffer.as_u32().into(),
                i64::from(value.buffer.as_u32()) + 1,
            )),
            Place::Parameter(_) | Place::Constant(_) => None,
        }
    }

    fn places(&mut self) {
        for (id, value) in &self.plan.values {
            let buffer = &self.plan.buffers[value.buffer];
            let bytes = value.shape.byte_size();
            if bytes.is_none() || buffer.bytes.as_constant() < bytes {
                self.error(format!("{id} is larger than its buffer {}", value.buffer));
            }
            if let Place::Arena(offset) = &buffer.place {
                let start = offset.as_constant();
                let aligned = start.is_some_and(|s| s >= 0 && s % ALIGNMENT as i64 == 0);
                let inside = start
                    .zip(bytes)
                    .is_some_and(|(s, b)| s + b <= self.plan.arena_bytes);
                if !aligned || !inside {
                    self.error(format!("{id} is misplaced in the arena at {start:?}"));
                }
            }
        }
    }

    fn find_overlaps(&mut self) {
        let mut extents: Vec<(u8, i64, i64, ValueId)> = Vec::new();
        for id in self.plan.values.keys() {
            if let Some((area, start, end)) = self.extent(id).filter(|e| e.1 < e.2) {
                extents.push((area, start, end, id));
            }
        }
        extents.sort_unstable();
        self.overlapping = vec![Vec::new(); self.plan.values.len()];
        for (i, &(area, _, end, id)) in extents.iter().enumerate() {
            for &(other_area, start, _, other) in &extents[i + 1..] {
                if other_area != area || start >= end {
                    break;
                }
                self.overlapping[id.as_u32() as usize].push(other);
                self.overlapping[other.as_u32() as usize].push(id);
            }
        }
    }

    fn read(&mut self, value: ValueId, good: &Good, by: &str) {
        if !good.contains(&value) && self.plan.values[value].shape.byte_size() != Some(0) {
            self.error(format!(
                "{value} is read by {by}, but was not written or was overwritten"
            ));
        }
    }

    fn write(&mut self, value: ValueId, good: &mut Good, same: Option<ValueId>) {
        if matches!(
            self.plan.buffers[self.plan.values[value].buffer].place,
            Place::Parameter(_) | Place::Constant(_)
        ) && same.is_none_or(|s| !self.plan.same_place(s, value))
        {
            self.error(format!(
                "{value} is written, but lies in a parameter or constant"
            ));
        }
        let elided = same.is_some_and(|s| self.plan.same_place(s, value));
        if !elided {
            for other in &self.overlapping[value.as_u32() as usize] {
                good.remove(other);
            }
        }
        good.insert(value);
    }

    fn steps(&mut self, steps: &[Step], good: &mut Good) {
        for step in steps {
            self.step(step, good);
        }
    }

    fn step(&mut self, step: &Step, good: &mut Good) {
        match step {
            Step::Copy { from, to } => {
                self.read(*from, good, "a copy");
                if self.plan.values[*from].shape.byte_size()
                    != self.plan.values[*to].shape.byte_size()
                {
                    self.error(format!("the copy from {from} to {to} changes the size"));
                }
                self.write(*to, good, Some(*from));
            }
            Step::Kernel { kernel, args } => self.kernel(*kernel, args, good),
            Step::Library {
                op,
                operands,
                results,
            } => {
                for &operand in operands {
                    self.read(operand, good, op.name());
                }
                for &result in results {
                    if operands
                        .iter()
                        .any(|o| self.overlapping[result.as_u32() as usize].contains(o))
                    {
                        self.error(format!(
                            "{} writes {result} over one of its operands",
                            op.name()
                        ));
                    }
                    self.write(result, good, None);
                }
            }
            Step::While {
                condition,
                predicate,
                body,
            } => {
                self.while_loop(condition, *predicate, body, good);
            }
            Step::Conditional { selector, branches } => {
                self.read(*selector, good, "a conditional");
                let mut after: Option<Good> = None;
                for branch in branches {
                    let mut inner = good.clone();
                    self.steps(branch, &mut inner);
                    after = Some(match after {
                        Some(after) => after.intersection(&inner).copied().collect(),
                        None => inner,
                    });
                }
                *good = after.unwrap_or_default();
            }
        }
    }

    fn while_loop(
        &mut self,
        condition: &[Step],
        predicate: ValueId,
        body: &[Step],
        good: &mut Good,
    ) {
        // What an iteration spoils is spoiled at the head; errors count only once
        // the head is known.
        loop {
            let before = self.errors.len();
            let mut around = good.clone();
            self.steps(condition, &mut around);
            let exit = around.clone();
            self.steps(body, &mut around);
            let head: Good = good.intersection(&around).copied().collect();
            if head.len() == good.len() {
                *good = exit;
                self.read(predicate, good, "a loop");
                return;
            }
            self.errors.truncate(before);
            *good = head;
        }
    }

    fn kernel(&mut self, id: KernelId, args: &[ValueId], good: &mut Good) {
        let kernel = &self.plan.kernels[id];
        if kernel.params.len() != args.len() {
            return self.error(format!(
                "{id} takes {} values, not {}",
                kernel.params.len(),
                args.len()
            ));
        }
        for (i, (param, &arg)) in kernel.params.iter().zip(args).enumerate() {
            let shape = &self.plan.values[arg].shape;
            if !agrees(param.element_type, &param.dims, shape) {
                self.error(format!(
                    "parameter {i} of {id} is not of the shape of {arg}"
                ));
            }
            if param.access != Access::Write {
                self.read(arg, good, &id.to_string());
            }
        }
        for (param, &arg) in kernel.params.iter().zip(args) {
            if param.access != Access::Read {
                self.write(arg, good, None);
            }
        }
        // Sharing memory within one step is only right all or nothing.
        for (param, &written) in kernel.params.iter().zip(args) {
            for &other in args {
                let overlap = self.overlapping[written.as_u32() as usize].contains(&other);
                if param.access != Access::Read && overlap && !self.plan.same_place(written, other)
                {
                    self.error(format!(
                        "{id} is given {written} and {other}, which overlap in part"
                    ));
                }
            }
        }
    }
}

fn agrees(element_type: ElementType, dims: &[tegula_expr::Term], shape: &ArrayShape) -> bool {
    element_type == shape.element_type
        && dims.len() == shape.rank()
        && dims.iter().zip(&shape.dims).all(|(a, b)| *a == b.term())
}
