//! The SIMD form of a vector loop's body: the operations on each lane.
//!
//! A body is a structured program in single-assignment form over *lanes*: each value is one number
//! per lane. Its lowerings choose the number of lanes in a vector and repeat the body until all `n`
//! lanes are done; lanes are independent, except for the body's reductions. Uniform values (the
//! same for all lanes) are passed in 64-bit *inputs*: addresses, integers, and numbers to
//! broadcast.
//!
//! # Invariants
//! - A value is defined once, before its uses, in the same block or an enclosing one; its operands
//!   have the types that its operation requires.
//! - Narrow integers are carried sign-extended in 32 bits; floats of fewer than 32 bits as an `f32`
//!   that is exactly one of the type's values.
//! - A lane beyond `n`, or one whose mask is false, accesses no memory.

use crate::origin::Origin;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A value of a body, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct V(pub u32);

/// The type of a value's lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Type {
    /// True or false.
    Mask,
    /// 32 bits.
    I32,
    /// Single precision.
    F32,
    /// 64 bits.
    I64,
    /// Double precision.
    F64,
}

impl Type {
    /// Whether a lane takes 64 bits.
    pub(crate) fn is_wide(self) -> bool {
        matches!(self, Self::I64 | Self::F64)
    }

    /// Whether it is a floating-point type.
    pub(crate) fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }
}

/// Operations of one operand; the result has the operand's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum UnaryOp {
    /// IEEE square root.
    Sqrt,
    /// Rounds to an integral value, ties to even.
    Nearest,
    /// Rounds down to an integral value.
    Floor,
    /// Rounds up to an integral value.
    Ceil,
    /// Rounds to an integral value towards zero.
    Trunc,
    /// The magnitude of a signed integer; the smallest is unchanged.
    AbsInt,
    /// Logical not of masks.
    Not,
}

/// Operations of two operands; operands and result have one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BinaryOp {
    /// Sum; integers wrap.
    Add,
    /// Difference; integers wrap.
    Sub,
    /// Product; integers wrap.
    Mul,
    /// Quotient of floats.
    Div,
    /// IEEE 754-2019 `minimum` of floats: propagates NaN, and -0 is below +0.
    Minimum,
    /// IEEE 754-2019 `maximum` of floats.
    Maximum,
    /// `a < b ? a : b` of floats, so `b` if either is NaN.
    LesserOrSecond,
    /// `a > b ? a : b` of floats.
    GreaterOrSecond,
    /// `a`, or if `b` is NaN, `b` made quiet. For `f32`.
    UnlessNan,
    /// Minimum of signed integers.
    MinSigned,
    /// Maximum of signed integers.
    MaxSigned,
    /// Minimum of unsigned integers.
    MinUnsigned,
    /// Maximum of unsigned integers.
    MaxUnsigned,
    /// Bitwise and; also of masks.
    And,
    /// Bitwise or; also of masks.
    Or,
    /// Bitwise exclusive or; also of masks.
    Xor,
    /// `a * 2^b` of floats, rounded once; `b` is integral, |b| <= 512.
    Scale,
    /// Shifts an integer left by the unsigned number `b`; 0 from the width on.
    ShiftLeft,
    /// Logical shift right; 0 from the width on.
    ShiftRight,
    /// Arithmetic shift right; all sign bits from the width on.
    ShiftRightSigned,
    /// Rotates an integer left by `b`, a constant below the width.
    RotateLeft,
}

impl BinaryOp {
    /// Whether the operation is commutative.
    pub(crate) fn commutes(self) -> bool {
        matches!(
            self,
            Self::Add
                | Self::Mul
                | Self::And
                | Self::Or
                | Self::Xor
                | Self::Minimum
                | Self::Maximum
        )
    }
}

/// The bit of an `f32` that makes a NaN quiet.
pub(crate) const QUIET: u32 = 0x0040_0000;

/// The operation on the product of `a` and `b` and on `c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fused {
    /// `a * b + c`.
    Sum,
    /// `a * b - c`.
    Less,
    /// `c - a * b`.
    From,
}

/// A comparison; operands have one type, the result is a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Condition {
    /// Equal; false for NaN.
    Equal,
    /// Not equal; true for NaN.
    NotEqual,
    /// Less, of signed integers or floats; false for NaN.
    Less,
    /// Less or equal, of signed integers or floats; false for NaN.
    LessEqual,
    /// Less, of unsigned integers.
    LessUnsigned,
    /// Less or equal, of unsigned integers.
    LessEqualUnsigned,
    /// Either float is NaN.
    Unordered,
}

/// A conversion between types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Conversion {
    /// The same bits as another type of the same width.
    Bits,
    /// An `f32` or `f64` rounded towards zero, to `I32` or, from `f64`, `I64`; arbitrary if out of
    /// range.
    Truncate,
    /// A signed integer to a float of either width.
    FromSigned,
    /// An unsigned integer to a float of either width.
    FromUnsigned,
    /// `f32` to `f64` or back, rounded to nearest.
    Float,
    /// `I32` to `I64`, sign-extended.
    ExtendSigned,
    /// `I32` to `I64`, zero-extended.
    ExtendUnsigned,
    /// `I64` to `I32`, the low half.
    Low,
    /// The bits of an IEEE 754 binary16 number, in the low half of an `I32` whose upper half is 0,
    /// to the number as an `F32`.
    FromHalf,
    /// Rounds an `F32` to the nearest binary16 number, ties to even; the result is an `F32`.
    RoundHalf,
    /// Rounds an `F32` in the same way and gives the bits that `FromHalf` reads.
    ToHalf,
}

/// The operation that defines a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    /// The same bits in every lane; a mask is 0 or 1.
    Const(u64),
    /// An input, broadcast to every lane and truncated to the value's type.
    Input(u32),
    /// The lane's number, an `I32`.
    Lane,
    /// The iteration number of an enclosing loop, an `I32`; the body's outermost loop is 0.
    Counter(u32),
    /// An operation of one operand.
    Unary(UnaryOp, V),
    /// An operation of two operands.
    Binary(BinaryOp, V, V),
    /// A product and a sum or difference; rounded once if the machine has a fused instruction, else
    /// twice.
    Fma(Fused, V, V, V),
    /// A comparison, which gives a mask.
    Compare(Condition, V, V),
    /// Selects the first or the second value by a mask.
    Select(V, V, V),
    /// A conversion.
    Convert(Conversion, V),
    /// Loads contiguous elements through an access; 0 where the mask is false.
    Load {
        /// The number of the access.
        access: u32,
        /// The lanes that load.
        mask: Option<V>,
    },
    /// Loads one half of contiguous pairs through an access: an `F32` of elements of 8 bytes, or an
    /// `F64` of elements of 16; 0 where the mask is false. Half of 8 bytes does not count as a
    /// 64-bit value, so it does not make the lanes wide.
    LoadHalf {
        /// The number of the access.
        access: u32,
        /// Whether the half at the higher address.
        high: bool,
        /// The lanes that load.
        mask: Option<V>,
    },
    /// Loads elements at indices (`I32`, in elements) relative to the access.
    Gather {
        /// The number of the access.
        access: u32,
        /// The index of each lane's element.
        index: V,
        /// The lanes that load.
        mask: Option<V>,
    },
    /// A carried value of a loop, in its body or after it; or a result of a rare case.
    Carried,
}

/// The format of elements in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Storage {
    /// Bytes of an element: 1, 2, 4 or 8; or 16, for pairs that are accessed by halves.
    pub bytes: u32,
    /// Whether elements of 1 or 2 bytes are sign-extended.
    pub signed: bool,
}

/// A memory access of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// The input that holds the address for lane 0 in the first iteration of all loops.
    pub pointer: u32,
    /// The format of the elements.
    pub storage: Storage,
    /// Whether all lanes load the same element; otherwise lanes access consecutive elements.
    /// Ignored for gathers and scatters.
    pub splat: bool,
}

/// How close together the elements are that the lanes of a vector gather.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    /// In most vectors, all lanes have the same element.
    Same,
    /// In most vectors, lanes have consecutive elements.
    Neighbours,
    /// In every vector, each lane has the element of the lane before it, or the next one.
    Window,
}

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Statement {
    /// Defines a value, except for carried ones.
    Define(V),
    /// Stores one element for each lane.
    Store {
        /// The number of the access.
        access: u32,
        /// The stored value.
        value: V,
        /// The index of each lane's element; contiguous if `None`.
        index: Option<V>,
        /// The lanes that store.
        mask: Option<V>,
    },
    /// Stores one element of 8 or 16 bytes for each lane, in two halves, to contiguous memory.
    StorePair {
        /// The number of the access.
        access: u32,
        /// The half at the lower address, then the other.
        halves: [V; 2],
        /// The lanes that store.
        mask: Option<V>,
    },
    /// A counted loop.
    Loop(Loop),
    /// A case that few lanes need.
    Rare(Rare),
}

/// A loop whose number of iterations is the same for all lanes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Loop {
    /// The input that holds the number of iterations.
    pub trips: u32,
    /// The initial carried values.
    pub init: SmallVec<[V; 2]>,
    /// The carried values in the body.
    pub carried: SmallVec<[V; 2]>,
    /// The carried values of the next iteration.
    pub next: SmallVec<[V; 2]>,
    /// The carried values after the loop.
    pub results: SmallVec<[V; 2]>,
    /// The statements of one iteration.
    pub body: Vec<Statement>,
    /// Accesses inside, each with the input that holds its step in bytes for each iteration.
    pub steps: Vec<(u32, u32)>,
}

/// Computations that only few lanes need: a lowering does them for whole vectors, if a lane of
/// these needs them. They access memory only by gathers that are valid in every lane.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rare {
    /// The lanes that need it.
    pub mask: V,
    /// The results if no lane needs it.
    pub init: SmallVec<[V; 2]>,
    /// The results otherwise; in lanes that do not need it, the same as `init`.
    pub next: SmallVec<[V; 2]>,
    /// For a repeated rare case, the values carried between repetitions.
    pub again: Option<Again>,
    /// The results.
    pub results: SmallVec<[V; 2]>,
    /// The computations: only definitions.
    pub body: Vec<V>,
}

/// The additional fields of a rare case that is repeated until no lane needs it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Again {
    /// The results so far, as seen in the body: `init`, then `next`.
    pub carried: SmallVec<[V; 2]>,
    /// The lanes that need another repetition.
    pub mask: V,
}

/// A reduction of one value over all lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reduction {
    /// The combining operation, associative up to rounding.
    pub op: BinaryOp,
    /// The value of each lane.
    pub value: V,
}

/// The type of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// An address or a 64-bit integer.
    Integer,
    /// A number whose low bits are broadcast.
    Number(Type),
}

/// The body of a vector loop. See the module's documentation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Body {
    /// The inputs.
    pub inputs: Vec<Input>,
    /// The memory accesses.
    pub accesses: Vec<Access>,
    /// The values: their operations and types.
    pub values: Vec<(Op, Type)>,
    /// The statements, in order.
    pub statements: Vec<Statement>,
    /// The reductions over the lanes.
    pub reductions: Vec<Reduction>,
    /// Inputs that hold the address of the table of 2/pi.
    pub tables: Vec<u32>,
    /// Gathers of strided elements ([`Self::every`]), one from each block of as many elements as
    /// the stride, where the array consists of whole blocks.
    pub blocks: Vec<u32>,
    /// Gathers from arrays so small that a register may hold them: the access, whose address is the
    /// array's, and the number of elements.
    pub small: Vec<(u32, u32)>,
    /// Gathers whose lanes' elements are close together.
    pub spans: Vec<(u32, Span)>,
    /// The kernel's statements that the body was made from.
    pub origins: Origins,
}

/// The origins of a body's values and stores. They are ignored when bodies are compared: bodies
/// that are otherwise equal become one function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origins {
    /// The origin of each value.
    pub values: Vec<Origin>,
    /// The origin of stores, by access.
    pub stores: FxHashMap<u32, Origin>,
    /// The origin of each reduction.
    pub reductions: Vec<Origin>,
    /// The origin of the loop over the lanes.
    pub lanes: Origin,
}

impl PartialEq for Origins {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Origins {
    /// The origin of a statement.
    pub(crate) fn of(&self, statement: &Statement) -> Origin {
        match statement {
            Statement::Define(v) => self.value(*v),
            Statement::Store { access, .. } | Statement::StorePair { access, .. } => {
                self.stores.get(access).copied().unwrap_or_default()
            }
            Statement::Loop(inner) => {
                let first = inner.carried.first().or(inner.results.first());
                first.map_or(Origin::None, |v| self.value(*v))
            }
            Statement::Rare(rare) => self.value(rare.mask),
        }
    }

    /// The origin of a value.
    pub(crate) fn value(&self, v: V) -> Origin {
        self.values.get(v.0 as usize).copied().unwrap_or_default()
    }
}

/// The maximum number of elements of a small array.
pub(crate) const SMALL: i64 = 16;

/// Strided elements: lane `i` reads element `i * stride + first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Every {
    /// The stride.
    pub stride: u32,
    /// Lane 0's element.
    pub first: u32,
}

impl Body {
    /// The type of a value.
    pub(crate) fn type_of(&self, v: V) -> Type {
        self.values[v.0 as usize].1
    }

    /// The operation that defines a value.
    pub(crate) fn op(&self, v: V) -> Op {
        self.values[v.0 as usize].0
    }

    /// The strided elements that the index of a gather refers to, if it is strided.
    pub(crate) fn every(&self, index: V) -> Option<Every> {
        let constant = |v: V| match self.op(v) {
            Op::Const(bits) => u32::try_from(bits).ok(),
            _ => None,
        };
        let (scaled, first) = match self.op(index) {
            Op::Binary(BinaryOp::Add, scaled, first) => (scaled, constant(first)?),
            _ => (index, 0),
        };
        match self.op(scaled) {
            Op::Binary(BinaryOp::Mul, lane, stride) if self.op(lane) == Op::Lane => Some(Every {
                stride: constant(stride)?,
                first,
            }),
            _ => None,
        }
    }

    /// Whether an index is the lane's number, negated.
    pub(crate) fn goes_back(&self, index: V) -> bool {
        let backwards = Every {
            stride: u32::MAX,
            first: 0,
        };
        self.every(index) == Some(backwards)
    }

    /// For each value, whether it is the same for all lanes; it may differ between iterations of
    /// loops.
    pub(crate) fn same_in_lanes(&self) -> Vec<bool> {
        let mut known = vec![false; self.values.len()];
        for i in 0..self.values.len() {
            known[i] = match self.values[i].0 {
                Op::Const(_) | Op::Input(_) | Op::Counter(_) => true,
                Op::Load { access, mask: None } => self.accesses[access as usize].splat,
                Op::Lane
                | Op::Carried
                | Op::Load { .. }
                | Op::LoadHalf { .. }
                | Op::Gather { .. } => false,
                // Operands come before the values that are computed from them.
                op => op.operands().iter().all(|v| known[v.0 as usize]),
            };
        }
        known
    }

    /// Whether an index increases by one from lane to lane, starting from a value that is the
    /// `same` in all lanes.
    pub(crate) fn goes_by_one(&self, index: V, same: &[bool]) -> bool {
        match self.op(index) {
            Op::Lane => true,
            Op::Binary(BinaryOp::Add, a, b) => [(a, b), (b, a)]
                .into_iter()
                .any(|(a, b)| same[b.0 as usize] && self.goes_by_one(a, same)),
            _ => false,
        }
    }

    /// For each value, whether it is the same for all lanes and iterations.
    pub(crate) fn invariants(&self) -> Vec<bool> {
        let mut known = vec![false; self.values.len()];
        for i in 0..self.values.len() {
            known[i] = match self.values[i].0 {
                Op::Const(_) | Op::Input(_) => true,
                Op::Lane
                | Op::Counter(_)
                | Op::Carried
                | Op::Load { .. }
                | Op::LoadHalf { .. }
                | Op::Gather { .. } => false,
                // Operands come before the values that are computed from them.
                op => op.operands().iter().all(|v| known[v.0 as usize]),
            };
        }
        known
    }

    /// The accesses through which every lane of a body without loops stores contiguously.
    pub(crate) fn stores_in_order(&self) -> Vec<u32> {
        let is_loop = |s: &Statement| matches!(s, Statement::Loop(_));
        if self.statements.iter().any(is_loop) {
            return Vec::new();
        }
        let stores = self.statements.iter().filter_map(|s| match s {
            Statement::Store {
                access,
                index: None,
                mask: None,
                ..
            } => Some(*access),
            _ => None,
        });
        stores.collect()
    }

    /// The number of values, without those of rare cases.
    pub(crate) fn size(&self) -> usize {
        self.values.len() - rare_values(&self.statements)
    }

    /// Whether some value takes 64 bits per lane.
    pub(crate) fn is_wide(&self) -> bool {
        self.values.iter().any(|(_, t)| t.is_wide())
    }
}

impl Body {
    /// Applies `f` to every use of a value.
    pub(crate) fn map_uses(&mut self, f: impl Fn(V) -> V) {
        for (op, _) in &mut self.values {
            op.map_operands(&f);
        }
        for statement in &mut self.statements {
            statement.map_uses(&f);
        }
        for r in &mut self.reductions {
            r.value = f(r.value);
        }
    }

    /// The same body without unused values, renumbered so that operands come before the values
    /// computed from them.
    pub(crate) fn renumbered(mut self) -> Self {
        let mut order = Vec::new();
        let mut numbers = vec![None; self.values.len()];
        let mut number = |v: V| {
            numbers[v.0 as usize].get_or_insert_with(|| {
                order.push(v);
                V(order.len() as u32 - 1)
            });
        };
        for statement in &self.statements {
            statement.for_each_value(&self, &mut number);
        }
        for r in &self.reductions {
            number(r.value);
        }
        let values = order.iter().map(|&v| self.values[v.0 as usize]);
        let values = values.collect();
        self.values = values;
        self.origins.values = order.iter().map(|&v| self.origins.value(v)).collect();
        let new = |v: V| numbers[v.0 as usize].unwrap_or(v);
        self.map_uses(new);
        for statement in &mut self.statements {
            statement.map_definitions(&new);
        }
        self
    }
}

impl Statement {
    /// The values that the statement itself uses, without nested statements.
    pub(crate) fn operands(&self, f: &mut impl FnMut(V)) {
        match self {
            Self::Define(_) => {}
            Self::Store {
                value, index, mask, ..
            } => std::iter::once(value)
                .chain(index)
                .chain(mask)
                .for_each(|v| f(*v)),
            Self::StorePair { halves, mask, .. } => {
                halves.iter().chain(mask).for_each(|v| f(*v));
            }
            Self::Loop(inner) => {
                let used = inner.init.iter().chain(&inner.next);
                used.for_each(|v| f(*v));
            }
            Self::Rare(rare) => {
                let used = [&rare.mask].into_iter().chain(&rare.init).chain(&rare.next);
                used.for_each(|v| f(*v));
                rare.again.iter().for_each(|again| f(again.mask));
            }
        }
    }

    /// All values that the statement and nested ones use.
    pub(crate) fn for_each_use(&self, body: &Body, f: &mut impl FnMut(V)) {
        self.operands(f);
        let mut define = |v: V| body.op(v).operands().into_iter().for_each(&mut *f);
        match self {
            Self::Define(v) => define(*v),
            Self::Rare(rare) => rare.body.iter().for_each(|v| define(*v)),
            Self::Loop(inner) => {
                for statement in &inner.body {
                    statement.for_each_use(body, f);
                }
            }
            Self::Store { .. } | Self::StorePair { .. } => {}
        }
    }

    /// All values that the statement uses or defines, operands first.
    fn for_each_value(&self, body: &Body, f: &mut impl FnMut(V)) {
        let define = |v: V, f: &mut dyn FnMut(V)| {
            body.op(v).operands().into_iter().for_each(&mut *f);
            f(v);
        };
        match self {
            Self::Define(v) => define(*v, f),
            Self::Store { .. } | Self::StorePair { .. } => self.operands(f),
            Self::Loop(inner) => {
                inner.init.iter().chain(&inner.carried).for_each(|v| f(*v));
                for statement in &inner.body {
                    statement.for_each_value(body, f);
                }
                inner.next.iter().chain(&inner.results).for_each(|v| f(*v));
            }
            Self::Rare(rare) => {
                [&rare.mask]
                    .into_iter()
                    .chain(&rare.init)
                    .for_each(|v| f(*v));
                let carried = rare.again.iter().flat_map(|again| &again.carried);
                carried.for_each(|v| f(*v));
                rare.body.iter().for_each(|v| define(*v, f));
                rare.again.iter().for_each(|again| f(again.mask));
                rare.next.iter().chain(&rare.results).for_each(|v| f(*v));
            }
        }
    }

    fn map_uses(&mut self, f: &impl Fn(V) -> V) {
        let map = |v: &mut V| *v = f(*v);
        match self {
            Self::Define(_) => {}
            Self::Store {
                value, index, mask, ..
            } => {
                let all = std::iter::once(value).chain(index).chain(mask);
                all.for_each(map);
            }
            Self::StorePair { halves, mask, .. } => halves.iter_mut().chain(mask).for_each(map),
            Self::Loop(inner) => {
                inner.init.iter_mut().chain(&mut inner.next).for_each(map);
                for statement in &mut inner.body {
                    statement.map_uses(f);
                }
            }
            Self::Rare(rare) => {
                map(&mut rare.mask);
                rare.init.iter_mut().chain(&mut rare.next).for_each(map);
                let again = rare.again.iter_mut();
                again.for_each(|again| map(&mut again.mask));
            }
        }
    }

    fn map_definitions(&mut self, f: &impl Fn(V) -> V) {
        let map = |v: &mut V| *v = f(*v);
        match self {
            Self::Define(v) => map(v),
            Self::Store { .. } | Self::StorePair { .. } => {}
            Self::Loop(inner) => {
                let defined = inner.carried.iter_mut().chain(&mut inner.results);
                defined.for_each(map);
                for statement in &mut inner.body {
                    statement.map_definitions(f);
                }
            }
            Self::Rare(rare) => {
                let carried = rare.again.iter_mut().flat_map(|again| &mut again.carried);
                carried.for_each(map);
                rare.body.iter_mut().chain(&mut rare.results).for_each(map);
            }
        }
    }
}

/// The number of values that only rare cases define.
fn rare_values(statements: &[Statement]) -> usize {
    let values = statements.iter().map(|statement| match statement {
        Statement::Rare(rare) => rare.body.len(),
        Statement::Loop(inner) => rare_values(&inner.body),
        _ => 0,
    });
    values.sum()
}

impl Op {
    fn map_operands(&mut self, f: &impl Fn(V) -> V) {
        let map = |v: &mut V| *v = f(*v);
        match self {
            Self::Const(_) | Self::Input(_) | Self::Lane | Self::Counter(_) | Self::Carried => {}
            Self::Unary(_, a) | Self::Convert(_, a) => map(a),
            Self::Binary(_, a, b) | Self::Compare(_, a, b) => [a, b].into_iter().for_each(map),
            Self::Fma(_, a, b, c) | Self::Select(a, b, c) => [a, b, c].into_iter().for_each(map),
            Self::Load { mask, .. } | Self::LoadHalf { mask, .. } => mask.iter_mut().for_each(map),
            Self::Gather { index, mask, .. } => {
                std::iter::once(index).chain(mask).for_each(map);
            }
        }
    }

    /// The operands, in order.
    pub(crate) fn operands(&self) -> SmallVec<[V; 3]> {
        match *self {
            Self::Const(_) | Self::Input(_) | Self::Lane | Self::Counter(_) | Self::Carried => {
                SmallVec::new()
            }
            Self::Unary(_, a) | Self::Convert(_, a) => SmallVec::from_slice(&[a]),
            Self::Binary(_, a, b) | Self::Compare(_, a, b) => SmallVec::from_slice(&[a, b]),
            Self::Fma(_, a, b, c) | Self::Select(a, b, c) => SmallVec::from_slice(&[a, b, c]),
            Self::Load { mask, .. } | Self::LoadHalf { mask, .. } => mask.into_iter().collect(),
            Self::Gather { index, mask, .. } => std::iter::once(index).chain(mask).collect(),
        }
    }
}

/// The bits of the operation's identity element.
pub(crate) fn identity(op: BinaryOp, ty: Type) -> u64 {
    let wide = ty.is_wide();
    let float = |x: f64| match wide {
        true => x.to_bits(),
        false => u64::from((x as f32).to_bits()),
    };
    let all = if wide { u64::MAX } else { u64::from(u32::MAX) };
    match (op, ty.is_float()) {
        (BinaryOp::Add, true) => float(-0.0),
        (BinaryOp::Mul, true) => float(1.0),
        (BinaryOp::Minimum, _) => float(f64::INFINITY),
        (BinaryOp::Maximum, _) => float(f64::NEG_INFINITY),
        (BinaryOp::Mul, false) => 1,
        (BinaryOp::And | BinaryOp::MinUnsigned, _) => all,
        (BinaryOp::MinSigned, _) => all >> 1,
        (BinaryOp::MaxSigned, _) => all ^ (all >> 1),
        _ => 0,
    }
}
