//! The work of a block of vector code on the core's units, from the registers that its vectors
//! take.
//!
//! A vector is held in registers of sublanes and lanes, its two minor dimensions padded to them;
//! narrow elements share a lane. An elementwise operation issues once for each register, and
//! several operations issue at once. Loads, stores and moves of whole registers are counted by
//! their bytes. Movement of elements between lanes or sublanes is done by the cross-lane unit. The
//! counts of vector operations for functions are those of the usual polynomials (see
//! [`crate::work`]).

use super::{Kind, Operand, Ready};
use crate::engine::Work;
use crate::speeds::Speeds;
use tegula_mosaic::ir::{Binary, Cast, Op, Precision, Unary};
use tegula_mosaic::types::Element;

/// Whole-register operations that issue in one cycle (as in [`crate::work`]).
const SLOTS: f64 = 4.0;

/// The registers that a vector takes, with narrow elements packed.
pub(super) fn registers(dims: &[i64], element: Element, speeds: &Speeds) -> f64 {
    let lanes = speeds.lane_count.max(1.0);
    let sublanes = (speeds.lanes / lanes).max(1.0);
    let packing = (32.0 / f64::from(element.bits().max(8))).max(1.0);
    let up = |size: i64, to: f64| (size.max(1) as f64 / to).ceil();
    match dims {
        [] => 1.0,
        [n] => up(*n, lanes * sublanes * packing),
        [outer @ .., rows, columns] => {
            let outer: f64 = outer.iter().map(|d| (*d).max(1) as f64).product();
            outer * up(*rows, sublanes * packing) * up(*columns, lanes)
        }
    }
}

/// The vector operations of a function on one register.
fn function(op: Unary) -> f64 {
    match op {
        Unary::Abs | Unary::AbsInt | Unary::Negate => 1.0,
        Unary::IsNan | Unary::IsFinite | Unary::IsNotFinite => 1.0,
        Unary::IsInfinite | Unary::Floor | Unary::Ceil | Unary::Round | Unary::RoundEven => 2.0,
        Unary::Trunc | Unary::CountLeadingZeros | Unary::PopulationCount => 2.0,
        Unary::Sqrt | Unary::Rsqrt | Unary::Reciprocal => 8.0,
        _ => 16.0,
    }
}

/// The total work of a block's operations.
pub(in super::super) fn of_block(operations: &[Ready<'_>], speeds: &Speeds) -> Work {
    let works = operations.iter().map(|operation| of(operation, speeds));
    works.fold(Work::default(), |all, work| all.plus(&work))
}

fn of(operation: &Ready<'_>, speeds: &Speeds) -> Work {
    let made = registers(&operation.dims, operation.element, speeds);
    let count: f64 = operation.dims.iter().map(|d| (*d).max(0) as f64).product();
    let register_bytes = speeds.lanes * 4.0;
    let first = operation.operands.first();
    let given = first.map_or(0.0, |operand| match operand {
        Operand::Register(_, dims, element) => registers(dims, *element, speeds),
        Operand::Scalar(..) => 0.0,
    });
    let given_count = first.map_or(0.0, |operand| {
        operand.dims().iter().map(|d| (*d).max(0) as f64).product()
    });
    let vector = |operations: f64| Work {
        vector: operations / SLOTS,
        operations: count,
        ..Work::default()
    };
    let moved = |registers: f64| Work {
        cross_lane: registers / speeds.cross_lane_units.max(1.0),
        ..Work::default()
    };
    match &operation.kind {
        Kind::Move => Work::default(),
        Kind::Load(_) | Kind::Store(..) => Work {
            memory: made * register_bytes / speeds.vmem_bytes_per_cycle.max(1.0),
            ..Work::default()
        },
        Kind::Compute(op) => match op {
            Op::Constant(_) | Op::Reshape if first.is_none_or(|f| same_tiles(f, operation)) => {
                Work::default()
            }
            Op::Unary(op) => vector(made * function(*op)),
            Op::Binary(Binary::Div | Binary::Rem) => vector(made * 8.0),
            Op::Binary(Binary::DivSigned | Binary::DivUnsigned | Binary::RemSigned) => {
                vector(made * 16.0)
            }
            Op::Binary(Binary::Pow | Binary::Atan2) => vector(made * 32.0),
            Op::Cast(Cast::Mask | Cast::Bits) => Work::default(),
            Op::Cast(_) | Op::StochasticConvert => vector(made.max(given)),
            Op::Broadcast => match given_count {
                // A broadcast of a scalar or of one row takes one instruction for each register, or
                // none.
                n if n <= 1.0 => Work::default(),
                _ => moved(made),
            },
            Op::Reduce(_, along) => reduction(operation, along, given, given_count, speeds),
            Op::ReduceIndex(..) => vector(given * 3.0).plus(&moved(given * 7.0)),
            Op::Transpose(_)
            | Op::Reshape
            | Op::Rotate(..)
            | Op::Gather(_)
            | Op::Concatenate(_)
            | Op::Slice(..)
            | Op::Repeat(..)
            | Op::BitcastVector
            | Op::PackElementwise(_)
            | Op::UnpackElementwise(..) => moved(made.max(given)),
            Op::Matmul(dims, precision) => matmul(operation, dims, *precision, speeds),
            _ => vector(made),
        },
    }
}

/// Whether a reshape leaves every register as it is: the two minor dimensions stay.
fn same_tiles(operand: &Operand, operation: &Ready<'_>) -> bool {
    let minor = |dims: &[i64]| -> [i64; 2] {
        let at = |back: usize| dims.len().checked_sub(back).map_or(1, |d| dims[d]);
        [at(2), at(1)]
    };
    minor(operand.dims()) == minor(&operation.dims)
}

fn reduction(
    operation: &Ready<'_>,
    along: &[i64],
    given: f64,
    elements: f64,
    speeds: &Speeds,
) -> Work {
    let rank = operation.operands[0].dims().len() as i64;
    let across_lanes = along.contains(&(rank - 1));
    let across_sublanes = along.contains(&(rank - 2));
    let work = Work {
        vector: given / SLOTS,
        operations: elements,
        ..Work::default()
    };
    let left = given
        / operation.operands[0].dims().last().map_or(1.0, |n| {
            (*n as f64 / speeds.lane_count.max(1.0)).ceil().max(1.0)
        });
    let cross = match (across_lanes, across_sublanes) {
        // Whole registers are added first; the cross-lane unit then combines the lanes of each one
        // left.
        (true, _) => left,
        (false, true) => 3.0,
        _ => 0.0,
    };
    work.plus(&Work {
        cross_lane: cross / speeds.cross_lane_units.max(1.0),
        ..Work::default()
    })
}

fn matmul(
    operation: &Ready<'_>,
    dims: &tegula_mosaic::ir::DotDims,
    precision: Precision,
    speeds: &Speeds,
) -> Work {
    let (lhs, rhs) = (operation.operands[0].dims(), operation.operands[1].dims());
    let of = |dims: &[i64], which: &[i64]| -> f64 {
        which
            .iter()
            .map(|d| dims[*d as usize].max(1) as f64)
            .product()
    };
    let all = |dims: &[i64]| -> f64 { dims.iter().map(|d| (*d).max(1) as f64).product() };
    let batch = of(lhs, &dims.lhs_batch);
    let k = of(lhs, &dims.lhs_contracting);
    let m = all(lhs) / (batch * k);
    let n = all(rhs) / (batch * k);
    let types = [0, 1].map(|at| operation.operands[at].element());
    // Integers are extended to f32 where the other operand is of floating-point numbers.
    let bits = match types[0].is_float() == types[1].is_float() {
        true => types[0].bits(),
        false => 32,
    };
    // An f32 operand is rounded to bf16, unless the product is exact, which takes six passes.
    let (at, passes) = match (bits, precision) {
        (32, Precision::Float32) => (1, 6.0),
        (8, _) => (2, 1.0),
        _ => (1, 1.0),
    };
    let units = &speeds.matrix;
    let dim = units.dim.max(1.0);
    let rows = [8.0, 16.0, 32.0][at];
    let weights = (k / dim).ceil() * (n / dim).ceil();
    let latch = (dim / rows) * units.latch[at];
    let push = (m / rows).ceil() * units.cadence[at];
    let each = if units.overlap {
        push.max(latch)
    } else {
        push + latch
    };
    let cycles = batch * passes * weights * each / units.count.max(1.0);
    let partial =
        ((k / dim).ceil() - 1.0).max(0.0) * registers(&operation.dims, Element::F32, speeds);
    Work {
        matrix: cycles + units.latency,
        vector: (registers(&operation.dims, Element::F32, speeds) + partial) / SLOTS,
        operations: 2.0 * batch * m * k * n,
        ..Work::default()
    }
}
