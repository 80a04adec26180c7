//! What every executor of plans does before a run: the inputs are what the plan takes,
//! and what was made for their sizes before is used again.

use super::Plan;
use std::sync::{Arc, Mutex, PoisonError};
use tegula_ir::{ArrayShape, Shape};

/// An input that is not what a plan takes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("input {index}: expected {expected}, got {actual}")]
pub struct WrongInput {
    /// Which input.
    pub index: usize,
    /// What the plan takes.
    pub expected: String,
    /// What was given.
    pub actual: String,
}

impl Plan {
    /// Checks the number, the types and the known sizes of inputs; open sizes are
    /// [bound](Self::bind) and checked by themselves.
    ///
    /// # Errors
    /// The first input that is missing, one too many, or of another shape.
    pub fn check_inputs(&self, inputs: &[&ArrayShape]) -> Result<(), WrongInput> {
        let count = self.parameters.len().max(inputs.len());
        for index in 0..count {
            let expected = self.parameters.get(index);
            let expected = expected.map(|&p| &self.values[p].shape);
            let actual = inputs.get(index).copied();
            if !matches!((expected, actual), (Some(e), Some(a)) if may_be(e, a)) {
                let describe = |shape: Option<&ArrayShape>| match shape {
                    Some(shape) => {
                        tegula_ir::display_shape(&Shape::Array(shape.clone()), &self.symbols)
                    }
                    None => "nothing".to_owned(),
                };
                return Err(WrongInput {
                    index,
                    expected: describe(expected),
                    actual: describe(actual),
                });
            }
        }
        Ok(())
    }
}

/// Whether an array is of a shape, as far as that says.
fn may_be(expected: &ArrayShape, actual: &ArrayShape) -> bool {
    let mut dims = expected.dims.iter().zip(&actual.dims);
    expected.element_type == actual.element_type
        && expected.rank() == actual.rank()
        && dims.all(|(e, a)| {
            a.as_static().is_some() && (e.as_static().is_none() || e.as_static() == a.as_static())
        })
}

/// For how many different sizes of inputs something is kept.
const MAX_SIZES: usize = 32;

/// The values of a plan's symbols, and what was made for them.
type AtSizes<T> = (Vec<i64>, Arc<T>);

/// What was made for the sizes of runs so far, the last used last.
#[derive(Debug)]
pub struct PerSizes<T>(Mutex<Vec<AtSizes<T>>>);

impl<T> Default for PerSizes<T> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl<T> PerSizes<T> {
    /// What was made for these sizes, or what `make` gives for them, which is kept. Two
    /// runs may make it at once.
    ///
    /// # Errors
    /// What `make` says.
    pub fn get<E>(
        &self,
        sizes: Vec<i64>,
        make: impl FnOnce(&[i64]) -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = lock();
        if let Some(found) = known.iter().rposition(|(own, _)| *own == sizes) {
            // The last used goes last.
            known[found..].rotate_left(1);
            let last = known.len() - 1;
            return Ok(Arc::clone(&known[last].1));
        }
        drop(known);
        let made = Arc::new(make(&sizes)?);
        let mut known = lock();
        if known.len() >= MAX_SIZES {
            known.remove(0);
        }
        known.push((sizes, Arc::clone(&made)));
        Ok(made)
    }
}
