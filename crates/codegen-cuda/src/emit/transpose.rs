//! Reads across the order of writes, through a tile in shared memory.
//!
//! The result's innermost dimension is not the one along which some operand lies
//! together. A block takes 32 positions along both: it reads with neighbouring threads
//! along the operand's dimension, keeps what it read in a tile, and goes on with
//! neighbouring threads along the result's. Rows of the tile are an odd number of words
//! apart, so that neither way two lanes of a warp meet in a bank of shared memory.

use crate::access::{Access, sectors, set_digits, typical_values, value};
use crate::body::Body;
use crate::error::Error;
use crate::function::{Function, head, linear, over_symbols, points, symbols};
use crate::terms::is_short;
use crate::types::{load, storage};
use tegula_expr::{Term, Var};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{IndexVar, Statement};

/// Positions along each side of a tile.
const SIDE: i64 = 32;
/// Rows that a block's threads cover at once.
const ROWS: i64 = 4;

/// Which reads go through tiles.
struct Choice {
    /// The result's innermost dimension, and that of the reads.
    inner: Var,
    across: Var,
    /// By number of the top-level statement.
    tiled: Vec<usize>,
    reason: String,
}

/// The function, if tiles suit the kernel.
pub(super) fn function(
    name: &str,
    kernel: &Kernel,
    apart: bool,
) -> Result<Option<Function>, Error> {
    match choose(kernel) {
        Some(choice) => written(name, kernel, apart, &choice).map(Some),
        None => Ok(None),
    }
}

fn choose(kernel: &Kernel) -> Option<Choice> {
    let &inner = kernel.domain.last()?;
    let values = typical_values(kernel);
    let extent = |var: Var| match kernel.var(var)? {
        IndexVar::Domain(extent) => value(extent, &values),
        _ => None,
    };
    // A tile would be mostly empty.
    if kernel.body.any(Statement::is_loop) || extent(inner)? < SIDE / 2 {
        return None;
    }
    let along = |var: Var, access: &Access| {
        sectors(kernel, std::slice::from_ref(access), &|lane| {
            let mut values = values.clone();
            set_digits(kernel, &[var], lane as i64, &mut values)?;
            Some(values)
        })
    };
    let mut found: Option<(Var, Vec<usize>, u64, u64)> = None;
    for (number, statement) in kernel.body.statements.iter().enumerate() {
        let Statement::Load { param, index, .. } = statement else {
            continue;
        };
        let linear = kernel.params.get(*param)?.elements_before(index);
        let mut runtime = false;
        linear.for_each_var(&mut |var| {
            runtime |= matches!(kernel.var(var), Some(IndexVar::Runtime { .. }));
        });
        if runtime {
            continue;
        }
        let access = Access {
            param: *param,
            linear,
        };
        let before = along(inner, &access);
        let candidates = kernel.domain.iter().filter(|&&var| var != inner);
        let best = candidates
            .filter(|&&var| extent(var).is_some_and(|extent| extent >= SIDE / 2))
            .filter(|&&var| access.linear.mentions(var))
            .map(|&var| (along(var, &access), var))
            .min_by_key(|&(count, _)| count)?;
        // Half of the sectors saved pays for the way through shared memory.
        if best.0 * 2 > before {
            continue;
        }
        match &mut found {
            Some((across, tiled, old, new)) if *across == best.1 => {
                tiled.push(number);
                *old += before;
                *new += best.0;
            }
            Some(_) => {}
            None => found = Some((best.1, vec![number], before, best.0)),
        }
    }
    let (across, mut tiled, before, after) = found?;
    // What does not fit is read as it is.
    let mut room = SHARED;
    tiled.retain(|&number| {
        let Statement::Load { param, .. } = &kernel.body.statements[number] else {
            return false;
        };
        let bytes = kernel
            .params
            .get(*param)
            .map_or(0, |p| p.element_type.storage_bytes());
        room -= SIDE * row_length(bytes) * bytes as i64;
        room >= 0
    });
    Some(Choice {
        inner,
        across,
        tiled,
        reason: format!(
            "tiles of 32 x 32 through shared memory: a warp's reads across the result touch \
             {after} sectors so, {before} with a thread per point"
        ),
    })
}

/// Elements from one row of a tile to the next, which make an odd number of words.
fn row_length(bytes: usize) -> i64 {
    match bytes {
        1 => SIDE + 4,
        2 => SIDE + 2,
        _ => SIDE + 1,
    }
}

/// Bytes of shared memory that every architecture gives a block.
const SHARED: i64 = 48 << 10;

fn written(name: &str, kernel: &Kernel, apart: bool, choice: &Choice) -> Result<Function, Error> {
    let mut body = Body::new(kernel);
    let (inner, across) = (choice.inner, choice.across);
    let wide = !is_short(
        body.terms
            .range(&points(kernel).add(&Term::constant(SIDE * SIDE))),
    );
    let index = if wide { "long long" } else { "int" };
    let side = Term::constant(SIDE);
    let tiles = |extent: &Term| extent.ceil_div(&side);
    let (inner_extent, across_extent) = (body.extent(inner)?, body.extent(across)?);
    let mut blocks = tiles(inner_extent).mul(&tiles(across_extent));
    for &number in &choice.tiled {
        if let Statement::Load { param, .. } = &kernel.body.statements[number] {
            let ty = body.param_type(*param)?;
            let (own, width) = (storage(ty), row_length(ty.storage_bytes()));
            body.line(&format!("__shared__ {own} tile{number}[{SIDE}][{width}];"));
        }
    }
    body.line(&format!(
        "const int tx = threadIdx.x % {SIDE}, ty = threadIdx.x / {SIDE};"
    ));
    body.line(&format!("{index} block = blockIdx.x;"));
    for (var, label, extent) in [
        (inner, "inner", inner_extent),
        (across, "across", across_extent),
    ] {
        let count = body.term(&tiles(extent));
        body.line(&format!(
            "const {index} {label}0 = block % ({count}) * {SIDE};"
        ));
        body.line(&format!("block /= {count};"));
        let size = body.term(extent);
        body.line(&format!("const {index} {label}_size = {size};"));
        let _ = var;
    }
    for &var in kernel
        .domain
        .iter()
        .rev()
        .filter(|&&var| var != inner && var != across)
    {
        let extent = body.extent(var)?;
        blocks = blocks.mul(extent);
        let size = body.term(extent);
        body.declare_index(var, &format!("block % ({size})"));
        body.line(&format!("block /= {size};"));
    }
    let rows = format!("for (int row = ty; row < {SIDE}; row += {ROWS})");
    body.line("#pragma unroll");
    body.open(&rows);
    for (var, label, place) in [(inner, "inner", "row"), (across, "across", "tx")] {
        let range = body.terms.ranges[var.0 as usize];
        let own = body.terms.fresh(range);
        body.line(&format!("const {index} {label} = {label}0 + {place};"));
        body.terms.name(own, label, wide);
        body.lane.insert(var, Term::var(own));
    }
    body.open("if (inner < inner_size && across < across_size)");
    for &number in &choice.tiled {
        if let Statement::Load { param, index, .. } = &kernel.body.statements[number] {
            let element = body.element(*param, index)?;
            body.line(&format!("tile{number}[row][tx] = {element};"));
        }
    }
    body.close("");
    body.close("");
    body.lane.clear();
    body.line("__syncthreads();");
    body.line("#pragma unroll");
    body.open(&rows);
    body.declare_index(inner, "inner0 + tx");
    body.declare_index(across, "across0 + row");
    body.line(&format!(
        "if (i{} >= inner_size || i{} >= across_size) continue;",
        inner.0, across.0
    ));
    for (number, statement) in kernel.body.statements.iter().enumerate() {
        match statement {
            Statement::Load { result, param, .. } if choice.tiled.contains(&number) => {
                let ty = body.param_type(*param)?;
                let value = load(ty, &format!("tile{number}[tx][row]"));
                let own = crate::types::carrier(ty);
                let line = format!("const {own} {} = {value};", body.scalar(*result));
                body.line(&line);
            }
            other => body.statement(other)?,
        }
    }
    body.close("");
    let statements = body.finish();
    let threads = (SIDE * ROWS) as u32;
    let head = head(name, kernel, &[], apart, threads);
    Ok(Function {
        name: name.to_owned(),
        reason: choice.reason.clone(),
        text: format!("{head} {{\n{statements}}}\n"),
        block: [threads, 1, 1],
        grid: linear(over_symbols(kernel, &blocks)),
        symbols: symbols(kernel),
        guarded: false,
    })
}
