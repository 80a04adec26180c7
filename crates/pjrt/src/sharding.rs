//! Shardings as front ends ask for them: `xla.OpSharding`, a protocol buffer.

use tegula::partition::{Cut, Sharding};

/// `xla.OpSharding`: 1 the type (0 replicated, 3 tiled), 3 the tiles by dimension, 4 the devices of
/// the tiles, 6 whether a last dimension of tiles is of copies.
pub(crate) fn to_proto(sharding: &Sharding) -> Vec<u8> {
    if sharding.is_replicated() {
        return vec![8, 0];
    }
    let place = |device: usize| -> Vec<i64> {
        let cuts = sharding.cuts().iter().flatten();
        cuts.map(|cut| cut.place(device)).collect()
    };
    let copies = sharding.devices() as i64 / sharding.tiles().max(1);
    let mut devices: Vec<usize> = (0..sharding.devices()).collect();
    devices.sort_by_key(|&device| place(device));
    let parts = sharding.cuts().iter();
    let mut dims: Vec<i64> = parts
        .map(|cut| cut.as_ref().map_or(1, Cut::parts))
        .collect();
    if copies > 1 {
        dims.push(copies);
    }
    let devices: Vec<i64> = devices.into_iter().map(|device| device as i64).collect();
    let mut bytes = vec![8, 3];
    for (field, numbers) in [(3_u8, &dims), (4, &devices)] {
        let mut packed = Vec::new();
        numbers
            .iter()
            .for_each(|&number| put(&mut packed, number as u64));
        bytes.push(field << 3 | 2);
        put(&mut bytes, packed.len() as u64);
        bytes.extend(packed);
    }
    if copies > 1 {
        bytes.extend([6 << 3, 1]);
    }
    bytes
}

/// Writes a number as protocol buffers have it.
pub(crate) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_name_their_devices() {
        // Two tiles by one, each on two devices.
        let sharding = Sharding::new(4, [Cut::new(2, vec![0, 1, 0, 1]), None]);
        let expected = [8, 3, 26, 3, 2, 1, 2, 34, 4, 0, 2, 1, 3, 48, 1];
        assert_eq!(to_proto(&sharding), expected);
        assert_eq!(to_proto(&Sharding::replicated(2, 4)), [8, 0]);
    }
}
