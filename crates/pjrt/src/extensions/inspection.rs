//! Reports the sharding of an array to a Python function: `jax.debug.inspect_array_sharding`.
//!
//! JAX writes the addresses of a function of jaxlib's and of a Python object into the program, as
//! the bytes of `JAX_InspectSharding_Callback` (`xla/python/inspect_sharding.h`). The partitioner
//! calls the function with the object and the array's sharding. The addresses are valid only in the
//! process whose JAX wrote them, so the function is called only if it is in the code of a library
//! of this process.

use crate::sharding::to_proto;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use tegula::partition::Sharding;

/// `JAX_InspectSharding_Callback_Args`: a serialised `xla.OpSharding`, and room for an error.
#[repr(C)]
struct Answer {
    sharding: *const c_char,
    size: usize,
    error: *const c_char,
    scratch: *mut c_void,
    free_error: Option<unsafe extern "C" fn(*mut Self)>,
}

type Function = unsafe extern "C" fn(*mut c_void, *mut Answer);

/// An `xla.OpSharding` of type 4 (field 1): each device has its own array.
const MANUAL: [u8; 2] = [8, 4];

/// Calls the function in a call's configuration. Without a sharding, the array is each device's
/// own.
///
/// # Errors
/// The configuration does not contain such addresses, or the function fails.
pub(super) fn answer(config: &str, sharding: Option<&Sharding>) -> Result<(), String> {
    let addresses = addresses(config).filter(|[function, _]| is_code(*function));
    let [function, object] =
        addresses.ok_or("this process does not have the function that inspects it")?;
    let bytes = sharding.map_or(MANUAL.to_vec(), |sharding| to_proto(sharding, None));
    let mut answer = Answer {
        sharding: bytes.as_ptr().cast(),
        size: bytes.len(),
        error: ptr::null(),
        scratch: ptr::null_mut(),
        free_error: None,
    };
    // SAFETY: the address is in the code of a library, so JAX wrote it in this process, and keeps
    // the object alive during compilation.
    unsafe {
        let function = std::mem::transmute::<usize, Function>(function);
        function(ptr::with_exposed_provenance_mut(object), &raw mut answer);
    }
    if answer.error.is_null() {
        return Ok(());
    }
    // SAFETY: the function returns a text that lives until it is freed.
    let message = unsafe { CStr::from_ptr(answer.error) };
    let message = message.to_string_lossy().into_owned();
    if let Some(free) = answer.free_error {
        // SAFETY: the text is not used any more.
        unsafe { free(&raw mut answer) };
    }
    Err(message)
}

/// The two addresses, whose bytes are in the text as UTF-8 or Latin-1.
fn addresses(config: &str) -> Option<[usize; 2]> {
    let latin: Result<Vec<u8>, _> = config.chars().map(|c| u8::try_from(u32::from(c))).collect();
    let bytes = match config.len() {
        16 => config.as_bytes().to_vec(),
        _ => latin.ok()?,
    };
    let (first, second) = bytes.split_first_chunk::<8>()?;
    let second: [u8; 8] = second.try_into().ok()?;
    let addresses = [*first, second].map(usize::from_ne_bytes);
    (addresses[1] != 0).then_some(addresses)
}

/// Whether an address is in the code of a file that is mapped into this process.
fn is_code(address: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().any(|line| {
        let mut words = line.split_ascii_whitespace();
        let range = words.next().and_then(|range| range.split_once('-'));
        let bound = |text: &str| usize::from_str_radix(text, 16).ok();
        let range = range.and_then(|(from, to)| Some(bound(from)?..bound(to)?));
        let is_executable = words.next().is_some_and(|rights| rights.contains('x'));
        let is_file = words.nth(3).is_some_and(|path| path.starts_with('/'));
        is_executable && is_file && range.is_some_and(|range| range.contains(&address))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_this_process_is_called() {
        let text = |addresses: [usize; 2]| -> String {
            let bytes = addresses.map(usize::to_ne_bytes).concat();
            match String::from_utf8(bytes) {
                Ok(text) => text,
                Err(error) => error.as_bytes().iter().map(|&b| char::from(b)).collect(),
            }
        };
        for object in [0x10_usize, 0x7f80_c3bf_1234] {
            let read = addresses(&text([0x1234, object]));
            assert_eq!(read, Some([0x1234, object]));
        }
        assert_eq!(addresses("x"), None);
        assert_eq!(
            addresses(&"é".repeat(16)),
            Some([usize::MAX / 0xff * 0xe9; 2])
        );
        let own = answer as fn(&str, Option<&Sharding>) -> Result<(), String>;
        assert!(is_code(own as usize));
        assert!(!is_code(0x1234));
        assert!(answer(&text([0x1234, 1]), None).is_err());
    }
}
