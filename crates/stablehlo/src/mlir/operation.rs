//! Operations, blocks and regions.

use super::{Attribute, Attributes, Bytes, Location, Type};
use smallvec::SmallVec;
use std::sync::Arc;

/// A value of a [`Module`]: the result of an operation or an argument of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub(crate) u32);

impl ValueId {
    /// The index in [`Module::values`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The type and the origin of a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The type.
    pub ty: Type,
    /// The name in the text, without `%`; [`None`] if it is a number, or in bytecode.
    pub name: Option<Arc<str>>,
    /// The source location of a block's argument.
    pub location: Arc<Location>,
}

/// An operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The name with its dialect, such as `stablehlo.add`.
    pub name: Arc<str>,
    /// The operands.
    pub operands: SmallVec<[ValueId; 4]>,
    /// The results.
    pub results: SmallVec<[ValueId; 2]>,
    /// The properties: attributes that are inherent in the operation (`<{...}>` in generic text).
    pub properties: Attributes,
    /// The discardable attributes (`{...}` in generic text). Readers of pretty text put all
    /// attributes here.
    pub attributes: Attributes,
    /// The regions.
    pub regions: Vec<Region>,
    /// The successor blocks, by index in the enclosing region.
    pub successors: SmallVec<[u32; 1]>,
    /// The source location.
    pub location: Arc<Location>,
    /// The position in the input: a byte of the text or of the bytecode.
    pub offset: usize,
}

impl Operation {
    /// An operation with this name and nothing else.
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

    /// The property or discardable attribute with this name.
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

/// A block: a list of operations, with arguments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// The arguments.
    pub arguments: Vec<ValueId>,
    /// The operations, in order.
    pub operations: Vec<Operation>,
}

/// A region: blocks that are contained in an operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Region {
    /// The blocks; the first one is the entry block.
    pub blocks: Vec<Block>,
}

impl Region {
    /// The block, if there is exactly one.
    pub fn block(&self) -> Option<&Block> {
        match self.blocks.as_slice() {
            [block] => Some(block),
            _ => None,
        }
    }
}

/// A `builtin.module`, with all its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// The operation `builtin.module`.
    pub operation: Operation,
    /// Every value.
    pub values: Vec<Value>,
    /// The tool that wrote the bytecode, such as `StableHLO_v1.9.0`; empty for text.
    pub producer: Arc<str>,
    /// The text that the module was read from, for error messages; [`None`] for bytecode.
    pub text: Option<Bytes>,
}

impl Module {
    /// The type of a value.
    pub fn type_of(&self, value: ValueId) -> &Type {
        &self.values[value.index()].ty
    }

    /// Creates a value, for an operation to be added.
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

    /// The operations of the module's body, for writing.
    pub fn body_mut(&mut self) -> Option<&mut Vec<Operation>> {
        let block = self.operation.regions.first_mut()?.blocks.first_mut()?;
        Some(&mut block.operations)
    }

    /// The module's name.
    pub fn name(&self) -> Option<&str> {
        self.operation.attribute("sym_name")?.as_str()
    }
}
