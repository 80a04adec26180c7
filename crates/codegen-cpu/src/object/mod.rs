//! Compiles programs to files that a C compiler links: an object with the program's functions, a
//! header that declares them, and an archive.
//!
//! - [`driver`]: generates the functions that are called, which execute the plan's steps; its
//!   submodules handle loops with swapped state, and calls of routines;
//! - [`calls`]: describes the products and convolutions that call `crates/rt`;
//! - [`constant_steps`]: folds steps that depend on constants only when the object is compiled;
//! - [`open_product`], [`open_convolution`](calls::open_convolution): products and convolutions with
//!   open sizes; [`routine_names`]: the routines that compute products;
//! - [`arrays`]: describes calls for sorts, factorisations and other operations on whole arrays;
//! - [`routines`]: functions of single numbers, implemented with the C library;
//! - [`link`]: copies the called routines of `crates/rt`;
//! - [`elf`]: writes the code image and the constants as an object file;
//! - [`weights`]: constants in a file beside the object;
//! - [`header`]: the C declarations.
//!
//! The functions allocate no memory and keep no state between calls. The object contains the
//! routines; its only undefined symbols are the C library's. Programs that call other routines are
//! rejected with an error that names the routine.

mod arrays;
mod calls;
mod constant_steps;
mod driver;
mod elf;
mod header;
mod link;
mod open_product;
mod routine_names;
mod routines;
mod weights;

use crate::compile::{PlanFunctions, compile_for_object, transform_kernels};
use crate::error::Error;
use crate::image::ImageBuilder;
use crate::options::Options;
use crate::simd::mathlib::sine_table;
use driver::AliasedSlices;
use rustc_hash::FxHashSet;
use tegula_expr::{Cmp, Node, Term, Var};
use tegula_fusion::kernel::{IndexVar, MAX_OPEN_EXTENT};
use tegula_ir::PassManager;
use tegula_plan::{Plan, expand_routines, verify};

/// A condition on the open sizes of a program that a call checks.
pub(crate) struct Check {
    pub condition: Condition,
    /// The error message if it does not hold.
    pub message: String,
}

pub(crate) enum Condition {
    Compare(Term, Cmp, Term),
    /// None of these terms exceeds the number.
    AtMost(Vec<Term>, i64),
}

/// The maximum bytes of an array or the arena: more than a process can address on existing
/// architectures, and small enough that nothing computed from it overflows.
pub(crate) const MAX_BYTES: i64 = 1 << 48;

/// The sizes that a call is given, in their order, by the numbers of the plan's symbols.
///
/// Of symbols that must be equal only the first is given. Symbols that no parameter has may have
/// any value.
pub(crate) struct GivenSizes {
    pub symbols: Vec<usize>,
    /// For each symbol of the plan, the index of the given size that is its value.
    pub of: Vec<Option<usize>>,
}

impl GivenSizes {
    fn new(plan: &Plan) -> Self {
        let mut sizes = Self {
            symbols: Vec::new(),
            of: vec![None; plan.symbols.len()],
        };
        for source in &plan.sizes.sources {
            let symbol = source.symbol.0 as usize;
            if sizes.of.get(symbol) != Some(&None) {
                continue;
            }
            let others = plan.sizes.guards.iter().filter(|guard| guard.op == Cmp::Eq);
            let same = others.filter_map(|guard| {
                let (left, right) = (guard.left.as_var()?, guard.right.as_var()?);
                let other = match (left.0 as usize == symbol, right.0 as usize == symbol) {
                    (true, _) => right,
                    (_, true) => left,
                    _ => return None,
                };
                sizes.of.get(other.0 as usize).copied().flatten()
            });
            let known = same.min();
            sizes.of[symbol] = Some(known.unwrap_or_else(|| {
                sizes.symbols.push(symbol);
                sizes.symbols.len() - 1
            }));
        }
        sizes
    }
}

/// The status of a call whose file of constants belongs to another program.
const OTHER_WEIGHTS: i64 = -1;

/// A program as an object file and its C header.
#[derive(Clone, Debug)]
pub struct Object {
    /// An ELF object for the architecture of the level that it was compiled for.
    pub bytes: Vec<u8>,
    /// The header, C99.
    pub header: String,
    /// The separate file of constants, if it was requested.
    pub weights: Option<Vec<u8>>,
}

/// Options for making an object.
#[derive(Clone, Debug, Default)]
pub struct ObjectOptions {
    /// The prefix of its functions' names.
    pub name: String,
    /// The names of the parameters in the header.
    pub parameters: Vec<String>,
    /// Whether large constants are written to a separate file.
    pub weights: bool,
}

/// Compiles a plan to an object.
///
/// # Errors
/// The name is not a C identifier, or the program calls a routine that objects do not support yet.
pub fn compile_object(
    plan: &Plan,
    options: &Options,
    object: &ObjectOptions,
) -> Result<Object, Error> {
    let name = object.name.as_str();
    if !is_identifier(name) {
        let message = format!("`{name}` is not a C identifier: use letters, digits and `_`");
        return Err(Error::Cpu(message));
    }
    if header::is_taken(name) {
        let message = format!("`{name}` is a reserved word of C or C++: give another name");
        return Err(Error::Cpu(message));
    }
    let mut plan = plan.clone();
    let computed_each_time = constant_steps::fold(&mut plan, options)?;
    let mut library = calls::Library::new(options.cpu, &plan);
    library.computed_each_time = computed_each_time;
    library.weights = object.weights.then(weights::Weights::default);
    expand_routines(&mut plan, &mut |plan, step| library.takes(plan, step));
    if let Some(missing) = library.missing.take() {
        return Err(missing);
    }
    library.prepare(&plan.steps);
    debug_assert_eq!(verify(&plan), Ok(()));
    let sizes = GivenSizes::new(&plan);
    let checks = checks(&plan, &sizes);
    let transformed = transform_kernels(&plan, options, &mut PassManager::new());
    let slices = AliasedSlices::new(&plan);
    let compile = |image: &mut ImageBuilder, functions: &PlanFunctions| {
        let program = driver::Program {
            plan: &plan,
            code: functions,
            slices: &slices,
        };
        let call = driver::call(image, program, (&sizes, &checks), &mut library)?;
        let arena = driver::arena_bytes(image, program, (&sizes, &checks), &mut library)?;
        let routines = routines::define(image, &library.custom)?;
        Ok(elf::Entries {
            exported: vec![
                (format!("{name}_call"), call),
                (format!("{name}_arena_bytes"), arena),
            ],
            routines,
        })
    };
    let (image, entries) =
        compile_for_object(&plan, &transformed, options, &slices.entries, compile)?;
    // The hash that a call compares with the file's header is known only now.
    let weights = library.weights.take();
    if let Some(weights) = &weights {
        library.set_hash(&weights.hash())?;
    }
    let file = weights.map(|weights| weights.file());
    let constants: Vec<_> = plan.constants.iter().chain(&library.constants).collect();
    let arena = driver::known_arena_bytes(&plan, &library);
    Ok(Object {
        bytes: elf::write(
            options.cpu.architecture(),
            &image,
            &entries,
            &constants,
            (sine_table(), &library.tiles),
        )?,
        header: header::write(
            &plan,
            object,
            (&sizes, &checks),
            (arena, &library.custom),
            file.as_ref().map(Vec::len),
        ),
        weights: file,
    })
}

/// An archive with one object, which linkers take as a library.
///
/// # Errors
/// [`Error::Bug`] if it cannot be written.
pub fn archive(name: &str, object: &[u8]) -> Result<Vec<u8>, Error> {
    elf::archive(name, object)
}

/// Whether a name is valid for a C function.
fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    let starts = bytes
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    starts && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The checks of a call: the bounds of open sizes, the program's conditions on them, and that
/// arrays fit in memory.
fn checks(plan: &Plan, sizes: &GivenSizes) -> Vec<Check> {
    let compare = |left: &Term, op, right: &Term, message: String| Check {
        condition: Condition::Compare(left.clone(), op, right.clone()),
        message,
    };
    let mut checks = Vec::new();
    let given = sizes.of.iter().enumerate().filter(|(_, of)| of.is_some());
    for (number, _) in given {
        let symbol = &plan.symbols[number];
        let size = Term::var(Var(number as u32));
        let (lower, upper) = (symbol.lower, symbol.upper);
        let message = format!("{} is not between {lower} and {upper}", symbol.name);
        let [lower, upper] = [lower, upper].map(Term::constant);
        checks.push(compare(&lower, Cmp::Le, &size, message.clone()));
        checks.push(compare(&size, Cmp::Le, &upper, message));
    }
    for guard in &plan.sizes.guards {
        let message = match &guard.message {
            Some(message) => message.text.to_string(),
            None => guard.what.to_string(),
        };
        checks.push(compare(&guard.left, guard.op, &guard.right, message));
    }
    let values = plan.values.values();
    let arrays = values.filter_map(|value| value.shape.byte_size_term());
    let bytes = arrays.chain([plan.arena_bytes.clone()]);
    let bytes = beyond(plan, bytes, MAX_BYTES);
    let extents = beyond(plan, open_extents(plan), MAX_OPEN_EXTENT);
    for (terms, most, message) in [
        (bytes, MAX_BYTES, NO_MEMORY),
        (extents, MAX_OPEN_EXTENT, TOO_LONG),
    ] {
        if !terms.is_empty() {
            checks.push(Check {
                condition: Condition::AtMost(terms, most),
                message: message.to_owned(),
            });
        }
    }
    checks
}

const NO_MEMORY: &str = "arrays of these sizes fit in no memory";
const TOO_LONG: &str =
    "with these sizes, a dimension of an array has more than 2147483647 elements";

/// The number of points of kernels along dimensions and loops of open size.
fn open_extents(plan: &Plan) -> impl Iterator<Item = Term> {
    let kernels = plan.kernels.values();
    kernels.flat_map(|kernel| {
        let extents = kernel.vars.iter().filter_map(|var| match var {
            IndexVar::Domain(extent) | IndexVar::Loop(extent) => Some(extent),
            _ => None,
        });
        let extents = extents.filter(|extent| {
            let mut depends_on_sizes_alone = true;
            extent.for_each_var(&mut |var| {
                let is_size = matches!(kernel.var(var), Some(IndexVar::Symbol { .. }));
                depends_on_sizes_alone &= is_size;
            });
            depends_on_sizes_alone
        });
        extents.map(|extent| driver::own(kernel, extent))
    })
}

/// The distinct terms that may exceed `most` if open sizes are within their bounds.
fn beyond(plan: &Plan, terms: impl Iterator<Item = Term>, most: i64) -> Vec<Term> {
    let largest = |var: Var| {
        let symbol = plan.symbols.get(var.0 as usize);
        symbol.map_or(0.0, |symbol| symbol.upper as f64)
    };
    let mut seen = FxHashSet::default();
    let terms = terms.filter(|term| term.as_constant().is_none() && seen.insert(term.clone()));
    terms
        .filter(|term| magnitude(term, &largest) > most as f64)
        .collect()
}

/// A bound of the absolute value of a term and of all its intermediate results.
fn magnitude(term: &Term, of: &dyn Fn(Var) -> f64) -> f64 {
    term.fold(&mut |term: &Term, parts: &[f64]| match term.node() {
        Node::Const(number) => number.unsigned_abs() as f64,
        Node::Var(var) => of(*var),
        Node::Add(..) => parts.iter().sum(),
        Node::Mul(..) => parts.iter().product(),
        Node::FloorDiv(..) | Node::CeilDiv(..) => parts[0],
        Node::Cmp(..) => 1.0,
        Node::Min(..) | Node::Max(..) | Node::Mod(..) | Node::Select(..) => {
            parts.iter().copied().fold(0.0, f64::max)
        }
    })
}
