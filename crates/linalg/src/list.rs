//! A list of bounded length stored inline. Prepared routines use it because they must not allocate:
//! the same code runs in compiled programs, which have no allocator.

use core::fmt;
use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};

/// A list of at most `N` items.
#[derive(Clone, Copy)]
pub struct List<T: Copy, const N: usize> {
    items: [MaybeUninit<T>; N],
    count: usize,
}

impl<T: Copy, const N: usize> List<T, N> {
    /// An empty list.
    pub const fn new() -> Self {
        Self {
            items: [MaybeUninit::uninit(); N],
            count: 0,
        }
    }

    /// Appends an item.
    ///
    /// # Panics
    /// There are `N` already.
    pub fn push(&mut self, item: T) {
        self.items[self.count].write(item);
        self.count += 1;
    }

    /// Keeps the first `count` items, if there are more.
    pub fn truncate(&mut self, count: usize) {
        self.count = self.count.min(count);
    }

    /// Swaps the contents with another list. Only existing items are moved: lists are mostly nearly
    /// empty.
    pub fn swap_with(&mut self, other: &mut Self) {
        let most = self.count.max(other.count);
        for (own, other) in self.items.iter_mut().zip(&mut other.items).take(most) {
            core::mem::swap(own, other);
        }
        core::mem::swap(&mut self.count, &mut other.count);
    }

    /// Removes the first item, if there is one.
    pub fn take_first(&mut self) -> Option<T> {
        let first = *self.first()?;
        self.copy_within(1.., 0);
        self.count -= 1;
        Some(first)
    }

    /// Sorts by a key; items with equal keys keep their order.
    pub fn sort_by_key<K: Ord>(&mut self, key: impl Fn(&T) -> K) {
        for end in 1..self.count {
            let mut at = end;
            while at > 0 && key(&self[at - 1]) > key(&self[at]) {
                self.swap(at - 1, at);
                at -= 1;
            }
        }
    }
}

impl<T: Copy, const N: usize> Deref for List<T, N> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the first `count` items were written, and `count` is at most `N`.
        unsafe { core::slice::from_raw_parts(self.items.as_ptr().cast(), self.count) }
    }
}

impl<T: Copy, const N: usize> DerefMut for List<T, N> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: the first `count` items were written, and `count` is at most `N`.
        unsafe { core::slice::from_raw_parts_mut(self.items.as_mut_ptr().cast(), self.count) }
    }
}

impl<T: Copy, const N: usize> Default for List<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Copy + fmt::Debug, const N: usize> fmt::Debug for List<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T: Copy + PartialEq, const N: usize> PartialEq for List<T, N> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Copy + Eq, const N: usize> Eq for List<T, N> {}

/// # Panics
/// There are more than `N`.
impl<T: Copy, const N: usize> FromIterator<T> for List<T, N> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut list = Self::new();
        items.into_iter().for_each(|item| list.push(item));
        list
    }
}

impl<T: Copy, const N: usize> Extend<T> for List<T, N> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

/// # Panics
/// There are more than `N`.
impl<T: Copy, const K: usize, const N: usize> From<[T; K]> for List<T, N> {
    fn from(items: [T; K]) -> Self {
        items.into_iter().collect()
    }
}

impl<'a, T: Copy, const N: usize> IntoIterator for &'a List<T, N> {
    type Item = &'a T;
    type IntoIter = core::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T: Copy, const N: usize> IntoIterator for &'a mut List<T, N> {
    type Item = &'a mut T;
    type IntoIter = core::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::List;

    #[test]
    fn it_is_a_list() {
        let mut list: List<(u32, char), 4> = List::from([(2, 'a'), (1, 'b'), (2, 'c')]);
        list.push((1, 'd'));
        list.sort_by_key(|&(key, _)| key);
        assert_eq!(*list, [(1, 'b'), (1, 'd'), (2, 'a'), (2, 'c')]);
        assert_eq!(list.take_first(), Some((1, 'b')));
        assert_eq!(*list, [(1, 'd'), (2, 'a'), (2, 'c')]);
        assert_eq!(List::<u8, 2>::new().take_first(), None);
    }
}
