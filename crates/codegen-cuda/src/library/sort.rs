//! A stable merge sort of several arrays together, in global memory.
//!
//! A pass doubles the length of sorted runs. Every element finds its own position in the merged
//! run: its position in its own run, plus the number of elements of the other run that go before
//! it, found by binary search. If neither of two elements goes before the other, the one of the
//! left run comes first. A pass reads one set of arrays and writes another; the program supplies
//! the comparator.

use super::builder::Builder;
use crate::body::Body;
use crate::emit;
use crate::error::Error;
use crate::function::{self, Function, KernelSequence, Slot, Work, linear};
use crate::terms::{Terms, is_short};
use crate::types::storage;
use tegula_expr::{Interval, Term, Var};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::Access;
use tegula_ir::{ArrayShape, Direction, ElementType, Symbol};

/// Threads of a block.
const THREADS: i64 = 256;

/// A sort of arrays; its arguments are the operands and the results.
///
/// # Errors
/// An operation of the comparator that a type lacks.
pub(super) fn series(
    name: &str,
    operands: &[&ArrayShape],
    dimension: usize,
    comparator: &Kernel,
    symbols: &[Symbol],
) -> Result<Option<KernelSequence>, Error> {
    let Some(function) = function(name, operands, dimension, comparator, symbols)? else {
        return Ok(None);
    };
    let length = operands.first().and_then(|s| s.dims.get(dimension));
    let Some(length) = length.map(tegula_ir::Dim::term) else {
        return Ok(None);
    };
    let bytes: Vec<Term> = operands.iter().map(|shape| bytes(shape)).collect();
    let count = operands.len();
    Ok(Some(KernelSequence {
        functions: vec![function],
        scratch: bytes.clone(),
        steps: vec![Work::Passes {
            function: 0,
            run: 1,
            length,
            from: (0..count).map(Slot::Given).collect(),
            to: (count..2 * count).map(Slot::Given).collect(),
            between: (0..count).map(Slot::Scratch).collect(),
            bytes,
        }],
    }))
}

/// A pass that merges sorted runs of numbers, with their payloads.
///
/// # Errors
/// None for integers.
pub(crate) fn merge(name: &str, operands: &[&ArrayShape]) -> Result<Option<Function>, Error> {
    let types: Vec<ElementType> = operands.iter().map(|s| s.element_type).collect();
    let before = comparator(&types, Direction::Lt);
    function(name, operands, 0, &before, &[])
}

/// A comparator of the elements of the first of several arrays.
fn comparator(types: &[ElementType], direction: Direction) -> Kernel {
    let mut builder = Builder::new(&[]);
    for &ty in types.iter().flat_map(|ty| [ty, ty]) {
        builder.param(Access::Read, ty, Vec::new());
    }
    let result = builder.param(Access::Write, ElementType::Pred, Vec::new());
    let (a, b) = (builder.load(0, Vec::new()), builder.load(1, Vec::new()));
    let before = builder.compare(direction, a, b);
    builder.store(result, Vec::new(), before);
    builder.finish()
}

/// The largest or smallest elements along the last dimension with their indices, in order. It sorts
/// everything and keeps the first elements. The arguments are the operand and both results.
///
/// # Errors
/// A type that has no order.
pub(super) fn top_k(
    name: &str,
    operand: &ArrayShape,
    results: [&ArrayShape; 2],
    largest: bool,
    symbols: &[Symbol],
) -> Result<Option<KernelSequence>, Error> {
    let [values, places] = results;
    if operand.element_type.is_complex() {
        return Ok(None);
    }
    let all = ArrayShape {
        element_type: places.element_type,
        ..operand.clone()
    };
    let types = [operand.element_type, places.element_type];
    let direction = if largest {
        Direction::Gt
    } else {
        Direction::Lt
    };
    let before = comparator(&types, direction);
    let Some(last) = operand.dims.len().checked_sub(1) else {
        return Ok(None);
    };
    let pair = [operand, &all];
    let Some(mut series) = series(name, &pair, last, &before, symbols)? else {
        return Ok(None);
    };
    // The operand and the indices along the last dimension are sorted into scratch arrays.
    let (numbers, sorted) = (Slot::Scratch(2), [Slot::Scratch(3), Slot::Scratch(4)]);
    let own: Vec<Term> = pair.iter().map(|shape| bytes(shape)).collect();
    series.scratch.push(own[1].clone());
    series.scratch.extend(own);
    if let [Work::Passes { from, to, .. }] = &mut series.steps[..] {
        *from = vec![Slot::Given(0), numbers];
        *to = sorted.to_vec();
    }
    let mut add = |kernel: &Kernel, suffix: &str, arrays: Vec<Slot>| -> Result<Work, Error> {
        let own = emit::functions(&format!("{name}_{suffix}"), kernel, true)?;
        let function = series.functions.len();
        series.functions.extend(own.functions);
        Ok(Work::Launch { function, arrays })
    };
    let fill = add(&numbered(&all, symbols), "numbers", vec![numbers])?;
    let first = |shape: &ArrayShape, from: &ArrayShape| cut(from, shape, symbols);
    let [from_values, from_places] = sorted;
    let rest = [
        add(
            &first(values, operand),
            "values",
            vec![from_values, Slot::Given(1)],
        )?,
        add(
            &first(places, &all),
            "places",
            vec![from_places, Slot::Given(2)],
        )?,
    ];
    series.steps.insert(0, fill);
    series.steps.extend(rest);
    Ok(Some(series))
}

/// A kernel that fills an array with the indices along its last dimension.
fn numbered(shape: &ArrayShape, symbols: &[Symbol]) -> Kernel {
    let mut builder = Builder::new(symbols);
    let dims: Vec<Term> = shape.dims.iter().map(|d| builder.size(&d.term())).collect();
    let output = builder.param(Access::Write, shape.element_type, dims.clone());
    let at: Vec<Term> = dims.into_iter().map(|dim| builder.domain(dim)).collect();
    let last = at.last().cloned().unwrap_or_else(|| Term::constant(0));
    let number = builder.index(shape.element_type, last);
    builder.store(output, at, number);
    builder.finish()
}

/// A kernel that copies the first elements along every dimension of an array.
pub(super) fn cut(from: &ArrayShape, to: &ArrayShape, symbols: &[Symbol]) -> Kernel {
    let mut builder = Builder::new(symbols);
    let mut sizes = |shape: &ArrayShape| -> Vec<Term> {
        shape.dims.iter().map(|d| builder.size(&d.term())).collect()
    };
    let (all, dims) = (sizes(from), sizes(to));
    let input = builder.param(Access::Read, from.element_type, all);
    let output = builder.param(Access::Write, to.element_type, dims.clone());
    let at: Vec<Term> = dims.into_iter().map(|dim| builder.domain(dim)).collect();
    let value = builder.load(input, at.clone());
    builder.store(output, at, value);
    builder.finish()
}

/// The size of an array in bytes, as a term over the plan's symbols.
pub(crate) fn bytes(shape: &ArrayShape) -> Term {
    let element = Term::constant(shape.element_type.storage_bytes() as i64);
    let dims = shape.dims.iter();
    dims.fold(element, |all, dim| all.mul(&dim.term()))
}

/// The function of one pass. Its parameters are the arrays that it reads, those that it writes,
/// sizes, and the length of the sorted runs.
///
/// # Errors
/// An operation of the comparator that a type lacks.
fn function(
    name: &str,
    operands: &[&ArrayShape],
    dimension: usize,
    comparator: &Kernel,
    symbols: &[Symbol],
) -> Result<Option<Function>, Error> {
    let Some(shape) = operands.first() else {
        return Ok(None);
    };
    let types: Vec<ElementType> = operands.iter().map(|s| s.element_type).collect();
    let before = before(name, &types, comparator)?;
    let size = |dims: &[tegula_ir::Dim]| {
        dims.iter()
            .fold(Term::constant(1), |all, dim| all.mul(&dim.term()))
    };
    let Some(length) = shape.dims.get(dimension).map(tegula_ir::Dim::term) else {
        return Ok(None);
    };
    let (inner, count) = (size(&shape.dims[dimension + 1..]), size(&shape.dims));
    let ranges = symbols
        .iter()
        .map(|s| Interval::new(s.lower, s.upper))
        .collect();
    let mut terms = Terms::new(ranges);
    let mut parameters = Vec::new();
    for (i, &ty) in types.iter().enumerate() {
        parameters.push(format!("const {} *__restrict__ from{i}", storage(ty)));
    }
    for (i, &ty) in types.iter().enumerate() {
        parameters.push(format!("{} *__restrict__ to{i}", storage(ty)));
    }
    for symbol in 0..symbols.len() as u32 {
        terms.name(Var(symbol), &format!("s{symbol}"), true);
        parameters.push(format!("const long long s{symbol}"));
    }
    parameters.push("const long long width".to_owned());
    // The end of a run may be three runs beyond the array's.
    let reach = count
        .add(&length.mul(&Term::constant(3)))
        .add(&Term::constant(THREADS));
    let index = if is_short(terms.range(&reach)) {
        "int"
    } else {
        "long long"
    };
    let mut lines = Vec::new();
    let mut constant = |name: &str, term: &Term| {
        let value = terms.term(term, &mut lines);
        lines.push(format!("const {index} {name} = {};", value.text));
    };
    constant("count", &count);
    constant("length", &length);
    constant("inner", &inner);
    let comparator_symbols = function::symbols(comparator);
    let at = |a: &str, b: &str| -> String {
        let pairs = (0..types.len()).map(|i| format!("from{i} + ({a}), from{i} + ({b})"));
        let mut arguments: Vec<String> = pairs.collect();
        arguments.extend(comparator_symbols.iter().map(|s| format!("s{s}")));
        format!("{name}_before({})", arguments.join(", "))
    };
    let moves: String = (0..types.len())
        .map(|i| format!("    to{i}[target] = from{i}[element];\n"))
        .collect();
    let head: String = lines.iter().map(|line| format!("    {line}\n")).collect();
    let text = format!(
        "extern \"C\" __global__ void __launch_bounds__({THREADS}) {name}({parameters}) {{
{head}    const {index} element = ({index})blockIdx.x * {THREADS} + threadIdx.x;
    if (element >= count) return;
    const {index} i = element / inner % length, row = element - i * inner;
    const {index} run = i / (2 * ({index})width) * (2 * ({index})width);
    const {index} middle = run + ({index})width < length ? run + ({index})width : length;
    const {index} end = middle + ({index})width < length ? middle + ({index})width : length;
    const bool left = i < middle;
    // The first element of the other run that does not go before this one.
    {index} low = left ? middle : run, high = left ? end : middle;
    while (low < high) {{
        const {index} half = low + (high - low) / 2, other = row + half * inner;
        const bool goes_before = left ? {other_first} : !{own_first};
        if (goes_before) low = half + 1;
        else high = half;
    }}
    const {index} place = left ? i + (low - middle) : low + (i - middle);
    const {index} target = row + place * inner;
{moves}}}
",
        parameters = parameters.join(", "),
        other_first = at("other", "element"),
        own_first = at("element", "other"),
    );
    Ok(Some(Function {
        name: name.to_owned(),
        reason: "one thread per element, which finds its place in the merged run".to_owned(),
        text: before + &text,
        block: [THREADS as u32, 1, 1],
        grid: linear(count.ceil_div(&Term::constant(THREADS))),
        symbols: (0..symbols.len() as u32).collect(),
        guarded: false,
    }))
}

/// The comparator as a function on pointers to elements.
fn before(name: &str, types: &[ElementType], comparator: &Kernel) -> Result<String, Error> {
    let mut parameters = Vec::new();
    for (i, &ty) in types.iter().flat_map(|ty| [ty, ty]).enumerate() {
        parameters.push(format!("const {} *p{i}", storage(ty)));
    }
    for symbol in function::symbols(comparator) {
        parameters.push(format!("const long long s{symbol}"));
    }
    let result = 2 * types.len();
    let mut body = Body::new(comparator);
    body.line(&format!("unsigned char p{result}[1];"));
    body.block(&comparator.body)?;
    body.line(&format!("return p{result}[0] != 0;"));
    let statements = body.finish();
    Ok(format!(
        "__device__ bool {name}_before({}) {{\n{statements}}}\n\n",
        parameters.join(", ")
    ))
}
