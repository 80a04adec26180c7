//! Tiles, and the image of a tile of a space under a map.

use std::fmt;

use rustc_hash::FxHashSet;
use tegula_expr::{Cmp, EvalError, Interval, Names, Style, Term, Var};

use super::condition::Condition;
use super::constraints;
use super::image::Image;
use super::independence;
use super::progression::Progression;
use super::prover::Prover;
use super::reason::Reason;
use super::space::TilingSpace;
use crate::map::{Exactness, IndexingMap, RuntimeSource, RuntimeVariable, Status};

/// A tile along one dimension: those indices `offset + stride * j` for `0 <= j < size` that are at
/// least `lower` and less than `upper`.
///
/// The offset and bounds depend on the tile's number. The size depends on it only if it involves a
/// division by a size known at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileDim {
    /// The first index. For a tile that extends beyond the edge, it may be less than `lower`.
    pub offset: Term,
    /// The number of indices, including those out of bounds; at least 1.
    pub size: Term,
    /// The distance between adjacent indices; at least 1.
    pub stride: Term,
    /// The lower bound (inclusive) of the indices that are read; `None` if no tile extends below
    /// it.
    pub lower: Option<Term>,
    /// The upper bound (exclusive) of the indices that are read; `None` if no tile reaches it.
    pub upper: Option<Term>,
}

/// A tile of an array: the image of a tile of a [`TilingSpace`] under an indexing map.
///
/// For all values of the variables, all elements that are read are in the tile. Where `exact`
/// holds, all elements of the tile are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The tile along each dimension of the array.
    pub dims: Vec<TileDim>,
    /// The condition that anything is read; tiles for which it fails read nothing.
    pub present: Condition,
    /// The condition that the tile is exactly what is read; otherwise it covers that.
    pub exact: Condition,
    /// The reasons why it is not always exact; empty if it is.
    pub reasons: Vec<Reason>,
    /// Whether the tile is the smallest one that covers what is read: for every tile, the first and
    /// the last index along each dimension are read.
    pub is_smallest: bool,
    /// Run-time variables as in the map; their sources are terms over the map's variables.
    pub runtime: Vec<RuntimeVariable>,
}

/// A tile along one dimension, in numbers: `size` indices from `first` on with distance `stride`,
/// all of which are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first index.
    pub first: i64,
    /// The number of indices.
    pub size: i64,
    /// The distance between adjacent indices; at least 1.
    pub stride: i64,
}

impl Tile {
    /// The image of the space's tile under a map whose dimensions are those of the space.
    ///
    /// ```
    /// use tegula_indexing::tiles::{Tile, TilingSpace};
    /// use tegula_indexing::IndexingMap;
    ///
    /// // f32[4,8] out of f32[32], in tiles of 16: two whole rows.
    /// let map: IndexingMap = "(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]".parse()?;
    /// let space = TilingSpace::of_array(&[32]).with_sizes(&[Some(16)]);
    /// let tile = Tile::of(&map, &space);
    /// assert!(tile.exact.is_always());
    /// assert_eq!(tile.display(&space).to_string(), "[i0 * 2 + 0..2, 0..8]");
    /// # Ok::<(), tegula_expr::ParseError>(())
    /// ```
    pub fn of(map: &IndexingMap, space: &TilingSpace) -> Self {
        let bounds: Vec<Interval> = map.runtime.iter().map(|r| r.variable.bounds).collect();
        if map.status == Status::Undefined || map.dims.len() != space.dims.len() {
            return Self::whole(map, Condition::always());
        }
        let prover = match map.status {
            Status::Ok => Prover::new(space, &bounds),
            _ => None,
        };
        match prover {
            Some(mut prover) => image(map, space, &mut prover),
            None => Self {
                exact: Condition::always(),
                reasons: Vec::new(),
                ..Self::whole(map, Condition::never())
            },
        }
    }

    /// A tile that covers everything the map can lead to.
    fn whole(map: &IndexingMap, present: Condition) -> Self {
        let dims = map.results.iter().map(|result| {
            let range = tegula_expr::range_of(result, map);
            TileDim {
                offset: range.lower.into(),
                size: i64::try_from(range.count()).unwrap_or(i64::MAX).into(),
                stride: 1.into(),
                lower: None,
                upper: None,
            }
        });
        Self {
            dims: dims.collect(),
            present,
            exact: Condition::never(),
            reasons: vec![Reason::Superset],
            is_smallest: false,
            runtime: map.runtime.clone(),
        }
    }

    /// Whether the tile is exactly what is read, for every tile and all sizes that the space
    /// allows.
    pub fn is_exact(&self) -> bool {
        self.exact.is_always()
    }

    /// The tile for given values of the variables; `None` if nothing is read.
    ///
    /// # Errors
    /// [`EvalError`] if a term has no value.
    pub fn at(&self, env: &dyn Fn(Var) -> Option<i64>) -> Result<Option<Vec<Extent>>, EvalError> {
        if !self.present.eval(env)? {
            return Ok(None);
        }
        let mut all = Vec::with_capacity(self.dims.len());
        for dim in &self.dims {
            let value = |term: &Term| term.eval(&|var| env(var));
            let (offset, stride) = (value(&dim.offset)?, value(&dim.stride)?.max(1));
            let (mut from, mut to) = (0, value(&dim.size)?);
            if let Some(lower) = &dim.lower {
                let missing = value(lower)?
                    .checked_sub(offset)
                    .ok_or(EvalError::Overflow)?;
                from = tegula_expr::ceil_div(missing, stride).unwrap_or(0).max(0);
            }
            if let Some(upper) = &dim.upper {
                let room = value(upper)?
                    .checked_sub(offset)
                    .ok_or(EvalError::Overflow)?;
                to = to.min(tegula_expr::ceil_div(room, stride).unwrap_or(to));
            }
            if to <= from {
                return Ok(None);
            }
            let first = stride
                .checked_mul(from)
                .and_then(|skip| offset.checked_add(skip));
            all.push(Extent {
                first: first.ok_or(EvalError::Overflow)?,
                size: to - from,
                stride,
            });
        }
        Ok(Some(all))
    }

    /// The variables of the space and run-time variables that the tile depends on.
    pub fn variables(&self) -> Vec<Var> {
        let mut found = FxHashSet::default();
        let mut add = |term: &Term| {
            term.for_each_var(&mut |var| {
                found.insert(var);
            });
        };
        for dim in &self.dims {
            let own = [&dim.offset, &dim.size, &dim.stride];
            own.into_iter().for_each(&mut add);
            dim.lower.iter().chain(&dim.upper).for_each(&mut add);
        }
        let mut found: Vec<Var> = found.into_iter().collect();
        found.sort_unstable();
        found
    }

    /// Displays the tile: for each dimension `offset + 0..size`, with its stride after a colon and
    /// its bounds after a bar.
    pub fn display<'a>(&'a self, space: &'a TilingSpace) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| {
            let names = |var: Var| space.name(var);
            f.write_str("[")?;
            for (position, dim) in self.dims.iter().enumerate() {
                if position > 0 {
                    f.write_str(", ")?;
                }
                dim.write(f, &names)?;
            }
            f.write_str("]")
        })
    }
}

impl TileDim {
    fn write<N: Names>(&self, f: &mut fmt::Formatter<'_>, names: &N) -> fmt::Result {
        let spell = |term: &Term| term.display(names, Style::Xla).to_string();
        let size = self.size.as_constant();
        match (self.offset.as_constant(), size) {
            (Some(offset), Some(1)) => write!(f, "{offset}")?,
            (None, Some(1)) => write!(f, "{}", spell(&self.offset))?,
            (Some(offset), Some(size)) if self.stride.as_constant() == Some(1) => {
                write!(f, "{offset}..{}", offset.saturating_add(size))?;
            }
            _ => write!(f, "{} + 0..{}", spell(&self.offset), spell(&self.size))?,
        }
        if self.stride.as_constant() != Some(1) {
            write!(f, ":{}", spell(&self.stride))?;
        }
        match (&self.lower, &self.upper) {
            (None, None) => Ok(()),
            (Some(lower), None) => write!(f, " | from {}", spell(lower)),
            (None, Some(upper)) => write!(f, " | below {}", spell(upper)),
            (Some(lower), Some(upper)) => {
                write!(f, " | from {} below {}", spell(lower), spell(upper))
            }
        }
    }
}

fn image(map: &IndexingMap, space: &TilingSpace, prover: &mut Prover) -> Tile {
    let mut walk = Image {
        variables: variables(map, space, prover),
        map,
        prover,
        exact: Vec::new(),
        reasons: Vec::new(),
    };
    if map.exactness == Exactness::Superset {
        walk.require(&Condition::never(), || Reason::Superset);
    }
    spread_runtime_variables(&mut walk);
    let groups = independence::groups(&walk);
    let domain = constraints::apply(&mut walk, &groups);
    let progressions: Vec<Progression> = map
        .results
        .iter()
        .enumerate()
        .map(|(number, result)| domain.progression(number, result, &mut walk))
        .collect();
    let before = walk.reasons.len();
    domain.check_rest(&mut walk);
    let is_cut = walk.reasons.len() > before;
    independence::require(&mut walk, &groups, &progressions);
    let exact = Condition::all(std::mem::take(&mut walk.exact));
    let reasons = std::mem::take(&mut walk.reasons);
    let is_tight = progressions.iter().all(|one| one.is_tight);
    let is_data = |reason: &Reason| matches!(reason, Reason::DataDependent(_));
    let is_known = map.exactness == Exactness::Exact && !is_cut && !reasons.iter().any(is_data);
    Tile {
        is_smallest: exact.is_always() || (is_tight && is_known),
        dims: progressions
            .into_iter()
            .map(|one| one.into_dim(walk.prover))
            .collect(),
        present: Condition::all([walk.prover.settle(&domain.present), is_inside(&walk, space)]),
        exact,
        reasons,
        runtime: map.runtime.clone(),
    }
}

/// The condition that each run-time value that the operation does not clamp is within its bounds.
/// If one is not, the operation reads nothing.
fn is_inside(walk: &Image<'_>, space: &TilingSpace) -> Condition {
    let first = walk.map.dims.len() + walk.map.ranges.len();
    let sources = walk.map.runtime.iter().enumerate();
    let unclamped = sources.filter(|(number, runtime)| {
        let own = walk.variables.get(first + number);
        let has_one_value = own.is_some_and(Progression::is_point);
        has_one_value
            && matches!(
                runtime.source,
                Some(RuntimeSource::Element { clamped: false, .. })
            )
    });
    let inside = unclamped.map(|(number, runtime)| {
        let Interval { lower, upper } = runtime.variable.bounds;
        let own = Term::var(space.runtime_var(number));
        Condition::all([
            Condition::compare(Cmp::Le, &lower.into(), &own),
            Condition::compare(Cmp::Le, &own, &upper.into()),
        ])
    });
    Condition::all(inside.collect::<Vec<_>>())
}

/// The progression of each variable: a tile of each dimension of the space, all values of a range,
/// one value of a run-time variable.
fn variables(map: &IndexingMap, space: &TilingSpace, prover: &mut Prover) -> Vec<Progression> {
    let mut all = Vec::with_capacity(map.variable_count());
    for (number, dim) in space.dims.iter().enumerate() {
        let size = space.size(number);
        let extent = Term::constant(dim.extent);
        let offset = prover.canonical(&space.index(number).mul(&size));
        let mut own = Progression::neighbours(offset, size);
        if dim.is_divided() != Some(true) && dim.extent > 1 {
            own.upper = Some((dim.extent - 1).into());
        }
        own.extent = Some(extent);
        all.push(own);
    }
    for range in &map.ranges {
        let count = i64::try_from(range.bounds.count()).unwrap_or(i64::MAX);
        let own = Progression::neighbours(range.bounds.lower.into(), count.into());
        all.push(own);
    }
    for number in 0..map.runtime.len() {
        all.push(Progression::point(Term::var(space.runtime_var(number))));
    }
    all
}

/// Gives a run-time variable whose source depends on points of the tile its whole range of values.
fn spread_runtime_variables(walk: &mut Image<'_>) {
    let first = walk.map.dims.len() + walk.map.ranges.len();
    for (number, runtime) in walk.map.runtime.iter().enumerate() {
        let terms: Vec<Term> = match &runtime.source {
            Some(RuntimeSource::Element { index, .. }) => {
                index.iter().chain(&runtime.upper_bound).cloned().collect()
            }
            Some(_) => runtime.upper_bound.iter().cloned().collect(),
            None => Vec::new(),
        };
        let has_one_value =
            runtime.source.is_some() && terms.iter().all(|term| walk.moving(term).is_empty());
        if has_one_value {
            continue;
        }
        let bounds = runtime.variable.bounds;
        let count = i64::try_from(bounds.count()).unwrap_or(i64::MAX);
        let mut all = Progression::neighbours(bounds.lower.into(), count.into());
        all.is_tight = false;
        if let Some(slot) = walk.variables.get_mut(first + number) {
            *slot = all;
        }
        walk.require(&Condition::never(), || Reason::DataDependent(number));
    }
}

impl Progression {
    fn into_dim(self, prover: &mut Prover) -> TileDim {
        let lower = self.lower;
        let lower = lower.filter(|lower| prover.range(&self.offset.sub(lower)).lower < 0);
        let last = self.offset.add(&self.size.sub(&1.into()).mul(&self.stride));
        let upper = self
            .upper
            .filter(|upper| prover.range(&upper.sub(&last)).lower < 0);
        TileDim {
            offset: prover.canonical(&self.offset),
            size: prover.canonical(&self.size),
            stride: prover.canonical(&self.stride),
            upper: upper.map(|upper| prover.canonical(&upper.add(&1.into()))),
            lower: lower.map(|lower| prover.canonical(&lower)),
        }
    }
}
