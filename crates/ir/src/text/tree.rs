//! The syntax tree: computations, instructions, operands and attributes as read. Names are not
//! looked up yet.

use crate::{
    ConvDims, DimNumbers, Literal, Metadata, Opcode, PadDim, Precision, ReplicaGroups, Shape,
    SliceDim, Span, WindowDim,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// An operand as read.
#[derive(Clone, Debug)]
pub(crate) struct RawOperand<'a> {
    pub(crate) source: OperandSource<'a>,
    pub(crate) span: Span,
    /// The shape written before the operand, if any.
    pub(crate) shape: Option<Shape>,
    /// `#i`: indices of the tuple elements that are taken, one after the other.
    pub(crate) elements: SmallVec<[i64; 1]>,
}

/// The source of an operand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OperandSource<'a> {
    Name(&'a str),
    /// An instruction nested in the operand list: its position among the computation's
    /// instructions.
    Nested(usize),
}

/// An opcode, or the start, update or done form of its asynchronous version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RawOpcode {
    Plain(Opcode),
    Start(Opcode),
    Update,
    Done,
}

/// The content of an instruction's parentheses, if it is not operands.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    None,
    Parameter(i64),
    Constant(Vec<Literal>),
}

/// An instruction as read.
#[derive(Clone, Debug)]
pub(crate) struct RawInstruction<'a> {
    /// Nested instructions have no name.
    pub(crate) name: Option<&'a str>,
    pub(crate) span: Span,
    pub(crate) shape: Option<Shape>,
    pub(crate) opcode: RawOpcode,
    pub(crate) operands: SmallVec<[RawOperand<'a>; 3]>,
    pub(crate) payload: Payload,
    pub(crate) attributes: Vec<Attribute<'a>>,
}

/// The parameters and the result in a computation's header.
pub(crate) type ProgramShape = (Vec<Shape>, Shape);

/// A computation as read.
#[derive(Clone, Debug)]
pub(crate) struct RawComputation<'a> {
    pub(crate) name: &'a str,
    pub(crate) span: Span,
    pub(crate) entry: bool,
    pub(crate) program_shape: Option<ProgramShape>,
    pub(crate) instructions: Vec<RawInstruction<'a>>,
    /// The position of the root among the instructions.
    pub(crate) root: usize,
    pub(crate) execution_thread: Option<String>,
}

/// An index into nested tuples.
pub(crate) type TupleIndex = Vec<i64>;

/// A list of named values, as written.
pub(crate) type Pairs = Vec<(Arc<str>, Arc<str>)>;

/// A name and its place in the text.
pub(crate) type Named<'a> = (&'a str, Span);

/// A called computation: its name, or its index among the inline computations.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Callee<'a> {
    Named(Named<'a>),
    Inline(usize, Span),
}

/// The value of an attribute, as read.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Int(i64),
    Bool(bool),
    Float(f64),
    Text(String),
    Ints(DimNumbers),
    Names(Vec<Named<'a>>),
    /// Called computations, some of which are written inline.
    Inline(Vec<Callee<'a>>),
    Window(Vec<WindowDim>),
    ConvDims(Box<ConvDims>),
    Padding(Vec<PadDim>),
    Slices(Vec<SliceDim>),
    Precisions(Vec<Precision>),
    Groups(ReplicaGroups),
    Pairs(Vec<(i64, i64)>),
    Shapes(Vec<Shape>),
    Aliases(Vec<(TupleIndex, i64, TupleIndex)>),
    Metadata(Box<Metadata>),
    Attributes(Pairs),
    Raw,
}

/// An attribute as read.
#[derive(Clone, Debug)]
pub(crate) struct Attribute<'a> {
    pub(crate) name: &'a str,
    pub(crate) span: Span,
    pub(crate) value: Value<'a>,
    /// The value's text.
    pub(crate) text: &'a str,
}
