//! Fourier transforms, window functions, and mel filter banks.

use super::{Lowering, one};
use crate::Error;
use crate::lower::{Call, Item, Lowerer, Result, Value};
use crate::tensor::element_type;
use tegula_expr::Term;
use tegula_ir::{Binary, DimNumbers, ElementType, FftType, Op, Unary};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "DFT" => dft,
        "STFT" => stft,
        "HannWindow" | "HammingWindow" | "BlackmanWindow" => window,
        "MelWeightMatrix" => mel_weights,
        _ => return None,
    };
    Some(lowering)
}

/// A scalar integer as a term, which must be constant or depend on sizes only.
fn one_size(call: &Call<'_, '_>, at: usize) -> Result<Option<Term>> {
    if call.optional(at).is_none() {
        return Ok(None);
    }
    let list = super::shaping::sizes_of(call, at)?;
    match list.as_slice() {
        [one] => Ok(Some(one.clone())),
        _ => Err(Error::input(format!("expected one number as input {at}"))),
    }
}

fn one_number(call: &Call<'_, '_>, at: usize) -> Result<Option<i64>> {
    let Some(size) = one_size(call, at)? else {
        return Ok(None);
    };
    match size.as_constant() {
        Some(number) => Ok(Some(number)),
        None => Err(Error::depends_on_data(
            at,
            format!("input {at} must be constant"),
        )),
    }
}

fn dft<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let axis = match call.version < 20 {
        true => call.int("axis", 1),
        false => one_number(call, 2)?.unwrap_or(-2),
    };
    let axis = call.axis_of(axis, x.rank())?;
    if axis + 1 == x.rank() {
        return Err(Error::input(
            "expected a last dimension with the parts of a complex number",
        ));
    }
    let inverse = call.int("inverse", 0) != 0;
    let one_sided = call.int("onesided", 0) != 0;
    let length = match one_size(call, 1)? {
        Some(length) => length,
        // A half spectrum is taken to be that of an even length.
        None if inverse && one_sided => {
            x.dims[axis].sub(&Term::constant(1)).mul(&Term::constant(2))
        }
        None => x.dims[axis].clone(),
    };
    one(transformed(lower, &x, axis, &length, inverse, one_sided)?)
}

/// The transform along an axis. The last dimension holds real and imaginary parts, or only real
/// ones.
fn transformed(
    lower: &mut Lowerer<'_>,
    x: &Value,
    axis: usize,
    length: &Term,
    inverse: bool,
    one_sided: bool,
) -> Result<Value> {
    let ty = x.ty;
    let wide = if ty == ElementType::F64 {
        ty
    } else {
        ElementType::F32
    };
    let wide_x = lower.convert(x, wide)?;
    let last = x.rank() - 1;
    // The axis is moved last, and the dimension of parts is removed.
    let mut order: Vec<usize> = (0..last).filter(|at| *at != axis).collect();
    order.push(axis);
    let part = |lower: &mut Lowerer<'_>, at: i64| -> Result<Value> {
        let (from, to) = (Term::constant(at), Term::constant(at + 1));
        let part = lower.slice(&wide_x, last, &from, &to, 1)?;
        let part = lower.squeeze(&part, last)?;
        lower.transpose(&part, &order)
    };
    let real = part(lower, 0)?;
    let imaginary = match x.dims[last].as_constant() {
        Some(1) => None,
        Some(2) => Some(part(lower, 1)?),
        _ => return Err(Error::input("expected 1 or 2 parts as the last dimension")),
    };
    let length = lower.canonical(length).as_constant().filter(|n| *n >= 1);
    let length = length.ok_or_else(|| {
        Error::unsupported(
            "a transform whose length is unknown when the model is read is not supported",
        )
    })?;
    let complex = match wide {
        ElementType::F64 => ElementType::C128,
        _ => ElementType::C64,
    };
    let half = length / 2 + 1;
    let kind = match (inverse, one_sided, imaginary.is_some()) {
        (true, true, _) => FftType::Irfft,
        (true, false, _) => FftType::Ifft,
        (false, _, true) => FftType::Fft,
        (false, _, false) => FftType::Rfft,
    };
    let taken = if kind == FftType::Irfft { half } else { length };
    let real = fitted(lower, &real, taken)?;
    let input = match (&imaginary, kind) {
        (None, FftType::Rfft) => real,
        (imaginary, _) => {
            let imaginary = match imaginary {
                Some(part) => fitted(lower, part, taken)?,
                None => lower.splat(wide, 0.0, &real.dims)?,
            };
            complex_of(lower, &real, &imaginary, complex)?
        }
    };
    let lengths: DimNumbers = [length].into_iter().collect();
    let op = Op::Fft {
        kind,
        length: lengths,
    };
    let mut dims = input.dims.clone();
    let end = dims.len() - 1;
    dims[end] = Term::constant(match kind {
        FftType::Rfft => half,
        _ => length,
    });
    let result_ty = if kind == FftType::Irfft {
        wide
    } else {
        complex
    };
    let operand = lower.local(&input)?;
    let mut y = lower.push(op, &[operand], result_ty, &dims)?;
    if kind == FftType::Rfft && !one_sided {
        y = whole_spectrum(lower, &y, length)?;
    } else if kind == FftType::Fft && one_sided {
        y = lower.slice(&y, end, &Term::constant(0), &Term::constant(half), 1)?;
    }
    let mut parts = Vec::new();
    let mut back: Vec<usize> = (0..axis).collect();
    back.push(end);
    back.extend(axis..end);
    let count = if kind == FftType::Irfft { 1 } else { 2 };
    for op in [Unary::Real, Unary::Imag].into_iter().take(count) {
        let part = match kind {
            FftType::Irfft => y.clone(),
            _ => {
                let local = lower.local(&y)?;
                lower.push(Op::Unary(op), &[local], wide, &y.dims)?
            }
        };
        let part = lower.transpose(&part, &back)?;
        parts.push(lower.unsqueeze(&part, part.rank())?);
    }
    let whole = lower.concat(&parts, last)?;
    lower.convert(&whole, ty)
}

fn complex_of(
    lower: &mut Lowerer<'_>,
    real: &Value,
    imaginary: &Value,
    ty: ElementType,
) -> Result<Value> {
    let operands = [lower.local(real)?, lower.local(imaginary)?];
    lower.push(Op::Binary(Binary::Complex), &operands, ty, &real.dims)
}

/// Crops the last dimension to a length, or pads it with zeros.
fn fitted(lower: &mut Lowerer<'_>, x: &Value, length: i64) -> Result<Value> {
    let last = x.rank() - 1;
    let own = x.dims[last].clone();
    let wanted = Term::constant(length);
    let missing = lower.canonical(&wanted.sub(&own));
    let range = lower.range(&missing);
    if range.upper <= 0 {
        return lower.slice(x, last, &Term::constant(0), &wanted, 1);
    }
    if range.lower < 0 {
        return Err(Error::unsupported(
            "a transform of an axis that may be longer or shorter than the transform is not supported",
        ));
    }
    let zero = lower.like(x, 0.0)?;
    let low = vec![Term::constant(0); x.rank()];
    let mut high = low.clone();
    high[last] = missing;
    lower.pad(x, &zero, &low, &high)
}

/// The spectrum of a real signal from its first half: the second half is the conjugate in reverse
/// order.
fn whole_spectrum(lower: &mut Lowerer<'_>, half: &Value, length: i64) -> Result<Value> {
    let last = half.rank() - 1;
    let rest = (length - 1) / 2;
    let tail = lower.slice(half, last, &Term::constant(1), &Term::constant(1 + rest), 1)?;
    let tail = lower.reverse(&tail, last)?;
    let wide = match half.ty {
        ElementType::C128 => ElementType::F64,
        _ => ElementType::F32,
    };
    let local = lower.local(&tail)?;
    let real = lower.push(Op::Unary(Unary::Real), &[local], wide, &tail.dims)?;
    let imaginary = lower.push(Op::Unary(Unary::Imag), &[local], wide, &tail.dims)?;
    let imaginary = lower.unary(Unary::Negate, &imaginary)?;
    let tail = complex_of(lower, &real, &imaginary, half.ty)?;
    lower.concat(&[half.clone(), tail], last)
}

fn stft<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let step = one_number(call, 1)?.filter(|step| *step > 0);
    let step = step.ok_or_else(|| Error::input("expected a step above 0"))?;
    let window = call.optional(2);
    let x = match x.rank() {
        // PyTorch's exporter omits the dimension of parts for real numbers.
        2 => lower.unsqueeze(&x, 2)?,
        3 => x,
        _ => return Err(Error::input("expected [batch, length, parts]")),
    };
    let length = match (one_number(call, 3)?, &window) {
        (Some(length), _) => length,
        (None, Some(window)) => window.dims.first().and_then(Term::as_constant).unwrap_or(0),
        (None, None) => x.dims[1].as_constant().unwrap_or(0),
    };
    if length < 1 {
        return Err(Error::unsupported(
            "frames of unknown length are not supported",
        ));
    }
    let room = x.dims[1].sub(&Term::constant(length));
    let frames = room
        .floor_div(&Term::constant(step))
        .add(&Term::constant(1));
    let frames = lower.canonical(&Term::max(&frames, &Term::constant(0)));
    let dims = [frames, Term::constant(length)];
    let begin = lower.iota(ElementType::S64, &dims, 0)?;
    let begin = lower.scaled(&begin, step as f64)?;
    let place = lower.iota(ElementType::S64, &dims, 1)?;
    let place = lower.add(&begin, &place)?;
    let mut parts = lower.take(&x, &place, 1)?;
    if let Some(window) = window {
        let window = lower.reshape(&window, &[Term::constant(length), Term::constant(1)])?;
        let window = lower.convert(&window, x.ty)?;
        parts = lower.mul(&parts, &window)?;
    }
    let one_sided = call.int("onesided", 1) != 0;
    one(transformed(
        lower,
        &parts,
        2,
        &Term::constant(length),
        false,
        one_sided,
    )?)
}

/// A window function that is a sum of cosines.
fn window<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let count = one_size(call, 0)?.ok_or_else(|| Error::input("expected a size"))?;
    let factors: &[f64] = match call.node.op {
        "HannWindow" => &[0.5, -0.5],
        "HammingWindow" => &[25.0 / 46.0, -21.0 / 46.0],
        _ => &[0.42, -0.5, 0.08],
    };
    let ty = element_type(call.int("output_datatype", 1))?;
    let place = lower.places(&count)?;
    let mut period = lower.size_number(&count)?;
    if call.int("periodic", 1) == 0 {
        period = lower.shifted(&period, -1.0)?;
    }
    let angle = lower.scaled(&place, std::f64::consts::TAU)?;
    let angle = lower.div(&angle, &period)?;
    let mut whole = lower.like(&angle, factors[0])?;
    for (times, factor) in factors.iter().enumerate().skip(1) {
        let own = lower.scaled(&angle, times as f64)?;
        let cosine = lower.unary(Unary::Cos, &own)?;
        let part = lower.scaled(&cosine, *factor)?;
        whole = lower.add(&whole, &part)?;
    }
    one(lower.convert(&whole, ty)?)
}

/// Triangular filters over the bins of a spectrum, at equal distances on the mel scale (2595
/// log10(1 + f / 700)).
fn mel_weights<'a>(_: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let float = |at: usize| -> Result<f64> {
        let list = call.input(at)?.floats();
        let first = list.and_then(|list| list.first().copied());
        first.ok_or_else(|| Error::depends_on_data(at, format!("input {at} must be constant")))
    };
    let bins = float(0)?.max(0.0) as usize;
    let (length, rate) = (float(1)?, float(2)?);
    let mel = |hertz: f64| 2595.0 * (1.0 + hertz / 700.0).log10();
    let (low, high) = (mel(float(3)?), mel(float(4)?));
    let spectrum = (length / 2.0).floor() as usize + 1;
    if bins > 1 << 16 || spectrum > 1 << 24 || bins * spectrum > 1 << 26 {
        return Err(Error::unsupported(
            "a matrix of more than 2^26 weights is not supported",
        ));
    }
    let step = (high - low) / (bins + 2) as f64;
    let edge = |at: usize| {
        let hertz = 700.0 * (10f64.powf((low + at as f64 * step) / 2595.0) - 1.0);
        (((length + 1.0) * hertz) / rate).floor()
    };
    let mut weights = vec![0.0; spectrum * bins];
    for bin in 0..bins {
        let (left, centre, right) = (edge(bin), edge(bin + 1), edge(bin + 2));
        for place in 0..spectrum {
            let at = place as f64;
            let weight = match (at >= left && at <= centre, at >= centre && at < right) {
                (_, true) => (right - at) / (right - centre),
                (true, _) if centre > left => (at - left) / (centre - left),
                (true, _) => 1.0,
                _ => 0.0,
            };
            weights[place * bins + bin] = weight;
        }
    }
    let ty = element_type(call.int("output_datatype", 1))?;
    let dims = [spectrum as i64, bins as i64];
    one(Value::of_floats(ty, &dims, &weights)?)
}
