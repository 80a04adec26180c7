//! Lowers a kernel to a computation in VMEM: arrays in HBM are staged as a whole, or in blocks that
//! correspond to the result's.

use super::blocks::{Blocks, Limits, OnBlock, is_product};
use super::room::begin;
use super::search::Cut;
use super::{LowerError, Lowering, whole};
use std::sync::Arc;
use tegula_expr::{Cmp, Term};
use tegula_ir::{ArrayShape, ComputationBuilder, InstructionId, Module, ModuleBuilder, Op, Shape};
use tegula_layout::assign::with_layout;
use tegula_sim_tpu::program::{
    Buffer, BufferId, Comparison, Compute, Grid, GridDimension, Operand, Role, SemaphoreId,
    SemaphoreRef, Slice, SliceEntry, Space, Statement, StatementKind, Variable, VariableId, Window,
};

use tegula_layout::physical::PhysicalLayout;

/// An array of a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Array {
    /// The buffer that holds it.
    pub buffer: BufferId,
    /// Whether it has to be copied to VMEM.
    pub staged: bool,
}

/// The same elements in the same order, with other sizes or another type.
fn seen_as(
    new: &mut ComputationBuilder<'_>,
    value: InstructionId,
    shape: Shape,
) -> Result<InstructionId, LowerError> {
    let to = shape.as_array();
    let to = to.ok_or_else(|| tegula_ir::Error::bug("the result of a view is not an array"))?;
    let from = new.array_shape(value)?;
    let mut value = value;
    if from.element_type != to.element_type {
        let converted = Shape::Array(from.with_element_type(to.element_type));
        value = new.push_named(Some("view"), Op::BitcastConvert, &[value], Some(converted))?;
    }
    Ok(new.push_named(Some("view"), Op::Reshape, &[value], Some(shape))?)
}

/// Consecutive kernels that libtpu's compiler would make one kernel with several results: their
/// results have the same size, they share an operand, and none reads another's result. They are
/// launched as one.
#[derive(Clone, Debug)]
pub(super) struct Siblings {
    /// The line of the last kernel.
    line: u32,
    sizes: Vec<i64>,
    reads: Vec<BufferId>,
    writes: Vec<BufferId>,
}

impl Siblings {
    /// A kernel on its own; one with a product is never joined with others.
    fn of(module: &Module, line: u32, reads: &[BufferId], writes: &[BufferId]) -> Option<Self> {
        let entry = module.entry_computation();
        let mut ops = entry.instructions.iter().map(|&id| &module[id].op);
        let sizes = module[entry.root].shape.as_array()?.static_dims()?.to_vec();
        (!ops.any(is_product)).then(|| Self {
            line,
            sizes,
            reads: reads.to_vec(),
            writes: writes.to_vec(),
        })
    }

    /// Whether a kernel belongs to them; if so, it is added.
    fn take(&mut self, other: &Self) -> bool {
        let meets = |a: &[BufferId], b: &[BufferId]| a.iter().any(|id| b.contains(id));
        let joins = other.line == self.line + 1
            && self.sizes == other.sizes
            && meets(&self.reads, &other.reads)
            && !meets(&self.writes, &other.reads)
            && !meets(&self.writes, &other.writes);
        if joins {
            self.line = other.line;
            self.reads.extend(&other.reads);
            self.writes.extend(&other.writes);
        }
        joins
    }
}

impl Lowering<'_> {
    /// Lowers a kernel of the program.
    pub(super) fn kernel(
        &mut self,
        region: usize,
        number: usize,
        reads: &[tegula_tpu_schedule::BufferId],
        writes: &[tegula_tpu_schedule::BufferId],
    ) -> Result<(), LowerError> {
        let kernel = &self.assignment.regions[region].kernels[number];
        let (module, values) =
            tegula_tpu_schedule::kernel_module(self.module, self.assignment, kernel)?;
        if values.len() != reads.len() {
            return Err(tegula_ir::Error::bug(format!(
                "a kernel's module has {} parameters, but the kernel reads {} arrays",
                values.len(),
                reads.len()
            ))
            .into());
        }
        let module = self.through_views(module, reads)?;
        let (reads, writes) = (self.held_by(reads)?, self.held_by(writes)?);
        let siblings = Siblings::of(&module, self.line, &reads, &writes);
        let joins = self.siblings.as_mut().zip(siblings.as_ref());
        let joined = joins.is_some_and(|(others, own)| others.take(own));
        if !joined {
            self.siblings = siblings;
        }
        let launched = self.launched;
        self.launched |= joined;
        self.compute(module, &reads, &writes)?;
        self.launched = launched;
        Ok(())
    }

    /// Lowers a copy to another layout.
    pub(super) fn relayout(
        &mut self,
        from: tegula_tpu_schedule::BufferId,
        to: tegula_tpu_schedule::BufferId,
    ) -> Result<(), LowerError> {
        let mut builder = ModuleBuilder::new("copy");
        let mut new = builder.computation("copy");
        let shape = self.shape(from);
        let operand = new.named_parameter("operand", shape.clone());
        let root = new.push_named(Some("copy"), Op::Copy, &[operand], Some(self.shape(to)))?;
        let entry = new.finish(root)?;
        let module = self.through_views(builder.build_unverified(entry), &[from])?;
        let (reads, writes) = (self.held_by(&[from])?, self.held_by(&[to])?);
        self.compute(module, &reads, &writes)
    }

    /// The operations of the view that a result is, if it is one.
    pub(super) fn view_module(
        &self,
        id: tegula_tpu_schedule::BufferId,
    ) -> Result<Option<Module>, LowerError> {
        if !self.views.contains_key(&id) {
            return Ok(None);
        }
        let mut builder = ModuleBuilder::new("view");
        let mut new = builder.computation("view");
        let base = self.schedule.base(id);
        let parameter = new.named_parameter("operand", self.shape(base));
        let root = self.show(&mut new, id, parameter)?;
        let entry = new.finish(root)?;
        Ok(Some(builder.build_unverified(entry)))
    }

    pub(super) fn shape(&self, id: tegula_tpu_schedule::BufferId) -> Shape {
        let buffer = &self.schedule.buffers[id];
        with_layout(
            &self.assignment.program.values[buffer.value].shape,
            &buffer.layout,
        )
    }

    /// Applies the chain of views that leads from a buffer's bytes to this buffer.
    fn show(
        &self,
        new: &mut ComputationBuilder<'_>,
        id: tegula_tpu_schedule::BufferId,
        base: InstructionId,
    ) -> Result<InstructionId, LowerError> {
        let mut chain = Vec::new();
        let mut at = id;
        while let Some(&(root, of)) = self.views.get(&at) {
            chain.push((root, at));
            at = of;
        }
        let mut shown = base;
        for &(root, view) in chain.iter().rev() {
            let origin = self.assignment.program.nodes[root].origin;
            let op = self.module[origin].op.clone();
            let shape = self.shape(view);
            shown = match op {
                // Remaining bitcasts keep the order of elements: they are reshapes, and the
                // assigned layouts do not apply to them.
                Op::Bitcast => seen_as(new, shown, shape)?,
                op => new.push_named(Some("view"), op, &[shown], Some(shape))?,
            };
        }
        Ok(shown)
    }

    /// Prepends the operands' views to a kernel's module, so that its parameters are the viewed
    /// arrays.
    fn through_views(
        &self,
        module: Module,
        reads: &[tegula_tpu_schedule::BufferId],
    ) -> Result<Module, LowerError> {
        if reads.iter().all(|id| !self.views.contains_key(id)) {
            return Ok(module);
        }
        let entry = module.entry_computation().clone();
        let instructions = entry.instructions.iter();
        let instructions: Vec<_> = instructions.map(|&id| (id, module[id].clone())).collect();
        let mut builder = ModuleBuilder::extend(module);
        let mut new = builder.computation("kernel");
        let mut made = rustc_hash::FxHashMap::default();
        let mut given = Vec::new();
        for &read in reads {
            let base = self.schedule.base(read);
            given.push(new.named_parameter("operand", self.shape(base)));
        }
        for ((parameter, &read), base) in entry.parameters.iter().zip(reads).zip(given) {
            made.insert(*parameter, self.show(&mut new, read, base)?);
        }
        for (id, instruction) in instructions {
            if made.contains_key(&id) {
                continue;
            }
            let operands = instruction.operands.iter();
            let operands: Vec<_> = operands.filter_map(|id| made.get(id).copied()).collect();
            let name = Some(&*instruction.name);
            let shape = instruction.shape.clone();
            let value = match (&instruction.op, operands.as_slice()) {
                (Op::Bitcast, &[operand]) => seen_as(&mut new, operand, shape)?,
                _ => new.push_named(name, instruction.op, &operands, Some(shape))?,
            };
            made.insert(id, value);
        }
        let root = made.get(&entry.root).copied();
        let root = root.ok_or_else(|| tegula_ir::Error::bug("a kernel has no root"))?;
        let entry = new.finish(root)?;
        Ok(builder.build_unverified(entry))
    }

    /// The buffers that hold the bytes of these.
    pub(super) fn held_by(
        &self,
        ids: &[tegula_tpu_schedule::BufferId],
    ) -> Result<Vec<BufferId>, LowerError> {
        let of = |&id: &tegula_tpu_schedule::BufferId| {
            let base = self.schedule.base(id);
            let buffer = self.buffers.get(&base).copied();
            buffer.ok_or_else(|| tegula_ir::Error::bug("an array has no buffer").into())
        };
        ids.iter().map(of).collect()
    }

    /// Computes on whole arrays, or over blocks of them.
    pub(super) fn compute(
        &mut self,
        module: Module,
        reads: &[BufferId],
        writes: &[BufferId],
    ) -> Result<(), LowerError> {
        let arrays = |buffers: &[BufferId]| -> Vec<Array> {
            let of = |&buffer: &BufferId| Array {
                buffer,
                staged: self.program.buffers[buffer].space != Space::Vmem,
            };
            buffers.iter().map(of).collect()
        };
        let (reads, destinations) = (arrays(reads), writes);
        let writes = arrays(writes);
        if self.gather_rows(&module, &reads, destinations)?
            || self.slice_in_place(&module, &reads, destinations)?
        {
            return Ok(());
        }
        // The scalar unit handles single elements.
        let is_array = |array: &Array| {
            let shape = &self.program.buffers[array.buffer].shape;
            shape.element_count().is_none_or(|count| count > 1)
        };
        if !self.launched && reads.iter().any(is_array) {
            self.push(StatementKind::Launch);
        }
        let mut staged: Vec<BufferId> = Vec::new();
        for array in reads.iter().chain(&writes).filter(|array| array.staged) {
            if !staged.contains(&array.buffer) {
                staged.push(array.buffer);
            }
        }
        let needed: i64 = staged
            .iter()
            .map(|&buffer| self.bytes(&self.program.buffers[buffer].shape))
            .sum();
        // A matrix product whose operands fit into VMEM is not divided into blocks: the published
        // times of such products are for undivided operands.
        let fits = needed <= self.scoped;
        let ops = module.entry_computation().instructions.iter();
        let is_product = ops.map(|&id| &module[id].op).any(is_product);
        let mut all = reads.iter().chain(&writes);
        let is_empty = all.any(|array| {
            let shape = &self.program.buffers[array.buffer].shape;
            shape.element_count() == Some(0)
        });
        if staged.is_empty() || (fits && (is_product || is_empty)) {
            self.whole_arrays(module, &reads, &writes);
            return Ok(());
        }
        let parameters = reads.iter().map(|array| array.staged);
        let results = writes.iter().map(|array| array.staged);
        let staged: Vec<bool> = parameters.chain(results).collect();
        let bytes = |shape: &ArrayShape| self.bytes(shape);
        let limits = Limits {
            bytes: self.scoped,
            speeds: &self.speeds,
        };
        let blocks = Blocks::of(&module, &staged, &limits, &bytes);
        match blocks {
            Ok(blocks) if !fits || blocks.counts.iter().any(|&count| count > 1) => {
                self.in_blocks(&blocks, &reads, &writes)
            }
            _ if fits => {
                self.whole_arrays(module, &reads, &writes);
                Ok(())
            }
            Ok(blocks) => self.in_blocks(&blocks, &reads, &writes),
            Err(needed) => Err(LowerError::Room {
                instruction: self.instructions.last().cloned().unwrap_or_default(),
                needed,
                limit: self.scoped,
            }),
        }
    }

    /// Launches a kernel that is lowered to several computations, which then launch none
    /// themselves. Returns whether it is a part of another kernel; the caller restores that
    /// afterwards.
    pub(super) fn launch(&mut self) -> bool {
        if !self.launched {
            self.push(StatementKind::Launch);
        }
        std::mem::replace(&mut self.launched, true)
    }

    pub(super) fn bytes(&self, shape: &ArrayShape) -> i64 {
        let bytes = PhysicalLayout::new(shape).map(|layout| layout.padded_bytes());
        bytes.map_or(i64::MAX / 8, begin)
    }

    /// A buffer in VMEM for the time while a kernel runs.
    fn vmem(&mut self, name: String, mut shape: ArrayShape) -> BufferId {
        if let Some(layout) = &mut shape.layout {
            layout.memory_space = tegula_tpu_schedule::VMEM;
        }
        self.program.buffers.push(Buffer {
            name,
            space: Space::Vmem,
            shape,
            role: Role::Scratch,
            offset: None,
            program_lifetime: false,
        })
    }

    /// A buffer for a block of an array.
    fn scratch(&mut self, of: BufferId, shape: ArrayShape) -> BufferId {
        let name = format!("{}_block", self.program.buffers[of].name);
        self.vmem(name, shape)
    }

    /// A new semaphore.
    pub(super) fn semaphore(&mut self, name: &str) -> SemaphoreRef {
        let array: SemaphoreId = self.semaphores(name, 1);
        SemaphoreRef {
            array,
            index: Term::constant(0),
        }
    }

    /// Copies whole arrays to VMEM, computes, and copies the results back.
    fn whole_arrays(&mut self, module: Module, reads: &[Array], writes: &[Array]) {
        let mut places: Vec<(BufferId, BufferId)> = Vec::new();
        for array in reads.iter().chain(writes) {
            if array.staged && places.iter().all(|(of, _)| *of != array.buffer) {
                let shape = self.program.buffers[array.buffer].shape.clone();
                let block = self.scratch(array.buffer, shape);
                self.push(StatementKind::Declare(block));
                places.push((array.buffer, block));
            }
        }
        let place = |array: &Array| {
            let found = places.iter().find(|(of, _)| *of == array.buffer);
            found.map_or(array.buffer, |(_, block)| *block)
        };
        let fetched: Vec<(BufferId, BufferId)> = places
            .iter()
            .copied()
            .filter(|(of, _)| reads.iter().any(|array| array.buffer == *of))
            .collect();
        let mut waits = Vec::new();
        for &(of, block) in &fetched {
            let semaphore = self.semaphore("fetch");
            self.start(of, block, semaphore.clone());
            waits.push(semaphore);
        }
        self.wait();
        for semaphore in waits {
            self.push(StatementKind::Wait {
                semaphore,
                bytes: None,
            });
        }
        let slice = |buffer: BufferId| whole(buffer, &self.program.buffers[buffer].shape);
        let compute = Compute {
            destinations: writes.iter().map(|array| slice(place(array))).collect(),
            accumulate: false,
            operands: reads
                .iter()
                .map(|array| Operand::Slice(slice(place(array))))
                .collect(),
            operation: Arc::new(module),
        };
        self.push(StatementKind::Compute(Box::new(compute)));
        let mut waits = Vec::new();
        for array in writes.iter().filter(|array| array.staged) {
            let semaphore = self.semaphore("store");
            self.start(place(array), array.buffer, semaphore.clone());
            waits.push(semaphore);
        }
        for semaphore in waits {
            self.push(StatementKind::Wait {
                semaphore,
                bytes: None,
            });
        }
        for (_, block) in places {
            self.push(StatementKind::Free(block));
        }
    }

    /// Starts a copy of a whole buffer.
    pub(super) fn start(&mut self, from: BufferId, to: BufferId, semaphore: SemaphoreRef) {
        let slice = |buffer: BufferId| whole(buffer, &self.program.buffers[buffer].shape);
        let (source, destination) = (slice(from), slice(to));
        self.push(StatementKind::Start {
            source,
            destination,
            semaphore,
            remote: None,
        });
    }

    /// A pipeline over the blocks of the result.
    fn in_blocks(
        &mut self,
        blocks: &Blocks,
        reads: &[Array],
        writes: &[Array],
    ) -> Result<(), LowerError> {
        let variables: Vec<Option<VariableId>> = blocks
            .counts
            .iter()
            .enumerate()
            .map(|(dim, &count)| {
                (count > 1).then(|| {
                    self.program.variables.push(Variable {
                        name: format!("i{dim}"),
                        range: None,
                    })
                })
            })
            .collect();
        let index = |cut: &Cut| match cut {
            Cut::Whole => Term::constant(0),
            Cut::Follows { dim, .. } => variables
                .get(*dim)
                .copied()
                .flatten()
                .map_or(Term::constant(0), |variable| Term::var(variable.var())),
        };
        let mut windows: Vec<Window> = Vec::new();
        let mut slices: Vec<Slice> = Vec::new();
        let arrays = reads.iter().chain(writes);
        self.wait();
        for (at, (array, cuts)) in arrays.zip(&blocks.cuts).enumerate() {
            let shape = self.program.buffers[array.buffer].shape.clone();
            if !array.staged {
                let entries = cuts.iter().map(|cut| match cut {
                    Cut::Whole => SliceEntry::Whole,
                    Cut::Follows { size, .. } => SliceEntry::Range {
                        start: index(cut).mul(&Term::constant(*size)),
                        size: *size,
                        clipped: false,
                    },
                });
                slices.push(Slice {
                    buffer: array.buffer,
                    entries: entries.collect(),
                });
                continue;
            }
            let mut block_shape = shape.clone();
            let mut sizes = Vec::new();
            for (dim, cut) in block_shape.dims.iter_mut().zip(cuts) {
                if let Cut::Follows { size, .. } = cut {
                    *dim = (*size).into();
                }
                sizes.push(dim.as_static().unwrap_or(1));
            }
            let block = self.scratch(array.buffer, block_shape.clone());
            let moves = cuts.iter().any(|cut| matches!(cut, Cut::Follows { .. }));
            windows.push(Window {
                steps: Vec::new(),
                transform: Vec::new(),
                block,
                array: array.buffer,
                sizes,
                indices: cuts.iter().map(index).collect(),
                buffers: if moves { blocks.copies } else { 1 },
                output: at >= reads.len(),
                line: self.line,
            });
            slices.push(whole(block, &block_shape));
        }
        let destinations = slices.split_off(reads.len());
        let depth = variables.get(blocks.cuts.last().map_or(0, Vec::len));
        let depth = depth.copied().flatten().map(|variable| {
            let count = blocks.counts.last().copied().unwrap_or(1);
            (Term::var(variable.var()), count)
        });
        let sums = match &blocks.work {
            OnBlock::Whole(_) => None,
            OnBlock::Sums(sums) => {
                let buffer = self.vmem("sums".to_owned(), sums.shape.clone());
                self.push(StatementKind::Declare(buffer));
                Some(buffer)
            }
        };
        let body = self.on_block(&blocks.work, &slices, destinations, (sums, depth));
        let dimensions = variables
            .iter()
            .zip(&blocks.counts)
            .filter_map(|(variable, &count)| {
                Some(GridDimension {
                    variable: (*variable)?,
                    low: Term::constant(0),
                    high: Term::constant(count),
                    parallel: false,
                })
            });
        let grid = Grid {
            dimensions: dimensions.collect(),
            windows,
            body,
        };
        self.push(StatementKind::Grid(Box::new(grid)));
        if let Some(sums) = sums {
            self.push(StatementKind::Free(sums));
        }
        Ok(())
    }

    /// The statements for one point of the grid. The last argument is the buffer of partial sums,
    /// and the block of a product's depth with their number.
    fn on_block(
        &self,
        work: &OnBlock,
        reads: &[Slice],
        destinations: Vec<Slice>,
        (sums, depth): (Option<BufferId>, Option<(Term, i64)>),
    ) -> Vec<Statement> {
        let line = self.line;
        let at = |kind: StatementKind| Statement { kind, line };
        let compute = |destinations, accumulate, module: &Module, operands| {
            let compute = Compute {
                destinations,
                accumulate,
                operation: Arc::new(module.clone()),
                operands,
            };
            at(StatementKind::Compute(Box::new(compute)))
        };
        let of = |numbers: &[usize]| -> Vec<Operand> {
            let slices = numbers.iter().filter_map(|&number| reads.get(number));
            slices.cloned().map(Operand::Slice).collect()
        };
        let (kept, buffer) = match (work, sums) {
            (OnBlock::Sums(kept), Some(buffer)) => (kept, buffer),
            (OnBlock::Sums(_), None) => return Vec::new(),
            (OnBlock::Whole(module), _) => {
                let all: Vec<usize> = (0..reads.len()).collect();
                return vec![compute(destinations, false, module, of(&all))];
            }
        };
        let sums = whole(buffer, &self.program.buffers[buffer].shape);
        let (block, count) = depth.unwrap_or((Term::constant(0), 1));
        let is = |value: i64| Comparison {
            left: block.clone(),
            cmp: Cmp::Eq,
            right: Term::constant(value),
        };
        let adds = |accumulate| {
            compute(
                vec![sums.clone()],
                accumulate,
                &kept.partial,
                of(&kept.partial_reads),
            )
        };
        let mut operands = vec![Operand::Slice(sums.clone())];
        operands.extend(of(&kept.last_reads));
        vec![
            at(StatementKind::If {
                condition: is(0),
                then: vec![adds(false)],
                otherwise: vec![adds(true)],
            }),
            at(StatementKind::If {
                condition: is(count - 1),
                then: vec![compute(destinations, false, &kept.last, operands)],
                otherwise: Vec::new(),
            }),
        ]
    }
}
