//! Comparisons in the partial order of each type and in IEEE's total order.

use super::number::Number;
use std::cmp::Ordering;
use tegula_ir::{Direction, Order};

/// Whether `a direction b` holds.
///
/// `None` for an ordering of complex numbers, and if the operands are of different kinds. In the
/// partial order NaN is unequal to everything.
pub fn compare(direction: Direction, order: Order, a: Number, b: Number) -> Option<bool> {
    let ordering = match (a, b) {
        (Number::Pred(a), Number::Pred(b)) => Some(a.cmp(&b)),
        (Number::Signed(a), Number::Signed(b)) => Some(a.cmp(&b)),
        (Number::Unsigned(a), Number::Unsigned(b)) => Some(a.cmp(&b)),
        (Number::Single(a), Number::Single(b)) if order == Order::Total => Some(a.total_cmp(&b)),
        (Number::Double(a), Number::Double(b)) if order == Order::Total => Some(a.total_cmp(&b)),
        (Number::Single(a), Number::Single(b)) => a.partial_cmp(&b),
        (Number::Double(a), Number::Double(b)) => a.partial_cmp(&b),
        (Number::ComplexSingle(a), Number::ComplexSingle(b)) => {
            return equality(direction, a == b);
        }
        (Number::ComplexDouble(a), Number::ComplexDouble(b)) => {
            return equality(direction, a == b);
        }
        _ => return None,
    };
    Some(holds(direction, ordering))
}

/// Whether an ordering satisfies a direction; `None` is the ordering of incomparable values.
#[inline(always)]
pub fn holds(direction: Direction, ordering: Option<Ordering>) -> bool {
    match direction {
        Direction::Eq => ordering == Some(Ordering::Equal),
        Direction::Ne => ordering != Some(Ordering::Equal),
        Direction::Ge => matches!(ordering, Some(Ordering::Greater | Ordering::Equal)),
        Direction::Gt => ordering == Some(Ordering::Greater),
        Direction::Le => matches!(ordering, Some(Ordering::Less | Ordering::Equal)),
        Direction::Lt => ordering == Some(Ordering::Less),
    }
}

fn equality(direction: Direction, equal: bool) -> Option<bool> {
    match direction {
        Direction::Eq => Some(equal),
        Direction::Ne => Some(!equal),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(direction: Direction, order: Order, a: f32, b: f32) -> bool {
        let narrow = compare(direction, order, Number::Single(a), Number::Single(b));
        let wide = compare(
            direction,
            order,
            Number::Double(a.into()),
            Number::Double(b.into()),
        );
        assert_eq!(narrow, wide);
        narrow.unwrap()
    }

    #[test]
    fn nan_is_unordered_unless_the_order_is_total() {
        let nan = f32::NAN;
        for direction in [
            Direction::Eq,
            Direction::Ge,
            Direction::Gt,
            Direction::Le,
            Direction::Lt,
        ] {
            assert!(!floats(direction, Order::Partial, nan, nan));
            assert!(!floats(direction, Order::Partial, nan, 1.0));
        }
        assert!(floats(Direction::Ne, Order::Partial, nan, nan));
        assert!(floats(Direction::Eq, Order::Total, nan, nan));
        assert!(floats(Direction::Gt, Order::Total, nan, f32::INFINITY));
        assert!(floats(Direction::Lt, Order::Total, -nan, f32::NEG_INFINITY));
        assert!(floats(Direction::Lt, Order::Total, -0.0, 0.0));
        assert!(floats(Direction::Eq, Order::Partial, -0.0, 0.0));
    }
}
