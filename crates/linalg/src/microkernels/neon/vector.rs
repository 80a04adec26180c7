//! 128-bit vectors by type: [their operations](super::lanes), as `native` instructions or on plain
//! arrays.

#[cfg(not(target_arch = "aarch64"))]
pub(crate) use super::emulated::*;
pub(crate) use super::lanes::{Numbers, Vector};
#[cfg(target_arch = "aarch64")]
pub(crate) use super::lanes::{fetch, fetch_second};
#[cfg(target_arch = "aarch64")]
pub(crate) use super::native::*;
