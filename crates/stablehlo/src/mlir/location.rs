//! Where an operation came from in the source that its front end was given.

use super::Attribute;
use std::sync::Arc;

/// A place in a source.
#[derive(Clone, Debug, PartialEq)]
pub enum Location {
    /// `unknown`.
    Unknown,
    /// `"file":line:column`, to a last line and column if those are stated.
    File {
        /// The file's name.
        file: Arc<str>,
        /// First line, first column, last line, last column, as far as they are known.
        range: [u32; 4],
    },
    /// `"name"(child)`.
    Name {
        /// The name.
        name: Arc<str>,
        /// Where that is.
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
        /// What the one who fused them said.
        metadata: Option<Attribute>,
    },
}

impl Location {
    /// The name of the operation in its source: of nested names the outermost.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Name { name, .. } => Some(name),
            Self::CallSite { callee, .. } => callee.name(),
            Self::Fused { locations, .. } => locations.iter().find_map(|place| place.name()),
            Self::Unknown | Self::File { .. } => None,
        }
    }

    /// The first file with its first line that is named, innermost calls first.
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
