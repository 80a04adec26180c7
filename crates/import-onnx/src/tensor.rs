//! Converts a file's tensors to literals. Raw bytes are not copied; only tensors stored as lists of
//! numbers, or packed into less than a byte, are.

use crate::Error;
use crate::read::Tensor;
use std::ops::Range;
use std::sync::Arc;
use tegula_ir::{ArrayShape, ElementType, Literal, Scalar};

/// Bytes with shared ownership: a buffer or a mapped file.
pub type Owner = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Returns the content of an external data file, given its name relative to the model's folder.
pub type External<'e> = dyn Fn(&str) -> Result<Owner, String> + 'e;

/// A range of an owner's bytes.
struct Part {
    owner: Owner,
    range: Range<usize>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        let all = (*self.owner).as_ref();
        all.get(self.range.clone()).unwrap_or_default()
    }
}

/// The element type for a number in the file.
///
/// # Errors
/// Strings, and numbers without a type.
pub(crate) fn element_type(number: i64) -> Result<ElementType, Error> {
    Ok(match number {
        1 => ElementType::F32,
        2 => ElementType::U8,
        3 => ElementType::S8,
        4 => ElementType::U16,
        5 => ElementType::S16,
        6 => ElementType::S32,
        7 => ElementType::S64,
        8 => return Err(Error::unsupported("tensors of strings are not supported")),
        9 => ElementType::Pred,
        10 => ElementType::F16,
        11 => ElementType::F64,
        12 => ElementType::U32,
        13 => ElementType::U64,
        14 => ElementType::C64,
        15 => ElementType::C128,
        16 => ElementType::BF16,
        17 => ElementType::F8E4M3FN,
        18 => ElementType::F8E4M3FNUZ,
        19 => ElementType::F8E5M2,
        20 => ElementType::F8E5M2FNUZ,
        21 => ElementType::U4,
        22 => ElementType::S4,
        23 => ElementType::F4E2M1FN,
        24 => ElementType::F8E8M0FNU,
        25 => ElementType::U2,
        26 => ElementType::S2,
        other => {
            return Err(Error::input(format!("unknown element type {other}")));
        }
    })
}

/// Converts a file's tensors to literals.
pub(crate) struct Tensors<'e> {
    pub(crate) owner: Owner,
    pub(crate) external: &'e External<'e>,
}

impl Tensors<'_> {
    /// The tensor as a literal.
    ///
    /// # Errors
    /// Strings, and tensors whose number of elements does not match their shape.
    pub(crate) fn literal(&self, tensor: &Tensor<'_>) -> Result<Literal, Error> {
        let named = |error: Error| match tensor.name {
            "" => error,
            name => error.at(format!("the tensor `{name}`")),
        };
        self.make(tensor).map_err(named)
    }

    fn make(&self, tensor: &Tensor<'_>) -> Result<Literal, Error> {
        let shape = ArrayShape::new(element_type(tensor.data_type)?, &tensor.dims);
        if !tensor.external.is_empty() {
            return self.external(tensor, &shape);
        }
        match tensor.raw {
            Some(raw) => match range_within((*self.owner).as_ref(), raw) {
                Some(range) => from_owner(&shape, Arc::clone(&self.owner), range),
                None => from_raw(&shape, raw),
            },
            None => from_lists(&shape, tensor),
        }
    }

    fn external(&self, tensor: &Tensor<'_>, shape: &ArrayShape) -> Result<Literal, Error> {
        let find = |key| tensor.external.iter().find(|e| e.0 == key).map(|e| e.1);
        let location = find("location").ok_or_else(|| {
            Error::input("its data is external, but it has no `location` that names the file")
        })?;
        let owner = (self.external)(location).map_err(|why| {
            Error::input(format!(
                "its external data `{location}` cannot be read: {why}"
            ))
        })?;
        let number = |key, default: usize| match find(key) {
            None => Ok(default),
            Some(text) => text.parse::<usize>().map_err(|_| {
                Error::input(format!("the `{key}` of its external data is not a number"))
            }),
        };
        let size = (*owner).as_ref().len();
        let offset = number("offset", 0)?;
        let length = number("length", size.saturating_sub(offset))?;
        let end = offset.checked_add(length).filter(|end| *end <= size);
        let end = end.ok_or_else(|| {
            Error::input(format!(
                "its external data is bytes {offset} to {offset}+{length} of `{location}`, which \
                 has {size}"
            ))
        })?;
        from_owner(shape, owner, offset..end)
    }
}

/// The range of a part within a slice.
fn range_within(all: &[u8], part: &[u8]) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(all.as_ptr().addr())?;
    let end = start.checked_add(part.len())?;
    (end <= all.len()).then_some(start..end)
}

fn from_owner(shape: &ArrayShape, owner: Owner, range: Range<usize>) -> Result<Literal, Error> {
    let is_whole = shape.element_type.bits() >= 8 && cfg!(target_endian = "little");
    if !is_whole {
        let part = Part { owner, range };
        return from_raw(shape, part.as_ref());
    }
    Ok(Literal::from_shared(shape, Part { owner, range })?)
}

/// A literal from little-endian bytes; elements narrower than a byte are packed, the first in the
/// lowest bits.
fn from_raw(shape: &ArrayShape, raw: &[u8]) -> Result<Literal, Error> {
    let bits = shape.element_type.bits();
    if bits < 8 {
        let count = count(shape)?;
        let per_byte = (8 / bits) as usize;
        if bits == 6 || raw.len() < count.div_ceil(per_byte) {
            return Err(Error::input("it has fewer bytes than its elements need"));
        }
        let signed = shape.element_type.category() == tegula_ir::Category::Signed;
        let elements = (0..count).map(|at| {
            let shift = (at % per_byte) as u32 * bits;
            let own = (raw[at / per_byte] >> shift) & ((1 << bits) - 1);
            match signed {
                true => (((own << (8 - bits)) as i8) >> (8 - bits)) as u8,
                false => own,
            }
        });
        let elements: Vec<u8> = elements.collect();
        return Ok(Literal::from_bytes(shape, &elements)?);
    }
    let mut bytes = raw.to_vec();
    if cfg!(target_endian = "big") {
        let part = match shape.element_type.complex_part() {
            Some(part) => part.storage_bytes(),
            None => shape.element_type.storage_bytes(),
        };
        bytes.chunks_mut(part).for_each(<[u8]>::reverse);
    }
    Ok(Literal::from_bytes(shape, &bytes)?)
}

fn count(shape: &ArrayShape) -> Result<usize, Error> {
    let count = shape.element_count().and_then(|n| usize::try_from(n).ok());
    count.ok_or_else(|| Error::input("its dimensions are negative or too large"))
}

/// A literal from the lists of a tensor. Half-precision and smaller types are stored as bits in
/// `int32_data`.
fn from_lists(shape: &ArrayShape, tensor: &Tensor<'_>) -> Result<Literal, Error> {
    use ElementType as T;
    let count = count(shape)?;
    let list = |bytes: Vec<u8>| Ok(Literal::from_bytes(shape, &bytes)?);
    let floats = || tensor.floats.iter().flat_map(|x| x.to_ne_bytes()).collect();
    let doubles = || {
        tensor
            .doubles
            .iter()
            .flat_map(|x| x.to_ne_bytes())
            .collect()
    };
    match shape.element_type {
        T::F32 | T::C64 => list(floats()),
        T::F64 | T::C128 => list(doubles()),
        ty if ty.bits() < 8 => {
            let bytes: Vec<u8> = tensor.ints.iter().map(|x| *x as u8).collect();
            from_raw(shape, &bytes)
        }
        ty => {
            if tensor.ints.len() != count {
                return Err(Error::input(format!(
                    "expected {count} numbers, found {}",
                    tensor.ints.len()
                )));
            }
            let width = ty.storage_bytes();
            let mut bytes = Vec::with_capacity(count * width);
            for value in &tensor.ints {
                match ty {
                    T::Pred => bytes.push(u8::from(*value != 0)),
                    _ if cfg!(target_endian = "little") => {
                        bytes.extend_from_slice(&value.to_le_bytes()[..width]);
                    }
                    _ => bytes.extend_from_slice(&value.to_be_bytes()[8 - width..]),
                }
            }
            list(bytes)
        }
    }
}

/// A literal of integers.
pub(crate) fn integers(ty: ElementType, dims: &[i64], values: &[i64]) -> Result<Literal, Error> {
    let shape = ArrayShape::new(ty, dims);
    let mut literal = Literal::zeros(&shape)?;
    for (at, value) in values.iter().enumerate() {
        literal.set_scalar(at, integer(ty, *value))?;
    }
    Ok(literal)
}

/// An integer as an element of a type.
pub(crate) fn integer(ty: ElementType, value: i64) -> Scalar {
    Scalar::Int(value).convert(ty)
}
