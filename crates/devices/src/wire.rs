//! What transports that send bytes share: exchanges made of pieces of arrays, and their numbers.

use crate::communicator::{Combine, Communicator, Exchange, ExchangeError, Outgoing};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use tegula_ir::{ArrayShape, Literal, LiteralError};

pub(crate) fn shapes_of(arrays: &[Literal]) -> Vec<ArrayShape> {
    arrays.iter().map(|array| array.shape().clone()).collect()
}

/// [`Communicator::exchange_combined`] where arrays are sent: each member combines one piece of
/// every array, and all members gather the pieces. This moves as many bytes as a ring, in two
/// steps, and the order of the combination is that of the members.
///
/// # Errors
/// As [`Communicator::exchange`].
pub(crate) fn exchange_pieces(
    communicator: &dyn Communicator,
    exchange: Exchange<'_>,
    arrays: &[Literal],
    combine: &mut Combine<'_>,
) -> Result<Option<Arc<[Literal]>>, ExchangeError> {
    let count = exchange.members.len().max(1);
    let wrong = |reason: String| ExchangeError::Transport {
        name: exchange.name.to_owned(),
        reason,
    };
    // The last pieces are padded.
    let mut parts: Vec<Vec<Literal>> = vec![Vec::new(); count];
    for array in arrays {
        let pieces = pieces(array, count).map_err(wrong)?;
        for (piece, part) in pieces.into_iter().zip(&mut parts) {
            part.push(piece);
        }
    }
    let received = communicator
        .begin(exchange, Outgoing::Parts(parts))?
        .wait()?;
    let combined = combine(&received);
    // A member that fails tells all others.
    let mut own: Vec<Literal> = vec![Literal::from_value(i32::from(combined.is_some()))];
    match &combined {
        Some(combined) => own.extend(combined.iter().cloned()),
        None => own.extend(received.first().into_iter().flat_map(|own| own.to_vec())),
    }
    let all = communicator.begin(exchange, Outgoing::ToAll(own))?.wait()?;
    let failed = |own: &Arc<[Literal]>| {
        own.first()
            .and_then(Literal::as_i32s)
            .and_then(|flag| flag.first().copied())
            != Some(1)
    };
    if all.iter().any(failed) {
        return Ok(None);
    }
    let whole = arrays.iter().enumerate().map(|(number, array)| {
        let pieces = all.iter().filter_map(|own| own.get(number + 1));
        whole(array.shape(), pieces).map_err(|error| wrong(error.to_string()))
    });
    Ok(Some(whole.collect::<Result<Vec<_>, _>>()?.into()))
}

/// An array of its pieces, without their padding.
fn whole<'a>(
    shape: &ArrayShape,
    pieces: impl Iterator<Item = &'a Literal>,
) -> Result<Literal, LiteralError> {
    let mut whole = Literal::zeros(shape)?;
    let mut rest = whole.bytes_mut();
    for piece in pieces {
        let length = piece.bytes().len().min(rest.len());
        let (own, others) = rest.split_at_mut(length);
        own.copy_from_slice(&piece.bytes()[..length]);
        rest = others;
    }
    Ok(whole)
}

/// Splits an array into one-dimensional pieces of the same length; the last ones are padded with
/// zeros.
fn pieces(array: &Literal, count: usize) -> Result<Vec<Literal>, String> {
    let ty = array.element_type();
    let length = array.len().div_ceil(count);
    let width = ty.storage_bytes();
    let shape = ArrayShape::new(ty, &[length as i64]);
    let bytes = array.bytes();
    (0..count)
        .map(|piece| {
            let start = (piece * length * width).min(bytes.len());
            let end = (start + length * width).min(bytes.len());
            let mut own = bytes.get(start..end).unwrap_or_default().to_vec();
            own.resize(length * width, 0);
            Literal::from_bytes(&shape, &own).map_err(|error| error.to_string())
        })
        .collect()
}

/// A hash that is the same in all processes.
pub(crate) fn hash_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The number of a device's exchanges so far, by instruction and hash of the members.
#[derive(Default)]
pub(crate) struct Visits(Mutex<FxHashMap<(usize, u64), u64>>);

impl Visits {
    /// The number of earlier exchanges like this one, which is counted.
    pub(crate) fn count(&self, exchange: Exchange<'_>) -> u64 {
        let mut visits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let site = (exchange.site, hash_of(exchange.members));
        let count = visits.entry(site).or_default();
        *count += 1;
        *count - 1
    }
}
