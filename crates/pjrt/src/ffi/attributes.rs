//! Attributes of a call: parses a dictionary from text, and builds its C form.

use crate::ffi_api::*;
use std::ffi::c_void;
use tegula_stablehlo::mlir::{Attribute, Type};
use tegula_stablehlo::text::parse_attribute;

/// Attributes of a call, sorted by name.
#[derive(Default)]
pub(crate) struct Attributes {
    /// The memory that the pointers point to.
    _owned: Vec<Owned>,
    types: Vec<XLA_FFI_AttrType>,
    names: Vec<*mut XLA_FFI_ByteSpan>,
    values: Vec<*mut c_void>,
}

// SAFETY: the value is never modified after construction; its pointers are to memory that it owns.
unsafe impl Send for Attributes {}
// SAFETY: the value is never modified after construction; its pointers are to memory that it owns.
unsafe impl Sync for Attributes {}

/// The memory of one attribute. The contents of boxes keep their address when this is moved.
struct Owned {
    _name: Box<str>,
    name: Box<XLA_FFI_ByteSpan>,
    value: Value,
}

/// The C form of a value, and the memory that it points to.
#[allow(dead_code, reason = "C reads what is led to")]
enum Value {
    Scalar(Box<XLA_FFI_Scalar>, Box<[u8; 8]>),
    Text(Box<XLA_FFI_ByteSpan>, Box<str>),
    Array(Box<XLA_FFI_Array>, Box<[u64]>),
    Dictionary(Box<XLA_FFI_Attrs>, Box<Attributes>),
}

impl Attributes {
    /// Parses the text of a dictionary. An empty text is an empty dictionary.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() || !text.starts_with('{') {
            return Ok(Self::default());
        }
        let parsed = parse_attribute(text).map_err(|error| error.to_string())?;
        let entries = parsed
            .as_entries()
            .ok_or("the configuration is not a dictionary")?;
        Self::from_entries(entries.iter().map(|(name, value)| (&**name, value)))
    }

    fn from_entries<'a>(
        entries: impl Iterator<Item = (&'a str, &'a Attribute)>,
    ) -> Result<Self, String> {
        let mut sorted: Vec<_> = entries.collect();
        sorted.sort_by_key(|(name, _)| *name);
        let mut attributes = Self::default();
        for (name, value) in sorted {
            let value = Value::read(value).map_err(|what| format!("attribute `{name}`: {what}"))?;
            let text: Box<str> = name.into();
            let mut owned = Owned {
                name: Box::new(span(&text)),
                _name: text,
                value,
            };
            let (kind, pointer) = owned.value.pointer();
            attributes.types.push(kind);
            attributes.names.push(&raw mut *owned.name);
            attributes.values.push(pointer);
            attributes._owned.push(owned);
        }
        Ok(attributes)
    }

    pub(crate) fn to_c(&self) -> XLA_FFI_Attrs {
        XLA_FFI_Attrs {
            struct_size: size_of::<XLA_FFI_Attrs>(),
            extension_start: std::ptr::null_mut(),
            size: self.types.len() as i64,
            types: self.types.as_ptr().cast_mut(),
            names: self.names.as_ptr().cast_mut(),
            attrs: self.values.as_ptr().cast_mut(),
        }
    }

    /// The value of an integer attribute.
    pub(crate) fn integer(text: &str, name: &str) -> Option<i64> {
        let parsed = parse_attribute(text).ok()?;
        let entries = parsed.as_entries()?;
        let (_, value) = entries.iter().find(|(known, _)| &**known == name)?;
        value.as_integer()
    }
}

fn span(text: &str) -> XLA_FFI_ByteSpan {
    XLA_FFI_ByteSpan {
        ptr: text.as_ptr().cast(),
        len: text.len(),
    }
}

impl Value {
    fn pointer(&mut self) -> (XLA_FFI_AttrType, *mut c_void) {
        match self {
            Self::Scalar(scalar, _) => (XLA_FFI_AttrType_SCALAR, (&raw mut **scalar).cast()),
            Self::Text(text, _) => (XLA_FFI_AttrType_STRING, (&raw mut **text).cast()),
            Self::Array(array, _) => (XLA_FFI_AttrType_ARRAY, (&raw mut **array).cast()),
            Self::Dictionary(inner, _) => (XLA_FFI_AttrType_DICTIONARY, (&raw mut **inner).cast()),
        }
    }

    fn read(attribute: &Attribute) -> Result<Self, String> {
        match attribute {
            Attribute::Integer { value, ty } => Self::scalar(ty, value.to_ne_bytes()),
            Attribute::Float { bits, ty } => Self::scalar(ty, bits.to_ne_bytes()),
            Attribute::Unit => Self::scalar_of(XLA_FFI_DataType_PRED, 1_u64.to_ne_bytes()),
            Attribute::String(text) => {
                let text: Box<str> = (&**text).into();
                Ok(Self::Text(Box::new(span(&text)), text))
            }
            Attribute::IntegerArray { element, values } => {
                let values: Vec<[u8; 8]> = values.iter().map(|v| v.to_ne_bytes()).collect();
                Self::array(element, &values)
            }
            Attribute::FloatArray { element, values } => {
                let values: Vec<[u8; 8]> = values.iter().map(|v| v.to_ne_bytes()).collect();
                Self::array(element, &values)
            }
            Attribute::Dictionary(entries) => {
                let entries = entries.iter().map(|(name, value)| (&**name, value));
                let inner = Box::new(Attributes::from_entries(entries)?);
                Ok(Self::Dictionary(Box::new(inner.to_c()), inner))
            }
            other => Err(format!(
                "attributes such as `{}` are not supported",
                tegula_stablehlo::attribute_text(other)
            )),
        }
    }

    fn scalar(ty: &Type, bytes: [u8; 8]) -> Result<Self, String> {
        let (dtype, _) = data_type(ty)?;
        Self::scalar_of(dtype, bytes)
    }

    /// Numbers are stored in the lowest bytes, which come first here.
    fn scalar_of(dtype: XLA_FFI_DataType, bytes: [u8; 8]) -> Result<Self, String> {
        let mut bytes = Box::new(bytes);
        let value = (&raw mut *bytes).cast();
        Ok(Self::Scalar(
            Box::new(XLA_FFI_Scalar { dtype, value }),
            bytes,
        ))
    }

    fn array(element: &Type, values: &[[u8; 8]]) -> Result<Self, String> {
        let (dtype, width) = data_type(element)?;
        // Words are used so that elements of any width are aligned.
        let mut words = vec![0_u64; (values.len() * width).div_ceil(8)].into_boxed_slice();
        let place = words.as_mut_ptr().cast::<u8>();
        for (number, value) in values.iter().enumerate() {
            // SAFETY: the words have room for all elements.
            unsafe {
                place
                    .add(number * width)
                    .copy_from_nonoverlapping(value.as_ptr(), width);
            };
        }
        let array = XLA_FFI_Array {
            dtype,
            size: values.len(),
            data: place.cast(),
        };
        Ok(Self::Array(Box::new(array), words))
    }
}

/// The number of a scalar type, and its width in bytes.
fn data_type(ty: &Type) -> Result<(XLA_FFI_DataType, usize), String> {
    Ok(match tegula_stablehlo::type_text(ty).as_str() {
        "i1" => (XLA_FFI_DataType_PRED, 1),
        "i8" | "si8" => (XLA_FFI_DataType_S8, 1),
        "i16" | "si16" => (XLA_FFI_DataType_S16, 2),
        "i32" | "si32" => (XLA_FFI_DataType_S32, 4),
        "i64" | "si64" | "index" => (XLA_FFI_DataType_S64, 8),
        "ui8" => (XLA_FFI_DataType_U8, 1),
        "ui16" => (XLA_FFI_DataType_U16, 2),
        "ui32" => (XLA_FFI_DataType_U32, 4),
        "ui64" => (XLA_FFI_DataType_U64, 8),
        "f16" => (XLA_FFI_DataType_F16, 2),
        "bf16" => (XLA_FFI_DataType_BF16, 2),
        "f32" => (XLA_FFI_DataType_F32, 4),
        "f64" => (XLA_FFI_DataType_F64, 8),
        other => return Err(format!("attributes of type {other} are not supported")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dictionary_is_read_and_sorted() {
        let text = r#"{b = 5 : ui64, a = "text", c = array<i32: 1, -2>, d = {x = 1.5 : f32}}"#;
        let attributes = Attributes::read(text).expect("a dictionary").to_c();
        assert_eq!(attributes.size, 4);
        let attributes = Attributes::read(text).expect("a dictionary");
        let c = attributes.to_c();
        // SAFETY: there are four attributes, with the types that are asserted.
        unsafe {
            let types = std::slice::from_raw_parts(c.types, 4);
            let kinds = [
                XLA_FFI_AttrType_STRING,
                XLA_FFI_AttrType_SCALAR,
                XLA_FFI_AttrType_ARRAY,
                XLA_FFI_AttrType_DICTIONARY,
            ];
            assert_eq!(types, kinds);
            let values = std::slice::from_raw_parts(c.attrs, 4);
            let scalar = &*values[1].cast::<XLA_FFI_Scalar>();
            assert_eq!(scalar.dtype, XLA_FFI_DataType_U64);
            assert_eq!(*scalar.value.cast::<u64>(), 5);
            let array = &*values[2].cast::<XLA_FFI_Array>();
            assert_eq!(
                std::slice::from_raw_parts(array.data.cast::<i32>(), array.size),
                [1, -2]
            );
            let inner = &*values[3].cast::<XLA_FFI_Attrs>();
            let scalar = &**inner.attrs.cast::<*mut XLA_FFI_Scalar>();
            assert_eq!(*scalar.value.cast::<f32>(), 1.5);
        }
        assert_eq!(Attributes::integer(text, "b"), Some(5));
        assert!(Attributes::read("{a = @f}").is_err());
    }
}
