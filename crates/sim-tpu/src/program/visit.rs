//! Visitors for the statements of a program, and renaming of the variables that they define.

use super::{
    Operand, PrintedValue, Slice, SliceEntry, Statement, StatementKind, VariableId, VectorOp,
};
use rustc_hash::{FxHashMap, FxHashSet};
use tegula_expr::{Term, Var};

/// The first statement for which `wanted` holds, in the order of the text and including bodies.
pub fn find_statement<'a>(
    body: &'a [Statement],
    wanted: &mut dyn FnMut(&Statement) -> bool,
) -> Option<&'a Statement> {
    for statement in body {
        if wanted(statement) {
            return Some(statement);
        }
        for inner in statement.bodies() {
            if let Some(found) = find_statement(inner, wanted) {
                return Some(found);
            }
        }
    }
    None
}

/// Visits every statement in the order of the text, including bodies.
pub fn for_each_statement(body: &[Statement], visit: &mut dyn FnMut(&Statement)) {
    find_statement(body, &mut |statement| {
        visit(statement);
        false
    });
}

/// Visits the variables that the statements of a window's transform define, including bodies.
pub(crate) fn for_each_defined(body: &[Statement], visit: &mut dyn FnMut(VariableId)) {
    for_each_statement(body, &mut |statement| match &statement.kind {
        StatementKind::Scalar { variable, .. }
        | StatementKind::Load { variable, .. }
        | StatementKind::Let { variable, .. }
        | StatementKind::For { variable, .. }
        | StatementKind::AssumeMultiple { variable, .. } => visit(*variable),
        _ => {}
    });
}

/// A variable and those that statements of a window's transform compute from it, or set where it
/// decides.
pub(crate) fn dependents(body: &[Statement], of: Var) -> FxHashSet<Var> {
    let mut found = FxHashSet::from_iter([of]);
    loop {
        let before = found.len();
        for_each_statement(body, &mut |statement| {
            let mut follows = false;
            for_each_read(&statement.kind, &mut |term| {
                term.for_each_var(&mut |var| follows |= found.contains(&var));
            });
            if !follows {
                return;
            }
            found.extend(defined(&statement.kind));
            for inner in statement.bodies() {
                for_each_statement(inner, &mut |inner| found.extend(defined(&inner.kind)));
            }
        });
        if found.len() == before {
            return found;
        }
    }
}

/// The variable that a statement of a window's transform gives a value.
fn defined(kind: &StatementKind) -> Option<Var> {
    match kind {
        StatementKind::Scalar { variable, .. }
        | StatementKind::Load { variable, .. }
        | StatementKind::Let { variable, .. }
        | StatementKind::Set { variable, .. }
        | StatementKind::For { variable, .. }
        | StatementKind::AssumeMultiple { variable, .. } => Some(variable.var()),
        _ => None,
    }
}

/// Visits the terms that a statement of a window's transform reads, without its bodies.
fn for_each_read(kind: &StatementKind, visit: &mut dyn FnMut(&Term)) {
    match kind {
        StatementKind::Scalar { operands, .. } => operands.iter().for_each(visit),
        StatementKind::Load { source, .. } => {
            for entry in &source.entries {
                match entry {
                    SliceEntry::Whole => {}
                    SliceEntry::Element(at) | SliceEntry::Range { start: at, .. } => visit(at),
                    SliceEntry::Sized { start, size } => {
                        visit(start);
                        visit(size);
                    }
                }
            }
        }
        StatementKind::Let { value, .. }
        | StatementKind::Set { value, .. }
        | StatementKind::AssumeMultiple { value, .. } => visit(value),
        StatementKind::For { low, high, .. } => {
            visit(low);
            visit(high);
        }
        StatementKind::If { condition, .. } => {
            visit(&condition.left);
            visit(&condition.right);
        }
        StatementKind::While { test, .. } => {
            visit(&test.left);
            visit(&test.right);
        }
        _ => {}
    }
}

/// A term with its variables renamed.
pub(crate) fn renamed_term(term: &Term, names: &FxHashMap<VariableId, VariableId>) -> Term {
    term.substitute(&mut |var| Some(Term::var(names.get(&VariableId(var.0))?.var())))
}

/// Renames the variables of scalar code; other kinds of statements stay as they are.
pub(crate) fn rename(body: &mut [Statement], names: &FxHashMap<VariableId, VariableId>) {
    let turn = |term: &mut Term| *term = renamed_term(term, names);
    let other = |variable: &mut VariableId| *variable = *names.get(variable).unwrap_or(variable);
    for statement in body {
        match &mut statement.kind {
            StatementKind::Scalar {
                variable, operands, ..
            } => {
                other(variable);
                operands.iter_mut().for_each(turn);
            }
            StatementKind::Load { variable, source } => {
                other(variable);
                for entry in &mut source.entries {
                    match entry {
                        SliceEntry::Whole => {}
                        SliceEntry::Element(at) | SliceEntry::Range { start: at, .. } => turn(at),
                        SliceEntry::Sized { start, size } => {
                            turn(start);
                            turn(size);
                        }
                    }
                }
            }
            StatementKind::Let { variable, value } | StatementKind::Set { variable, value } => {
                other(variable);
                turn(value);
            }
            StatementKind::AssumeMultiple {
                variable, value, ..
            } => {
                other(variable);
                turn(value);
            }
            StatementKind::If {
                condition,
                then,
                otherwise,
            } => {
                turn(&mut condition.left);
                turn(&mut condition.right);
                rename(then, names);
                rename(otherwise, names);
            }
            StatementKind::For {
                variable,
                low,
                high,
                body,
            } => {
                other(variable);
                turn(low);
                turn(high);
                rename(body, names);
            }
            StatementKind::While {
                condition,
                test,
                body,
            } => {
                rename(condition, names);
                turn(&mut test.left);
                turn(&mut test.right);
                rename(body, names);
            }
            _ => {}
        }
    }
}

/// Visits every slice of a body, including nested bodies.
pub(crate) fn for_each_slice_mut(body: &mut [Statement], visit: &mut dyn FnMut(&mut Slice)) {
    for statement in body {
        match &mut statement.kind {
            StatementKind::Start {
                source,
                destination,
                ..
            }
            | StatementKind::WaitCopy {
                source,
                destination,
                ..
            } => {
                visit(source);
                visit(destination);
            }
            StatementKind::Print(print) => {
                for value in &mut print.values {
                    if let PrintedValue::Array(slice, _) = value {
                        visit(slice);
                    }
                }
            }
            StatementKind::Load { source: slice, .. }
            | StatementKind::StoreScalar {
                destination: slice, ..
            } => visit(slice),
            StatementKind::Compute(compute) => {
                compute.destinations.iter_mut().for_each(&mut *visit);
                for operand in &mut compute.operands {
                    if let Operand::Slice(slice) = operand {
                        visit(slice);
                    }
                }
            }
            StatementKind::Vector(block) => {
                for operation in &mut block.operations {
                    if let VectorOp::Load(view) | VectorOp::Store { view, .. } = &mut operation.op {
                        visit(&mut view.slice);
                    }
                }
            }
            StatementKind::For { body, .. } => for_each_slice_mut(body, visit),
            StatementKind::While {
                condition, body, ..
            } => {
                for_each_slice_mut(condition, visit);
                for_each_slice_mut(body, visit);
            }
            StatementKind::If {
                then, otherwise, ..
            } => {
                for_each_slice_mut(then, visit);
                for_each_slice_mut(otherwise, visit);
            }
            StatementKind::Grid(grid) => for_each_slice_mut(&mut grid.body, visit),
            _ => {}
        }
    }
}
