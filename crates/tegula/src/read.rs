//! Reads programs in all supported forms, which it recognises by their content: HLO text, StableHLO
//! as text or bytecode, files of `jax.export`, ONNX models.

use crate::error::SourceText;
use crate::file::read_file;
use crate::foreign;
#[cfg(feature = "onnx")]
use crate::onnx::{External, Values};
use crate::signature::Names;
use crate::verified::verify;
use crate::{ArrayShape, Error, ErrorKind, Module, random_input};
use std::cell::Cell;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use tegula_ir::Span;
use tegula_stablehlo::{Bytes, InputForm, Place};

/// The maximum size in bytes of generated constants of one program.
const MAX_FILLED: usize = 2 << 30;

/// Reads and verifies a program; elided constants are generated from a seed.
fn read_text(text: &str, seed: Option<u64>) -> Result<tegula_ir::Module, Error> {
    let left = Cell::new(MAX_FILLED);
    let fill = |shape: &ArrayShape, number: u64| {
        let bytes = shape
            .byte_size()
            .and_then(|bytes| usize::try_from(bytes).ok());
        let rest = bytes.and_then(|bytes| left.get().checked_sub(bytes));
        left.set(rest.ok_or_else(|| {
            tegula_ir::Error::limit("elided constants of more than 2 GiB cannot be generated")
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

/// A reader of programs with options that [`Module::read`] does not have: fixed values for open
/// sizes, generated constants, and data that an ONNX model needs beside its file.
///
/// ```
/// use tegula::Reader;
///
/// let text = "HloModule double
///     ENTRY main { x = f32[?,3] parameter(0) ROOT sum = f32[?,3] add(x, x) }";
/// let module = Reader::new().sizes(&[("p0_d0", 2)]).read_bytes(text.as_bytes().to_vec())?;
/// assert_eq!(module.inputs()[0].to_string(), "x: f32[2,3]");
/// # Ok::<(), tegula::Error>(())
/// ```
#[derive(Clone, Copy, Default)]
pub struct Reader<'a> {
    sizes: &'a [(&'a str, i64)],
    seed: Option<u64>,
    path: Option<&'a Path>,
    #[cfg(feature = "onnx")]
    pub(crate) external: Option<&'a External<'a>>,
    #[cfg(feature = "onnx")]
    pub(crate) values: Option<&'a Values<'a>>,
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("sizes", &self.sizes)
            .field("seed", &self.seed)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl<'a> Reader<'a> {
    /// A reader without options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Fixes open sizes of the program, by name. A size (`?` or `<=n`) in dimension K of input N is
    /// called `pN_dK`, unless the file names it. Other sizes stay open: the program is compiled
    /// once for all their values.
    #[must_use]
    pub fn sizes(mut self, sizes: &'a [(&'a str, i64)]) -> Self {
        self.sizes = sizes;
        self
    }

    /// Generates the elements of constants that a printer of HLO text left out (`{...}`), from a
    /// seed, as [`random_input`] generates inputs. The program then does the same amount of work as
    /// the original, but with other results. Without a seed, such constants are errors.
    #[must_use]
    pub fn fill_elided(mut self, seed: Option<u64>) -> Self {
        self.seed = seed;
        self
    }

    /// The path that the program's bytes were read from: errors name the file, and an ONNX model's
    /// tensors in other files are looked for in its folder and below.
    #[must_use]
    pub fn path(mut self, path: &'a Path) -> Self {
        self.path = Some(path);
        self
    }

    /// Provides the content of files in which an ONNX model stores tensors, by their names relative
    /// to the model's folder.
    #[cfg(feature = "onnx")]
    #[must_use]
    pub fn external(mut self, external: &'a External<'a>) -> Self {
        self.external = Some(external);
        self
    }

    /// Provides the values of an ONNX model's inputs that determine shapes, such as the axes of a
    /// reduction. A run with other values is an error. Only values of such inputs are requested.
    #[cfg(feature = "onnx")]
    #[must_use]
    pub fn values(mut self, values: &'a Values<'a>) -> Self {
        self.values = Some(values);
        self
    }

    /// Reads a program from a file.
    ///
    /// # Errors
    /// The file cannot be read; the first error in the program, with its place; for an ONNX model,
    /// all unsupported operators at once; sizes that contradict the program; a name that is not an
    /// open size.
    pub fn read(self, path: &Path) -> Result<Module, Error> {
        let path = self.path.unwrap_or(path);
        self.path(path).read_bytes(read_file(path)?)
    }

    /// Reads a program from bytes.
    ///
    /// # Errors
    /// As [`Self::read`]; for bytecode, the place is a byte position.
    pub fn read_bytes(self, bytes: impl Into<Bytes>) -> Result<Module, Error> {
        let bytes = bytes.into();
        let source = SourceText::new(&bytes, self.path).map(Arc::new);
        let read = self.stated_with_names(bytes);
        let made = read.and_then(|(stated, names)| Module::from_stated(stated, &names, self.sizes));
        match made {
            Ok(module) => Ok(module.with_source(source)),
            Err(error) => Err(error.with_source(source.as_ref())),
        }
    }

    /// Reads a program without relating its open sizes to each other. It can be inspected, but not
    /// compiled yet.
    ///
    /// # Errors
    /// As [`Self::read`], except for errors about sizes.
    pub fn read_stated(self, bytes: impl Into<Bytes>) -> Result<tegula_ir::Module, Error> {
        Ok(self.stated_with_names(bytes.into())?.0)
    }

    #[cfg_attr(
        not(feature = "onnx"),
        expect(
            clippy::needless_pass_by_value,
            reason = "an ONNX model is kept with its tensors"
        )
    )]
    fn stated_with_names(self, bytes: Bytes) -> Result<(tegula_ir::Module, Names), Error> {
        #[cfg(feature = "onnx")]
        if crate::is_onnx(&bytes) {
            return crate::onnx::read_with_names(bytes, self);
        }
        let module = read_in_any_form(&bytes, self.seed)?;
        Ok((module, Names::default()))
    }

    /// The path that the program was read from.
    #[cfg(feature = "onnx")]
    pub(crate) fn file(self) -> Option<&'a Path> {
        self.path
    }
}

/// Reads a program in a self-contained form: HLO or StableHLO.
fn read_in_any_form(bytes: &Bytes, seed: Option<u64>) -> Result<tegula_ir::Module, Error> {
    if InputForm::of(bytes).is_some() {
        let module = tracing::info_span!("read").in_scope(|| {
            let module = tegula_stablehlo::read(bytes.clone())?;
            tegula_stablehlo::to_module(&module)
        })?;
        verify(&module)?;
        return Ok(module);
    }
    if let Some((name, help)) = foreign::recognise(bytes) {
        let message = format!(
            "expected HLO text, StableHLO (text or bytecode), a file of jax.export or an ONNX model; \
             this is {name}"
        );
        return Err(Error {
            help: Some(help.to_owned()),
            ..Error::new(ErrorKind::Input, message)
        });
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
