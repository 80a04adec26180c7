//! Promotes array elements of an [outlined loop](crate::compile::loop_outline) to registers
//! (`mem2reg`).
//!
//! An element is promoted if every access in the loop that touches its bytes has a constant address
//! and the element's size. The function loads it before the loop, keeps it in a variable, and
//! stores it after the loop if something may read it there.

use crate::program::ir::{Area, Location};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};
use cranelift_frontend::{FunctionBuilder, Variable};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use tegula_expr::{Term, canonicalize};
use tegula_fusion::{Kernel, KernelRanges};

/// The maximum number of promoted elements. Elements that exceed the registers are spilled to the
/// stack, which is no slower than memory; but each is carried between iterations.
const MAX_ELEMENTS: usize = 64;
/// The assumed number of iterations of a loop.
const TRIPS: u64 = 8;

/// A memory access of a loop's step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Touch {
    /// Access to one element.
    Element {
        at: Location,
        ty: Type,
        writes: bool,
        /// The number of enclosing loops.
        depth: u32,
    },
    /// Arbitrary access to a range of bytes.
    Bytes { at: Location, bytes: usize },
    /// A copy of bytes.
    Copy {
        from: Location,
        to: Location,
        bytes: usize,
    },
}

/// A promoted element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    pub at: Location,
    pub ty: Type,
    pub written: bool,
    /// The estimated number of uses.
    uses: u64,
}

/// The elements that can be promoted, in order of their first use.
pub(crate) fn elements(touches: &[Touch]) -> Vec<Element> {
    let mut found = Found::default();
    for touch in touches {
        if let Touch::Element {
            at,
            ty,
            writes,
            depth,
        } = *touch
        {
            found.add(at, ty, writes, TRIPS.saturating_pow(depth));
        }
    }
    // A copy makes its destination's elements those of its source, and the reverse.
    while touches.iter().any(|touch| found.spread(touch)) {}
    found.remove_overlaps(touches);
    let mut elements = found.elements;
    // The most used ones, in order of their first use.
    let mut uses: Vec<u64> = elements.iter().map(|element| element.uses).collect();
    uses.sort_unstable_by_key(|&uses| Reverse(uses));
    let least = uses.get(MAX_ELEMENTS - 1).copied().unwrap_or(0);
    let more = uses.iter().filter(|&&uses| uses > least).count();
    let mut left = MAX_ELEMENTS - more.min(MAX_ELEMENTS);
    elements.retain(|element| {
        let is_last = element.uses == least && left > 0;
        left -= usize::from(is_last);
        element.uses > least || is_last
    });
    elements
}

/// The element size of a copy between promoted elements: the common size of all elements on both
/// sides.
pub(crate) fn size_of_copied<'e>(
    elements: impl Iterator<Item = &'e Element>,
    [from, to]: [Location; 2],
    bytes: usize,
) -> Option<usize> {
    let mut size = None;
    for element in elements {
        for side in [from, to] {
            let Some(at) = inside(element, side, bytes) else {
                continue;
            };
            let own = element.ty.bytes() as usize;
            if !at.is_multiple_of(own)
                || !bytes.is_multiple_of(own)
                || *size.get_or_insert(own) != own
            {
                return None;
            }
        }
    }
    size
}

/// The offset of an element from a location, if it is within `bytes` of it.
fn inside(element: &Element, from: Location, bytes: usize) -> Option<usize> {
    let at = element.at.offset.checked_sub(from.offset)?;
    (element.at.area == from.area && at < bytes).then_some(at)
}

#[derive(Default)]
struct Found {
    elements: Vec<Element>,
    /// Elements by location.
    at: FxHashMap<Location, usize>,
    /// Elements whose bytes accesses divide differently.
    clash: FxHashSet<usize>,
}

impl Found {
    fn add(&mut self, at: Location, ty: Type, writes: bool, uses: u64) {
        match self.at.get(&at) {
            Some(&known) => {
                let element = &mut self.elements[known];
                element.written |= writes;
                element.uses = element.uses.saturating_add(uses);
                if element.ty.bytes() != ty.bytes() {
                    self.clash.insert(known);
                    let wider = element.ty.bytes().max(ty.bytes());
                    if ty.bytes() == wider {
                        element.ty = ty;
                    }
                }
            }
            None => {
                self.at.insert(at, self.elements.len());
                self.elements.push(Element {
                    at,
                    ty,
                    written: writes,
                    uses,
                });
            }
        }
    }

    /// Adds elements on the other side of a copy; returns whether there were new ones.
    fn spread(&mut self, touch: &Touch) -> bool {
        let Touch::Copy { from, to, bytes } = *touch else {
            return false;
        };
        let Some(size) = size_of_copied(self.elements.iter(), [from, to], bytes) else {
            return false;
        };
        let mut changed = false;
        for offset in (0..bytes).step_by(size) {
            let [source, target] = [from, to].map(|at| Location {
                area: at.area,
                offset: at.offset + offset,
            });
            let known = |at| self.at.get(&at).map(|&i| self.elements[i]);
            let (a, b) = (known(source), known(target));
            let own = match size {
                1 => types::I8,
                2 => types::I16,
                4 => types::I32,
                _ => types::I64,
            };
            let ty = a.or(b).map_or(own, |element| element.ty);
            changed |= a.is_none() || b.is_none_or(|element| !element.written);
            self.add(source, ty, false, 0);
            self.add(target, ty, true, 0);
        }
        changed
    }

    /// Keeps only elements that all accesses treat as such.
    fn remove_overlaps(&mut self, touches: &[Touch]) {
        let mut order: Vec<usize> = (0..self.elements.len()).collect();
        let key = |area: Area, offset: usize| {
            let (kind, number) = match area {
                Area::Parameter(i) => (0, i),
                Area::Output(i) => (1, i),
                Area::Constant(i) => (2, i),
                Area::Arena => (3, 0),
                Area::Kept(i) => (4, i),
                Area::Exchanged(i) => (5, i),
            };
            (kind, number, offset)
        };
        order.sort_by_key(|&i| key(self.elements[i].at.area, self.elements[i].at.offset));
        let mut last: Option<usize> = None;
        for &i in &order {
            let element = self.elements[i];
            if let Some(before) = last {
                let other = self.elements[before];
                let end = other.at.offset + other.ty.bytes() as usize;
                if other.at.area == element.at.area && end > element.at.offset {
                    self.clash.extend([before, i]);
                    // The longer of the two may overlap the next.
                    if end > element.at.offset + element.ty.bytes() as usize {
                        continue;
                    }
                }
            }
            last = Some(i);
        }
        let mut drop_in = |at: Location, bytes: usize| {
            for (i, element) in self.elements.iter().enumerate() {
                let (begin, end) = (at.offset, at.offset + bytes);
                let own = element.at.offset..element.at.offset + element.ty.bytes() as usize;
                if element.at.area == at.area && own.start < end && begin < own.end {
                    self.clash.insert(i);
                }
            }
        };
        for touch in touches {
            match *touch {
                Touch::Bytes { at, bytes } => drop_in(at, bytes),
                Touch::Copy { from, to, bytes } => {
                    let all = self.elements.iter();
                    if size_of_copied(all, [from, to], bytes).is_none() {
                        drop_in(from, bytes);
                        drop_in(to, bytes);
                    }
                }
                Touch::Element { .. } => {}
            }
        }
        let clash = std::mem::take(&mut self.clash);
        let mut number = 0..;
        self.elements.retain(|element| {
            let kept = number.next().is_some_and(|i| !clash.contains(&i));
            // The address of an exchanged buffer changes between runs of the function.
            kept && !matches!(element.at.area, Area::Exchanged(_))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn arena(offset: usize) -> Location {
        Location {
            area: Area::Arena,
            offset,
        }
    }

    fn element(offset: usize, ty: Type, writes: bool) -> Touch {
        Touch::Element {
            at: arena(offset),
            ty,
            writes,
            depth: 1,
        }
    }

    fn places(touches: &[Touch]) -> Vec<usize> {
        elements(touches).iter().map(|e| e.at.offset).collect()
    }

    #[test]
    fn elements_of_one_size_are_promoted() {
        let touches = [element(0, types::F32, false), element(4, types::F32, true)];
        assert_eq!(places(&touches), [0, 4]);
    }

    #[test]
    fn what_overlaps_otherwise_stays_in_memory() {
        let touches = [
            element(0, types::I64, true),
            element(4, types::F32, false),
            element(8, types::F32, false),
            element(16, types::F32, true),
            Touch::Bytes {
                at: arena(12),
                bytes: 8,
            },
        ];
        assert_eq!(places(&touches), [8]);
    }

    #[test]
    fn one_place_has_one_size() {
        let touches = [element(0, types::F32, true), element(0, types::I64, false)];
        assert!(places(&touches).is_empty());
    }

    #[test]
    fn copies_hand_elements_on() {
        let copy = Touch::Copy {
            from: arena(0),
            to: arena(64),
            bytes: 8,
        };
        let all = elements(&[copy, element(64, types::F32, false)]);
        let mut places: Vec<_> = all.iter().map(|e| (e.at.offset, e.written)).collect();
        places.sort_unstable();
        assert_eq!(places, [(0, false), (4, false), (64, true), (68, true)]);
    }

    #[test]
    fn a_copy_of_other_parts_is_in_memory() {
        let copy = Touch::Copy {
            from: arena(2),
            to: arena(64),
            bytes: 8,
        };
        let touches = [
            copy,
            element(0, types::F32, true),
            element(64, types::F32, false),
        ];
        // The first four bytes overlap the element before.
        assert_eq!(places(&touches), [64, 6, 68]);
    }
}

/// The variables of promoted elements, by location.
#[derive(Default)]
pub(crate) struct Registers {
    variables: FxHashMap<Location, (Variable, Type)>,
}

impl Registers {
    /// Keeps the element at a location in a variable.
    pub(crate) fn declare(&mut self, at: Location, variable: Variable, ty: Type) {
        self.variables.insert(at, (variable, ty));
    }

    /// The type of the variable for the element at a location, if it is promoted.
    pub(crate) fn type_of(&self, at: Location) -> Option<Type> {
        self.variables.get(&at).map(|&(_, ty)| ty)
    }

    /// The variable for the element at a location, as a value of a type of its size.
    pub(crate) fn load(
        &self,
        builder: &mut FunctionBuilder<'_>,
        at: Location,
        ty: Type,
    ) -> Option<Value> {
        let &(variable, own) = self.variables.get(&at)?;
        let value = builder.use_var(variable);
        Some(as_type(builder, value, own, ty))
    }

    /// Assigns a promoted element; returns whether the element is promoted.
    pub(crate) fn store(
        &self,
        builder: &mut FunctionBuilder<'_>,
        at: Location,
        value: Value,
    ) -> bool {
        let Some(&(variable, own)) = self.variables.get(&at) else {
            return false;
        };
        let ty = builder.func.dfg.value_type(value);
        let value = as_type(builder, value, ty, own);
        builder.def_var(variable, value);
        true
    }
}

fn as_type(builder: &mut FunctionBuilder<'_>, value: Value, from: Type, to: Type) -> Value {
    match from == to {
        true => value,
        false => builder.ins().bitcast(to, MemFlagsData::new(), value),
    }
}

/// The byte offset of an element in a parameter, if its index is constant.
pub(crate) fn offset_of(kernel: &Kernel, param: usize, index: &[Term]) -> Option<usize> {
    let declared = kernel.params.get(param)?;
    let before = declared.elements_before(index);
    let before = canonicalize(&before, &KernelRanges(&kernel.vars)).as_constant()?;
    let size = declared.element_type.storage_bytes();
    usize::try_from(before).ok()?.checked_mul(size)
}
