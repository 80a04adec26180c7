//! Writes copies between memories as instructions, as a whole or slice by slice.

use crate::{FLAGS, Schedule};
use tegula_fusion::Program;
use tegula_ir::{
    ComputationBuilder, ComputationId, ElementType, Error, InstructionId, Layout, ModuleBuilder,
    Op, Shape,
};
use tegula_layout::assign::with_layout;

/// A slice of a copy: the computation that extracts it, and its shape at the destination.
pub(super) struct Slice {
    computation: ComputationId,
    shape: Shape,
}

/// The shape of the flag that a copy in flight sets.
fn flag(element_type: ElementType) -> Shape {
    let layout = Layout {
        memory_space: FLAGS,
        ..Layout::default()
    };
    with_layout(&tegula_ir::ArrayShape::new(element_type, &[]), &layout)
}

/// Starts a copy between memories, as a whole or slice by slice.
pub(super) fn start(
    new: &mut ComputationBuilder<'_>,
    (from, before_program): (InstructionId, bool),
    (source, target): (Shape, Shape),
    slices: &[Slice],
) -> Result<Vec<InstructionId>, Error> {
    if slices.is_empty() {
        let tuple = Shape::Tuple(vec![target, source, flag(ElementType::U32)]);
        let op = Op::CopyStart {
            cross_program_prefetch_index: before_program.then_some(0),
        };
        return Ok(vec![new.push_named(
            Some("copy-start"),
            op,
            &[from],
            Some(tuple),
        )?]);
    }
    let begin = |slice: &Slice| {
        let operand = Shape::Tuple(vec![source.clone()]);
        let tuple = vec![operand, slice.shape.clone(), flag(ElementType::S32)];
        let op = Op::AsyncStart {
            calls: slice.computation,
            thread: None,
        };
        new.push_named(Some("slice-start"), op, &[from], Some(Shape::Tuple(tuple)))
    };
    slices.iter().map(begin).collect()
}

/// Waits for a copy. The slices are adjacent, so concatenating them moves nothing.
pub(super) fn done(
    new: &mut ComputationBuilder<'_>,
    begun: &[InstructionId],
    (shape, major): (Shape, u32),
    slices: &[Slice],
) -> Result<InstructionId, Error> {
    if let (&[whole], true) = (begun, slices.is_empty()) {
        return new.push_named(Some("copy-done"), Op::CopyDone, &[whole], Some(shape));
    }
    let mut parts = Vec::new();
    for (slice, &begun) in slices.iter().zip(begun) {
        let shape = Some(slice.shape.clone());
        parts.push(new.push_named(Some("slice-done"), Op::AsyncDone, &[begun], shape)?);
    }
    new.push_named(
        Some("sliced"),
        Op::Concatenate(major.into()),
        &parts,
        Some(shape),
    )
}

/// For each copy, its slices; none if it is made as a whole.
pub(super) fn slices(
    builder: &mut ModuleBuilder,
    program: &Program,
    schedule: &Schedule,
) -> Result<Vec<Vec<Slice>>, Error> {
    let mut all = Vec::new();
    for transfer in &schedule.transfers {
        let (from, to) = (
            &schedule.buffers[transfer.from],
            &schedule.buffers[transfer.to],
        );
        let array = &program.values[from.value].shape;
        let dims = array.static_dims().unwrap_or_default();
        let major = from
            .layout
            .minor_to_major
            .last()
            .map_or(0, |&dim| dim as usize);
        let size = dims.get(major).copied().unwrap_or(1) / transfer.slices.max(1);
        let mut slices = Vec::new();
        for number in 0..if transfer.slices > 1 {
            transfer.slices
        } else {
            0
        } {
            let taken = |(dim, &whole): (usize, &i64)| tegula_ir::SliceDim {
                start: if dim == major { number * size } else { 0 },
                limit: if dim == major {
                    (number + 1) * size
                } else {
                    whole
                },
                stride: 1,
            };
            let op = Op::Slice(dims.iter().enumerate().map(taken).collect());
            let mut part = array.clone();
            if let Some(dim) = part.dims.get_mut(major) {
                *dim = size.into();
            }
            let shape = with_layout(&part, &to.layout);
            let mut new = builder.computation("async_slice");
            let whole = new.named_parameter("param", with_layout(array, &from.layout));
            let root = new.push_named(Some("slice"), op, &[whole], Some(shape.clone()))?;
            let computation = new.finish(root)?;
            slices.push(Slice { computation, shape });
        }
        all.push(slices);
    }
    Ok(all)
}
