//! Machine code in memory: all kernels of a plan in one Cranelift module.

use crate::collapse::collapsed;
use crate::error::Error;
use crate::execute::Options;
use crate::helpers::{General, Helper};
use crate::lower::{Imports, KERNEL_PARAMS, lower_kernel};
use crate::nests::{self, Made, Maker, Nest};
use crate::phases::{phased, short_together};
use crate::pieces::pieces;
use crate::reordered::{may_be_copied, reordered};
use crate::schedule::Action;
use crate::sort::{SortCode, SortKey, key_of};
use crate::streaming::{self, StreamLimits};
use crate::unswitched::unswitched;
use crate::vector::wide::{self, InstructionSet};
use crate::vector::{Body, RowsIn, Run, choose, exchanged, small_array};
use cranelift_codegen::ir::{AbiParam, FuncRef, Signature, types};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{Context, ir};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt::Write;
use tegula_expr::gcd;
use tegula_fusion::Kernel;
use tegula_fusion::LibraryOp;
use tegula_layout::plan::{Plan, Step};

/// Which instructions the generated code may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cpu {
    /// Everything this machine has.
    #[default]
    Native,
    /// SSE4.2 and older: what any x86-64 of the last fifteen years has.
    X86V2,
    /// AVX2, FMA and bit manipulation.
    X86V3,
    /// AVX-512.
    X86V4,
}

impl Cpu {
    /// The CPU of this name on the command line.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "native" => Self::Native,
            "x86-64-v2" => Self::X86V2,
            "x86-64-v3" => Self::X86V3,
            "x86-64-v4" => Self::X86V4,
            _ => return None,
        })
    }

    /// What bodies are made of by [`crate::vector::wide`], if its vectors may be used.
    fn wide_vectors(self) -> Option<InstructionSet> {
        // Bodies are called by the System V convention.
        if cfg!(not(all(target_arch = "x86_64", unix))) {
            return None;
        }
        match self {
            Self::Native => InstructionSet::ALL
                .into_iter()
                .find(|set| set.is_supported()),
            Self::X86V2 => None,
            Self::X86V3 => Some(InstructionSet::Avx2),
            Self::X86V4 => Some(InstructionSet::Avx512),
        }
    }

    fn features(self) -> Vec<&'static str> {
        let v2 = [
            "has_sse3",
            "has_ssse3",
            "has_sse41",
            "has_sse42",
            "has_popcnt",
        ];
        let v3 = [
            "has_avx",
            "has_avx2",
            "has_fma",
            "has_bmi1",
            "has_bmi2",
            "has_lzcnt",
        ];
        let v4 = ["has_avx512f", "has_avx512dq", "has_avx512vl"];
        match self {
            Self::Native => Vec::new(),
            Self::X86V2 => v2.to_vec(),
            Self::X86V3 => [&v2[..], &v3].concat(),
            Self::X86V4 => [&v2[..], &v3, &v4].concat(),
        }
    }
}

/// A generated kernel. See [`crate::lower`] for the arguments.
pub(crate) type KernelFn = unsafe extern "C" fn(*const *mut u8, i64, i64);

/// A kernel's code: functions for its pieces, and where in its outermost dimension each
/// piece is, if it does not go through that as the kernel does.
pub(crate) type KernelCode = SmallVec<[(KernelFn, Option<Part>); 1]>;

/// What of a kernel's outermost dimension a function does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Points of the kernel that are one of the function's.
    pub points: i64,
    /// The first of those points that it does.
    pub first: i64,
    /// How many it does.
    pub length: i64,
}

impl Part {
    /// The function's bounds for some of the kernel's points, whose bounds are not negative: its
    /// point belongs to whoever has its first.
    pub(crate) fn bounds(&self, bounds: [i64; 2]) -> [i64; 2] {
        bounds.map(|at| {
            let point = (at + self.points - 1) / self.points;
            (point - self.first).clamp(0, self.length)
        })
    }
}

/// The functions of a kernel, with what each is to do of a part of the outermost dimension.
pub(crate) fn parts_of(
    code: &KernelCode,
    bounds: [i64; 2],
    mut run: impl FnMut(KernelFn, [i64; 2]),
) {
    for (function, part) in code {
        let bounds = match part {
            Some(part) => part.bounds(bounds),
            None => bounds,
        };
        run(*function, bounds);
    }
}

/// Machine code and what it refers to.
pub(crate) struct Code {
    /// The plan's kernels, by number.
    pub kernels: Vec<KernelCode>,
    /// The code of the plan's sorts, in the order of the schedule.
    pub sorts: Vec<SortCode>,
    /// Loops that are functions, by the number that their [nests](crate::nests::Nest) have.
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

/// What to print of the compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// Cranelift's intermediate form, before optimisation.
    Clif,
    /// Machine code.
    Asm,
}

pub(crate) fn target(cpu: Cpu) -> Result<OwnedTargetIsa, Error> {
    let mut flags = settings::builder();
    let set = |flags: &mut settings::Builder, name: &str, value: &str| {
        flags
            .set(name, value)
            .map_err(|e| Error::Bug(format!("setting {name}: {e}")))
    };
    set(&mut flags, "opt_level", "speed")?;
    set(&mut flags, "is_pic", "false")?;
    set(
        &mut flags,
        "enable_verifier",
        if cfg!(debug_assertions) {
            "true"
        } else {
            "false"
        },
    )?;
    let mut isa = cranelift_native::builder_with_options(cpu == Cpu::Native)
        .map_err(|e| Error::Cpu(format!("this machine cannot be compiled for: {e}")))?;
    for feature in cpu.features() {
        isa.enable(feature)
            .map_err(|_| Error::Cpu(format!("this machine's architecture has no {feature}")))?;
    }
    isa.finish(settings::Flags::new(flags))
        .map_err(|e| Error::Cpu(e.to_string()))
}

/// Functions of a kernel's pieces, as [`KernelCode`].
pub(crate) type Pieces = SmallVec<[(FuncId, Option<Part>); 1]>;

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
    wide: Option<wide::Wide>,
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
        let streamed = streaming::accesses(run, self.streamed, self.streaming);
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
            let _ = writeln!(text, "{name}:\n{}", wide::listing(&code));
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
    actions: &mut [Action],
    options: &Options,
    listing: Option<Listing>,
) -> Result<(Code, String), Error> {
    let cpu = options.cpu;
    let mut builder = JITBuilder::with_isa(target(cpu)?, cranelift_module::default_libcall_names());
    builder.symbol_lookup_fn(Box::new(crate::helpers::lookup));
    let module = JITModule::new(builder);
    let mut builder = Builder {
        context: module.make_context(),
        functions: FunctionBuilderContext::new(),
        module,
        imports: ModuleImports {
            wide: cpu.wide_vectors().map(wide::Wide::new),
            listing: (listing == Some(Listing::Asm)).then(String::new),
            ..ModuleImports::default()
        },
        listing: listing.map(|l| (l, String::new())),
        streaming: options.streaming,
    };
    let mut kernels = Vec::with_capacity(plan.kernels.len());
    let streamed = match builder.imports.wide.is_some() {
        true => streaming::kernels(plan, options.streaming),
        false => FxHashMap::default(),
    };
    for (id, kernel) in &plan.kernels {
        let streamed = streamed.get(&id).map_or(&[][..], Vec::as_slice);
        kernels.push(builder.kernel(&id.to_string(), kernel, streamed)?);
    }
    let mut sorts = Vec::new();
    let mut comparators = Vec::new();
    find_comparators(&plan.steps, &mut comparators);
    for (i, comparator) in comparators.into_iter().enumerate() {
        let key = match key_of(comparator) {
            Some(key) => {
                let function = builder.function(&format!("key{i}"), &key.kernel, &[])?;
                Some((function, key))
            }
            None => None,
        };
        sorts.push((
            builder.function(&format!("comparator{i}"), comparator, &[])?,
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

/// A kernel in another form, if it is worth it.
type Form<'a> = dyn Fn(&Kernel) -> Option<Kernel> + 'a;

/// A kernel as it is compiled, and which points of its outermost dimension are one of those:
/// how many, and how many there are.
fn reshaped(kernel: &Kernel, in_turn: bool) -> (Cow<'_, Kernel>, Option<[i64; 2]>) {
    let mut kernel = Cow::Borrowed(kernel);
    let together = |kernel: &Kernel| short_together(kernel, in_turn);
    let forms: [&Form<'_>; 4] = [&unswitched, &collapsed, &together, &exchanged];
    for form in forms {
        if let Some(changed) = form(&kernel) {
            kernel = Cow::Owned(changed);
        }
    }
    match phased(&kernel) {
        Some(phased) => (Cow::Owned(phased.kernel), phased.outermost),
        None => (kernel, None),
    }
}

/// How many points of a kernel's outermost dimension code may do as one: a part of them
/// begins and ends at a multiple of that.
pub(crate) fn points_together(kernel: &Kernel) -> i64 {
    let points = |in_turn| reshaped(kernel, in_turn).1.map_or(1, |[points, _]| points);
    let [a, b] = [true, false].map(points);
    a * b / gcd(a, b).cast_signed()
}

/// Which of its arrays a kernel's code may read as wholes, whatever points it does: to copy them,
/// or to have them in a register.
pub(crate) fn may_be_read_as_wholes(kernel: &Kernel) -> Vec<bool> {
    let mut wholes = may_be_copied(kernel);
    for (whole, param) in wholes.iter_mut().zip(&kernel.params) {
        *whole |= small_array(param).is_some();
    }
    wholes
}

impl Builder {
    /// The functions of a kernel's pieces; `streamed`: parameters that are stored past the
    /// caches.
    fn kernel(&mut self, name: &str, kernel: &Kernel, streamed: &[bool]) -> Result<Pieces, Error> {
        // Other sets of instructions put elements in their places one by one.
        let in_turn = (self.imports.wide.as_ref()).is_some_and(wide::Wide::puts_in_turn);
        let (kernel, points) = reshaped(kernel, in_turn);
        let kernel = &*kernel;
        let part = |piece: Option<[i64; 2]>| {
            let [first, length] = piece.or(points.map(|[_, length]| [0, length]))?;
            Some(Part {
                points: points.map_or(1, |[points, _]| points),
                first,
                length,
            })
        };
        let pieces = pieces(kernel);
        if pieces.is_empty() {
            let function = self.function(name, kernel, streamed)?;
            return Ok(smallvec![(function, part(None))]);
        }
        let mut functions = Pieces::new();
        for (i, piece) in pieces.iter().enumerate() {
            let function = self.function(&format!("{name}_{i}"), &piece.kernel, streamed)?;
            functions.push((function, part(piece.outermost)));
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
        nests::emit(made, functions, config, &mut builder, &mut imports)?;
        builder.finalize(config);
        self.define(id, name)?;
        Ok(id)
    }

    fn function(
        &mut self,
        name: &str,
        kernel: &Kernel,
        streamed: &[bool],
    ) -> Result<FuncId, Error> {
        let id = self.declare(name)?;
        let config = self.module.target_config();
        let mut builder = FunctionBuilder::new(&mut self.context.func, &mut self.functions);
        let plain = choose(kernel);
        let reordered = reordered(kernel, &plain);
        let (kernel, vectors, copies) = match &reordered {
            Some((kernel, vectors, copies)) => (kernel, vectors, &copies[..]),
            None => (kernel, &plain, &[][..]),
        };
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
        lower_kernel(kernel, vectors, copies, &mut builder, &mut imports)?;
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
