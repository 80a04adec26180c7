//! The parser for the text of a kernel, which is part of a plan's text.
//!
//! ```text
//! kernel  := "kernel" "(" [param {"," param}] ")" "{" header* block "}"
//! param   := ("read" | "write" | "update") type "[" [term {"," term}] "]"
//! header  := "symbol" iN "=" int range
//!          | "for" iN "<" term
//!          | "unused" (vN ":" type | iN "=" vN range | iN ("for" | "loop") "<" term)
//! range   := "in" "[" int "," int "]"
//! block   := statement* ["yield" vN {"," vN}]
//! statement :=
//!     result "=" "load" int index
//!   | "store" int index "=" vN
//!   | "bind" iN "=" vN range
//!   | "loop" iN "<" term results "=" scalars "->" results "{" block "}"
//!   | "if" term "->" results "{" block "}" "else" "{" block "}"
//!   | result "=" operation
//! operation := "constant" "0x..." | "index" term
//!   | "compare" direction ("partial" | "total") vN "," vN
//!   | "reduce-precision" int int vN | opcode vN {"," vN}
//! result  := vN ":" type            index := "[" [term {"," term}] "]"
//! results := "(" [result {"," result}] ")"
//! scalars := "(" [vN {"," vN}] ")"
//! ```
//! Scalars (`vN`) and index variables (`iN`) are declared where they are defined. `unused` declares
//! those that no statement defines, so that all numbers are kept. The verifier checks that
//! definitions come before uses.

use super::cursor::{Cursor, Result, bounds, element_type};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use tegula_expr::{Term, Var};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{
    Access, Block, IndexVar, Param, ScalarId, ScalarOp, ScalarTypes, Statement,
};
use tegula_ir::{Binary, Direction, ElementType, Opcode, Order, Unary};

/// Parses the text of one kernel.
///
/// # Errors
/// The first deviation from the grammar in this module's documentation.
pub fn parse_kernel(text: &str) -> Result<Kernel> {
    let mut cursor = Cursor::new(text);
    let read = kernel(&mut cursor)?;
    match cursor.at_end() {
        true => Ok(read),
        false => cursor.expected("nothing after the kernel"),
    }
}

/// Parses the text of an operation on scalars.
///
/// # Errors
/// As [`parse_kernel`].
pub fn parse_scalar_op(text: &str) -> Result<ScalarOp> {
    let mut cursor = Cursor::new(text);
    let mut reader = Reader {
        cursor: &mut cursor,
        vars: BTreeMap::new(),
        scalars: BTreeMap::new(),
        used: Vec::new(),
    };
    let (op, _) = reader.operation()?;
    match cursor.at_end() {
        true => Ok(op),
        false => cursor.expected("nothing after the operation"),
    }
}

/// Parses a kernel.
pub(super) fn kernel(cursor: &mut Cursor<'_>) -> Result<Kernel> {
    let start = cursor.offset();
    cursor.expect_word("kernel")?;
    let mut reader = Reader {
        cursor,
        vars: BTreeMap::new(),
        scalars: BTreeMap::new(),
        used: Vec::new(),
    };
    let mut kernel = Kernel {
        params: reader.params()?,
        ..Kernel::default()
    };
    reader.cursor.expect("{")?;
    reader.header(&mut kernel)?;
    kernel.body = reader.block()?;
    reader.finish(&mut kernel, start)?;
    Ok(kernel)
}

struct Reader<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
    vars: BTreeMap<u32, IndexVar>,
    scalars: BTreeMap<u32, ElementType>,
    /// Uses of scalars and variables: the letter, the number and the offset in the text.
    used: Vec<(char, u32, usize)>,
}

impl Reader<'_, '_> {
    fn params(&mut self) -> Result<Vec<Param>> {
        let mut params = Vec::new();
        self.cursor.expect("(")?;
        while !self.cursor.take(")") {
            if !params.is_empty() {
                self.cursor.expect(",")?;
            }
            let access = match self.cursor.peek_word() {
                "read" => Access::Read,
                "write" => Access::Write,
                "update" => Access::Update,
                "local" => Access::Local,
                _ => return self.cursor.expected("`read`, `write`, `update` or `local`"),
            };
            self.cursor.word();
            params.push(Param {
                access,
                element_type: element_type(self.cursor)?,
                dims: self.index()?,
            });
        }
        Ok(params)
    }

    fn header(&mut self, kernel: &mut Kernel) -> Result<()> {
        loop {
            match self.cursor.peek_word() {
                "symbol" => {
                    self.cursor.word();
                    let (at, var) = self.new_var()?;
                    self.cursor.expect("=")?;
                    let symbol = self.cursor.integer()?;
                    let (lower, upper) = self.range()?;
                    let symbol = IndexVar::Symbol {
                        symbol,
                        lower,
                        upper,
                    };
                    self.declare_var(at, var, symbol)?;
                }
                "for" => {
                    self.cursor.word();
                    let (at, var) = self.new_var()?;
                    let extent = self.extent()?;
                    self.declare_var(at, var, IndexVar::Domain(extent))?;
                    kernel.domain.push(Var(var));
                }
                "unused" => {
                    self.cursor.word();
                    self.unused()?;
                }
                _ => return Ok(()),
            }
        }
    }

    fn unused(&mut self) -> Result<()> {
        if self.cursor.peek_word().starts_with('v') {
            self.result()?;
            return Ok(());
        }
        let (at, var) = self.new_var()?;
        let kind = match self.cursor.peek_word() {
            "for" => {
                self.cursor.word();
                IndexVar::Domain(self.extent()?)
            }
            "loop" => {
                self.cursor.word();
                IndexVar::Loop(self.extent()?)
            }
            _ => self.run_time()?,
        };
        self.declare_var(at, var, kind)
    }

    /// Parses `= vN in [lower, upper]`.
    fn run_time(&mut self) -> Result<IndexVar> {
        self.cursor.expect("=")?;
        let value = self.scalar()?;
        let (lower, upper) = self.range()?;
        Ok(IndexVar::Runtime {
            value,
            lower,
            upper,
        })
    }

    fn range(&mut self) -> Result<(i64, i64)> {
        self.cursor.expect_word("in")?;
        bounds(self.cursor)
    }

    fn extent(&mut self) -> Result<Term> {
        self.cursor.expect("<")?;
        self.term()
    }

    /// Parses the number of a variable that is being declared; also returns its offset.
    fn new_var(&mut self) -> Result<(usize, u32)> {
        let at = self.cursor.offset();
        Ok((at, self.cursor.numbered('i', "an index variable")?))
    }

    fn declare_var(&mut self, at: usize, var: u32, kind: IndexVar) -> Result<()> {
        match self.vars.insert(var, kind) {
            None => Ok(()),
            Some(_) => self.cursor.error_at(at, format!("i{var} is defined twice")),
        }
    }

    /// Parses a scalar that is being defined, with its type.
    fn result(&mut self) -> Result<ScalarId> {
        let at = self.cursor.offset();
        let number = self.cursor.numbered('v', "a scalar")?;
        self.cursor.expect(":")?;
        let element_type = element_type(self.cursor)?;
        match self.scalars.insert(number, element_type) {
            None => Ok(ScalarId::from_u32(number)),
            Some(_) => self
                .cursor
                .error_at(at, format!("v{number} is defined twice")),
        }
    }

    fn results(&mut self) -> Result<SmallVec<[ScalarId; 2]>> {
        let mut ids = SmallVec::new();
        self.cursor.expect("(")?;
        while !self.cursor.take(")") {
            if !ids.is_empty() {
                self.cursor.expect(",")?;
            }
            ids.push(self.result()?);
        }
        Ok(ids)
    }

    fn scalar(&mut self) -> Result<ScalarId> {
        let at = self.cursor.offset();
        let number = self.cursor.numbered('v', "a scalar")?;
        self.used.push(('v', number, at));
        Ok(ScalarId::from_u32(number))
    }

    /// Parses scalars separated by commas.
    fn scalars<const N: usize>(&mut self) -> Result<SmallVec<[ScalarId; N]>>
    where
        [ScalarId; N]: smallvec::Array<Item = ScalarId>,
    {
        let mut ids = SmallVec::new();
        ids.push(self.scalar()?);
        while self.cursor.take(",") {
            ids.push(self.scalar()?);
        }
        Ok(ids)
    }

    /// Parses a term over the kernel's index variables.
    fn term(&mut self) -> Result<Term> {
        let at = self.cursor.offset();
        let used = std::cell::RefCell::new(std::mem::take(&mut self.used));
        let term = self.cursor.term(&|name| {
            let number = name.strip_prefix('i')?.parse::<u32>().ok()?;
            used.borrow_mut().push(('i', number, at));
            (number < u32::MAX).then_some(Var(number))
        });
        self.used = used.into_inner();
        term
    }

    fn index(&mut self) -> Result<Vec<Term>> {
        let mut terms = Vec::new();
        self.cursor.expect("[")?;
        while !self.cursor.take("]") {
            if !terms.is_empty() {
                self.cursor.expect(",")?;
            }
            terms.push(self.term()?);
        }
        Ok(terms)
    }

    /// Parses a block up to and including the closing brace.
    fn block(&mut self) -> Result<Block> {
        self.cursor.enter()?;
        let mut block = Block::default();
        while !self.cursor.take("}") {
            if self.cursor.take_word("yield") {
                block.results = self.scalars()?;
                self.cursor.expect("}")?;
                break;
            }
            let statement = self.statement()?;
            block.statements.push(statement);
        }
        self.cursor.leave();
        Ok(block)
    }

    fn statement(&mut self) -> Result<Statement> {
        match self.cursor.peek_word() {
            "store" => {
                self.cursor.word();
                let param = self.cursor.integer()?;
                let index = self.index()?;
                self.cursor.expect("=")?;
                let value = self.scalar()?;
                Ok(Statement::Store {
                    param,
                    index,
                    value,
                })
            }
            "bind" => {
                self.cursor.word();
                let (at, var) = self.new_var()?;
                let kind = self.run_time()?;
                self.declare_var(at, var, kind)?;
                Ok(Statement::Bind { var: Var(var) })
            }
            "loop" => self.counted_loop(),
            "if" => self.choice(),
            word if word.starts_with('v') => self.definition(),
            _ => self.cursor.expected("a statement or `}`"),
        }
    }

    fn counted_loop(&mut self) -> Result<Statement> {
        self.cursor.word();
        let (at, var) = self.new_var()?;
        let extent = self.extent()?;
        self.declare_var(at, var, IndexVar::Loop(extent))?;
        let carried = self.results()?;
        self.cursor.expect("=")?;
        self.cursor.expect("(")?;
        let mut init = SmallVec::new();
        if !self.cursor.take(")") {
            init = self.scalars()?;
            self.cursor.expect(")")?;
        }
        self.cursor.expect("->")?;
        let results = self.results()?;
        self.cursor.expect("{")?;
        let body = self.block()?;
        Ok(Statement::Loop {
            var: Var(var),
            init,
            carried,
            body,
            results,
        })
    }

    fn choice(&mut self) -> Result<Statement> {
        self.cursor.word();
        let condition = self.term()?;
        self.cursor.expect("->")?;
        let results = self.results()?;
        self.cursor.expect("{")?;
        let then = self.block()?;
        self.cursor.expect_word("else")?;
        self.cursor.expect("{")?;
        let otherwise = self.block()?;
        Ok(Statement::If {
            condition,
            then,
            otherwise,
            results,
        })
    }

    fn definition(&mut self) -> Result<Statement> {
        let result = self.result()?;
        self.cursor.expect("=")?;
        if self.cursor.take_word("load") {
            let param = self.cursor.integer()?;
            let index = self.index()?;
            return Ok(Statement::Load {
                result,
                param,
                index,
            });
        }
        let at = self.cursor.offset();
        let name = self.cursor.peek_word();
        let (op, arity) = self.operation()?;
        let operands: SmallVec<[ScalarId; 3]> = match self.cursor.follows_on_line('v') {
            true => self.scalars()?,
            false => SmallVec::new(),
        };
        if operands.len() != arity {
            let message = format!("`{name}` takes {arity} scalars, not {}", operands.len());
            return self.cursor.error_at(at, message);
        }
        Ok(Statement::Compute {
            result,
            op,
            operands,
        })
    }

    /// Parses the name of an operation; also returns how many scalars it takes.
    fn operation(&mut self) -> Result<(ScalarOp, usize)> {
        let word = self.cursor.peek_word();
        let opcode = Opcode::from_name(word);
        let unary = opcode.and_then(Unary::from_opcode);
        let binary = opcode.and_then(Binary::from_opcode);
        let simple = match word {
            "select" => Some((ScalarOp::Select, 3)),
            "clamp" => Some((ScalarOp::Clamp, 3)),
            "convert" => Some((ScalarOp::Convert, 1)),
            "bitcast-convert" => Some((ScalarOp::BitcastConvert, 1)),
            _ => unary
                .map(|op| (ScalarOp::Unary(op), 1))
                .or(binary.map(|op| (ScalarOp::Binary(op), 2))),
        };
        if let Some(simple) = simple {
            self.cursor.word();
            return Ok(simple);
        }
        match word {
            "constant" => {
                self.cursor.word();
                Ok((ScalarOp::Constant(self.cursor.bits()?), 0))
            }
            "index" => {
                self.cursor.word();
                Ok((ScalarOp::Index(self.term()?), 0))
            }
            "compare" => {
                self.cursor.word();
                Ok((self.comparison()?, 2))
            }
            "reduce-precision" => {
                self.cursor.word();
                let op = ScalarOp::ReducePrecision {
                    exponent_bits: self.cursor.integer()?,
                    mantissa_bits: self.cursor.integer()?,
                };
                Ok((op, 1))
            }
            _ => self.cursor.expected("an operation on scalars"),
        }
    }

    fn comparison(&mut self) -> Result<ScalarOp> {
        let Some(direction) = Direction::from_name(self.cursor.peek_word()) else {
            return self.cursor.expected("EQ, NE, GE, GT, LE or LT");
        };
        self.cursor.word();
        let order = match self.cursor.peek_word() {
            "partial" => Order::Partial,
            "total" => Order::Total,
            _ => return self.cursor.expected("`partial` or `total`"),
        };
        self.cursor.word();
        Ok(ScalarOp::Compare(direction, order))
    }

    /// Checks that numbers have no gaps, and that everything used is declared.
    fn finish(self, kernel: &mut Kernel, start: usize) -> Result<()> {
        for &(letter, number, at) in &self.used {
            let known = match letter {
                'v' => self.scalars.contains_key(&number),
                _ => self.vars.contains_key(&number),
            };
            if !known {
                let message = format!("{letter}{number} is not defined in this kernel");
                return self.cursor.error_at(at, message);
            }
        }
        for (expected, (number, kind)) in (0u32..).zip(self.vars) {
            if number != expected {
                let message = format!("this kernel has i{number}, but no i{expected}");
                return self.cursor.error_at(start, message);
            }
            kernel.vars.push(kind);
        }
        let mut types = ScalarTypes::default();
        for (expected, (number, element_type)) in (0u32..).zip(self.scalars) {
            if number != expected {
                let message = format!("this kernel has v{number}, but no v{expected}");
                return self.cursor.error_at(start, message);
            }
            types.push(element_type);
        }
        kernel.scalars = types;
        Ok(())
    }
}
