//! XLA's foreign function interface: functions of C that programs call by name (`jax.ffi`), and
//! Python functions, for which a program calls one of a few fixed names.
//!
//! A function is registered once for the process and is called on the thread of the execution. It
//! sees operands and results as dense row-major arrays. What the function makes when it is first
//! called with some attributes (its state) is kept for those attributes.

mod attributes;
pub mod python;
pub mod register;

pub(crate) use register::call::data_type;
pub(crate) use register::{
    PJRT_FFI_Register_Handler, PJRT_FFI_Type_Register, PJRT_FFI_UserData_Add,
};
