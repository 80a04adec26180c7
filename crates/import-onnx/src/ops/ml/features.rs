//! Preprocessing of features: scaling, imputing, encoding of labels and categories.

use super::super::{Lowering, one};
use super::{floats, int_list, ints, list};
use crate::Error;
use crate::lower::{Call, Fold, Item, Lowerer, Result, Value};
use tegula_expr::Term;
use tegula_ir::{Binary, Direction, ElementType, Unary};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "ArrayFeatureExtractor" => extract,
        "Binarizer" => binarize,
        "FeatureVectorizer" => vectorize,
        "Imputer" => impute,
        "LabelEncoder" => encode_labels,
        "Normalizer" => normalize,
        "OneHotEncoder" => one_hot,
        "Scaler" => scale,
        "ZipMap" => zip_map,
        _ => return None,
    };
    Some(lowering)
}

fn last_of(x: &Value) -> Result<usize> {
    let last = x.rank().checked_sub(1);
    last.ok_or_else(|| {
        Error::input("expected an input with at least one dimension, found a scalar")
    })
}

/// Selects columns of the last dimension; a list gives one row.
fn extract<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let (x, places) = (call.input(0)?, call.input(1)?);
    let all = places
        .dims
        .iter()
        .fold(Term::constant(1), |n, size| n.mul(size));
    let places = lower.reshape(&places, &[all])?;
    let places = lower.convert(&places, ElementType::S64)?;
    let y = lower.take(&x, &places, last_of(&x)?)?;
    one(match y.rank() {
        1 => lower.unsqueeze(&y, 0)?,
        _ => y,
    })
}

fn binarize<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let bound = lower.like(&x, call.float("threshold", 0.0))?;
    let above = lower.compare(Direction::Gt, &x, &bound)?;
    one(lower.convert(&above, x.ty)?)
}

fn vectorize<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let widths = ints(call, "inputdimensions");
    let mut parts = Vec::new();
    for (at, width) in (0..call.inputs.len()).zip(widths) {
        let x = lower.convert(&call.input(at)?, ElementType::F32)?;
        let rows = x.size(0)?.clone();
        let all = x.dims.iter().fold(Term::constant(1), |n, size| n.mul(size));
        let own = match rows.as_constant() {
            Some(0) => Term::constant(width),
            _ => lower.canonical(&all.floor_div(&rows)),
        };
        let x = lower.reshape(&x, &[rows, own])?;
        let zero = lower.like(&x, 0.0)?;
        let more = Term::constant(width).sub(&x.dims[1]);
        let none = Term::constant(0);
        let (low, high) = ([none.clone(), none.clone()], [none, more]);
        parts.push(lower.pad(&x, &zero, &low, &high)?);
    }
    one(lower.concat(&parts, 1)?)
}

/// Whether elements are equal to a number; NaN equals itself.
fn is_number(lower: &mut Lowerer<'_>, x: &Value, number: f64) -> Result<Value> {
    match number.is_nan() {
        true => lower.compare(Direction::Ne, x, x),
        false => {
            let number = lower.like(x, number)?;
            lower.compare(Direction::Eq, x, &number)
        }
    }
}

fn impute<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let (new, old) = match x.ty.is_integer() {
        true => (
            int_list(x.ty, &ints(call, "imputed_value_int64s"))?,
            Value::of_integers(x.ty, &[], &[call.int("replaced_value_int64", 0)])?,
        ),
        false => {
            let new = floats(call, lower, "imputed_value_floats")?;
            let old = call.float("replaced_value_float", 0.0);
            (list(x.ty, &new)?, lower.like(&x, old)?)
        }
    };
    let is_old = match old.floats().as_deref() {
        Some([number]) if number.is_nan() => lower.compare(Direction::Ne, &x, &x)?,
        _ => lower.compare(Direction::Eq, &x, &old)?,
    };
    one(lower.select(&is_old, &new, &x)?)
}

/// Maps each element to the value for its key, or to a default.
fn encode_labels<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let has_strings = ["keys_strings", "values_strings", "classes_strings"]
        .iter()
        .any(|name| (call.attribute(name)).is_some_and(|a| !a.strings.is_empty()));
    if has_strings {
        return Err(Error::unsupported("string labels are not supported"));
    }
    let tensor = |name: &str| -> Result<Option<Value>> {
        let found = call.attribute(name).and_then(|a| a.tensor.as_ref());
        found.map(|tensor| lower.constant_of(tensor)).transpose()
    };
    let keys = match (tensor("keys_tensor")?, x.ty.is_integer()) {
        (Some(keys), _) => keys,
        (None, true) => int_list(x.ty, &ints(call, "keys_int64s"))?,
        (None, false) => list(x.ty, &floats(call, lower, "keys_floats")?)?,
    };
    let default = tensor("default_tensor")?;
    let of_ints = ints(call, "values_int64s");
    let (values, default) = match (tensor("values_tensor")?, of_ints.is_empty()) {
        (Some(values), _) => {
            let default = match default {
                Some(default) => lower.reshape(&default, &[])?,
                None if values.ty.is_integer() => lower.like(&values, -1.0)?,
                None => lower.like(&values, 0.0)?,
            };
            (values, default)
        }
        (None, false) => {
            let default = call.int("default_int64", -1);
            let default = Value::of_integers(ElementType::S64, &[], &[default])?;
            (int_list(ElementType::S64, &of_ints)?, default)
        }
        (None, true) => {
            let values = list(ElementType::F32, &floats(call, lower, "values_floats")?)?;
            let default = call.float("default_float", 0.0);
            let default = lower.like(&values, default)?;
            (values, default)
        }
    };
    let (keys, count) = (lower.convert(&keys, x.ty)?, values.count().unwrap_or(0));
    if keys.rank() != 1 || keys.count() != Some(count) {
        return Err(Error::input("expected as many values as keys"));
    }
    // The index of each element's key; the number of keys if it has none.
    let wide = lower.unsqueeze(&x, x.rank())?;
    let mut is = lower.compare(Direction::Eq, &wide, &keys)?;
    // From version 4 on, NaN can be a key.
    if call.version >= 4
        && keys
            .floats()
            .is_some_and(|keys| keys.iter().any(|key| key.is_nan()))
    {
        let nan_key = lower.compare(Direction::Ne, &keys, &keys)?;
        let nan = lower.compare(Direction::Ne, &wide, &wide)?;
        let both = lower.binary(Binary::And, &nan, &nan_key)?;
        is = lower.binary(Binary::Or, &is, &both)?;
    }
    let places = lower.iota(ElementType::S64, &is.dims.clone(), x.rank())?;
    let none = Value::of_integers(ElementType::S64, &[], &[count as i64])?;
    let found = lower.select(&is, &places, &none)?;
    let found = lower.reduce(&found, Fold::Min, &[x.rank()], false)?;
    let found = lower.min(&found, &none)?;
    let default = lower.reshape(&default, &[Term::constant(1)])?;
    let table = lower.concat(&[values, default], 0)?;
    one(lower.take(&table, &found, 0)?)
}

/// Divides rows by their largest element, the sum of their magnitudes, or their length; rows for
/// which that is zero are unchanged.
fn normalize<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = lower.convert(&call.input(0)?, ElementType::F32)?;
    let last = last_of(&x)?;
    let norm = match call.text("norm", "MAX") {
        "MAX" => lower.reduce(&x, Fold::Max, &[last], true)?,
        "L1" => {
            let size = lower.unary(Unary::Abs, &x)?;
            lower.reduce(&size, Fold::Sum, &[last], true)?
        }
        "L2" => {
            let square = lower.mul(&x, &x)?;
            let sum = lower.reduce(&square, Fold::Sum, &[last], true)?;
            lower.unary(Unary::Sqrt, &sum)?
        }
        other => {
            return Err(Error::input(format!(
                "`norm` is `{other}`: expected MAX, L1 or L2"
            )));
        }
    };
    let is_zero = is_number(lower, &norm, 0.0)?;
    let y = lower.div(&x, &norm)?;
    one(lower.select(&is_zero, &x, &y)?)
}

/// One-hot encoding: a 1 in the column of an element's category; zeros if it has none.
fn one_hot<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = call.input(0)?;
    let categories = ints(call, "cats_int64s");
    if categories.is_empty() {
        return Err(Error::unsupported("string categories are not supported"));
    }
    let x = lower.convert(&x, ElementType::S64)?;
    let categories = int_list(ElementType::S64, &categories)?;
    let wide = lower.unsqueeze(&x, x.rank())?;
    let is = lower.compare(Direction::Eq, &wide, &categories)?;
    one(lower.convert(&is, ElementType::F32)?)
}

/// `(x - offset) * scale`.
fn scale<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = lower.convert(&call.input(0)?, ElementType::F32)?;
    let mut y = x.clone();
    let offset = floats(call, lower, "offset")?;
    if !offset.is_empty() {
        let offset = list(x.ty, &offset)?;
        y = lower.sub(&y, &offset)?;
    }
    let scale = floats(call, lower, "scale")?;
    if !scale.is_empty() {
        let scale = list(x.ty, &scale)?;
        y = lower.mul(&y, &scale)?;
    }
    one(y)
}

/// A map from labels to scores for each row is represented by the array of the scores, in the order
/// of the labels.
fn zip_map<'a>(_: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    one(call.input(0)?)
}
