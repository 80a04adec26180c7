//! Reading programs: HLO text, StableHLO as text or bytecode, files of `jax.export`.

use crate::foreign;
use crate::verified::{relate_sizes, verify};
use crate::{ArrayShape, Error, ErrorKind, random_input};
use std::cell::Cell;
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
/// `read_onnx`). Sizes are given as in [`read_specialised`].
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
    #[cfg(feature = "onnx")]
    if crate::is_onnx(bytes) {
        return crate::onnx::read_alone(bytes);
    }
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
