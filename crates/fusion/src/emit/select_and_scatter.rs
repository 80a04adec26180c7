//! Emits `select-and-scatter`: each window of the operand selects one of its elements, and the
//! source's element for that window is combined into the result at the selected position.
//!
//! There are two forms. For one core, a kernel loops over the windows and updates the selected
//! positions, in a single pass. For many threads, the domain is the result's elements: each thread
//! visits in order the windows that cover its element, recomputes what each selects, and combines
//! the source elements of those that select this element. That visits each window once per element,
//! but no two threads write to the same place.

use super::{Emitter, Scalars};
use crate::error::Error;
use crate::kernel::{Access, ScalarId, ScalarOp};
use crate::program::{NodeId, ValueId};
use smallvec::smallvec;
use tegula_expr::{Cmp, Term, terms};
use tegula_ir::{ComputationId, ElementType, WindowDim};

/// The windows and computations of a `select-and-scatter`.
pub(super) struct Selection<'a> {
    pub window: &'a [WindowDim],
    /// Whether the first of two elements is preferred.
    pub select: ComputationId,
    /// Combines an element of the result with one of the source.
    pub scatter: ComputationId,
}

impl Selection<'_> {
    /// Loops over the windows and updates a result that already holds the initial values.
    pub(super) fn by_window(&self, e: &mut Emitter<'_>, id: NodeId) -> Result<(), Error> {
        let node = &e.program.nodes[id];
        let (operand, source) = (node.operands[0], node.operands[1]);
        let output = e.param(node.results[0], Access::Update);
        let extents = e.dims(source);
        e.loops(&extents, &[], &mut |e, at, _| {
            let (position, found) = self.preferred(e, operand, at)?;
            e.branch(
                &found,
                &mut |e| {
                    let value = e.element(source, at)?;
                    let old = e.load(output, &position);
                    let combined = e.apply(self.scatter, &[old, value])?;
                    e.store(output, &position, combined[0]);
                    Ok(Scalars::new())
                },
                &mut |_| Ok(Scalars::new()),
            )
        })?;
        Ok(())
    }

    /// Computes each element of the result on its own.
    pub(super) fn by_element(&self, e: &mut Emitter<'_>, id: NodeId) -> Result<(), Error> {
        let node = &e.program.nodes[id];
        let (operand, source, first) = (node.operands[0], node.operands[1], node.operands[2]);
        let (sizes, positions) = (e.dims(operand), e.dims(source));
        let own = e.domain(&sizes);
        let output = e.param(node.results[0], Access::Write);
        if sizes.iter().any(|size| size.as_constant() == Some(0)) {
            return Ok(());
        }
        let first = e.element(first, &[])?;
        let taps: Vec<Term> = self.window.iter().map(|w| Term::constant(w.size)).collect();
        let over: Vec<WindowDim> = self.window.iter().map(WindowDim::transposed).collect();
        let sum = e.loops(&taps, &[first], &mut |e, tap, carried| {
            // The transposed window maps an element to the windows that cover it: its taps run over
            // their positions.
            let (at, is_over) = meet(&over, &positions, &own, tap);
            let keep = |carried: &[ScalarId]| Ok(carried.iter().copied().collect());
            e.branch(
                &is_over,
                &mut |e| {
                    let (position, found) = self.preferred(e, operand, &at)?;
                    let same = position.iter().zip(&own);
                    let chosen = same.fold(found, |all, (position, own)| {
                        all.mul(&Term::cmp(Cmp::Eq, position, own))
                    });
                    e.branch(
                        &chosen,
                        &mut |e| {
                            let value = e.element(source, &at)?;
                            e.apply(self.scatter, &[carried[0], value])
                        },
                        &mut |_| keep(carried),
                    )
                },
                &mut |_| keep(carried),
            )
        })?;
        e.store(output, &own, sum[0]);
        Ok(())
    }

    /// The index of the element that a window selects, and a condition that is zero if there is
    /// none: a window may lie entirely in the padding.
    fn preferred(
        &self,
        e: &mut Emitter<'_>,
        operand: ValueId,
        at: &[Term],
    ) -> Result<(Vec<Term>, Term), Error> {
        let sizes = e.dims(operand);
        let taps: Vec<Term> = self.window.iter().map(|w| Term::constant(w.size)).collect();
        // Which of several equal elements is selected depends on the order of visiting them:
        // row-major order.
        let window: Vec<WindowDim> = self.window.iter().map(WindowDim::from_begin).collect();
        let element_type = e.element_type(operand);
        // The carried scalars are the best element so far and its index in each dimension; an index
        // of -1 means none yet.
        let none = e.compute(
            ElementType::S64,
            ScalarOp::Constant(u128::from(u64::MAX)),
            &[],
        );
        let mut start: Scalars = smallvec![e.compute(element_type, ScalarOp::Constant(0), &[])];
        start.extend(sizes.iter().map(|_| none));
        let best = e.loops(&taps, &start, &mut |e, tap, carried| {
            let (position, inside) = meet(&window, &sizes, at, tap);
            e.branch(
                &inside,
                &mut |e| consider(e, operand, &position, carried, self.select),
                &mut |_| Ok(carried.iter().copied().collect()),
            )
        })?;
        let mut position = Vec::with_capacity(sizes.len());
        let mut found = Term::constant(1);
        for (&scalar, size) in best[1..].iter().zip(&sizes) {
            let last = size.as_constant().unwrap_or(i64::MAX).saturating_sub(1);
            let term = e.bind_exact(scalar, -1, last);
            found = found.mul(&Term::cmp(Cmp::Le, &Term::constant(0), &term));
            position.push(term);
        }
        Ok((position, found))
    }
}

/// The element that a window at position `at` covers with its tap `tap`, and whether there is one.
fn meet(window: &[WindowDim], sizes: &[Term], at: &[Term], tap: &[Term]) -> (Vec<Term>, Term) {
    let mut inside = Term::constant(1);
    let all = window.iter().enumerate().map(|(d, w)| {
        let (element, within) = w.meet(&mut terms(), &sizes[d], &at[d], &tap[d]);
        inside = inside.mul(&within);
        element
    });
    let element = all.collect();
    (element, inside)
}

/// Compares one element of a window with the best one so far.
fn consider(
    e: &mut Emitter<'_>,
    operand: ValueId,
    position: &[Term],
    carried: &[ScalarId],
    select: ComputationId,
) -> Result<Scalars, Error> {
    let value = e.element(operand, position)?;
    let indices: Scalars = position
        .iter()
        .map(|t| {
            let t = e.simplify(t);
            e.compute(ElementType::S64, ScalarOp::Index(t), &[])
        })
        .collect();
    let keep = e.apply(select, &[carried[0], value])?;
    // The first element of a window is taken without a comparison.
    let first = e.bind_exact(carried[1], -1, i64::MAX);
    let first = Term::cmp(Cmp::Lt, &first, &Term::constant(0));
    let keep = e.bind_exact(keep[0], 0, 1);
    let replace = Term::select(
        &first,
        &Term::constant(1),
        &Term::cmp(Cmp::Eq, &keep, &Term::constant(0)),
    );
    e.branch(
        &replace,
        &mut |_| {
            Ok(std::iter::once(value)
                .chain(indices.iter().copied())
                .collect())
        },
        &mut |_| Ok(carried.iter().copied().collect()),
    )
}
