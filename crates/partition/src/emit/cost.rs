//! The cost of communication and computation, in bytes that one device receives over one link.
//!
//! The rates are those of a TPU v5e, which has little bandwidth between chips in relation to its
//! arithmetic (Google's published figures: 197 TFLOP/s in bf16, 819 GB/s of memory, 50 GB/s per
//! link and direction): while a link transfers one byte, memory transfers 16, and the units execute
//! 4000 operations.

/// The bytes that memory transfers while a link transfers one.
pub(super) const MEMORY_PER_LINK: i64 = 16;
/// The operations that are executed while a link transfers one byte.
pub(super) const OPERATIONS_PER_LINK: i64 = 4000;
/// The fixed cost of an exchange, in bytes; it decides between plans with the same number of bytes.
pub(super) const LATENCY: i64 = 64;

/// The bytes that each of `members` devices receives in an all-gather whose results have `bytes`.
pub(super) fn all_gather(bytes: i64, members: i64) -> i64 {
    share(bytes, members - 1, members)
}

/// The bytes that each device receives in an all-reduce of arrays of `bytes`, which is a
/// reduce-scatter and an all-gather.
pub(super) fn all_reduce(bytes: i64, members: i64) -> i64 {
    share(bytes, 2 * (members - 1), members)
}

/// The bytes that each device receives in a reduce-scatter or all-to-all of arrays of `bytes`.
pub(super) fn scatter(bytes: i64, members: i64) -> i64 {
    share(bytes, members - 1, members)
}

fn share(bytes: i64, part: i64, of: i64) -> i64 {
    let share = i128::from(bytes) * i128::from(part) / i128::from(of.max(1));
    i64::try_from(share).unwrap_or(i64::MAX)
}
