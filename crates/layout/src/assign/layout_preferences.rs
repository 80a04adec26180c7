//! The preferences of operations for the order of an array, and the cost of not meeting them.
//!
//! Costs are in seconds: bytes divided by bandwidth, times the factor by which more bytes than
//! necessary are moved. On a machine with tiles, the two most minor dimensions are the rows and
//! lanes of registers, and a unit that works on lanes and rows prefers certain dimensions there. On
//! a machine without tiles, only the order of memory accesses matters.

use super::machine::{Machine, Order};
use super::orders::with_minor;
use smallvec::SmallVec;

/// The cost of an order that a unit cannot write or a routine cannot read.
const IMPOSSIBLE: f64 = 1e6;
/// A pass of a sort along lanes, relative to one along rows. Padding to twice as many lanes costs
/// more than this saves, and a copy costs less (as libtpu's compiler decides for 64 and for 128
/// rows).
const ACROSS_LANES: f64 = 1.5;
/// The same for fewer elements than there are lanes, so that swaps leave lanes empty. libtpu's
/// compiler moves these to rows however much padding that costs (100 elements next to 10 to 40: up
/// to 13 times), and leaves 128 and more where they are.
const ACROSS_FEW_LANES: f64 = 16.0;
/// The number of lanes of a register.
pub(crate) const LANES: i64 = 128;
/// The number of rows of a register of 32-bit elements.
pub(crate) const ROWS: i64 = 8;
/// A slice whose contiguous dimension is not in lanes touches a tile of 8 x 128 words for each of
/// its elements; eight elements share one.
const SCATTERED: f64 = 16.0;

/// The extra time of a CPU convolution that writes its features apart, relative to one that writes
/// them contiguously. Measured with 64 and 128 features and images of 14 to 28 elements; the order
/// of the input and of the kernel does not matter.
const FEATURES_APART: f64 = 0.13;
/// With fewer features, they are no more than one vector, and both orders are equally fast.
pub(crate) const MANY_FEATURES: i64 = 32;
/// The extra time of a CPU convolution with groups if its arrays do not all have one of the orders
/// that it has loops for, relative to one without groups. Measured with depthwise windows of 3 x 3
/// and 5 x 5 and images of 10 to 40 elements.
const GROUPS_APART: f64 = 150.0;

/// Dimension numbers.
pub(crate) type Dims = SmallVec<[u32; 4]>;

/// A preference of an operation for the order of an array.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wish {
    /// These dimensions are reduced. A reduction across lanes takes a few more steps.
    Reduced(Dims),
    /// An operand of a product: rows and lanes should be a contracted dimension and a free one.
    Operand { contracted: Dims, free: Dims },
    /// The result of a product: rows should be of one operand and lanes of the other.
    Result { lhs: Dims, rhs: Dims },
    /// An array of a convolution: rows and lanes should be these two dimensions. A result is
    /// written like this by the matrix unit.
    Channels {
        first: u32,
        second: u32,
        result: bool,
    },
    /// The result of a convolution of few images that is computed in pieces, which can be put
    /// together in this order only.
    Folded(Order),
    /// The result of a convolution with many features and this number of operations: the features
    /// should be contiguous.
    Written { features: u32, operations: f64 },
    /// An array of a convolution with groups and this number of operations: it should be in the
    /// order of its dimensions.
    Grouped { operations: f64 },
    /// The array is sorted along this dimension, in this many passes: the dimension should not be
    /// in lanes, particularly if it is short.
    Along {
        dim: u32,
        passes: u32,
        is_short: bool,
    },
    /// Windows run over these dimensions, which should not be in lanes.
    Windows(Dims),
    /// Slices in these dimensions are taken at data-dependent indices: the slices should be
    /// contiguous.
    Slices(Dims),
    /// Slices are taken or written at data-dependent positions along these dimensions, which should
    /// not be inside a tile.
    Moving(Dims),
    /// Slices in at least two other dimensions are taken at many positions along these.
    Outside(Dims),
    /// Arrays are concatenated along this dimension, which should not be inside a tile.
    Joined(u32),
    /// The array is read as a whole in the order of its dimensions.
    InOrder,
}

impl Wish {
    /// The cost of an order, in seconds, for an array that takes `moved` seconds to be moved.
    pub(crate) fn seconds(&self, machine: &Machine, order: &[u32], moved: f64) -> f64 {
        let takes = |operations: f64| machine.operations().map_or(0.0, |each| operations / each);
        match self {
            Self::Written {
                features,
                operations,
            } => {
                let apart = order.first().is_some_and(|minor| minor != features);
                if apart {
                    FEATURES_APART * takes(*operations)
                } else {
                    0.0
                }
            }
            Self::Grouped { operations } if !is_row_major(order) => {
                GROUPS_APART * takes(*operations) + Self::InOrder.seconds(machine, order, moved)
            }
            _ => self.share(machine, order) * moved,
        }
    }

    /// The bytes that an order moves unnecessarily, as a multiple of the array's.
    fn share(&self, machine: &Machine, order: &[u32]) -> f64 {
        let (Some(&minor), second) = (order.first(), order.get(1).copied()) else {
            return 0.0;
        };
        let row_major = is_row_major(order);
        if !machine.has_lanes() {
            return match self {
                // The array is read with a stride and written again, or the other way round.
                Self::InOrder if !row_major => 2.0 * machine.stride_penalty(32),
                Self::Slices(dims) if !dims.is_empty() && !dims.contains(&minor) => 2.0,
                Self::Along { dim, .. } if minor != *dim => 1.0,
                _ => 0.0,
            };
        }
        match self {
            Self::Reduced(dims) if dims.contains(&minor) => 0.05,
            Self::Operand { contracted, free } if !contracted.is_empty() && !free.is_empty() => {
                let proper = |a: &Dims, b: &Dims| {
                    a.contains(&minor) && second.is_some_and(|second| b.contains(&second))
                };
                if proper(contracted, free) || proper(free, contracted) {
                    0.0
                } else {
                    1.0
                }
            }
            Self::Result { lhs, rhs } if !lhs.is_empty() && !rhs.is_empty() => {
                let proper = |a: &Dims, b: &Dims| {
                    a.contains(&minor) && second.is_some_and(|second| b.contains(&second))
                };
                if proper(lhs, rhs) || proper(rhs, lhs) {
                    0.0
                } else {
                    IMPOSSIBLE
                }
            }
            Self::Channels {
                first,
                second: other,
                result,
            } => {
                let here = (minor, second.unwrap_or(minor));
                if here == (*first, *other) || here == (*other, *first) {
                    0.0
                } else if *result {
                    IMPOSSIBLE
                } else if minor == *first {
                    0.25
                } else {
                    2.0
                }
            }
            Self::Along {
                dim,
                passes,
                is_short,
            } => {
                let across = match (minor == *dim, is_short) {
                    (true, true) => ACROSS_FEW_LANES,
                    (true, false) => ACROSS_LANES,
                    _ => 1.0,
                };
                f64::from(*passes) * across
            }
            Self::Windows(dims) if dims.contains(&minor) => 1.0,
            Self::Windows(dims) if second.is_some_and(|s| dims.contains(&s)) => 0.25,
            Self::Slices(dims) if !dims.is_empty() && !dims.contains(&minor) => SCATTERED,
            Self::Outside(dims) if order.iter().take(2).any(|dim| dims.contains(dim)) => IMPOSSIBLE,
            Self::Moving(dims) if dims.contains(&minor) => 4.0,
            Self::Moving(dims) if second.is_some_and(|s| dims.contains(&s)) => 1.0,
            Self::Moving(dims) if !are_major(order, dims) => 0.05,
            Self::Joined(dim) if minor == *dim => 0.5,
            Self::Joined(dim) if second == Some(*dim) => 0.1,
            Self::InOrder if !row_major => IMPOSSIBLE,
            Self::Folded(pieces) if order != pieces.as_slice() => IMPOSSIBLE,
            _ => 0.0,
        }
    }

    /// Orders that a unit writes although they need more padding than the other candidates.
    pub(crate) fn written(&self, machine: &Machine, tried: &[Order], rank: u32) -> Vec<Order> {
        let both =
            |&one: &u32, &two: &u32| vec![with_minor(one, two, rank), with_minor(two, one, rank)];
        match self {
            Self::Channels { first, second, .. } if first != second => both(first, second),
            Self::Folded(order) => vec![order.clone()],
            Self::Result { lhs, rhs } if machine.has_lanes() => {
                let is_there = tried.iter().any(|order| self.share(machine, order) == 0.0);
                let pair = lhs.last().zip(rhs.last()).filter(|_| !is_there);
                pair.map_or_else(Vec::new, |(row, lane)| both(lane, row))
            }
            _ => Vec::new(),
        }
    }

    /// The preference in words.
    pub(crate) fn reason(&self) -> String {
        let list = |dims: &Dims| {
            let numbers: Vec<String> = dims.iter().map(ToString::to_string).collect();
            numbers.join(",")
        };
        match self {
            Self::Reduced(dims) => {
                format!(
                    "dimensions {} are reduced: better not across lanes",
                    list(dims)
                )
            }
            Self::Operand { contracted, free } => format!(
                "operand of a product: rows and lanes are one of the contracted {} and one of {}",
                list(contracted),
                list(free)
            ),
            Self::Result { lhs, rhs } => format!(
                "result of a product: rows and lanes are one of the left's {} and one of the \
                 right's {}",
                list(lhs),
                list(rhs)
            ),
            Self::Channels { first, second, .. } => {
                format!("of a convolution: rows and lanes are dimensions {first} and {second}")
            }
            Self::Folded(order) => {
                format!(
                    "a convolution of few images writes it in pieces, in the order {}",
                    list(&order.iter().copied().collect())
                )
            }
            Self::Written { features, .. } => {
                format!("a convolution writes it: features of dimension {features} together")
            }
            Self::Along { dim, passes, .. } => {
                format!("{passes} passes along dimension {dim}: not across lanes")
            }
            Self::Windows(dims) => format!("windows over {}: not across lanes", list(dims)),
            Self::Slices(dims) => {
                format!(
                    "slices of {} at data-dependent indices: contiguous",
                    list(dims)
                )
            }
            Self::Outside(dims) => format!(
                "slices start at many positions along {}: outside registers",
                list(dims)
            ),
            Self::Moving(dims) => format!(
                "slices start at data-dependent positions along dimensions {}: not inside a tile",
                list(dims)
            ),
            Self::Joined(dim) => format!("concatenated along dimension {dim}: not inside a tile"),
            Self::Grouped { .. } => {
                "operand of a grouped convolution: in the order of its dimensions".to_owned()
            }
            Self::InOrder => "read completely in the order of its dimensions".to_owned(),
        }
    }
}

fn is_row_major(order: &[u32]) -> bool {
    order.iter().rev().copied().eq(0..order.len() as u32)
}

/// Whether these dimensions are the most major ones.
fn are_major(order: &[u32], dims: &[u32]) -> bool {
    let from_major = order.iter().rev();
    from_major.take(dims.len()).all(|dim| dims.contains(dim))
}
