//! Operations, blocks and regions.

use super::{Attribute, Attributes, Bytes, Location, Type};
use smallvec::SmallVec;
use std::sync::Arc;

/// A value of a [`Module`]: the result of an operation or an argument of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub(crate) u32);

impl ValueId {
    /// Its place in [`Module::values`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What is known of a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The type.
    pub ty: Type,
    /// The name that the text gives it, without `%`; [`None`] if it is a number, or of bytecode.
    pub name: Option<Arc<str>>,
    /// Where a block's argument came from.
    pub location: Arc<Location>,
}

/// An operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The name with its dialect, `stablehlo.add`.
    pub name: Arc<str>,
    /// What it reads.
    pub operands: SmallVec<[ValueId; 4]>,
    /// What it gives.
    pub results: SmallVec<[ValueId; 2]>,
    /// The attributes that are part of the operation (`<{...}>` in generic text).
    pub properties: Attributes,
    /// The attributes that anyone may add or drop (`{...}` in generic text). Readers of pretty
    /// text put all attributes here.
    pub attributes: Attributes,
    /// Its regions.
    pub regions: Vec<Region>,
    /// The blocks it may go to, by place in the region that it is in.
    pub successors: SmallVec<[u32; 1]>,
    /// Where it came from.
    pub location: Arc<Location>,
    /// Where it is in the input: a byte of the text or of the bytecode.
    pub offset: usize,
}

impl Operation {
    /// An operation that has nothing but a name.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            operands: SmallVec::new(),
            results: SmallVec::new(),
            properties: Vec::new(),
            attributes: Vec::new(),
            regions: Vec::new(),
            successors: SmallVec::new(),
            location: Arc::new(Location::Unknown),
            offset: 0,
        }
    }

    /// The attribute of this name, a property or not.
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        let all = self.properties.iter().chain(&self.attributes);
        all.into_iter()
            .find(|(key, _)| &**key == name)
            .map(|(_, value)| value)
    }

    /// The dialect.
    pub fn dialect(&self) -> &str {
        self.name.split_once('.').map_or("", |(dialect, _)| dialect)
    }
}

/// A list of operations with arguments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// The arguments.
    pub arguments: Vec<ValueId>,
    /// The operations, in order.
    pub operations: Vec<Operation>,
}

/// Blocks that an operation contains.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Region {
    /// The blocks; the first one is where the region begins.
    pub blocks: Vec<Block>,
}

impl Region {
    /// The only block, if there is just one.
    pub fn block(&self) -> Option<&Block> {
        match self.blocks.as_slice() {
            [block] => Some(block),
            _ => None,
        }
    }
}

/// A `builtin.module`, and every value in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// The operation `builtin.module`.
    pub operation: Operation,
    /// Every value.
    pub values: Vec<Value>,
    /// Who wrote the bytecode, `StableHLO_v1.9.0`; empty for text.
    pub producer: Arc<str>,
    /// The text it was read from, for the places of errors; [`None`] for bytecode.
    pub text: Option<Bytes>,
}

impl Module {
    /// The type of a value.
    pub fn type_of(&self, value: ValueId) -> &Type {
        &self.values[value.index()].ty
    }

    /// A new value, for whoever adds operations to a module.
    pub fn new_value(&mut self, ty: Type) -> ValueId {
        let id = ValueId(u32::try_from(self.values.len()).unwrap_or(u32::MAX));
        self.values.push(Value {
            ty,
            name: None,
            location: Arc::new(Location::Unknown),
        });
        id
    }

    /// The operations of the module's body.
    pub fn body(&self) -> &[Operation] {
        let block = self.operation.regions.first().and_then(Region::block);
        block.map_or(&[], |block| &block.operations)
    }

    /// The same, to change them.
    pub fn body_mut(&mut self) -> Option<&mut Vec<Operation>> {
        let block = self.operation.regions.first_mut()?.blocks.first_mut()?;
        Some(&mut block.operations)
    }

    /// The module's name.
    pub fn name(&self) -> Option<&str> {
        self.operation.attribute("sym_name")?.as_str()
    }
}
