//! Reads shardings from the texts in which programs state them.
//!
//! [`hlo`] reads `sharding={...}`, [`shardy`] the attributes of Shardy, which XLA stores in HLO as
//! texts of frontend attributes.

pub(crate) mod cursor;
pub(crate) mod hlo;
pub(crate) mod rule;
pub(crate) mod shardy;

use crate::sharding::{Cut, Sharding};
use tegula_ir::Binary;

/// The sharding that a program states for an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stated {
    /// The cuts.
    pub(crate) sharding: Sharding,
    /// For each dimension, whether it may be cut further.
    pub(crate) open: Vec<bool>,
    /// Inside a manual computation (written for each device separately): the cut that says which
    /// devices have arrays of their own.
    pub(crate) manual: Option<Cut>,
    /// How partial results are combined, if the array is unreduced.
    pub(crate) unreduced: Option<Unreduced>,
}

/// An unreduced array: devices hold partial results, and the array is their combination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreduced {
    /// The combining operation.
    pub(crate) op: Binary,
    /// Groups of devices whose partial results are combined.
    pub(crate) groups: Vec<Vec<i64>>,
}

impl Unreduced {
    /// Groups of devices whose partial results are combined.
    pub fn groups(&self) -> &[Vec<i64>] {
        &self.groups
    }
}

impl Stated {
    /// A replicated array, whose dimensions may not be cut.
    pub(crate) fn replicated(rank: usize, devices: usize) -> Self {
        Self {
            sharding: Sharding::replicated(rank, devices),
            open: vec![false; rank],
            manual: None,
            unreduced: None,
        }
    }
}
