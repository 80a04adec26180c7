//! Custom calls: runs handlers registered in this process on arrays in the program's memory.

use crate::error::{Error, RunFailure};
use smallvec::SmallVec;
use tegula_custom_call::{CustomCallError, CustomCallHandler, PreparedCall};
use tegula_ir::{ArrayShape, CustomCall, Literal};

/// A custom call ready to run.
#[derive(Clone, Debug)]
pub(crate) struct Handled {
    call: CustomCall,
    handler: CustomCallHandler,
    /// The handler's version for arrays in memory, if it has one.
    prepared: Option<PreparedCall>,
    operands: Vec<ArrayShape>,
    results: Vec<ArrayShape>,
}

impl Handled {
    /// A call of the handler registered for its target.
    ///
    /// # Errors
    /// There is no handler.
    pub(crate) fn new(
        call: &CustomCall,
        operands: &[&ArrayShape],
        results: &[&ArrayShape],
    ) -> Result<Self, Error> {
        let owned = |shapes: &[&ArrayShape]| shapes.iter().map(|&shape| shape.clone()).collect();
        Ok(Self {
            call: call.clone(),
            handler: CustomCallHandler::of(call)?,
            prepared: PreparedCall::of(call, operands, results),
            operands: owned(operands),
            results: owned(results),
        })
    }

    /// The target of the call.
    pub(crate) fn target(&self) -> &str {
        &self.call.target
    }

    /// Bytes of scratch memory that a run needs.
    pub(crate) fn scratch_bytes(&self) -> usize {
        let prepared = self.prepared.as_ref();
        prepared.map_or(0, PreparedCall::scratch_bytes)
    }

    /// Runs the handler. If it fails, results that it has not written are unchanged.
    ///
    /// # Errors
    /// The handler fails, or returns arrays of other shapes.
    ///
    /// # Safety
    /// `inputs` and `outputs` are dense arrays of the shapes this was made for, and
    /// no output overlaps anything else. `scratch` has [`Self::scratch_bytes`], aligned to 64.
    pub(crate) unsafe fn run(
        &self,
        inputs: &[*const u8],
        outputs: &[*mut u8],
        scratch: *mut u8,
    ) -> Result<(), RunFailure> {
        if let Some(prepared) = &self.prepared {
            // SAFETY: the caller promises dense arrays of the shapes this was made for, results
            // that overlap nothing else, and scratch memory of [`Self::scratch_bytes`].
            return unsafe { self.run_prepared(prepared, inputs, outputs, scratch) };
        }
        let mut operands = Vec::with_capacity(inputs.len());
        for (&input, shape) in inputs.iter().zip(&self.operands) {
            let bytes = bytes_of(shape);
            // SAFETY: the caller promises that `inputs` and `outputs` are dense arrays of the
            // shapes this was made for, and no output overlaps any other array.
            let bytes = unsafe { std::slice::from_raw_parts(input, bytes) };
            let literal = Literal::from_bytes(shape, bytes);
            operands.push(literal.map_err(|error| self.failed(error.to_string()))?);
        }
        let results = self.handler.run(&self.call, &operands, &self.results)?;
        for (&output, result) in outputs.iter().zip(&results) {
            let bytes = result.bytes();
            // SAFETY: the caller promises that `inputs` and `outputs` are dense arrays of the
            // shapes this was made for, and no output overlaps any other array; the result is of
            // the shape that this was made for.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), output, bytes.len()) };
        }
        Ok(())
    }

    /// # Safety
    /// The same as for [`Self::run`].
    unsafe fn run_prepared(
        &self,
        prepared: &PreparedCall,
        inputs: &[*const u8],
        outputs: &[*mut u8],
        scratch: *mut u8,
    ) -> Result<(), RunFailure> {
        // SAFETY: the caller promises dense arrays of these shapes, of which no output overlaps any
        // other array, and scratch memory of [`Self::scratch_bytes`].
        let (operands, mut results, scratch) = unsafe {
            let operands = inputs.iter().zip(&self.operands);
            let operands = operands.map(|(&x, s)| std::slice::from_raw_parts(x, bytes_of(s)));
            let results = outputs.iter().zip(&self.results);
            let results = results.map(|(&x, s)| std::slice::from_raw_parts_mut(x, bytes_of(s)));
            (
                operands.collect::<SmallVec<[_; 3]>>(),
                results.collect::<SmallVec<[_; 2]>>(),
                match prepared.scratch_bytes() {
                    0 => &mut [],
                    bytes => std::slice::from_raw_parts_mut(scratch, bytes),
                },
            )
        };
        let done = prepared.run(&operands, &mut results, scratch);
        done.map_err(|reason| self.failed(reason).into())
    }

    fn failed(&self, reason: String) -> CustomCallError {
        let target = self.call.target.to_string();
        CustomCallError::Failed { target, reason }
    }
}

fn bytes_of(shape: &ArrayShape) -> usize {
    usize::try_from(shape.byte_size().unwrap_or(0)).unwrap_or(0)
}
