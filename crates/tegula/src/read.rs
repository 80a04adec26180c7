//! Reading programs: HLO text, StableHLO as text or bytecode, files of `jax.export`, ONNX models.

use crate::{ArrayShape, Error, ErrorKind, random_input};
use std::cell::Cell;
use std::sync::Arc;
use tegula_ir::{Module, Span};
use tegula_stablehlo::{Bytes, InputForm, Place};

/// Reads a program: the text of an HLO module. It is verified.
///
/// # Errors
/// The first thing that is wrong with the text, with its place.
pub fn read(text: &str) -> Result<Module, Error> {
    read_specialised(text, &[])
}

/// Reads a program of which some sizes are given for good.
///
/// A size that the text leaves open (`?` or `<=n`) in dimension K of input N has the
/// name `pN_dK`. Those that are not given here stay open: the program is compiled
/// once for all of them.
///
/// # Errors
/// As [`read`]; sizes that contradict the program; a name that is no open size.
pub fn read_specialised(text: &str, sizes: &[(&str, i64)]) -> Result<Module, Error> {
    relate_sizes(read_stated(text)?, sizes)
}

/// Reads a program with its sizes as the text states them: those that it leaves open
/// are not related to each other yet, so it can be asked about but not compiled.
///
/// # Errors
/// As [`read`], but for sizes that contradict each other.
pub fn read_stated(text: &str) -> Result<Module, Error> {
    read_text(text, None)
}

/// Bytes of constants that may be made up for one program.
const MAX_FILLED: usize = 2 << 30;

/// A verified program; elided constants are made up from a seed.
fn read_text(text: &str, seed: Option<u64>) -> Result<Module, Error> {
    let left = Cell::new(MAX_FILLED);
    let fill = |shape: &ArrayShape, number: u64| {
        let bytes = shape
            .byte_size()
            .and_then(|bytes| usize::try_from(bytes).ok());
        let rest = bytes.and_then(|bytes| left.get().checked_sub(bytes));
        left.set(rest.ok_or_else(|| {
            tegula_ir::Error::limit("at most 2 GiB of elided constants are made up")
        })?);
        let stream = random_input::stream(seed.unwrap_or_default(), number);
        random_input::random_array(shape, stream)
            .map_err(|error| tegula_ir::Error::limit(error.message))
    };
    let options = tegula_ir::ReadOptions {
        fill_elided: seed.map(|_| &fill as tegula_ir::FillElided<'_>),
    };
    let module =
        tracing::info_span!("read").in_scope(|| tegula_ir::parse_module_with(text, &options))?;
    verify(&module)?;
    Ok(module)
}

/// Reads a program in any form, which its content says: HLO text, StableHLO as MLIR text or
/// bytecode, what `jax.export` serialises, or an ONNX model without external data (see
/// [`read_onnx`]). Sizes are given as in [`read_specialised`].
///
/// ```
/// let program = b"func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
///     %y = stablehlo.add %x, %x : tensor<?xf32>
///     return %y : tensor<?xf32>
/// }";
/// let module = tegula::read_program(program.to_vec(), &[])?;
/// assert_eq!(module.symbols[0].name.as_ref(), "p0_d0");
/// # Ok::<(), tegula::Error>(())
/// ```
///
/// # Errors
/// As [`read_specialised`]; for bytecode the place is a byte of the file.
pub fn read_program(bytes: impl Into<Bytes>, sizes: &[(&str, i64)]) -> Result<Module, Error> {
    read_filled(bytes, sizes, None)
}

/// Reads a program in any form, of which a printer of HLO text has left out the elements of large
/// constants (`{...}`). They are made up from a seed, as [`random_input`] makes up inputs: what
/// the program then computes is of the right kind and size, but not what it computed where it
/// was printed.
///
/// # Errors
/// As [`read_program`]; without a seed such constants are errors, and so are arrays that do
/// not fit in memory.
pub fn read_filled(
    bytes: impl Into<Bytes>,
    sizes: &[(&str, i64)],
    seed: Option<u64>,
) -> Result<Module, Error> {
    relate_sizes(read_in_any_form(&bytes.into(), seed)?, sizes)
}

/// Reads a program in any form as [`read_program`] does, with its sizes as it states them: see
/// [`read_stated`].
///
/// # Errors
/// As [`read_stated`].
pub fn read_program_stated(bytes: impl Into<Bytes>) -> Result<Module, Error> {
    read_in_any_form(&bytes.into(), None)
}

pub(crate) fn read_in_any_form(bytes: &Bytes, seed: Option<u64>) -> Result<Module, Error> {
    if tegula_import_onnx::is_model(bytes) {
        let none = |_: &str| Err("only `read_onnx` is told where such files are".to_owned());
        return Ok(onnx_stated(bytes.clone(), &none, &|_, _, _| None)?.module);
    }
    if InputForm::of(bytes).is_some() {
        let module = tracing::info_span!("read").in_scope(|| {
            let module = tegula_stablehlo::read(bytes.clone())?;
            tegula_stablehlo::to_module(&module)
        })?;
        verify(&module)?;
        return Ok(module);
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        Error::new(
            ErrorKind::Input,
            format!(
                "byte {at} is not UTF-8: expected HLO text, StableHLO (text or bytecode), a \
                 file of jax.export or an ONNX model"
            ),
        )
    })?;
    read_text(text, seed)
}

/// A program that was an ONNX model.
#[derive(Debug)]
pub struct OnnxModel {
    /// The program; its parameters are the graph's inputs that are not initializers, in order.
    pub module: Module,
    /// The names of those inputs.
    pub inputs: Vec<String>,
    /// The names of the results.
    pub outputs: Vec<String>,
    /// The inputs, by position, whose values decide shapes: a run fails that gives them other values
    /// than the model was read with.
    pub fixed: Vec<usize>,
}

/// Reads an ONNX model. `external` gives the content of the files that it keeps tensors in, by
/// their names relative to the model's folder. Sizes are given as in [`read_specialised`], by the
/// names that the model has for them; one without a name is `pN_dK`. `values` gives the values of
/// inputs that decide shapes, such as the axes of a reduction; it is asked for no others.
///
/// # Errors
/// What is wrong with the model, with its node; every operator that is not supported, at once.
pub fn read_onnx(
    bytes: impl Into<Bytes>,
    external: &tegula_import_onnx::External<'_>,
    values: &tegula_import_onnx::Values<'_>,
    sizes: &[(&str, i64)],
) -> Result<OnnxModel, Error> {
    let mut model = onnx_stated(bytes.into(), external, values)?;
    model.module = relate_sizes(model.module, sizes)?;
    Ok(model)
}

/// Reads an ONNX model as [`read_onnx`] does, with its sizes as it states them: see [`read_stated`].
///
/// # Errors
/// As [`read_onnx`].
pub fn read_onnx_stated(
    bytes: impl Into<Bytes>,
    external: &tegula_import_onnx::External<'_>,
    values: &tegula_import_onnx::Values<'_>,
) -> Result<OnnxModel, Error> {
    onnx_stated(bytes.into(), external, values)
}

/// Whether [`read_onnx`] reads these bytes.
pub fn is_onnx(bytes: &[u8]) -> bool {
    tegula_import_onnx::is_model(bytes)
}

pub(crate) fn onnx_stated(
    bytes: Bytes,
    external: &tegula_import_onnx::External<'_>,
    values: &tegula_import_onnx::Values<'_>,
) -> Result<OnnxModel, Error> {
    let owner: tegula_import_onnx::Owner = Arc::new(bytes);
    let imported = tracing::info_span!("read")
        .in_scope(|| tegula_import_onnx::to_module(&owner, external, values))?;
    verify(&imported.module)?;
    Ok(OnnxModel {
        module: imported.module,
        inputs: imported.inputs,
        outputs: imported.outputs,
        fixed: imported.fixed,
    })
}

/// The shapes of what the nodes of an ONNX model give, by name, as text: `f32[batch,3]`. Where sizes
/// depend on data, these have names of their own; nodes that cannot be made before data is known are
/// missing.
///
/// # Errors
/// As [`read_onnx`].
pub fn onnx_node_shapes(
    bytes: impl Into<Bytes>,
    external: &tegula_import_onnx::External<'_>,
    values: &tegula_import_onnx::Values<'_>,
) -> Result<Vec<(String, String)>, Error> {
    let owner: tegula_import_onnx::Owner = Arc::new(bytes.into());
    let spelled = |shapes: Vec<(String, tegula_ir::Shape)>, symbols: &[tegula_ir::Symbol]| {
        let spell = |shape| tegula_ir::spell_shape(&shape, symbols);
        shapes
            .into_iter()
            .map(|(name, shape)| (name, spell(shape)))
            .collect()
    };
    match tegula_import_onnx::to_module(&owner, external, values) {
        Ok(imported) => Ok(spelled(imported.shapes, &imported.module.symbols)),
        Err(error) if error.needs_a_run => {
            let staged = tegula_import_onnx::to_stages(&owner, external, &[])?;
            let last = staged.stages.last();
            let symbols = last.map_or(&[][..], |stage| &stage.module.symbols[..]);
            Ok(spelled(staged.shapes, symbols))
        }
        Err(error) => Err(error.into()),
    }
}

impl From<tegula_import_onnx::Error> for Error {
    fn from(error: tegula_import_onnx::Error) -> Self {
        let kind = match error.kind {
            tegula_import_onnx::ErrorKind::Input => ErrorKind::Input,
            tegula_import_onnx::ErrorKind::Unsupported => ErrorKind::Unsupported,
        };
        Self {
            needs_stages: error.needs_a_run,
            ..Self::new(kind, error.message)
        }
    }
}

pub(crate) fn relate_sizes(mut module: Module, sizes: &[(&str, i64)]) -> Result<Module, Error> {
    if !module.symbols.is_empty() || !sizes.is_empty() {
        tracing::info_span!("resolve sizes").in_scope(|| {
            tegula_ir::resolve_sizes(&mut module, sizes)?;
            tegula_indexing::equality::settle_guards(&mut module)
        })?;
        verify(&module)?;
    }
    Ok(module)
}

pub(crate) fn verify(module: &Module) -> Result<(), Error> {
    tracing::info_span!("verify")
        .in_scope(|| tegula_ir::verify(module))
        .map_err(Error::from_list)
}

impl From<tegula_stablehlo::Error> for Error {
    fn from(error: tegula_stablehlo::Error) -> Self {
        let kind = match error.kind {
            tegula_stablehlo::ErrorKind::Input => ErrorKind::Input,
            tegula_stablehlo::ErrorKind::Unsupported => ErrorKind::Unsupported,
        };
        let (message, span) = match error.place {
            Some(Place::Text { offset, .. }) => {
                let start = u32::try_from(offset).unwrap_or(u32::MAX);
                let end = start.saturating_add(1);
                (error.message, Span { start, end })
            }
            Some(place @ Place::Byte(_)) => {
                (format!("{place}: {}", error.message), Span::default())
            }
            None => (error.message, Span::default()),
        };
        Self {
            span,
            ..Self::new(kind, message)
        }
    }
}
