//! Tridiagonal systems as JAX calls LAPACK's `gtsv` for them on CPUs: a
//! [handler](crate::CustomCallHandler) that every process has, on every target.
//!
//! Gaussian elimination, in which a row changes places with the next one if that has the larger
//! entry. The triangle that is left has two diagonals above its own. As everything here it is
//! computed in `f64` and rounded once.

use super::{Matrix, matrices, store};
use crate::dot::{load_complex, load_floats};
use crate::error::Fault;
use crate::reduce::from_i64s;
use crate::scalar::{C64, divide};
use crate::strided::sizes;
use tegula_ir::{ArrayShape, ElementType, Literal, lapack_target};

/// `gtsv(below, diagonal, above, b)` of matrices of one type, `[.., n]` each and `[.., n, count]`:
/// what elimination makes of all four, `b` being the solution then, and per system the row
/// (counted from 1) without a pivot, or 0. The first element of `below` and the last of `above`
/// are outside of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tridiagonal(ElementType);

/// One system.
struct System {
    /// Of each row the entry left of the diagonal; once a row is eliminated, that of the second
    /// diagonal above, one place further on.
    below: Vec<C64>,
    diagonal: Vec<C64>,
    above: Vec<C64>,
    b: Matrix,
}

impl Tridiagonal {
    /// The routine of a target like `lapack_sgtsv_ffi`.
    pub(crate) fn of(target: &str) -> Option<Self> {
        let (element_type, name) = lapack_target(target)?;
        (name == "gtsv").then_some(Self(element_type))
    }

    /// The results of a call.
    ///
    /// # Errors
    /// Operands or results are not those of the routine.
    pub(crate) fn run(
        self,
        operands: &[Literal],
        results: &[ArrayShape],
    ) -> Result<Vec<Literal>, String> {
        let ([below, diagonal, above, b], [.., info]) = (operands, results) else {
            return Err("the routine has four operands, and results".to_owned());
        };
        if let Some(other) = operands.iter().find(|x| x.element_type() != self.0) {
            let given = other.element_type();
            return Err(format!("an operand is of {given}, not of {}", self.0));
        }
        let (batch, right) = matrices(b).map_err(Fault::into_reason)?;
        let rows = sizes(b).get(batch.len()).copied().unwrap_or_default();
        let of_rows = [&batch[..], &[rows]].concat();
        if [below, diagonal, above]
            .iter()
            .any(|x| sizes(x)[..] != of_rows)
        {
            return Err(format!(
                "three diagonals of {of_rows:?} and right sides of {:?} are wanted",
                sizes(b)
            ));
        }
        let parts = |x: &Literal| -> Vec<C64> {
            match self.0.is_complex() {
                true => load_complex(x),
                false => load_floats(x).into_iter().map(C64::from).collect(),
            }
        };
        let [below, diagonal, above] = [below, diagonal, above].map(parts);
        let of = |x: &[C64], i: usize| x[i * rows..][..rows].to_vec();
        let mut fails = Vec::with_capacity(right.len());
        let mut systems: Vec<System> = (right.into_iter().enumerate())
            .map(|(i, b)| System {
                below: of(&below, i),
                diagonal: of(&diagonal, i),
                above: of(&above, i),
                b,
            })
            .collect();
        for system in &mut systems {
            let row = system.eliminate();
            if row.is_none() {
                system.substitute();
            }
            fails.push(row.map_or(0, |row| row as i64 + 1));
        }
        let all = |part: fn(&System) -> &[C64], dims: &[usize]| {
            let entries: Vec<C64> = systems.iter().flat_map(|x| part(x).to_vec()).collect();
            let (rows, columns) = (1, entries.len());
            let entries = Matrix {
                rows,
                columns,
                entries,
            };
            store(self.0, dims, &[entries]).map_err(Fault::into_reason)
        };
        Ok(vec![
            all(|x| &x.below, &of_rows)?,
            all(|x| &x.diagonal, &of_rows)?,
            all(|x| &x.above, &of_rows)?,
            all(|x| &x.b.entries, &sizes(b))?,
            from_i64s(info, &fails).map_err(Fault::into_reason)?,
        ])
    }
}

impl System {
    /// Makes everything below the diagonal zero; gives the row that has no pivot.
    fn eliminate(&mut self) -> Option<usize> {
        let size = |x: C64| x.re.abs() + x.im.abs();
        let is_zero = |x: C64| size(x) == 0.0;
        let rows = self.diagonal.len();
        for row in 0..rows.saturating_sub(1) {
            let next = row + 1;
            if size(self.diagonal[row]) >= size(self.below[next]) {
                if is_zero(self.diagonal[row]) {
                    return Some(row);
                }
                let factor = divide(self.below[next], self.diagonal[row]);
                let above = self.above[row];
                self.diagonal[next] -= factor * above;
                for column in 0..self.b.columns {
                    let change = factor * self.b.at(row, column);
                    *self.b.at_mut(next, column) -= change;
                }
                self.below[next] = C64::default();
            } else {
                let factor = divide(self.diagonal[row], self.below[next]);
                let under = self.diagonal[next];
                self.diagonal[row] = self.below[next];
                self.diagonal[next] = self.above[row] - factor * under;
                self.above[row] = under;
                let beyond = self.above[next];
                self.below[next] = beyond;
                self.above[next] = -factor * beyond;
                self.b.swap_rows(row, next);
                for column in 0..self.b.columns {
                    let change = factor * self.b.at(row, column);
                    *self.b.at_mut(next, column) -= change;
                }
            }
        }
        let last = rows.checked_sub(1)?;
        is_zero(self.diagonal[last]).then_some(last)
    }

    /// The solution of what elimination has left, in the place of the right sides.
    fn substitute(&mut self) {
        let rows = self.diagonal.len();
        for row in (0..rows).rev() {
            for column in 0..self.b.columns {
                let mut rest = self.b.at(row, column);
                if row + 1 < rows {
                    rest -= self.above[row] * self.b.at(row + 1, column);
                }
                if row + 2 < rows {
                    rest -= self.below[row + 1] * self.b.at(row + 2, column);
                }
                *self.b.at_mut(row, column) = divide(rest, self.diagonal[row]);
            }
        }
    }
}
