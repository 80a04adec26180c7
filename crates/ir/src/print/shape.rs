//! Shapes and layouts as XLA prints them.

use crate::{ArrayShape, Dim, Layout, Shape, SplitConfig, Tile, TileDim};
use std::fmt::{self, Display, Formatter};

/// Items separated by commas.
pub(crate) fn joined<T: Display>(
    f: &mut impl fmt::Write,
    items: impl IntoIterator<Item = T>,
) -> fmt::Result {
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            f.write_char(',')?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

impl Display for Dim {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static(size) => write!(f, "{size}"),
            Self::Symbolic(term) => match term.as_constant() {
                Some(size) => write!(f, "{size}"),
                None => f.write_str("?"),
            },
            Self::Bounded { bound, .. } => write!(f, "<={bound}"),
        }
    }
}

impl Display for ArrayShape {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.element_type)?;
        joined(f, &self.dims)?;
        f.write_str("]")?;
        match &self.layout {
            Some(layout) if **layout != Layout::default() => write!(f, "{layout}"),
            _ => Ok(()),
        }
    }
}

impl Display for Shape {
    /// Prints layouts that are stated; `{:#}` leaves them out.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Array(array) if f.alternate() && array.layout.is_some() => {
                write!(f, "{}", array.with_element_type(array.element_type))
            }
            Self::Array(array) => write!(f, "{array}"),
            Self::Tuple(elements) => {
                f.write_str("(")?;
                for (index, element) in elements.iter().enumerate() {
                    write_separator(f, index)?;
                    Display::fmt(element, f)?;
                }
                f.write_str(")")
            }
            Self::Token => f.write_str("token[]"),
            Self::Opaque => f.write_str("opaque[]"),
            Self::Buffer(inner) => {
                f.write_str("b(")?;
                Display::fmt(inner, f)?;
                f.write_str(")")
            }
        }
    }
}

/// Writes the separator before item `index` of a long list, in which every fifth item is numbered.
pub(crate) fn write_separator(f: &mut impl fmt::Write, index: usize) -> fmt::Result {
    match index {
        0 => Ok(()),
        _ if index.is_multiple_of(5) => write!(f, ", /*index={index}*/"),
        _ => f.write_str(", "),
    }
}

impl Display for TileDim {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(size) => write!(f, "{size}"),
            Self::Combine => f.write_str("*"),
        }
    }
}

impl Display for Tile {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        joined(f, &self.dims)?;
        f.write_str(")")
    }
}

impl Display for SplitConfig {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "({}:", self.dimension)?;
        joined(f, &self.indices)?;
        f.write_str(")")
    }
}

impl Display for Layout {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        joined(f, &self.minor_to_major)?;
        let plain = Self {
            minor_to_major: self.minor_to_major.clone(),
            ..Self::default()
        };
        if *self != plain {
            f.write_str(":")?;
        }
        if !self.tiles.is_empty() {
            f.write_str("T")?;
            self.tiles.iter().try_for_each(|tile| write!(f, "{tile}"))?;
        }
        for (name, value) in [
            ("L", self.tail_padding),
            ("E", self.element_bits),
            ("S", self.memory_space),
        ] {
            if value != 0 {
                write!(f, "{name}({value})")?;
            }
        }
        if !self.splits.is_empty() {
            f.write_str("SC")?;
            self.splits
                .iter()
                .try_for_each(|split| write!(f, "{split}"))?;
        }
        if self.metadata_prefix != 0 {
            write!(f, "M({})", self.metadata_prefix)?;
        }
        f.write_str("}")
    }
}
