//! Chooses which loops of a kernel become vector loops: the [`VectorPlan`].

use crate::analysis::affine_access::{Ranges, linear_index, merged, split};
use crate::simd::mathlib::calls_function;
use crate::vectorize::loop_versioning::{MIN_SAVED, Version, versions};
use crate::vectorize::translate::{Reason, Run, domain_run, loop_run};
use rustc_hash::FxHashMap;
use std::fmt;
use tegula_expr::{Term, Var, range_of};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Access, Block, IndexVar, Param, Statement};

/// The vector loops of a kernel.
#[derive(Debug, Default)]
pub(crate) struct VectorPlan {
    /// The innermost domain dimensions, so many, as lanes.
    pub domain: Option<(usize, Version<Run>)>,
    /// If these lanes lie far apart in what is loaded: the domain dimension along which
    /// that is contiguous. Blocks of lanes go along it, so that a line of the cache is
    /// used as a whole while it is there.
    pub across: Option<Var>,
    /// Whether neighbouring rows of lanes are done some time apart: see [`rows_touch`].
    pub apart: bool,
    /// Loops of the body, by their variables.
    pub loops: FxHashMap<Var, Run>,
    /// Why what stays scalar does.
    pub reasons: Vec<Reason>,
}

impl fmt::Display for VectorPlan {
    /// One line for each vector loop, and for each reason against one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((count, rows)) = &self.domain {
            let mut runs = Vec::new();
            rows.for_each(&mut |run| runs.push(run));
            for run in runs {
                writeln!(
                    f,
                    "; lanes: {count} dimension(s) of the domain, {} values, {} gathers",
                    run.body.values.len(),
                    run.gathers
                )?;
            }
        }
        if let Some(var) = self.across {
            writeln!(f, "; blocks of lanes along i{}", var.0)?;
        }
        let mut vars: Vec<&Var> = self.loops.keys().collect();
        vars.sort();
        for var in vars {
            writeln!(f, "; lanes: loop i{}", var.0)?;
        }
        for Reason(reason) in &self.reasons {
            writeln!(f, "; scalar: {reason}")?;
        }
        Ok(())
    }
}

/// Fewer lanes than this are not worth a vector.
pub(crate) const FEW: i64 = 4;

/// Bytes of the longest vector.
const VECTOR_BYTES: i64 = 64;
/// Bytes of a row that is so short that to wait for the one before is a good part of its time.
const SHORT_ROW: i64 = 1024;

/// Whether a row ends within a vector, and the kernel may write over what it reads. The last
/// vector of such a row is masked, and reaches into the next row all the same: what is loaded
/// there waits until the store is through (15 ns a row on a Zen 4, measured; a row of 12
/// differences and roots takes 3). Rows of open length may do so; where they do not, the other order
/// costs a few instructions a row.
fn rows_touch(kernel: &Kernel, lanes: Option<i64>) -> bool {
    let of = |access: Access| kernel.params.iter().filter(move |p| p.access == access);
    of(Access::Write).any(|written| {
        let size = written.element_type.storage_bytes();
        let bytes = lanes.map(|lanes| lanes.saturating_mul(size as i64));
        let is_short = bytes.is_none_or(|n| n <= SHORT_ROW && n % VECTOR_BYTES != 0);
        let same = |p: &Param| p.dims == written.dims && p.element_type.storage_bytes() == size;
        is_short && of(Access::Read).any(same)
    })
}

/// The innermost dimensions of a domain as one run of lanes.
struct Innermost<'k> {
    count: usize,
    /// The dimensions around them.
    outer: &'k [Var],
    /// All of them but the last, which counts the lanes.
    others: &'k [Var],
    /// How many lanes there are, if that is known.
    constant: Option<i64>,
    /// The most lanes that there may be, if that is not what the last dimension says.
    at_most: Option<i64>,
}

/// These dimensions and lanes, as [`merged`] gives them, and the body of the lanes.
fn innermost(
    kernel: &Kernel,
    (count, lanes): (usize, Term),
) -> (Innermost<'_>, Result<Run, Reason>) {
    let (outer, rest) = kernel.domain.split_at(kernel.domain.len() - count);
    let others = rest.split_last().map_or(&[][..], |(_, others)| others);
    let constant = lanes.as_constant();
    let ranges = Ranges {
        vars: &kernel.vars,
        lanes: None,
    };
    let at_most = match constant {
        None if count > 1 => Some(range_of(&lanes, &ranges).upper),
        constant => constant,
    };
    let run = match constant {
        Some(..FEW) => Err(Reason::new("a short innermost dimension")),
        _ => domain_run(kernel, others, at_most),
    };
    let inner = Innermost {
        count,
        outer,
        others,
        constant,
        at_most,
    };
    (inner, run)
}

/// Chooses between the domain's innermost dimensions and the innermost loops:
/// whichever goes through memory one element after the other.
pub(crate) fn select_loops(kernel: &Kernel) -> VectorPlan {
    let (mut inner, mut domain) = innermost(kernel, merged(kernel));
    if domain.is_err() && inner.count > 1 && inner.constant.is_none() {
        // Numbers of so many lanes may need more than 32 bits, where those of one dimension do not.
        let last = kernel.domain.last().and_then(|&var| kernel.extent(var));
        let last = last.cloned().unwrap_or(Term::constant(0));
        (inner, domain) = innermost(kernel, (1, last));
    }
    let Innermost {
        count,
        outer,
        others,
        at_most,
        ..
    } = inner;
    let mut choice = VectorPlan {
        apart: rows_touch(kernel, inner.constant),
        ..VectorPlan::default()
    };
    // The lanes of each row that is a version of its own.
    let rows = |least_saved| {
        let versions = versions(kernel, outer, least_saved)?;
        versions.map(&mut |kernel| domain_run(&kernel, others, at_most).ok())
    };
    let by_rows = |run: Run| {
        let without_gathers = || {
            // An index that is loaded under a condition is an index of each lane; where the
            // condition is known it is one of the row, and a gather is a load.
            let rows = (run.gathers > 0).then(|| rows(0.0)).flatten()?;
            let mut fewer = true;
            rows.for_each(&mut |row: &Run| fewer &= row.gathers < run.gathers);
            fewer.then_some(rows)
        };
        let rows = rows(MIN_SAVED).or_else(without_gathers);
        rows.unwrap_or(Version::Leaf(run))
    };
    let mut loops = Loops {
        kernel,
        choice: &mut choice,
    };
    match domain {
        Ok(run) if run.gathers == 0 => {
            choice.domain = Some((count, by_rows(run)));
        }
        Ok(run) => {
            loops.block(&kernel.body);
            if stores_in_a_loop(&kernel.body) && !calls_in_scalar_loops(kernel, &choice) {
                // A vector's elements, one row each, would be put in their places one
                // by one in every turn.
                let reason = Reason::new("a loop that stores along itself, for each lane");
                choice.reasons.insert(0, reason);
            } else if choice.loops.is_empty() {
                choice.across = across(kernel, outer);
                let rows = match choice.across {
                    Some(_) => Version::Leaf(run),
                    None => by_rows(run),
                };
                choice.domain = Some((count, rows));
            }
        }
        Err(reason) => {
            loops.block(&kernel.body);
            choice.reasons.insert(0, reason);
        }
    }
    choice
}

/// Whether functions would be called one element after the other: that costs more than to
/// gather elements.
fn calls_in_scalar_loops(kernel: &Kernel, choice: &VectorPlan) -> bool {
    choice.loops.is_empty() && kernel.body.any(|s| calls_function(kernel, s))
}

fn stores_in_a_loop(block: &Block) -> bool {
    block.statements.iter().any(|s| match s {
        Statement::Loop { body, .. } => body.any(Statement::is_store),
        _ => false,
    })
}

/// The dimension around the lanes along which an array is contiguous that the innermost dimension
/// goes through in larger steps.
fn across(kernel: &Kernel, outer: &[Var]) -> Option<Var> {
    let lane = *kernel.domain.last()?;
    let ranges = Ranges {
        vars: &kernel.vars,
        lanes: None,
    };
    let step = |linear: &Term, var: Var| split(linear, var)?.0.as_constant();
    kernel.body.statements.iter().find_map(|statement| {
        let Statement::Load { param, index, .. } = statement else {
            return None;
        };
        let linear = linear_index(kernel, *param, index, &ranges);
        let far = step(&linear, lane).is_some_and(|s| s > 1);
        let near = |var: &&Var| step(&linear, **var) == Some(1);
        outer.iter().find(near).copied().filter(|_| far)
    })
}

struct Loops<'a> {
    kernel: &'a Kernel,
    choice: &'a mut VectorPlan,
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
