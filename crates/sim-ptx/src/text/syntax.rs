//! The syntax tree of a PTX module. Names are slices of the text and not resolved; an opcode is a
//! word with modifiers.

/// A position in the text, counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// A position in the original source, from a `.loc` directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceLine {
    pub(crate) file: u32,
    pub(crate) line: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Source<'a> {
    /// The word after `.target`, such as `sm_90`.
    pub(crate) target: &'a str,
    pub(crate) functions: Vec<Function<'a>>,
    /// `.global`, `.const` and `.shared` variables outside functions.
    pub(crate) variables: Vec<Variable<'a>>,
    /// `.file` directives: number and path.
    pub(crate) files: Vec<(u32, &'a str)>,
}

#[derive(Debug)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) entry: bool,
    pub(crate) returns: Vec<Variable<'a>>,
    pub(crate) params: Vec<Variable<'a>>,
    /// `None` for a declaration.
    pub(crate) body: Option<Vec<Statement<'a>>>,
    pub(crate) position: Position,
    /// `.maxntid` or `.reqntid`: the threads of a block, and whether they are required exactly.
    pub(crate) threads: Option<([u32; 3], bool)>,
}

/// A variable in memory.
#[derive(Clone, Debug)]
pub(crate) struct Variable<'a> {
    /// `global`, `shared`, `local`, `const` or `param`.
    pub(crate) space: &'a str,
    pub(crate) name: &'a str,
    pub(crate) align: u64,
    /// The size of an element in bytes.
    pub(crate) element: u64,
    /// The total size in bytes; 0 for `[]`.
    pub(crate) bytes: u64,
    pub(crate) initial: Vec<Initial<'a>>,
    /// `.extern`.
    pub(crate) external: bool,
    pub(crate) position: Position,
}

/// An element of an initialiser.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Initial<'a> {
    Bits(u64),
    Address { name: &'a str, offset: i64 },
}

#[derive(Debug)]
pub(crate) enum Statement<'a> {
    /// `.reg .ty name` or `.reg .ty name<count>`.
    Register {
        kind: &'a str,
        name: &'a str,
        count: Option<u32>,
        position: Position,
    },
    Variable(Variable<'a>),
    Label {
        name: &'a str,
        position: Position,
    },
    /// `name: .branchtargets a, b;`
    Targets {
        name: &'a str,
        labels: Vec<&'a str>,
    },
    Open,
    Close,
    Line(SourceLine),
    Instruction(Raw<'a>),
}

/// An instruction as written in the text.
#[derive(Debug)]
pub(crate) struct Raw<'a> {
    /// `@p` or `@!p`: the register, and whether it is negated.
    pub(crate) guard: Option<(&'a str, bool)>,
    pub(crate) opcode: &'a str,
    /// The modifiers, without dots.
    pub(crate) modifiers: Vec<&'a str>,
    pub(crate) operands: Vec<Operand<'a>>,
    pub(crate) position: Position,
}

#[derive(Clone, Debug)]
pub(crate) enum Operand<'a> {
    /// A register, a variable, a label, a function, or `_`.
    Name(&'a str),
    /// `%tid.x`.
    Component(&'a str, &'a str),
    Integer(i64),
    Single(u32),
    Double(u64),
    /// `{a, b}`.
    Vector(Vec<Operand<'a>>),
    /// `[base+offset]`; `base` is a name, or empty for an absolute address.
    Address {
        base: &'a str,
        offset: i64,
    },
    /// `!p`.
    Not(&'a str),
    /// `d|p`.
    Pair(&'a str, &'a str),
    /// `(a, b)`: arguments or results of a call.
    List(Vec<Operand<'a>>),
}
