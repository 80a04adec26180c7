//! Shardings as front ends ask for them: `xla.OpSharding`, a protocol buffer.

use tegula::partition::{Cut, Sharding, Unreduced};

/// `xla.OpSharding`: 1 the type (0 replicated, 3 tiled), 3 the tiles by dimension, 4 the devices of
/// the tiles, 6 whether a last dimension of tiles is of copies, 8 what last dimensions are (0 copies,
/// 6 partial results).
pub(crate) fn to_proto(sharding: &Sharding, unreduced: Option<&Unreduced>) -> Vec<u8> {
    if let Some(unreduced) = unreduced {
        return partial_results(sharding, unreduced.groups());
    }
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
    packed(&mut bytes, 3, &dims);
    packed(&mut bytes, 4, &devices);
    if copies > 1 {
        bytes.extend([6 << 3, 1]);
    }
    bytes
}

/// As [`to_proto`], where the devices of each group have partial results.
fn partial_results(sharding: &Sharding, groups: &[Vec<i64>]) -> Vec<u8> {
    let number = |device: usize| {
        let member = device as i64;
        let mut places = groups
            .iter()
            .map(|group| group.iter().position(|own| *own == member));
        places.find_map(|place| place).unwrap_or(0)
    };
    let key = |device: usize| -> (Vec<i64>, i64) {
        let cuts = sharding.cuts().iter().flatten();
        let member = device as i64;
        let group = groups.iter().find(|group| group.contains(&member));
        let first = group
            .and_then(|group| group.first())
            .copied()
            .unwrap_or(member);
        (cuts.map(|cut| cut.place(device)).collect(), first)
    };
    let mut devices: Vec<usize> = (0..sharding.devices()).collect();
    devices.sort_by_key(|&device| (key(device), number(device)));
    let members = groups.first().map_or(1, Vec::len) as i64;
    let copies = sharding.devices() as i64 / (sharding.tiles() * members).max(1);
    let parts = sharding.cuts().iter();
    let mut dims: Vec<i64> = parts
        .map(|cut| cut.as_ref().map_or(1, Cut::parts))
        .collect();
    let mut kinds = vec![6];
    if copies > 1 {
        dims.push(copies);
        kinds.insert(0, 0);
    }
    dims.push(members);
    let devices: Vec<i64> = devices.into_iter().map(|device| device as i64).collect();
    let mut bytes = vec![8, 3];
    for (field, numbers) in [(3, &dims), (4, &devices), (8, &kinds)] {
        packed(&mut bytes, field, numbers);
    }
    bytes
}

/// Writes a list of numbers as a field.
fn packed(bytes: &mut Vec<u8>, field: u8, numbers: &[i64]) {
    let mut packed = Vec::new();
    for &number in numbers {
        put(&mut packed, number as u64);
    }
    bytes.push(field << 3 | 2);
    put(bytes, packed.len() as u64);
    bytes.extend(packed);
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
        assert_eq!(to_proto(&sharding, None), expected);
        assert_eq!(to_proto(&Sharding::replicated(2, 4), None), [8, 0]);
    }
}
