//! Expands a product of complex matrices into one product of real matrices.
//!
//! The smaller operand, `x`, becomes a matrix of 2 x 2 blocks, and the other one, `y`, a row of two
//! blocks. Let `c` be the part (real or imaginary) that is summed over, and `d` the part of the
//! result:
//!
//! ```text
//!          d = 0    1
//! c = 0 |   re x   im x |       | re y  im y | times it is | re xy  im xy |
//!     1 |  -im x   re x |
//! ```
//!
//! The parts are in separate blocks rather than interleaved, so that the loops that read and write
//! them vectorise.

use super::{plain, sizes};
use tegula_ir::{
    Binary, ComputationBuilder, ComputationId, DimNumbers, DotDims, Error, Instruction,
    InstructionId, Module, ModuleBuilder, Op, Shape, SliceDim, Unary,
};

/// The least number of uses of each element. A real product takes extra passes over the operands
/// and the result, about half a nanosecond per element, and saves about nine tenths of a nanosecond
/// per multiplication of two elements.
const LEAST_USES: i64 = 4;
/// The least number of multiplications: those that take as long as calling three more kernels.
const LEAST_WORK: i64 = 4096;

/// Whether an instruction is a product of complex matrices of known sizes that is large enough to
/// be expanded.
pub(super) fn is_large(module: &Module, instruction: &Instruction) -> bool {
    let (Op::Dot { dims, .. }, [lhs, rhs]) = (&instruction.op, &instruction.operands[..]) else {
        return false;
    };
    let shapes = [&instruction.shape, &module[*lhs].shape, &module[*rhs].shape];
    let [Some(result), Some(lhs), Some(rhs)] = shapes.map(Shape::as_array) else {
        return false;
    };
    let ty = result.element_type;
    if !ty.is_complex() || lhs.element_type != ty || rhs.element_type != ty {
        return false;
    }
    let count = |shape: &tegula_ir::ArrayShape| {
        let dims = shape.static_dims()?;
        dims.iter().try_fold(1i64, |n, &d| n.checked_mul(d))
    };
    let (Some(out), Some(left), Some(right)) = (count(result), count(lhs), count(rhs)) else {
        return false;
    };
    let depth = dims.lhs_contracting.iter().try_fold(1i64, |n, &d| {
        n.checked_mul(lhs.dims.get(usize::try_from(d).ok()?)?.as_static()?)
    });
    let Some(work) = depth.and_then(|depth| out.checked_mul(depth)) else {
        return false;
    };
    // The four blocks have twice as many numbers as the smaller operand.
    let passes = [right, left.min(right), out]
        .into_iter()
        .fold(left, i64::saturating_add);
    work >= LEAST_WORK && work / LEAST_USES >= passes
}

/// An operand of the product: its sizes, and its batch and contracted dimensions.
struct Side {
    sizes: Vec<i64>,
    batch: DimNumbers,
    contracted: DimNumbers,
}

impl Side {
    /// The dimension before which the dimension `c` is inserted.
    fn summed(&self) -> usize {
        let first = self.contracted.iter().min();
        first.map_or(self.sizes.len(), |&d| d as usize)
    }

    /// The dimension before which the dimension `d` is inserted: the first free one.
    fn own(&self) -> usize {
        let shared = |d: &usize| {
            let d = *d as i64;
            self.batch.contains(&d) || self.contracted.contains(&d)
        };
        (0..self.sizes.len())
            .find(|d| !shared(d))
            .unwrap_or(self.sizes.len())
    }

    /// Stacks two arrays along a new dimension before dimension `at`.
    fn stacked(
        b: &mut ComputationBuilder<'_>,
        parts: [InstructionId; 2],
        at: usize,
    ) -> Result<InstructionId, Error> {
        let mut dims = sizes(b, parts[0])?;
        dims.insert(at, 1);
        let [x, y] = parts.map(|part| b.reshape(part, &dims));
        b.concatenate(&[x?, y?], at as i64)
    }

    /// Renumbers dimensions after inserting new ones before the dimensions `new`.
    fn moved(dims: &DimNumbers, new: &[usize]) -> DimNumbers {
        let passed = |d: i64| new.iter().filter(|&&at| at as i64 <= d).count() as i64;
        dims.iter().map(|&d| d + passed(d)).collect()
    }
}

/// The computation of a product of complex matrices.
pub(super) fn product(
    builder: &mut ModuleBuilder,
    op: &Op,
    operands: &[Shape],
    result: &Shape,
) -> Result<ComputationId, Error> {
    let wrong =
        || Error::input("expected a dot product of two arrays, with an array as its result");
    let (
        Op::Dot {
            dims, precision, ..
        },
        [Shape::Array(lhs), Shape::Array(rhs)],
        Shape::Array(out),
    ) = (op, operands, result)
    else {
        return Err(wrong());
    };
    let mut b = builder.computation("complex_product");
    let parameters = [lhs, rhs].map(|shape| b.parameter(Shape::Array(plain(shape))));
    let sides = [
        Side {
            sizes: sizes(&b, parameters[0])?,
            batch: dims.lhs_batch.clone(),
            contracted: dims.lhs_contracting.clone(),
        },
        Side {
            sizes: sizes(&b, parameters[1])?,
            batch: dims.rhs_batch.clone(),
            contracted: dims.rhs_contracting.clone(),
        },
    ];
    let count = |side: &Side| side.sizes.iter().product::<i64>();
    let in_blocks = usize::from(count(&sides[1]) <= count(&sides[0]));
    let mut real = Vec::new();
    for (i, side) in sides.iter().enumerate() {
        let x = parameters[i];
        let [re, im] = [b.unary(Unary::Real, x)?, b.unary(Unary::Imag, x)?];
        let (summed, own) = (side.summed(), side.own());
        if i != in_blocks {
            let x = Side::stacked(&mut b, [re, im], summed)?;
            real.push((x, summed, vec![summed]));
            continue;
        }
        let minus = b.unary(Unary::Negate, im)?;
        let rows = [
            Side::stacked(&mut b, [re, im], own)?,
            Side::stacked(&mut b, [minus, re], own)?,
        ];
        let at = summed + usize::from(own <= summed);
        real.push((Side::stacked(&mut b, rows, at)?, at, vec![summed, own]));
    }
    let numbers = |i: usize| {
        let (_, c, new) = &real[i];
        let mut contracted = Side::moved(&sides[i].contracted, new);
        contracted.insert(0, *c as i64);
        (Side::moved(&sides[i].batch, new), contracted)
    };
    let ((lhs_batch, lhs_contracting), (rhs_batch, rhs_contracting)) = (numbers(0), numbers(1));
    let own_of_lhs = sides[0].sizes.len() - lhs_contracting.len() + 1;
    let op = Op::Dot {
        dims: DotDims {
            lhs_batch,
            rhs_batch,
            lhs_contracting,
            rhs_contracting,
        },
        precision: precision.clone(),
        algorithm: None,
    };
    let both = b.push(op, &[real[0].0, real[1].0])?;
    // The part's dimension comes after the batch dimensions, and after the left operand's free ones
    // if it belongs to the right operand.
    let at = match in_blocks {
        0 => dims.lhs_batch.len(),
        _ => own_of_lhs,
    };
    let dims = sizes(&b, both)?;
    let out: Vec<i64> = out.static_dims().ok_or_else(wrong)?.to_vec();
    let [re, im] = [0, 1].map(|part| {
        let dim = |(d, &size): (usize, &i64)| {
            let [start, limit] = if d == at { [part, part + 1] } else { [0, size] };
            SliceDim {
                start,
                limit,
                stride: 1,
            }
        };
        let slice: Vec<SliceDim> = dims.iter().enumerate().map(dim).collect();
        let part = b.slice(both, &slice)?;
        b.reshape(part, &out)
    });
    let root = b.binary(Binary::Complex, re?, im?)?;
    b.finish(root)
}
