//! Reads HLO's `sharding={...}`.
//!
//! The forms are `{replicated}`, `{maximal device=0}`, `{manual}`, and `{devices=[2,1,2]<=[4]}` or
//! with the devices listed. After the tile counts of the array's dimensions, there may be one more
//! dimension for replication (`last_tile_dim_replicate`) or several of stated kinds
//! (`last_tile_dims={manual,replicated}`). A tuple has a list of shardings, one for each array.

use super::Stated;
use super::cursor::Cursor;
use crate::sharding::{Cut, Sharding};

/// The maximum number of devices.
const MAX_DEVICES: i64 = 1 << 16;

/// The kind of a tile dimension after those of the array.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extra {
    Copies,
    Manual,
}

/// Reads the shardings for arrays of these ranks. A single sharding applies to all of them.
/// [`None`] if the text is invalid, or does not fit.
pub(crate) fn read(text: &str, ranks: &[usize], devices: usize) -> Option<Vec<Stated>> {
    let mut cursor = Cursor::new(text);
    cursor.expect("{")?;
    let mut ahead = cursor;
    if ahead.eat("{") || ahead.eat("}") {
        let mut at = 0;
        let list = cursor.list("}", |cursor| {
            cursor.expect("{")?;
            let rank = ranks.get(at).copied()?;
            at += 1;
            one(cursor, rank, devices)
        })?;
        return (list.len() == ranks.len() && cursor.is_at_end()).then_some(list);
    }
    let read = |rank: &usize| {
        let mut cursor = cursor;
        let stated = one(&mut cursor, *rank, devices)?;
        cursor.is_at_end().then_some(stated)
    };
    ranks.iter().map(read).collect()
}

/// What was expected instead of a device number that does not exist, if that is the error in a
/// sharding.
pub(crate) fn expected(text: &str, devices: usize) -> Option<String> {
    let mut numbers = text.split("maximal").skip(1).filter_map(|rest| {
        let rest = rest.trim_start().strip_prefix("device=")?;
        let end = rest.find(|c: char| c != '-' && !c.is_ascii_digit());
        rest.get(..end.unwrap_or(rest.len()))
    });
    let exists = |number: &str| number.parse::<usize>().is_ok_and(|own| own < devices);
    let wrong = numbers.find(|number| !exists(number))?;
    Some(format!(
        "a device from 0 to {}, found {wrong}",
        devices.saturating_sub(1)
    ))
}

/// Reads one sharding, from after its opening brace to the closing one.
fn one(cursor: &mut Cursor<'_>, rank: usize, devices: usize) -> Option<Stated> {
    let replicated = Stated::replicated(rank, devices);
    let stated = if cursor.eat("replicated") {
        replicated
    } else if cursor.eat("maximal") {
        // Every device holds the array, although only one needs it.
        cursor.expect("device=")?;
        let device = usize::try_from(cursor.number()?).ok()?;
        (device < devices).then_some(replicated)?
    } else if cursor.eat("manual") {
        Stated {
            manual: Cut::new(devices as i64, (0..devices as i64).collect()),
            unreduced: None,
            ..replicated
        }
    } else if cursor.eat("unknown") {
        Stated {
            open: vec![true; rank],
            ..replicated
        }
    } else {
        tiled(cursor, rank, devices)?
    };
    rest(cursor)?;
    Some(stated)
}

/// Skips attributes for other tools, `metadata={...}` or `shard_as 1`, and the closing brace.
fn rest(cursor: &mut Cursor<'_>) -> Option<()> {
    let mut depth = 0;
    loop {
        if cursor.eat("{") {
            depth += 1;
        } else if cursor.eat("}") {
            if depth == 0 {
                return Some(());
            }
            depth -= 1;
        } else {
            let other = cursor.quoted().is_some()
                || cursor.word().is_some()
                || ["=", ",", "/"].iter().any(|token| cursor.eat(token));
            other.then_some(())?;
        }
    }
}

fn tiled(cursor: &mut Cursor<'_>, rank: usize, devices: usize) -> Option<Stated> {
    cursor.expect("devices=[")?;
    let dims = cursor.list("]", Cursor::number)?;
    let count = dims
        .iter()
        .try_fold(1i64, |n, d| n.checked_mul(*d).filter(|n| *n > 0))?;
    if count > MAX_DEVICES || usize::try_from(count).ok()? != devices {
        return None;
    }
    let order = match cursor.eat("<=[") {
        true => iota(cursor, count)?,
        false => {
            let mut order = vec![cursor.number()?];
            while cursor.eat(",") {
                order.push(cursor.number()?);
            }
            order
        }
    };
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..count) {
        return None;
    }
    let mut extra = vec![Extra::Copies; dims.len().checked_sub(rank)?];
    if cursor.eat("last_tile_dims={") {
        let kinds = cursor.list("}", |cursor| match cursor.word()? {
            "manual" => Some(Extra::Manual),
            "replicated" => Some(Extra::Copies),
            _ => None,
        })?;
        if kinds.len() != extra.len() {
            return None;
        }
        extra = kinds;
    } else if !cursor.eat("last_tile_dim_replicate") && !extra.is_empty() {
        return None;
    }
    // The coordinates of each device in the dimensions of tiles.
    let mut places = vec![vec![0; devices]; dims.len()];
    for (at, device) in order.iter().enumerate() {
        let device = usize::try_from(*device).ok()?;
        let mut at = at as i64;
        for (dim, size) in dims.iter().enumerate().rev() {
            *places.get_mut(dim)?.get_mut(device)? = at % size;
            at /= size;
        }
    }
    let mut cuts = dims
        .iter()
        .zip(places)
        .map(|(size, places)| Cut::new(*size, places));
    let own: Option<Vec<Cut>> = cuts.by_ref().take(rank).collect();
    let mut manual = None;
    for (kind, cut) in extra.iter().zip(cuts) {
        if *kind == Extra::Manual {
            manual = Some(match manual {
                None => cut?,
                Some(outer) => Cut::then(&outer, &cut?)?,
            });
        }
    }
    Some(Stated {
        unreduced: None,
        sharding: Sharding::new(devices, own?.into_iter().map(Some)),
        open: vec![false; rank],
        manual,
    })
}

/// Reads `4,2]T(1,0)`: the numbers 0, 1, 2, ... in a shape, transposed.
fn iota(cursor: &mut Cursor<'_>, count: i64) -> Option<Vec<i64>> {
    let reshape_dims = cursor.list("]", Cursor::number)?;
    let transpose = match cursor.eat("T(") {
        true => cursor.list(")", Cursor::number)?,
        false => Vec::new(),
    };
    let groups = tegula_ir::ReplicaGroups::Iota {
        dims: [1, count].into_iter().collect(),
        reshape_dims: reshape_dims.into_iter().collect(),
        transpose: transpose.into_iter().collect(),
    };
    groups.listed()?.pop()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str, dims: &[i64], devices: usize) -> Option<Vec<Vec<i64>>> {
        let stated = read(text, &[dims.len()], devices)?.pop()?;
        let starts = (0..devices).map(|device| stated.sharding.start(dims, device));
        Some(starts.collect())
    }

    #[test]
    fn all_forms_are_read() {
        let rows = vec![vec![0, 0], vec![0, 0], vec![4, 0], vec![4, 0]];
        assert_eq!(
            parts("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", &[8, 3], 4),
            Some(rows.clone())
        );
        assert_eq!(
            parts(
                "{devices=[2,1,2]0,1,2,3 last_tile_dims={replicated}}",
                &[8, 3],
                4
            ),
            Some(rows)
        );
        let columns = vec![vec![0, 0], vec![4, 0], vec![0, 2], vec![4, 2]];
        assert_eq!(
            parts("{devices=[2,2]<=[2,2]T(1,0)}", &[8, 3], 4),
            Some(columns)
        );
        assert_eq!(parts("{replicated}", &[8], 2), Some(vec![vec![0], vec![0]]));
        assert_eq!(
            parts("{maximal device=1}", &[8], 2),
            Some(vec![vec![0], vec![0]])
        );
        let tuple = read("{{replicated}, {devices=[2]<=[2]}}", &[0, 1], 2).expect("a tuple");
        assert_eq!(tuple[1].sharding.part(&[6]), [3]);
        let manual = read(
            "{devices=[1,2,2]<=[4] last_tile_dims={manual,replicated}}",
            &[1],
            4,
        );
        let manual = manual
            .expect("a sharding")
            .remove(0)
            .manual
            .expect("manual");
        assert_eq!(manual.places(), [0, 0, 1, 1]);
        assert_eq!(read("{}", &[], 2), Some(vec![]));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for text in [
            "{devices=[2]0,0}",
            "{devices=[3]<=[3]}",
            "{devices=[2,1]<=[2]}",
            "replicated",
            "{devices=[2]<=[2]",
            "{devices=[2]<=[2]T(1)}",
        ] {
            assert_eq!(read(text, &[1], 2), None, "{text}");
        }
    }
}
