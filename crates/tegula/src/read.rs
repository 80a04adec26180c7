//! Reading programs in any form, which their content says: HLO text, StableHLO as text or bytecode,
//! files of `jax.export`, ONNX models.

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

/// Bytes of constants that may be made up for one program.
const MAX_FILLED: usize = 2 << 30;

/// A verified program; elided constants are made up from a seed.
fn read_text(text: &str, seed: Option<u64>) -> Result<tegula_ir::Module, Error> {
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

/// How a program is read, where [`Module::read`] is not enough: with sizes that are given for good, made-up
/// constants, or what an ONNX model needs beside its file.
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
    /// A reader that is given nothing beside the program.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sizes that the program leaves open and that are given for good, by name. A size (`?` or `<=n`)
    /// in dimension K of input N has the name `pN_dK`, if it has none in the file. Those that are not
    /// given stay open: one compilation serves all their values.
    #[must_use]
    pub fn sizes(mut self, sizes: &'a [(&'a str, i64)]) -> Self {
        self.sizes = sizes;
        self
    }

    /// Makes up the elements of constants that a printer of HLO text has left out (`{...}`), from a
    /// seed, as [`random_input`] makes up inputs: what the program computes is then of the right kind
    /// and size, but not what it computed where it was printed. Without a seed such constants are errors.
    #[must_use]
    pub fn fill_elided(mut self, seed: Option<u64>) -> Self {
        self.seed = seed;
        self
    }

    /// Where the program's bytes were read from: errors name the file, and tensors that an ONNX model
    /// keeps in other files are found in or below its folder.
    #[must_use]
    pub fn path(mut self, path: &'a Path) -> Self {
        self.path = Some(path);
        self
    }

    /// Gives the content of the files that an ONNX model keeps tensors in, by their names relative to the
    /// model's folder.
    #[cfg(feature = "onnx")]
    #[must_use]
    pub fn external(mut self, external: &'a External<'a>) -> Self {
        self.external = Some(external);
        self
    }

    /// Gives the values of an ONNX model's inputs that decide shapes, such as the axes of a reduction: a
    /// run with other values of them is an error. It is asked for no others.
    #[cfg(feature = "onnx")]
    #[must_use]
    pub fn values(mut self, values: &'a Values<'a>) -> Self {
        self.values = Some(values);
        self
    }

    /// Reads a program from a file.
    ///
    /// # Errors
    /// The file cannot be read; the first thing that is wrong with the program, with its place; of an
    /// ONNX model every operator that is not supported, at once; sizes that contradict the program; a
    /// name that is no open size.
    pub fn read(self, path: &Path) -> Result<Module, Error> {
        let path = self.path.unwrap_or(path);
        self.path(path).read_bytes(read_file(path)?)
    }

    /// Reads a program from its bytes.
    ///
    /// # Errors
    /// As [`Self::read`]; for bytecode the place is a byte of the file.
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

    /// Reads a program with its sizes as it states them: those that it leaves open are not related to
    /// each other yet, so it can be asked about but not compiled.
    ///
    /// # Errors
    /// As [`Self::read`], but for sizes.
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

    /// Where the program was read from.
    #[cfg(feature = "onnx")]
    pub(crate) fn file(self) -> Option<&'a Path> {
        self.path
    }
}

/// Reads a program of a form that says all there is.
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
