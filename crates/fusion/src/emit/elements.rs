//! The elements of values: loaded, or computed once per scope and index.

use super::{Emitter, Scalars};
use crate::cluster::is_splat;
use crate::error::Error;
use crate::kernel::{Access, ScalarId, ScalarOp};
use crate::program::{Def, NodeId, ValueId};
use smallvec::smallvec;
use tegula_expr::Term;
use tegula_ir::{Dim, Direction, ElementType, InstructionId, Op, Order, Unary};

impl Emitter<'_> {
    /// The scalar of a value at an index.
    pub(crate) fn element(&mut self, value: ValueId, index: &[Term]) -> Result<ScalarId, Error> {
        let index: Vec<Term> = index.iter().map(|t| self.simplify(t)).collect();
        let key = (value, index);
        if let Some(&scalar) = self.scopes.iter().rev().find_map(|s| s.memo.get(&key)) {
            return Ok(scalar);
        }
        let scalar = self.element_uncached(value, &key.1)?;
        if let Some(scope) = self.scopes.last_mut() {
            scope.memo.insert(key, scalar);
        }
        Ok(scalar)
    }

    fn element_uncached(&mut self, value: ValueId, index: &[Term]) -> Result<ScalarId, Error> {
        let program = self.program;
        match &program.values[value].def {
            Def::Constant(literal)
                if is_splat(literal.bytes(), literal.element_type().storage_bytes()) =>
            {
                Ok(self.literal(literal))
            }
            Def::Node(node, number) if self.computes(value, index) => {
                self.computed(*node, *number, index)
            }
            _ => {
                let param = self.param(value, Access::Read);
                Ok(self.load(param, index))
            }
        }
    }

    /// The scalar of result `number` of a node at an index. The scalars of the other results are
    /// cached for their readers.
    fn computed(&mut self, id: NodeId, number: usize, index: &[Term]) -> Result<ScalarId, Error> {
        let scalars = self.results(id, index)?;
        let values = &self.program.nodes[id].results;
        if values.len() > 1 {
            // The other results may have no reader, so that statements are unused and must be
            // removed.
            self.simplified = true;
            if let Some(scope) = self.scopes.last_mut() {
                let known = values.iter().zip(&scalars);
                let known = known.map(|(&value, &scalar)| ((value, index.to_vec()), scalar));
                scope.memo.extend(known);
            }
        }
        let scalar = scalars.get(number).copied();
        scalar.ok_or_else(|| self.bug("the operation lacks a result"))
    }

    /// The scalars that a node computes at an index of its results.
    fn results(&mut self, id: NodeId, index: &[Term]) -> Result<Scalars, Error> {
        let program = self.program;
        let module = self.module;
        let node = &program.nodes[id];
        let Some(&result) = node.results.first() else {
            return Err(self.bug("the operation has no result"));
        };
        let element_type = self.element_type(result);
        let instruction = &module[node.origin];
        match &instruction.op {
            Op::Iota(dimension) => {
                let along = usize::try_from(*dimension).ok().and_then(|d| index.get(d));
                let Some(term) = along.cloned() else {
                    return Err(self.bug("the iota dimension is out of range"));
                };
                Ok(smallvec![self.compute(
                    element_type,
                    ScalarOp::Index(term),
                    &[]
                )])
            }
            Op::GetDimensionSize(dimension) => {
                let size = usize::try_from(*dimension).ok().and_then(|d| {
                    module
                        .operand_shape(node.origin, 0)?
                        .as_array()?
                        .dims
                        .get(d)
                });
                let Some(size) = size.map(Dim::term) else {
                    return Err(self.bug("the size function's number is out of range"));
                };
                let size = self.size(&size);
                Ok(smallvec![self.compute(
                    element_type,
                    ScalarOp::Index(size),
                    &[]
                )])
            }
            Op::Broadcast(_)
            | Op::Reshape
            | Op::Bitcast
            | Op::Transpose(_)
            | Op::Reverse(_)
            | Op::Slice(_)
            | Op::SetDimensionSize(_)
            | Op::DynamicSlice(_)
            | Op::Gather { .. } => {
                let read = self.read(id, 0, index, &[])?;
                Ok(smallvec![self.element(node.operands[0], &read.index)?])
            }
            Op::Concatenate(_) => Ok(smallvec![self.concatenate(id, index, 0)?]),
            Op::Pad(_) => self.pad(id, index),
            Op::Reduce { to_apply, .. } | Op::ReduceWindow { to_apply, .. } => {
                self.fold(id, index, *to_apply)
            }
            Op::Dot { .. } | Op::Convolution { .. } => Ok(smallvec![self.contract(id, index)?]),
            Op::Map { to_apply, .. } => {
                let operands = self.operands_at(id, index)?;
                self.apply(*to_apply, &operands)
            }
            _ => Ok(smallvec![self.elementwise(id, index)?]),
        }
    }

    /// The elements of all operands at one index; scalar operands have none.
    fn operands_at(&mut self, id: NodeId, index: &[Term]) -> Result<Scalars, Error> {
        let program = self.program;
        let mut scalars = Scalars::new();
        for &operand in &program.nodes[id].operands {
            let rank = program.values[operand].shape.rank();
            let at = if rank == 0 { &[] } else { index };
            scalars.push(self.element(operand, at)?);
        }
        Ok(scalars)
    }

    fn elementwise(&mut self, id: NodeId, index: &[Term]) -> Result<ScalarId, Error> {
        let program = self.program;
        let node = &program.nodes[id];
        let element_type = self.element_type(node.results[0]);
        let Some(op) = self.scalar_op(node.origin) else {
            return Err(Error::unsupported(
                self.module,
                node.origin,
                "this operation cannot be compiled yet",
            ));
        };
        let operands = self.operands_at(id, index)?;
        Ok(self.scalar(element_type, op, &operands))
    }

    /// An operation on scalars, expanded if kernels have no operation for it.
    pub(crate) fn scalar(
        &mut self,
        element_type: ElementType,
        op: ScalarOp,
        operands: &[ScalarId],
    ) -> ScalarId {
        match (&op, operands) {
            (ScalarOp::Clamp, &[low, x, high]) if element_type.is_complex() => {
                let raised = self.select_by_real(Direction::Ge, low, x);
                self.select_by_real(Direction::Le, raised, high)
            }
            (ScalarOp::BitcastConvert, &[x]) if self.kernel.scalars[x] == element_type => x,
            _ => self.compute(element_type, op, operands),
        }
    }

    /// Returns `a` if the real part of `a` compares in this way with that of `b`, else `b`.
    fn select_by_real(&mut self, direction: Direction, a: ScalarId, b: ScalarId) -> ScalarId {
        let ty = self.kernel.scalars[a];
        let part = ty.complex_part().unwrap_or(ty);
        let [re_a, re_b] = [a, b].map(|x| self.compute(part, ScalarOp::Unary(Unary::Real), &[x]));
        let compare = ScalarOp::Compare(direction, Order::Partial);
        let holds = self.compute(ElementType::Pred, compare, &[re_a, re_b]);
        self.compute(ty, ScalarOp::Select, &[holds, a, b])
    }

    /// The scalar form of an elementwise operation.
    pub(crate) fn scalar_op(&self, id: InstructionId) -> Option<ScalarOp> {
        let module = self.module;
        Some(match &module[id].op {
            Op::Unary(op) => ScalarOp::Unary(*op),
            Op::Binary(op) => ScalarOp::Binary(*op),
            Op::Compare { direction, order } => ScalarOp::Compare(*direction, *order),
            Op::Select => ScalarOp::Select,
            Op::Clamp => ScalarOp::Clamp,
            Op::Convert => ScalarOp::Convert,
            Op::BitcastConvert => {
                let from = module.operand_shape(id, 0)?.as_array()?.element_type;
                let to = module[id].shape.as_array()?.element_type;
                if from.bits() != to.bits() {
                    return None;
                }
                ScalarOp::BitcastConvert
            }
            Op::ReducePrecision {
                exponent_bits,
                mantissa_bits,
            } => ScalarOp::ReducePrecision {
                exponent_bits: *exponent_bits,
                mantissa_bits: *mantissa_bits,
            },
            _ => return None,
        })
    }
}
