//! Shardings from the texts in which programs state them.
//!
//! [`hlo`] reads `sharding={...}`, [`shardy`] the attributes of Shardy, which XLA keeps in HLO as
//! texts of frontend attributes.

pub(crate) mod cursor;
pub(crate) mod hlo;
pub(crate) mod shardy;

use crate::sharding::{Cut, Sharding};

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
}

impl Stated {
    /// The whole array on every device, and so it stays.
    pub(crate) fn replicated(rank: usize, devices: usize) -> Self {
        Self {
            sharding: Sharding::replicated(rank, devices),
            open: vec![false; rank],
            manual: None,
        }
    }
}
