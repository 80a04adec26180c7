//! Text features: counts of n-grams.

use super::{Lowering, one};
use crate::Error;
use crate::lower::{Call, Fold, Item, Lowerer, Result, Value};
use tegula_expr::Term;
use tegula_ir::{Binary, Direction, ElementType};

pub(super) fn find(op: &str) -> Option<Lowering> {
    (op == "TfIdfVectorizer").then_some(tf_idf as Lowering)
}

/// The weighted number of occurrences of each n-gram in each row. Adjacent elements of an n-gram
/// may be separated by up to `max_skip_count` other elements, the same number between all.
fn tf_idf<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let is_list = x.rank() == 1;
    let x = match is_list {
        true => lower.unsqueeze(&x, 0)?,
        false => x,
    };
    if x.rank() != 2 {
        return Err(Error::input("expected a list, or rows of a batch"));
    }
    let pool = call.ints("pool_int64s").filter(|pool| !pool.is_empty());
    let pool = pool.ok_or_else(|| Error::unsupported("n-grams of strings are not supported"))?;
    let counts = call.ints("ngram_counts").unwrap_or_default();
    let columns = call.ints("ngram_indexes").unwrap_or_default();
    let width = columns.iter().max().map_or(0, |most| most + 1);
    if !(1..=1 << 20).contains(&width) || columns.iter().any(|at| *at < 0) {
        return Err(Error::input(
            "expected from 1 to 2^20 `ngram_indexes`, none below 0",
        ));
    }
    let (shortest, longest) = (
        call.int("min_gram_length", 1),
        call.int("max_gram_length", 1),
    );
    let skips = call.int("max_skip_count", 0).clamp(0, 1 << 16);
    let x = lower.convert(&x, ElementType::S64)?;
    let mut whole = lower.splat(
        ElementType::F32,
        0.0,
        &[x.dims[0].clone(), Term::constant(width)],
    )?;
    let mut first_gram = 0;
    for (at, start) in counts.iter().enumerate() {
        let size = at + 1;
        let end = counts.get(at + 1).copied().unwrap_or(pool.len() as i64);
        let range = usize::try_from(*start).ok().zip(usize::try_from(end).ok());
        let grams = range.and_then(|(from, to)| pool.get(from..to));
        let grams = grams.ok_or_else(|| {
            Error::input("a number in `ngram_counts` is out of range for the pool")
        })?;
        let number = grams.len() / size;
        let own = columns.get(first_gram..first_gram + number);
        let own = own.ok_or_else(|| Error::input("`ngram_indexes` has too few numbers"))?;
        first_gram += number;
        if number == 0 || (size as i64) < shortest || (size as i64) > longest {
            continue;
        }
        let grams = &grams[..number * size];
        let skips = if size == 1 { 0 } else { skips };
        for distance in 1..=skips + 1 {
            let found = grams_at_distance(lower, &x, grams, size, distance)?;
            // Moves the count of each n-gram to its column.
            let rows = lower.transpose(&found, &[1, 0])?;
            let places = Value::of_integers(ElementType::S64, &[number as i64, 1], own)?;
            let sum = lower.transpose(&whole, &[1, 0])?;
            let sum = lower.scatter_nd(&sum, &places, &rows, Some(Binary::Add))?;
            whole = lower.transpose(&sum, &[1, 0])?;
        }
    }
    let weights = call.attribute("weights").map(|a| a.floats.as_slice());
    let weights = weights.filter(|list| !list.is_empty());
    let weights = match weights {
        Some(list) => {
            let mut row = vec![0.0; width as usize];
            for (column, weight) in columns.iter().zip(list) {
                row[*column as usize] = f64::from(*weight);
            }
            Some(Value::of_floats(ElementType::F32, &[width], &row)?)
        }
        None => None,
    };
    let mode = call.text("mode", "TF");
    if mode == "IDF" {
        let zero = lower.like(&whole, 0.0)?;
        let has = lower.compare(Direction::Gt, &whole, &zero)?;
        whole = lower.convert(&has, ElementType::F32)?;
    }
    if let (Some(weights), "IDF" | "TFIDF") = (weights, mode) {
        whole = lower.mul(&whole, &weights)?;
    }
    one(match is_list {
        true => lower.squeeze(&whole, 0)?,
        false => whole,
    })
}

/// The number of occurrences in each row of n-grams of one size, at a fixed distance between
/// elements.
fn grams_at_distance(
    lower: &mut Lowerer<'_>,
    x: &Value,
    grams: &[i64],
    size: usize,
    distance: i64,
) -> Result<Value> {
    let number = (grams.len() / size) as i64;
    let reach = distance * (size as i64 - 1);
    let room = Term::max(&x.dims[1].sub(&Term::constant(reach)), &Term::constant(0));
    let room = lower.canonical(&room);
    let mut all: Option<Value> = None;
    for part in 0..size {
        let start = Term::constant(distance * part as i64);
        let elements = lower.slice(x, 1, &start, &start.add(&room), 1)?;
        let elements = lower.unsqueeze(&elements, 2)?;
        let wanted: Vec<i64> = grams.chunks(size).map(|gram| gram[part]).collect();
        let wanted = Value::of_integers(ElementType::S64, &[number], &wanted)?;
        let same = lower.compare(Direction::Eq, &elements, &wanted)?;
        all = Some(match all {
            Some(all) => lower.binary(Binary::And, &all, &same)?,
            None => same,
        });
    }
    let all = all.ok_or_else(|| Error::input("an n-gram has at least one element"))?;
    let ones = lower.convert(&all, ElementType::F32)?;
    lower.reduce(&ones, Fold::Sum, &[1], false)
}
