//! The extension for shardings of an executable's parameters and results. Programs of one device
//! have none.

use crate::c_api::*;
use crate::entry::{Object, entries};
use crate::executable::{Executable, Protos};
use std::ffi::c_char;
use std::ptr;

fn pointers(protos: &Protos) -> (*const *const c_char, *const usize) {
    match protos.starts.is_empty() {
        true => (ptr::null(), ptr::null()),
        false => (protos.starts.as_ptr(), protos.sizes.as_ptr()),
    }
}

entries! {
    fn PJRT_Shardings_PJRT_Executable_ParameterShardings(
        args: PJRT_Shardings_PJRT_Executable_ParameterShardings_Args
    ) {
        // SAFETY: the API requires a valid executable.
        args.num_parameters = unsafe { Executable::of(args.executable) }?.program.parameters.len();
        // SAFETY: the API requires valid handles of our objects.
        let protos = unsafe { &Executable::of(args.executable)?.parameter_shardings };
        (args.shardings, args.sharding_sizes) = pointers(protos);
    }
    fn PJRT_Shardings_PJRT_Executable_OutputShardings(
        args: PJRT_Shardings_PJRT_Executable_OutputShardings_Args
    ) {
        // SAFETY: the API requires a valid executable.
        args.num_outputs = unsafe { Executable::of(args.executable) }?.program.results.len();
        // SAFETY: the API requires valid handles of our objects.
        let protos = unsafe { &Executable::of(args.executable)?.result_shardings };
        (args.shardings, args.sharding_sizes) = pointers(protos);
    }
}
