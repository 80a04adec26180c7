//! Reads types.

use super::Parser;
use crate::Error;
use crate::mlir::{FloatKind, FunctionType, MemRefType, Signedness, TensorType, Type, VectorType};
use std::sync::Arc;

impl Parser<'_> {
    /// Reads a type.
    pub(super) fn ty(&mut self) -> Result<Type, Error> {
        self.nested(Self::type_here)
    }

    fn type_here(&mut self) -> Result<Type, Error> {
        match self.scanner.peek() {
            Some(b'(') => {
                let inputs = self.type_list_in_parentheses()?;
                self.scanner.expect("->")?;
                let results = self.result_types()?;
                Ok(Type::Function(Arc::new(FunctionType { inputs, results })))
            }
            Some(b'!') => self.dialect_type(),
            _ => self.builtin_type(),
        }
    }

    /// Reads a type, if one comes next.
    pub(super) fn optional_type(&mut self) -> Option<Result<Type, Error>> {
        let begins = match self.scanner.peek()? {
            b'(' | b'!' => true,
            _ => self.scanner.peek_word().is_some_and(is_type_word),
        };
        begins.then(|| self.ty())
    }

    /// Reads `(a, b)`.
    pub(super) fn type_list_in_parentheses(&mut self) -> Result<Vec<Type>, Error> {
        self.scanner.expect("(")?;
        let mut types = Vec::new();
        if self.scanner.eat(")") {
            return Ok(types);
        }
        loop {
            types.push(self.ty()?);
            if !self.scanner.eat(",") {
                self.scanner.expect(")")?;
                return Ok(types);
            }
        }
    }

    /// Reads the results of a function type: a single type, or a list in parentheses.
    pub(super) fn result_types(&mut self) -> Result<Vec<Type>, Error> {
        match self.scanner.peek() {
            Some(b'(') => self.type_list_in_parentheses(),
            _ => Ok(vec![self.ty()?]),
        }
    }

    /// Reads `a, b`.
    pub(super) fn type_list(&mut self) -> Result<Vec<Type>, Error> {
        let mut types = vec![self.ty()?];
        while self.scanner.eat(",") {
            types.push(self.ty()?);
        }
        Ok(types)
    }

    fn dialect_type(&mut self) -> Result<Type, Error> {
        let start = self.scanner.offset();
        self.scanner.expect("!")?;
        let name = self.scanner.sigil_name();
        if name.is_empty() {
            return Err(self.scanner.error("expected the name of a type"));
        }
        let body_start = self.scanner.offset();
        if let Some((dialect, body)) = name.split_once('.') {
            if self.scanner.eat_directly("<") {
                self.scanner.balanced(b'>')?;
            }
            let parameters = self.scanner.between(body_start, self.scanner.offset());
            return Ok(named_type(dialect, &format!("{body}{parameters}")));
        }
        if self.scanner.eat_directly("<") {
            // An old form is `!dialect<"body">`.
            let body = self.scanner.balanced(b'>')?;
            return Ok(named_type(name, body.trim_matches('"')));
        }
        match self.aliased_type(name)? {
            Some(ty) => Ok(ty),
            None => Err(self
                .scanner
                .error_at(start, format!("the type alias `!{name}` is not defined"))),
        }
    }

    fn builtin_type(&mut self) -> Result<Type, Error> {
        let start = self.scanner.offset();
        let Some(word) = self.scanner.word() else {
            return Err(self.scanner.error("expected a type"));
        };
        if let Some(plain) = plain_type(word) {
            return Ok(plain);
        }
        let unknown = |parser: &Self| {
            Err(parser
                .scanner
                .error_at(start, format!("unknown type `{word}`")))
        };
        if !matches!(word, "tensor" | "vector" | "memref" | "complex" | "tuple") {
            return unknown(self);
        }
        self.scanner.expect("<")?;
        match word {
            "tensor" => self.tensor(),
            "complex" => {
                let part = self.ty()?;
                self.scanner.expect(">")?;
                Ok(Type::Complex(Arc::new(part)))
            }
            "tuple" => {
                let mut elements = Vec::new();
                if self.scanner.peek() != Some(b'>') {
                    elements = self.type_list()?;
                }
                self.scanner.expect(">")?;
                Ok(Type::Tuple(elements.into()))
            }
            "vector" => self.vector(),
            _ => self.memref(),
        }
    }

    fn tensor(&mut self) -> Result<Type, Error> {
        if self.scanner.eat("*") {
            self.expect_times()?;
            let element = self.ty()?;
            self.scanner.expect(">")?;
            return Ok(Type::UnrankedTensor(Arc::new(element)));
        }
        let dims = self.dimensions()?;
        let element = self.ty()?;
        let encoding = match self.scanner.eat(",") {
            true => Some(self.attribute()?),
            false => None,
        };
        self.scanner.expect(">")?;
        Ok(Type::Tensor(Arc::new(TensorType {
            dims,
            element,
            encoding,
        })))
    }

    fn vector(&mut self) -> Result<Type, Error> {
        let mut dims = Vec::new();
        let mut scalable = Vec::new();
        loop {
            let is_scalable = self.scanner.eat("[");
            if !self.scanner.peek().is_some_and(|c| c.is_ascii_digit()) {
                break;
            }
            dims.push(self.dimension()?.unwrap_or_default());
            scalable.push(is_scalable);
            if is_scalable {
                self.scanner.expect("]")?;
            }
            self.expect_times()?;
        }
        let element = self.ty()?;
        self.scanner.expect(">")?;
        if !scalable.contains(&true) {
            scalable.clear();
        }
        Ok(Type::Vector(Arc::new(VectorType {
            dims,
            scalable,
            element,
        })))
    }

    fn memref(&mut self) -> Result<Type, Error> {
        let dims = if self.scanner.eat("*") {
            self.expect_times()?;
            None
        } else {
            Some(self.dimensions()?)
        };
        let element = self.ty()?;
        let mut rest = Vec::new();
        while self.scanner.eat(",") {
            rest.push(self.attribute()?);
        }
        self.scanner.expect(">")?;
        let space = if rest.len() > 1 { rest.pop() } else { None };
        let mut layout = rest.pop();
        let is_layout = |attribute: &crate::mlir::Attribute| {
            matches!(attribute, crate::mlir::Attribute::Opaque { dialect, body }
                if dialect.is_empty() && (body.starts_with("affine_map") || body.starts_with("strided")))
                || matches!(attribute, crate::mlir::Attribute::Opaque { body, .. } if body.contains("tiled"))
        };
        let mut space = space;
        if space.is_none() && layout.as_ref().is_some_and(|layout| !is_layout(layout)) {
            space = layout.take();
        }
        Ok(Type::MemRef(Arc::new(MemRefType {
            dims,
            element,
            layout,
            space,
        })))
    }

    /// Reads `2x?x3x`: each size with the `x` after it.
    fn dimensions(&mut self) -> Result<Vec<Option<i64>>, Error> {
        let mut dims = Vec::new();
        while matches!(self.scanner.peek(), Some(b'0'..=b'9' | b'?')) {
            dims.push(self.dimension()?);
            self.expect_times()?;
        }
        Ok(dims)
    }

    fn dimension(&mut self) -> Result<Option<i64>, Error> {
        if self.scanner.eat("?") {
            return Ok(None);
        }
        let digits = self.scanner.digits();
        match digits.parse() {
            Ok(size) => Ok(Some(size)),
            Err(_) => Err(self.scanner.error("expected a size of at most 63 bits")),
        }
    }

    fn expect_times(&mut self) -> Result<(), Error> {
        match self.scanner.eat_directly("x") {
            true => Ok(()),
            false => Err(self
                .scanner
                .error("expected `x` between sizes and the element type")),
        }
    }
}

/// Converts `!mhlo.token` to StableHLO's token.
fn named_type(dialect: &str, body: &str) -> Type {
    match (dialect, body) {
        ("mhlo", "token") => Type::dialect("stablehlo", "token"),
        _ => Type::dialect(dialect, body),
    }
}

fn plain_type(word: &str) -> Option<Type> {
    match word {
        "index" => return Some(Type::Index),
        "none" => return Some(Type::None),
        _ => {}
    }
    if let Some(kind) = FloatKind::from_name(word) {
        return Some(Type::Float(kind));
    }
    let (signedness, width) = if let Some(width) = word.strip_prefix("si") {
        (Signedness::Signed, width)
    } else if let Some(width) = word.strip_prefix("ui") {
        (Signedness::Unsigned, width)
    } else {
        (Signedness::Signless, word.strip_prefix('i')?)
    };
    let width = width.parse().ok().filter(|width| *width < 1 << 24)?;
    Some(Type::Integer { width, signedness })
}

fn is_type_word(word: &str) -> bool {
    matches!(word, "tensor" | "vector" | "memref" | "complex" | "tuple")
        || plain_type(word).is_some()
}
