//! Reads of operands through indexing maps.

use super::read_maps::{Read, RuntimeRead, substitute};
use super::{Emitter, Scalars};
use crate::error::Error;
use crate::kernel::ScalarId;
use crate::program::NodeId;
use smallvec::smallvec;
use tegula_expr::{Cmp, Term, Var, terms};
use tegula_ir::Op;
use tegula_ir::helpers::ConcatenateSizes;

impl Emitter<'_> {
    /// The index at which a node reads an operand and the condition under which it does: the
    /// indexing map applied to the result's index and the given ranges, with its run-time variables
    /// bound to scalars.
    pub(crate) fn read(
        &mut self,
        id: NodeId,
        operand: usize,
        index: &[Term],
        ranges: &[Term],
    ) -> Result<Read, Error> {
        let program = self.program;
        let node = &program.nodes[id];
        let map = self.maps.get(node.origin, operand)?;
        let mut known: Vec<Term> = index.iter().chain(ranges).cloned().collect();
        let first = known.len();
        // Sizes come first, because the bound that an element is clamped to may depend on them.
        for runtime in &map.runtime {
            known.push(match runtime {
                RuntimeRead::Size(size) => self.size(size),
                RuntimeRead::Element { .. } => Term::constant(0),
            });
        }
        for (i, runtime) in map.runtime.iter().enumerate() {
            let RuntimeRead::Element {
                operand,
                index,
                bounds,
                most,
            } = runtime
            else {
                continue;
            };
            let Some(&source) = node.operands.get(*operand) else {
                return Err(self.bug("a run-time variable has no source"));
            };
            let at: Vec<Term> = index.iter().map(|t| substitute(t, &known)).collect();
            let scalar = self.element(source, &at)?;
            known[first + i] = match most {
                Some(most) => self.bind_up_to(scalar, &substitute(most, &known)),
                None => self.bind(scalar, bounds.lower, bounds.upper),
            };
        }
        Ok(map.at(&known))
    }

    /// The extents of the ranges over which a node reads an operand.
    pub(crate) fn extents(&mut self, id: NodeId, operand: usize) -> Result<Vec<Term>, Error> {
        let map = self.maps.get(self.program.nodes[id].origin, operand)?;
        let mut sizes = Vec::new();
        for runtime in &map.runtime {
            sizes.push(match runtime {
                RuntimeRead::Size(size) => Some(self.size(size)),
                RuntimeRead::Element { .. } => None,
            });
        }
        let first = map.runtime_starts();
        let known = |var: Var| {
            let position = (var.0 as usize).checked_sub(first)?;
            sizes.get(position)?.clone()
        };
        let extents = map.ranges.iter();
        Ok(extents
            .map(|e| self.simplify(&e.substitute(&mut |v| known(v))))
            .collect())
    }

    pub(super) fn concatenate(
        &mut self,
        id: NodeId,
        index: &[Term],
        operand: usize,
    ) -> Result<ScalarId, Error> {
        // The tests form a balanced tree, so that many operands do not nest deeply.
        let count = self.program.nodes[id].operands.len();
        self.concatenate_between(id, index, operand, count)
    }

    fn concatenate_between(
        &mut self,
        id: NodeId,
        index: &[Term],
        first: usize,
        end: usize,
    ) -> Result<ScalarId, Error> {
        let program = self.program;
        let node = &program.nodes[id];
        if end - first == 1 {
            let read = self.read(id, first, index, &[])?;
            return self.element(node.operands[first], &read.index);
        }
        let Op::Concatenate(dimension) = &self.module[node.origin].op else {
            return Err(self.bug("expected a concatenate"));
        };
        let dimension = usize::try_from(*dimension).unwrap_or_default();
        let middle = usize::midpoint(first, end);
        let sizes = node.operands[..middle].iter().map(|&operand| {
            let size = program.values[operand].shape.dims[dimension].term();
            self.size(&size)
        });
        let sizes: Vec<Term> = sizes.collect();
        let boundary = ConcatenateSizes::of(&mut terms(), &sizes).size;
        let condition = Term::cmp(Cmp::Lt, &index[dimension], &boundary);
        let result = self.branch(
            &condition,
            &mut |e| Ok(smallvec![e.concatenate_between(id, index, first, middle)?]),
            &mut |e| Ok(smallvec![e.concatenate_between(id, index, middle, end)?]),
        )?;
        Ok(result[0])
    }

    pub(super) fn pad(&mut self, id: NodeId, index: &[Term]) -> Result<Scalars, Error> {
        let program = self.program;
        let node = &program.nodes[id];
        let read = self.read(id, 0, index, &[])?;
        self.branch(
            &read.condition,
            &mut |e| Ok(smallvec![e.element(node.operands[0], &read.index)?]),
            &mut |e| Ok(smallvec![e.element(node.operands[1], &[])?]),
        )
    }
}
