//! Chooses which loops of a kernel become vector loops: the [`VectorPlan`].

use crate::analysis::affine_access::{Ranges, linear_index, merged, split};
use crate::simd::mathlib::calls_function;
use crate::vectorize::loop_versioning::{MIN_SAVED, Version, versions};
use crate::vectorize::translate::{Reason, Run, TILE_LANES, domain_run, loop_run, run_of_tiles};
use rustc_hash::FxHashMap;
use std::fmt;
use tegula_expr::{Style, Term, Var, gcd, range_of};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Access, Block, IndexVar, Param, Statement};

/// The vector loops of a kernel.
#[derive(Debug, Default)]
pub(crate) struct VectorPlan {
    /// The number of innermost domain dimensions that form the vector loop, and its versions.
    pub domain: Option<(usize, Version<Run>)>,
    /// If lanes are far apart in a loaded array: blocks of vectors go along the domain dimension
    /// along which that array is contiguous, so that a cache line is used entirely while it is
    /// cached.
    pub across: Option<Across>,
    /// Whether neighbouring rows are computed some time apart: see [`rows_touch`].
    pub apart: bool,
    /// Vectorised loops of the body, by their variables.
    pub loops: FxHashMap<Var, Run>,
    /// The reasons why other loops stay scalar.
    pub reasons: Vec<Reason>,
}

/// Blocks of lanes that go along another dimension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Across {
    /// The dimension.
    pub var: Var,
    /// The number of lanes in a block.
    pub lanes: i64,
}

/// The maximum number of lanes in a block: each is in a cache line of its own, and the work exceeds
/// that of a few calls.
const BLOCK_LANES: i64 = 64;
/// The minimum number: those of the longest vectors.
const FEWEST_BLOCK_LANES: i64 = 16;
/// The bytes of one way of a first-level data cache, whose lines have addresses that differ modulo
/// this number: 4 KiB on every x86-64 CPU with 64 sets of lines of 64 bytes.
const WAY_BYTES: i64 = 4096;
/// The number of ways that every such cache has.
const WAYS: i64 = 8;

impl Across {
    /// Blocks of lanes that are this many bytes apart, if that is known: as many as have lines in the
    /// first-level cache at the same time. A distance of 2 KiB leaves room for 16 lines only.
    fn new(var: Var, distance: Option<i64>) -> Self {
        let fitting = distance.map_or(BLOCK_LANES, |bytes| {
            WAYS * (WAY_BYTES / gcd(bytes, WAY_BYTES).cast_signed())
        });
        let lanes = fitting.clamp(FEWEST_BLOCK_LANES, BLOCK_LANES);
        Self { var, lanes }
    }
}

impl VectorPlan {
    /// Terms over symbols; at sizes at which one has more than 32 bits, the domain has no lanes.
    pub(crate) fn guards(&self) -> Vec<&Term> {
        let mut guards = Vec::new();
        if let Some((_, rows)) = &self.domain {
            rows.for_each(&mut |run| {
                let new = run.guards.iter().filter(|term| !guards.contains(term));
                let new: Vec<&Term> = new.collect();
                guards.extend(new);
            });
        }
        guards
    }
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
        for term in self.guards() {
            let names = |var: Var| format!("i{}", var.0);
            let term = term.display(&names, Style::Document);
            writeln!(f, "; if {term} has at most 32 bits")?;
        }
        if let Some(Across { var, lanes }) = self.across {
            writeln!(f, "; blocks of {lanes} lanes along i{}", var.0)?;
            if let Some((_, Version::Leaf(run))) = &self.domain {
                for tile in &run.tiles {
                    writeln!(f, "; a tile of parameter {}", tile.param)?;
                }
            }
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
/// The maximum bytes of a short row: waiting for the row before it takes a good part of its time.
const SHORT_ROW: i64 = 1024;

/// Whether neighbouring rows should not be computed one after the other: the last vector of a row
/// is partial, and the kernel may write its result over its input. The masked store of that vector
/// overlaps the next row, whose loads then wait until the store has completed (15 ns a row on a Zen
/// 4, measured; a row of 12 differences and roots takes 3). A row of open length is assumed to have
/// a partial vector; if it has none, the other order of rows costs a few instructions a row.
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

/// The innermost dimensions of a domain as one vector loop.
struct Innermost<'k> {
    count: usize,
    /// The enclosing dimensions.
    outer: &'k [Var],
    /// The merged dimensions except the last, which counts the lanes.
    others: &'k [Var],
    /// The number of lanes, if it is constant.
    constant: Option<i64>,
    /// The maximum number of lanes, if it is not that of the last dimension.
    at_most: Option<i64>,
}

/// Makes one vector loop of the `count` innermost dimensions of the kernel's domain, `lanes`
/// iterations together. Returns these dimensions, and the loop's body or the reason why it is not
/// vectorised.
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

/// Chooses between the domain's innermost dimensions and the innermost loops, by which of them
/// access memory contiguously.
pub(crate) fn select_loops(kernel: &Kernel) -> VectorPlan {
    let (mut inner, mut domain) = innermost(kernel, merged(kernel));
    if domain.is_err() && inner.count > 1 && inner.constant.is_none() {
        // Lane numbers of merged dimensions may need more than 32 bits even if those of one
        // dimension do not.
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
    // The vector loops of the kernel's versions.
    let rows = |least_saved| {
        let versions = versions(kernel, outer, least_saved)?;
        versions.map(&mut |kernel| domain_run(&kernel, others, at_most).ok())
    };
    let by_rows = |run: Run| {
        let without_gathers = || {
            // An index that is loaded under a condition varies between lanes; if the condition is
            // decided it is the same for the row, and the gather becomes a load.
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
                // The elements of a vector belong to different rows and would be stored one by one
                // in every iteration.
                let reason =
                    Reason::new("a loop that stores along its own variable, for each lane");
                choice.reasons.insert(0, reason);
            } else if choice.loops.is_empty() {
                choice.across = across(kernel, outer);
                let rows = match &mut choice.across {
                    Some(across) => {
                        let tiled = run_of_tiles(kernel, others, at_most, across.var);
                        if tiled.is_ok() {
                            across.lanes = TILE_LANES;
                        }
                        Version::Leaf(tiled.unwrap_or(run))
                    }
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

/// Whether functions would be called for one element at a time, which costs more than gathers.
fn calls_in_scalar_loops(kernel: &Kernel, choice: &VectorPlan) -> bool {
    choice.loops.is_empty() && kernel.body.any(|s| calls_function(kernel, s))
}

fn stores_in_a_loop(block: &Block) -> bool {
    block.statements.iter().any(|s| match s {
        Statement::Loop { body, .. } => body.any(Statement::is_store),
        _ => false,
    })
}

/// The enclosing dimension along which an array is contiguous that the innermost dimension accesses
/// with a larger stride.
fn across(kernel: &Kernel, outer: &[Var]) -> Option<Across> {
    let lane = *kernel.domain.last()?;
    let ranges = Ranges {
        vars: &kernel.vars,
        lanes: None,
    };
    let step = |linear: &Term, var: Var| Some(split(linear, var)?.0);
    kernel.body.statements.iter().find_map(|statement| {
        let Statement::Load { param, index, .. } = statement else {
            return None;
        };
        let linear = linear_index(kernel, *param, index, &ranges);
        // A stride that sizes decide is taken to be large.
        let is_far = |step: &Term| step.as_constant().is_none_or(|s| s > 1);
        let distance = step(&linear, lane).filter(is_far)?;
        let near = |var: &&Var| step(&linear, **var).is_some_and(|s| s.as_constant() == Some(1));
        let size = kernel.params[*param].element_type.storage_bytes() as i64;
        let bytes = distance.as_constant().and_then(|s| s.checked_mul(size));
        outer.iter().find(near).map(|&var| Across::new(var, bytes))
    })
}

struct Loops<'a> {
    kernel: &'a Kernel,
    choice: &'a mut VectorPlan,
}

impl Loops<'_> {
    /// Returns whether there are loops.
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
