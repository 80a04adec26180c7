//! Reads a module's header line and the stack-frame tables that may follow it.

use super::cursor::Cursor;
use super::lexer::Token;
use super::strings::unescape;
use super::values::fold_space;
use crate::{AliasKind, Error, InputOutputAlias, ModuleAttributes, NumberedFields};
use std::sync::Arc;

impl<'a> Cursor<'a> {
    /// Reads `HloModule name, attribute=value, ...`.
    pub(crate) fn module_header(&mut self) -> Result<(&'a str, ModuleAttributes), Error> {
        let name = self.name("the module's name")?.text;
        self.eat(Token::Colon);
        let mut attributes = ModuleAttributes::default();
        while self.eat(Token::Comma) {
            let key = self.word("a module attribute")?;
            self.expect(Token::Equal)?;
            let start = self.span();
            if !self.module_attribute(key.text, &mut attributes)? {
                self.raw()?;
                let text = self.slice(self.span_since(start));
                attributes.other.push((key.text.into(), fold_space(text)));
            }
        }
        Ok((name, attributes))
    }

    /// Reads the value of an attribute that has its own field; `false` if it has none.
    fn module_attribute(
        &mut self,
        key: &str,
        attributes: &mut ModuleAttributes,
    ) -> Result<bool, Error> {
        match key {
            "is_scheduled" => attributes.is_scheduled = self.boolean()?,
            "replica_count" => attributes.replica_count = Some(self.int()?),
            "num_partitions" => attributes.num_partitions = Some(self.int()?),
            "alias_passthrough_params" => {
                attributes.alias_passthrough_params = self.boolean()?;
            }
            "frontend_attributes" => attributes.frontend_attributes = self.pairs()?,
            "input_output_alias" => {
                let aliases = &mut attributes.input_output_alias;
                self.list(Token::BraceOpen, Token::BraceClose, |cursor| {
                    aliases.push(cursor.input_output_alias()?);
                    Ok(())
                })?;
            }
            "buffer_donor" => {
                let donors = &mut attributes.buffer_donor;
                self.list(Token::BraceOpen, Token::BraceClose, |cursor| {
                    cursor.expect(Token::ParenOpen)?;
                    let parameter = cursor.int()?;
                    cursor.expect(Token::Comma)?;
                    donors.push((parameter, cursor.ints()?.to_vec()));
                    cursor.expect(Token::ParenClose)?;
                    Ok(())
                })?;
            }
            "entry_computation_layout" => {
                self.expect(Token::BraceOpen)?;
                let parameters = self.shapes(Token::ParenOpen)?;
                self.expect(Token::Arrow)?;
                attributes.entry_layout = Some((parameters, self.shape()?));
                self.expect(Token::BraceClose)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads `{0}: (1, {}, may-alias)`.
    fn input_output_alias(&mut self) -> Result<InputOutputAlias, Error> {
        let output_index = self.ints()?.to_vec();
        self.expect(Token::Colon)?;
        self.expect(Token::ParenOpen)?;
        let parameter = self.int()?;
        self.expect(Token::Comma)?;
        let parameter_index = self.ints()?.to_vec();
        let mut kind = AliasKind::May;
        if self.eat(Token::Comma) {
            let word = self.word("`may-alias` or `must-alias`")?;
            kind = AliasKind::from_name(word.text)
                .ok_or_else(|| self.error_at(word.span, "expected `may-alias` or `must-alias`"))?;
        }
        self.expect(Token::ParenClose)?;
        Ok(InputOutputAlias {
            output_index,
            parameter,
            parameter_index,
            kind,
        })
    }

    /// Whether a stack-frame table comes next: its name, followed by a number.
    pub(crate) fn at_stack_frames(&self) -> bool {
        let table = matches!(
            self.peek_text(),
            "FileNames" | "FunctionNames" | "FileLocations" | "StackFrames"
        );
        // A table may be empty. A computation of the same name would be followed by a bracket.
        let bracket = matches!(
            self.peek_second(),
            Some(Token::BraceOpen | Token::ParenOpen | Token::Equal)
        );
        table && !bracket
    }

    /// Reads one stack-frame table.
    pub(crate) fn stack_frames(&mut self, attributes: &mut ModuleAttributes) -> Result<(), Error> {
        let table = self.word("a stack-frame table")?;
        let frames = &mut attributes.stack_frames;
        while self.peek() == Some(Token::Int) {
            let number = self.int()?;
            match table.text {
                "FileNames" => frames.file_names.push((number, self.table_name()?)),
                "FunctionNames" => frames.function_names.push((number, self.table_name()?)),
                "FileLocations" => frames.file_locations.push(self.table_fields(number)?),
                _ => frames.frames.push(self.table_fields(number)?),
            }
        }
        Ok(())
    }

    fn table_name(&mut self) -> Result<Arc<str>, Error> {
        Ok(unescape(self.expect(Token::Text)?.text).into())
    }

    fn table_fields(&mut self, number: i64) -> Result<NumberedFields, Error> {
        let mut fields = Vec::new();
        self.expect(Token::BraceOpen)?;
        while !self.eat(Token::BraceClose) {
            let key = self.word("a field or `}`")?;
            self.expect(Token::Equal)?;
            fields.push((key.text.into(), self.int()?));
        }
        Ok((number, fields))
    }
}
