//! Linear classifiers and regressors.

use super::super::{Lowering, one};
use super::{
    best_label, both_sides, class_labels, floats, label_above, list, matrix, rows, transformed,
};
use crate::Error;
use crate::lower::{Call, Item, Lowerer, Result, Value};
use tegula_ir::ElementType;

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "LinearRegressor" => regressor,
        "LinearClassifier" => classifier,
        _ => return None,
    };
    Some(lowering)
}

/// The product of each row with each row of coefficients, plus the intercepts.
fn scores(lower: &mut Lowerer<'_>, call: &Call<'_, '_>, x: &Value, count: usize) -> Result<Value> {
    let coefficients = floats(call, lower, "coefficients")?;
    let coefficients = matrix(x.ty, &coefficients, count)?;
    let y = lower.dot(x, &coefficients, &[], &[(1, 1)])?;
    let intercepts = floats(call, lower, "intercepts")?;
    match intercepts.is_empty() {
        true => Ok(y),
        false => {
            let intercepts = list(x.ty, &intercepts)?;
            lower.add(&y, &intercepts)
        }
    }
}

fn regressor<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = rows(lower, call)?;
    let count = usize::try_from(call.int("targets", 1)).unwrap_or(0);
    let y = scores(lower, call, &x, count)?;
    one(transformed(lower, call, &y)?)
}

fn classifier<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = rows(lower, call)?;
    let labels = class_labels(call, "classlabels_ints", "classlabels_strings")?;
    let count = floats(call, lower, "intercepts")?.len();
    let count = if count == 0 { labels.len() } else { count };
    let scores = scores(lower, call, &x, count)?;
    let (label, y) = match (count, labels.as_slice()) {
        (1, [first, second]) => (
            label_above(lower, &scores, 0.0, [*first, *second])?,
            both_sides(lower, call, &scores)?,
        ),
        (1, _) => {
            return Err(Error::input(
                "expected two labels for one row of coefficients",
            ));
        }
        _ => (
            best_label(lower, &scores, &labels)?,
            transformed(lower, call, &scores)?,
        ),
    };
    Ok(vec![
        label.into(),
        lower.convert(&y, ElementType::F32)?.into(),
    ])
}
