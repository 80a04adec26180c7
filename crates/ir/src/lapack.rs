//! What JAX calls for linear algebra on CPUs: LAPACK's routines, as custom calls whose
//! options are attributes in `backend_config=`.
//!
//! Names and options are those of jaxlib's `lapack_*_ffi` targets. Only the routines whose
//! meaning HLO has operations for are here.

use crate::attributes::{CustomCall, TransposeA};
use crate::{ArrayShape, ElementType, Shape};

/// A routine with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lapack {
    /// `potrf(a)`: the factor, which leaves the other triangle as it was in `a`, and per
    /// matrix whether there was none.
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
        /// What `op` is.
        transpose_a: TransposeA,
    },
    /// `getrf(a)`: both factors, the row that each was exchanged with (counted from 1),
    /// and per matrix the first zero on the diagonal (counted from 1; 0 if there is none).
    Lu,
    /// `geqrf(a)`: the upper triangle of a QR decomposition, below it the vectors `v` of the
    /// reflections `1 - tau v v^T` whose product is `q` (1 on the diagonal, which is left out),
    /// and each `tau`. Of real matrices.
    Qr,
    /// `orgqr(a, tau)`: the first columns of the product of reflections that `geqrf` gave. Of real
    /// matrices.
    Reflections,
}

impl Lapack {
    /// Whether a target is one of these.
    pub fn is_target(target: &str) -> bool {
        routine(target).is_some()
    }

    /// Whether a target is one of these that a library computes as well: there is a handler for it.
    pub fn has_handler(target: &str) -> bool {
        matches!(routine(target), Some("geqrf" | "orgqr"))
    }

    /// The routine that a call [to run](CustomCall::to_run) names; `None` if it names another
    /// target.
    ///
    /// # Errors
    /// An option that is missing or none that the routine has, by name.
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

    /// What the routine gives for matrices of a type: `[.., rows, columns]`, each matrix by
    /// itself, without layouts.
    ///
    /// # Errors
    /// The operands are not those of the routine.
    pub(crate) fn result(self, of: ElementType, operands: &[&Shape]) -> Result<Shape, String> {
        let arrays: Option<Vec<&ArrayShape>> = operands.iter().map(|x| x.as_array()).collect();
        let arrays = arrays.ok_or("the routine's operands are arrays")?;
        if let Some(other) = arrays.iter().find(|a| a.element_type != of) {
            return Err(format!("the routine is for {of}, an operand is {other}"));
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
                    return Err(format!("matrices {a:?} do not go with {b:?}"));
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
                    _ => Err(format!("factors {factors:?} for the columns of {a:?}")),
                }
            }
            _ => Err("another number of operands than the routine has".to_owned()),
        }
    }
}

/// The batch of matrices, and the rows and columns of each.
fn matrix(sizes: &[i64]) -> Result<(&[i64], [i64; 2]), String> {
    match sizes.split_last_chunk() {
        Some((batch, &last)) => Ok((batch, last)),
        None => Err(format!("{sizes:?} is no matrix")),
    }
}

/// The batch of matrices that are square, and their size.
fn square(sizes: &[i64]) -> Result<(&[i64], i64), String> {
    match matrix(sizes)? {
        (batch, [rows, columns]) if rows == columns => Ok((batch, rows)),
        _ => Err(format!("matrices {sizes:?} are not square")),
    }
}

/// The type of the matrices and the routine that jaxlib's name of a target says: `f32` and
/// `potrf` of `lapack_spotrf_ffi`.
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

/// The routine of a target, if it is one of [`Lapack`]'s.
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
    format!("`{name}` is `{letter}`, which LAPACK does not have")
}

/// LAPACK's option of a name, a letter, that a call states.
///
/// # Errors
/// There is none, or it is not a letter.
pub fn lapack_option(call: &CustomCall, name: &str) -> Result<char, String> {
    letter(config(call), name)
}

/// LAPACK's option of a name, `true` or `false`, that a call states.
///
/// # Errors
/// There is none, or it is something else.
pub fn lapack_flag(call: &CustomCall, name: &str) -> Result<bool, String> {
    match entry(config(call), name)? {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(format!("`{name}` is `{other}`, expected `true` or `false`")),
    }
}

/// LAPACK's option of a name, an integer, that a call states.
///
/// # Errors
/// There is none, or it is something else.
pub fn lapack_integer(call: &CustomCall, name: &str) -> Result<i64, String> {
    let value = entry(config(call), name)?;
    let number = value.split(':').next().unwrap_or_default().trim();
    let number = number.parse();
    number.map_err(|_| format!("`{name}` is `{value}`, expected an integer"))
}

/// The attributes of a call.
fn config(call: &CustomCall) -> &str {
    let mut options = call.extra.iter().rev();
    let config = options.find(|(name, _)| &**name == "backend_config");
    config.map_or("", |(_, config)| config)
}

/// What is written for an option: `76 : ui8` of `{uplo = 76 : ui8}`.
fn entry<'c>(config: &'c str, name: &str) -> Result<&'c str, String> {
    let entries = config.trim().trim_start_matches('{').trim_end_matches('}');
    let value = entries.split(',').find_map(|entry| {
        let (key, value) = entry.split_once('=')?;
        (key.trim().trim_matches('"') == name).then_some(value.trim())
    });
    value.ok_or_else(|| format!("`backend_config` has no `{name}`"))
}

/// LAPACK's option of a name, written as the number of its letter: `{uplo = 76 : ui8}`.
fn letter(config: &str, name: &str) -> Result<char, String> {
    let value = entry(config, name)?;
    let number = value.split(':').next().unwrap_or_default().trim();
    let letter = number.parse::<u8>().map(char::from);
    letter.map_err(|_| format!("`{name}` is `{value}`, not the number of a letter"))
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
