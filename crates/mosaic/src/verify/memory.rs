//! Verification of operations on memory (loads, stores, views, copies, semaphores) and of control
//! flow's operands.

use super::{Checked, need};
use crate::ir::{CopyOperands, Op};
use crate::types::{Element, Item, MemRefType, MemorySpace, Type};

fn is_index(ty: &Type) -> bool {
    matches!(ty, Type::Scalar(Element::Index | Element::Int(32)))
}

fn data(ty: &Type) -> Option<(&MemRefType, Element)> {
    let memref = ty.as_memref()?;
    match memref.item {
        Item::Data(element) => Some((memref, element)),
        _ => None,
    }
}

fn is_semaphore(ty: &Type) -> bool {
    let memref = ty.as_memref();
    memref.is_some_and(|memref| !matches!(memref.item, Item::Data(_)))
}

pub(super) fn memory(op: &Op, operands: &[&Type], results: &[&Type]) -> Checked {
    match op {
        Op::Load { strides, masked } => {
            // A stride of 0 repeats the same elements.
            let good = strides.iter().all(|stride| *stride >= 0);
            need(good, "its strides must not be negative")?;
            access(operands, results.first().copied(), strides, *masked)
        }
        Op::Store {
            strides, masked, ..
        } => match operands.split_first() {
            Some((value, rest)) => {
                let good = strides.iter().all(|stride| *stride > 0);
                need(good, "its strides must be positive")?;
                access(rest, Some(value), strides, *masked)
            }
            None => Err("it has no value to store".to_owned()),
        },
        Op::LoadScalar => scalar_access(operands, results.first().copied()),
        Op::StoreScalar => match operands.split_first() {
            Some((value, rest)) => scalar_access(rest, Some(value)),
            None => Err("it has no value to store".to_owned()),
        },
        Op::MemRefSlice => {
            let (Some(from), Some(to)) = (
                operands.first().and_then(|ty| ty.as_memref()),
                results[0].as_memref(),
            ) else {
                return Err("it slices a value that is not a memory reference".to_owned());
            };
            let at_run_time = to.dims.iter().filter(|dim| dim.is_none()).count();
            need(
                operands.len() == 1 + from.dims.len() + at_run_time
                    && operands[1..].iter().all(|ty| is_index(ty))
                    && from.dims.len() == to.dims.len()
                    && from.item == to.item,
                "its indices or its result do not fit the memory",
            )
        }
        Op::MemRefSqueeze | Op::MemRefReshape | Op::MemRefBitcast | Op::MemRefCast => {
            let views = operands[0].as_memref().zip(results[0].as_memref());
            let Some((from, to)) = views else {
                return Err("it is a view of a value that is not a memory reference".to_owned());
            };
            view_fits(op, from, to)
        }
        Op::Alloc => {
            let memref = results[0].as_memref();
            let good = memref.is_some_and(|memref| memref.static_dims().is_some());
            need(good, "it allocates memory of unknown size")
        }
        Op::EnqueueDma(groups) | Op::WaitDma(groups, _) => copy_fits(groups, operands),
        Op::Signal { .. } => need(
            is_semaphore(operands[0]) && operands[1..].iter().all(|ty| is_index(ty)),
            "it signals a value that is not a semaphore, or by an amount that is not a number",
        ),
        Op::Wait => need(
            is_semaphore(operands[0]) && is_index(operands[1]),
            "it waits for a value that is not a semaphore, or for an amount that is not a number",
        ),
        Op::ReadSemaphore => need(
            is_semaphore(operands[0]),
            "it reads a value that is not a semaphore",
        ),
        Op::BarrierSemaphore => need(is_semaphore(results[0]), "its result must be a semaphore"),
        Op::DeviceId | Op::CoreId | Op::GridBound(_) => {
            need(is_index(results[0]), "its result is not a number")
        }
        Op::Print { .. } => {
            let scalars = operands.iter().all(|ty| ty.as_scalar().is_some());
            let array = |ty: &Type| data(ty).is_some_and(|(of, _)| of.static_dims().is_some());
            need(
                scalars || operands.len() == 1 && array(operands[0]),
                "it can only print scalars or one array",
            )
        }
        Op::If | Op::Condition | Op::Assert(_) => {
            let first = operands.first().and_then(|ty| ty.as_scalar());
            need(
                first == Some(Element::BOOL),
                "its condition is not a boolean",
            )
        }
        Op::For => {
            let bounds = operands.get(..3).unwrap_or_default();
            need(
                bounds.len() == 3 && bounds.iter().all(|ty| is_index(ty) && *ty == bounds[0]),
                "its bounds are not numbers",
            )
        }
        _ => Ok(()),
    }
}

/// Checks a load or store: a reference, its indices, a mask if there is one, and the vector.
fn access(operands: &[&Type], value: Option<&Type>, strides: &[i64], masked: bool) -> Checked {
    let Some(vector) = value.and_then(Type::as_vector) else {
        return Err("it loads or stores a value that is not a vector".to_owned());
    };
    let Some((memref, element)) = operands.first().and_then(|ty| data(ty)) else {
        return Err(
            "it reads or writes a value that is not a memory reference with numbers".to_owned(),
        );
    };
    let rank = memref.dims.len();
    let indices = operands.get(1..1 + rank).unwrap_or_default();
    need(
        operands.len() == 1 + rank + usize::from(masked)
            && indices.iter().all(|ty| is_index(ty))
            && element == vector.element
            && vector.dims.len() <= rank
            && (strides.is_empty() || strides.len() == rank),
        "its indices or its vector do not fit the memory",
    )?;
    if masked {
        let mask = operands[1 + rank];
        need(
            mask.dims() == vector.dims && mask.element() == Some(Element::BOOL),
            "its mask does not fit the vector",
        )?;
    }
    Ok(())
}

fn scalar_access(operands: &[&Type], value: Option<&Type>) -> Checked {
    let Some((memref, element)) = operands.first().and_then(|ty| data(ty)) else {
        return Err(
            "it reads or writes a value that is not a memory reference with numbers".to_owned(),
        );
    };
    need(
        operands.len() == 1 + memref.dims.len()
            && operands[1..].iter().all(|ty| is_index(ty))
            && value.and_then(Type::as_scalar) == Some(element),
        "its indices or its value do not fit the memory",
    )
}

fn view_fits(op: &Op, from: &MemRefType, to: &MemRefType) -> Checked {
    let bits = |memref: &MemRefType| match memref.item {
        Item::Data(element) => i64::from(element.bits()),
        _ => 1,
    };
    let count = |memref: &MemRefType| {
        let dims = memref.static_dims()?;
        dims.iter()
            .try_fold(bits(memref), |product, dim| product.checked_mul(*dim))
    };
    let (size, other) = (count(from), count(to));
    let good = match op {
        Op::MemRefSqueeze => {
            let long = |memref: &MemRefType| -> Vec<Option<i64>> {
                let dims = memref.dims.iter().copied();
                dims.filter(|dim| *dim != Some(1)).collect()
            };
            from.item == to.item && long(from) == long(to) && to.dims.len() <= from.dims.len()
        }
        Op::MemRefReshape => from.item == to.item,
        Op::MemRefCast => from.item == to.item && from.dims == to.dims,
        _ => from.dims.len() == to.dims.len(),
    };
    // Sizes that are known only at run time are compared above.
    let same_sizes = match op {
        Op::MemRefSqueeze | Op::MemRefCast => true,
        _ => size.is_some() && size == other,
    };
    need(
        good && same_sizes,
        "its result is not the same memory as its operand",
    )
}

fn copy_fits(groups: &CopyOperands, operands: &[&Type]) -> Checked {
    let mut next = operands.iter().copied();
    let source = next.next();
    let good = {
        let source_semaphore = !groups.source_semaphore || next.next().is_some_and(is_semaphore);
        let target = next.next();
        let target_semaphore = !groups.target_semaphore || next.next().is_some_and(is_semaphore);
        let ends = source.and_then(data).zip(target.and_then(data));
        source_semaphore
            && target_semaphore
            && ends.is_some_and(|((from, a), (to, b))| {
                a == b && from.dims == to.dims && from.space != MemorySpace::Semaphore
            })
            && next.all(is_index)
    };
    need(
        good,
        "the source and destination of the copy differ in type, or a semaphore operand is not a \
            semaphore",
    )
}
