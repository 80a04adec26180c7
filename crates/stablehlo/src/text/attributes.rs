//! Reads attributes.

use super::{Parser, scanner::Scanner, scanner::parse_integer};
use crate::Error;
use crate::mlir::{Attribute, Attributes, FloatKind, Location, Type};
use crate::number::float_from_f64;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The dialects whose attributes are structured or cases of enumerations.
const STRUCTURED_DIALECTS: &[&str] = &["stablehlo", "mhlo", "chlo", "vhlo"];

/// The aliases `#name` and `!name`: the positions of their definitions, each on a line of its own,
/// and the values that were read already.
pub(super) struct Aliases<'t> {
    places: FxHashMap<&'t str, usize>,
    attributes: FxHashMap<&'t str, Attribute>,
    types: FxHashMap<&'t str, Type>,
}

impl<'t> Aliases<'t> {
    /// Finds the definitions in a text. Names keep their sigil.
    pub(super) fn find(text: &'t str) -> Self {
        let mut places = FxHashMap::default();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            if line.starts_with(['#', '!']) {
                let definition = line.split_once('=');
                let name = definition.map(|(name, _)| name.trim_end());
                if let Some(name) = name.filter(|name| !name.contains([' ', '<', '"'])) {
                    let value = start + line.find('=').unwrap_or_default() + 1;
                    places.entry(name).or_insert(value);
                }
            }
            start += line.len();
        }
        Self {
            places,
            attributes: FxHashMap::default(),
            types: FxHashMap::default(),
        }
    }
}

impl<'t> Parser<'t> {
    /// The type for the alias `!name`.
    pub(super) fn aliased_type(&mut self, name: &str) -> Result<Option<Type>, Error> {
        let key = format!("!{name}");
        if let Some(ty) = self.aliases.types.get(key.as_str()) {
            return Ok(Some(ty.clone()));
        }
        let Some((&key, &place)) = self.aliases.places.get_key_value(key.as_str()) else {
            return Ok(None);
        };
        let ty = self.elsewhere(place, Self::ty)?;
        self.aliases.types.insert(key, ty.clone());
        Ok(Some(ty))
    }

    /// The attribute for the alias `#name`.
    fn aliased_attribute(&mut self, name: &str) -> Result<Option<Attribute>, Error> {
        let key = format!("#{name}");
        if let Some(attribute) = self.aliases.attributes.get(key.as_str()) {
            return Ok(Some(attribute.clone()));
        }
        let Some((&key, &place)) = self.aliases.places.get_key_value(key.as_str()) else {
            return Ok(None);
        };
        let attribute = self.elsewhere(place, Self::attribute)?;
        self.aliases.attributes.insert(key, attribute.clone());
        Ok(Some(attribute))
    }

    /// Reads at another position, and returns to this one unless there is an error.
    fn elsewhere<T>(
        &mut self,
        place: usize,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let back = self.scanner.offset();
        self.scanner.go_to(place);
        let result = self.nested(read)?;
        self.scanner.go_to(back);
        Ok(result)
    }

    /// Reads an attribute.
    pub(super) fn attribute(&mut self) -> Result<Attribute, Error> {
        self.nested(Self::attribute_here)
    }

    fn attribute_here(&mut self) -> Result<Attribute, Error> {
        match self.scanner.peek() {
            Some(b'"') => {
                let text = self.scanner.string()?;
                if self.scanner.eat(":") {
                    self.ty()?;
                }
                Ok(Attribute::String(text.into()))
            }
            Some(b'[') => Ok(Attribute::Array(
                self.list("[", "]", Self::attribute)?.into(),
            )),
            Some(b'{') => Ok(Attribute::Dictionary(Arc::new(self.dictionary()?))),
            Some(b'@') => self.symbol(),
            Some(b'#') => self.dialect_attribute(),
            Some(b'(' | b'!') => Ok(Attribute::Type(self.ty()?)),
            Some(b'-' | b'+' | b'0'..=b'9') => self.number_attribute(),
            _ => self.word_attribute(),
        }
    }

    /// Reads items between brackets, separated by commas.
    pub(super) fn list<T>(
        &mut self,
        open: &str,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        self.scanner.expect(open)?;
        let mut items = Vec::new();
        if self.scanner.eat(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if !self.scanner.eat(",") {
                self.scanner.expect(close)?;
                return Ok(items);
            }
        }
    }

    /// Reads `{name, name = value}`.
    pub(super) fn dictionary(&mut self) -> Result<Attributes, Error> {
        self.list("{", "}", |parser| {
            let name = parser.attribute_name()?;
            let value = match parser.scanner.eat("=") {
                true => parser.attribute()?,
                false => Attribute::Unit,
            };
            Ok((name, value))
        })
    }

    /// Reads `{...}`, if it comes next.
    pub(super) fn optional_dictionary(&mut self) -> Result<Attributes, Error> {
        match self.scanner.peek() {
            Some(b'{') => self.dictionary(),
            _ => Ok(Attributes::new()),
        }
    }

    fn attribute_name(&mut self) -> Result<Arc<str>, Error> {
        if self.scanner.peek() == Some(b'"') {
            return Ok(self.scanner.string()?.into());
        }
        let word = self.scanner.word();
        let word = word.ok_or_else(|| self.scanner.error("expected the name of an attribute"));
        Ok(word?.into())
    }

    /// Reads `@name`, without nested names.
    pub(super) fn symbol_name(&mut self) -> Result<Arc<str>, Error> {
        self.scanner.expect("@")?;
        if self.scanner.peek_directly() == Some(b'"') {
            return Ok(self.scanner.string()?.into());
        }
        let name = self.scanner.sigil_name();
        match name.is_empty() {
            true => Err(self.scanner.error("expected a name after `@`")),
            false => Ok(name.into()),
        }
    }

    fn symbol(&mut self) -> Result<Attribute, Error> {
        let mut names = vec![self.symbol_name()?];
        while self.scanner.eat("::") {
            names.push(self.symbol_name()?);
        }
        Ok(Attribute::Symbol(names.into()))
    }

    fn dialect_attribute(&mut self) -> Result<Attribute, Error> {
        let start = self.scanner.offset();
        self.scanner.expect("#")?;
        let name = self.scanner.sigil_name();
        if name.is_empty() {
            return Err(self.scanner.error("expected the name of an attribute"));
        }
        if let Some((dialect, name)) = name.split_once('.') {
            return self.named_attribute(dialect, name);
        }
        if self.scanner.eat_directly("<") {
            let inner = self.scanner.offset();
            if STRUCTURED_DIALECTS.contains(&name) {
                // `#stablehlo<precision DEFAULT>` is an enumeration and its case.
                let kind = self.scanner.word();
                let case = self.scanner.word();
                if let (Some(kind), Some(case), true) = (kind, case, self.scanner.eat(">")) {
                    return Ok(Attribute::stablehlo_enum(kind, case));
                }
                // `#stablehlo<dot<...>>` is the long form of `#stablehlo.dot<...>`.
                self.scanner.go_to(inner);
                if let Some(kind) = self.scanner.word()
                    && self.scanner.peek() == Some(b'<')
                {
                    let attribute = self.named_attribute(name, kind)?;
                    self.scanner.expect(">")?;
                    return Ok(attribute);
                }
                self.scanner.go_to(inner);
            }
            let body = self.scanner.balanced(b'>')?;
            return Ok(Attribute::Opaque {
                dialect: name.into(),
                body: body.into(),
            });
        }
        match self.aliased_attribute(name)? {
            Some(attribute) => Ok(attribute),
            None => Err(self
                .scanner
                .error_at(start, format!("the alias `#{name}` is not defined"))),
        }
    }

    fn named_attribute(&mut self, dialect: &str, name: &str) -> Result<Attribute, Error> {
        let body_start = self.scanner.offset();
        if STRUCTURED_DIALECTS.contains(&dialect) {
            if name == "conv" {
                return self.convolution_numbers_attribute();
            }
            if matches!(name, "bounds" | "type_extensions") && self.scanner.eat("<") {
                if name == "type_extensions" {
                    self.scanner.expect_word("bounds")?;
                    self.scanner.expect("=")?;
                    self.scanner.expect("[")?;
                }
                return self.bounds(name);
            }
            if let Some(attribute) = self.structure(name)? {
                return Ok(attribute);
            }
            self.scanner.go_to(body_start);
        }
        if self.scanner.eat_directly("<") {
            self.scanner.balanced(b'>')?;
        }
        let parameters = self.scanner.between(body_start, self.scanner.offset());
        Ok(Attribute::Opaque {
            dialect: dialect.into(),
            body: format!("{name}{parameters}").into(),
        })
    }

    /// Reads `<field = value, ...>`, or the case of an enumeration `<CASE>`; [`None`] if it is
    /// neither.
    fn structure(&mut self, name: &str) -> Result<Option<Attribute>, Error> {
        if !self.scanner.eat("<") {
            return Ok(None);
        }
        let mut fields = Attributes::new();
        if self.scanner.eat(">") {
            return Ok(Some(Attribute::stablehlo_struct(name, fields)));
        }
        loop {
            let Some(field) = self.scanner.word() else {
                return Ok(None);
            };
            if fields.is_empty() && self.scanner.eat(">") {
                let kind = name;
                return Ok(Some(Attribute::stablehlo_enum(kind, field)));
            }
            if !self.scanner.eat("=") {
                return Ok(None);
            }
            fields.push((field.into(), field_value(self.attribute()?)));
            if !self.scanner.eat(",") {
                self.scanner.expect(">")?;
                return Ok(Some(Attribute::stablehlo_struct(name, fields)));
            }
        }
    }

    /// Reads `3, ?>` of `#stablehlo.bounds<3, ?>`.
    fn bounds(&mut self, name: &str) -> Result<Attribute, Error> {
        let close = if name == "type_extensions" { "]" } else { ">" };
        let mut bounds = Vec::new();
        while !self.scanner.eat(close) {
            if !bounds.is_empty() {
                self.scanner.expect(",")?;
            }
            bounds.push(match self.scanner.eat("?") {
                true => i64::MIN,
                false => self.scanner.integer()?,
            });
        }
        if name == "type_extensions" {
            self.scanner.expect(">")?;
        }
        let fields = vec![("bounds".into(), Attribute::i64s(&bounds))];
        Ok(Attribute::stablehlo_struct("bounds", fields))
    }

    fn convolution_numbers_attribute(&mut self) -> Result<Attribute, Error> {
        self.scanner.expect("<")?;
        if self.scanner.peek() == Some(b'[') {
            let attribute = self.convolution_numbers()?;
            self.scanner.expect(">")?;
            return Ok(attribute);
        }
        let raw = self.scanner.offset();
        if self.scanner.eat_word("raw") {
            // `#stablehlo.conv<raw field = value, ...>` has numbers that are not a permutation.
            let mut fields = Attributes::new();
            while !self.scanner.eat(">") {
                if !fields.is_empty() {
                    self.scanner.expect(",")?;
                }
                let Some(field) = self.scanner.word() else {
                    return Err(self.scanner.error("expected the name of a field"));
                };
                self.scanner.expect("=")?;
                fields.push((field.into(), field_value(self.attribute()?)));
            }
            return Ok(Attribute::stablehlo_struct("conv", fields));
        }
        Err(self
            .scanner
            .error_at(raw, "expected `[`, as in `[b, 0, f]x[0, i, o]->[b, 0, f]`"))
    }

    fn number_attribute(&mut self) -> Result<Attribute, Error> {
        let start = self.scanner.offset();
        let text = self.scanner.number();
        let text = text.ok_or_else(|| self.scanner.error("expected a number"))?;
        let is_integer = parse_integer(text);
        let ty = match self.scanner.eat(":") {
            true => self.ty()?,
            false if is_integer.is_some() => Type::signless(64),
            false => Type::Float(FloatKind::F64),
        };
        match &ty {
            Type::Float(kind) => {
                let bits = float_bits(text, *kind);
                let bits = bits.ok_or_else(|| {
                    self.scanner.error_at(
                        start,
                        format!("`{text}` is not a number of type {}", kind.name()),
                    )
                })?;
                Ok(Attribute::Float { bits, ty })
            }
            Type::Integer { .. } | Type::Index => match is_integer {
                Some(value) => Ok(Attribute::Integer { value, ty }),
                None => Err(self
                    .scanner
                    .error_at(start, "expected an integer of at most 64 bits")),
            },
            _ => Err(self
                .scanner
                .error_at(start, "expected the type of a number after `:`")),
        }
    }

    fn word_attribute(&mut self) -> Result<Attribute, Error> {
        let Some(word) = self.scanner.peek_word() else {
            return Err(self.scanner.error("expected an attribute"));
        };
        let start = self.scanner.offset();
        match word {
            "true" | "false" => {
                self.scanner.word();
                Ok(Attribute::bool(word == "true"))
            }
            "unit" => {
                self.scanner.word();
                Ok(Attribute::Unit)
            }
            "dense" => self.dense(),
            "dense_resource" => self.dense_resource(),
            "array" => self.dense_array(),
            "loc" => {
                let location = self.optional_location()?;
                let location = location.unwrap_or_else(|| Arc::new(Location::Unknown));
                Ok(Attribute::Location(location))
            }
            "sparse" | "opaque" => Err(Error::unsupported(format!(
                "the attribute `{word}<...>` is not supported"
            ))),
            "affine_map" | "affine_set" | "strided" | "distinct" => {
                self.scanner.word();
                while let Some(open @ (b'<' | b'[')) = self.scanner.peek() {
                    let (open, close) = match open {
                        b'<' => ("<", b'>'),
                        _ => ("[", b']'),
                    };
                    self.scanner.expect(open)?;
                    self.scanner.balanced(close)?;
                }
                let written = self.scanner.between(start, self.scanner.offset()).trim();
                Ok(Attribute::Opaque {
                    dialect: "".into(),
                    body: written.into(),
                })
            }
            _ => match self.optional_type() {
                Some(ty) => Ok(Attribute::Type(ty?)),
                None => Err(self.scanner.error(format!("unknown attribute `{word}`"))),
            },
        }
    }

    /// Reads `array<i64: 1, 2>`.
    fn dense_array(&mut self) -> Result<Attribute, Error> {
        self.scanner.expect_word("array")?;
        self.scanner.expect("<")?;
        let element = self.ty()?;
        let mut texts = Vec::new();
        if self.scanner.eat(":") {
            loop {
                texts.push(self.array_element()?);
                if !self.scanner.eat(",") {
                    break;
                }
            }
        }
        self.scanner.expect(">")?;
        let wrong = |scanner: &Scanner<'_>| {
            Err(scanner.error("this array has an element that is not of its type"))
        };
        if let Type::Float(kind) = element {
            let values = texts.iter().map(|text| float_bits(text, kind));
            return match values.collect::<Option<Arc<[u64]>>>() {
                Some(values) => Ok(Attribute::FloatArray { element, values }),
                None => wrong(&self.scanner),
            };
        }
        let value = |text: &&str| match *text {
            "true" => Some(1),
            "false" => Some(0),
            text => parse_integer(text),
        };
        match texts.iter().map(value).collect::<Option<Arc<[i64]>>>() {
            Some(values) => Ok(Attribute::IntegerArray { element, values }),
            None => wrong(&self.scanner),
        }
    }

    fn array_element(&mut self) -> Result<&'t str, Error> {
        let element = self.scanner.number().or_else(|| self.scanner.word());
        element.ok_or_else(|| self.scanner.error("expected an element of the array"))
    }

    /// Reads `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`: the roles of the dimensions of the input,
    /// the kernel and the output.
    pub(super) fn convolution_numbers(&mut self) -> Result<Attribute, Error> {
        let mut fields = Attributes::new();
        self.convolution_side("input", ["batch", "feature"], [b'b', b'f'], &mut fields)?;
        self.scanner.expect("x")?;
        let features = ["input_feature", "output_feature"];
        self.convolution_side("kernel", features, [b'i', b'o'], &mut fields)?;
        self.scanner.expect("->")?;
        self.convolution_side("output", ["batch", "feature"], [b'b', b'f'], &mut fields)?;
        Ok(Attribute::stablehlo_struct("conv", fields))
    }

    fn convolution_side(
        &mut self,
        side: &str,
        names: [&str; 2],
        letters: [u8; 2],
        fields: &mut Attributes,
    ) -> Result<(), Error> {
        let start = self.scanner.offset();
        let labels = self.list("[", "]", |parser| {
            if let Some(word) = parser.scanner.word() {
                return Ok(word);
            }
            if parser.scanner.eat("?") {
                return Ok("?");
            }
            let number = parser.scanner.number();
            number.ok_or_else(|| parser.scanner.error("expected a dimension's label"))
        })?;
        let place = |label: &str| labels.iter().position(|found| *found == label);
        let mut wrong = None;
        for (name, letter) in names.iter().zip(letters) {
            let letter = char::from(letter).to_string();
            match place(&letter) {
                Some(at) => fields.push((
                    format!("{side}_{name}_dimension").into(),
                    Attribute::i64(at as i64),
                )),
                None => wrong = Some(letter),
            }
        }
        let mut spatial = Vec::new();
        for dimension in 0..labels.len().saturating_sub(2) {
            match place(&dimension.to_string()) {
                Some(at) => spatial.push(at as i64),
                None => wrong = Some(dimension.to_string()),
            }
        }
        if let Some(label) = wrong {
            return Err(self
                .scanner
                .error_at(start, format!("the label `{label}` is missing")));
        }
        let name = format!("{side}_spatial_dimensions");
        fields.push((name.into(), Attribute::i64s(&spatial)));
        Ok(())
    }
}

/// In a structured attribute, lists of integers are written without their type.
fn field_value(value: Attribute) -> Attribute {
    match &value {
        Attribute::Array(_) => match value.as_integers() {
            Some(integers) => Attribute::i64s(&integers),
            None => value,
        },
        _ => value,
    }
}

/// The bits of a number in a format; the text is decimal, or the bits as `0x...`.
pub(super) fn float_bits(text: &str, kind: FloatKind) -> Option<u64> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    if unsigned.starts_with("0x") || unsigned.starts_with("0X") {
        let bits = u64::from_str_radix(&unsigned[2..], 16).ok()?;
        let fits = kind.bits() >= 64 || bits >> kind.bits() == 0;
        return (fits && unsigned.len() == text.len()).then_some(bits);
    }
    float_from_f64(text.parse().ok()?, kind)
}
