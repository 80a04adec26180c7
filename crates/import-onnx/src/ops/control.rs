//! `If`.

use super::Lowering;
use crate::Error;
use crate::lower::{Call, Item, Lowerer, Result, Value};
use tegula_ir::Op;

pub(super) fn find(op: &str) -> Option<Lowering> {
    (op == "If").then_some(choice as Lowering)
}

/// Translates `If`. A condition that is known at compile time leaves only one of the branches.
fn choice<'a>(lower: &mut Lowerer<'a>, call: &Call<'_, 'a>) -> Result<Vec<Item>> {
    let condition = call.input(0)?;
    let branch = |name: &str| {
        let graph = call.attribute(name).and_then(|a| a.graph.as_ref());
        graph.ok_or_else(|| Error::input(format!("the graph `{name}` is missing")))
    };
    let (on_true, on_false) = (branch("then_branch")?, branch("else_branch")?);
    if let Some([known]) = condition.integers().as_deref() {
        let taken = if *known != 0 { on_true } else { on_false };
        return lower.subgraph(taken, call, call.scope, Vec::new());
    }
    let as_choice = lower.restoring(|lower| program_choice(lower, call, [on_true, on_false]));
    match as_choice {
        Err(_) if lower.may_cut() && !lower.asks_for_cut() => {
            // Splits the program and continues with the branch that is taken.
            let known = lower.elements_from_data(&condition)?;
            let is_true = known
                .integers()
                .is_some_and(|list| list.first() != Some(&0));
            let taken = if is_true { on_true } else { on_false };
            lower.subgraph(taken, call, call.scope, Vec::new())
        }
        Err(error) if lower.is_outermost() => Err(Error::needs_a_run_of(0, error)),
        done => done,
    }
}

/// A conditional whose branches are computations with results of the same shapes.
fn program_choice<'a>(
    lower: &mut Lowerer<'a>,
    call: &Call<'_, 'a>,
    [on_true, on_false]: [&crate::read::Graph<'a>; 2],
) -> Result<Vec<Item>> {
    let condition = call.input(0)?;
    let captured = lower.captured(&[on_true, on_false], call.scope);
    let mut values: Vec<Value> = Vec::new();
    for (_, value) in &captured {
        values.push(lower.settled(value)?);
    }
    let own = values.len();
    let (sizes, values) = lower.with_sizes(&values)?;
    let mut branches = Vec::new();
    let mut shapes = Vec::new();
    for (name, graph) in [("then", on_true), ("else", on_false)] {
        let (id, results) = lower.computation(name, &values, false, |lower, inner| {
            lower.inner_sizes(&sizes, &inner[own..]);
            let scope = lower.with_captured(call.scope, &captured, &inner[..own]);
            let items = lower.subgraph(graph, call, &scope, Vec::new())?;
            let values = items.into_iter().map(|item| match item {
                Item::Tensor(value) => Ok(value),
                _ => Err(Error::unsupported(
                    "branches that return sequences are not supported",
                )),
            });
            values.collect()
        })?;
        branches.push(id);
        shapes.push(results.iter().map(Value::shape).collect::<Vec<_>>());
    }
    if shapes[0] != shapes[1] {
        return Err(Error::unsupported(
            "the results of the branches have different shapes, so their sizes depend on data",
        ));
    }
    let argument = lower.tuple(&values)?;
    let condition = lower.reshape(&condition, &[])?;
    let selector = lower.local(&condition)?;
    let op = Op::Conditional {
        branches,
        predicated: true,
    };
    let stated = tegula_ir::Shape::Tuple(shapes.swap_remove(0));
    let tuple = lower.push_local(op, &[selector, argument, argument], Some(stated))?;
    let results = lower.elements(tuple)?;
    Ok(results.into_iter().map(Item::Tensor).collect())
}
