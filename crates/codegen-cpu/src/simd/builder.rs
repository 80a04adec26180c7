//! Builds SIMD bodies, with one method for each operation; equal values are made only once.

use super::ir::{
    Access, Again, BinaryOp, Body, Condition, Conversion, Fused, Input, Loop, Op, Rare, Statement,
    Type, UnaryOp, V,
};
use crate::origin::Origin;
use rustc_hash::FxHashMap;

/// A body under construction.
#[derive(Default)]
pub(crate) struct Builder {
    body: Body,
    /// Statements of the open blocks, outermost first.
    blocks: Vec<Vec<Statement>>,
    /// Known values that do not come from memory, by the block that defines them.
    known: Vec<FxHashMap<Key, V>>,
    /// Arguments of sines and their reductions, in `f32` or `f64`, by the block that computes them.
    reduced: Vec<FxHashMap<(V, Type), [V; 2]>>,
    /// The statement that is being translated.
    origin: Origin,
}

/// The key of a value for value numbering.
type Key = (std::mem::Discriminant<Op>, u64, [u32; 3], Type);

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            body: Body::default(),
            blocks: vec![Vec::new()],
            known: vec![FxHashMap::default()],
            reduced: vec![FxHashMap::default()],
            origin: Origin::None,
        }
    }

    /// Sets the statement that is being translated; returns the previous one.
    pub(crate) fn set_origin(&mut self, origin: Origin) -> Origin {
        std::mem::replace(&mut self.origin, origin)
    }

    /// The body, with the statements of the outermost block.
    pub(crate) fn finish(mut self) -> Body {
        let mut statements = self.blocks.pop().unwrap_or_default();
        let mut live = vec![false; self.body.values.len()];
        for r in &self.body.reductions {
            live[r.value.0 as usize] = true;
        }
        drop_dead(&self.body, &mut statements, &mut live);
        self.body.statements = statements;
        self.body
    }

    /// The body so far, without its statements.
    pub(crate) fn body(&mut self) -> &mut Body {
        &mut self.body
    }

    pub(crate) fn type_of(&self, v: V) -> Type {
        self.body.type_of(v)
    }

    fn push(&mut self, op: Op, ty: Type) -> V {
        let v = V(self.body.values.len() as u32);
        self.body.values.push((op, ty));
        self.body.origins.values.push(self.origin);
        v
    }

    /// Constants and inputs belong to no block: a lowering places them where it likes. Every other
    /// value is defined where it is first requested.
    fn define(&mut self, op: Op, ty: Type) -> V {
        let key = key(&op, ty);
        if let Some(key) = &key
            && let Some(&v) = self.known.iter().rev().find_map(|k| k.get(key))
        {
            return v;
        }
        let v = self.push(op, ty);
        let anywhere = matches!(op, Op::Const(_) | Op::Input(_));
        if !anywhere && let Some(block) = self.blocks.last_mut() {
            block.push(Statement::Define(v));
        }
        let known = if anywhere {
            self.known.first_mut()
        } else {
            self.known.last_mut()
        };
        if let (Some(key), Some(known)) = (key, known) {
            known.insert(key, v);
        }
        v
    }

    // ---- inputs, memory, control ------------------------------------------

    /// A new input.
    pub(crate) fn input(&mut self, input: Input) -> u32 {
        self.body.inputs.push(input);
        self.body.inputs.len() as u32 - 1
    }

    /// Broadcasts an input to every lane.
    pub(crate) fn splat(&mut self, input: u32, ty: Type) -> V {
        self.define(Op::Input(input), ty)
    }

    /// A new memory access.
    pub(crate) fn access(&mut self, access: Access) -> u32 {
        self.body.accesses.push(access);
        self.body.accesses.len() as u32 - 1
    }

    pub(crate) fn load(&mut self, access: u32, ty: Type, mask: Option<V>) -> V {
        self.define(Op::Load { access, mask }, ty)
    }

    /// Loads one half of an element of 8 or 16 bytes.
    pub(crate) fn load_half(&mut self, access: u32, high: bool, mask: Option<V>) -> V {
        let ty = match self.body.accesses[access as usize].storage.bytes {
            16 => Type::F64,
            _ => Type::F32,
        };
        self.define(Op::LoadHalf { access, high, mask }, ty)
    }

    pub(crate) fn gather(&mut self, access: u32, ty: Type, index: V, mask: Option<V>) -> V {
        self.define(
            Op::Gather {
                access,
                index,
                mask,
            },
            ty,
        )
    }

    pub(crate) fn store(&mut self, access: u32, value: V, index: Option<V>, mask: Option<V>) {
        self.body.origins.stores.insert(access, self.origin);
        if let Some(block) = self.blocks.last_mut() {
            block.push(Statement::Store {
                access,
                value,
                index,
                mask,
            });
        }
    }

    /// Stores an element of 8 or 16 bytes from two halves.
    pub(crate) fn store_pair(&mut self, access: u32, halves: [V; 2], mask: Option<V>) {
        self.body.origins.stores.insert(access, self.origin);
        if let Some(block) = self.blocks.last_mut() {
            block.push(Statement::StorePair {
                access,
                halves,
                mask,
            });
        }
    }

    fn open(&mut self) {
        self.blocks.push(Vec::new());
        self.known.push(FxHashMap::default());
        self.reduced.push(FxHashMap::default());
    }

    fn close(&mut self) -> Vec<Statement> {
        self.known.pop();
        self.reduced.pop();
        self.blocks.pop().unwrap_or_default()
    }

    /// A rare case: gives `common`, except in lanes where `mask` holds, which get the values that
    /// `rarely` makes, with the same number and types. It may only load by gathers that are valid
    /// in every lane.
    pub(crate) fn rare<const N: usize>(
        &mut self,
        mask: V,
        common: [V; N],
        rarely: impl FnOnce(&mut Self) -> [V; N],
    ) -> [V; N] {
        self.open();
        let values = rarely(self);
        let next = self.where_asked(mask, values, common);
        self.close_rare(mask, common, next, None)
    }

    /// A repeated rare case: starts from `common` and applies `step` until `asks` holds in no lane;
    /// only lanes in which it holds take a step. It loads nothing.
    pub(crate) fn rare_while<const N: usize>(
        &mut self,
        common: [V; N],
        asks: impl Fn(&mut Self, [V; N]) -> V,
        step: impl FnOnce(&mut Self, [V; N]) -> [V; N],
    ) -> [V; N] {
        let mask = asks(self, common);
        let carried = common.map(|v| self.push(Op::Carried, self.type_of(v)));
        self.open();
        let taking = asks(self, carried);
        let values = step(self, carried);
        let next = self.where_asked(taking, values, carried);
        let again = Again {
            carried: carried.as_slice().into(),
            mask: asks(self, next),
        };
        self.close_rare(mask, common, next, Some(again))
    }

    fn where_asked<const N: usize>(&mut self, mask: V, yes: [V; N], no: [V; N]) -> [V; N] {
        let mut next = no;
        for (next, value) in next.iter_mut().zip(yes) {
            *next = self.select(mask, value, *next);
        }
        next
    }

    fn close_rare<const N: usize>(
        &mut self,
        mask: V,
        common: [V; N],
        next: [V; N],
        again: Option<Again>,
    ) -> [V; N] {
        let body = self.close();
        let define = |statement| match statement {
            Statement::Define(v) => Some(v),
            _ => None,
        };
        let results = common.map(|v| self.push(Op::Carried, self.type_of(v)));
        if let Some(block) = self.blocks.last_mut() {
            block.push(Statement::Rare(Rare {
                mask,
                init: common.as_slice().into(),
                next: next.as_slice().into(),
                again,
                results: results.as_slice().into(),
                body: body.into_iter().filter_map(define).collect(),
            }));
        }
        results
    }

    /// The reduction of an argument by `reduce` in numbers of a type, computed once for a block and
    /// those inside it.
    pub(crate) fn reduced(
        &mut self,
        x: V,
        ty: Type,
        reduce: impl FnOnce(&mut Self, V) -> [V; 2],
    ) -> [V; 2] {
        let key = (x, ty);
        if let Some(known) = self.reduced.iter().find_map(|known| known.get(&key)) {
            return *known;
        }
        let values = reduce(self, x);
        if let Some(known) = self.reduced.last_mut() {
            known.insert(key, values);
        }
        values
    }

    /// Opens a loop's body; returns the carried values inside it.
    pub(crate) fn open_loop(&mut self, init: &[V]) -> Vec<V> {
        self.open();
        init.iter()
            .map(|&v| self.push(Op::Carried, self.type_of(v)))
            .collect()
    }

    /// Closes the innermost loop; returns the values that it carries out.
    pub(crate) fn close_loop(
        &mut self,
        trips: u32,
        init: &[V],
        carried: &[V],
        next: &[V],
        steps: Vec<(u32, u32)>,
    ) -> Vec<V> {
        let body = self.close();
        let results: Vec<V> = carried
            .iter()
            .map(|&v| self.push(Op::Carried, self.type_of(v)))
            .collect();
        if let Some(block) = self.blocks.last_mut() {
            block.push(Statement::Loop(Loop {
                trips,
                init: init.into(),
                carried: carried.into(),
                next: next.into(),
                results: results.as_slice().into(),
                body,
                steps,
            }));
        }
        results
    }

    /// The lane's number.
    pub(crate) fn lane(&mut self) -> V {
        self.define(Op::Lane, Type::I32)
    }

    /// The counter of an enclosing loop; the body's outermost is 0.
    pub(crate) fn counter(&mut self, depth: u32) -> V {
        self.define(Op::Counter(depth), Type::I32)
    }

    // ---- constants ------------------------------------------------------------

    pub(crate) fn constant(&mut self, ty: Type, bits: u64) -> V {
        self.define(Op::Const(bits), ty)
    }

    /// The bits of a value that is a constant.
    pub(crate) fn constant_of(&self, v: V) -> Option<u64> {
        match self.body.values.get(v.0 as usize)?.0 {
            Op::Const(bits) => Some(bits),
            _ => None,
        }
    }

    pub(crate) fn f32(&mut self, x: f32) -> V {
        self.constant(Type::F32, u64::from(x.to_bits()))
    }

    pub(crate) fn f64(&mut self, x: f64) -> V {
        self.constant(Type::F64, x.to_bits())
    }

    /// A float constant of the same type as a value.
    pub(crate) fn float_like(&mut self, like: V, x: f64) -> V {
        match self.type_of(like).is_wide() {
            true => self.f64(x),
            false => self.f32(x as f32),
        }
    }

    /// The mask of a float's sign bit, as an integer of its width.
    pub(crate) fn sign_bit_like(&mut self, like: V) -> V {
        match self.type_of(like).is_wide() {
            true => self.constant(Type::I64, 1 << 63),
            false => self.i32(i32::MIN),
        }
    }

    pub(crate) fn i32(&mut self, x: i32) -> V {
        self.constant(Type::I32, u64::from(x.cast_unsigned()))
    }

    /// A constant integer of the type `ty`.
    pub(crate) fn integer(&mut self, ty: Type, x: i64) -> V {
        match ty.is_wide() {
            true => self.constant(ty, x.cast_unsigned()),
            false => self.constant(ty, u64::from(x.cast_unsigned() as u32)),
        }
    }

    // ---- operations ---------------------------------------------------------------

    pub(crate) fn unary(&mut self, op: UnaryOp, a: V) -> V {
        let ty = self.type_of(a);
        self.define(Op::Unary(op, a), ty)
    }

    pub(crate) fn binary(&mut self, op: BinaryOp, a: V, b: V) -> V {
        let ty = self.type_of(a);
        if let Some((rotated, amount)) = self.rotation(op, a, b) {
            return self.define(Op::Binary(BinaryOp::RotateLeft, rotated, amount), ty);
        }
        self.define(Op::Binary(op, a, b), ty)
    }

    /// The operand and amount of a left rotation, if both operands are the same number, shifted by
    /// constants so that their bits do not overlap.
    fn rotation(&self, op: BinaryOp, a: V, b: V) -> Option<(V, V)> {
        if !matches!(op, BinaryOp::Or | BinaryOp::Xor | BinaryOp::Add) {
            return None;
        }
        let shift = |v: V| match self.body.op(v) {
            Op::Binary(op, x, amount) => Some((op, x, amount, self.constant_of(amount)?)),
            _ => None,
        };
        let (a, b) = (shift(a)?, shift(b)?);
        let (up, down) = match a.0 == BinaryOp::ShiftLeft {
            true => (a, b),
            false => (b, a),
        };
        let width = if self.type_of(up.1).is_wide() { 64 } else { 32 };
        let is_rotation = (up.0, down.0) == (BinaryOp::ShiftLeft, BinaryOp::ShiftRight)
            && up.1 == down.1
            && (1..width).contains(&up.3)
            && up.3 + down.3 == width;
        is_rotation.then_some((up.1, up.2))
    }

    pub(crate) fn add(&mut self, a: V, b: V) -> V {
        self.binary(BinaryOp::Add, a, b)
    }

    pub(crate) fn sub(&mut self, a: V, b: V) -> V {
        self.binary(BinaryOp::Sub, a, b)
    }

    /// The square of a magnitude is the square of the number itself, so both become one value.
    pub(crate) fn mul(&mut self, a: V, b: V) -> V {
        match self.magnitude_of(a).filter(|_| a == b) {
            Some(x) => self.binary(BinaryOp::Mul, x, x),
            None => self.binary(BinaryOp::Mul, a, b),
        }
    }

    /// The operand of a magnitude as made by [`super::mathlib::abs`].
    fn magnitude_of(&self, v: V) -> Option<V> {
        let op = |v: V| self.body.op(v);
        let bits_of = |v: V| match op(v) {
            Op::Convert(Conversion::Bits, a) => Some(a),
            _ => None,
        };
        let Op::Binary(BinaryOp::And, a, mask) = op(bits_of(v)?) else {
            return None;
        };
        let cleared = self.type_of(v) == Type::F32 && op(mask) == Op::Const(i32::MAX as u64);
        bits_of(a).filter(|_| cleared)
    }

    pub(crate) fn div(&mut self, a: V, b: V) -> V {
        self.binary(BinaryOp::Div, a, b)
    }

    pub(crate) fn and(&mut self, a: V, b: V) -> V {
        self.binary(BinaryOp::And, a, b)
    }

    pub(crate) fn or(&mut self, a: V, b: V) -> V {
        self.binary(BinaryOp::Or, a, b)
    }

    pub(crate) fn xor(&mut self, a: V, b: V) -> V {
        self.binary(BinaryOp::Xor, a, b)
    }

    pub(crate) fn not(&mut self, a: V) -> V {
        self.unary(UnaryOp::Not, a)
    }

    /// Removes an AND that clears only bits below `low`, which are shifted out afterwards.
    fn before_clearing(&self, v: V, low: i64) -> V {
        let Op::Binary(BinaryOp::And, x, mask) = self.body.op(v) else {
            return v;
        };
        match self.constant_of(mask) {
            Some(bits) if self.type_of(v) == Type::I32 && bits >> low == 0xffff_ffff >> low => x,
            _ => v,
        }
    }

    /// Shifts by a constant.
    pub(crate) fn shift(&mut self, op: BinaryOp, a: V, amount: i64) -> V {
        let a = match op {
            BinaryOp::ShiftRight => self.before_clearing(a, amount),
            _ => a,
        };
        let amount = self.integer(self.type_of(a), amount);
        self.binary(op, a, amount)
    }

    pub(crate) fn fma(&mut self, a: V, b: V, c: V) -> V {
        self.fused(Fused::Sum, [a, b], c)
    }

    /// A fused multiply-add.
    pub(crate) fn fused(&mut self, fused: Fused, [a, b]: [V; 2], c: V) -> V {
        let ty = self.type_of(a);
        self.define(Op::Fma(fused, a, b, c), ty)
    }

    pub(crate) fn compare(&mut self, condition: Condition, a: V, b: V) -> V {
        self.define(Op::Compare(condition, a, b), Type::Mask)
    }

    pub(crate) fn select(&mut self, mask: V, yes: V, no: V) -> V {
        if yes == no {
            return yes;
        }
        let ty = self.type_of(yes);
        self.define(Op::Select(mask, yes, no), ty)
    }

    pub(crate) fn convert(&mut self, conversion: Conversion, a: V, to: Type) -> V {
        self.define(Op::Convert(conversion, a), to)
    }

    /// The bits of a float as an integer, or the reverse.
    pub(crate) fn bits(&mut self, a: V) -> V {
        if let Op::Convert(Conversion::Bits, number) = self.body.op(a) {
            return number;
        }
        let to = match self.type_of(a) {
            Type::F32 => Type::I32,
            Type::I32 => Type::F32,
            Type::F64 => Type::I64,
            Type::I64 => Type::F64,
            Type::Mask => return a,
        };
        self.convert(Conversion::Bits, a, to)
    }

    /// 1 where the mask holds, else 0.
    pub(crate) fn truth(&mut self, mask: V) -> V {
        let (one, zero) = (self.i32(1), self.i32(0));
        self.select(mask, one, zero)
    }

    /// The conjunction of two masks, or the second if there is only one.
    pub(crate) fn both(&mut self, a: Option<V>, b: V) -> V {
        a.map_or(b, |a| self.and(a, b))
    }
}

/// Removes definitions that nothing uses, from the last on; `live` are the values that are used
/// later.
pub(crate) fn drop_dead(body: &Body, statements: &mut Vec<Statement>, live: &mut [bool]) {
    let mut kept = Vec::with_capacity(statements.len());
    while let Some(mut statement) = statements.pop() {
        match &mut statement {
            Statement::Define(v) => {
                if !live[v.0 as usize] {
                    continue;
                }
                for operand in body.op(*v).operands() {
                    live[operand.0 as usize] = true;
                }
            }
            Statement::Store {
                value, index, mask, ..
            } => {
                for v in std::iter::once(&*value).chain(&*index).chain(&*mask) {
                    live[v.0 as usize] = true;
                }
            }
            Statement::StorePair { halves, mask, .. } => {
                for v in halves.iter().chain(&*mask) {
                    live[v.0 as usize] = true;
                }
            }
            Statement::Loop(l) => {
                // Carried values are assumed to be used.
                for v in l.init.iter().chain(&l.next) {
                    live[v.0 as usize] = true;
                }
                drop_dead(body, &mut l.body, live);
            }
            Statement::Rare(rare) => {
                if !rare.results.iter().any(|v| live[v.0 as usize]) {
                    continue;
                }
                let used = rare.init.iter().chain(&rare.next).chain([&rare.mask]);
                used.for_each(|v| live[v.0 as usize] = true);
                if let Some(again) = &rare.again {
                    live[again.mask.0 as usize] = true;
                }
                rare.body.reverse();
                rare.body.retain(|v| {
                    let used = live[v.0 as usize];
                    if used {
                        let operands = body.op(*v).operands();
                        operands.iter().for_each(|v| live[v.0 as usize] = true);
                    }
                    used
                });
                rare.body.reverse();
            }
        }
        kept.push(statement);
    }
    kept.reverse();
    *statements = kept;
}

/// `None` for values that must not be merged: loads and carried values.
fn key(op: &Op, ty: Type) -> Option<Key> {
    let (extra, operands) = match *op {
        Op::Load { .. } | Op::LoadHalf { .. } | Op::Gather { .. } | Op::Carried => return None,
        Op::Const(bits) => (bits, [0; 3]),
        Op::Input(i) | Op::Counter(i) => (u64::from(i), [0; 3]),
        Op::Lane => (0, [0; 3]),
        Op::Unary(o, a) => (o as u64, [a.0, 0, 0]),
        Op::Binary(o, a, b) if o.commutes() => (o as u64, [a.0.min(b.0), a.0.max(b.0), 0]),
        Op::Binary(o, a, b) => (o as u64, [a.0, b.0, 0]),
        Op::Compare(o, a, b) => (o as u64, [a.0, b.0, 0]),
        Op::Convert(o, a) => (o as u64, [a.0, 0, 0]),
        Op::Fma(fused, a, b, c) => (fused as u64, [a.0, b.0, c.0]),
        Op::Select(a, b, c) => (0, [a.0, b.0, c.0]),
    };
    Some((std::mem::discriminant(op), extra, operands, ty))
}
