//! What every C function does before and after its work.

use crate::c_api::{CStruct, PJRT_Error};
use crate::error::{Code, Error};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Defines C functions over argument structs. `up to FIELD` names the last field that callers must
/// know; without it that is the struct's last. Later fields are zero for older callers.
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
            // SAFETY: whoever calls this function of the C API gives such a struct.
            unsafe { $crate::entry::run(args, least, work) }
        }
    )*};
}

macro_rules! least {
    ($type:ident) => {
        <$type as $crate::c_api::CStruct>::SIZE
    };
    ($type:ident, $last:ident) => {
        // At least the beginning of the field, which is more than the end of the one before.
        std::mem::offset_of!($type, $last) + 1
    };
}

pub(crate) use {entries, least};

/// Runs a C function's work on its arguments, of which the caller may know fewer bytes than we do.
/// A panic becomes an error: nothing unwinds into C.
///
/// # Safety
/// `args` is null, or leads to as many bytes as its first field says.
pub(crate) unsafe fn run<A: CStruct>(
    args: *mut A,
    least: usize,
    work: impl FnOnce(&mut A) -> Result<(), Error>,
) -> *mut PJRT_Error {
    if args.is_null() {
        return Error::invalid(format!("{}: null", A::NAME)).into_c();
    }
    // SAFETY: the caller promises: `args` is null, or leads to as many bytes as its first field
    // says; the first field is the size.
    let given = unsafe { args.cast::<usize>().read() };
    if given < least {
        let message = format!(
            "{}: the caller knows {given} bytes of it, expected {least} or more",
            A::NAME
        );
        return Error::invalid(message).into_c();
    }
    let result = catch_unwind(AssertUnwindSafe(|| {
        if given >= A::SIZE {
            // SAFETY: every field is there; what follows the last one is padding.
            return work(unsafe { &mut *args });
        }
        let mut own = MaybeUninit::<A>::zeroed();
        // SAFETY: so many bytes are there, fewer than the struct has; zero is a value of what is
        // missing.
        let own = unsafe {
            own.as_mut_ptr()
                .cast::<u8>()
                .copy_from_nonoverlapping(args.cast(), given);
            own.assume_init_mut()
        };
        let result = work(own);
        // SAFETY: as many bytes are there as were read before.
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

/// What an opaque handle of the C API leads to.
pub(crate) trait Object: Sized {
    /// The C type.
    type Handle;
    /// For error messages.
    const NAME: &'static str;

    /// Gives the object to the caller, who destroys it.
    fn into_handle(self) -> *mut Self::Handle {
        Box::into_raw(Box::new(self)).cast()
    }

    /// The object of a handle.
    ///
    /// # Errors
    /// The handle is null.
    ///
    /// # Safety
    /// The handle is null, or an object of this type that lives for `'a`.
    unsafe fn of<'a>(handle: *const Self::Handle) -> Result<&'a Self, Error> {
        // SAFETY: the caller promises: the handle is null, or an object of this type that lives for
        // `'a`.
        let object = unsafe { handle.cast::<Self>().as_ref() };
        object.ok_or_else(|| Error::invalid(format!("the {} is null", Self::NAME)))
    }

    /// Destroys what [`Self::into_handle`] gave; null is nothing.
    ///
    /// # Safety
    /// The handle is null, or came from there and is not used again.
    unsafe fn destroy(handle: *mut Self::Handle) {
        if !handle.is_null() {
            // SAFETY: the caller promises: the handle is null, or came from there and is not used
            // again.
            drop(unsafe { Box::from_raw(handle.cast::<Self>()) });
        }
    }
}

/// An error that says what is missing.
pub(crate) fn unimplemented(what: &str) -> Error {
    Error::new(
        Code::Unimplemented,
        format!("Tegula: {what} is not implemented"),
    )
}
