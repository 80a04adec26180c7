//! Lowers a scheduled program to a [`TpuProgram`].
//!
//! Every buffer of the [`Schedule`] becomes a buffer with an offset and a lifetime, every copy a
//! start and a wait, every kernel a computation. Kernels compute in VMEM. Arrays in HBM are copied
//! there as a whole if there is room, otherwise block by block (`blocks`). A kernel may use the
//! memory beyond the schedule's buffers, which is at least what the schedule reserves for it;
//! `room` proves that it uses no more. A view has no buffer: a kernel that reads it reads the
//! viewed array and begins with the view's operation.
//!
//! Constants become parameters after the program's own ([`Lowered::constants`]).

mod blocks;
mod control;
mod follow;
mod gather;
mod kernel;
mod room;
mod search;
mod slices;

use control::Open;
use rustc_hash::FxHashMap;
use tegula_expr::Term;
use tegula_fusion::{Def, ValueId};
use tegula_ir::{ArrayShape, Literal, Module};
use tegula_layout::assign::{Assignment, name_of};
use tegula_sim_tpu::program::{
    Buffer, BufferId, Role, SemaphoreId, SemaphoreRef, Semaphores, Slice, SliceEntry, Space,
    Statement, StatementKind, TpuProgram, Variable, VariableId,
};
use tegula_sim_tpu::scoped_limit;
use tegula_sim_tpu::speeds::{MissingParam, Speeds};
use tegula_target::{Chip, Param};
use tegula_tpu_schedule::{Schedule, Source, Step};

/// Why a program cannot be run on the simulated machine.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LowerError {
    /// A kind of instruction that the lowering does not support.
    #[error("`{instruction}`: {what} cannot be run on the simulated TPU yet")]
    Unsupported {
        /// The instruction.
        instruction: String,
        /// A description of the unsupported kind.
        what: &'static str,
    },
    /// A kernel whose arrays do not fit in VMEM and which cannot be divided into blocks.
    #[error(
        "`{instruction}` needs {needed} bytes of VMEM at once, but only {limit} are free for \
         a kernel, and it cannot be divided into blocks"
    )]
    Room {
        /// The kernel's instruction.
        instruction: String,
        /// The bytes that its smallest blocks need.
        needed: i64,
        /// The limit.
        limit: i64,
    },
    /// A kernel that was lowered to code which needs more memory than is reserved for it.
    #[error(
        "`{instruction}` needs {needed} bytes of VMEM besides the arrays kept there, but only \
         {limit} are reserved for it"
    )]
    Reserved {
        /// The kernel's instruction.
        instruction: String,
        /// The bytes that it holds at once.
        needed: i64,
        /// The bytes that are available to it.
        limit: i64,
    },
    /// A parameter of the chip that the choice of blocks needs is missing.
    #[error(transparent)]
    Chip(#[from] MissingParam),
    /// An instruction that cannot be built.
    #[error(transparent)]
    Module(#[from] tegula_ir::Error),
}

/// A program for the simulated machine, and the constants that it takes in addition to its
/// arguments.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The program.
    pub program: TpuProgram,
    /// The arguments after the program's own.
    pub constants: Vec<Literal>,
    /// For each flattened result, where it comes from.
    pub results: Vec<ResultOf>,
    /// For each line of the program (from 1), the instruction of the module.
    pub instructions: Vec<String>,
}

/// Where a result of the program comes from.
#[derive(Clone, Debug)]
pub enum ResultOf {
    /// Result number `.0` of the lowered program. If the result is a view of it, the module
    /// computes the view from its only parameter.
    Result(usize, Option<Module>),
    /// A parameter, by number (constants come after the program's own), with a view as above.
    Parameter(usize, Option<Module>),
}

/// Lowers a scheduled program.
///
/// # Errors
/// An instruction that the machine does not support, or a kernel that does not fit in VMEM.
pub fn lower(
    module: &Module,
    assignment: &Assignment,
    schedule: &Schedule,
    chip: &Chip,
) -> Result<Lowered, LowerError> {
    let scoped = scoped_limit(chip).unwrap_or(0).max(0);
    let vmem = chip.value(Param::VmemBytes).map(|bytes| bytes as i64);
    let scoped = vmem.map_or(scoped, |vmem| scoped.min(vmem));
    let vmem = vmem.unwrap_or(schedule.vmem_bytes);
    let lowering = Lowering {
        module,
        assignment,
        schedule,
        scoped,
        vmem,
        smem: chip.value(Param::SmemBytes).unwrap_or(0.0) as i64,
        speeds: Speeds::of(chip)?,
        program: TpuProgram {
            name: module.name.to_string(),
            emulates: true,
            ..TpuProgram::default()
        },
        buffers: FxHashMap::default(),
        constants: Vec::new(),
        open: Vec::new(),
        instructions: Vec::new(),
        views: FxHashMap::default(),
        line: 0,
        waits: Vec::new(),
        launched: false,
        siblings: None,
    };
    lowering.run()
}

struct Lowering<'a> {
    module: &'a Module,
    assignment: &'a Assignment,
    schedule: &'a Schedule,
    /// The bytes of VMEM that the kernel being lowered may use.
    scoped: i64,
    /// The size of VMEM in bytes.
    vmem: i64,
    /// The size of SMEM in bytes.
    smem: i64,
    speeds: Speeds,
    program: TpuProgram,
    buffers: FxHashMap<tegula_tpu_schedule::BufferId, BufferId>,
    constants: Vec<Literal>,
    /// The loops and conditionals that are being lowered, the innermost last.
    open: Vec<Open>,
    instructions: Vec<String>,
    /// For a buffer that is a view, the operation and the viewed buffer.
    views: FxHashMap<
        tegula_tpu_schedule::BufferId,
        (tegula_fusion::NodeId, tegula_tpu_schedule::BufferId),
    >,
    line: u32,
    /// Waits for copies whose data nothing has read yet.
    waits: Vec<Statement>,
    /// Whether the statements belong to a kernel that was launched already.
    launched: bool,
    /// The preceding kernels, if others may be launched with them.
    siblings: Option<kernel::Siblings>,
}

impl Lowering<'_> {
    fn run(mut self) -> Result<Lowered, LowerError> {
        let lives = self.schedule.lifetimes();
        let copies = self.semaphores("copies", self.schedule.transfers.len() as i64);
        self.declare_buffers();
        for (id, life) in lives.iter().enumerate() {
            if life.0 == 0 && self.schedule.buffers[id].source == Source::Given {
                self.declare(id);
            }
        }
        for (at, step) in self.schedule.steps.iter().enumerate() {
            self.note(step);
            for (id, life) in lives.iter().enumerate() {
                if life.0 == at && self.schedule.buffers[id].source != Source::Given {
                    self.declare(id);
                }
            }
            let ended = |(id, life): (usize, &(usize, usize))| {
                let is_given = self.schedule.buffers[id].source == Source::Given;
                (life.1 == at && !is_given).then_some(id)
            };
            let ended: Vec<tegula_tpu_schedule::BufferId> =
                lives.iter().enumerate().filter_map(ended).collect();
            if let Step::Part { control, .. } = step {
                // The predicate or selector is read where it was computed.
                self.part(*control, step, &ended)?;
                continue;
            }
            let limit = self.scoped;
            self.scoped = limit.min(self.vmem - self.held(&lives, at));
            self.step(step, copies)?;
            self.scoped = limit;
            for id in ended {
                self.free(id);
            }
        }
        self.wait();
        let results = self.results()?;
        room::place(
            &mut self.program,
            self.vmem,
            self.scoped,
            &self.instructions,
        )?;
        Ok(Lowered {
            program: self.program,
            constants: self.constants,
            results,
            instructions: self.instructions,
        })
    }

    /// The bytes of VMEM up to the end of the schedule's buffers that are live at a step.
    fn held(&self, lives: &[(usize, usize)], step: usize) -> i64 {
        let buffers = self.schedule.buffers.iter().zip(lives);
        let live = buffers.filter(|(_, life)| life.0 <= step && step <= life.1);
        let ends = live.filter_map(|(buffer, _)| Some(buffer.offset? + buffer.bytes));
        room::begin(ends.max().unwrap_or(0))
    }

    fn semaphores(&mut self, name: &str, count: i64) -> SemaphoreId {
        let name = name.to_owned();
        let count = count.max(1);
        self.program.semaphores.push(Semaphores { name, count })
    }

    /// Declares every buffer that has its own bytes.
    fn declare_buffers(&mut self) {
        let parameters = self.assignment.program.parameters.len();
        for (id, buffer) in self.schedule.buffers.iter().enumerate() {
            if matches!(buffer.source, Source::Bitcast(_) | Source::Same(_)) {
                continue;
            }
            let program = &self.assignment.program;
            let nameless = match program.values[buffer.value].def {
                Def::LoopState => "state",
                _ => "constant",
            };
            let name = name_of(self.module, program, buffer.value).unwrap_or(nameless);
            let name = name.to_owned();
            let role = match (&program.values[buffer.value].def, buffer.source) {
                (Def::Parameter(number), Source::Given) => Role::Parameter(*number),
                (Def::Constant(literal), Source::Given) => {
                    self.constants.push(literal.clone());
                    Role::Parameter(parameters + self.constants.len() - 1)
                }
                _ => Role::Scratch,
            };
            let space = if buffer.space() == tegula_tpu_schedule::VMEM {
                Space::Vmem
            } else {
                Space::Hbm
            };
            let mut shape = program.values[buffer.value].shape.clone();
            shape.layout = Some(Box::new(buffer.layout.clone()));
            let made = self.program.buffers.push(Buffer {
                name,
                space,
                shape,
                role,
                offset: buffer.offset,
                program_lifetime: space == Space::Vmem,
            });
            self.buffers.insert(id, made);
        }
        self.give_results();
    }

    /// Marks the buffers of the program's results as results.
    fn give_results(&mut self) {
        let mut number = 0;
        for &id in &self.schedule.results {
            let base = self.schedule.base(id);
            let Some(&buffer) = self.buffers.get(&base) else {
                continue;
            };
            let buffer = &mut self.program.buffers[buffer];
            if buffer.role == Role::Scratch {
                buffer.role = Role::Result(number);
                number += 1;
            }
        }
    }

    fn results(&self) -> Result<Vec<ResultOf>, LowerError> {
        let of = |&id: &tegula_tpu_schedule::BufferId| {
            let view = self.view_module(id)?;
            let base = self.schedule.base(id);
            let buffer = self.buffers.get(&base).map(|&id| &self.program.buffers[id]);
            match buffer.map(|buffer| buffer.role) {
                Some(Role::Result(number)) => Ok(ResultOf::Result(number, view)),
                Some(Role::Parameter(number)) => Ok(ResultOf::Parameter(number, view)),
                _ => Err(tegula_ir::Error::bug("a result has no buffer").into()),
            }
        };
        self.schedule.results.iter().map(of).collect()
    }

    /// Emits the pending waits.
    fn wait(&mut self) {
        self.program.body.append(&mut self.waits);
    }

    fn push(&mut self, kind: StatementKind) {
        let line = self.line;
        self.program.body.push(Statement { kind, line });
    }

    fn declare(&mut self, id: tegula_tpu_schedule::BufferId) {
        if let Some(&buffer) = self.buffers.get(&id) {
            self.push(StatementKind::Declare(buffer));
        }
    }

    fn free(&mut self, id: tegula_tpu_schedule::BufferId) {
        self.wait();
        if let Some(&buffer) = self.buffers.get(&id) {
            self.push(StatementKind::Free(buffer));
        }
    }

    /// Records which step the following statements belong to.
    fn note(&mut self, step: &Step) {
        let program = &self.assignment.program;
        let name = |value: ValueId| name_of(self.module, program, value).unwrap_or("constant");
        let control = |number: usize| {
            let node = self
                .schedule
                .controls
                .get(number)
                .map(|control| control.node);
            let origin = node.map(|node| program.nodes[node].origin);
            origin.map_or_else(String::new, |origin| self.module[origin].name.to_string())
        };
        let held = |id: &tegula_tpu_schedule::BufferId| name(self.schedule.buffers[*id].value);
        let text = match step {
            Step::Kernel { region, kernel, .. } => self.kernel_name(*region, *kernel),
            Step::Pass { to, .. } => format!("passing to {}", held(to)),
            Step::Part { control: of, .. } | Step::Leave(of) => control(*of),
            Step::Relayout { from, .. } => format!("copy of {}", held(from)),
            Step::Bitcast { to, .. } => format!("bitcast {}", held(to)),
            Step::CopyStart(copy) => {
                format!(
                    "copy-start of {}",
                    held(&self.schedule.transfers[*copy].from)
                )
            }
            Step::CopyDone(copy) => {
                format!(
                    "copy-done of {}",
                    held(&self.schedule.transfers[*copy].from)
                )
            }
        };
        self.instructions.push(text);
        self.line += 1;
    }

    /// A kernel's own array, live from here on.
    fn plain(&mut self, name: &str, space: Space, shape: ArrayShape) -> BufferId {
        let buffer = self.program.buffers.push(Buffer {
            name: name.to_owned(),
            space,
            shape,
            role: Role::Scratch,
            offset: None,
            program_lifetime: false,
        });
        self.push(StatementKind::Declare(buffer));
        buffer
    }

    /// A new scalar variable whose name begins with `name`.
    fn variable(&mut self, name: &str, range: Option<(i64, i64)>) -> VariableId {
        let name = format!("{name}{}", self.program.variables.len());
        self.program.variables.push(Variable { name, range })
    }

    fn kernel_name(&self, region: usize, kernel: usize) -> String {
        let kernel = &self.assignment.regions[region].kernels[kernel];
        let origin = self.assignment.program.nodes[kernel.root].origin;
        self.module[origin].name.to_string()
    }

    fn step(&mut self, step: &Step, copies: SemaphoreId) -> Result<(), LowerError> {
        match step {
            // Copies that a kernel starts itself come before the waits, so that its launch is
            // hidden behind both.
            Step::Kernel {
                region,
                kernel,
                reads,
                writes,
                ..
            } => self.kernel(*region, *kernel, reads, writes),
            Step::Pass { what, to, .. } => self.pass(*what, *to),
            Step::Leave(control) => self.leave(*control),
            Step::Part { .. } => Err(tegula_ir::Error::bug(
                "a part of a loop or conditional appears as a step",
            )
            .into()),
            Step::Relayout { from, to, .. } => self.relayout(*from, *to),
            Step::Bitcast { root, from, to } => {
                self.views.insert(*to, (*root, *from));
                Ok(())
            }
            Step::CopyStart(copy) => self.copy(*copy, copies, true),
            Step::CopyDone(copy) => self.copy(*copy, copies, false),
        }
    }

    /// Starts a copy between memories, or waits for it, slice by slice.
    fn copy(&mut self, number: usize, copies: SemaphoreId, start: bool) -> Result<(), LowerError> {
        if start {
            // It may copy data that another copy brings.
            self.wait();
        }
        let transfer = &self.schedule.transfers[number];
        let (Some(&from), Some(&to)) = (
            self.buffers.get(&self.schedule.base(transfer.from)),
            self.buffers.get(&self.schedule.base(transfer.to)),
        ) else {
            return Err(tegula_ir::Error::bug("a copy has no buffer").into());
        };
        let slices = transfer.slices.max(1);
        let semaphore = SemaphoreRef {
            array: copies,
            index: Term::constant(number as i64),
        };
        let layout = &self.schedule.buffers[transfer.from].layout;
        let major = layout.minor_to_major.last().map_or(0, |&dim| dim as usize);
        for slice in 0..slices {
            if !start {
                let kind = StatementKind::Wait {
                    semaphore: semaphore.clone(),
                    bytes: None,
                };
                let line = self.line;
                self.waits.push(Statement { kind, line });
                continue;
            }
            let part = |buffer: BufferId| {
                let mut whole = whole(buffer, &self.program.buffers[buffer].shape);
                let size = self.program.buffers[buffer].shape.static_dims();
                let size = size.and_then(|dims| dims.get(major).copied()).unwrap_or(1) / slices;
                if slices > 1
                    && let Some(entry) = whole.entries.get_mut(major)
                {
                    *entry = SliceEntry::Range {
                        start: Term::constant(slice * size),
                        size,
                        clipped: false,
                    };
                }
                whole
            };
            let (source, destination) = (part(from), part(to));
            self.push(StatementKind::Start {
                source,
                destination,
                semaphore: semaphore.clone(),
                remote: None,
            });
        }
        Ok(())
    }
}

/// A slice that covers a whole buffer.
fn whole(buffer: BufferId, shape: &ArrayShape) -> Slice {
    Slice {
        buffer,
        entries: vec![SliceEntry::Whole; shape.dims.len()],
    }
}
