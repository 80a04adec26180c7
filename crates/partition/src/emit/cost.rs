//! What exchanges and computations cost, in bytes that one device receives over one link.
//!
//! The rates are those of a TPU v5e, a machine with little bandwidth between chips for its arithmetic
//! (Google's published figures: 197 TFLOP/s in bf16, 819 GB/s of memory, 50 GB/s a link and
//! direction): a link moves one byte while memory moves 16 and the units do 4000 operations.

/// Bytes of memory that are moved while a link moves one.
pub(super) const MEMORY_PER_LINK: i64 = 16;
/// Operations that are done while a link moves one byte.
pub(super) const OPERATIONS_PER_LINK: i64 = 4000;
/// What an exchange costs beside its bytes; it decides where the bytes are equal.
pub(super) const LATENCY: i64 = 64;

/// Bytes that each of `members` receives in an all-gather to arrays of `bytes`.
pub(super) fn all_gather(bytes: i64, members: i64) -> i64 {
    share(bytes, members - 1, members)
}

/// Bytes in an all-reduce of arrays of `bytes`: a reduce-scatter and an all-gather.
pub(super) fn all_reduce(bytes: i64, members: i64) -> i64 {
    share(bytes, 2 * (members - 1), members)
}

/// Bytes in a reduce-scatter or all-to-all of arrays of `bytes`.
pub(super) fn scatter(bytes: i64, members: i64) -> i64 {
    share(bytes, members - 1, members)
}

fn share(bytes: i64, part: i64, of: i64) -> i64 {
    let share = i128::from(bytes) * i128::from(part) / i128::from(of.max(1));
    i64::try_from(share).unwrap_or(i64::MAX)
}
