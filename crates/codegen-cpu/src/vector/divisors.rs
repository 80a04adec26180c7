//! Quotients whose divisor is the same in all lanes.
//!
//! A division keeps its unit for ten cycles and more. With the divisor's reciprocal, computed
//! once, the quotient is a product and two fused multiply-adds, and rounded just as the division
//! would be: `q = x r`, `e = x - q y` exactly, `q + e r` (Markstein, "Computation of elementary
//! functions on the IBM RISC System/6000 processor", 1990; Brisebarre, Muller and Raina,
//! "Accelerating correctly rounded floating-point division when the divisor is known in
//! advance", 2004). That holds where nothing underflows or overflows on the way: lanes whose
//! numbers are beyond fixed bounds, or not numbers, are divided after all, as rare cases. Of
//! zeros the positive one is no such case, as what is masked out is that.

use super::body::{
    BinaryOp, Body, Condition, Conversion, Fused, Op, Rare, Statement, Type, UnaryOp, V,
};
use rustc_hash::FxHashMap;
use smallvec::smallvec;

/// The dividend's magnitude is from `2^-90` to `2^90`, the divisor's from `2^-30` to `2^30`: the
/// remainder is a multiple of `2^(-90 - 46)` at least, quotients are from `2^-120` to `2^120`.
const DIVIDENDS: i32 = 90;
const DIVISORS: i32 = 30;
/// Fewer lanes are not worth the reciprocal.
const MIN_LANES: i64 = 64;

/// The body with such quotients as products; `None` if it has none.
pub(crate) fn by_reciprocals(body: &Body, lanes_at_most: Option<i64>) -> Option<Body> {
    if lanes_at_most.is_some_and(|n| n < MIN_LANES) {
        return None;
    }
    let same = body.invariants();
    let quotients = (0..body.values.len() as u32).filter_map(|v| quotient(body, &same, V(v)));
    let divisors: FxHashMap<V, Option<Divisor>> = quotients.map(|(_, y)| (y, None)).collect();
    if divisors.is_empty() {
        return None;
    }
    let mut rewrite = Rewrite {
        body: body.clone(),
        same,
        divisors,
        out: Vec::new(),
    };
    // Those that belong to no block, in their own order.
    for v in (0..body.values.len() as u32).map(V) {
        let anywhere = matches!(body.op(v), Op::Const(_) | Op::Input(_));
        if anywhere && rewrite.divisors.contains_key(&v) {
            rewrite.prepare(v);
        }
    }
    let mut all = std::mem::take(&mut rewrite.out);
    let statements = std::mem::take(&mut rewrite.body.statements);
    all.extend(rewrite.block(statements));
    rewrite.body.statements = all;
    Some(rewrite.body.renumbered())
}

/// The operands of a quotient in `f32` whose divisor alone is the same in all lanes.
fn quotient(body: &Body, same: &[bool], v: V) -> Option<(V, V)> {
    match body.op(v) {
        Op::Binary(BinaryOp::Div, x, y) if body.type_of(v) == Type::F32 => {
            (same[y.0 as usize] && !same[x.0 as usize]).then_some((x, y))
        }
        _ => None,
    }
}

/// What is known of a divisor.
#[derive(Clone, Copy, Debug)]
struct Divisor {
    reciprocal: V,
    /// Whether it is beyond the bounds.
    unsuited: V,
}

struct Rewrite {
    body: Body,
    same: Vec<bool>,
    /// The divisors, those that were come by with what is known of them.
    divisors: FxHashMap<V, Option<Divisor>>,
    /// The statements of the block in hand.
    out: Vec<Statement>,
}

impl Rewrite {
    fn block(&mut self, statements: Vec<Statement>) -> Vec<Statement> {
        let outer = std::mem::take(&mut self.out);
        for statement in statements {
            match statement {
                Statement::Define(v) => self.definition(v),
                Statement::Loop(mut inner) => {
                    inner.body = self.block(inner.body);
                    self.out.push(Statement::Loop(inner));
                }
                _ => self.out.push(statement),
            }
        }
        std::mem::replace(&mut self.out, outer)
    }

    fn definition(&mut self, v: V) {
        let known = quotient(&self.body, &self.same, v);
        let known = known.and_then(|(x, y)| Some((x, y, (*self.divisors.get(&y)?)?)));
        match known {
            Some((x, y, divisor)) => self.quotient(v, x, y, divisor),
            None => self.out.push(Statement::Define(v)),
        }
        if self.divisors.contains_key(&v) {
            self.prepare(v);
        }
    }

    /// Computes what quotients by a divisor need.
    fn prepare(&mut self, divisor: V) {
        let one = self.constant(1f32.to_bits(), Type::F32);
        let reciprocal = self.define(Op::Binary(BinaryOp::Div, one, divisor), Type::F32);
        let (_, unsuited) = self.beyond(divisor, DIVISORS);
        let known = Divisor {
            reciprocal,
            unsuited,
        };
        self.divisors.insert(divisor, Some(known));
    }

    /// Makes a value the quotient of two others.
    fn quotient(&mut self, v: V, x: V, y: V, divisor: Divisor) {
        let reciprocal = divisor.reciprocal;
        let near = self.define(Op::Binary(BinaryOp::Mul, x, reciprocal), Type::F32);
        let rest = self.define(Op::Fma(Fused::From, near, y, x), Type::F32);
        let common = self.define(Op::Fma(Fused::Sum, rest, reciprocal, near), Type::F32);
        let (bits, beyond) = self.beyond(x, DIVIDENDS);
        let zero = self.constant(0, Type::I32);
        let some = self.define(Op::Compare(Condition::NotEqual, bits, zero), Type::Mask);
        let beyond = self.define(Op::Binary(BinaryOp::And, beyond, some), Type::Mask);
        let mask = self.define(
            Op::Binary(BinaryOp::Or, beyond, divisor.unsuited),
            Type::Mask,
        );
        let divided = self.value(Op::Binary(BinaryOp::Div, x, y), Type::F32);
        let chosen = self.value(Op::Select(mask, divided, common), Type::F32);
        self.body.values[v.0 as usize].0 = Op::Carried;
        self.out.push(Statement::Rare(Rare {
            mask,
            init: smallvec![common],
            next: smallvec![chosen],
            results: smallvec![v],
            body: vec![divided, chosen],
        }));
    }

    /// The bits of a number, and whether its magnitude is less than `2^-bound` or more than
    /// `2^bound`, or it is none.
    fn beyond(&mut self, x: V, bound: i32) -> (V, V) {
        let twice = |exponent: i32| 2f32.powi(exponent).to_bits() << 1;
        let bits = self.define(Op::Convert(Conversion::Bits, x), Type::I32);
        let size = self.define(Op::Binary(BinaryOp::Add, bits, bits), Type::I32);
        let least = self.constant(twice(-bound), Type::I32);
        let above = self.define(Op::Binary(BinaryOp::Sub, size, least), Type::I32);
        let most = self.constant(twice(bound) - twice(-bound), Type::I32);
        let within = Op::Compare(Condition::LessEqualUnsigned, above, most);
        let within = self.define(within, Type::Mask);
        (
            bits,
            self.define(Op::Unary(UnaryOp::Not, within), Type::Mask),
        )
    }

    fn constant(&mut self, bits: u32, ty: Type) -> V {
        self.value(Op::Const(bits.into()), ty)
    }

    fn define(&mut self, op: Op, ty: Type) -> V {
        let v = self.value(op, ty);
        self.out.push(Statement::Define(v));
        v
    }

    fn value(&mut self, op: Op, ty: Type) -> V {
        self.body.values.push((op, ty));
        V(self.body.values.len() as u32 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector::body::{Access, Input, Storage};
    use crate::vector::builder::Builder;
    use crate::vector::evaluate::{Machine, evaluate};
    use crate::vector::run::Compiled;

    /// What it loads, by a number that is given.
    fn division() -> Body {
        let mut b = Builder::new();
        let [from, to] = [(); 2].map(|()| {
            let pointer = b.input(Input::Integer);
            b.access(Access {
                pointer,
                storage: Storage {
                    bytes: 4,
                    signed: false,
                },
                splat: false,
            })
        });
        let divisor = b.input(Input::Number(Type::F32));
        let x = b.load(from, Type::F32, None);
        let y = b.splat(divisor, Type::F32);
        let quotient = b.div(x, y);
        b.store(to, quotient, None, None);
        b.finish()
    }

    fn mixed(i: u64) -> u32 {
        (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 29) as u32
    }

    /// Divisors of all kinds; mantissas near both ends, where reciprocals are worst.
    fn divisors() -> Vec<f32> {
        let mut divisors = vec![0.0, -0.0, f32::NAN, f32::INFINITY, 1e-45, 1e-38, 3e38];
        for exponent in [-126, -31, -30, -3, 0, 1, 29, 30, 31] {
            for mantissa in [0, 1, 2, 0x2a_aaaa, 0x55_5555, 0x7f_fffe, 0x7f_ffff] {
                let bits = ((exponent + 127) as u32) << 23 | mantissa;
                divisors.extend([f32::from_bits(bits), -f32::from_bits(bits)]);
            }
        }
        divisors.extend((0..40).map(|i| f32::from_bits(mixed(i))));
        divisors.extend((0..40).map(|i| f32::from_bits(mixed(i) & 0x7f_ffff | 0x3f80_0000)));
        divisors
    }

    fn dividends() -> Vec<f32> {
        let mut dividends = vec![0.0, -0.0, f32::NAN, f32::INFINITY, f32::MAX, 1e-45];
        for exponent in [-126, -91, -90, -89, 0, 89, 90, 91, 127] {
            let bits = ((exponent + 127) as u32) << 23;
            dividends.extend([0, 1, 0x7f_ffff].map(|m| -f32::from_bits(bits | m)));
        }
        dividends.extend((0..2000).map(|i| f32::from_bits(mixed(i + 99))));
        // Of one binade: each mantissa has its own remainder.
        let of = |i: u64| f32::from_bits(mixed(i) & 0x7f_ffff | 0x3f80_0000);
        dividends.extend((0..8000).map(of));
        dividends
    }

    #[test]
    fn quotients_are_rounded_as_by_division() {
        let body = division();
        let multiplied = by_reciprocals(&body, None).expect("a divisor that all lanes share");
        let is_division = |v: &&(Op, Type)| matches!(v.0, Op::Binary(BinaryOp::Div, ..));
        assert_eq!(multiplied.values.iter().filter(is_division).count(), 2);
        let x = dividends();
        let compiled = Compiled::all(&body);
        for y in divisors() {
            let bits = |q: f32| if q.is_nan() { 0x7fc0_0000 } else { q.to_bits() };
            let want: Vec<u32> = x.iter().map(|x| bits(x / y)).collect();
            let check = |name: &str, run: &dyn Fn(&[u64])| {
                let mut out = vec![0f32; x.len()];
                let (from, to) = (x.as_ptr() as u64, out.as_mut_ptr() as u64);
                run(&[from, to, y.to_bits().into()]);
                for ((x, got), want) in x.iter().zip(out).zip(&want) {
                    assert_eq!(bits(got), *want, "{name}: {x:e} / {y:e}");
                }
            };
            let fused = Machine { fused: true };
            check("the evaluator", &|args| {
                // SAFETY: both arrays have as many elements as there are lanes.
                drop(unsafe { evaluate(&multiplied, args, x.len() as u64, fused) });
            });
            for compiled in &compiled {
                let run = |args: &[u64]| {
                    // SAFETY: as above.
                    drop(unsafe { compiled.run(args, x.len() as u64) });
                };
                check(compiled.name, &run);
            }
        }
    }

    #[test]
    fn few_lanes_are_divided() {
        assert!(by_reciprocals(&division(), Some(MIN_LANES - 1)).is_none());
    }
}
