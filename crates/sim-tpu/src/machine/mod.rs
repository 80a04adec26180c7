//! Executes a program's statements.
//!
//! The core is one thread, and every copy is a thread of its own. A copy is ordered before what
//! follows a wait for it, and before nothing else. So exactly the copies that were started and not
//! yet waited for ([`flights`]) are unordered with a statement, and comparing its accesses with
//! those copies finds every race and nothing else.
//!
//! With values, a copy moves its bytes when it starts, and [`tegula_interp`] evaluates a
//! computation except for the rounding of the matrix units ([`matrix`]). Without values, the same
//! checks run on boxes of indices alone.

mod access;
mod clock;
mod code;
mod compute;
mod copies;
mod cores;
mod flights;
pub(crate) mod life;
pub(crate) mod matrix;
mod order;
mod padding;
mod print;
mod regroup;
mod run;
pub(crate) mod scalar;
mod terms;
pub(crate) mod vector;
mod waits;

use crate::check::{Fixed, fixed_checks, geometries};
use crate::engine::{Engines, Work};
use crate::expand::expand;
use crate::finding::{Code, Findings, Told};
use crate::memory::geometry::Geometry;
use crate::memory::image::{Dense, Image};
use crate::memory::ledger::Ledger;
use crate::memory::region::{Region, Regions};
use crate::program::{BufferId, Space, Statement, StatementKind, TpuProgram, find_statement};
use crate::report::{Error, Occupancy, Options, PrintedText, Report, SpaceUse};
use crate::speeds::Speeds;
use crate::text::print_statement;
use code::{Compiler, Job};
use flights::Flights;
use rustc_hash::{FxHashMap, FxHashSet};
use tegula_arena::EntityRef;
use tegula_ir::{ArrayShape, Literal};
use tegula_target::{Chip, Param};
use terms::Values;

/// The phase of a buffer's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    NotYet,
    Live,
    /// Freed by the statement of this line.
    Freed(u32),
}

/// The state of a buffer.
struct State {
    life: Life,
    /// The offset of its first byte in its memory.
    offset: i64,
    /// The elements that were written, padding included.
    written: Regions,
    /// The elements that are padding or computed from it.
    tainted: Regions,
    /// The elements filled with constants: they do not come from an array.
    neutral: Regions,
    /// The lines of the statements that write it, in order. A read of unwritten elements may have
    /// been intended to come after one of them.
    writers: Vec<u32>,
    /// The line that loaded unwritten memory whose content was then stored here.
    unwritten_from: Option<u32>,
    /// Time at which its life began, in seconds.
    since: f64,
}

/// A semaphore: the copies that signal it and were not waited for, and its count.
#[derive(Clone, Debug, Default)]
struct Semaphore {
    copies: std::collections::VecDeque<usize>,
    count: i64,
    /// The line that raised the count last.
    raised: u32,
    /// The part of the count that other cores raised: the amount, the sender's clock, and the time
    /// of arrival in seconds.
    signals: std::collections::VecDeque<(i64, clock::Clock, f64)>,
}

/// How execution continues after a statement.
enum Flow {
    Next,
    /// Nothing after it can run.
    Stop,
    /// The statement runs again once another core has brought what it waits for.
    Blocked,
    /// Other cores run before the next statement.
    Yield,
}

/// The statement that is being executed, which findings name.
#[derive(Clone, Copy)]
struct Here<'p> {
    line: u32,
    statement: &'p Statement,
}

struct Machine<'p> {
    program: &'p TpuProgram,
    options: &'p Options,
    geometry: &'p [Geometry],
    jobs: &'p [Job<'p>],
    blocks: &'p [vector::Block<'p>],
    /// Vectors in registers, by number.
    registers: Vec<Option<vector::value::Vector>>,
    random: vector::random::Random,
    /// By number of the computation: its work on each unit, and its prepared module.
    work: Vec<Work>,
    plans: Vec<Option<compute::Plan>>,
    functional: bool,
    /// The parameters' values, by number.
    inputs: &'p [Literal],
    /// The number of this core, and its state towards the other cores.
    core: i64,
    peer: cores::Peer<'p>,
    values: Values,
    states: Vec<State>,
    images: [Image; 4],
    ledgers: [Ledger; 4],
    /// Scoped VMEM in bytes: now, and at most so far.
    scoped: (i64, i64),
    /// The capacity of each memory, if known, and of scoped VMEM, in bytes.
    limits: [Option<i64>; 4],
    scoped_limit: Option<i64>,
    semaphores: Vec<Vec<Semaphore>>,
    flights: Flights<'p>,
    engines: Engines,
    findings: Findings,
    /// For each output window: the blocks written back so far, and the last one.
    visited: FxHashMap<BufferId, (FxHashSet<Vec<i64>>, Vec<i64>)>,
    /// The block of each output window, with the array that it is written back to.
    write_backs: FxHashMap<BufferId, BufferId>,
    occupancy: Vec<Occupancy>,
    steps: u64,
    /// The bytes that the host's memory limits leave for buffers.
    room: Option<u64>,
    copies: u64,
    copied_bytes: i64,
    printed: Vec<PrintedText>,
}

/// Runs a program on a chip; a program with a `parallel` dimension runs in two orders.
///
/// # Errors
/// The program contradicts itself, the inputs are not those it takes, it runs longer than
/// [`Options::step_limit`], or the chip lacks a number that the clock needs.
pub fn simulate(program: &TpuProgram, chip: &Chip, options: &Options) -> Result<Report, Error> {
    let reports = in_both_orders(program, chip, options, &[options.inputs.as_slice()])?;
    let report = reports.into_iter().next();
    report.ok_or_else(|| Error::Inputs("no core runs the program".to_owned()))
}

/// Runs a program on one core for each list of inputs. The cores copy to and signal each other by
/// number; [`Options::inputs`] is ignored. Returns a report for each core.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_cores(
    program: &TpuProgram,
    chip: &Chip,
    options: &Options,
    inputs: &[Vec<Literal>],
) -> Result<Vec<Report>, Error> {
    let inputs: Vec<&[Literal]> = inputs.iter().map(Vec::as_slice).collect();
    in_both_orders(program, chip, options, &inputs)
}

fn in_both_orders(
    program: &TpuProgram,
    chip: &Chip,
    options: &Options,
    inputs: &[&[Literal]],
) -> Result<Vec<Report>, Error> {
    let mut reports = in_order(program, chip, options, inputs)?;
    if !options.finds_races {
        for report in &mut reports {
            report.findings.retain(|finding| !finding.code.is_race());
        }
        return Ok(reports);
    }
    let raced = |report: &Report| report.count(Code::TwoWrites) > 0;
    if !reports.iter().any(raced)
        && let Some((other, grid)) = order::reversed(program)
    {
        let options = Options {
            record_timeline: false,
            ..options.clone()
        };
        let others = in_order(&other, chip, &options, inputs)?;
        for (report, other) in reports.iter_mut().zip(others) {
            order::compare(report, other, program, &grid);
            report.free_order = true;
        }
    }
    Ok(reports)
}

/// Runs a program in the order of its text, on one core for each list of inputs.
fn in_order(
    program: &TpuProgram,
    chip: &Chip,
    options: &Options,
    inputs: &[&[Literal]],
) -> Result<Vec<Report>, Error> {
    let mut findings = Findings::default();
    let Fixed {
        proofs,
        write_backs,
    } = fixed_checks(program, chip, &mut findings)?;
    // A Pallas kernel whose points have an order runs on one core of a device.
    let all_cores = !program.is_of_pallas() || order::is_free(program);
    let expanded = expand(program);
    let program = &*expanded;
    let geometry = geometries(program, chip)?;
    let speeds = Speeds::of_cores(chip, all_cores);
    let mut speeds = speeds.map_err(|error| Error::Inputs(error.to_string()))?;
    if !program.emulates {
        speeds.leave_out_compiled();
    }
    if inputs.len() == 1 {
        speeds.leave_out_links();
    }
    let mut compiler = Compiler {
        program,
        geometry: &geometry,
        speeds: &speeds,
        jobs: Vec::new(),
        blocks: Vec::new(),
    };
    let steps = compiler.steps(&program.body)?;
    let (jobs, blocks) = (compiler.jobs, compiler.blocks);
    let work = jobs
        .iter()
        .map(|job| crate::work::of(&job.compute.operation, &speeds));
    let work: Vec<Work> = work.collect();
    let mut machines = Vec::new();
    let count = inputs.len();
    for (core, inputs) in inputs.iter().enumerate() {
        let mut machine = Machine {
            program,
            options,
            geometry: &geometry,
            work: work.clone(),
            plans: jobs.iter().map(|_| None).collect(),
            jobs: &jobs,
            blocks: &blocks,
            registers: vec![None; program.registers.len()],
            random: vector::random::Random::default(),
            functional: options.functional,
            inputs,
            core: core as i64,
            peer: cores::Peer::new(count, program),
            values: vec![None; program.variables.len()],
            states: life::first_states(program),
            images: Default::default(),
            ledgers: life::ledgers(program, &geometry),
            scoped: (0, 0),
            limits: life::limits(chip),
            scoped_limit: life::scoped_limit(chip),
            semaphores: life::semaphores(program),
            flights: Flights::default(),
            engines: Engines::new(&speeds, options.record_timeline && core == 0),
            findings: findings.clone(),
            visited: FxHashMap::default(),
            write_backs: write_backs.clone(),
            occupancy: Vec::new(),
            steps: 0,
            room: tegula_limits::room(),
            copies: 0,
            copied_bytes: 0,
            printed: Vec::new(),
        };
        if machine.functional {
            machine.check_inputs()?;
            machine.check_room()?;
        }
        machines.push(machine);
    }
    cores::run(&mut machines, &steps)?;
    let reports = machines.into_iter().map(|machine| {
        let mut report = machine.report()?;
        report.chip = chip.name.clone();
        report.alignment = proofs.clone();
        Ok(report)
    });
    reports.collect()
}

impl<'p> Machine<'p> {
    fn name(&self, buffer: BufferId) -> String {
        self.program.buffers[buffer].name.clone()
    }

    /// The elements of a buffer as messages name them.
    fn elements(&self, buffer: BufferId, region: &Region) -> String {
        let region = region.without_dimensions(self.program.hidden_dimensions(buffer));
        format!("{}{region}", self.program.buffers[buffer].name)
    }

    /// Records a finding at a statement.
    fn find(
        &mut self,
        code: Code,
        here: Here<'p>,
        buffer: Option<BufferId>,
        tell: impl FnOnce() -> (String, String),
    ) {
        let program = self.program;
        self.findings.add(code, here.line, buffer, || {
            let (message, help) = tell();
            Told {
                message,
                help,
                instruction: print_statement(program, here.statement),
                buffer: buffer.map(|id| program.buffers[id].name.clone()),
            }
        });
    }

    /// The declaration of a buffer, as the place of a finding.
    fn declaration(&self, buffer: BufferId) -> Option<Here<'p>> {
        let mut declares =
            |s: &Statement| matches!(s.kind, StatementKind::Declare(id) if id == buffer);
        let statement = find_statement(&self.program.body, &mut declares)?;
        Some(Here {
            line: statement.line,
            statement,
        })
    }

    fn check_inputs(&self) -> Result<(), Error> {
        for buffer in self.program.buffers.values() {
            let Some(number) = buffer.role.parameter() else {
                continue;
            };
            let wanted = ArrayShape {
                layout: None,
                ..buffer.shape.clone()
            };
            let given = self.inputs.get(number);
            if given.is_none_or(|given| *given.shape() != wanted) {
                let given = given.map_or("nothing".to_owned(), |g| g.shape().to_string());
                let name = &buffer.name;
                return Err(Error::Inputs(format!(
                    "parameter {number}, `{name}`, is {wanted}; input {number} is {given}"
                )));
            }
        }
        Ok(())
    }

    /// Runs the checks at the end of the program.
    fn at_end(&mut self) {
        let program = self.program;
        let line = |number: u32| match number {
            0 => String::new(),
            n => format!(" (line {})", program.source_line(n)),
        };
        self.check_partly_waited();
        for flight in self.flights.all() {
            let here = Here {
                line: flight.line,
                statement: flight.statement,
            };
            let (name, semaphore) = (self.name(flight.destination), flight.semaphore);
            let array = &self.program.semaphores[semaphore.0].name;
            let help = format!("add `dma_wait {array}[{}]` before the end", semaphore.1);
            self.find(Code::NeverWaited, here, Some(flight.destination), || {
                let message = match flight.sends {
                    true => format!(
                        "the copy of `{name}` to another core is never waited for at its source: it may not have been read"
                    ),
                    false => format!(
                        "this copy into `{name}` is never waited for: it may not be done"
                    ),
                };
                (message, help)
            });
        }
        for (array, semaphores) in self.program.semaphores.keys().zip(self.semaphores.clone()) {
            for (index, semaphore) in semaphores.iter().enumerate() {
                if semaphore.count == 0 {
                    continue;
                }
                let name = &self.program.semaphores[array].name;
                let message = format!(
                    "`{name}[{index}]` is {} at the end, not 0: the last signal{} is not awaited",
                    semaphore.count,
                    line(semaphore.raised)
                );
                let count = semaphore.count;
                self.findings
                    .add(Code::SemaphoreLeft, semaphore.raised, None, || Told {
                        message,
                        help: format!(
                            "add `semaphore_wait {name}[{index}], {count}` before the end"
                        ),
                        instruction: format!("signal {name}[{index}]"),
                        buffer: None,
                    });
            }
        }
        let results = self.program.buffers.iter();
        let results = results.filter(|(_, buffer)| buffer.role.result().is_some());
        for (id, _) in results.collect::<Vec<_>>() {
            let whole = Region::whole(&self.geometry[id.index()].dims);
            let missing = self.states[id.index()].written.missing(&whole);
            if let (Some(missing), Some(here)) = (missing, self.declaration(id)) {
                self.not_written(id, &missing, here, true);
            }
        }
    }

    fn report(mut self) -> Result<Report, Error> {
        self.engines.finish();
        let seconds = self.engines.now();
        for id in self.program.buffers.keys() {
            if self.states[id.index()].life == Life::Live {
                self.record_end(id);
            }
        }
        let mut results = Vec::new();
        if self.functional {
            let mut ids: Vec<(usize, BufferId)> = self
                .program
                .buffers
                .iter()
                .filter_map(|(id, buffer)| Some((buffer.role.result()?, id)))
                .collect();
            ids.sort_unstable();
            for (_, id) in ids {
                results.push(self.whole_value(id)?);
            }
        }
        let padding = |g: &Geometry| (g.bytes - g.useful).max(0);
        let padding = self.geometry.iter().map(padding);
        let spaces = [Space::Hbm, Space::Vmem, Space::Smem, Space::Cmem];
        let findings = self.findings.into_list();
        Ok(Report {
            chip: String::new(),
            fits: !findings.iter().any(|f| f.code.is_capacity()),
            findings,
            seconds,
            results,
            functional: self.functional,
            hbm_bytes: self.ledgers[Space::Hbm as usize].peak,
            vmem_peak_bytes: self.ledgers[Space::Vmem as usize].peak,
            padding_bytes: padding.fold(0, i64::saturating_add),
            spaces: spaces
                .into_iter()
                .filter(|&space| self.ledgers[space as usize].peak > 0)
                .map(|space| SpaceUse {
                    space,
                    peak_bytes: self.ledgers[space as usize].peak,
                    extent_bytes: self.ledgers[space as usize].extent,
                    fragmented_bytes: self.ledgers[space as usize].fragmented,
                    capacity_bytes: self.limits[space as usize],
                })
                .collect(),
            scoped_vmem_peak_bytes: self.scoped.1,
            occupancy: self.occupancy,
            alignment: Default::default(),
            free_order: false,
            steps: self.steps,
            copies: self.copies,
            copied_bytes: self.copied_bytes,
            printed: self.printed,
            engines: self.engines,
        })
    }

    /// The values of all elements of a buffer.
    fn whole_value(&self, id: BufferId) -> Result<Literal, Error> {
        let geometry = &self.geometry[id.index()];
        let shape = ArrayShape::new(geometry.element_type, &geometry.dims);
        let wrong = |error: tegula_ir::LiteralError| Error::Inputs(error.to_string());
        let mut literal = Literal::zeros(&shape).map_err(wrong)?;
        let region = Region::whole(&geometry.dims);
        let dense = Dense::whole(&geometry.dims);
        let space = self.program.buffers[id].space as usize;
        let offset = self.states[id.index()].offset;
        let out = literal.bytes_mut();
        self.images[space].read(geometry, offset, &region, &dense, out);
        Ok(literal)
    }

    /// Counts steps, and stops a program that does not end.
    fn spend(&mut self, work: u64, line: u32) -> Result<(), Error> {
        tegula_limits::check().map_err(|reason| Error::Stopped { line, reason })?;
        self.steps = self.steps.saturating_add(work);
        // A program that does not fit the chip gets a hundredth of the step limit.
        let capacity = self.findings.first(Code::is_capacity);
        let limit = match capacity {
            Some(_) => self.options.step_limit / 100,
            None => self.options.step_limit,
        };
        if self.steps > limit {
            if let Some(finding) = capacity {
                return Err(Error::Limit {
                    line: finding.line,
                    message: format!(
                        "{}: {}; stopped after {limit} steps (`--steps` allows more)",
                        finding.code.name(),
                        finding.message
                    ),
                });
            }
            return Err(Error::Limit {
                line,
                message: format!(
                    "stopped after {} steps: the program runs longer than is simulated \
                     (`--steps` allows more)",
                    self.options.step_limit
                ),
            });
        }
        Ok(())
    }

    /// The bytes of host memory that all placed buffers take.
    fn host_memory(&self) -> i64 {
        self.ledgers
            .iter()
            .fold(0, |sum, ledger| sum.saturating_add(ledger.extent))
    }

    fn param(chip: &Chip, param: Param) -> Option<i64> {
        chip.value(param).map(|value| value as i64)
    }
}
