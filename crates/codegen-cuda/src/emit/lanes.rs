//! Vectorisation within a thread: one thread does several adjacent positions of a variable.
//!
//! The variable is a dimension of the domain or the counter of a loop. A thread has `width`
//! adjacent positions of it, the first of which is a multiple of `width`. An access is wide, up to
//! 16 bytes, if its index is proved to be a multiple of `width` and to grow by one from position to
//! position. An access whose index is the same for all positions is written once for each, and the
//! CUDA compiler merges them. Any other access is done position by position.

use crate::body::Body;
use crate::error::Error;
use crate::types::{load, storage, store};
use rustc_hash::{FxHashMap, FxHashSet};
use tegula_expr::{Interval, Term, Var, canonicalize, residue_of};
use tegula_fusion::Kernel;
use tegula_fusion::kernel::{Access, Block, IndexVar, ScalarId, ScalarOp, Statement};

/// The widest access of a thread, in bytes.
const WIDEST: i64 = 16;

/// How the index of an access changes between the positions of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Along {
    /// Adjacent positions access adjacent elements, and the first is aligned to their number.
    Neighbours,
    /// All positions access the same element.
    Same,
    /// Any other access.
    Apart,
}

/// How many positions of a variable a thread should have, if more than one, and the bytes of its
/// widest access, at most 16. `statements` is everything that is done for each position.
pub(super) fn width(
    kernel: &Kernel,
    inner: Var,
    statements: &mut dyn Iterator<Item = &Statement>,
) -> Option<(i64, i64)> {
    let statements: Vec<&Statement> = statements.collect();
    let widths = std::iter::successors(Some(WIDEST), |width| Some(width / 2));
    let mut widths = widths.take_while(|&width| width > 1);
    widths.find_map(|width| {
        let widest = widest(kernel, inner, width, &statements)?;
        (widest > 0).then_some((width, widest))
    })
}

/// Whether the statements can be done for `width` positions of the variable by one thread.
pub(super) fn fits(
    kernel: &Kernel,
    inner: Var,
    width: i64,
    statements: &mut dyn Iterator<Item = &Statement>,
) -> bool {
    let statements: Vec<&Statement> = statements.collect();
    widest(kernel, inner, width, &statements).is_some()
}

/// The size of the widest access with this many positions, in bytes, 0 if there is none; `None` if
/// the statements do not allow this many positions.
fn widest(kernel: &Kernel, inner: Var, width: i64, statements: &[&Statement]) -> Option<i64> {
    let (IndexVar::Domain(extent) | IndexVar::Loop(extent)) = kernel.var(inner)? else {
        return None;
    };
    let extent = extent.as_constant()?;
    if extent % width != 0 || statements.iter().any(|s| is_irregular(s)) {
        return None;
    }
    let found = accesses_along(kernel, inner, width, statements)?;
    let neighbours = found
        .iter()
        .filter(|(_, along)| *along == Along::Neighbours);
    let widest = neighbours.map(|(bytes, _)| bytes * width).max();
    // Scattered accesses are better with one position per thread: each access of a warp touches as
    // many sectors either way, but a thread with several positions makes more such accesses.
    let scattered = found.iter().any(|(_, along)| *along == Along::Apart);
    (!scattered)
        .then_some(widest.unwrap_or(0))
        .filter(|&widest| widest <= WIDEST)
}

/// Whether a statement accesses memory conditionally or in a loop.
fn is_irregular(statement: &Statement) -> bool {
    match statement {
        Statement::If {
            then, otherwise, ..
        } => [then, otherwise]
            .iter()
            .any(|block| block.any(|s| s.is_store() || s.is_load() || s.is_loop())),
        other => other.is_loop(),
    }
}

/// For each access, the size of its element in bytes, and how its index changes along the positions
/// of a thread. `None` if a store is not wide.
fn accesses_along(
    kernel: &Kernel,
    inner: Var,
    width: i64,
    statements: &[&Statement],
) -> Option<Vec<(i64, Along)>> {
    let fixed = fixed_variables(kernel, inner);
    let mut found = Vec::new();
    for statement in statements {
        let (param, index, is_store) = match statement {
            Statement::Load { param, index, .. } => (*param, index, false),
            Statement::Store { param, index, .. } => (*param, index, true),
            _ => continue,
        };
        let along = along(kernel, &fixed, (inner, width), param, index)?;
        if is_store && along != Along::Neighbours {
            return None;
        }
        let bytes = kernel.params.get(param)?.element_type.storage_bytes() as i64;
        found.push((bytes, along));
    }
    Some(found)
}

/// The run-time variables (indices that the kernel has loaded) that are the same for all positions
/// of a thread. In a `gather` of rows, this is the row, while the positions are its columns.
fn fixed_variables(kernel: &Kernel, inner: Var) -> FxHashSet<Var> {
    let mut fixed = Fixed {
        kernel,
        inner,
        vars: FxHashSet::default(),
        moving: FxHashSet::default(),
    };
    if kernel
        .vars
        .iter()
        .any(|v| matches!(v, IndexVar::Runtime { .. }))
    {
        fixed.block(&kernel.body);
    }
    fixed.vars
}

/// Collects what is the same for all positions of a variable.
struct Fixed<'a> {
    kernel: &'a Kernel,
    inner: Var,
    vars: FxHashSet<Var>,
    /// The scalars that differ between positions.
    moving: FxHashSet<ScalarId>,
}

impl Fixed<'_> {
    fn block(&mut self, block: &Block) {
        for statement in &block.statements {
            match statement {
                Statement::Compute {
                    result,
                    op,
                    operands,
                } => {
                    let index = match op {
                        ScalarOp::Index(term) => self.moves(term),
                        _ => false,
                    };
                    if index || operands.iter().any(|o| self.moving.contains(o)) {
                        self.moving.insert(*result);
                    }
                }
                Statement::Load {
                    result,
                    param,
                    index,
                } => {
                    let access = self.kernel.params.get(*param).map(|p| p.access);
                    if access != Some(Access::Read) || index.iter().any(|t| self.moves(t)) {
                        self.moving.insert(*result);
                    }
                }
                Statement::Bind { var } => {
                    if let Some(IndexVar::Runtime { value, .. }) = self.kernel.var(*var)
                        && !self.moving.contains(value)
                    {
                        self.vars.insert(*var);
                    }
                }
                Statement::Loop {
                    carried,
                    body,
                    results,
                    ..
                } => {
                    self.moving.extend(carried.iter().chain(results));
                    self.block(body);
                }
                Statement::If {
                    then,
                    otherwise,
                    results,
                    ..
                } => {
                    self.moving.extend(results);
                    self.block(then);
                    self.block(otherwise);
                }
                Statement::Store { .. } => {}
            }
        }
    }

    fn moves(&self, term: &Term) -> bool {
        let mut moves = false;
        term.for_each_var(&mut |var| {
            let runtime = matches!(self.kernel.var(var), Some(IndexVar::Runtime { .. }));
            moves |= var == self.inner || runtime && !self.vars.contains(&var);
        });
        moves
    }
}

/// How an access changes along the positions of a thread, which are `inner = width * q + lane` for
/// each lane from 0 to `width - 1`. `fixed` is the result of [`fixed_variables`].
fn along(
    kernel: &Kernel,
    fixed: &FxHashSet<Var>,
    (inner, width): (Var, i64),
    param: usize,
    index: &[Term],
) -> Option<Along> {
    let mut ranges = crate::body::variable_ranges(kernel);
    let place = kernel.params.get(param)?.elements_before(index);
    // Indices that depend on loaded values are not known.
    let mut unknown = false;
    place.for_each_var(&mut |var| {
        let runtime = matches!(kernel.var(var), Some(IndexVar::Runtime { .. }));
        unknown |= runtime && !fixed.contains(&var);
    });
    if unknown {
        return Some(Along::Apart);
    }
    let range = ranges.get(inner.0 as usize).copied()?;
    let quotient = Var(ranges.len() as u32);
    ranges.push(Interval::new(0, range.upper / width));
    let at = |lane: i64| {
        let position = Term::var(quotient)
            .mul(&Term::constant(width))
            .add(&Term::constant(lane));
        let place = place.substitute(&mut |var| (var == inner).then(|| position.clone()));
        canonicalize(&place, &ranges)
    };
    let first = at(0);
    let steps: Vec<Term> = (1..width)
        .map(|lane| canonicalize(&at(lane).sub(&first), &ranges))
        .collect();
    if steps.iter().all(|step| step.as_constant() == Some(0)) {
        return Some(Along::Same);
    }
    let neighbours = steps
        .iter()
        .zip(1..)
        .all(|(step, lane)| step.as_constant() == Some(lane));
    let residue = residue_of(&first, &ranges);
    let aligned = residue.modulus % width == 0 && residue.remainder % width == 0;
    Some(if neighbours && aligned {
        Along::Neighbours
    } else {
        Along::Apart
    })
}

/// The positions of a thread.
pub(super) struct Lanes<'a> {
    kernel: &'a Kernel,
    fixed: FxHashSet<Var>,
    /// The variable whose values the positions are; unused if there is only one position.
    inner: Var,
    width: i64,
    /// The values of variables at each position.
    lanes: Vec<FxHashMap<Var, Term>>,
}

impl<'a> Lanes<'a> {
    /// `width` positions of a variable; the variable's own value is the first of them.
    pub(super) fn new(kernel: &'a Kernel, inner: Var, width: i64) -> Self {
        let at = |lane| Term::var(inner).add(&Term::constant(lane));
        Self {
            kernel,
            fixed: fixed_variables(kernel, inner),
            inner,
            width,
            lanes: (0..width)
                .map(|lane| [(inner, at(lane))].into_iter().collect())
                .collect(),
        }
    }

    /// A single position, whose scalars have no prefix.
    pub(super) fn one(kernel: &'a Kernel) -> Self {
        Self {
            kernel,
            fixed: FxHashSet::default(),
            inner: Var(0),
            width: 1,
            lanes: vec![FxHashMap::default()],
        }
    }

    pub(super) fn width(&self) -> i64 {
        self.width
    }

    /// The prefix of the names of a position's scalars.
    pub(super) fn prefix(&self, lane: usize) -> String {
        match self.width {
            1 => String::new(),
            _ => format!("n{lane}_"),
        }
    }

    /// The vector type of a thread's elements of a parameter.
    pub(super) fn vector(&self, ty: tegula_ir::ElementType) -> String {
        format!("tegula_vector<{}, {}>", storage(ty), self.width)
    }

    /// Writes a statement for every position; `number` is the statement's index in its block.
    pub(super) fn statement(
        &mut self,
        body: &mut Body<'_>,
        number: usize,
        statement: &Statement,
    ) -> Result<(), Error> {
        match statement {
            Statement::Load {
                result,
                param,
                index,
            } if self.is_wide(*param, index) => {
                let ty = body.param_type(*param)?;
                let vector = self.vector(ty);
                let element = self.first(body, *param, index)?;
                let name = format!("x{number}");
                body.line(&format!(
                    "const {vector} {name} = *(const {vector} *)&{element};"
                ));
                self.each(body, &mut |body, lane| {
                    let value = load(ty, &format!("{name}.at[{lane}]"));
                    let own = crate::types::carrier(ty);
                    let line = format!("const {own} {} = {value};", body.scalar(*result));
                    body.line(&line);
                    Ok(())
                })
            }
            Statement::Store {
                param,
                index,
                value,
            } if self.is_wide(*param, index) => {
                let ty = body.param_type(*param)?;
                let vector = self.vector(ty);
                let name = format!("y{number}");
                body.line(&format!("{vector} {name};"));
                self.each(body, &mut |body, lane| {
                    let stored = store(ty, &body.scalar(*value));
                    body.line(&format!("{name}.at[{lane}] = {stored};"));
                    Ok(())
                })?;
                let element = self.first(body, *param, index)?;
                body.line(&format!("*({vector} *)&{element} = {name};"));
                Ok(())
            }
            other => self.each(body, &mut |body, _| body.statement(other)),
        }
    }

    fn is_wide(&self, param: usize, index: &[Term]) -> bool {
        let along = || {
            let inner = (self.inner, self.width);
            along(self.kernel, &self.fixed, inner, param, index)
        };
        self.width > 1 && along() == Some(Along::Neighbours)
    }

    /// The element at the thread's first position.
    fn first(&self, body: &mut Body<'_>, param: usize, index: &[Term]) -> Result<String, Error> {
        body.lane.clone_from(&self.lanes[0]);
        let element = body.element(param, index);
        body.lane.clear();
        element
    }

    /// Calls `write` for each position.
    pub(super) fn each(
        &mut self,
        body: &mut Body<'_>,
        write: &mut dyn FnMut(&mut Body<'_>, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for lane in 0..self.lanes.len() {
            std::mem::swap(&mut body.lane, &mut self.lanes[lane]);
            body.prefix = self.prefix(lane);
            let written = write(body, lane);
            body.prefix.clear();
            std::mem::swap(&mut body.lane, &mut self.lanes[lane]);
            written?;
        }
        Ok(())
    }
}
