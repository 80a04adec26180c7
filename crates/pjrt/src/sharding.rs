//! Shardings as front ends read and write them: `xla.OpSharding`, a protocol buffer.
//!
//! Its fields: 1 the type (0 replicated, 2 of a tuple, 3 tiled), 3 the tiles by dimension, 4 the devices
//! of the tiles, 5 the shardings of a tuple, 6 whether a last dimension of tiles is of copies, 8 what
//! last dimensions are (0 copies, 6 partial results). In place of 4 there may be 9 and 10: the devices
//! are numbered in order in an array of the sizes 9, whose dimensions are then permuted by 10.

use crate::error::Error;
use crate::protobuf::{Field, Fields, message, numbers, packed};
use tegula::partition::{Cut, Sharding, Unreduced};

/// The message of one array's sharding.
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

/// The message of the shardings of a result: of an array, or of a tuple.
pub(crate) fn results_to_proto<'a>(
    mut shardings: impl ExactSizeIterator<Item = &'a Sharding>,
) -> Vec<u8> {
    if shardings.len() == 1
        && let Some(sharding) = shardings.next()
    {
        return to_proto(sharding, None);
    }
    let mut bytes = vec![8, 2];
    for sharding in shardings {
        message(&mut bytes, 5, &to_proto(sharding, None));
    }
    bytes
}

/// Reads the sharding of an array of so many dimensions.
///
/// # Errors
/// Bytes that are no such message; a sharding of another kind; one that does not fit.
pub(crate) fn from_proto(bytes: &[u8], rank: usize, devices: usize) -> Result<Sharding, Error> {
    let number = |field| -> Result<i64, Error> { Ok(numbers(bytes, field)?.pop().unwrap_or(0)) };
    match number(1)? {
        0 => return Ok(Sharding::replicated(rank, devices)),
        3 => {}
        kind => {
            let message = format!("expected a replicated or tiled sharding, found kind {kind}");
            return Err(Error::invalid(message));
        }
    }
    let dims = numbers(bytes, 3)?;
    let order = device_order(bytes)?;
    let wrong = || {
        let count = order.len();
        let message = format!(
            "tiles {dims:?} of {count} devices do not fit an array of {rank} dimensions on {devices} devices"
        );
        Error::invalid(message)
    };
    let tiles = dims
        .iter()
        .try_fold(1i64, |count, dim| count.checked_mul(*dim));
    if dims.len() < rank || order.len() != devices || tiles != i64::try_from(devices).ok() {
        return Err(wrong());
    }
    let mut cuts = Vec::new();
    for (dim, &parts) in dims.iter().enumerate().take(rank) {
        let behind: i64 = dims[dim + 1..].iter().product();
        let mut places = vec![0; devices];
        for (at, &device) in (0i64..).zip(&order) {
            let place = usize::try_from(device)
                .ok()
                .and_then(|own| places.get_mut(own));
            *place.ok_or_else(wrong)? = at / behind.max(1) % parts.max(1);
        }
        let cut = (parts > 1).then(|| Cut::new(parts, places).ok_or_else(wrong));
        cuts.push(cut.transpose()?);
    }
    Ok(Sharding::new(devices, cuts))
}

/// Reads the shardings of a result: as many as it has arrays.
///
/// # Errors
/// As of [`from_proto`].
pub(crate) fn results_from_proto(
    bytes: &[u8],
    ranks: &[usize],
    devices: usize,
) -> Result<Vec<Sharding>, Error> {
    if let [rank] = ranks {
        return Ok(vec![from_proto(bytes, *rank, devices)?]);
    }
    let mut ranks = ranks.iter();
    let mut shardings = Vec::new();
    for field in Fields(bytes) {
        if let (5, Field::Bytes(element)) = field?
            && let Some(rank) = ranks.next()
        {
            shardings.push(from_proto(element, *rank, devices)?);
        }
    }
    Ok(shardings)
}

/// The devices of the tiles, in order.
fn device_order(bytes: &[u8]) -> Result<Vec<i64>, Error> {
    let listed = numbers(bytes, 4)?;
    let sizes = numbers(bytes, 9)?;
    if !listed.is_empty() || sizes.is_empty() {
        return Ok(listed);
    }
    let wrong = || Error::invalid(format!("devices in an array of sizes {sizes:?}"));
    let permuted = numbers(bytes, 10)?;
    let permuted = match permuted.is_empty() {
        true => (0..sizes.len()).collect(),
        false => permuted
            .iter()
            .map(|&dim| dim as usize)
            .collect::<Vec<usize>>(),
    };
    let count = sizes.iter().try_fold(1i64, |count, size| {
        let count = count.checked_mul(*size)?;
        (*size > 0 && count <= MOST_DEVICES).then_some(count)
    });
    let count = count.ok_or_else(wrong)?;
    let mut steps = vec![1i64; sizes.len()];
    for dim in (1..sizes.len()).rev() {
        steps[dim - 1] = steps[dim] * sizes[dim];
    }
    // The place in the permuted array is counted up, the last dimension first.
    let mut order = Vec::new();
    for at in 0..count {
        let (mut rest, mut device) = (at, 0);
        for &dim in permuted.iter().rev() {
            let (size, step) = sizes.get(dim).zip(steps.get(dim)).ok_or_else(wrong)?;
            device += rest % size * step;
            rest /= size;
        }
        order.push(device);
    }
    Ok(order)
}

/// The most devices of a sharding that is read.
const MOST_DEVICES: i64 = 1 << 20;

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
    #[test]
    fn what_is_written_is_read() {
        let cut = |parts, places: [i64; 4]| Cut::new(parts, places.into());
        for sharding in [
            Sharding::replicated(2, 4),
            Sharding::new(4, [cut(2, [0, 1, 0, 1]), None]),
            Sharding::new(4, [cut(2, [0, 1, 0, 1]), cut(2, [1, 1, 0, 0])]),
            Sharding::new(4, [None, cut(4, [3, 1, 0, 2])]),
        ] {
            let bytes = to_proto(&sharding, None);
            assert_eq!(from_proto(&bytes, 2, 4), Ok(sharding.clone()));
            let both = results_to_proto([&sharding, &sharding].into_iter());
            let expected = vec![sharding.clone(), sharding];
            assert_eq!(results_from_proto(&both, &[2, 2], 4), Ok(expected));
            for len in 0..both.len() {
                // Whatever is cut off: an error or shardings, no panic.
                let _ = results_from_proto(&both[..len], &[2, 2], 4);
            }
        }
    }

    #[test]
    fn devices_in_a_permuted_array_are_read() {
        // Four by two tiles of the devices 0..8 in an array of two by four, transposed.
        let bytes = [8, 3, 26, 2, 4, 2, 74, 2, 2, 4, 82, 2, 1, 0];
        let rows = Cut::new(4, vec![0, 1, 2, 3, 0, 1, 2, 3]);
        let columns = Cut::new(2, vec![0, 0, 0, 0, 1, 1, 1, 1]);
        let expected = Sharding::new(8, [rows, columns]);
        assert_eq!(from_proto(&bytes, 2, 8), Ok(expected));
        assert!(from_proto(&bytes, 3, 8).is_err());
        assert!(from_proto(&bytes, 2, 4).is_err());
        assert!(from_proto(&[8, 4], 2, 8).is_err());
    }
}
