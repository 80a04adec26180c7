//! The section of operations: blocks, operations and regions, which refer to the tables by index.

use super::{
    MAX_DEPTH, cursor::Cursor, properties, sections, sections::File, sections::since, table::Table,
};
use crate::Error;
use crate::mlir::{
    Attribute, Attributes, Block, Location, Module, Operation, Region, Type, Value, ValueId,
};
use std::sync::Arc;

/// Bits of the byte after an operation's name, which say what follows.
mod has {
    pub(super) const ATTRIBUTES: u8 = 1;
    pub(super) const RESULTS: u8 = 2;
    pub(super) const OPERANDS: u8 = 4;
    pub(super) const SUCCESSORS: u8 = 8;
    pub(super) const REGIONS: u8 = 16;
    pub(super) const USE_ORDERS: u8 = 32;
    pub(super) const PROPERTIES: u8 = 64;
}

/// Reads the operations of a file.
pub(super) fn read(file: &File) -> Result<Module, Error> {
    let mut reader = Reader {
        table: Table::new(file),
        values: Vec::new(),
        scopes: vec![Scope::default()],
        depth: 0,
    };
    let mut cursor = file.operations.clone();
    let top = reader.block(&mut cursor)?;
    let undefined = reader.scopes.iter().any(Scope::has_undefined);
    if undefined {
        return Err(cursor.error("a value is used that no operation defines"));
    }
    let mut operations = top.operations;
    let operation = match operations.as_slice() {
        [only] if &*only.name == "builtin.module" => operations.remove(0),
        _ => {
            let mut wrapper = Operation::new("builtin.module");
            let block = Block {
                arguments: Vec::new(),
                operations,
            };
            wrapper.regions.push(Region {
                blocks: vec![block],
            });
            wrapper
        }
    };
    Ok(Module {
        operation,
        values: reader.values,
        producer: Arc::clone(&file.producer),
        text: None,
    })
}

/// The values that operations of an isolated region may refer to by number.
#[derive(Debug, Default)]
struct Scope {
    /// The value of each number that was defined or used so far.
    numbers: Vec<Option<(ValueId, bool)>>,
    /// For each open region, the number of the next value to be defined.
    next: Vec<usize>,
}

impl Scope {
    fn has_undefined(&self) -> bool {
        self.numbers.iter().flatten().any(|(_, defined)| !defined)
    }
}

struct Reader<'f> {
    table: Table<'f>,
    values: Vec<Value>,
    scopes: Vec<Scope>,
    depth: usize,
}

impl Reader<'_> {
    fn version(&self) -> u64 {
        self.table.file.version
    }

    fn new_value(&mut self, ty: Type, location: Arc<Location>) -> ValueId {
        let id = ValueId(u32::try_from(self.values.len()).unwrap_or(u32::MAX));
        self.values.push(Value {
            ty,
            name: None,
            location,
        });
        id
    }

    /// Assigns the next number of the innermost region to a value of this type.
    fn define(
        &mut self,
        ty: Type,
        location: Arc<Location>,
        cursor: &Cursor,
    ) -> Result<ValueId, Error> {
        let scope = self.scopes.last_mut();
        let number = scope.and_then(|scope| {
            let next = scope.next.last_mut()?;
            *next += 1;
            Some(*next - 1)
        });
        let slot = number.and_then(|number| self.scopes.last()?.numbers.get(number).copied());
        let (Some(number), Some(slot)) = (number, slot) else {
            return Err(cursor.error("a region defines more values than it says"));
        };
        let id = match slot {
            None => self.new_value(ty, location),
            Some((id, false)) => {
                let value = &mut self.values[id.index()];
                value.ty = ty;
                value.location = location;
                id
            }
            Some((_, true)) => return Err(cursor.error("a value is defined twice")),
        };
        if let Some(scope) = self.scopes.last_mut() {
            scope.numbers[number] = Some((id, true));
        }
        Ok(id)
    }

    fn operand(&mut self, cursor: &mut Cursor) -> Result<ValueId, Error> {
        let number = cursor.index()?;
        let known = self.scopes.last().map(|scope| scope.numbers.get(number));
        match known.flatten() {
            Some(Some((id, _))) => Ok(*id),
            Some(None) => {
                let id = self.new_value(Type::None, Arc::new(Location::Unknown));
                if let Some(scope) = self.scopes.last_mut() {
                    scope.numbers[number] = Some((id, false));
                }
                Ok(id)
            }
            None => Err(cursor.error(format!("value {number} does not exist in this region"))),
        }
    }

    /// Reads a block: the number of its operations, its arguments, its operations.
    fn block(&mut self, cursor: &mut Cursor) -> Result<Block, Error> {
        let (count, has_arguments) = cursor.flagged()?;
        let count = cursor.checked_count(count)?;
        let mut block = Block::default();
        if has_arguments {
            for _ in 0..cursor.count()? {
                let argument = self.block_argument(cursor)?;
                block.arguments.push(argument);
            }
            if self.version() >= since::USE_ORDERS && cursor.byte()? != 0 {
                let arguments = block.arguments.len();
                skip_use_orders(cursor, arguments)?;
            }
        }
        block.operations.reserve(count);
        for _ in 0..count {
            let operation = self.operation(cursor)?;
            block.operations.push(operation);
        }
        Ok(block)
    }

    fn block_argument(&mut self, cursor: &mut Cursor) -> Result<ValueId, Error> {
        if self.version() < since::OPTIONAL_ARGUMENT_LOCATIONS {
            let ty = self.table.ty(cursor)?;
            let location = self.table.location(cursor)?;
            return self.define(ty, location, cursor);
        }
        let at = cursor.offset();
        let (ty, has_location) = cursor.flagged()?;
        let ty = usize::try_from(ty).unwrap_or(usize::MAX);
        let ty = self
            .table
            .type_at(ty, cursor)
            .map_err(|error| error.at_byte(at))?;
        let location = match has_location {
            true => self.table.location(cursor)?,
            false => Arc::new(Location::Unknown),
        };
        self.define(ty, location, cursor)
    }

    fn operation(&mut self, cursor: &mut Cursor) -> Result<Operation, Error> {
        let offset = cursor.offset();
        let name = cursor.index()?;
        let Some(name) = self.table.file.operation_names.get(name) else {
            return Err(cursor.error(format!("operation name {name} does not exist")));
        };
        let mut operation = Operation::new("");
        operation.name = Arc::clone(&name.name);
        operation.offset = offset;
        let registered = name.registered;
        let mask = cursor.byte()?;
        operation.location = self.table.location(cursor)?;
        if mask & has::ATTRIBUTES != 0 {
            operation.attributes = self.dictionary(cursor)?;
        }
        if self.version() < since::PROPERTIES {
            operation.properties = properties::separate(&operation.name, &mut operation.attributes);
        }
        if mask & has::PROPERTIES != 0 {
            operation.properties = self.properties(&operation.name, registered, cursor)?;
        }
        let mut results = Vec::new();
        if mask & has::RESULTS != 0 {
            results = self.table.types(cursor)?;
        }
        if mask & has::OPERANDS != 0 {
            for _ in 0..cursor.count()? {
                let operand = self.operand(cursor)?;
                operation.operands.push(operand);
            }
        }
        if mask & has::SUCCESSORS != 0 {
            for _ in 0..cursor.count()? {
                let successor = u32::try_from(cursor.varint()?).unwrap_or(u32::MAX);
                operation.successors.push(successor);
            }
        }
        for ty in results {
            let location = Arc::clone(&operation.location);
            let result = self.define(ty, location, cursor)?;
            operation.results.push(result);
        }
        if mask & has::USE_ORDERS != 0 {
            skip_use_orders(cursor, operation.results.len())?;
        }
        if mask & has::REGIONS != 0 {
            operation.regions = self.regions(cursor)?;
        }
        Ok(operation)
    }

    fn dictionary(&mut self, cursor: &mut Cursor) -> Result<Attributes, Error> {
        match self.table.attribute(cursor)? {
            Attribute::Dictionary(entries) => Ok(entries.to_vec()),
            _ => Err(cursor.error("expected a dictionary of attributes")),
        }
    }

    fn properties(
        &mut self,
        operation: &str,
        registered: bool,
        cursor: &mut Cursor,
    ) -> Result<Attributes, Error> {
        if !registered {
            return self.dictionary(cursor);
        }
        let index = cursor.index()?;
        let Some(encoded) = self.table.file.properties.get(index) else {
            return Err(cursor.error(format!("properties {index} do not exist")));
        };
        let mut encoded = encoded.clone();
        properties::read(operation, &mut self.table, &mut encoded)
    }

    fn regions(&mut self, cursor: &mut Cursor) -> Result<Vec<Region>, Error> {
        const OPERATIONS: usize = 4;
        let (count, isolated) = cursor.flagged()?;
        let count = cursor.checked_count(count)?;
        if self.depth == MAX_DEPTH {
            return Err(cursor.error(format!("regions are nested more than {MAX_DEPTH} deep")));
        }
        self.depth += 1;
        if isolated {
            self.scopes.push(Scope::default());
        }
        let regions = if isolated && self.version() >= since::LAZY_REGIONS {
            let (id, mut section) = sections::read_section(cursor)?;
            if id != OPERATIONS {
                return Err(cursor.error(format!(
                    "expected the operations of an isolated region, found section {id}"
                )));
            }
            self.region_list(count, &mut section)?
        } else {
            self.region_list(count, cursor)?
        };
        if isolated {
            let scope = self.scopes.pop();
            if scope.is_some_and(|scope| scope.has_undefined()) {
                return Err(cursor.error("a value is used that no operation defines"));
            }
        }
        self.depth -= 1;
        Ok(regions)
    }

    fn region_list(&mut self, count: usize, cursor: &mut Cursor) -> Result<Vec<Region>, Error> {
        (0..count).map(|_| self.region(cursor)).collect()
    }

    /// Reads a region: the number of its blocks, the number of values that they define, and the
    /// blocks.
    fn region(&mut self, cursor: &mut Cursor) -> Result<Region, Error> {
        let blocks = cursor.count()?;
        if blocks == 0 {
            return Ok(Region::default());
        }
        let values = cursor.count()?;
        // The definition of every value takes at least a byte, which bounds the number of values.
        let open: usize = self.scopes.iter().map(|scope| scope.numbers.len()).sum();
        if open + values > self.table.file.operations.left() {
            return Err(cursor.error("regions define more values than the file has bytes"));
        }
        let Some(scope) = self.scopes.last_mut() else {
            return Err(cursor.error("a region outside of every scope"));
        };
        let first = scope.numbers.len();
        scope.next.push(first);
        scope.numbers.resize(first + values, None);
        let blocks: Result<Vec<Block>, Error> = (0..blocks).map(|_| self.block(cursor)).collect();
        let blocks = blocks?;
        if let Some(scope) = self.scopes.last_mut() {
            let own = scope.numbers.drain(first..);
            let undefined = own.flatten().any(|(_, defined)| !defined);
            scope.next.pop();
            if undefined {
                return Err(cursor.error("a value is used that no operation defines"));
            }
        }
        Ok(Region { blocks })
    }
}

/// Skips use-list orders, which are not needed.
fn skip_use_orders(cursor: &mut Cursor, values: usize) -> Result<(), Error> {
    let several = values > 1;
    let count = if several { cursor.count()? } else { 1 };
    for _ in 0..count {
        if several {
            cursor.varint()?;
        }
        let (numbers, _) = cursor.flagged()?;
        for _ in 0..cursor.checked_count(numbers)? {
            cursor.varint()?;
        }
    }
    Ok(())
}
