//! A program for one TPU core as data: what a person writes to have a placement
//! checked, and what a plan is lowered to.
//!
//! The core runs statements in order. A copy ([`StatementKind::Start`]) runs beside
//! them and raises its semaphore when it is done. Terms are over the program's
//! [`Variable`]s: a variable's number is its [`Var`].

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

/// A vector that the core holds in registers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegisterId(u32);
entity_impl!(RegisterId, "register");

/// A variable of a program; `VariableId` n is `Var(n)` in its terms.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VariableId(u32);
entity_impl!(VariableId, "variable");

impl VariableId {
    /// The variable as terms know it.
    pub fn var(self) -> Var {
        Var(self.0)
    }
}

/// A kernel, or a whole program, for one core.
#[derive(Clone, Debug, Default)]
pub struct TpuProgram {
    /// Its name.
    pub name: String,
    /// Every buffer that the body declares.
    pub buffers: Arena<BufferId, Buffer>,
    /// Every array of semaphores, all zero at first.
    pub semaphores: Arena<SemaphoreId, Semaphores>,
    /// Loop variables, `let` names, scalars that were loaded.
    pub variables: Arena<VariableId, Variable>,
    /// Vectors in registers, as [`StatementKind::Vector`] computes with them.
    pub registers: Arena<RegisterId, Register>,
    /// What is run, in order.
    pub body: Vec<Statement>,
    /// Dimensions of buffers that their source does not have, in order: the one that counts a
    /// window's buffers, and those that a kernel's argument lacks of its window. Messages do not
    /// count them.
    pub hidden: FxHashMap<BufferId, Vec<usize>>,
    /// Where statements are from, if that is not the program's own text: a statement's line is
    /// then the number of its place, from 1.
    pub places: Vec<Place>,
    /// Whether operations on types that the units do not have (64-bit, complex) are
    /// sequences of those that they have, as a compiler writes them. In a kernel that a
    /// person writes they are a mistake.
    pub emulates: bool,
}

impl TpuProgram {
    /// Whether it is a kernel of Pallas: its compiler packs and addresses what texts state.
    pub fn is_of_pallas(&self) -> bool {
        !self.places.is_empty() || !self.registers.is_empty()
    }

    /// The dimensions of a buffer that its source does not have.
    pub(crate) fn hidden_dimensions(&self, buffer: BufferId) -> &[usize] {
        self.hidden.get(&buffer).map_or(&[], Vec::as_slice)
    }

    /// The number of a buffer's dimension as its source counts them.
    pub(crate) fn source_dimension(&self, buffer: BufferId, dimension: usize) -> usize {
        let hidden = self.hidden_dimensions(buffer).iter();
        dimension - hidden.filter(|hidden| **hidden < dimension).count()
    }

    /// The place in the source of a statement's line, if the program has places.
    pub fn place(&self, line: u32) -> Option<&Place> {
        let at = usize::try_from(line.checked_sub(1)?).ok()?;
        self.places.get(at)
    }

    /// A statement's line as messages name it: that of its source.
    pub fn source_line(&self, line: u32) -> u32 {
        self.place(line).map_or(line, |place| place.line)
    }
}

/// A memory of the chip.
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

/// What a buffer is to the outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Nothing: not initialised, gone at the end.
    Scratch,
    /// Holds the argument of this number when the program starts.
    Parameter(usize),
    /// What it holds at the end is the result of this number.
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
    /// The argument that the buffer holds at first.
    pub fn parameter(self) -> Option<usize> {
        match self {
            Self::Parameter(number)
            | Self::Updated {
                parameter: number, ..
            } => Some(number),
            _ => None,
        }
    }

    /// The result that the buffer holds at the end.
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
    /// Its name. Text tells equal ones apart by a number.
    pub name: String,
    /// Where it lies.
    pub space: Space,
    /// Element type, static dimensions, and the layout with its tiles. Without a layout
    /// it has the chip's default one.
    pub shape: ArrayShape,
    /// What it is to the outside.
    pub role: Role,
    /// The byte at which it begins, if that was chosen; else the simulator places it.
    pub offset: Option<i64>,
    /// Whether it counts as scratch of the whole program and not against the limit of
    /// scoped VMEM: what a compiler's schedule keeps from kernel to kernel.
    pub program_lifetime: bool,
}

/// An array of semaphores.
#[derive(Clone, Debug, PartialEq)]
pub struct Semaphores {
    /// Its name. Text tells equal ones apart by a number.
    pub name: String,
    /// How many there are.
    pub count: i64,
}

/// A vector in registers.
#[derive(Clone, Debug, PartialEq)]
pub struct Register {
    /// Its logical sizes.
    pub dims: Vec<i64>,
    /// The type of its elements.
    pub element: Element,
}

/// A place in the source that a program was made from.
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
    /// Its name; an inner scope may use a name again.
    pub name: String,
    /// What is known of a scalar that was loaded, both ends included.
    pub range: Option<(i64, i64)>,
}

/// A statement with its place in the text.
#[derive(Clone, Debug)]
pub struct Statement {
    /// What is done.
    pub kind: StatementKind,
    /// The line of the text, from 1. A lowered program counts instructions of the module
    /// it comes from, or is 0.
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

/// What is done.
#[derive(Clone, Debug)]
pub enum StatementKind {
    /// A buffer's life begins. Those of a text's head come first in the body.
    Declare(BufferId),
    /// A buffer's life ends.
    Free(BufferId),
    /// Begins a copy; the shapes of both slices agree.
    Start {
        /// What is read.
        source: Slice,
        /// What is written.
        destination: Slice,
        /// Counts the bytes when it is done.
        semaphore: SemaphoreRef,
        /// Where the destination is another core's: that core, and a semaphore here that counts
        /// the bytes when all were read. The other one is the other core's.
        remote: Option<Remote>,
    },
    /// Waits until a semaphore has counted the bytes of a copy from here to there, whichever copies
    /// they were of.
    WaitCopy {
        /// What such a copy reads.
        source: Slice,
        /// What it writes.
        destination: Slice,
        /// The semaphore.
        semaphore: SemaphoreRef,
    },
    /// Waits for the oldest copy on a semaphore that was not yet waited for.
    Wait {
        /// The semaphore.
        semaphore: SemaphoreRef,
        /// Waits for so many bytes instead.
        bytes: Option<Term>,
    },
    /// Adds to a counting semaphore.
    Signal {
        /// The semaphore.
        semaphore: SemaphoreRef,
        /// How much.
        amount: Term,
        /// The core whose semaphore it is, if it is not this one's.
        core: Option<Term>,
    },
    /// Waits until a counting semaphore has so much, and takes it.
    Await {
        /// The semaphore.
        semaphore: SemaphoreRef,
        /// How much.
        amount: Term,
    },
    /// Computes on slices.
    Compute(Box<Compute>),
    /// Straight-line code on vectors in registers, which is scheduled as one.
    Vector(Box<VectorBlock>),
    /// Computes with scalars in the scalar unit.
    Scalar {
        /// Takes the value.
        variable: VariableId,
        /// What is computed.
        operation: ScalarOperation,
        /// What it is given.
        operands: Vec<Term>,
    },
    /// Writes a scalar to SMEM.
    StoreScalar {
        /// A slice of one element.
        destination: Slice,
        /// The value.
        value: Term,
    },
    /// Names a value of which it is known that it is a multiple of a number. Checked when run.
    AssumeMultiple {
        /// The name.
        variable: VariableId,
        /// The value.
        value: Term,
        /// The number.
        multiple: i64,
        /// Stands for the value divided by the number, in proofs.
        quotient: VariableId,
    },
    /// Reads a counting semaphore.
    ReadSemaphore {
        /// Takes the count.
        variable: VariableId,
        /// The semaphore.
        semaphore: SemaphoreRef,
    },
    /// The number of the core that runs the program.
    CoreNumber {
        /// Takes the number.
        variable: VariableId,
    },
    /// Lets time pass.
    Delay {
        /// How long, in nanoseconds.
        nanoseconds: Term,
    },
    /// Prints a text for who runs the kernel.
    Print(Box<Print>),
    /// Checks a condition: it is a finding if it does not hold.
    Assert {
        /// Not 0 if it holds.
        condition: Term,
        /// What it says if it does not hold.
        message: Arc<str>,
    },
    /// States what the statement that follows takes for granted: the run ends if it does not hold.
    Require {
        /// Not 0 if it holds.
        condition: Term,
        /// What is not simulated.
        message: Arc<str>,
    },
    /// Runs the body for each value from `low` up to, not including, `high`.
    For {
        /// Takes the values.
        variable: VariableId,
        /// The first value.
        low: Term,
        /// One past the last.
        high: Term,
        /// What is run.
        body: Vec<Statement>,
    },
    /// Runs `condition`; while `test` holds after it, the body and again the condition.
    While {
        /// Loads what the test reads.
        condition: Vec<Statement>,
        /// Whether to go on.
        test: Comparison,
        /// What is run.
        body: Vec<Statement>,
    },
    /// Runs one of two bodies.
    If {
        /// Which.
        condition: Comparison,
        /// If it holds.
        then: Vec<Statement>,
        /// If not.
        otherwise: Vec<Statement>,
    },
    /// Names a term's value.
    Let {
        /// The name.
        variable: VariableId,
        /// The value.
        value: Term,
    },
    /// Gives a name of an enclosing scope another value: what counts from one pass of a
    /// loop to the next.
    Set {
        /// The name.
        variable: VariableId,
        /// The value.
        value: Term,
    },
    /// Reads a scalar from SMEM into a variable.
    Load {
        /// Takes the value.
        variable: VariableId,
        /// A slice of one element of an integer buffer in SMEM.
        source: Slice,
    },
    /// States what a loaded scalar can be. Checked when run.
    Assume {
        /// The variable.
        variable: VariableId,
        /// The least value.
        low: Term,
        /// The greatest value.
        high: Term,
    },
    /// A kernel of a compiled program begins: it computes no sooner than a fetch's
    /// latency from here. Copies go on meanwhile.
    Launch,
    /// A pipeline over a grid; it means its expansion to starts and waits.
    Grid(Box<Grid>),
}

/// The other end of a copy that leaves the core.
#[derive(Clone, Debug, PartialEq)]
pub struct Remote {
    /// The core of the destination.
    pub core: Term,
    /// A semaphore of this core that counts the bytes once they were read.
    pub sent: Option<SemaphoreRef>,
}

/// A text with values.
#[derive(Clone, Debug, PartialEq)]
pub struct Print {
    /// The text.
    pub text: Arc<str>,
    /// Whether `$0`, `$1`, ... in the text stand for the values (`$x0` in hexadecimal); else they
    /// follow it.
    pub formatted: bool,
    /// What is printed.
    pub values: Vec<PrintedValue>,
}

/// A value that is printed.
#[derive(Clone, Debug, PartialEq)]
pub enum PrintedValue {
    /// A scalar, of this type.
    Scalar(Term, Element),
    /// The elements of an array, which are of this type.
    Array(Slice, Element),
}

/// What is computed with scalars. A variable holds an integer with its sign, a truth value as 0 or
/// 1, and a floating-point number as the bits of the f32 that it is.
#[derive(Clone, Debug, PartialEq)]
pub enum ScalarOperation {
    /// One operand of a type.
    Unary(Unary, Element),
    /// Two operands of a type.
    Binary(Binary, Element),
    /// Two integers of a type compared.
    CompareInt(IntPredicate, Element),
    /// Two floating-point numbers compared.
    CompareFloat(FloatPredicate),
    /// A truth value and what it chooses from.
    Select,
    /// From one type to another.
    Cast(Cast, Element, Element),
}

/// Straight-line code on vectors.
#[derive(Clone, Debug, Default)]
pub struct VectorBlock {
    /// What is computed, in order.
    pub operations: Vec<VectorOperation>,
}

/// An operation on vectors.
#[derive(Clone, Debug)]
pub struct VectorOperation {
    /// What is done.
    pub op: VectorOp,
    /// What it is given: of a store, the vector first; then a mask, if there is one.
    pub operands: Vec<VectorOperand>,
    /// What takes its result.
    pub result: Option<VectorResult>,
    /// As of a statement.
    pub line: u32,
}

/// What is done to vectors.
#[derive(Clone, Debug)]
pub enum VectorOp {
    /// The operand itself.
    Move,
    /// What a slice holds.
    Load(View),
    /// Writes a vector to a slice.
    Store {
        /// Where to.
        view: View,
        /// Whether it is added to what is there.
        add: bool,
    },
    /// An operation without memory.
    Compute(Op),
}

/// An operand of a vector operation.
#[derive(Clone, Debug, PartialEq)]
pub enum VectorOperand {
    /// A vector.
    Register(RegisterId),
    /// A scalar, of this type.
    Scalar(Term, Element),
}

/// What takes the result of a vector operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorResult {
    /// A vector.
    Register(RegisterId),
    /// A scalar.
    Variable(VariableId),
}

/// A part of a buffer as vectors are loaded from and stored to it: a slice, perhaps in another
/// shape, of which again a part is taken.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The slice.
    pub slice: Slice,
    /// Other shapes: the sizes, with as many elements as before, and what is taken of each.
    pub reshaped: Vec<(Vec<i64>, Vec<SliceEntry>)>,
    /// The distance of elements along each dimension that the last step keeps; all 1 if empty.
    /// The sizes of its ranges count the elements that are taken.
    pub strides: Vec<i64>,
}

/// A comparison of terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Left.
    pub left: Term,
    /// How.
    pub cmp: Cmp,
    /// Right.
    pub right: Term,
}

/// One semaphore of an array.
#[derive(Clone, Debug, PartialEq)]
pub struct SemaphoreRef {
    /// The array.
    pub array: SemaphoreId,
    /// Which; 0 where the array has one.
    pub index: Term,
}

/// Part of a buffer: one entry per dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// The buffer.
    pub buffer: BufferId,
    /// One entry per dimension of the buffer.
    pub entries: Vec<SliceEntry>,
}

/// What a slice takes of one dimension.
#[derive(Clone, Debug, PartialEq)]
pub enum SliceEntry {
    /// All of it.
    Whole,
    /// One element; the slice does not have the dimension.
    Element(Term),
    /// `size` elements from `start` on.
    Range {
        /// The first.
        start: Term,
        /// How many.
        size: i64,
        /// Whether elements beyond the end of the dimension are left out: what a window
        /// whose block does not divide the array does at the edge.
        clipped: bool,
    },
    /// As many elements from `start` on as is known when the statement runs: of copies alone.
    Sized {
        /// The first.
        start: Term,
        /// How many.
        size: Term,
    },
}

/// An operand of a computation.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// Part of a buffer in VMEM or SMEM.
    Slice(Slice),
    /// A value in the text.
    Literal(Literal),
}

/// A computation: `destination = operation(operands)`.
#[derive(Clone, Debug)]
pub struct Compute {
    /// What is written, in VMEM or SMEM; several if the operation gives a tuple.
    pub destinations: Vec<Slice>,
    /// Adds the result to what is there.
    pub accumulate: bool,
    /// What is computed: a module whose entry computation has one parameter per operand
    /// with the slices' shapes, and the destinations' shapes as result. A single
    /// operation or the computation of a fusion.
    pub operation: Arc<Module>,
    /// What it is given.
    pub operands: Vec<Operand>,
}

/// A pipeline: for each point of the grid the windows' blocks are in VMEM.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// Outermost first.
    pub dimensions: Vec<GridDimension>,
    /// What is fetched or written back.
    pub windows: Vec<Window>,
    /// Run at each point.
    pub body: Vec<Statement>,
}

/// A dimension of a grid.
#[derive(Clone, Debug, PartialEq)]
pub struct GridDimension {
    /// Takes the values.
    pub variable: VariableId,
    /// The first value.
    pub low: Term,
    /// One past the last.
    pub high: Term,
    /// Whether the points may be visited in any order.
    pub parallel: bool,
}

/// A block of an array in HBM that is in VMEM while a point is worked on.
#[derive(Clone, Debug)]
pub struct Window {
    /// What the body calls the block: a buffer in VMEM with `buffers` blocks in its
    /// first dimension once expanded; the body's slices have the block's dimensions.
    pub block: BufferId,
    /// The array.
    pub array: BufferId,
    /// The block's size along each dimension of the array.
    pub sizes: Vec<i64>,
    /// Which block along each dimension: the slice begins at `index * step`.
    pub indices: Vec<Term>,
    /// Elements from the beginning of one block to that of the next, where it is not the block's
    /// size; empty if it always is.
    pub steps: Vec<i64>,
    /// What computes the variables of `indices` from those of the grid, if they are others.
    pub transform: Vec<Statement>,
    /// How many blocks there is room for.
    pub buffers: i64,
    /// Whether blocks are written back rather than fetched.
    pub output: bool,
    /// The line of its declaration, as of a statement.
    pub line: u32,
}
