//! The cost of orders, in seconds: padding and traffic of an array, preferences that are not met,
//! and copies or in-kernel transpositions between arrays that disagree.

use super::machine::{Machine, Order};
use super::orders::agree;
use super::problem::{Link, Relation, Space};
use crate::physical::Placement;
use rustc_hash::FxHashMap;
use tegula_ir::{ArrayShape, ElementType};

/// For an operand that the matrix unit holds: if it is transposed, it can be loaded that way, at
/// the cost of this fraction of its bytes in addition. The operand that streams through has to be
/// transposed first.
const TURN_HELD: f64 = 0.1;
/// For an operand that streams through the matrix unit: the fraction of its transposition that is
/// not hidden. libtpu's compiler transposes attention's projections in the kernel rather than
/// copying them, but not the one that computes queries, keys and values together. Values from 0.55
/// to 0.6 reproduce most of both.
const TURN_RUNNING: f64 = 0.6;
/// The latency of a transposition inside a kernel, as a multiple of a kernel's overhead. It is
/// greater than that of a copy, which the preceding kernel hides.
const TURN_WAIT: f64 = 1.25;
/// The time that bytes take through registers, as a fraction of the time from memory.
const REGISTER_SHARE: f64 = 0.05;
/// Among orders of equal cost, the default is preferred by this fraction of the bytes.
const PREFER_DEFAULT: f64 = 1e-3;

/// The parts of the cost of one order, in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Parts {
    /// Memory traffic, including padding.
    pub traffic: f64,
    /// Preferences that are not met.
    pub wishes: f64,
}

/// The cost of an order for a space.
pub(crate) fn of_space(machine: &Machine, space: &Space, number: usize) -> Parts {
    let Some(order) = space.orders.get(number) else {
        return Parts::default();
    };
    let seconds = |bits: u32| machine.bytes(bits, &space.dims, order) / machine.bandwidth;
    let traffic = space.traffic.iter();
    let traffic: f64 = traffic.map(|&(bits, times)| times * seconds(bits)).sum();
    let registers = machine.register_bytes(&space.dims, order) / machine.bandwidth;
    let registers = REGISTER_SHARE * space.registers * registers;
    let wishes = space.wishes.iter();
    let denied =
        wishes.map(|(wish, bits, times)| times * wish.seconds(machine, order, seconds(*bits)));
    let other = if number == 0 {
        0.0
    } else {
        PREFER_DEFAULT * seconds(space.bits)
    };
    Parts {
        traffic: traffic + registers + other,
        // An empty sum is minus zero; adding zero makes it positive.
        wishes: denied.sum::<f64>() + 0.0,
    }
}

/// The time of a kernel that copies an array from one order to another, in seconds.
pub(crate) fn copy(
    machine: &Machine,
    bits: u32,
    (from_dims, from): (&[i64], &Order),
    (to_dims, to): (&[i64], &Order),
) -> f64 {
    let bytes = machine.bytes(bits, from_dims, from) + machine.bytes(bits, to_dims, to);
    machine.kernel + bytes * machine.stride_penalty(bits) / machine.bandwidth
}

/// The time of transposing the smaller of two arrays inside a kernel, from the order of the one to
/// that of the other. It needs no kernel of its own, but its latency is exposed.
fn turn(
    machine: &Machine,
    bits: u32,
    (from_dims, from): (&[i64], &Order),
    (to_dims, to): (&[i64], &Order),
) -> f64 {
    let ours = machine.bytes(bits, from_dims, from);
    let theirs = machine.bytes(bits, to_dims, to);
    let bytes = 2.0 * ours.min(theirs) * machine.stride_penalty(bits);
    TURN_WAIT * machine.kernel + bytes / machine.bandwidth
}

/// The cost of every pair of orders of two linked spaces, with a row for each order of the first.
pub(crate) fn of_link(machine: &Machine, link: &Link, from: &Space, to: &Space) -> Vec<f64> {
    let mut costs = once(machine, link, from, to);
    costs.iter_mut().for_each(|cost| *cost *= link.times);
    costs
}

/// Like [`of_link`], for a link that is executed once.
fn once(machine: &Machine, link: &Link, from: &Space, to: &Space) -> Vec<f64> {
    let mut costs = Vec::with_capacity(from.orders.len() * to.orders.len());
    let placements = |space: &Space, bits: u32| -> Vec<Option<Placement>> {
        let place = |order: &Order| place(machine, bits, &space.dims, order);
        space.orders.iter().map(place).collect()
    };
    match &link.relation {
        Relation::Same(bits) | Relation::Reshape(bits) => {
            let (ours, theirs) = (placements(from, *bits), placements(to, *bits));
            let is_same = matches!(link.relation, Relation::Same(_));
            for (i, own) in from.orders.iter().enumerate() {
                for (j, other) in to.orders.iter().enumerate() {
                    let equal = is_same && own == other;
                    let free = equal || (ours[i].is_some() && ours[i] == theirs[j]);
                    costs.push(if free {
                        0.0
                    } else {
                        copy(machine, *bits, (&from.dims, own), (&to.dims, other))
                    });
                }
            }
        }
        Relation::Transpose(permutation, bits) => {
            for own in &from.orders {
                for other in &to.orders {
                    let free = is_transposed(from, own, other, permutation)
                        && machine.bytes(*bits, &from.dims, own)
                            == machine.bytes(*bits, &to.dims, other);
                    costs.push(if free {
                        0.0
                    } else {
                        copy(machine, *bits, (&from.dims, own), (&to.dims, other))
                    });
                }
            }
        }
        Relation::Shared(pairs, bits) => {
            for own in &from.orders {
                for other in &to.orders {
                    let turned = if agree(own, other, pairs) {
                        0.0
                    } else {
                        turn(machine, *bits, (&from.dims, own), (&to.dims, other))
                    };
                    costs.push(turned);
                }
            }
        }
        Relation::Product {
            contracted,
            in_result,
            bits,
        } => {
            for own in &from.orders {
                let bytes = machine.bytes(*bits, &from.dims, own);
                let across = own.first().is_some_and(|minor| contracted.contains(minor));
                for other in &to.orders {
                    // The operand whose dimension becomes the lanes is the one that the unit holds.
                    let held = other.first().is_some_and(|minor| in_result.contains(minor));
                    costs.push(match (machine.has_lanes(), held, across) {
                        (true, false, false) => {
                            TURN_RUNNING
                                * turn(machine, *bits, (&from.dims, own), (&from.dims, own))
                        }
                        (true, true, true) => TURN_HELD * bytes / machine.bandwidth,
                        _ => 0.0,
                    });
                }
            }
        }
    }
    costs
}

/// Whether a transposition's result in one order has the same bytes as its operand in the other,
/// ignoring dimensions of size 1.
fn is_transposed(space: &Space, own: &[u32], other: &[u32], permutation: &[u32]) -> bool {
    let large = |dim: &u32| space.dims.get(*dim as usize).is_some_and(|&size| size != 1);
    let theirs = other
        .iter()
        .filter_map(|&dim| permutation.get(dim as usize).copied());
    own.iter().copied().filter(large).eq(theirs.filter(large))
}

fn place(machine: &Machine, bits: u32, dims: &[i64], order: &Order) -> Option<Placement> {
    // Only the width of the element type matters.
    let element_type = match bits {
        4 => ElementType::S4,
        8 => ElementType::S8,
        16 => ElementType::S16,
        32 => ElementType::S32,
        64 => ElementType::S64,
        _ => ElementType::C128,
    };
    let mut shape = ArrayShape::new(element_type, dims);
    shape.layout = Some(Box::new(machine.layout(bits, dims, order)));
    Placement::new(&shape)
}

/// A cache of link costs. Equal pairs of spaces are common, because the layers of a network repeat.
#[derive(Default)]
pub(crate) struct Cache {
    links: FxHashMap<String, std::rc::Rc<Vec<f64>>>,
}

impl Cache {
    /// The result of [`of_link`] for a link that is executed once.
    pub(crate) fn once(
        &mut self,
        machine: &Machine,
        link: &Link,
        from: &Space,
        to: &Space,
    ) -> std::rc::Rc<Vec<f64>> {
        use std::fmt::Write;
        let mut key = String::with_capacity(256);
        let _ = write!(key, "{:?}{:?}{:?}", link.relation, from.dims, to.dims);
        for order in from.orders.iter().chain(&to.orders) {
            for dim in order {
                key.push(char::from_u32(48 + dim).unwrap_or('?'));
            }
            key.push(' ');
        }
        let _ = write!(key, "{}", from.orders.len());
        let entry = self.links.entry(key);
        std::rc::Rc::clone(entry.or_insert_with(|| std::rc::Rc::new(once(machine, link, from, to))))
    }
}
