//! Launches: checks, module variables, the blocks in order, and the report.

use super::block;
use super::context::{Context, Findings};
use super::host;
use super::options::{Launch, LaunchError, Options};
use super::traffic::Traffic;
use super::warp::Warp;
use crate::decode::{Fill, Kernel, Special};
use crate::history::History;
use crate::memory::Memory;
use crate::module::Module;
use crate::operation::{Collective, LANES, Op, Slot, Space};
use crate::race::{Clocks, LAST_CLOCK, WARPS};
use crate::region::Region;
use crate::report::{AccessStatistics, FindingKind, Report, Statistics};

/// The maximum number of threads of a block.
const MOST_THREADS: u64 = 1024;
/// The maximum shared memory of a block on an sm_90, in bytes.
const MOST_SHARED: u64 = 227 << 10;

/// Runs a kernel on `memory`.
///
/// An error in the program becomes a finding in the report; the launch continues without the
/// invalid access.
///
/// # Errors
/// The launch is refused, or was stopped at a limit.
pub fn launch(
    module: &Module,
    kernel: &str,
    memory: &mut Memory,
    launch: &Launch<'_>,
    options: &Options,
) -> Result<Report, LaunchError> {
    let kernel = module
        .kernel(kernel)
        .ok_or_else(|| LaunchError::NoKernel(kernel.to_owned()))?;
    check(kernel, launch)?;
    let variables = module.load(memory)?;
    if memory.clock >= LAST_CLOCK {
        memory.forget_accesses();
    }
    let shared_bytes = kernel.static_shared.next_multiple_of(kernel.dynamic_align)
        + u64::from(launch.dynamic_shared);
    let clock = memory.clock;
    let mut context = Context {
        kernel,
        files: module.files(),
        options,
        params: launch.params,
        memory,
        shared: Region::new(shared_bytes as usize).unwrap_or_default(),
        clocks: Clocks::new(clock),
        findings: Findings::default(),
        traffic: vec![Traffic::default(); kernel.code.len()],
        hints: vec![u32::MAX; kernel.code.len()],
        block: [0; 3],
        block_size: launch.block,
        grid: launch.grid,
        instructions: 0,
        lane_instructions: 0,
        barriers: 0,
        divergent: 0,
        vectors: host::vectors(),
        trapped: false,
        barrier_state: Vec::new(),
    };
    let outcome = blocks(&mut context, launch, &variables);
    context.memory.clock = context.clocks.end();
    outcome?;
    Ok(report(context))
}

fn check(kernel: &Kernel, launch: &Launch<'_>) -> Result<(), LaunchError> {
    let shape = |message: String| {
        Err(LaunchError::Shape {
            kernel: kernel.name.clone(),
            message,
        })
    };
    let threads: u64 = launch.block.iter().map(|n| u64::from(*n)).product();
    if threads == 0 || threads > MOST_THREADS || launch.block[2] > 64 {
        return shape(format!(
            "a block of {:?} threads is not possible: expected 1 to 1024, at most 64 in z",
            launch.block
        ));
    }
    let [x, y, z] = launch.grid;
    if x == 0 || y == 0 || z == 0 || x > i32::MAX as u32 || y > 65535 || z > 65535 {
        return shape(format!(
            "a grid of {:?} blocks is not possible: expected at most 2^31 - 1, 65535, 65535",
            launch.grid
        ));
    }
    if let Some((limit, exact)) = kernel.threads {
        let most: u64 = limit.iter().map(|n| u64::from(*n)).product();
        if threads > most || exact && launch.block != limit {
            return shape(format!(
                "the block has {threads} threads, but the kernel was compiled for {most}"
            ));
        }
    }
    let shared = kernel.static_shared.next_multiple_of(kernel.dynamic_align)
        + u64::from(launch.dynamic_shared);
    if shared > MOST_SHARED {
        return shape(format!(
            "the launch requests {shared} bytes of shared memory, but a block has {MOST_SHARED}"
        ));
    }
    let given = launch.params.len() as u64;
    if given < kernel.param_bytes {
        let expected = kernel.param_bytes;
        return Err(LaunchError::Parameters {
            kernel: kernel.name.clone(),
            expected,
            given,
        });
    }
    Ok(())
}

fn blocks(
    context: &mut Context<'_>,
    launch: &Launch<'_>,
    variables: &[u64],
) -> Result<(), LaunchError> {
    let threads: u32 = launch.block.iter().product();
    let mut warps: Vec<Warp> = (0..threads.div_ceil(32))
        .map(|i| new_warp(context.kernel, i))
        .collect();
    for warp in &mut warps {
        fill(warp, context, launch, variables, false);
    }
    for z in 0..launch.grid[2] {
        for y in 0..launch.grid[1] {
            for x in 0..launch.grid[0] {
                context.block = [x, y, z];
                if !context.clocks.next_block() {
                    context.memory.forget_accesses();
                    context.clocks = Clocks::new(1);
                    context.clocks.next_block();
                    context.shared.history = History::default();
                }
                context.shared.written.fill(0);
                for warp in &mut warps {
                    let threads = (threads - warp.index * 32).min(32);
                    warp.start(((1u64 << threads) - 1) as u32);
                    fill(warp, context, launch, variables, true);
                }
                block::run(&mut warps, context)?;
                if context.trapped {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

fn new_warp(kernel: &Kernel, index: u32) -> Warp {
    debug_assert!((index as usize) < WARPS);
    Warp {
        index,
        words: vec![[0; LANES]; kernel.words as usize],
        doubles: vec![[0; LANES]; kernel.doubles as usize],
        predicates: vec![0; kernel.predicates as usize],
        carry: 0,
        existing: 0,
        live: 0,
        fragments: Vec::new(),
        current: 0,
        local: vec![0; LANES * kernel.local as usize],
        pending: Vec::new(),
        groups: [0; LANES],
    }
}

/// Initialises slots: those that depend on the block each time, the others once.
fn fill(
    warp: &mut Warp,
    context: &Context<'_>,
    launch: &Launch<'_>,
    variables: &[u64],
    again: bool,
) {
    for (slot, what) in &context.kernel.fills {
        if again != matches!(what, Fill::Special(Special::Block(_))) {
            continue;
        }
        let values: [u64; LANES] = std::array::from_fn(|lane| match what {
            Fill::Bits(bits) => *bits,
            Fill::Special(special) => {
                self::special(*special, warp.index, lane as u32, context, launch)
            }
            Fill::Variable { index, offset } => variables
                .get(*index as usize)
                .copied()
                .unwrap_or(0)
                .wrapping_add_signed(*offset),
            Fill::Dynamic { offset } => dynamic(context.kernel).wrapping_add_signed(*offset),
        });
        match slot {
            Slot::W(r) => warp.words[r.0 as usize] = values.map(|v| v as u32),
            Slot::D(r) => warp.doubles[r.0 as usize] = values,
        }
    }
}

/// The offset of dynamic shared memory.
fn dynamic(kernel: &Kernel) -> u64 {
    kernel.static_shared.next_multiple_of(kernel.dynamic_align)
}

fn special(
    special: Special,
    warp: u32,
    lane: u32,
    context: &Context<'_>,
    launch: &Launch<'_>,
) -> u64 {
    let threads: u32 = launch.block.iter().product();
    let value = match special {
        Special::Thread(axis) => context.thread(warp * 32 + lane)[axis as usize],
        Special::BlockSize(axis) => launch.block[axis as usize],
        Special::Block(axis) => context.block[axis as usize],
        Special::GridSize(axis) => launch.grid[axis as usize],
        Special::Lane => lane,
        Special::Warp => warp,
        Special::Warps => threads.div_ceil(32),
        Special::Multiprocessor | Special::GridId => 0,
        Special::Multiprocessors => 1,
        Special::LaneMaskEq => 1 << lane,
        Special::LaneMaskLt => (1 << lane) - 1,
        Special::LaneMaskLe => u32::MAX >> (31 - lane),
        Special::LaneMaskGt => !(u32::MAX >> (31 - lane)),
        Special::LaneMaskGe => u32::MAX << lane,
        Special::DynamicShared => launch.dynamic_shared,
        Special::TotalShared => dynamic(context.kernel) as u32 + launch.dynamic_shared,
    };
    u64::from(value)
}

/// The state space and the direction of a memory instruction.
fn access_kind(op: &Op) -> Option<(Space, bool)> {
    match op {
        Op::Load(t) => Some((t.address.space, false)),
        Op::Store(t) => Some((t.address.space, true)),
        Op::Atomic(a) => Some((a.address.space, true)),
        Op::AsyncCopy(_) => Some((Space::Global, false)),
        Op::Collective {
            what: Collective::LoadMatrix { .. },
            ..
        } => Some((Space::Shared, false)),
        Op::Collective {
            what: Collective::StoreMatrix { .. },
            ..
        } => Some((Space::Shared, true)),
        _ => None,
    }
}

fn report(mut context: Context<'_>) -> Report {
    let mut accesses = Vec::new();
    let code = &context.kernel.code;
    for (pc, traffic) in context.traffic.clone().into_iter().enumerate() {
        let Some((space, writes)) = access_kind(&code[pc].op).filter(|_| traffic.requests > 0)
        else {
            continue;
        };
        let space = match space {
            Space::Local => "local",
            _ if traffic.wavefronts > 0 => "shared",
            _ => "global",
        };
        if context.options.statistics {
            slow(&mut context, pc as u32, &traffic);
        }
        accesses.push(AccessStatistics {
            location: context.location(pc as u32),
            space,
            writes,
            requests: traffic.requests,
            bytes: traffic.bytes,
            sectors: traffic.sectors,
            minimum_sectors: traffic.minimum_sectors,
            wavefronts: traffic.wavefronts,
            minimum_wavefronts: traffic.minimum_wavefronts,
        });
    }
    Report {
        findings: context.findings.list,
        statistics: Statistics {
            accesses,
            barriers: context.barriers,
            divergent_branches: context.divergent,
        },
        instructions: context.instructions,
        lane_instructions: context.lane_instructions,
    }
}

/// Reports accesses that transfer at least twice as much as necessary.
fn slow(context: &mut Context<'_>, pc: u32, traffic: &Traffic) {
    context.block = [0; 3];
    let t = *traffic;
    if t.wavefronts >= 2 * t.minimum_wavefronts && t.minimum_wavefronts > 0 {
        context.find(FindingKind::BankConflict, pc, None, Vec::new(), |_| {
            format!(
                "{:.1} wavefronts per request of shared memory where {:.1} would do: lanes hit different \
                 words of one bank. Pad the row of the array by one word, or permute the addresses",
                t.wavefronts as f64 / t.requests as f64,
                t.minimum_wavefronts as f64 / t.requests as f64
            )
        });
    }
    if t.sectors >= 2 * t.minimum_sectors && t.minimum_sectors > 0 {
        context.find(FindingKind::PartialSectors, pc, None, Vec::new(), |_| {
            format!(
                "{} sectors of 32 bytes for {} bytes, which fill {}: let neighbouring lanes access \
                 neighbouring addresses",
                t.sectors, t.bytes, t.minimum_sectors
            )
        });
    }
}
