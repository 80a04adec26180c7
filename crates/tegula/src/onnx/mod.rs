//! ONNX models: reading them, with the tensors that they keep in other files, and running those whose
//! sizes depend on data.

mod staged;

pub use staged::{ExternalFiles, StagedModel, Watch, read_onnx_stages};
pub use tegula_import_onnx::{External, Owner, Values};

use crate::file::read_file;
use crate::signature::Names;
use crate::verified::{relate_sizes, verify};
use crate::{Error, ErrorKind};
use std::path::{Component, Path};
use std::sync::Arc;
use tegula_ir::Module;
use tegula_stablehlo::Bytes;

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
/// their names relative to the model's folder. Sizes are given as in [`read_specialised`](crate::read_specialised), by the
/// names that the model has for them; one without a name is `pN_dK`. `values` gives the values of
/// inputs that decide shapes, such as the axes of a reduction; it is asked for no others.
///
/// # Errors
/// What is wrong with the model, with its node; every operator that is not supported, at once.
pub fn read_onnx(
    bytes: impl Into<Bytes>,
    external: &External<'_>,
    values: &Values<'_>,
    sizes: &[(&str, i64)],
) -> Result<OnnxModel, Error> {
    let mut model = onnx_stated(bytes.into(), external, values)?;
    model.module = relate_sizes(model.module, sizes)?;
    Ok(model)
}

/// Reads an ONNX model as [`read_onnx`] does, with its sizes as it states them: see [`read_stated`](crate::read_stated).
///
/// # Errors
/// As [`read_onnx`].
pub fn read_onnx_stated(
    bytes: impl Into<Bytes>,
    external: &External<'_>,
    values: &Values<'_>,
) -> Result<OnnxModel, Error> {
    onnx_stated(bytes.into(), external, values)
}

/// Whether [`read_onnx`] reads these bytes.
pub fn is_onnx(bytes: &[u8]) -> bool {
    tegula_import_onnx::is_model(bytes)
}

fn onnx_stated(
    bytes: Bytes,
    external: &External<'_>,
    values: &Values<'_>,
) -> Result<OnnxModel, Error> {
    let owner: Owner = Arc::new(bytes);
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
    external: &External<'_>,
    values: &Values<'_>,
) -> Result<Vec<(String, String)>, Error> {
    let owner: Owner = Arc::new(bytes.into());
    let spelled = |shapes: Vec<(String, tegula_ir::Shape)>, symbols: &[tegula_ir::Symbol]| {
        let spell = |shape| tegula_ir::display_shape(&shape, symbols);
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

/// The program of a model that keeps nothing in other files, with its sizes as it states them.
pub(crate) fn read_alone(bytes: &Bytes) -> Result<Module, Error> {
    let none = |_: &str| Err("only `read_onnx` is told where such files are".to_owned());
    Ok(onnx_stated(bytes.clone(), &none, &|_, _, _| None)?.module)
}

/// Reads an ONNX model, whose external data is in or below its folder.
pub(crate) fn read_with_names(
    bytes: Bytes,
    path: Option<&Path>,
) -> Result<(tegula_ir::Module, Names), Error> {
    let external = |name: &str| {
        let path = path.ok_or("the model has no folder: it was not read from a file")?;
        read_beside(path, name)
    };
    let model = onnx_stated(bytes, &external, &|_, _, _| None)?;
    let names = Names {
        inputs: model.inputs,
        outputs: model.outputs,
    };
    Ok((model.module, names))
}

/// The content of a file that an ONNX model keeps tensors in: one in or below the model's folder.
///
/// # Errors
/// The name leads out of the folder; as [`read_file`].
pub fn read_beside(model: &Path, name: &str) -> Result<Owner, String> {
    let name = Path::new(name);
    let is_below = name
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !is_below {
        return Err("it is not in the model's folder".to_owned());
    }
    let folder = model.parent().unwrap_or(Path::new("."));
    let bytes = read_file(&folder.join(name)).map_err(|error| error.message)?;
    Ok(Arc::new(bytes))
}
