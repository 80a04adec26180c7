//! Prints the fused graph as text: which kernel computes what, and why.

use crate::terminal::count;
use std::collections::BTreeSet;
use std::fmt::Write;
use tegula_ir::Layout;
use tegula_layout::assign::Reason;
use tegula_plan::Plan;
use tegula_plan::{Step, ValueId as PlanValue, private_values};

/// Returns one line with the number of kernels, calls and other steps of a plan.
pub(crate) fn summary(plan: &Plan) -> String {
    let mut counts = Counts::default();
    counts.add(plan, &plan.steps);
    let mut text = count(counts.kernels, "kernel");
    if plan.kernels.len() < counts.kernels {
        let _ = write!(text, " ({} different)", plan.kernels.len());
    }
    for (number, name) in [
        (counts.library, "library call"),
        (counts.copies, "copy"),
        (counts.loops, "loop"),
        (counts.branches, "conditional"),
        (counts.strips, "strip-mined group"),
    ] {
        if number > 0 {
            let _ = write!(text, ", {}", count(number, name));
        }
    }
    let bytes = tegula_ir::display_term(&plan.arena_bytes, &plan.symbols);
    let _ = write!(text, "; arena {bytes} bytes");
    return text;

    #[derive(Default)]
    struct Counts {
        kernels: usize,
        library: usize,
        copies: usize,
        loops: usize,
        branches: usize,
        strips: usize,
    }

    impl Counts {
        fn add(&mut self, plan: &Plan, steps: &[Step]) {
            for step in steps {
                match step {
                    Step::Kernel { .. } => self.kernels += 1,
                    Step::Library { .. } => self.library += 1,
                    // A copy from a place in memory to itself does nothing.
                    Step::Copy { from, to } => {
                        self.copies += usize::from(!plan.same_place(*from, *to));
                    }
                    Step::While { .. } => self.loops += 1,
                    Step::Conditional { .. } => self.branches += 1,
                    Step::Strips { .. } => self.strips += 1,
                }
                step.blocks().iter().for_each(|block| self.add(plan, block));
            }
        }
    }
}

/// Lists the arrays whose layout is not row-major, with the reasons; empty if there are none.
pub(crate) fn orders(reasons: &[(String, Layout, Reason)]) -> String {
    let mut text = String::new();
    for reason in reasons {
        if text.is_empty() {
            text.push_str("\norders:\n");
        }
        let _ = writeln!(text, "  {}", order(reason));
    }
    text
}

/// Lists the steps that run strip by strip, with the reasons; empty if there are none.
pub(crate) fn strips(plan: &Plan) -> String {
    let mut text = String::new();
    let private = private_values(plan);
    strips_in(
        plan,
        &plan.steps,
        &|value| private.contains(value),
        &mut text,
    );
    match text.is_empty() {
        true => text,
        false => format!("\nstrips:\n{text}"),
    }
}

fn strips_in(
    plan: &Plan,
    steps: &[Step],
    is_private: &dyn Fn(&PlanValue) -> bool,
    text: &mut String,
) {
    for step in steps {
        if let Step::Strips { count, steps } = step {
            let names = steps.iter().map(|step| match step {
                Step::Kernel { kernel, .. } => kernel.to_string(),
                Step::Library { op, .. } => op.name().to_owned(),
                _ => String::new(),
            });
            let names: Vec<String> = names.collect();
            let own: BTreeSet<PlanValue> = steps.iter().flat_map(Step::values).collect();
            let size = |v: &PlanValue| plan.values[*v].shape.byte_size().unwrap_or(0);
            let bytes: i64 = own.iter().filter(|v| is_private(v)).map(size).sum();
            let _ = writeln!(
                text,
                "  {}, {count} times: of {bytes} bytes that only they read and write, {} at a time",
                names.join(" and "),
                bytes / count
            );
        }
        for block in step.blocks() {
            strips_in(plan, block, is_private, text);
        }
    }
}

/// Describes the layout of one array, with the reason.
pub(crate) fn order((name, layout, reason): &(String, Layout, Reason)) -> String {
    format!("{name} {layout}: {}", why(reason))
}

/// Explains why the layout of an array is not row-major.
pub(crate) fn why(reason: &Reason) -> String {
    match reason {
        Reason::Stated => "the program states this layout".to_owned(),
        Reason::Saves(seconds) => format!("costs {:.3} us less than row-major", seconds * 1e6),
        Reason::Follows => "the same order as the arrays that it is computed with".to_owned(),
    }
}
