//! Reads attribute values: `{0,1}`, `{size=3 pad=1_1}`, `%region`, `[2,2]<=[4]`.
//!
//! The attribute's name determines the form of its value, whatever the operation. The value is
//! interpreted later, when all names are known.

use super::cursor::{Cursor, parse_int};
use super::lexer::Token;
use super::strings::unescape;
use super::tree::*;
use crate::{
    ConvDims, DimNumbers, Error, Metadata, PadDim, Precision, ReplicaGroups, Shape, SliceDim, Span,
    TO_END, WindowDim,
};
use std::sync::Arc;

impl<'a> Cursor<'a> {
    /// Reads `name=value`.
    pub(crate) fn attribute(&mut self) -> Result<Attribute<'a>, Error> {
        let name = self.word("an attribute")?;
        self.expect(Token::Equal)?;
        let start = self.span();
        let value = self.value(name.text, name.span)?;
        let text = self.slice(self.span_since(start));
        Ok(Attribute {
            name: name.text,
            span: name.span,
            value,
            text,
        })
    }

    fn value(&mut self, name: &str, span: Span) -> Result<Value<'a>, Error> {
        Ok(match name {
            "index"
            | "iota_dimension"
            | "index_vector_dim"
            | "k"
            | "num_carries"
            | "channel_id"
            | "feature_index"
            | "inferred_dimension"
            | "feature_group_count"
            | "batch_group_count"
            | "delta"
            | "exponent_bits"
            | "mantissa_bits"
            | "cross_program_prefetch_index" => Value::Int(self.int()?),
            "is_stable"
            | "largest"
            | "lower"
            | "left_side"
            | "unit_diagonal"
            | "is_reverse"
            | "indices_are_sorted"
            | "unique_indices"
            | "is_composite"
            | "is_host_transfer"
            | "use_global_device_ids"
            | "constrain_layout"
            | "custom_call_has_side_effect" => Value::Bool(self.boolean()?),
            "is_associative" => match self.peek_text() {
                "true" | "false" => Value::Bool(self.boolean()?),
                _ => self.raw_word()?,
            },
            "epsilon" => Value::Float(self.float_value()?),
            "direction"
            | "type"
            | "order"
            | "fft_type"
            | "distribution"
            | "algorithm"
            | "transpose_a"
            | "kind"
            | "api_version"
            | "schedule"
            | "conv_kind"
            | "custom_call_schedule"
            | "padding_type"
            | "convolution_kind" => self.raw_word()?,
            "custom_call_target"
            | "async_execution_thread"
            | "execution_thread"
            | "infeed_config"
            | "outfeed_config" => Value::Text(unescape(self.expect(Token::Text)?.text)),
            // In a collective-permute, a list of sizes for each slice.
            "slice_sizes" if self.peek_second() == Some(Token::BraceOpen) => self.raw()?,
            "dimensions"
            | "lhs_batch_dims"
            | "rhs_batch_dims"
            | "lhs_contracting_dims"
            | "rhs_contracting_dims"
            | "lhs_ragged_dims"
            | "rhs_group_dims"
            | "offset_dims"
            | "collapsed_slice_dims"
            | "start_index_map"
            | "operand_batching_dims"
            | "start_indices_batching_dims"
            | "update_window_dims"
            | "inserted_window_dims"
            | "scatter_dims_to_operand_dims"
            | "input_batching_dims"
            | "scatter_indices_batching_dims"
            | "fft_length" => Value::Ints(self.ints()?),
            "to_apply" | "calls" | "select" | "scatter" | "condition" | "body"
            | "true_computation" | "false_computation" => {
                let callee = self.callee()?;
                callees(vec![callee])
            }
            "called_computations" | "branch_computations" => {
                let mut all = Vec::new();
                self.list(Token::BraceOpen, Token::BraceClose, |cursor| {
                    all.push(cursor.callee()?);
                    Ok(())
                })?;
                callees(all)
            }
            "control-predecessors" => Value::Names(self.names()?),
            "window" => Value::Window(self.window()?),
            // In a custom call, the labels of some dimensions may be unknown.
            "dim_labels" if self.peek_text().contains('?') => self.raw()?,
            "dim_labels" => Value::ConvDims(Box::new(self.conv_dims()?)),
            "padding" => Value::Padding(self.padding()?),
            "slice_sizes" | "dynamic_slice_sizes" => Value::Ints(self.slice_sizes()?),
            "slice" => Value::Slices(self.slices()?),
            "operand_precision" => Value::Precisions(self.precisions()?),
            "replica_groups" => Value::Groups(self.replica_groups()?),
            "source_target_pairs" => Value::Pairs(self.int_pairs()?),
            "outfeed_shape" => Value::Shapes(vec![self.shape()?]),
            "operand_layout_constraints" => Value::Shapes(self.shapes(Token::BraceOpen)?),
            "output_to_operand_aliasing" => Value::Aliases(self.aliases()?),
            "literal" => self.typed_literal()?,
            "metadata" => Value::Metadata(Box::new(self.metadata()?)),
            "frontend_attributes" => Value::Attributes(self.pairs()?),
            "backend_config"
            | "sharding"
            | "statistics"
            | "parameter_replication"
            | "origin"
            | "result_accuracy"
            | "domain"
            | "sparsity"
            | "sparsity_config"
            | "original_value"
            | "async_group_id"
            | "debug_attributes" => self.raw()?,
            _ => {
                let message = format!("`{name}` is not an attribute of any operation");
                return Err(self.error_at(span, message));
            }
        })
    }

    /// Reads a literal with its shape, or several of them in parentheses.
    fn typed_literal(&mut self) -> Result<Value<'a>, Error> {
        if self.peek() == Some(Token::ParenOpen) {
            self.nested(|cursor| {
                cursor.list(Token::ParenOpen, Token::ParenClose, |cursor| {
                    cursor.typed_literal().map(|_| ())
                })
            })?;
            return Ok(Value::Raw);
        }
        let shape = self.shape()?;
        self.literal(&shape)?;
        Ok(Value::Raw)
    }

    /// Reads a word; its meaning is in the attribute's text.
    fn raw_word(&mut self) -> Result<Value<'a>, Error> {
        self.word("a word")?;
        Ok(Value::Raw)
    }

    /// Reads a value that is kept as text: braces, a string or a single token.
    pub(crate) fn raw(&mut self) -> Result<Value<'a>, Error> {
        match self.peek() {
            Some(Token::BraceOpen) => {
                self.raw_braces()?;
            }
            _ => {
                self.take()?;
            }
        }
        Ok(Value::Raw)
    }

    fn float_value(&mut self) -> Result<f64, Error> {
        match self.peek() {
            Some(Token::Int | Token::Decimal) => {}
            Some(Token::Word) if matches!(self.peek_text(), "inf" | "nan") => {}
            _ => return Err(self.expected("a number")),
        }
        let lexeme = self.take()?;
        lexeme
            .text
            .parse()
            .map_err(|_| self.error_at(lexeme.span, "expected a number"))
    }

    /// Reads `{1,2,3}`.
    pub(crate) fn ints(&mut self) -> Result<DimNumbers, Error> {
        let mut numbers = DimNumbers::new();
        self.list(Token::BraceOpen, Token::BraceClose, |cursor| {
            numbers.push(cursor.int()?);
            Ok(())
        })?;
        Ok(numbers)
    }

    /// Reads a number, or `?` for [`TO_END`].
    fn int_or_end(&mut self) -> Result<i64, Error> {
        match self.eat(Token::Question) {
            true => Ok(TO_END),
            false => self.int(),
        }
    }

    /// Reads the sizes of a dynamic slice.
    fn slice_sizes(&mut self) -> Result<DimNumbers, Error> {
        let mut sizes = DimNumbers::new();
        self.list(Token::BraceOpen, Token::BraceClose, |cursor| {
            sizes.push(cursor.int_or_end()?);
            Ok(())
        })?;
        Ok(sizes)
    }

    /// Reads `{(0,1)}`-style and `{{0,1},{2,3}}`-style pairs; XLA prints the latter.
    fn int_pairs(&mut self) -> Result<Vec<(i64, i64)>, Error> {
        let mut pairs = Vec::new();
        self.list(Token::BraceOpen, Token::BraceClose, |cursor| {
            let span = cursor.span();
            match cursor.ints()?.as_slice() {
                [a, b] => pairs.push((*a, *b)),
                _ => return Err(cursor.error_at(span, "expected a pair such as `{0,1}`")),
            }
            Ok(())
        })?;
        Ok(pairs)
    }

    fn callee(&mut self) -> Result<Callee<'a>, Error> {
        if self.peek() == Some(Token::BraceOpen) {
            let (number, span) = self.inline_computation()?;
            return Ok(Callee::Inline(number, span));
        }
        let lexeme = self.name("a computation's name")?;
        Ok(Callee::Named((lexeme.text, lexeme.span)))
    }

    fn names(&mut self) -> Result<Vec<Named<'a>>, Error> {
        let mut names = Vec::new();
        self.list(Token::BraceOpen, Token::BraceClose, |cursor| {
            let lexeme = cursor.name("a name")?;
            names.push((lexeme.text, lexeme.span));
            Ok(())
        })?;
        Ok(names)
    }

    /// Reads shapes between brackets of this kind.
    pub(crate) fn shapes(&mut self, open: Token) -> Result<Vec<Shape>, Error> {
        let close = match open {
            Token::BraceOpen => Token::BraceClose,
            _ => Token::ParenClose,
        };
        let mut shapes = Vec::new();
        self.list(open, close, |cursor| {
            shapes.push(cursor.shape()?);
            Ok(())
        })?;
        Ok(shapes)
    }

    /// Reads `size=3x5 stride=2x2 ...` between braces.
    fn window(&mut self) -> Result<Vec<WindowDim>, Error> {
        self.expect(Token::BraceOpen)?;
        let mut window: Vec<WindowDim> = Vec::new();
        let mut seen: Vec<&str> = Vec::new();
        while !self.eat(Token::BraceClose) {
            let field = self.word("a window's field or `}`")?;
            self.expect(Token::Equal)?;
            let span = self.span();
            let values = self.window_values(field.text)?;
            if seen.is_empty() {
                window = vec![WindowDim::TRIVIAL; values.len()];
            }
            if seen.contains(&field.text) {
                return Err(
                    self.error_at(field.span, format!("`{}` is specified twice", field.text))
                );
            }
            seen.push(field.text);
            if values.len() != window.len() {
                let message = format!(
                    "expected {} sizes as in the field before, found {}",
                    window.len(),
                    values.len()
                );
                return Err(self.error_at(span, message));
            }
            for (dim, (value, high)) in window.iter_mut().zip(values) {
                match field.text {
                    "size" => dim.size = value,
                    "stride" => dim.stride = value,
                    "pad" => (dim.padding_low, dim.padding_high) = (value, high),
                    "lhs_dilate" => dim.base_dilation = value,
                    "rhs_dilate" => dim.window_dilation = value,
                    "rhs_reversal" => dim.reversal = value != 0,
                    other => {
                        let message = format!("`{other}` is not a field of a window");
                        return Err(self.error_at(field.span, message));
                    }
                }
            }
        }
        if !window.is_empty() && !seen.contains(&"size") {
            return Err(self.error("a window needs `size=`"));
        }
        Ok(window)
    }

    /// Reads `3x5` or, for padding, `1_1x2_2`.
    fn window_values(&mut self, field: &str) -> Result<Vec<(i64, i64)>, Error> {
        if field == "pad" {
            let span = self.span();
            let dims = self.padding()?;
            if self.slice(span).matches('_').count() > dims.len() {
                let message = "a window has no interior padding, expected `low_high`";
                return Err(self.error_at(span, message));
            }
            return Ok(dims.iter().map(|dim| (dim.low, dim.high)).collect());
        }
        if !matches!(self.peek(), Some(Token::Int | Token::Sizes)) {
            return Err(self.expected("sizes such as `3x5`"));
        }
        let lexeme = self.take()?;
        let parsed: Option<Vec<_>> = lexeme
            .text
            .split('x')
            .map(|size| Some((size.parse().ok()?, 0)))
            .collect();
        parsed.ok_or_else(|| self.error_at(lexeme.span, "a size does not fit into 64 bits"))
    }

    /// Reads `low_high` or `low_high_interior`, joined by `x`.
    fn padding(&mut self) -> Result<Vec<PadDim>, Error> {
        // The padding of a rank-0 array is empty text.
        if matches!(self.peek(), None | Some(Token::Comma | Token::BraceClose)) {
            return Ok(Vec::new());
        }
        let lexeme = self.expect(Token::Padding)?;
        let parsed: Option<Vec<_>> = lexeme.text.split('x').map(parse_padding).collect();
        parsed.ok_or_else(|| self.error_at(lexeme.span, "a padding does not fit into 64 bits"))
    }

    /// Reads `{[start:limit:stride], ...}`.
    fn slices(&mut self) -> Result<Vec<SliceDim>, Error> {
        let mut slices = Vec::new();
        self.list(Token::BraceOpen, Token::BraceClose, |cursor| {
            cursor.expect(Token::BracketOpen)?;
            let start = cursor.int()?;
            cursor.expect(Token::Colon)?;
            let limit = cursor.int_or_end()?;
            let stride = if cursor.eat(Token::Colon) {
                cursor.int()?
            } else {
                1
            };
            cursor.expect(Token::BracketClose)?;
            slices.push(SliceDim {
                start,
                limit,
                stride,
            });
            Ok(())
        })?;
        Ok(slices)
    }

    fn precisions(&mut self) -> Result<Vec<Precision>, Error> {
        let mut precisions = Vec::new();
        self.list(Token::BraceOpen, Token::BraceClose, |cursor| {
            let word = cursor.word("a precision")?;
            let name = word.text.to_ascii_lowercase();
            precisions.push(Precision::from_name(&name).ok_or_else(|| {
                let message = format!("`{}` is not a precision", word.text);
                cursor.error_at(word.span, message)
            })?);
            Ok(())
        })?;
        Ok(precisions)
    }

    /// Reads `{{0,1},{2,3}}`, `{0,1}` (one group), `{}`, `[2,2]<=[4]T(1,0)` or groups of a mesh.
    fn replica_groups(&mut self) -> Result<ReplicaGroups, Error> {
        if matches!(self.peek_text(), "mesh" | "maximal_mesh") {
            return self.mesh_groups();
        }
        if self.peek() == Some(Token::BracketOpen) {
            return self.iota_groups();
        }
        if self.peek_second() == Some(Token::Int) {
            return Ok(ReplicaGroups::Lists(vec![self.ints()?.to_vec()]));
        }
        let mut groups = Vec::new();
        self.list(Token::BraceOpen, Token::BraceClose, |cursor| {
            groups.push(cursor.ints()?.to_vec());
            Ok(())
        })?;
        Ok(ReplicaGroups::Lists(groups))
    }

    fn iota_groups(&mut self) -> Result<ReplicaGroups, Error> {
        let dims = self.ints_between(Token::BracketOpen, Token::BracketClose)?;
        self.expect(Token::LessEqual)?;
        let (reshape_dims, transpose) = self.iota_array()?;
        Ok(ReplicaGroups::Iota {
            dims,
            reshape_dims,
            transpose,
        })
    }

    /// Reads `[4,2]T(1,0)`: the numbers 0, 1, 2, ... in this shape, transposed.
    pub(crate) fn iota_array(&mut self) -> Result<(DimNumbers, DimNumbers), Error> {
        let reshape_dims = self.ints_between(Token::BracketOpen, Token::BracketClose)?;
        let transpose = match self.eat_word("T") {
            true => self.ints_between(Token::ParenOpen, Token::ParenClose)?,
            false => DimNumbers::new(),
        };
        Ok((reshape_dims, transpose))
    }

    /// Reads integers between brackets of this kind.
    pub(crate) fn ints_between(&mut self, open: Token, close: Token) -> Result<DimNumbers, Error> {
        let mut numbers = DimNumbers::new();
        self.list(open, close, |cursor| {
            numbers.push(cursor.int()?);
            Ok(())
        })?;
        Ok(numbers)
    }

    /// Reads `{{0}: (1, {}), ...}`: result index, operand, index in the operand.
    fn aliases(&mut self) -> Result<Vec<(TupleIndex, i64, TupleIndex)>, Error> {
        let mut aliases = Vec::new();
        self.list(Token::BraceOpen, Token::BraceClose, |cursor| {
            let output = cursor.ints()?.to_vec();
            cursor.expect(Token::Colon)?;
            cursor.expect(Token::ParenOpen)?;
            let operand = cursor.int()?;
            cursor.expect(Token::Comma)?;
            let index = cursor.ints()?.to_vec();
            cursor.expect(Token::ParenClose)?;
            aliases.push((output, operand, index));
            Ok(())
        })?;
        Ok(aliases)
    }

    /// Reads `{key=value ...}` as metadata.
    fn metadata(&mut self) -> Result<Metadata, Error> {
        let mut metadata = Metadata::default();
        self.expect(Token::BraceOpen)?;
        while !self.eat(Token::BraceClose) {
            self.eat(Token::Comma);
            let key = self.word("a metadata field or `}`")?;
            self.expect(Token::Equal)?;
            let start = self.span();
            let text = self.peek() == Some(Token::Text);
            self.raw()?;
            let raw = self.slice(self.span_since(start));
            let number = || parse_int(raw);
            let string = || text.then(|| Arc::from(unescape(raw)));
            let known = match key.text {
                "op_type" => metadata.op_type.replace_if(string()),
                "op_name" => metadata.op_name.replace_if(string()),
                "source_file" => metadata.source_file.replace_if(string()),
                "source_line" => metadata.source_line.replace_if(number()),
                "source_end_line" => metadata.source_end_line.replace_if(number()),
                "source_column" => metadata.source_column.replace_if(number()),
                "source_end_column" => metadata.source_end_column.replace_if(number()),
                "stack_frame_id" => metadata.stack_frame_id.replace_if(number()),
                _ => false,
            };
            if !known {
                metadata.other.push((key.text.into(), fold_space(raw)));
            }
        }
        Ok(metadata)
    }

    /// Reads `{key=value, ...}`; the values are kept as text.
    pub(crate) fn pairs(&mut self) -> Result<Pairs, Error> {
        let mut pairs = Pairs::new();
        self.list(Token::BraceOpen, Token::BraceClose, |cursor| {
            let key = match cursor.peek() {
                Some(Token::Text) => cursor.take()?,
                _ => cursor.word("a name")?,
            };
            cursor.expect(Token::Equal)?;
            let start = cursor.span();
            cursor.raw()?;
            let value = cursor.slice(cursor.span_since(start));
            pairs.push((key.text.into(), fold_space(value)));
            Ok(())
        })?;
        Ok(pairs)
    }

    /// Reads `b01f_01io->b01f`.
    fn conv_dims(&mut self) -> Result<ConvDims, Error> {
        let lexeme = self.expect(Token::DimLabels)?;
        let parts = lexeme.text.split_once('_').and_then(|(input, rest)| {
            let (kernel, output) = rest.split_once("->")?;
            Some((input, kernel, output))
        });
        let dims = parts.and_then(|(input, kernel, output)| {
            let (input_batch, input_feature, input_spatial) = labels(input, 'b', 'f')?;
            let (kernel_input_feature, kernel_output_feature, kernel_spatial) =
                labels(kernel, 'i', 'o')?;
            let (output_batch, output_feature, output_spatial) = labels(output, 'b', 'f')?;
            let count = input_spatial.len();
            let agree = kernel_spatial.len() == count && output_spatial.len() == count;
            agree.then_some(ConvDims {
                input_batch,
                input_feature,
                input_spatial,
                kernel_input_feature,
                kernel_output_feature,
                kernel_spatial,
                output_batch,
                output_feature,
                output_spatial,
            })
        });
        dims.ok_or_else(|| {
            let message = "expected dimension labels that name every dimension once in each part";
            self.error_at(lexeme.span, message)
        })
    }
}

/// The value of an attribute that lists these computations.
fn callees(all: Vec<Callee<'_>>) -> Value<'_> {
    let named = |callee: &Callee<'_>| matches!(callee, Callee::Named(_));
    if !all.iter().all(named) {
        return Value::Inline(all);
    }
    let names = all.into_iter().filter_map(|callee| match callee {
        Callee::Named(name) => Some(name),
        Callee::Inline(..) => None,
    });
    Value::Names(names.collect())
}

trait ReplaceIf<T> {
    /// Sets the value if there is one; says whether there was.
    fn replace_if(&mut self, value: Option<T>) -> bool;
}

impl<T> ReplaceIf<T> for Option<T> {
    fn replace_if(&mut self, value: Option<T>) -> bool {
        let some = value.is_some();
        if some {
            *self = value;
        }
        some
    }
}

fn parse_padding(text: &str) -> Option<PadDim> {
    let mut numbers = text.split('_').map(|number| number.parse().ok());
    Some(PadDim {
        low: numbers.next()??,
        high: numbers.next()??,
        interior: numbers.next().unwrap_or(Some(0))?,
    })
}

/// The positions of the two letters, and of the digits 0, 1, ....
fn labels(text: &str, first: char, second: char) -> Option<(i64, i64, DimNumbers)> {
    let place = |label: char| {
        let mut places = text.chars().zip(0i64..).filter(|&(c, _)| c == label);
        let (_, place) = places.next()?;
        places.next().is_none().then_some(place)
    };
    let spatial: Option<DimNumbers> = ('0'..='9')
        .take(text.len().checked_sub(2)?)
        .map(place)
        .collect();
    let spatial = spatial?;
    (spatial.len() + 2 == text.len()).then_some((place(first)?, place(second)?, spatial))
}

/// The text with each run of white space outside strings replaced by one blank.
pub(crate) fn fold_space(text: &str) -> Arc<str> {
    if !text.contains(['\n', '\t', '\r']) && !text.contains("  ") {
        return text.into();
    }
    let mut folded = String::with_capacity(text.len());
    let (mut quoted, mut escaped) = (false, false);
    for character in text.chars() {
        if !quoted && character.is_ascii_whitespace() {
            if !folded.ends_with(' ') {
                folded.push(' ');
            }
            continue;
        }
        if character == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = quoted && character == '\\' && !escaped;
        folded.push(character);
    }
    folded.into()
}
