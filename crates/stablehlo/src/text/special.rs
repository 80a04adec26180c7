//! Reads pretty forms: those in the table of [`formats`](super::formats), and those that need their
//! own code.

use super::Parser;
use super::formats::{self, Item, Kind, Types};
use super::operations::{Argument, Use, is_isolated};
use crate::Error;
use crate::mlir::{Attribute, Attributes, FunctionType, Operation, Type};
use std::sync::Arc;

/// An operation whose types are still to be read.
struct Begun {
    operation: Operation,
    uses: Vec<Use>,
    results: Vec<Type>,
}

impl Begun {
    fn set(&mut self, name: &str, value: Attribute) {
        self.operation.properties.push((name.into(), value));
    }
}

impl Parser<'_> {
    /// Reads an operation in its pretty form, from after its name.
    pub(super) fn pretty(
        &mut self,
        name: &str,
        place: usize,
    ) -> Result<(Operation, Vec<Type>), Error> {
        match name {
            "builtin.module" => Ok((self.module_operation()?, Vec::new())),
            "func.func" => Ok((self.function()?, Vec::new())),
            "stablehlo.constant" => self.constant(),
            "stablehlo.while" => self.while_loop(),
            "stablehlo.reduce" => self.reduce(),
            "chlo.constant" => self.constant(),
            "chlo.scan" => self.scan(),
            "sdy.mesh" => Ok((self.mesh()?, Vec::new())),
            "sdy.sharding_constraint" => self.sharding_constraint(),
            "sdy.manual_computation" => self.manual_computation(),
            _ => match formats::form(name) {
                Some(form) => self.by_form(name, form),
                None if let Some(read) = self.kernel_operation(name) => read,
                None => Err(self.scanner.error_at(
                    place,
                    format!(
                        "the pretty form of the operation `{name}` is not supported; write it in the generic form, `\"{name}\"(...) : (...) -> ...`"
                    ),
                )),
            },
        }
    }

    fn by_form(&mut self, name: &str, form: &[Item]) -> Result<(Operation, Vec<Type>), Error> {
        let mut begun = Begun {
            operation: Operation::new(name),
            uses: Vec::new(),
            results: Vec::new(),
        };
        let mut at = 0;
        while let Some(item) = form.get(at) {
            at += 1;
            match item {
                Item::Operand => begun.uses.push(self.value_use()?),
                Item::Operands => self.operand_list(&mut begun.uses)?,
                Item::OperandsWithCommas => {
                    while self.scanner.peek() == Some(b'%') {
                        begun.uses.push(self.value_use()?);
                        self.scanner.expect(",")?;
                    }
                }
                Item::Attribute(attribute, kind) => {
                    self.form_attribute(attribute, *kind, &mut begun)?;
                }
                Item::OptionalBegin => {
                    // The first item of an optional part says whether the part is present.
                    let first = form.get(at);
                    let present = matches!(first, Some(Item::Literal(text))
                        if self.scanner.clone().eat(text));
                    if !present {
                        let end = form[at..].iter().position(|i| *i == Item::OptionalEnd);
                        at += end.map_or(0, |end| end + 1);
                    }
                }
                Item::OptionalEnd => {}
                Item::Dictionary => begun.operation.attributes = self.optional_dictionary()?,
                Item::Types(types) => self.form_types(*types, &mut begun)?,
                Item::Literal(text) => {
                    // Without operands, `:` and the types may be missing.
                    self.form_literal(text, &begun)?;
                }
            }
        }
        Ok((begun.operation, begun.results))
    }

    fn form_literal(&mut self, text: &str, begun: &Begun) -> Result<(), Error> {
        let barrier = &*begun.operation.name == "stablehlo.optimization_barrier";
        if barrier && begun.uses.is_empty() && text == ":" {
            if self.scanner.eat("(") {
                self.scanner.expect(")")?;
            }
            return Ok(());
        }
        let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic());
        match is_word {
            true => self.scanner.expect_word(text),
            false => self.scanner.expect(text),
        }
    }

    fn operand_list(&mut self, uses: &mut Vec<Use>) -> Result<(), Error> {
        if self.scanner.peek() != Some(b'%') {
            return Ok(());
        }
        loop {
            uses.push(self.value_use()?);
            let mut ahead = self.scanner.clone();
            if !(ahead.eat(",") && ahead.peek() == Some(b'%')) {
                return Ok(());
            }
            self.scanner.expect(",")?;
        }
    }

    fn form_attribute(&mut self, name: &str, kind: Kind, begun: &mut Begun) -> Result<(), Error> {
        let value = match kind {
            Kind::Integer => {
                let value = self.scanner.integer()?;
                if self.scanner.clone().eat(":") && name != "index" && self.has_integer_type() {
                    self.scanner.expect(":")?;
                    self.ty()?;
                }
                let ty = match name {
                    "index" => Type::signless(32),
                    _ => Type::signless(64),
                };
                Attribute::Integer { value, ty }
            }
            Kind::Float => {
                let number = self.scanner.number().and_then(|text| text.parse().ok());
                let value: f64 = number.ok_or_else(|| self.scanner.error("expected a number"))?;
                let ty = Type::Float(crate::mlir::FloatKind::F64);
                Attribute::Float {
                    bits: value.to_bits(),
                    ty,
                }
            }
            Kind::Any => self.attribute()?,
            Kind::Bool => match self.scanner.word() {
                Some("true") => Attribute::bool(true),
                Some("false") => Attribute::bool(false),
                _ => return Err(self.scanner.error("expected `true` or `false`")),
            },
            Kind::Integers => Attribute::i64s(&self.integers()?),
            Kind::String => Attribute::String(self.scanner.string()?.into()),
            Kind::Case(kind) => {
                let case = self.scanner.word();
                let case = case.ok_or_else(|| self.scanner.error(format!("expected a {kind}")))?;
                Attribute::stablehlo_enum(kind, case)
            }
            Kind::SymbolString => Attribute::String(self.symbol_name()?),
            Kind::Convolution => self.convolution_numbers()?,
            Kind::Window => return self.window(begun),
            Kind::DotDimensions => self.dot_dimensions()?,
            Kind::Precision => match self.precision()? {
                Some(value) => value,
                None => return Ok(()),
            },
            Kind::Algorithm => match self.algorithm()? {
                Some(value) => value,
                None => return Ok(()),
            },
            Kind::ExponentMantissa => return self.exponent_mantissa(begun),
            Kind::SliceRanges => return self.slice_ranges(begun),
        };
        begun.set(name, value);
        Ok(())
    }

    /// Whether `: i64` follows, as an integer's type and not as the operation's.
    fn has_integer_type(&mut self) -> bool {
        let mut ahead = self.scanner.clone();
        ahead.eat(":") && matches!(ahead.word(), Some("i64" | "i32"))
    }

    /// Reads `[0, 1]`, or `array<i64: 0, 1>`.
    fn integers(&mut self) -> Result<Vec<i64>, Error> {
        if self.scanner.peek_word() == Some("array") {
            return Ok(self.attribute()?.as_integers().unwrap_or_default());
        }
        self.list("[", "]", |parser| parser.scanner.integer())
    }

    fn form_types(&mut self, types: Types, begun: &mut Begun) -> Result<(), Error> {
        let count = begun.uses.len();
        let signature = match types {
            Types::Function => self.function_type()?,
            Types::Results => FunctionType {
                inputs: Vec::new(),
                results: vec![self.ty()?],
            },
            Types::Same => self.same_types(count)?,
            Types::Complex => self.complex_types(count)?,
            Types::Select => {
                let mut listed = self.type_list()?;
                match (listed.pop(), listed.pop()) {
                    (Some(value), Some(predicate)) if listed.is_empty() => FunctionType {
                        inputs: vec![predicate, value.clone(), value.clone()],
                        results: vec![value],
                    },
                    (Some(Type::Function(function)), None) => FunctionType::clone(&function),
                    _ => return Err(self.scanner.error("expected two types")),
                }
            }
            Types::Tuple => {
                let tuple = self.ty()?;
                let Type::Tuple(elements) = &tuple else {
                    return Err(self.scanner.error("expected the type of a tuple"));
                };
                FunctionType {
                    inputs: elements.to_vec(),
                    results: vec![tuple],
                }
            }
            Types::Pairwise => {
                let mut inputs = Vec::new();
                if count > 0 {
                    inputs = self.type_list()?;
                }
                let checks = begun.operation.name.starts_with("check.");
                let results = if checks { Vec::new() } else { inputs.clone() };
                FunctionType { inputs, results }
            }
            Types::Arrow => self.arrow_types()?,
            Types::Operands => {
                let mut inputs = Vec::new();
                if self.scanner.eat(":") {
                    inputs = self.type_list()?;
                }
                let results = Vec::new();
                FunctionType { inputs, results }
            }
            Types::OneOperand => FunctionType {
                inputs: vec![self.ty()?; count],
                results: Vec::new(),
            },
            Types::Value => {
                let value = begun.operation.attribute("value");
                let Some(Attribute::Elements(elements)) = value else {
                    return Err(self.scanner.error("expected a dense constant"));
                };
                FunctionType {
                    inputs: vec![elements.ty.clone()],
                    results: Vec::new(),
                }
            }
        };
        begun.operation.operands = self.resolve_all(&begun.uses, &signature.inputs)?;
        begun.results = signature.results;
        Ok(())
    }

    /// Reads one type for `count` operands and the result, or a function type.
    fn same_types(&mut self, count: usize) -> Result<FunctionType, Error> {
        Ok(match self.ty()? {
            Type::Function(function) => FunctionType::clone(&function),
            ty => FunctionType {
                inputs: vec![ty.clone(); count],
                results: vec![ty],
            },
        })
    }

    fn complex_types(&mut self, count: usize) -> Result<FunctionType, Error> {
        let ty = self.ty()?;
        if let Type::Function(function) = ty {
            return Ok(FunctionType::clone(&function));
        }
        let parts = ty.as_tensor().and_then(|tensor| match &tensor.element {
            Type::Complex(part) => {
                let mut parts = tensor.clone();
                parts.element = Type::clone(part);
                Some(Type::Tensor(Arc::new(parts)))
            }
            _ => None,
        });
        let parts = parts.ok_or_else(|| self.scanner.error("expected a complex tensor"))?;
        Ok(FunctionType {
            inputs: vec![parts; count],
            results: vec![ty],
        })
    }

    /// Reads `a, b -> c`, or a function type.
    fn arrow_types(&mut self) -> Result<FunctionType, Error> {
        let mut inputs = self.type_list()?;
        if let [Type::Function(function)] = inputs.as_slice() {
            return Ok(FunctionType::clone(function));
        }
        if !self.scanner.eat("->") {
            inputs.truncate(1);
            let results = inputs.clone();
            return Ok(FunctionType { inputs, results });
        }
        let results = self.result_types()?;
        Ok(FunctionType { inputs, results })
    }

    fn window(&mut self, begun: &mut Begun) -> Result<(), Error> {
        while self.scanner.peek() != Some(b'}') {
            let Some(word) = self.scanner.word() else {
                return Err(self
                    .scanner
                    .error("expected the name of a window attribute (`stride`, `pad`, ...)"));
            };
            self.scanner.expect("=")?;
            match word {
                "stride" => begun.set("window_strides", Attribute::i64s(&self.integers()?)),
                "lhs_dilate" => begun.set("lhs_dilation", Attribute::i64s(&self.integers()?)),
                "rhs_dilate" => begun.set("rhs_dilation", Attribute::i64s(&self.integers()?)),
                "pad" => {
                    let pairs = self.list("[", "]", Self::integers)?;
                    let flat: Vec<i64> = pairs.iter().flatten().copied().collect();
                    begun.set("padding", padding(pairs.len(), &flat));
                }
                "reverse" => {
                    let flags = self.list("[", "]", |parser| match parser.scanner.word() {
                        Some("true") => Ok(1),
                        Some("false") => Ok(0),
                        _ => match parser.scanner.number() {
                            Some("0") => Ok(0),
                            Some("1") => Ok(1),
                            _ => Err(parser.scanner.error("expected `true` or `false`")),
                        },
                    })?;
                    let value = Attribute::IntegerArray {
                        element: Type::BOOL,
                        values: flags.into(),
                    };
                    begun.set("window_reversal", value);
                }
                _ => {
                    return Err(self
                        .scanner
                        .error(format!("unknown part `{word}` of a window")));
                }
            }
            if !self.scanner.eat(",") {
                break;
            }
        }
        Ok(())
    }

    /// Reads `batching_dims = [0] x [0], contracting_dims = [1] x [0]`; either part may be missing.
    fn dot_dimensions(&mut self) -> Result<Attribute, Error> {
        let mut fields = Attributes::new();
        for (word, name) in [
            ("batching_dims", "batching"),
            ("contracting_dims", "contracting"),
        ] {
            let (mut lhs, mut rhs) = (Vec::new(), Vec::new());
            if self.scanner.eat_word(word) {
                self.scanner.expect("=")?;
                lhs = self.integers()?;
                self.scanner.expect("x")?;
                rhs = self.integers()?;
                let mut ahead = self.scanner.clone();
                if name == "batching" && ahead.eat(",") && ahead.eat_word("contracting_dims") {
                    self.scanner.expect(",")?;
                }
            }
            fields.push((
                format!("lhs_{name}_dimensions").into(),
                Attribute::i64s(&lhs),
            ));
            fields.push((
                format!("rhs_{name}_dimensions").into(),
                Attribute::i64s(&rhs),
            ));
        }
        Ok(Attribute::stablehlo_struct("dot", fields))
    }

    /// Reads `, word =`, if it comes next; says whether it did.
    fn eat_clause(&mut self, word: &str) -> bool {
        let mut ahead = self.scanner.clone();
        let found = ahead.eat(",") && ahead.eat_word(word) && ahead.eat("=");
        if found {
            self.scanner = ahead;
        }
        found
    }

    fn precision(&mut self) -> Result<Option<Attribute>, Error> {
        if !self.eat_clause("precision") {
            return Ok(None);
        }
        let cases = self.list("[", "]", |parser| {
            let case = parser.scanner.word();
            let case = case.ok_or_else(|| parser.scanner.error("expected a precision"))?;
            Ok(Attribute::stablehlo_enum("precision", case))
        })?;
        Ok(Some(Attribute::Array(cases.into())))
    }

    fn algorithm(&mut self) -> Result<Option<Attribute>, Error> {
        if !self.eat_clause("algorithm") {
            return Ok(None);
        }
        if self.scanner.peek() == Some(b'#') {
            return self.attribute().map(Some);
        }
        let fields = self.list("<", ">", |parser| {
            let name = parser.scanner.word();
            let name = name.ok_or_else(|| parser.scanner.error("expected a field"))?;
            parser.scanner.expect("=")?;
            Ok((Arc::from(name), parser.attribute()?))
        })?;
        Ok(Some(Attribute::stablehlo_struct("dot_algorithm", fields)))
    }

    fn exponent_mantissa(&mut self, begun: &mut Begun) -> Result<(), Error> {
        let word = self.scanner.word().unwrap_or_default();
        let bits = word
            .strip_prefix('e')
            .and_then(|rest| rest.split_once('m'))
            .and_then(|(e, m)| Some((e.parse::<i32>().ok()?, m.parse::<i32>().ok()?)));
        let Some((exponent, mantissa)) = bits else {
            return Err(self.scanner.error("expected a format such as `e5m10`"));
        };
        let bits = |value: i32| Attribute::Integer {
            value: value.into(),
            ty: Type::signless(32),
        };
        begun.set("exponent_bits", bits(exponent));
        begun.set("mantissa_bits", bits(mantissa));
        Ok(())
    }

    fn slice_ranges(&mut self, begun: &mut Begun) -> Result<(), Error> {
        let ranges = self.list("[", "]", |parser| {
            let start = parser.scanner.integer()?;
            parser.scanner.expect(":")?;
            let limit = parser.scanner.integer()?;
            let stride = match parser.scanner.eat(":") {
                true => parser.scanner.integer()?,
                false => 1,
            };
            Ok([start, limit, stride])
        })?;
        for (place, name) in ["start_indices", "limit_indices", "strides"]
            .into_iter()
            .enumerate()
        {
            let values: Vec<i64> = ranges.iter().map(|range| range[place]).collect();
            begun.set(name, Attribute::i64s(&values));
        }
        Ok(())
    }

    /// Reads `{attributes} dense<...> : type`, or `() {value = ...} : () -> type`.
    fn constant(&mut self) -> Result<(Operation, Vec<Type>), Error> {
        let mut operation = Operation::new("stablehlo.constant");
        if self.scanner.eat("(") {
            self.scanner.expect(")")?;
            if self.scanner.eat("<") {
                operation.properties = self.dictionary()?;
                self.scanner.expect(">")?;
            }
            operation.attributes = self.optional_dictionary()?;
            self.scanner.expect(":")?;
            let signature = self.function_type()?;
            return Ok((operation, signature.results));
        }
        operation.attributes = self.optional_dictionary()?;
        let value = self.attribute()?;
        let ty = match &value {
            Attribute::Elements(elements) => elements.ty.clone(),
            _ => return Err(self.scanner.error("expected a dense constant")),
        };
        operation.properties.push(("value".into(), value));
        Ok((operation, vec![ty]))
    }

    /// Reads `(%a = %x, %b = %y) : types attributes {...} cond {...} do {...}`.
    fn while_loop(&mut self) -> Result<(Operation, Vec<Type>), Error> {
        let mut operation = Operation::new("stablehlo.while");
        let pairs = self.list("(", ")", |parser| {
            let name = parser.defined_name()?;
            parser.scanner.expect("=")?;
            Ok((name, parser.value_use()?))
        })?;
        let mut types = Vec::new();
        if !pairs.is_empty() {
            self.scanner.expect(":")?;
            types = self.type_list()?;
        }
        let (names, uses): (Vec<Arc<str>>, Vec<Use>) = pairs.into_iter().unzip();
        operation.operands = self.resolve_all(&uses, &types)?;
        if self.scanner.eat_word("attributes") {
            operation.attributes = self.dictionary()?;
        }
        for word in ["cond", "do"] {
            self.scanner.expect_word(word)?;
            let arguments = names.iter().zip(&types).map(|(name, ty)| Argument {
                name: Arc::clone(name),
                ty: ty.clone(),
                location: None,
            });
            let arguments = arguments.collect();
            let region = self.region(Some("stablehlo.while"), false, arguments)?;
            operation.regions.push(region);
        }
        Ok((operation, types))
    }

    /// Reads `(%x init: %i), ... applies op across dimensions = [0] : type`, or with
    /// `reducer(...)`.
    fn reduce(&mut self) -> Result<(Operation, Vec<Type>), Error> {
        let mut operation = Operation::new("stablehlo.reduce");
        let (mut uses, mut inits) = (Vec::new(), Vec::new());
        loop {
            self.scanner.expect("(")?;
            uses.push(self.value_use()?);
            self.scanner.expect_word("init")?;
            self.scanner.expect(":")?;
            inits.push(self.value_use()?);
            self.scanner.expect(")")?;
            if !self.scanner.eat(",") {
                break;
            }
        }
        let pairs = uses.len();
        uses.append(&mut inits);
        let applied = match self.scanner.eat_word("applies") {
            true => {
                let word = self.scanner.word().unwrap_or_default();
                Some(word.replace("mhlo.", "stablehlo."))
                    .map(|name| name.replace("stablestablehlo.", "stablehlo."))
            }
            false => None,
        };
        self.scanner.expect_word("across")?;
        self.scanner.expect_word("dimensions")?;
        self.scanner.expect("=")?;
        let dimensions = self.integers()?;
        operation
            .properties
            .push(("dimensions".into(), Attribute::i64s(&dimensions)));
        operation.attributes = self.optional_dictionary()?;
        self.scanner.expect(":")?;
        let signature = self.function_type()?;
        operation.operands = self.resolve_all(&uses, &signature.inputs)?;
        let region = match applied {
            Some(name) => {
                let element = signature.inputs.first().and_then(Type::as_tensor);
                let element = element.map(|tensor| tensor.element.clone());
                let element =
                    element.ok_or_else(|| self.scanner.error("expected a tensor to reduce"))?;
                self.applied_region(&name, &Type::tensor(Vec::new(), element))
            }
            None => {
                if let Some(location) = self.optional_location()? {
                    operation.location = location;
                }
                self.reducer(pairs)?
            }
        };
        operation.regions.push(region);
        Ok((operation, signature.results))
    }

    /// Reads `reducer(%a: t, %x: t) (%b: t, %y: t) {...}`: pairs of an accumulator and a value. The
    /// block's arguments are all accumulators, and then all values.
    fn reducer(&mut self, pairs: usize) -> Result<crate::mlir::Region, Error> {
        self.scanner.expect_word("reducer")?;
        let (mut arguments, mut values) = (Vec::new(), Vec::new());
        for _ in 0..pairs {
            self.scanner.expect("(")?;
            arguments.push(self.argument()?);
            self.scanner.expect(",")?;
            values.push(self.argument()?);
            self.scanner.expect(")")?;
        }
        arguments.append(&mut values);
        self.region(Some("stablehlo.reduce"), false, arguments)
    }

    /// Reads `@name attributes {...} {...}`.
    fn module_operation(&mut self) -> Result<Operation, Error> {
        let mut operation = Operation::new("builtin.module");
        if self.scanner.peek() == Some(b'@') {
            let name = Attribute::String(self.symbol_name()?);
            operation.properties.push(("sym_name".into(), name));
        }
        if self.scanner.eat_word("attributes") {
            operation.attributes = self.dictionary()?;
        }
        let region = self.region(Some("builtin.module"), true, Vec::new())?;
        operation.regions.push(region);
        Ok(operation)
    }

    /// Reads `public @name(%a: t {...}, ...) -> (t {...}) attributes {...} {...}`.
    fn function(&mut self) -> Result<Operation, Error> {
        let mut operation = Operation::new("func.func");
        let visibility = ["public", "private", "nested"]
            .into_iter()
            .find(|word| self.scanner.eat_word(word));
        let name = Attribute::String(self.symbol_name()?);
        operation.properties.push(("sym_name".into(), name));
        if let Some(visibility) = visibility {
            let value = Attribute::string(visibility);
            operation.properties.push(("sym_visibility".into(), value));
        }
        let mut arguments = Vec::new();
        let mut argument_attributes = Vec::new();
        let inputs = self.list("(", ")", |parser| {
            let named = parser.scanner.peek() == Some(b'%');
            let name = match named {
                true => {
                    let name = parser.defined_name()?;
                    parser.scanner.expect(":")?;
                    name
                }
                false => Arc::from(""),
            };
            let ty = parser.ty()?;
            argument_attributes.push(parser.optional_dictionary()?);
            let location = parser.optional_location()?;
            if named {
                let ty = ty.clone();
                arguments.push(Argument { name, ty, location });
            }
            Ok(ty)
        })?;
        let (results, result_attributes) = self.function_results()?;
        let ty = Type::Function(Arc::new(FunctionType { inputs, results }));
        let properties = &mut operation.properties;
        properties.push(("function_type".into(), Attribute::Type(ty)));
        for (name, lists) in [
            ("arg_attrs", argument_attributes),
            ("res_attrs", result_attributes),
        ] {
            if lists.iter().any(|list| !list.is_empty()) {
                let lists = lists
                    .into_iter()
                    .map(|l| Attribute::Dictionary(Arc::new(l)));
                properties.push((name.into(), Attribute::Array(lists.collect())));
            }
        }
        if self.scanner.eat_word("attributes") {
            operation.attributes = self.dictionary()?;
        }
        if self.scanner.peek() == Some(b'{') {
            let isolated = is_isolated("func.func");
            let region = self.region(Some("func.func"), isolated, arguments)?;
            operation.regions.push(region);
        }
        Ok(operation)
    }

    fn function_results(&mut self) -> Result<(Vec<Type>, Vec<Attributes>), Error> {
        if !self.scanner.eat("->") {
            return Ok((Vec::new(), Vec::new()));
        }
        if self.scanner.peek() != Some(b'(') {
            return Ok((vec![self.ty()?], vec![Attributes::new()]));
        }
        let results = self.list("(", ")", |parser| {
            Ok((parser.ty()?, parser.optional_dictionary()?))
        })?;
        Ok(results.into_iter().unzip())
    }

    /// Reads `(%x) inits(%i) dimension=0 attributes {...} {...} : (types) -> types`.
    fn scan(&mut self) -> Result<(Operation, Vec<Type>), Error> {
        let mut operation = Operation::new("chlo.scan");
        let mut uses = self.list("(", ")", Self::value_use)?;
        let inputs = uses.len() as i64;
        self.scanner.expect_word("inits")?;
        let inits = self.list("(", ")", Self::value_use)?;
        let carries = inits.len() as i64;
        uses.extend(inits);
        self.scanner.expect_word("dimension")?;
        self.scanner.expect("=")?;
        let dimension = Attribute::i64(self.scanner.integer()?);
        operation.properties.push(("dimension".into(), dimension));
        if self.scanner.eat_word("attributes") {
            operation.attributes = self.dictionary()?;
        }
        let region = self.region(Some("chlo.scan"), true, Vec::new())?;
        operation.regions.push(region);
        self.scanner.expect(":")?;
        let signature = self.function_type()?;
        let outputs = signature.results.len() as i64 - carries;
        for (name, first) in [
            ("operandSegmentSizes", inputs),
            ("resultSegmentSizes", outputs),
        ] {
            let sizes = Attribute::IntegerArray {
                element: Type::signless(32),
                values: [first, carries].into(),
            };
            operation.properties.push((name.into(), sizes));
        }
        operation.operands = self.resolve_all(&uses, &signature.inputs)?;
        Ok((operation, signature.results))
    }

    /// Reads `@name = <["x"=2]> {...}`.
    fn mesh(&mut self) -> Result<Operation, Error> {
        let mut operation = Operation::new("sdy.mesh");
        let name = Attribute::String(self.symbol_name()?);
        operation.properties.push(("sym_name".into(), name));
        self.scanner.expect("=")?;
        let mesh = self.sdy_attribute("mesh")?;
        operation.properties.push(("mesh".into(), mesh));
        operation.attributes = self.optional_dictionary()?;
        Ok(operation)
    }

    /// Reads `<...>` as the parameters of `#sdy.name`.
    fn sdy_attribute(&mut self, name: &str) -> Result<Attribute, Error> {
        self.scanner.expect("<")?;
        let body = self.scanner.balanced(b'>')?;
        Ok(Attribute::Opaque {
            dialect: "sdy".into(),
            body: format!("{name}<{body}>").into(),
        })
    }

    /// Reads `%x <@mesh, [...]> : type`.
    fn sharding_constraint(&mut self) -> Result<(Operation, Vec<Type>), Error> {
        let mut operation = Operation::new("sdy.sharding_constraint");
        let used = self.value_use()?;
        let sharding = self.sdy_attribute("sharding")?;
        operation.properties.push(("sharding".into(), sharding));
        operation.attributes = self.optional_dictionary()?;
        self.scanner.expect(":")?;
        let ty = self.ty()?;
        operation.operands = self.resolve_all(&[used], std::slice::from_ref(&ty))?;
        Ok((operation, vec![ty]))
    }

    /// Reads `(%x) in_shardings=[...] out_shardings=[...] manual_axes={...} (%a: t) {...} : type`.
    fn manual_computation(&mut self) -> Result<(Operation, Vec<Type>), Error> {
        let mut operation = Operation::new("sdy.manual_computation");
        let uses = self.list("(", ")", Self::value_use)?;
        for name in ["in_shardings", "out_shardings", "manual_axes"] {
            self.scanner.expect_word(name)?;
            self.scanner.expect("=")?;
            let (kind, open, close) = match name {
                "manual_axes" => ("manual_axes", "{", b'}'),
                _ => ("sharding_per_value", "[", b']'),
            };
            self.scanner.expect(open)?;
            let inner = self.scanner.balanced(close)?;
            let body = match name {
                "manual_axes" => format!("{kind}{{{inner}}}"),
                _ => format!("{kind}<[{inner}]>"),
            };
            let value = Attribute::Opaque {
                dialect: "sdy".into(),
                body: body.into(),
            };
            operation.properties.push((name.into(), value));
        }
        let arguments = self.list("(", ")", Self::argument)?;
        let region = self.region(Some("sdy.manual_computation"), false, arguments)?;
        operation.regions.push(region);
        operation.attributes = self.optional_dictionary()?;
        self.scanner.expect(":")?;
        let signature = self.function_type()?;
        operation.operands = self.resolve_all(&uses, &signature.inputs)?;
        Ok((operation, signature.results))
    }
}

/// `dense<[[low, high], ...]>`.
fn padding(dimensions: usize, flat: &[i64]) -> Attribute {
    let bytes: Vec<u8> = flat.iter().flat_map(|value| value.to_le_bytes()).collect();
    let dims = vec![Some(dimensions as i64), Some(2)];
    Attribute::Elements(Arc::new(crate::mlir::Elements {
        ty: Type::tensor(dims, Type::signless(64)),
        bytes: bytes.into(),
        splat: false,
    }))
}
