//! Block-quantized weights: a few bits for each element, and a scale for each block of a row.

use super::super::{Lowering, one};
use crate::Error;
use crate::lower::{Call, Item, Lowerer, Result, Value};
use tegula_expr::Term;
use tegula_ir::{Binary, ElementType};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "MatMulNBits" => mat_mul_bits,
        "MatMulBnb4" => mat_mul_table,
        "GatherBlockQuantized" => gather_blocks,
        _ => return None,
    };
    Some(lowering)
}

/// Unpacks numbers of `bits` bits from the bytes of the last dimension; the first is in the lowest
/// bits.
fn unpacked(lower: &mut Lowerer<'_>, x: &Value, bits: i64) -> Result<Value> {
    if bits == 8 {
        return Ok(x.clone());
    }
    if !matches!(bits, 2 | 4) || x.ty != ElementType::U8 || x.rank() == 0 {
        return Err(Error::input("expected bytes of numbers of 2, 4 or 8 bits"));
    }
    let count = 8 / bits;
    let shifts: Vec<i64> = (0..count).map(|at| at * bits).collect();
    let shifts = Value::of_integers(x.ty, &[count], &shifts)?;
    let mut dims = x.dims.clone();
    dims.push(Term::constant(count));
    let wide = lower.unsqueeze(x, x.rank())?;
    let (wide, shifts) = (
        lower.broadcast_to(&wide, &dims)?,
        lower.broadcast_to(&shifts, &dims)?,
    );
    let moved = lower.binary(Binary::ShiftRightLogical, &wide, &shifts)?;
    let mask = lower.like(&moved, ((1 << bits) - 1) as f64)?;
    let numbers = lower.binary(Binary::And, &moved, &mask)?;
    let last = x.rank() - 1;
    let mut flat = x.dims.clone();
    flat[last] = flat[last].mul(&Term::constant(count));
    lower.reshape(&numbers, &flat)
}

/// Repeats each element of a dimension by the block size, and crops the result to `size`.
fn spread(
    lower: &mut Lowerer<'_>,
    x: &Value,
    axis: usize,
    block: i64,
    size: &Term,
) -> Result<Value> {
    x.size(axis)?;
    let mut wide = x.dims.clone();
    wide.insert(axis + 1, Term::constant(block));
    let places: Vec<usize> = (0..x.rank())
        .map(|at| at + usize::from(at > axis))
        .collect();
    let repeated = lower.broadcast_in(x, &places, &wide)?;
    let mut whole = x.dims.clone();
    whole[axis] = whole[axis].mul(&Term::constant(block));
    let repeated = lower.reshape(&repeated, &whole)?;
    lower.slice(&repeated, axis, &Term::constant(0), size, 1)
}

/// An integer attribute, which must be at least 1.
fn positive(call: &Call<'_, '_>, name: &str, default: i64) -> Result<i64> {
    match call.int(name, default) {
        value if (1..=i64::from(i32::MAX)).contains(&value) => Ok(value),
        value => Err(Error::input(format!(
            "expected a `{name}` from 1 to 2147483647, found {value}"
        ))),
    }
}

/// `A W^T + bias` with weights `[N, K]` that are quantized in blocks of `block_size` along `K`.
fn mat_mul_bits<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let a = call.input(0)?;
    let (rows, size) = (positive(call, "N", 0)?, positive(call, "K", 0)?);
    let (bits, block) = (call.int("bits", 4), positive(call, "block_size", 0)?);
    if !matches!(bits, 2 | 4 | 8) {
        return Err(Error::unsupported(format!(
            "weights of {bits} bits are not supported: expected 2, 4 or 8"
        )));
    }
    if call.int("weight_prepacked", 0) != 0 {
        return Err(Error::unsupported(
            "prepacked weights (`weight_prepacked`) are not supported: export them in the standard layout",
        ));
    }
    let blocks = size.div_euclid(block) + i64::from(size % block != 0);
    let term = Term::constant;
    let wide = super::normalization::wide(a.ty);
    let packed = call.input(1)?;
    let bytes = lower.reshape(&packed, &[term(rows), term(blocks * block * bits / 8)])?;
    let numbers = unpacked(lower, &bytes, bits)?;
    let numbers = lower.slice(&numbers, 1, &term(0), &term(size), 1)?;
    let numbers = lower.convert(&numbers, wide)?;
    let by_block = [term(rows), term(blocks)];
    let zero = match call.optional(3) {
        None => lower.splat(wide, (1i64 << (bits - 1).clamp(0, 7)) as f64, &by_block)?,
        Some(zero) if zero.ty == ElementType::U8 => {
            let width = (blocks * bits).div_euclid(8) + i64::from((blocks * bits) % 8 != 0);
            let zero = lower.reshape(&zero, &[term(rows), term(width)])?;
            let zero = unpacked(lower, &zero, bits)?;
            let zero = lower.slice(&zero, 1, &term(0), &term(blocks), 1)?;
            lower.convert(&zero, wide)?
        }
        Some(zero) => {
            let zero = lower.reshape(&zero, &by_block)?;
            lower.convert(&zero, wide)?
        }
    };
    let scales = call.input(2)?;
    let scales = lower.reshape(&scales, &by_block)?;
    let scales = lower.convert(&scales, wide)?;
    let zero = spread(lower, &zero, 1, block, &term(size))?;
    let scales = spread(lower, &scales, 1, block, &term(size))?;
    let centred = lower.sub(&numbers, &zero)?;
    let weights = lower.mul(&centred, &scales)?;
    let weights = match call.optional(4) {
        // An explicit assignment of columns to blocks.
        Some(order) if order.count() != Some(0) => {
            return Err(Error::unsupported(
                "`g_idx`, a permutation of columns, is not supported",
            ));
        }
        _ => weights,
    };
    let wide_a = lower.convert(&a, wide)?;
    let last = a.rank().saturating_sub(1);
    let mut y = lower.dot(&wide_a, &weights, &[], &[(last, 1)])?;
    if let Some(bias) = call.optional(5) {
        let bias = lower.convert(&bias, wide)?;
        y = lower.add(&y, &bias)?;
    }
    one(lower.convert(&y, a.ty)?)
}

/// The sixteen values of 4-bit floats divided by the largest one, and those of NF4, which divide a
/// normal distribution into parts of equal weight: from Dettmers et al., QLoRA (2023), appendix E.
const FLOAT_4: [f64; 16] = [
    0.0,
    5.208_333_333e-3,
    0.666_666_67,
    1.0,
    0.333_333_33,
    0.5,
    0.166_666_67,
    0.25,
    -0.0,
    -5.208_333_333e-3,
    -0.666_666_67,
    -1.0,
    -0.333_333_33,
    -0.5,
    -0.166_666_67,
    -0.25,
];
const NORMAL_4: [f64; 16] = [
    -1.0,
    -0.696_192_800_998_687_7,
    -0.525_073_051_452_636_7,
    -0.394_917_488_098_144_53,
    -0.284_441_381_692_886_35,
    -0.184_773_430_228_233_34,
    -0.091_050_036_251_544_95,
    0.0,
    0.079_580_299_556_255_34,
    0.160_930_201_411_247_25,
    0.246_112_301_945_686_34,
    0.337_915_241_718_292_24,
    0.440_709_829_330_444_34,
    0.562_617_003_917_694_1,
    0.722_956_836_223_602_3,
    1.0,
];

/// `A W^T` with weights `[N, K]` that are indices into a table of sixteen values; the first index
/// of a byte is in its upper bits. There is a scale for each block of the flattened weights.
fn mat_mul_table<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let a = call.input(0)?;
    let (rows, size) = (positive(call, "N", 0)?, positive(call, "K", 0)?);
    let block = positive(call, "block_size", 0)?;
    let table = match call.int("quant_type", 1) {
        0 => FLOAT_4,
        _ => NORMAL_4,
    };
    let term = Term::constant;
    let packed = unpacked(lower, &call.input(1)?, 4)?;
    // Swaps the numbers of each pair.
    let pairs = packed.size(0)?.floor_div(&term(2));
    let pairs = lower.reshape(&packed, &[pairs, term(2)])?;
    let pairs = lower.reverse(&pairs, 1)?;
    let places = lower.reshape(&pairs, &packed.dims)?;
    let all = term(rows * size);
    let places = lower.slice(&places, 0, &term(0), &all, 1)?;
    let places = lower.convert(&places, ElementType::S32)?;
    let wide = super::normalization::wide(a.ty);
    let table = Value::of_floats(wide, &[16], &table)?;
    let numbers = lower.take(&table, &places, 0)?;
    let scales = lower.convert(&call.input(2)?, wide)?;
    let scales = spread(lower, &scales, 0, block, &all)?;
    let weights = lower.mul(&numbers, &scales)?;
    let weights = lower.reshape(&weights, &[term(rows), term(size)])?;
    let of_weights = usize::from(call.int("transB", 1) != 0);
    let wide_a = lower.convert(&a, wide)?;
    let last = a.rank().saturating_sub(1);
    let y = lower.dot(&wide_a, &weights, &[], &[(last, of_weights)])?;
    one(lower.convert(&y, a.ty)?)
}

/// Gathers slices of a block-quantized array and dequantizes them. Indices out of bounds give
/// zeros.
fn gather_blocks<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (data, indices, scales) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let along = call.axis_of(call.int("gather_axis", 0), data.rank())?;
    let axis = call.axis_of(call.int("quantize_axis", 1), data.rank())?;
    if along == axis {
        return Err(Error::unsupported(format!(
            "`gather_axis` and `quantize_axis` are both {axis}: gathering along the quantized \
             dimension is not supported"
        )));
    }
    let block = positive(call, "block_size", 128)?;
    let ty = scales.ty;
    let wide = super::normalization::wide(ty);
    let bits = call.int("bits", 4);
    let is_packed = data.ty == ElementType::U8;
    let index = lower.counted_indices(&indices, &data.dims[along])?;
    let numbers_of = |lower: &mut Lowerer<'a>, x: &Value| -> Result<Value> {
        let rows = lower.take(x, &index, along)?;
        let rows = match x.ty {
            ElementType::U8 => unpacked(lower, &rows, bits)?,
            _ => rows,
        };
        lower.convert(&rows, wide)
    };
    // The position of the blocks' dimension after the indices' dimensions have replaced the
    // gathered one.
    let place = match axis > along {
        true => axis + indices.rank() - 1,
        false => axis,
    };
    let numbers = numbers_of(lower, &data)?;
    let size = numbers.size(place)?.clone();
    let own = numbers_of(lower, &scales)?;
    let blocks = own.size(place)?.clone();
    let own = spread(lower, &own, place, block, &size)?;
    let centred = match call.optional(3) {
        Some(zero) => {
            let zero = numbers_of(lower, &zero)?;
            let zero = lower.slice(&zero, place, &Term::constant(0), &blocks, 1)?;
            let zero = spread(lower, &zero, place, block, &size)?;
            lower.sub(&numbers, &zero)?
        }
        None if is_packed => {
            let zero = (1i64 << (bits - 1).clamp(0, 7)) as f64;
            lower.shifted(&numbers, -zero)?
        }
        None => numbers,
    };
    let y = lower.mul(&centred, &own)?;
    one(lower.convert(&y, ty)?)
}
