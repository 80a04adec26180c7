//! Tile propagation: which tile of one array belongs to a tile of another.
//!
//! A tile is a progression (offset, size, stride) along each dimension. Its image
//! under a map is a tile again where each result runs through a progression and
//! the results do not depend on one another; what that takes is a condition, kept
//! as a formula of "all of" and "any of" and never multiplied out. The same works
//! in both directions, with the maps of either.
//!
//! The image of a quotient of a progression is a progression wherever the step is
//! no longer than the divisor. A remainder's is one inside a period, or if it
//! covers the period. Several results over the same variables (a split dimension)
//! are independent if the map can be inverted and the sizes multiply to the same
//! count.

use tegula_expr::{Cmp, EvalError, Interval, Node, Term, Var};

use crate::map::{IndexingMap, Status, variable};
use crate::simplify::Simplifier;

/// A tile along one dimension: `offset + stride * j` for `0 <= j < size`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileDim {
    /// The first index.
    pub offset: Term,
    /// How many indices; at least 1.
    pub size: Term,
    /// The distance of neighbours; at least 1.
    pub stride: i64,
}

/// A tile of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Along each dimension.
    pub dims: Vec<TileDim>,
}

impl Tile {
    /// The tile with a variable for each offset and size: those of dimension `i`
    /// are `Var(2 * i)` and `Var(2 * i + 1)`.
    pub fn symbolic(strides: &[i64]) -> Self {
        let dims = strides.iter().enumerate().map(|(dim, stride)| TileDim {
            offset: variable(2 * dim),
            size: variable(2 * dim + 1),
            stride: *stride,
        });
        Self {
            dims: dims.collect(),
        }
    }
}

/// When a tile is the exact image: a formula over the tile's variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The term is not zero.
    Holds(Term),
    /// All of them hold; of none, always.
    All(Vec<Condition>),
    /// One of them holds; of none, never.
    Any(Vec<Condition>),
}

impl Condition {
    /// What always holds.
    pub fn always() -> Self {
        Self::All(Vec::new())
    }

    fn compare(op: Cmp, a: &Term, b: &Term) -> Self {
        let term = Term::cmp(op, a, b);
        match term.as_constant() {
            Some(0) => Self::Any(Vec::new()),
            Some(_) => Self::always(),
            None => Self::Holds(term),
        }
    }

    fn is_always(&self) -> bool {
        match self {
            Self::Holds(_) => false,
            Self::All(parts) => parts.iter().all(Self::is_always),
            Self::Any(parts) => parts.iter().any(Self::is_always),
        }
    }

    /// Both.
    fn and(self, other: Self) -> Self {
        if self.is_always() {
            return other;
        }
        match (self, other) {
            (own, other) if other.is_always() => own,
            (Self::All(mut all), Self::All(more)) => {
                all.extend(more);
                Self::All(all)
            }
            (Self::All(mut all), other) => {
                all.push(other);
                Self::All(all)
            }
            (own, Self::All(mut all)) => {
                all.insert(0, own);
                Self::All(all)
            }
            (own, other) => Self::All(vec![own, other]),
        }
    }

    /// Whether it holds for the given values of variables.
    ///
    /// # Errors
    /// [`EvalError`] if a term has no value.
    pub fn eval(&self, env: &dyn Fn(Var) -> Option<i64>) -> Result<bool, EvalError> {
        match self {
            Self::Holds(term) => term.eval(&|var| env(var)).map(|value| value != 0),
            Self::All(parts) => {
                for part in parts {
                    if !part.eval(env)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(parts) => {
                for part in parts {
                    if part.eval(env)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }
}

/// The image of a tile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TiledMap {
    /// The tile, over the variables of the given tile; run-time variable `k` of
    /// the map is the first number behind those of a symbolic tile, plus `k`.
    pub tile: Tile,
    /// When the tile is the exact image; else nothing is said.
    pub valid: Condition,
}

impl TiledMap {
    /// The tile for values of its variables, by their numbers: offset, size and
    /// stride of each dimension; `None` where it is not the image, or a number
    /// does not fit.
    pub fn at(&self, values: &[i64]) -> Option<Vec<(i64, i64, i64)>> {
        let env = |var: Var| values.get(var.0 as usize).copied();
        if !self.valid.eval(&env).ok()? {
            return None;
        }
        let dims = self.tile.dims.iter();
        dims.map(|dim| {
            let offset = dim.offset.eval(&env).ok()?;
            Some((offset, dim.size.eval(&env).ok()?, dim.stride))
        })
        .collect()
    }
}

/// The image of a tile of an array of the given sizes under a map from that array.
/// The tile has to lie inside the array; where the map is defined on a part only,
/// the image is that of the part. Range variables take all their values. `None` if
/// no progression is known for a result, whatever the tile.
///
/// ```
/// use tegula_indexing::{IndexingMap, Tile, propagate_tile};
///
/// // f32[4,8] out of f32[32]: rows of a tile lie together if they are whole.
/// let map: IndexingMap =
///     "(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]".parse()?;
/// let tiled = propagate_tile(&map, &[32], &Tile::symbolic(&[1])).expect("a tile");
/// assert_eq!(tiled.at(&[16, 16]), Some(vec![(2, 2, 1), (0, 8, 1)]));
/// assert_eq!(tiled.at(&[10, 4]), Some(vec![(1, 1, 1), (2, 4, 1)]));
/// assert_eq!(tiled.at(&[4, 8]), None);
/// # Ok::<(), tegula_expr::ParseError>(())
/// ```
pub fn propagate_tile(map: &IndexingMap, sizes: &[i64], tile: &Tile) -> Option<TiledMap> {
    let is_usable = map.status == Status::Ok
        && map.dims.len() == tile.dims.len()
        && map.dims.len() == sizes.len()
        && tile.dims.iter().all(|dim| dim.stride > 0);
    if !is_usable {
        return None;
    }
    let map = &Simplifier::new().simplify_map(map);
    if map.is_empty() {
        return None;
    }
    let mut walk = Propagation::new(map, sizes, tile);
    let images: Vec<Image> = map
        .results
        .iter()
        .map(|result| walk.image(result))
        .collect::<Option<_>>()?;
    for constraint in &map.constraints {
        // The whole tile has to satisfy it.
        let image = walk.image(&constraint.term)?;
        let last = image.last();
        let Interval { lower, upper } = constraint.interval;
        walk.require(Condition::compare(Cmp::Le, &lower.into(), &image.offset));
        walk.require(Condition::compare(Cmp::Le, &last, &upper.into()));
    }
    walk.require_independence(&images)?;
    let dims = images.into_iter().map(|image| TileDim {
        offset: image.offset,
        size: image.size,
        stride: image.stride.max(1),
    });
    Some(TiledMap {
        tile: Tile {
            dims: dims.collect(),
        },
        valid: walk.valid,
    })
}

/// The values of a term over a tile: a progression. A single value has stride 0.
#[derive(Clone)]
struct Image {
    offset: Term,
    size: Term,
    stride: i64,
}

impl Image {
    fn point(value: Term) -> Self {
        Self {
            offset: value,
            size: Term::constant(1),
            stride: 0,
        }
    }

    /// The distance from the first value to the last.
    fn reach(&self) -> Term {
        self.size
            .add(&Term::constant(-1))
            .mul(&Term::constant(self.stride))
    }

    fn last(&self) -> Term {
        self.offset.add(&self.reach())
    }

    fn scaled(&self, k: i64) -> Option<Self> {
        let first = if k < 0 {
            self.last()
        } else {
            self.offset.clone()
        };
        Some(Self {
            offset: first.mul(&k.into()),
            size: self.size.clone(),
            stride: self.stride.checked_mul(k.checked_abs()?)?,
        })
    }
}

struct Propagation<'a> {
    map: &'a IndexingMap,
    variables: Vec<Image>,
    valid: Condition,
}

impl<'a> Propagation<'a> {
    fn new(map: &'a IndexingMap, sizes: &[i64], tile: &Tile) -> Self {
        let mut variables = Vec::new();
        for ((dim, size), own) in tile.dims.iter().zip(sizes).zip(&map.dims) {
            let image = Image {
                offset: dim.offset.clone(),
                size: dim.size.clone(),
                stride: dim.stride,
            };
            let is_whole = own.bounds.contains_all(&Interval::of_size(*size));
            variables.push(if is_whole {
                image
            } else {
                clipped(&image, own.bounds)
            });
        }
        for range in &map.ranges {
            let count = i64::try_from(range.bounds.count()).unwrap_or(i64::MAX);
            variables.push(Image {
                offset: range.bounds.lower.into(),
                size: count.into(),
                stride: i64::from(count > 1),
            });
        }
        let first = 2 * map.dims.len();
        variables.extend((0..map.runtime.len()).map(|k| Image::point(variable(first + k))));
        let mut valid = Condition::always();
        for (image, own) in variables.iter().zip(&map.dims) {
            let size = own.bounds.count();
            if size > 0 {
                valid = valid.and(Condition::compare(Cmp::Le, &1.into(), &image.size));
            }
        }
        Self {
            map,
            variables,
            valid,
        }
    }

    fn require(&mut self, condition: Condition) {
        let valid = std::mem::replace(&mut self.valid, Condition::always());
        self.valid = valid.and(condition);
    }

    fn image(&mut self, term: &Term) -> Option<Image> {
        match term.node() {
            Node::Const(_) => Some(Image::point(term.clone())),
            Node::Var(var) => self.variables.get(var.0 as usize).cloned(),
            Node::FloorDiv(x, c) => {
                let c = c.as_constant().filter(|c| *c > 0)?;
                let x = self.image(x)?;
                self.quotient(&x, c)
            }
            Node::Mod(x, c) => {
                let c = c.as_constant().filter(|c| *c > 0)?;
                let x = self.image(x)?;
                self.remainder(&x, c)
            }
            Node::Add(..) | Node::Mul(..) => self.sum(term),
            _ => None,
        }
    }

    fn quotient(&mut self, x: &Image, c: i64) -> Option<Image> {
        let divisor = Term::constant(c);
        if x.stride == 0 {
            return Some(Image::point(x.offset.floor_div(&divisor)));
        }
        let first = x.offset.floor_div(&divisor);
        if x.stride % c == 0 {
            return Some(Image {
                offset: first,
                size: x.size.clone(),
                stride: x.stride / c,
            });
        }
        if x.stride > c {
            // Steps differ: one value is all that is sure.
            self.require(Condition::compare(Cmp::Eq, &x.size, &1.into()));
            return Some(Image::point(first));
        }
        // No step is longer than the divisor: no quotient is skipped.
        let last = x.last().floor_div(&divisor);
        Some(Image {
            size: last.sub(&first).add(&1.into()),
            offset: first,
            stride: 1,
        })
    }

    fn remainder(&mut self, x: &Image, c: i64) -> Option<Image> {
        let period = Term::constant(c);
        let first = x.offset.modulo(&period);
        if x.stride % c == 0 {
            return Some(Image::point(first));
        }
        let in_one_period = Condition::compare(Cmp::Lt, &first.add(&x.reach()), &period);
        if c % x.stride != 0 {
            self.require(in_one_period);
            return Some(Image {
                offset: first,
                size: x.size.clone(),
                stride: x.stride,
            });
        }
        let count = Term::constant(c / x.stride);
        let covers = Term::cmp(Cmp::Le, &count, &x.size);
        self.require(Condition::Any(vec![
            in_one_period,
            Condition::compare(Cmp::Le, &count, &x.size),
        ]));
        let lowest = x.offset.modulo(&x.stride.into());
        Some(Image {
            offset: Term::select(&covers, &lowest, &first),
            size: Term::min(&count, &x.size),
            stride: x.stride,
        })
    }

    /// A sum of progressions is one if each fills the steps of the next larger.
    fn sum(&mut self, term: &Term) -> Option<Image> {
        let (terms, constant) = term.as_linear()?;
        let mut seen: Vec<Var> = Vec::new();
        let mut parts = Vec::new();
        for (atom, k) in &terms {
            if atom == term {
                return None;
            }
            let mut own = Vec::new();
            atom.for_each_var(&mut |var| own.push(var));
            // Summands that move together are no independent progressions.
            if own.iter().any(|var| seen.contains(var)) {
                return None;
            }
            seen.extend(own);
            parts.push(self.image(atom)?.scaled(*k)?);
        }
        let mut offset = Term::constant(constant);
        for part in &parts {
            offset = offset.add(&part.offset);
        }
        let is_point = |part: &Image| part.stride == 0 || part.size.as_constant() == Some(1);
        parts.retain(|part| !is_point(part));
        parts.sort_by_key(|part| part.stride);
        let mut all = Image::point(Term::constant(0));
        for part in parts {
            if all.stride == 0 {
                all = part;
                continue;
            }
            if part.stride % all.stride != 0 {
                self.require(Condition::compare(Cmp::Eq, &part.size, &1.into()));
                continue;
            }
            let step = Term::constant(part.stride / all.stride);
            self.require(Condition::Any(vec![
                Condition::compare(Cmp::Eq, &part.size, &1.into()),
                Condition::compare(Cmp::Le, &step, &all.size),
            ]));
            let more = part.size.add(&Term::constant(-1)).mul(&step);
            all.size = all.size.add(&more);
        }
        all.offset = offset;
        Some(all)
    }

    /// Results over common variables: the product of their progressions is the
    /// image if the map is one-to-one there and both have equally many points.
    fn require_independence(&mut self, images: &[Image]) -> Option<()> {
        for group in groups(self.map) {
            if group.results.len() < 2 {
                continue;
            }
            let mut part = self.map.clone();
            part.constraints.clear();
            part.results = group
                .results
                .iter()
                .filter_map(|result| self.map.results.get(*result).cloned())
                .collect();
            let inverse = part.inverse();
            // Variables outside the group stay free; those inside must not.
            let others = part.dims.len() + part.ranges.len() - group.variables.len();
            if inverse.ranges.len() > others {
                return None;
            }
            let product = |sizes: Vec<&Term>| {
                sizes
                    .into_iter()
                    .fold(Term::constant(1), |product, size| product.mul(size))
            };
            let own = group.variables.iter();
            let from = own.filter_map(|var| self.variables.get(*var).map(|image| &image.size));
            let from = product(from.collect());
            let results = group.results.iter();
            let to = results.filter_map(|result| images.get(*result).map(|image| &image.size));
            let to = product(to.collect());
            self.require(Condition::compare(Cmp::Eq, &from, &to));
        }
        Some(())
    }
}

/// The part of a progression inside an interval.
fn clipped(image: &Image, bounds: Interval) -> Image {
    let stride = Term::constant(image.stride);
    let zero = Term::constant(0);
    let missing = Term::constant(bounds.lower).sub(&image.offset);
    let skipped = Term::max(&zero, &missing.ceil_div(&stride));
    let beyond = Term::constant(bounds.upper).sub(&image.offset);
    let last = beyond.floor_div(&stride).add(&1.into());
    let end = Term::min(&image.size, &last);
    Image {
        offset: image.offset.add(&skipped.mul(&stride)),
        size: Term::max(&zero, &end.sub(&skipped)),
        stride: image.stride,
    }
}

/// Results and the dimension and range variables they share.
struct Group {
    variables: Vec<usize>,
    results: Vec<usize>,
}

fn groups(map: &IndexingMap) -> Vec<Group> {
    let known = map.dims.len() + map.ranges.len();
    let mut groups: Vec<Group> = Vec::new();
    for (number, result) in map.results.iter().enumerate() {
        let mut merged = Group {
            variables: Vec::new(),
            results: vec![number],
        };
        result.for_each_var(&mut |var| {
            if (var.0 as usize) < known {
                merged.variables.push(var.0 as usize);
            }
        });
        let mut rest = Vec::new();
        for group in groups {
            if group
                .variables
                .iter()
                .any(|var| merged.variables.contains(var))
            {
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
