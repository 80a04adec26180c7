//! Source locations of operations, as front ends state them.

use super::Attribute;
use std::sync::Arc;

/// The nesting levels that readers keep free for a place in a stack of calls. Callers deeper than
/// that are left out.
pub(crate) const LEVELS_OF_A_PLACE: usize = 32;

/// A source location.
#[derive(Clone, Debug, PartialEq)]
pub enum Location {
    /// `unknown`.
    Unknown,
    /// `"file":line:column`, and the last line and column if they are stated.
    File {
        /// The file's name.
        file: Arc<str>,
        /// The first line, first column, last line and last column; 0 if unknown.
        range: [u32; 4],
    },
    /// `"name"(child)`.
    Name {
        /// The name.
        name: Arc<str>,
        /// The location of the name.
        child: Arc<Location>,
    },
    /// `callsite(callee at caller)`.
    CallSite {
        /// The place in the function that was called.
        callee: Arc<Location>,
        /// The place of the call.
        caller: Arc<Location>,
    },
    /// `fused<metadata>[...]`.
    Fused {
        /// The places.
        locations: Arc<[Arc<Location>]>,
        /// Metadata from whatever fused the operations.
        metadata: Option<Attribute>,
    },
}

impl Location {
    /// The name of the operation in its source; the outermost one if names are nested.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Name { name, .. } => Some(name),
            Self::CallSite { callee, .. } => callee.name(),
            Self::Fused { locations, .. } => locations.iter().find_map(|place| place.name()),
            Self::Unknown | Self::File { .. } => None,
        }
    }

    /// The first file in the location, with its first line. Callees come before call sites.
    pub fn file(&self) -> Option<(&str, u32)> {
        match self {
            Self::File { file, range } => Some((file, range[0])),
            Self::Name { child, .. } => child.file(),
            Self::CallSite { callee, caller } => callee.file().or_else(|| caller.file()),
            Self::Fused { locations, .. } => locations.iter().find_map(|place| place.file()),
            Self::Unknown => None,
        }
    }
}
