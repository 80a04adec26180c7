//! The recursive-descent parser of PTX.

use logos::Logos;

use super::ParseError;
use super::lexer::Token;
use super::syntax::{
    Function, Initial, Operand, Position, Raw, Source, SourceLine, Statement, Variable,
};

/// The maximum size of a variable in bytes, a limit for hostile texts.
const LARGEST_VARIABLE: u64 = 1 << 30;
/// The maximum number of registers that a `.reg %r<n>` may declare.
const MOST_REGISTERS: i64 = 1 << 18;

/// Reads a module.
pub(crate) fn parse(text: &str) -> Result<Source<'_>, ParseError> {
    let mut reader = Reader::new(text)?;
    let mut source = Source::default();
    while let Some(token) = reader.peek() {
        if token != Token::Dotted {
            return Err(reader.unexpected("a directive such as `.entry`"));
        }
        reader.top_level(&mut source)?;
    }
    Ok(source)
}

struct Reader<'a> {
    text: &'a str,
    tokens: Vec<(Token, u32, u32)>,
    next: usize,
    /// The byte offsets of the beginnings of lines.
    lines: Vec<u32>,
}

type Parsed<T> = Result<T, ParseError>;

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Parsed<Self> {
        let mut lines = vec![0];
        if text.len() > u32::MAX as usize {
            return Err(ParseError::new(
                Position { line: 1, column: 1 },
                "the text is larger than 4 GiB",
            ));
        }
        lines.extend(
            text.bytes()
                .enumerate()
                .filter(|(_, b)| *b == b'\n')
                .map(|(i, _)| i as u32 + 1),
        );
        let mut reader = Self {
            text,
            tokens: Vec::new(),
            next: 0,
            lines,
        };
        for (token, span) in Token::lexer(text).spanned() {
            let Ok(token) = token else {
                return Err(ParseError::new(
                    reader.position_of(span.start as u32),
                    format!(
                        "`{}` is not PTX",
                        text[span].chars().take(20).collect::<String>()
                    ),
                ));
            };
            reader
                .tokens
                .push((token, span.start as u32, span.end as u32));
        }
        Ok(reader)
    }

    fn position_of(&self, offset: u32) -> Position {
        let line = self.lines.partition_point(|&start| start <= offset);
        Position {
            line: line as u32,
            column: offset - self.lines[line - 1] + 1,
        }
    }

    fn position(&self) -> Position {
        let end = self.text.len() as u32;
        self.position_of(self.tokens.get(self.next).map_or(end, |t| t.1))
    }

    fn peek(&self) -> Option<Token> {
        self.tokens.get(self.next).map(|t| t.0)
    }

    fn slice(&self, index: usize) -> &'a str {
        self.tokens
            .get(index)
            .map_or("", |t| &self.text[t.1 as usize..t.2 as usize])
    }

    /// The text of the next token.
    fn here(&self) -> &'a str {
        self.slice(self.next)
    }

    fn unexpected(&self, wanted: &str) -> ParseError {
        let found = if self.peek().is_none() {
            "the end".to_owned()
        } else {
            format!("`{}`", self.here())
        };
        ParseError::new(self.position(), format!("expected {wanted}, found {found}"))
    }

    fn eat(&mut self, token: Token) -> bool {
        let found = self.peek() == Some(token);
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, token: Token, wanted: &str) -> Parsed<&'a str> {
        let text = self.here();
        if self.eat(token) {
            Ok(text)
        } else {
            Err(self.unexpected(wanted))
        }
    }

    fn word(&mut self, wanted: &str) -> Parsed<&'a str> {
        self.expect(Token::Word, wanted)
    }

    fn semicolon(&mut self) -> Parsed<()> {
        self.expect(Token::Semicolon, "`;`").map(drop)
    }

    fn integer(&mut self) -> Parsed<i64> {
        let negative = self.eat(Token::Minus);
        let at = self.position();
        let text = self.expect(Token::Integer, "an integer")?;
        let value = integer_value(text)
            .ok_or_else(|| ParseError::new(at, format!("`{text}` does not fit in 64 bits")))?;
        Ok(if negative {
            value.wrapping_neg()
        } else {
            value
        })
    }

    fn size(&mut self) -> Parsed<u32> {
        let at = self.position();
        let value = self.integer()?;
        u32::try_from(value).map_err(|_| ParseError::new(at, format!("{value} is not a size")))
    }

    fn top_level(&mut self, source: &mut Source<'a>) -> Parsed<()> {
        match self.here() {
            ".version" => {
                self.next += 2;
                Ok(())
            }
            ".target" => {
                self.next += 1;
                source.target = self.word("a target such as `sm_90`")?;
                while self.eat(Token::Comma) {
                    self.word("a target option")?;
                }
                Ok(())
            }
            ".address_size" => {
                self.next += 1;
                let at = self.position();
                if self.integer()? == 64 {
                    return Ok(());
                }
                Err(ParseError::new(at, "only 64-bit addresses are supported"))
            }
            ".file" => {
                self.next += 1;
                let number = self.size()?;
                let path = self.expect(Token::Text, "a path")?;
                source.files.push((number, path.trim_matches('"')));
                while self.eat(Token::Comma) {
                    self.integer()?;
                }
                Ok(())
            }
            ".section" => self.skip_section(),
            ".pragma" => {
                self.next += 2;
                self.semicolon()
            }
            _ => self.declaration(source),
        }
    }

    /// Skips a section of debug information.
    fn skip_section(&mut self) -> Parsed<()> {
        while !matches!(self.peek(), None | Some(Token::BraceOpen)) {
            self.next += 1;
        }
        while !matches!(self.peek(), None | Some(Token::BraceClose)) {
            self.next += 1;
        }
        self.expect(Token::BraceClose, "`}`").map(drop)
    }

    /// Reads a function or variable with its linkage.
    fn declaration(&mut self, source: &mut Source<'a>) -> Parsed<()> {
        let mut external = false;
        loop {
            match self.here() {
                ".visible" | ".weak" | ".common" => self.next += 1,
                ".extern" => {
                    external = true;
                    self.next += 1;
                }
                ".entry" | ".func" => {
                    let function = self.function()?;
                    source.functions.push(function);
                    return Ok(());
                }
                ".global" | ".const" | ".shared" => {
                    let mut variable = self.variable()?;
                    variable.external = external;
                    self.semicolon()?;
                    source.variables.push(variable);
                    return Ok(());
                }
                _ => {
                    return Err(
                        self.unexpected("`.entry`, `.func`, `.global`, `.const` or `.shared`")
                    );
                }
            }
        }
    }

    fn function(&mut self) -> Parsed<Function<'a>> {
        let entry = self.here() == ".entry";
        self.next += 1;
        let returns = if self.peek() == Some(Token::ParenOpen) {
            self.parameters()?
        } else {
            Vec::new()
        };
        let position = self.position();
        let name = self.word("the function's name")?;
        let params = if self.peek() == Some(Token::ParenOpen) {
            self.parameters()?
        } else {
            Vec::new()
        };
        let mut threads = None;
        while self.peek() == Some(Token::Dotted) {
            let directive = self.here();
            match directive {
                ".maxntid" | ".reqntid" => {
                    self.next += 1;
                    threads = Some((self.three()?, directive == ".reqntid"));
                }
                ".minnctapersm" | ".maxnctapersm" | ".maxnreg" => {
                    self.next += 1;
                    self.size()?;
                }
                ".noreturn" => self.next += 1,
                ".pragma" => {
                    self.next += 2;
                    self.semicolon()?;
                }
                _ => {
                    let message = format!("`{directive}` is not supported on a function");
                    return Err(ParseError::new(self.position(), message));
                }
            }
        }
        let body = if self.eat(Token::Semicolon) {
            None
        } else {
            Some(self.body()?)
        };
        Ok(Function {
            name,
            entry,
            returns,
            params,
            body,
            position,
            threads,
        })
    }

    fn three(&mut self) -> Parsed<[u32; 3]> {
        let mut sizes = [1; 3];
        for (i, size) in sizes.iter_mut().enumerate() {
            if i > 0 && !self.eat(Token::Comma) {
                break;
            }
            *size = self.size()?;
        }
        Ok(sizes)
    }

    fn parameters(&mut self) -> Parsed<Vec<Variable<'a>>> {
        self.expect(Token::ParenOpen, "`(`")?;
        let mut parameters = Vec::new();
        while !self.eat(Token::ParenClose) {
            if !parameters.is_empty() {
                self.expect(Token::Comma, "`,` or `)`")?;
            }
            parameters.push(self.variable()?);
        }
        Ok(parameters)
    }

    /// Reads `.space .align n .type name[n] = {..}`.
    fn variable(&mut self) -> Parsed<Variable<'a>> {
        let position = self.position();
        let space = self.expect(Token::Dotted, "a state space")?;
        if !matches!(
            space,
            ".global" | ".const" | ".shared" | ".local" | ".param"
        ) {
            return Err(ParseError::new(
                position,
                format!("`{space}` holds no variables here"),
            ));
        }
        let (mut align, mut element, mut lanes) = (0, 0, 1);
        while self.peek() == Some(Token::Dotted) {
            let at = self.position();
            let word = self.here();
            self.next += 1;
            match word {
                ".align" => {
                    align = u64::from(self.size()?);
                    if !align.is_power_of_two() || align > 1024 {
                        return Err(ParseError::new(at, format!("an alignment of {align}")));
                    }
                }
                ".ptr" | ".global" | ".shared" | ".const" | ".local" | ".attribute"
                    if space == ".param" => {}
                ".v2" => lanes = 2,
                ".v4" => lanes = 4,
                _ => {
                    element = type_bytes(word).ok_or_else(|| {
                        ParseError::new(at, format!("`{word}` is not the type of a variable"))
                    })?;
                }
            }
        }
        let name = self.word("a variable's name")?;
        if element == 0 {
            return Err(ParseError::new(position, format!("`{name}` has no type")));
        }
        element *= lanes;
        let mut bytes = element;
        while self.eat(Token::BracketOpen) {
            let count = if self.peek() == Some(Token::BracketClose) {
                0
            } else {
                u64::from(self.size()?)
            };
            bytes = bytes.saturating_mul(count);
            self.expect(Token::BracketClose, "`]`")?;
        }
        if bytes > LARGEST_VARIABLE {
            return Err(ParseError::new(
                position,
                format!("`{name}` is larger than 1 GiB"),
            ));
        }
        let initial = if self.eat(Token::Equal) {
            self.initial(element / lanes)?
        } else {
            Vec::new()
        };
        let align = align.max(1).max(if align == 0 {
            element.next_power_of_two().min(16)
        } else {
            1
        });
        let space = &space[1..];
        let element = element / lanes;
        Ok(Variable {
            space,
            name,
            align,
            element,
            bytes,
            initial,
            external: false,
            position,
        })
    }

    fn initial(&mut self, element: u64) -> Parsed<Vec<Initial<'a>>> {
        if !self.eat(Token::BraceOpen) {
            return Ok(vec![self.initial_element(element)?]);
        }
        let mut elements = Vec::new();
        let mut depth = 1;
        while depth > 0 {
            match self.peek() {
                Some(Token::BraceOpen) => {
                    depth += 1;
                    self.next += 1;
                }
                Some(Token::BraceClose) => {
                    depth -= 1;
                    self.next += 1;
                }
                Some(Token::Comma) => self.next += 1,
                _ => elements.push(self.initial_element(element)?),
            }
        }
        Ok(elements)
    }

    fn initial_element(&mut self, element: u64) -> Parsed<Initial<'a>> {
        match self.peek() {
            Some(Token::Word) => {
                let word = self.word("a name")?;
                let generic = word == "generic" && self.eat(Token::ParenOpen);
                let name = if generic {
                    self.word("a variable")?
                } else {
                    word
                };
                if generic {
                    self.expect(Token::ParenClose, "`)`")?;
                }
                let offset = if self.eat(Token::Plus) {
                    self.integer()?
                } else {
                    0
                };
                Ok(Initial::Address { name, offset })
            }
            _ => match self.number()? {
                Operand::Integer(value) => Ok(Initial::Bits(value as u64)),
                Operand::Single(bits) => Ok(Initial::Bits(u64::from(bits))),
                Operand::Double(bits) if element == 4 => Ok(Initial::Bits(u64::from(
                    (f64::from_bits(bits) as f32).to_bits(),
                ))),
                Operand::Double(bits) => Ok(Initial::Bits(bits)),
                _ => Err(self.unexpected("a number")),
            },
        }
    }

    fn number(&mut self) -> Parsed<Operand<'a>> {
        let at = self.position();
        let negative = self.peek() == Some(Token::Minus);
        let index = self.next + usize::from(negative);
        let text = self.slice(index);
        let bad = || ParseError::new(at, format!("`{text}` is not a number"));
        let operand = match self.tokens.get(index).map(|t| t.0) {
            Some(Token::Integer) => return Ok(Operand::Integer(self.integer()?)),
            Some(Token::Single) => {
                let bits = u32::from_str_radix(&text[2..], 16).map_err(|_| bad())?;
                Operand::Single(bits ^ (u32::from(negative) << 31))
            }
            Some(Token::Double) => {
                let bits = u64::from_str_radix(&text[2..], 16).map_err(|_| bad())?;
                Operand::Double(bits ^ (u64::from(negative) << 63))
            }
            Some(Token::Decimal) => {
                let value: f64 = text.parse().map_err(|_| bad())?;
                Operand::Double((if negative { -value } else { value }).to_bits())
            }
            _ => return Err(self.unexpected("a number")),
        };
        self.next = index + 1;
        Ok(operand)
    }

    fn body(&mut self) -> Parsed<Vec<Statement<'a>>> {
        self.expect(Token::BraceOpen, "`{` or `;`")?;
        let mut statements = Vec::new();
        let mut depth = 1;
        loop {
            match self.peek() {
                None => return Err(self.unexpected("`}`")),
                Some(Token::BraceOpen) => {
                    depth += 1;
                    self.next += 1;
                    statements.push(Statement::Open);
                }
                Some(Token::BraceClose) => {
                    depth -= 1;
                    self.next += 1;
                    if depth == 0 {
                        return Ok(statements);
                    }
                    statements.push(Statement::Close);
                }
                Some(Token::Dotted) => self.body_directive(&mut statements)?,
                Some(Token::Word)
                    if self.tokens.get(self.next + 1).map(|t| t.0) == Some(Token::Colon) =>
                {
                    self.label(&mut statements)?;
                }
                Some(Token::Semicolon) => self.next += 1,
                _ => statements.push(Statement::Instruction(self.instruction()?)),
            }
        }
    }

    fn label(&mut self, statements: &mut Vec<Statement<'a>>) -> Parsed<()> {
        let position = self.position();
        let name = self.word("a label")?;
        self.next += 1;
        if self.here() == ".branchtargets" {
            self.next += 1;
            let mut labels = vec![self.word("a label")?];
            while self.eat(Token::Comma) {
                labels.push(self.word("a label")?);
            }
            self.semicolon()?;
            statements.push(Statement::Targets { name, labels });
            return Ok(());
        }
        statements.push(Statement::Label { name, position });
        Ok(())
    }

    fn body_directive(&mut self, statements: &mut Vec<Statement<'a>>) -> Parsed<()> {
        let at = self.position();
        match self.here() {
            ".reg" => {
                self.next += 1;
                self.registers(statements)?;
                self.semicolon()
            }
            ".shared" | ".local" | ".param" | ".const" | ".global" => {
                let variable = self.variable()?;
                statements.push(Statement::Variable(variable));
                self.semicolon()
            }
            ".loc" => {
                self.next += 1;
                let (file, line) = (self.size()?, self.size()?);
                self.size()?;
                self.loc_options()?;
                statements.push(Statement::Line(SourceLine { file, line }));
                Ok(())
            }
            ".pragma" => {
                self.next += 2;
                self.semicolon()
            }
            other => Err(ParseError::new(
                at,
                format!("the directive `{other}` is not supported in a function"),
            )),
        }
    }

    /// Reads `, function_name $L__info_string0, inlined_at 1 5 3`.
    fn loc_options(&mut self) -> Parsed<()> {
        while self.eat(Token::Comma) {
            let at = self.position();
            match self.word("an option of `.loc`")? {
                "function_name" => {
                    self.word("a label")?;
                    if self.eat(Token::Plus) {
                        self.integer()?;
                    }
                }
                "inlined_at" => {
                    for _ in 0..3 {
                        self.integer()?;
                    }
                }
                other => {
                    return Err(ParseError::new(
                        at,
                        format!("`{other}` is not an option of `.loc`"),
                    ));
                }
            }
        }
        Ok(())
    }

    fn registers(&mut self, statements: &mut Vec<Statement<'a>>) -> Parsed<()> {
        let kind = &self.expect(Token::Dotted, "a register type")?[1..];
        loop {
            let position = self.position();
            let name = self.word("a register's name")?;
            let count = if self.eat(Token::AngleOpen) {
                let count = self.integer()?;
                if !(0..=MOST_REGISTERS).contains(&count) {
                    return Err(ParseError::new(position, format!("{count} registers")));
                }
                self.expect(Token::AngleClose, "`>`")?;
                Some(count as u32)
            } else {
                None
            };
            statements.push(Statement::Register {
                kind,
                name,
                count,
                position,
            });
            if !self.eat(Token::Comma) {
                return Ok(());
            }
        }
    }

    fn instruction(&mut self) -> Parsed<Raw<'a>> {
        let guard = if self.eat(Token::At) {
            let negated = self.eat(Token::Not);
            Some((self.word("a predicate")?, negated))
        } else {
            None
        };
        let position = self.position();
        let opcode = self.word("an instruction")?;
        let mut modifiers = Vec::new();
        while self.peek() == Some(Token::Dotted) {
            modifiers.push(&self.here()[1..]);
            self.next += 1;
        }
        let mut operands = Vec::new();
        while !self.eat(Token::Semicolon) {
            if !operands.is_empty() {
                self.expect(Token::Comma, "`,` or `;`")?;
            }
            operands.push(self.operand(0)?);
        }
        Ok(Raw {
            guard,
            opcode,
            modifiers,
            operands,
            position,
        })
    }

    fn operand(&mut self, depth: u32) -> Parsed<Operand<'a>> {
        let list = |reader: &mut Self, close, text| {
            reader.next += 1;
            let mut items = Vec::new();
            while !reader.eat(close) {
                if !items.is_empty() {
                    reader.expect(Token::Comma, text)?;
                }
                if depth > 2 {
                    return Err(reader.unexpected("an operand"));
                }
                items.push(reader.operand(depth + 1)?);
            }
            Ok(items)
        };
        match self.peek() {
            Some(Token::BraceOpen) => Ok(Operand::Vector(list(
                self,
                Token::BraceClose,
                "`,` or `}`",
            )?)),
            Some(Token::ParenOpen) => {
                Ok(Operand::List(list(self, Token::ParenClose, "`,` or `)`")?))
            }
            Some(Token::BracketOpen) => {
                self.next += 1;
                self.address()
            }
            Some(Token::Not) => {
                self.next += 1;
                Ok(Operand::Not(self.word("a predicate")?))
            }
            Some(Token::Word) => {
                let name = self.word("an operand")?;
                match self.peek() {
                    Some(Token::Dotted) => {
                        self.next += 1;
                        Ok(Operand::Component(name, &self.slice(self.next - 1)[1..]))
                    }
                    Some(Token::Bar) => {
                        self.next += 1;
                        Ok(Operand::Pair(name, self.word("a predicate")?))
                    }
                    Some(Token::Plus) => {
                        self.next += 1;
                        let offset = self.integer()?;
                        Ok(Operand::Address { base: name, offset })
                    }
                    _ => Ok(Operand::Name(name)),
                }
            }
            _ => self.number(),
        }
    }

    fn address(&mut self) -> Parsed<Operand<'a>> {
        let base = if self.peek() == Some(Token::Word) {
            self.word("an address")?
        } else {
            ""
        };
        let offset = match self.peek() {
            Some(Token::Plus) => {
                self.next += 1;
                self.integer()?
            }
            Some(Token::BracketClose) if !base.is_empty() => 0,
            _ => self.integer()?,
        };
        self.expect(Token::BracketClose, "`]`")?;
        Ok(Operand::Address { base, offset })
    }
}

/// The value of `12`, `0x1F`, `0b11`, `017` with an optional `U`, as a 64-bit integer.
fn integer_value(text: &str) -> Option<i64> {
    let text = text.trim_end_matches('U');
    let lower = text.to_ascii_lowercase();
    let value = if let Some(digits) = lower.strip_prefix("0x") {
        u64::from_str_radix(digits, 16).ok()?
    } else if let Some(digits) = lower.strip_prefix("0b") {
        u64::from_str_radix(digits, 2).ok()?
    } else if lower.len() > 1 && lower.starts_with('0') {
        u64::from_str_radix(&lower, 8).ok()?
    } else {
        lower.parse().ok()?
    };
    Some(value as i64)
}

/// The size of a fundamental type in memory, in bytes.
fn type_bytes(word: &str) -> Option<u64> {
    Some(match word {
        ".b8" | ".u8" | ".s8" => 1,
        ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" => 2,
        ".b32" | ".u32" | ".s32" | ".f32" | ".f16x2" | ".bf16x2" => 4,
        ".b64" | ".u64" | ".s64" | ".f64" => 8,
        ".b128" => 16,
        _ => return None,
    })
}
