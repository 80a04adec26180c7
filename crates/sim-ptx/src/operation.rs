//! The decoded form of a kernel, which the interpreter executes.
//!
//! Every operand is a slot of a warp's register file. The file has three banks: 32 lanes of 32
//! bits, 32 lanes of 64 bits, and predicates (one bit per lane). Registers of 8 and 16 bits are
//! zero-extended in the 32-bit bank. Immediate values and special registers have slots as well,
//! initialised before the kernel starts, so instructions need not distinguish kinds of operands.

use crate::number::{Format, Rounding};
pub(crate) use crate::operand::{LANES, P, R32, R64, Slot, Test, Type};

/// Binary integer operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Int2 {
    Add,
    Sub,
    AddSat,
    SubSat,
    Mul,
    MulHigh,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    /// The low half of the product of the lowest 24 bits of each operand.
    Mul24,
}

/// Unary integer operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Int1 {
    Not,
    /// Logical not: 1 if the operand is zero.
    CNot,
    Neg,
    Abs,
    Brev,
    Popc,
    Clz,
    /// The position of the highest bit that differs from the sign; with `shift`, as a shift amount.
    Bfind {
        shift: bool,
    },
}

/// Integer operations with three 32-bit operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Int3 {
    MadLow,
    MadHigh {
        signed: bool,
    },
    Sad {
        signed: bool,
    },
    Bfe {
        signed: bool,
    },
    Lop3(u8),
    Prmt(Permute),
    Funnel {
        left: bool,
        wrap: bool,
    },
    /// Four-way byte dot product; whether `a` and `b` are signed.
    Dp4a {
        a: bool,
        b: bool,
    },
    /// Two-way dot product of the halves of `a` with the lower or upper bytes of `b`.
    Dp2a {
        a: bool,
        b: bool,
        upper: bool,
    },
    Bmsk {
        wrap: bool,
    },
}

/// The modes of `prmt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permute {
    Index,
    F4e,
    B4e,
    Rc8,
    Ecl,
    Ecr,
    Rc16,
}

/// Operations with a carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carry {
    Add,
    Sub,
    MadLow,
    MadHigh,
}

/// Binary floating-point operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float2 {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
    /// The result is NaN if either operand is.
    MinNan,
    MaxNan,
    CopySign,
}

/// Unary floating-point operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float1 {
    Neg,
    Abs,
    Sqrt,
    Rcp,
    Rsqrt,
    Ex2,
    Lg2,
    Sin,
    Cos,
    Tanh,
    /// `rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64`, which use only the high word.
    RcpHigh,
    RsqrtHigh,
}

/// The rounding and clamping of a floating-point result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) rounding: Rounding,
    /// Subnormal inputs and results are flushed to zero.
    pub(crate) ftz: bool,
    /// Results are clamped to [0, 1], and NaN becomes 0.
    pub(crate) saturate: bool,
    /// Negative results and NaN become 0.
    pub(crate) relu: bool,
}

impl Mode {
    pub(crate) const PLAIN: Self = Self {
        rounding: Rounding::NearestEven,
        ftz: false,
        saturate: false,
        relu: false,
    };
}

/// Types of floating-point arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float {
    F32,
    F64,
    /// `f16` or `bf16`, one or two elements per register.
    Half {
        format: Format,
        packed: bool,
    },
}

/// Comparison operators. The unordered ones are true if either operand is NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    Num,
    Nan,
}

/// The type of compared values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
    F32 { ftz: bool },
    F64,
    Half { format: Format, ftz: bool },
}

/// Operations on predicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logic {
    And,
    Or,
    Xor,
}

/// A comparison of two registers, combined with a predicate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compare {
    pub(crate) kind: Compared,
    pub(crate) how: Comparison,
    pub(crate) a: Slot,
    pub(crate) b: Slot,
    pub(crate) combine: Option<(Logic, Test)>,
}

/// A conversion between scalar types.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Convert {
    pub(crate) from: Type,
    pub(crate) to: Type,
    /// The rounding of a floating-point result, or with `integral` the rounding of the value to an
    /// integral one.
    pub(crate) rounding: Rounding,
    pub(crate) integral: bool,
    pub(crate) ftz: bool,
    pub(crate) saturate: bool,
    pub(crate) relu: bool,
    pub(crate) satfinite: bool,
    pub(crate) d: Slot,
    pub(crate) a: Slot,
}

/// The state spaces of accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Generic,
    /// Includes `.const`, because module constants are in device memory.
    Global,
    Shared,
    Local,
    /// The kernel's parameters.
    Param,
}

/// The address of an access: an optional register plus a number of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) space: Space,
    pub(crate) base: Option<Slot>,
    pub(crate) offset: i64,
}

/// A load or store of `count` elements of `width` bytes.
#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    pub(crate) address: Address,
    pub(crate) width: u32,
    pub(crate) count: u32,
    /// Whether loads sign-extend.
    pub(crate) signed: bool,
    /// Whether the access is volatile, relaxed, acquire or release, so that it does not race with
    /// an atomic.
    pub(crate) strong: bool,
    /// `.nc`: the memory must not be written during the launch.
    pub(crate) constant: bool,
    /// The registers of the elements; `None` discards an element of a load.
    pub(crate) registers: Vec<Option<Slot>>,
}

/// Atomic operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Inc,
    Dec,
    Exchange,
    CompareAndSwap,
}

/// `atom` and `red`.
#[derive(Clone, Debug)]
pub(crate) struct Atomic {
    pub(crate) address: Address,
    pub(crate) op: AtomicOp,
    pub(crate) kind: Type,
    pub(crate) d: Option<Slot>,
    pub(crate) b: Slot,
    pub(crate) c: Option<Slot>,
}

/// `cp.async`.
#[derive(Clone, Debug)]
pub(crate) struct AsyncCopy {
    pub(crate) to: Address,
    pub(crate) from: Address,
    pub(crate) bytes: u32,
    /// The number of bytes that are read; the remaining bytes are zero.
    pub(crate) source_bytes: Option<R32>,
}

/// The modes of `shfl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

/// Operations in which all lanes of a member mask take part.
#[derive(Clone, Debug)]
pub(crate) enum Collective {
    Barrier,
    Shuffle {
        mode: Shuffle,
        d: R32,
        p: Option<P>,
        a: R32,
        b: R32,
        c: R32,
    },
    VoteAll {
        d: P,
        p: Test,
    },
    VoteAny {
        d: P,
        p: Test,
    },
    VoteUniform {
        d: P,
        p: Test,
    },
    Ballot {
        d: R32,
        p: Test,
    },
    MatchAny {
        d: R32,
        a: Slot,
    },
    MatchAll {
        d: R32,
        p: Option<P>,
        a: Slot,
    },
    Reduce {
        op: AtomicOp,
        signed: bool,
        d: R32,
        a: R32,
    },
    Elect {
        d: Option<R32>,
        p: P,
    },
    /// The member mask is the whole warp.
    LoadMatrix {
        count: u32,
        transposed: bool,
        registers: [R32; 4],
        address: Address,
    },
    StoreMatrix {
        count: u32,
        transposed: bool,
        registers: [R32; 4],
        address: Address,
    },
    Multiply(Box<Multiply>),
}

/// The element types of `mma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatrixType {
    Float(Format),
    U8,
    S8,
}

/// `mma.sync` of the shape m16n8kK, with fragments in registers.
#[derive(Clone, Debug)]
pub(crate) struct Multiply {
    pub(crate) k: u32,
    pub(crate) a_type: MatrixType,
    pub(crate) b_type: MatrixType,
    /// The result type: f32 or f16 for floats, s32 for integers.
    pub(crate) result: Type,
    pub(crate) saturate: bool,
    pub(crate) d: Vec<R32>,
    pub(crate) a: Vec<R32>,
    pub(crate) b: Vec<R32>,
    pub(crate) c: Vec<R32>,
}

/// The operation of a block barrier besides waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BarrierKind {
    Sync,
    Arrive,
    And { d: P, p: Test },
    Or { d: P, p: Test },
    Count { d: R32, p: Test },
}

/// Registers that change while a kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    Cycles,
    Nanoseconds,
}

/// An operation with its operands resolved.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Nop,
    Int1 {
        f: Int1,
        signed: bool,
        narrow: bool,
        d: R32,
        a: R32,
    },
    Int1Wide {
        f: Int1,
        d: R64,
        a: R64,
    },
    /// `popc`, `clz`, `bfind` on 64 bits.
    Count64 {
        f: Int1,
        signed: bool,
        d: R32,
        a: R64,
    },
    Int2 {
        f: Int2,
        signed: bool,
        d: R32,
        a: R32,
        b: R32,
    },
    /// A 16-bit operation.
    Int2Narrow {
        f: Int2,
        signed: bool,
        d: R32,
        a: R32,
        b: R32,
    },
    Int2Wide {
        f: Int2,
        signed: bool,
        d: R64,
        a: R64,
        b: R64,
    },
    Shift64 {
        f: Int2,
        signed: bool,
        d: R64,
        a: R64,
        b: R32,
    },
    Int3 {
        f: Int3,
        d: R32,
        a: R32,
        b: R32,
        c: R32,
    },
    MadNarrow {
        signed: bool,
        high: bool,
        d: R32,
        a: R32,
        b: R32,
        c: R32,
    },
    Mad64 {
        signed: bool,
        high: bool,
        d: R64,
        a: R64,
        b: R64,
        c: R64,
    },
    Bfe64 {
        signed: bool,
        d: R64,
        a: R64,
        b: R32,
        c: R32,
    },
    Bfi {
        d: R32,
        a: R32,
        b: R32,
        c: R32,
        e: R32,
    },
    Bfi64 {
        d: R64,
        a: R64,
        b: R64,
        c: R32,
        e: R32,
    },
    /// A product of 32 by 32 to 64 bits, plus `c`.
    MadWide {
        signed: bool,
        d: R64,
        a: R32,
        b: R32,
        c: Option<R64>,
    },
    /// A product of 16 by 16 to 32 bits, plus `c`.
    MadWide16 {
        signed: bool,
        d: R32,
        a: R32,
        b: R32,
        c: Option<R32>,
    },
    Carry {
        f: Carry,
        signed: bool,
        takes: bool,
        gives: bool,
        d: R32,
        a: R32,
        b: R32,
        c: R32,
    },
    Carry64 {
        f: Carry,
        takes: bool,
        gives: bool,
        d: R64,
        a: R64,
        b: R64,
    },
    Float1 {
        float: Float,
        f: Float1,
        mode: Mode,
        d: Slot,
        a: Slot,
    },
    Float2 {
        float: Float,
        f: Float2,
        mode: Mode,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Fma {
        float: Float,
        mode: Mode,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    TestFloat {
        wide: bool,
        property: u8,
        d: P,
        a: Slot,
    },
    Convert(Box<Convert>),
    /// Converts two `f32` to a packed type, with `a` in the upper half.
    ConvertPair {
        to: Type,
        rounding: Rounding,
        relu: bool,
        satfinite: bool,
        d: R32,
        a: R32,
        b: R32,
    },
    /// Converts packed fp8 to packed `f16`.
    UnpackPair {
        from: Type,
        relu: bool,
        d: R32,
        a: R32,
    },
    SetPredicate {
        compare: Box<Compare>,
        d: P,
        q: Option<P>,
    },
    /// Compares both halves of packed operands.
    SetPredicatePair {
        compare: Box<Compare>,
        d: P,
        q: P,
    },
    /// `set`: all ones, or 1.0 for a float, if the comparison is true; otherwise 0.
    Set {
        compare: Box<Compare>,
        float: bool,
        d: R32,
    },
    Select {
        d: Slot,
        a: Slot,
        b: Slot,
        p: Test,
    },
    /// `slct`: selects `a` if `c >= 0`.
    SelectSign {
        float: bool,
        d: Slot,
        a: Slot,
        b: Slot,
        c: R32,
    },
    Logic {
        f: Logic,
        d: P,
        a: Test,
        b: Test,
    },
    Move32 {
        d: R32,
        a: R32,
    },
    Move64 {
        d: R64,
        a: R64,
    },
    MovePredicate {
        d: P,
        a: Test,
    },
    /// Packs parts of `bits` bits, the lowest first.
    Pack {
        bits: u32,
        d: Slot,
        parts: Vec<Slot>,
    },
    Unpack {
        bits: u32,
        parts: Vec<Option<Slot>>,
        a: Slot,
    },
    Clock {
        which: Clock,
        d: Slot,
    },
    ActiveMask {
        d: R32,
    },
    InSpace {
        space: Space,
        d: P,
        a: R64,
    },
    Load(Box<Transfer>),
    Store(Box<Transfer>),
    Atomic(Box<Atomic>),
    AsyncCopy(Box<AsyncCopy>),
    AsyncCommit,
    /// Waits until at most this number of groups is pending.
    AsyncWait(u32),
    Fence,
    Collective {
        what: Collective,
        members: R32,
    },
    Barrier {
        kind: BarrierKind,
        aligned: bool,
        id: R32,
        threads: Option<R32>,
    },
    Branch {
        target: u32,
        reconverge: u32,
    },
    /// `brx.idx`.
    BranchTable {
        index: R32,
        targets: Vec<u32>,
        reconverge: u32,
    },
    Exit,
    Trap,
    /// A call of `__assertfail`, which a failed assertion makes.
    AssertFail,
}

/// A decoded instruction.
#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    pub(crate) guard: Option<Test>,
    pub(crate) op: Op,
}
