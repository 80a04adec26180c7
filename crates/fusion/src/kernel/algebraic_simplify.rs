//! Algebraic simplification by identities that hold to the bit for every operand.
//!
//! The emitter consults it before it adds an operation on scalars. Signs move outwards, out of
//! products and odd functions, and disappear in squares, magnitudes and even functions. So a
//! function of `x` and the same function of `-x` share most of their work (the normal distribution
//! of `d` and of `-d` in option prices). An identity must round alike: `x + 0` is not `x`, because
//! `-0 + 0` is `0`. The sign of a NaN does not count: an operation may return either. Powers by a
//! constant are the one exception: [`crate::emit`] expands them into products and roots, which
//! round more than once.

use super::{Block, IndexVar, Kernel, ScalarId, ScalarOp, ScalarTypes, Statement};
use smallvec::SmallVec;
use tegula_arena::{EntitySet, SecondaryMap};
use tegula_ir::{Binary, Category, Direction, ElementType, Order, Unary};
use tegula_scalar::{apply_binary, apply_compare, apply_convert, apply_select, apply_unary};

/// The operands of a scalar operation.
pub(crate) type Operands = SmallVec<[ScalarId; 3]>;

/// The definitions of the scalars that an emitter has computed.
#[derive(Default)]
pub(crate) struct Definitions {
    made_by: SecondaryMap<ScalarId, Option<(ScalarOp, Operands)>>,
    never_negative: EntitySet<ScalarId>,
}

/// The replacement for an operation.
pub(crate) enum Instead {
    /// An existing scalar.
    Same(ScalarId),
    /// Another operation of the same type.
    Operation(ScalarOp, Operands),
    /// An operation of the same type, negated.
    Negated(ScalarOp, Operands),
    /// A binary operation of this scalar and a constant with these bits, in this order.
    ByConstant(Binary, ScalarId, u128),
    /// A constant.
    Constant(u128),
    /// A float to the power of half this number.
    Power(ScalarId, i8),
}

impl Definitions {
    pub(crate) fn insert(
        &mut self,
        scalar: ScalarId,
        element_type: ElementType,
        op: ScalarOp,
        operands: Operands,
    ) {
        let never_negative = match (&op, &operands[..]) {
            _ if !has_signs(element_type) => false,
            (ScalarOp::Unary(Unary::Abs | Unary::Exp | Unary::Logistic), _) => true,
            (ScalarOp::Binary(Binary::Multiply), [a, b]) if a == b => true,
            (ScalarOp::Binary(Binary::Add), &[a, b]) => {
                self.is_never_negative(a) && self.is_never_negative(b)
            }
            (ScalarOp::Constant(bits), _) => bits >> (element_type.bits() - 1) & 1 == 0,
            _ => false,
        };
        if never_negative {
            self.never_negative.insert(scalar);
        }
        self.made_by[scalar] = Some((op, operands));
    }

    /// Whether a float is never below zero and never `-0`; it may be NaN.
    pub(crate) fn is_never_negative(&self, scalar: ScalarId) -> bool {
        self.never_negative.contains(scalar)
    }

    fn constant(&self, scalar: ScalarId) -> Option<u128> {
        match self.made_by[scalar] {
            Some((ScalarOp::Constant(bits), _)) => Some(bits),
            _ => None,
        }
    }

    /// The operand of `scalar` if `scalar` is defined by the operation `unary` and the operand has
    /// the result's type (the magnitude of a complex number, for example, is real).
    fn inside(&self, types: &ScalarTypes, scalar: ScalarId, unary: Unary) -> Option<ScalarId> {
        let operand = match &self.made_by[scalar] {
            Some((ScalarOp::Unary(op), operands)) if *op == unary => *operands.first()?,
            _ => return None,
        };
        (types[operand] == types[scalar]).then_some(operand)
    }

    /// Twice a constant exponent, if the power can be expanded into a few products, reciprocals and
    /// roots: for multiples of one half from -2 to 4.
    fn half_powers(&self, element_type: ElementType, exponent: ScalarId) -> Option<i8> {
        let bits = u64::try_from(self.constant(exponent)?).ok()?;
        let halves = 2.0 * element_type.float_format()?.decode(bits);
        let few = halves.fract() == 0.0 && (-4.0..=8.0).contains(&halves);
        few.then_some(halves as i8)
    }

    /// The replacement for an operation that can be simplified. `element_type` is the type of its
    /// result, `types` those of all scalars.
    pub(crate) fn instead(
        &self,
        types: &ScalarTypes,
        element_type: ElementType,
        op: &ScalarOp,
        operands: &[ScalarId],
    ) -> Option<Instead> {
        let from = operands.first().map_or(element_type, |&x| types[x]);
        if let Some(bits) = self.folded(types, element_type, op, operands) {
            return Some(Instead::Constant(bits));
        }
        match (op, operands) {
            // The magnitude of a complex number, for example, has another type.
            (ScalarOp::Unary(_), _) if from != element_type => None,
            (ScalarOp::Unary(op), &[x]) => self.unary(types, *op, element_type, x),
            (ScalarOp::Binary(op), &[x, y]) if has_signs(element_type) => {
                self.float(types, *op, element_type, [x, y])
            }
            (ScalarOp::Binary(op), &[x, y]) => self.integer(*op, element_type, x, y),
            (ScalarOp::Compare(direction, Order::Partial), &[x, y]) if has_signs(from) => {
                self.compare(*direction, from, x, y)
            }
            (ScalarOp::Compare(direction, _), &[x, y]) if is_exact(from) => {
                self.compare_exact(*direction, from, [x, y])
            }
            (ScalarOp::Select, &[p, x, y]) => self.select(types, p, [x, y]),
            (ScalarOp::Convert, &[x]) => self.convert(types, element_type, x),
            _ => None,
        }
    }

    /// The bits of the result of an operation on constants, if it is one on integers or truth values,
    /// a comparison, or a conversion: these give the same bits on every target.
    fn folded(
        &self,
        types: &ScalarTypes,
        to: ElementType,
        op: &ScalarOp,
        operands: &[ScalarId],
    ) -> Option<u128> {
        if let ScalarOp::Index(term) = op {
            let value = u128::from(term.as_constant()?.cast_unsigned());
            return is_exact(to).then(|| apply_convert(ElementType::S64, to, value));
        }
        let &first = operands.first()?;
        let from = types[first];
        let is_known = |ty: ElementType| is_exact(ty) || has_signs(ty);
        let same_everywhere = match op {
            ScalarOp::Compare(..) => is_known(from),
            ScalarOp::Convert => is_known(from) && (has_signs(to) || is_exact(from)),
            _ => is_exact(to) && operands.iter().all(|&x| is_exact(types[x])),
        };
        if !same_everywhere || !is_known(to) {
            return None;
        }
        let constant = |&x: &ScalarId| self.constant(x);
        let constants: Option<SmallVec<[u128; 3]>> = operands.iter().map(constant).collect();
        match (op, &constants?[..]) {
            (ScalarOp::Unary(op), &[x]) if from == to => apply_unary(*op, to, x),
            (ScalarOp::Binary(op), &[x, y]) => apply_binary(*op, to, x, y),
            (ScalarOp::Compare(direction, order), &[x, y]) => {
                apply_compare(*direction, *order, from, x, y)
            }
            (ScalarOp::Select, &[p, x, y]) => Some(apply_select(p, x, y)),
            (ScalarOp::Convert, &[x]) => Some(apply_convert(from, to, x)),
            _ => None,
        }
    }

    fn unary(
        &self,
        types: &ScalarTypes,
        op: Unary,
        element_type: ElementType,
        x: ScalarId,
    ) -> Option<Instead> {
        if op == Unary::Not {
            return self.inside(types, x, Unary::Not).map(Instead::Same);
        }
        if !has_signs(element_type) {
            return None;
        }
        let negated = self.inside(types, x, Unary::Negate);
        let to = |x| Instead::Operation(ScalarOp::Unary(op), SmallVec::from_slice(&[x]));
        match op {
            Unary::Negate => negated.map(Instead::Same),
            Unary::Abs if self.is_never_negative(x) => Some(Instead::Same(x)),
            Unary::Abs => negated.map(to),
            Unary::Cos => negated
                .or_else(|| self.inside(types, x, Unary::Abs))
                .map(to),
            Unary::Erf
            | Unary::Sin
            | Unary::Tan
            | Unary::Tanh
            | Unary::Cbrt
            | Unary::Sign
            | Unary::RoundNearestAfz
            | Unary::RoundNearestEven => {
                let x = negated?;
                let operands = SmallVec::from_slice(&[x]);
                Some(Instead::Negated(ScalarOp::Unary(op), operands))
            }
            _ => None,
        }
    }

    fn float(
        &self,
        types: &ScalarTypes,
        op: Binary,
        element_type: ElementType,
        [x, y]: [ScalarId; 2],
    ) -> Option<Instead> {
        let negated = [x, y].map(|s| self.inside(types, s, Unary::Negate));
        let of = |op, a, b| {
            let operands = SmallVec::from_slice(&[a, b]);
            Some(Instead::Operation(ScalarOp::Binary(op), operands))
        };
        let is = |s: ScalarId, value: f64| {
            self.constant(s) == element_type.float_format().map(|f| f.encode(value).into())
        };
        match op {
            Binary::Maximum | Binary::Minimum if x == y => Some(Instead::Same(x)),
            Binary::Multiply | Binary::Divide if is(y, 1.0) => Some(Instead::Same(x)),
            Binary::Multiply if is(x, 1.0) => Some(Instead::Same(y)),
            Binary::Subtract if is(y, 0.0) => Some(Instead::Same(x)),
            Binary::Add if is(y, -0.0) => Some(Instead::Same(x)),
            Binary::Add if is(x, -0.0) => Some(Instead::Same(y)),
            Binary::Divide if let Some(bits) = self.reciprocal(element_type, y) => {
                Some(Instead::ByConstant(Binary::Multiply, x, bits))
            }
            Binary::Multiply
                if x == y
                    && let Some(inside) = self.inside(types, x, Unary::Abs) =>
            {
                of(op, inside, inside)
            }
            Binary::Multiply | Binary::Divide => match negated {
                [Some(x), Some(y)] => of(op, x, y),
                [None, None] => None,
                [a, b] => {
                    let operands = SmallVec::from_slice(&[a.unwrap_or(x), b.unwrap_or(y)]);
                    Some(Instead::Negated(ScalarOp::Binary(op), operands))
                }
            },
            Binary::Add => match negated {
                [_, Some(y)] => of(Binary::Subtract, x, y),
                [Some(x), None] => of(Binary::Subtract, y, x),
                [None, None] => None,
            },
            Binary::Subtract => of(Binary::Add, x, negated[1]?),
            Binary::Power => self
                .half_powers(element_type, y)
                .map(|halves| Instead::Power(x, halves)),
            _ => None,
        }
    }

    /// The bits of a constant's reciprocal, if both are powers of two and neither is subnormal:
    /// division by the constant then equals multiplication by the reciprocal.
    fn reciprocal(&self, element_type: ElementType, scalar: ScalarId) -> Option<u128> {
        let format = element_type.float_format()?;
        let bits = u64::try_from(self.constant(scalar)?).ok()?;
        let mantissa = (1u64 << format.mantissa_bits) - 1;
        let exponent = |bits: u64| bits >> format.mantissa_bits & ((1 << format.exponent_bits) - 1);
        let last = (1 << format.exponent_bits) - 1;
        let normal = |bits: u64| bits & mantissa == 0 && (1..last).contains(&exponent(bits));
        let inverse = format.encode(1.0 / format.decode(bits));
        (normal(bits) && normal(inverse)).then_some(inverse.into())
    }

    /// Simplifies an operation on integers or truth values with equal operands, or with a constant
    /// that is neutral or decides the result.
    fn integer(
        &self,
        op: Binary,
        element_type: ElementType,
        x: ScalarId,
        y: ScalarId,
    ) -> Option<Instead> {
        let category = element_type.category();
        if matches!(category, Category::Float | Category::Complex) {
            return None;
        }
        let all = match (category, element_type.bits()) {
            (Category::Boolean, _) => 1,
            (_, bits) => (1u128 << bits) - 1,
        };
        let same = matches!(
            op,
            Binary::And | Binary::Or | Binary::Maximum | Binary::Minimum
        );
        if same && x == y {
            return Some(Instead::Same(x));
        }
        let deciding = match op {
            Binary::And | Binary::Multiply => Some(0),
            Binary::Or => Some(all),
            _ => None,
        };
        let decides = |s| deciding.is_some() && self.constant(s).map(|bits| bits & all) == deciding;
        if decides(x) || decides(y) {
            return deciding.map(Instead::Constant);
        }
        let (neutral, commutes) = match op {
            Binary::Add | Binary::Or | Binary::Xor => (0, true),
            Binary::And => (all, true),
            Binary::Multiply => (1, true),
            Binary::Divide if category != Category::Boolean => (1, false),
            Binary::Subtract
            | Binary::ShiftLeft
            | Binary::ShiftRightLogical
            | Binary::ShiftRightArithmetic => (0, false),
            _ => return None,
        };
        let is_neutral = |s| self.constant(s).is_some_and(|bits| bits & all == neutral);
        match (is_neutral(x), is_neutral(y)) {
            (_, true) => Some(Instead::Same(x)),
            (true, _) if commutes => Some(Instead::Same(y)),
            _ => None,
        }
    }

    /// Simplifies a comparison with zero of a value that is never negative.
    fn compare(
        &self,
        direction: Direction,
        from: ElementType,
        x: ScalarId,
        y: ScalarId,
    ) -> Option<Instead> {
        let is_zero = |s: ScalarId| {
            let format = from.float_format();
            let bits = self.constant(s).and_then(|bits| u64::try_from(bits).ok());
            format
                .zip(bits)
                .is_some_and(|(f, bits)| f.decode(bits) == 0.0)
        };
        let below = match direction {
            Direction::Lt => self.is_never_negative(x) && is_zero(y),
            Direction::Gt => is_zero(x) && self.is_never_negative(y),
            _ => false,
        };
        below.then_some(Instead::Constant(0))
    }

    /// Simplifies a comparison of integers or truth values with itself, and one of a truth value
    /// with a constant.
    fn compare_exact(
        &self,
        direction: Direction,
        from: ElementType,
        [x, y]: [ScalarId; 2],
    ) -> Option<Instead> {
        if x == y {
            let holds = matches!(direction, Direction::Eq | Direction::Le | Direction::Ge);
            return Some(Instead::Constant(holds.into()));
        }
        if from != ElementType::Pred {
            return None;
        }
        let holds = |a: u128, b: u128| {
            apply_compare(direction, Order::Partial, from, a, b).is_some_and(|truth| truth != 0)
        };
        let (open, at) = match (self.constant(x), self.constant(y)) {
            (None, Some(y)) => (x, [0, 1].map(|x| holds(x, y))),
            (Some(x), None) => (y, [0, 1].map(|y| holds(x, y))),
            _ => return None,
        };
        Some(match at {
            [false, true] => Instead::Same(open),
            [true, false] => {
                let operands = SmallVec::from_slice(&[open]);
                Instead::Operation(ScalarOp::Unary(Unary::Not), operands)
            }
            [same, _] => Instead::Constant(same.into()),
        })
    }

    fn select(&self, types: &ScalarTypes, p: ScalarId, [x, y]: [ScalarId; 2]) -> Option<Instead> {
        if x == y {
            return Some(Instead::Same(x));
        }
        if let Some(truth) = self.constant(p) {
            return Some(Instead::Same(if truth & 1 == 1 { x } else { y }));
        }
        if types[x] == ElementType::Pred {
            let of = |op, a, b| {
                let operands = SmallVec::from_slice(&[a, b]);
                Some(Instead::Operation(ScalarOp::Binary(op), operands))
            };
            let truth = |s| self.constant(s).map(|bits| bits & 1 == 1);
            match (truth(x), truth(y)) {
                (Some(true), Some(false)) => return Some(Instead::Same(p)),
                (Some(false), Some(true)) => {
                    let operands = SmallVec::from_slice(&[p]);
                    return Some(Instead::Operation(ScalarOp::Unary(Unary::Not), operands));
                }
                (Some(true), None) => return of(Binary::Or, p, y),
                (None, Some(false)) => return of(Binary::And, p, x),
                _ => {}
            }
        }
        let operands = SmallVec::from_slice(&[self.inside(types, p, Unary::Not)?, y, x]);
        Some(Instead::Operation(ScalarOp::Select, operands))
    }

    /// Simplifies the conversion of a float to a wider type and back.
    fn convert(&self, types: &ScalarTypes, to: ElementType, x: ScalarId) -> Option<Instead> {
        let Some((ScalarOp::Convert, operands)) = &self.made_by[x] else {
            return None;
        };
        let &original = operands.first()?;
        let format = |t: ElementType| t.float_format().filter(|_| has_signs(t));
        let (narrow, wide) = (format(to)?, format(types[x])?);
        let holds = wide.exponent_bits >= narrow.exponent_bits
            && wide.mantissa_bits >= narrow.mantissa_bits;
        (holds && types[original] == to).then_some(Instead::Same(original))
    }
}

/// Whether a type is a float format with both signs, signed zeros and the usual rounding.
fn has_signs(element_type: ElementType) -> bool {
    matches!(
        element_type,
        ElementType::BF16 | ElementType::F16 | ElementType::F32 | ElementType::F64
    )
}

/// Whether a type has integers of whole bytes or truth values: its operations do not round.
fn is_exact(element_type: ElementType) -> bool {
    let integers = matches!(
        element_type.category(),
        Category::Signed | Category::Unsigned
    );
    integers && element_type.bits() >= 8 || element_type == ElementType::Pred
}

/// Dead-code elimination: removes operations and loads whose results nothing uses.
pub(crate) fn remove_unused(kernel: &mut Kernel) {
    let mut used = EntitySet::new();
    for var in &kernel.vars {
        if let IndexVar::Runtime { value, .. } = var {
            used.insert(*value);
        }
    }
    sweep(&mut kernel.body, &mut used);
}

fn sweep(block: &mut Block, used: &mut EntitySet<ScalarId>) {
    used.extend(block.results.iter().copied());
    let mut kept = Vec::with_capacity(block.statements.len());
    while let Some(mut statement) = block.statements.pop() {
        match &mut statement {
            Statement::Compute { result, .. } | Statement::Load { result, .. }
                if !used.contains(*result) =>
            {
                continue;
            }
            Statement::Compute { operands, .. } => used.extend(operands.iter().copied()),
            Statement::Store { value, .. } => {
                used.insert(*value);
            }
            Statement::Load { .. } | Statement::Bind { .. } => {}
            Statement::Loop { init, body, .. } => {
                // All carried scalars are assumed to be used.
                sweep(body, used);
                used.extend(init.iter().copied());
            }
            Statement::If {
                then, otherwise, ..
            } => {
                sweep(then, used);
                sweep(otherwise, used);
            }
        }
        kept.push(statement);
    }
    kept.reverse();
    block.statements = kept;
}
