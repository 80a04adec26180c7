//! Shardings from the texts in which programs state them.
//!
//! [`hlo`] reads `sharding={...}`, [`shardy`] the attributes of Shardy, which XLA keeps in HLO as
//! texts of frontend attributes.

pub(crate) mod cursor;
pub(crate) mod hlo;
pub(crate) mod rule;
pub(crate) mod shardy;

use crate::sharding::{Cut, Sharding};
use tegula_ir::Binary;

/// What a program says of one array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stated {
    /// How the array is cut.
    pub(crate) sharding: Sharding,
    /// By dimension: whether it may be cut further.
    pub(crate) open: Vec<bool>,
    /// Inside a computation that is written for each device by itself: which devices have arrays of
    /// their own.
    pub(crate) manual: Option<Cut>,
    /// If it is combined of what devices have.
    pub(crate) unreduced: Option<Unreduced>,
}

/// An array of which devices have partial results: it is all of them, combined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreduced {
    /// What combines them.
    pub(crate) op: Binary,
    /// Devices whose arrays are combined.
    pub(crate) groups: Vec<Vec<i64>>,
}

impl Unreduced {
    /// Devices whose arrays are combined.
    pub fn groups(&self) -> &[Vec<i64>] {
        &self.groups
    }
}

impl Stated {
    /// The whole array on every device, and so it stays.
    pub(crate) fn replicated(rank: usize, devices: usize) -> Self {
        Self {
            sharding: Sharding::replicated(rank, devices),
            open: vec![false; rank],
            manual: None,
            unreduced: None,
        }
    }
}
