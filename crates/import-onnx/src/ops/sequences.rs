//! Sequences and optionals. Their elements are known when the model is read.

use super::{Lowering, one};
use crate::Error;
use crate::lower::{Call, Item, Lowerer, Result, Value};
use tegula_expr::Term;
use tegula_ir::ElementType;

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "SequenceConstruct" => construct,
        "SequenceEmpty" => empty,
        "SequenceAt" => at,
        "SequenceInsert" => insert,
        "SequenceErase" => erase,
        "SequenceLength" => length,
        "SequenceMap" => map,
        "ConcatFromSequence" => concat,
        "SplitToSequence" => split,
        "Optional" => optional,
        "OptionalHasElement" => has_element,
        "OptionalGetElement" => get_element,
        _ => return None,
    };
    Some(lowering)
}

fn construct<'a>(_: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    Ok(vec![Item::Sequence(call.inputs.clone())])
}

fn empty<'a>(_: &mut Lowerer<'a>, _: &Call<'_, 'a>) -> Result<Vec<Item>> {
    Ok(vec![Item::Sequence(Vec::new())])
}

fn elements<'s>(call: &'s Call<'_, '_>) -> Result<&'s [Item]> {
    match call.inputs.first() {
        Some(Item::Sequence(items)) => Ok(items),
        _ => Err(Error::input("expected a sequence as input 0")),
    }
}

/// A position in a sequence, counted from the beginning; `None` if it is omitted.
fn place(call: &Call<'_, '_>, input: usize, count: usize) -> Result<Option<usize>> {
    let Some(value) = call.optional(input) else {
        return Ok(None);
    };
    let number = value.integers().and_then(|list| list.first().copied());
    let number = number.ok_or_else(|| {
        Error::depends_on_data(input, "a position that depends on data is not supported")
    })?;
    call.axis_of(number, count).map(Some)
}

fn at<'a>(_: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let items = elements(call)?;
    let place = place(call, 1, items.len())?;
    let place = place.ok_or_else(|| Error::input("expected a position as input 1"))?;
    Ok(vec![items[place].clone()])
}

fn insert<'a>(_: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let mut items = elements(call)?.to_vec();
    let value = call.inputs.get(1).cloned();
    let value = value.ok_or_else(|| Error::input("expected a tensor as input 1"))?;
    // For an insertion, the position after the last element is valid, too.
    let behind =
        call.optional(2).and_then(|place| place.integers()) == Some(vec![items.len() as i64]);
    match behind {
        true => items.push(value),
        false => match place(call, 2, items.len())? {
            Some(place) => items.insert(place, value),
            None => items.push(value),
        },
    }
    Ok(vec![Item::Sequence(items)])
}

fn erase<'a>(_: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let mut items = elements(call)?.to_vec();
    let place = place(call, 1, items.len())?;
    let place = place.or(items.len().checked_sub(1));
    items.remove(place.ok_or_else(|| Error::input("the sequence has no elements"))?);
    Ok(vec![Item::Sequence(items)])
}

fn length<'a>(_: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let count = elements(call)?.len() as i64;
    one(Value::of_integers(ElementType::S64, &[], &[count])?)
}

fn map<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let body = call.attribute("body").and_then(|a| a.graph.as_ref());
    let body = body.ok_or_else(|| Error::input("the graph `body` is missing"))?;
    let count = elements(call)?.len();
    let mut results = vec![Vec::new(); body.outputs.len()];
    for at in 0..count {
        let mut inputs = Vec::new();
        for input in &call.inputs {
            inputs.push(match input {
                Item::Sequence(items) => items
                    .get(at)
                    .cloned()
                    .ok_or_else(|| Error::input("expected sequences of one length"))?,
                other => other.clone(),
            });
        }
        let items = lower.subgraph(body, call, call.scope, inputs)?;
        for (list, item) in results.iter_mut().zip(items) {
            list.push(item);
        }
    }
    Ok(results.into_iter().map(Item::Sequence).collect())
}

fn tensors(items: &[Item]) -> Result<Vec<Value>> {
    let tensor = |item: &Item| match item {
        Item::Tensor(value) => Ok(value.clone()),
        _ => Err(Error::input("expected a sequence of tensors")),
    };
    items.iter().map(tensor).collect()
}

fn concat<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let mut values = tensors(elements(call)?)?;
    let rank = values.first().map_or(0, Value::rank);
    let new = call.int("new_axis", 0) != 0;
    let axis = call.axis(0, rank + usize::from(new))?;
    if new {
        for value in &mut values {
            *value = lower.unsqueeze(value, axis)?;
        }
    }
    one(lower.concat(&values, axis)?)
}

fn split<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let axis = call.axis(0, x.rank())?;
    let whole = x.dims[axis].as_constant();
    let known = || {
        whole.ok_or_else(|| {
            Error::unsupported("splitting a dimension of unknown size is not supported")
        })
    };
    let (lengths, keep): (Vec<Term>, bool) = match call.optional(1) {
        None => (
            vec![Term::constant(1); usize::try_from(known()?).unwrap_or(0)],
            call.int("keepdims", 1) != 0,
        ),
        Some(lengths) => {
            let list = super::shaping::sizes_of(call, 1)?;
            match (lengths.rank(), list.first().and_then(Term::as_constant)) {
                (0, Some(each)) if each > 0 => {
                    let (whole, mut list) = (known()?, Vec::new());
                    let mut start = 0;
                    while start < whole {
                        list.push(Term::constant(each.min(whole - start)));
                        start += each;
                    }
                    (list, true)
                }
                (0, _) => return Err(Error::input("expected a length above 0")),
                _ => (list, true),
            }
        }
    };
    let mut start = Term::constant(0);
    let mut items = Vec::new();
    for length in &lengths {
        let end = lower.canonical(&start.add(length));
        let part = lower.slice(&x, axis, &start, &end, 1)?;
        items.push(match keep {
            true => part.into(),
            false => lower.squeeze(&part, axis)?.into(),
        });
        start = end;
    }
    Ok(vec![Item::Sequence(items)])
}

fn optional<'a>(_: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    Ok(vec![call.inputs.first().cloned().unwrap_or(Item::Nothing)])
}

fn has_element<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let has = !matches!(call.inputs.first(), None | Some(Item::Nothing));
    one(lower.scalar(ElementType::Pred, f64::from(u8::from(has)))?)
}

fn get_element<'a>(_: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    match call.inputs.first() {
        None | Some(Item::Nothing) => Err(Error::input("the optional has no element")),
        Some(item) => Ok(vec![item.clone()]),
    }
}
