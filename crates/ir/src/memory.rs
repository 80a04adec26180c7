//! Memory of arrays: aligned, in large pages where it is large, and used again.
//!
//! A page that is touched for the first time costs a fault and its zeros, which for an array
//! beyond the caches takes several times as long as to write it. So whoever makes the same
//! arrays again and again has a [`BufferPool`]: memory that is taken from there goes back when its
//! array is dropped, wherever that is.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The alignment of a literal's bytes.
pub const ALIGNMENT: usize = 64;
/// The size and alignment of the pages that memory of [`LARGE`] and more bytes begins with: those
/// of x86-64, and of other machines whose smallest pages have 4 KiB.
const LARGE_PAGE: usize = 2 << 20;
/// Bytes from which on the system is asked for large pages: what a last-level cache may hold gains
/// nothing from them, and is read more slowly where a virtual machine's host has small ones.
const LARGE: usize = 16 << 20;
/// Bytes from which on memory is kept to be used again: smaller ones the allocator keeps.
const WORTH_KEEPING: usize = 1 << 20;

/// What [`AlignedBytes::poison`] writes: of floats, small numbers that stand out.
const POISON: u8 = 0xa7;

#[repr(align(64))]
struct Aligned;

/// Bytes aligned to [`ALIGNMENT`].
///
/// They lie inside an allocation of the ordinary alignment with room to spare: only of
/// such a one does the system's allocator give zeroed pages without writing them.
pub struct AlignedBytes {
    /// Dangling if there are no bytes.
    start: NonNull<u8>,
    len: usize,
    /// Bytes of the allocation from the first on, `len` or more.
    room: usize,
    /// Bytes of the allocation before the first.
    lead: usize,
    /// Where the memory goes when it is dropped.
    home: Option<Weak<BufferPool>>,
}

// SAFETY: the bytes are owned, and shared only through shared references.
unsafe impl Send for AlignedBytes {}
// SAFETY: the bytes are owned, and shared only through shared references.
unsafe impl Sync for AlignedBytes {}

impl AlignedBytes {
    /// `len` zero bytes. Pages that are never touched take no memory.
    ///
    /// Like any collection it ends the process if the system has no memory left;
    /// whoever takes sizes from outside asks [`Self::try_zeroed`].
    pub fn zeroed(len: usize) -> Self {
        Self::try_zeroed(len).unwrap_or_else(|| Self::refused(len))
    }

    /// Ends the process, as collections do.
    fn refused(len: usize) -> ! {
        std::alloc::handle_alloc_error(Self::memory(len).unwrap_or(Layout::new::<u8>()))
    }

    /// `len` zero bytes, if the system gives them.
    pub fn try_zeroed(len: usize) -> Option<Self> {
        // SAFETY: whatever is asked for is as `alloc_zeroed` wants it.
        Self::inside(len, |memory| unsafe { std::alloc::alloc_zeroed(memory) })
    }

    /// `len` bytes that hold anything, if the system gives them.
    ///
    /// # Safety
    /// All of them are written before any is read.
    unsafe fn try_unwritten(len: usize) -> Option<Self> {
        // SAFETY: whatever is asked for is as `alloc_zeroed` wants it.
        Self::inside(len, |memory| unsafe { std::alloc::alloc(memory) })
    }

    /// `len` bytes at the first aligned place of an allocation, which is never empty.
    fn inside(len: usize, allocate: impl FnOnce(Layout) -> *mut u8) -> Option<Self> {
        let memory = Self::memory(len)?;
        if len == 0 {
            return Some(Self::default());
        }
        let base = NonNull::new(allocate(memory))?;
        let lead = base.as_ptr().align_offset(Self::alignment(len));
        // SAFETY: an address has an aligned one less than the alignment's bytes after it, and
        // that many more than `len` were allocated.
        let start = unsafe { base.add(lead) };
        if len >= LARGE {
            ask_for_large_pages(start, len);
        }
        Some(Self {
            start,
            len,
            room: len,
            lead,
            home: None,
        })
    }

    /// How so many bytes are aligned.
    fn alignment(len: usize) -> usize {
        if len >= LARGE { LARGE_PAGE } else { ALIGNMENT }
    }

    /// What is allocated for `len` bytes.
    fn memory(len: usize) -> Option<Layout> {
        let bytes = len.checked_add(Self::alignment(len))?;
        Layout::from_size_align(bytes, align_of::<usize>()).ok()
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `start` leads to `len` initialised bytes, or there are none.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The bytes.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// Has them hold what nobody would, where assertions are compiled: who reads what was not
    /// written finds that, rather than what was there by chance.
    pub fn poison(&mut self) {
        if cfg!(debug_assertions) {
            // SAFETY: `start` leads to `len` bytes.
            unsafe { self.start.as_ptr().write_bytes(POISON, self.len) };
        }
    }

    /// Where they begin, whether they are written or not.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }
}

/// Asks for large pages, which take a few faults instead of hundreds, where the system has them
/// for who asks. That is advice: nothing depends on what comes of it.
#[cfg(target_os = "linux")]
fn ask_for_large_pages(start: NonNull<u8>, len: usize) {
    let whole = len - len % LARGE_PAGE;
    // SAFETY: the bytes are allocated, begin where a large page does, and are whole ones of
    // them; what they hold does not change.
    unsafe { libc::madvise(start.as_ptr().cast(), whole, libc::MADV_HUGEPAGE) };
}

/// Other systems decide on their own.
#[cfg(not(target_os = "linux"))]
fn ask_for_large_pages(_: NonNull<u8>, _: usize) {}

impl Default for AlignedBytes {
    fn default() -> Self {
        // Typed views of nothing must be aligned, too.
        Self {
            start: NonNull::<Aligned>::dangling().cast(),
            len: 0,
            room: 0,
            lead: 0,
            home: None,
        }
    }
}

impl Clone for AlignedBytes {
    fn clone(&self) -> Self {
        let home = self.home.as_ref().and_then(Weak::upgrade);
        // SAFETY: all of them are written in the next statement but one.
        let copy = unsafe {
            match home {
                Some(home) => home.unwritten(self.len),
                None => Self::try_unwritten(self.len),
            }
        };
        let mut copy = copy.unwrap_or_else(|| Self::refused(self.len));
        // SAFETY: both have that many bytes, and no others own the copy's.
        unsafe {
            let from = self.start.as_ptr();
            copy.as_mut_ptr().copy_from_nonoverlapping(from, self.len);
        }
        copy
    }
}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        if let Some(home) = self.home.take().as_ref().and_then(Weak::upgrade) {
            home.give(std::mem::take(self));
        } else if let Some(memory) = Self::memory(self.room).filter(|_| self.room > 0) {
            // SAFETY: `lead` bytes before `start` an allocation of this layout begins, which
            // is not used again.
            unsafe { std::alloc::dealloc(self.start.sub(self.lead).as_ptr(), memory) };
        }
    }
}

impl PartialEq for AlignedBytes {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

/// Memory of dropped arrays, for arrays to come. At first it keeps nothing: see
/// [`Self::keep_up_to`].
///
/// What is taken from here comes back when its array is dropped, if this is still there; what
/// comes back beyond the bound, and all with this, is the system's again.
#[derive(Default)]
pub struct BufferPool {
    /// What came back last is last.
    memories: Mutex<Vec<AlignedBytes>>,
    most: AtomicUsize,
}

impl BufferPool {
    /// Keeps at most so many bytes from now on, or more if that was said before.
    pub fn keep_up_to(&self, bytes: usize) {
        self.most.fetch_max(bytes, Ordering::Relaxed);
    }

    /// The bytes that are kept now.
    pub fn bytes(&self) -> usize {
        let memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        memories.iter().map(|memory| memory.room).sum()
    }

    /// `len` bytes that hold anything, for an array that comes back here, if there are so many
    /// or the system gives them.
    ///
    /// # Safety
    /// All of them are written before any is read.
    pub(crate) unsafe fn unwritten(self: &Arc<Self>, len: usize) -> Option<AlignedBytes> {
        // SAFETY: the caller promises: all of them are written before any is read.
        let fresh = || unsafe { AlignedBytes::try_unwritten(len) };
        let is_kept = len >= WORTH_KEEPING;
        let known = if is_kept { self.take(len) } else { None };
        let mut bytes = known.or_else(fresh)?;
        bytes.poison();
        bytes.home = is_kept.then(|| Arc::downgrade(self));
        Some(bytes)
    }

    /// Memory of so many bytes, and not more than twice as many; the smallest, and of equal ones
    /// that which was used last.
    fn take(&self, len: usize) -> Option<AlignedBytes> {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |memory: &AlignedBytes| (len..=len.saturating_mul(2)).contains(&memory.room);
        let known = memories.iter().enumerate().rev();
        let known = known.filter(|(_, memory)| fits(memory));
        let (place, _) = known.min_by_key(|(_, memory)| memory.room)?;
        let mut memory = memories.remove(place);
        memory.len = len;
        Some(memory)
    }

    /// Takes memory back, and lets go what has lain here longest if that is too much.
    fn give(&self, memory: AlignedBytes) {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        memories.push(memory);
        let mut bytes: usize = memories.iter().map(|memory| memory.room).sum();
        let most = self.most.load(Ordering::Relaxed);
        let too_many = memories.iter().take_while(|memory| {
            let is_too_much = bytes > most;
            bytes -= memory.room;
            is_too_much
        });
        let too_many = too_many.count();
        let gone: Vec<AlignedBytes> = memories.drain(..too_many).collect();
        // The system takes its time.
        drop(memories);
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArrayShape, ElementType, Literal};

    const MIB: usize = 1 << 20;

    /// An array of so many bytes, all of which are written.
    fn array(spare: &Arc<BufferPool>, len: usize) -> Literal {
        let shape = ArrayShape::new(ElementType::U8, &[len as i64]);
        // SAFETY: they are written here.
        let mut array = unsafe { Literal::unwritten(&shape, spare) }.expect("memory");
        // SAFETY: the array has that many bytes.
        unsafe { array.bytes_mut_ptr().write_bytes(1, len) };
        array
    }

    fn spare(bytes: usize) -> Arc<BufferPool> {
        let spare = Arc::new(BufferPool::default());
        spare.keep_up_to(bytes);
        spare
    }

    #[test]
    fn what_is_dropped_is_used_again() {
        let spare = spare(20 * MIB);
        for len in [MIB, 3 * MIB + 64, 5 * MIB] {
            let first = array(&spare, len);
            let at = first.bytes().as_ptr();
            drop(first.clone());
            assert_eq!(spare.bytes(), 0, "the other one has it");
            drop(first);
            assert_eq!(spare.bytes(), len);
            let again = array(&spare, len);
            assert_eq!(again.bytes().as_ptr(), at);
            assert_eq!(spare.bytes(), 0);
            // A smaller one in the same memory, and then the first again.
            drop(again);
            let smaller = array(&spare, len - 64.min(len - MIB));
            assert_eq!(smaller.bytes().as_ptr(), at);
            drop(smaller);
            assert_eq!(array(&spare, len).bytes().as_ptr(), at);
            // Too large for one that is less than half of it.
            drop(array(&spare, 12 * MIB));
            spare.memories.lock().expect("unpoisoned").clear();
        }
    }

    #[test]
    fn small_memory_is_the_allocators() {
        let spare = spare(8 * MIB);
        drop(array(&spare, MIB - 1));
        assert_eq!(spare.bytes(), 0);
    }

    #[test]
    fn the_bound_holds() {
        let spare = spare(5 * MIB);
        let arrays: Vec<Literal> = (0..4).map(|_| array(&spare, 2 * MIB)).collect();
        drop(arrays);
        assert_eq!(spare.bytes(), 4 * MIB);
        drop(array(&spare, 9 * MIB));
        assert_eq!(spare.bytes(), 0, "one that is too large on its own");
        drop(array(&Arc::new(BufferPool::default()), 2 * MIB));
    }

    #[test]
    fn arrays_outlive_where_they_came_from() {
        let spare = spare(8 * MIB);
        let array = array(&spare, 2 * MIB);
        drop(spare);
        let mut copy = array.clone();
        copy.bytes_mut()[0] = 7;
        assert_eq!((array.bytes()[0], copy.bytes()[0]), (1, 7));
    }

    #[test]
    fn a_copy_comes_from_the_same_place() {
        let spare = spare(8 * MIB);
        drop(array(&spare, 2 * MIB));
        let array = array(&spare, 2 * MIB);
        let mut copy = array.clone();
        copy.bytes_mut()[0] = 7;
        assert_eq!((array.bytes()[0], copy.bytes()[0]), (1, 7));
        let bytes = array.reinterpret(&ArrayShape::new(ElementType::F32, &[2, MIB as i64 / 4]));
        drop((bytes, copy));
        assert_eq!(spare.bytes(), 4 * MIB);
    }

    #[test]
    fn several_threads_take_and_give() {
        let spare = spare(16 * MIB);
        std::thread::scope(|scope| {
            for number in 0..4u8 {
                let spare = &spare;
                scope.spawn(move || {
                    for _ in 0..20 {
                        let mut mine = array(spare, MIB + 64 * usize::from(number));
                        mine.bytes_mut().fill(number);
                        std::thread::yield_now();
                        assert!(mine.bytes().iter().all(|&byte| byte == number));
                    }
                });
            }
        });
        assert!(spare.bytes() <= 16 * MIB);
    }

    #[test]
    fn large_memory_begins_with_a_page() {
        let bytes = AlignedBytes::zeroed(LARGE + 1);
        assert!((bytes.as_slice().as_ptr() as usize).is_multiple_of(LARGE_PAGE));
        assert!(bytes.as_slice().iter().all(|&byte| byte == 0));
    }
}
