//! Shardings as front ends read and write them: `xla.OpSharding`, a protocol buffer.
//!
//! The fields: 1 the type (0 replicated, 2 of a tuple, 3 tiled), 3 the number of tiles in each
//! dimension, 4 the devices of the tiles, 5 the shardings of a tuple, 6 whether there is a last
//! tile dimension for replication, 8 the kinds of last tile dimensions (0 replicated, 6 partial
//! results). Instead of 4, there may be 9 and 10: the devices are numbered in order in an array
//! with the sizes in 9, whose dimensions are then permuted by 10.

use crate::error::Error;
use crate::protobuf::{Field, Message, put_message, put_packed};
use tegula::partition::{Cut, Sharding, Unreduced};

/// Writes the message of one array's sharding.
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
    put_packed(&mut bytes, 3, &dims);
    put_packed(&mut bytes, 4, &devices);
    if copies > 1 {
        bytes.extend([6 << 3, 1]);
    }
    bytes
}

/// As [`to_proto`], for partial results on the devices of each group.
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
        put_packed(&mut bytes, field, numbers);
    }
    bytes
}

/// Writes the message of a result's shardings: of an array, or of a tuple.
pub(crate) fn results_to_proto(shardings: &[&Sharding]) -> Vec<u8> {
    if let [sharding] = shardings {
        return to_proto(sharding, None);
    }
    let mut bytes = vec![8, 2];
    for sharding in shardings {
        put_message(&mut bytes, 5, &to_proto(sharding, None));
    }
    bytes
}

fn message(bytes: &[u8]) -> Message<'_> {
    Message {
        name: "xla.OpSharding",
        bytes,
    }
}

/// Reads the sharding of an array of this rank.
///
/// # Errors
/// Bytes that are not such a message; an unsupported kind of sharding; one that does not fit.
pub(crate) fn from_proto(bytes: &[u8], rank: usize, devices: usize) -> Result<Sharding, Error> {
    let message = message(bytes);
    let kind = message.numbers(1)?.pop().unwrap_or(0);
    // Kinds of tile dimensions other than replication: partial results, or each device's own
    // arrays.
    let is_special = message.numbers(8)?.iter().any(|kind| *kind != 0);
    match kind {
        0 => return Ok(Sharding::replicated(rank, devices)),
        3 if !is_special => {}
        _ => {
            let what = "expected a replicated or tiled sharding without partial results";
            return Err(Error::invalid(format!("{what}, found kind {kind}")));
        }
    }
    let dims = message.numbers(3)?;
    let order = device_order(message)?;
    let wrong = || {
        Error::invalid(format!(
            "tiles {dims:?} of the devices {order:?} do not fit an array of {rank} dimensions on {devices} devices"
        ))
    };
    let tiles = dims.iter().try_fold(1i64, |count, &dim| {
        count.checked_mul(dim).filter(|_| dim > 0)
    });
    let mut sorted = order.clone();
    sorted.sort_unstable();
    let is_each_once = (0..devices as i64).eq(sorted);
    if dims.len() < rank || !is_each_once || tiles != Some(devices as i64) {
        return Err(wrong());
    }
    let mut cuts = Vec::new();
    for (dim, &parts) in dims.iter().enumerate().take(rank) {
        let behind: i64 = dims.iter().skip(dim + 1).product();
        let mut places = vec![0; devices];
        for (at, &device) in (0i64..).zip(&order) {
            let place = places.get_mut(device as usize).ok_or_else(wrong)?;
            *place = at / behind % parts;
        }
        let cut = (parts > 1).then(|| Cut::new(parts, places).ok_or_else(wrong));
        cuts.push(cut.transpose()?);
    }
    Ok(Sharding::new(devices, cuts))
}

/// Reads the shardings of a result, one for each array.
///
/// # Errors
/// As [`from_proto`].
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
    for field in message(bytes).fields() {
        if let (5, Field::Bytes(element)) = field?
            && let Some(rank) = ranks.next()
        {
            shardings.push(from_proto(element, *rank, devices)?);
        }
    }
    Ok(shardings)
}

/// The maximum number of devices of a sharding.
const MOST_DEVICES: i64 = 1 << 20;

/// The devices of the tiles, in order.
fn device_order(message: Message<'_>) -> Result<Vec<i64>, Error> {
    let listed = message.numbers(4)?;
    let sizes = message.numbers(9)?;
    if !listed.is_empty() || sizes.is_empty() {
        return Ok(listed);
    }
    let wrong = || {
        Error::invalid(format!(
            "the device list of the sharding, an array of sizes {sizes:?}, is invalid"
        ))
    };
    let mut permuted = message.numbers(10)?;
    if permuted.is_empty() {
        permuted = (0..sizes.len() as i64).collect();
    }
    // For each dimension of the array, from the last to the first: its size and its stride.
    let mut count = 1i64;
    let mut dims = Vec::new();
    for &size in sizes.iter().rev() {
        dims.push((size, count));
        let more = count
            .checked_mul(size)
            .filter(|count| *count <= MOST_DEVICES);
        count = more.filter(|_| size > 0).ok_or_else(wrong)?;
    }
    dims.reverse();
    // Enumerates the positions in the permuted array, the last dimension fastest.
    let mut order = Vec::new();
    for at in 0..count {
        let (mut rest, mut device) = (at, 0);
        for &dim in permuted.iter().rev() {
            let dim = usize::try_from(dim).ok().and_then(|dim| dims.get(dim));
            let &(size, distance) = dim.ok_or_else(wrong)?;
            device += rest % size * distance;
            rest /= size;
        }
        order.push(device);
    }
    Ok(order)
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
            let both = results_to_proto(&[&sharding, &sharding]);
            let expected = vec![sharding.clone(), sharding];
            assert_eq!(results_from_proto(&both, &[2, 2], 4), Ok(expected));
            for len in 0..both.len() {
                // Truncated messages give an error or shardings, never a panic.
                let _ = results_from_proto(&both[..len], &[2, 2], 4);
            }
        }
    }

    #[test]
    fn devices_in_a_permuted_array_are_read() {
        // Four by two tiles; the devices 0..8 are in an array of two by four, which is transposed.
        let bytes = [8, 3, 26, 2, 4, 2, 74, 2, 2, 4, 82, 2, 1, 0];
        let rows = Cut::new(4, vec![0, 1, 2, 3, 0, 1, 2, 3]);
        let columns = Cut::new(2, vec![0, 0, 0, 0, 1, 1, 1, 1]);
        let expected = Sharding::new(8, [rows, columns]);
        assert_eq!(from_proto(&bytes, 2, 8), Ok(expected));
        assert!(from_proto(&bytes, 3, 8).is_err());
        assert!(from_proto(&bytes, 2, 4).is_err());
        assert!(from_proto(&[8, 4], 2, 8).is_err());
        // A dimension of the array occurs twice, so some devices do.
        let twice = [8, 3, 26, 2, 4, 2, 74, 2, 2, 4, 82, 2, 1, 1];
        assert!(from_proto(&twice, 2, 8).is_err());
        // Two tiles of two devices each, which hold partial results.
        let partial = [8, 3, 26, 2, 2, 2, 34, 4, 0, 1, 2, 3, 66, 1, 6];
        assert!(from_proto(&partial, 1, 4).is_err());
        // The same with replication.
        let copies = [8, 3, 26, 2, 2, 2, 34, 4, 0, 1, 2, 3, 66, 1, 0];
        let expected = Sharding::new(4, [Cut::new(2, vec![0, 0, 1, 1])]);
        assert_eq!(from_proto(&copies, 1, 4), Ok(expected));
    }
}
