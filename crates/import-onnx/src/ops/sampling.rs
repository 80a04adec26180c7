//! Interpolated reads of an image: `GridSample`, `AffineGrid`, `RoiAlign`, `DeformConv`.

use super::resize::cubic_weight;
use super::shaping::sizes_of;
use super::{Lowering, one};
use crate::Error;
use crate::lower::{Call, Fold, Item, Lowerer, Result, Value};
use tegula_expr::Term;
use tegula_ir::{Binary, Direction, ElementType, Unary};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "GridSample" => grid_sample,
        "AffineGrid" => affine_grid,
        "RoiAlign" => roi_align,
        "DeformConv" => deform_conv,
        _ => return None,
    };
    Some(lowering)
}

/// The values that are read outside of the image.
#[derive(Clone, Copy, PartialEq)]
enum Outside {
    Zeros,
    Border,
    /// Elements mirrored at the borders; at the centres of the outermost elements if `true`.
    Mirrored(bool),
}

/// Returns, for positions in one dimension, the neighbouring elements and their weights.
type Taps<'a> = dyn Fn(&mut Lowerer<'_>, &Value) -> Result<Vec<(Value, Value)>> + 'a;

/// An image that is read at computed positions.
struct Image {
    /// `[batch, sizes..., channels]`
    elements: Value,
    sizes: Vec<Term>,
    outside: Outside,
}

impl Image {
    /// An image from `[batch, channels, sizes...]`.
    fn new(lower: &mut Lowerer<'_>, x: &Value, outside: Outside) -> Result<Self> {
        let mut order: Vec<usize> = (0..x.rank()).filter(|at| *at != 1).collect();
        order.push(1);
        Ok(Self {
            elements: lower.transpose(x, &order)?,
            sizes: x.dims[2..].to_vec(),
            outside,
        })
    }

    /// The elements at integer positions, `[batch, positions..., channels]`; `places` has one array
    /// `[batch, positions...]` of floats for each dimension. The second result, if any, is a factor
    /// for the elements.
    fn at(&self, lower: &mut Lowerer<'_>, places: &[Value]) -> Result<(Value, Option<Value>)> {
        let mut indices = Vec::new();
        let mut inside: Option<Value> = None;
        for (place, size) in places.iter().zip(&self.sizes) {
            let last = number_of(lower, &size.sub(&Term::constant(1)), place.ty)?;
            let zero = lower.like(place, 0.0)?;
            let place = match self.outside {
                Outside::Mirrored(corners) => {
                    let mirrored = mirrored(lower, place, size, corners)?;
                    // Mirrored positions are rounded towards zero when they are converted to
                    // integers.
                    mirrored
                }
                _ => place.clone(),
            };
            if self.outside == Outside::Zeros {
                let from = lower.compare(Direction::Ge, &place, &zero)?;
                let to = lower.compare(Direction::Le, &place, &last)?;
                let own = lower.binary(Binary::And, &from, &to)?;
                inside = Some(match inside {
                    Some(other) => lower.binary(Binary::And, &other, &own)?,
                    None => own,
                });
            }
            let place = lower.max(&place, &zero)?;
            let place = lower.min(&place, &last)?;
            let index = lower.convert(&place, ElementType::S64)?;
            indices.push(lower.unsqueeze(&index, index.rank())?);
        }
        let rank = indices.first().map_or(1, Value::rank);
        let indices = lower.concat(&indices, rank - 1)?;
        let found = lower.gather_nd(&self.elements, &indices, 1)?;
        let inside = match inside {
            Some(inside) => Some(lower.convert(&inside, found.ty)?),
            None => None,
        };
        Ok((found, inside))
    }

    /// The weighted sum of neighbours of positions; `taps` returns the neighbours of a dimension's
    /// positions and their weights.
    fn interpolated(
        &self,
        lower: &mut Lowerer<'_>,
        places: &[Value],
        taps: &Taps<'_>,
    ) -> Result<Value> {
        let mut all: Vec<(Vec<Value>, Option<Value>)> = vec![(Vec::new(), None)];
        for place in places {
            let own = taps(lower, place)?;
            let mut next = Vec::new();
            for (before, weight) in &all {
                for (at, factor) in &own {
                    let mut places = before.clone();
                    places.push(at.clone());
                    let weight = match weight {
                        Some(weight) => lower.mul(weight, factor)?,
                        None => factor.clone(),
                    };
                    next.push((places, Some(weight)));
                }
            }
            all = next;
        }
        let mut whole: Option<Value> = None;
        for (places, weight) in all {
            let (mut found, inside) = self.at(lower, &places)?;
            let mut factor = inside;
            if let Some(weight) = weight {
                let weight = lower.convert(&weight, found.ty)?;
                factor = Some(match factor {
                    Some(inside) => lower.mul(&inside, &weight)?,
                    None => weight,
                });
            }
            if let Some(factor) = factor {
                let factor = lower.unsqueeze(&factor, factor.rank())?;
                found = lower.mul(&found, &factor)?;
            }
            whole = Some(match whole {
                Some(whole) => lower.add(&whole, &found)?,
                None => found,
            });
        }
        whole.ok_or_else(|| {
            Error::input("expected an input with at least one dimension, found a scalar")
        })
    }
}

/// A size as a constant of a type.
fn number_of(lower: &mut Lowerer<'_>, size: &Term, ty: ElementType) -> Result<Value> {
    let size = lower.of_terms(ElementType::S64, &[], std::slice::from_ref(size))?;
    lower.convert(&size, ty)
}

/// The two neighbours in one dimension.
fn linear_taps(lower: &mut Lowerer<'_>, place: &Value) -> Result<Vec<(Value, Value)>> {
    let left = lower.unary(Unary::Floor, place)?;
    let right = lower.shifted(&left, 1.0)?;
    let to_right = lower.sub(place, &left)?;
    let one = lower.like(place, 1.0)?;
    let to_left = lower.sub(&one, &to_right)?;
    Ok(vec![(left, to_left), (right, to_right)])
}

/// The four neighbours in one dimension.
fn cubic_taps(lower: &mut Lowerer<'_>, place: &Value) -> Result<Vec<(Value, Value)>> {
    let left = lower.unary(Unary::Floor, place)?;
    let mut taps = Vec::new();
    for offset in [-1.0, 0.0, 1.0, 2.0] {
        let at = lower.shifted(&left, offset)?;
        let distance = lower.sub(place, &at)?;
        let distance = lower.unary(Unary::Abs, &distance)?;
        taps.push((at, cubic_weight(lower, &distance, -0.75)?));
    }
    Ok(taps)
}

/// Mirrors a position at the borders until it is inside.
fn mirrored(lower: &mut Lowerer<'_>, place: &Value, size: &Term, corners: bool) -> Result<Value> {
    let size = number_of(lower, size, place.ty)?;
    let (low, high) = match corners {
        true => (lower.like(place, 0.0)?, lower.shifted(&size, -1.0)?),
        false => (lower.like(place, -0.5)?, lower.shifted(&size, -0.5)?),
    };
    let extent = lower.sub(&high, &low)?;
    // The mirrored position is a triangle wave whose period is twice the extent.
    let one = lower.like(place, 1e-30)?;
    let safe = lower.max(&extent, &one)?;
    let period = lower.scaled(&safe, 2.0)?;
    let along = lower.sub(place, &low)?;
    let along = lower.unary(Unary::Abs, &along)?;
    let times = lower.div(&along, &period)?;
    let times = lower.unary(Unary::Floor, &times)?;
    let whole = lower.mul(&times, &period)?;
    let along = lower.sub(&along, &whole)?;
    let back = lower.sub(&period, &along)?;
    let along = lower.min(&along, &back)?;
    let there = lower.add(&along, &low)?;
    let below = lower.compare(Direction::Lt, place, &low)?;
    let above = lower.compare(Direction::Gt, place, &high)?;
    let out = lower.binary(Binary::Or, &below, &above)?;
    lower.select(&out, &there, place)
}

fn grid_sample<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, grid) = (call.input(0)?, call.input(1)?);
    let count = x.rank().checked_sub(2).filter(|n| *n > 0);
    let count = count.filter(|_| grid.rank() == x.rank());
    let count = count.ok_or_else(|| Error::input("expected X and a grid of the same rank"))?;
    let corners = call.int("align_corners", 0) != 0;
    let outside = match call.text("padding_mode", "zeros") {
        "zeros" => Outside::Zeros,
        "border" => Outside::Border,
        "reflection" => Outside::Mirrored(corners),
        other => {
            return Err(Error::input(format!(
                "`padding_mode` is `{other}`: expected zeros, border or reflection"
            )));
        }
    };
    let mode = call.text("mode", "linear");
    let image = Image::new(lower, &x, outside)?;
    let last = grid.rank() - 1;
    let mut places = Vec::new();
    for at in 0..count {
        // The vectors of the grid are ordered from the image's last dimension to its first.
        let (from, to) = ((count - 1 - at) as i64, (count - at) as i64);
        let place = lower.slice(&grid, last, &Term::constant(from), &Term::constant(to), 1)?;
        let place = lower.squeeze(&place, last)?;
        let size = number_of(lower, &x.dims[2 + at], place.ty)?;
        let place = lower.shifted(&place, 1.0)?;
        let place = match corners {
            true => {
                let steps = lower.shifted(&size, -1.0)?;
                let place = lower.scaled(&place, 0.5)?;
                lower.mul(&place, &steps)?
            }
            false => {
                let place = lower.mul(&place, &size)?;
                let place = lower.shifted(&place, -1.0)?;
                lower.scaled(&place, 0.5)?
            }
        };
        let place = match mode {
            "nearest" => lower.unary(Unary::RoundNearestEven, &place)?,
            _ => place,
        };
        places.push(match outside {
            Outside::Zeros => place,
            Outside::Border => {
                let (zero, last) = (lower.like(&place, 0.0)?, lower.shifted(&size, -1.0)?);
                let place = lower.max(&place, &zero)?;
                lower.min(&place, &last)?
            }
            Outside::Mirrored(_) => mirrored(lower, &place, &x.dims[2 + at], corners)?,
        });
    }
    let found = match mode {
        "nearest" => image.interpolated(lower, &places, &|lower, place| {
            let place = match outside {
                Outside::Mirrored(_) => towards_zero(lower, place)?,
                _ => place.clone(),
            };
            let weight = lower.like(&place, 1.0)?;
            let weight = lower.broadcast_to(&weight, &place.dims)?;
            Ok(vec![(place, weight)])
        })?,
        "linear" | "bilinear" => image.interpolated(lower, &places, &linear_taps)?,
        "cubic" | "bicubic" => image.interpolated(lower, &places, &cubic_taps)?,
        other => {
            return Err(Error::input(format!(
                "`mode` is `{other}`: expected nearest, linear, bilinear, cubic or bicubic"
            )));
        }
    };
    one(channels_second(lower, &found)?)
}

fn towards_zero(lower: &mut Lowerer<'_>, x: &Value) -> Result<Value> {
    let whole = lower.convert(x, ElementType::S64)?;
    lower.convert(&whole, x.ty)
}

/// Moves the last dimension to the second place.
fn channels_second(lower: &mut Lowerer<'_>, x: &Value) -> Result<Value> {
    let last = x.rank() - 1;
    let mut order: Vec<usize> = (0..last).collect();
    order.insert(1, last);
    lower.transpose(x, &order)
}

fn affine_grid<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let theta = call.input(0)?;
    let sizes = sizes_of(call, 1)?;
    let corners = call.int("align_corners", 0) != 0;
    let spatial = sizes.get(2..).unwrap_or_default();
    let count = spatial.len();
    if theta.rank() != 3 || !matches!(count, 2 | 3) {
        return Err(Error::input(
            "expected matrices for the sizes of images of 2 or 3 dimensions",
        ));
    }
    // The coordinates of each position from the last dimension to the first, and 1.
    let mut parts = Vec::new();
    let wide = ElementType::F32;
    for at in (0..count).rev() {
        let place = lower.iota(wide, spatial, at)?;
        let size = number_of(lower, &spatial[at], wide)?;
        let place = lower.scaled(&place, 2.0)?;
        let place = match corners {
            true => {
                let steps = lower.shifted(&size, -1.0)?;
                let place = lower.div(&place, &steps)?;
                lower.shifted(&place, -1.0)?
            }
            false => {
                let place = lower.shifted(&place, 1.0)?;
                let place = lower.div(&place, &size)?;
                lower.shifted(&place, -1.0)?
            }
        };
        parts.push(lower.unsqueeze(&place, count)?);
    }
    let ones = lower.splat(wide, 1.0, spatial)?;
    parts.push(lower.unsqueeze(&ones, count)?);
    let places = lower.concat(&parts, count)?;
    let places = lower.convert(&places, theta.ty)?;
    // [n, d, d + 1] by [sizes..., d + 1] to [n, d, sizes...].
    let moved = lower.dot(&theta, &places, &[], &[(2, count)])?;
    let mut order: Vec<usize> = vec![0];
    order.extend(2..2 + count);
    order.push(1);
    one(lower.transpose(&moved, &order)?)
}

fn roi_align<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, rois, batch) = (call.input(0)?, call.input(1)?, call.input(2)?);
    if x.rank() != 4 || rois.rank() != 2 {
        return Err(Error::input("expected images and a list of regions"));
    }
    let (rows, columns) = (call.int("output_height", 1), call.int("output_width", 1));
    let samples = call.int("sampling_ratio", 0);
    if samples < 1 {
        return Err(Error::unsupported(
            "a `sampling_ratio` of 0, which depends on the size of each region, is not supported",
        ));
    }
    let default = if call.version < 16 {
        "output_half_pixel"
    } else {
        "half_pixel"
    };
    let half = call.text("coordinate_transformation_mode", default) == "half_pixel";
    let scale = call.float("spatial_scale", 1.0);
    // The image of each region, as a batch.
    let batch = lower.counted_indices(&batch, &x.dims[0])?;
    let own = lower.take(&x, &batch, 0)?;
    let image = Image::new(lower, &own, Outside::Border)?;
    let count = rois.dims[0].clone();
    let mut places = Vec::new();
    let mut valid: Option<Value> = None;
    let all = [
        count.clone(),
        Term::constant(rows),
        Term::constant(samples),
        Term::constant(columns),
        Term::constant(samples),
    ];
    for (at, bins) in [(0usize, rows), (1, columns)] {
        let mut bound = |column: i64| -> Result<Value> {
            let (from, to) = (Term::constant(column), Term::constant(column + 1));
            let part = lower.slice(&rois, 1, &from, &to, 1)?;
            let part = lower.reshape(&part, std::slice::from_ref(&count))?;
            let part = lower.scaled(&part, scale)?;
            lower.shifted(&part, if half { -0.5 } else { 0.0 })
        };
        let (start, end) = (bound(1 - at as i64)?, bound(3 - at as i64)?);
        let mut extent = lower.sub(&end, &start)?;
        if !half {
            let least = lower.like(&extent, 1.0)?;
            extent = lower.max(&extent, &least)?;
        }
        let bin = lower.scaled(&extent, 1.0 / bins as f64)?;
        // start + (bin number + (sample + 1/2) / samples) * bin size
        let number = lower.iota(x.ty, &all, 1 + 2 * at)?;
        let sample = lower.iota(x.ty, &all, 2 + 2 * at)?;
        let sample = lower.shifted(&sample, 0.5)?;
        let sample = lower.scaled(&sample, 1.0 / samples as f64)?;
        let along = lower.add(&number, &sample)?;
        let bin = lower.broadcast_in(&bin, &[0], &all)?;
        let start = lower.broadcast_in(&start, &[0], &all)?;
        let along = lower.mul(&along, &bin)?;
        let place = lower.add(&start, &along)?;
        let size = number_of(lower, &x.dims[2 + at], x.ty)?;
        let before = lower.like(&place, -1.0)?;
        let from = lower.compare(Direction::Ge, &place, &before)?;
        let to = lower.compare(Direction::Le, &place, &size)?;
        let inside = lower.binary(Binary::And, &from, &to)?;
        valid = Some(match valid {
            Some(other) => lower.binary(Binary::And, &other, &inside)?,
            None => inside,
        });
        let (zero, last) = (lower.like(&place, 0.0)?, lower.shifted(&size, -1.0)?);
        let place = lower.max(&place, &zero)?;
        places.push(lower.min(&place, &last)?);
    }
    let is_max = call.text("mode", "avg") == "max";
    let found = match is_max {
        false => image.interpolated(lower, &places, &linear_taps)?,
        true => largest_part(lower, &image, &places)?,
    };
    let zero = lower.like(&found, 0.0)?;
    let valid = valid.ok_or_else(|| Error::input("expected two dimensions"))?;
    let valid = lower.unsqueeze(&valid, valid.rank())?;
    let found = lower.select(&valid, &found, &zero)?;
    let whole = match is_max {
        true => lower.reduce(&found, Fold::Max, &[2, 4], false)?,
        false => super::reductions::mean(lower, &found, &[2, 4], false)?,
    };
    one(channels_second(lower, &whole)?)
}

/// The largest of the weighted neighbours, which is how the specification defines `max`.
fn largest_part(lower: &mut Lowerer<'_>, image: &Image, places: &[Value]) -> Result<Value> {
    let rows = linear_taps(lower, &places[0])?;
    let columns = linear_taps(lower, &places[1])?;
    let mut largest: Option<Value> = None;
    for (row, row_weight) in &rows {
        for (column, column_weight) in &columns {
            let (found, _) = image.at(lower, &[row.clone(), column.clone()])?;
            let weight = lower.mul(row_weight, column_weight)?;
            let weight = lower.unsqueeze(&weight, weight.rank())?;
            let part = lower.mul(&found, &weight)?;
            largest = Some(match largest {
                Some(other) => lower.max(&other, &part)?,
                None => part,
            });
        }
    }
    largest.ok_or_else(|| Error::input("expected two dimensions"))
}

fn deform_conv<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, w, offset) = (call.input(0)?, call.input(1)?, call.input(2)?);
    if x.rank() != 4 || w.rank() != 4 || offset.rank() != 4 {
        return Err(Error::unsupported(
            "only images with two spatial dimensions are supported",
        ));
    }
    let list = |name: &str, default: i64, count: usize| {
        let list = call.ints(name).unwrap_or(vec![default; count]);
        match list.len() == count {
            true => Ok(list),
            false => Err(Error::input(format!(
                "expected {count} numbers in `{name}`"
            ))),
        }
    };
    let (strides, dilations) = (list("strides", 1, 2)?, list("dilations", 1, 2)?);
    let pads = list("pads", 0, 4)?;
    let (groups, parts) = (
        call.int("group", 1).max(1),
        call.int("offset_group", 1).max(1),
    );
    let kernel: Option<Vec<i64>> = w.dims[2..].iter().map(Term::as_constant).collect();
    let kernel =
        kernel.ok_or_else(|| Error::unsupported("a kernel of unknown size is not supported"))?;
    let taps = Term::constant(kernel[0] * kernel[1]);
    let [batch, rows, columns] = [0, 2, 3].map(|at| offset.dims[at].clone());
    let part_count = Term::constant(parts);
    // [batch, parts, kernel rows, kernel columns, 2, rows, columns]
    let shape = [
        batch.clone(),
        part_count.clone(),
        Term::constant(kernel[0]),
        Term::constant(kernel[1]),
        Term::constant(2),
        rows.clone(),
        columns.clone(),
    ];
    let offset = lower.reshape(&offset, &shape)?;
    let mut wide = shape.to_vec();
    wide.remove(4);
    // [batch * parts, taps, rows, columns]
    let flat = [
        batch.mul(&part_count),
        taps.clone(),
        rows.clone(),
        columns.clone(),
    ];
    let mut places = Vec::new();
    for at in 0..2usize {
        let (from, to) = (Term::constant(at as i64), Term::constant(at as i64 + 1));
        let own = lower.slice(&offset, 4, &from, &to, 1)?;
        let own = lower.squeeze(&own, 4)?;
        let tap = lower.iota(x.ty, &wide, 2 + at)?;
        let tap = lower.scaled(&tap, dilations[at] as f64)?;
        let begin = lower.iota(x.ty, &wide, 4 + at)?;
        let begin = lower.scaled(&begin, strides[at] as f64)?;
        let begin = lower.shifted(&begin, -pads[at] as f64)?;
        let place = lower.add(&begin, &tap)?;
        let place = lower.add(&place, &own)?;
        places.push(lower.reshape(&place, &flat)?);
    }
    let channels = x.dims[1].clone();
    let each = channels.floor_div(&part_count);
    let split = [
        flat[0].clone(),
        each.clone(),
        x.dims[2].clone(),
        x.dims[3].clone(),
    ];
    let by_part = lower.reshape(&x, &split)?;
    let image = Image::new(lower, &by_part, Outside::Zeros)?;
    let mut found = image.interpolated(lower, &places, &linear_taps)?;
    if let Some(mask) = call.optional(4) {
        let mask = lower.reshape(&mask, &flat)?;
        let mask = lower.unsqueeze(&mask, 4)?;
        found = lower.mul(&found, &mask)?;
    }
    // [batch, parts, taps, rows, columns, channels of a part] to [batch, groups, channels of a
    // group, taps, rows, columns]
    let group_count = Term::constant(groups);
    let found = lower.reshape(
        &found,
        &[
            batch.clone(),
            part_count,
            taps.clone(),
            rows.clone(),
            columns.clone(),
            each,
        ],
    )?;
    let found = lower.transpose(&found, &[0, 1, 5, 2, 3, 4])?;
    let inner = channels.floor_div(&group_count);
    let found = lower.reshape(
        &found,
        &[
            batch.clone(),
            group_count.clone(),
            inner.clone(),
            taps.clone(),
            rows.clone(),
            columns.clone(),
        ],
    )?;
    let outer = w.dims[0].floor_div(&group_count);
    let w = lower.reshape(&w, &[group_count, outer, inner, taps])?;
    // [groups, outer, batch, rows, columns]
    let product = lower.dot(&w, &found, &[(0, 1)], &[(2, 2), (3, 3)])?;
    let product = lower.transpose(&product, &[2, 0, 1, 3, 4])?;
    let outer = call.input(1)?.dims[0].clone();
    let mut y = lower.reshape(&product, &[batch, outer, rows, columns])?;
    if let Some(bias) = call.optional(3) {
        y = super::windows::with_bias(lower, &y, &bias)?;
    }
    one(y)
}
