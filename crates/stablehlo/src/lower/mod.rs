//! Lowers a StableHLO module to a [`tegula_ir::Module`]; operations that HLO has are converted one
//! to one.
//!
//! A function becomes a computation, and so does a region. Values that a loop or branch captures
//! become part of its state or operand; captured constants are duplicated inside. Several results
//! become a tuple and its elements.
//!
//! Sizes that are `?` become terms over the sizes of the entry's parameters. Integer computations
//! on sizes are evaluated on terms during lowering (`sizes`), so `dynamic_broadcast_in_dim` and
//! similar operations become static operations with symbolic sizes. Functions that take such values
//! or sizes are inlined.
//!
//! - `frame`: the instructions of one computation under construction;
//! - `types`: types and constants;
//! - `access`: an operation and its attributes, with errors that name both;
//! - `operations`: the dispatch by operation, and elementwise operations;
//! - `shaping`, `windows`, `control`, `calls`, `collectives`, `manual`, `transfers`, `einsum`,
//!   `ragged`: the other operations;
//! - `chlo`, `special_functions`: CHLO operations, by what they are composed of;
//! - `entry`: attributes of parameters and results; `mesh`: groups of devices;
//! - `sizes`, `dynamic`: arithmetic on sizes, and operations that take sizes as operands;
//! - `running`: reductions over windows whose size is known only at run time.

mod access;
mod calls;
mod chlo;
mod collectives;
mod control;
mod dynamic;
mod einsum;
mod entry;
mod frame;
mod manual;
mod mesh;
mod operations;
mod ragged;
mod roots;
mod running;
mod shaping;
mod single_bits;
mod sizes;
mod special_functions;
mod transfers;
mod types;
mod windows;

use crate::Error;
use crate::mlir::{Attribute, Block, Module, Operation, Region, Type, ValueId};
use access::Access;
use frame::{Frame, Local};
use rustc_hash::FxHashMap;
use tegula_ir::{ComputationId, Dim, InstructionId, ModuleBuilder, Shape, Span};

/// The maximum depth of inlining; deeper calls are taken to be recursive.
const MAX_INLINING: usize = 64;

/// The maximum number of instructions of a module, because inlined functions can multiply.
const MAX_INSTRUCTIONS: usize = 4_000_000;

/// Lowers a module. Its entry is the function `main`, or the only public one.
///
/// Open sizes are not related to each other yet: see [`tegula_ir::infer_symbolic_dims`].
///
/// # Errors
/// The first operation that is unsupported or malformed, with its place.
pub fn to_module(module: &Module) -> Result<tegula_ir::Module, Error> {
    let mut lowerer = Lowerer::new(module)?;
    let entry = lowerer.entry()?;
    let lowered = lowerer.function(entry, None)?;
    lowerer.finish(lowered)
}

/// The state of lowering a module.
struct Lowerer<'m> {
    source: &'m Module,
    builder: ModuleBuilder,
    functions: FxHashMap<&'m str, &'m Operation>,
    /// Functions that are lowered already.
    done: FxHashMap<&'m str, ComputationId>,
    /// Functions that are being lowered, to detect recursion.
    open: Vec<&'m str>,
    /// Operations that give constants, to be duplicated inside regions.
    constants: FxHashMap<ValueId, &'m Operation>,
    /// Whether any type has an open size, or any operation takes sizes as operands. Computations on
    /// sizes are evaluated only then.
    has_open_sizes: bool,
    sizes: sizes::Sizes,
    /// The positions in the input of instructions.
    offsets: FxHashMap<InstructionId, usize>,
    instructions: usize,
}

impl<'m> Lowerer<'m> {
    fn new(source: &'m Module) -> Result<Self, Error> {
        let mut functions = FxHashMap::default();
        for operation in source.body() {
            if &*operation.name == "func.func" {
                let name = operation.attribute("sym_name").and_then(Attribute::as_str);
                functions.insert(name.unwrap_or_default(), operation);
            }
        }
        let mut constants = FxHashMap::default();
        collect_constants(&source.operation, &mut constants);
        let is_open = |value: &crate::mlir::Value| {
            value.ty.as_tensor().is_some_and(|t| t.dims.contains(&None))
        };
        Ok(Self {
            source,
            builder: ModuleBuilder::new(source.name().unwrap_or("main")),
            functions,
            done: FxHashMap::default(),
            open: Vec::new(),
            constants,
            has_open_sizes: source.values.iter().any(is_open) || takes_sizes(&source.operation),
            sizes: sizes::Sizes::default(),
            offsets: FxHashMap::default(),
            instructions: 0,
        })
    }

    /// The entry function.
    fn entry(&self) -> Result<&'m Operation, Error> {
        if let Some(main) = self.functions.get("main") {
            return Ok(main);
        }
        let is_public = |operation: &&Operation| {
            let visibility = operation.attribute("sym_visibility");
            visibility.and_then(Attribute::as_str) != Some("private")
                && &*operation.name == "func.func"
        };
        let public: Vec<&Operation> = self.source.body().iter().filter(is_public).collect();
        match public.as_slice() {
            [only] => Ok(only),
            [] => Err(Error::input(
                "expected a function `main`: the module has no function",
            )),
            several => Err(Error::input(format!(
                "expected a function `main`: there are {} public functions and none has that name",
                several.len()
            ))),
        }
    }

    /// Lowers a function to a computation. The entry's parameters introduce the symbols of open
    /// sizes.
    fn function(
        &mut self,
        operation: &'m Operation,
        name: Option<&'m str>,
    ) -> Result<ComputationId, Error> {
        let access = Access::new(operation);
        let block = self.body(operation)?;
        let is_entry = name.is_none();
        let mut frame = Frame::new(name.unwrap_or("main"));
        let mut parameters = Vec::new();
        for (number, argument) in block.arguments.iter().enumerate() {
            let value = &self.source.values[argument.index()];
            let shape = self.parameter_shape(&access, number, &value.ty, is_entry)?;
            let name = value.location.name().or(value.name.as_deref());
            let local = frame.parameter(shape, name);
            frame.bind(*argument, local);
            parameters.push(local);
        }
        if is_entry {
            self.note_parameters(operation, &parameters, &mut frame);
        }
        let mut results = self.block(block, &mut frame)?;
        if is_entry {
            self.note_results(operation);
            self.state_result_shardings(operation, &mut results, &mut frame)?;
            self.note_layouts(&access, &parameters, &results, &frame)?;
        }
        let root = match results.as_slice() {
            [only] => *only,
            several => self.tuple(&mut frame, several)?,
        };
        self.finish_frame(frame, root)
    }

    fn body(&self, operation: &'m Operation) -> Result<&'m Block, Error> {
        let block = operation.regions.first().and_then(Region::block);
        block.ok_or_else(|| {
            Access::new(operation).error("expected a function with a body of one block")
        })
    }

    /// The shape of a parameter. In the entry's parameters, each `?` gets its own symbol.
    fn parameter_shape(
        &mut self,
        access: &Access<'_>,
        number: usize,
        ty: &Type,
        is_entry: bool,
    ) -> Result<Shape, Error> {
        let mut shape = types::shape(ty).map_err(|why| access.error(why))?;
        let Shape::Array(array) = &mut shape else {
            return Ok(shape);
        };
        for (place, dim) in array.dims.iter_mut().enumerate() {
            let (bound, is_bounded) = match dim {
                Dim::Static(_) => continue,
                Dim::Symbolic(_) => (sizes::MAX_SIZE, false),
                Dim::Bounded { bound, .. } => (*bound, true),
            };
            if !is_entry {
                return Err(access.unsupported(
                    "a function with unknown sizes is called where it cannot be inlined",
                ));
            }
            let size = self
                .builder
                .symbol(&format!("p{number}_d{place}"), 0, bound);
            *dim = match is_bounded {
                true => Dim::Bounded { bound, size },
                false => Dim::Symbolic(size),
            };
        }
        Ok(shape)
    }

    /// Lowers the operations of a block, and returns the values that its last one returns.
    fn block(&mut self, block: &'m Block, frame: &mut Frame) -> Result<Vec<Local>, Error> {
        let Some((end, operations)) = block.operations.split_last() else {
            return Err(Error::input("a block has no operation"));
        };
        for operation in operations {
            self.operation(operation, frame)
                .map_err(|error| self.place(error, operation))?;
        }
        let is_return = matches!(
            &*end.name,
            "func.return" | "stablehlo.return" | "sdy.return"
        );
        if !is_return {
            let access = Access::new(end);
            return Err(self.place(
                access.error("expected a `return` as the last operation of a block"),
                end,
            ));
        }
        let results = end.operands.iter().map(|value| self.value(frame, *value));
        let results: Result<Vec<Local>, Error> = results.collect();
        results.map_err(|error| self.place(error, end))
    }

    /// The error, with the operation's place in the input.
    fn place(&self, error: Error, operation: &Operation) -> Error {
        match &self.source.text {
            Some(text) => {
                let text = String::from_utf8_lossy(text);
                error.at_text(&text, operation.offset)
            }
            None => error.at_byte(operation.offset),
        }
    }

    /// The instruction of a value in this computation; a captured constant is duplicated.
    fn value(&mut self, frame: &mut Frame, value: ValueId) -> Result<Local, Error> {
        if let Some(local) = frame.local(value) {
            return Ok(local);
        }
        if let Some(constant) = self.constants.get(&value).copied() {
            self.operation(constant, frame)?;
            if let Some(local) = frame.local(value) {
                return Ok(local);
            }
        }
        Err(Error::unsupported(
            "the region captures a value that is not a constant: only loops, branches and functions may",
        ))
    }

    /// Finishes a computation.
    fn finish_frame(&mut self, frame: Frame, root: Local) -> Result<ComputationId, Error> {
        let first = self.builder.module().instructions.len();
        let offsets = frame.offsets();
        let computation = frame.finish(&mut self.builder, root)?;
        for (place, offset) in offsets.into_iter().enumerate() {
            let number = u32::try_from(first + place).unwrap_or(u32::MAX);
            self.offsets.insert(InstructionId::from_u32(number), offset);
        }
        Ok(computation)
    }

    fn finish(self, entry: ComputationId) -> Result<tegula_ir::Module, Error> {
        let source = self.source;
        let offsets = self.offsets;
        let assertions = self.sizes.into_guards();
        let mut module = self.builder.build_unverified(entry);
        module.sizes.guards = assertions;
        let integer = |name: &str| {
            let value = source.operation.attribute(name);
            value.and_then(Attribute::as_integer)
        };
        module.attributes.num_partitions = integer("mhlo.num_partitions").filter(|n| *n > 1);
        module.attributes.replica_count = integer("mhlo.num_replicas").filter(|n| *n > 1);
        if let Some(text) = &source.text {
            module.source = String::from_utf8_lossy(text).into();
            for (id, offset) in offsets {
                let start = u32::try_from(offset).unwrap_or(u32::MAX);
                module.instructions[id].span = Span { start, end: start };
            }
        }
        Ok(module)
    }
}

/// Whether an operation, or one inside it, takes sizes as operands or asserts something about them.
fn takes_sizes(operation: &Operation) -> bool {
    let name = &*operation.name;
    let target = operation.attribute("call_target_name");
    let target = target.and_then(Attribute::as_str).unwrap_or_default();
    let own = name.starts_with("stablehlo.dynamic_") && !is_of_known_size(name)
        || name == "stablehlo.real_dynamic_slice"
        || target == "shape_assertion"
        || target.starts_with("stablehlo.dynamic_");
    let regions = operation.regions.iter();
    let mut blocks = regions.flat_map(|region| &region.blocks);
    own || blocks.any(|block| block.operations.iter().any(takes_sizes))
}

/// Whether an operation is called dynamic because of its indices rather than its sizes.
fn is_of_known_size(name: &str) -> bool {
    matches!(
        name,
        "stablehlo.dynamic_slice" | "stablehlo.dynamic_update_slice"
    )
}

fn collect_constants<'m>(
    operation: &'m Operation,
    constants: &mut FxHashMap<ValueId, &'m Operation>,
) {
    let is_constant = match &*operation.name {
        "stablehlo.constant" | "chlo.constant" | "stablehlo.iota" => true,
        // JAX states the sharding of constants, too, between casts from VHLO's types and back.
        "sdy.sharding_constraint" | "builtin.unrealized_conversion_cast" => {
            let mut operands = operation.operands.iter();
            operands.all(|value| constants.contains_key(value))
        }
        _ => false,
    };
    if let (true, [result]) = (is_constant, operation.results.as_slice()) {
        constants.insert(*result, operation);
    }
    for region in &operation.regions {
        for block in &region.blocks {
            for nested in &block.operations {
                collect_constants(nested, constants);
            }
        }
    }
}
