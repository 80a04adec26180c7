//! Custom calls: handlers of this process on arrays in the program's memory.

use crate::error::{Error, RunFailure};
use tegula_custom_call::{CustomCallError, CustomCallHandler};
use tegula_ir::{ArrayShape, CustomCall, Literal};

/// A custom call ready to run.
#[derive(Clone, Debug)]
pub(crate) struct Handled {
    call: CustomCall,
    handler: CustomCallHandler,
    operands: Vec<ArrayShape>,
    results: Vec<ArrayShape>,
}

impl Handled {
    /// A call of the handler that is registered for its target.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn new(
        call: &CustomCall,
        operands: &[&ArrayShape],
        results: &[&ArrayShape],
    ) -> Result<Self, Error> {
        let owned = |shapes: &[&ArrayShape]| shapes.iter().map(|&shape| shape.clone()).collect();
        Ok(Self {
            call: call.clone(),
            handler: CustomCallHandler::of(call)?,
            operands: owned(operands),
            results: owned(results),
        })
    }

    /// What is called.
    pub(crate) fn target(&self) -> &str {
        &self.call.target
    }

    /// Runs. What a handler that fails leaves of the results is as it was.
    ///
    /// # Errors
    /// The handler fails, or gives arrays of other shapes.
    ///
    /// # Safety
    /// `inputs` and `outputs` are dense arrays of the shapes this was made for, and
    /// no output overlaps anything else.
    pub(crate) unsafe fn run(
        &self,
        inputs: &[*const u8],
        outputs: &[*mut u8],
    ) -> Result<(), RunFailure> {
        let mut operands = Vec::with_capacity(inputs.len());
        for (&input, shape) in inputs.iter().zip(&self.operands) {
            let bytes = usize::try_from(shape.byte_size().unwrap_or(0)).unwrap_or(0);
            // SAFETY: the caller promises: `inputs` and `outputs` are dense arrays of the shapes
            // this was made for, and no output overlaps anything else.
            let bytes = unsafe { std::slice::from_raw_parts(input, bytes) };
            let literal = Literal::from_bytes(shape, bytes);
            operands.push(literal.map_err(|error| self.failed(error.to_string()))?);
        }
        let results = self.handler.run(&self.call, &operands, &self.results)?;
        for (&output, result) in outputs.iter().zip(&results) {
            let bytes = result.bytes();
            // SAFETY: the caller promises: `inputs` and `outputs` are dense arrays of the shapes
            // this was made for, and no output overlaps anything else; the result is of the shape
            // that this was made for.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), output, bytes.len()) };
        }
        Ok(())
    }

    fn failed(&self, reason: String) -> CustomCallError {
        let target = self.call.target.to_string();
        CustomCallError::Failed { target, reason }
    }
}
