//! The reader of HLO text.
//!
//! Reading has three stages, each in its own files:
//! - [`lexer`] and [`cursor`]: tokens with their places, and one token of lookahead;
//! - [`syntax`], [`header`], [`shape`], [`literal`], [`values`], [`mesh`]: a recursive-descent
//!   parser, which does not look up names;
//! - [`sugar`], [`inline`], [`order`], [`build`], [`ops`], [`symbols`]: expansion of short forms,
//!   sorting of computations, lookup of names, typed operations, inference of missing shapes.
//!
//! Input is untrusted: recursion is bounded ([`cursor::MAX_DEPTH`]), sizes that the text merely
//! states allocate nothing, and reading ends at the first error. The result is well-formed but not
//! yet verified.

mod build;
mod cursor;
mod header;
mod inline;
mod lexer;
mod literal;
mod mesh;
mod ops;
mod order;
mod scope;
mod shape;
pub(crate) mod strings;
mod sugar;
mod symbols;
mod syntax;
mod tree;
mod values;

use crate::{ArrayShape, Error, Literal, Module, ModuleAttributes, Shape, Span};
use cursor::Cursor;
use lexer::Token;
use smallvec::SmallVec;
pub(crate) use symbols::MAX_SIZE;
use tree::{OperandSource, Payload, RawComputation, RawInstruction, RawOpcode};

/// Reads a module.
///
/// A text without `HloModule` is read as a list of computations, or else as the instructions of one
/// computation; in the latter, an undefined operand with its shape in front becomes a parameter.
/// The module is not verified.
pub fn parse_module(text: &str) -> Result<Module, Error> {
    parse_module_with(text, &ReadOptions::default())
}

/// Makes an array whose elements were left out of the text, from its shape and the number of such
/// arrays before it.
pub type FillElided<'f> = &'f dyn Fn(&ArrayShape, u64) -> Result<Literal, Error>;

/// Options of the reader.
#[derive(Clone, Copy, Default)]
pub struct ReadOptions<'f> {
    /// Makes the elements of constants that a printer abbreviated to `{...}`. Without it, such
    /// constants are an error.
    pub fill_elided: Option<FillElided<'f>>,
}

/// As [`parse_module`], with options.
pub fn parse_module_with<'a>(text: &'a str, options: &ReadOptions<'a>) -> Result<Module, Error> {
    let Read {
        name,
        attributes,
        computations,
        inline,
    } = Read::new(text, options)?;
    // The names of expanded and inline computations are owned here, and the computations are moved
    // to a variable that may borrow them.
    let names = inline::names(&computations, inline.len());
    let mut computations = computations;
    inline::expand(&mut computations, inline, &names);
    let names = sugar::wrapped_names(&computations);
    let mut computations = computations;
    if !names.is_empty() {
        sugar::expand(text, &mut computations, &names)?;
    }
    let first = computations.last().map_or("module", |last| last.name);
    build::build_module(text, name.unwrap_or(first), attributes, computations)
}

/// The syntax tree of a text.
struct Read<'a> {
    name: Option<&'a str>,
    attributes: ModuleAttributes,
    computations: Vec<RawComputation<'a>>,
    /// The inline computations.
    inline: Vec<RawComputation<'a>>,
}

impl<'a> Read<'a> {
    fn new(text: &'a str, options: &ReadOptions<'a>) -> Result<Self, Error> {
        let mut cursor = Cursor::with_options(text, options)?;
        if cursor.at_end() {
            // An empty text has no position for the error, so a line break stands in for it.
            return Err(Error::input("the text is empty").at("\n", Span::default()));
        }
        let mut name = None;
        let mut attributes = ModuleAttributes::default();
        if cursor.eat_word("HloModule") {
            let header = cursor.module_header()?;
            (name, attributes) = (Some(header.0), header.1);
        }
        let mut computations = Vec::new();
        if name.is_none() && at_instruction(&cursor) {
            computations.push(bare_instructions(&mut cursor)?);
        }
        while !cursor.at_end() {
            if cursor.at_stack_frames() {
                cursor.stack_frames(&mut attributes)?;
            } else if at_module(&cursor) {
                return Err(second_module(&cursor));
            } else {
                computations.push(cursor.computation()?);
            }
        }
        Ok(Self {
            name,
            attributes,
            computations,
            inline: cursor.inline,
        })
    }
}

/// Reads a shape such as `(f32[2,?]{1,0:T(8,128)}, s32[])`.
///
/// Open sizes (`?`, `<=n`) become the variables 0, 1, ... in their order.
pub fn parse_shape(text: &str) -> Result<Shape, Error> {
    let mut cursor = Cursor::new(text)?;
    let mut shape = cursor.shape()?;
    if !cursor.at_end() {
        return Err(cursor.expected("nothing after the shape"));
    }
    symbols::number_open(&mut shape, &mut 0);
    Ok(shape)
}

/// Reads a literal that begins with its shape, such as `f32[2] {1, nan}`. Returns one array, or the
/// arrays of a tuple in order.
pub fn parse_literal(text: &str) -> Result<Vec<Literal>, Error> {
    let mut cursor = Cursor::new(text)?;
    let shape = cursor.shape()?;
    let literals = cursor.literal(&shape)?;
    if !cursor.at_end() {
        return Err(cursor.expected("nothing after the literal"));
    }
    Ok(literals)
}

/// Whether a module's header comes next. A computation called `HloModule` would be followed by a
/// bracket.
fn at_module(cursor: &Cursor<'_>) -> bool {
    let second = cursor.peek_second();
    cursor.peek_text() == "HloModule" && matches!(second, Some(Token::Word | Token::Name))
}

fn second_module(cursor: &Cursor<'_>) -> Error {
    cursor
        .error("a second module begins here: expected one program")
        .with_help("split the file before each `HloModule`, and pass one of the parts")
}

/// Whether an instruction comes next.
fn at_instruction(cursor: &Cursor<'_>) -> bool {
    let second = cursor.peek_second();
    match cursor.peek_text() {
        "ROOT" => second != Some(Token::BraceOpen) && second != Some(Token::ParenOpen),
        _ => matches!(second, Some(Token::Equal | Token::Colon)),
    }
}

/// Reads instructions up to the end of the text, as a computation `main`.
fn bare_instructions<'a>(cursor: &mut Cursor<'a>) -> Result<RawComputation<'a>, Error> {
    let mut instructions = Vec::new();
    let mut root = None;
    while !cursor.at_end() {
        cursor.instruction_line(&mut instructions, &mut root)?;
    }
    let root = root.unwrap_or(instructions.len().saturating_sub(1));
    let mut computation = RawComputation {
        name: "main",
        span: Span::default(),
        entry: true,
        program_shape: None,
        instructions,
        root,
        execution_thread: None,
    };
    declare_parameters(&mut computation);
    Ok(computation)
}

/// Declares undefined operands as parameters, in the order of their first use.
fn declare_parameters(computation: &mut RawComputation<'_>) {
    let mut known: rustc_hash::FxHashSet<&str> = computation
        .instructions
        .iter()
        .filter_map(|i| i.name)
        .collect();
    let is_parameter = |i: &&RawInstruction<'_>| matches!(i.payload, Payload::Parameter(_));
    let mut number = computation.instructions.iter().filter(is_parameter).count() as i64;
    let mut parameters = Vec::new();
    for operand in computation.instructions.iter().flat_map(|i| &i.operands) {
        let (OperandSource::Name(name), Some(shape)) = (operand.source, &operand.shape) else {
            continue;
        };
        if known.insert(name) {
            parameters.push(RawInstruction {
                name: Some(name),
                span: operand.span,
                shape: Some(shape.clone()),
                opcode: RawOpcode::Plain(crate::Opcode::Parameter),
                operands: SmallVec::new(),
                payload: Payload::Parameter(number),
                attributes: Vec::new(),
            });
            number += 1;
        }
    }
    let added = parameters.len();
    for instruction in &mut computation.instructions {
        for operand in &mut instruction.operands {
            if let OperandSource::Nested(position) = &mut operand.source {
                *position += added;
            }
        }
    }
    computation.root += added;
    computation.instructions.splice(0..0, parameters);
}
