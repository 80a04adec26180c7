//! Execution of straight-line vector code.
//!
//! The operations of a block run in order, on vectors of logical shape; its time is that of all
//! operations scheduled together. Elements that come from beyond an array's edge or from unwritten
//! memory carry a mark (`value`): kernels load such elements and then select others, so a mark is
//! an error only where it decides something or reaches an array outside the kernel.

pub(crate) mod elementwise;
mod memory;
mod packed;
mod product;
pub(crate) mod random;
mod shape;
pub(crate) mod value;
pub(crate) mod work;

use super::terms::{Cut, CutEntry, Index};
use super::{Here, Machine};
use crate::finding::Code;
use crate::program::{RegisterId, VectorResult};
use crate::report::Error;
use random::Random;
use smallvec::SmallVec;
use tegula_mosaic::ir::{Constant, Op};
use tegula_mosaic::types::Element;
use value::{Lanes, Vector};

/// A block of vector code prepared for execution.
pub(super) struct Block<'p> {
    pub(super) operations: Vec<Ready<'p>>,
    /// The work of the whole block on the chip's units.
    pub(super) work: crate::engine::Work,
    /// The elements that its operations process, a measure of the simulator's own work.
    pub(super) effort: u64,
}

/// A vector operation prepared for execution.
pub(super) struct Ready<'p> {
    pub(super) kind: Kind<'p>,
    pub(super) operands: SmallVec<[Operand; 3]>,
    pub(super) result: Option<VectorResult>,
    /// The type of the result; for a store, of the stored vector.
    pub(super) dims: Vec<i64>,
    pub(super) element: Element,
    pub(super) line: u32,
}

pub(super) enum Kind<'p> {
    Move,
    Load(Box<ViewCut>),
    Store(Box<ViewCut>, bool),
    Compute(&'p Op),
}

/// An operand with its type.
pub(super) enum Operand {
    Register(RegisterId, Vec<i64>, Element),
    Scalar(Index, Element),
}

impl Operand {
    fn dims(&self) -> &[i64] {
        match self {
            Self::Register(_, dims, _) => dims,
            Self::Scalar(..) => &[],
        }
    }

    fn element(&self) -> Element {
        match self {
            Self::Register(_, _, element) | Self::Scalar(_, element) => *element,
        }
    }
}

/// A view with its sizes: a slice, optionally reshaped, of which a part is taken.
pub(super) struct ViewCut {
    pub(super) cut: Cut,
    pub(super) reshaped: Vec<Reshaped>,
}

pub(super) struct Reshaped {
    pub(super) dims: Vec<i64>,
    pub(super) entries: Vec<CutEntry>,
    /// The distance between consecutive elements that are taken, by dimension.
    pub(super) strides: Vec<i64>,
}

impl<'p> Machine<'p> {
    /// Runs a block; its time is charged to the line of its statement.
    pub(super) fn vector(&mut self, number: usize, here: Here<'p>) -> Result<(), Error> {
        let blocks = self.blocks;
        let block = &blocks[number];
        if self.functional {
            self.spend(block.effort / 512, here.line)?;
        }
        for operation in &block.operations {
            let here = Here {
                line: operation.line,
                ..here
            };
            self.vector_operation(operation, here)?;
        }
        self.engines.compute(&block.work, here.line);
        Ok(())
    }

    fn vector_operation(&mut self, operation: &Ready<'p>, here: Here<'p>) -> Result<(), Error> {
        let result = match &operation.kind {
            Kind::Load(view) => self.load_vector(operation, view, here)?,
            Kind::Store(view, add) => {
                self.store_vector(operation, view, *add, here)?;
                return Ok(());
            }
            Kind::Move if self.functional => Some(self.operand(&operation.operands[0], here)?),
            Kind::Compute(Op::SeedRandom) => {
                self.seed_random(operation, here)?;
                return Ok(());
            }
            Kind::Compute(Op::RandomBits) => {
                let count = shape::count(&operation.dims);
                Some(Vector::ints(self.random.words(count)))
            }
            Kind::Compute(op) if self.functional => Some(self.compute_vector(op, operation, here)?),
            _ => None,
        };
        match operation.result {
            Some(VectorResult::Register(id)) => {
                use tegula_arena::EntityRef;
                if let Some(slot) = self.registers.get_mut(id.index()) {
                    *slot = result;
                }
            }
            Some(VectorResult::Variable(id)) => {
                use tegula_arena::EntityRef;
                let value = result.as_ref().map_or(Some(0), scalar_of);
                if let Some(marks) = result.as_ref().and_then(|vector| vector.marks.as_ref()) {
                    self.scalar_from_mark(marks[0], here);
                }
                self.values[id.index()] = value;
            }
            None => {}
        }
        Ok(())
    }

    /// Reports that a scalar was computed from a marked element.
    fn scalar_from_mark(&mut self, mark: u8, here: Here<'p>) {
        let (code, what, help) = match mark & value::UNWRITTEN != 0 {
            true => (
                Code::Uninitialised,
                "memory that was never written",
                "write it first",
            ),
            false => (
                Code::Padding,
                "a block beyond the edge of its array",
                "mask the elements beyond the array first",
            ),
        };
        self.find(code, here, None, || {
            (
                format!("a scalar is read from a vector whose elements come from {what}"),
                help.to_owned(),
            )
        });
    }

    /// The value of an operand.
    fn operand(&self, operand: &Operand, here: Here<'p>) -> Result<Vector, Error> {
        use tegula_arena::EntityRef;
        match operand {
            Operand::Register(id, ..) => {
                let value = self.registers.get(id.index()).cloned().flatten();
                value.ok_or_else(|| Error::Program {
                    line: here.line,
                    message: "a vector is used before it has a value".to_owned(),
                })
            }
            Operand::Scalar(index, element) => {
                let value = self.value(index, here)?;
                Ok(match element {
                    Element::Float(_) => Vector::floats(vec![f32::from_bits(value as u32)]),
                    _ => Vector::ints(vec![value as i32]),
                })
            }
        }
    }

    fn seed_random(&mut self, operation: &Ready<'p>, here: Here<'p>) -> Result<(), Error> {
        let mut seed: SmallVec<[i64; 4]> = SmallVec::new();
        for operand in &operation.operands {
            if let Operand::Scalar(index, _) = operand {
                seed.push(self.value(index, here)?);
            }
        }
        self.random = Random::seeded(&seed);
        Ok(())
    }

    fn compute_vector(
        &mut self,
        op: &Op,
        operation: &Ready<'p>,
        here: Here<'p>,
    ) -> Result<Vector, Error> {
        let mut operands: SmallVec<[Vector; 3]> = SmallVec::new();
        for operand in &operation.operands {
            operands.push(self.operand(operand, here)?);
        }
        let (mut made, mixed) = evaluate(op, operation, &operands, self.options.rounds_products)
            .map_err(|message| Error::Unsupported {
                line: here.line,
                message,
            })?;
        made.unwritten_from = unwritten_from(op, &operands, &made);
        if mixed {
            self.find(Code::Padding, here, None, || {
                (
                    "elements of an array are combined with others that are padding: the block reaches beyond the edge of its array".to_owned(),
                    "replace the elements beyond the array by the operation's neutral value first: `jnp.where` on a comparison of `broadcasted_iota`".to_owned(),
                )
            });
        }
        Ok(made)
    }
}

/// The line that loaded the unwritten elements of a result.
fn unwritten_from(op: &Op, operands: &[Vector], made: &Vector) -> Option<u32> {
    let marks = made.marks.as_ref()?;
    if let (Op::Select, [condition, a, b]) = (op, operands) {
        let at = marks.iter().position(|mark| mark & value::UNWRITTEN != 0)?;
        let chosen = condition.lanes.ints().ok().and_then(|lanes| match lanes {
            [one] => Some(*one),
            lanes => lanes.get(at).copied(),
        });
        let chosen = if chosen == Some(0) { b } else { a };
        return match chosen.is_unwritten(at) {
            true => chosen.unwritten_from,
            false => condition.unwritten_from,
        };
    }
    operands.iter().find_map(|operand| operand.unwritten_from)
}

/// The scalar in a vector of one element.
fn scalar_of(vector: &Vector) -> Option<i64> {
    match &*vector.lanes {
        Lanes::Float(values) => values.first().map(|v| i64::from(v.to_bits())),
        Lanes::Int(values) => values.first().map(|v| i64::from(*v)),
    }
}

/// The result of an operation, and whether it combined padding with other elements.
fn evaluate(
    op: &Op,
    operation: &Ready<'_>,
    operands: &[Vector],
    rounds_products: bool,
) -> Result<(Vector, bool), String> {
    use elementwise as each;
    let types = &operation.operands;
    let (dims, element) = (&operation.dims[..], operation.element);
    let total = shape::count(dims);
    let from = types.first().map_or(element, Operand::element);
    let from_dims = types.first().map(Operand::dims).unwrap_or_default();
    let made = match (op, operands) {
        (Op::Constant(Constant::Splat(bits)), _) => Vector::splat(element, *bits, total)?,
        (Op::Constant(Constant::Elements(bits)), _) => constant(element, bits)?,
        (Op::Unary(op), [x]) => each::unary(*op, element, x)?,
        (Op::Binary(op), [a, b]) => each::binary(*op, element, a, b)?,
        (Op::CompareInt(p), [a, b]) => each::compare_ints(*p, from, a, b)?,
        (Op::CompareFloat(p), [a, b]) => each::compare_floats(*p, a, b)?,
        (Op::Select, [c, a, b]) if c.lanes.len() == 1 && total != 1 => {
            let chosen = c.lanes.ints()?.first().is_some_and(|c| *c != 0);
            if chosen { a.clone() } else { b.clone() }
        }
        (Op::Select, [c, a, b]) => each::select(c, a, b)?,
        (Op::MultiplyAdd, [a, b, c]) => each::multiply_add(element, a, b, c)?,
        (Op::Cast(cast), [x]) => each::cast(*cast, from, element, x)?,
        (Op::StochasticConvert, [x, bits]) => each::stochastic(element, x, bits)?,
        (Op::Broadcast, [x]) => shape::broadcast(x, from_dims, dims),
        (Op::Reshape, [x]) => x.clone(),
        (Op::Iota(along), _) => shape::iota(element, dims, along),
        (Op::Reduce(kind, along), [x, accumulator]) => {
            return shape::reduce(*kind, element, x, from_dims, along, accumulator);
        }
        (Op::ReduceIndex(kind, axis), [x]) => {
            shape::reduce_index(*kind, x, from_dims, *axis as usize)?
        }
        (Op::Transpose(permutation), [x]) => shape::transpose(x, from_dims, permutation),
        (Op::Concatenate(dim), parts) => {
            let parts: Vec<(&Vector, &[i64])> = parts
                .iter()
                .zip(types)
                .map(|(p, t)| (p, t.dims()))
                .collect();
            shape::concatenate(&parts, *dim as usize)?
        }
        (Op::Slice(offsets, _, steps), [x]) => shape::slice(x, from_dims, dims, offsets, steps),
        (Op::Extract(position), [x]) => shape::extract(x, from_dims, dims, position),
        (Op::Rotate(dim, stride), [x, amount]) => {
            let amount = amount.lanes.ints()?.first().copied().unwrap_or(0);
            shape::rotate(x, dims, *dim as usize, amount.into(), *stride)?
        }
        (Op::Repeat(dim, times), [x]) => shape::repeat(x, from_dims, *dim as usize, *times)?,
        (Op::Gather(along), [x, indices]) => match along[..] {
            [dim] => shape::gather_along(x, from_dims, indices, dims, dim as usize)?,
            _ => return Err("a gather along several dimensions is not simulated".to_owned()),
        },
        (Op::PackElementwise(narrow), parts) => packed::pack(*narrow, from, parts)?,
        (Op::UnpackElementwise(narrow, index), [x]) => packed::unpack(*narrow, *index, element, x)?,
        (Op::BitcastVector, [x]) => shape::bitcast(x, (from, from_dims), (element, dims))?,
        (Op::Matmul(numbers, precision), [a, b, c]) => {
            let sides = [
                (a, from, from_dims),
                (b, types[1].element(), types[1].dims()),
            ];
            return product::matmul(numbers, *precision, sides, c, element, rounds_products);
        }
        _ => return Err(format!("{op:?} is not simulated")),
    };
    Ok((made, false))
}

fn constant(element: Element, bits: &[u64]) -> Result<Vector, String> {
    let mut floats = Vec::new();
    let mut ints = Vec::new();
    for bits in bits {
        match value::single(element, *bits)? {
            value::Single::Float(value) => floats.push(value),
            value::Single::Int(value) => ints.push(value),
        }
    }
    Ok(match element.is_float() {
        true => Vector::floats(floats),
        false => Vector::ints(ints),
    })
}
