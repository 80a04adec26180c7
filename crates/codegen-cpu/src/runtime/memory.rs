//! The memory of one run: translates locations of the program to addresses.

use crate::abi::KernelCode;
use crate::program::ir::{Area, Location};
use std::cell::Cell;
use tegula_ir::Literal;
use tegula_limits::StopFlag;

/// The memory of one run, and the code that uses it.
pub(crate) struct Memory<'a> {
    /// The code of the plan's kernels, by number.
    pub(super) kernels: &'a [KernelCode],
    pub(super) constants: &'a [Literal],
    /// The values of the plan's symbols.
    pub(super) sizes: &'a [i64],
    pub(super) arena: *mut u8,
    pub(super) inputs: Vec<*const u8>,
    pub(super) outputs: Vec<*mut u8>,
    /// The buffers of values kept between runs.
    pub(super) kept: Vec<*mut u8>,
    /// The table of exchanged buffers.
    pub(super) exchanged: Vec<Cell<*mut u8>>,
    /// The flag that stops the run.
    pub(super) stop: StopFlag,
}

impl Memory<'_> {
    /// The address of a location. Inputs and constants are only read.
    pub(crate) fn address(&self, location: Location) -> *mut u8 {
        let base = match location.area {
            Area::Parameter(i) => self.inputs[i].cast_mut(),
            Area::Output(i) => self.outputs[i],
            Area::Constant(i) => self.constants[i].bytes().as_ptr().cast_mut(),
            Area::Arena => self.arena,
            Area::Kept(i) => self.kept[i],
            Area::Exchanged(i) => self.exchanged[i].get(),
        };
        // SAFETY: the plan's verifier checks that values lie inside their areas; see the head of
        // `executable`.
        unsafe { base.add(location.offset) }
    }

    /// A kernel's functions.
    pub(crate) fn code(&self, kernel: usize) -> &KernelCode {
        &self.kernels[kernel]
    }

    /// The values of the plan's symbols, which code only reads.
    pub(crate) fn sizes(&self) -> *mut u8 {
        self.sizes.as_ptr().cast_mut().cast()
    }

    /// The address of the stop flag. Machine code only reads the flag.
    pub(crate) fn stop_flag(&self) -> *mut u8 {
        self.stop.address().cast_mut()
    }

    /// The addresses of a kernel's arguments, followed by those of the symbols' values and of the
    /// stop flag, which code only reads.
    pub(crate) fn addresses(&self, args: &[Location]) -> impl Iterator<Item = *mut u8> {
        let args = args.iter().map(|&a| self.address(a));
        args.chain([self.sizes(), self.stop_flag()])
    }
}
