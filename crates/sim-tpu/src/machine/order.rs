//! `parallel` dimensions of a grid, whose points may be visited in any order.
//!
//! The machine visits the points in the text's order, and then in a second run with every such
//! dimension reversed, so that any two points that differ along it are visited in both orders. A
//! finding of the second run alone, or a different result, shows that the program depends on an
//! order that it declares free.

use crate::finding::{Code, Finding};
use crate::program::{Grid, Role, Statement, StatementKind, TpuProgram, Variable, find_statement};
use crate::report::Report;
use crate::text::print_statement;
use tegula_expr::Term;

/// The program with its parallel dimensions reversed, and the first grid that has one; `None` if no
/// parallel dimension has at least two points.
pub(super) fn reversed(program: &TpuProgram) -> Option<(TpuProgram, FreeGrid)> {
    let mut other = program.clone();
    let mut body = std::mem::take(&mut other.body);
    let mut first = None;
    reverse(&mut body, &mut other, &mut first);
    other.body = body;
    first.map(|first| (other, first))
}

/// Whether a program, its grids not yet expanded, has a `parallel` dimension.
pub(super) fn is_free(program: &TpuProgram) -> bool {
    let free = &mut |statement: &Statement| match &statement.kind {
        StatementKind::Grid(grid) => grid.dimensions.iter().any(|dimension| dimension.parallel),
        _ => false,
    };
    find_statement(&program.body, free).is_some()
}

/// A grid with a parallel dimension.
pub(super) struct FreeGrid {
    line: u32,
    names: String,
    instruction: String,
}

fn reverse(body: &mut [Statement], program: &mut TpuProgram, first: &mut Option<FreeGrid>) {
    for statement in body {
        let before = statement.clone();
        match &mut statement.kind {
            StatementKind::For { body, .. } => reverse(body, program, first),
            StatementKind::While {
                condition, body, ..
            } => {
                reverse(condition, program, first);
                reverse(body, program, first);
            }
            StatementKind::If {
                then, otherwise, ..
            } => {
                reverse(then, program, first);
                reverse(otherwise, program, first);
            }
            StatementKind::Grid(grid) => {
                reverse(&mut grid.body, program, first);
                let names = reverse_grid(grid, statement.line, program);
                if first.is_none() && !names.is_empty() {
                    *first = Some(FreeGrid {
                        line: statement.line,
                        names: names.join(", "),
                        instruction: print_statement(program, &before),
                    });
                }
            }
            _ => {}
        }
    }
}

/// Reverses the parallel dimensions of a grid; returns their names.
fn reverse_grid(grid: &mut Grid, line: u32, program: &mut TpuProgram) -> Vec<String> {
    let mut names = Vec::new();
    for at in 0..grid.dimensions.len() {
        let dimension = &mut grid.dimensions[at];
        let many = dimension.high.sub(&dimension.low).as_constant() != Some(1);
        if !dimension.parallel || !many {
            continue;
        }
        let (old, low, high) = (dimension.variable, &dimension.low, &dimension.high);
        let name = program.variables[old].name.clone();
        let new = program.variables.push(Variable {
            name: format!("{name}_reversed"),
            range: None,
        });
        let value = low.add(high).sub(&(&Term::var(new.var()) + 1));
        dimension.variable = new;
        let turn = |term: &mut Term| {
            *term = term.substitute(&mut |var| (var == old.var()).then(|| value.clone()));
        };
        for inner in &mut grid.dimensions[at + 1..] {
            turn(&mut inner.low);
            turn(&mut inner.high);
        }
        for window in &mut grid.windows {
            window.indices.iter_mut().for_each(turn);
            if !window.transform.is_empty() {
                let kind = StatementKind::Let {
                    variable: old,
                    value: value.clone(),
                };
                window.transform.insert(0, Statement { kind, line });
            }
        }
        let kind = StatementKind::Let {
            variable: old,
            value,
        };
        grid.body.insert(0, Statement { kind, line });
        names.push(name);
    }
    names
}

/// Adds to a report the findings that only the run in reverse order has.
pub(super) fn compare(report: &mut Report, other: Report, program: &TpuProgram, grid: &FreeGrid) {
    let FreeGrid {
        line,
        names,
        instruction,
    } = grid;
    let before = report.findings.len();
    for finding in other.findings {
        // Findings of the checks before the run concern the program as it is.
        let depends = !matches!(
            finding.code,
            Code::Alignment | Code::Block | Code::ElementType
        );
        let known = |f: &Finding| (f.code, f.line) == (finding.code, finding.line);
        if depends && !report.findings.iter().any(known) {
            report.findings.push(Finding {
                message: format!(
                    "with the points of `parallel {names}` in reverse order: {}",
                    finding.message
                ),
                help: format!("take `parallel` off `{names}`, or {}", finding.help),
                ..finding
            });
        }
    }
    let pairs = report.results.iter().zip(&other.results).enumerate();
    let differing = pairs.filter(|(_, (own, other))| own.bytes() != other.bytes());
    let differing: Vec<usize> = differing.map(|(number, _)| number).collect();
    if before == report.findings.len() && !differing.is_empty() {
        let name = |number: &usize| {
            let of = |role| matches!(role, Role::Result(own) if own == *number);
            let found = program.buffers.values().find(|buffer| of(buffer.role));
            found.map_or_else(String::new, |buffer| format!("`{}`", buffer.name))
        };
        let names_of: Vec<String> = differing.iter().map(name).collect();
        report.findings.push(Finding {
            code: Code::TwoWrites,
            message: format!(
                "the points of `parallel {names}` run in any order, and in reverse order they give another {}",
                names_of.join(", ")
            ),
            help: format!(
                "remove `parallel` from `{names}`, or make each point independent of data that other points leave"
            ),
            instruction: instruction.clone(),
            line: *line,
            buffer: differing.first().and_then(|number| {
                let of = |role| matches!(role, Role::Result(own) if own == *number);
                let found = program.buffers.values().find(|buffer| of(buffer.role));
                found.map(|buffer| buffer.name.clone())
            }),
            count: 1,
        });
    }
    let key = |f: &Finding| (f.line, f.code, f.buffer.clone());
    report.findings.sort_by_key(key);
}
