//! Merges polynomials of which each lane needs only one.
//!
//! Piecewise functions compute a polynomial for each piece and select between the results by lane.
//! If no lane needs both of two polynomials, this pass replaces them by one, whose coefficients and
//! argument are selected by lane: a select costs half of a multiplication and uses units of the CPU
//! that are otherwise idle. In the lanes that need a result it is the same to the bit.
//!
//! The condition under which a value is needed is a set of *literals* (masks, and whether they
//! hold) that are true in all lanes that use it. Selects that these literals decide are removed.

use super::builder::drop_dead;
use super::ir::{BinaryOp, Body, Condition, Conversion, Op, Statement, Type, UnaryOp, V};
use crate::origin::Origin;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// Masks, and whether each holds.
type Literals = SmallVec<[(V, bool); 4]>;

/// The minimum number of multiply-adds that two merged polynomials share.
const FEWEST: usize = 4;

/// The body with such polynomials merged; `None` if it has none.
pub(crate) fn shared(body: &Body) -> Option<Body> {
    let is = |wanted: fn(&Op) -> bool| body.values.iter().filter(move |v| wanted(&v.0)).count();
    if is(|op| matches!(op, Op::Select(..))) == 0 || is(|op| matches!(op, Op::Fma(..))) < 2 * FEWEST
    {
        return None;
    }
    let mut body = body.clone();
    let mut changed = false;
    loop {
        let uses = Uses::of(&body);
        let decided = decided(&body, &uses);
        if !decided.is_empty() {
            body.map_uses(|v| {
                let mut v = v;
                while let Some(&instead) = decided.get(&v) {
                    v = instead;
                }
                v
            });
        } else if let Some(pair) = best_pair(&body, &uses) {
            merge(&mut body, &uses, &pair);
        } else {
            break;
        }
        remove_unused(&mut body);
        changed = true;
    }
    changed.then(|| body.renumbered())
}

fn index(v: V) -> usize {
    v.0 as usize
}

fn remove_unused(body: &mut Body) {
    let mut statements = std::mem::take(&mut body.statements);
    let mut live = vec![false; body.values.len()];
    for r in &body.reductions {
        live[index(r.value)] = true;
    }
    drop_dead(body, &mut statements, &mut live);
    body.statements = statements;
}

/// The uses of values.
struct Uses {
    /// The defined values, in program order.
    defined: Vec<V>,
    /// For each value, the number of the sequence of definitions (without other statements in
    /// between) that contains it.
    stretch: Vec<Option<u32>>,
    /// The number of uses of each value.
    count: Vec<u32>,
    /// The literals that hold in all lanes that need the value.
    needed: Vec<Option<Literals>>,
}

impl Uses {
    fn of(body: &Body) -> Self {
        let size = body.values.len();
        let mut uses = Self {
            defined: Vec::new(),
            stretch: vec![None; size],
            count: vec![0; size],
            needed: vec![None; size],
        };
        for r in &body.reductions {
            uses.always(r.value);
        }
        uses.walk(body, &body.statements, &mut 0);
        for i in (0..uses.defined.len()).rev() {
            let v = uses.defined[i];
            let here = uses.needed[index(v)].clone().unwrap_or_default();
            uses.of_operands(body, body.op(v), &here);
        }
        uses
    }

    /// Finds definitions, and the values that other statements use.
    fn walk(&mut self, body: &Body, statements: &[Statement], stretch: &mut u32) {
        for statement in statements {
            if let Statement::Define(v) = statement {
                self.defined.push(*v);
                self.stretch[index(*v)] = Some(*stretch);
                continue;
            }
            *stretch += 1;
            statement.operands(&mut |v| self.always(v));
            match statement {
                Statement::Loop(inner) => {
                    self.walk(body, &inner.body, stretch);
                    *stretch += 1;
                }
                Statement::Rare(rare) => {
                    for v in &rare.body {
                        body.op(*v).operands().iter().for_each(|v| self.always(*v));
                    }
                }
                _ => {}
            }
        }
    }

    fn of_operands(&mut self, body: &Body, op: Op, here: &Literals) {
        match op {
            Op::Select(mask, yes, no) => {
                self.add(body, mask, here);
                for (v, holds) in [(yes, true), (no, false)] {
                    let mut literals = here.clone();
                    if decides(body, here, mask).is_none() {
                        literals.push((mask, holds));
                    }
                    self.add(body, v, &literals);
                }
            }
            // Memory accesses need their masks and indices in every lane.
            Op::Load { .. } | Op::LoadHalf { .. } | Op::Gather { .. } => {
                op.operands().iter().for_each(|v| self.always(*v));
            }
            _ => {
                for v in op.operands() {
                    self.add(body, v, here);
                }
            }
        }
    }

    fn always(&mut self, v: V) {
        self.count[index(v)] += 1;
        self.needed[index(v)] = Some(Literals::new());
    }

    /// Adds a use: only literals that follow from both conditions are kept.
    fn add(&mut self, body: &Body, v: V, literals: &Literals) {
        self.count[index(v)] += 1;
        let needed = &mut self.needed[index(v)];
        *needed = Some(match needed.take() {
            None => literals.clone(),
            Some(known) => {
                let holds_in = |set: &Literals, (mask, holds): (V, bool)| {
                    decides(body, set, mask) == Some(holds)
                };
                let mut both: Literals = known
                    .iter()
                    .copied()
                    .filter(|&l| holds_in(literals, l))
                    .collect();
                let more = literals.iter().copied().filter(|&l| holds_in(&known, l));
                both.extend(more);
                both.sort_unstable();
                both.dedup();
                both
            }
        });
    }

    fn literals(&self, v: V) -> &[(V, bool)] {
        self.needed[index(v)].as_deref().unwrap_or_default()
    }
}

/// Whether a mask holds if these literals do; `None` if they do not decide it.
fn decides(body: &Body, literals: &[(V, bool)], mask: V) -> Option<bool> {
    let bound = |mask: V| match body.op(mask) {
        Op::Compare(Condition::Less, x, limit) if body.type_of(x) == Type::F32 => {
            match body.op(limit) {
                Op::Const(bits) => Some((x, f32::from_bits(bits as u32))),
                _ => None,
            }
        }
        _ => None,
    };
    let asked = bound(mask);
    literals.iter().find_map(|&(known, holds)| {
        if known == mask {
            return Some(holds);
        }
        let ((x, limit), (y, other)) = (asked?, bound(known)?);
        let follows = x == y
            && if holds {
                other <= limit
            } else {
                limit <= other
            };
        follows.then_some(holds)
    })
}

/// The selects that are decided, each with its result.
fn decided(body: &Body, uses: &Uses) -> FxHashMap<V, V> {
    let mut decided = FxHashMap::default();
    for &v in &uses.defined {
        let Op::Select(mask, yes, no) = body.op(v) else {
            continue;
        };
        let holds = match yes == no || never_holds(body, mask) {
            true => Some(false),
            false => decides(body, uses.literals(v), mask),
        };
        if let Some(holds) = holds {
            decided.insert(v, if holds { yes } else { no });
        }
    }
    decided
}

/// Whether a mask tests for a magnitude below zero.
fn never_holds(body: &Body, mask: V) -> bool {
    let Op::Compare(Condition::Less, x, limit) = body.op(mask) else {
        return false;
    };
    let (Op::Convert(Conversion::Bits, bits), Op::Const(limit)) = (body.op(x), body.op(limit))
    else {
        return false;
    };
    let Op::Binary(BinaryOp::And, _, cleared) = body.op(bits) else {
        return false;
    };
    let is_magnitude = body.op(cleared) == Op::Const(u64::from(i32::MAX.cast_unsigned()));
    is_magnitude && body.type_of(x) == Type::F32 && f32::from_bits(limit as u32) <= 0.0
}

/// Two polynomials, one needed where a mask holds, the other where it does not.
struct Pair {
    mask: V,
    yes: V,
    no: V,
    gain: Gain,
}

/// The savings and costs of merging.
#[derive(Clone, Default)]
struct Gain {
    products: usize,
    /// The values that have to be selected.
    choices: Vec<(V, V)>,
}

impl Gain {
    fn of(body: &Body, uses: &Uses, yes: V, no: V) -> Self {
        let mut gain = Self::default();
        gain.add(body, uses, yes, no);
        gain
    }

    fn add(&mut self, body: &Body, uses: &Uses, yes: V, no: V) {
        let Some((yes, no)) = steps(body, yes, no) else {
            return;
        };
        self.products += 1;
        for (yes, no) in yes.into_iter().zip(no) {
            if is_further(body, uses, yes, no) {
                self.add(body, uses, yes, no);
            } else if yes != no && !self.choices.contains(&(yes, no)) {
                self.choices.push((yes, no));
            }
        }
    }

    /// The gain in units of half a multiplication.
    fn total(&self) -> isize {
        2 * self.products as isize - self.choices.len() as isize
    }
}

/// The operands of two multiply-adds of one kind, in corresponding order: the polynomial so far,
/// the argument, and the addend.
fn steps(body: &Body, yes: V, no: V) -> Option<([V; 3], [V; 3])> {
    let (Op::Fma(kind, a, b, c), Op::Fma(other, d, e, f)) = (body.op(yes), body.op(no)) else {
        return None;
    };
    if kind != other || body.type_of(yes) != body.type_of(no) {
        return None;
    }
    let is_link = |v: V| matches!(body.op(v), Op::Fma(..) | Op::Const(_));
    let order = |x: V, y: V, z: V| match !is_link(x) && is_link(y) {
        true => [y, x, z],
        false => [x, y, z],
    };
    Some((order(a, b, c), order(d, e, f)))
}

/// Whether two operands are further steps of the polynomials that nothing else uses.
fn is_further(body: &Body, uses: &Uses, yes: V, no: V) -> bool {
    let alone = |v: V| uses.count[index(v)] == 1;
    yes != no
        && alone(yes)
        && alone(no)
        && steps(body, yes, no).is_some()
        && uses.stretch[index(yes)] == uses.stretch[index(no)]
}

/// The two polynomials with the largest gain.
fn best_pair(body: &Body, uses: &Uses) -> Option<Pair> {
    let heads = heads(body, uses);
    let mut best: Option<Pair> = None;
    for &yes in &heads {
        for &(mask, holds) in uses.literals(yes) {
            if !holds {
                continue;
            }
            for &no in &heads {
                if !uses.literals(no).contains(&(mask, false)) {
                    continue;
                }
                let gain = Gain::of(body, uses, yes, no);
                let more = best.as_ref().map_or(0, |b| b.gain.total());
                let pays = gain.products >= FEWEST && gain.total() > more;
                if pays && can_be_one(body, uses, [mask, yes, no]) {
                    best = Some(Pair {
                        mask,
                        yes,
                        no,
                        gain,
                    });
                }
            }
        }
    }
    best
}

/// The last steps of polynomials.
fn heads(body: &Body, uses: &Uses) -> Vec<V> {
    let is_product = |v: &V| matches!(body.op(*v), Op::Fma(..));
    let mut inner = vec![false; body.values.len()];
    for &v in uses.defined.iter().filter(|v| is_product(v)) {
        if let Op::Fma(_, a, b, _) = body.op(v) {
            for factor in [a, b] {
                inner[index(factor)] |= uses.count[index(factor)] == 1;
            }
        }
    }
    let all = uses.defined.iter().copied();
    all.filter(|v| is_product(v) && !inner[index(*v)]).collect()
}

/// Whether all three values are defined in one sequence of definitions, and none depends on
/// another.
fn can_be_one(body: &Body, uses: &Uses, three: [V; 3]) -> bool {
    let stretch = |v: V| uses.stretch[index(v)];
    let [mask, yes, no] = three;
    let near = stretch(yes).is_some() && three.iter().all(|&v| stretch(v) == stretch(yes));
    let reaches = |from: V, to: &[V]| {
        let mut seen = vec![false; body.values.len()];
        let mut open = vec![from];
        while let Some(v) = open.pop() {
            if to.contains(&v) {
                return true;
            }
            if !std::mem::replace(&mut seen[index(v)], true) {
                open.extend(body.op(v).operands());
            }
        }
        false
    };
    near && !reaches(mask, &[yes, no]) && !reaches(yes, &[no]) && !reaches(no, &[yes])
}

/// Merges two polynomials, at the position of the first use.
fn merge(body: &mut Body, uses: &Uses, pair: &Pair) {
    let mut merged = Merged {
        uses,
        mask: pair.mask,
        inverse: None,
        choices: FxHashMap::default(),
        new: Vec::new(),
        origin: body.origins.value(pair.yes),
    };
    let one = merged.step(body, pair.yes, pair.no);
    let new = merged.new;
    body.map_uses(|v| {
        if v == pair.yes || v == pair.no {
            one
        } else {
            v
        }
    });
    let mut place = Place {
        new,
        left: FxHashSet::default(),
    };
    let mut statements = std::mem::take(&mut body.statements);
    place.find(body, &mut statements, pair.yes);
    body.statements = statements;
}

/// Inserts new definitions before their first use.
struct Place {
    new: Vec<V>,
    /// Definitions that have not been inserted yet.
    left: FxHashSet<V>,
}

impl Place {
    /// Finds the block that defines a value.
    fn find(&mut self, body: &Body, statements: &mut Vec<Statement>, beside: V) {
        if !statements.contains(&Statement::Define(beside)) {
            for statement in statements {
                if let Statement::Loop(inner) = statement {
                    self.find(body, &mut inner.body, beside);
                }
            }
            return;
        }
        self.left.extend(self.new.iter().copied());
        for statement in &*statements {
            if let Statement::Define(v) = statement {
                self.left.insert(*v);
            }
        }
        let mut ordered = Vec::with_capacity(statements.len() + self.new.len());
        for statement in statements.drain(..) {
            if let Statement::Define(v) = statement {
                self.write(body, v, &mut ordered);
            } else {
                statement.for_each_use(body, &mut |v| self.write(body, v, &mut ordered));
                ordered.push(statement);
            }
        }
        // Definitions that only the end of the block uses.
        for v in std::mem::take(&mut self.new) {
            self.write(body, v, &mut ordered);
        }
        *statements = ordered;
    }

    /// Inserts a definition after those of its operands, unless it has been inserted.
    fn write(&mut self, body: &Body, v: V, ordered: &mut Vec<Statement>) {
        if self.left.remove(&v) {
            for operand in body.op(v).operands() {
                self.write(body, operand, ordered);
            }
            ordered.push(Statement::Define(v));
        }
    }
}

struct Merged<'a> {
    uses: &'a Uses,
    mask: V,
    inverse: Option<V>,
    choices: FxHashMap<(V, V), V>,
    new: Vec<V>,
    origin: Origin,
}

impl Merged<'_> {
    fn define(&mut self, body: &mut Body, op: Op, ty: Type) -> V {
        let v = V(body.values.len() as u32);
        body.values.push((op, ty));
        body.origins.values.push(self.origin);
        self.new.push(v);
        v
    }

    fn step(&mut self, body: &mut Body, yes: V, no: V) -> V {
        let (Some((a, b)), Op::Fma(kind, ..)) = (steps(body, yes, no), body.op(yes)) else {
            return self.choice(body, yes, no);
        };
        let mut operands = [yes; 3];
        for (operand, (yes, no)) in operands.iter_mut().zip(a.into_iter().zip(b)) {
            *operand = if yes == no {
                yes
            } else if is_further(body, self.uses, yes, no) {
                self.step(body, yes, no)
            } else {
                self.choice(body, yes, no)
            };
        }
        let [so_far, argument, addend] = operands;
        let op = Op::Fma(kind, so_far, argument, addend);
        self.define(body, op, body.type_of(yes))
    }

    /// The constant is the value selected where the mask holds, because that one may be a memory
    /// operand.
    fn choice(&mut self, body: &mut Body, yes: V, no: V) -> V {
        if let Some(&known) = self.choices.get(&(yes, no)) {
            return known;
        }
        let is_constant = |v: V| matches!(body.op(v), Op::Const(_));
        let op = if is_constant(no) && !is_constant(yes) {
            let inverse = match self.inverse {
                Some(known) => known,
                None => self.define(body, Op::Unary(UnaryOp::Not, self.mask), Type::Mask),
            };
            self.inverse = Some(inverse);
            Op::Select(inverse, no, yes)
        } else {
            Op::Select(self.mask, yes, no)
        };
        let made = self.define(body, op, body.type_of(yes));
        self.choices.insert((yes, no), made);
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::builder::Builder;
    use crate::simd::interpreter::{Machine, evaluate};
    use crate::simd::test_harness::Compiled;
    use crate::simd::tests::pointer;
    fn polynomial(b: &mut Builder, x: V, coefficients: std::ops::Range<i32>) -> V {
        let c = |b: &mut Builder, i: i32| b.f32(1.0 / (i as f32 - 30.5));
        let mut sum = c(b, coefficients.start);
        for i in coefficients.skip(1) {
            let c = c(b, i);
            sum = b.fma(sum, x, c);
        }
        sum
    }

    /// A body that applies a function to loaded values and stores the results.
    fn body(f: impl Fn(&mut Builder, V) -> V) -> Body {
        let mut b = Builder::new();
        let [from, to] = [(); 2].map(|()| pointer(&mut b, 4));
        let x = b.load(from, Type::F32, None);
        let y = f(&mut b, x);
        b.store(to, y, None, None);
        b.finish()
    }

    fn products(body: &Body) -> usize {
        let is_product = |v: &&(Op, Type)| matches!(v.0, Op::Fma(..));
        body.values.iter().filter(is_product).count()
    }

    fn numbers() -> Vec<f32> {
        let mut numbers = vec![0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-45];
        numbers.extend((-70..70).map(|i| i as f32 / 16.0));
        numbers.extend((-20..20).map(|i| 10f32.powi(i)));
        numbers
    }

    /// Checks that results are equal to the bit, by the interpreter and by the lowering that uses
    /// the pass.
    fn check(body: &Body, shared: &Body) {
        let x = numbers();
        let run = |run: &dyn Fn(&[u64])| {
            let mut out = vec![0f32; x.len()];
            run(&[x.as_ptr() as u64, out.as_mut_ptr() as u64]);
            let bits = |y: f32| if y.is_nan() { 0x7fc0_0000 } else { y.to_bits() };
            out.into_iter().map(bits).collect::<Vec<u32>>()
        };
        let n = x.len() as u64;
        let fused = Machine { fused: true };
        // SAFETY: both arrays have as many elements as there are lanes.
        let want = run(&|args| drop(unsafe { evaluate(body, args, n, fused) }));
        // SAFETY: both arrays have as many elements as there are lanes.
        let got = run(&|args| drop(unsafe { evaluate(shared, args, n, fused) }));
        assert_eq!(got, want);
        for compiled in Compiled::all(body) {
            if compiled.name == "the AVX-512 lowering" {
                // SAFETY: both arrays have as many elements as there are lanes.
                let got = run(&|args| drop(unsafe { compiled.run(args, n) }));
                assert_eq!(got, want);
            }
        }
    }

    #[test]
    fn three_pieces_are_one_polynomial() {
        let body = body(|b, x| {
            let (one, two) = (b.f32(1.0), b.f32(2.0));
            let square = b.mul(x, x);
            let inverse = b.div(one, square);
            let near = b.compare(Condition::Less, square, one);
            let middle = b.compare(Condition::Less, square, two);
            let low = polynomial(b, square, 0..7);
            let low = b.mul(low, x);
            let high = polynomial(b, inverse, 7..16);
            let higher = polynomial(b, inverse, 16..24);
            let far = b.select(middle, high, higher);
            let far = b.sub(one, far);
            b.select(near, low, far)
        });
        assert_eq!(products(&body), 6 + 8 + 7);
        let shared = shared(&body).expect("polynomials of which one is needed");
        assert_eq!(products(&shared), 8);
        check(&body, &shared);
    }

    /// A number below one half is below one.
    #[test]
    fn choices_that_others_decide_are_left_out() {
        let body = body(|b, x| {
            let (half, one) = (b.f32(0.5), b.f32(1.0));
            let near = b.compare(Condition::Less, x, one);
            let nearer = b.compare(Condition::Less, x, half);
            let pieces = [0..6, 6..15].map(|c| polynomial(b, x, c));
            let chosen = b.select(near, pieces[0], pieces[1]);
            let other = polynomial(b, x, 15..23);
            b.select(nearer, chosen, other)
        });
        let shared = shared(&body).expect("a choice that is decided");
        assert_eq!(products(&shared), 7);
        let choices = |body: &Body| {
            let is_choice = |v: &&(Op, Type)| matches!(v.0, Op::Select(..));
            body.values.iter().filter(is_choice).count()
        };
        // Five coefficients, and the start of the shorter polynomial.
        assert_eq!(choices(&shared), 6);
        check(&body, &shared);
    }

    #[test]
    fn no_magnitude_is_below_zero() {
        let body = body(|b, x| {
            let (zero, half) = (b.f32(0.0), b.f32(0.5));
            let magnitude = crate::simd::mathlib::abs(b, x);
            let never = b.compare(Condition::Less, magnitude, zero);
            let near = b.compare(Condition::Less, magnitude, half);
            let pieces = [0..6, 6..15].map(|c| polynomial(b, x, c));
            let less = b.sub(half, pieces[0]);
            let first = b.select(never, less, pieces[0]);
            b.select(near, first, pieces[1])
        });
        let shared = shared(&body).expect("two pieces");
        let is_less = |op: &Op| matches!(op, Op::Binary(BinaryOp::Sub, ..));
        assert!(!shared.values.iter().any(|(op, _)| is_less(op)));
        check(&body, &shared);
    }

    #[test]
    fn polynomials_that_a_lane_needs_both_of_stay() {
        let body = body(|b, x| {
            let zero = b.f32(0.0);
            let negative = b.compare(Condition::Less, x, zero);
            let pieces = [0..6, 6..15].map(|c| polynomial(b, x, c));
            let chosen = b.select(negative, pieces[0], pieces[1]);
            b.mul(chosen, pieces[1])
        });
        assert!(shared(&body).is_none());
    }
}
