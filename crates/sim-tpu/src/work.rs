//! The work of one computation on the core's units, from the shapes of its operations.
//!
//! Every operation works on whole vector registers, so shapes are counted with the padding of their
//! two minor dimensions. The matrix units compute a product as tiles of weights (`dim` x `dim`)
//! through which the rows of the other operand are pushed; the vector unit adds the partial sums.
//! The operand held as weights is the one that takes fewer cycles, as a compiler would choose. A
//! product with one row or column is not computed by the matrix units: it is multiplied and added
//! in vector registers, as libtpu's compiler does (matmul sweep of libtpu 0.0.50).
//!
//! A compiler-generated kernel processes its registers one after the other: each is loaded,
//! computed with and stored (or added to a sum) before the next, which takes at least the chip's
//! `register_pass` however few the operations are. Kernels written as text are assumed to be
//! scheduled better by their author.
//!
//! The counts of vector operations are those of the usual polynomials and iterations; they are not
//! measured. A factor of two in them matters only for a kernel that is bound by the vector unit.

use crate::engine::Work;
use crate::speeds::{MatrixUnits, Speeds};
use tegula_ir::{
    ArrayShape, Binary, ComputationId, ConvDims, DotDims, ElementType, Instruction, Module, Op,
    Precision, Shape, TO_END, Unary, WindowDim,
};

/// Whole-register operations that issue in one cycle ("4 f32 adds a cycle", scaling-book tpus.md,
/// Feb 2025, of v5).
const VECTOR_SLOTS: f64 = 4.0;
/// Vector operations of a transcendental function: range reduction, a polynomial of degree about 6,
/// reconstruction.
const TRANSCENDENTAL: f64 = 16.0;
/// Vector operations of a division or root: an estimate and two Newton steps.
const DIVISION: f64 = 8.0;
/// Rotations of a register that combine its 128 lanes, halving their number each time.
const LANE_STEPS: f64 = 7.0;
/// Cycles of a step that depends on the step before it: a division or a root, and a sum across the
/// lanes. libtpu 0.0.50's estimate for a Cholesky decomposition of 64 rows has 122.
const DEPENDENT_STEP: f64 = 120.0;
/// Cycles of the vector unit for each register of the operand that is not a vector, in a product
/// with one row or column: the register is spread over the lanes, multiplied and added. libtpu
/// 0.0.50's estimates for 1 x 1024 x 1024 and 1024 x 1024 x 1, less the 1824 cycles of any kernel,
/// have 12 to 18.
const VECTOR_PRODUCT: f64 = 15.0;
/// Cycles of the vector unit for each register of a product's result: it is taken from the matrix
/// unit, rounded, packed and stored. The estimates for products that sum over 128 or fewer elements
/// (16384 x 128 x 128, 4096 x 64 x 4096) have 8 to 14, of which half is assumed to overlap with the
/// products, as the published times of large products suggest.
const RESULT_REGISTER: f64 = 4.0;
/// With fewer input features than this, the number of a register's sublanes, several taps of a
/// convolution are laid out side by side and computed as one product.
const TAPS_TOGETHER: f64 = 8.0;
/// Cycles of the scalar unit for each row that is fetched by an index.
const INDEXED_ROW: f64 = 8.0;

/// The work of a module's entry computation: VMEM traffic for the bytes of its operands and
/// results, and the work of its operations on the units.
pub fn of(module: &Module, speeds: &Speeds) -> Work {
    let entry = module.entry_computation();
    let mut work = of_computation(module, module.entry, speeds, 0);
    if speeds.register_pass > 0.0 && !crate::machine::matrix::has_product(module) {
        let passes = register_passes(module, module.entry, speeds, 0);
        work.vector = work.vector.max(passes * speeds.register_pass);
    }
    let moved: f64 = entry
        .parameters
        .iter()
        .chain([&entry.root])
        .map(|&id| arrays(&module[id].shape).map(padded_bytes).sum::<f64>())
        .sum();
    work.memory += moved / speeds.vmem_bytes_per_cycle.max(1.0);
    work
}

/// The registers that a kernel without a product processes: those of the arrays that it reduces,
/// and those of its result if it computes the result and does not only move it.
fn register_passes(module: &Module, id: ComputationId, speeds: &Speeds, depth: usize) -> f64 {
    if depth > MOST_CALLS {
        return 0.0;
    }
    let computation = &module[id];
    let mut total = 0.0;
    let mut computes = false;
    for &id in &computation.instructions {
        let instruction = &module[id];
        let read = || {
            let first = instruction.operands.first();
            let array = first.and_then(|&id| module[id].shape.as_array());
            array.map_or(0.0, |array| registers(array, speeds))
        };
        match &instruction.op {
            Op::Fusion { calls, .. }
            | Op::Call {
                to_apply: calls, ..
            } => total += register_passes(module, *calls, speeds, depth + 1),
            Op::Reduce { .. } | Op::ReduceWindow { .. } | Op::SelectAndScatter { .. } => {
                total += read();
            }
            // A fast Fourier transform of `n` points makes `log2(n)` passes over the array.
            Op::Fft { length, .. } => {
                let points: f64 = length.iter().map(|&n| n.max(1) as f64).product();
                total += read() * points.log2().max(1.0);
            }
            // Widening unpacks registers; narrowing rounds and packs them.
            Op::Convert if is_widening(module, instruction) => {}
            op => {
                let result = instruction.shape.as_array();
                // Operations on single elements only compute where to read.
                let is_array = result.is_some_and(|array| elements(array) > 1.0);
                computes |= op.is_elementwise() && is_array;
            }
        }
    }
    let root = &module[computation.root];
    if computes && !matches!(root.op, Op::Reduce { .. }) {
        total += arrays(&root.shape)
            .map(|array| registers(array, speeds))
            .sum::<f64>();
    }
    total
}

fn is_widening(module: &Module, convert: &Instruction) -> bool {
    let operand = convert.operands.first();
    let operand = operand.and_then(|&id| module[id].shape.as_array());
    let bits = |array: &ArrayShape| array.element_type.bits();
    let (from, to) = (operand.map(bits), convert.shape.as_array().map(bits));
    from <= to
}

/// The greatest depth of nested calls; a verified module has no cycles, and deeper calls add no
/// cost.
const MOST_CALLS: usize = 64;

fn of_computation(module: &Module, id: ComputationId, speeds: &Speeds, depth: usize) -> Work {
    let mut total = Work::default();
    if depth > MOST_CALLS {
        return total;
    }
    for &id in &module[id].instructions {
        let instruction = &module[id];
        let own = match &instruction.op {
            Op::Fusion { calls, .. }
            | Op::Call {
                to_apply: calls, ..
            } => of_computation(module, *calls, speeds, depth + 1),
            Op::While { condition, body } => {
                let body = of_computation(module, *body, speeds, depth + 1);
                body.plus(&of_computation(module, *condition, speeds, depth + 1))
            }
            Op::Conditional { branches, .. } => branches
                .iter()
                .map(|&branch| of_computation(module, branch, speeds, depth + 1))
                .max_by(|a, b| a.bound().0.total_cmp(&b.bound().0))
                .unwrap_or_default(),
            _ => of_instruction(module, instruction, speeds),
        };
        total = total.plus(&own);
    }
    total
}

fn of_instruction(module: &Module, instruction: &Instruction, speeds: &Speeds) -> Work {
    let operand = |at: usize| {
        let id = instruction.operands.get(at)?;
        module[*id].shape.as_array()
    };
    let result = arrays(&instruction.shape).next();
    match (&instruction.op, result) {
        (
            Op::Dot {
                dims, precision, ..
            },
            Some(result),
        ) => {
            let (Some(lhs), Some(rhs)) = (operand(0), operand(1)) else {
                return Work::default();
            };
            product(
                &Product::of_dot(lhs, rhs, result, dims),
                &(result, lhs, passes(lhs.element_type, precision)),
                speeds,
            )
        }
        (
            Op::Convolution {
                window,
                dims,
                feature_group_count,
                batch_group_count,
                precision,
            },
            Some(result),
        ) => {
            let (Some(lhs), Some(rhs)) = (operand(0), operand(1)) else {
                return Work::default();
            };
            let groups = (feature_group_count * batch_group_count).max(1) as f64;
            product(
                &Product::of_convolution(rhs, result, window, dims, groups),
                &(result, lhs, passes(lhs.element_type, precision)),
                speeds,
            )
        }
        _ => {
            let work = other(module, instruction, speeds);
            Work {
                // The vector operations on whole registers, times their lanes.
                operations: work.vector * VECTOR_SLOTS * speeds.lanes,
                ..work
            }
        }
    }
}

/// A batch of products of `[m,k]` and `[k,n]`.
#[derive(Clone, Copy, Debug)]
struct Product {
    batch: f64,
    m: f64,
    k: f64,
    n: f64,
}

impl Product {
    fn of_dot(lhs: &ArrayShape, rhs: &ArrayShape, result: &ArrayShape, dims: &DotDims) -> Self {
        let sizes = |shape: &ArrayShape, dims: &[i64]| -> f64 {
            dims.iter().map(|&dim| size(shape, dim)).product()
        };
        let batch = sizes(lhs, &dims.lhs_batch);
        let k = sizes(lhs, &dims.lhs_contracting);
        let n = elements(rhs) / (batch * k).max(1.0);
        let m = elements(result) / (batch * n).max(1.0);
        Self { batch, m, k, n }
    }

    fn of_convolution(
        kernel: &ArrayShape,
        result: &ArrayShape,
        window: &[WindowDim],
        dims: &ConvDims,
        groups: f64,
    ) -> Self {
        let taps: f64 = window.iter().map(|dim| dim.size as f64).product();
        let n = size(kernel, dims.kernel_output_feature) / groups;
        let features = size(kernel, dims.kernel_input_feature);
        let m = elements(result) / (n * groups).max(1.0);
        if features < TAPS_TOGETHER {
            return Self {
                batch: groups,
                m,
                k: taps * features,
                n,
            };
        }
        // The features of one tap are along the lanes: each tap is a product of its own.
        Self {
            batch: groups * taps,
            m,
            k: features,
            n,
        }
    }
}

/// The number of passes of the matrix units over a product: f32 operands are split into parts of 8
/// mantissa bits, which needs 1, 3 or 6 products of parts depending on the precision.
fn passes(element_type: ElementType, precision: &[Precision]) -> f64 {
    if element_type.bits() <= 16 {
        return 1.0;
    }
    let worst = |a: f64, precision: &Precision| {
        a.max(match precision {
            Precision::Default => 1.0,
            Precision::High => 3.0,
            Precision::Highest => 6.0,
        })
    };
    precision.iter().fold(1.0, worst)
}

fn product(
    product: &Product,
    (result, operand, passes): &(&ArrayShape, &ArrayShape, f64),
    speeds: &Speeds,
) -> Work {
    let Product { batch, m, k, n } = *product;
    if m < 2.0 || k < 2.0 || n < 2.0 {
        // Multiplied and added in vector registers.
        let registers = (batch * m * n * k / speeds.lanes).max(1.0);
        return Work {
            vector: VECTOR_PRODUCT * registers,
            cross_lane: LANE_STEPS * (batch * m * n / speeds.lanes).max(1.0)
                / speeds.cross_lane_units,
            operations: 2.0 * batch * m * n * k,
            ..Work::default()
        };
    }
    let units = &speeds.matrix;
    let width = match operand.element_type.bits() {
        17.. => 0,
        9..=16 => 1,
        _ => 2,
    };
    // f32 operands are pushed as bf16 parts.
    let width = if width == 0 { 1 } else { width };
    let held = |rows: f64, columns: f64| matrix_cycles(units, width, (batch, rows, k, columns));
    let cycles = held(m, n).min(held(n, m));
    let depth = (k / units.dim).ceil();
    Work {
        matrix: passes * cycles,
        vector: (passes * depth / VECTOR_SLOTS + RESULT_REGISTER) * registers(result, speeds),
        operations: 2.0 * batch * m * n * k,
        ..Work::default()
    }
}

/// The cycles in which the matrix units multiply `batch` pairs of `[rows,k]` and `[k,columns]`, the
/// latter held as weights; `width` is 0, 1 or 2 for elements of 32, 16 or 8 bits.
///
/// Each tile of weights takes its rows in pushes of 8 (16, 32); the next tile's weights are loaded
/// meanwhile if the unit overlaps. Tiles are distributed over the units; with fewer tiles than
/// units, rows are.
pub fn matrix_cycles(
    units: &MatrixUnits,
    width: usize,
    (batch, rows, k, columns): (f64, f64, f64, f64),
) -> f64 {
    let packed = [8.0, 16.0, 32.0].get(width).copied().unwrap_or(8.0);
    let of = |values: [f64; 3]| values.get(width).copied().unwrap_or(values[0]);
    let tiles = batch * (k / units.dim).ceil() * (columns / units.dim).ceil();
    let count = units.count.max(1.0);
    let (rounds, rows) = if tiles >= count {
        ((tiles / count).ceil(), rows)
    } else {
        let shares = (count / tiles.max(1.0)).floor().max(1.0);
        (1.0, (rows / shares).ceil())
    };
    let push = (rows / packed).ceil() * of(units.cadence);
    let latch = units.dim / packed * of(units.latch);
    if units.overlap {
        latch + rounds * push.max(latch) + units.latency
    } else {
        rounds * (latch + push + units.latency) - 1.0
    }
}

fn other(module: &Module, instruction: &Instruction, speeds: &Speeds) -> Work {
    let read = |at: usize| {
        let id = instruction.operands.get(at)?;
        module[*id].shape.as_array()
    };
    let written: f64 = arrays(&instruction.shape)
        .map(|array| registers(array, speeds))
        .sum();
    let first = read(0).map_or(0.0, |array| registers(array, speeds));
    let vector = |operations: f64| Work {
        vector: operations / VECTOR_SLOTS,
        ..Work::default()
    };
    match &instruction.op {
        Op::Unary(op) => vector(written * unary(*op)),
        Op::Binary(op) => vector(written * binary(*op)),
        op if op.is_elementwise() => vector(written),
        // A scalar is in all lanes of a register already.
        Op::Broadcast(_) if read(0).is_some_and(|array| elements(array) <= 1.0) => Work::default(),
        Op::Reduce { dimensions, .. } => {
            // The registers along the lanes are added first; the remaining one is combined across
            // its lanes.
            let along_lanes = read(0).and_then(|array| {
                let minor = minor(array)?;
                let size = array.dims.get(minor)?.representative().max(1) as f64;
                dimensions
                    .contains(&(minor as i64))
                    .then(|| (size / speeds.lane_count).ceil())
            });
            let across = along_lanes.map_or(0.0, |registers| LANE_STEPS * first / registers);
            Work {
                vector: first / VECTOR_SLOTS,
                cross_lane: across / speeds.cross_lane_units,
                ..Work::default()
            }
        }
        Op::ReduceWindow { window, .. } | Op::SelectAndScatter { window, .. } => {
            // Long windows are combined by doubling.
            let taps = |dim: &WindowDim| {
                let size = dim.size.max(1) as f64;
                size.min(2.0 * size.log2().ceil() + 1.0)
            };
            let taps: f64 = window.iter().map(taps).product();
            vector(written.max(first) * taps)
        }
        Op::Transpose(_) | Op::Copy | Op::Reverse(_) if moves_lanes(module, instruction) => Work {
            vector: written / VECTOR_SLOTS,
            cross_lane: written / speeds.cross_lane_units,
            ..Work::default()
        },
        Op::Gather { slice_sizes, .. } => {
            let whole =
                |dim: usize| read(0).and_then(|array| Some(array.dims.get(dim)?.representative()));
            let taken = |(dim, &size): (usize, &i64)| match size {
                TO_END => whole(dim).unwrap_or(1) as f64,
                size => size as f64,
            };
            let row: f64 = slice_sizes.iter().enumerate().map(taken).product();
            let rows = arrays(&instruction.shape).map(elements).sum::<f64>() / row.max(1.0);
            vector(written.max(rows * INDEXED_ROW))
        }
        Op::Scatter { .. } => {
            let rows = read(1).map_or(0.0, elements);
            vector(first + rows * INDEXED_ROW)
        }
        // Five operations for each element and doubling (Cooley-Tukey).
        Op::Fft { length, .. } => {
            let points: f64 = length.iter().map(|&n| n.max(1) as f64).product();
            vector(5.0 * written.max(first) * points.log2().max(1.0))
        }
        Op::Cholesky { .. } | Op::TriangularSolve { .. } => {
            let dims = read(0).and_then(ArrayShape::static_dims);
            let n = dims.and_then(|dims| dims.last().copied()).unwrap_or(1) as f64;
            // Each row waits for the one before it.
            let steps = n * DEPENDENT_STEP;
            let all = written * n / 2.0;
            vector(steps * VECTOR_SLOTS + all)
        }
        Op::Sort { .. } | Op::TopK { .. } => {
            let length = read(0)
                .and_then(ArrayShape::static_dims)
                .and_then(|dims| dims.last().copied());
            let rounds = (length.unwrap_or(2).max(2) as f64).log2().ceil();
            // A sorting network of compare-exchange steps: n log n (log n + 1) / 4 pairs.
            let steps = rounds * (rounds + 1.0) / 2.0;
            Work {
                vector: first * steps / VECTOR_SLOTS,
                cross_lane: first * steps / speeds.cross_lane_units,
                ..Work::default()
            }
        }
        Op::Parameter(_) | Op::Constant(_) | Op::Tuple | Op::GetTupleElement(_) | Op::Bitcast => {
            Work::default()
        }
        _ => vector(written),
    }
}

fn unary(op: Unary) -> f64 {
    match op {
        Unary::Abs
        | Unary::Negate
        | Unary::Not
        | Unary::Sign
        | Unary::Floor
        | Unary::Ceil
        | Unary::IsFinite
        | Unary::Real
        | Unary::Imag
        | Unary::RoundNearestAfz
        | Unary::RoundNearestEven
        | Unary::CountLeadingZeros
        | Unary::Popcnt => 1.0,
        Unary::Sqrt | Unary::Rsqrt => DIVISION,
        _ => TRANSCENDENTAL,
    }
}

fn binary(op: Binary) -> f64 {
    match op {
        Binary::Divide | Binary::Remainder => DIVISION,
        Binary::Power | Binary::Atan2 => 2.0 * TRANSCENDENTAL,
        _ => 1.0,
    }
}

/// Whether the dimension along the lanes changes.
fn moves_lanes(module: &Module, instruction: &Instruction) -> bool {
    let operand = instruction.operands.first();
    let operand = operand.and_then(|&id| module[id].shape.as_array());
    let (Some(from), Some(to)) = (operand, instruction.shape.as_array()) else {
        return false;
    };
    let to = minor(to);
    match &instruction.op {
        Op::Transpose(permutation) => {
            let source = to.and_then(|dim| permutation.get(dim).copied());
            source != minor(from).map(|dim| dim as i64)
        }
        Op::Reverse(dimensions) => to.is_some_and(|dim| dimensions.contains(&(dim as i64))),
        _ => to != minor(from),
    }
}

/// The dimension that is along the lanes.
fn minor(shape: &ArrayShape) -> Option<usize> {
    match &shape.layout {
        Some(layout) => layout.minor_to_major.first().map(|&dim| dim as usize),
        None => shape.dims.len().checked_sub(1),
    }
}

fn arrays(shape: &Shape) -> impl Iterator<Item = &ArrayShape> {
    let (one, many) = match shape {
        Shape::Array(array) => (Some(array), None),
        Shape::Tuple(shapes) => (None, Some(shapes)),
        _ => (None, None),
    };
    let many = many.into_iter().flatten().filter_map(Shape::as_array);
    one.into_iter().chain(many)
}

fn size(shape: &ArrayShape, dim: i64) -> f64 {
    let dim = usize::try_from(dim).ok();
    dim.and_then(|dim| shape.dims.get(dim))
        .map_or(1.0, |dim| dim.representative() as f64)
}

fn elements(shape: &ArrayShape) -> f64 {
    shape
        .dims
        .iter()
        .map(|dim| dim.representative() as f64)
        .product()
}

/// The elements of an array with its two minor dimensions rounded up to a register's sublanes and
/// lanes.
fn padded_elements(shape: &ArrayShape) -> f64 {
    let rank = shape.dims.len();
    let order: Vec<usize> = match &shape.layout {
        Some(layout) if layout.minor_to_major.len() == rank => layout
            .minor_to_major
            .iter()
            .map(|&dim| dim as usize)
            .collect(),
        _ => (0..rank).rev().collect(),
    };
    let mut product = 1.0;
    for (at, &dim) in order.iter().enumerate() {
        let size = shape
            .dims
            .get(dim)
            .map_or(1, tegula_ir::Dim::representative);
        let granule = match (at, rank) {
            // A one-dimensional array also fills the sublanes.
            (0, 1) => 1024,
            (0, _) => 128,
            (1, _) => 8,
            _ => 1,
        };
        product *= (size.max(0) as f64 / f64::from(granule)).ceil() * f64::from(granule);
    }
    product
}

/// The 32-bit vector registers that an array fills: narrower elements are widened for computing.
fn registers(shape: &ArrayShape, speeds: &Speeds) -> f64 {
    let wide = (f64::from(shape.element_type.bits()) / 32.0).max(1.0);
    padded_elements(shape) * wide / speeds.lanes.max(1.0)
}

fn padded_bytes(shape: &ArrayShape) -> f64 {
    padded_elements(shape) * f64::from(shape.element_type.bits()) / 8.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A weight-stationary array of 128 x 128 that loads its weights row by row without overlap:
    /// the configuration in which SCALE-Sim's cycles are `folds * (M + 2R + C - 2) - 1`.
    #[test]
    fn the_closed_form_of_a_systolic_array() {
        let units = MatrixUnits {
            count: 1.0,
            dim: 128.0,
            cadence: [8.0, 16.0, 32.0],
            latch: [8.0, 16.0, 32.0],
            latency: 128.0 + 128.0 - 2.0,
            overlap: false,
        };
        for (n, expected) in [(256.0, 2551.0), (512.0, 14303.0), (1024.0, 89983.0)] {
            assert_eq!(matrix_cycles(&units, 1, (1.0, n, n, n)), expected);
        }
    }

    #[test]
    fn a_large_product_runs_near_the_peak() {
        let chip = tegula_target::Chip::by_name("v5e").expect("v5e is a known chip");
        let speeds = Speeds::of(&chip).expect("it has a clock");
        let n = 4096.0;
        let cycles = matrix_cycles(&speeds.matrix, 1, (1.0, n, n, n));
        let peak = 2.0 * n * n * n / (cycles / speeds.clock);
        assert!((0.99..1.01).contains(&(peak / 197e12)), "{peak}");
    }
}
