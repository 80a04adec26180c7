//! Builders of modules, for importers and generators.
//!
//! Computations are built one after the other, callees before callers. Shape functions compute the
//! shapes, and a wrong operand is reported where it is added.
//!
//! ```
//! use tegula_ir::{Binary, ElementType, ModuleBuilder, Shape};
//!
//! let mut builder = ModuleBuilder::new("axpy");
//! let mut main = builder.computation("main");
//! let a = main.parameter(Shape::array(ElementType::F32, &[]));
//! let x = main.parameter(Shape::array(ElementType::F32, &[8]));
//! let y = main.parameter(Shape::array(ElementType::F32, &[8]));
//! let a = main.broadcast(a, &[8], &[])?;
//! let ax = main.binary(Binary::Multiply, a, x)?;
//! let sum = main.binary(Binary::Add, ax, y)?;
//! let entry = main.finish(sum)?;
//! let module = builder.build(entry)?;
//! assert_eq!(module[module[entry].root].shape.to_string(), "f32[8]");
//! # Ok::<(), tegula_ir::Error>(())
//! ```

mod draft;
mod operations;

pub use draft::{Draft, DraftId};

use crate::{
    Annotations, Computation, ComputationId, Error, Instruction, InstructionId, Module,
    ModuleAttributes, Op, Shape, Span, Symbol, VerifierErrors, infer_shape, verify,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;
use tegula_arena::{Arena, EntityRef};
use tegula_expr::{Term, Var};

/// Builds a module, computation by computation.
#[derive(Debug)]
pub struct ModuleBuilder {
    module: Module,
    names: Names,
}

impl ModuleBuilder {
    /// An empty module. Wherever the builder is given a name, characters that HLO text does not
    /// allow in names are replaced by `_`.
    pub fn new(name: &str) -> Self {
        Self {
            module: Module {
                name: valid_name(name).into(),
                attributes: ModuleAttributes::default(),
                instructions: Arena::new(),
                computations: Arena::new(),
                entry: ComputationId::from_u32(0),
                symbols: Vec::new(),
                sizes: crate::RunTimeSizes::default(),
                required: Vec::new(),
                source: "".into(),
            },
            names: Names::default(),
        }
    }

    /// A builder that adds computations to an existing module.
    pub fn extend(module: Module) -> Self {
        let names = module
            .computations
            .values()
            .map(|c| (Arc::clone(&c.name), 1));
        let names = names.collect();
        Self { module, names }
    }

    /// Begins a computation. If the name is taken, a number is appended to it.
    pub fn computation(&mut self, name: &str) -> ComputationBuilder<'_> {
        let name = unique_name(&mut self.names, name);
        ComputationBuilder {
            base: self.module.instructions.len(),
            id: self.module.computations.next_key(),
            module: &mut self.module,
            name,
            instructions: Vec::new(),
            parameters: Vec::new(),
            names: Names::default(),
            execution_thread: None,
        }
    }

    /// A new symbol for sizes, with the smallest and the largest value it may have.
    pub fn symbol(&mut self, name: &str, lower: i64, upper: i64) -> Term {
        let number = u32::try_from(self.module.symbols.len()).unwrap_or(u32::MAX);
        self.module.symbols.push(Symbol {
            name: name.into(),
            lower,
            upper,
        });
        Term::var(Var(number))
    }

    /// The attributes of the module's header, for writing.
    pub fn attributes_mut(&mut self) -> &mut ModuleAttributes {
        &mut self.module.attributes
    }

    /// The module as built so far.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The finished module, verified.
    ///
    /// # Errors
    /// The violations that the verifier finds.
    pub fn build(self, entry: ComputationId) -> Result<Module, VerifierErrors> {
        let module = self.build_unverified(entry);
        verify(&module)?;
        Ok(module)
    }

    /// The finished module, not verified.
    pub fn build_unverified(self, entry: ComputationId) -> Module {
        Module {
            entry,
            ..self.module
        }
    }
}

/// Builds one computation. Nothing is added to the module before
/// [`finish`](Self::finish).
#[derive(Debug)]
pub struct ComputationBuilder<'b> {
    module: &'b mut Module,
    id: ComputationId,
    /// The number of instructions of the module before this computation.
    base: usize,
    name: Arc<str>,
    instructions: Vec<Instruction>,
    parameters: Vec<InstructionId>,
    names: Names,
    execution_thread: Option<Arc<str>>,
}

impl ComputationBuilder<'_> {
    fn get(&self, id: InstructionId) -> Result<&Instruction, Error> {
        let place = id.index().checked_sub(self.base);
        let found = place.and_then(|place| self.instructions.get(place));
        found.ok_or_else(|| {
            Error::input(format!(
                "{id} does not belong to the computation `{}`",
                self.name
            ))
        })
    }

    /// The shape of an instruction of this computation.
    pub fn shape(&self, id: InstructionId) -> Result<&Shape, Error> {
        Ok(&self.get(id)?.shape)
    }

    /// The annotations of an instruction, such as sharding and metadata, for writing.
    pub fn annotations_mut(&mut self, id: InstructionId) -> Result<&mut Annotations, Error> {
        self.get(id)?;
        let found = self.instructions.get_mut(id.index() - self.base);
        let found =
            found.ok_or_else(|| Error::bug("an instruction of the draft does not exist"))?;
        Ok(found.annotations.get_or_insert_default())
    }

    /// Appends an operation, with the shape that its shape function computes.
    ///
    /// Fails if the operands do not suit the operation, or do not determine its shape.
    pub fn push(&mut self, op: Op, operands: &[InstructionId]) -> Result<InstructionId, Error> {
        self.push_named(None, op, operands, None)
    }

    /// Appends an operation with this shape.
    ///
    /// Fails if the operands do not suit the operation. The verifier checks the shape later.
    pub fn push_with_shape(
        &mut self,
        op: Op,
        operands: &[InstructionId],
        shape: Shape,
    ) -> Result<InstructionId, Error> {
        self.push_named(None, op, operands, Some(shape))
    }

    /// Appends an operation with a name and a shape, both optional. Without a name it is named
    /// after its opcode; if the name is taken, a number is appended.
    pub fn push_named(
        &mut self,
        name: Option<&str>,
        op: Op,
        operands: &[InstructionId],
        shape: Option<Shape>,
    ) -> Result<InstructionId, Error> {
        let shapes: Result<SmallVec<[&Shape; 4]>, Error> = operands
            .iter()
            .map(|&operand| self.shape(operand))
            .collect();
        for callee in op.called_computations() {
            if self.module.computations.get(callee).is_none() {
                return Err(Error::input(format!("{callee} is not finished yet")));
            }
        }
        let inferred = infer_shape(self.module, &op, &shapes?, shape.as_ref())?;
        let shape = shape.unwrap_or(inferred);
        let id = InstructionId::new(self.base + self.instructions.len());
        let name = match name {
            Some(name) => unique_name(&mut self.names, name),
            None => {
                let name = format!("{}.{}", op.opcode(), self.instructions.len());
                unique_name(&mut self.names, &name)
            }
        };
        self.instructions.push(Instruction {
            name,
            op,
            operands: operands.into(),
            shape,
            computation: self.id,
            span: Span::default(),
            annotations: None,
        });
        Ok(id)
    }

    /// Appends the next parameter.
    pub fn parameter(&mut self, shape: Shape) -> InstructionId {
        let name = format!("p{}", self.parameters.len());
        self.named_parameter(&name, shape)
    }

    /// Appends the next parameter under a name.
    pub fn named_parameter(&mut self, name: &str, shape: Shape) -> InstructionId {
        let number = u32::try_from(self.parameters.len()).unwrap_or(u32::MAX);
        let id = InstructionId::new(self.base + self.instructions.len());
        let name = unique_name(&mut self.names, name);
        self.instructions.push(Instruction {
            name,
            op: Op::Parameter(number),
            operands: SmallVec::new(),
            shape,
            computation: self.id,
            span: Span::default(),
            annotations: None,
        });
        self.parameters.push(id);
        id
    }

    /// Sets `execution_thread=` of the computation.
    pub fn set_execution_thread(&mut self, thread: &str) {
        self.execution_thread = Some(thread.into());
    }

    /// Adds the computation to the module, with this instruction as its root.
    pub fn finish(self, root: InstructionId) -> Result<ComputationId, Error> {
        self.get(root)?;
        let first = self.base;
        let count = self.instructions.len();
        for instruction in self.instructions {
            self.module.instructions.push(instruction);
        }
        Ok(self.module.computations.push(Computation {
            name: self.name,
            instructions: (first..first + count).map(InstructionId::new).collect(),
            parameters: self.parameters,
            root,
            execution_thread: self.execution_thread,
            span: Span::default(),
        }))
    }
}

/// The name, with each character that HLO text does not allow in names replaced by `_`.
fn valid_name(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let mut valid: String = name
        .chars()
        .map(|c| if allowed(c) { c } else { '_' })
        .collect();
    if !valid.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        valid.insert(0, '_');
    }
    valid
}

/// The names in use, each with the next number to append when the name is used again.
type Names = FxHashMap<Arc<str>, u32>;

fn unique_name(names: &mut Names, name: &str) -> Arc<str> {
    let name = valid_name(name);
    let Some(next) = names.get(name.as_str()).copied() else {
        let name: Arc<str> = name.into();
        names.insert(Arc::clone(&name), 1);
        return name;
    };
    let mut number = next;
    loop {
        let candidate: Arc<str> = format!("{name}.{number}").into();
        number = number.saturating_add(1);
        if !names.contains_key(&candidate) {
            names.insert(name.into(), number);
            names.insert(Arc::clone(&candidate), 1);
            return candidate;
        }
    }
}
