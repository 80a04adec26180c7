//! ONNX models: reading them, with tensors that are stored in other files, and running those whose
//! sizes depend on data.

mod staged;

pub use staged::{ExternalFiles, StagedModel, Watch};
pub use tegula_import_onnx::{External, Owner, Values};

use crate::file::read_file;
use crate::signature::Names;
use crate::verified::verify;
use crate::{Error, ErrorKind, Reader};
use std::path::{Component, Path};
use std::sync::Arc;
use tegula_ir::Module;
use tegula_stablehlo::Bytes;

/// Whether bytes are an ONNX model.
pub fn is_onnx(bytes: &[u8]) -> bool {
    tegula_import_onnx::is_model(bytes)
}

/// The shapes of an ONNX model's node outputs, by name, as text: `f32[batch,3]`. Sizes that depend
/// on data have their own names. Nodes that cannot be imported before data is known are missing.
///
/// # Errors
/// As [`Reader::read`].
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

/// Reads an ONNX model with the sizes that it states, and the names of its inputs and results.
pub(crate) fn read_with_names(bytes: Bytes, reader: Reader<'_>) -> Result<(Module, Names), Error> {
    let beside = |name: &str| {
        let path = reader.file();
        let path = path.ok_or("the model has no folder: it was not read from a file")?;
        read_beside(path, name)
    };
    let owner: Owner = Arc::new(bytes);
    let external = reader.external.unwrap_or(&beside);
    let values = reader.values.unwrap_or(&|_, _, _| None);
    let imported = tracing::info_span!("read")
        .in_scope(|| tegula_import_onnx::to_module(&owner, external, values))?;
    verify(&imported.module)?;
    let names = Names {
        inputs: imported.inputs,
        outputs: imported.outputs,
    };
    Ok((imported.module, names))
}

/// Reads a file in which an ONNX model stores tensors. It must be in the model's folder or below.
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
