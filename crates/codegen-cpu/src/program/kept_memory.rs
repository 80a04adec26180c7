//! Memory of values that are kept between runs: filled by the first run that needs it, and shared
//! by all sizes of a program with open sizes.
//!
//! A buffer whose contents do not depend on sizes is filled once, by the first run of any size, and
//! lives as long as a size uses it. The steps that fill it are omitted for later sizes.

use super::ir::{Action, Location};
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use tegula_ir::AlignedBytes;
use tegula_linalg::gemm::PackedLayout;
use tegula_plan::ValueId;

/// The contents of a buffer, independent of the sizes of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    /// The constant or frozen parameter at this location.
    Given(Location),
    /// A value of the plan.
    Value(ValueId),
    /// An operand in the packed forms that products read.
    Packed(Box<Content>, Vec<PackedLayout>),
}

/// A buffer to fill.
pub(crate) struct Wanted {
    pub bytes: usize,
    /// Whether runs read it; otherwise it only exists while other buffers are filled.
    pub stays: bool,
    /// Its contents, if these are the same at all sizes.
    pub content: Option<Content>,
}

/// An action that fills buffers.
pub(crate) struct Filling {
    action: Action,
    /// The buffers that it fills, and those that it only reads.
    written: SmallVec<[usize; 1]>,
    read: SmallVec<[usize; 2]>,
}

impl Filling {
    pub(crate) fn new(mut action: Action, written: SmallVec<[usize; 1]>) -> Self {
        let mut read = SmallVec::new();
        action.each_location(&mut |location| {
            read.extend(location.area.kept().filter(|slot| !written.contains(slot)));
        });
        Self {
            action,
            written,
            read,
        }
    }
}

/// The buffers of one size, which the first run fills.
#[derive(Default)]
pub(crate) struct Memories {
    wanted: Vec<Wanted>,
    /// The actions that fill them, in order.
    fillings: Vec<Filling>,
    filled: OnceLock<Vec<Arc<AlignedBytes>>>,
    filling: Mutex<()>,
}

/// The buffers shared by all sizes, whose contents depend on no size.
#[derive(Default)]
pub(crate) struct SharedMemories(Mutex<Vec<(Content, Weak<AlignedBytes>)>>);

impl SharedMemories {
    fn find(&self, content: &Content) -> Option<Arc<AlignedBytes>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut same = known.iter().filter(|(known, _)| known == content);
        same.find_map(|(_, memory)| memory.upgrade())
    }

    fn add(&self, content: &Content, memory: &Arc<AlignedBytes>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(_, memory)| memory.strong_count() > 0);
        known.push((content.clone(), Arc::downgrade(memory)));
    }
}

impl Memories {
    pub(crate) fn new(wanted: Vec<Wanted>, fillings: Vec<Filling>) -> Self {
        Self {
            wanted,
            fillings,
            ..Self::default()
        }
    }

    /// The total bytes of buffers that runs read.
    pub(crate) fn bytes(&self) -> i64 {
        let stay = self.wanted.iter().filter(|wanted| wanted.stays);
        let bytes: usize = stay.map(|wanted| wanted.bytes).sum();
        i64::try_from(bytes).unwrap_or(i64::MAX)
    }

    /// The buffers. Those that have not been filled yet, for this size or another, are filled by
    /// `fill`, which gets the actions to run and the buffers' addresses by number.
    ///
    /// # Errors
    /// There is not enough memory (`no_memory` gets the number of bytes), or `fill` fails.
    pub(crate) fn get<E>(
        &self,
        shared: &SharedMemories,
        no_memory: impl FnOnce(i64) -> E,
        fill: impl FnOnce(&[&Action], Vec<*mut u8>) -> Result<(), E>,
    ) -> Result<&[Arc<AlignedBytes>], E> {
        if let Some(filled) = self.filled.get() {
            return Ok(filled);
        }
        // Concurrent runs wait until the buffers that they need are filled.
        let filling = self.filling.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(filled) = self.filled.get() {
            return Ok(filled);
        }
        let known = |wanted: &Wanted| shared.find(wanted.content.as_ref()?);
        let mut known: Vec<Option<Arc<AlignedBytes>>> = self.wanted.iter().map(known).collect();
        let (actions, is_made) = self.missing(&mut known);
        let mut made = Vec::with_capacity(known.len());
        for (wanted, is_made) in self.wanted.iter().zip(&is_made) {
            let bytes = if *is_made { wanted.bytes } else { 0 };
            match AlignedBytes::try_zeroed(bytes) {
                Some(memory) => made.push(memory),
                None => return Err(no_memory(i64::try_from(wanted.bytes).unwrap_or(i64::MAX))),
            }
        }
        let addresses = made.iter_mut().zip(&known);
        let addresses = addresses.map(|(own, known)| match known {
            // This buffer is only read.
            Some(known) => known.as_slice().as_ptr().cast_mut(),
            None => own.as_mut_slice().as_mut_ptr(),
        });
        fill(&actions, addresses.collect())?;
        let mut filled = Vec::with_capacity(made.len());
        for ((own, known), wanted) in made.into_iter().zip(known).zip(&self.wanted) {
            filled.push(match (known, wanted.stays) {
                (_, false) => Arc::default(),
                (Some(known), true) => known,
                (None, true) => {
                    let own = Arc::new(own);
                    if let Some(content) = &wanted.content {
                        shared.add(content, &own);
                    }
                    own
                }
            });
        }
        let filled = self.filled.get_or_init(|| filled);
        drop(filling);
        Ok(filled)
    }

    /// The actions that fill buffers which runs read and which are not filled yet, in order, and
    /// which buffers they write; these buffers are removed from `known`.
    fn missing(&self, known: &mut [Option<Arc<AlignedBytes>>]) -> (Vec<&Action>, Vec<bool>) {
        let unknown = self.wanted.iter().zip(&*known);
        let mut needed: Vec<bool> = unknown
            .map(|(wanted, known)| wanted.stays && known.is_none())
            .collect();
        let mut actions = Vec::new();
        let mut is_made = vec![false; needed.len()];
        for filling in self.fillings.iter().rev() {
            if !filling.written.iter().any(|&slot| needed[slot]) {
                continue;
            }
            actions.push(&filling.action);
            for &slot in &filling.read {
                needed[slot] |= known[slot].is_none();
            }
            for &slot in &filling.written {
                is_made[slot] = true;
                known[slot] = None;
            }
        }
        actions.reverse();
        (actions, is_made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::ir::Area;
    use smallvec::smallvec;

    /// The buffers of a size: one that only the second is computed from, one that is the same at
    /// all sizes, and one that is not.
    fn of_a_size() -> Memories {
        let at = |area| Location { area, offset: 0 };
        let copy = |from, to: usize| {
            let action = Action::Copy {
                from: at(from),
                to: at(Area::Kept(to)),
                bytes: 8,
            };
            Filling::new(action, smallvec![to])
        };
        let memory = |stays, content| Wanted {
            bytes: 8,
            stays,
            content,
        };
        let value = |number| Some(Content::Value(ValueId::from_u32(number)));
        let wanted = vec![
            memory(false, value(0)),
            memory(true, value(1)),
            memory(true, None),
        ];
        let fillings = vec![
            copy(Area::Constant(0), 0),
            copy(Area::Kept(0), 1),
            copy(Area::Constant(0), 2),
        ];
        Memories::new(wanted, fillings)
    }

    /// The number of actions that fill buffers, and the address of the first buffer that stays.
    fn fill(memories: &Memories, shared: &SharedMemories) -> (usize, *const u8) {
        let mut count = 0;
        let fill = |actions: &[&Action], _: Vec<*mut u8>| {
            count = actions.len();
            Ok::<_, i64>(())
        };
        let filled = memories.get(shared, |bytes| bytes, fill);
        let at = filled.expect("memory")[1].as_slice().as_ptr();
        (count, at)
    }

    #[test]
    fn sizes_share_what_depends_on_none() {
        let shared = SharedMemories::default();
        let (one, other) = (of_a_size(), of_a_size());
        let (filled, first) = fill(&one, &shared);
        assert_eq!(filled, 3);
        assert_eq!(fill(&other, &shared), (1, first));
        // A run of the same size fills nothing.
        assert_eq!(fill(&one, &shared), (0, first));
        drop((one, other));
        assert_eq!(fill(&of_a_size(), &shared).0, 3);
    }
}
