//! The state that the warps of a block share while they run, and the collection of findings.

use std::collections::HashMap;

use super::host::Vectors;
use super::options::Options;
use super::traffic::Traffic;
use crate::decode::Kernel;
use crate::memory::Memory;
use crate::race::{Access, Clocks};
use crate::region::Region;
use crate::report::{Finding, FindingKind, Location};

/// The maximum number of places whose findings are kept; findings at other places are only counted.
const MOST_FINDINGS: usize = 1000;

pub(crate) struct Context<'a> {
    pub(crate) kernel: &'a Kernel,
    /// Source files by number, for locations.
    pub(crate) files: &'a [(u32, String)],
    pub(crate) options: &'a Options,
    pub(crate) params: &'a [u8],
    pub(crate) memory: &'a mut Memory,
    pub(crate) shared: Region,
    pub(crate) clocks: Clocks,
    pub(crate) findings: Findings,
    /// The memory traffic of each instruction.
    pub(crate) traffic: Vec<Traffic>,
    /// The allocation that each instruction accessed last.
    pub(crate) hints: Vec<u32>,
    pub(crate) block: [u32; 3],
    pub(crate) block_size: [u32; 3],
    pub(crate) grid: [u32; 3],
    pub(crate) instructions: u64,
    pub(crate) lane_instructions: u64,
    pub(crate) barriers: u64,
    pub(crate) divergent: u64,
    /// The vector instructions of the host's processor.
    pub(crate) vectors: Vectors,
    /// Whether a `trap` or failed assertion has ended the launch.
    pub(crate) trapped: bool,
    pub(crate) barrier_state: Vec<BarrierState>,
}

/// The state of a barrier.
#[derive(Clone, Debug, Default)]
pub(crate) struct BarrierState {
    /// The number of threads that have arrived.
    pub(super) arrived: u32,
    /// The number of expected threads, if the instruction states it.
    pub(super) expected: Option<u32>,
    /// The masks of warps that have arrived, and of warps that wait.
    pub(super) warps: u32,
    pub(super) waiting: u32,
    /// The conjunction and disjunction of the predicates, for a barrier with a reduction.
    pub(super) all: bool,
    pub(super) any: bool,
    pub(super) count: u32,
    /// The instruction of the first arrival.
    pub(super) instruction: u32,
}

/// The findings, with one entry for each place.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) list: Vec<Finding>,
    index: HashMap<(FindingKind, u32, u32), usize>,
}

impl Context<'_> {
    pub(crate) fn location(&self, instruction: u32) -> Location {
        let place = self
            .kernel
            .places
            .get(instruction as usize)
            .copied()
            .unwrap_or_default();
        let source = place.source.map(|at| {
            let file = self.files.iter().find(|f| f.0 == at.file);
            (
                file.map_or_else(|| format!("file {}", at.file), |f| f.1.clone()),
                at.line,
            )
        });
        Location {
            line: place.line,
            source,
        }
    }

    /// The index of a thread within its block.
    pub(crate) fn thread(&self, linear: u32) -> [u32; 3] {
        let [x, y, _] = self.block_size;
        [linear % x, linear / x % y, linear / (x * y)]
    }

    /// The thread indices of some lanes of a warp.
    pub(crate) fn threads(&self, warp: u32, lanes: u32) -> Vec<[u32; 3]> {
        (0..32)
            .filter(|lane| lanes >> lane & 1 != 0)
            .map(|lane| self.thread(warp * 32 + lane))
            .collect()
    }

    /// Records a finding. The message is generated only for the first one at its place.
    #[cold]
    #[inline(never)]
    pub(crate) fn find(
        &mut self,
        kind: FindingKind,
        instruction: u32,
        other: Option<u32>,
        threads: Vec<[u32; 3]>,
        message: impl FnOnce(&Self) -> String,
    ) {
        let key = (kind, instruction, other.unwrap_or(u32::MAX));
        if let Some(&index) = self.findings.index.get(&key) {
            self.findings.list[index].occurrences += 1;
            return;
        }
        if self.findings.list.len() >= MOST_FINDINGS {
            return;
        }
        let finding = Finding {
            kind,
            location: self.location(instruction),
            other: other.map(|i| self.location(i)),
            block: self.block,
            threads,
            message: message(self),
            occurrences: 1,
        };
        self.findings.index.insert(key, self.findings.list.len());
        self.findings.list.push(finding);
    }

    /// Records a race between `now` and `earlier`.
    #[cold]
    #[inline(never)]
    pub(crate) fn race(
        &mut self,
        now: Access,
        earlier: Access,
        writes: bool,
        earlier_writes: bool,
        place: &str,
    ) {
        let (thread, other) = (self.thread(now.thread()), self.thread(earlier.thread()));
        let (at, from) = (now.instruction(), earlier.instruction());
        let verb = |writes: bool| if writes { "writes" } else { "reads" };
        let same_block = earlier.clock() >= self.clocks.block_start();
        self.find(FindingKind::Race, at, Some(from), vec![thread, other], |context| {
            let [x, y, z] = other;
            let (now, before) = (verb(writes), if earlier_writes { "wrote" } else { "read" });
            let line = context.location(from);
            if same_block {
                format!(
                    "{now} {place} that thread ({x}, {y}, {z}) {before} at {line} with no barrier in \
                     between: put __syncthreads() (or __syncwarp() within a warp) between them"
                )
            } else {
                let block = context.clocks.block_of(earlier).map_or([0; 3], |b| context.block_index(b));
                let [bx, by, bz] = block;
                format!(
                    "{now} {place} that thread ({x}, {y}, {z}) of block ({bx}, {by}, {bz}) {before} at \
                     {line} in the same launch: blocks have no order; use atomics, other addresses, or \
                     two launches"
                )
            }
        });
    }

    /// The index of the block with this number in the order of execution.
    pub(crate) fn block_index(&self, number: usize) -> [u32; 3] {
        let number = number as u64;
        let [x, y, _] = self.grid.map(u64::from);
        [
            (number % x) as u32,
            (number / x % y) as u32,
            (number / (x * y)) as u32,
        ]
    }
}
