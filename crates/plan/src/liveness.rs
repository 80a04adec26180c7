//! Liveness analysis of a plan's values, and their interference: which of them need separate
//! memory.
//!
//! Two values interfere if one is written while the other still has to be read. The results of a
//! step also interfere with its operands, because it may write before it has read everything. There
//! are exceptions. The two ends of a copy hold the same bytes. A kernel that reads an operand only
//! where it writes afterwards may work in place, and so may a dot that is added to an array, and a
//! sort. A parameter that a kernel updates is one value before and after.

use super::strip_legality::{Part, arrays, cuts};
use super::{KernelId, Plan, Step, ValueId};
use roaring::RoaringBitmap;
use rustc_hash::FxHashMap;
use std::cmp::Ordering;
use tegula_expr::Term;
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Access, Block, Statement};

/// A set of values, as a compressed bitmap: thousands of values may be live at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ValueSet(RoaringBitmap);

impl ValueSet {
    pub(super) fn insert(&mut self, value: ValueId) {
        self.0.insert(value.as_u32());
    }

    fn remove(&mut self, value: ValueId) {
        self.0.remove(value.as_u32());
    }

    pub(super) fn extend(&mut self, other: &Self) {
        self.0 |= &other.0;
    }

    fn extend_from(&mut self, values: impl IntoIterator<Item = ValueId>) {
        self.0.extend(values.into_iter().map(ValueId::as_u32));
    }

    pub(super) fn contains(&self, value: ValueId) -> bool {
        self.0.contains(value.as_u32())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = ValueId> {
        self.0.iter().map(ValueId::from_u32)
    }

    pub(super) fn meets(&self, other: &Self) -> bool {
        !self.0.is_disjoint(&other.0)
    }
}

impl FromIterator<ValueId> for ValueSet {
    fn from_iter<I: IntoIterator<Item = ValueId>>(values: I) -> Self {
        let mut set = Self::default();
        set.extend_from(values);
        set
    }
}

type Live = ValueSet;

/// What buffer assignment needs to know about a plan's values.
#[derive(Default)]
pub(super) struct Interference {
    /// The interference graph: of two values that must not share memory, one has the other in its
    /// set.
    pub edges: FxHashMap<ValueId, ValueSet>,
    /// The copies: source, destination, and the number of loops around the copy.
    pub copies: Vec<(ValueId, ValueId, u32)>,
    /// Pairs of an operand and a result of a kernel that may share all of their memory, but not a
    /// part of it.
    pub in_place: Vec<(ValueId, ValueId)>,
    /// The number of steps that write each value.
    pub writes: FxHashMap<ValueId, u32>,
}

/// Analyses a plan.
pub(super) fn interference(plan: &Plan) -> Interference {
    let mut pass = Pass {
        plan,
        out: Interference::default(),
        summaries: FxHashMap::default(),
        in_place: FxHashMap::default(),
    };
    let mut live: Live = plan.results.iter().copied().collect();
    pass.steps(&plan.steps, &mut live, 0);
    pass.out
}

struct Pass<'a> {
    plan: &'a Plan,
    out: Interference,
    /// The values that a block reads before it writes them, by the block's address.
    summaries: FxHashMap<*const Step, Live>,
    in_place: FxHashMap<KernelId, Vec<(usize, usize)>>,
}

impl Pass<'_> {
    /// Walks the steps backwards. `live` holds the values read after the steps, and on return those
    /// read before.
    fn steps(&mut self, steps: &[Step], live: &mut Live, depth: u32) {
        for step in steps.iter().rev() {
            self.step(step, live, depth);
        }
    }

    fn step(&mut self, step: &Step, live: &mut Live, depth: u32) {
        match step {
            Step::Copy { from, to } => {
                self.out.copies.push((*from, *to, depth));
                self.write(*to, live, &[*from]);
                live.remove(*to);
                live.insert(*from);
            }
            Step::Kernel { kernel, args } => self.kernel(*kernel, args, live),
            Step::Library {
                op,
                operands,
                results,
            } => {
                for (number, &result) in results.iter().enumerate() {
                    self.write(result, live, &[]);
                    for (place, &operand) in operands.iter().enumerate() {
                        let again = operands[..place].contains(&operand);
                        if op.may_write_over(place, number) && !again {
                            self.out.in_place.push((operand, result));
                        } else {
                            self.edge(result, operand);
                        }
                    }
                }
                self.pairwise(results);
                for &result in results {
                    live.remove(result);
                }
                live.extend_from(operands.iter().copied());
            }
            Step::While {
                condition,
                predicate,
                body,
            } => {
                // `live` is what is live after the condition: the predicate, and what the body or
                // the steps after the loop read first. What is live before the condition is also
                // live at the end of the body, because the condition runs next.
                live.extend(&self.reads_first(body));
                live.insert(*predicate);
                let mut before_body = live.clone();
                self.before(condition, &mut before_body);
                self.steps(body, &mut before_body, depth + 1);
                live.extend(&before_body);
                self.steps(condition, live, depth + 1);
            }
            Step::Conditional { selector, branches } => {
                let after = live.clone();
                let mut before = Live::default();
                for branch in branches {
                    let mut live = after.clone();
                    self.steps(branch, &mut live, depth);
                    before.extend(&live);
                }
                before.insert(*selector);
                *live = before;
            }
            Step::Strips { count, steps } => {
                self.steps(steps, live, depth);
                self.strips(*count, steps);
            }
        }
    }

    /// Adds interference for strips. What one strip's step writes must not overlap what another
    /// strip's step still reads. So two arrays, one of which is written, share either no memory, or
    /// all of it if both are shared out between the strips in the same way.
    fn strips(&mut self, count: i64, steps: &[Step]) {
        let plan = self.plan;
        let cuts = cuts(plan, count, steps).unwrap_or_default();
        let mut uses: FxHashMap<ValueId, (bool, bool)> = FxHashMap::default();
        for (number, step) in steps.iter().enumerate() {
            for (place, (value, writes)) in arrays(plan, step).into_iter().enumerate() {
                let part = cuts.get(number).and_then(|cut| cut.parts.get(place));
                let (written, shared_out) = uses.entry(value).or_insert((false, true));
                *written |= writes;
                *shared_out &= part == Some(&Part::Share);
            }
        }
        let mut uses: Vec<(ValueId, (bool, bool))> = uses.into_iter().collect();
        uses.sort_unstable();
        for (i, &(a, (a_written, a_shared_out))) in uses.iter().enumerate() {
            for &(b, (b_written, b_shared_out)) in &uses[i + 1..] {
                if !a_written && !b_written {
                    continue;
                }
                match a_shared_out && b_shared_out {
                    true => self.out.in_place.push((a, b)),
                    false => self.edge(a, b),
                }
            }
        }
    }

    fn kernel(&mut self, id: KernelId, args: &[ValueId], live: &mut Live) {
        let kernel = &self.plan.kernels[id];
        let in_place = self
            .in_place
            .entry(id)
            .or_insert_with(|| in_place_pairs(kernel))
            .clone();
        let with = |wanted: fn(Access) -> bool| {
            // Excludes local parameters, which are separate for each point.
            let params = kernel.params.iter().enumerate().take(args.len());
            params
                .filter(move |(_, p)| wanted(p.access))
                .map(|(i, _)| i)
        };
        let written: Vec<ValueId> = with(|a| a != Access::Read).map(|i| args[i]).collect();
        for &value in &written {
            self.write(value, live, &written);
        }
        self.pairwise(&written);
        for w in with(|a| a != Access::Read) {
            for r in with(|a| a == Access::Read) {
                if in_place.contains(&(r, w)) {
                    self.out.in_place.push((args[r], args[w]));
                } else {
                    self.edge(args[r], args[w]);
                }
            }
        }
        for i in with(|a| a == Access::Write) {
            live.remove(args[i]);
        }
        live.extend_from(with(|a| a != Access::Write).map(|i| args[i]));
    }

    /// Records that `value` is written while `live` still has to be read.
    fn write(&mut self, value: ValueId, live: &Live, except: &[ValueId]) {
        *self.out.writes.entry(value).or_default() += 1;
        let edges = self.out.edges.entry(value).or_default();
        let known: Vec<ValueId> = std::iter::once(&value)
            .chain(except)
            .copied()
            .filter(|&other| !edges.contains(other))
            .collect();
        edges.extend(live);
        for other in known {
            edges.remove(other);
        }
    }

    fn pairwise(&mut self, values: &[ValueId]) {
        for (i, &a) in values.iter().enumerate() {
            for &b in &values[i + 1..] {
                self.edge(a, b);
            }
        }
    }

    fn edge(&mut self, a: ValueId, b: ValueId) {
        if a != b {
            self.out.edges.entry(a).or_default().insert(b);
        }
    }

    /// The values that the steps read before they write them.
    fn reads_first(&mut self, steps: &[Step]) -> Live {
        let key = steps.as_ptr();
        if let Some(known) = self.summaries.get(&key).filter(|_| !steps.is_empty()) {
            return known.clone();
        }
        let mut live = Live::default();
        self.before(steps, &mut live);
        if !steps.is_empty() {
            self.summaries.insert(key, live.clone());
        }
        live
    }

    /// Turns the set of values live after the steps into the set live before them.
    fn before(&mut self, steps: &[Step], live: &mut Live) {
        for step in steps.iter().rev() {
            match step {
                Step::Copy { from, to } => {
                    live.remove(*to);
                    live.insert(*from);
                }
                Step::Kernel { kernel, args } => {
                    let params = &self.plan.kernels[*kernel].params;
                    for (param, arg) in params.iter().zip(args) {
                        if param.access == Access::Write {
                            live.remove(*arg);
                        }
                    }
                    for (param, &arg) in params.iter().zip(args) {
                        if param.access != Access::Write {
                            live.insert(arg);
                        }
                    }
                }
                Step::Library {
                    operands, results, ..
                } => {
                    for &result in results {
                        live.remove(result);
                    }
                    live.extend_from(operands.iter().copied());
                }
                Step::While {
                    condition,
                    predicate,
                    body,
                } => {
                    live.extend(&self.reads_first(body));
                    live.insert(*predicate);
                    self.before(condition, live);
                }
                Step::Conditional { selector, branches } => {
                    for branch in branches {
                        live.extend(&self.reads_first(branch));
                    }
                    live.insert(*selector);
                }
                Step::Strips { steps, .. } => self.before(steps, live),
            }
        }
    }
}

/// The pairs (read, written) of parameters that may share memory: each point loads an element
/// before it stores over it, and loads nothing that another point overwrites.
fn in_place_pairs(kernel: &Kernel) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for (w, written) in kernel.params.iter().enumerate() {
        let Some(store) = only_store(&kernel.body, w) else {
            continue;
        };
        if written.access != Access::Write {
            continue;
        }
        for (r, read) in kernel.params.iter().enumerate() {
            let same_size = read.dims == written.dims
                && read.element_type.storage_bytes() == written.element_type.storage_bytes();
            if read.access == Access::Read && same_size && store.is_after_loads(&kernel.body, r) {
                pairs.push((r, w));
            }
        }
    }
    pairs
}

/// The only store to a parameter in a body: in the outermost block, or in a loop in it.
struct OnlyStore<'k> {
    /// The number of the outermost block's statement that is or contains the store.
    position: usize,
    index: &'k [Term],
    /// The dimensions along which a loop moves the store.
    along: Vec<bool>,
}

fn only_store(body: &Block, param: usize) -> Option<OnlyStore<'_>> {
    let stored = |s| match s {
        &Statement::Store {
            param: p,
            ref index,
            ..
        } if p == param => Some(&index[..]),
        _ => None,
    };
    let mut found = None;
    for (position, statement) in body.statements.iter().enumerate() {
        let (index, var) = match statement {
            Statement::Loop { var, body, .. } => {
                let mut stores = body.statements.iter().filter_map(stored);
                match (stores.next(), stores.next()) {
                    (Some(index), None) => (index, Some(*var)),
                    (None, None) => continue,
                    _ => return None,
                }
            }
            statement => match stored(statement) {
                Some(index) => (index, None),
                None => continue,
            },
        };
        if found.is_some() {
            return None;
        }
        let along = |t: &Term| var.is_some_and(|var| t.mentions(var));
        found = Some(OnlyStore {
            position,
            index,
            along: index.iter().map(along).collect(),
        });
    }
    found
}

impl OnlyStore<'_> {
    /// Whether a point loads a parameter only at the index of the store, or before the loop that
    /// stores and at indices that this loop will store to.
    fn is_after_loads(&self, body: &Block, param: usize) -> bool {
        let here = |at: &[Term]| at == self.index;
        let row = |at: &[Term]| {
            let mut dims = at.iter().zip(self.index).zip(&self.along);
            at.len() == self.index.len() && dims.all(|((a, b), &free)| free || a == b)
        };
        let mut parts = body.statements.iter().enumerate();
        parts.all(|(i, statement)| {
            let part = std::slice::from_ref(statement);
            match i.cmp(&self.position) {
                Ordering::Less => all_loads(part, param, &row),
                Ordering::Equal => all_loads(part, param, &here),
                Ordering::Greater => all_loads(part, param, &|_| false),
            }
        })
    }
}

/// Whether a condition holds for the indices of all loads of a parameter.
fn all_loads(statements: &[Statement], param: usize, holds: &dyn Fn(&[Term]) -> bool) -> bool {
    statements.iter().all(|statement| match statement {
        Statement::Load {
            param: p, index, ..
        } => *p != param || holds(index),
        Statement::Loop { body, .. } => all_loads(&body.statements, param, holds),
        Statement::If {
            then, otherwise, ..
        } => {
            all_loads(&then.statements, param, holds)
                && all_loads(&otherwise.statements, param, holds)
        }
        _ => true,
    })
}
