//! Support vector machines.

use super::super::{Lowering, one};
use super::{
    best_label, both_sides, class_labels, filled, floats, int_list, ints, kernel, label_above,
    matrix, rows, transformed,
};
use crate::Error;
use crate::lower::{Call, Fold, Item, Lowerer, Result, Value};
use rustc_hash::FxHashMap;
use tegula_expr::Term;
use tegula_ir::{Direction, ElementType, Unary};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "SVMRegressor" => regressor,
        "SVMClassifier" => classifier,
        _ => return None,
    };
    Some(lowering)
}

fn regressor<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = rows(lower, call)?;
    let coefficients = floats(call, lower, "coefficients")?;
    let rho = floats(call, lower, "rho")?.first().copied().unwrap_or(0.0);
    let supports = usize::try_from(call.int("n_supports", 0)).unwrap_or(0);
    let mut y = match supports {
        0 => {
            let weights = matrix(x.ty, &coefficients, 1)?;
            kernel(lower, call, &x, &weights)?
        }
        count => {
            let vectors = floats(call, lower, "support_vectors")?;
            let vectors = matrix(x.ty, &vectors, count)?;
            let values = kernel(lower, call, &x, &vectors)?;
            let weights = matrix(x.ty, &coefficients, 1)?;
            lower.dot(&values, &weights, &[], &[(1, 1)])?
        }
    };
    y = lower.shifted(&y, rho)?;
    if call.int("one_class", 0) != 0 {
        let zero = lower.like(&y, 0.0)?;
        let is_inside = lower.compare(Direction::Gt, &y, &zero)?;
        let (inside, outside) = (lower.like(&y, 1.0)?, lower.like(&y, -1.0)?);
        y = lower.select(&is_inside, &inside, &outside)?;
    }
    one(transformed(lower, call, &y)?)
}

/// The scores of all pairs of classes in order, each `[rows, 1]`.
fn pair_scores(
    lower: &mut Lowerer<'_>,
    call: &Call<'_, '_>,
    x: &Value,
    sizes: &[usize],
) -> Result<Vec<Value>> {
    let all = sizes
        .iter()
        .try_fold(0usize, |sum, size| sum.checked_add(*size));
    let all = all.filter(|all| *all <= 1 << 31);
    let all = all.ok_or_else(|| Error::input("expected at most 2^31 support vectors"))?;
    let vectors = floats(call, lower, "support_vectors")?;
    let vectors = matrix(x.ty, &vectors, all)?;
    let coefficients = floats(call, lower, "coefficients")?;
    let rho = floats(call, lower, "rho")?;
    let count = sizes.len();
    let pairs = count * (count - 1) / 2;
    if coefficients.len() != all * (count - 1) || rho.len() < pairs {
        return Err(Error::input(format!(
            "expected {} coefficients and {pairs} numbers in `rho`",
            all * (count - 1)
        )));
    }
    let starts: Vec<usize> = sizes
        .iter()
        .scan(0, |at, size| {
            *at += size;
            Some(*at - size)
        })
        .collect();
    // A row of weights for each pair; zero for support vectors of other classes.
    let mut weights = Vec::new();
    for i in 0..count {
        for j in i + 1..count {
            let mut row = vec![0.0; all];
            for (class, other) in [(i, j - 1), (j, i)] {
                let own = starts[class]..starts[class] + sizes[class];
                row[own.clone()]
                    .copy_from_slice(&coefficients[all * other + own.start..all * other + own.end]);
            }
            weights.extend(row);
        }
    }
    let values = kernel(lower, call, x, &vectors)?;
    let weights = matrix(x.ty, &weights, pairs)?;
    let sums = lower.dot(&values, &weights, &[], &[(1, 1)])?;
    let rho = super::list(x.ty, &rho[..pairs])?;
    let sums = lower.add(&sums, &rho)?;
    (0..pairs as i64)
        .map(|at| lower.slice(&sums, 1, &Term::constant(at), &Term::constant(at + 1), 1))
        .collect()
}

fn classifier<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = rows(lower, call)?;
    let labels = class_labels(call, "classlabels_ints", "classlabels_strings")?;
    let sizes = ints(call, "vectors_per_class")
        .into_iter()
        .map(usize::try_from);
    let sizes: Vec<usize> = sizes
        .collect::<std::result::Result<_, _>>()
        .map_err(|_| Error::input("expected non-negative `vectors_per_class`"))?;
    if sizes.len() < 2 {
        return linear_classifier(lower, call, &x, &labels);
    }
    if sizes.len() != labels.len() {
        return Err(Error::input(
            "expected as many labels as classes with vectors",
        ));
    }
    let pairs = pair_scores(lower, call, &x, &sizes)?;
    let (a, b) = (
        floats(call, lower, "prob_a")?,
        floats(call, lower, "prob_b")?,
    );
    if a.is_empty() {
        return by_votes(lower, call, &x, &pairs, &labels);
    }
    if a.len() < pairs.len() || b.len() < pairs.len() {
        return Err(Error::input(
            "expected a number in `prob_a` and `prob_b` for each pair",
        ));
    }
    let mut shares = Vec::new();
    for (at, score) in pairs.iter().enumerate() {
        shares.push(pair_probability(lower, score, a[at], b[at])?);
    }
    let probabilities = coupled(lower, &shares, labels.len())?;
    let label = best_label(lower, &probabilities, &labels)?;
    let y = transformed(lower, call, &probabilities)?;
    Ok(vec![label.into(), y.into()])
}

/// A classifier with coefficients for each class, without support vectors.
fn linear_classifier(
    lower: &mut Lowerer<'_>,
    call: &Call<'_, '_>,
    x: &Value,
    labels: &[i64],
) -> Result<Vec<Item>> {
    let weights = floats(call, lower, "coefficients")?;
    let features = x
        .size(1)?
        .as_constant()
        .and_then(|n| usize::try_from(n).ok());
    let count = features.and_then(|features| weights.len().checked_div(features));
    let count = count.ok_or_else(|| Error::input("expected a known number of features"))?;
    let weights = matrix(x.ty, &weights, count)?;
    let rho = floats(call, lower, "rho")?.first().copied().unwrap_or(0.0);
    let scores = kernel(lower, call, x, &weights)?;
    let scores = lower.shifted(&scores, rho)?;
    match (count, labels) {
        (1, [first, second]) => {
            let label = label_above(lower, &scores, 0.0, [*first, *second])?;
            Ok(vec![label.into(), both_sides(lower, call, &scores)?.into()])
        }
        _ => {
            let label = best_label(lower, &scores, labels)?;
            Ok(vec![
                label.into(),
                transformed(lower, call, &scores)?.into(),
            ])
        }
    }
}

/// The class that wins most pairs, and the scores of the pairs.
fn by_votes(
    lower: &mut Lowerer<'_>,
    call: &Call<'_, '_>,
    x: &Value,
    pairs: &[Value],
    labels: &[i64],
) -> Result<Vec<Item>> {
    let count = labels.len();
    let mut votes = filled(lower, x, 0.0, count as i64)?;
    let mut at = 0;
    for i in 0..count {
        for j in i + 1..count {
            let zero = lower.like(&pairs[at], 0.0)?;
            let is_first = lower.compare(Direction::Gt, &pairs[at], &zero)?;
            let row = |winner: usize| -> Vec<i64> {
                (0..count).map(|class| i64::from(class == winner)).collect()
            };
            let [first, second] = [int_list(x.ty, &row(i))?, int_list(x.ty, &row(j))?];
            let own = lower.select(&is_first, &first, &second)?;
            votes = lower.add(&votes, &own)?;
            at += 1;
        }
    }
    let label = best_label(lower, &votes, labels)?;
    let scores = lower.concat(pairs, 1)?;
    let y = match pairs {
        [only] => both_sides(lower, call, only)?,
        _ => transformed(lower, call, &scores)?,
    };
    Ok(vec![label.into(), y.into()])
}

/// The probability of the first class of a pair: `1 / (1 + exp(a * score + b))`, clamped to 1e-7
/// from 0 and 1.
fn pair_probability(lower: &mut Lowerer<'_>, score: &Value, a: f64, b: f64) -> Result<Value> {
    let line = lower.scaled(score, -a)?;
    let line = lower.shifted(&line, -b)?;
    let share = lower.unary(Unary::Logistic, &line)?;
    let (low, high) = (lower.like(&share, 1e-7)?, lower.like(&share, 1.0 - 1e-7)?);
    let share = lower.max(&share, &low)?;
    lower.min(&share, &high)
}

/// The minimum number of rounds of the iteration that converts pair probabilities to class
/// probabilities, and the error, times the number of classes, at which a row stops. Both are
/// libsvm's values, which trained models are used with.
const MIN_ROUNDS: i64 = 100;
const ENOUGH: f64 = 0.005;

/// The probabilities of all classes from those of pairs, by the iteration of Wu, Lin and Weng,
/// "Probability estimates for multi-class classification by pairwise coupling" (2004), algorithm 2.
fn coupled(lower: &mut Lowerer<'_>, shares: &[Value], count: usize) -> Result<Value> {
    let ty = shares[0].ty;
    let rows = shares[0].dims[0].clone();
    // The probability of the first class of each pair, `[rows]`.
    let mut of_two = FxHashMap::default();
    let mut at = 0;
    for i in 0..count {
        for j in i + 1..count {
            let share = lower.squeeze(&shares[at], 1)?;
            let one_ = lower.like(&share, 1.0)?;
            of_two.insert((j, i), lower.sub(&one_, &share)?);
            of_two.insert((i, j), share);
            at += 1;
        }
    }
    let zeros = lower.splat(ty, 0.0, std::slice::from_ref(&rows))?;
    let share = |i: usize, j: usize| of_two.get(&(i, j)).unwrap_or(&zeros).clone();
    // Q: sums of squares of the other class's probabilities on the diagonal, negated products
    // elsewhere.
    let mut entries = Vec::new();
    for i in 0..count {
        for j in 0..count {
            let entry = match i == j {
                true => {
                    let mut sum = zeros.clone();
                    for other in (0..count).filter(|other| *other != i) {
                        let x = share(other, i);
                        let square = lower.mul(&x, &x)?;
                        sum = lower.add(&sum, &square)?;
                    }
                    sum
                }
                false => {
                    let product = lower.mul(&share(j, i), &share(i, j))?;
                    lower.unary(Unary::Negate, &product)?
                }
            };
            entries.push(lower.unsqueeze(&entry, 1)?);
        }
    }
    let size = Term::constant(count as i64);
    let q = lower.concat(&entries, 1)?;
    let q = lower.reshape(&q, &[rows.clone(), size.clone(), size.clone()])?;
    let p = lower.splat(ty, 1.0 / count as f64, &[rows, size])?;
    let rounds = Term::constant(MIN_ROUNDS.max(count as i64));
    let done = lower.counted_loop(&rounds, &[q], &[p], |lower, _, read, state| {
        let (q, mut p) = (&read[0], state[0].clone());
        let times = |lower: &mut Lowerer<'_>, p: &Value| lower.dot(q, p, &[(0, 0)], &[(2, 1)]);
        let mut qp = times(lower, &p)?;
        let product = lower.mul(&p, &qp)?;
        let mut whole = lower.reduce(&product, Fold::Sum, &[1], true)?;
        let error = lower.sub(&qp, &whole)?;
        let error = lower.unary(Unary::Abs, &error)?;
        let error = lower.reduce(&error, Fold::Max, &[1], true)?;
        let enough = lower.like(&error, ENOUGH / count as f64)?;
        let is_done = lower.compare(Direction::Lt, &error, &enough)?;
        for class in 0..count as i64 {
            let (from, to) = (Term::constant(class), Term::constant(class + 1));
            let own = lower.slice(&qp, 1, &from, &to, 1)?;
            let column = lower.slice(q, 2, &from, &to, 1)?;
            let column = lower.squeeze(&column, 2)?;
            let diagonal = lower.slice(&column, 1, &from, &to, 1)?;
            let lack = lower.sub(&whole, &own)?;
            let step = lower.div(&lack, &diagonal)?;
            let grown = lower.shifted(&step, 1.0)?;
            // whole = (whole + step (step Q_cc + 2 (Qp)_c)) / (1 + step)^2
            let twice = lower.scaled(&own, 2.0)?;
            let more = lower.mul(&step, &diagonal)?;
            let more = lower.add(&more, &twice)?;
            let more = lower.mul(&step, &more)?;
            let square = lower.mul(&grown, &grown)?;
            whole = lower.add(&whole, &more)?;
            whole = lower.div(&whole, &square)?;
            let shift = lower.mul(&step, &column)?;
            qp = lower.add(&qp, &shift)?;
            qp = lower.div(&qp, &grown)?;
            let places = lower.iota(ElementType::S64, &p.dims.clone(), 1)?;
            let number = lower.like(&places, class as f64)?;
            let is_own = lower.compare(Direction::Eq, &places, &number)?;
            let moved = lower.add(&p, &step)?;
            p = lower.select(&is_own, &moved, &p)?;
            p = lower.div(&p, &grown)?;
        }
        Ok(vec![lower.select(&is_done, &state[0], &p)?])
    })?;
    let p = done.into_iter().next();
    p.ok_or_else(|| Error::input("a loop of one value has one result"))
}
