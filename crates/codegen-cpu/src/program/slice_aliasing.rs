//! Aliases a dynamic slice instead of copying it.
//!
//! A loop over the layers of a model, or over time, takes a slab of a stacked array in each
//! iteration: a kernel copies `x[i, ..]`, where `i` is known at run time, to an array that a
//! library call then reads. If the slab is contiguous and not overwritten until its last reader has
//! finished, the readers get its address through the table of
//! [exchanged](crate::program::double_buffer) buffers, and nothing is copied.

use super::effects::{Touch, span, touches};
use super::ir::Index;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tegula_expr::{Term, Var, canonicalize};
use tegula_fusion::kernel::{IndexVar, ScalarId, ScalarOp, Statement};
use tegula_fusion::{Kernel, KernelRanges};
use tegula_ir::ElementType;
use tegula_plan::{KernelId, Place, Plan, Step, ValueId};

/// The minimum bytes of a slab: smaller ones are copied in less time than their address is looked
/// up.
const MIN_BYTES: i64 = 4096;
/// The alignment of arrays in bytes, which slabs must have as well.
const ALIGNMENT: i64 = 64;

/// A kernel's copy of a slab; parameters are given by number.
struct Slab {
    source: usize,
    copy: usize,
    bytes: i64,
    indices: SmallVec<[Index<usize>; 2]>,
}

/// A value that aliases a slab of another value.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub source: ValueId,
    /// The offset of the first slab in the source, in bytes.
    pub bytes: i64,
    pub indices: SmallVec<[Index<ValueId>; 2]>,
    /// The table entry that holds its address.
    pub entry: usize,
}

/// Finds the slabs that are read in place.
pub(crate) struct Views<'a> {
    plan: &'a Plan,
    slabs: FxHashMap<KernelId, Option<Slab>>,
    /// The number of writes to each value.
    writes: FxHashMap<ValueId, u32>,
    /// The table entry of each value that is a view.
    pub entries: FxHashMap<ValueId, usize>,
}

impl<'a> Views<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        let mut writes = FxHashMap::default();
        let mut touched = Vec::new();
        for step in &plan.steps {
            touches(plan, step, &mut touched);
        }
        for touch in touched.iter().filter(|t| t.writes) {
            *writes.entry(touch.value).or_default() += 1;
        }
        Self {
            plan,
            slabs: FxHashMap::default(),
            writes,
            entries: FxHashMap::default(),
        }
    }

    /// The view that can replace a kernel's copy of a slab, with the other names of the value;
    /// `after` are the later steps of its region.
    pub(crate) fn view(
        &mut self,
        (kernel, args): (KernelId, &[ValueId]),
        after: &[Step],
        next_entry: &mut usize,
    ) -> Option<View> {
        let plan = self.plan;
        let known = self.slabs.entry(kernel);
        let slab = known
            .or_insert_with(|| slab(&plan.kernels[kernel]))
            .as_ref()?;
        let at = |param: usize| args.get(param).copied();
        let (source, copy, bytes) = (at(slab.source)?, at(slab.copy)?, slab.bytes);
        let mut indices = SmallVec::new();
        for index in &slab.indices {
            indices.push(index.at(at(index.place)?));
        }
        let names = self.names(copy, after)?;
        self.stays(source, &names, after).then_some(())?;
        let entry = *next_entry;
        *next_entry += 1;
        self.entries
            .extend(names.into_iter().map(|name| (name, entry)));
        Some(View {
            source,
            bytes,
            indices,
            entry,
        })
    }

    /// The names of the copy, itself first; `None` if one of them is written by another step or is
    /// a result.
    fn names(&self, copy: ValueId, after: &[Step]) -> Option<Vec<ValueId>> {
        let mut names = vec![copy];
        for step in after {
            if let Step::Copy { from, to } = step
                && names.contains(from)
                && self.plan.same_place(*from, *to)
            {
                names.push(*to);
            }
        }
        let once = |name: &ValueId| self.writes.get(name) == Some(&1);
        let inside = |name: &ValueId| {
            let buffer = self.plan.values[*name].buffer;
            let place = &self.plan.buffers[buffer].place;
            matches!(place, Place::Arena(_) | Place::Output { .. })
                && !self.plan.results.contains(name)
        };
        names.iter().all(|n| once(n) && inside(n)).then_some(names)
    }

    /// Whether the source is not written before the last reader has finished, and all readers come
    /// after the copy.
    fn stays(&self, source: ValueId, names: &[ValueId], after: &[Step]) -> bool {
        let buffer = self.plan.values[source].buffer;
        if matches!(
            self.plan.buffers[buffer].place,
            Place::Parameter(_) | Place::Constant(_)
        ) {
            return true;
        }
        let Some(memory) = span(self.plan, source) else {
            return false;
        };
        let mut touched: Vec<Vec<Touch>> = Vec::with_capacity(after.len());
        for step in after {
            let mut here = Vec::new();
            touches(self.plan, step, &mut here);
            touched.push(here);
        }
        let reads = |here: &Vec<Touch>| here.iter().any(|t| names.contains(&t.value));
        let last = touched.iter().rposition(reads).map_or(0, |last| last + 1);
        touched[..last].iter().flatten().all(|touch| {
            let apart = |value| span(self.plan, value).is_some_and(|s| !s.overlaps(&memory));
            !touch.writes || apart(touch.value)
        })
    }
}

/// The slab that a kernel copies, if it does nothing else.
fn slab(kernel: &Kernel) -> Option<Slab> {
    let mut loads: FxHashMap<ScalarId, (usize, &[Term])> = FxHashMap::default();
    let mut computed: FxHashMap<ScalarId, (&ScalarOp, &[ScalarId])> = FxHashMap::default();
    let mut store = None;
    for statement in &kernel.body.statements {
        match statement {
            Statement::Load {
                result,
                param,
                index,
            } => {
                loads.insert(*result, (*param, index));
            }
            Statement::Compute {
                result,
                op,
                operands,
            } => {
                computed.insert(*result, (op, operands));
            }
            Statement::Bind { .. } => {}
            Statement::Store {
                param,
                index,
                value,
            } if store.is_none() => store = Some((*param, &index[..], *value)),
            _ => return None,
        }
    }
    let (copy, to, value) = store?;
    let &(source, from) = loads.get(&value)?;
    let ranges = KernelRanges(&kernel.vars);
    let before = |param: usize, index: &[Term]| {
        let declared = kernel.params.get(param)?;
        Some(declared.elements_before(index))
    };
    // The copy is written entirely.
    let distance = canonicalize(&before(source, from)?.sub(&before(copy, to)?), &ranges);
    let element_type = kernel.params[source].element_type;
    if element_type != kernel.params[copy].element_type {
        return None;
    }
    let element = element_type.storage_bytes() as i64;
    let dims = kernel.params[copy].dims.iter();
    let size = dims
        .map(Term::as_constant)
        .try_fold(element, |n, dim| n.checked_mul(dim?))?;
    let (terms, constant) = distance.as_linear()?;
    let mut indices: SmallVec<[Index<usize>; 2]> = SmallVec::new();
    for (atom, factor) in terms {
        let stride = factor.checked_mul(element)?;
        let (place, ty, [least, most]) = index_of(kernel, &loads, &computed, atom.as_var()?)?;
        indices.push(Index {
            place,
            element_type: ty,
            least,
            most,
            stride,
        });
    }
    let bytes = constant.checked_mul(element)?;
    let aligned = bytes % ALIGNMENT == 0 && indices.iter().all(|i| i.stride % ALIGNMENT == 0);
    (aligned && size >= MIN_BYTES && !indices.is_empty()).then_some(Slab {
        source,
        copy,
        bytes,
        indices,
    })
}

/// The clamped scalar in memory that defines a run-time variable, with its bounds.
fn index_of(
    kernel: &Kernel,
    loads: &FxHashMap<ScalarId, (usize, &[Term])>,
    computed: &FxHashMap<ScalarId, (&ScalarOp, &[ScalarId])>,
    var: Var,
) -> Option<(usize, ElementType, [i64; 2])> {
    let Some(IndexVar::Runtime { value, .. }) = kernel.var(var) else {
        return None;
    };
    let &(ScalarOp::Clamp, &[low, wide, high]) = computed.get(value)? else {
        return None;
    };
    let constant = |id: ScalarId| match computed.get(&id)? {
        (ScalarOp::Constant(bits), _) => Some((*bits as u64).cast_signed()),
        _ => None,
    };
    let read = match computed.get(&wide) {
        Some(&(ScalarOp::Convert, &[from])) => from,
        Some(_) => return None,
        None => wide,
    };
    let &(param, index) = loads.get(&read)?;
    let element_type = kernel.params.get(param)?.element_type;
    let whole = matches!(
        element_type,
        ElementType::S32 | ElementType::S64 | ElementType::U32
    );
    (index.is_empty() && whole).then_some((param, element_type, [constant(low)?, constant(high)?]))
}
