//! Origins: the statement of a kernel that generated code came from.
//!
//! A scalar is defined once, so it identifies the statement that defines it; so does an index
//! variable. A statement that is moved or copied keeps its origin. Cranelift carries an origin as
//! the source location of an instruction; SIMD bodies have one for each value.

use cranelift_codegen::ir::SourceLoc;
use rustc_hash::FxHashMap;
use tegula_expr::Var;
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Block, ScalarId, Statement};
use tegula_plan::{KernelLine, kernel_lines};

/// A statement of a kernel, identified by what it defines or stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// No statement: code that every function has.
    #[default]
    None,
    /// The statement that defines a scalar.
    Scalar(ScalarId),
    /// The statement that stores a scalar.
    Store(ScalarId),
    /// The loop or dimension that counts a variable, or the statement that binds it.
    Variable(Var),
    /// The conditional whose first result is this scalar.
    Choice(ScalarId),
}

impl Origin {
    /// The origin that identifies a statement.
    pub(crate) fn of(statement: &Statement) -> Self {
        match statement {
            Statement::Compute { result, .. } | Statement::Load { result, .. } => {
                Self::Scalar(*result)
            }
            Statement::Store { value, .. } => Self::Store(*value),
            Statement::Bind { var } | Statement::Loop { var, .. } => Self::Variable(*var),
            Statement::If {
                then, otherwise, ..
            } => {
                let first = first_scalar(then).or_else(|| first_scalar(otherwise));
                first.map_or(Self::None, Self::Choice)
            }
        }
    }

    /// The origin as a source location. Locations are even numbers: Cranelift stores differences of
    /// locations, and -1 means that there is none.
    pub(crate) fn location(self) -> SourceLoc {
        let (kind, number) = match self {
            Self::None => return SourceLoc::default(),
            Self::Scalar(id) => (0, id.as_u32()),
            Self::Store(id) => (1, id.as_u32()),
            Self::Variable(var) => (2, var.0),
            Self::Choice(id) => (3, id.as_u32()),
        };
        // Kernels with more scalars than this have no links.
        match number < 1 << 28 {
            true => SourceLoc::new(number << 3 | kind << 1),
            false => SourceLoc::default(),
        }
    }

    /// The origin of a [location](Self::location).
    pub(crate) fn at(location: SourceLoc) -> Self {
        if location.is_default() {
            return Self::None;
        }
        let number = location.bits() >> 3;
        match location.bits() >> 1 & 3 {
            0 => Self::Scalar(ScalarId::from_u32(number)),
            1 => Self::Store(ScalarId::from_u32(number)),
            2 => Self::Variable(Var(number)),
            _ => Self::Choice(ScalarId::from_u32(number)),
        }
    }
}

fn first_scalar(block: &Block) -> Option<ScalarId> {
    block
        .statements
        .iter()
        .find_map(|statement| match statement {
            Statement::Compute { result, .. } | Statement::Load { result, .. } => Some(*result),
            Statement::Store { value, .. } => Some(*value),
            Statement::Bind { .. } => None,
            Statement::Loop { body, .. } => first_scalar(body),
            Statement::If {
                then, otherwise, ..
            } => first_scalar(then).or_else(|| first_scalar(otherwise)),
        })
        .or(block.results.first().copied())
}

/// The lines of a kernel's text by the origins that they define. For statements with the same
/// origin, the first line.
pub(crate) fn lines_by_origin(kernel: &Kernel) -> FxHashMap<Origin, usize> {
    let mut lines = FxHashMap::default();
    for (line, what) in kernel_lines(kernel) {
        let origin = match what {
            KernelLine::Domain(var) => Origin::Variable(var),
            KernelLine::Statement(statement) => Origin::of(statement),
        };
        lines.entry(origin).or_insert(line);
        // A scalar that is the result of a loop or conditional is defined by it.
        if let KernelLine::Statement(
            Statement::Loop { results, .. } | Statement::If { results, .. },
        ) = what
        {
            for &result in results {
                lines.entry(Origin::Scalar(result)).or_insert(line);
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_read_back() {
        let scalar = ScalarId::from_u32(7);
        for origin in [
            Origin::None,
            Origin::Scalar(scalar),
            Origin::Store(scalar),
            Origin::Variable(Var(3)),
            Origin::Choice(ScalarId::from_u32(0)),
        ] {
            assert_eq!(Origin::at(origin.location()), origin);
        }
    }
}
