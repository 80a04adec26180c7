//! The common frame of all C functions: argument structs of other versions, errors, panics.

use crate::c_api::{CStruct, PJRT_Error};
use crate::error::{Code, Error};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Defines C functions with argument structs. `up to FIELD` names the last field that callers must
/// have; without it, that is the struct's last field. Later fields are zero for older callers.
macro_rules! entries {
    ($($(#[$meta:meta])* fn $name:ident($args:ident: $type:ident $(up to $last:ident)?) $body:block)*) => {$(
        $(#[$meta])*
        #[allow(non_snake_case, reason = "the header's name")]
        pub(crate) unsafe extern "C" fn $name(args: *mut $type) -> *mut $crate::c_api::PJRT_Error {
            let least = $crate::entry::least!($type $(, $last)?);
            let work = |$args: &mut $type| {
                $body
                Ok(())
            };
            // SAFETY: callers of this function of the C API pass such a struct.
            unsafe { $crate::entry::run(args, least, work) }
        }
    )*};
}

macro_rules! least {
    ($type:ident) => {
        <$type as $crate::c_api::CStruct>::SIZE
    };
    ($type:ident, $last:ident) => {
        // At least the first byte of the field, which implies that all fields before it are
        // present.
        std::mem::offset_of!($type, $last) + 1
    };
}

pub(crate) use {entries, least};

/// Runs a C function's work on its arguments. The caller's struct may have fewer bytes than ours. A
/// panic becomes an error, so nothing unwinds into C.
///
/// # Safety
/// `args` is null, or points to as many bytes as its first field says.
pub(crate) unsafe fn run<A: CStruct>(
    args: *mut A,
    least: usize,
    work: impl FnOnce(&mut A) -> Result<(), Error>,
) -> *mut PJRT_Error {
    if args.is_null() {
        return Error::invalid(format!("{}: null", A::NAME)).into_c();
    }
    // SAFETY: the caller promises that `args` is null, or points to as many bytes as its first
    // field says; the first field is the size.
    let given = unsafe { args.cast::<usize>().read() };
    if given < least {
        let message = format!(
            "{}: the caller's version has {given} bytes: expected at least {least}",
            A::NAME
        );
        return Error::invalid(message).into_c();
    }
    let result = catch_unwind(AssertUnwindSafe(|| {
        if given >= A::SIZE {
            // SAFETY: every field is present; what may be missing is padding after the last one.
            return work(unsafe { &mut *args });
        }
        let mut own = MaybeUninit::<A>::zeroed();
        // SAFETY: `given` bytes are present, fewer than the struct has; zero is a valid value of
        // the missing fields.
        let own = unsafe {
            own.as_mut_ptr()
                .cast::<u8>()
                .copy_from_nonoverlapping(args.cast(), given);
            own.assume_init_mut()
        };
        let result = work(own);
        // SAFETY: `args` has at least `given` bytes, which were read above.
        unsafe {
            args.cast::<u8>()
                .copy_from_nonoverlapping((&raw const *own).cast(), given);
        }
        result
    }));
    match result {
        Ok(Ok(())) => std::ptr::null_mut(),
        Ok(Err(error)) => error.into_c(),
        Err(panic) => Error::of_panic(&*panic).into_c(),
    }
}

/// An object behind an opaque handle of the C API.
pub(crate) trait Object: Sized {
    /// The C type.
    type Handle;
    /// The object's name in error messages.
    const NAME: &'static str;

    /// Passes ownership of the object to the caller, who destroys it.
    fn into_handle(self) -> *mut Self::Handle {
        Box::into_raw(Box::new(self)).cast()
    }

    /// The object behind a handle.
    ///
    /// # Errors
    /// The handle is null.
    ///
    /// # Safety
    /// The handle is null, or points to an object of this type that lives for `'a`.
    unsafe fn of<'a>(handle: *const Self::Handle) -> Result<&'a Self, Error> {
        // SAFETY: the caller promises that the handle is null, or an object of this type that lives
        // for `'a`.
        let object = unsafe { handle.cast::<Self>().as_ref() };
        object.ok_or_else(|| Error::invalid(format!("the {} is null", Self::NAME)))
    }

    /// Destroys the object behind a handle from [`Self::into_handle`]; null is ignored.
    ///
    /// # Safety
    /// The handle is null, or is from `into_handle` and not used again.
    unsafe fn destroy(handle: *mut Self::Handle) {
        if !handle.is_null() {
            // SAFETY: the caller promises that the handle is null, or is from `into_handle` and not
            // used again.
            drop(unsafe { Box::from_raw(handle.cast::<Self>()) });
        }
    }
}

/// The error for a function that is not implemented.
pub(crate) fn unimplemented(what: &str) -> Error {
    Error::new(
        Code::Unimplemented,
        format!("Tegula: {what} is not implemented"),
    )
}
