//! Vectors of 128 bits by type: [what they do](super::lanes), with `native` instructions or as plain arrays.

#[cfg(not(target_arch = "aarch64"))]
pub(crate) use super::emulated::*;
pub(crate) use super::lanes::{Numbers, Vector};
#[cfg(target_arch = "aarch64")]
pub(crate) use super::lanes::{fetch, fetch_second};
#[cfg(target_arch = "aarch64")]
pub(crate) use super::native::*;
