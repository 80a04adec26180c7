//! The representation of a program for one TPU core: what a person writes to have a placement
//! checked, and what a compiled plan is lowered to.
//!
//! The core runs statements in order. A copy ([`StatementKind::Start`]) runs in parallel to them
//! and raises its semaphore when it is done. Terms are over the program's [`Variable`]s; a
//! variable's number is its [`Var`].

mod visit;

pub(crate) use visit::{dependents, for_each_defined, for_each_slice_mut, rename, renamed_term};
pub use visit::{find_statement, for_each_statement};

use rustc_hash::FxHashMap;
use std::sync::Arc;
use tegula_arena::{Arena, entity_impl};
use tegula_expr::{Cmp, Term, Var};
use tegula_ir::{ArrayShape, Literal, Module};
use tegula_mosaic::ir::{Binary, Cast, FloatPredicate, IntPredicate, Op, Unary};
use tegula_mosaic::types::Element;

/// A buffer of a program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(u32);
entity_impl!(BufferId, "buffer");

/// An array of semaphores of a program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SemaphoreId(u32);
entity_impl!(SemaphoreId, "semaphore");

/// A vector register of a program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegisterId(u32);
entity_impl!(RegisterId, "register");

/// A variable of a program; `VariableId` n is `Var(n)` in its terms.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VariableId(u32);
entity_impl!(VariableId, "variable");

impl VariableId {
    /// The variable as it appears in terms.
    pub fn var(self) -> Var {
        Var(self.0)
    }
}

/// A kernel, or a whole program, for one core.
#[derive(Clone, Debug, Default)]
pub struct TpuProgram {
    /// The program's name.
    pub name: String,
    /// Every buffer that the body declares.
    pub buffers: Arena<BufferId, Buffer>,
    /// Every array of semaphores; all counts start at zero.
    pub semaphores: Arena<SemaphoreId, Semaphores>,
    /// Loop variables, `let` names, and loaded scalars.
    pub variables: Arena<VariableId, Variable>,
    /// Vector registers, used by [`StatementKind::Vector`].
    pub registers: Arena<RegisterId, Register>,
    /// The statements, in order.
    pub body: Vec<Statement>,
    /// The dimensions of buffers that do not exist in their source, in order: the dimension that
    /// numbers a window's buffers, and dimensions of a window that the kernel's argument lacks.
    /// Messages do not count them.
    pub hidden: FxHashMap<BufferId, Vec<usize>>,
    /// The places that statements come from, if they do not come from the program's own text; a
    /// statement's line is then the number of its place, from 1.
    pub places: Vec<Place>,
    /// Whether operations on types that the units lack (64-bit, complex) stand for sequences of
    /// supported operations, as a compiler generates them. In a kernel that a person writes such
    /// operations are an error.
    pub emulates: bool,
}

impl TpuProgram {
    /// Whether the program is a Pallas kernel: its compiler handles packing and addressing that a
    /// text must state.
    pub fn is_of_pallas(&self) -> bool {
        !self.places.is_empty() || !self.registers.is_empty()
    }

    /// The dimensions of a buffer that do not exist in its source.
    pub(crate) fn hidden_dimensions(&self, buffer: BufferId) -> &[usize] {
        self.hidden.get(&buffer).map_or(&[], Vec::as_slice)
    }

    /// The number of a buffer's dimension as its source counts it.
    pub(crate) fn source_dimension(&self, buffer: BufferId, dimension: usize) -> usize {
        let hidden = self.hidden_dimensions(buffer).iter();
        dimension - hidden.filter(|hidden| **hidden < dimension).count()
    }

    /// The place in the source for a statement's line, if the program has places.
    pub fn place(&self, line: u32) -> Option<&Place> {
        let at = usize::try_from(line.checked_sub(1)?).ok()?;
        self.places.get(at)
    }

    /// A statement's line in its source, as messages name it.
    pub fn source_line(&self, line: u32) -> u32 {
        self.place(line).map_or(line, |place| place.line)
    }
}

/// A memory of a TPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// The chip's large memory.
    Hbm,
    /// The core's vector memory.
    Vmem,
    /// The core's scalar memory.
    Smem,
    /// The memory that the cores of some chips share.
    Cmem,
}

/// How a buffer communicates with the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Only the program uses it: it starts uninitialised, and its content is lost at the end.
    Scratch,
    /// It holds the argument of this number when the program starts.
    Parameter(usize),
    /// Its content at the end is the result of this number.
    Result(usize),
    /// Both: a result that shares its memory with a parameter.
    Updated {
        /// The argument that it holds when the program starts.
        parameter: usize,
        /// The result that it holds at the end.
        result: usize,
    },
}

impl Role {
    /// The number of the argument that the buffer holds at the start.
    pub fn parameter(self) -> Option<usize> {
        match self {
            Self::Parameter(number)
            | Self::Updated {
                parameter: number, ..
            } => Some(number),
            _ => None,
        }
    }

    /// The number of the result that the buffer holds at the end.
    pub fn result(self) -> Option<usize> {
        match self {
            Self::Result(number) | Self::Updated { result: number, .. } => Some(number),
            _ => None,
        }
    }
}

/// An array in a memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// The buffer's name. The printed text tells equal names apart by a number.
    pub name: String,
    /// The memory that holds it.
    pub space: Space,
    /// Element type, static dimensions, and the layout with its tiles. Without a layout the buffer
    /// has the chip's default layout.
    pub shape: ArrayShape,
    /// How it communicates with the caller.
    pub role: Role,
    /// The offset of its first byte, if it is fixed; else the simulator places the buffer.
    pub offset: Option<i64>,
    /// Whether it counts as scratch memory of the whole program and not against the limit of scoped
    /// VMEM: a buffer that a compiler's schedule keeps from kernel to kernel.
    pub program_lifetime: bool,
}

/// An array of semaphores.
#[derive(Clone, Debug, PartialEq)]
pub struct Semaphores {
    /// The array's name. The printed text tells equal names apart by a number.
    pub name: String,
    /// The number of semaphores.
    pub count: i64,
}

/// A vector register.
#[derive(Clone, Debug, PartialEq)]
pub struct Register {
    /// Its logical sizes.
    pub dims: Vec<i64>,
    /// The type of its elements.
    pub element: Element,
}

/// A place in the source that a program was translated from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The file's name; empty if it is not known.
    pub file: Arc<str>,
    /// The line, from 1; 0 if it is not known.
    pub line: u32,
}

/// A variable of terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// The variable's name; an inner scope may use the name again.
    pub name: String,
    /// The assumed range of a loaded scalar, both ends included.
    pub range: Option<(i64, i64)>,
}

/// A statement with its place in the text.
#[derive(Clone, Debug)]
pub struct Statement {
    /// What the statement does.
    pub kind: StatementKind,
    /// The line of the text, from 1. In a lowered program it is the number of the instruction that
    /// the statement comes from, or 0.
    pub line: u32,
}

impl Statement {
    /// The bodies inside the statement, in the order of the text.
    pub fn bodies(&self) -> impl Iterator<Item = &[Statement]> {
        let [first, second] = match &self.kind {
            StatementKind::For { body, .. } => [Some(body), None],
            StatementKind::While {
                condition, body, ..
            } => [Some(condition), Some(body)],
            StatementKind::If {
                then, otherwise, ..
            } => [Some(then), Some(otherwise)],
            StatementKind::Grid(grid) => [Some(&grid.body), None],
            _ => [None, None],
        };
        first.into_iter().chain(second).map(Vec::as_slice)
    }
}

/// What a statement does.
#[derive(Clone, Debug)]
pub enum StatementKind {
    /// Begins a buffer's life. Declarations of a text's head come first in the body.
    Declare(BufferId),
    /// Ends a buffer's life.
    Free(BufferId),
    /// Starts a copy; both slices have the same shape.
    Start {
        /// The slice that is read.
        source: Slice,
        /// The slice that is written.
        destination: Slice,
        /// The semaphore that is raised by the bytes when the copy is done.
        semaphore: SemaphoreRef,
        /// For a copy to another core: that core, and a semaphore of this core that is raised when
        /// all bytes were read. `semaphore` is then the other core's.
        remote: Option<Remote>,
    },
    /// Waits until a semaphore was raised by as many bytes as a copy between these slices moves,
    /// whichever copies they belong to.
    WaitCopy {
        /// The source of such a copy.
        source: Slice,
        /// The destination of such a copy.
        destination: Slice,
        /// The semaphore.
        semaphore: SemaphoreRef,
    },
    /// Waits for the oldest copy on a semaphore that was not waited for yet.
    Wait {
        /// The semaphore.
        semaphore: SemaphoreRef,
        /// The number of bytes to wait for instead of one whole copy.
        bytes: Option<Term>,
    },
    /// Raises a counting semaphore.
    Signal {
        /// The semaphore.
        semaphore: SemaphoreRef,
        /// The amount that is added.
        amount: Term,
        /// The core that owns the semaphore, if it is not this core.
        core: Option<Term>,
    },
    /// Waits until a counting semaphore has an amount, and subtracts it.
    Await {
        /// The semaphore.
        semaphore: SemaphoreRef,
        /// The amount.
        amount: Term,
    },
    /// A computation on slices.
    Compute(Box<Compute>),
    /// Straight-line code on vector registers, which is scheduled as one block.
    Vector(Box<VectorBlock>),
    /// A computation of the scalar unit.
    Scalar {
        /// The variable that takes the result.
        variable: VariableId,
        /// The operation.
        operation: ScalarOperation,
        /// The operands.
        operands: Vec<Term>,
    },
    /// Stores a scalar to SMEM.
    StoreScalar {
        /// A slice of one element.
        destination: Slice,
        /// The value.
        value: Term,
    },
    /// Names a value that is assumed to be a multiple of a number. The simulator checks this when
    /// it runs.
    AssumeMultiple {
        /// The name.
        variable: VariableId,
        /// The value.
        value: Term,
        /// The number.
        multiple: i64,
        /// A name for the value divided by the number, which proofs use.
        quotient: VariableId,
    },
    /// Reads a counting semaphore.
    ReadSemaphore {
        /// The variable that takes the count.
        variable: VariableId,
        /// The semaphore.
        semaphore: SemaphoreRef,
    },
    /// Reads the number of the core that runs the program.
    CoreNumber {
        /// The variable that takes the number.
        variable: VariableId,
    },
    /// Waits for a time.
    Delay {
        /// The time in nanoseconds.
        nanoseconds: Term,
    },
    /// Prints a text for the user.
    Print(Box<Print>),
    /// An assertion: it is a finding if the condition does not hold.
    Assert {
        /// The condition, which holds if it is not 0.
        condition: Term,
        /// The message if it does not hold.
        message: Arc<str>,
    },
    /// States what the statement that follows takes for granted: the run ends if it does not hold.
    Require {
        /// Not 0 if it holds.
        condition: Term,
        /// What is not simulated.
        message: Arc<str>,
    },
    /// Runs the body for each value from `low` to `high`, exclusive.
    For {
        /// The loop variable.
        variable: VariableId,
        /// The first value.
        low: Term,
        /// The exclusive upper bound.
        high: Term,
        /// The statements of the loop.
        body: Vec<Statement>,
    },
    /// A loop: runs `condition`, and while `test` holds after it, `body` and `condition` again.
    While {
        /// The statements that load what the test reads.
        condition: Vec<Statement>,
        /// The test for another iteration.
        test: Comparison,
        /// The statements of the loop.
        body: Vec<Statement>,
    },
    /// Runs one of two bodies.
    If {
        /// The condition.
        condition: Comparison,
        /// The statements that run if it holds.
        then: Vec<Statement>,
        /// The statements that run if it does not hold.
        otherwise: Vec<Statement>,
    },
    /// Names a term's value.
    Let {
        /// The name.
        variable: VariableId,
        /// The value.
        value: Term,
    },
    /// Gives a name of an enclosing scope another value, such as a count that is kept from one
    /// iteration of a loop to the next.
    Set {
        /// The name.
        variable: VariableId,
        /// The value.
        value: Term,
    },
    /// Loads a scalar from SMEM into a variable.
    Load {
        /// The variable that takes the value.
        variable: VariableId,
        /// A slice of one element of an integer buffer in SMEM.
        source: Slice,
    },
    /// States the range of a loaded scalar. The simulator checks it when it runs.
    Assume {
        /// The variable.
        variable: VariableId,
        /// The least value.
        low: Term,
        /// The greatest value.
        high: Term,
    },
    /// Launches a kernel of a compiled program: its first computation starts no sooner than a
    /// fetch's latency after this. Copies continue meanwhile.
    Launch,
    /// A pipeline over a grid, which stands for its expansion to starts and waits of copies.
    Grid(Box<Grid>),
}

/// The other core of a copy.
#[derive(Clone, Debug, PartialEq)]
pub struct Remote {
    /// The core of the destination.
    pub core: Term,
    /// A semaphore of this core that is raised once the bytes were read.
    pub sent: Option<SemaphoreRef>,
}

/// A text with values, for printing.
#[derive(Clone, Debug, PartialEq)]
pub struct Print {
    /// The text.
    pub text: Arc<str>,
    /// Whether `$0`, `$1`, ... in the text stand for the values (`$x0` in hexadecimal); otherwise
    /// the values follow the text.
    pub formatted: bool,
    /// The values.
    pub values: Vec<PrintedValue>,
}

/// A value that is printed.
#[derive(Clone, Debug, PartialEq)]
pub enum PrintedValue {
    /// A scalar of this type.
    Scalar(Term, Element),
    /// The elements of an array of this type.
    Array(Slice, Element),
}

/// An operation on scalars. A variable holds an integer sign-extended, a truth value as 0 or 1, and
/// a floating-point number by the bits of its f32.
#[derive(Clone, Debug, PartialEq)]
pub enum ScalarOperation {
    /// An operation on one operand of a type.
    Unary(Unary, Element),
    /// An operation on two operands of a type.
    Binary(Binary, Element),
    /// A comparison of two integers of a type.
    CompareInt(IntPredicate, Element),
    /// A comparison of two floating-point numbers.
    CompareFloat(FloatPredicate),
    /// A selection: a truth value and two values to select from.
    Select,
    /// A conversion from one type to another.
    Cast(Cast, Element, Element),
}

/// A block of straight-line vector code.
#[derive(Clone, Debug, Default)]
pub struct VectorBlock {
    /// The operations, in order.
    pub operations: Vec<VectorOperation>,
}

/// An operation on vectors.
#[derive(Clone, Debug)]
pub struct VectorOperation {
    /// The operation.
    pub op: VectorOp,
    /// The operands: for a store the vector first; then a mask, if there is one.
    pub operands: Vec<VectorOperand>,
    /// The register or variable that takes the result.
    pub result: Option<VectorResult>,
    /// The line, counted like that of a [`Statement`].
    pub line: u32,
}

/// The kind of a vector operation.
#[derive(Clone, Debug)]
pub enum VectorOp {
    /// Copies the operand.
    Move,
    /// Loads a vector from a slice.
    Load(View),
    /// Stores a vector to a slice.
    Store {
        /// The destination.
        view: View,
        /// Whether the vector is added to the destination's content.
        add: bool,
    },
    /// A computation without memory access.
    Compute(Op),
}

/// An operand of a vector operation.
#[derive(Clone, Debug, PartialEq)]
pub enum VectorOperand {
    /// A vector register.
    Register(RegisterId),
    /// A scalar of this type.
    Scalar(Term, Element),
}

/// The destination of a vector operation's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorResult {
    /// A vector register.
    Register(RegisterId),
    /// A scalar variable.
    Variable(VariableId),
}

/// The part of a buffer that a vector load or store accesses: a slice, optionally reshaped, of
/// which a part is taken.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The slice.
    pub slice: Slice,
    /// Further shapes: the sizes, with as many elements as before, and the part that is taken of
    /// each.
    pub reshaped: Vec<(Vec<i64>, Vec<SliceEntry>)>,
    /// The distance between consecutive elements along each dimension that the last stage keeps;
    /// all 1 if empty. The sizes of its ranges count the elements that are taken.
    pub strides: Vec<i64>,
}

/// A comparison of terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The left side.
    pub left: Term,
    /// The operator.
    pub cmp: Cmp,
    /// The right side.
    pub right: Term,
}

/// One semaphore of an array.
#[derive(Clone, Debug, PartialEq)]
pub struct SemaphoreRef {
    /// The array.
    pub array: SemaphoreId,
    /// The index; 0 where the array has one semaphore.
    pub index: Term,
}

/// A part of a buffer: one entry for each dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// The buffer.
    pub buffer: BufferId,
    /// One entry for each dimension of the buffer.
    pub entries: Vec<SliceEntry>,
}

/// The part of one dimension that a slice takes.
#[derive(Clone, Debug, PartialEq)]
pub enum SliceEntry {
    /// All of it.
    Whole,
    /// One element; the slice drops the dimension.
    Element(Term),
    /// `size` elements beginning at `start`.
    Range {
        /// The first element.
        start: Term,
        /// The number of elements.
        size: i64,
        /// Whether elements past the end of the dimension are left out, as for a window at the
        /// array's edge whose block does not divide the array.
        clipped: bool,
    },
    /// A number of elements from `start` on that is known only when the statement runs; only copies
    /// may use it.
    Sized {
        /// The first element.
        start: Term,
        /// The number of elements.
        size: Term,
    },
}

/// An operand of a computation.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A part of a buffer in VMEM or SMEM.
    Slice(Slice),
    /// A constant in the text.
    Literal(Literal),
}

/// A computation: `destination = operation(operands)`.
#[derive(Clone, Debug)]
pub struct Compute {
    /// The slices that are written, in VMEM or SMEM; several if the operation returns a tuple.
    pub destinations: Vec<Slice>,
    /// Whether the result is added to the destination's content.
    pub accumulate: bool,
    /// The operation: a module whose entry computation has one parameter for each operand, with the
    /// slices' shapes, and the destinations' shapes as its result. It is a single operation or the
    /// computation of a fusion.
    pub operation: Arc<Module>,
    /// The operands.
    pub operands: Vec<Operand>,
}

/// A pipeline: at each point of the grid the windows' blocks are in VMEM.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// The dimensions, outermost first.
    pub dimensions: Vec<GridDimension>,
    /// The blocks that are fetched or written back.
    pub windows: Vec<Window>,
    /// The statements that run at each point.
    pub body: Vec<Statement>,
}

/// A dimension of a grid.
#[derive(Clone, Debug, PartialEq)]
pub struct GridDimension {
    /// The variable that takes the values.
    pub variable: VariableId,
    /// The first value.
    pub low: Term,
    /// The exclusive upper bound.
    pub high: Term,
    /// Whether the points may be visited in any order.
    pub parallel: bool,
}

/// A block of an array in HBM that is in VMEM during a grid point.
#[derive(Clone, Debug)]
pub struct Window {
    /// The buffer by which the body refers to the block. After expansion it is a buffer in VMEM
    /// with `buffers` blocks along its first dimension; before, the body's slices have the block's
    /// dimensions.
    pub block: BufferId,
    /// The array in HBM.
    pub array: BufferId,
    /// The block's size along each dimension of the array.
    pub sizes: Vec<i64>,
    /// The index of the block along each dimension: the slice begins at `index * step`.
    pub indices: Vec<Term>,
    /// The distance from the beginning of one block to the next along each dimension, where it is
    /// not the block's size; empty if it is always the block's size.
    pub steps: Vec<i64>,
    /// The statements that compute the variables of `indices` from the grid's variables, if
    /// `indices` are not over the grid's variables themselves.
    pub transform: Vec<Statement>,
    /// The number of blocks that there is room for.
    pub buffers: i64,
    /// Whether blocks are written back; otherwise they are fetched.
    pub output: bool,
    /// The line of its declaration, counted like that of a [`Statement`].
    pub line: u32,
}
