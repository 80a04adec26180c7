/// Bytes of memory that a product which is made ready takes, before its tables: a multiple of 64.
pub const PREPARED_BYTES: usize = 3072;
