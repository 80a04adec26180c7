//! Lowers a gather of rows from an array that stays in HBM. The indices go to SMEM, and the rows
//! are copied to VMEM one by one; a batch of copies is in flight ahead of use.
//!
//! A copy consists of whole tiles, so the other rows of the tile come with each row, and the row is
//! selected in VMEM.

use super::kernel::Array;
use super::search::tile_of;
use super::{LowerError, Lowering, whole};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use tegula_expr::{Cmp, Term};
use tegula_ir::{
    ArrayShape, Binary, ComputationBuilder, ElementType, GatherDims, InstructionId, Module,
    ModuleBuilder, Op, Shape,
};
use tegula_sim_tpu::program::{
    BufferId, Comparison, Compute, Operand, SemaphoreRef, Semaphores, Slice, SliceEntry, Space,
    Statement, StatementKind, VariableId,
};

use tegula_target::TileRule;

/// The number of rows being copied while the same number is selected.
const BATCH: i64 = 32;
/// The most elements along a tile that may be copied for one row.
const MOST_ROWS_OF_A_TILE: i64 = 64;

/// A gather of rows.
struct Rows {
    /// The gather, and its array of indices.
    gather: InstructionId,
    indices: InstructionId,
    /// The parameter that it gathers from, and the dimension.
    parameter: usize,
    dimension: usize,
    dims: GatherDims,
    /// The number of gathered rows, and the number of rows of the table.
    count: i64,
    extent: i64,
    /// The number of rows of a tile.
    tile: i64,
    /// The shape of the table, and that of a row, which keeps the dimension.
    table: ArrayShape,
    row: Vec<i64>,
}

impl Rows {
    /// The gather of a kernel that has exactly one, of rows of a staged array. `shapes` are the
    /// arrays' shapes with their layouts in memory.
    fn of(module: &Module, reads: &[Array], shapes: &[&ArrayShape]) -> Option<Self> {
        let entry = module.entry_computation();
        let is_gather = |id: &&InstructionId| matches!(module[**id].op, Op::Gather { .. });
        let mut gathers = entry.instructions.iter().filter(is_gather);
        let (&gather, None) = (gathers.next()?, gathers.next()) else {
            return None;
        };
        let instruction = &module[gather];
        let (
            Op::Gather {
                dims, slice_sizes, ..
            },
            &[table, indices],
        ) = (&instruction.op, instruction.operands.as_slice())
        else {
            return None;
        };
        let parameter = entry.parameters.iter().position(|&id| id == table)?;
        let uses = |id: &&InstructionId| module[**id].operands.contains(&table);
        let only_use = entry.instructions.iter().filter(uses).count() == 1;
        let (&[dimension], &[collapsed]) =
            (&dims.start_index_map[..], &dims.collapsed_slice_dims[..])
        else {
            return None;
        };
        let table = as_it_lies(module[table].shape.as_array()?, shapes.get(parameter)?)?;
        let sizes = table.static_dims()?.to_vec();
        let dimension = usize::try_from(dimension).ok()?;
        let mut row = sizes.clone();
        *row.get_mut(dimension)? = 1;
        let given = module[indices].shape.as_array()?;
        let count = given.static_dims()?.iter().product();
        let tile = tile_of(&table, dimension);
        let whole_rows = slice_sizes.iter().eq(&row) && collapsed == dimension as i64;
        let fits = whole_rows
            && only_use
            && dims.operand_batching_dims.is_empty()
            && reads.get(parameter)?.staged
            && given.element_type.is_integer()
            && count > 0
            && tile <= MOST_ROWS_OF_A_TILE;
        fits.then(|| Self {
            gather,
            indices,
            parameter,
            dimension,
            dims: dims.clone(),
            count,
            extent: sizes[dimension],
            tile,
            table,
            row,
        })
    }

    /// The table's shape with other sizes, in its own order of dimensions, with a further dimension
    /// in front.
    fn like_table(&self, front: i64, sizes: &[i64]) -> Option<ArrayShape> {
        let mut all = vec![front];
        all.extend(sizes);
        let layout = self.table.layout.as_ref()?;
        let order = layout.minor_to_major.iter().map(|dim| dim + 1);
        let order: Vec<u32> = order.chain([0]).collect();
        let bits = self.table.element_type.bits();
        let mut shape = ArrayShape::new(self.table.element_type, &all);
        let mut layout = TileRule::Compact.layout_in_order(bits, &all, &order).ok()?;
        layout.memory_space = tegula_tpu_schedule::VMEM;
        shape.layout = Some(Box::new(layout));
        Some(shape)
    }

    /// The indices, clamped to existing rows, as a vector of words.
    fn indices_module(&self, module: &Module, reads: &[usize]) -> Result<Module, LowerError> {
        let mut builder = ModuleBuilder::extend(module.clone());
        let mut new = builder.computation("indices");
        let mut made = FxHashMap::default();
        for &read in reads {
            given(&mut new, module, read, &mut made);
        }
        let indices = copy_cone(&mut new, module, self.indices, &mut made)?;
        let clamped = clamped_words(&mut new, indices, self.extent - 1)?;
        let shape = Shape::Array(words_shape(self.count));
        let root = new.push_named(Some("rows"), Op::Reshape, &[clamped], Some(shape))?;
        let entry = new.finish(root)?;
        Ok(builder.build_unverified(entry))
    }

    /// Selects a row of the tile that contains it.
    fn row_module(&self, block: &ArrayShape) -> Result<Module, LowerError> {
        let mut builder = ModuleBuilder::new("row");
        let mut new = builder.computation("row");
        let block = new.named_parameter("tile", Shape::Array(block.clone()));
        let word = Shape::Array(ArrayShape::new(ElementType::S32, &[]));
        let index = new.named_parameter("index", word);
        let size = i32::try_from(self.tile).unwrap_or(i32::MAX);
        let size = new.scalar(size)?;
        let within = new.binary(Binary::Remainder, index, size)?;
        let zero = new.scalar(0i32)?;
        let mut starts = vec![zero; self.row.len()];
        starts[self.dimension] = within;
        let root = new.dynamic_slice(block, &starts, &self.row)?;
        let entry = new.finish(root)?;
        Ok(builder.build_unverified(entry))
    }

    /// The rest of the kernel; the gathered rows are its first parameter.
    fn rest_module(
        &self,
        module: &Module,
        rows: &ArrayShape,
        reads: &[usize],
    ) -> Result<Module, LowerError> {
        let entry = module.entry_computation();
        let mut builder = ModuleBuilder::extend(module.clone());
        let mut new = builder.computation("gathered");
        let rows = new.named_parameter("rows", Shape::Array(rows.clone()));
        let mut made = FxHashMap::default();
        for &read in reads {
            given(&mut new, module, read, &mut made);
        }
        // The batch dimensions of the indices, then the dimensions of a row except the gathered
        // one.
        let indices = module[self.indices].shape.as_array();
        let indices = indices
            .and_then(ArrayShape::static_dims)
            .unwrap_or_default();
        let result = module[self.gather].shape.as_array().map(ArrayShape::rank);
        let ranks = [self.row.len(), indices.len(), result.unwrap_or(0)];
        let roles = self.dims.roles(ranks);
        let roles = roles.ok_or_else(|| {
            tegula_ir::Error::bug("a gather's dimension numbers are inconsistent")
        })?;
        let mut sizes: Vec<i64> = roles.indices.iter().map(|&dim| indices[dim]).collect();
        let batch_count = sizes.len() as i64;
        let kept = self.row.iter().enumerate();
        sizes.extend(
            kept.filter(|&(dim, _)| dim != self.dimension)
                .map(|(_, &size)| size),
        );
        let reshaped = new.reshape(rows, &sizes)?;
        let (batch, offsets) = (0..batch_count, batch_count..sizes.len() as i64);
        let permutation = roles.place_in_result(batch.collect(), offsets.collect());
        let permutation = permutation.unwrap_or_default();
        let shape = Some(module[self.gather].shape.clone());
        let op = Op::Transpose(permutation.into_iter().collect());
        let gathered = new.push_named(Some("gathered"), op, &[reshaped], shape)?;
        made.insert(self.gather, gathered);
        let root = copy_cone(&mut new, module, entry.root, &mut made)?;
        let entry = new.finish(root)?;
        Ok(builder.build_unverified(entry))
    }
}

/// Converts indices to words between 0 and `last`. They are clamped in their own type if that has
/// values which are not words.
pub(super) fn clamped_words(
    new: &mut ComputationBuilder<'_>,
    indices: InstructionId,
    last: i64,
) -> Result<InstructionId, LowerError> {
    let last = i32::try_from(last).unwrap_or(i32::MAX);
    let own = new.array_shape(indices)?.element_type;
    let (low, high) = match own {
        ElementType::U32 => (new.scalar(0u32)?, new.scalar(last.unsigned_abs())?),
        ElementType::S64 => (new.scalar(0i64)?, new.scalar(i64::from(last))?),
        ElementType::U64 => (
            new.scalar(0u64)?,
            new.scalar(u64::from(last.unsigned_abs()))?,
        ),
        _ => {
            let words = new.convert(indices, ElementType::S32)?;
            let (low, high) = (new.scalar(0i32)?, new.scalar(last)?);
            return Ok(new.push(Op::Clamp, &[low, words, high])?);
        }
    };
    let clamped = new.push(Op::Clamp, &[low, indices, high])?;
    Ok(new.convert(clamped, ElementType::S32)?)
}

/// A table with its layout in HBM. The kernel may see the same bytes with another layout, whose
/// tiles differ. If it sees other dimensions, its positions do not apply to the table.
pub(super) fn as_it_lies(seen: &ArrayShape, lies: &ArrayShape) -> Option<ArrayShape> {
    (seen.dims == lies.dims).then(|| lies.clone())
}

/// The shape of a vector of words.
pub(super) fn words_shape(count: i64) -> ArrayShape {
    let mut shape = ArrayShape::new(ElementType::S32, &[count]);
    shape.layout = TileRule::Compact
        .layout_in_order(32, &[count], &[0])
        .ok()
        .map(Box::new);
    shape
}

/// Adds a parameter of the kernel as the next parameter of a computation.
pub(super) fn given(
    new: &mut ComputationBuilder<'_>,
    module: &Module,
    number: usize,
    made: &mut FxHashMap<InstructionId, InstructionId>,
) {
    let id = module.entry_computation().parameters[number];
    let parameter = new.named_parameter(&module[id].name, module[id].shape.clone());
    made.insert(id, parameter);
}

/// Copies everything that a value is computed from, except for what has been copied already.
pub(super) fn copy_cone(
    new: &mut ComputationBuilder<'_>,
    module: &Module,
    root: InstructionId,
    made: &mut FxHashMap<InstructionId, InstructionId>,
) -> Result<InstructionId, LowerError> {
    let wanted = cone(module, root, made);
    for &id in &module.entry_computation().instructions {
        if !wanted.contains(&id) || made.contains_key(&id) {
            continue;
        }
        let instruction = &module[id];
        let operands = instruction.operands.iter();
        let operands: Vec<_> = operands.filter_map(|id| made.get(id).copied()).collect();
        let (name, shape) = (Some(&*instruction.name), Some(instruction.shape.clone()));
        let copied = new.push_named(name, instruction.op.clone(), &operands, shape)?;
        made.insert(id, copied);
    }
    let root = made.get(&root).copied();
    root.ok_or_else(|| tegula_ir::Error::bug("a kernel has no root").into())
}

/// A slice with one element of a vector.
pub(super) fn element(buffer: BufferId, at: &Term) -> Slice {
    Slice {
        buffer,
        entries: vec![SliceEntry::Element(at.clone())],
    }
}

fn cone(
    module: &Module,
    root: InstructionId,
    made: &FxHashMap<InstructionId, InstructionId>,
) -> FxHashSet<InstructionId> {
    let mut found = FxHashSet::default();
    let mut work = vec![root];
    while let Some(id) = work.pop() {
        if !made.contains_key(&id) && found.insert(id) {
            work.extend(&module[id].operands);
        }
    }
    found
}

/// The parameters of a kernel that some of its values depend on, ignoring those needed only for
/// `without`.
pub(super) fn parameters_of(
    module: &Module,
    roots: &[InstructionId],
    without: Option<InstructionId>,
) -> Vec<usize> {
    let without = without.map(|id| (id, id)).into_iter().collect();
    let mut all = FxHashSet::default();
    for &root in roots {
        all.extend(cone(module, root, &without));
    }
    let parameters = module.entry_computation().parameters.iter().enumerate();
    let used = parameters.filter(|(_, id)| all.contains(id));
    used.map(|(number, _)| number).collect()
}

impl Lowering<'_> {
    /// The shapes of arrays with their layouts in memory.
    pub(super) fn shapes_of(&self, arrays: &[Array]) -> Vec<&ArrayShape> {
        let shape = |array: &Array| &self.program.buffers[array.buffer].shape;
        arrays.iter().map(shape).collect()
    }

    /// Lowers a kernel that gathers rows of an array in HBM, if it is one and copying its rows
    /// moves less than copying the array.
    pub(super) fn gather_rows(
        &mut self,
        module: &Module,
        reads: &[Array],
        writes: &[BufferId],
    ) -> Result<bool, LowerError> {
        let Some(rows) = Rows::of(module, reads, &self.shapes_of(reads)) else {
            return Ok(false);
        };
        let mut tile = rows.row.clone();
        tile[rows.dimension] = rows.tile.min(rows.extent);
        let (Some(tiles), Some(kept)) = (
            rows.like_table(2 * BATCH, &tile),
            rows.like_table(rows.count, &rows.row),
        ) else {
            return Ok(false);
        };
        let moved = self.bytes(&tiles) / (2 * BATCH) * rows.count;
        let room = self.bytes(&kept).saturating_add(self.bytes(&tiles));
        let words = 4 * rows.count;
        if moved >= self.bytes(&rows.table) || room > self.scoped / 2 || words > self.smem / 2 {
            return Ok(false);
        }
        let entry = module.entry_computation();
        let launched = self.launch();
        let of = |numbers: &[usize]| -> Vec<BufferId> {
            numbers.iter().map(|&number| reads[number].buffer).collect()
        };
        // The indices go to SMEM, where the scalar unit reads them.
        let first = parameters_of(module, &[rows.indices], None);
        let words = self.plain("indices", Space::Vmem, words_shape(rows.count));
        let indices = rows.indices_module(module, &first)?;
        self.compute(indices, &of(&first), &[words])?;
        let scalars = ArrayShape::new(ElementType::S32, &[rows.count]);
        let scalars = self.plain("indices_smem", Space::Smem, scalars);
        self.copy_whole(words, scalars);
        self.push(StatementKind::Free(words));
        let blocks = self.plain("tiles", Space::Vmem, tiles);
        let gathered = self.plain("rows", Space::Vmem, kept.clone());
        let table = reads[rows.parameter].buffer;
        self.copy_rows(&rows, table, scalars, blocks, gathered)?;
        let second = parameters_of(module, &[entry.root], Some(rows.gather));
        let rest = rows.rest_module(module, &kept, &second)?;
        let mut operands = vec![gathered];
        operands.extend(of(&second));
        let scoped = self.scoped;
        self.scoped -= room;
        self.compute(rest, &operands, writes)?;
        self.scoped = scoped;
        for buffer in [gathered, blocks, scalars] {
            self.push(StatementKind::Free(buffer));
        }
        self.launched = launched;
        Ok(true)
    }

    /// The loop over batches of rows.
    fn copy_rows(
        &mut self,
        rows: &Rows,
        table: BufferId,
        scalars: BufferId,
        blocks: BufferId,
        gathered: BufferId,
    ) -> Result<(), LowerError> {
        let array = self.program.semaphores.push(Semaphores {
            name: "row".to_owned(),
            count: 2 * BATCH,
        });
        let line = self.line;
        let at = |kind: StatementKind| Statement { kind, line };
        let within = |row: &Term, then: Vec<Statement>| {
            let kind = StatementKind::If {
                condition: Comparison {
                    left: row.clone(),
                    cmp: Cmp::Lt,
                    right: Term::constant(rows.count),
                },
                then,
                otherwise: Vec::new(),
            };
            at(kind)
        };
        let slot = |batch: &Term, row: i64| &(&batch.modulo(&2.into()) * BATCH) + row;
        let in_front = |buffer: BufferId, at: Term| {
            let mut entries = vec![SliceEntry::Element(at)];
            entries.extend(rows.row.iter().map(|_| SliceEntry::Whole));
            Slice { buffer, entries }
        };
        // The last tile may have fewer rows.
        let tile = rows.tile.min(rows.extent);
        let rest = rows.extent % tile;
        let block = |size: i64| {
            let mut shape = self.program.buffers[blocks].shape.clone();
            shape.dims.remove(0);
            shape.dims[rows.dimension] = size.into();
            shape.layout = None;
            shape
        };
        let pick = Arc::new(rows.row_module(&block(tile))?);
        let pick_last = Arc::new(rows.row_module(&block(rest.max(1)))?);
        let index = self.variable("index", Some((0, rows.extent - 1)));
        let starts: Vec<VariableId> = (0..BATCH)
            .map(|_| self.variable("r", Some((0, rows.extent - 1))))
            .collect();
        let fetch = |batch: &Term| -> Vec<Statement> {
            let one = |(&variable, own): (&VariableId, i64)| {
                let row = &(batch * BATCH) + own;
                let index = Term::var(variable.var());
                let mut source = whole(table, &rows.table);
                source.entries[rows.dimension] = SliceEntry::Range {
                    start: index.floor_div(&rows.tile.into()) * rows.tile,
                    size: tile,
                    clipped: rows.extent % tile != 0,
                };
                let slot = slot(batch, own);
                let start = StatementKind::Start {
                    source,
                    destination: in_front(blocks, slot.clone()),
                    semaphore: SemaphoreRef { array, index: slot },
                    remote: None,
                };
                let load = StatementKind::Load {
                    variable,
                    source: element(scalars, &row),
                };
                let assume = StatementKind::Assume {
                    variable,
                    low: Term::constant(0),
                    high: Term::constant(rows.extent - 1),
                };
                within(&row, vec![at(load), at(assume), at(start)])
            };
            starts.iter().zip(0..).map(one).collect()
        };
        let take = |batch: &Term| -> Vec<Statement> {
            let one = |own: i64| {
                let (row, slot) = (&(batch * BATCH) + own, slot(batch, own));
                let wait = StatementKind::Wait {
                    semaphore: SemaphoreRef {
                        array,
                        index: slot.clone(),
                    },
                    bytes: None,
                };
                let picked = |operation: &Arc<Module>, size: i64| {
                    let mut source = in_front(blocks, slot.clone());
                    if size < tile {
                        source.entries[1 + rows.dimension] = SliceEntry::Range {
                            start: Term::constant(0),
                            size,
                            clipped: false,
                        };
                    }
                    at(StatementKind::Compute(Box::new(Compute {
                        destinations: vec![in_front(gathered, row.clone())],
                        accumulate: false,
                        operation: operation.clone(),
                        operands: vec![
                            Operand::Slice(source),
                            Operand::Slice(element(scalars, &row)),
                        ],
                    })))
                };
                let mut statements = vec![at(wait)];
                if rest == 0 {
                    statements.push(picked(&pick, tile));
                } else {
                    let load = StatementKind::Load {
                        variable: index,
                        source: element(scalars, &row),
                    };
                    let choice = StatementKind::If {
                        condition: Comparison {
                            left: Term::var(index.var()),
                            cmp: Cmp::Lt,
                            right: Term::constant(rows.extent - rest),
                        },
                        then: vec![picked(&pick, tile)],
                        otherwise: vec![picked(&pick_last, rest)],
                    };
                    statements.extend([at(load), at(choice)]);
                }
                within(&row, statements)
            };
            (0..BATCH).map(one).collect()
        };
        let first = fetch(&Term::constant(0));
        let variable = self.variable("batch", None);
        let batch = Term::var(variable.var());
        let mut body = fetch(&(&batch + 1));
        body.extend(take(&batch));
        self.program.body.extend(first);
        self.push(StatementKind::For {
            variable,
            low: Term::constant(0),
            high: Term::constant((rows.count + BATCH - 1) / BATCH),
            body,
        });
        Ok(())
    }
}
