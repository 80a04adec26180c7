//! The errors of the verifier of plans and kernels.

use std::fmt;
use std::ops::Deref;

/// An invariant that a plan or kernel violates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct VerifierError(pub(super) String);

/// All errors that the verifier finds in a plan, at least one. It dereferences to the slice of its
/// errors, and prints them one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifierErrors(Vec<VerifierError>);

impl VerifierErrors {
    pub(super) fn check(errors: Vec<String>) -> Result<(), Self> {
        match errors.is_empty() {
            true => Ok(()),
            false => Err(Self(errors.into_iter().map(VerifierError).collect())),
        }
    }
}

impl From<String> for VerifierErrors {
    fn from(error: String) -> Self {
        Self(vec![VerifierError(error)])
    }
}

impl Deref for VerifierErrors {
    type Target = [VerifierError];

    fn deref(&self) -> &[VerifierError] {
        &self.0
    }
}

impl fmt::Display for VerifierErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if i == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for VerifierErrors {}
