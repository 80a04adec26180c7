//! Decision trees as tables: the feature that a node tests, the value that it is compared with, and
//! the next nodes.
//!
//! All trees are traversed together, one level in each round, for as many rounds as the deepest
//! tree has levels. The next node of a leaf is the leaf itself.

use crate::Error;
use crate::lower::{Fold, Lowerer, Result, Value};
use rustc_hash::FxHashMap;
use tegula_expr::Term;
use tegula_ir::{Binary, Direction, ElementType};

/// The maximum number of elements in the table of leaf weights.
const MAX_WEIGHTS: usize = 1 << 27;

/// The comparison that an inner node makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Leaf,
    Compare(Direction),
}

impl Mode {
    /// The mode for a name in `TreeEnsembleClassifier` and `TreeEnsembleRegressor`.
    pub(super) fn of_name(name: &[u8]) -> Result<Self> {
        Ok(match name {
            b"LEAF" => Self::Leaf,
            b"BRANCH_LEQ" => Self::Compare(Direction::Le),
            b"BRANCH_LT" => Self::Compare(Direction::Lt),
            b"BRANCH_GTE" => Self::Compare(Direction::Ge),
            b"BRANCH_GT" => Self::Compare(Direction::Gt),
            b"BRANCH_EQ" => Self::Compare(Direction::Eq),
            b"BRANCH_NEQ" => Self::Compare(Direction::Ne),
            other => {
                let name = String::from_utf8_lossy(other);
                return Err(Error::input(format!(
                    "unknown mode `{name}` of a node: expected LEAF or BRANCH_ and a comparison"
                )));
            }
        })
    }
}

/// A node of a tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct TreeNode {
    pub(super) mode: Mode,
    pub(super) feature: i64,
    pub(super) bound: f64,
    /// The next node if the comparison is true.
    pub(super) yes: usize,
    pub(super) no: usize,
    /// Whether the comparison counts as true if the feature is NaN.
    pub(super) missing_is_yes: bool,
}

/// A set of trees, and the weights of their leaves.
#[derive(Debug, Default)]
pub(super) struct Forest {
    pub(super) nodes: Vec<TreeNode>,
    pub(super) roots: Vec<usize>,
    /// A leaf, a target, and the leaf's weight for the target.
    pub(super) weights: Vec<(usize, usize, f64)>,
    pub(super) targets: usize,
}

/// The operation that combines the weights of all trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Combine {
    Sum,
    Average,
    Min,
    Max,
}

impl Combine {
    pub(super) fn of(name: &str, number: Option<i64>) -> Result<Self> {
        Ok(match (name, number) {
            ("AVERAGE", None) | (_, Some(0)) => Self::Average,
            ("SUM", None) | (_, Some(1)) => Self::Sum,
            ("MIN", None) | (_, Some(2)) => Self::Min,
            ("MAX", None) | (_, Some(3)) => Self::Max,
            _ => return Err(Error::input("unknown `aggregate_function`")),
        })
    }
}

/// The index of each node, by the number of its tree and its own number.
pub(super) type Places = FxHashMap<(i64, i64), usize>;

impl Forest {
    /// The number of levels of the deepest tree.
    ///
    /// # Errors
    /// Missing children, and cycles.
    fn depth(&self) -> Result<i64> {
        const OPEN: i64 = -1;
        let mut depths: FxHashMap<usize, i64> = FxHashMap::default();
        let mut deepest = 0;
        for root in &self.roots {
            let mut stack = vec![(*root, false)];
            while let Some((at, children_done)) = stack.pop() {
                let node = self.nodes.get(at);
                let node = node.ok_or_else(|| Error::input("a node's child does not exist"))?;
                if node.mode == Mode::Leaf {
                    depths.insert(at, 0);
                    continue;
                }
                let of = |child: usize| depths.get(&child).copied();
                let (own, of_children) = (of(at), [node.yes, node.no].map(of));
                if children_done {
                    let deeper = of_children.iter().flatten().max();
                    depths.insert(at, deeper.copied().unwrap_or(0) + 1);
                    continue;
                }
                match own {
                    Some(OPEN) => return Err(Error::input("the nodes of a tree form a cycle")),
                    Some(_) => continue,
                    None => {}
                }
                depths.insert(at, OPEN);
                stack.push((at, true));
                for (child, found) in [node.yes, node.no].into_iter().zip(of_children) {
                    match found {
                        Some(OPEN) => return Err(Error::input("the nodes of a tree form a cycle")),
                        Some(_) => {}
                        None => stack.push((child, false)),
                    }
                }
            }
            deepest = deepest.max(depths.get(root).copied().unwrap_or(0));
        }
        Ok(deepest)
    }

    /// The leaf that each row reaches in each tree: `[rows, trees]`.
    fn leaves(&self, lower: &mut Lowerer<'_>, x: &Value) -> Result<Value> {
        let features = x.size(1)?.as_constant();
        let used = self.nodes.iter().filter(|node| node.mode != Mode::Leaf);
        let last = used.map(|node| node.feature).max();
        let below = self.nodes.iter().any(|node| node.feature < 0);
        if below
            || last
                .zip(features)
                .is_some_and(|(last, count)| last >= count)
        {
            return Err(Error::input(
                "a tree tests a feature that the input does not have",
            ));
        }
        let depth = self.depth()?;
        let ints = |of: &dyn Fn(usize, &TreeNode) -> i64| {
            let list = self.nodes.iter().enumerate().map(|(at, node)| of(at, node));
            super::int_list(ElementType::S32, &list.collect::<Vec<i64>>())
        };
        let is_leaf = |node: &TreeNode| node.mode == Mode::Leaf;
        let go = |at: usize, node: &TreeNode, to: usize| if is_leaf(node) { at } else { to } as i64;
        let bounds: Vec<f64> = self.nodes.iter().map(|node| node.bound).collect();
        let mut modes: Vec<Direction> = Vec::new();
        for node in &self.nodes {
            if let Mode::Compare(direction) = node.mode
                && !modes.contains(&direction)
            {
                modes.push(direction);
            }
        }
        let mode_of = |node: &TreeNode| match node.mode {
            Mode::Compare(own) => modes.iter().position(|mode| *mode == own).unwrap_or(0) as i64,
            Mode::Leaf => 0,
        };
        let tables = [
            x.clone(),
            ints(&|_, node| if is_leaf(node) { 0 } else { node.feature })?,
            super::list(x.ty, &bounds)?,
            ints(&|at, node| go(at, node, node.yes))?,
            ints(&|at, node| go(at, node, node.no))?,
            ints(&|_, node| i64::from(node.missing_is_yes))?,
            ints(&|_, node| mode_of(node))?,
        ];
        let tracks_missing = self.nodes.iter().any(|node| node.missing_is_yes);
        let roots: Vec<i64> = self.roots.iter().map(|root| *root as i64).collect();
        let roots = super::int_list(ElementType::S32, &roots)?;
        let dims = [x.dims[0].clone(), roots.dims[0].clone()];
        let start = lower.broadcast_to(&roots, &dims)?;
        let done = lower.counted_loop(
            &Term::constant(depth),
            &tables,
            &[start],
            |lower, _, tables, state| {
                let at = &state[0];
                let mut look = |table: &Value| lower.take(table, at, 0);
                let [feature, bound, yes, no] = [
                    look(&tables[1])?,
                    look(&tables[2])?,
                    look(&tables[3])?,
                    look(&tables[4])?,
                ];
                let (missing, mode) = (look(&tables[5])?, look(&tables[6])?);
                let place = lower.unsqueeze(&feature, 2)?;
                let value = lower.gather_nd(&tables[0], &place, 1)?;
                let mut holds: Option<Value> = None;
                for (number, direction) in modes.iter().enumerate() {
                    let own = lower.compare(*direction, &value, &bound)?;
                    holds = Some(match holds {
                        None => own,
                        Some(rest) => {
                            let number = lower.like(&mode, number as f64)?;
                            let is = lower.compare(Direction::Eq, &mode, &number)?;
                            lower.select(&is, &own, &rest)?
                        }
                    });
                }
                let Some(mut holds) = holds else {
                    return Ok(vec![at.clone()]);
                };
                if tracks_missing {
                    let is_nan = lower.compare(Direction::Ne, &value, &value)?;
                    let zero = lower.like(&missing, 0.0)?;
                    let counts = lower.compare(Direction::Ne, &missing, &zero)?;
                    let both = lower.binary(Binary::And, &is_nan, &counts)?;
                    holds = lower.binary(Binary::Or, &holds, &both)?;
                }
                Ok(vec![lower.select(&holds, &yes, &no)?])
            },
        )?;
        let leaves = done.into_iter().next();
        leaves.ok_or_else(|| Error::input("a loop of one value has one result"))
    }

    /// The combined weights of all trees' leaves, `[rows, targets]`.
    pub(super) fn scores(
        &self,
        lower: &mut Lowerer<'_>,
        x: &Value,
        combine: Combine,
    ) -> Result<Value> {
        let size = self.nodes.len().checked_mul(self.targets);
        if self.targets == 0 || size.is_none_or(|size| size > MAX_WEIGHTS) {
            return Err(Error::input(
                "expected at least one target, and at most 2^27 weights",
            ));
        }
        let leaves = self.leaves(lower, x)?;
        let nothing = match combine {
            Combine::Sum | Combine::Average => 0.0,
            Combine::Min => f64::INFINITY,
            Combine::Max => f64::NEG_INFINITY,
        };
        let mut table = vec![nothing; self.nodes.len() * self.targets];
        for (leaf, target, weight) in &self.weights {
            let place = (*target < self.targets).then(|| leaf * self.targets + target);
            let place = place.and_then(|place| table.get_mut(place));
            let place = place.ok_or_else(|| {
                Error::input("a weight belongs to a target or a leaf that does not exist")
            })?;
            match place.is_finite() {
                true => *place += weight,
                false => *place = *weight,
            }
        }
        let dims = [self.nodes.len() as i64, self.targets as i64];
        let table = Value::of_floats(x.ty, &dims, &table)?;
        let weights = lower.take(&table, &leaves, 0)?;
        let fold = match combine {
            Combine::Sum | Combine::Average => Fold::Sum,
            Combine::Min => Fold::Min,
            Combine::Max => Fold::Max,
        };
        let scores = lower.reduce(&weights, fold, &[1], false)?;
        match combine {
            Combine::Sum => Ok(scores),
            Combine::Average => lower.scaled(&scores, 1.0 / self.roots.len().max(1) as f64),
            Combine::Min | Combine::Max => {
                let none = lower.like(&scores, nothing)?;
                let is_none = lower.compare(Direction::Eq, &scores, &none)?;
                let zero = lower.like(&scores, 0.0)?;
                lower.select(&is_none, &zero, &scores)
            }
        }
    }
}
