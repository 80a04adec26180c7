//! Independence of results: decides when exactly the product of the results' progressions is read.
//!
//! The digits of one number (quotients and remainders by divisors that divide one another, as in a
//! reshape) are independent on a tile if each divisor divides the tile's size and offset, or is a
//! multiple of them. Other results with common variables are independent if the map is one-to-one
//! on them and there are as many points as combinations of results.

use tegula_expr::{Cmp, Node, Term};

use super::condition::Condition;
use super::image::Image;
use super::progression::Progression;
use super::reason::Reason;

/// Results, and the varying variables that they share.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) variables: Vec<usize>,
    pub(super) results: Vec<usize>,
}

/// Groups the results by the variables that they share; constant results are in no group.
pub(super) fn groups(walk: &Image<'_>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (number, result) in walk.map.results.iter().enumerate() {
        let mut merged = Group {
            variables: walk.moving(result),
            results: vec![number],
        };
        if merged.variables.is_empty() {
            continue;
        }
        let mut rest = Vec::new();
        for group in groups {
            let shares = |var: &usize| merged.variables.contains(var);
            if group.variables.iter().any(shares) {
                merged.variables.extend(group.variables);
                merged.results.extend(group.results);
            } else {
                rest.push(group);
            }
        }
        merged.variables.sort_unstable();
        merged.variables.dedup();
        merged.results.sort_unstable();
        rest.push(merged);
        groups = rest;
    }
    groups
}

/// Requires that the results of each group are independent.
pub(super) fn require(walk: &mut Image<'_>, groups: &[Group], images: &[Progression]) {
    for group in groups {
        let moving: Vec<usize> = group
            .results
            .iter()
            .copied()
            .filter(|number| images.get(*number).is_some_and(|one| !one.is_point()))
            .collect();
        if moving.len() < 2 {
            continue;
        }
        let by_digits = digits_condition(walk, &moving);
        let by_digits = by_digits.map(|condition| walk.prover.settle(&condition));
        let condition = match by_digits {
            Some(condition) if condition.is_always() || walk.prover.is_open() => condition,
            _ => counted(walk, group, images),
        };
        walk.require(&condition, || Reason::Coupled(moving.clone()));
    }
}

/// One digit of a mixed-radix number: `(number / start) mod (end / start)`.
struct Digit {
    number: Term,
    start: i64,
    /// `None` for the leading digit.
    end: Option<i64>,
}

/// The digit in a result that is a multiple of a digit plus a constant.
fn digit(result: &Term) -> Option<Digit> {
    let result = match result.as_linear() {
        Some((terms, _)) => match terms.as_slice() {
            [(only, _)] => only.clone(),
            // A sum counts as a number with all its digits.
            _ => result.clone(),
        },
        None => result.clone(),
    };
    let (inner, size) = match result.node() {
        Node::Mod(inner, size) => (inner.clone(), Some(size.as_constant()?)),
        _ => (result.clone(), None),
    };
    let (number, start) = match inner.node() {
        Node::FloorDiv(number, start) => (number.clone(), start.as_constant()?),
        _ => (inner.clone(), 1),
    };
    let end = match size {
        Some(size) => Some(start.checked_mul(size)?),
        None => None,
    };
    (start > 0 && end.is_none_or(|end| end > 0)).then_some(Digit { number, start, end })
}

/// The condition that the digits of one number are independent; `None` if the results are not
/// digits of one number.
fn digits_condition(walk: &mut Image<'_>, results: &[usize]) -> Option<Condition> {
    let mut digits: Vec<Digit> = Vec::new();
    for number in results {
        digits.push(digit(walk.map.results.get(*number)?)?);
    }
    let first = digits.first()?.number.clone();
    if digits.iter().any(|digit| digit.number != first) {
        return None;
    }
    digits.sort_by_key(|digit| digit.start);
    let noted = walk.noted();
    let number = walk.of(&first);
    // This includes the condition that the number's values are a progression.
    let own: Vec<Condition> = walk.exact.drain(noted.0..).collect();
    walk.forget(noted);
    if number.step() != Some(1) {
        return None;
    }
    let mut all = own;
    for pair in digits.windows(2) {
        let [low, high] = pair else { continue };
        let end = low.end?;
        if high.start % end != 0 {
            return None;
        }
        all.push(boundary(walk, &number, end, high.start));
    }
    Some(Condition::all(all))
}

/// The condition that a number's digits below `end` and those from `start` on are independent.
fn boundary(walk: &mut Image<'_>, number: &Progression, end: i64, start: i64) -> Condition {
    let (size, offset) = (&number.size, &number.offset);
    let end_term = Term::constant(end);
    // All values are in one period of the lower digits.
    let inside = [
        Condition::multiple(&end_term, size),
        walk.prover.multiple(offset, size),
    ];
    let inside = Condition::all(inside);
    // The values are whole periods of the lower digits.
    let mut whole = vec![
        Condition::multiple(size, &end_term),
        walk.prover.multiple(offset, &end_term),
    ];
    if let Some(upper) = &number.upper {
        let after = upper.add(&Term::constant(1));
        whole.push(walk.prover.multiple(&after, &end_term));
    }
    if let Some(lower) = &number.lower {
        whole.push(walk.prover.multiple(lower, &end_term));
    }
    if start > end {
        let start_term = Term::constant(start);
        let within = [
            Condition::multiple(&start_term, size),
            walk.prover.multiple(offset, size),
        ];
        let over = [
            Condition::multiple(size, &start_term),
            walk.prover.multiple(offset, &start_term),
        ];
        whole.push(Condition::any([
            Condition::all(within),
            Condition::all(over),
        ]));
    }
    Condition::any([inside, Condition::all(whole)])
}

/// The condition that there are as many combinations of results as points, if the map is one-to-one
/// on the group.
fn counted(walk: &mut Image<'_>, group: &Group, images: &[Progression]) -> Condition {
    if walk.prover.is_open() {
        let one = Term::constant(1);
        let sizes: Vec<Term> = group
            .variables
            .iter()
            .filter_map(|var| walk.variables.get(*var).map(|own| own.size.clone()))
            .collect();
        let single = sizes
            .iter()
            .map(|size| Condition::compare(Cmp::Le, size, &one));
        return Condition::all(single.collect::<Vec<_>>());
    }
    let mut part = walk.map.clone();
    part.constraints.clear();
    part.results = group
        .results
        .iter()
        .filter_map(|result| walk.map.results.get(*result).cloned())
        .collect();
    // Every variable that varies must be determined by the results.
    let inverse = part.ranges_as_dims().inverse();
    let known = inverse.dims.len();
    let unknown = known..known + inverse.ranges.len();
    let follows = |var: &usize| {
        inverse.results.get(*var).is_some_and(|result| {
            let mut follows = true;
            result.for_each_var(&mut |own| follows &= !unknown.contains(&(own.0 as usize)));
            follows
        })
    };
    let others = part.dims.len() + part.ranges.len();
    let moving = group.variables.iter().filter(|var| **var < others);
    if !moving.clone().all(follows) || moving.count() < group.variables.len() {
        return Condition::never();
    }
    let mut product = |parts: Vec<Progression>| {
        let mut all = Term::constant(1);
        for part in parts {
            let count = part.count(walk.prover);
            all = all.mul(&Term::max(&Term::constant(0), &count));
        }
        walk.prover.canonical(&all)
    };
    let variables = &walk.variables;
    let from = group.variables.iter();
    let from = from
        .filter_map(|var| variables.get(*var).cloned())
        .collect();
    let from = product(from);
    let to = group.results.iter();
    let to = product(
        to.filter_map(|result| images.get(*result).cloned())
            .collect(),
    );
    Condition::compare(Cmp::Eq, &from, &to)
}
