//! Named values of the C API: options from callers, attributes for them.

use crate::c_api::*;
use crate::error::Error;
use crate::pointers::slice;
use std::ptr;

/// A value of an option.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Integers(Vec<i64>),
    Float(f32),
    Bool(bool),
}

/// Reads the options that a caller passes.
///
/// # Errors
/// A value of an unknown type.
///
/// # Safety
/// `values` points to `count` valid named values.
pub(crate) unsafe fn read(
    values: *const PJRT_NamedValue,
    count: usize,
) -> Result<Vec<(String, Value)>, Error> {
    // SAFETY: the caller promises that `values` points to `count` valid named values.
    let values = unsafe { slice(values, count) };
    // SAFETY: the caller promises that `values` points to `count` valid named values.
    let read = |value| unsafe { read_one(value) };
    values.iter().map(read).collect()
}

/// # Safety
/// The named value is valid.
unsafe fn read_one(value: &PJRT_NamedValue) -> Result<(String, Value), Error> {
    // SAFETY: the caller promises a valid named value; the type says which member of the union is
    // there.
    unsafe {
        let text = |data: *const std::ffi::c_char, size| {
            String::from_utf8_lossy(slice(data.cast::<u8>(), size)).into_owned()
        };
        let name = text(value.name, value.name_size);
        let member = &value.value;
        let read = match value.r#type {
            PJRT_NamedValue_kString => Value::Text(text(member.string_value, value.value_size)),
            PJRT_NamedValue_kInt64 => Value::Integer(member.int64_value),
            PJRT_NamedValue_kInt64List => {
                Value::Integers(slice(member.int64_array_value, value.value_size).to_vec())
            }
            PJRT_NamedValue_kFloat => Value::Float(member.float_value),
            PJRT_NamedValue_kBool => Value::Bool(member.bool_value),
            other => {
                let message = format!("option {name}: values of type {other} are not known");
                return Err(Error::invalid(message));
            }
        };
        Ok((name, read))
    }
}

/// Attributes, which live as long as this object.
#[derive(Default)]
pub(crate) struct Attributes {
    /// The memory that `values` points to.
    _owned: Vec<(String, Value)>,
    values: Vec<PJRT_NamedValue>,
}

// SAFETY: the value is never modified after construction; its pointers are to memory that it owns.
unsafe impl Send for Attributes {}
// SAFETY: the value is never modified after construction; its pointers are to memory that it owns.
unsafe impl Sync for Attributes {}

impl Attributes {
    pub(crate) fn new(owned: Vec<(String, Value)>) -> Self {
        // Strings and lists are on the heap, so they keep their address when `owned` is moved.
        let values = owned.iter().map(|(name, value)| named(name, value));
        let values = values.collect();
        Self {
            _owned: owned,
            values,
        }
    }

    pub(crate) fn as_ptr(&self) -> *const PJRT_NamedValue {
        self.values.as_ptr()
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }
}

fn named(name: &str, value: &Value) -> PJRT_NamedValue {
    use PJRT_NamedValue_Value as Member;
    let (kind, member, size) = match value {
        Value::Text(text) => {
            let string_value = text.as_ptr().cast();
            (PJRT_NamedValue_kString, Member { string_value }, text.len())
        }
        &Value::Integer(int64_value) => (PJRT_NamedValue_kInt64, Member { int64_value }, 1),
        Value::Integers(list) => {
            let int64_array_value = list.as_ptr();
            let member = Member { int64_array_value };
            (PJRT_NamedValue_kInt64List, member, list.len())
        }
        &Value::Float(float_value) => (PJRT_NamedValue_kFloat, Member { float_value }, 1),
        &Value::Bool(bool_value) => (PJRT_NamedValue_kBool, Member { bool_value }, 1),
    };
    PJRT_NamedValue {
        struct_size: PJRT_NamedValue::SIZE,
        extension_start: ptr::null_mut(),
        name: name.as_ptr().cast(),
        name_size: name.len(),
        r#type: kind,
        value: member,
        value_size: size,
    }
}
