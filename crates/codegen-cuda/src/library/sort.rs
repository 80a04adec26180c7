//! A stable sort of several arrays together, by merging runs in memory.
//!
//! A pass doubles the length of sorted runs. Every element finds its own place in the
//! merged run: its place among its own, and by binary search how many of the
//! neighbouring run go before it. Of elements of which neither goes before the other,
//! those of the left run come first. A pass reads one set of arrays and writes
//! another; the comparator is the program's.

use crate::body::Body;
use crate::error::Error;
use crate::function::{self, Function, linear};
use crate::terms::{Terms, is_short};
use crate::types::storage;
use tegula_expr::{Interval, Term, Var};
use tegula_fusion::Kernel;
use tegula_ir::{ArrayShape, ElementType, Symbol};

/// Threads of a block.
const THREADS: i64 = 256;

/// The function of one pass. Its parameters are the arrays that it reads, those that it
/// writes, sizes, and the length of the runs that are sorted.
///
/// # Errors
/// An operation of the comparator that a type lacks.
pub(super) fn function(
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
    // The end of a run may lie three runs behind the array's.
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
    }))
}

/// The comparator as a function on places in memory.
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
