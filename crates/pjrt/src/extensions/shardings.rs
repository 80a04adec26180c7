//! Shardings of an executable's parameters and results: programs of one device have none.

use crate::c_api::*;
use crate::entry::{Object, entries};
use crate::executable::Executable;
use std::ptr;

entries! {
    fn PJRT_Shardings_PJRT_Executable_ParameterShardings(
        args: PJRT_Shardings_PJRT_Executable_ParameterShardings_Args
    ) {
        // SAFETY: the header asks for an executable.
        args.num_parameters = unsafe { Executable::of(args.executable) }?.program.parameters.len();
        args.shardings = ptr::null();
        args.sharding_sizes = ptr::null();
    }
    fn PJRT_Shardings_PJRT_Executable_OutputShardings(
        args: PJRT_Shardings_PJRT_Executable_OutputShardings_Args
    ) {
        // SAFETY: the header asks for an executable.
        args.num_outputs = unsafe { Executable::of(args.executable) }?.program.results.len();
        args.shardings = ptr::null();
        args.sharding_sizes = ptr::null();
    }
}
