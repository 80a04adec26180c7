//! Uses of maps: how much of an operand is read, how well a warp's loads coalesce, and whether an
//! offset is aligned.

mod alignment;
mod coalescing;
mod utilization;

pub(crate) use alignment::is_zero;
pub use alignment::{Answer, Proof, contiguous_elements, is_multiple_of, stride_along};
pub use coalescing::{Coalescing, Warp, coalescing, row_major_address};
pub use utilization::{Utilization, utilization};
