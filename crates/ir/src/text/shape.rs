//! Reads shapes and layouts: `f32[2,?]{1,0:T(8,128)S(1)}`.

use super::cursor::Cursor;
use super::lexer::Token;
use crate::{ArrayShape, Dim, Dims, ElementType, Error, Layout, Shape, SplitConfig, Tile, TileDim};
use smallvec::SmallVec;
use tegula_expr::{Term, Var};

/// The maximum number of dimensions of an array.
pub(crate) const MAX_RANK: usize = 256;

/// A placeholder for a size that the text leaves open, until it is resolved.
pub(crate) fn unresolved() -> Term {
    Term::var(Var(u32::MAX))
}

impl<'a> Cursor<'a> {
    /// Whether a shape comes next.
    pub(crate) fn at_shape(&self) -> bool {
        match self.peek() {
            Some(Token::ParenOpen) => true,
            Some(Token::Word) => match self.peek_text() {
                "b" => self.peek_second() == Some(Token::ParenOpen),
                "token" | "opaque" => self.peek_second() == Some(Token::BracketOpen),
                // An instruction may have the name of an element type, such as `f32`.
                word => {
                    ElementType::from_name(word).is_some()
                        && self.peek_second() == Some(Token::BracketOpen)
                }
            },
            _ => false,
        }
    }

    /// Reads a shape with its layouts.
    pub(crate) fn shape(&mut self) -> Result<Shape, Error> {
        if self.peek() == Some(Token::ParenOpen) {
            let mut elements = Vec::new();
            self.nested(|cursor| {
                cursor.list(Token::ParenOpen, Token::ParenClose, |cursor| {
                    elements.push(cursor.shape()?);
                    Ok(())
                })
            })?;
            return Ok(Shape::Tuple(elements));
        }
        let word = self.word("a shape")?;
        match word.text {
            "token" | "opaque" => {
                self.expect(Token::BracketOpen)?;
                self.expect(Token::BracketClose)?;
                if self.at_layout(0) {
                    self.layout(0, None)?;
                }
                let token = word.text == "token";
                Ok(if token { Shape::Token } else { Shape::Opaque })
            }
            "b" => {
                self.expect(Token::ParenOpen)?;
                let inner = self.nested(Self::shape)?;
                self.expect(Token::ParenClose)?;
                Ok(Shape::Buffer(Box::new(inner)))
            }
            name => match ElementType::from_name(name) {
                Some(element_type) => self.array(element_type),
                None => Err(self.error_at(word.span, format!("`{name}` is not an element type"))),
            },
        }
    }

    fn array(&mut self, element_type: ElementType) -> Result<Shape, Error> {
        let start = self.span();
        let mut dims = Dims::new();
        self.list(Token::BracketOpen, Token::BracketClose, |cursor| {
            dims.push(cursor.dim()?);
            Ok(())
        })?;
        if dims.len() > MAX_RANK {
            let message = format!("arrays of more than {MAX_RANK} dimensions are not supported");
            return Err(Error::limit(message).at(self.source(), start));
        }
        let layout = if self.at_layout(dims.len()) {
            // The layout of a scalar, `{}`, is the default one.
            let layout = self.layout(dims.len(), Some(&dims))?;
            (layout != Layout::default()).then(|| Box::new(layout))
        } else {
            None
        };
        Ok(Shape::Array(ArrayShape {
            element_type,
            dims,
            layout,
        }))
    }

    fn dim(&mut self) -> Result<Dim, Error> {
        let span = self.span();
        match self.peek() {
            Some(Token::Question) => {
                self.take()?;
                Ok(Dim::Symbolic(unresolved()))
            }
            Some(Token::LessEqual) => {
                self.take()?;
                let bound = self.dim_size(span)?;
                Ok(Dim::Bounded {
                    bound,
                    size: unresolved(),
                })
            }
            Some(Token::Int) => self.dim_size(span).map(Dim::Static),
            _ => Err(self.expected("a dimension's size")),
        }
    }

    fn dim_size(&mut self, span: crate::Span) -> Result<i64, Error> {
        match self.int()? {
            size if size >= 0 => Ok(size),
            size => Err(self.error_at(span, format!("a dimension cannot have size {size}"))),
        }
    }

    /// Whether the `{` that follows begins a layout, rather than a computation or the literal of an
    /// array without elements.
    fn at_layout(&self, rank: usize) -> bool {
        self.peek() == Some(Token::BraceOpen)
            && match self.peek_second() {
                Some(Token::Int | Token::Colon) => true,
                Some(Token::BraceClose) => rank == 0,
                _ => false,
            }
    }

    /// Reads a layout of an array of this rank; `dims` are for checks.
    fn layout(&mut self, rank: usize, dims: Option<&Dims>) -> Result<Layout, Error> {
        let span = self.span();
        self.expect(Token::BraceOpen)?;
        let mut layout = Layout::default();
        let mut numbers: SmallVec<[i64; 6]> = SmallVec::new();
        while self.peek() == Some(Token::Int) {
            numbers.push(self.int()?);
            if !self.eat(Token::Comma) {
                break;
            }
        }
        layout.minor_to_major = permutation(&numbers, rank).ok_or_else(|| {
            let message =
                format!("expected minor_to_major to list each of the {rank} dimensions once");
            self.error_at(span, message)
        })?;
        if self.eat(Token::Colon) {
            while self.peek() == Some(Token::Word) {
                self.layout_property(&mut layout, rank)?;
            }
            if let Some(token @ (Token::Hash | Token::Star)) = self.peek() {
                let message = format!("{} is only valid in sparse layouts", token.describe());
                return Err(self
                    .error(message)
                    .with_help("sparse layouts are not supported"));
            }
        }
        self.expect(Token::BraceClose)?;
        if let Some(dims) = dims {
            check_splits(&layout, dims).map_err(|message| self.error_at(span, message))?;
        }
        Ok(layout)
    }

    fn layout_property(&mut self, layout: &mut Layout, rank: usize) -> Result<(), Error> {
        let word = self.word("a layout property")?;
        match word.text {
            "T" => while_tiles(self, layout)?,
            // Padding to a multiple of 1 is no padding.
            "L" => {
                let multiple = self.parenthesised("L", 1)?;
                layout.tail_padding = if multiple == 1 { 0 } else { multiple };
            }
            "E" => layout.element_bits = self.parenthesised("E", 0)?,
            "S" => layout.memory_space = self.parenthesised("S", 0)?,
            "M" => layout.metadata_prefix = self.parenthesised("M", 0)?,
            "SC" => {
                while self.peek() == Some(Token::ParenOpen) {
                    let split = self.split_config(rank)?;
                    layout.splits.push(split);
                }
            }
            // Dimension level types. Only dense ones are left, and they are not printed.
            "D" => self.list(Token::ParenOpen, Token::ParenClose, |cursor| {
                cursor.word("a dimension level")?;
                while cursor.eat(Token::Plus) || cursor.eat(Token::Tilde) {}
                Ok(())
            })?,
            other => {
                let message = format!("`{other}` is not a layout property");
                let help = "T, L, E, S, SC, M and D are";
                return Err(self.error_at(word.span, message).with_help(help));
            }
        }
        Ok(())
    }

    /// Reads the `(n)` of a layout property; `n` must be at least `least`.
    fn parenthesised(&mut self, name: &str, least: i64) -> Result<i64, Error> {
        self.expect(Token::ParenOpen)?;
        let span = self.span();
        let value = self.int()?;
        self.expect(Token::ParenClose)?;
        if value < least {
            return Err(self.error_at(
                span,
                format!("{name}({value}): expected a number of at least {least}"),
            ));
        }
        Ok(value)
    }

    fn tile(&mut self) -> Result<Tile, Error> {
        let mut dims = SmallVec::new();
        self.list(Token::ParenOpen, Token::ParenClose, |cursor| {
            if cursor.eat(Token::Star) {
                dims.push(TileDim::Combine);
                return Ok(());
            }
            let span = cursor.span();
            match cursor.int()? {
                size if size > 0 => dims.push(TileDim::Size(size)),
                size => {
                    let message = format!("a tile dimension cannot have size {size}");
                    return Err(cursor.error_at(span, message));
                }
            }
            Ok(())
        })?;
        Ok(Tile { dims })
    }

    fn split_config(&mut self, rank: usize) -> Result<SplitConfig, Error> {
        let span = self.span();
        self.expect(Token::ParenOpen)?;
        let dimension = self.int()?;
        self.expect(Token::Colon)?;
        let mut indices = vec![self.int()?];
        while self.eat(Token::Comma) {
            indices.push(self.int()?);
        }
        self.expect(Token::ParenClose)?;
        let in_range = usize::try_from(dimension).is_ok_and(|dimension| dimension < rank);
        let increasing = indices.is_sorted_by(|a, b| a < b) && indices.iter().all(|&i| i > 0);
        if !in_range || !increasing {
            let message = "expected a split with a dimension and strictly increasing indices";
            return Err(self.error_at(span, message));
        }
        Ok(SplitConfig { dimension, indices })
    }
}

fn while_tiles(cursor: &mut Cursor<'_>, layout: &mut Layout) -> Result<(), Error> {
    while cursor.peek() == Some(Token::ParenOpen) {
        let tile = cursor.tile()?;
        layout.tiles.push(tile);
    }
    Ok(())
}

/// The numbers, if they are a permutation of `0..rank`.
fn permutation(numbers: &[i64], rank: usize) -> Option<SmallVec<[u32; 6]>> {
    let mut seen: SmallVec<[bool; 16]> = SmallVec::from_elem(false, rank);
    let mut result = SmallVec::new();
    for &number in numbers {
        let place = seen.get_mut(usize::try_from(number).ok()?)?;
        if std::mem::replace(place, true) {
            return None;
        }
        result.push(u32::try_from(number).ok()?);
    }
    (result.len() == rank).then_some(result)
}

/// Checks that split indices are inside their dimensions. Splits number dimensions in physical
/// order, the most major first.
fn check_splits(layout: &Layout, dims: &Dims) -> Result<(), String> {
    for split in &layout.splits {
        let logical = usize::try_from(split.dimension)
            .ok()
            .and_then(|physical| layout.minor_to_major.iter().rev().nth(physical))
            .and_then(|&logical| dims.get(logical as usize));
        let size = match logical {
            Some(Dim::Static(size) | Dim::Bounded { bound: size, .. }) => *size,
            _ => continue,
        };
        if split.indices.iter().any(|&index| index >= size) {
            return Err(format!(
                "a split index of physical dimension {} is not below its size {size}",
                split.dimension
            ));
        }
    }
    Ok(())
}
