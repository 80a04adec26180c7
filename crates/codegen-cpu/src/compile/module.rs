//! Compiles all kernels of a Plan into one Cranelift module in memory.

use super::Pieces;
use super::linked::{LinkedBody, LinkedListing, Linker, ListedMachine};
use super::loop_outline::{Made, Maker, emit};
use super::transform_kernels;
use crate::abi::{KernelCode, KernelFn};
use crate::clif::lower::{Imports, KERNEL_PARAMS, lower_kernel};
use crate::clif::target::{target, target_for};
use crate::error::Error;
use crate::image::libcalls::{General, Helper};
use crate::image::{CodeImage, FunctionId, ImageBuilder, PlacedCode};
use crate::isa::clif128;
use crate::isa::x64::{self, InstructionSet};
use crate::library::sort::SortCode;
use crate::library::sort_key::key_of;
use crate::options::Listing;
use crate::options::Options;
use crate::options::StreamLimits;
use crate::program::ir::{Action, Location, Nest};
use crate::program::lower::resolve_loop;
use crate::program::nontemporal_stores;
use crate::simd::ir::Body;
use crate::simd::row_addressing::RowsIn;
use crate::transform::pipeline::{Piece, Transformed, vectorize_only};
use crate::vectorize::translate::Run;
use cranelift_codegen::ir::{FuncRef, Signature, Type, Value, types};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::{Context, ir};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::fmt::Write;
use tegula_fusion::Kernel;
use tegula_fusion::LibraryOp;
use tegula_ir::PassManager;
use tegula_plan::{Plan, Step, ValueId};
use tegula_target::CpuFeatures;

/// Machine code that can be run.
pub(crate) struct Code {
    /// The functions of the plan's kernels, by number.
    pub kernels: Vec<KernelCode>,
    /// The code of the plan's sorts, in the order of the schedule.
    pub sorts: Vec<SortCode>,
    /// The functions of outlined loops, by the number in their [nests](crate::program::ir::Nest).
    pub loops: Vec<KernelFn>,
    _placed: PlacedCode,
}

/// A plan's machine code before it has an address, and the roles of its functions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CompiledPlan {
    pub image: CodeImage,
    /// The functions of the plan's kernels, by number.
    pub kernels: Vec<Pieces>,
    /// The functions of the plan's sorts, in the order of the schedule: the comparator, and the
    /// function that computes keys, if the sort has keys.
    pub sorts: Vec<(FunctionId, Option<FunctionId>)>,
    /// The functions of outlined loops.
    pub loops: Vec<FunctionId>,
    /// For each loop of the program at its own sizes, in the order of [`attach_nests`]: its
    /// function, if it is outlined.
    pub nests: Vec<Option<Nest>>,
}

impl CompiledPlan {
    /// Places the code in memory. `plan` is the one that was compiled.
    ///
    /// # Errors
    /// The code does not belong to the plan, or there is not enough memory.
    pub(crate) fn place(&self, plan: &Plan) -> Result<Code, Error> {
        let placed = PlacedCode::new(self.image.clone())?;
        let pointer = |&id: &FunctionId| -> Result<KernelFn, Error> {
            let address = placed.address(id);
            if address.is_null() {
                return Err(Error::Bug(format!("function {} was not compiled", id.0)));
            }
            // SAFETY: the function was defined with the signature of `KernelFn`.
            Ok(unsafe { std::mem::transmute::<*const u8, KernelFn>(address) })
        };
        let code = |pieces: &Pieces| -> Result<KernelCode, Error> {
            let pieces = pieces.iter();
            pieces.map(|(id, part)| Ok((pointer(id)?, *part))).collect()
        };
        let kernels: Result<_, Error> = self.kernels.iter().map(code).collect();
        let mut comparators = Vec::new();
        find_comparators(&plan.steps, &mut comparators);
        let sorts = self.sorts.iter().zip(comparators);
        let sorts = sorts.map(|((comparator, key), kernel)| {
            let key = match (key, key_of(kernel.0)) {
                (Some(function), Some(key)) => Some((pointer(function)?, key.arrays, key.order)),
                _ => None,
            };
            Ok(SortCode {
                comparator: pointer(comparator)?,
                key,
            })
        });
        let sorts: Result<_, Error> = sorts.collect();
        let loops: Result<_, Error> = self.loops.iter().map(pointer).collect();
        Ok(Code {
            kernels: kernels?,
            sorts: sorts?,
            loops: loops?,
            _placed: placed,
        })
    }
}

struct Builder {
    image: ImageBuilder,
    context: Context,
    functions: FunctionBuilderContext,
    imports: ModuleImports,
    listing: Option<(Listing, String)>,
    /// The listing to which functions are added instead of the image, if they are only listed.
    linker: Option<Linker>,
    streaming: StreamLimits,
    /// Whether the arguments of the next function end with the address of a stop flag: those of
    /// comparators and of functions in objects do not.
    stops: bool,
}

/// The key of a body's function: the body, the maximum number of lanes, and the accesses that store
/// past the caches.
type BodyKey = (Body, Option<i64>, SmallVec<[u32; 2]>);
/// The number of bodies whose functions are cached.
const LAST_BODIES: usize = 8;
/// The alignment of a body's function in bytes: that of a cache line.
const BODY_ALIGNMENT: u32 = 64;

#[derive(Default)]
struct ModuleImports {
    /// The lowering to wider vectors, if the CPU has them.
    wide: Option<x64::Wide>,
    /// The number of bodies that became functions.
    bodies: usize,
    /// The functions of the last bodies, for reuse by other versions of a kernel: parts of a
    /// concatenation that are copied in the same way.
    last_bodies: VecDeque<(BodyKey, FunctionId)>,
    /// The text of their machine code, if it is listed.
    listing: Option<String>,
    /// Their machine code with origins, if it is listed.
    linked: Option<Vec<LinkedBody>>,
}

/// The imports of one function.
struct FunctionImports<'a> {
    image: &'a mut ImageBuilder,
    imports: &'a mut ModuleImports,
    /// The parameters of the current kernel that are stored past the caches.
    streamed: &'a [bool],
    streaming: StreamLimits,
    /// Whether its arguments end with the address of a stop flag.
    stops: bool,
}

impl Imports for FunctionImports<'_> {
    fn import(&mut self, builder: &mut FunctionBuilder<'_>, helper: &Helper) -> FuncRef {
        self.image.refer_to_routine(helper, builder.func)
    }

    fn operation(&mut self, builder: &mut FunctionBuilder<'_>, operation: General) -> Value {
        self.image.operation(builder, operation)
    }

    fn abilities(&self) -> clif128::Abilities {
        self.image.abilities()
    }

    fn has_origins(&self) -> bool {
        self.imports.linked.is_some()
    }

    fn stops(&self) -> bool {
        self.stops
    }

    fn wide_body(
        &mut self,
        builder: &mut FunctionBuilder<'_>,
        run: &Run,
        rows: RowsIn<'_>,
    ) -> Result<Option<FuncRef>, Error> {
        let Some(wide) = &mut self.imports.wide else {
            return Ok(None);
        };
        let streamed = nontemporal_stores::accesses(run, self.streamed, self.streaming);
        let key = (run.body.clone(), run.lanes_at_most, streamed.clone());
        let is_one = matches!(rows, RowsIn::One);
        let mut known = self.imports.last_bodies.iter();
        let same = known.find(|(other, _)| is_one && *other == key);
        let params: &[Type] = match rows {
            RowsIn::One => &[types::I64; 2],
            RowsIn::Slots | RowsIn::Turns(_) => &[types::I64; 3],
        };
        let signature = self.image.signature(params, &[]);
        if let Some(&(_, id)) = same {
            return Ok(Some(self.image.refer(id, signature, builder.func)));
        }
        let made = wide.lower(&run.body, run.lanes_at_most, rows, &streamed);
        let Some((code, origins)) = made else {
            return Ok(None);
        };
        let name = format!("body{}", self.imports.bodies);
        self.imports.bodies += 1;
        if let Some(text) = &mut self.imports.listing {
            let _ = writeln!(text, "{name}:\n{}", x64::listing(&code));
        }
        let id = self.image.define_bytes(&code, BODY_ALIGNMENT)?;
        if let Some(linked) = &mut self.imports.linked {
            linked.push(LinkedBody {
                id,
                name,
                code,
                origins,
            });
        }
        if is_one {
            self.imports.last_bodies.truncate(LAST_BODIES - 1);
            self.imports.last_bodies.push_front((key, id));
        }
        Ok(Some(self.image.refer(id, signature, builder.func)))
    }
}

/// Compiles every kernel of a plan, and the loops of its actions that can be outlined. `actions`
/// are the plan's at its own sizes, or none if sizes are open.
pub(crate) fn compile_kernels(
    plan: &Plan,
    transformed: &[Transformed],
    actions: &[Action],
    options: &Options,
    listing: Option<Listing>,
) -> Result<(CompiledPlan, String), Error> {
    let mut builder = Builder::new(target(options.cpu)?, options, listing);
    let kernels = builder.kernels(plan, transformed)?;
    builder.stops = false;
    let mut sorts = Vec::new();
    let mut comparators = Vec::new();
    find_comparators(&plan.steps, &mut comparators);
    for (number, (comparator, _)) in comparators.into_iter().enumerate() {
        sorts.push(builder.sort(number, comparator)?);
    }
    let mut loops = Loops::default();
    builder.loops(plan, &kernels, actions, &mut loops, true)?;
    let text = builder
        .listing
        .take()
        .map(|(_, text)| text)
        .unwrap_or_default();
    let compiled = CompiledPlan {
        image: builder.image.finish()?,
        kernels,
        sorts,
        loops: loops.functions,
        nests: loops.nests,
    };
    Ok((compiled, text))
}

/// Lists the code of a plan's kernels for a machine, which need not be this one.
///
/// # Errors
/// A machine that this build cannot compile for; an operation that cannot be compiled yet.
pub fn linked_listing(plan: &Plan, machine: ListedMachine) -> Result<LinkedListing, Error> {
    let isa = target(machine.vectors())?;
    let options = Options {
        cpu: machine.vectors(),
        ..Options::default()
    };
    let transformed = transform_kernels(plan, &options, &mut PassManager::new());
    let mut builder = Builder::new(isa, &options, None);
    builder.linker = Some(Linker::new(machine));
    builder.imports.linked = Some(Vec::new());
    builder.kernels(plan, &transformed)?;
    let linker = builder.linker;
    let linker =
        linker.ok_or_else(|| Error::Bug("the listing linker was not set up".to_owned()))?;
    Ok(linker.listing)
}

/// The functions of a sort: the comparator, and the function that computes keys, if there is one.
pub(crate) type SortFunctions = (FunctionId, Option<FunctionId>);

/// The functions of a plan, for the code of an object that calls them.
#[derive(Default)]
pub(crate) struct PlanFunctions {
    /// The functions of kernels, by number.
    pub kernels: Vec<Pieces>,
    /// The functions of sorts, by their first results.
    pub sorts: FxHashMap<ValueId, SortFunctions>,
    /// The functions of outlined loops, by the address of their step in the plan.
    pub loops: FxHashMap<*const Step, LoopFunction>,
}

/// An outlined loop of an object, with its arguments.
pub(crate) struct LoopFunction {
    pub function: FunctionId,
    /// The memory locations whose addresses the function is given, in a table.
    pub table: Vec<Location>,
}

/// Compiles every kernel of a plan for an object, and the functions that `entries` adds, which gets
/// the functions of the kernels. `slices`: the values that are read in place in larger arrays.
pub(crate) fn compile_for_object<T>(
    plan: &Plan,
    transformed: &[Transformed],
    options: &Options,
    slices: &FxHashMap<ValueId, usize>,
    entries: impl FnOnce(&mut ImageBuilder, &PlanFunctions) -> Result<T, Error>,
) -> Result<(CodeImage, T), Error> {
    let mut builder = Builder::new(target_for(options.cpu, true)?, options, None);
    builder.stops = false;
    let kernels = builder.kernels(plan, transformed)?;
    let mut comparators = Vec::new();
    find_comparators(&plan.steps, &mut comparators);
    let mut sorts = FxHashMap::default();
    for (number, (comparator, result)) in comparators.into_iter().enumerate() {
        let functions = builder.sort(number, comparator)?;
        sorts.extend(result.map(|result| (result, functions)));
    }
    let mut functions = PlanFunctions {
        kernels,
        sorts,
        loops: FxHashMap::default(),
    };
    // As in a run, loops of a program with open sizes are not outlined.
    if plan.symbols.is_empty() {
        let resolve = |step: &Step| {
            let isa = CpuFeatures::up_to(options.cpu);
            resolve_loop(plan, isa, slices, step)
        };
        builder.loops_of_object(plan, &resolve, &plan.steps, &mut functions)?;
    }
    let entries = entries(&mut builder.image, &functions)?;
    Ok((builder.image.finish()?, entries))
}

/// The outlined loops.
#[derive(Default)]
struct Loops {
    functions: Vec<FunctionId>,
    nests: Vec<Option<Nest>>,
}

/// Attaches functions to the outlined loops of a program: `nests` has an entry for each outermost
/// loop in program order, and if one is not outlined, for the loops inside it.
pub(crate) fn attach_nests(actions: &mut [Action], nests: &mut impl Iterator<Item = Option<Nest>>) {
    for action in actions {
        match action {
            Action::While {
                condition,
                body,
                nest,
                ..
            } => {
                *nest = nests.next().flatten();
                if nest.is_none() {
                    attach_nests(condition, nests);
                    attach_nests(body, nests);
                }
            }
            Action::Conditional { branches, .. } => {
                for branch in branches {
                    attach_nests(branch, nests);
                }
            }
            _ => {}
        }
    }
}

/// Collects the comparators of sorts, and their first results.
fn find_comparators<'a>(steps: &'a [Step], out: &mut Vec<(&'a Kernel, Option<ValueId>)>) {
    for step in steps {
        match step {
            Step::Library {
                op: LibraryOp::Sort { comparator, .. },
                results,
                ..
            } => out.push((comparator, results.first().copied())),
            step => step
                .blocks()
                .iter()
                .for_each(|block| find_comparators(block, out)),
        }
    }
}

impl Builder {
    fn new(isa: OwnedTargetIsa, options: &Options, listing: Option<Listing>) -> Self {
        Self {
            linker: None,
            context: Context::new(),
            functions: FunctionBuilderContext::new(),
            image: ImageBuilder::new(isa),
            imports: ModuleImports {
                wide: InstructionSet::of(options.cpu).map(x64::Wide::new),
                listing: (listing == Some(Listing::Asm)).then(String::new),
                ..ModuleImports::default()
            },
            listing: listing.map(|l| (l, String::new())),
            streaming: options.streaming,
            stops: true,
        }
    }

    /// Compiles the functions of a sort.
    fn sort(&mut self, number: usize, comparator: &Kernel) -> Result<SortFunctions, Error> {
        let key = match key_of(comparator) {
            Some(key) => {
                let kernel = vectorize_only(&key.kernel);
                Some(self.function(&format!("key{number}"), &kernel, &[])?)
            }
            None => None,
        };
        let name = format!("comparator{number}");
        let comparator = self.function(&name, &vectorize_only(comparator), &[])?;
        Ok((comparator, key))
    }

    /// Compiles the functions of every kernel of a plan.
    fn kernels(&mut self, plan: &Plan, transformed: &[Transformed]) -> Result<Vec<Pieces>, Error> {
        let streamed = match self.imports.wide.is_some() {
            true => nontemporal_stores::kernels(plan, self.streaming),
            false => FxHashMap::default(),
        };
        let kernels = plan.kernels.keys().zip(transformed).map(|(id, kernel)| {
            tegula_limits::check()?;
            let streamed = streamed.get(&id).map_or(&[][..], Vec::as_slice);
            self.kernel(&id.to_string(), kernel, streamed)
        });
        kernels.collect()
    }

    /// Compiles the functions of a kernel's pieces; `streamed` are the parameters that are stored
    /// past the caches.
    fn kernel(
        &mut self,
        name: &str,
        transformed: &Transformed,
        streamed: &[bool],
    ) -> Result<Pieces, Error> {
        if let [piece] = &transformed.pieces[..] {
            let function = self.function(name, piece, streamed)?;
            return Ok(Pieces::from_elem((function, piece.part), 1));
        }
        let mut functions = Pieces::new();
        for (i, piece) in transformed.pieces.iter().enumerate() {
            let function = self.function(&format!("{name}_{i}"), piece, streamed)?;
            functions.push((function, piece.part));
        }
        Ok(functions)
    }

    /// Declares a function with a kernel's signature, which is built next.
    fn declare(&mut self) -> FunctionId {
        let id = self.image.declare();
        self.context.clear();
        self.context.func.signature = self.kernel_signature();
        self.context.func.name = ir::UserFuncName::user(0, id.0);
        id
    }

    fn kernel_signature(&self) -> Signature {
        self.image.signature(&KERNEL_PARAMS, &[])
    }

    /// Outlines the outermost loops that can be functions, with all loops inside them.
    fn loops(
        &mut self,
        plan: &Plan,
        pieces: &[Pieces],
        actions: &[Action],
        loops: &mut Loops,
        is_entry: bool,
    ) -> Result<(), Error> {
        for (at, action) in actions.iter().enumerate() {
            match action {
                Action::While {
                    condition, body, ..
                } => {
                    let after = is_entry.then_some(&actions[at + 1..]);
                    let Some(made) = Maker::new(plan, pieces).make(action, after) else {
                        loops.nests.push(None);
                        self.loops(plan, pieces, condition, loops, false)?;
                        self.loops(plan, pieces, body, loops, false)?;
                        continue;
                    };
                    let number = loops.functions.len();
                    let function = self.nest(&format!("loop{number}"), &made, pieces)?;
                    loops.functions.push(function);
                    loops.nests.push(Some(Nest {
                        function: number,
                        table: made.table,
                    }));
                }
                Action::Conditional { branches, .. } => {
                    for branch in branches {
                        self.loops(plan, pieces, branch, loops, false)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Outlines the outermost loops of an object's plan, as [`Self::loops`] does for a run.
    /// `resolve` converts a loop's step to an action with memory locations.
    fn loops_of_object(
        &mut self,
        plan: &Plan,
        resolve: &dyn Fn(&Step) -> Option<Action>,
        steps: &[Step],
        functions: &mut PlanFunctions,
    ) -> Result<(), Error> {
        for step in steps {
            let looped = matches!(step, Step::While { .. }).then(|| resolve(step));
            let maker = Maker::new(plan, &functions.kernels);
            let made = looped
                .flatten()
                .and_then(|looped| maker.make(&looped, None));
            let Some(made) = made else {
                for block in step.blocks() {
                    self.loops_of_object(plan, resolve, block, functions)?;
                }
                continue;
            };
            let name = format!("loop{}", functions.loops.len());
            let function = self.nest(&name, &made, &functions.kernels)?;
            let table = made.table;
            let looped = LoopFunction { function, table };
            functions.loops.insert(std::ptr::from_ref(step), looped);
        }
        Ok(())
    }

    fn nest(&mut self, name: &str, made: &Made, pieces: &[Pieces]) -> Result<FunctionId, Error> {
        let id = self.declare();
        let config = self.image.config();
        let mut builder = FunctionBuilder::new(&mut self.context.func, &mut self.functions);
        let mut calls = Vec::new();
        made.looped.calls(&mut calls);
        let mut functions = FxHashMap::default();
        let signature = self.image.signature(&KERNEL_PARAMS, &[]);
        for call in calls {
            let (function, _) = pieces[call.0][call.1];
            let declare = || self.image.refer(function, signature.clone(), builder.func);
            functions.entry(call).or_insert_with(declare);
        }
        let mut imports = FunctionImports {
            image: &mut self.image,
            imports: &mut self.imports,
            streamed: &[],
            streaming: self.streaming,
            stops: false,
        };
        emit(made, functions, config, &mut builder, &mut imports)?;
        builder.finalize(config);
        self.define(id, name)?;
        Ok(id)
    }

    fn function(
        &mut self,
        name: &str,
        piece: &Piece,
        streamed: &[bool],
    ) -> Result<FunctionId, Error> {
        let Piece {
            kernel,
            vectors,
            packed,
            ..
        } = piece;
        let id = self.declare();
        let config = self.image.config();
        let mut builder = FunctionBuilder::new(&mut self.context.func, &mut self.functions);
        let mut imports = FunctionImports {
            image: &mut self.image,
            imports: &mut self.imports,
            // A vector loop that is called for a few lanes at a time does not store whole cache
            // lines.
            streamed: match vectors.across {
                Some(_) => &[],
                None => streamed,
            },
            streaming: self.streaming,
            stops: self.stops,
        };
        lower_kernel(kernel, vectors, packed, &mut builder, &mut imports)?;
        builder.finalize(config);
        if let Some(linker) = &mut self.linker {
            let bodies = self.imports.linked.replace(Vec::new()).unwrap_or_default();
            linker.function(
                (id, name, kernel),
                &mut self.image,
                &mut self.context,
                bodies,
            );
            return Ok(id);
        }
        if let Some((_, text)) = &mut self.listing {
            let _ = write!(text, "{vectors}");
        }
        self.define(id, name)?;
        Ok(id)
    }

    /// Compiles the function that was built.
    fn define(&mut self, id: FunctionId, name: &str) -> Result<(), Error> {
        if let Some((Listing::Clif, text)) = &mut self.listing {
            let _ = writeln!(text, "; {name}\n{}", self.context.func.display());
        }
        let wants_asm = matches!(self.listing, Some((Listing::Asm, _)));
        self.context.set_disasm(wants_asm);
        self.image
            .define(id, &mut self.context)
            .map_err(|error| match error {
                Error::Bug(what) => Error::Bug(format!("{name}: {what}")),
                other => other,
            })?;
        if let Some((Listing::Asm, text)) = &mut self.listing {
            let compiled = self
                .context
                .compiled_code()
                .and_then(|c| c.vcode.as_deref());
            let _ = writeln!(text, "{name}:\n{}", compiled.unwrap_or_default());
            if let Some(bodies) = &mut self.imports.listing {
                text.push_str(&std::mem::take(bodies));
            }
        }
        Ok(())
    }
}
