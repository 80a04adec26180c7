//! The arithmetic of the scalar unit.

use super::vector::elementwise::{self, float_holds, int_holds, integer};
use super::vector::value::{self, Lanes, Single, Vector};
use crate::program::ScalarOperation;
use tegula_mosaic::types::Element;

/// The result of an operation on values as variables hold them.
///
/// # Errors
/// The operation is not simulated.
pub(crate) fn evaluate(operation: &ScalarOperation, operands: &[i64]) -> Result<i64, String> {
    let vector = |value: i64, element: Element| match element {
        Element::Float(_) => Vector::floats(vec![f32::from_bits(value as u32)]),
        _ => Vector::ints(vec![value as i32]),
    };
    let held = |vector: &Vector| match &*vector.lanes {
        Lanes::Float(values) => i64::from(values[0].to_bits()),
        Lanes::Int(values) => i64::from(values[0]),
    };
    Ok(match (operation, operands) {
        (ScalarOperation::Unary(op, element), [x]) => {
            held(&elementwise::unary(*op, *element, &vector(*x, *element))?)
        }
        (ScalarOperation::Binary(op, element), [x, y]) if !element.is_float() => {
            let made = integer(*op, *element, *x, *y)
                .ok_or_else(|| format!("{op:?} of integers is not simulated"))?;
            wrap(*element, made)
        }
        (ScalarOperation::Binary(op, element), [x, y]) => {
            let (x, y) = (vector(*x, *element), vector(*y, *element));
            held(&elementwise::binary(*op, *element, &x, &y)?)
        }
        (ScalarOperation::CompareInt(p, element), [x, y]) => {
            i64::from(int_holds(*p, *element, *x, *y))
        }
        (ScalarOperation::CompareFloat(p), [x, y]) => i64::from(float_holds(
            *p,
            f32::from_bits(*x as u32),
            f32::from_bits(*y as u32),
        )),
        (ScalarOperation::Select, [c, x, y]) => {
            if *c != 0 {
                *x
            } else {
                *y
            }
        }
        (ScalarOperation::Cast(cast, from, to), [x]) if to.bits() > 32 || from.bits() > 32 => {
            // Integers of 64 bits are kept whole.
            use tegula_mosaic::ir::Cast;
            match cast {
                Cast::Signed => {
                    if *from == Element::BOOL {
                        -*x
                    } else {
                        *x
                    }
                }
                Cast::Unsigned => i64::from(value::unsigned(*from, *x as i32)),
                Cast::Truncate => wrap(*to, *x),
                _ => return Err(format!("{cast:?} from {from} to {to}")),
            }
        }
        (ScalarOperation::Cast(cast, from, to), [x]) => {
            held(&elementwise::cast(*cast, *from, *to, &vector(*x, *from))?)
        }
        _ => return Err(format!("{operation:?} is not simulated")),
    })
}

/// An integer wrapped to its type's width, sign-extended.
fn wrap(element: Element, value: i64) -> i64 {
    match element.bits() {
        64.. => value,
        _ => i64::from(value::wrap(element, value)),
    }
}

/// A constant as a variable holds it.
pub(crate) fn constant(element: Element, bits: u64) -> Result<i64, String> {
    if element == Element::Int(64) {
        return Ok(bits as i64);
    }
    Ok(match value::single(element, bits)? {
        Single::Float(value) => i64::from(value.to_bits()),
        Single::Int(value) => i64::from(value),
    })
}
