//! The reader of HLO text.
//!
//! Text goes through three stages, each in files of its own:
//! - [`lexer`] and [`cursor`]: tokens, one ahead, with their places;
//! - [`syntax`], [`header`], [`shape`], [`literal`], [`values`], [`mesh`]: the grammar, by
//!   recursive descent; names are not looked up yet;
//! - [`sugar`], [`inline`], [`order`], [`build`], [`ops`], [`symbols`]: short forms are
//!   written out, computations sorted, names looked up, operations typed, missing
//!   shapes inferred.
//!
//! Input is hostile: recursion is bounded ([`cursor::MAX_DEPTH`]), nothing is
//! allocated for sizes that the text merely states, and the first error ends the
//! reading. What is read is well-formed but not yet verified.

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
/// A text without `HloModule` is read as computations, or as the instructions
/// of one computation; there, an operand that is not defined but has its shape
/// in front becomes a parameter. The module is not verified.
pub fn parse_module(text: &str) -> Result<Module, Error> {
    parse_module_with(text, &ReadOptions::default())
}

/// What stands for an array whose elements were left out of the text, from its shape and how
/// many of them came before.
pub type FillElided<'f> = &'f dyn Fn(&ArrayShape, u64) -> Result<Literal, Error>;

/// How a text is read.
#[derive(Clone, Copy, Default)]
pub struct ReadOptions<'f> {
    /// Makes up the elements of constants that a printer elided (`{...}`); without it they are
    /// an error.
    pub fill_elided: Option<FillElided<'f>>,
}

/// As [`parse_module`], with how the text is read.
pub fn parse_module_with<'a>(text: &'a str, options: &ReadOptions<'a>) -> Result<Module, Error> {
    let Read {
        name,
        attributes,
        computations,
        inline,
    } = Read::new(text, options)?;
    // The names of wrapped and inline computations live here, so the computations move
    // to where they may borrow them.
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

/// A text as read, before names are looked up.
struct Read<'a> {
    name: Option<&'a str>,
    attributes: ModuleAttributes,
    computations: Vec<RawComputation<'a>>,
    /// Those that are written in the place of their names.
    inline: Vec<RawComputation<'a>>,
}

impl<'a> Read<'a> {
    fn new(text: &'a str, options: &ReadOptions<'a>) -> Result<Self, Error> {
        let mut cursor = Cursor::with_options(text, options)?;
        if cursor.at_end() {
            // An empty text has no places, but the error shall have one.
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
/// Open sizes (`?`, `<=n`) become the variables 0, 1, ... in order.
pub fn parse_shape(text: &str) -> Result<Shape, Error> {
    let mut cursor = Cursor::new(text)?;
    let mut shape = cursor.shape()?;
    if !cursor.at_end() {
        return Err(cursor.expected("nothing after the shape"));
    }
    symbols::number_open(&mut shape, &mut 0);
    Ok(shape)
}

/// Reads a literal with its shape in front, such as `f32[2] {1, nan}`: one array,
/// or a tuple's arrays in order.
pub fn parse_literal(text: &str) -> Result<Vec<Literal>, Error> {
    let mut cursor = Cursor::new(text)?;
    let shape = cursor.shape()?;
    let literals = cursor.literal(&shape)?;
    if !cursor.at_end() {
        return Err(cursor.expected("nothing after the literal"));
    }
    Ok(literals)
}

/// Whether a module's header comes next. A computation of that name has a bracket behind it.
fn at_module(cursor: &Cursor<'_>) -> bool {
    let second = cursor.peek_second();
    cursor.peek_text() == "HloModule" && matches!(second, Some(Token::Word | Token::Name))
}

fn second_module(cursor: &Cursor<'_>) -> Error {
    cursor
        .error("a second module begins here: a text is one program")
        .with_help("cut the file in front of each `HloModule` and give one of the parts")
}

/// Whether the text begins with an instruction.
fn at_instruction(cursor: &Cursor<'_>) -> bool {
    let second = cursor.peek_second();
    match cursor.peek_text() {
        "ROOT" => second != Some(Token::BraceOpen) && second != Some(Token::ParenOpen),
        _ => matches!(second, Some(Token::Equal | Token::Colon)),
    }
}

/// Reads instructions to the end of the text, as the computation `main`.
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

/// Makes undefined operands parameters, in the order in which they are met.
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
