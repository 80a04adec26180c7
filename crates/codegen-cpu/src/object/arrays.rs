//! Operations on whole arrays as calls of routines of `crates/rt`: sorts, random bits,
//! factorisations, Fourier transforms. Each call gets a description as an array of words, which may
//! depend on open sizes.

use crate::library::sort_key::SortKey;
use tegula_expr::Term;
use tegula_fusion::LibraryOp;
use tegula_ir::{
    ArrayShape, Dim, ElementType, FftType, Literal, Op, RngAlgorithm, TransposeA, lapack_target,
};
use tegula_linalg::dense::{Cholesky, Complex, Lu, Solve};
use tegula_linalg::fourier::{self, FEW_LINES, Fourier};
use tegula_linalg::sort::{MAX_ARRAYS, Sort};
use tegula_linalg::top_k::TopK;
use tegula_plan::{Plan, ValueId};
use tegula_scalar::random::has_random_bits;
use tegula_target::{CpuFeatures, VectorWidth};

/// The routine that computes the scratch memory of a matrix routine, for the type with which its
/// name ends.
macro_rules! of_type {
    ($routine:expr, $what:expr) => {
        match $routine.rsplit('_').next() {
            Some("f32") => $what.scratch_bytes::<f32>(),
            Some("f64") => $what.scratch_bytes::<f64>(),
            Some("c64") => $what.scratch_bytes::<Complex<f32>>(),
            _ => $what.scratch_bytes::<Complex<f64>>(),
        }
    };
}

/// A call on whole arrays.
pub(super) struct ArrayCall {
    pub routine: &'static str,
    /// The routine that computes the bytes of scratch memory, if it needs any.
    pub scratch: Option<&'static str>,
    pub words: Vec<Term>,
    /// The routine's other argument.
    pub data: Data,
    /// Other arguments for small numbers of lines. If several apply, the last one is used.
    pub for_few: Vec<ForFew>,
}

/// The arguments of a routine if an open number of lines is small.
pub(super) struct ForFew {
    /// The number of lines, and its minimum and maximum.
    pub lines: Term,
    pub least: i64,
    pub most: i64,
    pub words: Vec<Term>,
    /// The number of the constant that is the other argument.
    pub constant: usize,
}

impl ArrayCall {
    /// The bytes of scratch memory, if they depend on no size.
    pub(super) fn known_scratch(&self) -> Option<usize> {
        let words: Option<Vec<i64>> = self.words.iter().map(Term::as_constant).collect();
        let words = words?;
        let known: Option<Vec<usize>> = words
            .iter()
            .map(|&word| usize::try_from(word).ok())
            .collect();
        let Some(routine) = self.scratch else {
            return Some(0);
        };
        let bytes = match (routine, known.as_deref()) {
            (FFT_F32, _) => Fourier::<f32>::new(words.get(2..)?, &[]).scratch_bytes(),
            (FFT_F64, _) => Fourier::<f64>::new(words.get(2..)?, &[]).scratch_bytes(),
            (SORT, _) => {
                let &[length, stride, rows, count, key, _, _, ref rest @ ..] = &words[..] else {
                    return None;
                };
                let [length, stride, rows, count] =
                    [length, stride, rows, count].map(|n| usize::try_from(n).unwrap_or(0));
                let sizes = rest.get(..count)?.iter().map(|&size| size as usize);
                let sort = Sort {
                    length,
                    stride,
                    rows,
                    sizes: &sizes.collect::<Vec<_>>(),
                };
                let key = usize::try_from(key).ok();
                let key = key.and_then(|key| ElementType::ALL.get(key));
                sort.scratch_bytes(key.map(|key| key.storage_bytes()))
            }
            (TOP_K, Some(&[length, rows, k, largest, element_type])) => TopK {
                isa: CpuFeatures::default(),
                element_type: *ElementType::ALL.get(element_type)?,
                rows,
                length,
                k,
                largest: largest != 0,
            }
            .scratch_bytes(),
            (_, Some(&[rows, columns, count])) if routine.starts_with(LU) => {
                let lu = Lu {
                    rows,
                    columns,
                    count,
                };
                of_type!(routine, lu)
            }
            (_, Some(&[n, count, lower])) => {
                let lower = lower != 0;
                let cholesky = Cholesky { n, count, lower };
                of_type!(routine, cholesky)
            }
            (_, Some(&[rows, columns, count, flags])) => {
                let solve = Solve {
                    rows,
                    columns,
                    count,
                    left_side: flags & 1 != 0,
                    ..Solve::default()
                };
                of_type!(routine, solve)
            }
            _ => return None,
        };
        Some(bytes)
    }
}

const FFT_F32: &str = "tegula_rt_scratch_fft_f32";
const FFT_F64: &str = "tegula_rt_scratch_fft_f64";
const SORT: &str = "tegula_rt_scratch_sort";
/// Prefixes of the names of scratch routines.
const LU: &str = "tegula_rt_scratch_lu";
const TOP_K: &str = "tegula_rt_scratch_top_k";

/// The argument of a routine that is not an integer (`words`).
pub(super) enum Data {
    Nothing,
    /// A constant, by number.
    Constant(usize),
    /// The program's functions for this sort.
    Sort,
}

/// The name of a routine for this vector width, for some types.
macro_rules! named {
    ($width:expr, $first:literal) => {
        match $width {
            VectorWidth::Portable => concat!($first, "_portable"),
            VectorWidth::Avx2 => concat!($first, "_avx2"),
            VectorWidth::Avx512 => concat!($first, "_avx512"),
            VectorWidth::Neon => concat!($first, "_neon"),
        }
    };
    ($width:expr, $first:literal, $ty:expr, $($known:ident $name:literal),*) => {
        match ($width, $ty) {
            $(
                (VectorWidth::Portable, ElementType::$known) => concat!($first, "_portable_", $name),
                (VectorWidth::Avx2, ElementType::$known) => concat!($first, "_avx2_", $name),
                (VectorWidth::Neon, ElementType::$known) => concat!($first, "_neon_", $name),
                // Results do not depend on the width of vectors; routines for complex numbers use
                // 256 bits.
                (VectorWidth::Avx512, ElementType::$known) => match ElementType::$known.is_complex() {
                    true => concat!($first, "_avx2_", $name),
                    false => concat!($first, "_avx512_", $name),
                },
            )*
            _ => return None,
        }
    };
}

macro_rules! scratch_of {
    ($first:literal, $ty:expr) => {
        match $ty {
            ElementType::F32 => concat!($first, "_f32"),
            ElementType::F64 => concat!($first, "_f64"),
            ElementType::C64 => concat!($first, "_c64"),
            _ => concat!($first, "_c128"),
        }
    };
}

/// The number that identifies a type to routines.
pub(super) fn element_type_number(ty: ElementType) -> i64 {
    let place = ElementType::ALL.iter().position(|&known| known == ty);
    place.unwrap_or(0) as i64
}

/// The call for an operation on these operands and results; `None` if objects do not support it.
/// `constant` adds a constant to the object and returns its number.
pub(super) fn array_call(
    width: VectorWidth,
    plan: &Plan,
    (op, operands, results): (&LibraryOp, &[ValueId], &[ValueId]),
    constant: &mut dyn FnMut(Literal) -> usize,
) -> Option<ArrayCall> {
    let shapes = |values: &[ValueId]| -> Vec<ArrayShape> {
        let shapes = values.iter().map(|&value| plan.values[value].shape.clone());
        shapes.collect()
    };
    let (given, gives) = (shapes(operands), shapes(results));
    let (first, result) = (given.first()?, gives.first()?);
    match op {
        LibraryOp::Sort {
            dimension,
            comparator,
        } => sort(
            &given,
            *dimension,
            crate::library::sort_key::key_of(comparator).as_ref(),
        ),
        LibraryOp::Dot(_) => None,
        LibraryOp::Operation(op) => match &**op {
            Op::TopK { k, largest, .. } => top_k(width, first, &gives, *k, *largest),
            Op::RngBitGenerator(algorithm) => random_bits(*algorithm, first, gives.get(1)?),
            Op::Cholesky { lower } => cholesky(width, first, *lower),
            Op::TriangularSolve {
                left_side,
                lower,
                unit_diagonal,
                transpose_a,
            } => {
                let flags = [
                    *left_side,
                    *lower,
                    *unit_diagonal,
                    *transpose_a != TransposeA::NoTranspose,
                    *transpose_a == TransposeA::Adjoint,
                ];
                solve(width, [first, given.get(1)?], result, flags)
            }
            Op::CustomCall(call) if &*call.target == "LuDecomposition" => lu(width, first, &gives),
            Op::CustomCall(call) => match lapack_target(&call.target) {
                Some((ty, "gtsv")) => tridiagonal_solve(ty, &given, &gives),
                _ => None,
            },
            Op::Fft { kind, length } => {
                fft(width, (*kind, length.len()), [first, result], constant)
            }
            _ => None,
        },
    }
}

fn fft(
    width: VectorWidth,
    (kind, count): (FftType, usize),
    [operand, result]: [&ArrayShape; 2],
    constant: &mut dyn FnMut(Literal) -> usize,
) -> Option<ArrayCall> {
    let full = match kind {
        FftType::Irfft => result,
        _ => operand,
    };
    let is_single = [operand, result]
        .iter()
        .any(|shape| shape.element_type == ElementType::C64);
    let real = if is_single {
        ElementType::F32
    } else {
        ElementType::F64
    };
    // Dimensions that are not transformed may be open.
    let first = full.dims.len().checked_sub(count)?;
    let sizes: Option<Vec<usize>> = full
        .dims
        .iter()
        .enumerate()
        .map(|(at, dim)| match dim {
            Dim::Static(size) => usize::try_from(*size).ok(),
            // A number that is most likely enough to fill vectors.
            _ if at < first => Some(16),
            _ => None,
        })
        .collect();
    let sizes = sizes?;
    let planned = fourier::Plan::new(kind, &sizes, count);
    let (words, numbers) = fft_words(&planned, full, is_single, constant)?;
    let mut for_few = Vec::new();
    for (few, [least, most]) in fft_of_few_lines(kind, full, count) {
        // The words without the sizes of dimensions that are not transformed.
        let rest = |plan: &fourier::Plan| {
            let dims = Fourier::<f32>::DIMS..Fourier::<f32>::DIMS + sizes.len();
            let words = plan.words.iter().enumerate();
            let others = words.filter(|(at, _)| !dims.contains(at));
            others.map(|(_, &word)| word).collect::<Vec<i64>>()
        };
        if rest(&few) != rest(&planned) || few.numbers != planned.numbers {
            let (words, constant) = fft_words(&few, full, is_single, constant)?;
            for_few.push(ForFew {
                lines: lines(full)?,
                least,
                most,
                words,
                constant,
            });
        }
    }
    let scratch = if is_single { FFT_F32 } else { FFT_F64 };
    Some(ArrayCall {
        routine: named!(width, "tegula_rt_fft", real, F32 "f32", F64 "f64"),
        scratch: Some(scratch),
        words,
        data: Data::Constant(numbers),
        for_few,
    })
}

/// The number of lines of a transform along the last dimension.
fn lines(full: &ArrayShape) -> Option<Term> {
    Some(count(full.dims.split_last()?.1))
}

/// The words of a planned transform, and the constant with its numbers.
fn fft_words(
    planned: &fourier::Plan,
    full: &ArrayShape,
    is_single: bool,
    constant: &mut dyn FnMut(Literal) -> usize,
) -> Option<(Vec<Term>, usize)> {
    let numbers = planned.numbers.iter();
    let (real, bytes): (ElementType, Vec<u8>) = match is_single {
        true => {
            let each = numbers.flat_map(|&x| (x as f32).to_le_bytes());
            (ElementType::F32, each.collect())
        }
        false => {
            let each = numbers.flat_map(|&x| x.to_le_bytes());
            (ElementType::F64, each.collect())
        }
    };
    let counts = [planned.words.len(), planned.numbers.len()].map(|n| n as i64);
    let shape = ArrayShape::new(real, &counts[1..]);
    let number = constant(Literal::from_bytes(&shape, &bytes).ok()?);
    let words = counts.iter().chain(&planned.words);
    let mut words: Vec<Term> = words.map(|&word| Term::constant(word)).collect();
    for (at, dim) in full.dims.iter().enumerate() {
        words[2 + Fourier::<f32>::DIMS + at] = dim.term();
    }
    Some((words, number))
}

/// The plans that a run uses for a transform of an open number of lines if these are few, each with
/// the minimum and maximum number: a single line of real numbers may be transformed as half as many
/// complex ones, and few lines are not vectorised across lines.
fn fft_of_few_lines(
    kind: FftType,
    full: &ArrayShape,
    count: usize,
) -> Vec<(fourier::Plan, [i64; 2])> {
    let others = full.dims.split_last().map_or(&[][..], |(_, others)| others);
    let known = others.iter().filter_map(|dim| match dim {
        Dim::Static(size) => usize::try_from(*size).ok(),
        _ => None,
    });
    let known = known.fold(1, usize::saturating_mul);
    let Some(open) = (others.iter()).position(|dim| !matches!(dim, Dim::Static(_))) else {
        return Vec::new();
    };
    let with = |lines: usize| {
        let sizes = full.dims.iter().enumerate().map(|(at, dim)| match dim {
            Dim::Static(size) => usize::try_from(*size).unwrap_or(0),
            _ if at == open => lines,
            _ => 1,
        });
        fourier::Plan::new(kind, &sizes.collect::<Vec<_>>(), count)
    };
    let few = FEW_LINES as i64 - 1;
    match known {
        1 => vec![(with(2), [0, few]), (with(1), [1, 1])],
        2..FEW_LINES => vec![(with(1), [0, few])],
        _ => Vec::new(),
    }
}

fn constants<const N: usize>(words: [i64; N]) -> impl Iterator<Item = Term> {
    words.into_iter().map(Term::constant)
}

/// The number of elements of some dimensions.
fn count(dims: &[Dim]) -> Term {
    let one = Term::constant(1);
    dims.iter().fold(one, |all, dim| all.mul(&dim.term()))
}

fn sort(shapes: &[ArrayShape], dimension: usize, key: Option<&SortKey>) -> Option<ArrayCall> {
    let dims = &shapes.first()?.dims;
    let (outer, inner) = (dims.get(..dimension)?, dims.get(dimension + 1..)?);
    if shapes.len() > MAX_ARRAYS {
        return None;
    }
    // The kernel of keys has 32-bit indices: at run time their range is checked.
    let key_type = key.map_or(-1, |key| element_type_number(key.element_type));
    let descending = key.is_some_and(|key| key.order.is_descending());
    let arrays = key.map_or(&[][..], |key| &key.arrays[..]);
    let inner = count(inner);
    let mut words = vec![
        dims.get(dimension)?.term(),
        inner.clone(),
        count(outer).mul(&inner),
    ];
    words.extend(constants([
        shapes.len() as i64,
        key_type,
        i64::from(descending),
        arrays.len() as i64,
    ]));
    let sizes = shapes.iter().map(|s| s.element_type.storage_bytes());
    let rest = sizes.chain(arrays.iter().copied());
    words.extend(rest.map(|n| Term::constant(n as i64)));
    Some(ArrayCall {
        routine: "tegula_rt_sort",
        scratch: Some(SORT),
        words,
        data: Data::Sort,
        for_few: Vec::new(),
    })
}

fn top_k(
    width: VectorWidth,
    operand: &ArrayShape,
    results: &[ArrayShape],
    k: i64,
    largest: bool,
) -> Option<ArrayCall> {
    let (length, outer) = operand.dims.split_last()?;
    let is_known = match length {
        Dim::Static(length) => (0..=*length).contains(&k),
        _ => false,
    };
    let places = results.get(1)?.element_type;
    let suits = is_known && !operand.element_type.is_complex() && places == ElementType::S32;
    suits.then(|| ArrayCall {
        routine: named!(width, "tegula_rt_top_k"),
        scratch: Some(TOP_K),
        words: [length.term(), count(outer)]
            .into_iter()
            .chain(constants([
                k,
                i64::from(largest),
                element_type_number(operand.element_type),
            ]))
            .collect(),
        data: Data::Nothing,
        for_few: Vec::new(),
    })
}

fn random_bits(
    algorithm: RngAlgorithm,
    state: &ArrayShape,
    bits: &ArrayShape,
) -> Option<ArrayCall> {
    let ty = bits.element_type;
    let bytes = state.byte_size()?;
    let suits = has_random_bits(ty)
        && matches!(state.element_type.bits(), 32 | 64)
        && bytes >= 16
        && bytes % 8 == 0;
    suits.then(|| {
        let is_signed = ty.is_integer() && ty.category() == tegula_ir::Category::Signed;
        let head = constants([
            i64::from(algorithm == RngAlgorithm::ThreeFry),
            bytes / 8,
            i64::from(ty.bits()),
            i64::from(is_signed),
            ty.storage_bytes() as i64,
            bits.dims.len() as i64,
        ]);
        ArrayCall {
            routine: "tegula_rt_random_bits",
            scratch: None,
            words: head.chain(bits.dims.iter().map(Dim::term)).collect(),
            data: Data::Nothing,
            for_few: Vec::new(),
        }
    })
}

fn cholesky(width: VectorWidth, operand: &ArrayShape, lower: bool) -> Option<ArrayCall> {
    let ([batch @ .., n, _], ty) = (&operand.dims[..], operand.element_type) else {
        return None;
    };
    let words = [n.term(), count(batch), Term::constant(i64::from(lower))];
    Some(ArrayCall {
        routine: named!(width, "tegula_rt_cholesky", ty, F32 "f32", F64 "f64", C64 "c64", C128 "c128"),
        scratch: Some(scratch_of!("tegula_rt_scratch_cholesky", ty)),
        words: words.into(),
        data: Data::Nothing,
        for_few: Vec::new(),
    })
}

fn solve(
    width: VectorWidth,
    [a, b]: [&ArrayShape; 2],
    result: &ArrayShape,
    flags: [bool; 5],
) -> Option<ArrayCall> {
    let ([batch @ .., rows, columns], ty) = (&result.dims[..], result.element_type) else {
        return None;
    };
    if a.element_type != ty || b.element_type != ty {
        return None;
    }
    let flags = (0..).zip(flags).map(|(bit, flag)| i64::from(flag) << bit);
    let words = [
        rows.term(),
        columns.term(),
        count(batch),
        Term::constant(flags.sum()),
    ];
    Some(ArrayCall {
        routine: named!(width, "tegula_rt_solve", ty, F32 "f32", F64 "f64", C64 "c64", C128 "c128"),
        scratch: Some(scratch_of!("tegula_rt_scratch_solve", ty)),
        words: words.into(),
        data: Data::Nothing,
        for_few: Vec::new(),
    })
}

/// `gtsv(below, diagonal, above, b)`, whose results are the updated operands and a status for each
/// system.
fn tridiagonal_solve(
    ty: ElementType,
    given: &[ArrayShape],
    gives: &[ArrayShape],
) -> Option<ArrayCall> {
    let ([below, diagonal, above, b], [results @ .., info]) = (given, gives) else {
        return None;
    };
    let [batch @ .., n, columns] = &b.dims[..] else {
        return None;
    };
    let terms = |dims: &[Dim]| -> Vec<Term> { dims.iter().map(Dim::term).collect() };
    let are_same = given.len() == results.len()
        && given.iter().zip(results).all(|(operand, result)| {
            [operand.element_type, result.element_type] == [ty; 2]
                && terms(&operand.dims) == terms(&result.dims)
        });
    let of_rows = [terms(batch), vec![n.term()]].concat();
    let diagonals = [below, diagonal, above];
    let suits = are_same
        && diagonals.iter().all(|of| terms(&of.dims) == of_rows)
        && info.element_type == ElementType::S32
        && terms(&info.dims) == terms(batch);
    suits.then(|| ArrayCall {
        routine: match ty {
            ElementType::F32 => "tegula_rt_tridiagonal_solve_f32",
            ElementType::F64 => "tegula_rt_tridiagonal_solve_f64",
            ElementType::C64 => "tegula_rt_tridiagonal_solve_c64",
            _ => "tegula_rt_tridiagonal_solve_c128",
        },
        scratch: None,
        words: vec![n.term(), columns.term(), count(batch)],
        data: Data::Nothing,
        for_few: Vec::new(),
    })
}

fn lu(width: VectorWidth, operand: &ArrayShape, results: &[ArrayShape]) -> Option<ArrayCall> {
    let ([batch @ .., rows, columns], ty) = (&operand.dims[..], operand.element_type) else {
        return None;
    };
    let [_, pivots, permutation] = results else {
        return None;
    };
    let is_list = |list: &ArrayShape, last: Term| {
        let is_of_batch = list.dims.split_last().is_some_and(|(own, others)| {
            own.term() == last && others.iter().map(Dim::term).eq(batch.iter().map(Dim::term))
        });
        list.element_type == ElementType::S32 && is_of_batch
    };
    let steps = Term::min(&rows.term(), &columns.term());
    if !is_list(pivots, steps) || !is_list(permutation, rows.term()) {
        return None;
    }
    Some(ArrayCall {
        routine: named!(width, "tegula_rt_lu", ty, F32 "f32", F64 "f64", C64 "c64", C128 "c128"),
        scratch: Some(scratch_of!("tegula_rt_scratch_lu", ty)),
        words: vec![rows.term(), columns.term(), count(batch)],
        data: Data::Nothing,
        for_few: Vec::new(),
    })
}
