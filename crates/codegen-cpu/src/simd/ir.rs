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

/// What a lane of a value is.
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
    /// To an integral value, ties to even.
    Nearest,
    /// To an integral value, down.
    Floor,
    /// To an integral value, up.
    Ceil,
    /// To an integral value, towards zero.
    Trunc,
    /// The magnitude of a signed integer; the smallest stays as it is.
    AbsInt,
    /// Not, of masks.
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
    /// IEEE 754-2019 `minimum`: NaN wins, -0 is below +0. Of floats.
    Minimum,
    /// IEEE 754-2019 `maximum`. Of floats.
    Maximum,
    /// `a < b ? a : b`, so `b` where either is NaN. Of floats.
    LesserOrSecond,
    /// `a > b ? a : b`. Of floats.
    GreaterOrSecond,
    /// `a`, but where `b` is NaN `b` with its quiet bit. Of `f32`.
    UnlessNan,
    /// Smaller signed integer.
    MinSigned,
    /// Larger signed integer.
    MaxSigned,
    /// Smaller unsigned integer.
    MinUnsigned,
    /// Larger unsigned integer.
    MaxUnsigned,
    /// Bits in both; also of masks.
    And,
    /// Bits in either; also of masks.
    Or,
    /// Bits in one; also of masks.
    Xor,
    /// `a * 2^b` rounded once; `b` is integral, |b| <= 512. Of floats.
    Scale,
    /// Left by `b` as an unsigned number; 0 from the width on. Of integers.
    ShiftLeft,
    /// Right, zeros in; 0 from the width on.
    ShiftRight,
    /// Right, signs in; all signs from the width on.
    ShiftRightSigned,
    /// Left by `b`, a constant below the width; what is moved out comes in again. Of integers.
    RotateLeft,
}

impl BinaryOp {
    /// Whether the operands may change places.
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

/// The bit of an `f32` that makes a NaN a quiet one.
pub(crate) const QUIET: u32 = 0x0040_0000;

/// What is done with the product of `a` and `b` and with `c`.
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
    /// Less; signed integers; false for NaN.
    Less,
    /// Less or equal; signed; false for NaN.
    LessEqual,
    /// Less, of unsigned integers.
    LessUnsigned,
    /// Less or equal, of unsigned integers.
    LessEqualUnsigned,
    /// Either is NaN. Of floats.
    Unordered,
}

/// From one type to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Conversion {
    /// The same bits in another type of the same width.
    Bits,
    /// An `f32` or `f64` rounded towards zero; any number if out of range.
    /// To `I32` or, from `f64`, `I64`.
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
    /// The bits of an IEEE 754 binary16 number, in the low half of an `I32` that is 0 above, to the
    /// number, an `F32`.
    FromHalf,
    /// An `F32` rounded to the nearest binary16 number, ties to even; still an `F32`.
    RoundHalf,
    /// An `F32` rounded so, as the bits that `FromHalf` reads.
    ToHalf,
}

/// What defines a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    /// The same bits in every lane; a mask is 0 or 1.
    Const(u64),
    /// An input in every lane, cut to the value's type.
    Input(u32),
    /// The number of the lane in the run, an `I32`.
    Lane,
    /// How often a loop around has run, an `I32`: the body's outermost is 0.
    Counter(u32),
    /// One operand.
    Unary(UnaryOp, V),
    /// Two operands.
    Binary(BinaryOp, V, V),
    /// A product and a sum or difference; rounded once where the machine has that, else
    /// twice.
    Fma(Fused, V, V, V),
    /// Two operands to a mask.
    Compare(Condition, V, V),
    /// By a mask, the first or the second.
    Select(V, V, V),
    /// By type.
    Convert(Conversion, V),
    /// An element per lane through an access; 0 where the mask is false.
    Load {
        /// Which.
        access: u32,
        /// The lanes that load.
        mask: Option<V>,
    },
    /// Half of an element of 8 bytes per lane through an access, an `F32`; 0 where the
    /// mask is false. No value of 64 bits: pairs do not make lanes wide.
    LoadHalf {
        /// Which.
        access: u32,
        /// Whether the half at the higher address.
        high: bool,
        /// The lanes that load.
        mask: Option<V>,
    },
    /// Elements at indices (`I32`, counted in elements) from the access.
    Gather {
        /// Which.
        access: u32,
        /// Where, for each lane.
        index: V,
        /// The lanes that load.
        mask: Option<V>,
    },
    /// A carried value of a loop, as its body sees it or after it; or what a rare case
    /// leaves.
    Carried,
}

/// How elements are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Storage {
    /// Bytes of an element: 1, 2, 4 or 8.
    pub bytes: u32,
    /// Whether elements of 1 or 2 bytes are extended by their sign.
    pub signed: bool,
}

/// One place in the body that touches memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// The input that holds the address for lane 0, loops at their start.
    pub pointer: u32,
    /// What an element is.
    pub storage: Storage,
    /// Whether all lanes load the same element; else the next lane's is next.
    /// Without meaning for gathers and scatters.
    pub splat: bool,
}

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Statement {
    /// Defines a value that is no carried one.
    Define(V),
    /// An element per lane to memory.
    Store {
        /// Which.
        access: u32,
        /// What.
        value: V,
        /// Where to, counted in elements; else contiguous.
        index: Option<V>,
        /// The lanes that store.
        mask: Option<V>,
    },
    /// An element of 8 bytes per lane, in two halves, to contiguous memory.
    StorePair {
        /// Which.
        access: u32,
        /// The half at the lower address, and the other; of 32 bits.
        halves: [V; 2],
        /// The lanes that store.
        mask: Option<V>,
    },
    /// A counted loop.
    Loop(Loop),
    /// What few lanes need.
    Rare(Rare),
}

/// A loop that runs as often for each lane.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Loop {
    /// The input that says how often.
    pub trips: u32,
    /// What the carried values start as.
    pub init: SmallVec<[V; 2]>,
    /// The carried values in the body.
    pub carried: SmallVec<[V; 2]>,
    /// What they become.
    pub next: SmallVec<[V; 2]>,
    /// What they are after the loop.
    pub results: SmallVec<[V; 2]>,
    /// One iteration.
    pub body: Vec<Statement>,
    /// Accesses inside, and the inputs by how many bytes each iteration moves them.
    pub steps: Vec<(u32, u32)>,
}

/// What is done for lanes that are rare: a lowering does it for whole vectors, if a lane of
/// them asks for it. It touches no memory but by gathers that are good for every lane.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rare {
    /// The lanes that ask.
    pub mask: V,
    /// What the results are where no lane asks.
    pub init: SmallVec<[V; 2]>,
    /// What they are else; in lanes that do not ask the same as `init`.
    pub next: SmallVec<[V; 2]>,
    /// If it is done again while a lane asks: how the results go round.
    pub again: Option<Again>,
    /// The results.
    pub results: SmallVec<[V; 2]>,
    /// What is done: definitions only.
    pub body: Vec<V>,
}

/// What a rare case that is done until no lane asks has beside one that is done once.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Again {
    /// The results so far, as the body sees them: `init`, then `next`.
    pub carried: SmallVec<[V; 2]>,
    /// The lanes that ask once more.
    pub mask: V,
}

/// A combination of one value over all lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reduction {
    /// What combines; associative up to rounding.
    pub op: BinaryOp,
    /// Each lane's part.
    pub value: V,
}

/// What an input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// An address or a 64-bit integer.
    Integer,
    /// A number whose low bits are broadcast.
    Number(Type),
}

/// A vector body. See the module's text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Body {
    /// What it is given.
    pub inputs: Vec<Input>,
    /// Where it touches memory.
    pub accesses: Vec<Access>,
    /// The values.
    pub values: Vec<(Op, Type)>,
    /// What is done, in order.
    pub statements: Vec<Statement>,
    /// What is combined over the lanes.
    pub reductions: Vec<Reduction>,
    /// Inputs that are the address of the table of sines.
    pub tables: Vec<u32>,
    /// Gathers of [every](Self::every) so many elements whose blocks of that many, of which
    /// each lane reads one, lie in the array as a whole.
    pub blocks: Vec<u32>,
    /// Gathers from arrays of so few elements that a register may hold them: the access, whose
    /// address is the array's, and how many they are.
    pub small: Vec<(u32, u32)>,
    /// Which statements of the kernel it came from.
    pub origins: Origins,
}

/// Where the values and stores of a body came from. Bodies that differ in nothing else are equal:
/// they are one function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origins {
    /// By value.
    pub values: Vec<Origin>,
    /// By access.
    pub stores: FxHashMap<u32, Origin>,
    /// By reduction: what combines.
    pub reductions: Vec<Origin>,
    /// What counts the lanes.
    pub lanes: Origin,
}

impl PartialEq for Origins {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Origins {
    /// Where a statement came from; of a loop, what is around it is not the loop's.
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

    /// Where a value came from.
    pub(crate) fn value(&self, v: V) -> Origin {
        self.values.get(v.0 as usize).copied().unwrap_or_default()
    }
}

/// The most elements of such an array.
pub(crate) const SMALL: i64 = 16;

/// Elements at equal distances: lane `i` reads the one of number `i * stride + first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Every {
    /// The distance.
    pub stride: u32,
    /// Lane 0's.
    pub first: u32,
}

impl Body {
    /// The type of a value.
    pub(crate) fn type_of(&self, v: V) -> Type {
        self.values[v.0 as usize].1
    }

    /// What defines a value.
    pub(crate) fn op(&self, v: V) -> Op {
        self.values[v.0 as usize].0
    }

    /// The elements that an index of a gather stands for, if they are at equal distances.
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

    /// Which values are the same for all lanes, though turns of loops may differ.
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
                // Operands come before what is computed from them.
                op => op.operands().iter().all(|v| known[v.0 as usize]),
            };
        }
        known
    }

    /// Whether an index goes from lane to lane by one, from a place that is the `same` in all.
    pub(crate) fn goes_by_one(&self, index: V, same: &[bool]) -> bool {
        match self.op(index) {
            Op::Lane => true,
            Op::Binary(BinaryOp::Add, a, b) => [(a, b), (b, a)]
                .into_iter()
                .any(|(a, b)| same[b.0 as usize] && self.goes_by_one(a, same)),
            _ => false,
        }
    }

    /// Which values are the same for all lanes and turns of loops.
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
                // Operands come before what is computed from them.
                op => op.operands().iter().all(|v| known[v.0 as usize]),
            };
        }
        known
    }

    /// The accesses through which every lane of a body without loops stores, one element after
    /// the other.
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

    /// How many values there are, but for those of rare cases.
    pub(crate) fn size(&self) -> usize {
        self.values.len() - rare_values(&self.statements)
    }

    /// Whether some value takes 64 bits per lane.
    pub(crate) fn is_wide(&self) -> bool {
        self.values.iter().any(|(_, t)| t.is_wide())
    }
}

impl Body {
    /// Every use of a value as one of what `f` makes of it.
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

    /// The same without values that no statement uses, operands before what is computed from
    /// them.
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
    /// The values that it uses itself, not those of what is inside it.
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

    /// All values that it and what is inside it use.
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

    /// All values that it uses or defines, operands first.
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

/// Values that only rare cases define.
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

    /// The values it is computed from, in order.
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

/// The bits that leave a combination as it is.
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
