//! Operand utilisation: how many elements of an operand are read, and how often.
//!
//! Counts are exact. For small operands, a bit set marks the elements. For large ones, results that
//! share no variable are independent, so the elements that are read form a product. Each factor is
//! an arithmetic progression or is enumerated, and several maps are united by inclusion and
//! exclusion.

use tegula_expr::{Interval, Residue, Term};

use crate::map::{Exactness, IndexingMap, RuntimeSource};
use crate::points::{box_size, for_each_point};
use crate::simplify::Simplifier;

/// The most points that are enumerated.
const MAX_POINTS: u128 = 1 << 22;
/// The most term nodes evaluated for one enumeration.
const MAX_WORK: u128 = 1 << 26;
/// The most maps whose elements are marked.
const MAX_MARKED: usize = 64;
/// The most maps that are united by inclusion and exclusion.
const MAX_UNITED: usize = 8;

/// Whether terms can be evaluated at every point of a box.
fn is_affordable<'a>(bounds: &[Interval], terms: impl Iterator<Item = &'a Term>) -> bool {
    let nodes = terms.fold(1u128, |sum, term| sum + u128::from(term.size()));
    let points = box_size(bounds).unwrap_or(u128::MAX);
    points <= MAX_POINTS && points.saturating_mul(nodes) <= MAX_WORK
}

/// How much of an operand is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Utilization {
    /// The number of elements that are read at least once.
    pub distinct: u128,
    /// The number of elements of the operand.
    pub elements: u128,
    /// The number of reads in total: the points of the maps' domains.
    pub reads: u128,
    /// Whether the maps are exact; otherwise the counts are upper bounds.
    pub exact: bool,
}

impl Utilization {
    /// The fraction of the operand that is read, from 0 to 1.
    pub fn fraction(&self) -> f64 {
        if self.elements == 0 {
            return 0.0;
        }
        self.distinct as f64 / self.elements as f64
    }

    /// The average number of reads of those elements that are read.
    pub fn reads_per_element(&self) -> f64 {
        if self.distinct == 0 {
            return 0.0;
        }
        self.reads as f64 / self.distinct as f64
    }
}

/// The utilisation of an operand of the given sizes that is read through all of the maps
/// (simplified maps are the fastest). `None` if it cannot be counted: for an undefined map, sizes
/// known at run time, or a large operand whose accesses do not factor.
///
/// A run-time offset that is the same for a whole run is taken at its smallest value. One that
/// depends on the point may have any value, so the count is an upper bound.
///
/// ```
/// use tegula_indexing::{IndexingMap, utilization};
///
/// // Every second column, each three times.
/// let map: IndexingMap = "(d0, d1)[s0] -> (d0, d1 * 2), domain: \
///     d0 in [0, 9999], d1 in [0, 49999], s0 in [0, 2]".parse()?;
/// let used = utilization(&[map], &[10_000, 100_000]).expect("a product");
/// assert_eq!((used.distinct, used.fraction()), (500_000_000, 0.5));
/// assert_eq!(used.reads_per_element(), 3.0);
/// # Ok::<(), tegula_expr::ParseError>(())
/// ```
pub fn utilization(maps: &[IndexingMap], sizes: &[i64]) -> Option<Utilization> {
    let elements = sizes.iter().try_fold(1u128, |product, size| {
        product.checked_mul(u128::try_from(*size).ok()?)
    })?;
    let mut exact = true;
    let mut simplifier = Simplifier::new();
    let mut prepared: Vec<IndexingMap> = Vec::new();
    for map in maps {
        if map.is_undefined() {
            return None;
        }
        if map.is_empty() {
            continue;
        }
        if map.results.len() != sizes.len() {
            return None;
        }
        exact &= map.exactness == Exactness::Exact;
        let (map, is_fixed) = with_fixed_offsets(map)?;
        exact &= is_fixed;
        let map = simplifier.simplify_map(&map);
        if !map.is_empty() {
            prepared.push(map);
        }
    }
    let mut reads = 0u128;
    for map in &prepared {
        reads = reads.checked_add(count_points(map)?)?;
    }
    let distinct = by_bits(&prepared, sizes, elements).or_else(|| by_products(&prepared))?;
    Some(Utilization {
        distinct: distinct.min(elements),
        elements,
        reads,
        exact,
    })
}

/// Fixes run-time variables that have one value per run at their lower bounds; also returns whether
/// the count is exact then.
fn with_fixed_offsets(map: &IndexingMap) -> Option<(IndexingMap, bool)> {
    let mut fixed = map.clone();
    let mut exact = true;
    for runtime in &mut fixed.runtime {
        match &runtime.source {
            Some(RuntimeSource::Size(_)) => return None,
            Some(RuntimeSource::Element { index, .. })
                if index.iter().any(|term| term.as_constant().is_none()) =>
            {
                exact = false;
            }
            _ => {
                let lower = runtime.variable.bounds.lower;
                runtime.variable.bounds = Interval::point(lower);
            }
        }
        // From here on, the variable is treated as a range.
        runtime.source = None;
    }
    Some((fixed, exact))
}

/// The number of points of a domain, as the product over the components of variables that
/// constraints connect.
fn count_points(map: &IndexingMap) -> Option<u128> {
    let all: Vec<usize> = (0..map.variable_count()).collect();
    let mut total = 1u128;
    for group in components(map, &[], &all) {
        let count = if group.constraints.is_empty() {
            box_size(&group.bounds)?
        } else {
            group.count(map, &[])?.0
        };
        total = total.checked_mul(count)?;
    }
    Some(total)
}

/// A component of variables, with its results and constraints.
struct Group {
    variables: Vec<usize>,
    bounds: Vec<Interval>,
    results: Vec<usize>,
    constraints: Vec<usize>,
}

impl Group {
    /// The number of points, and the different values of the results.
    fn count(&self, map: &IndexingMap, results: &[usize]) -> Option<(u128, Vec<Vec<i64>>)> {
        let constraints = self
            .constraints
            .iter()
            .filter_map(|n| map.constraints.get(*n));
        let terms = results.iter().filter_map(|result| map.results.get(*result));
        if !is_affordable(&self.bounds, terms.chain(constraints.map(|c| &c.term))) {
            return None;
        }
        let mut points = 0u128;
        let mut values: Vec<Vec<i64>> = Vec::new();
        let mut failed = false;
        for_each_point(&self.bounds, &mut |point| {
            let env = |var: tegula_expr::Var| {
                let position = self.variables.binary_search(&(var.0 as usize)).ok()?;
                point.get(position).copied()
            };
            let inside = self.constraints.iter().try_fold(true, |inside, number| {
                let constraint = map.constraints.get(*number)?;
                let value = constraint.term.eval(&env).ok()?;
                Some(inside && constraint.interval.contains(value))
            });
            match inside {
                None => failed = true,
                Some(false) => {}
                Some(true) => {
                    points += 1;
                    let terms = results.iter().filter_map(|result| map.results.get(*result));
                    match terms.map(|term| term.eval(&env)).collect() {
                        Ok(own) => values.push(own),
                        Err(_) => failed = true,
                    }
                }
            }
            !failed
        });
        if failed {
            return None;
        }
        values.sort_unstable();
        values.dedup();
        Some((points, values))
    }
}

fn variables_of(term: &Term) -> Vec<usize> {
    let mut found = Vec::new();
    term.for_each_var(&mut |var| found.push(var.0 as usize));
    found
}

/// The components of `variables` under shared results and constraints.
fn components(map: &IndexingMap, results: &[usize], variables: &[usize]) -> Vec<Group> {
    let mut group_of: Vec<usize> = (0..map.variable_count()).collect();
    fn root(group_of: &[usize], var: usize) -> usize {
        let mut var = var;
        while let Some(next) = group_of.get(var).copied().filter(|next| *next != var) {
            var = next;
        }
        var
    }
    let mut unite = |term: &Term| {
        let own = variables_of(term);
        for pair in own.windows(2) {
            if let [a, b] = pair {
                let (a, b) = (root(&group_of, *a), root(&group_of, *b));
                if let Some(slot) = group_of.get_mut(a.max(b)) {
                    *slot = a.min(b);
                }
            }
        }
    };
    results
        .iter()
        .filter_map(|result| map.results.get(*result))
        .for_each(&mut unite);
    map.constraints.iter().for_each(|c| unite(&c.term));
    let bounds = map.bounds();
    let mut groups: Vec<(usize, Group)> = Vec::new();
    for var in variables {
        let own = root(&group_of, *var);
        let position = groups.iter().position(|(root, _)| *root == own);
        let position = position.unwrap_or_else(|| {
            groups.push((
                own,
                Group {
                    variables: Vec::new(),
                    bounds: Vec::new(),
                    results: Vec::new(),
                    constraints: Vec::new(),
                },
            ));
            groups.len() - 1
        });
        if let Some((_, group)) = groups.get_mut(position) {
            group.variables.push(*var);
            group.bounds.extend(bounds.get(*var));
        }
    }
    let place = |term: &Term, groups: &[(usize, Group)]| {
        let first = variables_of(term).first().copied()?;
        let own = root(&group_of, first);
        groups.iter().position(|(root, _)| *root == own)
    };
    for result in results {
        let position = map
            .results
            .get(*result)
            .and_then(|term| place(term, &groups));
        if let Some((_, group)) = position.and_then(|position| groups.get_mut(position)) {
            group.results.push(*result);
        }
    }
    for (number, constraint) in map.constraints.iter().enumerate() {
        let position = place(&constraint.term, &groups);
        if let Some((_, group)) = position.and_then(|position| groups.get_mut(position)) {
            group.constraints.push(number);
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Counts distinct elements by marking each one.
fn by_bits(maps: &[IndexingMap], sizes: &[i64], elements: u128) -> Option<u128> {
    if elements > MAX_POINTS {
        return None;
    }
    let all_affordable = maps.iter().all(|map| {
        let constraints = map.constraints.iter().map(|c| &c.term);
        is_affordable(&map.bounds(), map.results.iter().chain(constraints))
    });
    if !all_affordable || maps.len() > MAX_MARKED {
        return None;
    }
    let mut marks = vec![false; usize::try_from(elements).ok()?];
    let mut failed = false;
    for map in maps {
        for_each_point(&map.bounds(), &mut |point| {
            match map.evaluate(point) {
                Ok(Some(index)) => {
                    let flat = index.iter().zip(sizes).try_fold(0i64, |flat, (i, n)| {
                        (0..*n).contains(i).then(|| flat * n + i)
                    });
                    let slot = flat.and_then(|flat| marks.get_mut(usize::try_from(flat).ok()?));
                    match slot {
                        Some(slot) => *slot = true,
                        None => failed = true,
                    }
                }
                Ok(None) => {}
                Err(_) => failed = true,
            }
            !failed
        });
    }
    (!failed).then(|| marks.iter().filter(|mark| **mark).count() as u128)
}

/// The set of values of some results.
#[derive(Clone)]
enum Factor {
    /// One result: an arithmetic progression, given by its ends and residue.
    Progression(Interval, Residue),
    /// Any results: all values, sorted.
    Values(Vec<Vec<i64>>),
}

impl Factor {
    fn count(&self) -> u128 {
        match self {
            Self::Progression(interval, residue) => {
                let step = u128::try_from(residue.modulus.max(1)).unwrap_or(1);
                let snapped = interval.snap(residue);
                match snapped.count() {
                    0 => 0,
                    count => (count - 1) / step + 1,
                }
            }
            Self::Values(values) => values.len() as u128,
        }
    }

    fn contains(&self, value: &[i64]) -> bool {
        match (self, value) {
            (Self::Progression(interval, residue), [value]) => {
                interval.contains(*value) && residue.contains(*value)
            }
            (Self::Values(values), value) => values
                .binary_search_by(|own| own.as_slice().cmp(value))
                .is_ok(),
            _ => false,
        }
    }

    fn intersect(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Progression(a, r), Self::Progression(b, s)) => match r.intersect(s) {
                Some(both) => Self::Progression(a.intersect(b), both),
                None => Self::Values(Vec::new()),
            },
            (Self::Values(values), other) | (other, Self::Values(values)) => {
                let common = values.iter().filter(|value| other.contains(value));
                Self::Values(common.cloned().collect())
            }
        }
    }
}

/// The elements of one map as a product: for each set of results, their values.
type Product = Vec<(Vec<usize>, Factor)>;

fn product_of(map: &IndexingMap) -> Option<Product> {
    let results: Vec<usize> = (0..map.results.len()).collect();
    let mut product: Product = Vec::new();
    for result in &results {
        if let Some(value) = map.results.get(*result).and_then(Term::as_constant) {
            let factor = Factor::Progression(Interval::point(value), Residue::point(value));
            product.push((vec![*result], factor));
        }
    }
    let all: Vec<usize> = (0..map.variable_count()).collect();
    for group in components(map, &results, &all) {
        if group.results.is_empty() {
            // The group has no results; it only has to be nonempty.
            if group.constraints.is_empty() {
                if group.bounds.iter().any(Interval::is_empty) {
                    return Some(vec![(results, Factor::Values(Vec::new()))]);
                }
            } else if group.count(map, &[])?.0 == 0 {
                return Some(vec![(results, Factor::Values(Vec::new()))]);
            }
            continue;
        }
        let factor = match progression(map, &group) {
            Some(factor) => factor,
            None => Factor::Values(group.count(map, &group.results)?.1),
        };
        product.push((group.results.clone(), factor));
    }
    product.sort_by(|a, b| a.0.cmp(&b.0));
    Some(product)
}

/// The progression of one unconstrained result whose terms leave no gaps: with the terms sorted by
/// coefficient, each coefficient is at most the length that the smaller terms cover.
fn progression(map: &IndexingMap, group: &Group) -> Option<Factor> {
    let [result] = group.results.as_slice() else {
        return None;
    };
    if !group.constraints.is_empty() {
        return None;
    }
    let (terms, _) = map.results.get(*result)?.as_linear()?;
    let mut parts: Vec<(i64, Interval)> = Vec::new();
    let mut seen: Vec<usize> = Vec::new();
    for (atom, k) in terms {
        let var = atom.as_var()?.0 as usize;
        if seen.contains(&var) {
            return None;
        }
        seen.push(var);
        let place = group.variables.binary_search(&var).ok()?;
        parts.push((k, *group.bounds.get(place)?));
    }
    if parts.iter().any(|(_, bounds)| bounds.is_empty()) {
        return Some(Factor::Values(Vec::new()));
    }
    parts.retain(|(_, bounds)| bounds.lower != bounds.upper);
    parts.sort_by_key(|(k, _)| k.unsigned_abs());
    let step = parts.first().map_or(1, |(k, _)| k.unsigned_abs());
    let mut reach = 0u128;
    for (k, bounds) in &parts {
        let size = u128::from(k.unsigned_abs());
        if size % u128::from(step) != 0 || size > reach + u128::from(step) {
            return None;
        }
        reach = reach.checked_add(size.checked_mul(bounds.count() - 1)?)?;
    }
    let own = group.variables.iter().zip(&group.bounds);
    let ranges: rustc_hash::FxHashMap<tegula_expr::Var, Interval> = own
        .filter_map(|(var, bounds)| Some((tegula_expr::Var(u32::try_from(*var).ok()?), *bounds)))
        .collect();
    let whole = tegula_expr::range_of(map.results.get(*result)?, &ranges);
    let residue = match parts.is_empty() {
        true => Residue::point(whole.lower),
        false => Residue::new(i64::try_from(step).ok()?, whole.lower),
    };
    Some(Factor::Progression(whole, residue))
}

fn intersect(a: &Product, b: &Product) -> Option<Product> {
    let is_same_split = a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0);
    is_same_split.then(|| {
        let pairs = a.iter().zip(b);
        pairs
            .map(|(a, b)| (a.0.clone(), a.1.intersect(&b.1)))
            .collect()
    })
}

fn size(product: &Product) -> Option<u128> {
    product
        .iter()
        .try_fold(1u128, |size, (_, factor)| size.checked_mul(factor.count()))
}

/// Counts distinct elements by inclusion and exclusion over products.
fn by_products(maps: &[IndexingMap]) -> Option<u128> {
    if maps.len() > MAX_UNITED {
        return None;
    }
    let products: Vec<Product> = maps.iter().map(product_of).collect::<Option<_>>()?;
    if products.is_empty() {
        return Some(0);
    }
    let mut total = 0i128;
    for subset in 1u32..1 << products.len() {
        let mut chosen = products
            .iter()
            .enumerate()
            .filter(|(position, _)| subset >> position & 1 == 1)
            .map(|(_, product)| product);
        let first = chosen.next()?.clone();
        let common = chosen.try_fold(first, |common, next| intersect(&common, next))?;
        let own = i128::try_from(size(&common)?).ok()?;
        let signed = if subset.count_ones() % 2 == 1 {
            own
        } else {
            -own
        };
        total = total.checked_add(signed)?;
    }
    u128::try_from(total).ok()
}
