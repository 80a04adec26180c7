//! Reads operations, blocks and regions, and resolves the names of values.

use super::Parser;
use crate::Error;
use crate::mlir::{Block, FunctionType, Location, Module, Operation, Region, Type, Value, ValueId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// All values, and the names in scope.
#[derive(Default)]
pub(super) struct Values {
    all: Vec<Value>,
    scopes: Vec<Scope>,
}

/// The names defined in one region.
struct Scope {
    /// Whether names of the enclosing regions are out of scope.
    isolated: bool,
    /// Values by name; several results of an operation share a name.
    names: FxHashMap<Arc<str>, SmallVec<[ValueId; 1]>>,
}

/// A use of a value: `%name` or `%name#2`.
#[derive(Clone)]
pub(super) struct Use {
    name: Arc<str>,
    number: usize,
    place: usize,
}

/// A name with a type, in the form of a block's arguments.
pub(super) struct Argument {
    /// The name, without `%`.
    pub(super) name: Arc<str>,
    pub(super) ty: Type,
    pub(super) location: Option<Arc<Location>>,
}

impl Parser<'_> {
    /// Reads a whole file: a module, or the operations of one.
    pub(super) fn module(&mut self) -> Result<Module, Error> {
        self.values.scopes.push(Scope {
            isolated: true,
            names: FxHashMap::default(),
        });
        let mut operations = Vec::new();
        loop {
            if self.scanner.at_end() || self.scanner.eat("{-#") {
                break;
            }
            if matches!(self.scanner.peek(), Some(b'#' | b'!')) {
                self.skip_alias()?;
                continue;
            }
            let operation = self.operation(Some("builtin.module"))?;
            operations.push(operation);
        }
        if operations.is_empty() {
            return Err(self
                .scanner
                .error("expected a module: this text has no operation"));
        }
        let operation = match operations.as_slice() {
            [only] if &*only.name == "builtin.module" => operations.remove(0),
            _ => {
                let mut module = Operation::new("builtin.module");
                let block = Block {
                    arguments: Vec::new(),
                    operations,
                };
                module.regions.push(Region {
                    blocks: vec![block],
                });
                module
            }
        };
        Ok(Module {
            operation,
            values: std::mem::take(&mut self.values.all),
            producer: "".into(),
            text: None,
        })
    }

    /// Skips the definition of an alias, which was read before.
    fn skip_alias(&mut self) -> Result<(), Error> {
        let is_type = self.scanner.eat("!");
        if !is_type {
            self.scanner.expect("#")?;
        }
        self.scanner.sigil_name();
        self.scanner.expect("=")?;
        match is_type {
            true => self.ty().map(drop),
            false => self.attribute().map(drop),
        }
    }

    fn new_value(&mut self, ty: Type, name: &str, location: Arc<Location>) -> ValueId {
        let id = ValueId(u32::try_from(self.values.all.len()).unwrap_or(u32::MAX));
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
        self.values.all.push(Value {
            ty,
            name: (!is_number).then(|| name.into()),
            location,
        });
        id
    }

    /// The type of a value.
    pub(super) fn type_of(&self, value: ValueId) -> &Type {
        &self.values.all[value.index()].ty
    }

    /// Reads `%name`, where a value is defined.
    pub(super) fn defined_name(&mut self) -> Result<Arc<str>, Error> {
        self.scanner.expect("%")?;
        let name = self.scanner.sigil_name();
        match name.is_empty() {
            true => Err(self.scanner.error("expected the name of a value")),
            false => Ok(name.into()),
        }
    }

    /// Reads `%name` or `%name#2`, where a value is used.
    pub(super) fn value_use(&mut self) -> Result<Use, Error> {
        self.scanner.peek();
        let place = self.scanner.offset();
        let name = self.defined_name()?;
        let mut number = 0;
        if self.scanner.eat_directly("#") {
            let digits = self.scanner.digits();
            number = digits
                .parse()
                .map_err(|_| self.scanner.error("expected the number of a result"))?;
        }
        Ok(Use {
            name,
            number,
            place,
        })
    }

    /// The value of a use.
    pub(super) fn resolve(&self, used: &Use) -> Result<ValueId, Error> {
        for scope in self.values.scopes.iter().rev() {
            if let Some(values) = scope.names.get(&used.name) {
                let Some(value) = values.get(used.number) else {
                    return Err(self.scanner.error_at(
                        used.place,
                        format!("`%{}` has {} results", used.name, values.len()),
                    ));
                };
                return Ok(*value);
            }
            if scope.isolated {
                break;
            }
        }
        Err(self.scanner.error_at(
            used.place,
            format!("`%{}` is not defined before this use", used.name),
        ))
    }

    /// The values of uses, whose types must be these.
    pub(super) fn resolve_all(
        &self,
        uses: &[Use],
        types: &[Type],
    ) -> Result<SmallVec<[ValueId; 4]>, Error> {
        if uses.len() != types.len() {
            return Err(self.scanner.error(format!(
                "{} operands, but {} types of operands",
                uses.len(),
                types.len()
            )));
        }
        let mut values = SmallVec::new();
        for (used, ty) in uses.iter().zip(types) {
            let value = self.resolve(used)?;
            let known = self.type_of(value);
            if known != ty {
                return Err(self.scanner.error_at(
                    used.place,
                    format!(
                        "`%{}` has type {}, but is used as {}",
                        used.name,
                        crate::print::type_text(known),
                        crate::print::type_text(ty)
                    ),
                ));
            }
            values.push(value);
        }
        Ok(values)
    }

    fn define(&mut self, name: &Arc<str>, values: SmallVec<[ValueId; 1]>) -> Result<(), Error> {
        let taken = self.values.scopes.last_mut().is_some_and(|scope| {
            let before = scope.names.insert(Arc::clone(name), values);
            before.is_some()
        });
        match taken {
            true => Err(self.scanner.error(format!("`%{name}` is defined twice"))),
            false => Ok(()),
        }
    }

    /// Reads one operation with the names of its results. `parent` is the enclosing operation,
    /// whose dialect is implied by names without one.
    pub(super) fn operation(&mut self, parent: Option<&str>) -> Result<Operation, Error> {
        let mut names: Vec<(Arc<str>, usize)> = Vec::new();
        if self.scanner.peek() == Some(b'%') {
            loop {
                let name = self.defined_name()?;
                let mut count = 1;
                if self.scanner.eat(":") {
                    count = usize::try_from(self.scanner.integer()?).unwrap_or_default();
                }
                names.push((name, count));
                if !self.scanner.eat(",") {
                    break;
                }
            }
            self.scanner.expect("=")?;
        }
        self.scanner.peek();
        let offset = self.scanner.offset();
        let (mut operation, types) = match self.scanner.peek() {
            Some(b'"') => self.generic_operation()?,
            _ => self.pretty_operation(parent)?,
        };
        operation.offset = offset;
        if let Some(location) = self.optional_location()? {
            operation.location = location;
        }
        self.define_results(&mut operation, &names, types)?;
        Ok(operation)
    }

    fn define_results(
        &mut self,
        operation: &mut Operation,
        names: &[(Arc<str>, usize)],
        types: Vec<Type>,
    ) -> Result<(), Error> {
        let named = names
            .iter()
            .fold(0_usize, |sum, (_, count)| sum.saturating_add(*count));
        let count = types.len();
        if !names.is_empty() && named != count {
            return Err(self.scanner.error_at(
                operation.offset,
                format!(
                    "`{}` has {count} results, but {named} names",
                    operation.name
                ),
            ));
        }
        let mut types = types.into_iter();
        let unnamed = [(Arc::from(""), count)];
        let names = if names.is_empty() { &unnamed } else { names };
        for (name, count) in names {
            let mut values = SmallVec::new();
            for ty in types.by_ref().take(*count) {
                let location = Arc::clone(&operation.location);
                values.push(self.new_value(ty, name, location));
            }
            operation.results.extend(values.iter().copied());
            if !name.is_empty() {
                self.define(name, values)?;
            }
        }
        Ok(())
    }

    /// Reads `"name"(%a, %b) <{properties}> ({regions}) {attributes} : (types) -> types`.
    fn generic_operation(&mut self) -> Result<(Operation, Vec<Type>), Error> {
        let name = self.scanner.string()?;
        let name = match name.strip_prefix("mhlo.") {
            Some(suffix) => format!("stablehlo.{suffix}"),
            None => name,
        };
        let mut operation = Operation::new(&name);
        let uses = self.list("(", ")", Self::value_use)?;
        if self.scanner.peek() == Some(b'[') {
            return Err(Error::unsupported(format!(
                "`{name}` goes to other blocks: control flow between blocks is not supported"
            )));
        }
        if self.scanner.eat("<") {
            operation.properties = self.dictionary()?;
            self.scanner.expect(">")?;
        }
        if self.scanner.peek() == Some(b'(') {
            let isolated = is_isolated(&name);
            operation.regions = self.list("(", ")", |parser| {
                parser.region(Some(&name), isolated, Vec::new())
            })?;
        }
        operation.attributes = self.optional_dictionary()?;
        self.scanner.expect(":")?;
        let FunctionType { inputs, results } = self.function_type()?;
        operation.operands = self.resolve_all(&uses, &inputs)?;
        Ok((operation, results))
    }

    /// Reads `(inputs) -> results`.
    pub(super) fn function_type(&mut self) -> Result<FunctionType, Error> {
        let inputs = self.type_list_in_parentheses()?;
        self.scanner.expect("->")?;
        let results = self.result_types()?;
        Ok(FunctionType { inputs, results })
    }

    fn pretty_operation(&mut self, parent: Option<&str>) -> Result<(Operation, Vec<Type>), Error> {
        let place = self.scanner.offset();
        let Some(word) = self.scanner.word() else {
            return Err(self.scanner.error("expected an operation"));
        };
        let name = match word {
            "module" => "builtin.module".to_owned(),
            "func" => "func.func".to_owned(),
            "call" => "func.call".to_owned(),
            "return" => match parent {
                Some("func.func") | None => "func.return".to_owned(),
                Some(_) => "stablehlo.return".to_owned(),
            },
            _ => match word.strip_prefix("mhlo.") {
                Some(suffix) => format!("stablehlo.{suffix}"),
                None => word.to_owned(),
            },
        };
        self.pretty(&name, place)
    }

    /// Reads a region in braces. Arguments that are written before it belong to its first block.
    pub(super) fn region(
        &mut self,
        parent: Option<&str>,
        isolated: bool,
        arguments: Vec<Argument>,
    ) -> Result<Region, Error> {
        self.nested(|parser| {
            parser.values.scopes.push(Scope {
                isolated,
                names: FxHashMap::default(),
            });
            let region = parser.region_here(parent, arguments)?;
            parser.values.scopes.pop();
            Ok(region)
        })
    }

    fn region_here(
        &mut self,
        parent: Option<&str>,
        arguments: Vec<Argument>,
    ) -> Result<Region, Error> {
        self.scanner.expect("{")?;
        let mut region = Region::default();
        let mut block = Block {
            arguments: self.define_arguments(arguments)?,
            operations: Vec::new(),
        };
        let mut begun = !block.arguments.is_empty();
        loop {
            match self.scanner.peek() {
                Some(b'}') => break,
                Some(b'^') => {
                    if begun {
                        region.blocks.push(std::mem::take(&mut block));
                    }
                    block.arguments = self.block_label()?;
                    begun = true;
                }
                Some(b'#' | b'!') => self.skip_alias()?,
                _ => {
                    block.operations.push(self.operation(parent)?);
                    begun = true;
                }
            }
        }
        self.scanner.expect("}")?;
        if begun {
            region.blocks.push(block);
        }
        Ok(region)
    }

    /// Reads `^bb0(%a: type, %b: type loc(...)):`.
    fn block_label(&mut self) -> Result<Vec<ValueId>, Error> {
        self.scanner.expect("^")?;
        self.scanner.sigil_name();
        let mut arguments = Vec::new();
        if self.scanner.peek() == Some(b'(') {
            arguments = self.list("(", ")", Self::argument)?;
        }
        self.scanner.expect(":")?;
        self.define_arguments(arguments)
    }

    /// Reads `%name: type`, and its location.
    pub(super) fn argument(&mut self) -> Result<Argument, Error> {
        let name = self.defined_name()?;
        self.scanner.expect(":")?;
        let ty = self.ty()?;
        let location = self.optional_location()?;
        Ok(Argument { name, ty, location })
    }

    fn define_arguments(&mut self, arguments: Vec<Argument>) -> Result<Vec<ValueId>, Error> {
        let mut values = Vec::new();
        for Argument { name, ty, location } in arguments {
            let location = location.unwrap_or_else(|| Arc::new(Location::Unknown));
            let value = self.new_value(ty, &name, location);
            self.define(&name, SmallVec::from_elem(value, 1))?;
            values.push(value);
        }
        Ok(values)
    }

    /// A region of one block that applies `operation` to two scalars of a type, which is the
    /// meaning of `reduce(...) applies operation`.
    pub(super) fn applied_region(&mut self, operation: &str, scalar: &Type) -> Region {
        let unknown = Arc::new(Location::Unknown);
        let mut value = |name: &str| self.new_value(scalar.clone(), name, Arc::clone(&unknown));
        let (lhs, rhs, result) = (value("lhs"), value("rhs"), value("0"));
        let mut applied = Operation::new(operation);
        applied.operands.extend([lhs, rhs]);
        applied.results.push(result);
        let mut end = Operation::new("stablehlo.return");
        end.operands.push(result);
        Region {
            blocks: vec![Block {
                arguments: vec![lhs, rhs],
                operations: vec![applied, end],
            }],
        }
    }
}

/// Whether regions of an operation cannot use the values around it.
pub(super) fn is_isolated(operation: &str) -> bool {
    matches!(operation, "builtin.module" | "func.func" | "vhlo.func_v1")
}
