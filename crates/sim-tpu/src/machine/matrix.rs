//! The arithmetic of the matrix units.
//!
//! The matrix units multiply bf16 and add in f32. An f32 operand is rounded to bf16 at the default
//! precision; at `high` it is the sum of two bf16 (16 significant bits), as three passes compute;
//! at `highest` it is not rounded (six passes). A product that is a whole computation is summed
//! here, in f32 and in the order of the contracted index. A product inside a fusion or of other
//! types is left to the reference evaluator, which rounds its operands in the same way and sums in
//! f64.

use std::sync::Arc;
use tegula_ir::helpers::product_type;
use tegula_ir::{
    DotDims, ElementType, Instruction, InstructionId, Literal, Module, Op, Precision, Shape,
};

/// The mantissa bits that an operand keeps, if it loses any.
fn mantissa_bits(precision: &[Precision], operand: usize, algorithm: Option<&str>) -> Option<u32> {
    if let Some(algorithm) = algorithm {
        return match algorithm {
            a if a.ends_with("_x3") => Some(15),
            a if a.ends_with("_x6") || a.ends_with("_x9") => None,
            a if a.contains("f32_f32_f32") || a.contains("f64") => None,
            _ => Some(7),
        };
    }
    match precision.get(operand).copied().unwrap_or_default() {
        Precision::Default => Some(7),
        Precision::High => Some(15),
        Precision::Highest => None,
    }
}

/// The mantissa bits that each operand of a product keeps.
fn kept(op: &Op) -> Option<[Option<u32>; 2]> {
    let (precision, algorithm) = match op {
        Op::Dot {
            precision,
            algorithm,
            ..
        } => (precision, algorithm.as_deref()),
        Op::Convolution { precision, .. } => (precision, None),
        _ => return None,
    };
    Some([0, 1].map(|operand| mantissa_bits(precision, operand, algorithm)))
}

/// Whether a module has a product.
pub(crate) fn has_product(module: &Module) -> bool {
    module.instructions.values().any(|i| kept(&i.op).is_some())
}

/// The module with the operands of its products rounded as the matrix units round them.
///
/// This concerns products computed in f32, whatever types their operands have: integers are
/// converted to f32 before they reach the units.
pub(crate) fn rounded(module: &Arc<Module>) -> Arc<Module> {
    if !has_product(module) {
        return Arc::clone(module);
    }
    let mut module = (**module).clone();
    for id in module.instructions.keys().collect::<Vec<_>>() {
        let Some(kept) = kept(&module[id].op) else {
            continue;
        };
        if computed_in(&module, &module[id]) != Some(ElementType::F32) {
            continue;
        }
        for (operand, bits) in kept.into_iter().enumerate() {
            let from = module[id].operands.get(operand).copied();
            let (Some(mut from), Some(bits)) = (from, bits) else {
                continue;
            };
            let ty = element_type(&module, from);
            let format = ty.and_then(ElementType::float_format);
            if format.is_some_and(|format| format.mantissa_bits <= bits) {
                continue;
            }
            if ty != Some(ElementType::F32) {
                from = insert(&mut module, id, (operand, from), Op::Convert);
            }
            let op = Op::ReducePrecision {
                exponent_bits: 8,
                mantissa_bits: bits,
            };
            insert(&mut module, id, (operand, from), op);
        }
    }
    Arc::new(module)
}

fn element_type(module: &Module, id: InstructionId) -> Option<ElementType> {
    Some(module[id].shape.as_array()?.element_type)
}

/// The type to which a product's operands are converted and in which it is summed.
fn computed_in(module: &Module, product: &Instruction) -> Option<ElementType> {
    let [lhs, rhs] = &product.operands[..] else {
        return None;
    };
    let result = product.shape.as_array()?.element_type;
    let (lhs, rhs) = (element_type(module, *lhs)?, element_type(module, *rhs)?);
    Some(product_type(lhs, rhs, result))
}

/// Inserts an operation between a product and one of its operands.
fn insert(
    module: &mut Module,
    product: InstructionId,
    (operand, from): (usize, InstructionId),
    op: Op,
) -> InstructionId {
    let computation = module[product].computation;
    let mut shape = module[from].shape.clone();
    if let (Op::Convert, Shape::Array(array)) = (&op, &mut shape) {
        *array = array.with_element_type(ElementType::F32);
    }
    let name = format!(
        "{}.{}.{}.{operand}",
        module[from].name,
        op.opcode(),
        module[product].name
    );
    let instruction = Instruction {
        name: Arc::from(name),
        op,
        operands: [from].as_slice().into(),
        shape,
        annotations: None,
        ..module[from].clone()
    };
    let new = module.instructions.push(instruction);
    let list = &mut module.computations[computation].instructions;
    let position = list.iter().position(|&other| other == product);
    list.insert(position.unwrap_or(0), new);
    if let Some(slot) = module.instructions[product].operands.get_mut(operand) {
        *slot = new;
    }
    new
}

/// A product of f32 or bf16 arrays that is a whole computation.
#[derive(Clone, Debug)]
pub(super) struct Product {
    dims: DotDims,
    kept: [Option<u32>; 2],
    result: ElementType,
}

impl Product {
    /// The product, if the module consists of one and nothing else.
    pub(super) fn of(module: &Module) -> Option<Self> {
        let entry = module.entry_computation();
        let root = &module[entry.root];
        let Op::Dot { dims, .. } = &root.op else {
            return None;
        };
        let alone = entry.instructions.len() == 3
            && root.operands.len() == 2
            && root
                .operands
                .iter()
                .enumerate()
                .all(|(i, &id)| matches!(module[id].op, Op::Parameter(n) if n as usize == i));
        let floats = |ty| matches!(ty, ElementType::F32 | ElementType::BF16);
        let types = entry
            .instructions
            .iter()
            .map(|&id| module[id].shape.as_array());
        let all = types
            .into_iter()
            .all(|a| a.is_some_and(|a| floats(a.element_type)));
        (alone && all).then_some(Self {
            dims: dims.clone(),
            kept: kept(&root.op)?,
            result: root.shape.as_array()?.element_type,
        })
    }

    /// The product as `[batch, m, n]`, row-major in f32, before it is rounded to the result's type.
    pub(super) fn multiply(&self, lhs: &Literal, rhs: &Literal) -> Option<Vec<f32>> {
        let dims = &self.dims;
        let roles = dims.roles([lhs.shape().rank(), rhs.shape().rank()])?;
        let a = Side::new(lhs, &dims.lhs_batch, &roles.free(0), &dims.lhs_contracting)?;
        let b = Side::new(rhs, &dims.rhs_batch, &roles.free(1), &dims.rhs_contracting)?;
        let (batch, m, k, n) = (a.batch, a.free, a.contracted, b.free);
        let left = a.values(lhs, self.kept[0], false);
        let right = b.values(rhs, self.kept[1], true);
        let mut out = vec![0f32; batch * m * n];
        if k > 0 && m > 0 && n > 0 {
            for (i, c) in out.chunks_exact_mut(m * n).enumerate() {
                let a = &left[i * m * k..(i + 1) * m * k];
                let b = &right[i * k * n..(i + 1) * k * n];
                multiply(a, b, c, k, n);
            }
        }
        Some(out)
    }

    /// The type of the result.
    pub(super) fn result(&self) -> ElementType {
        self.result
    }
}

/// One operand: the total sizes of its batch, free and contracted dimensions, and how to walk them.
struct Side {
    batch: usize,
    free: usize,
    contracted: usize,
    /// Size and stride of each dimension, grouped as batch, free and contracted.
    groups: [Vec<(usize, usize)>; 3],
}

impl Side {
    fn new(literal: &Literal, batch: &[i64], free: &[usize], contracted: &[i64]) -> Option<Self> {
        let dims = literal.shape().static_dims()?;
        let mut strides = vec![1usize; dims.len()];
        for d in (1..dims.len()).rev() {
            strides[d - 1] = strides[d] * usize::try_from(dims[d]).ok()?;
        }
        let pick = |which: &[i64]| -> Option<Vec<(usize, usize)>> {
            let one = |&d: &i64| {
                let d = usize::try_from(d).ok()?;
                Some((usize::try_from(*dims.get(d)?).ok()?, *strides.get(d)?))
            };
            which.iter().map(one).collect()
        };
        let free: Vec<i64> = free.iter().map(|&d| d as i64).collect();
        let groups = [pick(batch)?, pick(&free)?, pick(contracted)?];
        let size = |group: &[(usize, usize)]| group.iter().map(|(size, _)| size).product();
        Some(Self {
            batch: size(&groups[0]),
            free: size(&groups[1]),
            contracted: size(&groups[2]),
            groups,
        })
    }

    /// The elements as `[batch, free, contracted]`, or with the last two exchanged.
    fn values(&self, literal: &Literal, kept: Option<u32>, exchanged: bool) -> Vec<f32> {
        let [batch, free, contracted] = &self.groups;
        let (middle, last) = if exchanged {
            (contracted, free)
        } else {
            (free, contracted)
        };
        let (batch, middle, last) = (offsets(batch), offsets(middle), offsets(last));
        let source = singles(literal, kept);
        let mut values = Vec::with_capacity(source.len());
        // Dimensions may be listed in any order: only the resulting offsets decide whether the walk
        // is contiguous.
        let contiguous = last.iter().copied().eq(0..last.len());
        for b in &batch {
            for m in &middle {
                let row = b + m;
                if let (true, Some(run)) = (contiguous, source.get(row..row + last.len())) {
                    values.extend_from_slice(run);
                } else {
                    values.extend(last.iter().filter_map(|l| source.get(row + l)));
                }
            }
        }
        values
    }
}

/// The offset of each index of some dimensions, row-major.
fn offsets(dims: &[(usize, usize)]) -> Vec<usize> {
    dims.iter().fold(vec![0], |offsets, &(size, stride)| {
        let next = offsets.iter();
        next.flat_map(|&o| (0..size).map(move |i| o + i * stride))
            .collect()
    })
}

/// The elements in f32, rounded to `kept` mantissa bits.
fn singles(literal: &Literal, kept: Option<u32>) -> Vec<f32> {
    let bytes = literal.bytes();
    if literal.element_type() == ElementType::BF16 {
        let words = bytes.chunks_exact(2);
        return words
            .map(|w| f32::from_bits(u32::from(u16::from_ne_bytes([w[0], w[1]])) << 16))
            .collect();
    }
    let words = bytes.chunks_exact(4);
    let words = words.map(|w| u32::from_ne_bytes([w[0], w[1], w[2], w[3]]));
    match kept {
        Some(bits) => words.map(|w| nearest(w, 23 - bits)).collect(),
        None => words.map(f32::from_bits).collect(),
    }
}

/// An f32 without its lowest `dropped` bits, rounded to nearest even.
fn nearest(word: u32, dropped: u32) -> f32 {
    if word & 0x7f80_0000 == 0x7f80_0000 {
        // Infinity stays infinity, and NaN stays NaN.
        let quiet = u32::from(word & 0x007f_ffff != 0) << 22;
        return f32::from_bits(word & !((1 << dropped) - 1) | quiet);
    }
    let half = (1 << (dropped - 1)) - 1 + ((word >> dropped) & 1);
    f32::from_bits(word.wrapping_add(half) & !((1 << dropped) - 1))
}

/// An f32 as bf16, rounded to nearest even.
pub(super) fn to_bf16(value: f32) -> u16 {
    (nearest(value.to_bits(), 16).to_bits() >> 16) as u16
}

/// Rows and columns of the block of the result that is kept in registers.
const ROWS: usize = 4;
const COLUMNS: usize = 8;

/// `c += a * b` for `a` of shape `[m, k]` and `b` of `[k, n]`; each element is the sum of its
/// products in increasing order of the contracted index.
pub(super) fn multiply(a: &[f32], b: &[f32], c: &mut [f32], k: usize, n: usize) {
    let wide = n / COLUMNS * COLUMNS;
    let mut packed = vec![[0f32; COLUMNS]; k];
    for j in (0..wide).step_by(COLUMNS) {
        for (slot, row) in packed.iter_mut().zip(b.chunks_exact(n)) {
            slot.copy_from_slice(&row[j..j + COLUMNS]);
        }
        for (rows, c) in a.chunks(ROWS * k).zip(c.chunks_mut(ROWS * n)) {
            if rows.len() == ROWS * k {
                let sums = tile(rows, &packed, k);
                for (r, sums) in sums.iter().enumerate() {
                    c[r * n + j..r * n + j + COLUMNS].copy_from_slice(sums);
                }
            } else {
                for (row, c) in rows.chunks_exact(k).zip(c.chunks_exact_mut(n)) {
                    let mut sums = [0f32; COLUMNS];
                    for (&x, b) in row.iter().zip(&packed) {
                        for (sum, &y) in sums.iter_mut().zip(b) {
                            *sum += x * y;
                        }
                    }
                    c[j..j + COLUMNS].copy_from_slice(&sums);
                }
            }
        }
    }
    for j in wide..n {
        for (row, c) in a.chunks_exact(k).zip(c.chunks_exact_mut(n)) {
            let column = b.iter().skip(j).step_by(n);
            c[j] = row
                .iter()
                .zip(column)
                .fold(0.0, |sum, (&x, &y)| sum + x * y);
        }
    }
}

fn tile(rows: &[f32], columns: &[[f32; COLUMNS]], k: usize) -> [[f32; COLUMNS]; ROWS] {
    let mut sums = [[0f32; COLUMNS]; ROWS];
    let (a, rest) = rows.split_at(k);
    let (b, rest) = rest.split_at(k);
    let (c, d) = rest.split_at(k);
    let rows = a.iter().zip(b).zip(c.iter().zip(d));
    for (((&a, &b), (&c, &d)), column) in rows.zip(columns) {
        for (sums, x) in sums.iter_mut().zip([a, b, c, d]) {
            for (sum, &y) in sums.iter_mut().zip(column) {
                *sum += x * y;
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_to_nearest_even() {
        assert_eq!(nearest(1.0f32.to_bits(), 16), 1.0);
        // Halfway between 1 and the next bf16: rounded to the even one.
        assert_eq!(nearest((1.0f32 + 1.0 / 256.0).to_bits(), 16), 1.0);
        assert_eq!(
            nearest((1.0f32 + 3.0 / 256.0).to_bits(), 16),
            1.0 + 4.0 / 256.0
        );
        assert!(nearest(0x7f80_0001, 16).is_nan());
        assert_eq!(nearest(f32::INFINITY.to_bits(), 16), f32::INFINITY);
        assert_eq!(nearest(f32::MAX.to_bits(), 16), f32::INFINITY);
    }

    #[test]
    fn dimensions_are_contracted_in_the_order_they_are_named() {
        let literal = Literal::from_f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]).unwrap();
        let values = |contracted: &[i64], free: &[usize]| {
            let side = Side::new(&literal, &[], free, contracted).unwrap();
            side.values(&literal, None, false)
        };
        assert_eq!(values(&[0, 1], &[]), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(values(&[1, 0], &[]), [1.0, 3.0, 2.0, 4.0]);
        assert_eq!(values(&[0], &[1]), [1.0, 3.0, 2.0, 4.0]);
    }

    #[test]
    fn products_of_all_shapes() {
        for (m, k, n) in [(1, 1, 1), (4, 8, 8), (5, 7, 9), (13, 3, 17), (8, 128, 128)] {
            let a: Vec<f32> = (0..m * k).map(|i| (i * 7 % 13) as f32 - 6.0).collect();
            let b: Vec<f32> = (0..k * n).map(|i| (i * 5 % 11) as f32 - 5.0).collect();
            let mut c = vec![0.0; m * n];
            multiply(&a, &b, &mut c, k, n);
            for i in 0..m {
                for j in 0..n {
                    let sum: f32 = (0..k).map(|p| a[i * k + p] * b[p * n + j]).sum();
                    assert_eq!(c[i * n + j], sum, "{m} {k} {n} at {i} {j}");
                }
            }
        }
    }
}
