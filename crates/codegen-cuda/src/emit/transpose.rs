//! Transpositions through a tile in shared memory.
//!
//! This is for kernels in which the innermost dimension of the result is not the one along which
//! some operand is contiguous. A block takes 32 or 64 positions along both dimensions. It reads
//! with adjacent threads along the operand's dimension, keeps what it read in a tile, and continues
//! with adjacent threads along the result's. The distance between rows of the tile is an odd number
//! of words, so in neither direction do two lanes of a warp access the same bank of shared memory.
//!
//! A large array is moved in tiles of 64 x 64: a thread then has 16 reads in flight at once, which
//! keeps the memory of an H100 nearly as busy as a copy does (2.90 TB/s for 8192 x 8192 floats,
//! 2.46 TB/s with tiles of 32 x 32, 2.99 TB/s for a copy).

use crate::access::{Access, sectors, set_digits, typical_values, value};
use crate::body::Body;
use crate::error::Error;
use crate::function::{Function, head, linear, over_symbols, points, symbols};
use crate::terms::is_short;
use crate::types::{load, storage};
use tegula_expr::{Term, Var};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{IndexVar, Statement};

/// The side lengths of tiles, largest first.
const SIDES: [i64; 2] = [64, 32];
/// The number of accesses of a thread along a tile's column.
const DEEP: i64 = 8;
/// The number of adjacent threads along a row.
const LANES: i64 = 32;
/// The fewest large tiles for which they are used: two for each multiprocessor of a large GPU.
const MANY: i64 = 264;

/// Which reads go through tiles.
struct Choice {
    /// The innermost dimension of the result; `across` is that of the reads.
    inner: Var,
    across: Var,
    /// The side length of a tile.
    side: i64,
    /// The numbers of the top-level statements that are loads through a tile.
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
    if kernel.body.any(Statement::is_loop) || extent(inner)? < LANES / 2 {
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
            .filter(|&&var| extent(var).is_some_and(|extent| extent >= LANES / 2))
            .filter(|&&var| access.linear.mentions(var))
            .map(|&var| (along(var, &access), var))
            .min_by_key(|&(count, _)| count)?;
        // Going through shared memory pays if at least half of the sectors are saved.
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
    let tile_bytes = |side: i64, number: usize| match &kernel.body.statements[number] {
        Statement::Load { param, .. } => {
            let declared = kernel.params.get(*param);
            let bytes = declared.map_or(0, |p| p.element_type.storage_bytes());
            side * row_length(side, bytes) * bytes as i64
        }
        _ => 0,
    };
    let tiles = |side: i64| {
        let points: Option<i64> = kernel.domain.iter().try_fold(1i64, |count, &var| {
            let extent = extent(var)?;
            let along = var == inner || var == across;
            count.checked_mul(if along {
                (extent + side - 1) / side
            } else {
                extent
            })
        });
        points.unwrap_or(i64::MAX)
    };
    let [large, small] = SIDES;
    let all: i64 = tiled.iter().map(|&number| tile_bytes(large, number)).sum();
    let is_large = all <= SHARED && tiles(large) >= MANY;
    let side = if is_large { large } else { small };
    // Loads whose tiles do not fit in shared memory are done directly.
    let mut room = SHARED;
    tiled.retain(|&number| {
        room -= tile_bytes(side, number);
        room >= 0
    });
    Some(Choice {
        inner,
        across,
        side,
        tiled,
        reason: format!(
            "tiles of {side} x {side} through shared memory: a warp's reads across the result touch \
             {after} sectors so, {before} with a thread per point"
        ),
    })
}

/// The distance between rows of a tile, in elements, which makes it an odd number of words.
fn row_length(side: i64, bytes: usize) -> i64 {
    match bytes {
        1 => side + 4,
        2 => side + 2,
        _ => side + 1,
    }
}

/// The shared memory that every architecture gives a block, in bytes.
const SHARED: i64 = 48 << 10;

fn written(name: &str, kernel: &Kernel, apart: bool, choice: &Choice) -> Result<Function, Error> {
    let mut body = Body::new(kernel);
    let Choice {
        inner,
        across,
        side,
        ..
    } = *choice;
    let rows = side / DEEP;
    let wide = !is_short(
        body.terms
            .range(&points(kernel).add(&Term::constant(side * side))),
    );
    let index = if wide { "long long" } else { "int" };
    let tiles = |extent: &Term| extent.ceil_div(&Term::constant(side));
    let (inner_extent, across_extent) = (body.extent(inner)?, body.extent(across)?);
    let mut blocks = tiles(inner_extent).mul(&tiles(across_extent));
    for &number in &choice.tiled {
        if let Statement::Load { param, .. } = &kernel.body.statements[number] {
            let ty = body.param_type(*param)?;
            let (own, width) = (storage(ty), row_length(side, ty.storage_bytes()));
            body.line(&format!("__shared__ {own} tile{number}[{side}][{width}];"));
        }
    }
    body.line(&format!(
        "const int tx = threadIdx.x % {LANES}, ty = threadIdx.x / {LANES};"
    ));
    body.line(&format!("{index} block = blockIdx.x;"));
    for (var, label, extent) in [
        (inner, "inner", inner_extent),
        (across, "across", across_extent),
    ] {
        let count = body.term(&tiles(extent));
        body.line(&format!(
            "const {index} {label}0 = block % ({count}) * {side};"
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
    let row_loop = format!("for (int row = ty; row < {side}; row += {rows})");
    let column_loop = format!("for (int column = tx; column < {side}; column += {LANES})");
    let open_loops = |body: &mut Body<'_>| {
        for text in [&row_loop, &column_loop] {
            body.line("#pragma unroll");
            body.open(text);
        }
    };
    open_loops(&mut body);
    for (var, label, place) in [(inner, "inner", "row"), (across, "across", "column")] {
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
            body.line(&format!("tile{number}[row][column] = {element};"));
        }
    }
    body.close("");
    body.close("");
    body.close("");
    body.lane.clear();
    body.line("__syncthreads();");
    open_loops(&mut body);
    body.declare_index(inner, "inner0 + column");
    body.declare_index(across, "across0 + row");
    body.line(&format!(
        "if (i{} >= inner_size || i{} >= across_size) continue;",
        inner.0, across.0
    ));
    for (number, statement) in kernel.body.statements.iter().enumerate() {
        match statement {
            Statement::Load { result, param, .. } if choice.tiled.contains(&number) => {
                let ty = body.param_type(*param)?;
                let value = load(ty, &format!("tile{number}[column][row]"));
                let own = crate::types::carrier(ty);
                let line = format!("const {own} {} = {value};", body.scalar(*result));
                body.line(&line);
            }
            other => body.statement(other)?,
        }
    }
    body.close("");
    body.close("");
    let statements = body.finish();
    let threads = (LANES * rows) as u32;
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
