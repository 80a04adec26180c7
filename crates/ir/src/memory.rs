//! Memory for arrays: aligned, in huge pages if it is large, and reused through a pool.
//!
//! The first access to a page causes a page fault, and the system fills the page with zeros. For an
//! array larger than the caches, this takes several times as long as writing the array. Code that
//! makes the same arrays repeatedly therefore takes their memory from a [`BufferPool`]. The memory
//! returns to the pool when its array is dropped.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The alignment of a literal's bytes.
pub const ALIGNMENT: usize = 64;
/// The size and alignment of huge pages, in bytes: those of x86-64, and of other machines with 4
/// KiB pages. Memory of at least [`LARGE`] bytes is aligned to it.
const LARGE_PAGE: usize = 2 << 20;
/// The size in bytes from which huge pages are requested. Arrays that fit into a last-level cache
/// gain nothing from them, and are read more slowly if a virtual machine's host uses small pages.
const LARGE: usize = 16 << 20;
/// The size in bytes from which the pool keeps memory. The allocator itself caches smaller blocks.
const WORTH_KEEPING: usize = 1 << 20;

/// The byte that [`AlignedBytes::poison`] writes. As floats, these bytes are small numbers that
/// stand out.
const POISON: u8 = 0xa7;

#[repr(align(64))]
struct Aligned;

/// Bytes aligned to [`ALIGNMENT`].
///
/// They are part of a larger allocation with ordinary alignment, because only for such an
/// allocation does the system allocator return zeroed pages without writing them.
pub struct AlignedBytes {
    /// Dangling if there are no bytes.
    start: NonNull<u8>,
    len: usize,
    /// The number of bytes from `start` to the end of the usable allocation: `len` or more.
    room: usize,
    /// The number of bytes of the allocation before `start`.
    lead: usize,
    /// The pool that the memory returns to when it is dropped.
    home: Option<Weak<BufferPool>>,
}

// SAFETY: the bytes are owned, and shared only through shared references.
unsafe impl Send for AlignedBytes {}
// SAFETY: the bytes are owned, and shared only through shared references.
unsafe impl Sync for AlignedBytes {}

impl AlignedBytes {
    /// `len` zero bytes. Pages that are never accessed take no memory.
    ///
    /// If the system has no memory left, the process ends, as with collections. For sizes from
    /// untrusted input, use [`Self::try_zeroed`].
    pub fn zeroed(len: usize) -> Self {
        Self::try_zeroed(len).unwrap_or_else(|| Self::refused(len))
    }

    /// Ends the process, as collections do when an allocation fails.
    fn refused(len: usize) -> ! {
        std::alloc::handle_alloc_error(Self::memory(len).unwrap_or(Layout::new::<u8>()))
    }

    /// `len` zero bytes; `None` if the allocation fails.
    pub fn try_zeroed(len: usize) -> Option<Self> {
        // SAFETY: `inside` passes a layout of nonzero size, which `alloc_zeroed` requires.
        Self::inside(len, |memory| unsafe { std::alloc::alloc_zeroed(memory) })
    }

    /// `len` uninitialised bytes; `None` if the allocation fails.
    ///
    /// # Safety
    /// The caller writes all of them before any is read.
    unsafe fn try_unwritten(len: usize) -> Option<Self> {
        // SAFETY: `inside` passes a layout of nonzero size, which `alloc` requires.
        Self::inside(len, |memory| unsafe { std::alloc::alloc(memory) })
    }

    /// `len` bytes at the first aligned address of a new allocation, whose size is never 0.
    fn inside(len: usize, allocate: impl FnOnce(Layout) -> *mut u8) -> Option<Self> {
        let memory = Self::memory(len)?;
        if len == 0 {
            return Some(Self::default());
        }
        let base = NonNull::new(allocate(memory))?;
        let lead = base.as_ptr().align_offset(Self::alignment(len));
        // SAFETY: the next aligned address is less than the alignment away, and the allocation has
        // `len` bytes plus the alignment.
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

    /// The alignment of `len` bytes.
    fn alignment(len: usize) -> usize {
        if len >= LARGE { LARGE_PAGE } else { ALIGNMENT }
    }

    /// The layout of the allocation for `len` bytes.
    fn memory(len: usize) -> Option<Layout> {
        let bytes = len.checked_add(Self::alignment(len))?;
        Layout::from_size_align(bytes, align_of::<usize>()).ok()
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `start` points to `len` initialised bytes; it is dangling only if `len` is 0.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The bytes.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: `start` points to `len` initialised bytes, dangling only if `len` is 0, and
        // `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// With debug assertions, fills the bytes with a recognisable pattern, so that reads of
    /// unwritten memory are noticed.
    pub fn poison(&mut self) {
        if cfg!(debug_assertions) {
            // SAFETY: `start` points to `len` bytes, which `self` owns.
            unsafe { self.start.as_ptr().write_bytes(POISON, self.len) };
        }
    }

    /// A pointer to the first byte, whether or not the bytes are written.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }
}

/// Requests huge pages, which cause a few page faults instead of hundreds, on systems that provide
/// them on request. The request is only advice, so its result is ignored.
#[cfg(target_os = "linux")]
fn ask_for_large_pages(start: NonNull<u8>, len: usize) {
    let whole = len - len % LARGE_PAGE;
    // SAFETY: the range is allocated, starts at the alignment of a huge page and consists of whole
    // huge pages; the advice does not change its contents.
    unsafe { libc::madvise(start.as_ptr().cast(), whole, libc::MADV_HUGEPAGE) };
}

/// Other systems choose page sizes themselves.
#[cfg(not(target_os = "linux"))]
fn ask_for_large_pages(_: NonNull<u8>, _: usize) {}

impl Default for AlignedBytes {
    fn default() -> Self {
        // Typed slices of no elements need an aligned pointer, too.
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
        // SAFETY: the bytes are all written in the next statement but one.
        let copy = unsafe {
            match home {
                Some(home) => home.unwritten(self.len),
                None => Self::try_unwritten(self.len),
            }
        };
        let mut copy = copy.unwrap_or_else(|| Self::refused(self.len));
        // SAFETY: source and copy have `len` bytes each, and nothing else owns the copy's.
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
            // SAFETY: an allocation of this layout begins `lead` bytes before `start`, and nothing
            // uses it afterwards.
            unsafe { std::alloc::dealloc(self.start.sub(self.lead).as_ptr(), memory) };
        }
    }
}

impl PartialEq for AlignedBytes {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

/// A pool that keeps the memory of dropped arrays for new ones. A new pool keeps nothing until
/// [`Self::keep_up_to`] is called.
///
/// Memory that is taken from a pool returns to it when its array is dropped, if the pool still
/// exists. Memory beyond the limit is freed, as is all of it when the pool is dropped.
#[derive(Default)]
pub struct BufferPool {
    /// In the order in which the memory returned, the latest last.
    memories: Mutex<Vec<AlignedBytes>>,
    most: AtomicUsize,
}

impl BufferPool {
    /// Raises the limit to `bytes`; a higher limit that was set before stays.
    pub fn keep_up_to(&self, bytes: usize) {
        self.most.fetch_max(bytes, Ordering::Relaxed);
    }

    /// The number of bytes that the pool holds now.
    pub fn bytes(&self) -> usize {
        let memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        memories.iter().map(|memory| memory.room).sum()
    }

    /// `len` uninitialised bytes, which return to this pool. They are taken from the pool or else
    /// newly allocated; `None` if the allocation fails.
    ///
    /// # Safety
    /// The caller writes all of them before any is read.
    pub(crate) unsafe fn unwritten(self: &Arc<Self>, len: usize) -> Option<AlignedBytes> {
        // SAFETY: the caller promises to write all bytes before any is read.
        let fresh = || unsafe { AlignedBytes::try_unwritten(len) };
        let is_kept = len >= WORTH_KEEPING;
        let known = if is_kept { self.take(len) } else { None };
        let mut bytes = known.or_else(fresh)?;
        bytes.poison();
        bytes.home = is_kept.then(|| Arc::downgrade(self));
        Some(bytes)
    }

    /// Takes memory of `len` to `2 * len` bytes from the pool: the smallest, and among equal ones
    /// the one that was used last.
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

    /// Takes memory back, and frees the oldest if the limit is exceeded.
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
        // Freeing is slow, so the lock is released first.
        drop(memories);
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArrayShape, ElementType, Literal};

    const MIB: usize = 1 << 20;

    /// An array of `len` bytes, all of them written.
    fn array(spare: &Arc<BufferPool>, len: usize) -> Literal {
        let shape = ArrayShape::new(ElementType::U8, &[len as i64]);
        // SAFETY: all bytes are written in the next statement.
        let mut array = unsafe { Literal::unwritten(&shape, spare) }.expect("memory");
        // SAFETY: the array has `len` bytes.
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
            // A smaller array uses the same memory, and then the first size again.
            drop(again);
            let smaller = array(&spare, len - 64.min(len - MIB));
            assert_eq!(smaller.bytes().as_ptr(), at);
            drop(smaller);
            assert_eq!(array(&spare, len).bytes().as_ptr(), at);
            // The memory is more than twice as large as the array that asks for it.
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
