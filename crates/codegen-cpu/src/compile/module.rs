//! Compiles all kernels of a Plan into one Cranelift module in memory.

use super::Pieces;
use super::loop_outline::{Made, Maker, emit};
use crate::abi::{KernelCode, KernelFn};
use crate::clif::libcalls::{General, Helper};
use crate::clif::lower::{Imports, KERNEL_PARAMS, lower_kernel};
use crate::clif::target::target;
use crate::error::Error;
use crate::isa::x64::{self, InstructionSet};
use crate::library::sort::{SortCode, SortKey, key_of};
use crate::options::Listing;
use crate::options::Options;
use crate::options::StreamLimits;
use crate::program::ir::Action;
use crate::program::ir::Nest;
use crate::program::nontemporal_stores;
use crate::simd::ir::Body;
use crate::simd::row_addressing::RowsIn;
use crate::transform::pipeline::{Piece, Transformed, vectorize_only};
use crate::vectorize::translate::Run;
use cranelift_codegen::ir::{AbiParam, FuncRef, Signature, types};
use cranelift_codegen::{Context, ir};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::fmt::Write;
use tegula_fusion::Kernel;
use tegula_fusion::LibraryOp;
use tegula_layout::plan::{Plan, Step};

/// Machine code and what it refers to.
pub(crate) struct Code {
    /// The plan's kernels, by number.
    pub kernels: Vec<KernelCode>,
    /// The code of the plan's sorts, in the order of the schedule.
    pub sorts: Vec<SortCode>,
    /// Loops that are functions, by the number that their [loop_outline](crate::program::ir::Nest) have.
    pub nests: Vec<KernelFn>,
    module: Option<JITModule>,
    /// Operations that the code has the addresses of: each in its own place.
    #[allow(
        clippy::vec_box,
        reason = "the code holds their addresses, so they must not move"
    )]
    _operations: Vec<Box<General>>,
}

impl Drop for Code {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: the function pointers are fields of `self` and are called
            // only through it, so none is called after this.
            unsafe { module.free_memory() };
        }
    }
}

// SAFETY: after `finalize_definitions` the module's memory is only read and
// executed, and the kept operations are only read.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

struct Builder {
    module: JITModule,
    context: Context,
    functions: FunctionBuilderContext,
    imports: ModuleImports,
    listing: Option<(Listing, String)>,
    streaming: StreamLimits,
}

/// What a body's function depends on: the body, the most lanes, what is stored past the caches.
type BodyKey = (Body, Option<i64>, SmallVec<[u32; 2]>);
/// How many functions of bodies are remembered.
const LAST_BODIES: usize = 8;

#[derive(Default)]
struct ModuleImports {
    declared: FxHashMap<&'static str, (FuncId, Signature)>,
    #[allow(
        clippy::vec_box,
        reason = "the code holds their addresses, so they must not move"
    )]
    operations: Vec<Box<General>>,
    /// What makes bodies functions of wider vectors, where the CPU has them.
    wide: Option<x64::Wide>,
    /// How many did.
    bodies: usize,
    /// The functions of the last ones, which versions of a kernel may share: parts of a
    /// concatenation that are copied alike.
    last_bodies: VecDeque<(BodyKey, FuncId)>,
    /// Their machine code as text, if that is wanted.
    listing: Option<String>,
}

/// Gives helpers to one function.
struct FunctionImports<'a> {
    module: &'a mut JITModule,
    imports: &'a mut ModuleImports,
    /// Which parameters of the kernel in hand are stored past the caches.
    streamed: &'a [bool],
    streaming: StreamLimits,
}

impl Imports for FunctionImports<'_> {
    fn import(&mut self, builder: &mut FunctionBuilder<'_>, helper: &Helper) -> FuncRef {
        let module = &mut *self.module;
        let (id, _) = self.imports.declared.entry(helper.name).or_insert_with(|| {
            let mut signature = module.make_signature();
            signature
                .params
                .extend(helper.params.iter().map(|&t| AbiParam::new(t)));
            signature
                .returns
                .extend(helper.returns.iter().map(|&t| AbiParam::new(t)));
            // An import can fail to be declared only if its name is declared
            // with another signature, and each name has one.
            let id = module
                .declare_function(helper.name, Linkage::Import, &signature)
                .unwrap_or(FuncId::from_u32(0));
            (id, signature)
        });
        module.declare_func_in_func(*id, builder.func)
    }

    fn keep(&mut self, general: General) -> i64 {
        let general = Box::new(general);
        let address = std::ptr::from_ref::<General>(&general) as i64;
        self.imports.operations.push(general);
        address
    }

    fn fused(&self) -> bool {
        let flags = self.module.isa().isa_flags();
        flags
            .iter()
            .any(|f| f.name == "has_fma" && f.as_bool() == Some(true))
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
        if let Some(&(_, id)) = same {
            return Ok(Some(self.module.declare_func_in_func(id, builder.func)));
        }
        let Some(code) = wide.lower(&run.body, run.lanes_at_most, rows, &streamed) else {
            return Ok(None);
        };
        let mut signature = self.module.make_signature();
        let params = match rows {
            RowsIn::One => 2,
            RowsIn::Slots | RowsIn::Turns(_) => 3,
        };
        signature.params = vec![AbiParam::new(types::I64); params];
        let name = format!("body{}", self.imports.bodies);
        self.imports.bodies += 1;
        if let Some(text) = &mut self.imports.listing {
            let _ = writeln!(text, "{name}:\n{}", x64::listing(&code));
        }
        let bug = |e: cranelift_module::ModuleError| Error::Bug(e.to_string());
        let id = self
            .module
            .declare_function(&name, Linkage::Local, &signature)
            .map_err(bug)?;
        self.module
            .define_function_bytes(id, 64, &code, &[])
            .map_err(bug)?;
        if is_one {
            self.imports.last_bodies.truncate(LAST_BODIES - 1);
            self.imports.last_bodies.push_front((key, id));
        }
        Ok(Some(self.module.declare_func_in_func(id, builder.func)))
    }
}

/// Compiles every kernel of a plan, and those loops of its actions that can be functions.
pub(crate) fn compile_kernels(
    plan: &Plan,
    transformed: &[Transformed],
    actions: &mut [Action],
    options: &Options,
    listing: Option<Listing>,
) -> Result<(Code, String), Error> {
    let cpu = options.cpu;
    let mut builder = JITBuilder::with_isa(target(cpu)?, cranelift_module::default_libcall_names());
    builder.symbol_lookup_fn(Box::new(crate::clif::libcalls::lookup));
    let module = JITModule::new(builder);
    let mut builder = Builder {
        context: module.make_context(),
        functions: FunctionBuilderContext::new(),
        module,
        imports: ModuleImports {
            wide: InstructionSet::of(cpu).map(x64::Wide::new),
            listing: (listing == Some(Listing::Asm)).then(String::new),
            ..ModuleImports::default()
        },
        listing: listing.map(|l| (l, String::new())),
        streaming: options.streaming,
    };
    let mut kernels = Vec::with_capacity(plan.kernels.len());
    let streamed = match builder.imports.wide.is_some() {
        true => nontemporal_stores::kernels(plan, options.streaming),
        false => FxHashMap::default(),
    };
    for (id, kernel) in plan.kernels.keys().zip(transformed) {
        let streamed = streamed.get(&id).map_or(&[][..], Vec::as_slice);
        kernels.push(builder.kernel(&id.to_string(), kernel, streamed)?);
    }
    let mut sorts = Vec::new();
    let mut comparators = Vec::new();
    find_comparators(&plan.steps, &mut comparators);
    for (i, comparator) in comparators.into_iter().enumerate() {
        let key = match key_of(comparator) {
            Some(key) => {
                let function =
                    builder.function(&format!("key{i}"), &vectorize_only(&key.kernel), &[])?;
                Some((function, key))
            }
            None => None,
        };
        sorts.push((
            builder.function(&format!("comparator{i}"), &vectorize_only(comparator), &[])?,
            key,
        ));
    }
    let mut nests = Vec::new();
    builder.nests(plan, &kernels, actions, &mut nests, true)?;
    let text = builder
        .listing
        .take()
        .map(|(_, text)| text)
        .unwrap_or_default();
    let code = builder.finish(&kernels, sorts, &nests)?;
    Ok((code, text))
}

fn find_comparators<'a>(steps: &'a [Step], out: &mut Vec<&'a Kernel>) {
    for step in steps {
        match step {
            Step::Library {
                op: LibraryOp::Sort { comparator, .. },
                ..
            } => out.push(comparator),
            step => step
                .blocks()
                .iter()
                .for_each(|block| find_comparators(block, out)),
        }
    }
}

impl Builder {
    /// The functions of a kernel's pieces; `streamed`: parameters that are stored past the
    /// caches.
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

    /// Declares a function with a kernel's signature, which is what is built next.
    fn declare(&mut self, name: &str) -> Result<FuncId, Error> {
        let mut signature = self.module.make_signature();
        signature.params.extend(KERNEL_PARAMS.map(AbiParam::new));
        let id = self
            .module
            .declare_function(name, Linkage::Local, &signature)
            .map_err(|e| Error::Bug(e.to_string()))?;
        self.context.func.signature = signature;
        self.context.func.name = ir::UserFuncName::user(0, id.as_u32());
        Ok(id)
    }

    /// Functions of the outermost loops that can be, with all that is inside them.
    fn nests(
        &mut self,
        plan: &Plan,
        pieces: &[Pieces],
        actions: &mut [Action],
        nests: &mut Vec<FuncId>,
        is_entry: bool,
    ) -> Result<(), Error> {
        for at in 0..actions.len() {
            let (before, after) = actions.split_at_mut(at + 1);
            let Some(action) = before.last_mut() else {
                continue;
            };
            match action {
                Action::While { .. } => {
                    let after = is_entry.then_some(&*after);
                    let made = Maker::new(plan, pieces).make(action, after);
                    let Action::While {
                        condition,
                        body,
                        nest,
                        ..
                    } = action
                    else {
                        continue;
                    };
                    match made {
                        Some(made) => {
                            let name = format!("loop{}", nests.len());
                            let function = self.nest(&name, &made, pieces)?;
                            *nest = Some(Nest {
                                function: nests.len(),
                                table: made.table,
                            });
                            nests.push(function);
                        }
                        None => {
                            self.nests(plan, pieces, condition, nests, false)?;
                            self.nests(plan, pieces, body, nests, false)?;
                        }
                    }
                }
                Action::Conditional { branches, .. } => {
                    for branch in branches {
                        self.nests(plan, pieces, branch, nests, false)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn nest(&mut self, name: &str, made: &Made, pieces: &[Pieces]) -> Result<FuncId, Error> {
        let id = self.declare(name)?;
        let config = self.module.target_config();
        let mut builder = FunctionBuilder::new(&mut self.context.func, &mut self.functions);
        let mut calls = Vec::new();
        made.looped.calls(&mut calls);
        let mut functions = FxHashMap::default();
        for call in calls {
            let (function, _) = pieces[call.0][call.1];
            let declare = || self.module.declare_func_in_func(function, builder.func);
            functions.entry(call).or_insert_with(declare);
        }
        let mut imports = FunctionImports {
            module: &mut self.module,
            imports: &mut self.imports,
            streamed: &[],
            streaming: self.streaming,
        };
        emit(made, functions, config, &mut builder, &mut imports)?;
        builder.finalize(config);
        self.define(id, name)?;
        Ok(id)
    }

    fn function(&mut self, name: &str, piece: &Piece, streamed: &[bool]) -> Result<FuncId, Error> {
        let Piece {
            kernel,
            vectors,
            packed,
            ..
        } = piece;
        let id = self.declare(name)?;
        let config = self.module.target_config();
        let mut builder = FunctionBuilder::new(&mut self.context.func, &mut self.functions);
        let mut imports = FunctionImports {
            module: &mut self.module,
            imports: &mut self.imports,
            // A run that is called for a few lanes at a time has no lines of its own.
            streamed: match vectors.across {
                Some(_) => &[],
                None => streamed,
            },
            streaming: self.streaming,
        };
        lower_kernel(kernel, vectors, packed, &mut builder, &mut imports)?;
        builder.finalize(config);
        if let Some((_, text)) = &mut self.listing {
            let _ = write!(text, "{vectors}");
        }
        self.define(id, name)?;
        Ok(id)
    }

    /// Compiles what was built.
    fn define(&mut self, id: FuncId, name: &str) -> Result<(), Error> {
        if let Some((Listing::Clif, text)) = &mut self.listing {
            let _ = writeln!(text, "; {name}\n{}", self.context.func.display());
        }
        let wants_asm = matches!(self.listing, Some((Listing::Asm, _)));
        self.context.set_disasm(wants_asm);
        self.module
            .define_function(id, &mut self.context)
            .map_err(|e| Error::Bug(format!("{name}: {e:?}")))?;
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
        self.module.clear_context(&mut self.context);
        Ok(())
    }

    fn finish(
        mut self,
        kernels: &[Pieces],
        sorts: Vec<(FuncId, Option<(FuncId, SortKey)>)>,
        nests: &[FuncId],
    ) -> Result<Code, Error> {
        self.module
            .finalize_definitions()
            .map_err(|e| Error::Bug(e.to_string()))?;
        let pointer = |&id: &FuncId| {
            let address = self.module.get_finalized_function(id);
            // SAFETY: the function was defined with the signature of `KernelFn`.
            unsafe { std::mem::transmute::<*const u8, KernelFn>(address) }
        };
        let code = |pieces: &Pieces| -> KernelCode {
            let pieces = pieces.iter();
            pieces.map(|(id, part)| (pointer(id), *part)).collect()
        };
        let kernels = kernels.iter().map(code).collect();
        let sorts = sorts.into_iter().map(|(comparator, key)| SortCode {
            comparator: pointer(&comparator),
            key: key.map(|(function, key)| (pointer(&function), key.arrays, key.order)),
        });
        let sorts = sorts.collect();
        Ok(Code {
            kernels,
            sorts,
            nests: nests.iter().map(pointer).collect(),
            module: Some(self.module),
            _operations: self.imports.operations,
        })
    }
}
