//! The orders of a program's arrays on a machine with dense memory: those that the program states
//! for its parameters and results, and those of least cost for the other arrays.

use super::{Assignment, Machine, assign_program, check_sizes, name_of, worth_choosing};
use crate::apply_layouts::{Orders, is_row_major, of_layout, stated, to_layout};
use tegula_fusion::{Program, ValueId};
use tegula_ir::{Layout, Module};

/// Why an array is not row-major.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// The program states this layout.
    Stated,
    /// This many seconds are saved compared with row-major order, all other orders being equal.
    Saves(f64),
    /// It follows the order of arrays that it is computed from or with.
    Follows,
}

/// A flat program, with the orders of its arrays.
#[derive(Clone, Debug)]
pub struct Ordered {
    /// The program.
    pub program: Program,
    /// The orders of its arrays.
    pub orders: Orders,
    /// For each array that is not row-major its instruction, its layout, and the reason. This takes
    /// time, so it is filled in only on request.
    pub reasons: Vec<(String, Layout, Reason)>,
}

/// Chooses the orders of a module's flat program. If row-major arrays cost nothing extra (see
/// `worth_choosing`), they are kept. If sizes are known only at run time, only the orders that the
/// program states are applied, because costs are not known.
pub fn dense_orders(
    module: &Module,
    program: Program,
    machine: &Machine,
    wants_reasons: bool,
) -> Ordered {
    let mut orders = of_stated(module, &program);
    let mut reasons = Vec::new();
    let stated = !orders.is_row_major();
    let may_pay = stated || worth_choosing::is_there(module, &program, machine);
    if may_pay {
        orders.made_before_loops = worth_choosing::made_before_loops(module, &program, machine);
    }
    if !may_pay || check_sizes(module, &program).is_err() {
        if wants_reasons {
            reasons = explain(module, &program, &orders, None);
        }
        return Ordered {
            program,
            orders,
            reasons,
        };
    }
    let assignment = assign_program(module, program, machine, &|_| wants_reasons);
    for (&value, layout) in &assignment.layouts {
        set(&mut orders, value, layout);
    }
    // A value that is computed in a kernel without being written has the order that it has in that
    // kernel.
    for kernel in assignment.regions.iter().flat_map(|r| &r.kernels) {
        for (&value, layout) in &kernel.inside {
            if !assignment.layouts.contains_key(&value) {
                set(&mut orders, value, layout);
            }
        }
    }
    if wants_reasons {
        reasons = explain(module, &assignment.program, &orders, Some(&assignment));
    }
    Ordered {
        program: assignment.program,
        orders,
        reasons,
    }
}

fn set(orders: &mut Orders, value: ValueId, layout: &Layout) {
    let order = of_layout(layout);
    if order.len() > 1 && !is_row_major(&order) {
        orders.values.entry(value).or_insert(order);
    }
}

/// A module's flat program, with the orders that it states for its parameters and results.
pub fn stated_orders(module: &Module, program: Program) -> Ordered {
    Ordered {
        orders: of_stated(module, &program),
        program,
        reasons: Vec::new(),
    }
}

fn of_stated(module: &Module, program: &Program) -> Orders {
    let (parameters, results) = stated(module);
    let parameters = program.parameters.iter().copied().zip(parameters);
    Orders {
        values: parameters
            .filter(|(_, order)| !is_row_major(order))
            .collect(),
        results,
        ..Orders::default()
    }
}

fn explain(
    module: &Module,
    program: &Program,
    orders: &Orders,
    assignment: Option<&Assignment>,
) -> Vec<(String, Layout, Reason)> {
    let mut reasons = Vec::new();
    let name = |value| {
        name_of(module, program, value)
            .unwrap_or("a value")
            .to_owned()
    };
    for value in program.values.keys() {
        let Some(order) = orders.values.get(&value) else {
            continue;
        };
        let explained = assignment.and_then(|a| a.explanations.get(&value));
        let reason = match explained {
            _ if program.parameters.contains(&value) => Reason::Stated,
            Some(explanation) => {
                let total = |a: &super::Alternative| a.traffic + a.wishes + a.links;
                let mut all = explanation.alternatives.iter();
                let chosen = all.clone().find(|a| a.chosen).map(total);
                let other = all.find(|a| a.layout.is_row_major()).map(total);
                match (chosen, other) {
                    (Some(chosen), Some(other)) if other > chosen => Reason::Saves(other - chosen),
                    _ => Reason::Follows,
                }
            }
            None => Reason::Follows,
        };
        reasons.push((name(value), to_layout(order), reason));
    }
    for (&value, order) in program.entry.results.iter().zip(&orders.results) {
        if !is_row_major(order) {
            let name = format!("result {}", name(value));
            reasons.push((name, to_layout(order), Reason::Stated));
        }
    }
    reasons
}
