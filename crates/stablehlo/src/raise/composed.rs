//! Raises instructions that correspond to several operations in StableHLO, or to none.

use super::values::{element, leaf_types, tensor};
use super::{Raiser, Values, error};
use crate::Error;
use crate::mlir::{Attribute, Block, Elements, Type, ValueId};
use std::sync::Arc;
use tegula_ir::{ArrayShape, ElementType, Instruction, Op, Unary};

/// An array of rank 1.
struct Row {
    value: ValueId,
    ty: ElementType,
    count: i64,
}

impl Raiser<'_> {
    /// The values of an instruction without its own operation; [`None`] if it has one.
    pub(super) fn composed(
        &mut self,
        instruction: &Instruction,
        values: &Values,
        block: &mut Block,
    ) -> Result<Option<Vec<ValueId>>, Error> {
        let operand = |place: usize| -> Vec<ValueId> {
            let id = instruction.operands.get(place);
            id.and_then(|id| values.get(id))
                .cloned()
                .unwrap_or_default()
        };
        Ok(Some(match &instruction.op {
            // These are identities, because StableHLO does not describe memory.
            Op::Copy | Op::Domain(_) => operand(0),
            Op::AddDependency => operand(0),
            Op::Unary(Unary::Abs) if is_unsigned(instruction) => operand(0),
            // Asynchronous operations finish where they start.
            Op::CopyStart { .. }
            | Op::CopyDone
            | Op::AsyncUpdate
            | Op::AsyncDone
            | Op::CollectiveDone(_) => operand(0),
            Op::Fusion { calls, .. } | Op::AsyncStart { calls, .. } => {
                let count = instruction.operands.len();
                let arguments: Vec<_> = (0..count).map(operand).collect();
                self.body(*calls, &arguments, block)?
            }
            Op::Unary(Unary::Sign) if is_unsigned(instruction) => {
                self.unsigned_sign(instruction, &operand(0), block)?
            }
            Op::BitcastConvert if !self.has_complex(instruction) => return Ok(None),
            Op::Bitcast | Op::BitcastConvert => self.bitcast(instruction, &operand(0), block)?,
            _ => return Ok(None),
        }))
    }

    /// The sign of an unsigned number: the minimum of the number and 1.
    fn unsigned_sign(
        &mut self,
        instruction: &Instruction,
        operands: &[ValueId],
        block: &mut Block,
    ) -> Result<Vec<ValueId>, Error> {
        let types = leaf_types(&instruction.shape).map_err(|why| error(instruction, why))?;
        let mut one =
            vec![0_u8; instruction_element(instruction).map_or(1, ElementType::storage_bytes)];
        one[0] = 1;
        let value = Elements {
            ty: types[0].clone(),
            bytes: one.into(),
            splat: true,
        };
        let value = Attribute::Elements(Arc::new(value));
        let one = self.append("constant", &[], &types, vec![("value", value)], block);
        let operands: Vec<ValueId> = operands.iter().copied().chain([one]).collect();
        Ok(vec![self.append(
            "minimum",
            &operands,
            &types,
            Vec::new(),
            block,
        )])
    }

    /// Raises a bitcast: flattens the array, changes the element width, and reshapes to the new
    /// sizes.
    fn bitcast(
        &mut self,
        instruction: &Instruction,
        operands: &[ValueId],
        block: &mut Block,
    ) -> Result<Vec<ValueId>, Error> {
        let operand = instruction.operands.first();
        let from = operand.and_then(|id| self.source[*id].shape.as_array());
        let (Some(from), Some(to)) = (from, instruction.shape.as_array()) else {
            return Err(error(
                instruction,
                "a bitcast of a value that is not an array",
            ));
        };
        let dense = |array: &ArrayShape| {
            let layout = array.layout.as_deref();
            layout.is_none_or(|l| *l == tegula_ir::Layout::row_major(array.rank()))
        };
        let counts = (from.element_count(), to.element_count());
        let ((Some(count), Some(_)), true) = (counts, dense(from) && dense(to)) else {
            return Err(error(
                instruction,
                "a bitcast between layouts, or of sizes that are not known",
            ));
        };
        let mut row = Row {
            value: self.reshaped(operands[0], from.element_type, &[count], block),
            ty: from.element_type,
            count,
        };
        if row.ty != to.element_type {
            self.split_into_numbers(&mut row, block);
            self.change_type(&mut row, to.element_type, block);
        }
        let types = [tensor(to)];
        let value = self.append("reshape", &[row.value], &types, Vec::new(), block);
        Ok(vec![value])
    }

    /// Splits complex numbers into consecutive parts, and converts truth values to bytes.
    fn split_into_numbers(&mut self, row: &mut Row, block: &mut Block) {
        if row.ty == ElementType::Pred {
            let types = [row_type(ElementType::U8, &[row.count])];
            row.value = self.append("convert", &[row.value], &types, Vec::new(), block);
            row.ty = ElementType::U8;
        }
        let Some(part) = row.ty.complex_part() else {
            return;
        };
        let mut parts = Vec::new();
        for name in ["real", "imag"] {
            let types = [row_type(part, &[row.count])];
            let value = self.append(name, &[row.value], &types, Vec::new(), block);
            parts.push(self.reshaped(value, part, &[row.count, 1], block));
        }
        let types = [row_type(part, &[row.count, 2])];
        let dimension = vec![("dimension", Attribute::i64(1))];
        let pairs = self.append("concatenate", &parts, &types, dimension, block);
        row.ty = part;
        row.count *= 2;
        row.value = self.reshaped(pairs, part, &[row.count], block);
    }

    /// Reinterprets elements as another type.
    fn change_type(&mut self, row: &mut Row, to: ElementType, block: &mut Block) {
        let wanted = match to {
            ElementType::Pred => ElementType::U8,
            other => other.complex_part().unwrap_or(other),
        };
        if wanted != row.ty {
            let (old, new) = (i64::from(row.ty.bits()), i64::from(wanted.bits()));
            if old < new {
                row.count = row.count * old / new;
                row.value = self.reshaped(row.value, row.ty, &[row.count, new / old], block);
            }
            let types = match old > new {
                true => [row_type(wanted, &[row.count, old / new])],
                false => [row_type(wanted, &[row.count])],
            };
            row.value = self.append("bitcast_convert", &[row.value], &types, Vec::new(), block);
            row.ty = wanted;
            if old > new {
                row.count *= old / new;
                row.value = self.reshaped(row.value, wanted, &[row.count], block);
            }
        }
        if to == ElementType::Pred {
            let types = [row_type(to, &[row.count])];
            row.value = self.append("convert", &[row.value], &types, Vec::new(), block);
        }
        if to.complex_part().is_some() {
            row.count /= 2;
            let pairs = self.reshaped(row.value, wanted, &[row.count, 2], block);
            let mut parts = Vec::new();
            for part in 0..2 {
                let list = |values: [i64; 2]| Attribute::i64s(&values);
                let properties = vec![
                    ("start_indices", list([0, part])),
                    ("limit_indices", list([row.count, part + 1])),
                    ("strides", list([1, 1])),
                ];
                let types = [row_type(wanted, &[row.count, 1])];
                let value = self.append("slice", &[pairs], &types, properties, block);
                parts.push(self.reshaped(value, wanted, &[row.count], block));
            }
            let types = [row_type(to, &[row.count])];
            row.value = self.append("complex", &parts, &types, Vec::new(), block);
        }
        row.ty = to;
    }

    /// Whether an instruction has complex operands or results.
    fn has_complex(&self, instruction: &Instruction) -> bool {
        let operands = instruction.operands.iter();
        let shapes = operands.map(|id| &self.source[*id].shape);
        let mut arrays = shapes
            .chain([&instruction.shape])
            .filter_map(tegula_ir::Shape::as_array);
        arrays.any(|array| array.element_type.complex_part().is_some())
    }

    fn reshaped(
        &mut self,
        value: ValueId,
        ty: ElementType,
        dims: &[i64],
        block: &mut Block,
    ) -> ValueId {
        self.append(
            "reshape",
            &[value],
            &[row_type(ty, dims)],
            Vec::new(),
            block,
        )
    }

    /// Appends an operation with one result.
    fn append(
        &mut self,
        name: &str,
        operands: &[ValueId],
        types: &[Type],
        properties: Vec<(&'static str, Attribute)>,
        block: &mut Block,
    ) -> ValueId {
        let name = format!("stablehlo.{name}");
        let operation = self.maker.operation(&name, operands, types, properties);
        let result = operation.results[0];
        block.operations.push(operation);
        result
    }
}

fn row_type(ty: ElementType, dims: &[i64]) -> Type {
    let dims = dims.iter().map(|dim| Some(*dim)).collect();
    Type::tensor(dims, element(ty))
}

fn instruction_element(instruction: &Instruction) -> Option<ElementType> {
    instruction.shape.as_array().map(|array| array.element_type)
}

fn is_unsigned(instruction: &Instruction) -> bool {
    instruction_element(instruction).is_some_and(|ty| ty.is_integer() && !ty.is_signed())
}
