//! Fingerprints: hashes of bytes that are the same in every process.

/// FNV-1a over all parts and their lengths: <http://www.isthe.com/chongo/tech/comp/fnv/>.
pub(crate) fn of(parts: &[&[u8]]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let mut hash = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        hash = part.len().to_le_bytes().iter().fold(hash, step);
        hash = part.iter().fold(hash, step);
    }
    hash
}
