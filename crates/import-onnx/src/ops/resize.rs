//! `Resize` and `Upsample`: each axis separately, as a weighted sum of elements at computed
//! positions.

use super::shaping::sizes_of;
use super::{Lowering, one};
use crate::Error;
use crate::lower::{Call, Item, Lowerer, Result, Value};
use tegula_expr::Term;
use tegula_ir::{Binary, Direction, ElementType, Unary};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "Resize" => resize,
        "Upsample" => upsample,
        _ => return None,
    };
    Some(lowering)
}

/// The attributes that map positions of the result to positions of the operand.
struct Style<'a> {
    mode: &'a str,
    nearest: &'a str,
    coordinates: &'a str,
    exclude_outside: bool,
    antialias: bool,
    cubic_a: f64,
    extrapolation: f64,
}

/// An axis to be resized.
struct Axis {
    at: usize,
    /// The new size.
    size: Term,
    /// The scale factor, as a table of one element.
    scale: Value,
    /// The start and the end of the region, as fractions of the operand's axis.
    region: Option<[Value; 2]>,
}

fn upsample<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let scales = match call.attribute("scales") {
        Some(attribute) => attribute.floats.iter().map(|s| f64::from(*s)).collect(),
        None => known_scales(call, 1)?,
    };
    one(old_resize(lower, call, &x, &scales)?)
}

/// Before version 11, positions are counted from the beginning, and rounded down.
fn old_resize(
    lower: &mut Lowerer<'_>,
    call: &Call<'_, '_>,
    x: &Value,
    scales: &[f64],
) -> Result<Value> {
    let style = Style {
        mode: match call.text("mode", "nearest") {
            "bilinear" | "trilinear" => "linear",
            mode => mode,
        },
        nearest: "floor",
        coordinates: "asymmetric",
        exclude_outside: false,
        antialias: false,
        cubic_a: -0.75,
        extrapolation: 0.0,
    };
    let axes: Vec<usize> = (0..x.rank()).collect();
    let axes = by_scales(lower, x, &axes, scales)?;
    resize_axes(lower, x, &axes, &style)
}

fn known_scales(call: &Call<'_, '_>, at: usize) -> Result<Vec<f64>> {
    let scales = call.input(at)?.floats();
    scales.ok_or_else(|| {
        Error::depends_on_data(
            at,
            format!("input {at} (`scales`) depends on data: expected constant factors"),
        )
    })
}

fn resize<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    if call.version < 11 {
        let scales = known_scales(call, 1)?;
        return one(old_resize(lower, call, &x, &scales)?);
    }
    let style = Style {
        mode: call.text("mode", "nearest"),
        nearest: call.text("nearest_mode", "round_prefer_floor"),
        coordinates: call.text("coordinate_transformation_mode", "half_pixel"),
        exclude_outside: call.int("exclude_outside", 0) != 0,
        antialias: call.int("antialias", 0) != 0,
        cubic_a: call.float("cubic_coeff_a", -0.75),
        extrapolation: call.float("extrapolation_value", 0.0),
    };
    let axes: Vec<usize> = match call.ints("axes") {
        Some(list) => {
            let axes = list.iter().map(|axis| call.axis_of(*axis, x.rank()));
            axes.collect::<Result<_>>()?
        }
        None => (0..x.rank()).collect(),
    };
    let given = |at: usize| call.optional(at).filter(|v| v.count() != Some(0));
    let mut parts = match (given(2), given(3)) {
        (Some(_), None) => by_scales(lower, &x, &axes, &known_scales(call, 2)?)?,
        (None, Some(_)) => by_sizes(lower, call, &x, &axes)?,
        _ => {
            return Err(Error::input(
                "expected either `scales` or `sizes` as an input",
            ));
        }
    };
    if style.coordinates == "tf_crop_and_resize" {
        let region = call.input(1)?;
        let region = lower.convert(&region, ElementType::F64)?;
        let count = parts.len() as i64;
        for (place, part) in parts.iter_mut().enumerate() {
            let mut bound = |at: i64| {
                let number =
                    lower.slice(&region, 0, &Term::constant(at), &Term::constant(at + 1), 1)?;
                lower.reshape(&number, &[])
            };
            part.region = Some([bound(place as i64)?, bound(count + place as i64)?]);
        }
    }
    one(resize_axes(lower, &x, &parts, &style)?)
}

/// The size of a dimension times a factor, rounded down. Known sizes are multiplied in f32, as
/// other implementations do; an open size is multiplied by the simplest fraction that equals the
/// factor in f32.
fn scaled_size(size: &Term, scale: f64) -> Result<Term> {
    if let Some(known) = size.as_constant() {
        return Ok(Term::constant((known as f32 * scale as f32).floor() as i64));
    }
    let fraction = (1..=4096i64).find_map(|divisor| {
        let numerator = (scale * divisor as f64).round();
        let same = (numerator / divisor as f64) as f32 == scale as f32;
        (same && (1.0..1e9).contains(&numerator)).then_some((numerator as i64, divisor))
    });
    let (numerator, divisor) = fraction.ok_or_else(|| {
        Error::unsupported(format!(
            "the factor {scale} of a symbolic size is not supported: expected a fraction of small integers"
        ))
    })?;
    let whole = size.mul(&Term::constant(numerator));
    Ok(whole.floor_div(&Term::constant(divisor)))
}

fn by_scales(
    lower: &mut Lowerer<'_>,
    x: &Value,
    axes: &[usize],
    scales: &[f64],
) -> Result<Vec<Axis>> {
    if scales.len() != axes.len() || scales.iter().any(|s| !(s.is_finite() && *s > 0.0)) {
        return Err(Error::input(format!(
            "expected {} factors above 0, found {scales:?}",
            axes.len()
        )));
    }
    let mut parts = Vec::new();
    for (at, scale) in axes.iter().zip(scales) {
        let size = scaled_size(&x.dims[*at], *scale)?;
        parts.push(Axis {
            at: *at,
            size: lower.canonical(&size),
            scale: lower.number(*scale)?,
            region: None,
        });
    }
    Ok(parts)
}

fn by_sizes(
    lower: &mut Lowerer<'_>,
    call: &Call<'_, '_>,
    x: &Value,
    axes: &[usize],
) -> Result<Vec<Axis>> {
    let wanted = sizes_of(call, 3)?;
    if wanted.len() != axes.len() {
        return Err(Error::input(format!(
            "expected {} sizes, found {}",
            axes.len(),
            wanted.len()
        )));
    }
    let policy = call.text("keep_aspect_ratio_policy", "stretch");
    if policy != "stretch" {
        return keeping_ratio(lower, x, axes, &wanted, policy == "not_larger");
    }
    let mut parts = Vec::new();
    for (at, size) in axes.iter().zip(wanted) {
        let size = lower.canonical(&size);
        let (new, own) = (lower.size_number(&size)?, lower.size_number(&x.dims[*at])?);
        parts.push(Axis {
            at: *at,
            scale: lower.div(&new, &own)?,
            size,
            region: None,
        });
    }
    Ok(parts)
}

/// Resizes all axes by the same factor: the smallest or the largest of those that the sizes
/// require.
fn keeping_ratio(
    lower: &mut Lowerer<'_>,
    x: &Value,
    axes: &[usize],
    wanted: &[Term],
    smallest: bool,
) -> Result<Vec<Axis>> {
    let known = |term: &Term| {
        term.as_constant().map(|n| n as f64).ok_or_else(|| {
            Error::unsupported("`keep_aspect_ratio_policy` with unknown sizes is not supported")
        })
    };
    let mut scale: Option<f64> = None;
    for (at, size) in axes.iter().zip(wanted) {
        let own = known(size)? / known(&x.dims[*at])?;
        scale = Some(match (scale, smallest) {
            (None, _) => own,
            (Some(scale), true) => scale.min(own),
            (Some(scale), false) => scale.max(own),
        });
    }
    let scale = scale.unwrap_or(1.0);
    let mut parts = Vec::new();
    for at in axes {
        let size = (known(&x.dims[*at])? * scale + 0.5).floor();
        parts.push(Axis {
            at: *at,
            size: Term::constant(size as i64),
            scale: lower.number(scale)?,
            region: None,
        });
    }
    Ok(parts)
}

fn resize_axes(
    lower: &mut Lowerer<'_>,
    x: &Value,
    axes: &[Axis],
    style: &Style<'_>,
) -> Result<Value> {
    let ty = x.ty;
    let computes = style.mode != "nearest";
    let wide = match computes && !matches!(ty, ElementType::F32 | ElementType::F64) {
        true => ElementType::F32,
        false => ty,
    };
    let mut whole = lower.convert(x, wide)?;
    let mut outside: Option<Value> = None;
    for axis in axes {
        let is_same = axis.region.is_none()
            && whole.dims[axis.at] == axis.size
            && axis.scale.floats().is_none_or(|scale| scale == [1.0]);
        if is_same {
            continue;
        }
        let size = whole.dims[axis.at].clone();
        let place = origins(lower, axis, &size, style)?;
        if axis.region.is_some() {
            let out = is_outside(lower, &place, &size)?;
            let mut dims = vec![Term::constant(1); whole.rank()];
            dims[axis.at] = axis.size.clone();
            let out = lower.reshape(&out, &dims)?;
            outside = Some(match outside {
                Some(other) => lower.binary(Binary::Or, &other, &out)?,
                None => out,
            });
        }
        whole = match style.mode {
            "nearest" => nearest(lower, &whole, axis, &place, style)?,
            "linear" | "cubic" => filtered(lower, &whole, axis, &place, style)?,
            other => {
                return Err(Error::input(format!(
                    "`mode` is `{other}`: expected nearest, linear or cubic"
                )));
            }
        };
    }
    if let Some(outside) = outside {
        let fill = lower.like(&whole, style.extrapolation)?;
        whole = lower.select(&outside, &fill, &whole)?;
    }
    lower.convert(&whole, ty)
}

fn is_outside(lower: &mut Lowerer<'_>, place: &Value, size: &Term) -> Result<Value> {
    let zero = lower.number(0.0)?;
    let last = lower.size_number(&size.sub(&Term::constant(1)))?;
    let before = lower.compare(Direction::Lt, place, &zero)?;
    let behind = lower.compare(Direction::Gt, place, &last)?;
    lower.binary(Binary::Or, &before, &behind)
}

/// The position in the operand for each position of the result.
fn origins(lower: &mut Lowerer<'_>, axis: &Axis, size: &Term, style: &Style<'_>) -> Result<Value> {
    let y = lower.places(&axis.size)?;
    let own = lower.size_number(size)?;
    let own_last = lower.shifted(&own, -1.0)?;
    let new = lower.mul(&axis.scale, &own)?;
    let unit = lower.number(1.0)?;
    let is_one = lower.compare(Direction::Eq, &new, &unit)?;
    let from_centre = |lower: &mut Lowerer<'_>| {
        let centre = lower.shifted(&y, 0.5)?;
        let moved = lower.div(&centre, &axis.scale)?;
        lower.shifted(&moved, -0.5)
    };
    // The new size minus 1, or 1 if that is 0 (`y` is then 0).
    let steps = |lower: &mut Lowerer<'_>| {
        let last = lower.shifted(&new, -1.0)?;
        lower.select(&is_one, &unit, &last)
    };
    match (style.coordinates, &axis.region) {
        ("half_pixel", _) => from_centre(lower),
        ("pytorch_half_pixel", _) => {
            let zero = lower.number(0.0)?;
            let place = from_centre(lower)?;
            lower.select(&is_one, &zero, &place)
        }
        ("half_pixel_symmetric", _) => {
            let out = lower.size_number(&axis.size)?;
            let adjustment = lower.div(&out, &new)?;
            let rest = lower.sub(&unit, &adjustment)?;
            let centre = lower.scaled(&own, 0.5)?;
            let offset = lower.mul(&centre, &rest)?;
            let place = from_centre(lower)?;
            lower.add(&place, &offset)
        }
        ("asymmetric", _) => lower.div(&y, &axis.scale),
        ("align_corners", _) => {
            let steps = steps(lower)?;
            let place = lower.mul(&y, &own_last)?;
            lower.div(&place, &steps)
        }
        ("tf_crop_and_resize", Some([start, end])) => {
            let steps = steps(lower)?;
            let extent = lower.sub(end, start)?;
            let extent = lower.mul(&extent, &own_last)?;
            let place = lower.mul(&y, &extent)?;
            let place = lower.div(&place, &steps)?;
            let middle = lower.scaled(&extent, 0.5)?;
            let place = lower.select(&is_one, &middle, &place)?;
            let begin = lower.mul(start, &own_last)?;
            lower.add(&place, &begin)
        }
        (other, _) => Err(Error::input(format!(
            "unknown `coordinate_transformation_mode` `{other}`"
        ))),
    }
}

/// Clamps positions to the axis and converts them to indices.
fn indices(lower: &mut Lowerer<'_>, place: &Value, size: &Term) -> Result<Value> {
    let zero = lower.number(0.0)?;
    let last = lower.size_number(&size.sub(&Term::constant(1)))?;
    let inside = lower.max(place, &zero)?;
    let inside = lower.min(&inside, &last)?;
    lower.convert(&inside, ElementType::S64)
}

fn nearest(
    lower: &mut Lowerer<'_>,
    x: &Value,
    axis: &Axis,
    place: &Value,
    style: &Style<'_>,
) -> Result<Value> {
    if let Some(factor) = whole_factor(x, axis, style) {
        return repeated(lower, x, axis.at, factor);
    }
    let rounded = match style.nearest {
        "floor" => lower.unary(Unary::Floor, place)?,
        "ceil" => lower.unary(Unary::Ceil, place)?,
        "round_prefer_floor" => {
            let shifted = lower.shifted(place, -0.5)?;
            lower.unary(Unary::Ceil, &shifted)?
        }
        "round_prefer_ceil" => {
            let shifted = lower.shifted(place, 0.5)?;
            lower.unary(Unary::Floor, &shifted)?
        }
        other => {
            return Err(Error::input(format!(
                "unknown `nearest_mode` `{other}`: expected floor, ceil, round_prefer_floor or \
                    round_prefer_ceil"
            )));
        }
    };
    let index = indices(lower, &rounded, &x.dims[axis.at])?;
    lower.take(x, &index, axis.at)
}

/// The integer factor by which each element is repeated, if nearest-neighbour interpolation amounts
/// to that.
fn whole_factor(x: &Value, axis: &Axis, style: &Style<'_>) -> Option<i64> {
    let scale = axis.scale.floats()?.first().copied()?;
    let is_whole = scale.fract() == 0.0 && scale >= 1.0 && scale < f64::from(i32::MAX);
    let factor = scale as i64;
    let repeats = matches!(
        (style.coordinates, style.nearest),
        ("asymmetric", "floor")
            | (
                "half_pixel" | "half_pixel_symmetric",
                "round_prefer_floor" | "round_prefer_ceil"
            )
    );
    let fits = match (x.dims[axis.at].as_constant(), axis.size.as_constant()) {
        (Some(own), Some(new)) => own.checked_mul(factor) == Some(new),
        _ => true,
    };
    (is_whole && repeats && fits && axis.region.is_none()).then_some(factor)
}

/// Repeats each element along an axis.
fn repeated(lower: &mut Lowerer<'_>, x: &Value, at: usize, factor: i64) -> Result<Value> {
    let mut wide = x.dims.clone();
    wide.insert(at + 1, Term::constant(factor));
    let places: Vec<usize> = (0..x.rank()).map(|i| i + usize::from(i > at)).collect();
    let whole = lower.broadcast_in(x, &places, &wide)?;
    let mut dims = x.dims.clone();
    dims[at] = dims[at].mul(&Term::constant(factor));
    lower.reshape(&whole, &dims)
}

/// A weighted sum of neighbours.
fn filtered(
    lower: &mut Lowerer<'_>,
    x: &Value,
    axis: &Axis,
    place: &Value,
    style: &Style<'_>,
) -> Result<Value> {
    let size = x.dims[axis.at].clone();
    // The left neighbour is strictly before the position.
    let left = lower.unary(Unary::Ceil, place)?;
    let left = lower.shifted(&left, -1.0)?;
    let ratio = lower.sub(place, &left)?;
    let reach = if style.mode == "linear" { 1.0 } else { 2.0 };
    let narrowing = match style.antialias {
        false => 1.0,
        true => {
            let scale = axis.scale.floats().and_then(|list| list.first().copied());
            let scale = scale.ok_or_else(|| {
                Error::unsupported(
                    "`antialias` with a factor that depends on symbolic sizes is not supported",
                )
            })?;
            scale.min(1.0)
        }
    };
    let first = (-reach / narrowing).floor() + 1.0;
    let count = (2.0 - 2.0 * first) as i64;
    if !(2..=4096).contains(&count) {
        return Err(Error::unsupported(format!(
            "a filter of {count} elements is not supported: the result is too small for `antialias`"
        )));
    }
    let mut taps = Vec::new();
    let mut sum: Option<Value> = None;
    for tap in 0..count {
        let offset = first + tap as f64;
        let distance = lower.number(offset)?;
        let distance = lower.sub(&distance, &ratio)?;
        let distance = lower.scaled(&distance, narrowing)?;
        let distance = lower.unary(Unary::Abs, &distance)?;
        let mut weight = match style.mode {
            "linear" => linear_weight(lower, &distance)?,
            _ => cubic_weight(lower, &distance, style.cubic_a)?,
        };
        let at = lower.shifted(&left, offset)?;
        if style.exclude_outside {
            let out = is_outside(lower, &at, &size)?;
            let zero = lower.number(0.0)?;
            weight = lower.select(&out, &zero, &weight)?;
        }
        sum = Some(match sum {
            Some(sum) => lower.add(&sum, &weight)?,
            None => weight.clone(),
        });
        taps.push((at, weight));
    }
    let mut whole: Option<Value> = None;
    for (at, mut weight) in taps {
        if let (Some(sum), true) = (&sum, style.exclude_outside || style.antialias) {
            weight = lower.div(&weight, sum)?;
        }
        let index = indices(lower, &at, &size)?;
        let part = lower.take(x, &index, axis.at)?;
        let weight = lower.convert(&weight, x.ty)?;
        let weight = lower.broadcast_in(&weight, &[axis.at], &part.dims)?;
        let part = lower.mul(&part, &weight)?;
        whole = Some(match whole {
            Some(whole) => lower.add(&whole, &part)?,
            None => part,
        });
    }
    whole.ok_or_else(|| Error::input("expected a filter with at least one element"))
}

fn linear_weight(lower: &mut Lowerer<'_>, distance: &Value) -> Result<Value> {
    let (zero, unit) = (lower.number(0.0)?, lower.number(1.0)?);
    let weight = lower.sub(&unit, distance)?;
    lower.max(&weight, &zero)
}

/// The weight in cubic interpolation: R. Keys, "Cubic convolution interpolation for digital image
/// processing", 1981, equation (15) with its free parameter `a`.
pub(super) fn cubic_weight(lower: &mut Lowerer<'_>, distance: &Value, a: f64) -> Result<Value> {
    let d = distance;
    let polynomial = |lower: &mut Lowerer<'_>, factors: [f64; 4]| -> Result<Value> {
        let mut whole = lower.like(d, factors[0])?;
        for factor in &factors[1..] {
            whole = lower.mul(&whole, d)?;
            whole = lower.shifted(&whole, *factor)?;
        }
        Ok(whole)
    };
    let near = polynomial(lower, [a + 2.0, -(a + 3.0), 0.0, 1.0])?;
    let far = polynomial(lower, [a, -5.0 * a, 8.0 * a, -4.0 * a])?;
    let (zero, one, two) = (
        lower.like(d, 0.0)?,
        lower.like(d, 1.0)?,
        lower.like(d, 2.0)?,
    );
    let is_near = lower.compare(Direction::Le, d, &one)?;
    let is_far = lower.compare(Direction::Lt, d, &two)?;
    let rest = lower.select(&is_far, &far, &zero)?;
    lower.select(&is_near, &near, &rest)
}
