//! Exact answers for small domains, by enumerating all points.
//!
//! Variables that occur in the same constraints form a component. A component with a small box is
//! enumerated on its own, however large the ranges of the other variables are. This decides
//! emptiness, yields the tightest bounds, finds constraints that are implied by others, and decides
//! whether a result is an affine function of its variables on the whole domain.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tegula_expr::{Interval, Term};

use super::domain::{Domain, Empty};
use super::program::Program;
use crate::map::Constraint;
use crate::points::{box_size, for_each_point};

/// The most constraints of a component.
const MAX_CONSTRAINTS: usize = 32;

/// The most variables of an affine function that is fitted.
const MAX_FITTED: usize = 6;
/// The number of points sampled to refute that a function is affine.
const SAMPLES: usize = 16;
/// A map with more constraints than this is not examined at all.
const MAX_TOTAL: usize = 128;

/// The variables of a term, sorted.
pub(super) fn variables_of(term: &Term) -> Vec<usize> {
    let mut variables = Vec::new();
    term.for_each_var(&mut |var| variables.push(var.0 as usize));
    variables.sort_unstable();
    variables.dedup();
    variables
}

/// Variables connected by constraints, and the numbers of these constraints.
struct Component {
    variables: Vec<usize>,
    constraints: Vec<usize>,
}

/// The component of the variables: everything that constraints connect to them.
fn closure(mut variables: Vec<usize>, constraints: &[Constraint]) -> Component {
    let mut chosen: Vec<usize> = Vec::new();
    loop {
        let before = chosen.len();
        for (position, constraint) in constraints.iter().enumerate() {
            let own = variables_of(&constraint.term);
            if !chosen.contains(&position) && own.iter().any(|var| variables.contains(var)) {
                chosen.push(position);
                variables.extend(own);
            }
        }
        if chosen.len() == before {
            break;
        }
    }
    variables.sort_unstable();
    variables.dedup();
    chosen.sort_unstable();
    Component {
        variables,
        constraints: chosen,
    }
}

fn box_of(domain: &Domain, variables: &[usize]) -> Vec<Interval> {
    variables
        .iter()
        .map(|var| domain.bounds.get(*var).copied().unwrap_or(Interval::FULL))
        .collect()
}

/// Whether enumerating a box is cheap enough, with `operations` operations per point.
fn affordable(bounds: &[Interval], operations: usize, max_work: u64) -> bool {
    let work = box_size(bounds).and_then(|points| points.checked_mul(operations as u128 + 1));
    work.is_some_and(|work| work <= u128::from(max_work))
}

/// Tightens the domain exactly, component by component, where that is cheap. Returns whether
/// anything changed.
pub(super) fn tighten(domain: &mut Domain, max_work: u64) -> Result<bool, Empty> {
    if domain.constraints.len() > MAX_TOTAL {
        return Ok(false);
    }
    let mut changed = false;
    let mut done: Vec<usize> = Vec::new();
    let constraints = domain.constraints.clone();
    let mut dropped: Vec<usize> = Vec::new();
    for (position, constraint) in constraints.iter().enumerate() {
        if done.contains(&position) {
            continue;
        }
        let component = closure(variables_of(&constraint.term), &constraints);
        done.extend(&component.constraints);
        if component.constraints.is_empty() || component.constraints.len() > MAX_CONSTRAINTS {
            continue;
        }
        if let Some(redundant) = tighten_component(domain, &component, &constraints, max_work)? {
            changed |= redundant.0;
            dropped.extend(redundant.1);
        }
    }
    changed |= !dropped.is_empty();
    let mut position = 0;
    domain.constraints.retain(|_| {
        position += 1;
        !dropped.contains(&(position - 1))
    });
    Ok(changed)
}

/// Tightens one component. `None` if it is too large; otherwise whether bounds changed, and the
/// constraints that became redundant.
fn tighten_component(
    domain: &mut Domain,
    component: &Component,
    constraints: &[Constraint],
    max_work: u64,
) -> Result<Option<(bool, Vec<usize>)>, Empty> {
    let own: Vec<&Constraint> = component
        .constraints
        .iter()
        .filter_map(|position| constraints.get(*position))
        .collect();
    let bounds = box_of(domain, &component.variables);
    if !affordable(&bounds, 0, max_work) {
        return Ok(None);
    }
    let mut program = Program::new(own.iter().map(|c| &c.term), &component.variables);
    if !affordable(&bounds, program.len(), max_work) {
        return Ok(None);
    }
    let failed = |program: &Program| {
        own.iter()
            .enumerate()
            .fold(0u32, |mask, (position, constraint)| {
                let holds = constraint.interval.contains(program.output(position));
                mask | (u32::from(!holds) << position)
            })
    };
    let mut tight: Vec<Interval> = vec![Interval::EMPTY; bounds.len()];
    let mut total = true;
    for_each_point(&bounds, &mut |point| {
        if program.run(point).is_none() {
            total = false;
            return false;
        }
        if failed(&program) == 0 {
            for (interval, value) in tight.iter_mut().zip(point) {
                *interval = interval.hull(&Interval::point(*value));
            }
        }
        true
    });
    if !total {
        return Ok(None);
    }
    if tight.iter().any(Interval::is_empty) {
        return Err(Empty);
    }
    let mut changed = false;
    for (var, interval) in component.variables.iter().zip(&mut tight) {
        let is_pinned = domain.is_pinned(*var);
        if let Some(slot) = domain.bounds.get_mut(*var) {
            if is_pinned {
                *interval = *slot;
            }
            changed |= slot != interval;
            *slot = *interval;
        }
    }
    // Points outside the tight box are excluded by the bounds. Sets of constraints that fail
    // together are recorded once: there are far fewer sets than points.
    let mut masks: SmallVec<[u32; 16]> = SmallVec::new();
    for_each_point(&tight, &mut |point| {
        program.run(point);
        let mask = failed(&program);
        if mask != 0 && !masks.contains(&mask) {
            masks.push(mask);
        }
        true
    });
    let mut gone = 0u32;
    let mut redundant = Vec::new();
    for (bit, position) in component.constraints.iter().enumerate() {
        let without = gone | (1 << bit);
        if masks.iter().all(|mask| mask & !without != 0) {
            gone = without;
            redundant.push(*position);
        }
    }
    Ok(Some((changed, redundant)))
}

/// The result as an affine function of its variables, if it is one at every point of the domain and
/// the domain is small enough to be enumerated.
pub(super) fn affine_form(term: &Term, domain: &Domain, max_work: u64) -> Option<Term> {
    if domain.constraints.len() > MAX_TOTAL {
        return None;
    }
    let component = closure(variables_of(term), &domain.constraints);
    let own: Vec<&Constraint> = component
        .constraints
        .iter()
        .filter_map(|position| domain.constraints.get(*position))
        .collect();
    let bounds = box_of(domain, &component.variables);
    if component.variables.len() > MAX_FITTED || !affordable(&bounds, 0, max_work) {
        return None;
    }
    let terms = own.iter().map(|c| &c.term).chain([term]);
    let mut program = Program::new(terms, &component.variables);
    if !affordable(&bounds, program.len(), max_work) {
        return None;
    }
    if own.is_empty() && !may_be_affine(&bounds, &mut program) {
        return None;
    }
    let mut points: Vec<(Vec<i64>, i64)> = Vec::new();
    let mut total = true;
    for_each_point(&bounds, &mut |point| {
        if program.run(point).is_none() {
            total = false;
            return false;
        }
        let inside = own
            .iter()
            .enumerate()
            .all(|(position, c)| c.interval.contains(program.output(position)));
        if inside {
            points.push((point.to_vec(), program.output(own.len())));
        }
        true
    });
    if !total || points.is_empty() {
        return None;
    }
    // The term's own variables are tried first: on a domain of lower dimension, other variables
    // could replace them.
    let count = component.variables.len();
    for first in 0..count {
        let order: Vec<usize> = (0..count).map(|k| (k + first) % count).collect();
        if let Some((coefficients, constant)) = fit(&points, &order) {
            return Some(affine_term(&component.variables, &coefficients, constant));
        }
    }
    (count == 0).then(|| Term::constant(points.first().map_or(0, |(_, value)| *value)))
}

/// Whether a function may be affine. The first corner of the box and its neighbours determine the
/// candidate, which further points may refute.
fn may_be_affine(bounds: &[Interval], program: &mut Program) -> bool {
    let corner: Vec<i64> = bounds.iter().map(|interval| interval.lower).collect();
    let mut value_at = |point: &[i64]| {
        program.run(point)?;
        Some(i128::from(program.output(0)))
    };
    let Some(start) = value_at(&corner) else {
        return false;
    };
    let mut slopes: Vec<i128> = Vec::with_capacity(bounds.len());
    for (position, interval) in bounds.iter().enumerate() {
        let mut next = corner.clone();
        if let Some(slot) = next
            .get_mut(position)
            .filter(|_| interval.lower < interval.upper)
        {
            *slot += 1;
        }
        match value_at(&next) {
            Some(value) => slopes.push(value - start),
            None => return false,
        }
    }
    let mut state = 0x9E37_79B9u64;
    (0..SAMPLES).all(|sample| {
        let mut expected = start;
        let mut point = corner.clone();
        for ((slot, slope), interval) in point.iter_mut().zip(&slopes).zip(bounds) {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            // Boxes that are enumerated are small, so this cuts off nothing.
            let span = interval.count().min(1 << 32);
            let step = match sample {
                0 => span - 1,
                _ => u128::from(state >> 33) % span,
            };
            let step = i64::try_from(step).unwrap_or(0);
            *slot += step;
            expected += slope * i128::from(step);
        }
        value_at(&point) == Some(expected)
    })
}

fn affine_term(variables: &[usize], coefficients: &FxHashMap<usize, i64>, constant: i64) -> Term {
    let mut sum = Term::constant(0);
    for (position, var) in variables.iter().enumerate() {
        let coefficient = coefficients.get(&position).copied().unwrap_or(0);
        sum = sum.add(&crate::map::variable(*var).mul(&coefficient.into()));
    }
    sum.add(&constant.into())
}

/// Fits integer coefficients and a constant so that `value = constant + sum` at every point, by
/// elimination over the differences to the first point. A coefficient that the differences do not
/// determine is 0; variables later in `order` are the first to be left undetermined.
fn fit(points: &[(Vec<i64>, i64)], order: &[usize]) -> Option<(FxHashMap<usize, i64>, i64)> {
    let (origin, start) = points.first()?;
    // The rows are in echelon form by `order`: the differences of the variables, then the
    // difference of the value.
    let mut rows: Vec<(usize, Vec<i128>)> = Vec::new();
    for (point, value) in points.iter().skip(1) {
        let mut row: Vec<i128> = order
            .iter()
            .filter_map(|k| Some(i128::from(*point.get(*k)?) - i128::from(*origin.get(*k)?)))
            .collect();
        row.push(i128::from(*value) - i128::from(*start));
        for (pivot, base) in &rows {
            let (a, b) = (*row.get(*pivot)?, *base.get(*pivot)?);
            if a != 0 {
                for (x, y) in row.iter_mut().zip(base) {
                    *x = x.checked_mul(b)?.checked_sub(y.checked_mul(a)?)?;
                }
                reduce(&mut row);
            }
        }
        match row.iter().position(|x| *x != 0) {
            None => {}
            // Equal points have different values, so the function is not affine.
            Some(pivot) if pivot == order.len() => return None,
            Some(pivot) => rows.push((pivot, row)),
        }
    }
    let mut coefficients: FxHashMap<usize, i64> = FxHashMap::default();
    rows.sort_by_key(|(pivot, _)| std::cmp::Reverse(*pivot));
    for (pivot, row) in &rows {
        let mut rest = *row.last()?;
        for (column, x) in row.iter().enumerate().take(order.len()).skip(pivot + 1) {
            let known = coefficients.get(order.get(column)?).copied().unwrap_or(0);
            rest = rest.checked_sub(x.checked_mul(known.into())?)?;
        }
        let lead = *row.get(*pivot)?;
        if rest % lead != 0 {
            return None;
        }
        coefficients.insert(*order.get(*pivot)?, i64::try_from(rest / lead).ok()?);
    }
    let mut constant = i128::from(*start);
    for (position, coefficient) in &coefficients {
        constant =
            constant.checked_sub(i128::from(*coefficient) * i128::from(*origin.get(*position)?))?;
    }
    Some((coefficients, i64::try_from(constant).ok()?))
}

fn reduce(row: &mut [i128]) {
    let mut g = 0i128;
    for x in row.iter() {
        let (mut a, mut b) = (g, x.abs());
        while b != 0 {
            (a, b) = (b, a % b);
        }
        g = a;
    }
    if g > 1 {
        row.iter_mut().for_each(|x| *x /= g);
    }
}
