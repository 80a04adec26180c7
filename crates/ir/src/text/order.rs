//! Sorts computations: callees before callers, otherwise in the order of the text.

use super::tree::RawComputation;
use super::tree::Value;
use crate::Error;
use rustc_hash::FxHashMap;

/// Sorts computations so that callees come first, and finds the position of the entry.
///
/// Fails if a name is defined twice, if there are two entries, or if there is recursion. Undefined
/// names are reported later, when they are looked up.
pub(crate) fn callees_first<'a>(
    source: &str,
    computations: Vec<RawComputation<'a>>,
) -> Result<(Vec<RawComputation<'a>>, usize), Error> {
    let mut by_name = FxHashMap::default();
    let mut entry = None;
    for (index, computation) in computations.iter().enumerate() {
        let at = |message: String| Error::input(message).at(source, computation.span);
        if by_name.insert(computation.name, index).is_some() {
            let message = format!("a computation `{}` is already defined", computation.name);
            return Err(at(message));
        }
        if computation.entry && entry.replace(index).is_some() {
            return Err(at("an ENTRY computation is already defined".to_owned()));
        }
    }
    let Some(last) = computations.len().checked_sub(1) else {
        return Err(
            Error::input("the program has no computations").at(source, crate::Span::default())
        );
    };
    let entry = entry.unwrap_or(last);
    let order = sort(&computations, &by_name).map_err(|index| match computations.get(index) {
        Some(computation) => {
            let message = format!("`{}` calls itself", computation.name);
            Error::input(message).at(source, computation.span)
        }
        None => Error::bug("a computation in a call cycle does not exist"),
    })?;
    let place = order.iter().position(|&index| index == entry).unwrap_or(0);
    if order.is_sorted() {
        return Ok((computations, place));
    }
    let mut slots: Vec<_> = computations.into_iter().map(Some).collect();
    let sorted = order
        .into_iter()
        .filter_map(|index| slots.get_mut(index)?.take())
        .collect();
    Ok((sorted, place))
}

fn callees(computation: &RawComputation<'_>, by_name: &FxHashMap<&str, usize>) -> Vec<usize> {
    let attributes = computation.instructions.iter().flat_map(|i| &i.attributes);
    let mut callees = Vec::new();
    for attribute in attributes.filter(|a| a.name != "control-predecessors") {
        if let Value::Names(names) = &attribute.value {
            callees.extend(names.iter().filter_map(|(name, _)| by_name.get(name)));
        }
    }
    callees
}

/// A depth-first sort with an explicit stack; fails with a member of a cycle.
fn sort(
    computations: &[RawComputation<'_>],
    by_name: &FxHashMap<&str, usize>,
) -> Result<Vec<usize>, usize> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Done,
    }
    let mut state = vec![State::New; computations.len()];
    let mut order = Vec::with_capacity(computations.len());
    for start in 0..computations.len() {
        let mut stack = vec![(start, None::<std::vec::IntoIter<usize>>)];
        while let Some((index, pending)) = stack.last_mut() {
            let index = *index;
            let Some(seen) = state.get_mut(index) else {
                return Err(index);
            };
            if pending.is_none() {
                if *seen == State::Done {
                    stack.pop();
                    continue;
                }
                *seen = State::Open;
                let computation = computations.get(index).ok_or(index)?;
                *pending = Some(callees(computation, by_name).into_iter());
            }
            match pending.as_mut().and_then(Iterator::next) {
                Some(callee) => match state.get(callee) {
                    Some(State::Open) => return Err(callee),
                    Some(State::New) => stack.push((callee, None)),
                    _ => {}
                },
                None => {
                    if let Some(seen) = state.get_mut(index) {
                        *seen = State::Done;
                    }
                    order.push(index);
                    stack.pop();
                }
            }
        }
    }
    Ok(order)
}
