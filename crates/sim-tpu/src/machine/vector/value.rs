//! The contents of a vector: numbers, and marks for those that come from padding or from unwritten
//! memory.

use std::sync::Arc;
use tegula_ir::ElementType;
use tegula_mosaic::types::{Element, FloatKind};
use tegula_scalar::{decode_single, encode_single};

/// Mark of an element that comes from beyond the edge of an array.
pub(crate) const PADDING: u8 = 1;
/// Mark of an element that comes from unwritten memory.
pub(crate) const UNWRITTEN: u8 = 2;

/// Numbers, row-major: floating-point numbers of every type as f32, integers of up to 32 bits
/// sign-extended, truth values as 0 and 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Lanes {
    Float(Vec<f32>),
    Int(Vec<i32>),
}

impl Lanes {
    pub(crate) fn floats(&self) -> Result<&[f32], String> {
        match self {
            Self::Float(values) => Ok(values),
            Self::Int(_) => {
                Err("expected a floating-point vector, found an integer vector".to_owned())
            }
        }
    }

    pub(crate) fn ints(&self) -> Result<&[i32], String> {
        match self {
            Self::Int(values) => Ok(values),
            Self::Float(_) => {
                Err("expected an integer vector, found a floating-point vector".to_owned())
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Float(values) => values.len(),
            Self::Int(values) => values.len(),
        }
    }
}

/// A vector. Its parts are shared, so cloning is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Vector {
    pub(crate) lanes: Arc<Lanes>,
    /// For each element its marks [`PADDING`] and [`UNWRITTEN`]; `None` if no element has one.
    pub(crate) marks: Option<Arc<Vec<u8>>>,
    /// The line that loaded unwritten elements, if there are any.
    pub(crate) unwritten_from: Option<u32>,
}

impl Vector {
    pub(crate) fn new(lanes: Lanes) -> Self {
        Self {
            lanes: Arc::new(lanes),
            marks: None,
            unwritten_from: None,
        }
    }

    pub(crate) fn floats(values: Vec<f32>) -> Self {
        Self::new(Lanes::Float(values))
    }

    pub(crate) fn ints(values: Vec<i32>) -> Self {
        Self::new(Lanes::Int(values))
    }

    /// The vector with these marks; all 0 counts as none.
    pub(crate) fn marked(mut self, marks: Option<Vec<u8>>) -> Self {
        self.marks = marks
            .filter(|marks| marks.iter().any(|m| *m != 0))
            .map(Arc::new);
        self
    }

    /// Whether an element comes from unwritten memory. If the value is one number, it stands for
    /// every element.
    pub(crate) fn is_unwritten(&self, at: usize) -> bool {
        let mark = self.marks.as_ref().and_then(|marks| match marks.len() {
            1 => marks.first(),
            _ => marks.get(at),
        });
        mark.is_some_and(|mark| mark & UNWRITTEN != 0)
    }

    /// A vector with `count` copies of a number.
    pub(crate) fn splat(element: Element, bits: u64, count: usize) -> Result<Self, String> {
        Ok(match single(element, bits)? {
            Single::Float(value) => Self::floats(vec![value; count]),
            Single::Int(value) => Self::ints(vec![value; count]),
        })
    }
}

/// A number in 32 bits.
pub(crate) enum Single {
    Float(f32),
    Int(i32),
}

/// The number with the bits of a constant.
pub(crate) fn single(element: Element, bits: u64) -> Result<Single, String> {
    Ok(match element {
        Element::Float(_) => Single::Float(decode_single(ir_type(element)?, bits as u32)),
        _ => Single::Int(wrap(element, bits as i64)),
    })
}

/// The element type of such an array in memory.
///
/// # Errors
/// Vectors have no elements of this type.
pub(crate) fn ir_type(element: Element) -> Result<ElementType, String> {
    Ok(match element {
        Element::Int(1) => ElementType::Pred,
        Element::Int(2) => ElementType::S2,
        Element::Int(4) => ElementType::S4,
        Element::Int(8) => ElementType::S8,
        Element::Int(16) => ElementType::S16,
        Element::Int(32) | Element::Index => ElementType::S32,
        Element::Float(kind) => match kind {
            FloatKind::F32 => ElementType::F32,
            FloatKind::BF16 => ElementType::BF16,
            FloatKind::F16 => ElementType::F16,
            FloatKind::F8E5M2 => ElementType::F8E5M2,
            FloatKind::F8E4M3FN => ElementType::F8E4M3FN,
            FloatKind::F8E4M3B11FNUZ => ElementType::F8E4M3B11FNUZ,
            FloatKind::F8E4M3 => ElementType::F8E4M3,
            FloatKind::F8E3M4 => ElementType::F8E3M4,
            _ => return Err(format!("elements of type {element} are not simulated")),
        },
        Element::Int(_) => return Err(format!("elements of type {element} are not simulated")),
    })
}

/// An integer wrapped to its type's width, sign-extended.
pub(crate) fn wrap(element: Element, value: i64) -> i32 {
    match element {
        Element::Int(1) => (value & 1) as i32,
        Element::Int(bits @ 2..32) => {
            let shift = 64 - u32::from(bits);
            ((value << shift) >> shift) as i32
        }
        _ => value as i32,
    }
}

/// An integer of its type's width, zero-extended.
pub(crate) fn unsigned(element: Element, value: i32) -> u32 {
    match element {
        Element::Int(bits @ 1..32) => value as u32 & ((1 << bits) - 1),
        _ => value as u32,
    }
}

/// A floating-point number rounded to its type.
pub(crate) fn round(element: Element, value: f32) -> f32 {
    match element {
        Element::Float(FloatKind::F32) => value,
        Element::Float(FloatKind::BF16) => {
            f32::from_bits(u32::from(super::super::matrix::to_bf16(value)) << 16)
        }
        other => match ir_type(other) {
            Ok(ty) => decode_single(ty, encode_single(ty, value)),
            Err(_) => value,
        },
    }
}

/// Floating-point numbers rounded to their type.
pub(crate) fn rounded(element: Element, mut values: Vec<f32>) -> Vec<f32> {
    if element != Element::F32 {
        values
            .iter_mut()
            .for_each(|value| *value = round(element, *value));
    }
    values
}

/// Decodes consecutive numbers from an array's bytes.
pub(crate) fn from_bytes(element: Element, bytes: &[u8]) -> Result<Lanes, String> {
    let ty = ir_type(element)?;
    Ok(match (element, ty.byte_width_or_one()) {
        (Element::Float(FloatKind::F32), _) => {
            let words = bytes.chunks_exact(4);
            Lanes::Float(
                words
                    .map(|w| f32::from_ne_bytes([w[0], w[1], w[2], w[3]]))
                    .collect(),
            )
        }
        (Element::Float(FloatKind::BF16), _) => {
            let words = bytes.chunks_exact(2);
            let wide = |w: &[u8]| f32::from_bits(u32::from(u16::from_ne_bytes([w[0], w[1]])) << 16);
            Lanes::Float(words.map(wide).collect())
        }
        (Element::Float(_), 2) => {
            let words = bytes.chunks_exact(2);
            let wide = |w: &[u8]| decode_single(ty, u32::from(u16::from_ne_bytes([w[0], w[1]])));
            Lanes::Float(words.map(wide).collect())
        }
        (Element::Float(_), _) => Lanes::Float(
            bytes
                .iter()
                .map(|b| decode_single(ty, u32::from(*b)))
                .collect(),
        ),
        (_, 4) => {
            let words = bytes.chunks_exact(4);
            Lanes::Int(
                words
                    .map(|w| i32::from_ne_bytes([w[0], w[1], w[2], w[3]]))
                    .collect(),
            )
        }
        (_, 2) => {
            let words = bytes.chunks_exact(2);
            Lanes::Int(
                words
                    .map(|w| i32::from(i16::from_ne_bytes([w[0], w[1]])))
                    .collect(),
            )
        }
        (element, _) => {
            let wide = |b: &u8| wrap(element, i64::from(*b as i8));
            Lanes::Int(bytes.iter().map(wide).collect())
        }
    })
}

/// Encodes numbers as an array's bytes.
pub(crate) fn to_bytes(element: Element, lanes: &Lanes) -> Result<Vec<u8>, String> {
    let ty = ir_type(element)?;
    let mut out = Vec::with_capacity(lanes.len() * ty.byte_width_or_one());
    match (lanes, ty.byte_width_or_one()) {
        (Lanes::Float(values), 4) => values.iter().for_each(|v| out.extend(v.to_ne_bytes())),
        (Lanes::Float(values), 2) => {
            let narrow = |v: &f32| encode_single(ty, *v) as u16;
            values
                .iter()
                .for_each(|v| out.extend(narrow(v).to_ne_bytes()));
        }
        (Lanes::Float(values), _) => {
            out.extend(values.iter().map(|v| encode_single(ty, *v) as u8));
        }
        (Lanes::Int(values), 4) => values.iter().for_each(|v| out.extend(v.to_ne_bytes())),
        (Lanes::Int(values), 2) => {
            values
                .iter()
                .for_each(|v| out.extend((*v as i16).to_ne_bytes()));
        }
        (Lanes::Int(values), _) => out.extend(values.iter().map(|v| *v as u8)),
    }
    Ok(out)
}

/// The bytes of an element in a dense array.
trait ByteWidth {
    fn byte_width_or_one(self) -> usize;
}

impl ByteWidth for ElementType {
    fn byte_width_or_one(self) -> usize {
        (self.bits() as usize / 8).max(1)
    }
}
