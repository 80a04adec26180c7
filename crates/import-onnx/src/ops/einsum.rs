//! `Einsum`: sums of products over dimensions that are labelled with letters.
//!
//! Operands are multiplied from left to right. A label that neither the result nor a later operand
//! has is summed over: by the product itself if both operands have it, otherwise before the
//! product.

use super::{Lowering, one};
use crate::Error;
use crate::lower::{Call, Fold, Item, Lowerer, Result, Value};
use tegula_ir::{Direction, ElementType};

pub(super) fn find(op: &str) -> Option<Lowering> {
    (op == "Einsum").then_some(einsum as Lowering)
}

/// The label of a dimension.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    /// One of the dimensions that `...` represents, counted from the last one.
    Ellipsis(usize),
    Letter(char),
}

/// An array whose dimensions have distinct labels.
struct Named {
    value: Value,
    labels: Vec<Label>,
}

fn einsum<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let equation: String = call
        .text("equation", "")
        .chars()
        .filter(|c| !c.is_whitespace())
        .collect();
    let (inputs, result) = match equation.split_once("->") {
        Some((inputs, result)) => (inputs, Some(result)),
        None => (equation.as_str(), None),
    };
    let mut operands = Vec::new();
    let mut used = Vec::new();
    for (at, text) in inputs.split(',').enumerate() {
        let value = call.input(at)?;
        let labels = labels_of(text, |named| value.rank().checked_sub(named))?;
        if labels.len() != value.rank() {
            let (rank, found) = (value.rank(), labels.len());
            return Err(Error::input(format!(
                "`{equation}` names {found} dimensions of input {at}, which has {rank}"
            )));
        }
        used.extend_from_slice(&labels);
        operands.push(diagonal(lower, value, labels)?);
    }
    if call.optional(operands.len()).is_some() {
        let count = operands.len();
        return Err(Error::input(format!(
            "`{equation}` has {count} terms: expected as many inputs"
        )));
    }
    let hidden = (used.iter()).filter_map(|label| match label {
        Label::Ellipsis(at) => Some(at + 1),
        Label::Letter(_) => None,
    });
    let hidden = hidden.max().unwrap_or(0);
    let wanted = match result {
        Some(text) => labels_of(text, |_| Some(hidden))?,
        None => implicit_result(&used, hidden),
    };
    if let Some(at) = (0..wanted.len())
        .find(|at| wanted[..*at].contains(&wanted[*at]) || !used.contains(&wanted[*at]))
    {
        return Err(Error::input(format!(
            "dimension {at} of the result of `{equation}` must be named once, and by an input"
        )));
    }

    let mut rest = operands.into_iter();
    let mut product = rest
        .next()
        .ok_or_else(|| Error::input("expected an input"))?;
    while let Some(next) = rest.next() {
        let is_kept = |label: &Label| {
            wanted.contains(label)
                || rest
                    .as_slice()
                    .iter()
                    .any(|later| later.labels.contains(label))
        };
        product = multiplied(lower, product, next, &is_kept)?;
    }
    let product = summed(lower, product, &|label| wanted.contains(label))?;
    let place = |label: &Label| product.labels.iter().position(|own| own == label);
    let permutation: Option<Vec<usize>> = wanted.iter().map(place).collect();
    let permutation =
        permutation.ok_or_else(|| Error::input("a dimension of the result has no position"))?;
    one(lower.transpose(&product.value, &permutation)?)
}

/// The labels in a part of an equation. `hidden` returns the number of dimensions that `...`
/// represents, given the number of letters.
fn labels_of(text: &str, hidden: impl Fn(usize) -> Option<usize>) -> Result<Vec<Label>> {
    let wrong = || {
        Error::input(format!(
            "`{text}` in an equation: expected letters, and `...` once"
        ))
    };
    let letters = |text: &str| -> Result<Vec<Label>> {
        let labels = text.chars().map(|c| match c.is_alphabetic() {
            true => Ok(Label::Letter(c)),
            false => Err(wrong()),
        });
        labels.collect()
    };
    let Some((before, after)) = text.split_once("...") else {
        return letters(text);
    };
    let (before, after) = (letters(before)?, letters(after)?);
    let hidden = hidden(before.len() + after.len()).ok_or_else(wrong)?;
    let hidden = (0..hidden).rev().map(Label::Ellipsis);
    Ok(before.into_iter().chain(hidden).chain(after).collect())
}

/// The labels of the result of an equation without `->`: those of `...`, and then the letters that
/// occur once, in alphabetical order.
fn implicit_result(used: &[Label], hidden: usize) -> Vec<Label> {
    let is_once = |label: &&Label| used.iter().filter(|other| other == label).count() == 1;
    let is_letter = |label: &&Label| matches!(label, Label::Letter(_));
    let mut once: Vec<Label> = used
        .iter()
        .filter(is_letter)
        .filter(is_once)
        .copied()
        .collect();
    once.sort_unstable();
    (0..hidden).rev().map(Label::Ellipsis).chain(once).collect()
}

/// Takes the diagonal along dimensions with the same label.
fn diagonal(lower: &mut Lowerer<'_>, mut value: Value, mut labels: Vec<Label>) -> Result<Named> {
    while let Some(second) = (0..labels.len()).find(|at| labels[..*at].contains(&labels[*at])) {
        let first = labels
            .iter()
            .position(|label| *label == labels[second])
            .unwrap_or(second);
        if let (Some(a), Some(b)) = (
            value.dims[first].as_constant(),
            value.dims[second].as_constant(),
        ) && a != b
        {
            return Err(Error::input(format!(
                "dimensions of different sizes, {a} and {b}, have the same letter"
            )));
        }
        let row = lower.iota(ElementType::S64, &value.dims, first)?;
        let column = lower.iota(ElementType::S64, &value.dims, second)?;
        let is_on = lower.compare(Direction::Eq, &row, &column)?;
        let zero = lower.like(&value, 0.0)?;
        let on = lower.select(&is_on, &value, &zero)?;
        value = lower.reduce(&on, Fold::Sum, &[second], false)?;
        labels.remove(second);
    }
    Ok(Named { value, labels })
}

/// Sums over the dimensions whose labels are not kept.
fn summed(
    lower: &mut Lowerer<'_>,
    named: Named,
    is_kept: &dyn Fn(&Label) -> bool,
) -> Result<Named> {
    let Named { value, labels } = named;
    let axes: Vec<usize> = (0..labels.len())
        .filter(|at| !is_kept(&labels[*at]))
        .collect();
    if axes.is_empty() {
        return Ok(Named { value, labels });
    }
    let value = lower.reduce(&value, Fold::Sum, &axes, false)?;
    Ok(Named {
        value,
        labels: labels.into_iter().filter(|label| is_kept(label)).collect(),
    })
}

/// The product of two arrays, summed over the labels that are not kept.
fn multiplied(
    lower: &mut Lowerer<'_>,
    a: Named,
    b: Named,
    is_kept: &dyn Fn(&Label) -> bool,
) -> Result<Named> {
    let (a, b) = (without_ones(lower, a, &b)?, b);
    let b = without_ones(lower, b, &a)?;
    let a = summed(lower, a, &|label| {
        is_kept(label) || b.labels.contains(label)
    })?;
    let b = summed(lower, b, &|label| {
        is_kept(label) || a.labels.contains(label)
    })?;
    let mut batch = Vec::new();
    let mut contracting = Vec::new();
    for (place, label) in a.labels.iter().enumerate() {
        if let Some(other) = b.labels.iter().position(|own| own == label) {
            match is_kept(label) {
                true => batch.push((place, other)),
                false => contracting.push((place, other)),
            }
        }
    }
    let value = lower.dot(&a.value, &b.value, &batch, &contracting)?;
    let mut labels: Vec<Label> = batch.iter().map(|(place, _)| a.labels[*place]).collect();
    labels.extend(a.labels.iter().filter(|label| !b.labels.contains(label)));
    labels.extend(b.labels.iter().filter(|label| !a.labels.contains(label)));
    Ok(Named { value, labels })
}

/// Removes dimensions of size 1 whose label the other array has as well, because they are
/// broadcast.
fn without_ones(lower: &mut Lowerer<'_>, mut named: Named, other: &Named) -> Result<Named> {
    for at in (0..named.labels.len()).rev() {
        if named.value.dims[at].as_constant() == Some(1) && other.labels.contains(&named.labels[at])
        {
            named.value = lower.squeeze(&named.value, at)?;
            named.labels.remove(at);
        }
    }
    Ok(named)
}
