//! The grammar of modules, computations and instructions.
//!
//! This stage does not look up names, so computations may come in any order. [`super::build`] makes
//! a module of its result.

use super::cursor::{Cursor, Lexeme};
use super::lexer::Token;
use super::tree::*;
use crate::{Error, Literal, Opcode, Shape, Span};
use smallvec::SmallVec;

impl<'a> Cursor<'a> {
    /// Reads a computation, which begins with `ENTRY` or its name.
    pub(crate) fn computation(&mut self) -> Result<RawComputation<'a>, Error> {
        let entry = self.peek_text() == "ENTRY"
            && self.peek_second() != Some(Token::BraceOpen)
            && self.eat_word("ENTRY");
        let name = self.name("a computation's name")?;
        let program_shape = match self.peek() {
            Some(Token::ParenOpen) => Some(self.program_shape()?),
            _ => None,
        };
        let (instructions, root) = self.braced_instructions(name.span)?;
        let mut execution_thread = None;
        while self.eat(Token::Comma) {
            let attribute = self.attribute()?;
            match attribute.value {
                Value::Text(thread) if attribute.name == "execution_thread" => {
                    execution_thread = Some(thread);
                }
                _ => {
                    let message = format!("a computation has no `{}=`", attribute.name);
                    return Err(self.error_at(attribute.span, message));
                }
            }
        }
        Ok(RawComputation {
            name: name.text,
            span: name.span,
            entry,
            program_shape,
            instructions,
            root,
            execution_thread,
        })
    }

    /// Reads an inline computation: `to_apply={ ... }`. Returns its index in [`Self::inline`]; it
    /// is named later, when all other names are known.
    pub(crate) fn inline_computation(&mut self) -> Result<(usize, Span), Error> {
        let span = self.span();
        let (instructions, root) = self.nested(|cursor| cursor.braced_instructions(span))?;
        self.inline.push(RawComputation {
            name: "",
            span,
            entry: false,
            program_shape: None,
            instructions,
            root,
            execution_thread: None,
        });
        Ok((self.inline.len() - 1, span))
    }

    /// Reads `{ instruction ... }`; returns the instructions and the root's position.
    fn braced_instructions(
        &mut self,
        name: Span,
    ) -> Result<(Vec<RawInstruction<'a>>, usize), Error> {
        self.expect(Token::BraceOpen)?;
        let mut instructions = Vec::new();
        let mut root = None;
        while !self.eat(Token::BraceClose) {
            self.instruction_line(&mut instructions, &mut root)?;
        }
        match instructions.len().checked_sub(1) {
            Some(last) => Ok((instructions, root.unwrap_or(last))),
            None => Err(self.error_at(name, "this computation has no instructions")),
        }
    }

    /// Reads `(name: shape, ...) -> shape`.
    fn program_shape(&mut self) -> Result<ProgramShape, Error> {
        let mut parameters = Vec::new();
        self.list(Token::ParenOpen, Token::ParenClose, |cursor| {
            cursor.name("a parameter's name")?;
            cursor.expect(Token::Colon)?;
            parameters.push(cursor.shape()?);
            Ok(())
        })?;
        self.expect(Token::Arrow)?;
        Ok((parameters, self.shape()?))
    }

    /// Reads `[ROOT] name = ...` and appends it, after the instructions nested in it.
    pub(crate) fn instruction_line(
        &mut self,
        instructions: &mut Vec<RawInstruction<'a>>,
        root: &mut Option<usize>,
    ) -> Result<(), Error> {
        let start = self.span();
        let is_root = self.peek_text() == "ROOT"
            && self.peek_second() != Some(Token::Equal)
            && self.eat_word("ROOT");
        let name = self.name("an instruction or `}`")?;
        // Some tools write a colon after the name.
        self.eat(Token::Colon);
        self.expect(Token::Equal)?;
        let shape = if self.at_shape() {
            Some(self.shape()?)
        } else {
            None
        };
        let mut instruction = self.operation(start, shape, instructions, true)?;
        instruction.name = Some(name.text);
        if is_root && root.replace(instructions.len()).is_some() {
            return Err(self.error_at(start, "this computation already has a ROOT"));
        }
        instructions.push(instruction);
        Ok(())
    }

    /// Reads `opcode(operands), attribute=value, ...`.
    ///
    /// A nested instruction has no attributes, because after a comma they would be read as the next
    /// operands of the outer instruction.
    fn operation(
        &mut self,
        start: Span,
        shape: Option<Shape>,
        instructions: &mut Vec<RawInstruction<'a>>,
        with_attributes: bool,
    ) -> Result<RawInstruction<'a>, Error> {
        let word = self.word("an operation")?;
        let opcode = self.opcode(word)?;
        let mut operands = SmallVec::new();
        let mut payload = Payload::None;
        match opcode {
            RawOpcode::Plain(Opcode::Parameter) => {
                self.expect(Token::ParenOpen)?;
                payload = Payload::Parameter(self.int()?);
                self.expect(Token::ParenClose)?;
            }
            RawOpcode::Plain(Opcode::Constant) => {
                let shape = shape.as_ref();
                match self.splat(word, shape)? {
                    Some(splat) => return self.broadcast(start, splat, shape, instructions),
                    None => payload = Payload::Constant(self.constant(word, shape)?),
                }
            }
            _ => self.list(Token::ParenOpen, Token::ParenClose, |cursor| {
                operands.push(cursor.operand(instructions)?);
                Ok(())
            })?,
        }
        let mut attributes: Vec<Attribute<'a>> = Vec::new();
        if with_attributes {
            self.attributes(&mut attributes)?;
        }
        Ok(RawInstruction {
            name: None,
            span: self.span_since(start),
            shape,
            opcode,
            operands,
            payload,
            attributes,
        })
    }

    fn opcode(&self, word: Lexeme<'a>) -> Result<RawOpcode, Error> {
        let sugar = |suffix: &str| {
            let base = word.text.strip_suffix(suffix)?;
            Opcode::from_name(base)
        };
        if let Some(opcode) = Opcode::from_name(word.text) {
            return Ok(RawOpcode::Plain(opcode));
        }
        if let Some(opcode) = sugar("-start") {
            return Ok(RawOpcode::Start(opcode));
        }
        if sugar("-update").is_some() {
            return Ok(RawOpcode::Update);
        }
        if sugar("-done").is_some() {
            return Ok(RawOpcode::Done);
        }
        let name = super::cursor::shortened(word.text);
        Err(self.error_at(word.span, format!("`{name}` is not an operation")))
    }

    fn constant(&mut self, word: Lexeme<'a>, shape: Option<&Shape>) -> Result<Vec<Literal>, Error> {
        let Some(shape) = shape else {
            return Err(self.error_at(word.span, "the shape of a constant must be written"));
        };
        self.expect(Token::ParenOpen)?;
        let literals = self.literal(shape)?;
        self.expect(Token::ParenClose)?;
        Ok(literals)
    }

    /// Reads the single number that XLA's own tests may write for an array constant: `s8[10]
    /// constant(1)`. `None` if the constant has another form.
    fn splat(
        &mut self,
        word: Lexeme<'a>,
        shape: Option<&Shape>,
    ) -> Result<Option<RawInstruction<'a>>, Error> {
        let array = shape.and_then(Shape::as_array);
        let Some(array) = array.filter(|array| array.rank() > 0) else {
            return Ok(None);
        };
        let begins_number = |token| match token {
            Token::Int | Token::Decimal | Token::Word => true,
            Token::ParenOpen => array.element_type.is_complex(),
            _ => false,
        };
        let is_number =
            self.peek() == Some(Token::ParenOpen) && self.peek_second().is_some_and(begins_number);
        if !is_number {
            return Ok(None);
        }
        let scalar = Shape::array(array.element_type, &[]);
        let payload = Payload::Constant(self.constant(word, Some(&scalar))?);
        Ok(Some(RawInstruction {
            name: None,
            span: self.span_since(word.span),
            shape: Some(scalar),
            opcode: RawOpcode::Plain(Opcode::Constant),
            operands: SmallVec::new(),
            payload,
            attributes: Vec::new(),
        }))
    }

    /// A broadcast of a number to a constant's shape, which takes memory only for the number that
    /// is written.
    fn broadcast(
        &mut self,
        start: Span,
        scalar: RawInstruction<'a>,
        shape: Option<&Shape>,
        instructions: &mut Vec<RawInstruction<'a>>,
    ) -> Result<RawInstruction<'a>, Error> {
        let span = self.span_since(start);
        instructions.push(scalar);
        let mut attributes = vec![Attribute {
            name: "dimensions",
            span,
            value: Value::Ints(crate::DimNumbers::new()),
            text: "{}",
        }];
        self.attributes(&mut attributes)?;
        Ok(RawInstruction {
            name: None,
            span: self.span_since(start),
            shape: shape.cloned(),
            opcode: RawOpcode::Plain(Opcode::Broadcast),
            operands: SmallVec::from_iter([RawOperand {
                source: OperandSource::Nested(instructions.len() - 1),
                span,
                shape: None,
                elements: SmallVec::new(),
            }]),
            payload: Payload::None,
            attributes,
        })
    }

    /// Reads `, attribute=value, ...`.
    fn attributes(&mut self, attributes: &mut Vec<Attribute<'a>>) -> Result<(), Error> {
        while self.eat(Token::Comma) {
            let attribute = self.attribute()?;
            if attributes.iter().any(|other| other.name == attribute.name) {
                let message = format!("`{}` is specified twice", attribute.name);
                return Err(self.error_at(attribute.span, message));
            }
            attributes.push(attribute);
        }
        Ok(())
    }

    fn operand(
        &mut self,
        instructions: &mut Vec<RawInstruction<'a>>,
    ) -> Result<RawOperand<'a>, Error> {
        let span = self.span();
        let shape = if self.at_shape() {
            Some(self.shape()?)
        } else {
            None
        };
        let nested =
            self.peek() == Some(Token::Word) && self.peek_second() == Some(Token::ParenOpen);
        let source = if nested {
            let instruction =
                self.nested(|cursor| cursor.operation(span, shape.clone(), instructions, false))?;
            instructions.push(instruction);
            OperandSource::Nested(instructions.len() - 1)
        } else {
            OperandSource::Name(self.name("an operand")?.text)
        };
        let mut elements = SmallVec::new();
        while self.eat(Token::Hash) {
            elements.push(self.int()?);
        }
        Ok(RawOperand {
            source,
            span: self.span_since(span),
            shape,
            elements,
        })
    }
}
