//! Reads Shardy's sharding rules of custom calls: `#sdy.op_sharding_rule<([i, j], [j, k])->([i, k])
//! {i=32, j=16, k=8} reduction={j}, custom>`.
//!
//! Each dimension of an operand or a result has factors, the most major first: `ij` has two of
//! them. Dimensions that begin with the same factor are cut in the same way. Factors in
//! `need_replication={...}` are not cut.

use super::cursor::Cursor;

/// The dimensions that a factor of a rule relates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Factor {
    /// For each operand, the dimension that begins with the factor.
    pub(crate) operands: Vec<Option<usize>>,
    /// For each result, the dimension that begins with the factor.
    pub(crate) results: Vec<Option<usize>>,
    /// The size of the factor, if a dimension has other factors after it; it must then be cut into
    /// equal parts.
    pub(crate) divided: Option<i64>,
}

/// The factors of a rule that may be cut, in order of occurrence; [`None`] if the text is not a
/// rule.
pub(crate) fn factors(text: &str) -> Option<Vec<Factor>> {
    let mut cursor = Cursor::new(text);
    cursor.expect("#sdy.op_sharding_rule<(")?;
    let operands = cursor.list(")", dimensions)?;
    cursor.expect("->(")?;
    let results = cursor.list(")", dimensions)?;
    let mut sizes = Vec::new();
    if cursor.eat("{") {
        sizes = cursor.list("}", |cursor| {
            let name = cursor.word()?;
            cursor.expect("=")?;
            Some((name, cursor.number()?))
        })?;
    }
    let whole = whole_factors(text);
    let dims = || operands.iter().chain(&results).flatten();
    let mut names: Vec<&str> = Vec::new();
    for name in dims().map(|dim| first_factor(dim)) {
        if !names.contains(&name) && !whole.contains(&name) {
            names.push(name);
        }
    }
    let of = |name: &str, arrays: &[Vec<&str>]| {
        let place = |dims: &Vec<&str>| dims.iter().position(|dim| first_factor(dim) == name);
        arrays.iter().map(place).collect()
    };
    let factor = |name: &&str| {
        let has_others = dims().any(|dim| first_factor(dim) == *name && dim != name);
        let size = sizes.iter().find(|(own, _)| own == name);
        Factor {
            operands: of(name, &operands),
            results: of(name, &results),
            divided: has_others.then(|| size.map_or(1, |(_, size)| *size)),
        }
    };
    Some(names.iter().map(factor).collect())
}

/// Reads the dimensions of an array: `[i, jk]`.
fn dimensions<'t>(cursor: &mut Cursor<'t>) -> Option<Vec<&'t str>> {
    cursor.expect("[")?;
    cursor.list("]", Cursor::word)
}

/// The first factor of a dimension: a letter, or `z` with a number (`z_1`) when all letters are
/// used.
fn first_factor(dimension: &str) -> &str {
    let mut letters = dimension.match_indices(|c: char| c.is_ascii_alphabetic());
    let second = letters.nth(1).map(|(at, _)| at);
    &dimension[..second.unwrap_or(dimension.len())]
}

/// The factors of `need_replication={...}`.
fn whole_factors(text: &str) -> Vec<&str> {
    let behind = text.split_once("need_replication={");
    let inside = behind.and_then(|(_, rest)| rest.split_once('}'));
    let names = inside.map_or("", |(names, _)| names);
    names.split(',').map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_of_one_factor_go_together() {
        let text = "#sdy.op_sharding_rule<([i, j], [j, k])->([i, k], []) {i=32, j=16, k=8} reduction={j}, custom>";
        let factor = |operands: [Option<usize>; 2], results: [Option<usize>; 2]| Factor {
            operands: operands.into(),
            results: results.into(),
            divided: None,
        };
        let expected = [
            factor([Some(0), None], [Some(0), None]),
            factor([Some(1), Some(0)], [None, None]),
            factor([None, Some(1)], [Some(1), None]),
        ];
        assert_eq!(factors(text).as_deref(), Some(&expected[..]));
    }

    #[test]
    fn dimensions_of_several_factors_are_cut_along_the_first() {
        let text = "#sdy.op_sharding_rule<([iz_1, k])->([i, jk]) {i=2, j=4, k=8, z_1=3} need_replication={k}>";
        let factor = |operand, result, divided| Factor {
            operands: vec![operand],
            results: vec![result],
            divided,
        };
        let expected = [
            factor(Some(0), Some(0), Some(2)),
            factor(None, Some(1), Some(4)),
        ];
        assert_eq!(factors(text).as_deref(), Some(&expected[..]));
        assert_eq!(factors("([i])->([i])"), None);
    }
}
