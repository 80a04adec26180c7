//! Reductions across lanes: between vectors, and at the end within one.

use super::Select;
use crate::isa::x64::assembler::{Out, Source};
use crate::isa::x64::features::InstructionSet;
use crate::isa::x64::opcodes as code;
use crate::isa::x64::opcodes::{Form, Size};
use crate::origin::Origin;
use crate::simd::ir::{BinaryOp, Body, Condition, Type, V, identity};
use regalloc2::VReg;

/// An accumulator that a reduction carries through the loop over the lanes.
#[derive(Clone, Copy)]
pub(in crate::isa::x64) struct Part {
    kind: Kind,
    op: BinaryOp,
    value: V,
    ty: Type,
    origin: Origin,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The combined values; for minima and maxima of floats, without regard to NaN.
    Combined,
    /// The mask of lanes that have had a NaN: one comparison tests two vectors. A minimum that
    /// propagates NaN in every iteration takes three times as long.
    Nan,
    /// The same if masks are vectors: the largest magnitude so far, as an integer.
    Magnitude,
}

impl Part {
    /// The number of accumulators for this many vectors of the unrolled loop.
    pub(in crate::isa::x64) fn copies(&self, unroll: usize) -> usize {
        match self.kind {
            Kind::Nan => 1,
            Kind::Combined | Kind::Magnitude => unroll,
        }
    }

    /// The integer type of the same width.
    fn integers(&self) -> Type {
        match self.ty.is_wide() {
            true => Type::I64,
            false => Type::I32,
        }
    }
}

/// The accumulators of a body's reductions. The accumulator for NaN follows that for the values.
pub(in crate::isa::x64) fn parts(set: InstructionSet, body: &Body) -> Vec<Part> {
    let mut parts = Vec::new();
    for (number, r) in body.reductions.iter().enumerate() {
        let origin = body.origins.reductions.get(number);
        let origin = origin.copied().unwrap_or(body.origins.lanes);
        let part = |kind| Part {
            origin,
            kind,
            op: r.op,
            value: r.value,
            ty: body.type_of(r.value),
        };
        parts.push(part(Kind::Combined));
        if matches!(r.op, BinaryOp::Minimum | BinaryOp::Maximum) {
            parts.push(part(match set {
                InstructionSet::Avx512 => Kind::Nan,
                InstructionSet::Avx2 => Kind::Magnitude,
            }));
        }
    }
    parts
}

/// The immediate of a comparison: whether either operand is NaN.
const UNORDERED: i32 = 3;

impl Select<'_> {
    /// The initial values of accumulators.
    pub(in crate::isa::x64) fn identities(&mut self, parts: &[Part]) -> Option<Vec<VReg>> {
        let identity = |part: &Part| match part.kind {
            Kind::Combined => self.splat_bits(identity(part.op, part.ty), part.ty),
            Kind::Nan => Some(self.no_lanes()),
            Kind::Magnitude => self.splat_bits(0, part.integers()),
        };
        parts.iter().map(identity).collect()
    }

    /// Updates an accumulator with the lanes of all vectors of the unrolled loop.
    pub(in crate::isa::x64) fn accumulate(
        &mut self,
        part: &Part,
        old: &[VReg],
    ) -> Option<Vec<VReg>> {
        if part.kind == Kind::Nan {
            return Some(vec![self.with_nans(part, *old.first()?)?]);
        }
        let around = std::mem::replace(&mut self.asm.origin, part.origin);
        let copies = old.iter().enumerate();
        let copies = copies.map(|(u, &old)| self.accumulate_vector(part, u, old));
        let copies = copies.collect();
        self.asm.origin = around;
        copies
    }

    fn accumulate_vector(&mut self, part: &Part, u: usize, old: VReg) -> Option<VReg> {
        let value = match part.kind {
            Kind::Magnitude => {
                let bits = self.get(part.value, u)?;
                let all = !0 >> if part.ty.is_wide() { 1 } else { 33 };
                let mask = self.pooled(all, part.integers());
                let magnitude = self.binary(BinaryOp::And, part.integers(), bits, mask)?;
                Source::Register(magnitude)
            }
            Kind::Combined | Kind::Nan => self.source(part.value, u)?,
        };
        let new = self.combined(part, old, value)?;
        let Some(tails) = &self.tails else {
            return Some(new);
        };
        let mask = tails[u];
        self.blend(part.ty, mask, Source::Register(new), old)
    }

    /// Updates the mask of lanes that have had a NaN with all vectors of the unrolled loop.
    fn with_nans(&mut self, part: &Part, old: VReg) -> Option<VReg> {
        let form = self.form(part.ty);
        let (codes, _) = code::compare(Condition::Equal, part.ty);
        let code = codes.of(form)?;
        // Vectors whose lanes all exist are tested in pairs.
        let step = if self.tails.is_some() { 1 } else { 2 };
        let mut nan = old;
        for u in (0..self.unroll).step_by(step) {
            let last = (u + step - 1).min(self.unroll - 1);
            let pair = [self.get(part.value, u)?, self.get(part.value, last)?];
            let sources = pair.map(|v| (Source::Register(v), form.size()));
            let mut here = self.mask(code, &sources, Some(UNORDERED));
            if let Some(tails) = &self.tails {
                let inside = Source::Register(tails[u]);
                here = self.mask_op(BinaryOp::And, here, inside)?;
            }
            nan = self.mask_op(BinaryOp::Or, nan, Source::Register(here))?;
        }
        Some(nan)
    }

    /// Combines two values of an accumulator.
    pub(in crate::isa::x64) fn combined(
        &mut self,
        part: &Part,
        a: VReg,
        b: Source,
    ) -> Option<VReg> {
        match (part.kind, part.op) {
            (Kind::Nan, _) => self.mask_op(BinaryOp::Or, a, b),
            (Kind::Magnitude, _) => self.binary(BinaryOp::MaxUnsigned, part.integers(), a, b),
            // NaN is known from the magnitudes.
            (_, BinaryOp::Minimum | BinaryOp::Maximum) => self.plain(part.op, part.ty, a, b),
            _ => self.binary(part.op, part.ty, a, b),
        }
    }

    /// Replaces values by NaN if the largest magnitude is that of a NaN.
    fn with_nan(&mut self, part: &Part, values: VReg, magnitudes: VReg) -> Option<VReg> {
        let infinity = match part.ty.is_wide() {
            true => f64::INFINITY.to_bits(),
            false => u64::from(f32::INFINITY.to_bits()),
        };
        let infinity = self.splat_bits(infinity, part.integers())?;
        let source = Source::Register(magnitudes);
        let nan = self.compared(Condition::Less, part.integers(), infinity, source)?;
        self.blend(part.ty, nan, source, values)
    }

    /// NaN in the first lane if a lane has had one, else +0: subtracting it only changes a result
    /// if there was a NaN.
    fn any_nan(&mut self, part: &Part, lanes: VReg) -> Option<VReg> {
        let form = self.form(part.ty);
        let code = code::COMPRESS.of(form)?;
        let nan = match part.ty.is_wide() {
            true => f64::NAN.to_bits(),
            false => u64::from(f32::NAN.to_bits()),
        };
        let nan = self.splat_bits(nan, part.ty)?;
        let result = self.asm.vector();
        let target = Out {
            register: result,
            size: form.size(),
            mask: Some((lanes, true)),
        };
        let source = (Source::Register(nan), form.size());
        self.asm.op(code, target, &[source], None);
        Some(result)
    }

    /// Reduces the lanes of each accumulator and stores the results.
    pub(in crate::isa::x64) fn reductions(&mut self, parts: &[Part], state: &[VReg]) -> Option<()> {
        let mut number = 0;
        for (i, part) in parts.iter().enumerate() {
            if part.kind == Kind::Combined {
                self.asm.origin = part.origin;
                let other = parts.get(i + 1).filter(|p| p.kind != Kind::Combined);
                let other = other.map(|p| (p, state[i + 1]));
                self.reduce(number, (part, state[i]), other)?;
                number += 1;
            }
        }
        Some(())
    }

    /// Reduces the lanes of one accumulator, and stores the result after the inputs.
    fn reduce(
        &mut self,
        number: usize,
        (part, mut value): (&Part, VReg),
        nans: Option<(&Part, VReg)>,
    ) -> Option<()> {
        let (ty, lanes) = (part.ty, self.lanes);
        let (mut nan, mut magnitude) = (None, None);
        match nans {
            Some((part, lanes)) if part.kind == Kind::Nan => {
                nan = Some(self.any_nan(part, lanes)?);
            }
            other => magnitude = other,
        }
        let mut form = self.form(ty);
        for &halving in code::halvings(form) {
            let moved = self.moved(form, value, halving)?;
            if form == Form::Full32 {
                // Operations on half a register take half as long.
                self.lanes = self.set.lanes(true);
                form = self.form(ty);
            }
            value = self.combined(part, value, Source::Register(moved))?;
            if let Some((part, last)) = magnitude {
                let moved = self.moved(form, last, halving)?;
                let new = self.combined(part, last, Source::Register(moved))?;
                magnitude = Some((part, new));
            }
        }
        if let Some((part, magnitude)) = magnitude {
            value = self.with_nan(part, value, magnitude)?;
        }
        if let Some(nan) = nan {
            value = self.binary(BinaryOp::Sub, ty, value, Source::Register(nan))?;
        }
        self.lanes = lanes;
        let code = code::STORE_LANE.of(form)?;
        let place = Source::Memory {
            base: self.slots,
            index: None,
            displacement: 8 * (self.body.inputs.len() + number) as i32,
        };
        let sources = [(place, Size::R64), (Source::Register(value), Size::Xmm)];
        self.asm.effect(code, &sources, None);
        Some(())
    }

    /// The lanes of a vector that are combined with the others.
    fn moved(&mut self, form: Form, value: VReg, (parts, which): (bool, i32)) -> Option<VReg> {
        let source = Source::Register(value);
        Some(match parts {
            true => self.apply(code::MOVE_PARTS.of(form)?, form, &[source; 2], Some(which)),
            false => self.apply(code::MOVE_LANES.of(form)?, form, &[source], Some(which)),
        })
    }
}
