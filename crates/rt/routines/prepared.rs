/// The bytes of memory that a prepared product takes, before its tables: a multiple of 64.
pub const PREPARED_BYTES: usize = 3072;
