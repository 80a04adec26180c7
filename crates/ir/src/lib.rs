//! The intermediate representation: HLO modules as data.
//!
//! It holds element types, shapes, layouts as data, literals, modules with typed
//! attributes, the HLO text reader and printer, one shape function per opcode,
//! and the verifier. It does not evaluate, optimise or lower anything.

mod annotations;
mod arity;
mod attribute_names;
mod attributes;
mod element_type;
mod error;
mod float_format;
mod layout;
mod literal;
mod module;
mod native;
mod op;
mod opcode;
mod print;
mod scalar;
mod shape;
mod shape_functions;
mod text;
mod verify;

pub use annotations::{
    AliasKind, Annotations, InputOutputAlias, Metadata, ModuleAttributes, NumberedFields,
    StackFrames,
};
pub use attributes::*;
pub use element_type::{Category, ElementType};
pub use error::{Error, Fault};
pub use float_format::{FloatFormat, Specials};
pub use layout::{Layout, SplitConfig, Tile, TileDim};
pub use literal::{ALIGNMENT, AlignedBytes, Literal, LiteralError, MAX_LITERAL_BYTES};
pub use module::{Computation, ComputationId, Instruction, InstructionId, Module, Span, Symbol};
pub use native::NativeType;
pub use op::*;
pub use opcode::Opcode;
pub use print::{PrintStyle, print_instruction, print_module};
pub use scalar::Scalar;
pub use shape::{ArrayShape, Dim, Dims, Shape};
pub use shape_functions::{ShapeOf, infer_shape, shape_of};
pub use text::{parse_literal, parse_module, parse_shape};
pub use verify::verify;
