//! Convolutions and pooling.

use super::{Lowering, one};
use crate::Error;
use crate::lower::{Call, Fold, Item, Lowerer, Result, Value};
use tegula_expr::Term;
use tegula_ir::{ConvDims, DimNumbers, Direction, ElementType, Op, WindowDim};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "MaxPool" | "AveragePool" | "LpPool" => pool,
        "GlobalAveragePool" | "GlobalMaxPool" | "GlobalLpPool" => global_pool,
        _ => return None,
    };
    Some(lowering)
}

/// The window of each spatial dimension of a node. Padding that depends on open sizes is applied to
/// the operand first.
struct Windows {
    operand: Value,
    window: Vec<WindowDim>,
    /// Padding after the last element that is needed only because the number of positions is
    /// rounded up.
    extra: Vec<i64>,
}

fn windows(
    lower: &mut Lowerer<'_>,
    call: &Call<'_, '_>,
    x: &Value,
    kernel: &[i64],
    fill: &Value,
) -> Result<Windows> {
    let count = kernel.len();
    let list = |name: &str, default: i64, count: usize| match call.ints(name) {
        Some(list) if list.len() == count => Ok(list),
        Some(list) => Err(Error::input(format!(
            "expected {count} numbers in `{name}`, found {}",
            list.len()
        ))),
        None => Ok(vec![default; count]),
    };
    let strides = list("strides", 1, count)?;
    let dilations = list("dilations", 1, count)?;
    let pads = list("pads", 0, 2 * count)?;
    let mode = call.text("auto_pad", "NOTSET");
    let ceil = call.int("ceil_mode", 0) != 0;
    if strides
        .iter()
        .chain(&dilations)
        .chain(kernel)
        .any(|n| *n < 1)
    {
        return Err(Error::input(
            "expected strides, dilations and kernel sizes of at least 1",
        ));
    }
    let mut low = vec![Term::constant(0); x.rank()];
    let mut high = low.clone();
    let mut window = Vec::new();
    let mut extra = Vec::new();
    for at in 0..count {
        let size = &x.dims[2 + at];
        let stride = strides[at];
        let extent = dilations[at] * (kernel[at] - 1) + 1;
        let mut dim = WindowDim {
            size: kernel[at],
            stride,
            padding_low: 0,
            padding_high: 0,
            base_dilation: 1,
            window_dilation: dilations[at],
            reversal: false,
        };
        match mode {
            "SAME_UPPER" | "SAME_LOWER" => {
                // SAME padding has ceil(size / stride) positions, which need (positions - 1) *
                // stride + extent elements.
                let positions = size.ceil_div(&Term::constant(stride));
                let need = positions
                    .sub(&Term::constant(1))
                    .mul(&Term::constant(stride))
                    .add(&Term::constant(extent));
                let need = Term::max(&need.sub(size), &Term::constant(0));
                let half = need.floor_div(&Term::constant(2));
                let rest = need.ceil_div(&Term::constant(2));
                let (before, behind) = match mode {
                    "SAME_UPPER" => (half, rest),
                    _ => (rest, half),
                };
                // Only the terms as written are known to be at least 0.
                let known = |term: &Term| lower.canonical(term).as_constant();
                match (known(&before), known(&behind)) {
                    (Some(before), Some(behind)) => {
                        dim.padding_low = before;
                        dim.padding_high = behind;
                    }
                    _ => {
                        low[2 + at] = before;
                        high[2 + at] = behind;
                    }
                }
            }
            "VALID" => {}
            _ => {
                dim.padding_low = pads[at];
                dim.padding_high = pads[count + at];
            }
        }
        let mut more = 0;
        // With SAME padding all positions have their elements already.
        if ceil && stride > 1 && !mode.starts_with("SAME") {
            let behind = behind_last(size, &dim, extent);
            match lower.canonical(&behind).as_constant() {
                Some(known) => more = known,
                None if extent >= stride + dim.padding_high => more = stride - 1,
                None => high[2 + at] = behind,
            }
        }
        dim.padding_high += more;
        extra.push(more);
        window.push(dim);
    }
    let operand = lower.pad(x, fill, &low, &high)?;
    Ok(Windows {
        operand,
        window,
        extra,
    })
}

/// The padding after the array that is needed if the number of window positions is rounded up. A
/// window spans `extent` elements. The last window must begin within the array or the padding
/// before it. A window at least as long as the stride plus the padding after the array always does;
/// then adding `stride - 1` elements of padding gives the right number of positions for every size.
fn behind_last(size: &Term, dim: &WindowDim, extent: i64) -> Term {
    let stride = Term::constant(dim.stride);
    let before = size.add(&Term::constant(dim.padding_low));
    let room = before.add(&Term::constant(dim.padding_high - extent));
    let last = Term::min(
        &room.ceil_div(&stride),
        &before.ceil_div(&stride).sub(&Term::constant(1)),
    );
    Term::max(&last.mul(&stride).sub(&room), &Term::constant(0))
}

/// Adds a bias to each channel.
pub(super) fn with_bias(lower: &mut Lowerer<'_>, x: &Value, bias: &Value) -> Result<Value> {
    let bias = lower.broadcast_in(bias, &[1], &x.dims)?;
    lower.add(x, &bias)
}

/// A depthwise convolution with kernels `[channels, 1, size...]`, without padding.
pub(super) fn each_channel(lower: &mut Lowerer<'_>, x: &Value, kernel: &Value) -> Result<Value> {
    let known: Option<Vec<i64>> = kernel.dims[2..].iter().map(Term::as_constant).collect();
    let known =
        known.ok_or_else(|| Error::unsupported("a kernel of unknown size is not supported"))?;
    let channels = x.dims[1].as_constant();
    let channels = channels
        .ok_or_else(|| Error::unsupported("an unknown number of channels is not supported"))?;
    let window = known.iter().map(|size| WindowDim {
        size: *size,
        ..WindowDim::TRIVIAL
    });
    convolution_of(lower, x, kernel, window.collect(), channels, x.ty)
}

/// A convolution of `[batch, channels, sizes...]` with `[outputs, channels of a group, sizes...]`.
fn convolution_of(
    lower: &mut Lowerer<'_>,
    x: &Value,
    kernel: &Value,
    window: Vec<WindowDim>,
    groups: i64,
    ty: ElementType,
) -> Result<Value> {
    let spatial: DimNumbers = (2..x.rank()).map(|at| at as i64).collect();
    let dims = ConvDims {
        input_batch: 0,
        input_feature: 1,
        input_spatial: spatial.clone(),
        kernel_input_feature: 1,
        kernel_output_feature: 0,
        kernel_spatial: spatial.clone(),
        output_batch: 0,
        output_feature: 1,
        output_spatial: spatial,
    };
    let op = Op::Convolution {
        window,
        dims,
        feature_group_count: groups,
        batch_group_count: 1,
        precision: Vec::new(),
    };
    let operands = [lower.local(x)?, lower.local(kernel)?];
    lower.push_as(op, &operands, ty)
}

pub(super) fn convolve(
    lower: &mut Lowerer<'_>,
    call: &Call<'_, '_>,
    x: &Value,
    kernel: &Value,
) -> Result<Value> {
    let zero = lower.like(x, 0.0)?;
    convolve_as(lower, call, x, kernel, &zero, x.ty)
}

/// A convolution that accumulates in another type and pads the array with this number.
pub(super) fn convolve_as(
    lower: &mut Lowerer<'_>,
    call: &Call<'_, '_>,
    x: &Value,
    kernel: &Value,
    around: &Value,
    ty: ElementType,
) -> Result<Value> {
    if x.rank() < 3 || kernel.rank() != x.rank() {
        return Err(Error::input(format!(
            "expected an array and a kernel of one rank above 2, found {} and {}",
            x.rank(),
            kernel.rank()
        )));
    }
    let known: Option<Vec<i64>> = kernel.dims[2..].iter().map(Term::as_constant).collect();
    let known =
        known.ok_or_else(|| Error::unsupported("a kernel of unknown size is not supported"))?;
    let mut windows = windows(lower, call, x, &known, around)?;
    let is_zero = around.floats().is_some_and(|number| number == [0.0]);
    if !is_zero {
        let none = vec![Term::constant(0); x.rank()];
        let (mut low, mut high) = (none.clone(), none);
        for (at, dim) in windows.window.iter_mut().enumerate() {
            low[2 + at] = Term::constant(std::mem::take(&mut dim.padding_low));
            high[2 + at] = Term::constant(std::mem::take(&mut dim.padding_high));
        }
        windows.operand = lower.pad(&windows.operand, around, &low, &high)?;
    }
    let groups = call.int("group", 1);
    convolution_of(lower, &windows.operand, kernel, windows.window, groups, ty)
}

fn pool<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let kernel = call.ints("kernel_shape").unwrap_or_default();
    if x.rank() < 3 || kernel.len() != x.rank() - 2 {
        return Err(Error::input(
            "expected `kernel_shape` with each spatial dimension",
        ));
    }
    let fold = match call.node.op {
        "MaxPool" => Fold::Max,
        _ => Fold::Sum,
    };
    let init = lower.identity(fold, x.ty)?;
    let around = [WindowDim::TRIVIAL, WindowDim::TRIVIAL];
    let parts = windows(lower, call, &x, &kernel, &init)?;
    let whole = [&around[..], &parts.window].concat();
    if call.node.op == "LpPool" {
        return lp_pool(lower, call, &parts.operand, &init, whole);
    }
    let combined = lower.window(&parts.operand, &init, fold, whole.clone())?;
    if call.node.op == "MaxPool" {
        let shows_places = call
            .node
            .outputs
            .get(1)
            .is_some_and(|name| !name.is_empty());
        if shows_places {
            let places = places_of_largest(lower, call, &x, &parts, &combined)?;
            return Ok(vec![combined.into(), places.into()]);
        }
        return one(combined);
    }
    // The number of elements in each window, including those of the padding if they are counted.
    let counts_padding = call.int("count_include_pad", 0) != 0;
    let mut dims = x.dims.clone();
    dims[0] = Term::constant(1);
    dims[1] = Term::constant(1);
    let mut ones = lower.splat(x.ty, 1.0, &dims)?;
    let mut counted = whole;
    if counts_padding {
        let filled = lower.like(&x, 1.0)?;
        let (mut low, mut high) = (vec![Term::constant(0); x.rank()], Vec::new());
        high.clone_from(&low);
        for (at, dim) in parts.window.iter().enumerate() {
            low[2 + at] = Term::constant(dim.padding_low);
            high[2 + at] = Term::constant(dim.padding_high - parts.extra[at]);
            counted[2 + at].padding_low = 0;
            counted[2 + at].padding_high = parts.extra[at];
        }
        ones = lower.pad(&ones, &filled, &low, &high)?;
    } else if parts.operand.dims != x.dims {
        return Err(Error::unsupported(
            "an average whose padding depends on an unknown size is not supported (SAME, or `ceil_mode` \
             with windows shorter than the stride plus the padding after the array)",
        ));
    }
    let counts = lower.window(&ones, &init, Fold::Sum, counted)?;
    one(lower.div(&combined, &counts)?)
}

/// The position in the whole array of the largest element of each window; the first among equal
/// ones. It is found by reducing over the positions in a window whose element is the largest.
fn places_of_largest(
    lower: &mut Lowerer<'_>,
    call: &Call<'_, '_>,
    x: &Value,
    parts: &Windows,
    largest: &Value,
) -> Result<Value> {
    let taps: i64 = parts.window.iter().map(|dim| dim.size).product();
    if taps > 1024 || parts.operand.dims != x.dims {
        return Err(Error::unsupported(
            "the positions of the largest elements are not supported in windows of more than 1024 \
             elements, or with padding that depends on an unknown size (SAME, or `ceil_mode` with \
             windows shorter than the stride plus the padding after the array)",
        ));
    }
    // The elements and their positions in the array, both padded.
    let ty = ElementType::S64;
    let column_major = call.int("storage_order", 0) != 0;
    let mut order: Vec<usize> = (0..x.rank()).collect();
    if column_major {
        order[2..].reverse();
    }
    let dims: Vec<Term> = order.iter().map(|at| x.dims[*at].clone()).collect();
    let all = dims.iter().fold(Term::constant(1), |n, size| n.mul(size));
    let place = lower.iota(ty, &[all], 0)?;
    let place = lower.reshape(&place, &dims)?;
    let place = lower.transpose(&place, &order)?;
    let (mut low, mut high) = (vec![Term::constant(0); x.rank()], Vec::new());
    high.clone_from(&low);
    for (at, dim) in parts.window.iter().enumerate() {
        low[2 + at] = Term::constant(dim.padding_low);
        high[2 + at] = Term::constant(dim.padding_high);
    }
    let least = lower.extreme(x.ty, false)?;
    let elements = lower.pad(x, &least, &low, &high)?;
    let none = Value::of_integers(ty, &[], &[i64::MAX])?;
    let place = lower.pad(&place, &none, &low, &high)?;
    let mut found = lower.broadcast_to(&none, &largest.dims)?;
    for tap in 0..taps {
        let (mut element, mut own) = (elements.clone(), place.clone());
        let mut rest = tap;
        for (at, dim) in parts.window.iter().enumerate().rev() {
            let start = rest % dim.size * dim.window_dilation;
            rest /= dim.size;
            let steps = largest.dims[2 + at].sub(&Term::constant(1));
            let limit = steps.mul(&Term::constant(dim.stride));
            let limit = lower.canonical(&limit.add(&Term::constant(start + 1)));
            let start = Term::constant(start);
            element = lower.slice(&element, 2 + at, &start, &limit, dim.stride)?;
            own = lower.slice(&own, 2 + at, &start, &limit, dim.stride)?;
        }
        let is_largest = lower.compare(Direction::Eq, &element, largest)?;
        let candidate = lower.select(&is_largest, &own, &none)?;
        found = lower.min(&found, &candidate)?;
    }
    Ok(found)
}

fn lp_pool(
    lower: &mut Lowerer<'_>,
    call: &Call<'_, '_>,
    x: &Value,
    init: &Value,
    window: Vec<WindowDim>,
) -> Result<Vec<Item>> {
    let p = lower.like(x, call.int("p", 2) as f64)?;
    let size = lower.unary(tegula_ir::Unary::Abs, x)?;
    let power = lower.binary(tegula_ir::Binary::Power, &size, &p)?;
    let sum = lower.window(&power, init, Fold::Sum, window)?;
    let root = lower.like(x, 1.0 / call.int("p", 2) as f64)?;
    one(lower.binary(tegula_ir::Binary::Power, &sum, &root)?)
}

fn global_pool<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let axes: Vec<usize> = (2..x.rank()).collect();
    one(match call.node.op {
        "GlobalAveragePool" => super::reductions::mean(lower, &x, &axes, true)?,
        "GlobalMaxPool" => lower.reduce(&x, Fold::Max, &axes, true)?,
        _ => {
            let p = call.int("p", 2) as f64;
            let exponent = lower.like(&x, p)?;
            let size = lower.unary(tegula_ir::Unary::Abs, &x)?;
            let power = lower.binary(tegula_ir::Binary::Power, &size, &exponent)?;
            let sum = lower.reduce(&power, Fold::Sum, &axes, true)?;
            let root = lower.like(&x, 1.0 / p)?;
            lower.binary(tegula_ir::Binary::Power, &sum, &root)?
        }
    })
}
