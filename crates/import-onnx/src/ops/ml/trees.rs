//! `TreeEnsemble`, and the older classifier and regressor.

use super::super::{Lowering, one};
use super::forest::{Combine, Forest, Mode, Places, TreeNode};
use super::{
    best_label, both_sides, class_labels, floats, ints, label_above, list, rows, transformed,
};
use crate::Error;
use crate::lower::{Call, Item, Lowerer, Result, Value};
use tegula_ir::{Direction, ElementType};

pub(super) fn find(op: &str) -> Option<Lowering> {
    let lowering: Lowering = match op {
        "TreeEnsembleRegressor" => regressor,
        "TreeEnsembleClassifier" => classifier,
        "TreeEnsemble" => ensemble,
        _ => return None,
    };
    Some(lowering)
}

/// The trees of a classifier or a regressor; `of` is `class` or `target`, respectively.
fn forest(lower: &Lowerer<'_>, call: &Call<'_, '_>, of: &str) -> Result<Forest> {
    let trees = ints(call, "nodes_treeids");
    let own = ints(call, "nodes_nodeids");
    let count = own.len();
    let sized = |name: &str, found: usize| match found == count {
        true => Ok(()),
        false => Err(Error::input(format!(
            "expected {count} `{name}`, found {found}"
        ))),
    };
    let features = ints(call, "nodes_featureids");
    let bounds = floats(call, lower, "nodes_values")?;
    let modes = call.attribute("nodes_modes").map(|a| a.strings.as_slice());
    let modes = modes.unwrap_or_default();
    let (yes, no) = (
        ints(call, "nodes_truenodeids"),
        ints(call, "nodes_falsenodeids"),
    );
    let lists = [
        ("nodes_treeids", trees.len()),
        ("nodes_featureids", features.len()),
        ("nodes_values", bounds.len()),
        ("nodes_modes", modes.len()),
        ("nodes_truenodeids", yes.len()),
        ("nodes_falsenodeids", no.len()),
    ];
    lists
        .iter()
        .try_for_each(|(name, found)| sized(name, *found))?;
    let missing = ints(call, "nodes_missing_value_tracks_true");
    let places: Places = (0..count).map(|at| ((trees[at], own[at]), at)).collect();
    let mut forest = Forest::default();
    let mut is_child = vec![false; count];
    for at in 0..count {
        let mode = Mode::of_name(modes[at])?;
        let mut child = |number: i64| -> Result<usize> {
            if mode == Mode::Leaf {
                return Ok(at);
            }
            let place = places.get(&(trees[at], number)).copied();
            let place = place.ok_or_else(|| Error::input("a node's child does not exist"))?;
            is_child[place] = true;
            Ok(place)
        };
        forest.nodes.push(TreeNode {
            mode,
            feature: if mode == Mode::Leaf { 0 } else { features[at] },
            bound: bounds[at],
            yes: child(yes[at])?,
            no: child(no[at])?,
            missing_is_yes: missing.get(at).is_some_and(|flag| *flag != 0),
        });
    }
    forest.roots = (0..count).filter(|at| !is_child[*at]).collect();
    let weights = floats(call, lower, &format!("{of}_weights"))?;
    let (leaf_trees, leaf_nodes) = (
        ints(call, &format!("{of}_treeids")),
        ints(call, &format!("{of}_nodeids")),
    );
    let targets = ints(call, &format!("{of}_ids"));
    for (at, weight) in weights.iter().enumerate() {
        let key = leaf_trees.get(at).copied().zip(leaf_nodes.get(at).copied());
        let leaf = key.and_then(|key| places.get(&key).copied());
        let target = targets.get(at).and_then(|id| usize::try_from(*id).ok());
        let (Some(leaf), Some(target)) = (leaf, target) else {
            return Err(Error::input(
                "a weight belongs to a target or a leaf that does not exist",
            ));
        };
        forest.weights.push((leaf, target, *weight));
    }
    Ok(forest)
}

fn with_base(lower: &mut Lowerer<'_>, call: &Call<'_, '_>, scores: Value) -> Result<Value> {
    let base = floats(call, lower, "base_values")?;
    match base.is_empty() {
        true => Ok(scores),
        false => {
            let base = list(scores.ty, &base)?;
            lower.add(&scores, &base)
        }
    }
}

fn regressor<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = rows(lower, call)?;
    let mut forest = forest(lower, call, "target")?;
    forest.targets = usize::try_from(call.int("n_targets", 1)).unwrap_or(0);
    let combine = Combine::of(call.text("aggregate_function", "SUM"), None)?;
    let scores = forest.scores(lower, &x, combine)?;
    let scores = with_base(lower, call, scores)?;
    let y = transformed(lower, call, &scores)?;
    one(lower.convert(&y, ElementType::F32)?)
}

fn classifier<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = rows(lower, call)?;
    let labels = class_labels(call, "classlabels_int64s", "classlabels_strings")?;
    let mut forest = forest(lower, call, "class")?;
    let first = forest.weights.first().map(|(_, target, _)| *target);
    let has_one = forest
        .weights
        .iter()
        .all(|(_, target, _)| Some(*target) == first);
    // In a binary classification, the leaves may have weights for only one class; the other gets
    // the rest.
    let is_binary = labels.len() == 2 && has_one;
    if !is_binary {
        forest.targets = labels.len();
        let scores = forest.scores(lower, &x, Combine::Sum)?;
        let scores = with_base(lower, call, scores)?;
        let label = best_label(lower, &scores, &labels)?;
        let y = transformed(lower, call, &scores)?;
        return Ok(vec![
            label.into(),
            lower.convert(&y, ElementType::F32)?.into(),
        ]);
    }
    let pair = [labels[0], labels[1]];
    let is_share = forest.weights.iter().all(|(.., weight)| *weight >= 0.0);
    forest.targets = 1;
    forest.weights.iter_mut().for_each(|weight| weight.1 = 0);
    let score = forest.scores(lower, &x, Combine::Sum)?;
    let base = floats(call, lower, "base_values")?;
    let score = match base.as_slice() {
        [] => score,
        [only] => lower.shifted(&score, *only)?,
        many => lower.shifted(&score, many[1])?,
    };
    let label = label_above(lower, &score, if is_share { 0.5 } else { 0.0 }, pair)?;
    let y = match is_share {
        true => {
            let one_ = lower.like(&score, 1.0)?;
            let rest = lower.sub(&one_, &score)?;
            lower.concat(&[rest, score], 1)?
        }
        false => both_sides(lower, call, &score)?,
    };
    Ok(vec![
        label.into(),
        lower.convert(&y, ElementType::F32)?.into(),
    ])
}

/// The trees of `TreeEnsemble`. Inner nodes and leaves are numbered separately. A node may test
/// whether a feature is in a set of numbers, which becomes a chain of comparisons.
fn ensemble_forest(lower: &Lowerer<'_>, call: &Call<'_, '_>) -> Result<Forest> {
    let tensor = |name: &str| -> Result<Vec<f64>> { floats(call, lower, name) };
    let bounds = tensor("nodes_splits")?;
    let count = bounds.len();
    let modes: Vec<f64> = tensor("nodes_modes")?;
    let features = ints(call, "nodes_featureids");
    let leaf_targets = ints(call, "leaf_targetids");
    let leaf_weights = tensor("leaf_weights")?;
    let child_lists = ["true", "false"].map(|side| {
        (
            ints(call, &format!("nodes_{side}nodeids")),
            ints(call, &format!("nodes_{side}leafs")),
        )
    });
    let sizes = [
        modes.len(),
        features.len(),
        child_lists[0].0.len(),
        child_lists[1].0.len(),
    ];
    if sizes.iter().any(|size| *size != count) || leaf_targets.len() != leaf_weights.len() {
        return Err(Error::input(
            "lists of nodes, or of leaves, have different lengths",
        ));
    }
    let missing = ints(call, "nodes_missing_value_tracks_true");
    let members = tensor("membership_values")?;
    let mut sets = members.split(|value| value.is_nan());
    // Leaves are numbered after all inner nodes.
    let child = |side: usize, at: usize| -> Result<usize> {
        let (ids, leaf_flags) = &child_lists[side];
        let is_leaf = leaf_flags.get(at).is_some_and(|flag| *flag != 0);
        let place = usize::try_from(ids[at]).ok();
        let limit = if is_leaf { leaf_weights.len() } else { count };
        let place = place.filter(|place| *place < limit);
        let place = place.ok_or_else(|| Error::input("a node's child does not exist"))?;
        Ok(place + if is_leaf { count } else { 0 })
    };
    let mut forest = Forest::default();
    let mut chains = Vec::new();
    for at in 0..count {
        let (yes, no) = (child(0, at)?, child(1, at)?);
        let direction = match modes[at] as i64 {
            0 => Direction::Le,
            1 => Direction::Lt,
            2 => Direction::Ge,
            3 => Direction::Gt,
            4 | 6 => Direction::Eq,
            5 => Direction::Ne,
            other => {
                return Err(Error::input(format!(
                    "unknown mode {other} of a node: expected 0 to 6"
                )));
            }
        };
        let mut node = TreeNode {
            mode: Mode::Compare(direction),
            feature: features[at],
            bound: bounds[at],
            yes,
            no,
            missing_is_yes: missing.get(at).is_some_and(|flag| *flag != 0),
        };
        if modes[at] as i64 == 6 {
            let set = sets.next().unwrap_or_default();
            node.bound = set.first().copied().unwrap_or(f64::NAN);
            if set.len() > 1 {
                chains.push((at, set[1..].to_vec()));
            }
        }
        forest.nodes.push(node);
    }
    for (at, (target, weight)) in leaf_targets.iter().zip(&leaf_weights).enumerate() {
        forest.nodes.push(TreeNode {
            mode: Mode::Leaf,
            feature: 0,
            bound: 0.0,
            yes: 0,
            no: 0,
            missing_is_yes: false,
        });
        let target =
            usize::try_from(*target).map_err(|_| Error::input("expected non-negative targets"))?;
        forest.weights.push((count + at, target, *weight));
    }
    for (at, rest) in chains {
        let mut last = at;
        for bound in rest {
            let next = TreeNode {
                bound,
                ..forest.nodes[last]
            };
            let place = forest.nodes.len();
            forest.nodes.push(next);
            forest.nodes[last].no = place;
            last = place;
        }
    }
    for root in ints(call, "tree_roots") {
        let root = usize::try_from(root).ok().filter(|root| *root < count);
        let root = root.ok_or_else(|| Error::input("a root must be the number of a node"))?;
        forest.roots.push(root);
    }
    Ok(forest)
}

fn ensemble<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let x = rows(lower, call)?;
    let mut forest = ensemble_forest(lower, call)?;
    forest.targets = usize::try_from(call.int("n_targets", 1)).unwrap_or(0);
    let combine = Combine::of("", Some(call.int("aggregate_function", 1)))?;
    let scores = forest.scores(lower, &x, combine)?;
    one(transformed(lower, call, &scores)?)
}
