//! Library calls: the routine chosen for an operation and its shapes, ready to run.

use super::convolution::Convolution;
use super::custom_call::Handled;
use super::dot::{Distances, Dot};
use super::routine::Routine;
use super::sort::{Sort, SortCode};
use super::sort_key::key_of;
use crate::error::Error;
use crate::error::RunFailure;
use tegula_custom_call::is_built_in;
use tegula_fusion::{Contraction, Label, LibraryOp};
use tegula_ir::{ArrayShape, Lapack, Op};
use tegula_linalg::gemm::PackedLayout;
use tegula_linalg::thread_pool::ThreadPool;
use tegula_target::CpuFeatures;
use tegula_target::IsaLevel;

/// A routine for particular shapes.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Dot(Box<Dot>),
    Convolution(Box<Convolution>),
    Sort(Sort),
    Routine(Routine),
    Handled(Box<Handled>),
}

/// Checks whether this backend has a routine for an operation on these shapes.
///
/// # Errors
/// This backend has no routine for them.
pub fn check_library(
    op: &LibraryOp,
    operands: &[&ArrayShape],
    results: &[&ArrayShape],
) -> Result<(), Error> {
    Call::new(
        CpuFeatures::up_to(IsaLevel::Native),
        op,
        operands,
        results,
        None,
    )
    .map(|_| ())
}

impl Call {
    /// The routine for an operation, one operand of which may be `fixed`: the same in every run.
    ///
    /// # Errors
    /// This backend has no routine for the operation or these shapes.
    pub(crate) fn new(
        isa: CpuFeatures,
        op: &LibraryOp,
        operands: &[&ArrayShape],
        results: &[&ArrayShape],
        fixed: Option<usize>,
    ) -> Result<Self, Error> {
        match (op, operands, results) {
            (LibraryOp::Dot(dims), &[lhs, rhs, ref added @ ..], &[out]) => {
                Dot::new(isa, [lhs, rhs], out, dims, !added.is_empty(), fixed)
                    .map(|dot| Self::Dot(Box::new(dot)))
                    .ok_or_else(|| {
                        Error::Unsupported("a dot product of these shapes and types".to_owned())
                    })
            }
            (LibraryOp::Dot(_), ..) => Err(Error::Bug(
                "expected a dot product with two or three operands and one result".to_owned(),
            )),
            (
                LibraryOp::Sort {
                    dimension,
                    comparator,
                },
                ..,
            ) => {
                let key = key_of(comparator).map(|key| key.order);
                Sort::new(operands, *dimension, key)
                    .map(Self::Sort)
                    .ok_or_else(|| {
                        Error::Unsupported(format!(
                            "a sort of {} arrays with these shapes",
                            operands.len()
                        ))
                    })
            }
            (LibraryOp::Operation(op), &[input, kernel], &[out])
                if matches!(**op, Op::Convolution { .. }) =>
            {
                Convolution::new(isa, op, [input, kernel, out], fixed == Some(1))
                    .map(|convolution| Self::Convolution(Box::new(convolution)))
                    .ok_or_else(|| {
                        Error::Unsupported("a convolution of these shapes and types".to_owned())
                    })
            }
            (LibraryOp::Operation(op), ..)
                if let Op::CustomCall(call) = &**op
                    && (!is_built_in(&call.target) || Lapack::has_handler(&call.target)) =>
            {
                let handled = Handled::new(call, operands, results)?;
                Ok(Self::Handled(Box::new(handled)))
            }
            (LibraryOp::Operation(op), ..) => {
                Routine::new(isa, op, operands, results).map(Self::Routine)
            }
        }
    }

    /// The call for one strip of a dot: see [`Dot::strip`].
    pub(crate) fn strip_of_dot(
        isa: CpuFeatures,
        operands: &[&ArrayShape],
        out: &ArrayShape,
        contraction: &Contraction,
        cut: &[(Label, usize)],
        fixed: Option<usize>,
    ) -> Option<(Self, Distances)> {
        let (dot, distances) = Dot::strip(isa, operands, out, contraction, cut, fixed)?;
        Some((Self::Dot(Box::new(dot)), distances))
    }

    /// The name under which the call's time is reported.
    pub(crate) fn name(&self, op: &LibraryOp) -> String {
        match self {
            Self::Dot(dot) => dot.to_string(),
            Self::Convolution(convolution) => convolution.to_string(),
            Self::Handled(handled) => handled.target().to_owned(),
            Self::Sort(_) | Self::Routine(_) => op.name().to_owned(),
        }
    }

    /// The bytes of scratch memory that a run with this many threads needs.
    pub(crate) fn scratch_bytes(&self, threads: usize) -> usize {
        match self {
            Self::Dot(dot) => dot.scratch_bytes(threads),
            Self::Convolution(convolution) => convolution.scratch_bytes(threads),
            Self::Routine(routine) => routine.scratch_bytes(),
            Self::Sort(sort) => sort.scratch_bytes(),
            Self::Handled(handled) => handled.scratch_bytes(),
        }
    }

    /// The operand that is packed once, and the bytes of its packed form.
    pub(crate) fn kept_bytes(&self) -> Option<(usize, usize)> {
        match self {
            Self::Dot(dot) => dot.product().kept_bytes(),
            Self::Convolution(convolution) => Some((1, convolution.kept_bytes()?)),
            Self::Sort(_) | Self::Routine(_) | Self::Handled(_) => None,
        }
    }

    /// The layouts of the packed operand: calls with equal layouts share it.
    pub(crate) fn kept_layouts(&self) -> Vec<PackedLayout> {
        match self {
            Self::Dot(dot) => dot.product().kept_layout().into_iter().collect(),
            Self::Convolution(convolution) => convolution.kept_layouts(),
            Self::Sort(_) | Self::Routine(_) | Self::Handled(_) => Vec::new(),
        }
    }

    /// Whether runs also read that operand in its original form.
    pub(crate) fn needs_source(&self) -> bool {
        match self {
            Self::Dot(dot) => dot.product().needs_source(),
            _ => true,
        }
    }

    /// Packs that operand.
    ///
    /// # Safety
    /// `operand` is the one that is passed to [`Self::run`]; `kept` has [`Self::kept_bytes`],
    /// aligned to 64.
    pub(crate) unsafe fn keep(&self, operand: *const u8, kept: *mut u8) {
        // SAFETY: the caller promises that `operand` is the one that [`Self::run`] gets; `kept` has
        // [`Self::kept_bytes`], aligned to 64.
        unsafe {
            match self {
                Self::Dot(dot) => dot.product().keep(operand, kept),
                Self::Convolution(convolution) => convolution.keep(operand, kept),
                Self::Sort(_) | Self::Routine(_) | Self::Handled(_) => {}
            }
        }
    }

    /// Runs the call.
    ///
    /// # Errors
    /// The handler of a custom call fails.
    ///
    /// # Safety
    /// `inputs` and `outputs` are dense arrays of the call's shapes, aligned to their elements
    /// (strips begin anywhere); no output overlaps any other array, except for an array that a dot
    /// is added to. A sort gets its own code. A call that packs an operand once gets the result of
    /// [`Self::keep`]: that operand is read only if it is [needed](Self::needs_source). `scratch`
    /// has [`Self::scratch_bytes`] for the pool's threads, aligned to 64.
    pub(crate) unsafe fn run(
        &self,
        inputs: &[*const u8],
        outputs: &[*mut u8],
        (sort, kept): (Option<&SortCode>, *const u8),
        scratch: *mut u8,
        pool: &ThreadPool,
    ) -> Result<(), RunFailure> {
        // SAFETY: the caller promises arrays of the shapes this was made for.
        unsafe {
            match (self, sort) {
                (Self::Dot(dot), _) => dot.run(inputs, kept, outputs[0], scratch, pool),
                (Self::Convolution(convolution), _) => {
                    convolution.run([inputs[0], inputs[1]], kept, outputs[0], scratch, pool);
                }
                (Self::Sort(sort), Some(code)) => sort.run(inputs, outputs, code, scratch),
                // Every sort of a plan has code.
                (Self::Sort(_), None) => {}
                (Self::Routine(routine), _) => routine.run(inputs, outputs, scratch),
                (Self::Handled(handled), _) => return handled.run(inputs, outputs, scratch),
            }
        }
        Ok(())
    }
}
