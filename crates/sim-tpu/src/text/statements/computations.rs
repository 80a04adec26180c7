//! The parser for operations, which turns them into HLO.
//!
//! A statement `DST = op(operands), attributes` becomes the text of a module with one instruction
//! whose parameters have the slices' shapes; the HLO parser and verifier report errors in it.
//! Numbers without a type take the type of the operand that they are combined with, and scalars are
//! broadcast where an elementwise operation needs an array.

use super::Reader;
use crate::program::{Operand, Slice};
use crate::text::cursor::{Cursor, Read};
use crate::text::hlo_forms::{ENTRY, combiner, is_elementwise, literal_type};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt::Write;
use std::sync::Arc;
use tegula_ir::{
    ArrayShape, Binary, ElementType, Error, Module, Opcode, parse_literal, parse_module, verify,
};

/// The computations in HLO text that statements refer to.
#[derive(Default)]
pub(in crate::text) struct Computations {
    /// The text of each computation, with its name and braces.
    texts: FxHashMap<String, String>,
    /// The modules that were parsed, by their text.
    modules: FxHashMap<String, Arc<Module>>,
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    text.split(move |c| !is_part(c)).filter(|w| !w.is_empty())
}

impl Computations {
    /// Parses `NAME { ... }` after `computation`.
    pub(in crate::text) fn read(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
        cursor.space();
        let start = cursor.at;
        let end = cursor.piece_end(&["{", " ", "\n"], false);
        let name = cursor.text.get(start..end).unwrap_or("").trim();
        cursor.at = end;
        if name.is_empty() || name.starts_with('{') {
            return Err(cursor.error_at(start, start + 1, "expected the name of a computation"));
        }
        let body = cursor.bracketed("{")?;
        if self.texts.contains_key(name) {
            let message = format!("the computation `{name}` is already defined");
            return Err(cursor.error_at(start, end, message));
        }
        self.texts
            .insert(name.to_owned(), format!("{name} {body}\n"));
        Ok(())
    }

    /// The text of every computation that the attributes refer to, directly or through others,
    /// callees first.
    fn needed(&self, attributes: &str, element_type: ElementType) -> String {
        let mut seen: FxHashSet<&str> = FxHashSet::default();
        let mut texts = Vec::new();
        let mut open: Vec<&str> = words(attributes).collect();
        while let Some(word) = open.pop() {
            if let Some(text) = self.texts.get(word)
                && seen.insert(word)
            {
                texts.push(text.clone());
                open.extend(words(text).filter(|w| self.texts.contains_key(*w)));
            }
        }
        for key in ["to_apply=", "scatter="] {
            let Some((_, rest)) = attributes.split_once(key) else {
                continue;
            };
            let word = words(rest).next().unwrap_or("");
            if !self.texts.contains_key(word) && binary(word).is_some() && seen.insert(word) {
                texts.push(combiner(word, element_type));
            }
        }
        texts.reverse();
        texts.join("\n")
    }
}

fn binary(name: &str) -> Option<Binary> {
    Opcode::from_name(name).and_then(Binary::from_opcode)
}

/// A parsed operand.
enum Given {
    Slice(Slice, ArrayShape),
    Typed(tegula_ir::Literal),
    Number(String, usize),
}

impl Reader<'_> {
    /// Parses `op(operands), attributes`.
    pub(in crate::text) fn operation(
        &mut self,
        destinations: &[Slice],
    ) -> Read<(Arc<Module>, Vec<Operand>)> {
        self.cursor.space();
        let start = self.cursor.at;
        let end = self.cursor.piece_end(&["("], true);
        let name = self.cursor.text.get(start..end).unwrap_or("").trim();
        let opcode = Opcode::from_name(name)
            .filter(|opcode| !matches!(opcode, Opcode::Parameter | Opcode::Constant));
        let Some(opcode) = opcode else {
            let message = format!("`{name}` is not an operation");
            return Err(self.cursor.error_at(start, end.max(start + 1), message));
        };
        self.cursor.at = end;
        let given = self.given()?;
        let attributes = self.attributes()?;
        let wrong = |error: &Error, cursor: &Cursor<'_>| {
            let help = error.help().map(|h| format!(" ({h})")).unwrap_or_default();
            let message = error.message().trim_start_matches("`r`: ");
            cursor.error_at(start, end, format!("{message}{help}"))
        };
        let mut results = Vec::new();
        for slice in destinations {
            let shape = slice.shape(&self.program);
            results.push(shape.ok_or_else(|| {
                self.cursor
                    .error_at(start, end, "the destination has no fixed shape")
            })?);
        }
        let result_type = results.first().map_or(ElementType::F32, |s| s.element_type);
        let types: Vec<Option<ElementType>> = given
            .iter()
            .map(|given| match given {
                Given::Slice(_, shape) => Some(shape.element_type),
                Given::Typed(literal) => Some(literal.element_type()),
                Given::Number(..) => None,
            })
            .collect();
        let mut operands = Vec::new();
        for (position, given) in given.into_iter().enumerate() {
            operands.push(match given {
                Given::Slice(slice, shape) => (Operand::Slice(slice), shape),
                Given::Typed(literal) => {
                    let shape = literal.shape().clone();
                    (Operand::Literal(literal), shape)
                }
                Given::Number(text, at) => {
                    let ty = literal_type(opcode, position, &types, result_type);
                    let literal = parse_literal(&format!("{ty}[] {text}"))
                        .ok()
                        .and_then(|literals| literals.into_iter().next());
                    let Some(literal) = literal else {
                        let message =
                            format!("`{text}` is neither a slice nor a number of type {ty}");
                        return Err(self.cursor.error_at(at, at + text.len(), message));
                    };
                    let shape = literal.shape().clone();
                    (Operand::Literal(literal), shape)
                }
            });
        }
        let shapes: Vec<&ArrayShape> = operands.iter().map(|(_, shape)| shape).collect();
        let needed = shapes.first().map_or(result_type, |s| s.element_type);
        let needed = self.computations.needed(&attributes, needed);
        let text = module_text(opcode, &shapes, &results, &needed, &attributes);
        let module = match self.computations.modules.get(&text) {
            Some(module) => Arc::clone(module),
            None => {
                let module = parse_module(&text).map_err(|error| wrong(&error, &self.cursor))?;
                verify(&module).map_err(|errors| wrong(&errors.into(), &self.cursor))?;
                let module = Arc::new(module);
                self.computations.modules.insert(text, Arc::clone(&module));
                module
            }
        };
        Ok((module, operands.into_iter().map(|(o, _)| o).collect()))
    }

    fn given(&mut self) -> Read<Vec<Given>> {
        self.cursor.expect("(")?;
        let mut given = Vec::new();
        if self.cursor.eat(")") {
            return Ok(given);
        }
        loop {
            given.push(self.operand()?);
            if self.cursor.eat(")") {
                return Ok(given);
            }
            self.cursor.expect(",")?;
        }
    }

    /// Parses a slice, a number, or a literal after its shape.
    fn operand(&mut self) -> Read<Given> {
        let word = self.cursor.word();
        let start = self.cursor.at;
        if self.cursor.behind_word() == Some(b'[') && !word.is_empty() {
            if self.buffers.contains_key(word) || ElementType::from_name(word).is_none() {
                let slice = self.slice()?;
                let wrong = self
                    .cursor
                    .error_at(start, self.cursor.at, "no fixed shape");
                let shape = slice.shape(&self.program).ok_or(wrong)?;
                return Ok(Given::Slice(slice, shape));
            }
            self.cursor.at = self.cursor.piece_end(&[","], false);
            let text = self.cursor.text.get(start..self.cursor.at).unwrap_or("");
            let literal = parse_literal(text).map(|mut literals| literals.pop());
            return match literal {
                Ok(Some(literal)) => Ok(Given::Typed(literal)),
                Ok(None) => Err(self.cursor.error_at(start, self.cursor.at, "no literal")),
                Err(error) => {
                    let message = error.message().to_owned();
                    Err(self.cursor.error_at(start, self.cursor.at, message))
                }
            };
        }
        self.cursor.at = self.cursor.piece_end(&[","], false);
        let text = self.cursor.text.get(start..self.cursor.at).unwrap_or("");
        let text = text.trim().to_owned();
        if text.is_empty() {
            return Err(self.cursor.error("expected a slice or a number"));
        }
        Ok(Given::Number(text, start))
    }

    /// Parses any number of `, name=value`; returns their text.
    fn attributes(&mut self) -> Read<String> {
        let mut attributes = String::new();
        while self.cursor.same_line() && self.cursor.eat(",") {
            self.cursor.space();
            let start = self.cursor.at;
            let end = self.cursor.piece_end(&["=", ",", " ", ";"], true);
            let name = self.cursor.text.get(start..end).unwrap_or("");
            self.cursor.at = end;
            if name.is_empty() || !self.cursor.eat("=") {
                return Err(self.cursor.error("expected an attribute, `name=value`"));
            }
            self.cursor.space();
            self.cursor.at = self.cursor.piece_end(&[",", " ", ";", "\t", "\r"], true);
            let text = self.cursor.text.get(start..self.cursor.at).unwrap_or("");
            // Writing to a `String` cannot fail.
            let _ = write!(attributes, ", {text}");
        }
        Ok(attributes)
    }
}

/// The text of a module with one operation.
fn module_text(
    opcode: Opcode,
    operands: &[&ArrayShape],
    results: &[ArrayShape],
    computations: &str,
    attributes: &str,
) -> String {
    let mut text = format!("HloModule kernel\n\n{computations}\nENTRY {ENTRY} {{\n");
    let mut names = Vec::new();
    // Writing to a `String` cannot fail.
    for (i, operand) in operands.iter().enumerate() {
        let _ = writeln!(text, "  p{i} = {operand} parameter({i})");
        let mut name = format!("p{i}");
        if let Some(result) = results.first()
            && is_elementwise(opcode)
            && operand.rank() == 0
            && result.rank() > 0
        {
            let shape = result.with_element_type(operand.element_type);
            let _ = writeln!(text, "  b{i} = {shape} broadcast(p{i}), dimensions={{}}");
            name = format!("b{i}");
        }
        names.push(name);
    }
    let list = |shapes: &[ArrayShape]| {
        let shapes: Vec<String> = shapes.iter().map(ToString::to_string).collect();
        shapes.join(", ")
    };
    let result = match results {
        [one] => one.to_string(),
        several => format!("({})", list(several)),
    };
    let operands = names.join(", ");
    let _ = writeln!(
        text,
        "  ROOT r = {result} {opcode}({operands}){attributes}\n}}"
    );
    text
}
