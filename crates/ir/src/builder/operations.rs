//! Builder methods for the most common operations. All others are added by
//! [`ComputationBuilder::push`].

use super::ComputationBuilder;
use crate::{
    ArrayShape, Binary, ComputationId, Dim, Direction, DotDims, ElementType, Error, InstructionId,
    Literal, NativeType, Op, Order, PadDim, Shape, SliceDim, Unary,
};

impl ComputationBuilder<'_> {
    /// The shape of an instruction, which must be an array.
    pub fn array_shape(&self, id: InstructionId) -> Result<&ArrayShape, Error> {
        let shape = self.shape(id)?;
        let not_array = || Error::input(format!("expected an array, found {shape:#}"));
        shape.as_array().ok_or_else(not_array)
    }

    /// The shape of an array with the element type of `like`.
    fn array_like(
        &self,
        like: InstructionId,
        dims: impl IntoIterator<Item = Dim>,
    ) -> Result<Shape, Error> {
        Ok(Shape::Array(ArrayShape {
            element_type: self.array_shape(like)?.element_type,
            dims: dims.into_iter().collect(),
            layout: None,
        }))
    }

    /// `constant(...)`.
    pub fn constant(&mut self, literal: Literal) -> Result<InstructionId, Error> {
        self.push(Op::Constant([literal].into()), &[])
    }

    /// A scalar constant of a Rust number's type.
    pub fn scalar<T: NativeType>(&mut self, value: T) -> Result<InstructionId, Error> {
        self.constant(Literal::from_value(value))
    }

    /// `iota()` along a dimension.
    pub fn iota(
        &mut self,
        ty: ElementType,
        dims: &[i64],
        along: i64,
    ) -> Result<InstructionId, Error> {
        self.push_with_shape(Op::Iota(along), &[], Shape::array(ty, dims))
    }

    /// An elementwise operation of one operand.
    pub fn unary(&mut self, op: Unary, x: InstructionId) -> Result<InstructionId, Error> {
        self.push(Op::Unary(op), &[x])
    }

    /// An elementwise operation of two operands.
    pub fn binary(
        &mut self,
        op: Binary,
        a: InstructionId,
        b: InstructionId,
    ) -> Result<InstructionId, Error> {
        self.push(Op::Binary(op), &[a, b])
    }

    /// `compare(a, b)` in the default order of the element type.
    pub fn compare(
        &mut self,
        direction: Direction,
        a: InstructionId,
        b: InstructionId,
    ) -> Result<InstructionId, Error> {
        let order = Order::Partial;
        self.push(Op::Compare { direction, order }, &[a, b])
    }

    /// `select(predicate, on_true, on_false)`.
    pub fn select(
        &mut self,
        predicate: InstructionId,
        on_true: InstructionId,
        on_false: InstructionId,
    ) -> Result<InstructionId, Error> {
        self.push(Op::Select, &[predicate, on_true, on_false])
    }

    /// `convert(x)` to another element type.
    pub fn convert(&mut self, x: InstructionId, ty: ElementType) -> Result<InstructionId, Error> {
        let shape = Shape::Array(self.array_shape(x)?.with_element_type(ty));
        self.push_with_shape(Op::Convert, &[x], shape)
    }

    /// `broadcast(x)` to these sizes; dimension `i` of `x` becomes `mapping[i]`.
    pub fn broadcast(
        &mut self,
        x: InstructionId,
        sizes: &[i64],
        mapping: &[i64],
    ) -> Result<InstructionId, Error> {
        let shape = self.array_like(x, sizes.iter().map(|&size| Dim::Static(size)))?;
        self.push_with_shape(Op::Broadcast(mapping.into()), &[x], shape)
    }

    /// `reshape(x)` to these sizes.
    pub fn reshape(&mut self, x: InstructionId, sizes: &[i64]) -> Result<InstructionId, Error> {
        let shape = self.array_like(x, sizes.iter().map(|&size| Dim::Static(size)))?;
        self.push_with_shape(Op::Reshape, &[x], shape)
    }

    /// `transpose(x)`: dimension `i` of the result is `permutation[i]` of `x`.
    pub fn transpose(
        &mut self,
        x: InstructionId,
        permutation: &[i64],
    ) -> Result<InstructionId, Error> {
        self.push(Op::Transpose(permutation.into()), &[x])
    }

    /// `reverse(x)` along these dimensions.
    pub fn reverse(&mut self, x: InstructionId, dims: &[i64]) -> Result<InstructionId, Error> {
        self.push(Op::Reverse(dims.into()), &[x])
    }

    /// `slice(x)`.
    pub fn slice(&mut self, x: InstructionId, dims: &[SliceDim]) -> Result<InstructionId, Error> {
        self.push(Op::Slice(dims.into()), &[x])
    }

    /// `pad(x, value)`.
    pub fn pad(
        &mut self,
        x: InstructionId,
        value: InstructionId,
        dims: &[PadDim],
    ) -> Result<InstructionId, Error> {
        self.push(Op::Pad(dims.into()), &[x, value])
    }

    /// `concatenate(...)` along a dimension.
    pub fn concatenate(
        &mut self,
        operands: &[InstructionId],
        along: i64,
    ) -> Result<InstructionId, Error> {
        self.push(Op::Concatenate(along), operands)
    }

    /// `dynamic-slice(x, starts...)` of these sizes.
    pub fn dynamic_slice(
        &mut self,
        x: InstructionId,
        starts: &[InstructionId],
        sizes: &[i64],
    ) -> Result<InstructionId, Error> {
        let operands: Vec<InstructionId> = [x].iter().chain(starts).copied().collect();
        self.push(Op::DynamicSlice(sizes.into()), &operands)
    }

    /// `dynamic-update-slice(x, update, starts...)`.
    pub fn dynamic_update_slice(
        &mut self,
        x: InstructionId,
        update: InstructionId,
        starts: &[InstructionId],
    ) -> Result<InstructionId, Error> {
        let operands: Vec<InstructionId> = [x, update].iter().chain(starts).copied().collect();
        self.push(Op::DynamicUpdateSlice, &operands)
    }

    /// `dot(lhs, rhs)`, default precision.
    pub fn dot(
        &mut self,
        lhs: InstructionId,
        rhs: InstructionId,
        dims: DotDims,
    ) -> Result<InstructionId, Error> {
        let op = Op::Dot {
            dims,
            precision: Vec::new(),
            algorithm: None,
        };
        self.push(op, &[lhs, rhs])
    }

    /// `reduce(x, init)` over these dimensions.
    pub fn reduce(
        &mut self,
        x: InstructionId,
        init: InstructionId,
        dimensions: &[i64],
        to_apply: ComputationId,
    ) -> Result<InstructionId, Error> {
        let op = Op::Reduce {
            dimensions: dimensions.into(),
            to_apply,
        };
        self.push(op, &[x, init])
    }

    /// `tuple(...)`.
    pub fn tuple(&mut self, elements: &[InstructionId]) -> Result<InstructionId, Error> {
        self.push(Op::Tuple, elements)
    }

    /// `get-tuple-element(tuple)`.
    pub fn get_tuple_element(
        &mut self,
        tuple: InstructionId,
        index: i64,
    ) -> Result<InstructionId, Error> {
        self.push(Op::GetTupleElement(index), &[tuple])
    }

    /// `call(operands...)`.
    pub fn call(
        &mut self,
        to_apply: ComputationId,
        operands: &[InstructionId],
    ) -> Result<InstructionId, Error> {
        let op = Op::Call {
            to_apply,
            is_composite: false,
        };
        self.push(op, operands)
    }

    /// `while(init)`.
    pub fn while_loop(
        &mut self,
        condition: ComputationId,
        body: ComputationId,
        init: InstructionId,
    ) -> Result<InstructionId, Error> {
        self.push(Op::While { condition, body }, &[init])
    }

    /// `conditional(selector, operands...)`, one operand for each branch.
    pub fn conditional(
        &mut self,
        selector: InstructionId,
        branches: &[(ComputationId, InstructionId)],
    ) -> Result<InstructionId, Error> {
        let op = Op::Conditional {
            branches: branches.iter().map(|(branch, _)| *branch).collect(),
            predicated: false,
        };
        let arguments = branches.iter().map(|(_, argument)| *argument);
        let operands: Vec<InstructionId> = [selector].into_iter().chain(arguments).collect();
        self.push(op, &operands)
    }
}

impl super::ModuleBuilder {
    /// Adds a computation that applies a binary operation to two scalars, for use by reductions.
    pub fn reducer(&mut self, op: Binary, ty: ElementType) -> Result<ComputationId, Error> {
        let mut combine = self.computation(&format!("{}_{ty}", op.opcode()));
        let a = combine.parameter(Shape::array(ty, &[]));
        let b = combine.parameter(Shape::array(ty, &[]));
        let root = combine.binary(op, a, b)?;
        combine.finish(root)
    }
}
