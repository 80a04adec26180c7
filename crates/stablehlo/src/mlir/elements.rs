//! The elements of a dense constant.

use super::{Bytes, Type};

/// A dense constant: `dense<...> : type`.
#[derive(Clone, Debug, PartialEq)]
pub struct Elements {
    /// The shaped type.
    pub ty: Type,
    /// The elements, row-major and little-endian, each in [`Type::storage_bytes`] bytes (truth
    /// values are bytes of 0 or 1); a single element if `splat`.
    pub bytes: Bytes,
    /// Whether all elements are equal, and only one is stored.
    pub splat: bool,
}

impl Elements {
    /// A dense constant from MLIR's raw bytes: all elements, or one for all of them. Truth values
    /// are packed eight to a byte, or have one byte each.
    ///
    /// # Errors
    /// A message about a wrong number of bytes, or a type without a constant size.
    pub fn from_raw(ty: Type, raw: Bytes) -> Result<Self, String> {
        let Some((_, element)) = ty.shaped() else {
            return Err("expected a shaped type of a dense constant".to_owned());
        };
        let (Some(count), Some(size)) = (ty.element_count(), element.storage_bytes()) else {
            return Err("the type of a dense constant has no fixed size".to_owned());
        };
        if *element == Type::BOOL {
            return truth_values(ty, count, &raw);
        }
        let all = count.checked_mul(size as u64) == Some(raw.len() as u64);
        if !all && raw.len() != size {
            return Err(format!(
                "a dense constant of {count} elements of {size} bytes has {} bytes",
                raw.len()
            ));
        }
        Ok(Self {
            ty,
            splat: !all || count == 1,
            bytes: raw,
        })
    }

    /// The value of element `index`, if elements are integers of at most 64 bits.
    pub fn integer(&self, index: usize) -> Option<i64> {
        let (_, element) = self.ty.shaped()?;
        let size = element.storage_bytes()?;
        let index = if self.splat { 0 } else { index };
        let start = index.checked_mul(size)?;
        let bytes = self.bytes.get(start..start.checked_add(size)?)?;
        let Type::Integer { width, signedness } = element else {
            return (element == &Type::Index).then(|| sign_extended(bytes));
        };
        let signed = *signedness != super::Signedness::Unsigned && *width > 1;
        let value = sign_extended(bytes);
        match (signed, size) {
            (true, _) | (false, 8) => Some(value),
            (false, _) => Some(value & ((1 << (8 * size)) - 1)),
        }
    }

    /// All elements as integers, if they are integers and there are at most `limit`.
    pub fn integers(&self, limit: usize) -> Option<Vec<i64>> {
        let count = usize::try_from(self.ty.element_count()?).ok()?;
        if count > limit {
            return None;
        }
        (0..count).map(|index| self.integer(index)).collect()
    }
}

fn truth_values(ty: Type, count: u64, raw: &[u8]) -> Result<Elements, String> {
    // A single byte of ones is a splat for any number of elements. A single byte of zeros is a
    // splat if there are more than eight elements; otherwise both readings are the same.
    let length = raw.len() as u64;
    if length == 1 && (raw[0] == 0xff || (count > 8 && raw[0] <= 1)) {
        let bytes = vec![u8::from(raw[0] != 0)].into();
        let splat = true;
        return Ok(Elements { ty, bytes, splat });
    }
    let bytes: Vec<u8> = if length == count.div_ceil(8) && length != count {
        let bit = |index: u64| raw[(index / 8) as usize] >> (index % 8) & 1;
        (0..count).map(bit).collect()
    } else if length == count {
        raw.iter().map(|byte| u8::from(*byte != 0)).collect()
    } else {
        return Err(format!(
            "a dense constant of {count} truth values has {length} bytes"
        ));
    };
    Ok(Elements {
        ty,
        bytes: bytes.into(),
        splat: count == 1,
    })
}

fn sign_extended(bytes: &[u8]) -> i64 {
    let mut wide = [0_u8; 8];
    let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    if negative {
        wide = [0xff; 8];
    }
    let length = bytes.len().min(8);
    wide[..length].copy_from_slice(&bytes[..length]);
    i64::from_le_bytes(wide)
}
