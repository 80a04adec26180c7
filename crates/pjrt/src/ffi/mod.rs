//! XLA's foreign function interface: C functions that programs call by name (`jax.ffi`), and Python
//! functions, which programs call by a few fixed names.
//!
//! A function is registered once for the process, and is called on the thread of the execution.
//! Operands and results are dense row-major arrays. The state that a function creates at its first
//! call with some attributes is kept for these attributes.

mod attributes;
pub mod python;
pub mod register;

pub(crate) use register::call::data_type;
pub(crate) use register::{
    PJRT_FFI_Register_Handler, PJRT_FFI_Type_Register, PJRT_FFI_UserData_Add,
};
