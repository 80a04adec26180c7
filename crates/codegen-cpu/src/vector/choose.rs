//! Which loops of a kernel become runs of lanes.

use super::linear::merged;
use super::translate::{Reason, Run, domain_run, loop_run};
use rustc_hash::FxHashMap;
use tegula_expr::Var;
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Block, IndexVar, Statement};

/// The vector loops of a kernel.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    /// The innermost domain dimensions, so many, as lanes.
    pub domain: Option<(usize, Run)>,
    /// Loops of the body, by their variables.
    pub loops: FxHashMap<Var, Run>,
    /// Why what stays scalar does.
    pub reasons: Vec<Reason>,
}

/// Fewer lanes than this are not worth a vector.
const FEW: i64 = 4;

/// Chooses between the domain's innermost dimensions and the innermost loops:
/// whichever goes through memory one element after the other.
pub(crate) fn choose(kernel: &Kernel) -> Choice {
    let mut choice = Choice::default();
    let (count, lanes) = merged(kernel);
    let domain = if lanes.is_some_and(|n| n < FEW) {
        Err(Reason::new("a short innermost dimension"))
    } else {
        let rest = &kernel.domain[kernel.domain.len() - count..];
        let others = rest.split_last().map_or(&[][..], |(_, others)| others);
        domain_run(kernel, others, lanes)
    };
    let mut loops = Loops {
        kernel,
        choice: &mut choice,
    };
    match domain {
        Ok(run) if run.gathers == 0 => {
            choice.domain = Some((count, run));
        }
        Ok(run) => {
            loops.block(&kernel.body);
            if choice.loops.is_empty() {
                choice.domain = Some((count, run));
            }
        }
        Err(reason) => {
            loops.block(&kernel.body);
            choice.reasons.insert(0, reason);
        }
    }
    choice
}

struct Loops<'a> {
    kernel: &'a Kernel,
    choice: &'a mut Choice,
}

impl Loops<'_> {
    /// Gives whether there are loops.
    fn block(&mut self, block: &Block) -> bool {
        let mut any = false;
        for statement in &block.statements {
            match statement {
                Statement::Loop { var, body, .. } => {
                    any = true;
                    if !self.block(body) {
                        self.innermost(*var, statement);
                    }
                }
                Statement::If {
                    then, otherwise, ..
                } => {
                    any |= self.block(then);
                    any |= self.block(otherwise);
                }
                _ => {}
            }
        }
        any
    }

    fn innermost(&mut self, var: Var, statement: &Statement) {
        let short = match self.kernel.var(var) {
            Some(IndexVar::Loop(extent)) => extent.as_constant().is_some_and(|n| n < FEW),
            _ => true,
        };
        if short {
            self.choice.reasons.push(Reason::new("a short loop"));
            return;
        }
        match loop_run(self.kernel, statement) {
            Ok(run) if run.gathers == 0 => {
                self.choice.loops.insert(var, run);
            }
            Ok(_) => self
                .choice
                .reasons
                .push(Reason::new("a loop through scattered elements")),
            Err(reason) => self.choice.reasons.push(reason),
        }
    }
}
