//! The intermediate representation: HLO modules as data.
//!
//! A [`Module`] holds [`Computation`]s of [`Instruction`]s. An instruction has an [`Op`] with typed
//! attributes, its operands and its [`Shape`]. The entry points are:
//! - [`parse_module`] and [`print_module`] read and print HLO text in XLA's form;
//! - [`ModuleBuilder`] builds modules in Rust code;
//! - [`verify`] checks that a module is well-formed; its documentation lists the invariants that
//!   other crates rely on;
//! - [`infer_shape`] and [`shape_of`] compute the shape of an operation's result, the latter with
//!   sizes from any [`tegula_expr::Provider`];
//! - [`Literal`], [`Scalar`] and [`FloatFormat`] are constant arrays, their elements, and the bits
//!   of floating-point numbers.
//!
//! This crate does not evaluate, optimise or lower anything, and it does not compute with layouts,
//! which are only data here.
//!
//! # Invariants
//! - The reader never panics, and it allocates in proportion to the text, whatever sizes the text
//!   states.
//! - Printing and reading are inverses: neither order of the two changes anything.
//! - An error has a kind ([`ErrorKind`]): an invalid program, an exceeded limit, or a bug in this
//!   crate. If the program is text, the error has its place as well.

mod annotations;
mod arity;
mod attribute_names;
mod attributes;
mod builder;
mod element_type;
mod error;
mod float_format;
pub mod helpers;
mod lapack;
mod layout;
mod literal;
mod memory;
mod module;
mod native;
mod op;
mod opcode;
mod pass;
mod print;
mod scalar;
mod shape;
mod shape_functions;
mod sizes;
mod text;
mod verify;

pub use annotations::{
    AliasKind, Annotations, InputOutputAlias, Metadata, ModuleAttributes, NumberedFields,
    StackFrames,
};
pub use attributes::*;
pub use builder::{ComputationBuilder, Draft, DraftId, ModuleBuilder};
pub use element_type::{Category, ElementType};
pub use error::{Error, ErrorKind, VerifierErrors};
pub use float_format::{FloatFormat, Specials};
pub use lapack::{Lapack, lapack_flag, lapack_integer, lapack_option, lapack_target};
pub use layout::{Layout, SplitConfig, Tile, TileDim};
pub use literal::{Literal, LiteralError, MAX_LITERAL_BYTES};
pub use memory::{ALIGNMENT, AlignedBytes, BufferPool};
pub use module::{
    Computation, ComputationId, Instruction, InstructionId, Module, RequiredValue, Span, Symbol,
};
pub use native::NativeType;
pub use op::*;
pub use opcode::Opcode;
pub use pass::PassManager;
pub use print::{PrintStyle, identity, print_instruction, print_module, shortest_float};
pub use scalar::Scalar;
pub use shape::{ArrayShape, Dim, Dims, Shape};
pub use shape_functions::{ShapeOf, infer_shape, shape_of};
pub use sizes::{
    Derivation, Guard, GuardMessage, RunTimeSizes, SizeSource, derive_sizes, display_shape,
    display_term, infer_symbolic_dims, is_size_computation,
};
pub use text::{
    FillElided, ReadOptions, parse_literal, parse_module, parse_module_with, parse_shape,
};
pub use verify::verify;
