//! The parser for the text of plans, as printed by [`Plan`]'s `Display`.
//!
//! ```text
//! plan     := "plan" quoted "arena" term "{" symbol* size* guard* constant* buffer*
//!             value* kernel* "parameters" values "results" values alias* step* "}"
//! symbol   := "symbol" int "=" quoted "in" "[" int "," int "]"
//! size     := "size" int "=" "parameter" int "dimension" int
//! guard    := "guard" quoted "(" term ")" ("==" | "!=" | "<=" | "<") "(" term ")"
//! alias    := "alias" "output" int "=" "parameter" int
//! constant := "constant" int "=" shape
//!             ("outside" | "of" (literal as in HLO, to the line's end))
//! buffer   := bN "=" place "bytes" term
//! place    := "parameter" int | "output" int | "constant" int | "arena" term
//! value    := xN "=" shape "in" bN
//! shape    := type "[" [dim {"," dim}] "]" [layout as in HLO]
//! dim      := int | "(" term ")" | "<=" int "(" term ")"
//! kernel   := kN "=" (see `parse_kernel`)
//! values   := "(" [xN {"," xN}] ")"
//! step     := "run" kN values
//!           | "copy" xN "->" xN
//!           | "while" "{" step* "}" xN "{" step* "}"
//!           | "conditional" xN {"{" step* "}"}
//!           | "dot" values "->" values "lhs_batch" set "rhs_batch" set
//!             "lhs_contracting" set "rhs_contracting" set
//!           | "sort" values "->" values "dimension" int "by" kernel
//!           | "hlo" opcode values "->" values (attributes as in HLO, to the line's end)
//! set      := "{" [int {"," int}] "}"
//! ```
//! Symbols, constants, buffers, values and kernels are numbered from 0 without
//! gaps, in order. Terms of a plan name its symbols `p0`, `p1`, ...
//!
//! # Invariants
//! - What is printed reads back as an equal plan, if its terms and literals nest no deeper than
//!   their own parsers allow.
//! - Parsing never panics, and its time and memory are bounded by the text's length.
//! - Every id in the resulting plan exists. All other invariants of plans are left to
//!   [`verify`](super::verify).

use super::cursor::{Cursor, PlanParseError, Result, bounds, element_type};
use super::operation;
use super::parse_kernel::kernel;
use super::{Alias, Buffer, Place, Plan, PlanValue, Step, ValueId};
use std::sync::Arc;
use tegula_expr::{Cmp, Term, Var};
use tegula_fusion::{Contraction, Label, LibraryOp};
use tegula_ir::{
    ArrayShape, Dim, Dims, Guard, GuardMessage, Layout, Literal, Opcode, Shape, SizeSource, Symbol,
    parse_literal, parse_shape,
};

/// Parses a plan's text.
///
/// # Errors
/// The first deviation from the grammar in this module's documentation, or a reference to something
/// that does not exist.
pub fn parse_plan(text: &str) -> std::result::Result<Plan, PlanParseError> {
    parse_plan_with(text, &[])
}

/// Parses a plan's text. `constants` are the constants that the text declares as `outside`, by
/// number.
///
/// # Errors
/// As [`parse_plan`]; also a constant that is missing or has another shape.
pub fn parse_plan_with(
    text: &str,
    constants: &[Literal],
) -> std::result::Result<Plan, PlanParseError> {
    let mut reader = Reader {
        cursor: Cursor::new(text),
        outside: constants,
        plan: Plan::default(),
        wrapped: 0,
    };
    reader.plan()?;
    Ok(reader.plan)
}

/// The symbol with this name in a plan's terms.
fn symbol_name(name: &str) -> Option<Var> {
    Some(Var(name.strip_prefix('p')?.parse::<u32>().ok()?))
}

struct Reader<'a> {
    cursor: Cursor<'a>,
    /// The constants that the text leaves out.
    outside: &'a [Literal],
    plan: Plan,
    /// The total length of the HLO texts built to parse operations, in bytes.
    wrapped: usize,
}

impl Reader<'_> {
    fn plan(&mut self) -> Result<()> {
        self.cursor.expect_word("plan")?;
        self.plan.name = self.cursor.quoted()?;
        self.cursor.expect_word("arena")?;
        // The symbols that the term names are declared after it.
        self.plan.arena_bytes = self.cursor.term(&symbol_name)?;
        self.cursor.expect("{")?;
        while self.cursor.take_word("symbol") {
            self.symbol()?;
        }
        self.known_symbols()?;
        while self.cursor.take_word("size") {
            self.size()?;
        }
        while self.cursor.take_word("guard") {
            self.guard()?;
        }
        while self.cursor.take_word("constant") {
            self.constant()?;
        }
        while self.cursor.peek_word().starts_with('b') {
            self.buffer()?;
        }
        while self.cursor.peek_word().starts_with('x') {
            self.value()?;
        }
        while self.cursor.peek_word().starts_with('k') {
            let next = self.plan.kernels.len();
            self.cursor.expect_next('k', "a kernel", next)?;
            self.cursor.expect("=")?;
            let kernel = kernel(&mut self.cursor)?;
            self.plan.kernels.push(kernel);
        }
        self.cursor.expect_word("parameters")?;
        self.plan.parameters = self.values()?;
        self.cursor.expect_word("results")?;
        self.plan.results = self.values()?;
        while self.cursor.take_word("alias") {
            self.cursor.expect_word("output")?;
            let output = self.cursor.integer()?;
            self.cursor.expect("=")?;
            self.cursor.expect_word("parameter")?;
            let parameter = self.cursor.integer()?;
            self.plan.aliases.push(Alias { parameter, output });
        }
        self.plan.steps = self.steps()?;
        if !self.cursor.at_end() {
            return self.cursor.expected("nothing after the plan");
        }
        Ok(())
    }

    fn symbol(&mut self) -> Result<()> {
        self.cursor.expect_number(self.plan.symbols.len())?;
        self.cursor.expect("=")?;
        let name = self.cursor.quoted()?.into();
        self.cursor.expect_word("in")?;
        let (lower, upper) = bounds(&mut self.cursor)?;
        self.plan.symbols.push(Symbol { name, lower, upper });
        Ok(())
    }

    /// Checks that the arena's size uses only declared symbols.
    fn known_symbols(&mut self) -> Result<()> {
        let count = self.plan.symbols.len();
        let mut unknown = None;
        self.plan.arena_bytes.for_each_var(&mut |var| {
            if var.0 as usize >= count {
                unknown = Some(var.0);
            }
        });
        match unknown {
            Some(number) => self
                .cursor
                .error(format!("symbol {number} is not declared")),
            None => Ok(()),
        }
    }

    fn size(&mut self) -> Result<()> {
        let offset = self.cursor.offset();
        let symbol: u32 = self.cursor.integer()?;
        if symbol as usize >= self.plan.symbols.len() {
            return self
                .cursor
                .error_at(offset, format!("symbol {symbol} is not declared"));
        }
        self.cursor.expect("=")?;
        self.cursor.expect_word("parameter")?;
        let parameter = self.cursor.integer()?;
        self.cursor.expect_word("dimension")?;
        let dimension = self.cursor.integer()?;
        self.plan.sizes.sources.push(SizeSource {
            symbol: Var(symbol),
            parameter,
            dimension,
        });
        Ok(())
    }

    fn guard(&mut self) -> Result<()> {
        let what = self.cursor.quoted()?.into();
        self.cursor.expect("(")?;
        let left = self.term()?;
        self.cursor.expect(")")?;
        let ops = [
            ("==", Cmp::Eq),
            ("!=", Cmp::Ne),
            ("<=", Cmp::Le),
            ("<", Cmp::Lt),
        ];
        let Some((_, op)) = ops.into_iter().find(|(text, _)| self.cursor.take(text)) else {
            return self.cursor.expected("`==`, `!=`, `<=` or `<`");
        };
        self.cursor.expect("(")?;
        let right = self.term()?;
        self.cursor.expect(")")?;
        let message = match self.cursor.take("message") {
            true => {
                let text = self.cursor.quoted()?.into();
                let mut values = Vec::new();
                while self.cursor.take("(") {
                    values.push(self.term()?);
                    self.cursor.expect(")")?;
                }
                Some(Arc::new(GuardMessage { text, values }))
            }
            false => None,
        };
        self.plan.sizes.guards.push(Guard {
            op,
            left,
            right,
            what,
            message,
        });
        Ok(())
    }

    fn constant(&mut self) -> Result<()> {
        self.cursor.expect_number(self.plan.constants.len())?;
        self.cursor.expect("=")?;
        let shape = self.shape()?;
        if self.cursor.take_word("outside") {
            let outside = self.outside.get(self.plan.constants.len());
            return match outside.filter(|literal| *literal.shape() == shape) {
                Some(literal) => {
                    self.plan.constants.push(literal.clone());
                    Ok(())
                }
                None => self
                    .cursor
                    .error(format!("no constant of {shape} was given")),
            };
        }
        self.cursor.expect_word("of")?;
        let start = self.cursor.offset();
        // Because a layout is stated, the braces that follow can only be the elements.
        let bare = shape.with_element_type(shape.element_type);
        let prefix = format!("{bare}{} ", Layout::row_major(shape.rank()));
        let elements = self.cursor.line();
        match parse_literal(&format!("{prefix}{elements}")).as_deref() {
            Ok([literal]) => match Literal::from_bytes(&shape, literal.bytes()) {
                Ok(literal) => self.plan.constants.push(literal),
                Err(error) => return self.cursor.error_at(start, error.to_string()),
            },
            Ok(_) => {
                return self
                    .cursor
                    .error_at(start, "expected a constant that is one array");
            }
            Err(error) => {
                let offset = (error.span().start as usize).saturating_sub(prefix.len());
                return self.cursor.error_at(start + offset, error.message());
            }
        }
        Ok(())
    }

    fn buffer(&mut self) -> Result<()> {
        let next = self.plan.buffers.len();
        self.cursor.expect_next('b', "a buffer", next)?;
        self.cursor.expect("=")?;
        let place = match self.cursor.peek_word() {
            "arena" => {
                self.cursor.word();
                Place::Arena(self.term()?)
            }
            word @ ("parameter" | "output" | "constant") => {
                self.cursor.word();
                let number = self.cursor.integer()?;
                match word {
                    "parameter" => Place::Parameter(number),
                    "output" => Place::Output {
                        result: number,
                        from: match self.cursor.take_word("from") {
                            true => self.cursor.integer()?,
                            false => 0,
                        },
                    },
                    _ => Place::Constant(number),
                }
            }
            _ => {
                let what = "`parameter`, `output`, `constant` or `arena`";
                return self.cursor.expected(what);
            }
        };
        self.cursor.expect_word("bytes")?;
        let bytes = self.term()?;
        self.plan.buffers.push(Buffer { place, bytes });
        Ok(())
    }

    fn value(&mut self) -> Result<()> {
        let next = self.plan.values.len();
        self.cursor.expect_next('x', "a value", next)?;
        self.cursor.expect("=")?;
        let shape = self.shape()?;
        self.cursor.expect_word("in")?;
        let count = self.plan.buffers.len();
        let buffer = self.cursor.entity('b', "a buffer", count)?;
        self.plan.values.push(PlanValue { shape, buffer });
        Ok(())
    }

    /// Parses a term over the plan's symbols.
    fn term(&mut self) -> Result<Term> {
        let count = self.plan.symbols.len();
        let known = |var: &Var| (var.0 as usize) < count;
        self.cursor.term(&|name| symbol_name(name).filter(known))
    }

    fn shape(&mut self) -> Result<ArrayShape> {
        let start = self.cursor.offset();
        let element_type = element_type(&mut self.cursor)?;
        let mut dims = Dims::new();
        self.cursor.expect("[")?;
        while !self.cursor.take("]") {
            if !dims.is_empty() {
                self.cursor.expect(",")?;
            }
            dims.push(self.dim()?);
        }
        let mut shape = ArrayShape {
            element_type,
            dims,
            layout: None,
        };
        if self.cursor.follows_on_line('{') {
            let layout = self.cursor.through('}')?;
            // `Display` prints the shape without its layout, so the layout can be appended.
            match parse_shape(&format!("{shape}{layout}")) {
                Ok(Shape::Array(with_layout)) => shape.layout = with_layout.layout,
                Ok(_) => return self.cursor.error_at(start, "expected an array"),
                Err(error) => return self.cursor.error_at(start, error.message()),
            }
        }
        Ok(shape)
    }

    fn dim(&mut self) -> Result<Dim> {
        if self.cursor.take("(") {
            let size = self.term()?;
            self.cursor.expect(")")?;
            return Ok(Dim::Symbolic(size));
        }
        let bounded = self.cursor.take("<=");
        let offset = self.cursor.offset();
        let size: i64 = self.cursor.integer()?;
        if size < 0 {
            return self.cursor.error_at(offset, "expected a non-negative size");
        }
        if !bounded {
            return Ok(Dim::Static(size));
        }
        self.cursor.expect("(")?;
        let term = self.term()?;
        self.cursor.expect(")")?;
        Ok(Dim::Bounded {
            bound: size,
            size: term,
        })
    }

    fn value_id(&mut self) -> Result<ValueId> {
        let count = self.plan.values.len();
        self.cursor.entity('x', "a value", count)
    }

    fn values(&mut self) -> Result<Vec<ValueId>> {
        let count = self.plan.values.len();
        let mut ids = Vec::new();
        self.cursor.list("(", ")", |cursor| {
            ids.push(cursor.entity('x', "a value", count)?);
            Ok(())
        })?;
        Ok(ids)
    }

    /// Parses steps up to and including the closing brace.
    fn steps(&mut self) -> Result<Vec<Step>> {
        self.cursor.enter()?;
        let mut steps = Vec::new();
        while !self.cursor.take("}") {
            let step = self.step()?;
            steps.push(step);
        }
        self.cursor.leave();
        Ok(steps)
    }

    fn step(&mut self) -> Result<Step> {
        match self.cursor.peek_word() {
            "run" => {
                self.cursor.word();
                let count = self.plan.kernels.len();
                let kernel = self.cursor.entity('k', "a kernel", count)?;
                let args = self.values()?;
                Ok(Step::Kernel { kernel, args })
            }
            "copy" => {
                self.cursor.word();
                let from = self.value_id()?;
                self.cursor.expect("->")?;
                let to = self.value_id()?;
                Ok(Step::Copy { from, to })
            }
            "while" => self.while_loop(),
            "conditional" => self.conditional(),
            "strips" => {
                self.cursor.word();
                let count = self.cursor.integer()?;
                self.cursor.expect("{")?;
                let steps = self.steps()?;
                Ok(Step::Strips { count, steps })
            }
            "dot" | "sort" | "hlo" => self.library(),
            _ => self.cursor.expected("a step or `}`"),
        }
    }

    fn while_loop(&mut self) -> Result<Step> {
        self.cursor.word();
        self.cursor.expect("{")?;
        let condition = self.steps()?;
        let predicate = self.value_id()?;
        self.cursor.expect("{")?;
        let body = self.steps()?;
        Ok(Step::While {
            condition,
            predicate,
            body,
        })
    }

    fn conditional(&mut self) -> Result<Step> {
        self.cursor.word();
        let selector = self.value_id()?;
        let mut branches = Vec::new();
        while self.cursor.take("{") {
            let branch = self.steps()?;
            branches.push(branch);
        }
        Ok(Step::Conditional { selector, branches })
    }

    fn library(&mut self) -> Result<Step> {
        let word = self.cursor.word();
        let opcode = match word {
            "hlo" => Some(self.opcode()?),
            _ => None,
        };
        let operands = self.values()?;
        self.cursor.expect("->")?;
        let results = self.values()?;
        let op = match (opcode, word) {
            (Some(opcode), _) => self.operation(opcode, &operands, &results)?,
            (None, "dot") => LibraryOp::Dot(Box::new(self.contraction()?)),
            (None, _) => {
                self.cursor.expect_word("dimension")?;
                let dimension = self.cursor.integer()?;
                self.cursor.expect_word("by")?;
                let comparator = Box::new(kernel(&mut self.cursor)?);
                LibraryOp::Sort {
                    dimension,
                    comparator,
                }
            }
        };
        Ok(Step::Library {
            op,
            operands,
            results,
        })
    }

    fn opcode(&mut self) -> Result<Opcode> {
        match Opcode::from_name(self.cursor.peek_word()) {
            Some(opcode) => {
                self.cursor.word();
                Ok(opcode)
            }
            None => self.cursor.expected("an HLO opcode"),
        }
    }

    fn contraction(&mut self) -> Result<Contraction> {
        let mut operands = [Vec::new(), Vec::new()];
        for (name, dims) in ["lhs", "rhs"].into_iter().zip(&mut operands) {
            self.cursor.expect_word(name)?;
            while self.cursor.follows_on_line('{') {
                dims.push(self.labels()?);
            }
        }
        self.cursor.expect_word("out")?;
        let [lhs, rhs] = operands;
        let out = self.labels()?;
        Ok(Contraction { lhs, rhs, out })
    }

    fn labels<C: FromIterator<Label>>(&mut self) -> Result<C> {
        let mut labels = Vec::new();
        self.cursor.list("{", "}", |cursor| {
            labels.push(cursor.integer()?);
            Ok(())
        })?;
        Ok(labels.into_iter().collect())
    }

    /// Parses an operation's attributes, up to the line's end. The shapes are those of the operands
    /// and results.
    fn operation(
        &mut self,
        opcode: Opcode,
        operands: &[ValueId],
        results: &[ValueId],
    ) -> Result<LibraryOp> {
        // The line may end here.
        let start = self.cursor.position();
        let attributes = self.cursor.balanced_line();
        let shapes = |ids: &[ValueId]| -> Vec<ArrayShape> {
            ids.iter()
                .map(|&id| self.plan.values[id].shape.clone())
                .collect()
        };
        let (operands, results) = (shapes(operands), shapes(results));
        let (operands, results): (Vec<_>, Vec<_>) =
            (operands.iter().collect(), results.iter().collect());
        let wrapped = operation::wrap(opcode, attributes, &operands, &results);
        // A short text that names large shapes many times must not cause much work.
        self.wrapped = self.wrapped.saturating_add(wrapped.len());
        if self.wrapped > self.cursor.len().saturating_mul(64).saturating_add(1 << 16) {
            let message = "the operations name too many large shapes";
            return self.cursor.error_at(start, message);
        }
        match operation::read(&wrapped, opcode, &operands, &results) {
            Ok(op) => Ok(LibraryOp::Operation(Box::new(op))),
            Err((offset, message)) => {
                let offset = start + offset.min(attributes.len());
                self.cursor.error_at(offset, message)
            }
        }
    }
}
