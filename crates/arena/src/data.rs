//! Arenas as data formats have them: the sequence of their elements.

use crate::Arena;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

impl<K, V: Serialize> Serialize for Arena<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.elements.serialize(serializer)
    }
}

impl<'de, K, V: Deserialize<'de>> Deserialize<'de> for Arena<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}
