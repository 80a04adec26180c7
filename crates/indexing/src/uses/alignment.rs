//! Alignment and contiguity: whether an offset is always a multiple of 128, the stride between
//! adjacent elements, and how many elements are contiguous.
//!
//! "Yes" comes with the facts that prove it, "no" with a point at which the statement is false.

use std::fmt;

use tegula_expr::{Canonicalizer, Interval, Names, Residue, Style, Term, Var};

use crate::map::{IndexingMap, Status};
use crate::simplify::{Explained, refined};

/// The most elements of one load.
const MAX_WIDTH: i64 = 1 << 20;
/// The most points tried when searching for a counterexample.
const MAX_TRIES: usize = 4096;

/// A proof that something holds on a whole domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The rewrites from the original term to `term`.
    pub steps: Vec<Explained>,
    /// The simplest form of the term.
    pub term: Term,
    /// An interval that contains all its values.
    pub range: Interval,
    /// The residue of all its values.
    pub residue: Residue,
}

impl Proof {
    /// Displays the proof, one step per line, with the names of variables.
    pub fn display<'a, N: Names + ?Sized>(&'a self, names: &'a N) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| {
            for step in &self.steps {
                writeln!(f, "{}", step.display(names, Style::Xla))?;
            }
            let term = self.term.display(names, Style::Xla);
            let Interval { lower, upper } = self.range;
            let Residue { modulus, remainder } = self.residue;
            write!(f, "{term} in [{lower}, {upper}]")?;
            match modulus {
                0 => write!(f, ", is {remainder}"),
                1 => Ok(()),
                _ => write!(f, ", leaves {remainder} modulo {modulus}"),
            }
        })
    }
}

/// The answer to a question about all points of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The statement holds everywhere.
    Yes(Box<Proof>),
    /// The statement is false at this point (the values of all variables).
    No(Vec<i64>),
    /// Neither a proof nor a counterexample was found.
    Unknown,
}

impl Answer {
    /// Whether the statement is proved.
    pub fn is_yes(&self) -> bool {
        matches!(self, Self::Yes(_))
    }
}

/// The proven facts about a term on the domain of a map.
fn prove(map: &IndexingMap, term: &Term) -> Option<Proof> {
    let domain = refined(map)?;
    let mut canonicalizer = Canonicalizer::new(&domain);
    for constraint in &map.constraints {
        canonicalizer.assume(&constraint.term, constraint.interval);
    }
    canonicalizer.trace();
    let simple = canonicalizer.canonicalize(term);
    let steps = canonicalizer.take_steps().into_iter().map(Explained::from);
    let steps = steps.collect();
    let (range, residue) = canonicalizer.facts_of(&simple);
    Some(Proof {
        steps,
        term: simple,
        range,
        residue,
    })
}

/// Whether a term over the map's variables is a multiple of `modulus` at every
/// point of the map's domain.
///
/// ```
/// use tegula_indexing::{Answer, IndexingMap, is_multiple_of};
///
/// let map: IndexingMap = "(d0, d1) -> (d0 * 256 + d1), domain: \
///     d0 in [0, 7], d1 in [0, 255], d1 mod 128 in [0, 0]".parse()?;
/// assert!(is_multiple_of(&map, &map.results[0], 128).is_yes());
/// assert_eq!(is_multiple_of(&map, &map.results[0], 256), Answer::No(vec![0, 128]));
/// # Ok::<(), tegula_expr::ParseError>(())
/// ```
pub fn is_multiple_of(map: &IndexingMap, term: &Term, modulus: i64) -> Answer {
    if map.status != Status::Ok || modulus < 1 {
        return Answer::Unknown;
    }
    let Some(proof) = prove(map, term) else {
        return Answer::Unknown;
    };
    let Residue {
        modulus: known,
        remainder,
    } = proof.residue;
    if remainder % modulus == 0 && known % modulus == 0 {
        return Answer::Yes(Box::new(proof));
    }
    // `x mod m` may have facts that `x` does not show.
    let Some(rest) = prove(map, &term.modulo(&modulus.into())) else {
        return Answer::Unknown;
    };
    if rest.range.as_point() == Some(0) {
        return Answer::Yes(Box::new(rest));
    }
    counterexample(map, &|value| value % modulus == 0, term)
}

/// Whether a term over the map's variables is zero at every point of the domain.
pub(crate) fn is_zero(map: &IndexingMap, term: &Term) -> Answer {
    if map.status != Status::Ok {
        return Answer::Unknown;
    }
    match prove(map, term) {
        Some(proof) if proof.range.as_point() == Some(0) => Answer::Yes(Box::new(proof)),
        Some(_) => counterexample(map, &|value| value == 0, term),
        None => Answer::Unknown,
    }
}

/// A point of the domain at which the term's value does not satisfy `wanted`.
fn counterexample(map: &IndexingMap, wanted: &dyn Fn(i64) -> bool, term: &Term) -> Answer {
    let mut found = None;
    let mut exhausted = true;
    let mut tries = 0;
    crate::points::for_each_point(&map.bounds(), &mut |point| {
        tries += 1;
        if tries > MAX_TRIES {
            exhausted = false;
            return false;
        }
        if map.contains(point) == Ok(true) {
            let env = |var: Var| point.get(var.0 as usize).copied();
            match term.eval(&env) {
                Ok(value) if wanted(value) => {}
                Ok(_) => found = Some(point.to_vec()),
                Err(_) => exhausted = false,
            }
        }
        found.is_none()
    });
    match found {
        Some(point) => Answer::No(point),
        None if exhausted => {
            let range = tegula_expr::range_of(term, map);
            Answer::Yes(Box::new(Proof {
                steps: Vec::new(),
                term: term.clone(),
                range,
                residue: Residue::ANY,
            }))
        }
        None => Answer::Unknown,
    }
}

/// The stride of a result: by how much it changes when the variable with this number increases by
/// one, if that is the same everywhere on the domain; with a proof.
///
/// ```
/// use tegula_indexing::{IndexingMap, stride_along};
///
/// let map: IndexingMap =
///     "(d0, d1) -> (d0 * 96 + d1 * 2), domain: d0 in [0, 7], d1 in [0, 31]".parse()?;
/// assert_eq!(stride_along(&map, 0, 1).map(|(stride, _)| stride), Some(2));
/// # Ok::<(), tegula_expr::ParseError>(())
/// ```
pub fn stride_along(map: &IndexingMap, result: usize, variable: usize) -> Option<(i64, Proof)> {
    let term = map.results.get(result)?;
    let mut pairs = map.clone();
    // Both ends of a step must be in the domain.
    let own = Var(u32::try_from(variable).ok()?);
    let next = |term: &Term| {
        let plus_one = Term::var(own).add(&1.into());
        term.substitute(&mut |var| (var == own).then(|| plus_one.clone()))
    };
    let slot = pairs.variables_mut().nth(variable)?;
    slot.bounds.upper = slot.bounds.upper.checked_sub(1)?;
    for constraint in &map.constraints {
        pairs.constrain(next(&constraint.term), constraint.interval);
    }
    let proof = prove(&pairs, &next(term).sub(term))?;
    let stride = proof
        .term
        .as_constant()
        .or_else(|| proof.range.as_point())?;
    Some((stride, proof))
}

/// The number of elements that one vector load can take: the largest power of two, up to `most`,
/// such that a result increases by one with each of this many consecutive values of the variable,
/// counted from a multiple of it. 1 if nothing larger was proved.
///
/// ```
/// use tegula_indexing::{IndexingMap, contiguous_elements};
///
/// // Rows of 24 elements, eight of which are 32 apart from the next.
/// let map: IndexingMap =
///     "(d0) -> ((d0 / 8) * 32 + d0 mod 8), domain: d0 in [0, 23]".parse()?;
/// assert_eq!(contiguous_elements(&map, 0, 0, 16).0, 8);
/// # Ok::<(), tegula_expr::ParseError>(())
/// ```
pub fn contiguous_elements(
    map: &IndexingMap,
    result: usize,
    variable: usize,
    most: i64,
) -> (i64, Option<Proof>) {
    let mut best = (1, None);
    let mut width = 2;
    while width <= most.min(MAX_WIDTH) {
        match contiguous(map, result, variable, width) {
            Some(proof) => best = (width, Some(proof)),
            None => break,
        }
        width *= 2;
    }
    best
}

/// Proves `f(w * q + j) = f(w * q) + j` for `0 <= j < w`, inside the domain.
fn contiguous(map: &IndexingMap, result: usize, variable: usize, width: i64) -> Option<Proof> {
    let term = map.results.get(result)?;
    let own = Var(u32::try_from(variable).ok()?);
    let bounds = map.variables().nth(variable)?.bounds;
    if bounds.lower % width != 0 || bounds.count() % u128::try_from(width).ok()? != 0 {
        return None;
    }
    // The variable counts groups; a new run-time variable is the position in the group.
    let mut groups = map.clone();
    let place = groups.push_runtime(Interval::of_size(width), None);
    let slot = groups.variables_mut().nth(variable)?;
    slot.bounds = Interval::new(
        bounds.lower.div_euclid(width),
        bounds.upper.div_euclid(width),
    );
    let first = Term::var(own).mul(&width.into());
    let at =
        |term: &Term, value: &Term| term.substitute(&mut |var| (var == own).then(|| value.clone()));
    let inside = first.add(&place);
    groups.constraints.clear();
    for constraint in &map.constraints {
        groups.constrain(at(&constraint.term, &inside), constraint.interval);
        // A group must be entirely inside the domain or entirely outside.
        for (given, wanted) in [(&first, &inside), (&inside, &first)] {
            let mut whole = groups.clone();
            whole.constraints.clear();
            whole.constrain(at(&constraint.term, given), constraint.interval);
            let proof = prove(&whole, &at(&constraint.term, wanted))?;
            if !constraint.interval.contains_all(&proof.range) {
                return None;
            }
        }
    }
    let difference = at(term, &inside).sub(&at(term, &first)).sub(&place);
    let proof = prove(&groups, &difference)?;
    (proof.range.as_point() == Some(0)).then_some(proof)
}
