//! The Plan verifier: checks independently that buffer assignment is correct.
//!
//! It walks the schedule and tracks which values still hold what was last written to them. Writing
//! a value invalidates every other value whose bytes overlap, unless a copy has just made them
//! equal. At a loop's head, a value is valid only if it is valid before the loop and after every
//! iteration.
//!
//! Beyond the invariants of [`super`], it checks that:
//! - ids exist, a buffer is inside the memory it names, and a value fits its buffer;
//! - kernels are well-formed (`verify_kernel`), and a kernel that overwrites what it reads does so
//!   element by element;
//! - library calls match their operands and overwrite none of them, except where the routine may;
//! - strips of steps may be done one after the other (`strips` explains why);
//! - predicates and selectors are scalars of the right type.
//!
//! It does not check that the indices of loads and stores are in bounds.
//!
//! Time and memory are bounded by the plan's size times the depth of its loops, and by
//! [`MAX_OVERLAPS`].

use super::strip_legality::{Part, arrays, cuts};
use super::verifier_error::VerifierErrors;
use super::verify_kernel::{verify_kernel, works_in_place};
use super::verify_library::library_suits;
use super::verify_places::{ids_exist, misplaced};
use super::{KernelId, Place, Plan, Step, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};
use tegula_expr::{Cmp, Term};
use tegula_fusion::LibraryOp;
use tegula_fusion::kernel::Access;
use tegula_ir::{ArrayShape, ElementType, Guard};

type Good = FxHashSet<ValueId>;

/// What steps do to values: `true` if a value ends up written, `false` if invalidated.
type Effect = FxHashMap<ValueId, bool>;

/// The most pairs of overlapping values that are examined.
const MAX_OVERLAPS: usize = 1 << 23;

/// Verifies a plan.
///
/// A plan with symbolic sizes is verified at a few sizes that its guards allow, which finds errors
/// that occur at all sizes. Before a run, the plan is also verified [at](Plan::at) the sizes of the
/// run, which is a proof for these sizes.
///
/// # Errors
/// All violations, up to a hundred.
pub fn verify(plan: &Plan) -> Result<(), VerifierErrors> {
    if !plan.has_open_sizes() {
        return verify_static(plan);
    }
    ids_exist(plan)?;
    let samples = [3, 2, 1, 64, 4, 16, 0].map(|size| allowed_sizes(plan, size));
    for sizes in samples.into_iter().flatten().take(2) {
        verify_static(&plan.at(&sizes)?)?;
    }
    Ok(())
}

/// Sizes that the plan's guards allow, most of them equal to `size`.
fn allowed_sizes(plan: &Plan, size: i64) -> Option<Vec<i64>> {
    let mut sizes: Vec<i64> = (plan.symbols.iter())
        .map(|symbol| size.clamp(symbol.lower, symbol.upper.max(symbol.lower)))
        .collect();
    // A guard that defines the size of an input precedes guards that use it.
    for guard in &plan.sizes.guards {
        if let (Cmp::Eq, Some(var)) = (guard.op, guard.left.as_var()) {
            let value = guard.right.eval(&|v| sizes.get(v.0 as usize).copied());
            *sizes.get_mut(var.0 as usize)? = value.ok()?;
        }
    }
    let value = |term: &Term| term.eval(&|v| sizes.get(v.0 as usize).copied()).ok();
    let holds = |guard: &Guard| Some(guard.op.holds(value(&guard.left)?, value(&guard.right)?));
    let allowed = plan.sizes.guards.iter().all(|g| holds(g) == Some(true));
    let in_bounds = sizes
        .iter()
        .zip(&plan.symbols)
        .all(|(size, symbol)| (symbol.lower..=symbol.upper).contains(size));
    (allowed && in_bounds).then_some(sizes)
}

fn verify_static(plan: &Plan) -> Result<(), VerifierErrors> {
    ids_exist(plan)?;
    let mut verifier = Verifier {
        plan,
        errors: misplaced(plan),
        overlapping: Vec::new(),
    };
    for (id, kernel) in &plan.kernels {
        if let Err(error) = verify_kernel(kernel) {
            verifier.error(format!("{id}: {error}"));
        }
    }
    verifier.find_overlaps()?;
    let fixed = |id: &ValueId| {
        let place = &plan.buffers[plan.values[*id].buffer].place;
        matches!(place, Place::Constant(_) | Place::Parameter(_))
    };
    let mut good: Good = plan.values.keys().filter(fixed).collect();
    // A parameter that shares a result's memory is valid until it is overwritten.
    let aliased = plan
        .aliases
        .iter()
        .filter_map(|a| plan.parameters.get(a.parameter));
    good.extend(aliased);
    verifier.steps(&plan.steps, &mut good);
    for &result in &plan.results {
        verifier.read(result, &good, "the program's result");
    }
    verifier.errors.truncate(100);
    VerifierErrors::check(verifier.errors)
}

struct Verifier<'a> {
    plan: &'a Plan,
    errors: Vec<String>,
    /// For each value, the other values whose bytes overlap its own.
    overlapping: Vec<Vec<ValueId>>,
}

impl Verifier<'_> {
    fn error(&mut self, message: String) {
        // A wrong plan tends to be wrong everywhere.
        if self.errors.len() < 100 {
            self.errors.push(message);
        }
    }

    /// The bytes of a value in the arena (`None`) or in an output.
    fn extent(&self, id: ValueId) -> Option<(Option<usize>, i64, i64)> {
        let value = &self.plan.values[id];
        let bytes = value.shape.byte_size().filter(|&bytes| bytes > 0)?;
        let (area, start) = match &self.plan.buffers[value.buffer].place {
            Place::Arena(offset) => (None, offset.as_constant()?),
            Place::Output { result, from } => (Some(*result), *from),
            Place::Parameter(_) | Place::Constant(_) => return None,
        };
        Some((area, start, start.checked_add(bytes)?))
    }

    fn find_overlaps(&mut self) -> Result<(), String> {
        let mut extents: Vec<(Option<usize>, i64, i64, ValueId)> = Vec::new();
        for id in self.plan.values.keys() {
            if let Some((area, start, end)) = self.extent(id) {
                extents.push((area, start, end, id));
            }
        }
        extents.sort_unstable();
        self.overlapping = vec![Vec::new(); self.plan.values.len()];
        let mut pairs = 0;
        for (i, &(area, _, end, id)) in extents.iter().enumerate() {
            for &(other_area, start, _, other) in &extents[i + 1..] {
                if other_area != area || start >= end {
                    break;
                }
                pairs += 1;
                if pairs > MAX_OVERLAPS {
                    return Err("too many values share memory to check them".to_owned());
                }
                self.overlapping[id.as_u32() as usize].push(other);
                self.overlapping[other.as_u32() as usize].push(id);
            }
        }
        Ok(())
    }

    fn overlapping(&self, value: ValueId) -> &[ValueId] {
        &self.overlapping[value.as_u32() as usize]
    }

    /// Whether two values are the same or have bytes in common.
    fn touch(&self, a: ValueId, b: ValueId) -> bool {
        let empty = self.plan.values[a].shape.byte_size() == Some(0);
        (a == b && !empty) || self.overlapping(a).contains(&b)
    }

    fn shape(&self, value: ValueId) -> &ArrayShape {
        &self.plan.values[value].shape
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
                "{value} is written, but is stored in a parameter or constant"
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
            } => self.library(op, operands, results, good),
            Step::While {
                condition,
                predicate,
                body,
            } => {
                self.while_loop(condition, *predicate, body, good);
            }
            Step::Conditional { selector, branches } => {
                self.read(*selector, good, "a conditional");
                let shape = self.shape(*selector);
                let scalar = [ElementType::Pred, ElementType::S32].contains(&shape.element_type);
                if !scalar || shape.rank() != 0 || branches.is_empty() {
                    let message = "expected a pred or s32 selector and at least one branch, found selector {}";
                    self.error(message.replace("{}", &selector.to_string()));
                }
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
            Step::Strips { count, steps } => {
                self.steps(steps, good);
                if self.errors.is_empty() {
                    self.strips(*count, steps);
                }
            }
        }
    }

    /// Checks that strips do the same as whole steps: what one strip writes is not accessed by
    /// another, except that arrays in the same memory may be shared out in the same way.
    fn strips(&mut self, count: i64, steps: &[Step]) {
        let Some(cuts) = cuts(self.plan, count, steps) else {
            return self.error(format!(
                "the steps cannot be divided together into {count} strips"
            ));
        };
        let mut uses: Vec<(ValueId, bool, bool)> = Vec::new();
        for (step, cut) in steps.iter().zip(&cuts) {
            let arrays = arrays(self.plan, step).into_iter().zip(&cut.parts);
            uses.extend(
                arrays.map(|((value, writes), &part)| (value, writes, part == Part::Share)),
            );
        }
        for (i, &(a, a_written, a_shared_out)) in uses.iter().enumerate() {
            for &(b, b_written, b_shared_out) in &uses[i + 1..] {
                let written = a_written || b_written;
                // For a single array, the cuts themselves guarantee it.
                if a == b || !written || !self.touch(a, b) {
                    continue;
                }
                let bytes = |value: ValueId| self.shape(value).byte_size();
                let same = self.plan.same_place(a, b) && bytes(a) == bytes(b);
                if !(same && a_shared_out && b_shared_out) {
                    self.error(format!("strips of {a} and {b}, which share memory, differ"));
                }
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
        let mut around = Effect::default();
        self.effect(condition, &mut around);
        self.effect(body, &mut around);
        good.retain(|value| around.get(value) != Some(&false));
        self.steps(condition, good);
        self.read(predicate, good, "a loop");
        let shape = self.shape(predicate);
        if shape.element_type != ElementType::Pred || shape.rank() != 0 {
            self.error(format!("the predicate {predicate} of a loop is not a pred"));
        }
        let mut inside = good.clone();
        self.steps(body, &mut inside);
    }

    /// Adds the effect of steps to the effect of those before them.
    fn effect(&self, steps: &[Step], effect: &mut Effect) {
        for step in steps {
            match step {
                Step::Copy { from, to } if self.plan.same_place(*from, *to) => {
                    effect.insert(*to, true);
                }
                Step::Copy { to, .. } => self.written(*to, effect),
                Step::Kernel { kernel, args } => {
                    let params = &self.plan.kernels[*kernel].params;
                    for (param, &arg) in params.iter().zip(args) {
                        if param.access != Access::Read {
                            self.written(arg, effect);
                        }
                    }
                }
                Step::Library { results, .. } => {
                    results
                        .iter()
                        .for_each(|&value| self.written(value, effect));
                }
                Step::While {
                    condition, body, ..
                } => {
                    let mut around = Effect::default();
                    self.effect(condition, &mut around);
                    self.effect(body, &mut around);
                    effect.extend(around.into_iter().filter(|(_, written)| !written));
                    self.effect(condition, effect);
                }
                Step::Conditional { branches, .. } => self.choice(branches, effect),
                Step::Strips { steps, .. } => self.effect(steps, effect),
            }
        }
    }

    fn written(&self, value: ValueId, effect: &mut Effect) {
        effect.extend(self.overlapping(value).iter().map(|&other| (other, false)));
        effect.insert(value, true);
    }

    /// The effect of a conditional: a value is invalidated if any branch does so, and written if
    /// all branches write it.
    fn choice(&self, branches: &[Vec<Step>], effect: &mut Effect) {
        let mut counts: FxHashMap<ValueId, usize> = FxHashMap::default();
        let mut spoiled = Vec::new();
        for branch in branches {
            let mut inner = Effect::default();
            self.effect(branch, &mut inner);
            for (value, written) in inner {
                if written {
                    *counts.entry(value).or_default() += 1;
                } else {
                    spoiled.push((value, false));
                }
            }
        }
        let all = counts
            .into_iter()
            .filter(|&(_, count)| count == branches.len());
        effect.extend(all.map(|(value, _)| (value, true)));
        effect.extend(spoiled);
    }

    fn library(
        &mut self,
        op: &LibraryOp,
        operands: &[ValueId],
        results: &[ValueId],
        good: &mut Good,
    ) {
        for &operand in operands {
            self.read(operand, good, op.name());
        }
        for (i, &result) in results.iter().enumerate() {
            let over = |(place, &operand): (usize, &ValueId)| {
                let in_place = op.may_write_over(place, i) && self.plan.same_place(result, operand);
                self.touch(result, operand) && !in_place
            };
            if operands.iter().enumerate().any(over) {
                self.error(format!(
                    "{} writes {result} over one of its operands",
                    op.name()
                ));
            }
            if results[..i].iter().any(|&other| self.touch(result, other)) {
                self.error(format!("{} writes {result} over another result", op.name()));
            }
            self.write(result, good, None);
        }
        if let Err(error) = self.suits(op, operands, results) {
            self.error(format!("{}: {error}", op.name()));
        }
    }

    /// Checks whether a routine accepts arrays of these shapes.
    fn suits(
        &self,
        op: &LibraryOp,
        operands: &[ValueId],
        results: &[ValueId],
    ) -> Result<(), String> {
        let shapes = |ids: &[ValueId]| ids.iter().map(|&id| self.shape(id)).collect::<Vec<_>>();
        let (operands, results) = (shapes(operands), shapes(results));
        library_suits(op, &operands, &results)
    }

    fn kernel(&mut self, id: KernelId, args: &[ValueId], good: &mut Good) {
        let kernel = &self.plan.kernels[id];
        if kernel.given() != args.len() {
            let given = kernel.given();
            return self.error(format!("{id} takes {given} values, not {}", args.len()));
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
        for written in 0..args.len() {
            for other in 0..args.len() {
                self.sharing(id, args, written, other);
            }
        }
    }

    /// Checks that a kernel may be given the same memory for two parameters: it must read an
    /// element of one only where it writes it to the other.
    fn sharing(&mut self, id: KernelId, args: &[ValueId], written: usize, other: usize) {
        let kernel = &self.plan.kernels[id];
        let access = |param: usize| kernel.params[param].access;
        let (a, b) = (args[written], args[other]);
        if written == other || access(written) == Access::Read || !self.touch(a, b) {
            return;
        }
        if access(other) != Access::Read {
            if written < other {
                self.error(format!("{id} writes {a} and {b}, which share memory"));
            }
        } else if !self.plan.same_place(a, b) {
            self.error(format!("{id} gets {a} and {b}, which partly overlap"));
        } else if !works_in_place(kernel, other, written) {
            self.error(format!(
                "{id} overwrites {b} with {a} before it has read all of {b}"
            ));
        }
    }
}

fn agrees(element_type: ElementType, dims: &[tegula_expr::Term], shape: &ArrayShape) -> bool {
    element_type == shape.element_type
        && dims.len() == shape.rank()
        && dims.iter().zip(&shape.dims).all(|(a, b)| *a == b.term())
}
