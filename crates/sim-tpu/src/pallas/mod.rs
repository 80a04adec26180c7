//! Translation of Pallas kernels to programs of the machine.
//!
//! A kernel of `tegula-mosaic` becomes a [`TpuProgram`]: its grid and windows become a pipeline
//! whose blocks are in VMEM or SMEM, its scalars become variables, its vectors registers, its
//! straight-line vector code blocks that are scheduled together, and its references slices of
//! buffers. Nothing is spilled: the kernel's vectors stay in registers. Dead operations are
//! removed, because Pallas loads before each store.
//!
//! - `arguments`: the kernel's arguments: arrays, windows, scalars, scratch memory;
//! - `references`: views of memory as slices, with parts of reshaped memory (`reshapes`);
//! - `body`: statements; `vectors`: operations on vectors and scalars; `copies`: copies and
//!   semaphores;
//! - `live`: liveness of values;
//! - `extents`: sizes of results that only windows describe.

mod arguments;
mod body;
mod copies;
mod extents;
mod live;
mod references;
mod vectors;

use crate::program::{Place, RegisterId, SemaphoreId, Statement, TpuProgram, VectorOperation};
use references::Reference;
use rustc_hash::{FxHashMap, FxHashSet};
use tegula_expr::Term;
use tegula_ir::{ArrayShape, Literal};
use tegula_mosaic::ir::{Module, Operation, Value};
use tegula_mosaic::types::Element;
use tegula_target::Chip;

/// A kernel's arrays, as its call describes them.
#[derive(Clone, Debug, Default)]
pub struct Arrays {
    /// The number of the kernel's arrays that are inputs; the remaining arrays are results. If it
    /// is not known, the results are the trailing arrays that the kernel writes.
    pub inputs: Option<usize>,
    /// The shapes of the inputs, as far as they are known; the sizes of the grid come first.
    pub input_dims: Vec<Vec<i64>>,
    /// The shapes of the results, as far as they are known.
    pub result_dims: Vec<Vec<i64>>,
    /// For each result, the input that it shares its memory with.
    pub aliases: Vec<Option<usize>>,
    /// The inputs' values, if they are known: the size of a result may depend on scalars.
    pub values: Vec<Literal>,
}

/// The reason why a kernel cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", place_text(place.as_ref()))]
pub struct Error {
    /// The place in the source, if it is known.
    pub place: Option<Place>,
    /// The unsupported feature, or the contradiction to the call.
    pub message: String,
}

fn place_text(place: Option<&Place>) -> String {
    place.map_or(String::new(), |place| {
        format!("{}:{}: ", place.file, place.line)
    })
}

impl Error {
    fn new(message: impl Into<String>) -> Self {
        Self {
            place: None,
            message: message.into(),
        }
    }

    /// An error at an operation.
    fn at(operation: &Operation, message: impl std::fmt::Display) -> Self {
        let place = operation.place.as_ref().map(|place| Place {
            file: place.file.clone(),
            line: place.line,
        });
        Self {
            place,
            message: format!("`{}`: {message}", operation.name),
        }
    }
}

type Made<T> = Result<T, Error>;

/// Translates a kernel to a program.
///
/// # Errors
/// The kernel has an operation that the machine does not simulate, or the call's arrays do not fit
/// its arguments.
pub fn to_program(module: &Module, chip: &Chip, arrays: &Arrays) -> Result<TpuProgram, Error> {
    let mut translator = Translator {
        module,
        chip,
        arrays,
        program: TpuProgram {
            name: module.name.to_string(),
            ..TpuProgram::default()
        },
        places: FxHashMap::default(),
        live: live::of(module),
        scalars: FxHashMap::default(),
        registers: FxHashMap::default(),
        references: FxHashMap::default(),
        semaphores: FxHashMap::default(),
        grid: Vec::new(),
        barrier: None,
        out: Vec::new(),
        open: Vec::new(),
        open_defines: FxHashSet::default(),
        line: 0,
    };
    translator.kernel()?;
    Ok(translator.program)
}

/// A part of an array of semaphores, as a reference selects it.
#[derive(Clone, Debug)]
struct Semaphores {
    array: SemaphoreId,
    /// The index of the first semaphore.
    first: Term,
    /// The sizes of the reference.
    dims: Vec<i64>,
    /// The distance between consecutive indices along each dimension.
    strides: Vec<i64>,
}

struct Translator<'k> {
    module: &'k Module,
    chip: &'k Chip,
    arrays: &'k Arrays,
    program: TpuProgram,
    places: FxHashMap<Place, u32>,
    live: FxHashSet<Value>,
    scalars: FxHashMap<Value, Term>,
    registers: FxHashMap<Value, RegisterId>,
    references: FxHashMap<Value, Reference>,
    semaphores: FxHashMap<Value, Semaphores>,
    /// The sizes of the grid.
    grid: Vec<Term>,
    barrier: Option<SemaphoreId>,
    /// The statements of the body that is being translated.
    out: Vec<Statement>,
    /// The open block: vector operations that will become one statement.
    open: Vec<VectorOperation>,
    /// The variables that the open block defines.
    open_defines: FxHashSet<tegula_expr::Var>,
    /// The place of the operation that is being translated.
    line: u32,
}

/// The shape of an array in HBM or another memory, with the chip's tiles and its dimensions in
/// order.
fn array_shape(element: Element, dims: &[i64], chip: &Chip, tiled: bool) -> Made<ArrayShape> {
    let ty = crate::machine::vector::value::ir_type(element).map_err(Error::new)?;
    let mut shape = ArrayShape::new(ty, dims);
    if tiled && let Some(rule) = chip.tile_rule {
        let order: Vec<u32> = (0..dims.len() as u32).rev().collect();
        let layout = rule.layout_in_order(ty.bits().max(2), dims, &order);
        if ty.bits() > 1 {
            let layout = layout.map_err(|error| Error::new(error.to_string()))?;
            shape.layout = Some(Box::new(layout));
        }
    }
    Ok(shape)
}
