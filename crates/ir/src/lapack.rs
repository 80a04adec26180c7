//! LAPACK routines that JAX calls for linear algebra on CPUs: custom calls whose options are
//! attributes in `backend_config=`.
//!
//! Names and options are those of jaxlib's `lapack_*_ffi` targets. Only the routines that HLO
//! operations can express are here.

use crate::attributes::{CustomCall, TransposeA};
use crate::{ArrayShape, ElementType, Shape};

/// A LAPACK routine with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lapack {
    /// `potrf(a)`: gives the Cholesky factor, with the other triangle as it is in `a`, and for each
    /// matrix a status that says whether the decomposition failed.
    Cholesky {
        /// Whether the factor is lower triangular.
        lower: bool,
    },
    /// `trsm(a, b)`, with the options of `triangular-solve`.
    TriangularSolve {
        /// `op(a) x = b` rather than `x op(a) = b`.
        left_side: bool,
        /// Whether `a` is lower triangular.
        lower: bool,
        /// Whether the diagonal is taken to be ones.
        unit_diagonal: bool,
        /// The operation `op`: none, transposition, or conjugate transposition.
        transpose_a: TransposeA,
    },
    /// `getrf(a)`: gives both factors; the row that each row was swapped with (counted from 1); and
    /// for each matrix the position of the first zero on the diagonal (counted from 1; 0 if there
    /// is none).
    Lu,
    /// `geqrf(a)` for real matrices: gives the upper triangle of a QR decomposition; below it, the
    /// vectors `v` of the reflections `1 - tau v v^T` whose product is `q` (their diagonal elements
    /// are 1 and not stored); and each `tau`.
    Qr,
    /// `orgqr(a, tau)` for real matrices: gives the first columns of the product of the reflections
    /// from `geqrf`.
    Reflections,
}

impl Lapack {
    /// Whether a custom call's target is one of these routines.
    pub fn is_target(target: &str) -> bool {
        routine(target).is_some()
    }

    /// Whether a custom call's target is one of these routines for which a library has a handler,
    /// too.
    pub fn has_handler(target: &str) -> bool {
        matches!(routine(target), Some("geqrf" | "orgqr"))
    }

    /// The routine that a call [to run](CustomCall::to_run) names; `None` for any other target.
    ///
    /// # Errors
    /// The name of an option that is missing or that has a value the routine does not support.
    pub fn of(call: &CustomCall) -> Option<Result<Self, String>> {
        let config = config(call);
        Some(match routine(&call.target)? {
            "potrf" => letter(config, "uplo").and_then(|uplo| {
                Ok(Self::Cholesky {
                    lower: is_lower(uplo)?,
                })
            }),
            "trsm" => solve(config),
            "geqrf" => Ok(Self::Qr),
            "orgqr" => Ok(Self::Reflections),
            _ => Ok(Self::Lu),
        })
    }

    /// The shape of the routine's result for matrices of type `of`, without layouts. Operands are
    /// `[.., rows, columns]`; each matrix of the batch is processed by itself.
    ///
    /// # Errors
    /// The operands do not suit the routine.
    pub(crate) fn result(self, of: ElementType, operands: &[&Shape]) -> Result<Shape, String> {
        let arrays: Option<Vec<&ArrayShape>> = operands.iter().map(|x| x.as_array()).collect();
        let arrays = arrays.ok_or("expected arrays as the routine's operands")?;
        if let Some(other) = arrays.iter().find(|a| a.element_type != of) {
            return Err(format!(
                "the routine is for {of}, but an operand is {other}"
            ));
        }
        let sizes: Option<Vec<_>> = arrays.iter().map(|a| a.static_dims()).collect();
        let sizes = sizes.ok_or("sizes are not known before the program runs")?;
        let sizes: Vec<&[i64]> = sizes.iter().map(AsRef::as_ref).collect();
        let array = |ty, batch: &[i64], last: &[i64]| Shape::array(ty, &[batch, last].concat());
        match (self, &sizes[..]) {
            (Self::Cholesky { .. }, [a]) => {
                let (batch, _) = square(a)?;
                let info = array(ElementType::S32, batch, &[]);
                Ok(Shape::Tuple(vec![Shape::array(of, a), info]))
            }
            (Self::TriangularSolve { left_side, .. }, [a, b]) => {
                let (batch, size) = square(a)?;
                let (others, [rows, columns]) = matrix(b)?;
                if batch != others || size != if left_side { rows } else { columns } {
                    return Err(format!("matrices {a:?} do not match matrices {b:?}"));
                }
                Ok(Shape::array(of, b))
            }
            (Self::Lu, [a]) => {
                let (batch, [rows, columns]) = matrix(a)?;
                let exchanged = array(ElementType::S32, batch, &[rows.min(columns)]);
                let info = array(ElementType::S32, batch, &[]);
                Ok(Shape::Tuple(vec![Shape::array(of, a), exchanged, info]))
            }
            (Self::Qr, [a]) => {
                let (batch, [rows, columns]) = matrix(a)?;
                let factors = array(of, batch, &[rows.min(columns)]);
                Ok(Shape::Tuple(vec![Shape::array(of, a), factors]))
            }
            (Self::Reflections, [a, factors]) => {
                let (batch, [rows, columns]) = matrix(a)?;
                match factors.split_last() {
                    Some((&count, others)) if others == batch && count <= rows.min(columns) => {
                        Ok(Shape::array(of, a))
                    }
                    _ => Err(format!(
                        "factors {factors:?} do not match the columns of {a:?}"
                    )),
                }
            }
            _ => Err("the number of operands is not that of the routine".to_owned()),
        }
    }
}

/// The batch dimensions, and the rows and columns of each matrix.
fn matrix(sizes: &[i64]) -> Result<(&[i64], [i64; 2]), String> {
    match sizes.split_last_chunk() {
        Some((batch, &last)) => Ok((batch, last)),
        None => Err(format!("an array of sizes {sizes:?} is not a matrix")),
    }
}

/// The batch dimensions and the size of each matrix, which must be square.
fn square(sizes: &[i64]) -> Result<(&[i64], i64), String> {
    match matrix(sizes)? {
        (batch, [rows, columns]) if rows == columns => Ok((batch, rows)),
        _ => Err(format!("matrices {sizes:?} are not square")),
    }
}

/// Splits a target of jaxlib's into the matrices' element type and the routine's name: `f32` and
/// `potrf` for `lapack_spotrf_ffi`.
pub fn lapack_target(target: &str) -> Option<(ElementType, &str)> {
    let name = target.strip_prefix("lapack_")?.strip_suffix("_ffi")?;
    let ty = match name.chars().next()? {
        's' => ElementType::F32,
        'd' => ElementType::F64,
        'c' => ElementType::C64,
        'z' => ElementType::C128,
        _ => return None,
    };
    Some((ty, name.get(1..)?))
}

/// The routine's name of a target, if the routine is one of [`Lapack`]'s.
fn routine(target: &str) -> Option<&str> {
    let (ty, routine) = lapack_target(target)?;
    let known = match routine {
        "potrf" | "trsm" | "getrf" => true,
        "geqrf" | "orgqr" => !ty.is_complex(),
        _ => false,
    };
    known.then_some(routine)
}

fn solve(config: &str) -> Result<Lapack, String> {
    let one_of = |name: &str, no: char, yes: char| match letter(config, name)? {
        c if c == no => Ok(false),
        c if c == yes => Ok(true),
        other => Err(unknown(name, other)),
    };
    Ok(Lapack::TriangularSolve {
        left_side: one_of("side", 'R', 'L')?,
        lower: is_lower(letter(config, "uplo")?)?,
        unit_diagonal: one_of("diag", 'N', 'U')?,
        transpose_a: match letter(config, "trans_x")? {
            'N' => TransposeA::NoTranspose,
            'T' => TransposeA::Transpose,
            'C' => TransposeA::Adjoint,
            other => return Err(unknown("trans_x", other)),
        },
    })
}

fn is_lower(uplo: char) -> Result<bool, String> {
    match uplo {
        'L' => Ok(true),
        'U' => Ok(false),
        other => Err(unknown("uplo", other)),
    }
}

fn unknown(name: &str, letter: char) -> String {
    format!("`{name}` is `{letter}`, which is not a LAPACK flag")
}

/// The value of a named LAPACK option that is a letter.
///
/// # Errors
/// The option is missing, or not a letter.
pub fn lapack_option(call: &CustomCall, name: &str) -> Result<char, String> {
    letter(config(call), name)
}

/// The value of a named LAPACK option that is `true` or `false`.
///
/// # Errors
/// The option is missing, or has another value.
pub fn lapack_flag(call: &CustomCall, name: &str) -> Result<bool, String> {
    match entry(config(call), name)? {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(format!("`{name}` is `{other}`, expected `true` or `false`")),
    }
}

/// The value of a named LAPACK option that is an integer.
///
/// # Errors
/// The option is missing, or has another value.
pub fn lapack_integer(call: &CustomCall, name: &str) -> Result<i64, String> {
    let value = entry(config(call), name)?;
    let number = value.split(':').next().unwrap_or_default().trim();
    let number = number.parse();
    number.map_err(|_| format!("`{name}` is `{value}`, expected an integer"))
}

/// The text of a call's `backend_config=`.
fn config(call: &CustomCall) -> &str {
    let mut options = call.extra.iter().rev();
    let config = options.find(|(name, _)| &**name == "backend_config");
    config.map_or("", |(_, config)| config)
}

/// The text of an option's value: `76 : ui8` in `{uplo = 76 : ui8}`.
fn entry<'c>(config: &'c str, name: &str) -> Result<&'c str, String> {
    let entries = config.trim().trim_start_matches('{').trim_end_matches('}');
    let value = entries.split(',').find_map(|entry| {
        let (key, value) = entry.split_once('=')?;
        (key.trim().trim_matches('"') == name).then_some(value.trim())
    });
    value.ok_or_else(|| format!("`backend_config` has no `{name}`"))
}

/// The value of a LAPACK option that is a letter, written as its character code: `{uplo = 76 :
/// ui8}`.
fn letter(config: &str, name: &str) -> Result<char, String> {
    let value = entry(config, name)?;
    let number = value.split(':').next().unwrap_or_default().trim();
    let letter = number.parse::<u8>().map(char::from);
    letter.map_err(|_| format!("`{name}` is `{value}`, expected the character code of a letter"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(target: &str, config: &str) -> CustomCall {
        CustomCall {
            target: target.into(),
            operand_layouts: None,
            has_side_effect: false,
            api_version: None,
            called: Vec::new(),
            aliasing: Vec::new(),
            extra: vec![("backend_config".into(), config.into())],
        }
    }

    #[test]
    fn options_are_letters() {
        let solve = call(
            "lapack_ztrsm_ffi",
            "{diag = 85 : ui8, side = 82 : ui8, trans_x = 67 : ui8, uplo = 76 : ui8}",
        );
        let expected = Lapack::TriangularSolve {
            left_side: false,
            lower: true,
            unit_diagonal: true,
            transpose_a: TransposeA::Adjoint,
        };
        assert_eq!(Lapack::of(&solve), Some(Ok(expected)));
        let lu = call("lapack_sgetrf_ffi", "{}");
        assert_eq!(Lapack::of(&lu), Some(Ok(Lapack::Lu)));
        let qr = call("lapack_dgeqrf_ffi", "{}");
        assert_eq!(Lapack::of(&qr), Some(Ok(Lapack::Qr)));
        assert_eq!(Lapack::of(&call("lapack_cgeqrf_ffi", "{}")), None);
        assert_eq!(Lapack::of(&call("lapack_sgeev_ffi", "{}")), None);
        assert_eq!(Lapack::of(&call("lapack_xpotrf_ffi", "{}")), None);
    }

    #[test]
    fn options_that_are_wrong_are_named() {
        for (config, name) in [
            ("{}", "uplo"),
            ("{uplo = 65 : ui8}", "uplo"),
            ("{uplo = lower}", "uplo"),
            ("{uplo = 300 : ui8}", "uplo"),
        ] {
            let call = call("lapack_dpotrf_ffi", config);
            let error = Lapack::of(&call).expect("a routine").expect_err("an error");
            assert!(error.contains(name), "{error}");
        }
    }
}
