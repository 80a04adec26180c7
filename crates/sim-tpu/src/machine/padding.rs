//! Tracks which elements of the buffers are padding, made up from constants, or data.

use super::Machine;
use super::access::Access;
use super::terms::Cut;
use crate::check::taint::{Kind, Kinds};
use crate::memory::region::{Region, Regions};
use tegula_arena::EntityRef;

impl Machine<'_> {
    /// The kinds of a slice's elements.
    pub(super) fn kinds_of(&self, cut: &Cut, access: &Access) -> Kinds {
        let state = &self.states[access.buffer.index()];
        let tainted = state.tainted.meets(&access.region);
        if !tainted && !state.neutral.meets(&access.region) {
            return Kinds::All(Kind::Real);
        }
        if !tainted && state.neutral.missing(&access.region).is_none() {
            return Kinds::All(Kind::Neutral);
        }
        let elements = cut.sizes.iter().product::<i64>().max(0) as usize;
        let mut kinds = vec![Kind::Real; elements];
        let dense = Self::dense(cut, access);
        for (set, kind) in [
            (&state.neutral, Kind::Neutral),
            (&state.tainted, Kind::Padding),
        ] {
            for part in set.within(&access.region) {
                each(&part, &mut |index| {
                    let offsets = index.iter().zip(&access.region.low).zip(&dense.strides);
                    let at: i64 = offsets.map(|((i, low), stride)| (i - low) * stride).sum();
                    if let Some(slot) = kinds.get_mut((dense.start + at) as usize) {
                        *slot = kind;
                    }
                });
            }
        }
        Kinds::Each(kinds)
    }

    /// Sets the kinds of a slice's elements. Where the slice is `added` to, the greater of the old
    /// and the new kind stays.
    pub(super) fn mark_kinds(&mut self, cut: &Cut, access: &Access, kinds: &Kinds, added: bool) {
        let state = &mut self.states[access.buffer.index()];
        let still_neutral = added && *kinds == Kinds::All(Kind::Neutral);
        if !still_neutral && !state.neutral.is_empty() {
            state.neutral.remove(&access.region);
        }
        if !added && !state.tainted.is_empty() {
            state.tainted.remove(&access.region);
        }
        let each_kind = match kinds {
            Kinds::All(Kind::Real) => return,
            Kinds::All(Kind::Neutral) if added => return,
            Kinds::All(Kind::Neutral) => return state.neutral.insert(&access.region),
            Kinds::All(Kind::Padding) => return state.tainted.insert(&access.region),
            Kinds::Each(kinds) => kinds,
        };
        let dense = Self::dense(cut, access);
        let kind_at = |index: &[i64]| {
            let offsets = index.iter().zip(&access.region.low).zip(&dense.strides);
            let at: i64 = offsets.map(|((i, low), stride)| (i - low) * stride).sum();
            each_kind.get((dense.start + at) as usize).copied()
        };
        collect(&mut state.tainted, &access.region, &|index| {
            kind_at(index) == Some(Kind::Padding)
        });
        if !added {
            collect(&mut state.neutral, &access.region, &|index| {
                kind_at(index) == Some(Kind::Neutral)
            });
        }
    }
}

/// Adds the selected elements of a box to a set. Most often they form one box: the lanes beyond an
/// edge.
fn collect(set: &mut Regions, region: &Region, wanted: &dyn Fn(&[i64]) -> bool) {
    let mut around: Option<Region> = None;
    let mut count = 0;
    each(region, &mut |index| {
        if wanted(index) {
            count += 1;
            let around = around.get_or_insert_with(|| Region {
                low: index.into(),
                high: index.into(),
            });
            for (d, &i) in index.iter().enumerate() {
                around.low[d] = around.low[d].min(i);
                around.high[d] = around.high[d].max(i + 1);
            }
        }
    });
    let Some(around) = around else { return };
    if around.elements() == count {
        set.insert(&around);
        return;
    }
    let Some(last) = around.low.len().checked_sub(1) else {
        return;
    };
    // Otherwise adds them as runs along the last dimension.
    let mut run: Option<Region> = None;
    each(&around, &mut |index| {
        if !wanted(index) {
            return;
        }
        let own = Region {
            low: index.into(),
            high: index.iter().map(|i| i + 1).collect(),
        };
        match &mut run {
            Some(run) if run.low[..last] == own.low[..last] && run.high[last] == own.low[last] => {
                run.high[last] += 1;
            }
            _ => {
                if let Some(done) = run.replace(own) {
                    set.insert(&done);
                }
            }
        }
    });
    if let Some(done) = run {
        set.insert(&done);
    }
}

/// Visits every index of a box, the last dimension fastest.
fn each(region: &Region, visit: &mut dyn FnMut(&[i64])) {
    if region.is_empty() {
        return;
    }
    let mut index = region.low.to_vec();
    loop {
        visit(&index);
        if !region.advance(&mut index) {
            return;
        }
    }
}
