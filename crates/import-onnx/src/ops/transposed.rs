//! `ConvTranspose`, `Col2Im` and `MaxUnpool`: operators that write windows instead of reading them.

use super::shaping::sizes_of;
use super::windows::with_bias;
use super::{Lowering, one};
use crate::Error;
use crate::lower::{Call, Item, Lowerer, Result, Value};
use tegula_expr::Term;
use tegula_ir::{ConvDims, DimNumbers, Op, PadDim, WindowDim};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "ConvTranspose" => conv_transpose,
        "Col2Im" => column_to_image,
        "MaxUnpool" => max_unpool,
        _ => return None,
    };
    Some(lowering)
}

/// The list of integers of an attribute, which must have `count` elements.
fn list(call: &Call<'_, '_>, name: &str, default: i64, count: usize) -> Result<Vec<i64>> {
    match call.ints(name) {
        Some(list) if list.len() == count => Ok(list),
        Some(list) => Err(Error::input(format!(
            "expected {count} numbers in `{name}`, found {}",
            list.len()
        ))),
        None => Ok(vec![default; count]),
    }
}

/// The parameters of a transposed convolution along one dimension.
struct Along {
    kernel: i64,
    stride: i64,
    dilation: i64,
    low: i64,
    high: i64,
    /// The number of additional elements at the end.
    more: i64,
}

impl Along {
    fn extent(&self) -> i64 {
        self.dilation * (self.kernel - 1) + 1
    }
}

fn conv_transpose<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, w) = (call.input(0)?, call.input(1)?);
    if x.rank() < 3 || w.rank() != x.rank() {
        return Err(Error::input(
            "expected an array and a kernel of one rank above 2",
        ));
    }
    let count = x.rank() - 2;
    let kernel: Option<Vec<i64>> = w.dims[2..].iter().map(Term::as_constant).collect();
    let kernel =
        kernel.ok_or_else(|| Error::unsupported("a kernel of unknown size is not supported"))?;
    let strides = list(call, "strides", 1, count)?;
    let dilations = list(call, "dilations", 1, count)?;
    let pads = list(call, "pads", 0, 2 * count)?;
    let more = list(call, "output_padding", 0, count)?;
    if (strides.iter().chain(&dilations).chain(&kernel)).any(|n| *n < 1) {
        return Err(Error::input(
            "expected strides, dilations and kernel sizes of at least 1",
        ));
    }
    let wanted = call.ints("output_shape");
    let wanted = wanted.filter(|list| !list.is_empty());
    let mode = call.text("auto_pad", "NOTSET");
    let mut along = Vec::new();
    for at in 0..count {
        let mut own = Along {
            kernel: kernel[at],
            stride: strides[at],
            dilation: dilations[at],
            low: pads[at],
            high: pads[count + at],
            more: more[at],
        };
        let total = match (&wanted, mode) {
            (Some(wanted), _) => {
                // If all dimensions are given, the last ones are spatial.
                let size = wanted
                    .len()
                    .checked_sub(count)
                    .and_then(|n| wanted.get(n + at));
                let size = size.ok_or_else(|| {
                    let given = wanted.len();
                    Error::input(format!(
                        "`output_shape` has {given} sizes: expected one for each of the {count} spatial dimensions"
                    ))
                })?;
                let input = x.dims[2 + at].as_constant().ok_or_else(|| {
                    Error::unsupported(
                        "`output_shape` for an image of unknown size is not supported",
                    )
                })?;
                Some(own.stride * (input - 1) + own.more + own.extent() - size)
            }
            (None, "SAME_UPPER" | "SAME_LOWER") => Some(own.more + own.extent() - own.stride),
            _ => None,
        };
        if let Some(total) = total {
            let half = total.div_euclid(2);
            (own.low, own.high) = match mode {
                "SAME_UPPER" => (half, total - half),
                _ => (total - half, half),
            };
        }
        along.push(own);
    }
    let groups = call.int("group", 1).max(1);
    let whole = match is_blocks(&along) && groups == 1 {
        true => blocks(lower, &x, &w, &kernel)?,
        false => dilated(lower, &x, &w, &along, groups)?,
    };
    one(match call.optional(2) {
        Some(bias) => with_bias(lower, &whole, &bias)?,
        None => whole,
    })
}

/// Whether the results of different elements do not overlap, so that each element becomes a block.
fn is_blocks(along: &[Along]) -> bool {
    along.iter().all(|own| {
        own.kernel == own.stride
            && own.dilation == 1
            && own.low == 0
            && own.high == 0
            && own.more == 0
    })
}

/// Computes the blocks by a matrix product, and arranges them side by side.
fn blocks(lower: &mut Lowerer<'_>, x: &Value, w: &Value, kernel: &[i64]) -> Result<Value> {
    // [inputs, outputs, kernel...] by [batch, inputs, sizes...] to [outputs, kernel..., batch,
    // sizes...]
    let count = kernel.len();
    let product = lower.dot(w, x, &[], &[(0, 1)])?;
    let mut order = vec![1 + count, 0];
    let mut dims = vec![x.dims[0].clone(), w.dims[1].clone()];
    for (at, &size) in kernel.iter().enumerate() {
        order.extend([2 + count + at, 1 + at]);
        dims.push(x.dims[2 + at].mul(&Term::constant(size)));
    }
    let moved = lower.transpose(&product, &order)?;
    lower.reshape(&moved, &dims)
}

/// A convolution with the mirrored kernel over the dilated operand.
fn dilated(
    lower: &mut Lowerer<'_>,
    x: &Value,
    w: &Value,
    along: &[Along],
    groups: i64,
) -> Result<Value> {
    let mut w = w.clone();
    for at in 0..along.len() {
        w = lower.reverse(&w, 2 + at)?;
    }
    if groups > 1 {
        // [groups * inputs, outputs, ...] to [inputs, groups * outputs, ...]
        let groups = Term::constant(groups);
        let inputs = w.dims[0].floor_div(&groups);
        let mut split = vec![groups.clone(), inputs.clone()];
        split.extend_from_slice(&w.dims[1..]);
        let parts = lower.reshape(&w, &split)?;
        let mut order: Vec<usize> = (0..split.len()).collect();
        order.swap(0, 1);
        let moved = lower.transpose(&parts, &order)?;
        let mut dims = vec![inputs, groups.mul(&w.dims[1])];
        dims.extend_from_slice(&w.dims[2..]);
        w = lower.reshape(&moved, &dims)?;
    }
    let window = along.iter().map(|own| WindowDim {
        size: own.kernel,
        stride: 1,
        padding_low: own.extent() - 1 - own.low,
        padding_high: own.extent() - 1 - own.high + own.more,
        base_dilation: own.stride,
        window_dilation: own.dilation,
        reversal: false,
    });
    let spatial: DimNumbers = (2..x.rank()).map(|at| at as i64).collect();
    let dims = ConvDims {
        input_batch: 0,
        input_feature: 1,
        input_spatial: spatial.clone(),
        kernel_input_feature: 0,
        kernel_output_feature: 1,
        kernel_spatial: spatial.clone(),
        output_batch: 0,
        output_feature: 1,
        output_spatial: spatial,
    };
    let op = Op::Convolution {
        window: window.collect(),
        dims,
        feature_group_count: groups,
        batch_group_count: 1,
        precision: Vec::new(),
    };
    let operands = [lower.local(x)?, lower.local(&w)?];
    lower.push_inferred(op, &operands)
}

fn column_to_image<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let image = sizes_of(call, 1)?;
    let block: Option<Vec<i64>> = sizes_of(call, 2)?.iter().map(Term::as_constant).collect();
    let block =
        block.ok_or_else(|| Error::unsupported("a block of unknown size is not supported"))?;
    let count = image.len();
    let strides = list(call, "strides", 1, count)?;
    let dilations = list(call, "dilations", 1, count)?;
    let pads = list(call, "pads", 0, 2 * count)?;
    let taps: i64 = block.iter().product();
    if x.rank() != 3 || block.len() != count || !(1..=4096).contains(&taps) {
        return Err(Error::input(
            "expected three dimensions, and a block of at most 4096 elements with a size for each \
             dimension of the image",
        ));
    }
    // The number of block positions along each dimension.
    let mut positions = Vec::new();
    for at in 0..count {
        let extent = dilations[at] * (block[at] - 1) + 1;
        let room = image[at].add(&Term::constant(pads[at] + pads[count + at] - extent));
        let steps = room.floor_div(&Term::constant(strides[at].max(1)));
        positions.push(lower.canonical(&steps.add(&Term::constant(1))));
    }
    let channels = x.dims[1].floor_div(&Term::constant(taps));
    let mut dims = vec![x.dims[0].clone(), channels, Term::constant(taps)];
    dims.extend(positions.iter().cloned());
    let parts = lower.reshape(&x, &dims)?;
    let zero = lower.like(&x, 0.0)?;
    let mut whole: Option<Value> = None;
    for tap in 0..taps {
        let part = lower.slice(&parts, 2, &Term::constant(tap), &Term::constant(tap + 1), 1)?;
        let part = lower.squeeze(&part, 2)?;
        // Moves the elements of the part to their positions in the image, with zeros elsewhere.
        let mut rest = tap;
        let mut amounts = vec![
            PadDim {
                low: 0,
                high: 0,
                interior: 0
            };
            2
        ];
        let mut spatial = Vec::new();
        for at in (0..count).rev() {
            let place = rest % block[at] * dilations[at];
            rest /= block[at];
            spatial.push((place, at));
        }
        spatial.reverse();
        let mut out = part.dims[..2].to_vec();
        for (place, at) in spatial {
            let extent = dilations[at] * (block[at] - 1) + 1;
            let low = place - pads[at];
            // The blocks end at the end of the image, or less than a stride before it.
            let padded = image[at].add(&Term::constant(pads[at] + pads[count + at] - extent));
            let used = padded
                .floor_div(&Term::constant(strides[at]))
                .mul(&Term::constant(strides[at]));
            let left = lower
                .canonical(&padded.sub(&used))
                .as_constant()
                .ok_or_else(|| {
                    Error::unsupported(
                        "strides that may not reach the end of a symbolic size are not supported",
                    )
                })?;
            amounts.push(PadDim {
                low,
                high: left + extent - 1 - place - pads[count + at],
                interior: strides[at] - 1,
            });
            out.push(image[at].clone());
        }
        let operands = [lower.local(&part)?, lower.local(&zero)?];
        let placed = lower.push(Op::Pad(amounts), &operands, x.ty, &out)?;
        whole = Some(match whole {
            Some(whole) => lower.add(&whole, &placed)?,
            None => placed,
        });
    }
    one(whole.ok_or_else(|| Error::input("expected a block with at least one element"))?)
}

fn max_unpool<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, places) = (call.input(0)?, call.input(1)?);
    let kernel = call.ints("kernel_shape").unwrap_or_default();
    let count = kernel.len();
    if count == 0 || x.rank() != count + 2 {
        return Err(Error::input(
            "expected `kernel_shape` with each spatial dimension",
        ));
    }
    let strides = list(call, "strides", 1, count)?;
    let pads = list(call, "pads", 0, 2 * count)?;
    let mut dims = x.dims[..2].to_vec();
    for at in 0..count {
        let steps = x.dims[2 + at].sub(&Term::constant(1));
        let size = steps.mul(&Term::constant(strides[at]));
        let size = size.add(&Term::constant(kernel[at] - pads[at] - pads[count + at]));
        dims.push(lower.canonical(&size));
    }
    let all = |dims: &[Term]| dims.iter().fold(Term::constant(1), |n, size| n.mul(size));
    let zeros = lower.splat(x.ty, 0.0, &[all(&dims)])?;
    let flat = [all(&x.dims)];
    let updates = lower.reshape(&x, &flat)?;
    let places = lower.reshape(&places, &[flat[0].clone(), Term::constant(1)])?;
    let whole = lower.scatter_nd(&zeros, &places, &updates, None)?;
    let mut whole = lower.reshape(&whole, &dims)?;
    if call.optional(2).is_some() {
        let wanted = sizes_of(call, 2)?;
        let zero = lower.like(&x, 0.0)?;
        let low = vec![Term::constant(0); x.rank()];
        let high: Vec<Term> = wanted
            .iter()
            .zip(&dims)
            .map(|(w, own)| lower.canonical(&w.sub(own)))
            .collect();
        if high.len() != x.rank() {
            return Err(Error::input("expected a size for each dimension"));
        }
        whole = lower.pad(&whole, &zero, &low, &high)?;
    }
    one(whole)
}
