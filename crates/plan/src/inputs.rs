//! What every executor of plans does before a run: it checks the inputs against the plan, and looks
//! up what earlier runs prepared for the same sizes.

use super::Plan;
use std::sync::{Arc, Mutex, PoisonError};
use tegula_ir::{ArrayShape, Shape};

/// An input that does not match the plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("input {index}: expected {expected}, got {actual}")]
pub struct WrongInput {
    /// The number of the input.
    pub index: usize,
    /// What the plan expects.
    pub expected: String,
    /// What was passed.
    pub actual: String,
}

impl Plan {
    /// Checks the number, types and static sizes of inputs. Symbolic sizes are [bound](Self::bind)
    /// and checked separately.
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

/// Whether an array may have the expected shape, whose symbolic sizes are unknown.
fn may_be(expected: &ArrayShape, actual: &ArrayShape) -> bool {
    let mut dims = expected.dims.iter().zip(&actual.dims);
    expected.element_type == actual.element_type
        && expected.rank() == actual.rank()
        && dims.all(|(e, a)| {
            a.as_static().is_some() && (e.as_static().is_none() || e.as_static() == a.as_static())
        })
}

/// The number of different input sizes for which a result is kept.
const MAX_SIZES: usize = 32;

/// The values of a plan's symbols, and the object that was made for them.
type AtSizes<T> = (Vec<i64>, Arc<T>);

/// A cache of the objects (such as a specialised plan) that were made for the sizes of past runs,
/// the most recently used last.
#[derive(Debug)]
pub struct PerSizes<T>(Mutex<Vec<AtSizes<T>>>);

impl<T> Default for PerSizes<T> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl<T> PerSizes<T> {
    /// Returns the object for these sizes; if there is none, calls `make` and keeps its result. Two
    /// runs may call `make` at the same time.
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
            // The most recently used entry is last.
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
