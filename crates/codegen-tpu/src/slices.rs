//! Lowers a slice with a run-time start of an array that stays in HBM. The start goes to SMEM, and
//! only the tiles that contain the slice are copied.
//!
//! A copy consists of whole tiles. So as many tiles are copied as can hold the slice wherever it
//! begins: from the tile in which it begins or, near the end of the array, from that many tiles
//! before the end. The kernel then takes the slice from the copied tiles.

use super::gather::{
    as_it_lies, clamped_words, copy_cone, element, given, parameters_of, words_shape,
};
use super::kernel::Array;
use super::search::tile_of;
use super::{LowerError, Lowering, whole};
use rustc_hash::FxHashMap;
use tegula_expr::Term;
use tegula_ir::{
    ArrayShape, Binary, ComputationBuilder, ElementType, InstructionId, Module, ModuleBuilder, Op,
    Shape, SliceDim,
};
use tegula_sim_tpu::program::{BufferId, SliceEntry, Space, StatementKind, VariableId};

use tegula_target::TileRule;

/// A dimension along which a slice has a run-time start.
#[derive(Clone, Copy, Debug)]
struct Moving {
    dimension: usize,
    /// The operand that is the start.
    start: InstructionId,
    /// The numbers of elements of the array, of the slice, of a tile, and of what is copied.
    extent: i64,
    size: i64,
    tile: i64,
    copied: i64,
}

impl Moving {
    /// The last possible start of the slice.
    fn last(&self) -> i64 {
        self.extent - self.size
    }

    /// The last possible start of the copy.
    fn last_copied(&self) -> i64 {
        self.extent - self.copied
    }
}

/// A slice of an array in HBM.
struct Part {
    slice: InstructionId,
    parameter: usize,
    table: ArrayShape,
    moving: Vec<Moving>,
}

impl Part {
    /// The first such slice of a kernel; `shapes` are the arrays' shapes with their layouts in
    /// memory.
    fn of(module: &Module, reads: &[Array], shapes: &[&ArrayShape]) -> Option<Self> {
        let entry = module.entry_computation();
        let all = entry.instructions.iter();
        all.copied()
            .find_map(|id| Self::of_slice(module, reads, shapes, id))
    }

    fn of_slice(
        module: &Module,
        reads: &[Array],
        shapes: &[&ArrayShape],
        slice: InstructionId,
    ) -> Option<Self> {
        let instruction = &module[slice];
        let (Op::DynamicSlice(sizes), Some((&table, starts))) =
            (&instruction.op, instruction.operands.split_first())
        else {
            return None;
        };
        let entry = module.entry_computation();
        let parameter = entry.parameters.iter().position(|&id| id == table)?;
        let uses = |id: &&InstructionId| module[**id].operands.contains(&table);
        if !reads.get(parameter)?.staged || entry.instructions.iter().filter(uses).count() != 1 {
            return None;
        }
        let table = as_it_lies(module[table].shape.as_array()?, shapes.get(parameter)?)?;
        let extents = table.static_dims()?.to_vec();
        let mut moving = Vec::new();
        let each = extents.iter().zip(sizes.iter()).zip(starts).enumerate();
        for (dimension, ((&extent, &size), &start)) in each {
            if size == extent {
                continue;
            }
            let tile = tile_of(&table, dimension);
            let ty = module[start].shape.as_array()?.element_type;
            if extent % tile != 0 || !ty.is_integer() || i32::try_from(extent).is_err() {
                return None;
            }
            let copied = (size + 2 * tile - 2) / tile * tile;
            moving.push(Moving {
                dimension,
                start,
                extent,
                size,
                tile,
                copied: copied.min(extent),
            });
        }
        (!moving.is_empty()).then_some(Self {
            slice,
            parameter,
            table,
            moving,
        })
    }

    /// The shape of what is copied.
    fn block(&self) -> Option<ArrayShape> {
        let mut dims = self.table.static_dims()?.to_vec();
        for moving in &self.moving {
            *dims.get_mut(moving.dimension)? = moving.copied;
        }
        let order = &self.table.layout.as_ref()?.minor_to_major;
        let mut shape = ArrayShape::new(self.table.element_type, &dims);
        let mut layout = TileRule::Compact
            .layout_in_order(self.table.element_type.bits(), &dims, order)
            .ok()?;
        layout.memory_space = tegula_tpu_schedule::VMEM;
        shape.layout = Some(Box::new(layout));
        Some(shape)
    }

    /// The start of the slice along each dimension, as a vector of words.
    fn starts_module(&self, module: &Module, reads: &[usize]) -> Result<Module, LowerError> {
        let mut builder = ModuleBuilder::extend(module.clone());
        let mut new = builder.computation("starts");
        let mut made = FxHashMap::default();
        for &read in reads {
            given(&mut new, module, read, &mut made);
        }
        let mut words = Vec::new();
        for moving in &self.moving {
            let start = copy_cone(&mut new, module, moving.start, &mut made)?;
            let start = clamped_words(&mut new, start, moving.last())?;
            words.push(new.reshape(start, &[1])?);
        }
        let shape = Shape::Array(words_shape(self.moving.len() as i64));
        let root = new.push_named(Some("starts"), Op::Concatenate(0), &words, Some(shape))?;
        let entry = new.finish(root)?;
        Ok(builder.build_unverified(entry))
    }

    /// The rest of the kernel; the copied tiles and the words are its first parameters.
    fn rest_module(
        &self,
        module: &Module,
        block: &ArrayShape,
        reads: &[usize],
    ) -> Result<Module, LowerError> {
        let mut builder = ModuleBuilder::extend(module.clone());
        let mut new = builder.computation("sliced");
        let block = new.named_parameter("tiles", Shape::Array(block.clone()));
        let words = Shape::Array(words_shape(self.moving.len() as i64));
        let words = new.named_parameter("starts", words);
        let mut made = FxHashMap::default();
        for &read in reads {
            given(&mut new, module, read, &mut made);
        }
        let instruction = &module[self.slice];
        let mut operands = vec![block];
        let zero = new.scalar(0i32)?;
        operands.resize(instruction.operands.len(), zero);
        for (number, moving) in self.moving.iter().enumerate() {
            let start = within(&mut new, words, number as i64, moving)?;
            if let Some(operand) = operands.get_mut(1 + moving.dimension) {
                *operand = start;
            }
        }
        let (name, shape) = (Some(&*instruction.name), Some(instruction.shape.clone()));
        let sliced = new.push_named(name, instruction.op.clone(), &operands, shape)?;
        made.insert(self.slice, sliced);
        let root = module.entry_computation().root;
        let root = copy_cone(&mut new, module, root, &mut made)?;
        let entry = new.finish(root)?;
        Ok(builder.build_unverified(entry))
    }
}

/// The start of the slice relative to the copied tiles, along a dimension.
fn within(
    new: &mut ComputationBuilder<'_>,
    words: InstructionId,
    number: i64,
    moving: &Moving,
) -> Result<InstructionId, LowerError> {
    let one = SliceDim {
        start: number,
        limit: number + 1,
        stride: 1,
    };
    let word = new.slice(words, &[one])?;
    let word = new.reshape(word, &[])?;
    let number = |value: i64| i32::try_from(value).unwrap_or(i32::MAX);
    let tile = new.scalar(number(moving.tile))?;
    let last = new.scalar(number(moving.last_copied()))?;
    let tiles = new.binary(Binary::Divide, word, tile)?;
    let begin = new.binary(Binary::Multiply, tiles, tile)?;
    let begin = new.binary(Binary::Minimum, begin, last)?;
    Ok(new.binary(Binary::Subtract, word, begin)?)
}

impl Lowering<'_> {
    /// Lowers a kernel with a slice with run-time start of an array in HBM, if it is one and the
    /// slice is less than half of the array.
    pub(super) fn slice_in_place(
        &mut self,
        module: &Module,
        reads: &[Array],
        writes: &[BufferId],
    ) -> Result<bool, LowerError> {
        let Some(part) = Part::of(module, reads, &self.shapes_of(reads)) else {
            return Ok(false);
        };
        let Some(block) = part.block() else {
            return Ok(false);
        };
        let room = self.bytes(&block);
        if room > self.bytes(&part.table) / 2 || room > self.scoped / 2 {
            return Ok(false);
        }
        let launched = self.launch();
        let of = |numbers: &[usize]| -> Vec<BufferId> {
            numbers.iter().map(|&number| reads[number].buffer).collect()
        };
        let starts: Vec<InstructionId> = part.moving.iter().map(|moving| moving.start).collect();
        let first = parameters_of(module, &starts, None);
        let count = part.moving.len() as i64;
        let words = self.plain("starts", Space::Vmem, words_shape(count));
        let module_of_starts = part.starts_module(module, &first)?;
        self.compute(module_of_starts, &of(&first), &[words])?;
        let scalars = ArrayShape::new(ElementType::S32, &[count]);
        let scalars = self.plain("starts_smem", Space::Smem, scalars);
        self.copy_whole(words, scalars);
        let tiles = self.plain("tiles", Space::Vmem, block.clone());
        self.copy_part(&part, reads[part.parameter].buffer, scalars, tiles);
        let root = module.entry_computation().root;
        let second = parameters_of(module, &[root], Some(part.slice));
        let rest = part.rest_module(module, &block, &second)?;
        let mut operands = vec![tiles, words];
        operands.extend(of(&second));
        let scoped = self.scoped;
        self.scoped -= room;
        self.compute(rest, &operands, writes)?;
        self.scoped = scoped;
        for buffer in [tiles, scalars, words] {
            self.push(StatementKind::Free(buffer));
        }
        self.launched = launched;
        Ok(true)
    }

    /// Copies the tiles that contain the slice.
    fn copy_part(&mut self, part: &Part, table: BufferId, scalars: BufferId, tiles: BufferId) {
        let mut source = whole(table, &part.table);
        for (number, moving) in part.moving.iter().enumerate() {
            let variable: VariableId = self.variable("start", Some((0, moving.last())));
            let word = element(scalars, &Term::constant(number as i64));
            self.push(StatementKind::Load {
                variable,
                source: word,
            });
            self.push(StatementKind::Assume {
                variable,
                low: Term::constant(0),
                high: Term::constant(moving.last()),
            });
            let start = Term::var(variable.var());
            let begin = start.floor_div(&moving.tile.into()) * moving.tile;
            if let Some(entry) = source.entries.get_mut(moving.dimension) {
                *entry = SliceEntry::Range {
                    start: Term::min(&begin, &moving.last_copied().into()),
                    size: moving.copied,
                    clipped: false,
                };
            }
        }
        let semaphore = self.semaphore("slice");
        self.push(StatementKind::Start {
            source,
            destination: whole(tiles, &self.program.buffers[tiles].shape),
            semaphore: semaphore.clone(),
            remote: None,
        });
        self.push(StatementKind::Wait {
            semaphore,
            bytes: None,
        });
    }
}
