//! Arenas whose elements are named by small typed ids.
//!
//! An [`Arena`] owns elements and gives each one an id, of a type of its own, when it is added;
//! single elements are never removed, so an id stays valid. A [`SecondaryMap`] stores further data
//! for the same ids, with a default value where none was set, and an [`EntitySet`] is a set of ids.
//! Ids are 32-bit numbers in the order in which elements were added, which is also the order of
//! every iteration.
//!
//! ```
//! use tegula_arena::{Arena, SecondaryMap, entity_impl};
//!
//! /// A town.
//! #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
//! struct Town(u32);
//! entity_impl!(Town, "town");
//!
//! let mut towns = Arena::<Town, &str>::new();
//! let first = towns.push("Ulm");
//! let second = towns.push("Bern");
//! assert_eq!(towns[second], "Bern");
//! assert_eq!(second.to_string(), "town1");
//! let mut inhabitants = SecondaryMap::<Town, u32>::new();
//! inhabitants[second] = 134_000;
//! assert_eq!(inhabitants[first], 0);
//! ```

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};
use std::{iter, slice, vec};

/// An id type. [`entity_impl`] implements this trait.
pub trait EntityRef: Copy + Eq {
    /// The id with this number.
    ///
    /// # Panics
    /// The number does not fit in 32 bits.
    fn new(index: usize) -> Self;
    /// The number of the id.
    fn index(self) -> usize;
}

/// Implements [`EntityRef`], `from_u32` and `as_u32` for a type with one field, a `u32`; `Display`
/// and `Debug` write the prefix and the number.
#[macro_export]
macro_rules! entity_impl {
    ($id:ident, $prefix:literal) => {
        impl $crate::EntityRef for $id {
            #[inline]
            fn new(index: usize) -> Self {
                assert!(index < u32::MAX as usize, "more than 2^32 entities");
                Self(index as u32)
            }

            #[inline]
            fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl $id {
            /// The id with this number.
            #[inline]
            #[allow(dead_code, unreachable_pub, reason = "of ids of any visibility")]
            pub fn from_u32(index: u32) -> Self {
                <Self as $crate::EntityRef>::new(index as usize)
            }

            /// The number of the id.
            #[inline]
            #[allow(dead_code, unreachable_pub, reason = "of ids of any visibility")]
            pub fn as_u32(self) -> u32 {
                self.0
            }
        }

        impl ::std::fmt::Display for $id {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl ::std::fmt::Debug for $id {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Display::fmt(self, f)
            }
        }
    };
}

/// A growing list of elements, each with an id.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Arena<K, V> {
    elements: Vec<V>,
    ids: PhantomData<K>,
}

impl<K: EntityRef, V> Arena<K, V> {
    /// An empty arena.
    pub const fn new() -> Self {
        Self {
            elements: Vec::new(),
            ids: PhantomData,
        }
    }

    /// An empty arena with room for `capacity` elements.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            elements: Vec::with_capacity(capacity),
            ids: PhantomData,
        }
    }

    /// Adds an element; returns its id.
    pub fn push(&mut self, element: V) -> K {
        let id = self.next_key();
        self.elements.push(element);
        id
    }

    /// The id that the next element will have.
    pub fn next_key(&self) -> K {
        K::new(self.elements.len())
    }

    /// Reserves room for `additional` more elements.
    pub fn reserve(&mut self, additional: usize) {
        self.elements.reserve(additional);
    }

    /// Removes all elements; their ids become invalid.
    pub fn clear(&mut self) {
        self.elements.clear();
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether the arena has no elements.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Whether an element has this id.
    pub fn is_valid(&self, id: K) -> bool {
        id.index() < self.elements.len()
    }

    /// The element with this id, if there is one.
    pub fn get(&self, id: K) -> Option<&V> {
        self.elements.get(id.index())
    }

    /// The element with this id, if there is one.
    pub fn get_mut(&mut self, id: K) -> Option<&mut V> {
        self.elements.get_mut(id.index())
    }

    /// All ids, in order.
    pub fn keys(&self) -> Keys<K> {
        Keys::new(self.elements.len())
    }

    /// All elements, in order.
    pub fn values(&self) -> slice::Iter<'_, V> {
        self.elements.iter()
    }

    /// All elements, in order.
    pub fn values_mut(&mut self) -> slice::IterMut<'_, V> {
        self.elements.iter_mut()
    }

    /// All elements with their ids, in order.
    pub fn iter(&self) -> Iter<'_, K, V> {
        self.keys().zip(self.elements.iter())
    }

    /// All elements with their ids, in order.
    pub fn iter_mut(&mut self) -> IterMut<'_, K, V> {
        self.keys().zip(self.elements.iter_mut())
    }

    /// The elements as a slice, in order.
    pub fn as_slice(&self) -> &[V] {
        &self.elements
    }

    /// The last element, with its id.
    pub fn last(&self) -> Option<(K, &V)> {
        let element = self.elements.last()?;
        Some((K::new(self.elements.len() - 1), element))
    }
}

/// Elements with their ids.
pub type Iter<'a, K, V> = iter::Zip<Keys<K>, slice::Iter<'a, V>>;
/// Elements with their ids.
pub type IterMut<'a, K, V> = iter::Zip<Keys<K>, slice::IterMut<'a, V>>;

/// The ids of an arena or a map, in order.
#[derive(Clone, Debug)]
pub struct Keys<K> {
    next: usize,
    end: usize,
    ids: PhantomData<K>,
}

impl<K> Keys<K> {
    fn new(count: usize) -> Self {
        Self {
            next: 0,
            end: count,
            ids: PhantomData,
        }
    }
}

impl<K: EntityRef> Iterator for Keys<K> {
    type Item = K;

    fn next(&mut self) -> Option<K> {
        (self.next < self.end).then(|| {
            self.next += 1;
            K::new(self.next - 1)
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.end - self.next;
        (left, Some(left))
    }
}

impl<K: EntityRef> DoubleEndedIterator for Keys<K> {
    fn next_back(&mut self) -> Option<K> {
        (self.next < self.end).then(|| {
            self.end -= 1;
            K::new(self.end)
        })
    }
}

impl<K: EntityRef> ExactSizeIterator for Keys<K> {}

impl<K: EntityRef, V> Default for Arena<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: EntityRef + fmt::Debug, V: fmt::Debug> fmt::Debug for Arena<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: EntityRef, V> Index<K> for Arena<K, V> {
    type Output = V;

    fn index(&self, id: K) -> &V {
        &self.elements[id.index()]
    }
}

impl<K: EntityRef, V> IndexMut<K> for Arena<K, V> {
    fn index_mut(&mut self, id: K) -> &mut V {
        &mut self.elements[id.index()]
    }
}

impl<K, V> FromIterator<V> for Arena<K, V> {
    fn from_iter<I: IntoIterator<Item = V>>(elements: I) -> Self {
        Self {
            elements: elements.into_iter().collect(),
            ids: PhantomData,
        }
    }
}

impl<K, V> From<Vec<V>> for Arena<K, V> {
    fn from(elements: Vec<V>) -> Self {
        Self {
            elements,
            ids: PhantomData,
        }
    }
}

impl<K: EntityRef, V> IntoIterator for Arena<K, V> {
    type Item = (K, V);
    type IntoIter = iter::Zip<Keys<K>, vec::IntoIter<V>>;

    fn into_iter(self) -> Self::IntoIter {
        self.keys().zip(self.elements)
    }
}

impl<'a, K: EntityRef, V> IntoIterator for &'a Arena<K, V> {
    type Item = (K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, K: EntityRef, V> IntoIterator for &'a mut Arena<K, V> {
    type Item = (K, &'a mut V);
    type IntoIter = IterMut<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

/// Further data for the ids of an arena: every id has an element, which is the default until it is
/// set.
#[derive(Clone)]
pub struct SecondaryMap<K, V> {
    elements: Vec<V>,
    default: V,
    ids: PhantomData<K>,
}

impl<K: EntityRef, V: Clone> SecondaryMap<K, V> {
    /// A map in which every id has the default of the type.
    pub fn new() -> Self
    where
        V: Default,
    {
        Self::with_default(V::default())
    }

    /// A map in which every id has this default.
    pub fn with_default(default: V) -> Self {
        Self {
            elements: Vec::new(),
            default,
            ids: PhantomData,
        }
    }

    /// The element of an id, if an element was set for it or for a later id.
    pub fn get(&self, id: K) -> Option<&V> {
        self.elements.get(id.index())
    }

    /// The elements up to the last one that was set.
    pub fn values(&self) -> slice::Iter<'_, V> {
        self.elements.iter()
    }

    /// The elements up to the last one that was set, with their ids.
    pub fn iter(&self) -> Iter<'_, K, V> {
        Keys::new(self.elements.len()).zip(self.elements.iter())
    }

    /// Resets every id to the default.
    pub fn clear(&mut self) {
        self.elements.clear();
    }
}

impl<K: EntityRef, V: Clone + Default> Default for SecondaryMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: EntityRef + fmt::Debug, V: Clone + fmt::Debug> fmt::Debug for SecondaryMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: EntityRef, V: Clone + PartialEq> PartialEq for SecondaryMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        let longest = self.elements.len().max(other.elements.len());
        self.default == other.default && Keys::<K>::new(longest).all(|id| self[id] == other[id])
    }
}

impl<K: EntityRef, V: Clone> Index<K> for SecondaryMap<K, V> {
    type Output = V;

    fn index(&self, id: K) -> &V {
        self.elements.get(id.index()).unwrap_or(&self.default)
    }
}

impl<K: EntityRef, V: Clone> IndexMut<K> for SecondaryMap<K, V> {
    fn index_mut(&mut self, id: K) -> &mut V {
        let index = id.index();
        if index >= self.elements.len() {
            self.elements.resize(index + 1, self.default.clone());
        }
        &mut self.elements[index]
    }
}

/// A set of ids.
#[derive(Clone)]
pub struct EntitySet<K>(SecondaryMap<K, bool>);

impl<K: EntityRef + fmt::Debug> fmt::Debug for EntitySet<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = self.0.iter().filter(|(_, is_in)| **is_in);
        f.debug_set().entries(ids.map(|(id, _)| id)).finish()
    }
}

impl<K: EntityRef> EntitySet<K> {
    /// An empty set.
    pub fn new() -> Self {
        Self(SecondaryMap::new())
    }

    /// Adds an id; returns whether it was not in the set before.
    pub fn insert(&mut self, id: K) -> bool {
        !std::mem::replace(&mut self.0[id], true)
    }

    /// Removes an id; returns whether it was in the set.
    pub fn remove(&mut self, id: K) -> bool {
        std::mem::replace(&mut self.0[id], false)
    }

    /// Whether an id is in the set.
    pub fn contains(&self, id: K) -> bool {
        self.0[id]
    }

    /// Removes all ids.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl<K: EntityRef> Extend<K> for EntitySet<K> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, ids: I) {
        for id in ids {
            self.insert(id);
        }
    }
}

impl<K: EntityRef> Default for EntitySet<K> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    struct Id(u32);
    entity_impl!(Id, "id");

    #[test]
    fn ids_are_in_the_order_of_the_elements() {
        let mut arena: Arena<Id, char> = "abc".chars().collect();
        assert_eq!(arena.next_key(), Id(3));
        assert_eq!(arena.push('d'), Id(3));
        assert_eq!(arena.last(), Some((Id(3), &'d')));
        assert_eq!(arena.get(Id(4)), None);
        assert!(!arena.is_valid(Id(4)));
        arena[Id(0)] = 'x';
        assert_eq!(
            format!("{arena:?}"),
            "{id0: 'x', id1: 'b', id2: 'c', id3: 'd'}"
        );
        let back: String = arena.keys().rev().map(|id| arena[id]).collect();
        assert_eq!(back, "dcbx");
        assert_eq!(arena.keys().len(), 4);
    }

    #[test]
    fn what_was_not_given_is_the_default() {
        let mut map = SecondaryMap::<Id, u8>::with_default(7);
        map[Id(2)] = 1;
        assert_eq!([map[Id(0)], map[Id(2)], map[Id(9)]], [7, 1, 7]);
        assert_eq!(map.get(Id(9)), None);
        let mut other = map.clone();
        other[Id(9)] = 7;
        assert_eq!(map, other, "the same for every id");
        map.clear();
        assert_eq!(map[Id(2)], 7);
    }

    #[test]
    fn a_set_has_what_was_added() {
        let mut set = EntitySet::new();
        assert!(set.insert(Id(5)));
        assert!(!set.insert(Id(5)));
        assert!(set.contains(Id(5)) && !set.contains(Id(4)) && !set.contains(Id(500)));
        assert!(set.remove(Id(5)));
        assert!(!set.contains(Id(5)));
    }
}
