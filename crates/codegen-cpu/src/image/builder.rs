//! Collects functions into a [`CodeImage`].

use super::libcalls::{General, Helper};
use super::{CodeImage, FunctionId, Relocation, RelocationKind, Target, routines};
use crate::error::Error;
use crate::isa::clif128::Abilities;
use crate::isa::x64::branch_alignment;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{
    self, AbiParam, ExtFuncData, ExternalName, FuncRef, Function, GlobalValueData, InstBuilder,
    Signature, Type, UserExternalName, Value, types,
};
use cranelift_codegen::isa::{OwnedTargetIsa, TargetFrontendConfig};
use cranelift_codegen::{CodegenError, CompiledCode, Context, FinalizedRelocTarget};
use cranelift_frontend::FunctionBuilder;
use rustc_hash::FxHashMap;

/// The offset of a function that is declared and not defined yet.
const UNDEFINED: u32 = u32::MAX;

/// Namespaces of the external names in Cranelift's functions.
mod namespace {
    pub(super) const FUNCTION: u32 = 0;
    pub(super) const ROUTINE: u32 = 1;
    pub(super) const OPERATION: u32 = 2;
    pub(super) const SINE_TABLE: u32 = 3;
    pub(super) const CONSTANT: u32 = 4;
}

/// An image under construction.
pub(crate) struct ImageBuilder {
    isa: OwnedTargetIsa,
    image: CodeImage,
    known_routines: FxHashMap<String, u32>,
}

impl ImageBuilder {
    /// An empty image for a machine.
    pub(crate) fn new(isa: OwnedTargetIsa) -> Self {
        Self {
            isa,
            image: CodeImage::default(),
            known_routines: FxHashMap::default(),
        }
    }

    /// The machine's properties that Cranelift's front end needs.
    pub(crate) fn config(&self) -> TargetFrontendConfig {
        self.isa.frontend_config()
    }

    /// The features of the machine's 128-bit vectors.
    pub(crate) fn abilities(&self) -> Abilities {
        let has = |feature| {
            let mut flags = self.isa.isa_flags().into_iter();
            flags.any(|flag| flag.name == feature && flag.as_bool() == Some(true))
        };
        // AArch64 always has all of them.
        let is_arm = self.isa.name() == "aarch64";
        Abilities {
            fused: is_arm || has("has_fma"),
            converts_wide: is_arm,
            sums: if is_arm { 4 } else { 1 },
        }
    }

    /// A signature with these parameters and results.
    pub(crate) fn signature(&self, params: &[Type], returns: &[Type]) -> Signature {
        let mut signature = Signature::new(self.isa.default_call_conv());
        signature
            .params
            .extend(params.iter().copied().map(AbiParam::new));
        signature
            .returns
            .extend(returns.iter().copied().map(AbiParam::new));
        signature
    }

    /// Declares a function that is defined later.
    pub(crate) fn declare(&mut self) -> FunctionId {
        let id = FunctionId(self.image.functions.len() as u32);
        self.image.functions.push(UNDEFINED);
        id
    }

    /// References a function of the image in the function being built.
    pub(crate) fn refer(
        &self,
        function: FunctionId,
        signature: Signature,
        to: &mut Function,
    ) -> FuncRef {
        refer(to, (namespace::FUNCTION, function.0), signature, true)
    }

    /// References a routine in the function being built.
    pub(crate) fn refer_to_routine(&mut self, routine: &Helper, to: &mut Function) -> FuncRef {
        self.refer_to_outside(routine.name, (routine.params, routine.returns), to)
    }

    /// References an external name in the function being built, with these parameters and results.
    pub(crate) fn refer_to_outside(
        &mut self,
        name: &str,
        (params, returns): (&[Type], &[Type]),
        to: &mut Function,
    ) -> FuncRef {
        let number = self.routine(name);
        let signature = self.signature(params, returns);
        refer(to, (namespace::ROUTINE, number), signature, false)
    }

    /// The address of the data that describes an operation for a helper. It is valid as long as the
    /// image.
    pub(crate) fn operation(
        &mut self,
        builder: &mut FunctionBuilder<'_>,
        operation: General,
    ) -> Value {
        let number = self.image.operations.len() as u32;
        self.image.operations.push(operation);
        address(builder, (namespace::OPERATION, number))
    }

    /// Compiles a function and adds it.
    ///
    /// # Errors
    /// [`Error::Bug`] if Cranelift cannot compile it.
    pub(crate) fn define(&mut self, id: FunctionId, context: &mut Context) -> Result<(), Error> {
        let compiled = context.compile(&*self.isa, &mut ControlPlane::default());
        let compiled = compiled.map_err(|error| Error::Bug(format!("{:?}", error.inner)))?;
        let alignment = compiled
            .buffer
            .alignment
            .max(self.isa.function_alignment().minimum);
        let end = self.image.code.len();
        let start = match self.isa.name() {
            "x64" => branch_alignment::best_start(compiled, end, alignment),
            _ => end.next_multiple_of(alignment as usize),
        };
        let code = compiled.code_buffer().to_vec();
        let relocations = compiled.buffer.relocs().to_vec();
        let start = self.place(id, &code, start)?;
        for relocation in relocations {
            let target = match &relocation.target {
                FinalizedRelocTarget::ExternalName(name) => self.target(name, &context.func)?,
                FinalizedRelocTarget::Func(_) => {
                    return Err(Error::Bug(
                        "a relocation refers to a position inside a function".to_owned(),
                    ));
                }
            };
            let kind = RelocationKind::of(relocation.kind);
            let kind = kind.ok_or_else(|| {
                Error::Bug(format!(
                    "a relocation has the unsupported kind {:?}",
                    relocation.kind
                ))
            })?;
            self.image.relocations.push(Relocation {
                at: start + relocation.offset,
                kind,
                target,
                addend: relocation.addend,
            });
        }
        Ok(())
    }

    /// Compiles a function without adding it; `annotate` may change its instructions' annotations
    /// after optimisation.
    ///
    /// # Errors
    /// Those of [`Self::define`].
    pub(crate) fn compile_listed(
        &self,
        context: &mut Context,
        annotate: impl FnOnce(&mut Function),
    ) -> Result<CompiledCode, Error> {
        let failed = |error: CodegenError| Error::Bug(format!("{error:?}"));
        let control = &mut ControlPlane::default();
        context.optimize(&*self.isa, control).map_err(failed)?;
        annotate(&mut context.func);
        let registers = &mut regalloc2::Ctx::default();
        let (func, domtree) = (&context.func, &context.domtree);
        let code = self
            .isa
            .compile_function(func, domtree, registers, false, control);
        Ok(code.map_err(failed)?.apply_params(&context.func.params))
    }

    /// Adds a function that is already machine code and has no references.
    ///
    /// # Errors
    /// [`Error::Bug`] if the image is larger than 4 GiB.
    pub(crate) fn define_bytes(
        &mut self,
        code: &[u8],
        alignment: u32,
    ) -> Result<FunctionId, Error> {
        let id = self.declare();
        let start = self
            .image
            .code
            .len()
            .next_multiple_of(alignment.max(1) as usize);
        self.place(id, code, start)?;
        Ok(id)
    }

    /// Finishes the image.
    ///
    /// # Errors
    /// [`Error::Bug`] if a function was declared but not defined.
    pub(crate) fn finish(self) -> Result<CodeImage, Error> {
        match self.image.functions.contains(&UNDEFINED) {
            true => Err(Error::Bug(
                "a declared function was never defined".to_owned(),
            )),
            false => Ok(self.image),
        }
    }

    /// Adds a function's code at an offset after the existing code; returns the offset.
    fn place(&mut self, id: FunctionId, code: &[u8], start: usize) -> Result<u32, Error> {
        let bytes = &mut self.image.code;
        let end = u32::try_from(start + code.len());
        end.map_err(|_| Error::Bug("more than 4 GiB of code".to_owned()))?;
        bytes.resize(start, 0);
        bytes.extend_from_slice(code);
        self.image.functions[id.0 as usize] = start as u32;
        Ok(start as u32)
    }

    /// The name of a routine by number, if it exists.
    pub(crate) fn routine_name(&self, number: usize) -> Option<&str> {
        self.image.routines.get(number).map(String::as_str)
    }

    /// The number of a routine.
    fn routine(&mut self, name: &str) -> u32 {
        if let Some(&known) = self.known_routines.get(name) {
            return known;
        }
        let number = self.image.routines.len() as u32;
        self.image.routines.push(name.to_owned());
        self.known_routines.insert(name.to_owned(), number);
        number
    }

    /// The target of an external name in a function's code.
    ///
    /// # Errors
    /// [`Error::Bug`] if the name is not one that code is given.
    pub(crate) fn target(
        &mut self,
        name: &ExternalName,
        function: &Function,
    ) -> Result<Target, Error> {
        match name {
            ExternalName::User(name) => {
                let UserExternalName { namespace, index } =
                    function.params.user_named_funcs()[*name];
                Ok(match namespace {
                    namespace::FUNCTION => Target::Function(FunctionId(index)),
                    namespace::ROUTINE => Target::Routine(index),
                    namespace::OPERATION => Target::Operation(index),
                    namespace::CONSTANT => Target::Constant(index),
                    _ => Target::SineTable,
                })
            }
            ExternalName::LibCall(call) => match routines::of_libcall(*call) {
                Some(name) => Ok(Target::Routine(self.routine(name))),
                None => Err(Error::Bug(format!(
                    "the library call {call} has no routine"
                ))),
            },
            other => Err(Error::Bug(format!(
                "a relocation refers to the unexpected name {other:?}"
            ))),
        }
    }
}

/// The address of a constant of the program, in code for objects.
pub(crate) fn constant_address(builder: &mut FunctionBuilder<'_>, number: u32) -> Value {
    address(builder, (namespace::CONSTANT, number))
}

/// The address of the table of 2/pi, which sines and cosines use.
pub(crate) fn sine_table(builder: &mut FunctionBuilder<'_>) -> Value {
    address(builder, (namespace::SINE_TABLE, 0))
}

fn refer(to: &mut Function, name: (u32, u32), signature: Signature, colocated: bool) -> FuncRef {
    let signature = to.import_signature(signature);
    let name = to.declare_imported_user_function(UserExternalName::new(name.0, name.1));
    to.import_function(ExtFuncData {
        name: ExternalName::user(name),
        signature,
        colocated,
        patchable: false,
    })
}

fn address(builder: &mut FunctionBuilder<'_>, name: (u32, u32)) -> Value {
    let function = &mut builder.func;
    let name = function.declare_imported_user_function(UserExternalName::new(name.0, name.1));
    let symbol = function.create_global_value(GlobalValueData::Symbol {
        name: ir::ExternalName::user(name),
        offset: 0.into(),
        colocated: false,
        tls: false,
    });
    builder.ins().symbol_value(types::I64, symbol)
}
