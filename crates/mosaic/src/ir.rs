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
    /// The file, as the front end named it; empty for a line of the kernel's own text.
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
    /// The functions that say where windows are.
    pub functions: Vec<Function>,
}

impl Module {
    /// The function of a name.
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
    /// Its arguments and what it does; the last operation is [`Op::Return`].
    pub body: Block,
}

/// How the points of a grid's dimension depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Semantics {
    /// They may run in any order, on any core.
    Parallel,
    /// They run in order.
    Arbitrary,
}

/// The function that runs for each point of the grid.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The function.
    pub function: Function,
    /// The sizes of the grid, outermost first; [`None`] is given with the call.
    pub grid: Vec<Option<i64>>,
    /// How the points of each dimension depend on each other.
    pub semantics: Vec<Semantics>,
    /// How many arguments after the point's indices are scalars in SMEM.
    pub scalar_prefetch: usize,
    /// How many arguments at the end are scratch memory.
    pub scratch: usize,
    /// The windows of the arguments between, if the kernel has a grid.
    pub windows: Vec<Window>,
}

/// How an argument is a part of an array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// The function that gives the block's indices; without one the argument is the array.
    pub transform: Option<Arc<str>>,
    /// The block's sizes.
    pub bounds: Vec<i64>,
    /// Whether the transform gives the first elements and not numbers of blocks, and then how
    /// many elements are added before and after each dimension.
    pub elements: Option<(Vec<i64>, Vec<i64>)>,
    /// How many blocks there is room for, if it is not two.
    pub buffers: Option<i64>,
}

/// Operations, with the arguments that they begin with.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// The arguments.
    pub arguments: Vec<Value>,
    /// What is done, in order.
    pub operations: Vec<Operation>,
}

/// An operation.
#[derive(Clone, Debug)]
pub struct Operation {
    /// What is done.
    pub op: Op,
    /// What it takes.
    pub operands: SmallVec<[Value; 4]>,
    /// What it gives.
    pub results: SmallVec<[Value; 2]>,
    /// Its regions, each of one block.
    pub regions: Vec<Block>,
    /// Where in the source it is from.
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
    /// NaN if either is.
    Maximum,
    /// NaN if either is.
    Minimum,
    /// The other one if one is NaN.
    MaxNum,
    /// The other one if one is NaN.
    MinNum,
    Pow,
    Atan2,
    CopySign,
}

/// A comparison of integers, by MLIR's number.
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

/// A comparison of floating-point numbers: which of less, equal, greater and unordered hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FloatPredicate {
    /// Holds where the left one is less.
    pub less: bool,
    /// Holds where both are equal.
    pub equal: bool,
    /// Holds where the left one is greater.
    pub greater: bool,
    /// Holds where one is NaN.
    pub unordered: bool,
}

/// A conversion between element types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cast {
    /// To a wider integer, or between an index and an integer, with the sign.
    Signed,
    /// To a wider integer without a sign.
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
    /// To a signed integer, to the nearest, halves to even.
    ToSignedNearest,
    /// The same bits as another type of the same width.
    Bits,
    /// Truth values in another register layout.
    Mask,
}

/// How elements are combined.
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

/// Which dimensions of a product's operands are which.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DotDims {
    /// Summed over, on the left.
    pub lhs_contracting: Vec<i64>,
    /// Summed over, on the right.
    pub rhs_contracting: Vec<i64>,
    /// Of both, on the left.
    pub lhs_batch: Vec<i64>,
    /// Of both, on the right.
    pub rhs_batch: Vec<i64>,
    /// The result's dimensions: of which operand (0 or 1), and which of it.
    pub output: Vec<(i64, i64)>,
}

/// How exactly a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// As the matrix unit does at once.
    Default,
    /// In passes that give products of f32.
    Float32,
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    /// The same number everywhere: an integer, or the bits of a floating-point number.
    Splat(u64),
    /// Each element, as [`Constant::Splat`].
    Elements(Arc<[u64]>),
}

/// Which operands of a copy there are, in this order: source, semaphore of the source,
/// destination, semaphore of the destination, device, core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyOperands {
    /// Whether there is a semaphore that the source's end signals.
    pub source_semaphore: bool,
    /// Whether there is one that the destination's end signals.
    pub target_semaphore: bool,
    /// Whether the destination is another device's.
    pub device: bool,
    /// Whether it is another core's.
    pub core: bool,
}

/// What an operation does. Operands are in the order of the fields' text.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// A constant.
    Constant(Constant),
    /// One operand, element by element.
    Unary(Unary),
    /// Two operands, element by element.
    Binary(Binary),
    /// Two integers compared.
    CompareInt(IntPredicate),
    /// Two floating-point numbers compared.
    CompareFloat(FloatPredicate),
    /// A truth value (one for all, or one for each element) and what it chooses from.
    Select,
    /// Three operands: `a * b + c`.
    MultiplyAdd,
    /// Another element type.
    Cast(Cast),
    /// Elements of f32, and random bits for each: one of the two neighbours in a narrower
    /// floating-point type, the nearer one more probably.
    StochasticConvert,
    /// The value itself, of which it is known that it is a multiple of this.
    AssumeMultiple(i64),

    /// A scalar or a smaller vector repeated, as numpy broadcasts.
    Broadcast,
    /// Another shape with the same elements in the same order.
    Reshape,
    /// A vector whose elements count along these dimensions, joined.
    Iota(Vec<i64>),
    /// A vector, and the accumulator, whose dimensions are those that are not reduced.
    Reduce(Reduction, Vec<i64>),
    /// The index of the least or greatest element along a dimension.
    ReduceIndex(Reduction, i64),
    /// Dimension `d` of the result is dimension `permutation[d]` of the operand.
    Transpose(Vec<i64>),
    /// Concatenates vectors.
    Concatenate(i64),
    /// A part: first elements, sizes, steps, of the first dimensions.
    Slice(Vec<i64>, Vec<i64>, Vec<i64>),
    /// One element, or a vector of the last dimensions.
    Extract(Vec<i64>),
    /// Rotated along a dimension by the amount that the second operand says; by `stride` more
    /// for each index along the stride's dimension.
    Rotate(i64, Option<(i64, i64)>),
    /// Repeats a vector this many times.
    Repeat(i64, i64),
    /// Elements along a dimension by indices: `result[i] = source[indices[i]]`.
    Gather(Vec<i64>),
    /// The same bits as elements of another width: the second-minor dimension is packed.
    BitcastVector,
    /// Several vectors in the parts of wider elements.
    PackElementwise(Element),
    /// One of the vectors that were packed.
    UnpackElementwise(Element, i64),
    /// Left, right and accumulator.
    Matmul(DotDims, Precision),
    /// Random bits; the state is the core's.
    RandomBits,
    /// Sets the state of the generator to these words.
    SeedRandom,

    /// A memory reference and indices, and a mask if there is one: a vector. One step for each
    /// dimension of the reference.
    Load {
        /// The steps; all 1 if there are none.
        strides: Vec<i64>,
        /// Whether a mask follows the indices.
        masked: bool,
    },
    /// A vector, a memory reference, indices, and a mask if there is one.
    Store {
        /// The steps; all 1 if there are none.
        strides: Vec<i64>,
        /// Whether a mask follows the indices.
        masked: bool,
        /// Whether it is added to what is there.
        add: bool,
    },
    /// A memory reference in SMEM and indices: a scalar.
    LoadScalar,
    /// A scalar, a memory reference in SMEM and indices.
    StoreScalar,
    /// A part of memory of the result's sizes: a reference, its first elements, and those sizes that
    /// are known only at run time.
    MemRefSlice,
    /// The same memory without dimensions of size 1.
    MemRefSqueeze,
    /// The same memory in another shape.
    MemRefReshape,
    /// The same memory as elements of another width.
    MemRefBitcast,
    /// The same memory: a change of what is known of its layout.
    MemRefCast,
    /// Memory for the region around it.
    Alloc,

    /// Begins a copy.
    EnqueueDma(CopyOperands),
    /// Waits for a copy that [`Op::EnqueueDma`] with the same operands would have begun: for its
    /// destination's end, or its source's.
    WaitDma(CopyOperands, bool),
    /// A semaphore and an amount, and a device or core if it is another's.
    Signal {
        /// Whether a device follows.
        device: bool,
        /// Whether a core follows.
        core: bool,
    },
    /// A semaphore and an amount.
    Wait,
    /// A semaphore: its count.
    ReadSemaphore,
    /// The semaphore that all kernels of this kind share.
    BarrierSemaphore,
    /// The number of this device.
    DeviceId,
    /// The number of this core.
    CoreId,
    /// The size of the grid along a dimension.
    GridBound(i64),
    /// Waits for so many nanoseconds.
    Delay,
    /// Marks a part of the kernel for a profile.
    Trace,
    /// Prints a text with scalars, or with what a memory reference holds.
    Print {
        /// The text.
        text: Arc<str>,
        /// Whether `$0`, `$1`, ... in the text stand for the scalars; else they follow it.
        formatted: bool,
    },
    /// A truth value that must hold, and what is said if it does not.
    Assert(Arc<str>),

    /// A truth value; a region for each of its values.
    If,
    /// First value, end, step, and what the body carries; the body has the counter and that.
    For,
    /// What it carries; a region that ends in [`Op::Condition`], and the body.
    While,
    /// A region that runs once: memory that is allocated in it lives as long.
    Region,
    /// Ends a region.
    Yield,
    /// Ends the first region of a loop: whether to go on, and with what.
    Condition,
    /// Ends a function.
    Return,
}

impl Op {
    /// Whether the operation only gives its results: nothing changes if it is not run.
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
