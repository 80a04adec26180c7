//! The typed IR of kernels.
//!
//! A [`Kernel`] is a function that runs once for each point of a grid. Its arguments are the
//! point's indices, prefetched scalars ([`Kernel::scalar_prefetch`]), windows of arrays and scratch
//! memory. Every value is defined once; an operation's regions see the values around it. Operations
//! are expressed in the machine's terms, independent of their spelling in the dialects arith,
//! vector, memref, scf, math and tpu.

use crate::types::{Element, Type};
use smallvec::SmallVec;
use std::sync::Arc;
use tegula_arena::{Arena, entity_impl};

/// A value of a module.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(u32);
entity_impl!(Value, "v");

/// A place in a source file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The file's name in the front end; empty for a line of the kernel's own text.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
}

/// A kernel's module.
#[derive(Clone, Debug)]
pub struct Module {
    /// Its name; empty if it has none.
    pub name: Arc<str>,
    /// The types of all values.
    pub values: Arena<Value, Type>,
    /// The function that is the kernel.
    pub kernel: Kernel,
    /// The functions that compute the positions of windows.
    pub functions: Vec<Function>,
}

impl Module {
    /// The function with a name.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions
            .iter()
            .find(|function| *function.name == *name)
    }
}

/// A function.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name.
    pub name: Arc<str>,
    /// Its arguments and operations; the last operation is [`Op::Return`].
    pub body: Block,
}

/// The dependence between the points along a grid dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Semantics {
    /// The points may run in any order, on any core.
    Parallel,
    /// The points run in order.
    Arbitrary,
}

/// The function that runs for each point of the grid.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The function.
    pub function: Function,
    /// The sizes of the grid, outermost first; [`None`] for a size that the call supplies.
    pub grid: Vec<Option<i64>>,
    /// The dependence between the points of each dimension.
    pub semantics: Vec<Semantics>,
    /// The number of arguments after the point's indices that are scalars in SMEM.
    pub scalar_prefetch: usize,
    /// The number of arguments at the end that are scratch memory.
    pub scratch: usize,
    /// The windows of the arguments in between, if the kernel has a grid.
    pub windows: Vec<Window>,
}

/// The window of an array that an argument is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// The function that returns the block's indices; without one, the argument is the whole array.
    pub transform: Option<Arc<str>>,
    /// The block's sizes.
    pub bounds: Vec<i64>,
    /// If the transform returns the indices of first elements rather than of blocks: the padding,
    /// in elements, before and after each dimension.
    pub elements: Option<(Vec<i64>, Vec<i64>)>,
    /// The number of blocks that are buffered, if it is not two.
    pub buffers: Option<i64>,
}

/// A list of operations, with arguments.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// The arguments.
    pub arguments: Vec<Value>,
    /// The operations, in order.
    pub operations: Vec<Operation>,
}

/// An operation.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The operation's kind, with its attributes.
    pub op: Op,
    /// The operands.
    pub operands: SmallVec<[Value; 4]>,
    /// The results.
    pub results: SmallVec<[Value; 2]>,
    /// Its regions, each of one block.
    pub regions: Vec<Block>,
    /// The place in the source.
    pub place: Option<Place>,
    /// The name in its dialect, for messages.
    pub name: Arc<str>,
}

/// An elementwise operation of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named for what they compute")]
pub enum Unary {
    Abs,
    AbsInt,
    Acos,
    Asin,
    Atan,
    Cbrt,
    Ceil,
    CountLeadingZeros,
    Cos,
    Cosh,
    Erf,
    Exp,
    Exp2,
    Expm1,
    Floor,
    IsFinite,
    IsInfinite,
    IsNan,
    IsNotFinite,
    Log,
    Log1p,
    Log2,
    Logistic,
    Negate,
    PopulationCount,
    Reciprocal,
    Round,
    RoundEven,
    Rsqrt,
    Sin,
    Sinh,
    Sqrt,
    Tan,
    Tanh,
    Trunc,
}

/// An elementwise operation of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named for what they compute")]
pub enum Binary {
    AddInt,
    SubInt,
    MulInt,
    DivSigned,
    DivUnsigned,
    RemSigned,
    RemUnsigned,
    CeilDivSigned,
    FloorDivSigned,
    MaxSigned,
    MinSigned,
    MaxUnsigned,
    MinUnsigned,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRightSigned,
    ShiftRightUnsigned,
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    /// NaN if either operand is NaN.
    Maximum,
    /// NaN if either operand is NaN.
    Minimum,
    /// If one operand is NaN, the other one.
    MaxNum,
    /// If one operand is NaN, the other one.
    MinNum,
    Pow,
    Atan2,
    CopySign,
}

/// A comparison of integers, in the order of MLIR's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "MLIR's names")]
pub enum IntPredicate {
    Eq,
    Ne,
    Slt,
    Sle,
    Sgt,
    Sge,
    Ult,
    Ule,
    Ugt,
    Uge,
}

/// A comparison of floating-point numbers: the set of relations (less, equal, greater, unordered)
/// for which it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FloatPredicate {
    /// Holds if the left operand is less.
    pub less: bool,
    /// Holds if the operands are equal.
    pub equal: bool,
    /// Holds if the left operand is greater.
    pub greater: bool,
    /// Holds if an operand is NaN.
    pub unordered: bool,
}

/// A conversion between element types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cast {
    /// To a wider integer by sign extension, or between an index and an integer.
    Signed,
    /// To a wider integer by zero extension.
    Unsigned,
    /// To a narrower integer.
    Truncate,
    /// Between floating-point types.
    Float,
    /// From a signed integer.
    FromSigned,
    /// From an unsigned integer.
    FromUnsigned,
    /// To a signed integer, towards zero.
    ToSigned,
    /// To an unsigned integer, towards zero.
    ToUnsigned,
    /// To a signed integer, rounded to nearest, ties to even.
    ToSignedNearest,
    /// The same bits as another type of the same width.
    Bits,
    /// Truth values in another register layout.
    Mask,
}

/// The operation that combines elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named for what they compute")]
pub enum Reduction {
    Add,
    Mul,
    Maximum,
    Minimum,
    MaxSigned,
    MinSigned,
    MaxUnsigned,
    MinUnsigned,
    And,
    Or,
    Xor,
}

/// The roles of the dimensions of a product's operands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DotDims {
    /// The contracting dimensions of the left operand.
    pub lhs_contracting: Vec<i64>,
    /// The contracting dimensions of the right operand.
    pub rhs_contracting: Vec<i64>,
    /// The batch dimensions of the left operand.
    pub lhs_batch: Vec<i64>,
    /// The batch dimensions of the right operand.
    pub rhs_batch: Vec<i64>,
    /// The result's dimensions: for each, the operand (0 or 1) and its dimension.
    pub output: Vec<(i64, i64)>,
}

/// The precision of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// One pass of the matrix unit.
    Default,
    /// The precision of f32 products, which takes several passes of the matrix unit.
    Float32,
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    /// One value for all elements: an integer, or the bits of a floating-point number.
    Splat(u64),
    /// A value for each element, as in [`Constant::Splat`].
    Elements(Arc<[u64]>),
}

/// The optional operands of a copy that are present. The order is: source, semaphore of the source,
/// destination, semaphore of the destination, device, core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyOperands {
    /// Whether there is a semaphore for the source.
    pub source_semaphore: bool,
    /// Whether there is a semaphore for the destination.
    pub target_semaphore: bool,
    /// Whether the destination is on another device.
    pub device: bool,
    /// Whether the destination is on another core.
    pub core: bool,
}

/// The kinds of operations. Each comment lists the operands in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// A constant.
    Constant(Constant),
    /// One operand, elementwise.
    Unary(Unary),
    /// Two operands, elementwise.
    Binary(Binary),
    /// Compares two integers.
    CompareInt(IntPredicate),
    /// Compares two floating-point numbers.
    CompareFloat(FloatPredicate),
    /// Selects: a truth value (one for all, or one for each element), and the two alternatives.
    Select,
    /// Three operands: `a * b + c`.
    MultiplyAdd,
    /// Converts to another element type.
    Cast(Cast),
    /// Rounds f32 elements stochastically, given random bits for each: to one of the two adjacent
    /// numbers of a narrower floating-point type, the nearer one with higher probability.
    StochasticConvert,
    /// The value itself, which is known to be a multiple of this number.
    AssumeMultiple(i64),

    /// Broadcasts a scalar or a smaller vector, as in numpy.
    Broadcast,
    /// The same elements, in the same order, in another shape.
    Reshape,
    /// The index of each element along these dimensions, linearised.
    Iota(Vec<i64>),
    /// Reduces a vector along these dimensions, given an accumulator with the remaining dimensions.
    Reduce(Reduction, Vec<i64>),
    /// The index of the smallest or largest element along a dimension.
    ReduceIndex(Reduction, i64),
    /// Dimension `d` of the result is dimension `permutation[d]` of the operand.
    Transpose(Vec<i64>),
    /// Concatenates vectors.
    Concatenate(i64),
    /// A slice: first elements, sizes and strides of the leading dimensions.
    Slice(Vec<i64>, Vec<i64>, Vec<i64>),
    /// One element, or a vector of the trailing dimensions.
    Extract(Vec<i64>),
    /// Rotates along a dimension by the second operand's amount, plus `stride` for each index along
    /// the stride's dimension.
    Rotate(i64, Option<(i64, i64)>),
    /// Repeats a vector this many times.
    Repeat(i64, i64),
    /// Selects elements along a dimension by indices: `result[i] = source[indices[i]]`.
    Gather(Vec<i64>),
    /// Reinterprets the bits as elements of another width: the second-minor dimension is packed.
    BitcastVector,
    /// Packs several vectors into the parts of wider elements.
    PackElementwise(Element),
    /// Extracts one of the packed vectors.
    UnpackElementwise(Element, i64),
    /// Matrix product: left operand, right operand and accumulator.
    Matmul(DotDims, Precision),
    /// Random bits; the generator's state belongs to the core.
    RandomBits,
    /// Seeds the generator with these words.
    SeedRandom,

    /// Loads a vector, given a memory reference, indices, and a mask if there is one. There is one
    /// stride for each dimension of the reference.
    Load {
        /// The strides; empty if all are 1.
        strides: Vec<i64>,
        /// Whether a mask follows the indices.
        masked: bool,
    },
    /// Stores a vector, given the vector, a memory reference, indices, and a mask if there is one.
    Store {
        /// The strides; empty if all are 1.
        strides: Vec<i64>,
        /// Whether a mask follows the indices.
        masked: bool,
        /// Whether the vector is added to the memory's old value.
        add: bool,
    },
    /// Loads a scalar, given a memory reference in SMEM and indices.
    LoadScalar,
    /// Stores a scalar, given the scalar, a memory reference in SMEM and indices.
    StoreScalar,
    /// A slice of memory with the result's sizes: a reference, the indices of the first element,
    /// and the sizes that are known only at run time.
    MemRefSlice,
    /// The same memory without dimensions of size 1.
    MemRefSqueeze,
    /// The same memory in another shape.
    MemRefReshape,
    /// The same memory as elements of another width.
    MemRefBitcast,
    /// The same memory, with another static layout.
    MemRefCast,
    /// Allocates memory that lives until the end of the enclosing region.
    Alloc,

    /// Starts a copy.
    EnqueueDma(CopyOperands),
    /// Waits for a copy as [`Op::EnqueueDma`] with the same operands would start it: at its
    /// destination's end if the flag is set, otherwise at its source's.
    WaitDma(CopyOperands, bool),
    /// Signals a semaphore by an amount, given also a device or core if the semaphore is there.
    Signal {
        /// Whether a device follows.
        device: bool,
        /// Whether a core follows.
        core: bool,
    },
    /// Waits on a semaphore for an amount.
    Wait,
    /// Reads a semaphore's count.
    ReadSemaphore,
    /// The barrier semaphore, which all kernels of this kind share.
    BarrierSemaphore,
    /// This device's number.
    DeviceId,
    /// This core's number.
    CoreId,
    /// The size of the grid along a dimension.
    GridBound(i64),
    /// Waits for a number of nanoseconds.
    Delay,
    /// Marks a part of the kernel for profiles.
    Trace,
    /// Prints a text with scalars, or with the contents of a memory reference.
    Print {
        /// The text.
        text: Arc<str>,
        /// Whether scalars replace `$0`, `$1`, ... in the text; otherwise they follow it.
        formatted: bool,
    },
    /// Asserts a truth value; the text is the message on failure.
    Assert(Arc<str>),

    /// A conditional: a truth value, and one region for each of its values.
    If,
    /// A counted loop: first value, end, step, and the carried values; the body's arguments are the
    /// counter and the carried values.
    For,
    /// A loop with the carried values as operands; its regions are the condition, which ends in
    /// [`Op::Condition`], and the body.
    While,
    /// A region that runs once; memory that is allocated in it is freed at its end.
    Region,
    /// Ends a region.
    Yield,
    /// Ends the condition region of a loop: whether to continue, and the carried values.
    Condition,
    /// Ends a function.
    Return,
}

impl Op {
    /// Whether the operation has no effect except for its results.
    pub fn is_pure(&self) -> bool {
        !matches!(
            self,
            Self::Store { .. }
                | Self::StoreScalar
                | Self::EnqueueDma(_)
                | Self::WaitDma(..)
                | Self::Signal { .. }
                | Self::Wait
                | Self::SeedRandom
                | Self::RandomBits
                | Self::Alloc
                | Self::Delay
                | Self::Trace
                | Self::Print { .. }
                | Self::Assert(_)
                | Self::If
                | Self::For
                | Self::While
                | Self::Region
                | Self::Yield
                | Self::Condition
                | Self::Return
        )
    }
}
